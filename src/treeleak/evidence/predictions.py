"""What a boosted model predicted for cells while it was trained: before each of its trees.

All rows of a cell reach the same leaves, so that they have one prediction before every tree, which
the model itself tells.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import NotCovered
from treeleak.core.message import static_message
from treeleak.partition import Geometry
from treeleak.release.ensemble import Ensemble, Fitting, kept_shares
from treeleak.release.release import Release
from treeleak.release.statistics import VALUE, Quantity

_MOST = 1e9
"""Most that a leaf adds to log odds: what lies beyond was never trained."""
_FAR = 80.0
"""Log odds beyond which nothing changes."""
_THIRTY_SECONDTHS = float.fromhex("0x1.71547652b82fep+5")
"""32 / log 2."""
_REST = tuple(
    float.fromhex(x)
    for x in ("0x1.c6af84b912394p-20", "0x1.ebfce50fac4f3p-13", "0x1.62e42ff0c52d6p-6")
)
"""2^(r / 32) = 1 + _REST[2] r + _REST[1] r^2 + _REST[0] r^3, about."""


def at_leaves(release: Release, quantity: Quantity) -> FloatArray:
    """List a statistic of all leaves (rows of A); NaN for trees that do not give it of each."""
    values = []
    for tree in release.trees:
        entry = tree.statistics.get(quantity)
        complete = entry is not None and (entry.present is None or entry.present[tree.leaves].all())
        none = np.full(len(tree.leaves), np.nan)
        values.append(entry.values[tree.leaves].astype(float) if entry and complete else none)
    return np.concatenate(values)


def l2_at_leaves(release: Release) -> FloatArray:
    """Say what is added to the sum of second derivatives in each leaf (rows of A)."""
    _, fitting = fitted(release)
    return np.concatenate([fitting.l2_at(tree)[tree.leaves] for tree in release.trees])


def values_present(release: Release) -> bool:
    """Whether every leaf says what it adds, and none adds what no training comes to."""
    return bool((np.abs(at_leaves(release, VALUE)) <= _MOST).all())  # NaN is not


def fitted(release: Release) -> tuple[Ensemble, Fitting]:
    """Say how predictions were made and leaves fitted.

    Raises NotCovered where that is not known.
    """
    ensemble = release.ensemble
    fitting = None if ensemble is None else ensemble.fitting
    if ensemble is None or fitting is None:
        raise NotCovered(static_message("how the leaves of the model were fitted is not known"))
    return ensemble, fitting


def steps(geometry: Geometry) -> tuple[FloatArray, BoolArray]:
    """Say what each leaf added before it was multiplied by the learning rate, and whether it did.

    A tree that is one leaf, and adds nothing, took no step. A step of 0 by l1, or at its limit,
    says nothing of sums. Of the first round, nothing is said
    where predictions before it are not known. The learning rate must be known.
    """
    ensemble, fitting = fitted(geometry.release)
    begin, leaf_values = geometry.leaf_start, _as_grown(geometry.release)
    for t, start in enumerate(fitting.start or ()):
        leaf_values[begin[t] : begin[t + 1]] -= start
    leaves = np.diff(begin)
    step = leaf_values / float(ensemble.learning_rate or np.nan)
    if fitting.dropped:
        times = [1.0 + len(chosen) for chosen in fitting.dropped[: len(leaves)]]
        step *= np.repeat(times, leaves)
    stepped = (np.repeat(leaves, leaves) > 1) | (step != 0)
    stepped &= ~np.isnan(fitting.pulled(step))
    if not fitting.started:
        stepped[: begin[len(ensemble.base_scores)]] = False
    return step, stepped


def _as_grown(release: Release) -> FloatArray:
    """Say what each leaf added at first: later trees may have shrunk it."""
    values, fitting = at_leaves(release, VALUE), fitted(release)[1]
    if not fitting.dropped:
        return values
    leaves = [len(tree.leaves) for tree in release.trees]
    return values / np.repeat(kept_shares(fitting.dropped)[: len(leaves)], leaves)


def margins(release: Release, leaf: NDArray[Any]) -> FloatArray:
    """Add up predictions before each tree, in the precision of the library.

    ``leaf``, shape (n_items, n_trees): leaf (row of A) of each item in each tree. Returns an array
    of the same shape; the model has one output.
    """
    ensemble, fitting = fitted(release)
    kind = np.dtype(fitting.margins)
    values = _as_grown(release).astype(kind)
    before, kept = np.empty(leaf.shape, dtype=kind), np.ones(len(release.trees))
    seen = total = np.full(len(leaf), ensemble.base_scores[0], dtype=kind)
    for t in range(leaf.shape[1]):
        seen = total.copy() if t % fitting.parallel == 0 else seen
        before[:, t] = seen
        chosen = list(fitting.dropped[t]) if fitting.dropped else []
        if chosen:
            lost = values[leaf[:, chosen]] @ kept[chosen]
            before[:, t] -= lost
            total -= lost / (len(chosen) + 1.0)
            kept[chosen] *= len(chosen) / (len(chosen) + 1.0)
        total += values[leaf[:, t]]
    if fitting.start is not None and leaf.shape[1]:
        before[:, 0] = fitting.start[0]
    return before


def chance(margin: FloatArray) -> FloatArray:
    """P = 1 / (1 + exp(-F)): the chance of the second class, in the precision of the margin."""
    one = margin.dtype.type(1)
    power = _exp(-np.clip(margin.astype(float), -_FAR, _FAR), margin.dtype == np.float32)
    return np.asarray(one / (one + power.astype(margin.dtype)))


def _exp(x: FloatArray, single: bool) -> FloatArray:
    """Work out e to the x, for ``single`` precision as C libraries do.

    NumPy's own is up to 3 units off then. C libraries take 2^(k / 32), k whole, times a polynomial
    of the rest, which rounds to the nearest number but for one in some 1,700.
    """
    if not single:
        return np.asarray(np.exp(x))
    k = np.rint(x * _THIRTY_SECONDTHS)
    r = x * _THIRTY_SECONDTHS - k
    a, b, c = _REST
    return np.asarray(((a * r + b) * (r * r) + (c * r + 1)) * np.exp2(k / 32))


def classes_of_trees(release: Release) -> IntArray:
    """Say of each tree which class it speaks of: the second, where there is one output."""
    return np.array([1 if tree.output is None else tree.output for tree in release.trees])


def chances(geometry: Geometry, leaf: NDArray[Any]) -> FloatArray:
    """Give the chance of each tree's own class, before the tree: parameters as for `margins`.

    Of several outputs, all trees of a round saw the same predictions: one tree of each output.
    """
    ensemble, fitting = fitted(geometry.release)
    if fitting.loss == "logistic":
        return chance(margins(geometry.release, leaf))
    kind = np.dtype(fitting.margins)
    values = at_leaves(geometry.release, VALUE).astype(kind)
    n_outputs = len(ensemble.base_scores)
    probability = np.empty(leaf.shape, dtype=kind)
    total = np.tile(np.array(ensemble.base_scores, dtype=kind), (len(leaf), 1))
    for first in range(0, leaf.shape[1], n_outputs):
        seen = total
        if first == 0 and fitting.start is not None:
            seen = np.tile(np.array(fitting.start, dtype=kind), (len(leaf), 1))
        share = np.exp(seen - seen.max(axis=1, keepdims=True))
        round_ = slice(first, first + n_outputs)
        probability[:, round_] = share / share.sum(axis=1, keepdims=True)
        total = total + values[leaf[:, round_]]
    return probability
