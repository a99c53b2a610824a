"""How many bits a release holds of what depends on the training rows.

Prefix codes: a model code, defined by a probability for each release; the same given control rows
with labels, which say what tests and counts to expect; and the arrays compressed as they are.
Public, and so in none: columns and their domains, classes, library, settings, and control rows.
"""

from __future__ import annotations

import lzma
import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import betaln, gammaln

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.release.release import Release
from treeleak.release.statistics import NodeStatistic
from treeleak.release.tree import Tree

Ends = Mapping[str, tuple[float, float]]
"""Least and greatest value of columns, where these are public."""
_LN2 = math.log(2)
_REAL = 64
"""Bits of a number as files write it; half of them where all fit single precision."""
_MOST_NODES = 1_000
"""Nodes up to which tests are looked for among those of control rows: some seconds. Such trees of
more nodes hold more than any bound allows."""


@dataclass(frozen=True, eq=False)
class Labelled:
    """Control rows with labels.

    Attributes
    ----------
    rows : array, shape (n, n_features)
    labels : int array, shape (n,)
        Numbers of their classes.
    """

    rows: FloatArray
    labels: IntArray


def description_length(
    release: Release, ends: Ends, n_rows: int, control: Labelled | None = None
) -> tuple[float, str]:
    """Give the bits of the shortest code, those that say which, and its name.

    The number of training rows is public.
    """
    codes = {
        "model code": model_bits(release, ends, n_rows), "compressed": compressed_bits(release),
    }  # fmt: skip
    if control is not None and _expects(release):
        codes["model code given control rows"] = model_bits(release, ends, n_rows, control)
    name = min(codes, key=lambda k: codes[k])
    # How many codes there are is public: it does not follow from the release.
    return codes[name] + math.log2(2 if control is None else 3), name


def _expects(release: Release) -> bool:
    """Whether control rows say what trees test, and what they count."""
    return (
        sum(t.n_nodes for t in release.trees) <= _MOST_NODES
        and not any(release.category_sets)
        and all(t.counts is not None and _adds_up(t, t.counts) for t in release.trees)
    )


def model_bits(release: Release, ends: Ends, n_rows: int, control: Labelled | None = None) -> float:
    """Length of a release under the model code: minus the logarithm of its probability.

    In this order, each given all before it:

    - The number of trees; of each tree its depth and, of each node above that depth, from the root
      on, whether it is a leaf, by Laplace's rule of succession.
    - In which order the nodes stand, where it is neither depth first nor breadth first.
    - The column of each test, by the same rule.
    - Of each column, the set of its thresholds: of the multiples of one half in its domain, if all
      are; else of all floating-point numbers. Then which one each test has.
    - Whether tests are strict, and which categories go left. Last, where missing values go: to the
      child of more rows, as scikit-learn has it where there were none; else flags.
    - Of each statistic whether it is given; counts of the root as parts of all rows, and others as
      parts of those of the parent, all parts equally likely; other numbers as they are.
    - The borders and the ends of columns that the file holds beside the trees.

    With control rows, each test is named by its place among those that part the control rows of its
    node, the best first, and counts by class are coded as control rows let expect them. Which tests
    are such, and halfway between two values, goes by the rule of succession. Whether tests are
    strict then comes before them.
    """
    trees = release.trees
    bits = _whole(len(trees)) + sum(_shape(t) + _order(t) for t in trees)
    inner = [~t.is_leaf for t in trees]
    if control is None:
        bits += _tests(release, inner, ends)
    else:
        bits += sum(_tests_given(t, control, ends, release.feature_names) for t in trees)
    missing = [t.missing_left[i] for t, i in zip(trees, inner, strict=True)]
    strict = [t.strict[i] for t, i in zip(trees, inner, strict=True) if t.strict is not None]
    bits += 1.0 + _flags(np.concatenate([np.zeros(0, dtype=bool), *strict]))
    bits += 1.0
    if not all(map(_to_larger_side, trees)):
        bits += _flags(np.concatenate([np.zeros(0, dtype=bool), *missing]))
    for sets in release.category_sets:
        named = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *sets]))
        bits += _whole(len(named)) + 31 * len(named)
        tests = [t.categories for t in trees if t.categories is not None] if sets else []
        bits += sum(len(named) * len(test.by_node) for test in tests)
    bits += sum(_of_statistics(tree, n_rows, control) for tree in trees)
    held = [*release.borders.values(), *release.ranges.values()]
    return bits + sum(_whole(len(numbers)) + _REAL * len(numbers) for numbers in held)


