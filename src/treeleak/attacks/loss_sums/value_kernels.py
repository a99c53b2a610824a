"""Loops over the cuts of nodes: what rows on their left side sum up, and draws of values."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.compiled import njit

BEFORE = 1.0
"""How many rows hold each value before any is drawn."""
_USUAL = 4.0
"""Rows as they are in all that are added to those with a value."""


class Nodes(NamedTuple):
    """Nodes that say something of cuts, and the rows in them."""

    start: IntArray
    """Shape (n_rows + 1,). Entries of row i below are start[i] to start[i + 1] - 1."""
    node: IntArray
    """Shape (n_entries,). Nodes in which a row is."""
    side: IntArray
    """Shape (n_entries,). 0 where it goes left from there, 1 where it goes right, 2 in a leaf."""
    first: FloatArray
    second: FloatArray
    """Shape (n_entries,). Derivatives of the row in the tree of the node."""
    totals: FloatArray
    """Shape (3, n_nodes). First and second derivatives and rows, added up."""
    best: FloatArray
    """Shape (n_nodes,). What no other cut comes to; infinite where nothing is said of others."""
    least: FloatArray
    """Shape (n_nodes,). Second derivatives that each side of a cut has, at least."""
    column: IntArray
    atom: IntArray
    """Shape (n_nodes,). Attribute that is tested, and the last atom that goes left; -1 in leaves,
    and for tests that are no cuts."""


class Axes(NamedTuple):
    """Atoms of all attributes, and cuts between those that lie in order."""

    atoms: IntArray
    """Shape (n_attributes + 1,). Where the atoms of each attribute begin."""
    cuts: IntArray
    """Shape (n_attributes + 1,). Where its cuts do; an attribute without order has none."""


class Rules(NamedTuple):
    """What the library does."""

    l2: float
    least_rows: float
    """Rows that each side of a cut has, at least."""
    touches: BoolArray
    """Shape (2,). Whether the left side of a cut has a row in the atom beside it, and the right."""


class Pairs(NamedTuple):
    """How often values of two columns are in one row, by bins of values."""

    bin: IntArray
    """Shape (n_atoms,). Bins of all attributes are numbered through."""
    held: FloatArray
    """Shape (n_bins,). Rows with a value in each bin, by their weight."""
    both: FloatArray
    """Shape (n_bins, n_bins). Rows with values in both, by the weight in the first one's column."""
    weight: FloatArray
    """Shape (n_rows, n_attributes). What a row counts for in a column."""
    power: FloatArray
    """Shape (n_attributes,). To which the chance of a row's other values is taken: they depend on
    each other, and much of what was learned of them comes from values that were drawn themselves.
    """


class Sums(NamedTuple):
    """What values of all rows add up to, kept right as one of them changes."""

    rows: FloatArray
    """Shape (n_atoms,). Rows with each value, by their weight, and those that each had before."""
    pairs: Pairs
    left: FloatArray
    """Shape (n_nodes, n_cuts, 3), as :func:`left_sums` has it; not kept right at nodes of which
    :attr:`Nodes.best` is infinite, for nothing is asked of them."""
    near: IntArray
    """Shape (n_nodes, 2), as :func:`beside` has it."""


@njit()
def left_sums(atom: IntArray, nodes: Nodes, axes: Axes) -> FloatArray:
    """Add up derivatives and rows on the left side of each cut, shape (n_nodes, n_cuts, 3)."""
    # What is looked at together lies together.
    out = np.zeros((len(nodes.best), axes.cuts[-1], 3))
    for i in range(len(atom)):
        for o in range(nodes.start[i], nodes.start[i + 1]):
            v = nodes.node[o]
            for a in range(atom.shape[1]):
                at = axes.cuts[a] + atom[i, a]
                if at < axes.cuts[a + 1]:
                    out[v, at, 0] += nodes.first[o]
                    out[v, at, 1] += nodes.second[o]
                    out[v, at, 2] += 1.0
    for v in range(len(out)):
        for a in range(atom.shape[1]):
            for at in range(axes.cuts[a] + 1, axes.cuts[a + 1]):
                for k in range(3):
                    out[v, at, k] += out[v, at - 1, k]
    return out


@njit()
def beside(atom: IntArray, nodes: Nodes) -> IntArray:
    """Count the rows in the atom beside each node's cut, on either side, shape (n_nodes, 2)."""
    out = np.zeros((len(nodes.best), 2), dtype=np.int64)
    for i in range(len(atom)):
        for o in range(nodes.start[i], nodes.start[i + 1]):
            v, side = nodes.node[o], nodes.side[o]
            if nodes.column[v] >= 0 and atom[i, nodes.column[v]] == nodes.atom[v] + side:
                out[v, side] += 1
    return out


