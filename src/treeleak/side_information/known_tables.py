"""Partial knowledge of the rows: tables of known rows and columns, in and out of the counts.

Known rows are taken out of the counts, and put back into the answer. Known columns become one
attribute that takes the known parts of rows as its values, and one more tree with a leaf for each
of them: how many rows have a known part is a count like any other.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.private import dataclass
from treeleak.evidence import Contradiction
from treeleak.partition import Geometry
from treeleak.release.statistics import QUANTITIES, UNTOLD, WEIGHTS
from treeleak.release.tree import LEAF, Release, Tree
from treeleak.schema import AtMost, Attribute, Joint, Linear, OneHot, Rule, Schema
from treeleak.side_information.given import KnownParts

__all__ = ["Filled", "KnownTables"]


MAX_PARTS = 8192
"""Most different known parts of rows: tables of all pairs of them take 0.5 GB."""

PART = "known part"
"""Name of the attribute that the known columns become, and of the column that numbers it."""


@dataclass(frozen=True, eq=False)
class Filled:
    """The rows of an answer with what was known put back.

    Attributes
    ----------
    table : float array, shape (n_rows, n_features)
    label : int array, shape (n_rows,)
    sure : float array, shape (n_rows, n_features)
    label_sure : float array, shape (n_rows,)
    proved : bool array, shape (n_rows,)
    """

    table: FloatArray
    label: IntArray
    sure: FloatArray
    label_sure: FloatArray
    proved: BoolArray


@dataclass(frozen=True, eq=False)
class KnownTables:
    """Known rows and columns, held against the model and the schema.

    Attributes
    ----------
    release : Release
    schema : Schema
    n_rows : int
        N.
    rows, row_labels : float array, shape (n_known, n_features); int array, shape (n_known,)
    at : int array, shape (n_known,)
        Place of each known row in the answer, -1 where that is not settled.
    columns : int array, shape (n_columns,)
        The known columns, as positions in the model.
    values : float array, shape (n_rows, n_columns)
    labels : int array, shape (n_rows,), or None
        Class of each row, where known.
    parted : bool
        Whether known columns, or labels alone, are given.
    """

    release: Release
    schema: Schema
    n_rows: int
    rows: FloatArray
    row_labels: IntArray
    at: IntArray
    columns: IntArray
    values: FloatArray
    labels: IntArray | None
    parted: bool

    @classmethod
    def of(
        cls,
        release: Release,
        schema: Schema,
        n_rows: int,
        known_rows: pd.DataFrame | None,
        known_columns: pd.DataFrame | None,
        ordered: bool,
    ) -> KnownTables:
        """Read the tables that a user gives.

        Parameters
        ----------
        n_rows : int
            N.
        known_rows, known_columns : DataFrame or None
            As for :func:`treeleak.reconstruct`.
        ordered : bool
            Whether row k of the answer must be row k of the training set.

        Raises
        ------
        BadInput
            Naming the table, the row and the column.
        """
        columns, values, labels = np.zeros(0, dtype=np.int64), np.zeros((n_rows, 0)), None
        if known_columns is not None:
            read = _Table("known_columns", known_columns, release, schema)
            if len(known_columns) != n_rows:
                raise BadInput(
                    f"known_columns has {len(known_columns)} rows, the training set {n_rows}"
                )
            columns, values, labels = read.columns, read.values, read.labels
        rows, row_labels = np.zeros((0, release.n_features)), np.zeros(0, dtype=np.int64)
        at = np.zeros(0, dtype=np.int64)
        if known_rows is not None:
            read = _Table("known_rows", known_rows, release, schema)
            absent = np.setdiff1d(np.arange(release.n_features), read.columns)
            if len(absent):
                raise BadInput(f"known_rows lack column {release.feature_names[absent[0]]!r}")
            if release.classes and read.labels is None:
                raise BadInput("known_rows lack the label: one column beside those of the model")
            if len(known_rows) > n_rows:
                raise BadInput(
                    f"known_rows has {len(known_rows)} rows, the training set only {n_rows}"
                )
            rows = read.values[:, np.argsort(read.columns)]
            row_labels = np.zeros(len(rows), np.int64) if read.labels is None else read.labels
            at = _positions(known_rows, n_rows)
            if known_columns is not None:
                at = _matched(rows, row_labels, columns, values, labels, at, read, ordered)
            elif not ordered and (at < 0).any():
                at = np.arange(len(rows))
        return cls(
            release, schema, n_rows, rows, row_labels, at, columns, values, labels,
            known_columns is not None,
        )  # fmt: skip

    @cached_property
    def placed(self) -> BoolArray:
        """Known rows whose place in the answer is settled."""
        return self.at >= 0

    @cached_property
    def others(self) -> IntArray:
        """Places of the answer that no known row takes."""
        return np.setdiff1d(np.arange(self.n_rows), self.at[self.placed])

    @cached_property
    def known(self) -> BoolArray:
        """Which values of the answer were given, shape (n_rows, n_features)."""
        out = np.zeros((self.n_rows, self.release.n_features), dtype=bool)
        out[:, self.columns] = True
        out[self.at[self.placed]] = True
        return out

    @cached_property
    def _parts(self) -> tuple[IntArray, IntArray]:
        """The different known parts: a row that has it, for each, and the part of each row."""
        key = self.values if self.labels is None else np.column_stack([self.values, self.labels])
        part = _numbered(key)
        first = np.unique(part, return_index=True)[1]
        if len(first) > MAX_PARTS:
            raise NotCovered(
                f"known_columns holds {len(first):,} different rows; at most {MAX_PARTS:,} are used"
            )
        return first.astype(np.int64), part

    def taken_out(
        self, release: Release, draws: NDArray[np.unsignedinteger[Any]] | None
    ) -> tuple[Release, Contradiction | None]:
        """Take the known rows that have a place out of the counts of the leaves.

        Parameters
        ----------
        release : Release
            Of the same columns and classes.
        draws : int array, shape (n_trees, n_rows), or None
            How often each tree drew each row of the answer; None: once.

        Returns
        -------
        Release
        Contradiction or None
            A leaf that holds fewer rows than are known to lie in it.
        """
        own = np.flatnonzero(self.placed)
        if not len(own):
            return release, None
        rows, label = self.rows[own].astype(release.float_type), self.row_labels[own]
        trees: list[Tree] = []
        for t, tree in enumerate(release.trees):
            leaf = tree.apply(rows)
            times = np.ones(len(own)) if draws is None else draws[t, self.at[own]].astype(float)
            counts, totals, distinct = tree.counts, tree.totals, tree.distinct
            short = np.zeros(tree.n_nodes, dtype=bool)
            if counts is not None and release.counts_are == "weights":
                short[leaf[counts[leaf, label] <= 0]] = True
            elif counts is not None:
                counts = counts.copy()
                np.subtract.at(counts, (leaf, label), times)
                short |= (counts < -0.5).any(axis=1)
            if totals is not None:
                totals = totals - np.bincount(leaf, times, tree.n_nodes)
                short |= totals < -0.5
            if distinct is not None and draws is not None:
                distinct = distinct - np.bincount(leaf[times > 0], minlength=tree.n_nodes)
                short |= distinct < 0
            if (missed := tree.leaves[short[tree.leaves]]).size:
                why = "known_rows has more rows there than the model counts"
                return release, Contradiction(t, int(missed[0]), why)
            trees.append(tree.with_counts(counts=counts, totals=totals, distinct=distinct))
        return replace(release, trees=tuple(trees), n_rows=len(self.others)), None

    def geometry(self, release: Release, *, counted: bool) -> Geometry:
        """Compile a release so that what is known can be said of its atoms.

        Parameters
        ----------
        release : Release
            Of the same columns and classes.
        counted : bool
            Whether the known columns become one attribute, with a tree that counts the rows of
            each known part: for attacks that know counts only. The release has one column more
            then, the number of the part.
        """
        names = release.feature_names
        if not (counted and self.parted):
            return Geometry.of(release, self.schema, [names[c] for c in self.columns])
        first, part = self._parts
        number = PART
        while number in {*names, *(a.name for a in self.schema.attributes)}:
            number += "_"
        members = tuple(names[c] for c in self.columns)
        owner = {c: a for a in self.schema.attributes for c in a.columns}
        table = np.column_stack([self.values[first], np.arange(len(first))])
        joint = Joint(number, tuple(owner[c] for c in members), (*members, number), table)
        rest, rules = _rest(self.schema, set(members))
        size = np.bincount(part[self.others], minlength=len(first))
        label = None if self.labels is None or not release.classes else self.labels[first]
        tree = _part_tree(len(names), size, label, len(release.classes))
        trees, quantity = release.trees, QUANTITIES[release.counts_are]
        if quantity == UNTOLD:
            # What such a release counts by class is not used; what is known of the labels is.
            trees = tuple(t.with_counts(counts=None) for t in trees)
            quantity = WEIGHTS
        tree = tree.with_counts(quantity)
        wider = replace(release, trees=(*trees, tree), feature_names=(*names, number))
        return Geometry.of(wider, Schema((joint, *rest), rules))

    def parts(self, geometry: Geometry, *, rows: bool) -> KnownParts | None:
        """Say what each row of an attack's answer may be.

        Parameters
        ----------
        geometry : Geometry
            From :meth:`geometry`.
        rows : bool
            Whether the answer holds the known rows; else they were taken out.
        """
        if not (self.parted or (rows and len(self.rows))):
            return None
        first, group = self._parts
        allowed = self._allowed(geometry, self.columns, self.values[first])
        if self.labels is not None:
            allowed[:, -self.release.n_classes :] &= self._classes[self.labels[first]]
        if not rows:
            return KnownParts(group[self.others], allowed)
        own = np.flatnonzero(self.placed)
        exact = self._allowed(geometry, np.arange(self.release.n_features), self.rows[own])
        exact[:, -self.release.n_classes :] &= self._classes[self.row_labels[own]]
        group = group.copy()
        group[self.at[own]] = len(first) + np.arange(len(own))
        used, group = np.unique(group, return_inverse=True)
        return KnownParts(group.ravel(), np.concatenate([allowed, exact])[used])

    @property
    def _classes(self) -> BoolArray:
        return np.eye(self.release.n_classes, dtype=bool)

    def _allowed(self, geometry: Geometry, columns: IntArray, values: FloatArray) -> BoolArray:
        """Atoms of all attributes, and classes, that agree with the values of some columns."""
        blocks = []
        for part in geometry.parts:
            at = np.flatnonzero(np.isin(columns, part.columns))
            own = np.array([int(np.argmax(part.columns == columns[i])) for i in at], dtype=np.int64)
            if len(own):
                blocks.append(part.holding(values[:, at], geometry.release, own))
            else:
                blocks.append(np.ones((len(values), len(part)), dtype=bool))
        classes = np.ones((len(values), self.release.n_classes), dtype=bool)
        return np.column_stack([*blocks, classes])

    def located(self, clash: Contradiction) -> str | None:
        """Say where a contradiction shows, if it is in the tree of the known parts."""
        if clash.tree < len(self.release.trees):
            return None
        tree = _part_tree(0, np.zeros_like(self._parts[0]), None, 0)
        own = np.flatnonzero(self._parts[1] == np.searchsorted(tree.leaves, clash.node))
        more = f" and {len(own) - 1} more like it" if len(own) > 1 else ""
        return f"known_columns, row {own[0]}{more}: {clash.why}"

    def filled(self, rest: Filled, *, ordered: bool, rows: bool) -> Filled:
        """Put back what was known.

        Parameters
        ----------
        rest : Filled
            The rows of the answer, in the columns of the release that was attacked.
        ordered : bool
            Whether the rows stand in their places.
        rows : bool
            Whether the known rows are among them.
        """
        n_features = self.release.n_features
        seats = np.arange(self.n_rows) if rows else self.others
        if len(rest.table) < len(seats):
            rest = self._like_the_known(len(seats))
        order = np.arange(len(seats))
        if self.parted and not ordered:
            order = _seated(self._parts[1][seats], rest.table[:, -1].astype(np.int64))
        out = Filled(
            np.zeros((self.n_rows, n_features)),
            np.zeros(self.n_rows, dtype=np.int64),
            np.ones((self.n_rows, n_features)),
            np.ones(self.n_rows),
            np.ones(self.n_rows, dtype=bool),
        )
        out.table[seats] = rest.table[order, :n_features]
        out.label[seats] = rest.label[order]
        out.sure[seats] = rest.sure[order, :n_features]
        out.label_sure[seats] = rest.label_sure[order]
        out.proved[seats] = rest.proved[order]
        self._write(out)
        return out

    def _like_the_known(self, n_rows: int) -> Filled:
        """Rows of which no count speaks: the known row that shares most with the others."""
        share = np.empty((len(self.rows), self.release.n_features + 1))
        for i, column in enumerate([*self.rows.T, self.row_labels]):
            number = _numbered(column[:, None])
            share[:, i] = np.bincount(number)[number] / len(self.rows)
        best = int(share.sum(axis=1).argmax())
        sure = np.clip(share[best], 1e-3, 0.9999)
        return Filled(
            np.tile(self.rows[best], (n_rows, 1)),
            np.full(n_rows, self.row_labels[best]),
            np.tile(sure[:-1], (n_rows, 1)),
            np.full(n_rows, sure[-1]),
            np.zeros(n_rows, dtype=bool),
        )

    def _write(self, out: Filled) -> None:
        """Write what is known over the answer."""
        out.table[:, self.columns] = self.values
        out.sure[:, self.columns] = 1.0
        if self.labels is not None:
            out.label[:] = self.labels
            out.label_sure[:] = 1.0
        at = self.at[self.placed]
        out.table[at], out.label[at] = self.rows[self.placed], self.row_labels[self.placed]
        out.sure[at], out.label_sure[at], out.proved[at] = 1.0, 1.0, True
        position = {c: i for i, c in enumerate(self.release.feature_names)}
        for attribute in self.schema.attributes:
            own = np.array([position[c] for c in attribute.columns])
            free = own[~np.isin(own, self.columns)]
            if isinstance(attribute, OneHot) and 0 < len(free) < len(own):
                # A row of which no count speaks can have come with another part.
                wrong = np.flatnonzero(~attribute.holds(out.table[:, own]))
                out.table[np.ix_(wrong, free)] = 0.0
                wrong = wrong[~attribute.holds(out.table[np.ix_(wrong, own)])]
                out.table[wrong, free[0]] = 1.0

    def remarks(self, answer: Filled) -> tuple[str, ...]:
        """Say how many of the known rows without a place stand in an answer all the same."""
        own = np.flatnonzero(~self.placed)
        if not len(own):
            return ()
        both = np.concatenate([self.rows[own], answer.table[self.others]])
        leaves = [tree.apply(both.astype(self.release.float_type)) for tree in self.release.trees]
        labels = np.concatenate([self.row_labels[own], answer.label[self.others]])
        group = np.unique(np.column_stack([*leaves, labels]), axis=0, return_inverse=True)[1]
        held = [
            np.bincount(g, minlength=group.max() + 1) for g in np.split(group.ravel(), [len(own)])
        ]
        return (
            f"of {len(own)} known rows whose positions are not known, "
            f"{int(np.minimum(*held).sum())} stand in the answer, as far as the trees can tell",
        )


class _Table:
    """A table that a user gives, in numbers.

    Attributes
    ----------
    columns : int array
        Positions in the model, in the table's order.
    values : float array, shape (n_rows, n_columns)
    labels : int array, shape (n_rows,), or None
    """

    def __init__(self, what: str, table: pd.DataFrame, release: Release, schema: Schema) -> None:
        self.what, self.index = what, table.index.tolist()
        names = [str(c) for c in table.columns]
        if len(set(names)) != len(names):
            twice = next(c for c in names if names.count(c) > 1)
            raise BadInput(f"{what}: column {twice!r} stands twice")
        position = {c: i for i, c in enumerate(release.feature_names)}
        own = [i for i, c in enumerate(names) if c in position]
        beside = [i for i, c in enumerate(names) if c not in position]
        if len(beside) > 1 or (beside and not release.classes):
            most = "one, the label" if release.classes else "none, as it has no classes"
            raise BadInput(
                f"{what}: columns {[names[i] for i in beside]} are none of the model's; "
                f"there may be {most}"
            )
        self.columns = np.array([position[names[i]] for i in own], dtype=np.int64)
        values = [self._numbers(table.iloc[:, i], names[i]) for i in own]
        self.values = np.column_stack([np.zeros((len(table), 0)), *values])
        self.labels = self._classes(table.iloc[:, beside[0]], release) if beside else None
        self._check(schema, {c: i for i, c in enumerate(names[i] for i in own)})

    def row(self, k: int) -> str:
        """Name a row, by its index unless that may be somebody's name."""
        own = self.index[k]
        return f"{self.what}, row {own if isinstance(own, int) else k}"

    def _numbers(self, series: pd.Series[Any], name: str) -> FloatArray:
        if not pd.api.types.is_numeric_dtype(series):
            raise BadInput(f"{self.what}: column {name!r} holds something other than numbers")
        # Adding zero makes one number of -0.0 and 0.0.
        return series.to_numpy(dtype=float, na_value=np.nan) + 0.0

    def _classes(self, series: pd.Series[Any], release: Release) -> IntArray:
        found = release.class_numbers(series)
        if (found < 0).any():
            k = int(found.argmin())
            raise BadInput(
                f"{self.row(k)}: column {series.name!r} is none of the model's and was taken for "
                f"the label, but what it holds is none of the classes "
                f"{list(release.classes)}"
            )
        return found

    def _check(self, schema: Schema, at: dict[str, int]) -> None:
        for attribute in schema.attributes:
            present = [c for c in attribute.columns if c in at]
            if not present:
                continue
            block = self.values[:, [at[c] for c in present]]
            good = attribute.holds(block) if len(present) == len(attribute.columns) else (
                np.isin(block, (0.0, 1.0)).all(axis=1) & (block.sum(axis=1) <= 1)
            )  # fmt: skip
            if not good.all():
                k = int(np.argmin(good))
                raise BadInput(
                    f"{self.row(k)}, column {', '.join(map(repr, present))}: the value is outside "
                    f"of what the schema allows for the {attribute.kind} attribute "
                    f"{attribute.name!r}"
                )
        for rule in schema.rules:
            if not all(c in at for c in rule.columns):
                continue
            own = {c: self.values[:, at[c]] for c in rule.columns}
            silent = np.logical_or.reduce([np.isnan(v) for v in own.values()])
            good = silent | rule.holds(own)
            if not good.all():
                raise BadInput(
                    f"{self.row(int(np.argmin(good)))} breaks the {rule.kind!r} rule over columns "
                    f"{list(rule.columns)}"
                )