def _shape(tree: Tree) -> float:
    above = tree.depth < tree.depth.max()
    leaves = int(tree.is_leaf[above].sum())
    return _whole(int(tree.depth.max())) + _shares([leaves, int(above.sum()) - leaves])


def _tests(release: Release, inner: list[BoolArray], ends: Ends) -> float:
    """Bits of columns and thresholds, nothing being known of the rows."""
    trees = release.trees
    tested = np.concatenate([t.feature[i] for t, i in zip(trees, inner, strict=True)])
    bits = _shares(np.bincount(tested, minlength=release.n_features).tolist())
    cut = np.concatenate([t.threshold[i] for t, i in zip(trees, inner, strict=True)])
    for c, name in enumerate(release.feature_names):
        here = cut[(tested == c) & ~np.isnan(cut)]
        distinct = np.unique(here)
        bits += _whole(len(distinct)) + 1 + _set_of(distinct, ends.get(name))
        bits += len(here) * math.log2(max(len(distinct), 1))
    return bits


def _tests_given(tree: Tree, control: Labelled, ends: Ends, names: tuple[str, ...]) -> float:
    """Bits of columns and thresholds: their places among tests of the control rows of each node."""
    bits, of_class = 0.0, np.eye(int(control.labels.max(initial=0)) + 1)[control.labels]
    at = {0: np.arange(len(control.rows))}
    n_halfway, n_between, n_other = 0, 0, 0
    for v in np.flatnonzero(~tree.is_leaf):
        here, c, cut = at.pop(int(v)), int(tree.feature[v]), float(tree.threshold[v])
        gains, values = zip(
            *(_gains(control.rows[here, j], of_class[here]) for j in range(len(names))), strict=True
        )
        gap = int(np.searchsorted(values[c], cut, side="right")) - 1
        if not 0 <= gap < len(gains[c]):
            bits += math.log2(len(names)) + 1.0 + _set_of(np.array([cut]), ends.get(names[c]))
            n_other += 1
        else:
            best = [float(g.max()) for g in gains if len(g)]
            column = sum(len(g) > 0 for g in gains[:c])
            bits += _place(np.array(best), column) + _place(gains[c], gap)
            low, high = values[c][gap : gap + 2]
            if cut == (low + high) / 2:
                n_halfway += 1
            else:
                bits += 1.0 + _set_of(np.array([cut]), (low, high))
                n_between += 1
        left = tree.goes_left(np.full(len(here), v), control.rows[here, c])
        at[int(tree.left[v])], at[int(tree.right[v])] = here[left], here[~left]
    return bits + _shares([n_halfway, n_between, n_other])


def _place(gains: FloatArray, i: int) -> float:
    """Bits of the place of one of some tests, the best first: as a whole number, but not beyond."""
    place = int((gains > gains[i]).sum() + (gains[:i] == gains[i]).sum())
    return _whole(place) + math.log2(len(gains) / (len(gains) + 1))


def _gains(x: FloatArray, of_class: FloatArray) -> tuple[FloatArray, FloatArray]:
    """How much of Gini's impurity each test of a column takes away, and the column's values."""
    values, number = np.unique(x, return_inverse=True)
    table = np.column_stack([np.bincount(number, w, len(values)) for w in of_class.T])
    left = np.cumsum(table, axis=0)[:-1]
    right = table.sum(axis=0) - left
    return sum((side**2).sum(axis=1) / side.sum(axis=1) for side in (left, right)), values


