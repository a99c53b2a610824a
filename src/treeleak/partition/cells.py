"""Cells: points of feature space that no query of a release distinguishes.

A grid point is a choice of one atom per attribute. Points that reach the same leaf in every
tree form a cell; column j of the incidence matrix A is the cell's *signature*, the tuple of its
leaves. The partition holds signatures and points, never counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.errors import BadSchema, NotCovered
from treeleak.core.message import MessageTemplate
from treeleak.core.parallel import Pool
from treeleak.core.private import dataclass
from treeleak.core.text import short
from treeleak.partition.atoms import AttributeAtoms, atoms_of, rules_hold
from treeleak.partition.cell_kernels import mark_drawable, mark_open, signatures
from treeleak.release.release import Release
from treeleak.schema import Schema

MAX_GRID = 2**28
"""Largest grid that is enumerated, in points."""

MAX_FINE_GRID = 2**20
"""The same where a column has several intervals: of such grids, far more points stay alive."""

MAX_INCIDENCES = 2**28
"""Largest number of (cell, tree) pairs kept: 1 GiB of signatures."""

QUICK_GRID = 2**22
"""Points of a grid that is enumerated to the end even when the time is up."""

_CHUNK = 2**18
_FEW = 2
"""Intervals of a column that are no more than values of others."""


GRID = MessageTemplate(
    "grid_too_large",
    "the grid of thresholds has {points} points, at most {most:number} are enumerated",
)


class GridTooLarge(NotCovered):
    """The grid of thresholds has too many points to enumerate."""


@dataclass(frozen=True, eq=False)
class Geometry:
    """The trees of a release as seen from the atoms of a schema."""

    release: Release
    schema: Schema
    parts: tuple[AttributeAtoms, ...]
    """One per attribute of the schema."""
    radix: IntArray
    """Shape (n_attributes,). Atoms of each attribute. A grid point is a number in this mixed radix,
    the last attribute running fastest."""
    leaf_start: IntArray
    """Shape (n_trees + 1,). Where the leaves of each tree begin among those of all trees, which are
    the rows of A; those of a tree are in the order of :attr:`Tree.leaves`."""
    compiled: tuple[NDArray[Any], ...]
    """The flattened trees, for kernels that walk them. Per tree its root; per node the attribute
    that it tests (-1 at a leaf), where its test begins, and its children (a leaf keeps its row of A
    on the left); per test and atom, whether it goes left."""

    @classmethod
    def of(cls, release: Release, schema: Schema, known: Collection[str] = ()) -> Geometry:
        """Compile a release against a schema.

        Of ``known`` columns that hold few values, every value is an atom.

        Raises BadSchema if the schema does not fit the model's columns, or does not list the values
        of one that is tested for categories.
        """
        parts = atoms_of(schema.for_model(release.feature_names), release, known)
        radix = np.array([len(p) for p in parts], dtype=np.int64)
        return cls(release, schema, parts, radix, *_compile(release, parts))

    @property
    def n_points(self) -> int:
        """Points of the grid (exact)."""
        return math.prod(int(r) for r in self.radix)

    @cached_property
    def stride(self) -> IntArray:
        """Weight of each attribute's atom in the number of a grid point.

        Raises GridTooLarge if the points cannot be numbered: rows of atoms stand for them then.
        """
        if self.n_points > np.iinfo(np.int64).max:
            raise GridTooLarge(f"the {short(self.n_points)} points of the grid cannot be numbered")
        return np.append(np.cumprod(self.radix[::-1][:-1])[::-1], 1).astype(np.int64)

    @property
    def spanned(self) -> BoolArray:
        """Of which attributes there are atoms between points that are not listed: none."""
        return np.zeros(len(self.parts), dtype=bool)

    def atoms(self, points: IntArray) -> IntArray:
        """Atom of each attribute, shape (n_points, n_attributes)."""
        return points[:, None] // self.stride[None, :] % self.radix[None, :]

    def leaf_of_row(self, row: int) -> tuple[int, int]:
        """Tree and node number of a row of A."""
        t = int(np.searchsorted(self.leaf_start, row, side="right")) - 1
        return t, int(self.release.trees[t].leaves[row - self.leaf_start[t]])

    def trace(self, points: IntArray) -> NDArray[np.int32]:
        """Leaf of each point in every tree, as rows of A; shape (n_points, n_trees)."""
        return self.trace_atoms(self.atoms(points))

    def trace_atoms(self, atoms: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
        """Do the same for points given as atoms, shape (n_points, n_attributes)."""
        atoms = np.ascontiguousarray(atoms, dtype=np.int32)
        return np.asarray(signatures(atoms, self.compiled))


@dataclass(frozen=True, eq=False)
class Partition:
    """Cells and the grid points in them."""

    geometry: Geometry
    points: IntArray
    """Shape (n_points,). Grid points, ascending."""
    alive: BoolArray
    """Shape (n_points, n_classes). For which classes a row may lie there."""
    cell: IntArray
    """Shape (n_points,). Cell of each point."""
    signature: NDArray[np.int32]
    """Shape (n_cells, n_trees). Leaves of each cell, as rows of A."""

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.signature)

    @classmethod
    def of(cls, geometry: Geometry, points: IntArray, alive: BoolArray) -> Partition:
        """Group points into cells by equal signature."""
        order = np.argsort(points, kind="stable")
        points, alive = points[order], alive[order]
        n_trees = len(geometry.release.trees)
        if len(points) * max(n_trees, 1) > MAX_INCIDENCES:
            raise _too_many_live(len(points), geometry.n_points, n_trees)
        leaves = geometry.trace(points)
        first, cell = equal_rows(leaves)
        return cls(geometry, points, alive, cell, leaves[first])


@dataclass(frozen=True, eq=False)
class RowSets:
    """Which rows every leaf leaves open for a class."""

    sets: NDArray[np.uint64]
    """Shape (n_sets, n_words). Sets of rows: row k is bit ``k % 64`` of word ``k // 64``."""
    set_of: NDArray[np.int32]
    """Shape (n_leaves, n_classes). The set of each leaf (rows of A) and class."""


