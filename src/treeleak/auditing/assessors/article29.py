"""Singling out, linkability and inference: the three risks that Article 29's party named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from treeleak.auditing.assessors.people import attribute_of, labels_of
from treeleak.auditing.record import Serialisable
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import BadInput
from treeleak.core.message import static_message
from treeleak.core.private import dataclass
from treeleak.metrics.baseline import random_rows
from treeleak.metrics.encoding import column_range
from treeleak.metrics.inference import (
    Rate,
    Risk,
    at_most,
    commonest,
    is_right,
    nearest_rows,
    nearest_values,
    single_out,
)
from treeleak.reconstruction import Reconstruction
from treeleak.release import Release
from treeleak.schema import Attribute, Binary, Categorical, OneHot

if TYPE_CHECKING:
    from collections.abc import Callable

    from treeleak.auditing.case import Case

    Known = Callable[[Sequence[Attribute], Sequence[pd.DataFrame], pd.DataFrame], list[FloatArray]]


MOST_LINKED = 10_000_000
"""Pairs of people and rebuilt rows that are compared to link two tables."""
FEWEST_PEOPLE = 500
"""People that are tried, however many rebuilt rows there are."""

GIVEN = (
    "Not assessed: parts of the rows were given, and an adversary who has them need not link them."
)
ONE_COLUMN = "Not assessed: to link two tables, each needs a column that trees test."


def linked(
    rebuilt: Reconstruction,
    true: pd.DataFrame,
    tried: pd.DataFrame,
    control: pd.DataFrame | None,
    known: Known,
    rng: np.random.Generator,
) -> Risk | str:
    """Try to link two halves of the columns that trees test, chosen at random.

    After Giomi and others (2023): two tables have different columns of the same people, and nothing
    else shows who is who. An adversary looks for the rebuilt row nearest to each record, and takes
    two records for one person's if it is the same row.

    ``known`` writes what is known of rows so that sums of differences are distances. Returns why
    nothing was tried, where that is so.
    """
    if rebuilt.X is None or rebuilt.given.any():
        return GIVEN
    free = set(rebuilt.free_columns)
    tested = [a for a in rebuilt.schema.attributes if not set(a.columns) <= free]
    if len(tested) < 2:
        return ONE_COLUMN
    order = rng.permutation(len(tested))
    halves = [[tested[k] for k in sorted(order[side::2])] for side in (0, 1)]
    # The order of rows tells nothing here, nor how many are alike.
    reconstructed = rebuilt.X.drop_duplicates().sort_values(
        list(rebuilt.X.columns), ignore_index=True
    )
    n = max(FEWEST_PEOPLE, MOST_LINKED // len(reconstructed))
    people = [at_most(X, n, rng) for X in (tried, control) if X is not None]

    def nearest(half: Sequence[Attribute]) -> list[IntArray]:
        rows, *persons = known(half, [reconstructed, *people], true)
        return [nearest_rows(half_rows, rows, rng) for half_rows in persons]

    same = [a == b for a, b in zip(*map(nearest, halves), strict=True)]
    found = [Rate(int(hit.sum()), len(hit)) for hit in same]
    m = len(people[0])
    chance = (
        rng.integers(len(reconstructed), size=m) == rng.integers(len(reconstructed), size=m)
    ).sum()
    return Risk(found[0], Rate(int(chance), m), found[1] if len(found) > 1 else None)


NEAR = 0.05
"""Share of its range by which a guessed number may be off."""
MOST_PAIRS = 100_000_000
"""Pairs of people and rebuilt rows that are compared for one column."""

NO_ROWS = static_message(
    "there are no rebuilt rows that could be compared with the training rows", "article29_no_rows"
)
FEW_TO_SINGLE_OUT = static_message(
    "Singling out was not tried on the control rows, because there are fewer of them than "
    "training rows. The number of rows alone changes how easy singling out is.",
    "article29_few_to_single_out",
)
NOT_TRIED = "Not assessed: no rebuilt row was tried."


@dataclass(frozen=True)
class Inference:
    """How often an adversary who knows all else of a person infers one column from the rebuilt
    rows.

    Attributes
    ----------
    column : str
    risk : Risk
        On training rows, beside the most common value of the rebuilt rows.
    n_rows : int
        Training rows; :attr:`risk` rests on a random part of them where they are many.
    """

    column: str
    risk: Risk
    n_rows: int

    def to_dict(self) -> dict[str, Any]:
        """Describe it (formats/audit.schema.json)."""
        return {"column": self.column, "n_rows": self.n_rows, **self.risk.to_dict()}


@dataclass(frozen=True)
class Article29(Serialisable):
    """The risks that the Article 29 Working Party judges anonymisation by (opinion 05/2014).

    Attributes
    ----------
    singling_out : Risk or None
        Share of the rebuilt rows that, taken as a description in the columns that trees test, fit
        exactly one training row; beside random rows under the schema. None if no row was tried.
    inference : tuple of Inference
        One for each sensitive column.
    linkability : Risk or str
        How often two records of one person, in different columns, are taken for one person's by the
        rebuilt rows; beside chance. Or why that is not assessed.
    """

    singling_out: Risk | None
    inference: tuple[Inference, ...] = ()
    linkability: Risk | str = NOT_TRIED


def assess(case: Case) -> Case:
    """Try to single people out, and to guess what is sensitive of them, as a part of an audit.

    Raises BadInput if random rows cannot be drawn under the schema, or a sensitive column is none
    of its.
    """
    found, wanted, others = case.found, case.request.sensitive, case.others
    true = tried = case.truth.X
    if found.measurement is not None and (pairs := found.measurement.pairs) is not None:
        # Only people who were not given are tried.
        tried = true[~np.isnan(pairs.errors)]
    rebuilt = found.written(case.rebuilt)
    risks = risks_of(rebuilt, case.release, true, wanted, others, case.request.seed, tried)
    single = risks.singling_out
    if others is not None and single is not None and single.control is None:
        case = case.noting(FEW_TO_SINGLE_OUT)
    return case.plus(article29=risks)


def risks_of(
    rebuilt: Reconstruction,
    release: Release,
    true: pd.DataFrame,
    wanted: Sequence[str],
    others: pd.DataFrame | None = None,
    seed: int = 0,
    tried: pd.DataFrame | None = None,
) -> Article29:
    """Try to single people out, and to guess what is sensitive of those ``tried``, or of all."""
    rng = np.random.default_rng(seed)
    single = _singling_out(rebuilt, release, true, others, rng)
    tried = true if tried is None else tried
    inference = tuple(
        _inference(_target(name, rebuilt, release), rebuilt, true, tried, others, rng)
        for name in wanted
    )
    return Article29(single, inference, linked(rebuilt, true, tried, others, _known, rng))


def _singling_out(
    rebuilt: Reconstruction,
    release: Release,
    true: pd.DataFrame,
    control: pd.DataFrame | None,
    rng: np.random.Generator,
) -> Risk | None:
    reconstructed = _rows_of(rebuilt).iloc[np.flatnonzero(~rebuilt.given.all(axis=1))]
    if reconstructed.empty or not release.tested:
        return None
    predicates, rows = _places(reconstructed, release), _places(true, release)
    seed = int(rng.integers(2**31))
    random = _places(random_rows(true, rebuilt.schema, len(reconstructed), seed), release)
    others = None
    # Fewer rows are singled out more or less easily, whoever they are.
    if control is not None and len(control) >= len(true):
        chosen = rng.permutation(len(control))[: len(true)]
        others = single_out(predicates, _places(control.iloc[chosen], release))
    return Risk(single_out(predicates, rows), single_out(random, rows), others)


def _places(X: pd.DataFrame, release: Release) -> IntArray:
    """Between which thresholds each value lies, and in which sets, of columns that trees test."""
    values = X[list(release.feature_names)].to_numpy(dtype=release.float_type).astype(float)
    tests = zip(values.T, release.thresholds, release.category_sets, strict=True)
    places = []
    for x, cuts, sets in tests:
        if cuts.size or sets:
            places.append(np.where(np.isnan(x), len(cuts) + 1, np.searchsorted(cuts, x)))
        places += [np.isin(x, known_set).astype(np.int64) for known_set in sets]
    return np.column_stack(places)


def _target(name: str, rebuilt: Reconstruction, release: Release) -> Attribute:
    target = attribute_of(name, rebuilt.schema, release)
    if target is None:
        raise BadInput(f"sensitive: {name!r} is not a column of the schema")
    if rebuilt.known is not None and rebuilt.known[list(target.columns)].all(axis=None):
        raise BadInput(f"sensitive: {name!r} was given")
    return target


def _inference(
    target: Attribute,
    rebuilt: Reconstruction,
    true: pd.DataFrame,
    tried: pd.DataFrame,
    control: pd.DataFrame | None,
    rng: np.random.Generator,
) -> Inference:
    schema, reconstructed = rebuilt.schema, _rows_of(rebuilt)
    # In what no tree tests, rebuilt rows are guesses: to compare them there would mislead.
    free = set(rebuilt.free_columns)
    known = [a for a in schema.attributes if a is not target and not set(a.columns) <= free]
    n = max(FEWEST_PEOPLE, MOST_PAIRS // len(reconstructed))
    people = at_most(tried, n, rng)
    tables = (
        [reconstructed, people]
        if control is None
        else [reconstructed, people, at_most(control, n, rng)]
    )
    rows, *persons = _known(known, tables, true)
    values, *truths = (_value(target, X) for X in tables)
    near = 0.0
    if not isinstance(target, (Binary, Categorical, OneHot)):
        low, high = column_range(target, _value(target, true))
        near = NEAR * max(high - low, 0.0)
    hits = [
        Rate(int(is_right(nearest_values(p, rows, values), t, near).sum()), len(t))
        for p, t in zip(persons, truths, strict=True)
    ]
    usual = int(is_right(commonest(values, near), truths[0], near).sum())
    risk = Risk(hits[0], Rate(usual, len(people)), hits[1] if len(hits) > 1 else None)
    label = next(label for label, a in labels_of(schema).items() if a is target)
    return Inference(label, risk, len(tried))


def _rows_of(rebuilt: Reconstruction) -> pd.DataFrame:
    if rebuilt.X is None or rebuilt.X.empty:
        raise BadInput("no rows were rebuilt")
    return rebuilt.X


def _value(attribute: Attribute, X: pd.DataFrame) -> FloatArray:
    """The value of an attribute as one number: of a one-hot group, which of its columns is 1."""
    block = X[list(attribute.columns)].to_numpy(dtype=float)
    if not isinstance(attribute, OneHot):
        return block[:, 0]
    return np.where((block == 1.0).any(axis=1), block.argmax(axis=1), -1.0)


def _known(
    attributes: Sequence[Attribute], tables: Sequence[pd.DataFrame], true: pd.DataFrame
) -> list[FloatArray]:
    """Write what is known so that the sum of differences is the distance of two people.

    Numbers differ by a share of their range, all else by 0 or 1.
    """
    ends = np.cumsum([len(X) for X in tables])
    blocks = [np.zeros((ends[-1], 1))]
    for attribute in attributes:
        x = np.concatenate([_value(attribute, X) for X in tables])
        missing = np.isnan(x)
        if isinstance(attribute, (Categorical, OneHot)):
            # Two different categories differ in two columns.
            blocks.append((x[:, None] == np.unique(x[~missing])) / 2.0)
        else:
            low, high = column_range(attribute, _value(attribute, true))
            share = (x - low) / (high - low) if high > low else (x != low).astype(float)
            blocks.append(np.where(missing, 0.0, np.clip(share, -1.0, 2.0))[:, None])
        if missing.any():
            blocks.append(missing[:, None].astype(float))
    return np.split(np.hstack(blocks), ends[:-1])