def _positions(table: pd.DataFrame, n_rows: int) -> IntArray:
    """Places of known rows in the training set, -1 where the index does not name them."""
    if table.index.name != "row":
        return np.full(len(table), -1, dtype=np.int64)
    labels = table.index.tolist()
    for label in labels:
        if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label < n_rows:
            raise BadInput(
                f"known_rows: the index is named 'row', but {label!r} is no position from 0 to "
                f"{n_rows - 1}"
            )
    if len(set(labels)) != len(labels):
        twice = next(k for k in labels if labels.count(k) > 1)
        raise BadInput(f"known_rows: position {twice} stands twice")
    return np.array(labels, dtype=np.int64)


def _matched(
    rows: FloatArray,
    row_labels: IntArray,
    columns: IntArray,
    values: FloatArray,
    labels: IntArray | None,
    at: IntArray,
    read: _Table,
    ordered: bool,
) -> IntArray:
    """Find the row of the known columns that each known row is, a different one for each."""
    both = np.concatenate([rows[:, columns], values])
    if labels is not None:
        both = np.column_stack([both, np.concatenate([row_labels, labels])])
    number = _numbered(both)
    own, theirs = number[: len(rows)], number[len(rows) :]
    out = at.copy()
    free = np.ones(len(values), dtype=bool)
    free[at[at >= 0]] = False
    room = np.bincount(theirs[free], minlength=len(both))
    for k, group in enumerate(own):
        if at[k] >= 0 and theirs[at[k]] != group:
            raise BadInput(f"{read.row(k)} does not fit row {at[k]} of known_columns")
        if at[k] < 0:
            fits = np.flatnonzero(free & (theirs == group))
            if not len(fits):
                raise BadInput(f"{read.row(k)} fits no row of known_columns that is left for it")
            # Rows of equal known parts are alike, but for their draws.
            out[k] = fits[0] if not ordered or room[group] == 1 else -1
            free[fits[0]] = False
    return out


