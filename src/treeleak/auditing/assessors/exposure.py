"""Part of an audit: what was recovered and how surely, by columns, groups and rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from treeleak.auditing.assessors.article29 import NO_ROWS
from treeleak.auditing.assessors.compared import Pairs
from treeleak.auditing.assessors.counts import LeafWords, rows_in_nodes
from treeleak.auditing.assessors.people import groups_of, labels_of
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.metrics.matching import right_values
from treeleak.metrics.scores import PROBABLE
from treeleak.reconstruction import Reconstruction
from treeleak.release import Release

if TYPE_CHECKING:
    from treeleak.auditing.case import Case

MOST_ROWS = 500
"""Most exposed rows that are told one by one."""

MOST_LEAVES = 3
"""Leaves that are told of each of them."""


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
class Behind:
    """Who stands behind the figures of columns and groups. Never in a document."""

    groups: BoolArray
    """Shape (n_people, n_groups). Who is in each group."""
    counted: BoolArray
    """Shape (n_people,). Whose error is known: not theirs of whom all was given."""
    others: BoolArray
    """Shape (n_people, n_columns). Who differs from the most common value of each column."""
    free: IntArray
    """Shape (n_columns,). Of how many people the share of right values is."""


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
        (share of the values). NaN where there is no truth, or no confidence.
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
    behind : Behind or None
        None where there is no truth. For the owner only.
    """

    recovered: Recovered
    columns: pd.DataFrame
    groups: pd.DataFrame
    rows: pd.DataFrame
    leaves: tuple[tuple[NearLeaf, ...], ...]
    behind: Behind | None = None

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
            {**row, "leaves": [asdict(leaf) for leaf in leaves]}
            for row, leaves in zip(found, self.leaves, strict=True)
        ]


def assess(case: Case) -> Case:
    """Find out what was recovered, and of whom, as a part of an audit.

    Raises BadInput if training rows cannot be grouped by a column that was asked for.
    """
    found, request = case.found, case.request
    exposure: Exposure | None = None
    rebuilt, truth = found.reconstruction, found.truth
    rebuilt = None if rebuilt is None else found.written(rebuilt)
    if rebuilt is not None and rebuilt.X is not None:
        release, groups = case.release, dict[str, "pd.Series[Any]"]()
        pairs = None if found.measurement is None else found.measurement.pairs
        true = None if truth is None else truth.X
        if true is not None:
            groups = groups_of(true, request, release, rebuilt.schema)
        if not rebuilt.X.empty:
            rows, leaves = _rows(rebuilt, release, pairs, found.proofs_hold)
            exposure = Exposure(
                recovered=Recovered.of(rebuilt, found.proofs_hold),
                columns=_columns(rebuilt, true, pairs),
                groups=_groups(pairs, groups),
                rows=rows,
                leaves=leaves,
                behind=None if true is None else _behind(rebuilt, true, groups, pairs),
            )
    case = case.plus(exposure=exposure)
    if request.groups and (exposure is None or exposure.groups.empty):
        return case.without("exposure", NO_ROWS)
    return case


def _behind(
    rebuilt: Reconstruction, X: pd.DataFrame, by: Mapping[str, pd.Series[Any]], pairs: Pairs | None
) -> Behind:
    """List who stands behind the figures, in the order of their tables."""
    n = len(X)
    attributes = list(labels_of(rebuilt.schema).values())
    others = np.zeros((n, len(attributes)), dtype=bool)
    for k, attribute in enumerate(attributes):
        columns = list(attribute.columns)
        value = X.groupby(columns, dropna=False, sort=False).ngroup().to_numpy()
        others[:, k] = value != np.bincount(value).argmax()
    if pairs is None:
        none = np.zeros((n, 0), dtype=bool)
        return Behind(none, np.ones(n, dtype=bool), others, np.full(len(attributes), n))
    groups = [
        (member == name).to_numpy(dtype=bool)
        for member in by.values()
        for name in _names_of(member)
    ]
    free = right_values(pairs.provided.astype(float), pairs.columns, attributes).sum(axis=0)
    counted = ~np.isnan(pairs.errors)
    return Behind(np.column_stack([np.zeros((n, 0), dtype=bool), *groups]), counted, others, free)


def _names_of(member: pd.Series[Any]) -> list[Any]:
    """Groups that have rows, in their order."""
    there = set(member.unique())
    order = list(member.cat.categories) if hasattr(member, "cat") else sorted(there)
    return [name for name in order if name in there]