def enumerate_cells(
    geometry: Geometry, open_leaves: BoolArray, tick: Callable[[float], None] = lambda _: None
) -> Partition:
    """Enumerate the grid and keep the points that every tree leaves open for some class.

    ``open_leaves``, shape (n_leaves, n_classes): whether a row of the class may lie in the leaf
    (rows of A). ``tick``: called with the share done; what it raises ends the enumeration. Raises
    GridTooLarge, naming the size of the grid.
    """
    bits = _class_bits(open_leaves.shape[1])
    mask = np.where(open_leaves, bits[None, :], np.uint64(0)).sum(axis=1, dtype=np.uint64)
    everyone = np.uint64(bits.sum(dtype=np.uint64))
    return _enumerate(geometry, partial(_mark, mark_open, geometry, mask, everyone), bits, tick)


def enumerate_drawable(
    geometry: Geometry, rows: RowSets, tick: Callable[[float], None] = lambda _: None
) -> Partition:
    """Enumerate the grid and keep the points where every tree leaves the same row open.

    Parameters and errors as for :func:`enumerate_cells`.
    """
    bits = _class_bits(rows.set_of.shape[1])
    mark = partial(_mark, mark_drawable, geometry, rows.set_of, rows.sets)
    return _enumerate(geometry, mark, bits, tick)


def enumeration_tick(geometry: Geometry, clock: Clock) -> Callable[[float], None]:
    """Make the tick of an enumeration: it reports, and ends one that takes long when time is up.

    Raises OutOfTime: at once, or when the tick is called.
    """

    def tick(done: float) -> None:
        clock.report_progress("enumerating cells", done)
        if geometry.n_points > QUICK_GRID:
            clock.check()

    tick(0.0)
    return tick


