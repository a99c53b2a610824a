"""Values of rows that are known to lie in boxes: draws that agree with the cuts of all nodes.

Values are drawn one after the other from what their columns hold, and hold beside the other values
of the row. They are the less likely the more nodes would have had a better cut with them
(below). First these statements weigh little and then more and more. How often each
value is drawn in the end says how sure it is. In columns of few values, known values count for more
than drawn ones.

What trees say of values by the cuts that they did not choose: none of them was better.

A node is split where that lowers the loss most. With the rows in each node and their derivatives
known, every other cut of every column must lower it less: as many statements on values as there
are nodes and cuts. So must every cut of a leaf that might have been split. Of cuts that come to the
same, a library takes the lowest or the highest, so that some row lies right beside it.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np

from treeleak.attacks.loss_sums.value_kernels import (
    BEFORE,
    Axes,
    Nodes,
    Pairs,
    Rules,
    Sums,
    beside,
    better_cuts,
    draw,
    left_sums,
)
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.parallel import run_all
from treeleak.evidence.loss_sums import FIRST, SECOND, Derivative
from treeleak.evidence.predictions import fitted
from treeleak.partition import Geometry

_SWEEPS, _LEAST_SWEEPS = 100, 20
"""Draws of all values in each chain, and the least of them when time runs out."""
_COST = 4.0
"""What a statement weighs in the end: how many times e less likely is a value that misses it."""
_RISING, _HEARD = 0.5, 0.6
"""Share of the draws in which that rises, and after which they count."""
_BINS = 8
"""Bins of the values of a column, at most."""
_DRAWN, _FEW, _MANY = 0.25, 0.5, 0.25
"""What a drawn value counts for in a column of few values, one for each bin: else values would soon
be like those drawn before, and not like known ones. And the powers (:attr:`Pairs.power`) of such
columns and of others."""


def values_in_boxes(
    geometry: Geometry, leaf: IntArray, label: IntArray, box: BoolArray, clock: Clock,
    seed: tuple[int, ...], n_chains: int,
) -> FloatArray:  # fmt: skip
    """Say how likely each row has each atom, shape (n_rows, n_atoms).

    Parameters
    ----------
    leaf : int array, shape (n_rows, n_trees)
        Leaves (rows of A) of the first trees.
    label : int array, shape (n_rows,)
    box : bool array, shape (n_rows, n_atoms)
        Atoms of all attributes that a row may have.
    seed : tuple of int
    n_chains : int
        Chains of draws. When the time is up, the others are left out.
    """
    axes = axes_of(geometry)
    parts = [box[:, begin:end] for begin, end in pairwise(axes.atoms.tolist())]
    low = np.column_stack([part.argmax(axis=1) for part in parts])
    last = [part.shape[1] - 1 - part[:, ::-1].argmax(axis=1) for part in parts]
    ends = low, np.column_stack(last)
    tables = best_cuts(geometry, axes, leaf, label, ends)

    def chain(number: int) -> FloatArray:
        if number and clock.stopped:
            return np.zeros(box.shape)
        return _drawn(box, ends, axes, *tables, clock, np.random.default_rng([*seed, number]))

    share = sum(run_all([partial(chain, i) for i in range(n_chains)]), np.zeros(box.shape))
    for a, (begin, end) in enumerate(pairwise(axes.atoms.tolist())):
        part = share[:, begin:end]
        single = ends[0][:, a] == ends[1][:, a]
        part[single] = parts[a][single]
        part /= part.sum(axis=1, keepdims=True)
    return share


def _drawn(
    box: BoolArray,
    ends: tuple[IntArray, IntArray],
    axes: Axes,
    nodes: Nodes,
    rules: Rules,
    clock: Clock,
    rng: np.random.Generator,
) -> FloatArray:
    """Add up over a chain how likely each value was."""
    first = rng.random(box.shape) * box
    parts = np.split(first, axes.atoms[1:-1], axis=1)
    atom = np.column_stack([x.argmax(axis=1) for x in parts])
    sums = sums_of(atom, ends, nodes, axes)
    share = np.zeros(box.shape)
    for sweep in range(_SWEEPS):
        if clock.stopped and sweep >= _LEAST_SWEEPS:
            break
        if sweep == int(_HEARD * _SWEEPS):
            share[:] = 0.0
        cost = _COST * min((sweep + 1) / (_RISING * _SWEEPS), 1.0)
        draw(
            atom, ends, box, sums, nodes, axes, rules, cost,
            rng.permutation(atom.size), rng.random(atom.size), share,
        )  # fmt: skip
    return share


def sums_of(atom: IntArray, ends: tuple[IntArray, IntArray], nodes: Nodes, axes: Axes) -> Sums:
    """Add up values of all rows; beside each other, by bins of neighbours where there are many.

    ``ends``, shape (n_rows, n_attributes) each: first and last atom that each value may have.
    """
    n_atoms = np.diff(axes.atoms)
    n_bins = np.minimum(n_atoms, _BINS)
    number = np.arange(axes.atoms[-1]) - np.repeat(axes.atoms[:-1], n_atoms)
    of = np.repeat([n_atoms, n_bins, np.cumsum(n_bins) - n_bins], n_atoms, axis=1)
    bin_of = of[2] + number * of[1] // of[0]
    few = n_atoms <= _BINS
    weight = np.where((ends[0] != ends[1]) & few, _DRAWN, 1.0)
    at = atom + axes.atoms[:-1]
    rows = np.bincount(at.ravel(), weight.ravel(), len(bin_of)).astype(float) + BEFORE
    one_hot = np.zeros((len(atom), int(n_bins.sum())))
    np.put_along_axis(one_hot, bin_of[at], 1.0, axis=1)
    weighted = one_hot * np.repeat(weight, n_bins, axis=1)
    power = np.where(few, _FEW, _MANY)
    pairs = Pairs(bin_of, weighted.sum(axis=0), weighted.T @ one_hot, weight, power)
    return Sums(rows, pairs, left_sums(atom, nodes, axes), beside(atom, nodes))


_OFF, _BESIDE, _ROUNDED = 1e-5, 2e-6, 1e-6
"""By how much what a cut comes to may be off that was computed in single precision; and sums."""
_LEAST_CASES = 20
"""Cases in which a rule must hold to be one of the library."""
_WRONG, _KEPT = 1e-3, 0.1
"""Share of cuts that may be better than the one chosen, for a few rows lie elsewhere; and least
share of all cuts of which a rule must speak."""
_MOST_PLACES = 2**24
"""Pairs of a node and a cut, at most: sums of each take 400 MB for each chain that draws."""
_IN_LEAF = 2


def axes_of(geometry: Geometry) -> Axes:
    """List cuts of columns whose atoms lie in order: of numbers, none of which is missing."""
    n_cuts = np.zeros(len(geometry.parts), dtype=np.int64)
    for a, part in enumerate(geometry.parts):
        values = part.representatives
        ordered = values.shape[1] == 1 and (np.diff(values[:, 0]) > 0).all()
        if ordered and not geometry.release.category_sets[int(part.columns[0])]:
            n_cuts[a] = len(part) - 1
    return Axes(*(np.append(0, np.cumsum(n)) for n in (geometry.radix, n_cuts)))


def best_cuts(
    geometry: Geometry,
    axes: Axes,
    leaf: IntArray,
    label: IntArray,
    ends: tuple[IntArray, IntArray],
) -> tuple[Nodes, Rules]:
    """Say what known leaves and classes of rows let nodes say of their values.

    What a library does is not taken for granted: a rule is dropped that does not hold where values
    are known.

    Parameters
    ----------
    leaf : int array, shape (n_rows, n_trees)
        Leaves (rows of A) of the first trees.
    label : int array, shape (n_rows,)
    ends : two int arrays, shape (n_rows, n_attributes)
        First and last atom that each value may have.
    """
    nodes, rules = _nodes(geometry, axes, leaf, label)
    if len(nodes.best) * int(axes.cuts[-1]) > _MOST_PLACES:
        return _selected(nodes, np.zeros(len(nodes.best), dtype=bool)), rules
    # Where as many rows lie left of a cut with their last atoms as with their first ones, these are
    # the same.
    sums = left_sums(ends[1], nodes, axes)
    known = left_sums(ends[0], nodes, axes)[..., 2] == sums[..., 2]
    better = better_cuts(sums, nodes, rules)
    # As many rows of the node as have so much of its second derivatives.
    _, H, rows = nodes.totals
    share = np.minimum(sums[..., 1], H[:, None] - sums[..., 1]) * (rows / H)[:, None]
    inner, least = nodes.column >= 0, np.full(len(known), np.inf)
    # In most leaves hardly any cut could be better: there, a few say that the rule is another one.
    for kind, wrong in ((inner, _WRONG), (~inner, 0.0)):
        known_split = known & kind[:, None]
        least[kind] = _from_where(share[known_split], better[known_split], wrong)
    selected = nodes._replace(least=np.maximum(nodes.least, least * H / rows))
    return _selected(selected, np.isfinite(least)), rules._replace(touches=_touches(nodes, ends))


def _nodes(geometry: Geometry, axes: Axes, leaf: IntArray, label: IntArray) -> tuple[Nodes, Rules]:
    """List all nodes that are split by a cut, and leaves that might have been."""
    release, n_trees = geometry.release, leaf.shape[1]
    _, fitting = fitted(release)
    derivatives = [Derivative(geometry, which)(leaf, label) for which in (FIRST, SECOND)]
    attribute = np.full(release.n_features, -1)
    for a, part in enumerate(geometry.parts):
        if axes.cuts[a + 1] > axes.cuts[a]:
            attribute[part.columns[0]] = a
    trees = release.trees[:n_trees]
    deepest = max(int(tree.depth.max()) for tree in trees)
    begin = np.append(0, np.cumsum([tree.n_nodes for tree in trees]))
    entries, columns, atoms, least = [], [], [], [np.inf, np.inf]
    every = np.arange(len(leaf))
    for t, tree in enumerate(trees):
        column = np.where(tree.is_leaf, -1, attribute[tree.feature])
        atom = np.full(tree.n_nodes, -1)
        cut = tree.cuts(release.float_type)
        for v in np.flatnonzero(column >= 0):
            values = geometry.parts[column[v]].representatives[:, 0].astype(release.float_type)
            atom[v] = int((values <= cut[v]).sum()) - 1
        at = tree.leaves[leaf[:, t] - geometry.leaf_start[t]]
        each, above, right = tree.passed(at)
        row, node = np.append(every, each), np.append(at, above)
        side = np.append(np.full(len(every), _IN_LEAF), right)
        for k, entry in enumerate((derivatives[1][:, t], np.ones(len(leaf)))):
            least[k] = min(least[k], float(np.bincount(at, entry)[np.unique(at)].min()))
        observed = np.where(tree.is_leaf, tree.depth < deepest, column >= 0)[node]
        entries.append(np.array([row, begin[t] + node, side, np.full(len(row), t)])[:, observed])
        columns.append(column)
        atoms.append(atom)
    row, place, side, tree_of = np.concatenate(entries, axis=1)
    order = np.argsort(row, kind="stable")
    row, place, side, tree_of = (x[order] for x in (row, place, side, tree_of))
    used, node = np.unique(place, return_inverse=True)
    first, second = (x[row, tree_of] for x in derivatives)
    n = len(used)
    totals, left = (
        np.array(
            [np.bincount(node[entry], x[entry], n) for x in (first, second, np.ones(len(node)))]
        )
        for entry in (slice(None), side != 1)
    )
    best = left[0] ** 2 / (left[1] + fitting.l2)
    right = totals - left
    # Of leaves, all is on the left.
    both = right[2] > 0
    best[both] += right[0, both] ** 2 / (right[1, both] + fitting.l2)
    start = np.searchsorted(row, np.arange(len(leaf) + 1))
    least_second, least_rows = (1 - _ROUNDED) * np.array(least)
    nodes = Nodes(
        start, node.ravel(), side, first, second, totals, best * (1 + _OFF) + _BESIDE,
        np.full(n, least_second), np.concatenate(columns)[used], np.concatenate(atoms)[used],
    )  # fmt: skip
    return nodes, Rules(fitting.l2, float(least_rows), np.zeros(2, dtype=bool))


def _from_where(share: FloatArray, better: BoolArray, wrong: float) -> float:
    """Say how many rows each side must have for hardly any cut to be better; inf if none are left.

    LightGBM asks for a number of rows on each side, but estimates it by second derivatives.

    ``share``: rows on the smaller side, by that estimate; ``better``: whether the cut is better.
    ``wrong``: share of cuts that may be.
    """
    order = np.argsort(-share, kind="stable")
    many = np.arange(1, len(share) + 1)
    fine = np.flatnonzero(np.cumsum(better[order]) <= wrong * many)
    n = int(fine[-1]) + 1 if len(fine) else 0
    if n < max(_LEAST_CASES, _KEPT * len(share)):
        return np.inf
    return float(share[order[n - 1]]) if n < len(share) else 0.0


def _selected(nodes: Nodes, valid: BoolArray) -> Nodes:
    """Let the other nodes say nothing of cuts that are better."""
    return nodes._replace(best=np.where(valid, nodes.best, np.inf))


def _touches(nodes: Nodes, ends: tuple[IntArray, IntArray]) -> BoolArray:
    """Say on which sides of a cut some row always lies right beside it, as far as is known."""
    low, high = ends
    surely = beside(np.where(low == high, low, -1), nodes)[nodes.column >= 0]
    # All values on the left side go up to the cut, at most.
    perhaps = np.where([True, False], beside(high, nodes), beside(low, nodes))[nodes.column >= 0]
    return np.asarray((perhaps > 0).all(axis=0) & ((surely > 0).sum(axis=0) >= _LEAST_CASES))
