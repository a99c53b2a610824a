"""Compiled walk of rows over a grid too large to list.

A move takes one attribute of one row and looks at all of its atoms at once: from one to the next,
few trees change their leaf, so that one pass gives the cost of all. The new atom is drawn by its
cost (a heat bath). Counts that stay missed are pulled at harder and harder: each has a multiplier
(an augmented Lagrangian whose price of |A m - n| rises slowly, as in cooling).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np

from treeleak._bits import lowest_bit
from treeleak.attacks._kernels import draw_scored, uniform

__all__ = ["Bath", "Counts", "Likes", "Rows", "Trees", "walk"]


class Trees(NamedTuple):
    """Trees as bits: see :class:`~treeleak.partition.masks.Masks`.

    ``open`` has its trees and words in one axis; ``lively`` are the attributes of several atoms.
    """

    start: Any
    open: Any
    first: Any
    change_start: Any
    change_tree: Any
    lively: Any
    n_words: Any


class Counts(NamedTuple):
    """What is counted, leaves numbered from the left.

    Attributes
    ----------
    equation : int32 array, shape (n_leaves, n_classes)
        In which draws of a class are counted.
    distinct : int32 array, shape (n_leaves,)
        In which rows are counted that the tree drew at all; -1 for none.
    draws : int32 array, shape (n_rows, n_trees)
        How often each tree counts each row.
    residual : int32 array, shape (n_equations,)
        r = A m - n.
    multiplier : float64 array, shape (n_equations,)
        What each draw that is counted adds to the cost.
    """

    equation: Any
    distinct: Any
    draws: Any
    residual: Any
    multiplier: Any


class Likes(NamedTuple):
    """Log prior of a row: a sum over its atoms, and over pairs of bins of neighbouring attributes.

    Attributes
    ----------
    log_share : float32 array, shape (n_lines, n_atoms)
    line : int32 array, shape (n_rows,)
        Each row's line.
    bin : int32 array, shape (n_atoms,)
    neighbour : int32 array, shape (n_attributes, most)
        -1 behind the last.
    coupling : float32 array, shape (n_attributes, most, n_bins, n_bins)
        By own bin and the neighbour's.
    """

    log_share: Any
    line: Any
    bin: Any
    neighbour: Any
    coupling: Any


class Rows(NamedTuple):
    """Rows on their walk.

    Attributes
    ----------
    atoms : int32 array, shape (n_rows, n_attributes)
        Each attribute counted from 0.
    label : int32 array, shape (n_rows,)
    open_rows, open_label : int32 array
        Rows that may move, and those of them whose class may change.
    leaves : int32 array, shape (n_rows, n_trees)
        Numbered from the left.
    best : int32 array, shape (n_rows, n_attributes + 1)
        The rows with the least misfit so far; the class last.
    misfit : int64 array, shape (2,)
        Of the rows, and of the best: sum of |A m - n|, without weights.
    rng : uint64 array, shape (1,)
    """

    atoms: Any
    label: Any
    open_rows: Any
    open_label: Any
    leaves: Any
    best: Any
    misfit: Any
    rng: Any


class Bath(NamedTuple):
    """How rows walk.

    Attributes
    ----------
    price : float
        Of each missed count: rows are as likely as exp(-price x |r| - multiplier x r).
    pull : float
        After each sweep, multipliers grow by pull x price x r.
    swaps : float
        Share of moves that exchange an attribute of two rows.
    trades : int
        How often, for each row and sweep, two rows of a class are to change places altogether.
    classes : float
        Share of moves that draw the class of a row.
    until_met : bool
        Stop as soon as every count is met.
    """

    price: Any
    pull: Any
    swaps: Any
    trades: Any
    classes: Any
    until_met: Any


@nb.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _gain(residual: Any, draws: Any) -> Any:
    """What |residual| grows by with more draws."""
    return abs(residual + draws) - abs(residual)


@nb.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _others(open_: Any, start: Any, atoms: Any, skipped: int, words: Any) -> None:
    """Leaves that all attributes but one leave open."""
    words[:] = ~np.uint64(0)
    for a in range(len(atoms)):
        if a != skipped:
            own = start[a] + atoms[a]
            for w in range(len(words)):
                words[w] &= open_[own, w]


@nb.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _count(counts: Any, leaves: Any, label: int, k: int, sign: int) -> int:
    """Count a row in all of its leaves, or no more; say by how much the misfit grows."""
    equation, distinct, draws = counts.equation, counts.distinct, counts.draws
    residual, grown = counts.residual, 0
    for t in range(len(leaves)):
        b = sign * draws[k, t]
        if b:
            leaf = leaves[t]
            e, d = equation[leaf, label], distinct[leaf]
            grown += _gain(residual[e], b)
            residual[e] += b
            if d >= 0:
                grown += _gain(residual[d], sign)
                residual[d] += sign
    return grown


@nb.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _cost(counts: Any, price: float, leaves: Any, label: int, k: int) -> float:
    """What a row costs in given leaves."""
    equation, distinct, draws = counts.equation, counts.distinct, counts.draws
    residual, multiplier = counts.residual, counts.multiplier
    cost = 0.0
    for t in range(len(leaves)):
        b = draws[k, t]
        if b:
            leaf = leaves[t]
            e, d = equation[leaf, label], distinct[leaf]
            cost += price * _gain(residual[e], b) + multiplier[e] * b
            if d >= 0:
                cost += price * _gain(residual[d], 1) + multiplier[d]
    return cost


@nb.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _enter(trees: Any, words: Any, at: int, out: Any) -> None:
    """Leaf of every tree, given an atom and what all other attributes leave open."""
    open_, first, n_words = trees.open, trees.first, trees.n_words
    for t in range(len(first)):
        for w in range(t * n_words, (t + 1) * n_words):
            word = words[w] & open_[at, w]
            if word != np.uint64(0):
                out[t] = first[t] + 64 * (w - t * n_words) + lowest_bit(word)
                break


@nb.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _costs(
    trees: Any,
    counts: Any,
    price: float,
    words: Any,
    leaf: Any,
    label: int,
    k: int,
    a: int,
    out: Any,
) -> None:
    """What a row costs with each atom of an attribute; ``leaf`` are those of the first one."""
    # Helpers that take arrays cost more than they do here: every look into a tuple of arrays, and
    # every array handed over, counts a reference.
    open_, first, n_words, start = trees.open, trees.first, trees.n_words, trees.start
    change_start, change_tree = trees.change_start, trees.change_tree
    equation, distinct, draws = counts.equation, counts.distinct, counts.draws
    residual, multiplier = counts.residual, counts.multiplier
    cost = _cost(counts, price, leaf, label, k)
    out[0] = cost
    for at in range(start[a] + 1, start[a + 1]):
        for i in range(change_start[at], change_start[at + 1]):
            t = change_tree[i]
            b = draws[k, t]
            if not b:
                continue
            new = leaf[t]
            for w in range(t * n_words, (t + 1) * n_words):
                word = words[w] & open_[at, w]
                if word != np.uint64(0):
                    new = first[t] + 64 * (w - t * n_words) + lowest_bit(word)
                    break
            old = leaf[t]
            if new != old:
                leaf[t] = new
                e, d = equation[new, label], distinct[new]
                cost += price * _gain(residual[e], b) + multiplier[e] * b
                if d >= 0:
                    cost += price * _gain(residual[d], 1) + multiplier[d]
                e, d = equation[old, label], distinct[old]
                cost -= price * _gain(residual[e], b) + multiplier[e] * b
                if d >= 0:
                    cost -= price * _gain(residual[d], 1) + multiplier[d]
        out[at - start[a]] = cost


@nb.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _bathe(
    trees: Any, counts: Any, likes: Any, rows: Any, bath: Any, k: int, a: int, room: Any
) -> None:
    """Draw one attribute of one row afresh, given all else."""
    words, leaf, cost, score = room
    start, label, atoms = trees.start, rows.label[k], rows.atoms[k]
    begin, n = start[a], start[a + 1] - start[a]
    _others(trees.open, start, atoms, a, words)
    grown = _count(counts, rows.leaves[k], label, k, -1)
    _enter(trees, words, begin, leaf)
    _costs(trees, counts, bath.price, words, leaf, label, k, a, cost)
    _like(likes, start, atoms, k, a, score)
    for v in range(n):
        score[v] -= cost[v]
    v = draw_scored(score, n, rows.rng)
    atoms[a] = v
    _enter(trees, words, begin + v, rows.leaves[k])
    rows.misfit[0] += grown + _count(counts, rows.leaves[k], label, k, 1)


@nb.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _like(likes: Any, start: Any, atoms: Any, k: int, a: int, out: Any) -> None:
    """Log prior of each atom of one attribute, given the row's other attributes."""
    log_share, bin_, coupling = likes.log_share, likes.bin, likes.coupling
    line, neighbour = likes.line[k], likes.neighbour
    begin, n = start[a], start[a + 1] - start[a]
    for v in range(n):
        out[v] = log_share[line, begin + v]
    for q in range(neighbour.shape[1]):
        other = neighbour[a, q]
        if other < 0:
            break
        theirs = bin_[start[other] + atoms[other]]
        for v in range(n):
            out[v] += coupling[a, q, bin_[begin + v], theirs]