def _mark(kernel: Any, geometry: Geometry, x: Any, y: Any, start: int, stop: int) -> Any:
    radix = geometry.radix.astype(np.int32)
    return kernel(start, stop, radix, x, y, geometry.compiled)


def _class_bits(n_classes: int) -> NDArray[np.uint64]:
    if n_classes > 64:
        raise NotCovered(f"{n_classes} classes; at most 64 are covered")
    return np.uint64(1) << np.arange(n_classes, dtype=np.uint64)


def _enumerate(
    geometry: Geometry,
    mark: Callable[[int, int], NDArray[np.uint64]],
    bits: NDArray[np.uint64],
    tick: Callable[[float], None],
) -> Partition:
    """Keep the grid points for which ``mark`` gives any class."""
    total = geometry.n_points
    fine = any(len(part) > _FEW and part.atoms[0].interval for part in geometry.parts)
    most = min(MAX_GRID, MAX_FINE_GRID) if fine else MAX_GRID
    if total > most:
        raise GridTooLarge(GRID(points=short(total), most=most))

    def chunk(start: int) -> tuple[IntArray, NDArray[np.uint64]]:
        stop = min(start + _CHUNK, total)
        marks = mark(start, stop)
        marked = np.flatnonzero(marks)
        points = marked + start
        if geometry.schema.rules and len(points):
            ok = rules_hold(geometry.schema.rules, geometry.parts, geometry.atoms(points))
            marked, points = marked[ok], points[ok]
        return points, marks[marked]

    found: list[tuple[IntArray, NDArray[np.uint64]]] = []
    held, most = 0, MAX_INCIDENCES // max(len(geometry.release.trees), 1)
    with Pool() as pool:
        for done, part in enumerate(pool.map(chunk, range(0, total, _CHUNK)), 1):
            found.append(part)
            held += len(part[0])
            if held > most:
                raise _too_many_live(held, total, len(geometry.release.trees))
            tick(min(1.0, done * _CHUNK / total))
    points = np.concatenate([p for p, _ in found])
    marks = np.concatenate([m for _, m in found])
    return Partition.of(geometry, points, (marks[:, None] & bits) != 0)


def _too_many_live(live: int, total: int, n_trees: int) -> GridTooLarge:
    return GridTooLarge(
        f"{live:,} or more of the {short(total)} points of the grid stay possible in {n_trees} "
        f"trees; treeleak holds at most {MAX_INCIDENCES:,} (point, tree) pairs"
    )


