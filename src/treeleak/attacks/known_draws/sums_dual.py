"""Maximum entropy over the cells of numbered rows, through its smooth dual, for sums in leaves.

Let u_kjc be the probability that row k lies in cell j and is of class c. Among the u whose expected
sums are those of the leaves, the one of maximum entropy is u_kjc ~ exp(sum over trees t of b_tk sum
over statements s of lambda_s a_sjct), with b_tk = 1 where tree t drew row k, and a_sjct what such a
row counts in the leaf of its cell: 1, the second derivative of the loss, or the first. The dual,
the sum of the log-normalisers minus lambda times the sums, is convex and smooth, and never below 0
if any rows meet all sums. The scores of all rows in all cells are a product of two matrices; once
most of them are unlikely, only those of the likely ones are worked out (:class:`Candidates`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain, pairwise, product
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.known_draws import sums_kernels as kernels
from treeleak.attacks.known_draws.leaf_sums import Coordinates, LeafSums, Singles
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.parallel import THREADS, Pool, run_all
from treeleak.core.private import dataclass
from treeleak.evidence import DrawnLossSums
from treeleak.partition import Partition

T = TypeVar("T")
_TILE = 2**18
"""Scores of all rows in some kinds that a thread holds at once: 1 MiB, which a core has near it."""
_ALONE = 0.5
"""Variance of a leaf's sum of each kind, beside what is open, in squares of what a row counts: sums
are those of whole rows, and say no more than this allows."""
_UNLIKELY, _INFINITE = 1e-4, 1e12
"""Probability of a kind that is no part of what a row is expected to count; and the variance of
sums that are not known."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Kinds that rows may be of, where not all are looked at."""

    start: IntArray
    """Shape (n_rows + 1,). First candidate of each row, and how many there are."""
    kind: NDArray[np.int32]
    """Shape (n_candidates,). Rising for each row."""
    reaction: Singles
    """Shape (n_candidates,). See :meth:`Dual.reaction`; added to scores."""

    @classmethod
    def of(cls, row: IntArray, kind: IntArray, n_rows: int) -> Candidates:
        """List candidates, shape (n_candidates,), in the order of rows and kinds."""
        start = np.searchsorted(row, np.arange(n_rows + 1))
        return cls(start, kind.astype(np.int32), np.zeros(len(kind), dtype=np.float32))

    def only(self, keep: BoolArray) -> Candidates:
        """Some of them; ``keep``, shape (n_candidates,)."""
        start = np.concatenate([[0], np.cumsum(keep)])[self.start]
        return replace(self, start=start, kind=self.kind[keep], reaction=self.reaction[keep])

    @property
    def row(self) -> IntArray:
        """Shape (n_candidates,). Row of each."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    def at(self, kind: IntArray) -> IntArray:
        """Candidate of each row that is of some kind, shape (n_rows,)."""
        return np.searchsorted(self._key, self._keys(np.arange(len(kind)), kind))

    def also(self, row: IntArray, kind: IntArray) -> Candidates:
        """These, and others."""
        key = np.concatenate([self._key, self._keys(row, kind)])
        _, first = np.unique(key, return_index=True)
        rows = np.append(self.row, row)[first]
        kinds: IntArray = np.append(self.kind, kind)[first].astype(np.int64)
        reaction = np.append(self.reaction, np.zeros(len(row), dtype=np.float32))[first]
        listed = Candidates.of(rows, kinds, len(self.start) - 1)
        return replace(listed, reaction=reaction)

    @cached_property
    def by_kind(self) -> list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]]:
        """Candidates of each thread, in the order of their kinds; their rows, and kinds."""
        order = np.argsort(self.kind, kind="stable").astype(np.int32)
        row, kind = self.row[order].astype(np.int32), self.kind[order]
        ends = np.searchsorted(kind, [kind[at] for at in _ends(len(kind))[1:-1]])
        return list(zip(*(np.split(each, ends) for each in (order, row, kind)), strict=True))

    @cached_property
    def _key(self) -> IntArray:
        return self._keys(self.row, self.kind)

    def _keys(self, row: IntArray, kind: NDArray[Any]) -> IntArray:
        # Kinds are numbers of 32 bits.
        return np.asarray(row * 2**31 + kind, dtype=np.int64)


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
class Normalisers:
    """Of the scores of all rows, in some kinds or in all; of shape (n_rows,)."""

    highest: Singles
    total: FloatArray
    """Sum of exp(score - highest)."""
    best: IntArray
    """Likeliest kinds."""

    @classmethod
    def joined(cls, parts: Sequence[Normalisers]) -> Normalisers:
        """Join those of parts of the kinds."""
        each = np.array([part.highest for part in parts])
        highest = each.max(axis=0)
        total = sum(p.total * np.exp(p.highest - highest, dtype=float) for p in parts)
        best = np.choose(each.argmax(axis=0), [part.best for part in parts])
        return cls(highest, np.asarray(total), best)


@dataclass(frozen=True, eq=False)
class Dual:
    """The dual over the kinds of rows: cells, with a class."""

    draws: Singles
    """Shape (n_rows, n_trees). 1 where a tree drew a row."""
    cell: IntArray
    """Shape (n_cells,). The cells that are left."""
    leaf: NDArray[np.int32]
    """Shape (n_cells, n_trees). Their leaves (rows of A)."""
    counts: Singles
    """Shape (n_sums, n_kinds, n_trees). What a row of each kind counts in sums of each kind."""
    sums: tuple[LeafSums, ...]
    n_leaves: int
    n_classes: int
    candidates: Candidates | None = None
    """None: all kinds, for all rows."""

    @classmethod
    def of(cls, evidence: DrawnLossSums, partition: Partition) -> Dual:
        """Look at all cells."""
        leaf, n_classes = partition.signature, len(evidence.geometry.release.classes)
        n_leaves = int(evidence.geometry.leaf_start[-1])
        sums = tuple(LeafSums.of(s, n_leaves) for s in evidence.statements())
        return cls(
            draws=np.ascontiguousarray(evidence.draws.T > 0, dtype=np.float32),
            cell=np.arange(len(leaf)),
            leaf=np.ascontiguousarray(leaf),
            counts=np.stack([s.counts(leaf, n_classes) for s in sums]),
            sums=sums,
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

    def split(self, each: FloatArray) -> list[FloatArray]:
        """Share out numbers of all statements, shape (n_statements,), to kinds of them."""
        ends = np.cumsum([len(s.constraints.right) for s in self.sums])[:-1]
        return np.split(each, ends)

    def kinds_at(self, best: IntArray, other: Dual) -> IntArray:
        """What kinds of this one are called in another one, whose cells they are among."""
        label, at = np.divmod(best, len(self.cell))
        return label * len(other.cell) + np.searchsorted(other.cell, self.cell[at])

    def places(self, kind: IntArray) -> tuple[IntArray, IntArray]:
        """Leaves of rows of some kinds, shape (n_rows, n_trees), and their classes."""
        label, at = np.divmod(kind, len(self.cell))
        return self.leaf[at].astype(np.int64), label

    def only(self, keep: BoolArray) -> Dual:
        """Look at some of the cells; ``keep``, shape (n_cells,)."""
        counts = self.counts.take(np.flatnonzero(np.tile(keep, self.n_classes)), axis=1)
        new = replace(self, cell=self.cell[keep], leaf=self.leaf[keep], counts=counts)
        if self.candidates is None:
            return new
        kind = self.kinds_at(self.candidates.kind.astype(np.int64), new).astype(np.int32)
        return replace(new, candidates=replace(self.candidates, kind=kind))

    def among(self, candidates: Candidates) -> Dual:
        """Look at some kinds of each row, and at no other cells."""
        used = np.zeros(len(self.cell), dtype=np.bool_)
        used[candidates.kind % len(self.cell)] = True
        return replace(self, candidates=candidates).only(used)

    def likely(
        self, multipliers: FloatArray, lost: float, most: int, pool: Pool | None = None
    ) -> tuple[Candidates, Singles]:
        """List the kinds of rows that have some probability; these probabilities.

        Of those left out, at most ``lost`` rows are expected, unless there are more than ``most``
        others. The likeliest of each row is always listed.
        """
        score = self.scores(multipliers, pool)
        if self.candidates is not None:
            u, best, _ = self._weighed(score, pool)
            keep = u >= _least(_by_exponent(u), lost, most)
            keep[self.candidates.at(best)] = True
            return self.candidates.only(keep), u[keep]
        norm, found = self._normalisers(score, pool), list[tuple[IntArray, IntArray, Singles]]()
        tiles, each = list(chain(*self._tiles)), np.zeros((2, 256))
        for kinds in tiles:
            each += _by_exponent(self._probabilities(score, norm, kinds))
        least = np.minimum(_least(each, lost, most), 1.0 / norm.total)
        enough: Singles = least.astype(np.float32)[:, None]
        for kinds in tiles:
            share = self._probabilities(score, norm, kinds)
            row, kind = np.nonzero(share >= enough)
            found.append((row, kind + kinds.start, share[row, kind]))
        row, kind, u = (np.concatenate(part) for part in zip(*found, strict=True))
        order = np.argsort(row, kind="stable")
        return Candidates.of(row[order], kind[order], len(self.draws)), u[order]

    def scores(self, multipliers: FloatArray, pool: Pool | None = None) -> Singles:
        """What each tree that drew a row adds to its score, shape (n_kinds, n_trees)."""
        out = np.zeros((self.n_kinds, self.draws.shape[1]), dtype=np.float32)
        parts = zip(self.sums, self.split(multipliers), strict=True)
        at_leaf = np.array([s.at_leaves(part) for s, part in parts], dtype=np.float32)
        _on_threads(kernels.score, len(out), self.leaf, self.counts, at_leaf, out, pool=pool)
        return out

    @cached_property
    def _tiles(self) -> list[list[slice]]:
        """Kinds that each thread looks at, together."""
        size = max(_TILE // len(self.draws), 1)
        return [
            [slice(first, min(first + size, b)) for first in range(a, b, size)]
            for a, b in pairwise(_ends(self.n_kinds))
        ]

    def _normalisers(self, score: Singles, pool: Pool | None) -> Normalisers:
        """Add up the scores of all kinds; ``score``: see :meth:`scores`."""
        jobs = [partial(self._part, score, tiles) for tiles in self._tiles]
        return Normalisers.joined(run_all(jobs, pool=pool))

    def _part(self, score: Singles, tiles: list[slice]) -> Normalisers:
        row, n = np.arange(len(self.draws)), len(self.draws)
        one = np.ones(n, dtype=np.float32)
        highest = np.full(n, -np.inf, dtype=np.float32)
        total, best = np.zeros(n), np.zeros(n, dtype=np.int64)
        for kinds in tiles:
            each = self.draws @ score[kinds].T
            at = each.argmax(axis=1)
            top = each[row, at]
            best = np.where(top > highest, kinds.start + at, best)
            before, highest = highest, np.maximum(highest, top)
            total *= np.exp(before - highest)
            kernels.weigh(each, highest, one, total)
        return Normalisers(highest, total, best)

    def _probabilities(self, score: Singles, norm: Normalisers, kinds: slice) -> Singles:
        """Probability of each row to be of some kinds, shape (n_rows, n)."""
        out = self.draws @ score[kinds].T
        kernels.weigh(out, norm.highest, (1.0 / norm.total).astype(np.float32), np.zeros(len(out)))
        return out

    def _weighed(self, score: Singles, pool: Pool | None) -> tuple[Singles, IntArray, float]:
        """Weigh the candidates: their probabilities, the likeliest kinds, the sum of logs."""
        held = self.listed
        u = self._of_candidates(score, pool)
        u += held.reaction
        best = np.empty(len(self.draws), dtype=np.int64)
        log_z = _on_threads(kernels.soften, len(best), held.start, held.kind, u, best, pool=pool)
        return u, best, sum(log_z)

    def _seen(
        self, multipliers: FloatArray, pool: Pool, *, spread: bool = False
    ) -> tuple[IntArray, float, FloatArray, Singles]:
        """Weigh the kinds of all rows.

        Returns the likeliest kinds, the sum of the logs of normalisers, rows expected of each kind,
        and of each kind and tree that drew them; of the last, with ``spread``, the variances.
        """
        score = self.scores(multipliers, pool)
        mass, drawn = np.zeros(self.n_kinds), np.zeros(score.shape, dtype=np.float32)
        if self.candidates is None:
            norm = self._normalisers(score, pool)
            best, log_z = norm.best, float((norm.highest + np.log(norm.total)).sum())
            jobs = [
                partial(self._expect, score, norm, tiles, spread, mass, drawn)
                for tiles in self._tiles
            ]
        else:
            u, best, log_z = self._weighed(score, pool)
            jobs = [
                partial(kernels.add_drawn, self.draws, *part, u, spread, mass, drawn)
                for part in self.listed.by_kind
            ]
        run_all(jobs, pool=pool)
        return best, log_z, mass, drawn

    def _expect(
        self, score: Singles, norm: Normalisers, tiles: list[slice], spread: bool,
        mass: FloatArray, drawn: Singles,
    ) -> None:  # fmt: skip
        """Work out how many rows are expected of some kinds."""
        for kinds in tiles:
            u = self._probabilities(score, norm, kinds)
            mass[kinds] = u.sum(axis=0)
            if spread:
                u *= 1.0 - u
            np.matmul(u.T, self.draws, out=drawn[kinds])

    def look(self, multipliers: FloatArray, pool: Pool) -> Look:
        """Evaluate the dual."""
        best, log_z, mass, drawn = self._seen(multipliers, pool)
        held = self._at_leaves(drawn, pool)
        expected = [s.of_statements(held[:, a]) for a, s in enumerate(self.sums)]
        value = log_z - float(multipliers @ self.right)
        return Look(value, np.concatenate(expected), best, mass)

    def averaged(self) -> Dual:
        """One row, drawn as often as the mean of all, and what leaves say for each row."""
        n, drawn = len(self.draws), self.draws.mean(axis=0, keepdims=True)
        parts = zip(self.sums, self.split(self.right), self.split(self.scale), strict=True)
        sums = tuple(
            replace(s, constraints=replace(s.constraints, right=right / n, scale=scale / n**0.5))
            for s, right, scale in parts
        )
        return replace(self, draws=drawn, sums=sums)

    def coordinates(self, multipliers: FloatArray, pool: Pool) -> Coordinates:
        """Measure multipliers anew, by how sums vary as if kinds of a row were independent."""
        n, drawn = len(self.sums), self._seen(multipliers, pool, spread=True)[-1]
        covariance = np.zeros((self.n_leaves, n, n))
        fixed = self.leaf, self.counts, drawn, covariance
        _on_threads(kernels.add_products, drawn.shape[1], *fixed, pool=pool)
        return Coordinates.of(self.sums, self.split(self.scale), covariance)

    def reaction(self, multipliers: FloatArray, pool: Pool) -> Singles:
        """What the sums say of each candidate once a row's own share in them is taken out.

        Maximum entropy asks that expected sums match, and forgets that a row is of one kind only.
        With a normal law for the other rows, of covariance S in a leaf, what a row counts there, a,
        adds a' S^-1 (m - a / 2) to its score, where m is what it is expected to count: the reaction
        term of the mean-field theory of Thouless, Anderson and Palmer (and of approximate message
        passing). Returns an array of shape (n_candidates,), its mean in each row taken out.
        """
        held = self.listed
        u = self._weighed(self.scores(multipliers, pool), pool)[0]
        covariance = np.zeros((self.n_leaves, len(self.sums), len(self.sums)))
        fixed = self.leaf, self.counts, self.draws, held.start, held.kind, u, _UNLIKELY, covariance
        _on_threads(kernels.add_spread, self.draws.shape[1], *fixed, pool=pool)
        least = _ALONE * np.square(self.counts, dtype=float).mean(axis=(1, 2))
        for a, sums in enumerate(self.sums):
            covariance[:, a, a] += least[a]
            outside = sums.place < 0
            covariance[outside, a, :] = covariance[outside, :, a] = 0.0
            covariance[outside, a, a] = _INFINITE
        precision: FloatArray = np.asarray(np.linalg.inv(covariance), dtype=float)
        out = self._linear(u, precision, pool)
        squares = np.zeros((self.n_kinds, self.draws.shape[1]), dtype=np.float32)
        of_kinds = self.leaf, self.counts, precision, squares
        _on_threads(kernels.add_squares, self.n_kinds, *of_kinds, pool=pool)
        out -= 0.5 * self._of_candidates(squares, pool)
        mean = np.add.reduceat(out * u, held.start[:-1])
        return np.asarray(out - np.repeat(mean, np.diff(held.start)))

    def costs(self, best: IntArray, pool: Pool) -> Singles:
        """How far sums are from what leaves say if one row were of another kind.

        ``best``, shape (n_rows,): kinds of all rows. Returns an array of shape (n_candidates,), in
        squares of the usual deviations of sums, up to a number for each row.
        """
        held, (off, weight) = self.listed, self._off(best, pool)
        u = np.zeros(len(held.kind), dtype=np.float32)
        u[held.at(best)] = 1.0
        precision = weight[:, :, None] * np.eye(len(self.sums))
        added = np.zeros((self.n_kinds, self.draws.shape[1]), dtype=np.float32)
        fixed = self.leaf, self.counts
        _on_threads(kernels.add_squares, self.n_kinds, *fixed, precision, added, pool=pool)
        slope: Singles = (2.0 * weight * off).T.astype(np.float32)
        _on_threads(kernels.score, self.n_kinds, *fixed, slope, added, pool=pool)
        # A row that stays in its leaf is there once.
        return np.asarray(self._of_candidates(added, pool) - 2.0 * self._linear(u, precision, pool))

    def exchanges(self, best: IntArray, rows: IntArray, pool: Pool) -> FloatArray:
        """How far sums are from what leaves say if two rows exchanged their kinds.

        ``rows``: which. Returns an array of shape (n, n), as :meth:`costs`, less what it is now.
        Nothing changes in trees that drew both or neither: rows that stand in each other's place
        are found by no move of one row.
        """
        off, weight = self._off(best, pool)
        leaf, drew = self.leaf[best[rows] % len(self.cell)], self.draws[rows]
        counts = self.counts[:, best[rows]].transpose(1, 2, 0)
        scaled, alone = weight[leaf] * counts, 1.0 - drew
        square, slope = (scaled * counts).sum(axis=2), 2.0 * (scaled * off[leaf]).sum(axis=2)
        out = (drew * (square - slope)) @ alone.T + drew @ (alone * (square + slope)).T
        for t, (a, sums) in product(range(drew.shape[1]), enumerate(self.sums)):
            statement = sums.place[leaf[:, t]]
            both = np.outer(drew[:, t] * scaled[:, t, a], alone[:, t] * counts[:, t, a])
            out -= 2.0 * np.where(statement[:, None] == statement, both, 0.0)
        return np.asarray(out + out.T)

    def _off(self, best: IntArray, pool: Pool) -> tuple[FloatArray, FloatArray]:
        """How much more rows of some kinds count than leaves say, and what weighs its square.

        Both of shape (n_leaves, n_sums).
        """
        drawn = np.zeros((self.n_kinds, self.draws.shape[1]), dtype=np.float32)
        np.add.at(drawn, best, self.draws)
        now = self._at_leaves(drawn, pool)
        off, weight = np.zeros_like(now), np.zeros_like(now)
        for a, (sums, scale) in enumerate(zip(self.sums, self.split(self.scale), strict=True)):
            off[:, a] = sums.at_leaves(sums.of_statements(now[:, a]) - sums.constraints.right)
            weight[:, a] = sums.at_leaves(1.0 / scale**2)
        return off, weight

    @property
    def listed(self) -> Candidates:
        """The candidates, where there are some."""
        if self.candidates is None:
            raise ValueError("no candidates are listed")
        return self.candidates

    def _at_leaves(self, drawn: Singles, pool: Pool) -> FloatArray:
        """Add up over the leaves what rows count, shape (n_leaves, n_sums).

        ``drawn``, shape (n_kinds, n_trees): rows expected of each kind that the tree drew.
        """
        out = np.zeros((THREADS, self.n_leaves, len(self.sums)))
        jobs = [
            partial(kernels.add_sums, a, b, self.leaf, self.counts, drawn, each)
            for (a, b), each in zip(pairwise(_ends(len(drawn))), out, strict=True)
        ]
        run_all(jobs, pool=pool)
        return np.asarray(out.sum(axis=0))

    def _of_candidates(self, of_kinds: Singles, pool: Pool | None) -> Singles:
        """Sum over the trees that drew a row, at each candidate; (n_kinds, n_trees) given."""
        out = np.empty(len(self.listed.kind), dtype=np.float32)
        fixed, parts = (of_kinds, self.draws), self.listed.by_kind
        run_all((partial(kernels.sum_drawn, *fixed, *each, out) for each in parts), pool=pool)
        return out

    def _linear(self, u: Singles, precision: FloatArray, pool: Pool) -> Singles:
        """What a row is expected to count in its leaves, times what each candidate counts there."""
        held = self.listed
        out = np.zeros(len(held.kind), dtype=np.float32)
        fixed = self.leaf, self.counts, self.draws, held.start, held.kind, u, _UNLIKELY, precision
        _on_threads(kernels.add_reaction, len(self.draws), *fixed, out, pool=pool)
        return out


def _on_threads(kernel: Callable[..., T], n: int, *arguments: Any, pool: Pool | None) -> list[T]:
    """Have each thread do its part of n kinds, trees or rows."""
    jobs = (partial(kernel, a, b, *arguments) for a, b in pairwise(_ends(n)))
    return run_all(jobs, pool=pool)


def _by_exponent(u: Singles) -> FloatArray:
    """How many probabilities have each exponent, and what these add up to, shape (2, 256)."""
    exponent = u.ravel().view(np.int32) >> 23
    each = np.bincount(exponent, minlength=256), np.bincount(exponent, u.ravel(), 256)
    return np.array(each, dtype=float)


def _least(by_exponent: FloatArray, lost: float, most: int) -> float:
    """Find the probability below which all add up to ``lost`` at most, or ``most`` are above."""
    number, total = by_exponent
    above = np.cumsum(number[::-1])[::-1]
    return float(2.0 ** (max((np.cumsum(total) <= lost).sum(), (above > most).sum()) - 127.0))


def _ends(n: int) -> list[int]:
    """Where the share of each thread ends."""
    return [n * k // THREADS for k in range(THREADS + 1)]
