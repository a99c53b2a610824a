"""Sums of the loss in the leaves of a boosted model: real numbers that say what rows are there.

A leaf holds, or lets derive, sums over its rows: of 1 (how many there are), of second derivatives
of the loss, H, and of first ones, G. The derivatives of a row follow from its label and from the
prediction before the tree, which is one number for all rows of a cell. So each sum is a linear
statement about how many rows of each class there are in each cell, with coefficients that the model
itself gives.

Sums of first derivatives, and of their squares, in leaves that say neither.

Some libraries say both at all nodes. Others say both at inner nodes, and the variance alone at
leaves. A leaf beside an inner node has what is left of their parent's. Two leaves side by side
share the parent's sum G so that the squares between them come out:
n_L n_R / n (m_L - m_R)^2 = S - n_L V_L - n_R V_R - G^2 / n, with means m and variances V.
That has two solutions; as a leaf steps by -G / H, and 0 < H <= n / 4, mostly one of them can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.evidence.derived_hessians import leaf_hessians
from treeleak.evidence.linear_constraints import EXACT, Equal, LinearConstraints
from treeleak.evidence.predictions import (
    at_leaves,
    chance,
    chances,
    classes_of_trees,
    fitted,
    l2_at_leaves,
    margins,
    steps,
    values_present,
)
from treeleak.evidence.protocol import Contradiction, SamplingAssumptions, check_size, unequal
from treeleak.evidence.tolerances import TOLERANCES
from treeleak.partition import Geometry
from treeleak.release.ensemble import Ensemble
from treeleak.release.first_tree import with_start
from treeleak.release.release import Release
from treeleak.release.statistics import (
    DRAWS,
    GRADIENT,
    HESSIAN,
    ROWS,
    VALUE,
    VARIANCE,
    WEIGHTS,
    Quantity,
)
from treeleak.release.tree import Tree

SECOND, FIRST, SQUARED, STEP, WEIGHT = "second", "first", "squared", "step", "weight"


@dataclass(frozen=True, eq=False)
class Derivative:
    """What rows count in each tree, at the predictions that the model made for them before."""

    geometry: Geometry
    which: str
    """The second derivative of the loss, the first one, its square, the first one and the second
    times the step that the row's leaf takes, or the weight of the row's class alone."""
    step: FloatArray | None = None
    """Shape (n_leaves,)."""
    moved: FloatArray | None = None
    """Shape (n_leaves,). What is added to predictions before, if they are not meant as they are."""

    def __call__(self, leaf: NDArray[Any], label: IntArray) -> FloatArray:
        """Count items, shape (n_items, n_trees): ``leaf``, of this shape, and ``label``."""
        release = self.geometry.release
        _, fitting = fitted(release)
        kind = fitting.derivatives
        if self.which == WEIGHT:
            each = np.array(fitting.class_weights)[label]
            return np.repeat(each[:, None], leaf.shape[1], axis=1)
        if self.moved is None:
            p = chances(self.geometry, leaf)
        else:
            p = chance(margins(release, leaf) + self.moved[leaf])

        def held(derivative: FloatArray) -> FloatArray:
            return np.asarray(derivative.astype(kind), dtype=float)

        weight = np.ones(1, dtype=p.dtype)
        if fitting.class_weights:
            weight = np.array(fitting.class_weights, dtype=p.dtype)[label][:, None]
        second = held(p.dtype.type(fitting.curvature) * p * (p.dtype.type(1) - p) * weight)
        if self.which == SECOND:
            return second
        is_class = label[:, None] == classes_of_trees(release)[: leaf.shape[1]]
        first = held((p - is_class.astype(p.dtype)) * weight)
        if self.which == SQUARED:
            return first**2
        return first if self.step is None else first + self.step[leaf] * second


@dataclass(frozen=True, eq=False)
class LossSums:
    """Sums over the rows of each leaf: how many, and the derivatives of the loss."""

    geometry: Geometry
    kind: ClassVar[str] = "sums of the loss"

    @classmethod
    def fitting(cls, assumed: SamplingAssumptions) -> Callable[[Geometry], LossSums] | None:
        """Fit boosted models of classes whose trees saw all rows, and say what leaves added."""
        release, counted = assumed.release, assumed.release.trees[0].totals
        if not assumed.exact or assumed.sampling != "all" or not _covered(release):
            return None
        if counted is None:
            return None
        check_size(release, int(counted[release.trees[0].leaves].sum()), "tree 0 counts ")
        return cls

    @cached_property
    def n(self) -> FloatArray:
        """Rows in each leaf; NaN where the model does not say."""
        return at_leaves(self.geometry.release, ROWS)

    @property
    def n_rows(self) -> int:
        """N, as the first tree counts it."""
        return int(self.n[: self.geometry.leaf_start[1]].sum())

    @property
    def rough(self) -> bool:
        """Whether sums that depend on classes are hints, which prove nothing."""
        return fitted(self.geometry.release)[1].steps > 1

    @property
    def weighted(self) -> bool:
        """Whether classes have weights, so that all sums but numbers of rows depend on them."""
        return bool(fitted(self.geometry.release)[1].class_weights)

    @property
    def described(self) -> str:
        """What an answer says it was made from."""
        return f"{self.kind} ({', '.join(dict.fromkeys(s.quantity.name for s in self._all))})"

    def open_leaves(self) -> BoolArray:
        """Close empty leaves."""
        classes = len(self.geometry.release.classes)
        return np.repeat((~(self.n == 0))[:, None], classes, axis=1)

    def contradiction(self) -> Contradiction | None:
        """Find a tree that counts another number of rows than the first."""
        per_tree = np.add.reduceat(self.n, self.geometry.leaf_start[:-1])
        return unequal(
            np.where(np.isnan(per_tree), self.n_rows, per_tree)[:, None], ["all classes"]
        )

    def statements(self) -> tuple[LinearConstraints, ...]:
        """Give what leaves and nodes sum up."""
        return self._all

    @cached_property
    def _all(self) -> tuple[LinearConstraints, ...]:
        return tuple(s for s in self._each() if len(s.right))

    def _each(self) -> Iterator[LinearConstraints]:
        release, n = self.geometry.release, self.n
        ensemble, fitting = fitted(release)
        rate = ensemble.learning_rate
        precise = TOLERANCES.in_double if fitting.derivatives == "float64" else 1.0
        precise *= fitting.rough
        counted = ~np.isnan(n)
        yield self._of_leaves(ROWS, n, counted, None, np.zeros(len(n)), np.sqrt(np.maximum(n, 1)))
        W = at_leaves(release, WEIGHTS)
        if self.weighted and not np.isnan(W).all():
            weights = Derivative(self.geometry, WEIGHT)
            blur = TOLERANCES.summed * W + TOLERANCES.beside_sum
            scale = np.sqrt(np.maximum(W, 1))
            yield self._of_leaves(WEIGHTS, W, ~np.isnan(W), weights, blur, scale)
        if fitting.steps > 1:
            if rate is not None and fitting.loss == "logistic":
                yield from self._of_many_steps(rate)
            return
        # How many rows cancel each other in a sum: all, where leaves do not count them.
        most = np.where(counted, n, self.n_rows)
        H, off = leaf_hessians(release, rate, fitting.l2)
        second, first = (Derivative(self.geometry, which) for which in (SECOND, FIRST))
        blur = (precise * TOLERANCES.summed + off) * np.abs(H) + precise * TOLERANCES.beside_sum
        scale = 0.4 * np.sqrt(np.maximum(H, 0.01))
        yield self._of_leaves(
            HESSIAN, H, ~np.isnan(H) & (off < TOLERANCES.derived_share), second, blur, scale
        )
        if rate is None:
            return
        step, stepped = steps(self.geometry)
        pulled = np.nan_to_num(fitting.pulled(step))
        has_hessian = ~np.isnan(at_leaves(release, HESSIAN))
        # s = -(G + l1 sign(s)) / (H + l2), so that G = -s (H + l2) - l1 sign(s), or
        # G + s H = -s l2 - l1 sign(s).
        l2 = l2_at_leaves(release)
        size = np.abs(step) * (np.where(has_hessian, H, 0.0) + l2)
        blur = precise * (
            TOLERANCES.summed * size + TOLERANCES.each_row * most + TOLERANCES.beside_sum
        )
        scale = 0.4 * np.sqrt(np.maximum(most, 1))
        G = -step * (H + l2) - pulled
        yield self._of_leaves(GRADIENT, G, has_hessian & stepped, first, blur, scale)
        # A leaf of GradientBoosting stays at 0, too, if second derivatives are next to nothing.
        silent = (
            (step == 0)
            & (self._reach > TOLERANCES.silent_log_odds)
            & ~np.isnan(at_leaves(release, VARIANCE))
        )
        other = ~has_hessian & stepped & ~silent
        both = Derivative(self.geometry, STEP, step)
        yield self._of_leaves(GRADIENT, -step * l2 - pulled, other, both, blur, scale)
        if fitting.plain:
            yield from self._of_splits(precise, rate)

    @cached_property
    def _reach(self) -> FloatArray:
        """Shape (n_leaves,). How far from 0 predictions before a leaf's tree may lie."""
        release, begin = self.geometry.release, self.geometry.leaf_start
        most = np.maximum.reduceat(np.abs(at_leaves(release, VALUE)), begin[:-1])
        first = max(abs(each) for each in fitted(release)[0].base_scores)
        return np.repeat(first + np.cumsum(most) - most, np.diff(begin))

    def _of_many_steps(self, rate: float) -> Iterator[LinearConstraints]:
        """Give what leaves sum up at the end of many steps: nothing, where these came to an end.

        d <- d - G(d) / (H(d) + l2). Where e is left of the way to G(d) = 0, H changes by a factor
        of exp(e) at most. So a step leaves less than the greater of e (1 - exp(-e) h / (h + l2))
        and e (exp(e) - 1), where h is the least that H may be. Some trees take shorter steps, of
        which files say nothing: sums are rough.
        """
        release = self.geometry.release
        _, fitting = fitted(release)
        n = at_leaves(release, WEIGHTS) if self.weighted else self.n
        d = at_leaves(release, VALUE) / rate
        p = chance(np.abs(d) + self._reach)
        h = n * p * (1 - p)
        left = np.minimum(np.abs(d), 1.0)
        for _ in range(fitting.steps):
            each = np.maximum(1 - np.exp(-left) * h / (h + fitting.l2), np.expm1(left))
            left = np.minimum(left * each, 1.0)
        scale = np.sqrt(np.maximum(n, 1))
        informative = (n > 0) & (np.abs(d) < 1) & (n * left < TOLERANCES.rough_sum * scale)
        first = Derivative(self.geometry, FIRST, moved=d)
        yield self._of_leaves(
            GRADIENT,
            np.zeros(len(n)),
            informative,
            first,
            TOLERANCES.rough_sum * scale,
            0.4 * scale,
        )

    def _of_leaves(
        self,
        quantity: Quantity,
        right: FloatArray,
        known: BoolArray,
        counts: Derivative | None,
        blur: FloatArray,
        scale: FloatArray,
    ) -> LinearConstraints:
        return LinearConstraints(
            quantity,
            right[known],
            Equal(blur[known]) if blur.any() else EXACT,
            place=None if known.all() else np.where(known, np.cumsum(known) - 1, -1),
            counts=counts,
            by_label=counts is not None and (counts.which != SECOND or self.weighted),
            scale=scale[known],
        )

    def _of_splits(self, precise: float, rate: float) -> Iterator[LinearConstraints]:
        """Give what inner nodes tell of leaves, and of pairs of leaves."""
        sums = leaf_sums(
            self.geometry, rate, precise * TOLERANCES.each_row, precise * TOLERANCES.beside_sum
        )
        known, n = ~np.isnan(sums.first), np.maximum(self.n, 1)
        if not known.any():
            return
        scale = 0.4 * np.sqrt(n)
        squared = Derivative(self.geometry, SQUARED)
        yield self._of_leaves(VARIANCE, sums.squares, known, squared, sums.off, scale)
        # The step of a leaf is in the file: from G, the second derivatives.
        step = (at_leaves(self.geometry.release, VALUE)) / rate
        clear = known & (np.abs(step) > TOLERANCES.flat_step)
        step = np.where(clear, step, 1.0)
        H, blur = -sums.first / step, sums.off / np.abs(step)
        scale = 0.4 * np.sqrt(np.maximum(H, 0.01))
        second = Derivative(self.geometry, SECOND)
        yield self._of_leaves(HESSIAN, H, clear, second, blur, scale)
        G, squares, off = sums.pairs.T
        rows = np.bincount(sums.place[sums.place >= 0], n[sums.place >= 0], len(G))
        for quantity, right, which in ((GRADIENT, G, FIRST), (VARIANCE, squares, SQUARED)):
            yield LinearConstraints(
                quantity, right, Equal(off), place=sums.place,
                counts=Derivative(self.geometry, which), by_label=True,
                scale=0.4 * np.sqrt(np.maximum(rows, 1)),
            )  # fmt: skip