def _compile(
    release: Release, parts: Sequence[AttributeAtoms]
) -> tuple[IntArray, tuple[NDArray[Any], ...]]:
    """Flatten the trees; a node's test becomes a table over the atoms of its attribute."""
    sizes = [t.n_nodes for t in release.trees]
    root = np.cumsum([0, *sizes])
    leaf_start = np.cumsum([0, *(len(t.leaves) for t in release.trees)])
    if root[-1] >= 2**31:
        raise BadSchema("the forest has over 2^31 nodes")

    def joined(name: str, kind: type) -> NDArray[Any]:
        arrays = [getattr(t, name) for t in release.trees]
        return np.concatenate(arrays).astype(kind) if arrays else np.zeros(0, kind)

    is_leaf = joined("is_leaf", bool)
    inner = np.flatnonzero(~is_leaf)
    feature, missing = joined("feature", np.int64)[inner], joined("missing_left", bool)[inner]
    # One table per distinct (column, test, missing direction): trees share most tests.
    cuts = [t.cuts(release.float_type) for t in release.trees]
    threshold = np.concatenate([np.zeros(0), *cuts])[inner]
    values, rank = np.unique(threshold, return_inverse=True)
    set_of_node, sets = _category_sets(release)
    rank = np.where(set_of_node[inner] < 0, rank.ravel(), len(values) + set_of_node[inner])
    key = (feature * max(len(values) + len(sets), 1) + rank) * 2 + missing
    tests, example, test_of = np.unique(key, return_index=True, return_inverse=True)
    owner = {int(f): (a, i) for a, p in enumerate(parts) for i, f in enumerate(p.columns)}
    atoms = {f: parts[a].representatives[:, i].astype(release.float_type)
             for f, (a, i) in owner.items()}  # fmt: skip
    rows: list[NDArray[np.uint8]] = []
    start = np.zeros(len(tests), dtype=np.int64)
    steps: dict[int, int] = {}
    length = 0
    for k, node in enumerate(example):
        f, test = int(feature[node]), int(rank[node])
        x, a = atoms[f], owner[f][0]
        ordered = test < len(values)
        # NumPy 1 would round a scalar to the type of the values first.
        goes = x <= values[test : test + 1] if ordered else np.isin(x, sets[test - len(values)])
        left = np.where(np.isnan(x), missing[node], goes)
        lower = int(left.sum())
        if not left[:lower].all():
            start[k], added = length, left
        elif a not in steps:
            # Of tests that send the lower atoms left, each is a part of one step down: a table of
            # each would be as long as the square of their number.
            steps[a] = length + len(x)
            start[k], added = steps[a] - lower, np.repeat([1, 0], len(x))
        else:
            start[k] = steps[a] - lower
            continue
        rows.append(added.astype(np.uint8))
        length += len(added)
    if length >= 2**31:
        raise GridTooLarge(f"the tests of all values take a table of {length:,} entries")

    attribute = np.full(root[-1], -1, dtype=np.int32)
    owners = np.array([owner[f][0] for f in range(release.n_features)], dtype=np.int32)
    attribute[inner] = owners[feature]
    table = np.zeros(root[-1], dtype=np.int32)
    table[inner] = start[test_of.ravel()]
    offset = np.repeat(root[:-1], sizes)
    left = (joined("left", np.int64) + offset).astype(np.int32)
    right = (joined("right", np.int64) + offset).astype(np.int32)
    # A leaf keeps its row of A in place of its left child.
    left[is_leaf] = np.arange(leaf_start[-1])
    goes_left = np.concatenate(rows) if rows else np.zeros(1, dtype=np.uint8)
    return leaf_start, (root[:-1].astype(np.int32), attribute, table, left, right, goes_left)


def _category_sets(release: Release) -> tuple[IntArray, list[IntArray]]:
    """Number the sets of categories for which nodes ask; -1 for a node that asks for none."""
    numbers: dict[bytes, int] = {}
    sets: list[IntArray] = []
    set_of_node = [np.full(t.n_nodes, -1) for t in release.trees]
    for t, tree in enumerate(release.trees):
        for node, categories in () if tree.categories is None else tree.categories.by_node.items():
            set_of_node[t][node] = numbers.setdefault(categories.tobytes(), len(numbers))
            if len(numbers) > len(sets):
                sets.append(categories)
    return np.concatenate([np.zeros(0, dtype=np.int64), *set_of_node]), sets


def equal_rows(rows: NDArray[np.integer[Any]]) -> tuple[IntArray, IntArray]:
    """Group equal rows: first index of each group, and the group of each row."""
    # Hash each row, group by hash, and confirm that groups hold equal rows: np.unique(axis=0)
    # sorts whole rows and takes far longer.
    rng = np.random.default_rng(0x7EE1EA4)
    key = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.T:
        low = int(column.min(initial=0))
        span = int(column.max(initial=0)) - low + 1
        key += rng.integers(0, 2**64, size=span, dtype=np.uint64)[column - low]
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    group = group.ravel()
    if not np.array_equal(rows[first][group], rows):
        _, first, group = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        group = group.ravel()
    return first.astype(np.int64), group.astype(np.int64)
