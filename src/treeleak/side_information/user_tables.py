"""Tables of known rows and columns, read and compared with the model; and which row is which.

Known columns become one attribute, and one more tree with a leaf for each of its values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from treeleak.core.arrays import FloatArray, IntArray, numbered
from treeleak.core.errors import BadInput
from treeleak.partition import Geometry
from treeleak.partition.atoms import rule_holds
from treeleak.release.growing import GrowingTree
from treeleak.release.pipeline.through import put_through
from treeleak.release.release import Release
from treeleak.release.statistics import QUANTITIES, UNTOLD, WEIGHTS, Statistics
from treeleak.release.tree import LEAF, Tree
from treeleak.schema import AtMost, Attribute, Joint, Linear, OneHot, Rule, Schema


class KnownTable:
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
        table = _put_through(release, table, what)
        names = [str(c) for c in table.columns]
        if len(set(names)) != len(names):
            twice = next(c for c in names if names.count(c) > 1)
            raise BadInput(f"{what}: column {twice!r} appears twice")
        position = {c: i for i, c in enumerate(release.feature_names)}
        model_columns = [i for i, c in enumerate(names) if c in position]
        beside = [i for i, c in enumerate(names) if c not in position]
        if len(beside) > 1 or (beside and not release.classes):
            most = "one, the label" if release.classes else "none, as it has no classes"
            raise BadInput(
                f"{what}: columns {[names[i] for i in beside]} are not columns of the model; "
                f"there may be {most}"
            )
        self.columns = np.array([position[names[i]] for i in model_columns], dtype=np.int64)
        values = [self._numbers(table.iloc[:, i], names[i]) for i in model_columns]
        self.values = np.column_stack([np.zeros((len(table), 0)), *values])
        self.labels = self._classes(table.iloc[:, beside[0]], release) if beside else None
        self._check(schema, {c: i for i, c in enumerate(names[i] for i in model_columns)})

    def whole(self, release: Release) -> FloatArray:
        """All columns of the model, in its order; refuses a table that lacks one."""
        absent = np.setdiff1d(np.arange(release.n_features), self.columns)
        if len(absent):
            raise BadInput(f"{self.what} lack column {release.feature_names[absent[0]]!r}")
        return self.values[:, np.argsort(self.columns)]

    def row(self, k: int) -> str:
        """Name a row, by its index unless that may be a person's name."""
        label = self.index[k]
        return f"{self.what}, row {label if isinstance(label, int) else k}"

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
                f"{self.row(k)}: column {series.name!r} is not a column of the model, so it was "
                "taken for the label; but it holds values that are not among the classes "
                f"{', '.join(map(repr, release.classes[:10]))}"
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
            by_column = {c: self.values[:, at[c]] for c in rule.columns}
            good = rule_holds(rule, by_column)
            if not good.all():
                raise BadInput(
                    f"{self.row(int(np.argmin(good)))} breaks the {rule.kind!r} rule over columns "
                    f"{list(rule.columns)}"
                )


def _put_through(release: Release, table: pd.DataFrame, what: str) -> pd.DataFrame:
    """Put rows in the columns of a pipeline's input through its steps; a label stays beside."""
    rows, done = put_through(release, table, what)
    if not done or release.inputs is None:
        return table
    others = [c for c in table.columns if str(c) not in release.inputs.names]
    joined: pd.DataFrame = rows.join(table[others])
    return joined


def positions(table: pd.DataFrame, n_rows: int) -> IntArray:
    """Places of known rows in the training set, -1 where the index does not name them."""
    if table.index.name != "row":
        return np.full(len(table), -1, dtype=np.int64)
    labels = table.index.tolist()
    for label in labels:
        if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label < n_rows:
            raise BadInput(
                f"known_rows: the index is named 'row', but {label!r} is not a position from 0 to "
                f"{n_rows - 1}"
            )
    if len(set(labels)) != len(labels):
        twice = next(k for k in labels if labels.count(k) > 1)
        raise BadInput(f"known_rows: position {twice} appears twice")
    return np.array(labels, dtype=np.int64)


