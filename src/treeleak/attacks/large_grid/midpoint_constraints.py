"""What thresholds say of rows, laid out for walks: each is the middle of two of their values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.large_grid.midpoint_kernels import Splits, Standing, stand
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.walkers import Walker
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.partition import Geometry
from treeleak.partition.value_index import ValueIndex
from treeleak.schema import Joint

_MOST_MEMBERS = 2**26
"""Words of rows as bits, over all nodes: 512 MiB a walk."""
_MOST_TESTED = 2**26
"""Pairs of a test and an atom of its column: 17 bytes each, and twice as much while laid out."""
_DOUBT, _OWN = 2.0, 0.8
"""Rows' worth of doubt in what rows of a class are like; the share of it that all rows decide."""
_ROUNDED = 1e-6
"""Part of a threshold by which the middle of two values may miss it."""


@dataclass(frozen=True, eq=False)
class MidpointConstraints:
    """The tests of a forest, as a walk between thresholds needs them."""

    splits: Splits
    values: ValueIndex
    """With finer atoms: of columns whose values are listed, each value is one. No count tells the
    values of an atom apart, but thresholds may."""
    atom: tuple[IntArray, ...]
    """Of each attribute, the atom of the geometry in which each finer one is."""
    rank: tuple[IntArray, ...]
    """Of each attribute, the rank of every finer atom."""
    tests: int
    """Number of nodes with a test."""

    @property
    def listed(self) -> IntArray:
        """Attributes whose ranks are values."""
        return np.flatnonzero([not part.intervals for part in self.values.parts])

    @classmethod
    def of(cls, constraints: RowConstraints, values: ValueIndex) -> MidpointConstraints | None:
        """Lay out a forest; None where thresholds say no more than counts, or there is no room."""
        if not say_more(constraints):
            return None
        geometry = constraints.geometry
        finer, atom = _refined(values)
        rank = tuple(_ranks(finer, a) for a in range(len(geometry.parts)))
        splits = _laid_out(geometry, constraints.masks.leaf, finer, atom, rank)
        return cls(splits, finer, atom, rank, int((geometry.compiled[1] >= 0).sum()))

    def standing(self, walker: Walker, seed: int) -> Standing:
        """Begin where a walker stands."""
        constraints, counts = walker.constraints, walker.counts
        residual = np.ascontiguousarray(counts.residual.T)
        n_nodes, n_rows = len(residual), len(walker.atoms)
        span = self._span(constraints)
        out = Standing(
            rank=np.column_stack(
                [
                    rank[np.searchsorted(atom, column)]
                    for rank, atom, column in zip(self.rank, self.atom, walker.atoms.T, strict=True)
                ]
            ).astype(np.int64),
            label=walker.rows.label.astype(np.int64),
            draws=counts.draws,
            span=span,
            open=np.flatnonzero((span[0] < span[1]).any(axis=1)),
            walls=counts.walls,
            members=np.zeros((n_nodes, -(-n_rows // 64)), dtype=np.uint64),
            greatest=np.zeros(n_nodes, dtype=np.int64),
            least=np.zeros(n_nodes, dtype=np.int64),
            broken=np.zeros(n_nodes, dtype=np.int64),
            residual=residual,
            distinct=constraints.distinct is not None,
            total=np.array([walker.rows.misfit[0], 0], dtype=np.int64),
            rng=np.random.default_rng(seed).integers(1, 2**63, size=1, dtype=np.uint64),
        )
        stand(self.splits, out)
        return out

    def _span(self, constraints: RowConstraints) -> IntArray:
        """Lowest and highest rank that rows may have, shape (2, n_rows, n_attributes)."""
        out = np.zeros((2, constraints.n_rows, len(self.rank)), dtype=np.int64)
        out[1] = self.splits.radix - 1
        for a, (rank, atom) in enumerate(zip(self.rank, self.atom, strict=True)):
            if constraints.span is not None and (np.diff(rank) > 0).all():
                low, high = constraints.span[:, :, a]
                out[0, :, a] = np.searchsorted(atom, low)
                out[1, :, a] = np.searchsorted(atom, high, side="right") - 1
        return out

    def log_share(self, s: Standing, n_classes: int) -> FloatArray:
        """Say how common ranks are among the rows of each class; (n_classes, n_ranks)."""
        start, radix = self.splits.start, self.splits.radix
        at = (start + s.rank).ravel()
        size = int(radix.sum())
        label = np.repeat(s.label, s.rank.shape[1])
        times = np.bincount(label * size + at, minlength=n_classes * size).reshape(-1, size)
        of_all = np.bincount(at, minlength=size) / len(s.rank)
        pseudo_counts = _DOUBT * (_OWN * of_all + (1 - _OWN) / np.repeat(radix, radix))
        return np.asarray(np.log(times + pseudo_counts))

    def places(self, s: Standing) -> IntArray:
        """The rows as finer atoms, numbered over all attributes; the class last."""
        atoms = [np.argsort(r)[column] for r, column in zip(self.rank, s.rank.T, strict=True)]
        return np.column_stack([*atoms, s.label]) + self.values.atom_start[:-1]

    def misfit(self, places: IntArray, constraints: RowConstraints) -> int:
        """Counts that rows miss which are given as finer atoms."""
        atoms = self.atoms(places)
        return constraints.misfit(atoms[:, :-1].astype(np.int32), atoms[:, -1])

    def atoms(self, places: IntArray) -> IntArray:
        """Atoms of the geometry in which finer ones are; the class last."""
        offset = places - self.values.atom_start[:-1]
        atoms = [atom[x] for atom, x in zip(self.atom, offset[:, :-1].T, strict=True)]
        return np.column_stack([*atoms, offset[:, -1]])


def say_more(constraints: RowConstraints) -> bool:
    """Whether thresholds say more of rows than counts do, as far as there is room for it."""
    geometry = constraints.geometry
    words = -(-constraints.n_rows // 64) * len(constraints.masks.parent)
    return bool(
        geometry.release.thresholds_are == "midpoints"
        and (geometry.compiled[1] >= 0).any()
        and not constraints.open_label.any()
        and not (constraints.whole >= 0).any()
        and not any(isinstance(part.attribute, Joint) for part in geometry.parts)
        and constraints.n_rows
        and words <= _MOST_MEMBERS
        and int(geometry.radix[geometry.compiled[1][_tests(geometry)[0]]].sum()) <= _MOST_TESTED
    )


def _tests(geometry: Geometry) -> tuple[IntArray, IntArray]:
    """Find the different tests: a node of each, and the test of each inner node.

    Thresholds that part the atoms alike are different: a value may lie between them.
    """
    inner = np.flatnonzero(geometry.compiled[1] >= 0)
    threshold = np.concatenate([tree.threshold for tree in geometry.release.trees])[inner]
    asked = np.column_stack([geometry.compiled[2][inner], threshold.astype(float).view(np.int64)])
    _, node, test = np.unique(asked, axis=0, return_index=True, return_inverse=True)
    return inner[node], test.ravel()


def _refined(values: ValueIndex) -> tuple[ValueIndex, tuple[IntArray, ...]]:
    """Make each listed value of a column with tests an atom."""
    atoms, start = [], np.zeros(len(values.start), dtype=np.int64)
    atom_of = np.empty(values.n_values, dtype=np.int64)
    for a in range(len(values.start) - 1):
        columns = slice(values.start[a], values.start[a + 1])
        coarse = values.atom_of[columns] - values.atom_start[a]
        part = values.parts[a] if a < len(values.parts) else None
        finer = coarse
        if part is not None and len(part) > 1 and len(part.columns) == 1:
            finer = np.arange(len(coarse))
        start[a + 1] = start[a] + len(np.unique(finer))
        atom_of[columns] = start[a] + finer
        atoms.append(coarse[np.unique(finer, return_index=True)[1]])
    return replace(values, atom_start=start, atom_of=atom_of), tuple(atoms[:-1])


def _ranks(values: ValueIndex, a: int) -> IntArray:
    """Rank of each atom of an attribute among the values of its column."""
    first = values.first[values.atom_start[a] : values.atom_start[a + 1]] - values.start[a]
    out = np.arange(len(first))
    if len(values.parts[a].columns) == 1:
        out[np.argsort(values.table(a)[first, 0], kind="stable")] = np.arange(len(first))
    return out


def _laid_out(
    geometry: Geometry,
    leaf: NDArray[np.int32],
    values: ValueIndex,
    atom: tuple[IntArray, ...],
    rank: tuple[IntArray, ...],
) -> Splits:
    root, attribute, begin, left, right, goes = geometry.compiled
    inner = attribute >= 0
    threshold = np.concatenate([tree.threshold for tree in geometry.release.trees])
    radix = np.array([len(r) for r in rank])
    ends = [_ends(values, a, rank[a]) for a in range(len(rank))]
    tables: list[tuple[IntArray, IntArray, IntArray]] = []
    of_test, test_of_node = _tests(geometry)
    for v in of_test.tolist():
        a, at = int(attribute[v]), int(begin[v])
        goes_by_rank = np.zeros(radix[a], dtype=bool)
        goes_by_rank[rank[a]] = goes[at + atom[a]]
        tables.append((goes_by_rank, *_fitting(*ends[a], 2.0 * threshold[v])))
    test_begin = np.append(0, np.cumsum(radix[attribute[of_test]]))[:-1]
    new_begin = np.zeros(len(begin), dtype=np.int64)
    new_begin[inner] = test_begin[test_of_node]
    goes_all, low, high = (np.concatenate([t[i] for t in tables]) for i in range(3))
    parent = np.full(len(attribute), -1)
    parent[left[inner]] = parent[right[inner]] = np.flatnonzero(inner)
    barrier_start, barrier_tree = _barriers(root, attribute, new_begin, goes_all, radix)
    return Splits(
        root=root.astype(np.int64),
        left=np.where(inner, left, -1).astype(np.int64),
        right=np.where(inner, right, -1).astype(np.int64),
        parent=parent,
        attribute=attribute.astype(np.int64),
        leaf=leaf,
        test=new_begin,
        goes=goes_all,
        low=low,
        high=high,
        radix=radix,
        start=np.append(0, np.cumsum(radix)[:-1]),
        barrier_start=barrier_start,
        barrier_tree=barrier_tree,
    )


def _ends(values: ValueIndex, a: int, rank: IntArray) -> tuple[FloatArray, FloatArray]:
    """Least and greatest value of each rank; NaN where values have no order or may be missing."""
    part = values.parts[a]
    out = np.full((2, len(rank)), np.nan)
    if len(part.columns) == 1:
        intervals = [atom.interval or (x, x) for atom in part.atoms for x in atom.values[:, 0]]
        if len(intervals) == len(rank):
            out[:, rank] = np.array(intervals).T
    return out[0], out[1]


def _fitting(least: FloatArray, most: FloatArray, doubled: float) -> tuple[IntArray, IntArray]:
    """For each rank on the left, which ranks on the right have the threshold in their middle."""
    n = len(least)
    if np.isnan(least).any() or np.isnan(most).any() or not np.isfinite(doubled):
        return np.zeros(n, dtype=np.int64), np.full(n, n - 1)
    off = _ROUNDED * max(abs(doubled), float(np.finfo(np.float32).tiny))
    first = np.searchsorted(most, doubled - most - off, side="left")
    last = np.searchsorted(least, doubled - least + off, side="right") - 1
    return first, last


def _barriers(
    root: IntArray, attribute: IntArray, begin: IntArray, goes: IntArray, radix: IntArray
) -> tuple[IntArray, IntArray]:
    """List the trees that tell each rank from the next one."""
    tree = np.searchsorted(root, np.arange(len(attribute)), side="right") - 1
    width = int(radix.max(initial=1)) + 1
    start = np.zeros((len(radix), width), dtype=np.int64)
    found: list[IntArray] = []
    for a, n in enumerate(radix.tolist()):
        nodes = np.flatnonzero(attribute == a)
        sides = goes[begin[nodes][:, None] + np.arange(n)]
        node, at = np.nonzero(sides[:, 1:] != sides[:, :-1])
        pairs = np.unique(np.column_stack([at, tree[nodes[node]]]), axis=0)
        ends = np.searchsorted(pairs[:, 0], np.arange(width))
        start[a] = sum(map(len, found)) + ends
        found.append(pairs[:, 1])
    return start, np.concatenate([*found, np.zeros(0, dtype=np.int64)])
