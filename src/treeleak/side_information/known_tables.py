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

from treeleak.core.arrays import BoolArray, FloatArray, IntArray, numbered
from treeleak.core.decisions import MOST_SURE
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.private import dataclass
from treeleak.evidence import Contradiction
from treeleak.partition import Geometry
from treeleak.release.release import Release
from treeleak.release.tree import Tree
from treeleak.schema import OneHot, Schema
from treeleak.side_information.side_information import KnownParts
from treeleak.side_information.user_tables import (
    KnownTable,
    joint_geometry,
    matched,
    part_tree,
    positions,
    seated,
)

MAX_PARTS = 8192
"""Most different known parts of rows: tables of all pairs of them take 0.5 GB."""


@dataclass(frozen=True, eq=False)
class Filled:
    """The rows of an answer with what was known put back."""

    table: FloatArray
    """Shape (n_rows, n_features)."""
    label: IntArray
    """Shape (n_rows,)."""
    sure: FloatArray
    """Shape (n_rows, n_features)."""
    within: FloatArray
    """Shape (n_rows, n_features). How probable it is that values lie where the leaves of their rows
    leave them."""
    label_sure: FloatArray
    """Shape (n_rows,)."""
    proved: BoolArray
    """Shape (n_rows,)."""


@dataclass(frozen=True, eq=False)
class KnownTables:
    """Known rows and columns, held against the model and the schema."""

    release: Release
    schema: Schema
    n_rows: int
    """N."""
    rows: FloatArray
    row_labels: IntArray
    """Shapes (n_known, n_features), (n_known,)."""
    at: IntArray
    """Shape (n_known,). Place of each known row in the answer, -1 where that is not settled."""
    columns: IntArray
    """Shape (n_columns,). The known columns, as positions in the model."""
    values: FloatArray
    """Shape (n_rows, n_columns)."""
    labels: IntArray | None
    """Shape (n_rows,). Class of each row, where known."""
    parted: bool
    """Whether known columns, or labels alone, are given."""

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

        ``n_rows``: N. ``known_rows`` and ``known_columns``: as for :func:`treeleak.reconstruct`.
        ``ordered``: whether row k of the answer must be row k of the training set. Raises BadInput,
        naming the table, the row and the column.
        """
        columns, values, labels = np.zeros(0, dtype=np.int64), np.zeros((n_rows, 0)), None
        if known_columns is not None:
            read = KnownTable("known_columns", known_columns, release, schema)
            if len(known_columns) != n_rows:
                raise BadInput(
                    f"known_columns has {len(known_columns)} rows, the training set {n_rows}"
                )
            columns, values, labels = read.columns, read.values, read.labels
        rows, row_labels = np.zeros((0, release.n_features)), np.zeros(0, dtype=np.int64)
        at = np.zeros(0, dtype=np.int64)
        if known_rows is not None:
            read = KnownTable("known_rows", known_rows, release, schema)
            rows = read.whole(release)
            if release.classes and read.labels is None:
                raise BadInput(
                    "known_rows lack the label: they need one column besides those of the model"
                )
            if len(known_rows) > n_rows:
                raise BadInput(
                    f"known_rows has {len(known_rows)} rows, the training set only {n_rows}"
                )
            row_labels = np.zeros(len(rows), np.int64) if read.labels is None else read.labels
            at = positions(known_rows, n_rows)
            if known_columns is not None:
                at = matched(rows, row_labels, columns, values, labels, at, read, ordered)
            elif not ordered and (at < 0).any():
                at = np.arange(len(rows))
        return cls(
            release, schema, n_rows, rows, row_labels, at, columns, values, labels,
            known_columns is not None,
        )  # fmt: skip

    @cached_property
    def has_place(self) -> BoolArray:
        """Known rows whose place in the answer is settled."""
        return self.at >= 0

    @cached_property
    def others(self) -> IntArray:
        """Places of the answer that no known row takes."""
        return np.setdiff1d(np.arange(self.n_rows), self.at[self.has_place])

    @cached_property
    def known(self) -> BoolArray:
        """Which values of the answer were given, shape (n_rows, n_features)."""
        out = np.zeros((self.n_rows, self.release.n_features), dtype=bool)
        out[:, self.columns] = True
        out[self.at[self.has_place]] = True
        return out

    @cached_property
    def _parts(self) -> tuple[IntArray, IntArray]:
        """The different known parts: a row that has it, for each, and the part of each row."""
        key = self.values if self.labels is None else np.column_stack([self.values, self.labels])
        part = numbered(key)
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

        ``draws``, of shape (n_trees, n_rows), says how often each tree drew each row of the answer;
        None: once. A contradiction is a leaf that holds fewer rows than are known to lie in it.
        """
        placed = np.flatnonzero(self.has_place)
        if not len(placed):
            return release, None
        rows, label = self.rows[placed].astype(release.float_type), self.row_labels[placed]
        trees: list[Tree] = []
        for t, tree in enumerate(release.trees):
            leaf = tree.apply(rows)
            times = (
                np.ones(len(placed)) if draws is None else draws[t, self.at[placed]].astype(float)
            )
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

        ``release``: of the same columns and classes. ``counted``: whether the known columns become
        one attribute, with a tree that counts the rows of each known part: for attacks that know
        counts only. The release has one column more then, the number of the part.
        """
        names = release.feature_names
        if not (counted and self.parted):
            return Geometry.of(release, self.schema, [names[c] for c in self.columns])
        first, part = self._parts
        size = np.bincount(part[self.others], minlength=len(first))
        label = None if self.labels is None else self.labels[first]
        return joint_geometry(
            release, self.schema, tuple(names[c] for c in self.columns), self.values[first], size,
            label,
        )  # fmt: skip

    def parts(self, geometry: Geometry, *, rows: bool) -> KnownParts | None:
        """Say what each row of an attack's answer may be.

        ``geometry``: from :meth:`geometry`. ``rows``: whether the answer holds the known rows; else
        they were taken out.
        """
        if not (self.parted or (rows and len(self.rows))):
            return None
        first, group = self._parts
        allowed = self._allowed(geometry, self.columns, self.values[first])
        if self.labels is not None:
            allowed[:, -self.release.n_classes :] &= self._classes[self.labels[first]]
        if not rows:
            return KnownParts(group[self.others], allowed)
        placed = np.flatnonzero(self.has_place)
        exact = self._allowed(geometry, np.arange(self.release.n_features), self.rows[placed])
        exact[:, -self.release.n_classes :] &= self._classes[self.row_labels[placed]]
        group = group.copy()
        group[self.at[placed]] = len(first) + np.arange(len(placed))
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
            position = np.array(
                [int(np.argmax(part.columns == columns[i])) for i in at], dtype=np.int64
            )
            if len(position):
                blocks.append(part.holding(values[:, at], geometry.release, position))
            else:
                blocks.append(np.ones((len(values), len(part)), dtype=bool))
        classes = np.ones((len(values), self.release.n_classes), dtype=bool)
        return np.column_stack([*blocks, classes])

    def located(self, clash: Contradiction) -> str | None:
        """Say where a contradiction shows, if it is in the tree of the known parts."""
        if clash.tree < len(self.release.trees):
            return None
        tree = part_tree(0, np.zeros_like(self._parts[0]), None, 0)
        matching = np.flatnonzero(self._parts[1] == np.searchsorted(tree.leaves, clash.node))
        more = f" and {len(matching) - 1} more like it" if len(matching) > 1 else ""
        return f"known_columns, row {matching[0]}{more}: {clash.why}"

    def filled(self, rest: Filled, *, ordered: bool, rows: bool) -> Filled:
        """Put back what was known.

        ``rest``: the rows of the answer, in the columns of the release that was attacked.
        ``ordered``: whether the rows stand in their places. ``rows``: whether the known rows are
        among them.
        """
        n_features = self.release.n_features
        seats = np.arange(self.n_rows) if rows else self.others
        if len(rest.table) < len(seats):
            rest = self._like_the_known(len(seats))
        order = np.arange(len(seats))
        if self.parted and not ordered:
            order = seated(self._parts[1][seats], rest.table[:, -1].astype(np.int64))
        out = Filled(
            np.zeros((self.n_rows, n_features)),
            np.zeros(self.n_rows, dtype=np.int64),
            np.ones((self.n_rows, n_features)),
            np.ones((self.n_rows, n_features)),
            np.ones(self.n_rows),
            np.ones(self.n_rows, dtype=bool),
        )
        out.table[seats] = rest.table[order, :n_features]
        out.label[seats] = rest.label[order]
        out.sure[seats] = rest.sure[order, :n_features]
        out.within[seats] = rest.within[order, :n_features]
        out.label_sure[seats] = rest.label_sure[order]
        out.proved[seats] = rest.proved[order]
        self._write(out)
        return out

    def _like_the_known(self, n_rows: int) -> Filled:
        """Rows of which no count speaks: the known row that shares most with the others."""
        share = np.empty((len(self.rows), self.release.n_features + 1))
        for i, column in enumerate([*self.rows.T, self.row_labels]):
            number = numbered(column[:, None])
            share[:, i] = np.bincount(number)[number] / len(self.rows)
        best = int(share.sum(axis=1).argmax())
        sure = np.clip(share[best], 1e-3, MOST_SURE)
        return Filled(
            np.tile(self.rows[best], (n_rows, 1)),
            np.full(n_rows, self.row_labels[best]),
            np.tile(sure[:-1], (n_rows, 1)),
            np.ones((n_rows, len(sure) - 1)),
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
        at = self.at[self.has_place]
        out.table[at], out.label[at] = self.rows[self.has_place], self.row_labels[self.has_place]
        out.sure[at], out.label_sure[at], out.proved[at] = 1.0, 1.0, True
        position = {c: i for i, c in enumerate(self.release.feature_names)}
        for attribute in self.schema.attributes:
            columns = np.array([position[c] for c in attribute.columns])
            free = columns[~np.isin(columns, self.columns)]
            if isinstance(attribute, OneHot) and 0 < len(free) < len(columns):
                # A row of which no count speaks can have come with another part.
                wrong = np.flatnonzero(~attribute.holds(out.table[:, columns]))
                out.table[np.ix_(wrong, free)] = 0.0
                wrong = wrong[~attribute.holds(out.table[np.ix_(wrong, columns)])]
                out.table[wrong, free[0]] = 1.0

    def quality_notes(self, answer: Filled) -> tuple[str, ...]:
        """Say how many of the known rows without a place stand in an answer all the same."""
        unplaced = np.flatnonzero(~self.has_place)
        if not len(unplaced):
            return ()
        both = np.concatenate([self.rows[unplaced], answer.table[self.others]])
        labels = np.concatenate([self.row_labels[unplaced], answer.label[self.others]])
        group = numbered(np.column_stack([self.release.leaves(both), labels]))
        held = [np.bincount(g, minlength=group.max() + 1) for g in np.split(group, [len(unplaced)])]
        return (
            f"{int(np.minimum(*held).sum())} of {len(unplaced)} known rows without a position are "
            "in the answer, on every value that the model's splits distinguish",
        )
