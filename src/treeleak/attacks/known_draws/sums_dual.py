"""Maximum entropy over the cells of numbered rows, through its smooth dual, for sums in leaves.

Let u_kjc be the probability that row k lies in cell j and is of class c. Among the u whose expected
sums are those of the leaves, the one of maximum entropy is u_kjc ~ exp(sum over trees t of b_tk sum
over statements s of lambda_s a_sjct), with b_tk = 1 where tree t drew row k, and a_sjct what such a
row counts in the leaf of its cell: 1, the second derivative of the loss, or the first. The dual,
the sum of the log-normalisers minus lambda times the sums, is convex and smooth, and never below 0
if any rows meet all sums. The scores of all rows in all cells are a product of two matrices.

Sums of one leaf say nearly the same. So multipliers are measured in coordinates in which the sums
of a leaf vary alone and alike: a preconditioner of blocks of one leaf each (Nocedal and Wright,
Numerical Optimization, 2006, section 5.1).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from itertools import combinations_with_replacement, pairwise, product

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.known_draws import sums_kernels as kernels
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.parallel import THREADS, Pool, run_all
from treeleak.core.private import dataclass
from treeleak.evidence import DrawnLossSums, LinearConstraints
from treeleak.partition import Partition

_ROOM = 2**26
"""Scores that are held at once, of all threads: 256 MiB."""
_LEAST_VARIANCE = 1e-2
"""Share of a statement's usual variance that it is taken to have at least."""
_ALONE = 0.5
"""Variance of a leaf's sum of each kind, beside what is open, in squares of what a row counts: sums
are those of whole rows, and say no more than this allows."""
_UNLIKELY, _INFINITE = 1e-4, 1e12
"""Probability of a kind that is no part of what a row is expected to count; and the variance of
sums that are not known."""
Singles = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class LeafSums:
    """Statements of one kind, by the leaves that they are about."""

    constraints: LinearConstraints
    place: IntArray
    """Shape (n_leaves,). Statement that each leaf has part in; -1 where none."""
    counts: tuple[Singles, ...]
    """For each class, shape (n_trees, n_cells): what a row of the cell counts."""

    @classmethod
    def of(
        cls, constraints: LinearConstraints, leaf: NDArray[np.int32], n_leaves: int, n_classes: int
    ) -> LeafSums:
        """Say what rows of all cells count; ``leaf``, shape (n_cells, n_trees)."""
        place = np.arange(n_leaves) if constraints.place is None else constraints.place
        place = np.where(place < len(constraints.right), place, -1)
        counts = list[Singles]()
        for c in range(n_classes):
            if c and not constraints.by_label:
                counts.append(counts[0])
                continue
            each = np.ones(leaf.shape)
            if constraints.counts is not None:
                each = constraints.counts(leaf, np.full(len(leaf), c, dtype=np.int64))
            counts.append(np.ascontiguousarray(each.T, dtype=np.float32))
        return cls(constraints, place, tuple(counts))

    def only(self, keep: BoolArray) -> LeafSums:
        """Some of the cells."""
        shared = {id(each): np.ascontiguousarray(each[:, keep]) for each in self.counts}
        return replace(self, counts=tuple(shared[id(each)] for each in self.counts))

    @property
    def alone(self) -> bool:
        """Whether each leaf has a statement of its own."""
        used = self.place[self.place >= 0]
        return len(np.unique(used)) == len(used)

    def at_leaves(self, numbers: FloatArray) -> FloatArray:
        """Numbers of the statements at their leaves; 0 where a leaf has none."""
        return np.where(self.place >= 0, numbers[self.place], 0.0)

    def of_statements(self, numbers: FloatArray) -> FloatArray:
        """Numbers of leaves, added up for each statement."""
        there, n = self.place >= 0, len(self.constraints.right)
        return np.bincount(self.place[there], numbers[there], n).astype(float)


@dataclass(frozen=True, eq=False)
class Look:
    """The dual at some multipliers."""

    value: float
    expected: FloatArray
    """Shape (n_statements,). Sums that are expected."""
    best: IntArray
    """Shape (n_rows,). Likeliest kind of each row: class times the number of cells, plus cell."""
    mass: FloatArray
    """Shape (n_kinds,). Rows expected of each kind."""


