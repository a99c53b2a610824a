"""What the order in which trees looked at columns says of rows whose leaves are known.

A leaf with several targets was not split, so that its rows are alike in every column: they are one
group. All rows of a group lie where their leaves meet, and any point there meets all counts. Only
which of several columns a node took tells these points apart.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from treeleak.attacks.known_draws.leaf_boxes import LeafBoxes
from treeleak.core.arrays import BoolArray, FloatArray, IntArray, equal_entries
from treeleak.core.private import dataclass
from treeleak.partition import Geometry
from treeleak.partition.atoms import rules_hold
from treeleak.release.draws import mt19937_kernels as mt
from treeleak.release.draws.column_order_kernels import LEAF, Paths, Splits
from treeleak.release.draws.recompute import Draws
from treeleak.release.release import Release
from treeleak.release.splitting import Splitting
from treeleak.release.statistics import VARIANCE
from treeleak.release.tree import Tree

_PURE = float(np.finfo(float).eps)
"""Impurity up to which scikit-learn splits no node."""
MOST_ENTRIES = 2**23
"""Most triples of a node, a column and a target."""
_MOST_POINTS = 2**14
"""Most points of one group that are listed."""


@dataclass(frozen=True, eq=False)
class Group:
    """Rows that are alike, and where they may lie."""

    rows: IntArray
    atoms: IntArray
    """Shape (n_candidates, n_attributes). Atoms of each attribute, from 0."""
    ones: BoolArray
    """Shape (n_candidates, n_columns). Columns with a 1; a column that no tree tests has none: as
    none of its cuts was ever taken, all rows are taken to have one value there."""


def ones_of(geometry: Geometry, atoms: IntArray) -> BoolArray | None:
    """Say which columns of rows hold a 1; None where a tested column holds anything but 0 or 1.

    ``atoms``: shape (n_rows, n_attributes).
    """
    release = geometry.release
    out = np.zeros((len(atoms), release.n_features), dtype=bool)
    for a, part in enumerate(geometry.parts):
        tested = [len(release.thresholds[c]) > 0 for c in part.columns]
        values = part.representatives[:, tested]
        if not np.isin(values, (0.0, 1.0)).all():
            return None
        out[:, part.columns[tested]] = values[atoms[:, a]] == 1.0
    return out


def looked(
    release: Release, splitting: Splitting, drew: Draws, leaf: IntArray, y: FloatArray
) -> tuple[Splits, Paths, IntArray] | None:  # fmt: skip
    """List the nodes that looked for a cut, and number the groups of rows that are alike.

    Parameters
    ----------
    leaf : int array, shape (n_rows, n_trees)
        Leaf in which each row ends, by its number among those of the tree.
    y : float array, shape (n_rows, n_targets)

    Returns
    -------
    Splits, Paths, int array of shape (n_rows,)
        No row is entered yet. None where the seeds are not known, nodes do not stand in the order
        in which they were split, or there are too many.
    """
    seeds, draws = drew.seeds, drew.counts
    if seeds is None:
        return None
    entries, columns, parents, start, pairs = [], [], [], [0], []
    for t, tree in enumerate(release.trees):
        rows = np.flatnonzero(draws[t])
        at = tree.leaves[leaf[rows, t]]
        tried = _tried(tree, splitting, at)
        inner = np.flatnonzero(~tree.is_leaf)
        if tried is None or not (tree.left[inner] == inner + 1).all():
            return None
        row, node, _ = tree.passed(at)
        ends = np.flatnonzero(tried[at])
        row, node = np.append(row, ends), np.append(node, at[ends])
        number = start[-1] - 1 + np.cumsum(tried)
        above = np.full(tree.n_nodes, -1)
        for side in (tree.left, tree.right):
            above[side[inner]] = number[inner]
        start.append(int(start[-1] + tried.sum()))
        entries.append(np.array([rows[row], number[node], np.full(len(row), t)]))
        columns.append(np.where(tree.is_leaf, LEAF, tree.feature)[tried])
        parents.append(above[tried])
        for own in equal_entries(at[ends]):
            members = rows[ends[own]]
            pairs.append(np.array([np.full(len(members), members[0]), members]))
        if start[-1] * release.n_features * y.shape[1] > MOST_ENTRIES:
            return None
    row, node, tree_of = np.concatenate(entries, axis=1)
    order = np.argsort(row, kind="stable")
    row, node, tree_of = row[order], node[order], tree_of[order]
    times = draws[tree_of, row].astype(float)
    begin = np.searchsorted(row, np.arange(len(leaf) + 1))
    n_nodes, m, n_targets = start[-1], release.n_features, y.shape[1]
    total = [np.bincount(node, times * own[row], n_nodes) for own in y.T]
    splits = Splits(
        np.array(start), np.array([mt.tree_seeds(s, 1)[0] for s in seeds.tolist()]),
        np.concatenate(parents), np.concatenate(columns), splitting.most_columns,
        np.bincount(node, times, n_nodes).astype(float), np.column_stack(total),
        np.zeros((n_nodes, m)), np.zeros((n_nodes, m, n_targets)),
    )  # fmt: skip
    return splits, Paths(begin, node, tree_of, times), _joined(pairs, len(leaf))


def groups_of(
    geometry: Geometry, leaf: IntArray, draws: NDArray[np.unsignedinteger], alike: IntArray
) -> list[Group] | None:
    """List where groups of rows may lie, of all that some tree drew.

    ``leaf``, shape (n_rows, n_trees): leaves as rows of A. ``alike``, shape (n_rows,): number of
    the group. Returns None where some have too many places, or a column is not binary. A group has
    no candidate if its leaves have no point in common.
    """
    boxes, out, n_entries = LeafBoxes.of(geometry), list[Group](), 0
    for rows in equal_entries(alike):
        at, tree = np.nonzero(draws[:, rows].T)
        if not len(at):
            continue
        leaves = np.unique(leaf[rows[at], tree])[None, :].astype(np.int32)
        own = [np.flatnonzero(boxes.admitted(leaves, a)[0]) for a in range(len(geometry.parts))]
        if np.prod([float(len(held)) for held in own]) > _MOST_POINTS:
            return None
        atoms = np.array(list(product(*own)), dtype=np.int64).reshape(-1, len(own))
        atoms = atoms[rules_hold(geometry.schema.rules, geometry.parts, atoms)]
        ones, n_entries = ones_of(geometry, atoms), n_entries + atoms.size
        if ones is None or n_entries > MOST_ENTRIES:
            return None
        out.append(Group(rows, atoms, ones))
    return out


def _tried(tree: Tree, splitting: Splitting, at: IntArray) -> BoolArray | None:
    """Which nodes looked for a cut. ``at``: leaves of the rows that the tree drew."""
    variance = tree.statistics.get(VARIANCE)
    if variance is not None and variance.present is None:
        impure = variance.values > _PURE
    elif tree.counts is not None:
        impure = (tree.counts > 0).sum(axis=1) > 1
    else:
        return None
    many = np.bincount(at, minlength=tree.n_nodes) >= splitting.least_rows
    high = splitting.deepest is None or tree.depth < splitting.deepest
    return np.asarray(~tree.is_leaf | (impure & many & high))


def _joined(pairs: list[IntArray], n_rows: int) -> IntArray:
    """Number the groups of rows that pairs join."""
    first, second = np.concatenate([np.zeros((2, 0), dtype=np.int64), *pairs], axis=1)
    graph = coo_array((np.ones(len(first)), (first, second)), shape=(n_rows, n_rows))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)
