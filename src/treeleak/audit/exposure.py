"""Part of an audit: what was recovered and how surely, of which columns, groups and rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from itertools import takewhile
from typing import Any

import numpy as np
import pandas as pd

from treeleak.errors import BadInput
from treeleak.reconstruction import Reconstruction
from treeleak.schema import Attribute, OneHot, Schema
from treeleak.training import TrainingRows

__all__ = [
    "MOST_ROWS",
    "PROBABLE",
    "Exposure",
    "NearLeaf",
    "Recovered",
    "check_names",
    "examine",
    "labels_of",
]

MOST_ROWS = 500
"""Most exposed rows that are told one by one."""

_LAST_PART = re.compile(r"[_\-:=. |]*[^_\-:=. |]*$")
"""What follows the last sign that parts words, with it."""

PROBABLE = 0.9
"""Least confidence of each value that a tree tests, in a row that counts as probable."""


@dataclass(frozen=True)
class Recovered:
    """How surely rows were rebuilt, of those that were not given.

    Attributes
    ----------
    n_rows : int
    proved : float
        Share that stands in every dataset that meets the counts, in all that trees can tell apart.
    probable : float
        Share that is not proved, and has a confidence of :data:`PROBABLE` or more in every value
        that a tree tests.
    open : float
        All others.
    """

    n_rows: int
    proved: float
    probable: float
    open: float

    @classmethod
    def of(cls, rebuilt: Reconstruction, proofs_hold: bool = True) -> Recovered:
        """Sort the rows of a reconstruction; where no proof holds, what is proved is probable."""
        found = ~rebuilt.given.all(axis=1)
        n = int(found.sum())
        if not n:
            return cls(0, 0.0, 0.0, 0.0)
        proved = _proved(rebuilt) & proofs_hold
        probable = ~proved & (_surest(rebuilt) >= PROBABLE)
        shares = [float(part[found].mean()) for part in (proved, probable, ~(proved | probable))]
        return cls(n, *shares)


@dataclass(frozen=True)
class NearLeaf:
    """A leaf with few rows, in which a rebuilt row stands.

    Attributes
    ----------
    tree, leaf : int
    rows : int
    conditions : str
        Where its rows lie, in words.
    """

    tree: int
    leaf: int
    rows: int
    conditions: str


@dataclass(frozen=True, eq=False)
class Exposure:
    """What was recovered, and of whom.

    Attributes
    ----------
    recovered : Recovered
    columns : DataFrame
        One line per attribute (a one-hot group is one): ``members`` (its columns in the model),
        ``tested`` (whether a tree tests it), ``right`` (share of the training rows whose value is
        right after matching; a number within 1 % of its range), ``guess`` (the same for random
        guesses), ``majority`` (for always the most common value), ``others`` (rows that differ from
        it), ``expected`` (1 - mean confidence, which the attack expects to be wrong) and ``proved``
        (share of the values). NaN where there is no truth.
    groups : DataFrame
        ``column``, ``group``, ``rows``, ``error`` (share of the group's values that are wrong),
        ``exact`` (share of its rows rebuilt exactly), ``guess`` (error of random guesses). First
        the class labels, then the columns asked for. Empty without truth.
    rows : DataFrame
        The most exposed rebuilt rows first: ``row`` (its number), ``matched`` (number of the
        training row matched with it, or NaN), ``wrong`` (values that differ, or NaN), ``sure``
        (least confidence among the values that trees test), ``proved``. For the owner only.
    leaves : tuple of tuple of NearLeaf
        For each of :attr:`rows`, the leaves with fewest rows in which it stands. For the owner
        only.
    """

    recovered: Recovered
    columns: pd.DataFrame
    groups: pd.DataFrame
    rows: pd.DataFrame
    leaves: tuple[tuple[NearLeaf, ...], ...]

    def to_dict(self) -> dict[str, Any]:
        """Describe columns and groups, without rows (formats/audit.schema.json)."""
        columns = self.columns.drop(columns="members").reset_index(names="column")
        return {
            "recovered": asdict(self.recovered),
            "columns": _records(columns),
            "columns_left_out": 0,
            "groups": _records(self.groups),
        }

    def rows_to_dict(self) -> list[Mapping[str, Any]]:
        """Describe the most exposed rows, for the owner."""
        found = _records(self.rows)
        return [
            {**row, "leaves": [asdict(leaf) for leaf in own]}
            for row, own in zip(found, self.leaves, strict=True)
        ]


def examine(
    rebuilt: Reconstruction, truth: TrainingRows | None = None, proofs_hold: bool = True
) -> Exposure | None:
    """Find out what was recovered, and of whom; None where no rows were rebuilt."""
    if rebuilt.X is None or rebuilt.X.empty:
        return None
    return Exposure(
        recovered=Recovered.of(rebuilt, proofs_hold),
        columns=_columns(rebuilt, truth),
        groups=pd.DataFrame(columns=["column", "group", "rows", "error", "exact", "guess"]),
        rows=_rows(rebuilt, proofs_hold),
        leaves=((),) * min(rebuilt.n_rows, MOST_ROWS),
    )


def check_names(wanted: Sequence[str], known: Collection[str], what: str) -> None:
    """Refuse a name that is none of a table's columns.

    Raises
    ------
    BadInput
        Naming it, and the one that is meant, perhaps.
    """
    for name in wanted:
        if name not in known:
            near = get_close_matches(str(name), list(known), 1, cutoff=0.0)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise BadInput(f"{what}: no column {name!r}{hint}")


def labels_of(schema: Schema) -> dict[str, Attribute]:
    """Name the attributes, each once, without naming the categories of a one-hot group."""
    found: dict[str, Attribute] = {}
    for attribute in schema.attributes:
        members, label = attribute.columns, attribute.name
        if isinstance(attribute, OneHot) and label == " | ".join(members):
            start = zip(min(members), max(members), strict=False)
            common = "".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], start))
            label = _LAST_PART.sub("", common) or f"one of {len(members)} columns"
        found[label if label not in found else f"{label} ({len(found) + 1})"] = attribute
    return found


def _columns(rebuilt: Reconstruction, truth: TrainingRows | None) -> pd.DataFrame:
    confidence = rebuilt.confidence
    given = pd.DataFrame(rebuilt.given, columns=None if rebuilt.X is None else rebuilt.X.columns)
    lines = {}
    for label, attribute in labels_of(rebuilt.schema).items():
        own = list(attribute.columns)
        line: dict[str, Any] = {
            "members": attribute.columns,
            "tested": not set(own) <= set(rebuilt.free_columns),
            "right": np.nan,
            "guess": np.nan,
            "majority": np.nan,
            "others": np.nan,
            "expected": np.nan,
            "proved": np.nan,
        }
        if truth is not None:
            others = len(truth.X) - int(truth.X[own].value_counts(dropna=False).iloc[0])
            line |= {"majority": 1.0 - others / len(truth.X), "others": others}
        sure = None if confidence is None else confidence[own].to_numpy()[~given[own].to_numpy()]
        if sure is not None and len(sure):
            line |= {"expected": 1.0 - float(sure.mean()), "proved": float((sure == 1.0).mean())}
        lines[label] = line
    return pd.DataFrame.from_dict(lines, orient="index")


def _rows(rebuilt: Reconstruction, proofs_hold: bool) -> pd.DataFrame:
    table = pd.DataFrame(
        {
            "row": np.arange(rebuilt.n_rows),
            "matched": np.nan,
            "wrong": np.nan,
            "sure": _surest(rebuilt),
            "proved": _proved(rebuilt) & proofs_hold,
        }
    )
    order = ["proved", "sure"]
    return table.sort_values(order, ascending=False, kind="stable").head(MOST_ROWS)


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    plain = table.astype(object).where(table.notna(), None)
    return [{str(k): v for k, v in line.items()} for line in plain.to_dict("records")]


def _proved(rebuilt: Reconstruction) -> np.ndarray[Any, np.dtype[np.bool_]]:
    if rebuilt.proved is None:
        return np.zeros(rebuilt.n_rows, dtype=bool)
    return rebuilt.proved.to_numpy(dtype=bool)


def _surest(rebuilt: Reconstruction) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Least confidence among the values of each row that a tree tests; 0 where none is."""
    if rebuilt.confidence is None:
        return np.zeros(rebuilt.n_rows)
    tested = ~rebuilt.confidence.columns.isin(rebuilt.free_columns)
    if not tested.any():
        return np.zeros(rebuilt.n_rows)
    found: np.ndarray[Any, np.dtype[np.float64]] = rebuilt.confidence.to_numpy()[:, tested].min(
        axis=1
    )
    return found