def _covered(release: Release) -> bool:
    """Whether it is known how the leaves of a model of classes come to what they add."""
    ensemble = release.ensemble
    return (
        ensemble is not None
        and ensemble.fitting is not None
        and ensemble.fitting.of_classes
        and not ensemble.fitting.assumed
        and len(release.classes) == max(len(ensemble.base_scores), 2)
        and values_present(release)
    )


def _started(release: Release, n_rows: int) -> Ensemble | None:
    """Find the prediction before the first tree, where its leaves hold that as well.

    None where there is none that leaves whole numbers of rows.
    """
    ensemble, fitting = fitted(release)
    rate, start, tree = ensemble.learning_rate, fitting.start, release.trees[0]
    if start is None or len(start) > 1 or rate is None:
        return ensemble
    n = at_leaves(release, DRAWS)[: len(tree.leaves)]
    first = with_start(tree, fitting, rate, n, n_rows)
    return None if first is None else replace(ensemble, fitting=first)


@dataclass(frozen=True, eq=False)
class DrawnLossSums(LossSums):
    """The same of trees that drew rows, where it is known which: sum over rows k of b_tk [row k in
    leaf v] a(row k, t).

    The rows are not exchangeable: row k of an answer is row k of the training set.
    """

    draws: NDArray[np.unsignedinteger[Any]]
    """Shape (n_trees, n_rows). b: whether each tree drew each row."""
    kind: ClassVar[str] = "known draws, sums of the loss"

    @classmethod
    def fitting(cls, assumed: SamplingAssumptions) -> Callable[[Geometry], DrawnLossSums] | None:
        """Fit boosted models of classes whose draws are known, none of them repeated."""
        release, draws = assumed.release, assumed.draws
        if release.noise is not None or assumed.draws_hidden or not assumed.draws_needed:
            return None
        if draws is None or draws.max(initial=0) > 1 or not _covered(release):
            return None
        check_size(release, draws.shape[1])
        ensemble = _started(release, draws.shape[1])
        return None if ensemble is None else partial(cls._of, ensemble=ensemble, draws=draws)

    @classmethod
    def _of(cls, geometry: Geometry, ensemble: Ensemble, draws: NDArray[Any]) -> DrawnLossSums:
        release = replace(geometry.release, ensemble=ensemble)
        return cls(replace(geometry, release=release), draws)

    @cached_property
    def n(self) -> FloatArray:
        """Drawn rows in each leaf; NaN where the model does not say."""
        return at_leaves(self.geometry.release, DRAWS)

    @property
    def n_rows(self) -> int:
        """N: rows of the training set, drawn or not."""
        return int(self.draws.shape[1])

    def open_leaves(self) -> BoolArray:
        """Close none: a leaf that counts nobody may hold rows that its tree did not draw."""
        return np.ones((len(self.n), len(self.geometry.release.classes)), dtype=bool)

    def contradiction(self) -> Contradiction | None:
        """Find a tree that counts another number of rows than it drew."""
        per_tree = np.add.reduceat(self.n, self.geometry.leaf_start[:-1])
        drew = self.draws.sum(axis=1)
        for t in np.flatnonzero(~np.isnan(per_tree) & (per_tree != drew)).tolist():
            why = f"its leaves hold {per_tree[t]:,.0f} draws, it drew {drew[t]:,}"
            return Contradiction(t, 0, why)
        return None

    def statements(self) -> tuple[LinearConstraints, ...]:
        """Give what leaves and nodes sum up over the rows that their trees drew."""
        return tuple(replace(s, coefficients=self.draws) for s in self._all)


