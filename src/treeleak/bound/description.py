"""How many bits a release holds of what depends on the training rows.

Two prefix codes: a model code, defined by a probability for each release, and the arrays compressed
as they are. Public, and so in neither: columns and their domains, classes, library and settings.
"""

from __future__ import annotations

import lzma
import math
import zlib
from collections.abc import Mapping

import numpy as np
from scipy.special import gammaln

from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.release.release import Release
from treeleak.release.statistics import NodeStatistic
from treeleak.release.tree import Tree

Ends = Mapping[str, tuple[float, float]]
"""Least and greatest value of columns, where these are public."""
_LN2 = math.log(2)
_REAL = 64
"""Bits of a number as files write it; half of them where all fit single precision."""


def description_length(release: Release, ends: Ends, n_rows: int) -> tuple[float, str]:
    """Give the bits of the shorter code, one more to say which, and its name.

    The number of training rows is public.
    """
    codes = {
        "model code": model_bits(release, ends, n_rows), "compressed": compressed_bits(release),
    }  # fmt: skip
    name = min(codes, key=lambda k: codes[k])
    return codes[name] + 1.0, name


def model_bits(release: Release, ends: Ends, n_rows: int) -> float:
    """Length of a release under the model code: minus the logarithm of its probability.

    In this order, each given all before it:

    - The number of trees; of each tree, node by node from the root on, whether it is a leaf, by
      Laplace's rule of succession.
    - In which order the nodes stand, where it is neither depth first nor breadth first.
    - The column of each test, by the same rule.
    - Of each column, the set of its thresholds: of the multiples of one half in its domain, if all
      are; else of all floating-point numbers. Then which one each test has.
    - Where missing values go, whether tests are strict, and which categories go left.
    - Of each statistic whether it is given; counts of the root as parts of all rows, and others as
      parts of those of the parent, all parts equally likely; other numbers as they are.
    - The borders and the ends of columns that the file holds beside the trees.
    """
    trees = release.trees
    bits = _whole(len(trees)) + sum(
        _shares([len(t.leaves), t.n_nodes - len(t.leaves)]) for t in trees
    )
    bits += sum(map(_order, trees))
    inner = [~t.is_leaf for t in trees]
    tested = np.concatenate([t.feature[i] for t, i in zip(trees, inner, strict=True)])
    bits += _shares(np.bincount(tested, minlength=release.n_features).tolist())
    cut = np.concatenate([t.threshold[i] for t, i in zip(trees, inner, strict=True)])
    for c, name in enumerate(release.feature_names):
        here = cut[(tested == c) & ~np.isnan(cut)]
        distinct = np.unique(here)
        bits += _whole(len(distinct)) + 1 + _set_of(distinct, ends.get(name))
        bits += len(here) * math.log2(max(len(distinct), 1))
    for name in ("missing_left", "strict"):
        flags = [getattr(t, name)[i] for t, i in zip(trees, inner, strict=True)
                 if getattr(t, name) is not None]  # fmt: skip
        bits += 1 + _flags(np.concatenate([np.zeros(0, dtype=bool), *flags]))
    for sets in release.category_sets:
        named = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *sets]))
        bits += _whole(len(named)) + 31 * len(named)
        tests = [t.categories for t in trees if t.categories is not None] if sets else []
        bits += sum(len(named) * len(test.by_node) for test in tests)
    bits += sum(_of_statistics(tree, n_rows) for tree in trees)
    held = [*release.borders.values(), *release.ranges.values()]
    return bits + sum(_whole(len(numbers)) + _REAL * len(numbers) for numbers in held)


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
    ones = int(flags.sum())
    return _shares([ones, len(flags) - ones])


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


def _of_statistics(tree: Tree, n_rows: int) -> float:
    bits, by_class = 0.0, None
    for entry in sorted(tree.statistics, key=lambda e: not e.per_class):
        bits += 1.0 + _flags(entry.held)
        additive = entry.present is None and _adds_up(tree, entry.values)
        if by_class is not None and np.array_equal(by_class, entry.values):
            bits += 1.0  # The sum over the classes, which are known.
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
