"""Loops over the cuts of nodes: what rows on their left side sum up, and draws of values."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.compiled import njit


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
    """Shape (n_nodes,). What no other cut comes to."""
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
    least_second: float
    least_rows: float
    """Second derivatives and rows that each side of a cut has, at least."""
    touches: BoolArray
    """Shape (2,). Whether the left side of a cut has a row in the atom beside it, and the right."""


@njit()
def left_sums(atom: IntArray, nodes: Nodes, axes: Axes) -> FloatArray:
    """Add up the rows on the left side of each cut, shape (3, n_nodes, n_cuts)."""
    out = np.zeros((3, len(nodes.best), axes.cuts[-1]))
    for i in range(len(atom)):
        for o in range(nodes.start[i], nodes.start[i + 1]):
            v = nodes.node[o]
            for a in range(atom.shape[1]):
                at = axes.cuts[a] + atom[i, a]
                if at < axes.cuts[a + 1]:
                    out[0, v, at] += nodes.first[o]
                    out[1, v, at] += nodes.second[o]
                    out[2, v, at] += 1.0
    for a in range(atom.shape[1]):
        for at in range(axes.cuts[a] + 1, axes.cuts[a + 1]):
            for k in range(3):
                for v in range(len(nodes.best)):
                    out[k, v, at] += out[k, v, at - 1]
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
def _gain(G: float, H: float, n: float, v: int, nodes: Nodes, rules: Rules) -> Any:
    """Say what a cut comes to, G_L^2 / (H_L + l2) + G_R^2 / (H_R + l2); 0 where it is none."""
    g, h, m = nodes.totals[0, v] - G, nodes.totals[1, v] - H, nodes.totals[2, v] - n
    if min(H, h) < rules.least_second or min(n, m) < rules.least_rows:
        return 0.0
    return G * G / (H + rules.l2) + g * g / (h + rules.l2)


@njit()
def gains(sums: FloatArray, nodes: Nodes, rules: Rules) -> FloatArray:
    """Say the same of all cuts, shape (n_nodes, n_cuts)."""
    out = np.empty((sums.shape[1], sums.shape[2]))
    for v in range(len(out)):
        for cut in range(out.shape[1]):
            own = sums[0, v, cut], sums[1, v, cut], sums[2, v, cut]
            out[v, cut] = _gain(own[0], own[1], own[2], v, nodes, rules)
    return out


@njit()
def draw(
    atom: IntArray, ends: tuple[IntArray, IntArray], allowed: BoolArray, count: FloatArray,
    nodes: Nodes, axes: Axes, rules: Rules, sums: FloatArray, near: IntArray, cost: float,
    order: IntArray, chance: FloatArray, share: FloatArray,
) -> float:  # fmt: skip
    """Draw values anew, one after the other, in place; returns how many statements they miss.

    A value is as likely as it is frequent in its column, and less by exp(-cost) for each statement
    that it misses. ``sums`` and ``near`` are those of ``atom`` and are kept so; ``share``, shape
    (n_rows, n_atoms), adds up how likely each value was.
    """
    missed = 0.0
    most = int(np.diff(axes.atoms).max())
    off, weight = np.zeros(most), np.zeros(most)
    for z in range(len(order)):
        i, a = order[z] // atom.shape[1], order[z] % atom.shape[1]
        low, high, now = ends[0][i, a], ends[1][i, a], atom[i, a]
        if low == high:
            continue
        off[: high - low + 1] = 0.0
        ordered = axes.cuts[a + 1] > axes.cuts[a]
        if ordered:
            _missed(i, a, low, high, now, nodes, axes, rules, sums, near, off)
        least = off[: high - low + 1].min()
        total = 0.0
        for v in range(low, high + 1):
            k = v - low
            own = count[axes.atoms[a] + v] - (1.0 if v == now else 0.0)
            weight[k] = max(own, 0.0) * math.exp(-cost * (off[k] - least))
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
        atom[i, a] = new
        count[axes.atoms[a] + now] -= 1.0
        count[axes.atoms[a] + new] += 1.0
        if ordered:
            _moved(i, a, now, new, nodes, axes, sums, near)
    return missed


@njit()
def _missed(
    i: int, a: int, low: int, high: int, now: int, nodes: Nodes, axes: Axes, rules: Rules,
    sums: FloatArray, near: IntArray, off: FloatArray,
) -> None:  # fmt: skip
    """Count the statements that a row misses with each of its values, in ``off``."""
    for o in range(nodes.start[i], nodes.start[i + 1]):
        v, g, h = nodes.node[o], nodes.first[o], nodes.second[o]
        for at in range(low, high):
            cut = axes.cuts[a] + at
            G, H, n = sums[0, v, cut], sums[1, v, cut], sums[2, v, cut]
            if now <= at:
                G, H, n = G - g, H - h, n - 1.0
            if _gain(G + g, H + h, n + 1.0, v, nodes, rules) > nodes.best[v]:
                for k in range(at - low + 1):
                    off[k] += 1.0
            if _gain(G, H, n, v, nodes, rules) > nodes.best[v]:
                for k in range(at - low + 1, high - low + 1):
                    off[k] += 1.0
        side = nodes.side[o]
        if nodes.column[v] == a and rules.touches[side]:
            place = nodes.atom[v] + side
            others = near[v, side] - (1 if now == place else 0)
            if others == 0 and low <= place <= high:
                for k in range(high - low + 1):
                    off[k] += 1.0 if k + low != place else 0.0


@njit()
def _moved(
    i: int, a: int, now: int, new: int, nodes: Nodes, axes: Axes, sums: FloatArray, near: IntArray
) -> None:
    """Keep sums right as a row's value changes."""
    sign = 1.0 if new < now else -1.0
    for o in range(nodes.start[i], nodes.start[i + 1]):
        v, side = nodes.node[o], nodes.side[o]
        for at in range(axes.cuts[a] + min(now, new), axes.cuts[a] + max(now, new)):
            sums[0, v, at] += sign * nodes.first[o]
            sums[1, v, at] += sign * nodes.second[o]
            sums[2, v, at] += sign
        if nodes.column[v] == a:
            near[v, side] -= now == nodes.atom[v] + side
            near[v, side] += new == nodes.atom[v] + side


def compile_all() -> None:
    """Compile all loops, in the types that they are called with."""
    one, none, place = np.ones(1), np.zeros((1, 1), np.int64), np.zeros(2, np.int64)
    few = np.zeros(1, np.int64)
    nodes = Nodes(place, few, few, one, one, np.ones((3, 1)), one, few, few)
    axes, rules = Axes(np.arange(2), np.arange(2)), Rules(1.0, 1.0, 1.0, np.zeros(3, bool))
    sums: Any = left_sums(none, nodes, axes)
    near: Any = beside(none, nodes)
    gains(sums, nodes, rules)
    draw(
        none, (none, none), np.ones((1, 1), bool), one, nodes, axes, rules, sums, near, 1.0,
        few, one, np.ones((1, 1)),
    )  # fmt: skip