def matched(
    rows: FloatArray,
    row_labels: IntArray,
    columns: IntArray,
    values: FloatArray,
    labels: IntArray | None,
    at: IntArray,
    read: KnownTable,
    ordered: bool,
) -> IntArray:
    """Find the row of the known columns that each known row is, a different one for each."""
    both = np.concatenate([rows[:, columns], values])
    if labels is not None:
        both = np.column_stack([both, np.concatenate([row_labels, labels])])
    number = numbered(both)
    row_numbers, theirs = number[: len(rows)], number[len(rows) :]
    out = at.copy()
    free = np.ones(len(values), dtype=bool)
    free[at[at >= 0]] = False
    room = np.bincount(theirs[free], minlength=len(both))
    for k, group in enumerate(row_numbers):
        if at[k] >= 0 and theirs[at[k]] != group:
            raise BadInput(f"{read.row(k)} does not fit row {at[k]} of known_columns")
        if at[k] < 0:
            fits = np.flatnonzero(free & (theirs == group))
            if not len(fits):
                raise BadInput(f"{read.row(k)} fits none of the remaining rows of known_columns")
            # Rows of equal known parts are alike, but for their draws.
            out[k] = fits[0] if not ordered or room[group] == 1 else -1
            free[fits[0]] = False
    return out


PART = "known part"
"""Name of the attribute that the known columns become, and of the column that numbers it."""


def joint_geometry(
    release: Release,
    schema: Schema,
    members: tuple[str, ...],
    values: FloatArray,
    size: IntArray,
    label: IntArray | None,
) -> Geometry:
    """Compile a release with the known columns as one attribute, and a tree that counts its values.

    ``release``: it gets one column more, the number of the known part. ``members``: the known
    columns. ``values``, shape (n_parts, n_columns): the different known parts of rows. ``size``,
    shape (n_parts,): rows that have each of them. ``label``, shape (n_parts,): their classes, where
    known.
    """
    names, number = release.feature_names, PART
    while number in {*names, *(a.name for a in schema.attributes)}:
        number += "_"
    owner = {c: a for a in schema.attributes for c in a.columns}
    table = np.column_stack([values, np.arange(len(values))])
    joint = Joint(number, tuple(owner[c] for c in members), (*members, number), table)
    rest, rules = _rest(schema, set(members))
    tree = part_tree(len(names), size, label if release.classes else None, len(release.classes))
    trees, quantity = release.trees, QUANTITIES[release.counts_are]
    if quantity == UNTOLD:
        # What such a release counts by class is not used; what is known of the labels is.
        trees, quantity = tuple(t.with_counts(counts=None) for t in trees), WEIGHTS
    tree = tree.with_counts(quantity)
    wider = replace(release, trees=(*trees, tree), feature_names=(*names, number))
    return Geometry.of(wider, Schema((joint, *rest), rules))


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


def part_tree(column: int, size: IntArray, label: IntArray | None, n_classes: int) -> Tree:
    """Make a tree whose leaf g holds the rows of part g. Its inner nodes count nothing."""
    growing = GrowingTree()
    todo = [(0, len(size), LEAF, 0)]
    while todo:
        begin, end, parent, side = todo.pop()
        middle = (begin + end) // 2
        if end - begin > 1:
            node = growing.add(column, middle - 0.5, parent, side)
            # The left half is next: leaves are numbered from left to right.
            todo += [(middle, end, node, 1), (begin, middle, node, 0)]
        else:
            growing.add(parent=parent, side=side)
    bare = growing.tree(Statistics())
    totals = np.zeros(bare.n_nodes)
    totals[bare.leaves] = size
    counts = None
    if label is not None:
        counts = np.zeros((bare.n_nodes, n_classes))
        counts[bare.leaves, label] = size
    return bare.with_counts(counts=counts, totals=totals)


def seated(seats: IntArray, parts: IntArray) -> IntArray:
    """Find a row for each seat, of the seat's part as far as there are any."""
    order = np.empty(len(seats), dtype=np.int64)
    taken = np.zeros(len(parts), dtype=bool)
    left = []
    rows_of: dict[int, list[int]] = {}
    for i in range(len(parts))[::-1]:
        rows_of.setdefault(int(parts[i]), []).append(i)
    for seat, part in enumerate(seats.tolist()):
        if candidates := rows_of.get(part):
            order[seat] = candidates.pop()
            taken[order[seat]] = True
        else:
            left.append(seat)
    order[left] = np.flatnonzero(~taken)
    return order