@nb.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _liking(likes: Any, start: Any, atoms: Any, k: int) -> float:
    """Log prior of a row."""
    log_share, bin_, coupling = likes.log_share, likes.bin, likes.coupling
    line, neighbour = likes.line[k], likes.neighbour
    total = 0.0
    for a in range(len(atoms)):
        at = start[a] + atoms[a]
        total += log_share[line, at]
        for q in range(neighbour.shape[1]):
            other = neighbour[a, q]
            if other < 0:
                break
            if other < a:
                total += coupling[a, q, bin_[at], bin_[start[other] + atoms[other]]]
    return total


@nb.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _relabel(counts: Any, rows: Any, bath: Any, k: int, score: Any) -> None:
    """Draw the class of a row afresh, given all else."""
    leaves, n_classes = rows.leaves[k], counts.equation.shape[1]
    grown = _count(counts, leaves, rows.label[k], k, -1)
    for c in range(n_classes):
        score[c] = -_cost(counts, bath.price, leaves, c, k)
    rows.label[k] = draw_scored(score, n_classes, rows.rng)
    rows.misfit[0] += grown + _count(counts, leaves, rows.label[k], k, 1)


@nb.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _exchange(
    trees: Any, counts: Any, likes: Any, rows: Any, bath: Any,
    k: int, j: int, a: int, room: Any,
) -> None:  # fmt: skip
    """Try to exchange an attribute of two rows."""
    words, new_leaf, new = room
    open_, start, atoms, leaves, label = (
        trees.open,
        trees.start,
        rows.atoms,
        rows.leaves,
        rows.label,
    )
    if atoms[k, a] == atoms[j, a]:
        return
    new[0], new[1] = atoms[k], atoms[j]
    new[0, a], new[1, a] = atoms[j, a], atoms[k, a]
    liked = _liking(likes, start, new[0], k) + _liking(likes, start, new[1], j)
    liked -= _liking(likes, start, atoms[k], k) + _liking(likes, start, atoms[j], j)
    for turn in range(2):
        _others(open_, start, new[turn], 0, words)
        _enter(trees, words, start[0] + new[turn, 0], new_leaf[turn])
    # Taken out one after the other, and put back in the other order: no row sees itself.
    grown = _count(counts, leaves[k], label[k], k, -1)
    before = _cost(counts, bath.price, leaves[k], label[k], k)
    grown += _count(counts, leaves[j], label[j], j, -1)
    before += _cost(counts, bath.price, leaves[j], label[j], j)
    after = _cost(counts, bath.price, new_leaf[1], label[j], j)
    grown += _count(counts, new_leaf[1], label[j], j, 1)
    after += _cost(counts, bath.price, new_leaf[0], label[k], k)
    if uniform(rows.rng) < np.exp(min(0.0, liked - (after - before))):
        grown += _count(counts, new_leaf[0], label[k], k, 1)
        atoms[k], atoms[j] = new[0], new[1]
        leaves[k], leaves[j] = new_leaf[0], new_leaf[1]
        rows.misfit[0] += grown
        return
    _count(counts, new_leaf[1], label[j], j, -1)
    _count(counts, leaves[j], label[j], j, 1)
    _count(counts, leaves[k], label[k], k, 1)


