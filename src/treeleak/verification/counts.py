"""The second, independent path: push rows through the trees and compare the counts.

Nothing here shares code with the partition, the evidence or the attacks, nor with the library that
made the model: only the release's own trees are used.

For boosted models, the loss is added up over rows, tree by tree, and compared with what leaves say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.release.ensemble import Ensemble, as_grown, kept_shares
from treeleak.release.noise.laws import LabelNoise
from treeleak.release.release import Release
from treeleak.release.statistics import HESSIAN, VALUE
from treeleak.release.tree import Tree


@dataclass(frozen=True)
class Miss:
    """A count that the rows do not give."""

    tree: int
    node: int
    label: Any
    """Class label, or None for the total."""
    released: float
    found: float
    unit: str = "rows"
    """What is counted: rows, draws or distinct rows."""

    def __str__(self) -> str:
        what = self.unit if self.label is None else f"{self.unit} of class {self.label!r}"
        return (
            f"tree {self.tree}, leaf {self.node}: the model counts {self.released:g} {what}, "
            f"these rows give {self.found:g}"
        )


@dataclass(frozen=True)
class Check:
    """How far rows are from the released leaf counts."""

    misfit: float
    """Sum of |released - found| over all leaves and classes."""
    misses: int
    """Number of counts that differ."""
    first: Miss | None

    @property
    def ok(self) -> bool:
        """Whether every count is met."""
        return self.misses == 0


def check_rows(
    release: Release,
    X: NDArray[Any],
    y: IntArray | None,
    draws: NDArray[np.unsignedinteger[Any]] | None = None,
    use_distinct: bool = True,
) -> Check:
    """Compare the leaf counts that some rows give with the released ones.

    Parameters
    ----------
    X : float array, shape (n_rows, n_features)
        In the model's columns.
    y : int array, shape (n_rows,), or None
        Index of each row's class; None compares totals only.
    draws : int array, shape (n_trees, n_rows), optional
        How often each tree drew each row; without it, every tree saw every row once.
    use_distinct : bool
        With draws: compare the numbers of distinct rows as well, where the release has them.
    """
    by_class = release.counts_are in ("rows", "draws") and y is not None
    label = y if y is not None and by_class else np.zeros(len(X), dtype=np.int64)
    n_classes = release.n_classes if by_class else 1
    names = release.classes if by_class else (None,)
    rows = np.ascontiguousarray(X, dtype=release.float_type)
    times = np.ones(len(rows))
    if draws is None:
        # Equal rows take equal paths: push each once, with its number of copies.
        table = np.column_stack([rows, label])
        distinct, copies = np.unique(table, axis=0, return_counts=True)
        rows, label = np.ascontiguousarray(distinct[:, :-1]), distinct[:, -1].astype(np.int64)
        times = copies.astype(float)
    tally = _Tally()
    for t, tree in enumerate(release.trees):
        at = tree.apply(rows)
        weight = times if draws is None else draws[t].astype(float)
        apart = by_class and tree.counts is not None
        released = tree.counts if apart else tree.totals
        if released is not None:
            # A tree may count rows together, beside others that count classes.
            of, width = (at * n_classes + label, n_classes) if apart else (at, 1)
            found = _counted(of, weight, tree.n_nodes * width)
            unit = "rows" if draws is None else "draws"
            tally.compare(t, tree, released, found, names if apart else (None,), unit)
        if draws is not None and use_distinct and tree.distinct is not None:
            found = _counted(at, (draws[t] > 0).astype(float), tree.n_nodes)
            tally.compare(t, tree, tree.distinct, found, (None,), "distinct rows")
    return Check(tally.misfit, tally.misses, tally.first)


def check_drawable(
    release: Release, X: NDArray[Any], y: IntArray, use_distinct: bool = True
) -> int:
    """Count the rows that leaves lack: no bootstrap of the rows could give their counts.

    A leaf that counts draws of a class needs a row of it, and as many rows as it counts distinct
    ones, of each class no more than it counts draws.

    ``X`` and ``y``: as for :func:`check_rows`. ``use_distinct``: heed the numbers of distinct rows,
    where the release has them.
    """
    rows = np.ascontiguousarray(X, dtype=release.float_type)
    n_classes, lacking = release.n_classes, 0
    for tree in release.trees:
        counts = tree.counts
        if counts is None and tree.totals is not None and not release.classes:
            counts = tree.totals[:, None]
        if counts is None:
            continue
        at = tree.apply(rows)
        held = _counted(at * n_classes + y, np.ones(len(rows)), tree.n_nodes * n_classes)
        drawn = counts[tree.leaves]
        held = held.reshape(tree.n_nodes, n_classes)[tree.leaves]
        absent = (drawn > 0) & (held == 0)
        lacking += int(absent.sum())
        if use_distinct and tree.distinct is not None:
            hit = np.minimum(held, drawn).sum(axis=1) + absent.sum(axis=1)
            lacking += int(np.maximum(tree.distinct[tree.leaves] - hit, 0).sum())
    return lacking


def check_noisy(release: Release, X: NDArray[Any], y: IntArray) -> float:
    """Sum up the noise that rows leave to be explained.

    The sum of |released - found| over all leaves and classes; where leaves name a class only, how
    many rows that class is short of the largest. Of trees that saw different rows nothing can be
    said: 0.

    ``X`` and ``y``: as for :func:`check_rows`.
    """
    if release.sampling.kind == "disjoint":
        return 0.0
    if release.counts_are != "labels":
        return check_rows(release, X, y).misfit
    rows = np.ascontiguousarray(X, dtype=release.float_type)
    n_classes, short = release.n_classes, 0.0
    for tree in release.trees:
        if tree.counts is not None:
            at = tree.apply(rows)
            held = _counted(at * n_classes + y, np.ones(len(rows)), tree.n_nodes * n_classes)
            held = held.reshape(tree.n_nodes, n_classes)[tree.leaves]
            if isinstance(release.noise, LabelNoise) and release.noise.rule == "present":
                short += float(((tree.counts[tree.leaves] > 0) & (held == 0)).sum())
                continue
            named = np.take_along_axis(held, tree.counts[tree.leaves].argmax(axis=1)[:, None], 1)
            short += float((held.max(axis=1) - named[:, 0]).sum())
    return short


def _counted(at: IntArray, weight: FloatArray, size: int) -> FloatArray:
    return np.asarray(np.bincount(at, weight, minlength=size), dtype=float)


@dataclass
class _Tally:
    misfit: float = 0.0
    misses: int = 0
    first: Miss | None = None

    def compare(
        self,
        t: int,
        tree: Tree,
        released: NDArray[Any],
        found: FloatArray,
        names: Sequence[Any],
        unit: str,
    ) -> None:
        released, found = (a.reshape(tree.n_nodes, len(names)) for a in (released, found))
        off = (found - released)[tree.leaves]
        wrong = np.argwhere(np.abs(off) > 0.5)
        self.misfit += float(np.abs(off).sum())
        self.misses += len(wrong)
        if self.first is None and len(wrong):
            v, c = int(tree.leaves[wrong[0][0]]), int(wrong[0][1])
            self.first = Miss(t, v, names[c], float(released[v, c]), float(found[v, c]), unit)


_OFF = 1e-5
"""By how much a leaf may be off that holds these rows: as a share of what it sums up, and beside
that. A row more or less, or of the other class, makes far more of a difference."""

_EACH = 4e-7
"""How far each row's derivatives may be off."""


