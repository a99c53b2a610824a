"""Values of inner nodes, and gains, of boosted trees: they follow from the leaves.

A node whose rows have derivatives G, and second ones H, has the value v = -T(G) / (H + l2), where T
moves G towards 0 by l1; what it adds is v times the rate of learning, and the gain of a split is
that of v^2 (H + l2). G and H add up over children. So leaves give all values and gains, up to l1,
l2 and the rates, which all trees share: they are searched for. A value of 0 says of G that it is
at most l1.

Values that ``max_delta_step`` or monotone constraints cut off follow from nothing in the file, and
neither do gains beside them: whoever wrote them may have put rows there. They are left over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
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

FITS = 1e-5
"""How far numbers in single precision are off an equation between them, as a share of all that it
adds up: up to 1.1e-6 in 117 models of XGBoost 0.90 to 3.2 and of all its tree methods."""
PRINTED = 6e-6
"""How far numbers of six digits are off, as a share."""
_TINY, _LARGEST = 1e-30, 1e30
"""Sizes beyond which numbers are none of rows."""
_MASK = 1.0
"""What NVFlare writes as the sum of second derivatives of every node; 0 is what harden writes."""
_PENALTIES = np.append(0.0, np.geomspace(1e-3, 1e3, 25))
_FINER, _SEARCHED = 11, 4_000
"""Times that the search for l2 is refined, and equations that it takes."""
_FEW, _DIGITS = 30, 2
"""Of fewer equations, three settings could meet one in ten: then they have few digits, or make up
for nothing. A wrong setting of two digits meets an equation by a chance of 2 %."""
_CHANGES = 6
"""Rounds in which rates may leave a straight line of their logarithms: three steps of a schedule
are two each."""


@dataclass(frozen=True, eq=False)
class Lists:
    """The lists of a tree, and which of its nodes have which children, pruned ones with them."""

    held: Mapping[str, NDArray[Any]]
    inner: IntArray
    below: IntArray
    """Shape (2, inner nodes)."""
    round: int = 0
    ratio: float = 1.0
    """Of the values of leaves, as stated, to what they add."""
    share: float | None = None
    """Where leaves were set anew: what rows with less than the prediction have for a first
    derivative, and others 1 more; 0 stands for plus and minus 1."""
    printed: bool = False
    """Whether values of nodes are those of what they add, and gains have six digits."""
    blur: FloatArray | float = 0.0
    """How far values of nodes may be off."""
    rate: float = np.nan
    biased: bool = False
    """Whether what leaves add may hold where predictions begin."""
    extra: FloatArray | None = None
    """Of each node, beside l2."""


@dataclass(frozen=True, eq=False)
class _Forest:
    """Nodes of all trees, one after the other, and what leaves below them add up to."""

    tree: IntArray
    round: IntArray
    inner: IntArray
    below: IntArray
    hessian: FloatArray
    value: FloatArray
    """As stated of inner nodes; NaN at others."""
    gain: FloatArray
    """Of inner nodes."""
    sums: FloatArray
    """Of the leaves below: what they add, times H and alone; both without signs; the number of
    those that add something, by signs, and of those that add nothing; H, and their number."""
    ratio: FloatArray
    share: FloatArray
    rate: FloatArray
    extra: FloatArray
    printed: BoolArray
    blur: FloatArray

    def part(self) -> _Forest:
        """Take the first trees, as many as a search takes."""
        ends = np.flatnonzero(np.diff(self.tree[self.inner], append=-1)) + 1
        m = int(ends[min(int(np.searchsorted(ends, _SEARCHED)), len(ends) - 1)])
        return replace(self, inner=self.inner[:m], below=self.below[:, :m], gain=self.gain[:m])


@dataclass(frozen=True, eq=False)
class _Settings:
    l2: float
    l1: float
    scale: FloatArray
    """Of what nodes add, by round: 1 / rate."""


def odd_steps(
    trees: Mapping[int, Lists], l2: float = 1.0, any_rates: bool = False
) -> Iterator[tuple[int, str]]:
    """List values of inner nodes, and gains, that do not follow from values of leaves.

    ``l2`` is tried first; ``any_rates``: whether those that trees state are known to be right.
    """
    grown, masked = list[int](), list[int]()
    for t, one in trees.items():
        stated = [k for k in ("base_weights", "loss_changes")
                  if k in one.held and one.held[k][one.inner].any()]  # fmt: skip
        if not stated:
            continue
        h = one.held.get("sum_hessian", np.zeros(1))
        if np.ptp(h) > 0:
            grown.append(t)
        elif h[0] in (0.0, _MASK):
            masked.append(t)
        else:
            yield from ((t, key) for key in stated)
    keys = ("base_weights", "loss_changes")
    yield from ((t, key) for t in _unlike({t: trees[t] for t in masked}) for key in keys)
    with np.errstate(all="ignore"):
        met = _explained({t: trees[t] for t in grown}, l2, any_rates)
    yield from (() if met else ((t, key) for t in grown for key in keys))


def _forest(trees: Mapping[int, Lists]) -> _Forest | None:
    """Add leaves up; None where nodes are none of trees."""
    parts, start = list[Sequence[NDArray[Any]]](), 0
    for t, one in trees.items():
        n = len(one.held["sum_hessian"])
        lists = [one.held.get(k, np.zeros(n)) for k in (
            "sum_hessian", "split_conditions", "base_weights", "loss_changes")]  # fmt: skip
        h, added, value, gain = (np.asarray(x, dtype=float) for x in lists)
        leaf = np.ones(n, dtype=bool)
        leaf[one.inner] = False
        extra = np.zeros(n) if one.extra is None else one.extra
        sums = np.stack([
            added * (h + extra), added, np.abs(added * (h + extra)), np.abs(added),
            np.sign(added), added == 0, h + extra, np.ones(n),
        ]) * leaf  # fmt: skip
        levels, above = list[IntArray](), np.full(n, LEAF)
        above[one.inner] = np.arange(len(one.inner))
        level = np.setdiff1d(np.arange(n), one.below)
        while (at := above[level][above[level] >= 0]).size:
            levels.append(at)
            level = one.below[:, at].ravel()
            if sum(map(len, levels)) > len(one.inner):
                break
        if sum(map(len, levels)) != len(one.inner):
            return None
        for at in levels[::-1]:
            sums[:, one.inner[at]] = sums[:, one.below[:, at]].sum(axis=1)
        # Where the roots of LightGBM have no value, it is 0.
        none = leaf | (not value[one.inner].any()) | (one.printed & (value == 0))
        value = np.where(none, np.nan, value)
        gains = gain[one.inner] if gain[one.inner].any() else np.full(len(one.inner), np.nan)
        numbers = (np.full(n, t), np.full(n, one.round), one.inner + start, one.below + start)
        share = np.nan if one.share is None else one.share
        each = (np.full(n, x) for x in (one.ratio, share, one.rate))
        printed, blur = np.full(n, one.printed), np.zeros(n) + one.blur
        parts.append((*numbers, h, value, gains, sums, *each, extra, printed, blur))
        start += n
    joined = _Forest(*(np.concatenate(x, axis=-1) for x in zip(*parts, strict=True)))
    held = (joined.hessian, joined.value, joined.gain, joined.sums)
    return None if any((np.abs(x) > _LARGEST).any() for x in held) else joined


def _explained(trees: Mapping[int, Lists], l2: float, any_rates: bool) -> bool:
    """Say whether some settings give all values and gains."""
    plain = {t: one for t, one in trees.items() if not one.biased}
    found = _found(_forest(plain), l2, any_rates) if plain else _Settings(l2, 0.0, np.ones(1))
    if found is None:
        return False
    one_rate = bool(plain) and len(found.scale) == 1
    for t, one in trees.items():
        for start in _starts(one, found) if one.biased else ():
            if (f := _forest({t: _shifted(one, start)})) is not None:
                own = _settings(f, found.l2, shared=True, bent=found.l1 > 0)
                own = found if one_rate else replace(own, l1=found.l1)
                if _missed(f, own) <= FITS:
                    break
        else:
            if one.biased:
                return False
    return True


def _found(forest: _Forest | None, l2: float, any_rates: bool) -> _Settings | None:
    if forest is None:
        return None
    stated = np.nan_to_num(forest.value[forest.inner]), np.nan_to_num(forest.gain)
    known = sum(map(np.count_nonzero, stated))
    if known < _FEW:
        for bent in (False, True):
            for each in (l2, 0.0, *_penalties(forest, True, bent)):
                settings = _short(_settings(forest, _rounded(each, _DIGITS), True, bent), _DIGITS)
                if _missed(forest, settings) <= FITS:
                    return settings
        return None
    for shared, bent in product((True, False), (False, True)):
        for each in (l2, *_penalties(forest.part(), shared, bent)):
            settings = _settings(forest, each, shared, bent)
            if not (shared or any_rates or is_schedule(settings.scale)):
                continue
            for one in (settings, _short(settings, _DIGITS + 1)):
                if _missed(forest, one) <= FITS:
                    return one
    return None


def _starts(one: Lists, settings: _Settings) -> Iterator[float]:
    """Give what leaves may hold beside what rows add: derivatives add up to nothing, or not."""
    yield 0.0
    if (f := _forest({0: one})) is None:
        return
    l2, v = settings.l2, f.value
    root = np.setdiff1d(np.arange(len(f.tree)), one.below)[:1]
    # LightGBM before 4 says of the root what was there before; and l1 leaves it to some leaves.
    stated = float(one.held["base_weights"][root[0]])
    added = one.held["split_conditions"][f.sums[7] == 1]
    yield from (stated, *added[np.abs(added - stated) <= PRINTED * abs(stated)][:1].tolist())
    for at in (root, f.inner[~np.isnan(v[f.inner])]):
        h = f.hessian[at] + l2 + f.extra[at]
        x, y = f.sums[6, at] + l2 * f.sums[7, at], f.sums[0, at] + l2 * f.sums[1, at]
        if at is root:
            y = y + settings.l1 * np.sign(added - stated).sum() / np.nanmax(settings.scale)
        else:
            x, y = x - h, y - v[at] * h
        yield float(x @ y / (x @ x))


def _shifted(one: Lists, start: float) -> Lists:
    keys = ("split_conditions", "base_weights")
    held = {k: one.held[k] - start for k in keys}
    # Numbers of double precision that cancel out.
    held = {k: np.where(np.abs(x) <= 1e-9 * abs(start), 0.0, x) for k, x in held.items()}
    return replace(one, held={**one.held, **held})


def _penalties(forest: _Forest, shared: bool, bent: bool) -> Iterator[float]:
    """Find the l2 with which equations are met best, in few digits and in many."""
    around, found = _PENALTIES, 0.0
    for _ in range(_FINER):
        off = [
            _missed(forest, _settings(forest, float(l2), shared, bent)) for l2 in around.tolist()
        ]
        best = int(np.argmin(off))
        low, high = around[max(best - 1, 0)], around[min(best + 1, len(around) - 1)]
        found, around = float(around[best]), np.linspace(low, high, 9)
    yield from (_rounded(found, 2), _rounded(found, 4), found)


def _rounded(x: float, digits: int) -> float:
    return float(f"{x:.{digits}g}")


def _short(settings: _Settings, digits: int) -> _Settings:
    rate = np.array([_rounded(1 / x, digits) if x else 0.0 for x in settings.scale.tolist()])
    return _Settings(settings.l2, _rounded(settings.l1, digits), 1 / rate)


def is_schedule(rates: FloatArray) -> bool:
    """Say whether rates fall by one factor, or change seldom."""
    held = np.log(rates[np.isfinite(rates) & (rates > 0)])
    return int((np.abs(np.diff(held, 2)) > 4 * PRINTED).sum()) <= _CHANGES


def _settings(forest: _Forest, l2: float, shared: bool, bent: bool) -> _Settings:
    """Fit rates and l1 for some l2, by least squares of gains, or of values if there are none."""
    f, at = forest, forest.inner
    h, v = f.hessian + l2 + f.extra, f.value
    group = f.round * (not shared)
    step = (f.sums[0] + l2 * f.sums[1]) / h
    if bent:  # What is printed has less digits, but l1 is in it.
        step = np.where(f.printed & ~np.isnan(v), v, step)
    is_stated = ~np.isnan(v) & ~f.printed
    free, fixed = (np.where(is_stated, x, y) ** 2 * h for x, y in ((0.0, step), (v, 0.0)))
    above = h / (f.hessian + l2)
    x, y = (
        sign * (e[f.below].sum(axis=0) - (e * above)[at])
        for e, sign in ((free, 1.0), (fixed, -1.0))
    )
    y, power, parts = y + f.gain, 2, free + fixed
    if not np.isfinite(f.gain).any():
        x, y, power, parts = step[at] * h[at], v[at] * h[at], 1, f.sums[2] + np.abs(v * h)
        y = np.where(f.printed[at], x, y)
    size = parts[at] + (parts[f.below].sum(axis=0) if power == 2 else 0.0) + _TINY
    x, y = (np.where(np.isfinite(y), z, 0.0) / size for z in (x, y))
    top, bottom = (np.bincount(group[at], z, int(group.max()) + 1) for z in (x * y, x * x))
    scale = top / bottom
    scale = np.sqrt(scale) if power == 2 else scale
    v = v * np.where(f.printed, scale[group], 1.0)
    left = v * h - scale[group] * (f.sums[0] + l2 * f.sums[1])
    signs = f.sums[4] - np.sign(v)
    sure = at[(v[at] != 0) & (f.sums[5][at] == 0) & np.isfinite(left[at])]
    size = (scale[group] * f.sums[2] + np.abs(v * h))[sure] + _TINY
    x, y = signs[sure] / size, left[sure] / size
    l1 = max(float(x @ y / (x @ x)), 0.0) if x.any() else 0.0
    return _Settings(l2, l1 * bent, scale)


def _missed(forest: _Forest, settings: _Settings) -> float:
    """Say by what share of its parts an equation is off at most."""
    f, at, l1 = forest, forest.inner, settings.l1
    h = f.hessian + settings.l2 + f.extra
    scale = settings.scale[f.round if len(settings.scale) > 1 else 0 * f.round]
    v, digits = f.value * np.where(f.printed, scale, 1.0), f.printed[at] * PRINTED
    G = scale * (f.sums[0] + settings.l2 * f.sums[1]) + l1 * f.sums[4]
    low, mid, high = (_moved(G + k * l1 * f.sums[5], l1) / h for k in (-1, 0, 1))
    of_all = scale * (f.sums[2] + settings.l2 * f.sums[3]) + np.abs(v) * h + _TINY
    off = np.maximum(low - v, v - high) - f.blur * scale
    off = (np.maximum(off, 0.0) * h / of_all)[at]
    each = np.where(np.isnan(v) | (f.printed & (f.sums[5] * l1 == 0)), mid, v) ** 2 * h
    below, above = each[f.below].sum(axis=0), (each * h / (f.hessian + settings.l2))[at]
    due, parts = below - above, below + above + np.abs(f.gain) + _TINY
    gains = np.abs(due - f.gain) - digits * np.abs(f.gain)
    alike = np.minimum(np.abs(f.ratio - 1), np.abs(f.ratio / scale - 1))[at]
    rows = f.share * f.hessian - scale * (f.sums[0] + settings.l2 * f.sums[1])
    rows = rows[f.below][np.isnan(v[f.below]) & ~np.isnan(f.share[f.below])]
    rates = (np.abs(f.rate * scale - 1) - PRINTED)[at][~np.isnan(f.gain + f.rate[at])]
    both = np.concatenate([
        off[~np.isnan(v[at])], (gains / parts)[~np.isnan(f.gain)], alike, rates,
        # No split is worse than none.
        np.where(f.printed[at], 0.0, -due / parts),
        np.abs(rows - np.rint(rows)) / np.maximum(np.abs(rows), 1.0),
    ])  # fmt: skip
    return float(both.max(initial=0.0)) if np.isfinite(both).all() else float("inf")


def _moved(G: FloatArray, l1: float) -> FloatArray:
    """Move sums towards 0."""
    return np.asarray(np.sign(G) * np.maximum(np.abs(G) - l1, 0.0))


def _unlike(masked: Mapping[int, Lists]) -> list[int]:
    """Name trees without sums of second derivatives whose values and gains no such sums give.

    Some sums give any value and gain of a single test.
    """
    try:
        trees = [_tree(one) for one in masked.values()]
    except TreeleakError:
        return list(masked)
    found = settings_from_gains(trees) if trees else None
    if found is None or sum(float(tree.n_nodes) ** 3 for tree in trees) > MOST_WORK:
        return list(masked)
    return [
        t
        for t, tree in zip(masked, trees, strict=True)
        if len(masked[t].inner) < 2 or not missed_by(tree, *found) <= FITS
    ]


def _tree(one: Lists) -> Tree:
    n = int(one.below.max()) + 1
    leaf, children = np.ones(n, dtype=bool), np.full((2, n), LEAF)
    leaf[one.inner], children[:, one.inner] = False, one.below
    held = {q: one.held.get(k, np.zeros(n))[:n].astype(float) for q, k in (
        (VALUE, "split_conditions"), (STEP, "base_weights"), (GAIN, "loss_changes"))}  # fmt: skip
    return Tree(
        feature=np.where(leaf, LEAF, 0),
        threshold=np.where(leaf, np.nan, 0.0),
        left=children[0],
        right=children[1],
        missing_left=np.zeros(n, dtype=bool),
        statistics=Statistics(tuple(
            NodeStatistic(kind, np.where(leaf, values, 0.0) if kind == VALUE else values)
            for kind, values in held.items()
        )),
    )  # fmt: skip
