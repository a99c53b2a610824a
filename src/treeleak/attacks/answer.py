"""What an attack hands over, before it is written in the user's columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Literal

import numpy as np

from treeleak.attacks.membership_odds import RowOdds
from treeleak.attacks.samples import Samples
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.evidence import Contradiction
from treeleak.partition import Geometry
from treeleak.partition.value_index import ValueIndex, values_in


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of an answer, and how sure they are."""

    values: IntArray
    """Shape (n_rows, n_attributes + 1). Values, numbered as in :class:`ValueIndex`; the last is the
    class."""
    confidence: FloatArray
    """Shape (n_rows, n_attributes + 1). Probability of each value; 1 only where proved."""
    proved: BoolArray
    """Shape (n_rows,). Whether the row's cell is proved to hold it."""
    unique: bool
    """Whether the histogram over cells is proved to be the only one."""
    misfit: int
    """Sum over all equations of |A m - n|."""
    worlds: IntArray | None = None
    """Shape (n_worlds, n_rows, n_attributes + 1). Other datasets that these rows may be:
    atoms, numbered over all attributes. None where only confidences tell."""
    fixed: BoolArray | None = None
    """Shape (n_rows,). Whether every dataset that meets the counts has a row of these atoms."""
    within: FloatArray | None = None
    """Shape (n_rows, n_attributes + 1). How probable it is that a value lies where the leaves of
    its row leave it; None where these are as probable as the counts are met."""


_MOST_ROWS = 200_000


def most_worlds(n_rows: int) -> int:
    """Say how many other datasets are kept: two, or more if they have few rows in all."""
    return max(2, _MOST_ROWS // max(n_rows, 1))


ENUMERATED, NOT_NEEDED = "enumerated", "not needed"

Status = Literal["unique", "feasible", "likely", "infeasible", "unknown"]


def status_of(rows: Sequence[Rows]) -> Status:
    """What the rows of all systems amount to, together."""
    if any(r.misfit for r in rows):
        return "unknown"
    proved = all(r.unique and (r.confidence == 1).all() for r in rows)
    return "unique" if proved else "feasible"


@dataclass(frozen=True, eq=False)
class Answer:
    """The rows of all systems together, or a contradiction."""

    status: Status
    values: ValueIndex
    rows: tuple[Rows, ...] = ()
    contradiction: Contradiction | None = None
    numbers: dict[str, int] = field(default_factory=dict)
    """Sizes of the problem, for the record."""
    ordered: bool = False
    """Whether row k is row k of the training set."""
    samples: Samples | None = None
    """Datasets drawn from the posterior."""
    likeliest: IntArray | None = None
    """Shape (n_rows, n_attributes + 1). Atoms of the likeliest dataset, numbered over all
    attributes."""
    odds: RowOdds | None = None
    """What the evidence itself says of single rows, beside the samples."""
    expected_distance: float | None = None
    """Mean distance of the rows from the samples, per row and column, each matched with them."""
    cells: str = ENUMERATED
    """How the cells were found: "enumerated", "generated: ..." with the reason, or "not needed" for
    formulations with variables for each row."""


def nothing_open(geometry: Geometry, clash: Contradiction | None, *, whole: bool) -> Answer:
    """Answer without an attack: there is a contradiction, or no row of which a count speaks.

    ``whole``: no row is left at all.
    """
    values = values_in(geometry)
    if clash is not None:
        return Answer("infeasible", values, contradiction=clash)
    width = len(geometry.parts) + 1
    none = Rows(
        np.zeros((0, width), dtype=np.int64), np.ones((0, width)), np.zeros(0, bool), True, 0
    )
    return Answer("unique" if whole else "feasible", values, (none,), ordered=True)