def leaves_off(release: Release, X: NDArray[Any], y: IntArray) -> int | None:
    """Count the leaves whose sums, or whose values, these rows do not give.

    Parameters
    ----------
    X : float array, shape (n_rows, n_features)
        In the model's columns.
    y : int array, shape (n_rows,)
        The number of each row's class.

    Returns
    -------
    int or None
        None where it is not known how the leaves were fitted.
    """
    ensemble = release.ensemble
    fitting = None if ensemble is None else ensemble.fitting
    if ensemble is None or fitting is None or not fitting.of_classes:
        return None
    rows, copies = np.unique(
        np.column_stack([X.astype(release.float_type), y]), axis=0, return_counts=True
    )
    X, label, times = rows[:, :-1], rows[:, -1].astype(float), copies.astype(float)
    n_outputs, kind = len(ensemble.base_scores), np.dtype(fitting.margins)
    margin = np.tile(np.array(ensemble.base_scores, dtype=kind), (len(X), 1))
    wrong, before, added = 0, _Before(margin), list[FloatArray]()
    rate, trees, kept = ensemble.learning_rate, release.trees, np.ones(len(release.trees))
    if fitting.dropped:
        shares = kept_shares(fitting.dropped)[: len(trees)]
        trees = tuple(map(as_grown, trees, shares.tolist()))
    for t, tree in enumerate(trees):
        value = tree.statistics.get(VALUE)
        if value is None:
            return None
        leaf = tree.apply(X)
        k, start = t % n_outputs, 0.0
        if t % (n_outputs * fitting.parallel) == 0:
            before = _Before(margin.copy())
        if fitting.dropped:
            chosen = list(fitting.dropped[t])
            lost = sum((kept[i] * added[i] for i in chosen), np.zeros(len(X)))
            before = _Before(margin - lost[:, None])
            margin[:, 0] -= lost / (len(chosen) + 1.0)
            kept[chosen] *= len(chosen) / (len(chosen) + 1.0)
            ensemble = replace(ensemble, learning_rate=rate and rate / (len(chosen) + 1.0))
            added.append(value.values[leaf].astype(kind))
        if fitting.start is not None and t < n_outputs:
            start = fitting.start[k]
            if k == 0:
                before = _Before(np.tile(np.array(fitting.start), (len(X), 1)))
        is_class = (label == (k if n_outputs > 1 else 1)).astype(float)
        if fitting.started or t >= n_outputs:
            weighted = times
            if fitting.class_weights:
                weighted = times * np.array(fitting.class_weights)[label.astype(np.int64)]
            wrong += _off(tree, leaf, before, k, is_class, weighted, ensemble, start)
        margin[:, k] += value.values[leaf].astype(kind)
    return wrong