@dataclass(frozen=True, eq=False)
class NodeSums:
    """Sums at all nodes of a tree; NaN where they are not known."""

    first: FloatArray
    squares: FloatArray
    off: FloatArray
    """By how much either may be off."""
    open: IntArray
    """Inner nodes whose two leaves share their sums in a way that is not known."""


def node_sums(tree: Tree, rate: float, each: float, small: float) -> NodeSums | None:
    """Work out the sums; None for a tree that does not say these things.

    ``each`` and ``small``: how far a sum may be off for each row, and beside that.
    """
    gradient, variance = tree.statistics.get(GRADIENT), tree.statistics.get(VARIANCE)
    value, totals = tree.statistics.get(VALUE), tree.totals
    if gradient is None or variance is None or value is None or totals is None:
        return None
    n, V, s = totals.astype(float), variance.values, value.values / rate
    inner = gradient.held & ~tree.is_leaf
    G = np.where(gradient.held, gradient.values, np.nan)
    off, open_ = each * n + small, []
    for v in np.flatnonzero(inner).tolist():
        left, right = int(tree.left[v]), int(tree.right[v])
        if n[left] <= 0 or n[right] <= 0:
            continue
        if np.isnan(G[left]) and np.isnan(G[right]):
            G[left], blur = _shared(n, V, s, G[v], (v, left, right), off[v])
            G[right] = G[v] - G[left]
            off[left] = off[right] = off[v] + blur
            if np.isnan(G[left]):
                open_.append(v)
        elif np.isnan(G[left]) or np.isnan(G[right]):
            leaf, other = (left, right) if np.isnan(G[left]) else (right, left)
            G[leaf], off[leaf] = G[v] - G[other], off[v] + off[other]
    mean = np.divide(G, n, out=np.full(len(G), np.nan), where=n > 0)
    return NodeSums(G, n * (V + mean**2), (1 + 2 * np.abs(mean)) * off, np.array(open_, dtype=int))