@dataclass(frozen=True, eq=False)
class Dual:
    """The dual over the kinds of rows: cells, with a class."""

    draws: Singles
    """Shape (n_trees, n_rows). 1 where a tree drew a row."""
    cell: IntArray
    """Shape (n_cells,). The cells that are left."""
    leaf: NDArray[np.int32]
    """Shape (n_trees, n_cells). Their leaves (rows of A)."""
    sums: tuple[LeafSums, ...]
    n_leaves: int
    n_classes: int
    reference: Singles | None = None
    """Shape (n_rows, n_kinds). What is added to the scores of rows; None: nothing."""

    @classmethod
    def of(cls, evidence: DrawnLossSums, partition: Partition) -> Dual:
        """Look at all cells."""
        leaf, n_classes = partition.signature, len(evidence.geometry.release.classes)
        n_leaves = int(evidence.geometry.leaf_start[-1])
        sums = [LeafSums.of(s, leaf, n_leaves, n_classes) for s in evidence.statements()]
        return cls(
            draws=(evidence.draws > 0).astype(np.float32),
            cell=np.arange(len(leaf)),
            leaf=np.ascontiguousarray(leaf.T),
            sums=tuple(sums),
            n_leaves=n_leaves,
            n_classes=n_classes,
        )

    @property
    def n_kinds(self) -> int:
        """Cells, times classes."""
        return self.n_classes * len(self.cell)

    @property
    def right(self) -> FloatArray:
        """Shape (n_statements,). What the leaves say."""
        return np.concatenate([s.constraints.right for s in self.sums]).astype(float)

    @property
    def scale(self) -> FloatArray:
        """Shape (n_statements,). By how much a sum changes, about, with other rows."""
        scales = [s.constraints.scale for s in self.sums]
        return np.concatenate([np.ones(0), *(s for s in scales if s is not None)])

    @cached_property
    def counts(self) -> Singles:
        """Shape (n_sums, n_classes, n_trees, n_cells). What rows of all kinds count in all sums."""
        return np.stack([np.stack(s.counts) for s in self.sums])

    def split(self, each: FloatArray) -> list[FloatArray]:
        """Share out numbers of all statements, shape (n_statements,), to kinds of them."""
        ends = np.cumsum([len(s.constraints.right) for s in self.sums])[:-1]
        return np.split(each, ends)

    def only(self, keep: BoolArray) -> Dual:
        """Look at some of the cells; ``keep``, shape (n_cells,)."""
        sums = tuple(s.only(keep) for s in self.sums)
        leaf = np.ascontiguousarray(self.leaf[:, keep])
        if self.reference is not None:
            raise ValueError("cells are left out before scores have a reference")
        return replace(self, cell=self.cell[keep], leaf=leaf, sums=sums)

    def scores(self, multipliers: FloatArray) -> Singles:
        """What each tree that drew a row adds to its score, shape (n_trees, n_kinds)."""
        out = np.zeros((len(self.leaf), self.n_kinds), dtype=np.float32)
        for part, sums in zip(self.split(multipliers), self.sums, strict=True):
            at_leaf = sums.at_leaves(part).astype(np.float32)[self.leaf]
            for c, counts in enumerate(sums.counts):
                self._of_class(out, c)[:] += at_leaf * counts
        return out

    def probabilities(self, score: Singles, rows: slice) -> tuple[Singles, FloatArray]:
        """Probability of each kind for some rows, shape (n, n_kinds), and their normalisers' logs.

        ``score``: see :meth:`scores`.
        """
        out = self.draws[:, rows].T @ score
        if self.reference is not None:
            out += self.reference[rows]
        highest = out.max(axis=1, keepdims=True)
        out -= highest
        np.exp(out, out=out)
        total = out.sum(axis=1, keepdims=True)
        out /= total
        return out, (np.log(total.astype(float)) + highest)[:, 0]

    def look(self, multipliers: FloatArray, pool: Pool) -> Look:
        """Evaluate the dual."""
        score = self.scores(multipliers)

        def some(rows: slice) -> tuple[float, IntArray, FloatArray, Singles]:
            u, log_z = self.probabilities(score, rows)
            mass = u.sum(axis=0, dtype=float)
            return float(log_z.sum()), u.argmax(axis=1), mass, self.draws[:, rows] @ u

        done = run_all([partial(some, rows) for rows in self.blocks()], pool=pool)
        values, best, mass, drawn = zip(*done, strict=True)
        value = sum(values) - float(multipliers @ self.right)
        together = np.sum(drawn, axis=0)
        expected = [s.of_statements(self._summed(together, s.counts)) for s in self.sums]
        return Look(value, np.concatenate(expected), np.concatenate(best), np.sum(mass, axis=0))

    def coordinates(self, multipliers: FloatArray, pool: Pool) -> Coordinates:
        """Measure multipliers anew, by how sums vary as if kinds of a row were independent."""
        score, n = self.scores(multipliers), len(self.sums)

        def some(rows: slice) -> Singles:
            u, _ = self.probabilities(score, rows)
            u *= 1.0 - u
            return self.draws[:, rows] @ u

        done = run_all([partial(some, rows) for rows in self.blocks()], pool=pool)
        drawn = np.sum(done, axis=0)
        covariance = np.zeros((n, n, self.n_leaves))
        for a, b in combinations_with_replacement(range(n), 2):
            both = self._summed(drawn, self.sums[a].counts, self.sums[b].counts)
            covariance[a, b] = covariance[b, a] = both
        return Coordinates.of(self, covariance.transpose(2, 0, 1))

    def reaction(self, multipliers: FloatArray, pool: Pool) -> Singles:
        """What the sums say of each kind once a row's own share in them is taken out.

        Maximum entropy asks that expected sums match, and forgets that a row is of one kind only.
        With a normal law for the other rows, of covariance S in a leaf, what a row counts there, a,
        adds a' S^-1 (m - a / 2) to its score, where m is what it is expected to count: the reaction
        term of the mean-field theory of Thouless, Anderson and Palmer (and of approximate message
        passing). Returns an array of shape (n_rows, n_kinds), its mean in each row taken out.
        """
        score, n_rows = self.scores(multipliers), self.draws.shape[1]
        u = np.concatenate([self.probabilities(score, rows)[0] for rows in self.blocks()])
        counts = self.counts
        covariance = np.zeros((self.n_leaves, len(self.sums), len(self.sums)))
        fixed = self.leaf, counts, self.draws, u
        jobs = [
            partial(kernels.add_spread, *fixed, a, b, _UNLIKELY, covariance)
            for a, b in pairwise(self._ends(len(self.leaf)))
        ]
        run_all(jobs, pool=pool)
        least = _ALONE * np.square(counts, dtype=float).mean(axis=(1, 2, 3))
        for a, sums in enumerate(self.sums):
            covariance[:, a, a] += least[a]
            outside = sums.place < 0
            covariance[outside, a, :] = covariance[outside, :, a] = 0.0
            covariance[outside, a, a] = _INFINITE
        precision = np.linalg.inv(covariance)
        out = np.zeros((n_rows, self.n_kinds), dtype=np.float32)
        jobs = [
            partial(kernels.add_reaction, *fixed, precision, np.arange(a, b), _UNLIKELY, out)
            for a, b in pairwise(self._ends(n_rows))
        ]
        run_all(jobs, pool=pool)
        squares = np.zeros((len(self.leaf), self.n_kinds), dtype=np.float32)
        for c in range(self.n_classes):
            each = counts[:, c].transpose(1, 2, 0)
            self._of_class(squares, c)[:] = np.einsum(
                "tja,tjab,tjb->tj", each, precision[self.leaf], each, optimize=True
            )
        out -= 0.5 * (self.draws.T @ squares)
        out -= (out * u).sum(axis=1, keepdims=True)
        return out

    def costs(self, best: IntArray, pool: Pool) -> Singles:
        """How far sums are from what leaves say if one row were of another kind.

        ``best``, shape (n_rows,): kinds of all rows. Returns an array of shape (n_rows, n_kinds),
        in squares of the usual deviations of sums, up to a number for each row.
        """
        n_rows, counts = len(best), self.counts
        u = np.zeros((n_rows, self.n_kinds), dtype=np.float32)
        u[np.arange(n_rows), best] = 1.0
        drawn, weight = self.draws @ u, np.zeros((self.n_leaves, len(self.sums)))
        off = np.zeros_like(weight)
        for a, (sums, scale) in enumerate(zip(self.sums, self.split(self.scale), strict=True)):
            held = sums.of_statements(self._summed(drawn, sums.counts))
            off[:, a] = sums.at_leaves(held - sums.constraints.right)
            weight[:, a] = sums.at_leaves(1.0 / scale**2)
        added = np.zeros((len(self.leaf), self.n_kinds), dtype=np.float32)
        for a, c in product(range(len(self.sums)), range(self.n_classes)):
            each = counts[a, c]
            more = weight[self.leaf, a] * each * (2 * off[self.leaf, a] + each)
            self._of_class(added, c)[:] += more
        # A row that stays in its leaf is there once.
        twice = np.zeros((n_rows, self.n_kinds), dtype=np.float32)
        precision = weight[:, :, None] * np.eye(len(self.sums))
        jobs = [
            partial(
                kernels.add_reaction, self.leaf, counts, self.draws, u, precision,
                np.arange(first, last), 0.5, twice,
            )
            for first, last in pairwise(self._ends(n_rows))
        ]  # fmt: skip
        run_all(jobs, pool=pool)
        return np.asarray(self.draws.T @ added - 2.0 * twice)

    def blocks(self) -> list[slice]:
        """Rows that are looked at together."""
        n_rows = self.draws.shape[1]
        size = max(min(_ROOM // (THREADS * self.n_kinds), -(-n_rows // THREADS)), 1)
        return [slice(first, min(first + size, n_rows)) for first in range(0, n_rows, size)]

    def _of_class(self, of_kinds: Singles, c: int) -> Singles:
        return of_kinds[:, c * len(self.cell) : (c + 1) * len(self.cell)]

    @staticmethod
    def _ends(n: int) -> list[int]:
        """Where the share of each thread ends."""
        return [n * k // THREADS for k in range(THREADS + 1)]

    def _summed(self, drawn: Singles, *counts: tuple[Singles, ...]) -> FloatArray:
        """Add up over the leaves what rows count, or products of it, shape (n_leaves,).

        ``drawn``, shape (n_trees, n_kinds): rows expected of each kind that the tree drew.
        """
        out = np.zeros(self.n_leaves)
        for t, leaf in enumerate(self.leaf):
            weight = drawn[t].reshape(self.n_classes, -1)
            for each in counts:
                weight = weight * np.stack([of_class[t] for of_class in each])
            out += np.bincount(np.tile(leaf, self.n_classes), weight.ravel(), self.n_leaves)
        return out


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Multipliers x = M y in which all sums vary about alike, and those of a leaf alone."""

    alone: FloatArray
    """Shape (n_statements,). One by the standard deviation of each sum."""
    statement: IntArray
    """Shape (n_leaves, n_kinds). Statements in blocks of one leaf; -1 where there is none."""
    whiten: FloatArray
    """Shape (n_leaves, n_kinds, n_kinds). The inverse of the Cholesky factor of each block."""

    @classmethod
    def of(cls, dual: Dual, covariance: FloatArray) -> Coordinates:
        """``covariance``, shape (n_leaves, n_kinds, n_kinds): of all sums of each leaf."""
        usual = _LEAST_VARIANCE * dual.scale**2
        first = np.cumsum([0, *(len(s.constraints.right) for s in dual.sums)])[:-1]
        statement = np.full(covariance.shape[:2], -1)
        variance = []
        covariance = covariance.copy()
        for a, (sums, least) in enumerate(zip(dual.sums, dual.split(usual), strict=True)):
            variance.append(np.maximum(sums.of_statements(covariance[:, a, a]), least))
            covariance[:, a, a] += sums.at_leaves(least)
            if sums.alone:
                statement[:, a] = np.where(sums.place >= 0, first[a] + sums.place, -1)
            outside = statement[:, a] < 0
            covariance[outside, a, :] = covariance[outside, :, a] = 0.0
            covariance[outside, a, a] = 1.0
        whiten = np.linalg.inv(np.linalg.cholesky(covariance))
        return cls(1.0 / np.sqrt(np.concatenate(variance)), statement, whiten)

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Compute x."""
        out, there = y * self.alone, self.statement >= 0
        block = np.where(there, y[self.statement], 0.0)
        out[self.statement[there]] = np.einsum("lba,lb->la", self.whiten, block)[there]
        return out

    def gradient(self, g: FloatArray) -> FloatArray:
        """Compute the gradient in y from that in x."""
        out, there = g * self.alone, self.statement >= 0
        block = np.where(there, g[self.statement], 0.0)
        out[self.statement[there]] = np.einsum("lab,lb->la", self.whiten, block)[there]
        return out

    def from_multipliers(self, x: FloatArray) -> FloatArray:
        """Compute y."""
        out, there = x / self.alone, self.statement >= 0
        block = np.where(there, x[self.statement], 0.0)
        solved = np.linalg.solve(self.whiten.transpose(0, 2, 1), block[:, :, None])[:, :, 0]
        out[self.statement[there]] = solved[there]
        return out