@nb.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _trade(trees: Any, counts: Any, likes: Any, rows: Any, bath: Any, k: int, j: int) -> None:
    """Try to let two rows of a class change places: each in the leaves of the other."""
    equation, distinct, draws = counts.equation, counts.distinct, counts.draws
    residual, multiplier, price = counts.residual, counts.multiplier, bath.price
    atoms, leaves, label = rows.atoms, rows.leaves, rows.label[k]
    cost, grown = 0.0, 0
    for t in range(leaves.shape[1]):
        # So many draws more where j stands, and fewer where k does.
        more = draws[k, t] - draws[j, t]
        here, there = leaves[k, t], leaves[j, t]
        if more == 0 or here == there:
            continue
        e, f = equation[here, label], equation[there, label]
        change = _gain(residual[e], -more) + _gain(residual[f], more)
        cost += (multiplier[f] - multiplier[e]) * more
        one = (1 if draws[k, t] else 0) - (1 if draws[j, t] else 0)
        e, f = distinct[here], distinct[there]
        if one != 0 and e >= 0:
            change += _gain(residual[e], -one) + _gain(residual[f], one)
            cost += (multiplier[f] - multiplier[e]) * one
        cost += price * change
        grown += change
    if likes.line[k] != likes.line[j]:
        cost += _liking(likes, trees.start, atoms[k], k) + _liking(likes, trees.start, atoms[j], j)
        cost -= _liking(likes, trees.start, atoms[j], k) + _liking(likes, trees.start, atoms[k], j)
    if uniform(rows.rng) >= np.exp(min(0.0, -cost)):
        return
    for t in range(leaves.shape[1]):
        more = draws[k, t] - draws[j, t]
        here, there = leaves[k, t], leaves[j, t]
        if here == there:
            continue
        residual[equation[here, label]] -= more
        residual[equation[there, label]] += more
        if distinct[here] >= 0:
            one = (1 if draws[k, t] else 0) - (1 if draws[j, t] else 0)
            residual[distinct[here]] -= one
            residual[distinct[there]] += one
        leaves[k, t], leaves[j, t] = there, here
    for a in range(atoms.shape[1]):
        atoms[k, a], atoms[j, a] = atoms[j, a], atoms[k, a]
    rows.misfit[0] += grown