@dataclass(frozen=True, eq=False)
class LeafSums:
    """Sums in all leaves (rows of A), NaN where they are not known, and of pairs of leaves."""

    first: FloatArray
    squares: FloatArray
    off: FloatArray
    place: IntArray
    """Shape (n_leaves,). Pair that a leaf is one of, -1 for none."""
    pairs: FloatArray
    """Shape (n_pairs, 3). The same three numbers of each pair whose leaves do not say them."""


def leaf_sums(geometry: Geometry, rate: float, each: float, small: float) -> LeafSums:
    """Work out the sums of all trees: parameters as for :func:`node_sums`."""
    n_leaves = int(geometry.leaf_start[-1])
    each_leaf, place = np.full((3, n_leaves), np.nan), np.full(n_leaves, -1)
    pairs: list[FloatArray] = []
    for begin, tree in zip(geometry.leaf_start.tolist(), geometry.release.trees, strict=False):
        known = node_sums(tree, rate, each, small)
        if known is None:
            continue
        every = np.array([known.first, known.squares, known.off])
        each_leaf[:, begin : begin + len(tree.leaves)] = every[:, tree.leaves]
        for v in known.open.tolist():
            both = np.searchsorted(tree.leaves, [tree.left[v], tree.right[v]])
            place[begin + both] = len(pairs)
            pairs.append(every[:, v])
    first, squares, off = each_leaf
    return LeafSums(first, squares, off, place, np.array(pairs).reshape(-1, 3))


def _shared(
    n: FloatArray, V: FloatArray, s: FloatArray, G: float, nodes: tuple[int, int, int], off: float
) -> tuple[float, float]:
    """Find the left one's sum of two leaves, and by how much it may be off."""
    v, left, right = nodes
    between = n[v] * V[v] - n[left] * V[left] - n[right] * V[right]
    apart = np.sqrt(max(between, 0.0) * n[v] / (n[left] * n[right]))
    blur = off / (2 * apart) if apart > 0 else np.inf
    if not blur < TOLERANCES.blurred_share:
        return np.nan, 0.0
    possible = []
    for difference in (apart, -apart):
        left_sum = n[left] * (G + difference * n[right]) / n[v]
        if all(
            _steps(part, s[at], n[at]) for part, at in ((left_sum, left), (G - left_sum, right))
        ):
            possible.append(float(left_sum))
    return (possible[0], float(blur)) if len(possible) == 1 else (np.nan, 0.0)


def _steps(G: float, step: float, n: float) -> bool:
    """Whether a leaf with such a sum may take such a step."""
    if step == 0:
        return bool(abs(G) < TOLERANCES.blurred_share)
    return bool(-TOLERANCES.over_share < -G / step <= (1 + TOLERANCES.over_share) * n / 4)
