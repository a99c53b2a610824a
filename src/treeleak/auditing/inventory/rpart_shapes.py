"""What rpart writes of a tree twice: it follows from the counts, means and deviances of its nodes.

The rules are those of rpart 4.1 (Therneau and Atkinson, "An introduction to recursive partitioning
using the rpart routines"), and were held against its objects. Nothing here gives what rpart
compared at a node and did not take, how weak a split was that is no more, errors of
cross-validation but for numbers of rows, and what trees of other methods than class and anova
predict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadModel
from treeleak.core.private import dataclass
from treeleak.release.adapters.r.values import inside, names_along, number, numbers, text, texts
from treeleak.release.bounds import MOST_CLASSES, at_most
from treeleak.release.stored import StoredObject

_NEAR = 1e-7
"""Of sums in double precision, as a share of the deviance of the root."""
_FRAME = {"var", "n", "wt", "dev", "yval", "complexity", "ncompete", "nsurrogate", "yval2",
          "row.names"}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Nodes:
    """The frame of a tree: what its nodes hold, and how they hang together."""

    variable: NDArray[Any]
    n: FloatArray
    weight: FloatArray
    deviance: FloatArray
    complexity: FloatArray
    inner: IntArray
    below: IntArray
    """Shape (2, inner nodes). Their children, left first."""
    counts: FloatArray
    """Weights of each class; none where no classes are predicted."""
    scale: FloatArray
    """What a row of each class counts in probabilities: its prior over its share."""
    loss: FloatArray
    """Shape (classes, classes): of the true one, of the predicted one."""


def _fails_closed(check: Callable[..., bool]) -> Callable[..., bool]:
    """Say no where a tree lacks what is asked of it, or has another shape."""

    @wraps(check)
    def checked(*given: Any) -> bool:
        try:
            return check(*given)
        except (BadModel, IndexError, KeyError, TypeError, ValueError):
            return False

    return checked


def _nodes(owner: StoredObject) -> Nodes:
    frame = owner.get("frame")
    named = texts(inside(frame, "var"), "var")
    n, weight, deviance, complexity = (
        numbers(inside(frame, k), k, len(named)) for k in ("n", "wt", "dev", "complexity")
    )
    if not np.isfinite([n, weight, deviance, complexity]).all():
        raise BadModel("frame: not finite")
    rows = inside(frame, "row.names")
    each = np.arange(1, len(named) + 1) if np.ndim(rows) == 0 else numbers(rows, "row.names")
    place = {k: v for v, k in enumerate(each.tolist())}
    inner = np.flatnonzero(np.array(named) != "<leaf>")
    below = np.array([[place[2 * each[v] + k] for v in inner] for k in (0, 1)], dtype=int)
    counts, scale, loss = np.empty((len(named), 0)), np.empty(0), np.empty((0, 0))
    if text(owner.get("method")) == "class":
        k = len(texts(owner.get("ylevels"), "ylevels"))
        at_most(MOST_CLASSES, k, "classes")
        counts = numbers(inside(frame, "yval2"), "yval2", len(named), 2)[:, 1 : 1 + k]
        if counts.shape[1] != k or not (counts >= 0).all() or not counts[0].any():
            raise BadModel("yval2: no counts")
        shares = counts[0] / counts[0].sum()
        stated = owner.get("parms")
        prior = shares if stated is None else numbers(inside(stated, "prior"), "prior", k)
        loss = 1 - np.eye(k) if stated is None else numbers(inside(stated, "loss"), "loss", k, 2)
        scale = prior / np.maximum(shares, 1e-300)
    variable, below = np.array(named, dtype=object), below.reshape(2, -1)
    return Nodes(variable, n, weight, deviance, complexity, inner, below, counts, scale, loss)


def is_even(loss: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """Say whether each class that is taken for another one costs 1."""
    if not isinstance(loss, np.ndarray) or loss.ndim != 2 or loss.shape[0] != loss.shape[1]:
        return False
    return np.array_equal(loss, 1 - np.eye(len(loss)))


@_fails_closed
def is_frame(value: Any, owner: StoredObject) -> bool:
    """Say whether a frame has no other columns, and these are what their counts say."""
    nodes, state = _nodes(owner), value.state
    if not {*state} <= _FRAME or not _is_bare(state, owner):
        return False
    label = numbers(state["yval"], "yval")
    if not _prunes(nodes) or not (np.isfinite(label) & (nodes.weight >= 0)).all():
        return False
    if not nodes.counts.size:
        return text(owner.get("method")) != "anova" or _means(nodes, label)
    table, k = numbers(state["yval2"], "yval2", dimensions=2), nodes.counts.shape[1]
    if not (np.isin(label, np.arange(k) + 1) & (label == table[:, 0])).all():
        return False
    scaled = nodes.counts * nodes.scale
    total, risk = scaled.sum(axis=1), scaled @ nodes.loss
    shares = scaled / np.maximum(total, 1e-300)[:, None]
    taken = risk[np.arange(len(label)), label.astype(int) - 1]
    parts = nodes.counts.sum(axis=1), taken, shares, total / nodes.counts[0].sum()
    found = np.column_stack(parts)
    stated = np.column_stack([nodes.weight, nodes.deviance, table[:, 1 + k :]])
    return stated.shape == found.shape and bool(np.allclose(stated, found, _NEAR, _NEAR))


def _is_bare(state: Mapping[str, Any], owner: StoredObject) -> bool:
    """Say whether columns hold no names, levels and attributes but those that rpart gives them."""
    columns = {"<leaf>", *texts(state["var"], "var")}
    if (given := inside(owner, "ordered", "names")) is not None:
        columns |= {*texts(given, "ordered")}
    for key, held in ((k, v.state) for k, v in state.items() if isinstance(v, StoredObject)):
        if not {*held} <= ({"value", "dimnames"} if key == "yval2" else {"codes", "levels"}):
            return False
        named = {*texts(held["levels"], key)} if "levels" in held else set()
        if named - columns or {*(names_along(state[key], 1) or ())} - {"", "nodeprob"}:
            return False
        if names_along(state[key], 0) is not None:
            return False
    return True


def _means(nodes: Nodes, mean: FloatArray) -> bool:
    """Say whether means and deviances are those that the children have together."""
    at, (left, right) = nodes.inner, nodes.below
    whole = nodes.n[left] + nodes.n[right] == nodes.n[at]
    weights = nodes.weight[nodes.below]
    means = (weights * mean[nodes.below]).sum(axis=0) / np.maximum(weights.sum(axis=0), 1e-300)
    between = (weights * (mean[nodes.below] - means) ** 2).sum(axis=0)
    deviances = nodes.deviance[nodes.below].sum(axis=0) + between
    most = max(float(np.abs(mean).max()), 1e-300)
    off = np.abs(means - mean[at]) > _NEAR * most
    off |= np.abs(deviances - nodes.deviance[at]) > _NEAR * (nodes.deviance[0] + most**2)
    return not (off & whole).any()


def _prunes(nodes: Nodes) -> bool:
    """Say whether complexities follow from deviances: what each split saves, the weakest first."""
    risk, root = nodes.deviance, max(float(nodes.deviance[0]), 1e-300)
    stated, off, cut = nodes.complexity * root, _NEAR * root, dict[int, tuple[float, int]]()
    above, own = np.full(len(risk), np.inf), stated.copy()
    above[nodes.below] = stated[nodes.inner]
    if (stated > above + off).any() or (nodes.below <= nodes.inner).any():
        return False
    for k in range(len(nodes.inner) - 1, -1, -1):
        v, children = int(nodes.inner[k]), nodes.below[::-1, k]
        parts = [cut.get(c, (float(risk[c]), 0)) for c in children.tolist()]
        # The weaker side collapses first; the other one with it, if it is as weak then.
        for c in np.argsort(own[children], kind="stable"):
            saved = (risk[v] - sum(p[0] for p in parts)) / (sum(p[1] for p in parts) + 1)
            if saved <= own[children[c]] + off:
                break
            parts[c] = float(risk[children[c]]), 0
        cut[v] = sum(p[0] for p in parts), sum(p[1] for p in parts) + 1
        own[v] = (risk[v] - cut[v][0]) / cut[v][1]
        # No node is worth more than the one above it.
        if abs(stated[v] - min(own[v], above[v])) > off:
            return False
    return True


@_fails_closed
def are_complexities(table: NDArray[Any], owner: StoredObject) -> bool:
    """Say whether lines are those of the tree, pruned to fewer and fewer splits."""
    nodes = _nodes(owner)
    root = max(float(nodes.deviance[0]), 1e-300)
    own = nodes.complexity[nodes.inner]
    for k, (least, splits, error) in enumerate(table[:, :3]):
        # The last line may be of any complexity that somebody asked for.
        if k < len(table) - 1 and not np.isclose(own, least, _NEAR, _NEAR).any():
            return False
        # Of two that are the same but for rounding, one may be weaker.
        if not any(
            splits == kept.sum() and abs(_error(nodes, kept) - error * root) <= _NEAR * root
            for kept in (own > least, own > least + _NEAR * max(abs(least), 1e-3))
        ):
            return False
    if table.shape[1] < 5 or not nodes.counts.size or (nodes.n != nodes.weight).any():
        return True
    if not (is_even(nodes.loss, owner) and np.allclose(nodes.scale, 1)):
        return True
    # Rows that others of them classify wrongly, and the spread of so many ones among zeros.
    wrong = table[:, 3] * root
    spread = np.sqrt(np.maximum(wrong * (1 - wrong / nodes.n[0]), 0)) / root
    near = np.abs(wrong - np.round(wrong)) <= _NEAR * nodes.n[0]
    return bool((near & np.isclose(table[:, 4], spread, _NEAR, _NEAR)).all())


def _error(nodes: Nodes, kept: BoolArray) -> float:
    """Add the deviances of the leaves of a tree that has some of the splits."""
    ends = {0, *nodes.below[:, kept].ravel().tolist()} - {*nodes.inner[kept].tolist()}
    return float(nodes.deviance[sorted(ends)].sum())


@_fails_closed
def are_comparisons(table: NDArray[Any], named: tuple[str, ...], owner: StoredObject) -> bool:
    """Say whether tests improve a tree as much as its nodes say, and those not taken less."""
    nodes, frame = _nodes(owner), owner.get("frame")
    n_compete, n_surrogate = (
        numbers(inside(frame, k), k)[nodes.inner].astype(int) for k in ("ncompete", "nsurrogate")
    )
    starts = np.cumsum([0, *(1 + n_compete + n_surrogate)])[:-1]
    gains, known = _gains(nodes, owner)
    improve, count = table[:, 2], table[:, 0]
    known &= count[starts] == nodes.n[nodes.inner]
    # Costs of columns divide what their tests improve.
    cost = dict[str, float]()
    for at, gain in zip(starts[known], gains[known], strict=True):
        if abs(improve[at] - gain * cost.setdefault(named[at], improve[at] / (gain or 1.0))) > (
            _NEAR * max(abs(improve[at]), 1e-3)
        ):
            return False
    for k, at in enumerate(starts):
        rest = at + 1 + n_compete[k]
        falls = improve[at:rest]
        if (np.diff(falls) > _NEAR * falls.max()).any() or (falls < 0).any():
            return False
        v = nodes.inner[k]
        shares = improve[rest : rest + n_surrogate[k]]
        if nodes.n[v] != nodes.weight[v]:
            continue
        for share in shares:
            of = np.arange(1, int(count[at]) + 1)
            if not (np.abs(share * of - np.round(share * of)) <= 1e-9 * of).any():
                return False
    return True


def _gains(nodes: Nodes, owner: StoredObject) -> tuple[FloatArray, BoolArray]:
    """Work out what the test of each inner node improves, where it follows from nodes."""
    at, (left, right) = nodes.inner, nodes.below
    known = nodes.n[left] + nodes.n[right] == nodes.n[at]
    if not nodes.counts.size:
        saved = nodes.deviance[at] - nodes.deviance[left] - nodes.deviance[right]
        known &= text(owner.get("method")) == "anova"
        known &= nodes.deviance[at] > _NEAR * nodes.deviance[0]
        return saved / np.maximum(nodes.deviance[at], 1e-300), known
    weight = nodes.scale * nodes.loss.sum(axis=1)
    weight = weight / (weight * nodes.counts[0]).sum() * nodes.counts[0].sum()
    scaled = nodes.counts * weight
    total = scaled.sum(axis=1)
    shares = scaled / np.maximum(total, 1e-300)[:, None]
    if number(inside(owner.get("parms"), "split")) == 2:
        impure = -(shares * np.log(np.maximum(shares, 1e-300))).sum(axis=1)
    else:
        impure = 1 - (shares**2).sum(axis=1)
    impure = impure * total
    return impure[at] - impure[left] - impure[right], known


@_fails_closed
def are_importances(value: Any, owner: StoredObject) -> bool:
    """Say whether columns have what their tests improve, and a part of it as surrogates."""
    nodes, frame, splits = _nodes(owner), owner.get("frame"), owner.get("splits")
    table, named = numbers(splits, "splits", dimensions=2), names_along(splits, 0) or ()
    names = texts(inside(value, "names"), "names")
    stated = dict(zip(names, numbers(value, "importance", len(names)), strict=True))
    n_compete, n_surrogate = (
        numbers(inside(frame, k), k).astype(int) for k in ("ncompete", "nsurrogate")
    )
    found, at = dict.fromkeys(stated, 0.0), 0
    is_anova = text(owner.get("method")) == "anova"
    for v in nodes.inner:
        own = table[at, 2] * (nodes.deviance[v] if is_anova else 1.0)
        rest = at + 1 + n_compete[v]
        for line in (at, *range(rest, rest + n_surrogate[v])):
            part = own if line == at else own * table[line, 4]
            found[named[line]] = found.get(named[line], 0.0) + part
        at = rest + n_surrogate[v]
    most = max(map(abs, found.values()), default=0.0)
    return found.keys() == stated.keys() and all(
        abs(found[k] - stated[k]) <= _NEAR * most for k in found
    )