def _columns(rebuilt: Reconstruction, X: pd.DataFrame | None, pairs: Pairs | None) -> pd.DataFrame:
    confidence, labels = rebuilt.confidence, labels_of(rebuilt.schema)
    provided = pd.DataFrame(rebuilt.given, columns=None if rebuilt.X is None else rebuilt.X.columns)
    lines = []
    for attribute in labels.values():
        columns = list(attribute.columns)
        line: dict[str, Any] = {
            "members": attribute.columns,
            "tested": not set(columns) <= set(rebuilt.free_columns),
        }
        unknown = ("right", "guess", "majority", "others", "expected", "proved")
        line |= dict.fromkeys(unknown, np.nan)
        if X is not None:
            others = len(X) - int(X[columns].value_counts(dropna=False).iloc[0])
            line |= {"majority": 1.0 - others / len(X), "others": others}
        sure = (
            None
            if confidence is None
            else confidence[columns].to_numpy()[~provided[columns].to_numpy()]
        )
        if sure is not None and len(sure):
            line |= {"expected": 1.0 - float(sure.mean()), "proved": float((sure == 1.0).mean())}
        lines.append(line)
    table = pd.DataFrame(lines, index=pd.Index(labels, name="column"))
    if pairs is not None:
        attributes = list(labels.values())
        # What was given has no error: only values of which no column was given are counted.
        free = right_values(pairs.provided.astype(float), pairs.columns, attributes)
        right = right_values(pairs.distance, pairs.columns, attributes) & free
        with np.errstate(invalid="ignore"):
            table["right"] = right.sum(axis=0) / free.sum(axis=0)
        table["guess"] = np.nan if pairs.random is None else pairs.random.right
    return table


def _groups(pairs: Pairs | None, by: Mapping[str, pd.Series[Any]]) -> pd.DataFrame:
    """Errors of groups of training rows."""
    columns = ["column", "group", "rows", "error", "exact", "guess"]
    if pairs is None or not by:
        return pd.DataFrame(columns=columns)
    figures = pd.DataFrame(
        {
            "error": pairs.errors,
            "exact": np.where(np.isnan(pairs.errors), np.nan, pairs.errors == 0),
            "guess": np.nan if pairs.random is None else pairs.random.row_errors,
        }
    )
    found = []
    for name, member in by.items():
        by_group = figures.groupby(member.to_numpy(), sort=False)
        table = by_group.mean().assign(rows=by_group.size(), column=name)
        found.append(table.loc[_names_of(member)])
    return pd.concat(found).rename_axis("group").reset_index()[columns]


def _rows(
    rebuilt: Reconstruction, release: Release, pairs: Pairs | None, proofs_hold: bool
) -> tuple[pd.DataFrame, tuple[tuple[NearLeaf, ...], ...]]:
    """List the most exposed rows, with the leaves that tell most of them."""
    n = rebuilt.n_rows
    leaves, counted = _leaves_of(rebuilt, release)
    table = pd.DataFrame(
        {
            "row": np.arange(n),
            "matched": np.nan,
            "wrong": np.nan,
            "sure": _surest(rebuilt),
            "proved": _proved(rebuilt) & proofs_hold,
            "least": counted.min(axis=1, initial=np.inf),
        }
    )
    if pairs is not None:
        attributes = rebuilt.schema.attributes
        wrong = ~right_values(pairs.distance * ~pairs.provided, pairs.columns, attributes)
        table.loc[pairs.rebuilt, "matched"] = pairs.true
        table.loc[pairs.rebuilt, "wrong"] = wrong.sum(axis=1)
    open_ = np.flatnonzero(~rebuilt.given.all(axis=1))
    order = {"proved": False, "sure": False, "least": True}
    most = table.iloc[open_].sort_values([*order], ascending=[*order.values()], kind="stable")
    table = most.head(MOST_ROWS).drop(columns="least").reset_index(drop=True)
    if not leaves.size:
        return table, ((),) * len(table)
    say = cache(LeafWords(release, rebuilt.schema).say)

    def near(row: int, tree: int) -> NearLeaf:
        leaf = int(leaves[row, tree])
        return NearLeaf(tree, leaf, int(counted[row, tree]), say(tree, leaf))

    fewest = np.argsort(counted[table["row"]], axis=1, kind="stable")[:, :MOST_LEAVES].tolist()
    leaf_paths = (
        tuple(near(row, tree) for tree in trees)
        for row, trees in zip(table["row"].tolist(), fewest, strict=True)
    )
    return table, tuple(leaf_paths)


def _leaves_of(rebuilt: Reconstruction, release: Release) -> tuple[IntArray, FloatArray]:
    """Leaf of each rebuilt row in each tree, and how many rows it counts; empty where none does."""
    counts = [rows_in_nodes(tree) for tree in release.trees]
    known = [c for c in counts if c is not None]
    if rebuilt.X is None or release.noise is not None or len(known) < len(counts):
        return np.zeros((rebuilt.n_rows, 0), dtype=np.int64), np.zeros((rebuilt.n_rows, 0))
    leaves = release.leaves(rebuilt.X)
    return leaves, np.column_stack([n[at] for n, at in zip(known, leaves.T, strict=True)])


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    plain = table.astype(object).where(table.notna(), None)
    return [{str(k): v for k, v in line.items()} for line in plain.to_dict("records")]


def _proved(rebuilt: Reconstruction) -> BoolArray:
    if rebuilt.proved is None:
        return np.zeros(rebuilt.n_rows, dtype=bool)
    return rebuilt.proved.to_numpy(dtype=bool)


def _surest(rebuilt: Reconstruction) -> FloatArray:
    """Least confidence among the values of each row that a tree tests; 0 where none is."""
    if rebuilt.confidence is None:
        return np.zeros(rebuilt.n_rows)
    tested = ~rebuilt.confidence.columns.isin(rebuilt.free_columns)
    if not tested.any():
        return np.zeros(rebuilt.n_rows)
    found: FloatArray = rebuilt.confidence.to_numpy()[:, tested].min(axis=1)
    return np.nan_to_num(found)