@dataclass(frozen=True, eq=False)
class _Before:
    """What each row's outputs were before a round of trees, one for each output."""

    margin: FloatArray

    @cached_property
    def _shares(self) -> FloatArray:
        """What the classes of the outputs have of each row: the same for all trees of a round."""
        return _shares(self.margin.astype(float))

    def share(self, k: int, moved: FloatArray | None) -> FloatArray:
        """What one of them has, once its output has been moved, if it has."""
        if moved is None:
            return self._shares[:, k]
        margin = self.margin.astype(float)
        margin[:, k] += moved
        return _shares(margin)[:, k]


def _shares(margin: FloatArray) -> FloatArray:
    if margin.shape[1] == 1:
        with np.errstate(over="ignore"):
            return np.asarray(1.0 / (1.0 + np.exp(-margin)))
    power = np.exp(margin - margin.max(axis=1, keepdims=True))
    return np.asarray(power / power.sum(axis=1, keepdims=True))


def _off(
    tree: Tree,
    leaf: IntArray,
    before: _Before,
    k: int,
    y: FloatArray,
    times: FloatArray,
    ensemble: Ensemble,
    start: float,
) -> int:
    """Count the leaves of one tree, of output k, that the rows do not give."""
    n, fitting = tree.n_nodes, ensemble.fitting
    assert fitting is not None  # noqa: S101
    held, l2 = np.bincount(leaf, times, n), fitting.l2_at(tree)
    step = np.zeros(n)
    first_hessian = None
    for taken in range(fitting.steps):
        p = before.share(k, step[leaf] if taken else None)
        G = np.bincount(leaf, times * (p - y), n)
        H = fitting.curvature * np.bincount(leaf, times * p * (1 - p), n)
        first_hessian = H if first_hessian is None else first_hessian
        G = np.sign(G) * np.maximum(np.abs(G) - fitting.l1, 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            step -= np.where(held > 0, G / (H + l2), 0.0)
    if fitting.longest:
        step = np.clip(step, -fitting.longest, fitting.longest)
    wrong = np.zeros(n, dtype=bool)
    hessian, value = tree.statistics.get(HESSIAN), tree.statistics.get(VALUE)
    checked, off = tree.is_leaf & (held > 0), _OFF * fitting.rough
    if hessian is not None and first_hessian is not None:
        wrong |= np.abs(hessian.values - first_hessian) > off * (1.0 + first_hessian)
    # A tree that is one leaf, and adds nothing, took no step.
    stepped = fitting.steps == 1 and (n > 1 or (value is not None and value.values[0] != start))
    if value is not None and ensemble.learning_rate and stepped and first_hessian is not None:
        due = start + ensemble.learning_rate * step
        # Where rows are all but certain, little divides what rounding leaves of their sum.
        least = np.maximum(first_hessian + l2, 1e-300)
        blur = ensemble.learning_rate * fitting.rough * _EACH * held / least
        wrong |= np.abs(value.values - due) > off * (1.0 + np.abs(due)) + blur
    return int((wrong & checked).sum())