def compressed_bits(release: Release) -> float:
    """Length of the arrays, one kind after the other, compressed by zlib or LZMA.

    The number of nodes of each tree comes first, and the length of all before it.
    """
    parts: dict[str, list[bytes]] = {}

    def add(name: str, array: object) -> None:
        parts.setdefault(name, []).append(np.ascontiguousarray(array).tobytes())

    add("nodes", np.array([t.n_nodes for t in release.trees], dtype="i4"))
    for tree in release.trees:
        add("shape", np.where(tree.is_leaf, 0, tree.right - np.arange(tree.n_nodes)).astype("i4"))
        add("left", np.where(tree.is_leaf, 0, tree.left - np.arange(tree.n_nodes)).astype("i4"))
        add("feature", tree.feature.astype("i4"))
        add("threshold", _short(tree.threshold))
        add("missing", np.packbits(tree.missing_left))
        if tree.strict is not None:
            add("strict", np.packbits(tree.strict))
        if tree.categories is not None:
            held = tree.categories.node, tree.categories.value
            add("categories", np.concatenate([[len(held[0])], *held]).astype("i4"))
        for entry in tree.statistics:
            add(entry.called, _short(entry.values))
            add(entry.called, np.packbits(entry.held))
    for numbers in (*release.borders.values(), *release.ranges.values()):
        add("beside", np.array([len(numbers), *numbers], dtype=float))
    content = b"".join(b"".join(parts[name]) for name in parts)
    sizes = (len(zlib.compress(content, 9)), len(lzma.compress(content, lzma.FORMAT_ALONE)))
    return 1.0 + min(_whole(size) + 8.0 * size for size in sizes)


def _short(x: object) -> object:
    """Write numbers in single precision where nothing is lost, with a byte that says so."""
    values = np.asarray(x, dtype=float)
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    exact = np.array_equal(single.astype(float), values, equal_nan=True)
    kept = single if exact else values
    return np.frombuffer(bytes([exact]) + kept.tobytes(), dtype=np.uint8)


def _whole(n: float) -> float:
    """Bits of a whole number from 0 on, of probability 1 / ((n + 1)(n + 2))."""
    return math.log2((n + 1.0) * (n + 2.0))


def _choose(n: float, k: float) -> float:
    """Logarithm to base 2 of a binomial coefficient."""
    return float(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)) / _LN2


def _shares(counts: list[int]) -> float:
    """Bits of a sequence with these counts of each symbol, by Laplace's rule of succession."""
    n, k = sum(counts), len(counts)
    return float(gammaln(n + k) - gammaln(k) - gammaln(np.array(counts) + 1.0).sum()) / _LN2


def _order(tree: Tree) -> float:
    """Bits of the order of the nodes, given the shape."""
    inner = np.flatnonzero(~tree.is_leaf)
    left, right = tree.left[inner], tree.right[inner]
    size = np.ones(tree.n_nodes, dtype=np.int64)
    for v in inner[::-1]:
        size[v] += size[tree.left[v]] + size[tree.right[v]]
    if np.array_equal(left, inner + 1) and np.array_equal(right, left + size[left]):
        return 1.0
    if np.array_equal(left, 1 + 2 * np.arange(len(inner))) and np.array_equal(right, left + 1):
        return 2.0
    return 2.0 + float(gammaln(tree.n_nodes + 1)) / _LN2


def _flags(flags: BoolArray) -> float:
    """Bits of flags, of which mostly all are alike."""
    ones = int(flags.sum())
    return 2.0 if ones in (0, len(flags)) else 1.0 + _shares([ones, len(flags) - ones])


def _to_larger_side(tree: Tree) -> bool:
    """Whether missing values go left where, and only where, more rows do."""
    rows = next((e.values.reshape(tree.n_nodes, -1).sum(axis=1) for e in tree.statistics
                 if e.present is None and _adds_up(tree, e.values)), None)  # fmt: skip
    inner = np.flatnonzero(~tree.is_leaf)
    return rows is not None and np.array_equal(
        rows[tree.left[inner]] > rows[tree.right[inner]], tree.missing_left[inner]
    )


