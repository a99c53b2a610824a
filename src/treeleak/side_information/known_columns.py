"""Known columns as one attribute, and one more tree with a leaf for each of its values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.partition import Geometry
from treeleak.release.growing import GrowingTree
from treeleak.release.release import Release
from treeleak.release.statistics import QUANTITIES, UNTOLD, WEIGHTS, Statistics
from treeleak.release.tree import LEAF, Tree
from treeleak.schema import AtMost, Attribute, Joint, Linear, OneHot, Rule, Schema

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
