"""Values of inner nodes, and gains, of XGBoost's trees: they follow from the leaves.

A node whose rows have derivatives G, and second ones H, has the value v = -T(G) / (H + l2), where T
moves G towards 0 by l1; a leaf is written times a rate. G adds up over children, and the gain is
that of v^2 (H + l2). Both are linear in a few numbers that all trees share. A value of 0 says of G
that it is at most l1, and where the rate of learning changed, each tree has a rate of its own.

Values that ``max_delta_step`` or monotone constraints cut off follow from nothing in the file, and
neither do gains beside them: whoever wrote them may have put rows there. They are left over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import TreeleakError
from treeleak.core.private import dataclass
from treeleak.release.adapters.xgboost.gain_equations import (
    MOST_WORK,
    missed_by,
    settings_from_gains,
)
from treeleak.release.statistics import GAIN, STEP, VALUE, NodeStatistic, Statistics
from treeleak.release.tree import LEAF, Tree

_FITS = 1e-4
"""How far numbers in single precision are off an equation between them, as a share of the largest:
up to 1e-5 in models of XGBoost 0.90 to 3.2."""
_TINY, _LARGEST = 1e-30, 1e30
"""Sizes of an equation, and parts over that size, beyond which it is none of rows."""
_ROUNDS, _SHARP = 30, 1e-7
"""Of least absolute deviations by least squares with weights, and the smallest deviation there."""
_SAME = 1e-5
"""How far two numbers in single precision may be apart that stand for one, as a share."""
_MASK = 1.0
"""What NVFlare writes as the sum of second derivatives of every node; 0 is what harden writes."""


@dataclass(frozen=True, eq=False)
class Lists:
    """The lists of a tree, which of its nodes are leaves, and the children of the others."""

    held: Mapping[str, NDArray[Any]]
    leaf: BoolArray
    below: IntArray


@dataclass(frozen=True, eq=False)
class _Steps:
    """What one tree says of its steps."""

    tree: int
    value: FloatArray
    hessian: FloatArray
    gain: FloatArray
    leaf: BoolArray
    inner: IntArray
    """Nodes that are no leaves."""
    below: IntArray
    """Their children."""
    added: FloatArray
    """What leaves add."""


@dataclass(frozen=True, eq=False)
class _System:
    """Equations of the inner nodes of a tree: ``A x = right``, for some x that all trees share.

    x begins with l2, the scale of what leaves add, and their product; l1 is the last.
    """

    of: _Steps
    power: int
    """Of values in the equations: that of the scale."""
    A: FloatArray
    right: FloatArray
    size: FloatArray
    """Of the numbers that an equation adds up."""
    sure: BoolArray
    """Whether no value in an equation is 0."""


def odd_steps(trees: Mapping[int, Lists]) -> Iterator[tuple[int, str]]:
    """List values of inner nodes, and gains, that do not follow from values of leaves."""
    steps, masked = list[_Steps](), list[_Steps]()
    for t, one in trees.items():
        keys = [k for k in ("base_weights", "loss_changes") if k in one.held]
        stated = [k for k in keys if one.held[k][~one.leaf].any()]
        if not one.below.size or not stated:
            continue
        lists = [one.held.get(k) for k in ("base_weights", "sum_hessian", "loss_changes")]
        n = len(one.leaf)
        v, h, gain = (np.zeros(n) if x is None else np.asarray(x, dtype=float) for x in lists)
        added = np.where(one.leaf, one.held.get("split_conditions", np.zeros(n)), 0.0)
        inner = np.flatnonzero(~one.leaf)
        tree = _Steps(t, v, h, gain, one.leaf, inner, one.below, added)
        if np.ptp(h[: 1 + int(one.below.max())]) > 0:
            steps.append(tree)
        elif h[0] in (0.0, _MASK):
            masked.append(tree)
        else:
            yield from ((t, key) for key in stated)
    yield from ((t, key) for t in _unlike(masked) for key in ("base_weights", "loss_changes"))
    with np.errstate(all="ignore"):
        for key, system in (("base_weights", _values(steps)), ("loss_changes", _gains(steps))):
            yield from ((t, key) for t in _unmet(system))


def _values(trees: Sequence[_Steps]) -> list[_System]:
    """Write down that derivatives of the rows of a node are those of its children."""
    out = []
    for one in trees:
        v, h, below, inner = one.value, one.hessian, one.below, one.inner
        if not v[inner].any():
            continue
        low = one.leaf[below]
        signs = np.sign(v[inner]) - np.sign(v[below]).sum(axis=0)
        A = [_sum(v, ~low, below) - v[inner], _sum(v * h, low, below), _sum(v, low, below), -signs]
        size = np.abs(v[inner] * h[inner]) + np.abs((v * h)[below]).sum(axis=0)
        right = v[inner] * h[inner] - _sum(v * h, ~low, below)
        # Where T gives 0, it does not say what of.
        sure = (v[inner] != 0) & (v[below] != 0).all(axis=0)
        out.append(_System(one, 1, np.stack(A, axis=1), right, size, sure))
    return out


def _gains(trees: Sequence[_Steps]) -> list[_System]:
    """Write down what gains are; where values are bounded, l1 stays in them."""
    out = []
    for one in trees:
        v, h, below, inner, gain = one.value, one.hessian, one.below, one.inner, one.gain
        if not gain.any():
            continue
        low, of_node = one.leaf[below], v[inner] ** 2 * h[inner]
        A = [_sum(v**2, ~low, below) - v[inner] ** 2, _sum(v**2 * h, low, below),
             _sum(v**2, low, below), _sum(np.abs(v), ~low, below) - np.abs(v[inner]),
             _sum(np.abs(v), low, below)]  # fmt: skip
        size = np.abs(gain[inner]) + of_node + (v**2 * h)[below].sum(axis=0)
        right = gain[inner] + of_node - _sum(v**2 * h, ~low, below)
        out.append(_System(one, 2, np.stack(A, axis=1), right, size, np.ones(len(inner), bool)))
    return out


def _sum(x: FloatArray, side: BoolArray, below: IntArray) -> FloatArray:
    """Add what children hold, those of one kind alone."""
    return np.asarray(np.where(side, x[below], 0.0).sum(axis=0))


def _unmet(systems: Sequence[_System]) -> Iterator[int]:
    """Name the trees whose equations hold for no x of all of them."""
    scaled = list[_System]()
    for one in systems:
        size = np.maximum(one.size, _TINY)[:, None]
        both = np.column_stack([one.A, one.right]) / size
        if (np.abs(both) < _LARGEST).all():
            scaled.append(replace(one, A=both[:, :-1], right=both[:, -1], size=size[:, 0]))
        else:
            yield one.of.tree
    if not scaled:
        return
    A, right = (
        np.concatenate([one.A for one in scaled]),
        np.concatenate([one.right for one in scaled]),
    )
    sure = np.concatenate([one.sure for one in scaled])
    x = np.linalg.lstsq(A[sure], right[sure], rcond=None)[0]
    if (np.abs(A @ x - right) <= _FITS).all() or _with_rates(scaled):
        return
    found = [
        list(_odd(scaled, x))
        for x in (_of_most(A[sure], right[sure]), _as_usual(A[sure], right[sure]))
    ]
    yield from min(found, key=len)


def _odd(systems: Sequence[_System], x: FloatArray) -> Iterator[int]:
    """Name the trees whose equations do not hold for x."""
    for one in systems:
        off = np.abs(one.A @ x - one.right)
        odd = ~(off <= _FITS)
        if one.power == 1:
            none = (one.of.value[one.of.below] == 0).sum(axis=0) + (one.of.value[one.of.inner] == 0)
            odd &= ~(off * one.size <= np.abs(x[3]) * none * (1 + _FITS) + _FITS * one.size)
        if odd.any():
            yield one.of.tree


def _as_usual(A: FloatArray, right: FloatArray) -> FloatArray:
    """Find the rate that most equations give where l2 is 1 and l1 is 0, as by default."""
    each = (right - A[:, 0]) / (A[:, 1] + A[:, 2])
    each = np.sort(each[np.isfinite(each) & (each > 0)])
    out = np.zeros(A.shape[1])
    if len(each):
        ends = np.searchsorted(each, each * (1 + _FITS))
        at = int((ends - np.arange(len(each))).argmax())
        out[:3] = 1.0, *[np.median(each[at : ends[at]])] * 2
    return out


def _of_most(A: FloatArray, right: FloatArray) -> FloatArray:
    """Find the x that most equations hold for, by least absolute deviations."""
    x = np.linalg.lstsq(A, right, rcond=None)[0]
    for _ in range(_ROUNDS):
        weight = 1 / np.sqrt(np.maximum(np.abs(A @ x - right), _SHARP))
        x = np.linalg.lstsq(A * weight[:, None], right * weight, rcond=None)[0]
    return np.asarray(x)


def _with_rates(systems: Sequence[_System]) -> bool:
    """Say whether the equations hold with a rate for each tree, whose rest is the same in all."""
    rated = [1, 2, 4] if systems[0].power == 2 else [1, 2]
    shared = [k for k in range(systems[0].A.shape[1]) if k not in rated]
    extra, alone = 0.0, [(one.A[:, rated], one.A[:, shared], one.right) for one in systems]
    for _ in range(2):
        parts = [_apart(*one) for one in alone]
        A, right = (np.concatenate(both) for both in zip(*parts, strict=True))
        x = np.linalg.lstsq(A, right, rcond=None)[0]
        # With l2 known, what leaves add depends on the rate alone.
        extra = float(x[0])
        alone = [
            (one.A[:, [1]] + extra * one.A[:, [2]], one.A[:, shared], one.right) for one in systems
        ]
    parts = [_apart(*one) for one in alone]
    few = any(len(one.right) <= 1 for one in systems)
    return not few and all((np.abs(A @ x - right) <= _FITS).all() for A, right in parts)


def _apart(free: FloatArray, A: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Leave of equations what numbers of this tree alone cannot make up for."""
    q = np.linalg.svd(free, full_matrices=False)
    basis = q[0][:, q[1] > _SAME * q[1].max(initial=_TINY)]
    return A - basis @ (basis.T @ A), right - basis @ (basis.T @ right)


def _unlike(masked: Sequence[_Steps]) -> list[int]:
    """Name trees without sums of second derivatives whose values and gains no such sums give."""
    try:
        trees = [_tree(one) for one in masked]
    except TreeleakError:
        return [one.tree for one in masked]
    found = settings_from_gains(trees) if trees else None
    if found is None or sum(float(tree.n_nodes) ** 3 for tree in trees) > MOST_WORK:
        return [one.tree for one in masked]
    return [
        one.tree
        for one, tree in zip(masked, trees, strict=True)
        if not missed_by(tree, *found) <= _FITS
    ]


def _tree(one: _Steps) -> Tree:
    n = len(one.leaf)
    children = np.full((2, n), LEAF)
    children[:, one.inner] = one.below
    held = ((VALUE, one.added), (STEP, one.value), (GAIN, one.gain))
    return Tree(
        feature=np.where(one.leaf, LEAF, 0),
        threshold=np.where(one.leaf, np.nan, 0.0),
        left=children[0],
        right=children[1],
        missing_left=np.zeros(n, dtype=bool),
        statistics=Statistics(tuple(NodeStatistic(kind, values) for kind, values in held)),
    )