def _set_of(cuts: FloatArray, ends: tuple[float, float] | None) -> float:
    """Bits of a set of thresholds, whose size is known.

    Of the multiples of one half between the ends of the domain, if all are; else of all numbers, of
    which the order of a few is saved.
    """
    low, high = ends or (-math.inf, math.inf)
    halves = np.array_equal(np.round(2 * cuts), 2 * cuts) and (cuts >= low).all()
    if halves and (cuts <= high).all() and np.isfinite(high - low):
        return _choose(2 * (high - low) + 1, len(cuts))
    width = _REAL // 2 if np.array_equal(cuts.astype(np.float32).astype(float), cuts) else _REAL
    return 1.0 + width * len(cuts) - float(gammaln(len(cuts) + 1)) / _LN2


def _of_statistics(tree: Tree, n_rows: int, control: Labelled | None) -> float:
    bits, by_class = 0.0, None
    for entry in sorted(tree.statistics, key=lambda e: not e.per_class):
        bits += 1.0 + _flags(entry.held)
        additive = entry.present is None and _adds_up(tree, entry.values)
        if by_class is not None and np.array_equal(by_class, entry.values):
            bits += 1.0  # The sum over the classes, which are known.
        elif additive and entry.per_class and control is not None:
            bits += 3.0 + _counts_given(tree, entry.values, n_rows, control)
            by_class = entry.values.sum(axis=1)
        elif additive:
            parts = entry.values.reshape(tree.n_nodes, -1)
            parent = parts[~tree.is_leaf]
            n_others = parts.shape[1] - 1
            of_all = parts[0].sum() == n_rows
            bits += 3.0 + float(np.log2(parent + 1.0).sum())
            bits += _choose(n_rows + n_others, n_others) if of_all else sum(map(_whole, parts[0]))
            if entry.per_class:
                by_class = entry.values.sum(axis=1)
        else:
            bits += 2.0 + _numbers(entry)
    return bits


def _counts_given(tree: Tree, counts: FloatArray, n_rows: int, control: Labelled) -> float:
    """Bits of counts by class: of each class, those on the left are beta-binomial.

    The law of a left child's share has half a row more than the control rows on each side.
    """
    k, leaf = counts.shape[1], tree.apply(control.rows)
    seen = np.zeros((tree.n_nodes, k))
    np.add.at(seen, (leaf, control.labels), 1.0)
    seen, inner = tree.summed(seen), np.flatnonzero(~tree.is_leaf)
    left, right = tree.left[inner], tree.right[inner]
    bits = float(_beta_binomial(counts[left], counts[inner], seen[left], seen[right]).sum())
    root, prior = counts[0], seen[0]
    if root.sum() != n_rows:
        return bits + sum(map(_whole, root))
    for j in range(k - 1):
        rest, of_others = root[j:].sum(), prior[j + 1 :].sum() + (k - 2 - j) / 2
        bits += float(_beta_binomial(root[j], rest, prior[j], of_others))
    return bits


def _beta_binomial(x: Any, n: Any, a: Any, b: Any) -> Any:
    """Bits of a beta-binomial number, by Jeffreys' prior and what was seen on each side."""
    choose = gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1)
    return (betaln(a + 0.5, b + 0.5) - betaln(x + a + 0.5, n - x + b + 0.5) - choose) / _LN2


def _adds_up(tree: Tree, values: FloatArray) -> bool:
    """Whether numbers are whole, and those of a node the sums of those below it."""
    inner = ~tree.is_leaf
    whole = (values >= 0).all() and (values == np.round(values)).all()
    return bool(
        whole and (values[inner] == values[tree.left[inner]] + values[tree.right[inner]]).all()
    )


def _numbers(entry: NodeStatistic) -> float:
    """Bits of numbers that are written as they are."""
    values = np.asarray(entry.values[entry.held], dtype=float)
    if not values.size:
        return 0.0
    with np.errstate(over="ignore"):
        single = values.astype(np.float32).astype(float)
    width = _REAL // 2 if np.array_equal(single, values) else _REAL
    return 1.0 + width * (1 if (values == values.flat[0]).all() else values.size) + 1.0