@njit()
def _better(G: float, H: float, n: float, v: int, nodes: Nodes, rules: Rules) -> Any:
    """Whether a cut comes to more than it may: G_L^2 / (H_L + l2) + G_R^2 / (H_R + l2)."""
    g, h, m = nodes.totals[0, v] - G, nodes.totals[1, v] - H, nodes.totals[2, v] - n
    if min(H, h) < nodes.least[v] or min(n, m) < rules.least_rows:
        return False
    left, right = H + rules.l2, h + rules.l2
    # Multiplied by both denominators, in place of two divisions.
    return G * G * right + g * g * left > nodes.best[v] * left * right


@njit()
def better_cuts(sums: FloatArray, nodes: Nodes, rules: Rules) -> BoolArray:
    """Say which cuts come to more than they may, shape (n_nodes, n_cuts)."""
    out = np.empty((len(nodes.best), sums.shape[1]), dtype=np.bool_)
    for v in range(len(out)):
        for cut in range(out.shape[1]):
            cut_sums = sums[v, cut]
            out[v, cut] = _better(cut_sums[0], cut_sums[1], cut_sums[2], v, nodes, rules)
    return out


@njit()
def draw(
    atom: IntArray, ends: tuple[IntArray, IntArray], allowed: BoolArray, sums: Sums, nodes: Nodes,
    axes: Axes, rules: Rules, cost: float, order: IntArray, chance: FloatArray, share: FloatArray,
) -> float:  # fmt: skip
    """Draw values anew, one after the other, in place; returns how many statements they miss.

    A value is as likely as it is frequent in its column, and beside the other values of its row
    (:func:`_beside_others`); and less by exp(-cost) for each statement that it misses. One of them
    is that no atom beside a cut is empty, for cuts lie between values of the training set.
    ``sums`` are those of ``atom`` and are kept so; ``share``, shape (n_rows, n_atoms), adds up how
    likely each value was.
    """
    missed = 0.0
    most = 0
    for b in range(len(axes.atoms) - 1):
        most = max(most, axes.atoms[b + 1] - axes.atoms[b])
    off, weight, usual = np.zeros(most), np.zeros(most), np.zeros(most)
    beyond = np.zeros(most + 1)
    for z in range(len(order)):
        i, a = order[z] // atom.shape[1], order[z] % atom.shape[1]
        low, high, now = ends[0][i, a], ends[1][i, a], atom[i, a]
        if low == high:
            continue
        off[: high - low + 1] = 0.0
        beyond[: high - low + 2] = 0.0
        ordered = axes.cuts[a + 1] > axes.cuts[a]
        if ordered:
            _missed(i, a, low, high, now, nodes, axes, rules, sums, off, beyond)
        _beside_others(atom, i, a, low, high, axes, sums.pairs, usual)
        least = off[: high - low + 1].min()
        total = 0.0
        for v in range(low, high + 1):
            k = v - low
            rows_left = sums.rows[axes.atoms[a] + v]
            if v == now:
                rows_left -= sums.pairs.weight[i, a]
            if ordered and rows_left <= BEFORE:
                rows_left = math.exp(cost)
            weight[k] = rows_left * math.exp(usual[k] - cost * (off[k] - least))
            if not allowed[i, axes.atoms[a] + v]:
                weight[k] = 0.0
            total += weight[k]
        new, upto = now, 0.0
        for v in range(low, high + 1):
            share[i, axes.atoms[a] + v] += weight[v - low] / total
            if weight[v - low] and upto <= chance[z] * total:
                new = v
            upto += weight[v - low]
        missed += off[new - low]
        if new == now:
            continue
        _counted(atom, i, a, axes, sums, -1.0)
        atom[i, a] = new
        _counted(atom, i, a, axes, sums, 1.0)
        if ordered:
            _moved(i, a, now, new, nodes, axes, sums)
    return missed


@njit()
def _beside_others(
    atom: IntArray, i: int, a: int, low: int, high: int, axes: Axes, pairs: Pairs, out: FloatArray
) -> None:  # fmt: skip
    """Say how likely a row's other values are beside each value of a column: a logarithm.

    As in naive Bayes, each is taken for itself; and the greatest is set to 0.
    """
    now, n = pairs.bin[axes.atoms[a] + atom[i, a]], len(atom)
    last, most = -1, -np.inf
    for v in range(low, high + 1):
        value_bin = pairs.bin[axes.atoms[a] + v]
        if value_bin == last:
            out[v - low] = out[v - low - 1]
            continue
        last, total, itself = value_bin, 0.0, pairs.weight[i, a] if value_bin == now else 0.0
        for b in range(atom.shape[1]):
            if b != a:
                other = pairs.bin[axes.atoms[b] + atom[i, b]]
                both = pairs.both[value_bin, other] - itself + _USUAL * pairs.held[other] / n
                total += math.log(both / (pairs.held[value_bin] - itself + _USUAL))
        out[v - low] = pairs.power[a] * total
        most = max(most, out[v - low])
    for k in range(high - low + 1):
        out[k] -= most