def _rest(schema: Schema, known: set[str]) -> tuple[list[Attribute], list[Rule]]:
    """Attributes of the columns that are not known, and the rules over both."""
    rest: list[Attribute] = []
    rules: list[Rule] = [
        Linear(dict.fromkeys(r.columns, 1.0), high=r.k) if isinstance(r, AtMost) else r
        for r in schema.rules
    ]
    for attribute in schema.attributes:
        unknown = tuple(c for c in attribute.columns if c not in known)
        if len(unknown) == len(attribute.columns):
            rest.append(attribute)
        elif unknown and isinstance(attribute, OneHot):
            rest.append(OneHot(attribute.name, unknown, at_most_one=True))
            ones = 0.0 if attribute.at_most_one else 1.0
            rules.append(Linear(dict.fromkeys(attribute.columns, 1.0), low=ones, high=1.0))
    return rest, rules


def _part_tree(column: int, size: IntArray, label: IntArray | None, n_classes: int) -> Tree:
    """Make a tree whose leaf g holds the rows of part g. Its inner nodes count nothing."""
    feature: list[int] = []
    threshold: list[float] = []
    left: list[int] = []
    right: list[int] = []
    todo = [(0, len(size), -1, left)]
    while todo:
        begin, end, parent, side = todo.pop()
        at, middle = len(feature), (begin + end) // 2
        inner = end - begin > 1
        feature.append(column if inner else LEAF)
        threshold.append(middle - 0.5 if inner else np.nan)
        left.append(LEAF)
        right.append(LEAF)
        if parent >= 0:
            side[parent] = at
        if inner:
            # The left half is next: leaves are numbered from left to right.
            todo += [(middle, end, at, right), (begin, middle, at, left)]
    bare = Tree(
        np.array(feature), np.array(threshold), np.array(left), np.array(right),
        np.zeros(len(feature), dtype=bool),
    )  # fmt: skip
    totals = np.zeros(bare.n_nodes)
    totals[bare.leaves] = size
    counts = None
    if label is not None:
        counts = np.zeros((bare.n_nodes, n_classes))
        counts[bare.leaves, label] = size
    return bare.with_counts(counts=counts, totals=totals)


def _seated(seats: IntArray, parts: IntArray) -> IntArray:
    """Find a row for each seat, of the seat's part as far as there are any."""
    order = np.empty(len(seats), dtype=np.int64)
    taken = np.zeros(len(parts), dtype=bool)
    left = []
    rows_of: dict[int, list[int]] = {}
    for i in range(len(parts))[::-1]:
        rows_of.setdefault(int(parts[i]), []).append(i)
    for seat, part in enumerate(seats.tolist()):
        if own := rows_of.get(part):
            order[seat] = own.pop()
            taken[order[seat]] = True
        else:
            left.append(seat)
    order[left] = np.flatnonzero(~taken)
    return order


def _numbered(table: FloatArray) -> IntArray:
    """Number the different rows of a table; missing values are equal."""
    # A first column keeps it a table where nothing is known; no number given is infinite.
    whole = np.column_stack([np.zeros(len(table)), np.nan_to_num(table, nan=np.inf)])
    return np.unique(whole, axis=0, return_inverse=True)[1].ravel().astype(np.int64)
