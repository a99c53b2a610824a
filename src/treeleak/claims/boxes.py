"""Trees in whole numbers: what each node admits of each column, as a box.

Between two neighbouring thresholds of a column, all values go the same way in all trees. They are
one *atom*. Rows, tests and boxes are written in atoms, so that comparing boxes is exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treeleak.claims import kernels
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.private import dataclass, shows_no_value
from treeleak.release.bounds import MOST_CATEGORY
from treeleak.release.release import Release
from treeleak.release.tree import Tree

MOST_ATOMS = 62
"""Of a column that is tested for categories: a bit each, in a whole number of 64 bits."""
MISSING = np.int64(1) << MOST_ATOMS
"""The bit of a missing value."""
_MOST_BOXES = 60_000_000
"""Nodes times columns of which boxes are kept at a time."""


@shows_no_value
class Nodes(NamedTuple):
    """The nodes of all trees, one tree after the other, for compiled loops.

    A row goes left at node v where its atom of column ``feature[v]`` is at most ``code[v]``, or is
    one of the bits of ``members[v]`` where that is not negative.
    """

    feature: NDArray[np.int32]
    """Shape (n_nodes,). -1 at a leaf."""
    code: NDArray[np.int32]
    members: NDArray[np.int64]
    """-1 where a test is no test for categories."""
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    parent: NDArray[np.int32]
    """-1 at a root."""
    missing_left: BoolArray
    tree: NDArray[np.int32]
    """Which tree each node belongs to."""
    root: NDArray[np.int32]
    """Shape (n_trees + 1,). Where each tree begins."""
    special: NDArray[np.int32]
    """Shape (n_columns,). Place of a column among those that may be missing or are tested for
    categories; else -1."""
    top: NDArray[np.int32]
    """Shape (n_columns,). Greatest atom; -1 of columns that are tested for categories."""
    bits: NDArray[np.int64]
    """Shape (n_special,). All bits of such a column."""


@shows_no_value
class Boxes(NamedTuple):
    """Boxes: of each column the atoms from ``low`` to ``high``, and ``bits``."""

    low: NDArray[np.int32]
    """Shape (n_boxes, n_columns)."""
    high: NDArray[np.int32]
    bits: NDArray[np.int64]
    """Shape (n_boxes, n_special)."""

    def take(self, rows: Any) -> Boxes:
        """Keep some boxes."""
        return Boxes(self.low[rows], self.high[rows], self.bits[rows])

    def put(self, rows: Any, others: Boxes) -> None:
        """Write others in the place of some boxes."""
        self.low[rows], self.high[rows], self.bits[rows] = others

    def copy(self) -> Boxes:
        """Copy all."""
        return Boxes(self.low.copy(), self.high.copy(), self.bits.copy())


@dataclass(frozen=True, eq=False)
class Partition:
    """A release in atoms.

    Attributes
    ----------
    release : Release
    trees : tuple of int
        Those that are used, by their place in the release.
    nodes : Nodes
    cuts : tuple of float array
        Thresholds of each column.
    groups : mapping of int to tuple of array
        For columns that are tested for categories: the categories of each atom from 1 on. Atom 0
        is any other.
    """

    release: Release
    trees: tuple[int, ...]
    nodes: Nodes
    cuts: tuple[FloatArray, ...]
    groups: dict[int, tuple[IntArray, ...]]

    @property
    def leaves(self) -> IntArray:
        """The leaves of all trees."""
        return np.flatnonzero(self.nodes.feature < 0)

    def fits(self, n: int) -> bool:
        """Whether boxes of so many nodes may be kept."""
        return n * self.release.n_features <= _MOST_BOXES

    def boxes(self, nodes: IntArray) -> Boxes:
        """Write what nodes admit."""
        return Boxes(*kernels.boxes(self.nodes, np.asarray(nodes, dtype=np.int64)))

    def encode(self, X: NDArray[Any]) -> NDArray[np.int32]:
        """Write rows, in the columns of the model, in atoms; -1 where a value is missing."""
        with np.errstate(over="ignore"):
            rows = np.asarray(X, dtype=self.release.float_type)
        out = np.empty(rows.shape, dtype=np.int32)
        for c, cuts in enumerate(self.cuts):
            x = rows[:, c]
            missing = np.isnan(x)
            if c in self.groups:
                known = ~missing & (x >= 0) & (x < MOST_CATEGORY) & (x == np.floor(x))
                value = np.where(known, x, -1).astype(np.int64)
                out[:, c] = 0
                for atom, members in enumerate(self.groups[c], start=1):
                    out[np.isin(value, members), c] = atom
            else:
                out[:, c] = np.searchsorted(cuts, x.astype(float), side="left")
            out[missing, c] = -1
        return out

    def apply(self, rows: NDArray[np.int32]) -> IntArray:
        """Find the leaf of each row in each tree, shape (n_rows, n_trees)."""
        return np.asarray(kernels.apply(self.nodes, rows))


def partition_of(release: Release, missing: frozenset[str] = frozenset()) -> Partition:
    """Write a release in atoms.

    Trees that test a column for too many different sets of categories are left out.

    Parameters
    ----------
    release : Release
    missing : frozenset of str
        Columns in which values may be missing, beside those that the release names.
    """
    groups: dict[int, tuple[IntArray, ...]] = {}
    refused: set[int] = set()
    for c, sets in enumerate(release.category_sets):
        if sets:
            atoms = _atoms(sets)
            (refused.add(c) if atoms is None else groups.update({c: atoms}))
    cuts = tuple(np.unique(x) for x in release.thresholds)
    refused |= {c for c in groups if len(cuts[c])}
    used = [t for t, tree in enumerate(release.trees) if not refused & set(tree.feature.tolist())]
    may_miss = release.maybe_missing | missing
    special = np.full(release.n_features, -1, dtype=np.int32)
    top = np.array([len(x) for x in cuts], dtype=np.int32)
    bits: list[int] = []
    for c, name in enumerate(release.feature_names):
        if c in groups or name in may_miss:
            special[c] = len(bits)
            atoms_of_column = (1 << (len(groups[c]) + 1)) - 1 if c in groups else 0
            bits.append(atoms_of_column | (int(MISSING) if name in may_miss else 0))
        if c in groups:
            top[c] = -1
    parts = [_of_tree(release, release.trees[t], cuts, groups) for t in used]
    starts = np.cumsum([0, *(len(p[0]) for p in parts)])
    shift = np.repeat(starts[:-1], np.diff(starts))

    def joined(k: int, dtype: Any) -> NDArray[Any]:
        return np.concatenate([np.zeros(0, dtype), *(p[k] for p in parts)]).astype(dtype)

    def moved(k: int) -> NDArray[np.int32]:
        links = joined(k, np.int64)
        return np.where(links < 0, -1, links + shift).astype(np.int32)

    nodes = Nodes(
        joined(0, np.int32), joined(1, np.int32), joined(2, np.int64), moved(3), moved(4),
        moved(5), joined(6, np.bool_), np.repeat(np.arange(len(parts)), np.diff(starts)).astype(
            np.int32
        ), starts.astype(np.int32), special, top, np.array(bits, dtype=np.int64),
    )  # fmt: skip
    return Partition(release, tuple(used), nodes, cuts, groups)


def _atoms(sets: tuple[IntArray, ...]) -> tuple[IntArray, ...] | None:
    """Group categories that no set tells apart; None if there are too many groups."""
    named = np.unique(np.concatenate(sets))
    within = np.array([np.isin(named, members) for members in sets]).T
    _, group = np.unique(within, axis=0, return_inverse=True)
    n = int(group.max()) + 1
    if n + 1 > MOST_ATOMS:
        return None
    return tuple(named[group.ravel() == g] for g in range(n))


def _of_tree(
    release: Release,
    tree: Tree,
    cuts: tuple[FloatArray, ...],
    groups: dict[int, tuple[IntArray, ...]],
) -> tuple[NDArray[Any], ...]:
    at = tree.cuts(release.float_type)
    code = np.zeros(tree.n_nodes, dtype=np.int64)
    members = np.full(tree.n_nodes, -1, dtype=np.int64)
    for c in np.unique(tree.feature[~tree.is_leaf]):
        if c not in groups:
            tests = tree.feature == c
            code[tests] = np.searchsorted(cuts[c], at[tests])
    for node, held in {} if tree.categories is None else tree.categories.by_node.items():
        atoms = groups[int(tree.feature[node])]
        members[node] = sum(
            1 << atom for atom, group in enumerate(atoms, start=1) if np.isin(group[0], held)
        )
    parent = tree.parent
    return tree.feature, code, members, tree.left, tree.right, parent, tree.missing_left


_ROUNDS = 30
_MOST_LEAVES = 50_000
_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class Prior:
    """The share of people in each atom of each column.

    Attributes
    ----------
    source : {"control", "counts"}
        Whether from rows of the population, or fitted to what the leaves count.
    shares : tuple of float array
        By atom; the last entry is the share of missing values.
    """

    source: str
    shares: tuple[FloatArray, ...]

    def weight(self, partition: Partition, boxes: Boxes) -> FloatArray:
        """Probability that a person lies in each box."""
        nodes, total = partition.nodes, np.ones(len(boxes.low))
        for c, share in enumerate(self.shares):
            total *= _within(share, c, nodes, boxes)
        return total


def _within(share: FloatArray, c: int, nodes: Any, boxes: Boxes) -> FloatArray:
    below = np.append(0.0, np.cumsum(share[:-1]))
    here = np.zeros(len(boxes.low))
    if nodes.top[c] >= 0:
        high = np.maximum(boxes.high[:, c] + 1, boxes.low[:, c])
        here = below[high] - below[boxes.low[:, c]]
    if (s := nodes.special[c]) >= 0:
        bits = boxes.bits[:, s]
        here = here + np.where(bits & MISSING, share[-1], 0.0)
        if nodes.top[c] < 0:
            for atom, p in enumerate(share[:-1]):
                here += np.where((bits >> atom) & 1, p, 0.0)
    return here


def prior_of_rows(partition: Partition, rows: NDArray[np.int32]) -> Prior:
    """Count rows of the population; each atom gets a part of one row more."""
    shares = []
    for c, n in enumerate(_atoms_of_columns(partition)):
        # A missing value, -1, is the last.
        count = np.bincount(rows[:, c] % (n + 1), minlength=n + 1) + 1 / (n + 1)
        if not _may_miss(partition, c):
            count[-1] = 0.0
        shares.append(count / count.sum())
    return Prior("control", tuple(shares))


def prior_of_counts(partition: Partition, people: IntArray, seed: int) -> Prior:
    """Fit the shares to the counts of leaves.

    A leaf says of each person in it between which ends a column lies: an interval-censored
    observation. Of each column, this is the self-consistent estimate (Turnbull 1976) from all of
    them, which is right if columns are independent; a part of the leaves, drawn at random, stands
    for more than 50,000. It starts from equal shares of the atoms.
    """
    leaves = partition.leaves
    leaves = leaves[people[leaves] > 0]
    if len(leaves) > _MOST_LEAVES:
        leaves = np.random.default_rng(seed).choice(leaves, _MOST_LEAVES, replace=False)
    boxes, count = partition.boxes(leaves), people[leaves].astype(float)
    shares = []
    for c, n in enumerate(_atoms_of_columns(partition)):
        share = np.full(n + 1, 1.0 / (n + _may_miss(partition, c)))
        if not _may_miss(partition, c):
            share[-1] = 0.0
        for _ in range(_ROUNDS if len(leaves) and n > 1 else 0):
            each = count / np.maximum(_within(share, c, partition.nodes, boxes), _LEAST)
            expected = share * _spread(each, c, n, partition.nodes, boxes)
            share = expected / expected.sum()
        shares.append(share)
    return Prior("counts", tuple(shares))


def _spread(each: FloatArray, c: int, n: int, nodes: Any, boxes: Boxes) -> FloatArray:
    """Add up, for each atom, what the boxes that hold it have of each."""
    out = np.zeros(n + 1)
    if nodes.top[c] >= 0:
        some = boxes.low[:, c] <= boxes.high[:, c]
        out += np.bincount(boxes.low[some, c], each[some], n + 1)
        out -= np.bincount(boxes.high[some, c] + 1, each[some], n + 1)
        out = np.maximum(np.cumsum(out), 0.0)
        out[-1] = 0.0
    if (s := nodes.special[c]) >= 0:
        bits = boxes.bits[:, s]
        out[-1] = each[(bits & MISSING) != 0].sum()
        for atom in range(n if nodes.top[c] < 0 else 0):
            out[atom] = each[((bits >> atom) & 1) != 0].sum()
    return out


def _atoms_of_columns(partition: Partition) -> list[int]:
    """Atoms of each column."""
    return [
        len(partition.groups[c]) + 1 if c in partition.groups else len(cuts) + 1
        for c, cuts in enumerate(partition.cuts)
    ]


def _may_miss(partition: Partition, c: int) -> bool:
    s = partition.nodes.special[c]
    return bool(s >= 0 and (partition.nodes.bits[s] >> MOST_ATOMS) & 1)