@njit()
def _counted(atom: IntArray, i: int, a: int, axes: Axes, sums: Sums, sign: float) -> None:
    """Count a value of a row, for itself and beside its other values."""
    pairs, mine = sums.pairs, sign * sums.pairs.weight[i, a]
    sums.rows[axes.atoms[a] + atom[i, a]] += mine
    value_bin = pairs.bin[axes.atoms[a] + atom[i, a]]
    pairs.held[value_bin] += mine
    pairs.both[value_bin, value_bin] += mine
    for b in range(atom.shape[1]):
        if b != a:
            other = pairs.bin[axes.atoms[b] + atom[i, b]]
            pairs.both[value_bin, other] += mine
            pairs.both[other, value_bin] += sign * pairs.weight[i, b]


@njit()
def _missed(
    i: int, a: int, low: int, high: int, now: int, nodes: Nodes, axes: Axes, rules: Rules,
    sums: Sums, off: FloatArray, beyond: FloatArray,
) -> None:  # fmt: skip
    """Count the statements that a row misses with each of its values, in ``off``.

    ``off`` and ``beyond`` are 0 at first.
    """
    last = high - low
    for o in range(nodes.start[i], nodes.start[i + 1]):
        v, g, h = nodes.node[o], nodes.first[o], nodes.second[o]
        for at in range(low, high if nodes.best[v] < np.inf else low):
            cut = axes.cuts[a] + at
            G, H, n = sums.left[v, cut, 0], sums.left[v, cut, 1], sums.left[v, cut, 2]
            if now <= at:
                G, H, n = G - g, H - h, n - 1.0
            # With the row on the left, missed up to there; on the right, missed from there on.
            off[at - low] += _better(G + g, H + h, n + 1.0, v, nodes, rules)
            beyond[at - low + 1] += _better(G, H, n, v, nodes, rules)
        side = nodes.side[o]
        if nodes.column[v] == a and rules.touches[side]:
            place = nodes.atom[v] + side
            others = sums.near[v, side] - (1 if now == place else 0)
            if others == 0 and low <= place <= high:
                beyond[0] += 1.0
                beyond[place - low] -= 1.0
                beyond[place - low + 1] += 1.0
    for k in range(1, last + 1):
        off[last - k] += off[last - k + 1]
        beyond[k] += beyond[k - 1]
    for k in range(last + 1):
        off[k] += beyond[k]


@njit()
def _moved(i: int, a: int, now: int, new: int, nodes: Nodes, axes: Axes, sums: Sums) -> None:
    """Keep the sums of cuts right as a row's value changes."""
    sign = 1.0 if new < now else -1.0
    for o in range(nodes.start[i], nodes.start[i + 1]):
        v, side = nodes.node[o], nodes.side[o]
        first, last = axes.cuts[a] + min(now, new), axes.cuts[a] + max(now, new)
        for at in range(first, last if nodes.best[v] < np.inf else first):
            sums.left[v, at, 0] += sign * nodes.first[o]
            sums.left[v, at, 1] += sign * nodes.second[o]
            sums.left[v, at, 2] += sign
        if nodes.column[v] == a:
            sums.near[v, side] -= now == nodes.atom[v] + side
            sums.near[v, side] += new == nodes.atom[v] + side


def compile_all() -> None:
    """Compile all loops, in the types that they are called with."""
    one, none, place = np.ones(1), np.zeros((1, 1), np.int64), np.zeros(2, np.int64)
    few = np.zeros(1, np.int64)
    nodes = Nodes(place, few, few, one, one, np.ones((3, 1)), one, one, few, few)
    axes, rules = Axes(np.arange(2), np.arange(2)), Rules(1.0, 1.0, np.zeros(3, bool))
    left: Any = left_sums(none, nodes, axes)
    better_cuts(left, nodes, rules)
    pairs = Pairs(few, one, np.ones((1, 1)), np.ones((1, 1)), one)
    sums = Sums(one, pairs, left, beside(none, nodes))
    draw(
        none, (none, none), np.ones((1, 1), bool), sums, nodes, axes, rules, 1.0, few, one,
        np.ones((1, 1)),
    )  # fmt: skip