@nb.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def walk(sweeps: int, trees: Any, counts: Any, likes: Any, rows: Any, bath: Any) -> int:
    """Move rows, in place; a sweep has as many moves as rows have attributes of several atoms.

    Returns
    -------
    int
        Sweeps done.
    """
    n_open, n_trees = len(rows.open_rows), rows.leaves.shape[1]
    n_attributes, n_lively = rows.atoms.shape[1], len(trees.lively)
    classes = bath.classes if len(rows.open_label) else 0.0
    most = counts.equation.shape[1]
    for a in range(n_attributes):
        most = max(most, trees.start[a + 1] - trees.start[a])
    words = np.empty(trees.open.shape[1], dtype=np.uint64)
    room = (words, np.empty(n_trees, dtype=np.int32), np.empty(most), np.empty(most))
    both = (
        words,
        np.empty((2, n_trees), dtype=np.int32),
        np.empty((2, n_attributes), dtype=np.int32),
    )
    for sweep in range(sweeps):
        for _ in range(n_open * bath.trades):
            k = rows.open_rows[int(uniform(rows.rng) * n_open)]
            j = rows.open_rows[int(uniform(rows.rng) * n_open)]
            if rows.label[k] == rows.label[j] and k != j:
                _trade(trees, counts, likes, rows, bath, k, j)
        for _ in range(n_open * n_lively):
            k = rows.open_rows[int(uniform(rows.rng) * n_open)]
            a = trees.lively[int(uniform(rows.rng) * n_lively)]
            if classes > 0 and uniform(rows.rng) < classes:
                k = rows.open_label[int(uniform(rows.rng) * len(rows.open_label))]
                _relabel(counts, rows, bath, k, room[3])
            elif uniform(rows.rng) < bath.swaps:
                j = rows.open_rows[int(uniform(rows.rng) * n_open)]
                if j == k:
                    continue
                _exchange(trees, counts, likes, rows, bath, k, j, a, both)
            else:
                _bathe(trees, counts, likes, rows, bath, k, a, room)
            if rows.misfit[0] < rows.misfit[1]:
                rows.misfit[1] = rows.misfit[0]
                rows.best[:, :-1] = rows.atoms
                rows.best[:, -1] = rows.label
                if bath.until_met and rows.misfit[1] == 0:
                    return sweep + 1
        if bath.pull > 0:
            step = bath.pull * bath.price
            for e in range(len(counts.residual)):
                counts.multiplier[e] += step * counts.residual[e]
    return sweeps
