"""Compiled walk of rows over a grid too large to list.

A move takes one row out of all counts. What each leaf of each tree would then cost it is a table,
for nothing else moves; with it, one pass over the atoms of an attribute gives the cost of all,
since from one atom to the next few trees change their leaf. The row's attributes are drawn by
these costs, one after the other (Gibbs sampling), and the row goes back.

Counts that stay missed are pulled at harder and harder: each has a multiplier (an augmented
Lagrangian whose price of |A m - n| rises slowly, as in cooling). What is missed at inner nodes
costs, too: it follows from the leaves, but there it is one number, where in the leaves below it is
lost among many of either sign.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeleak.attacks.kernels import draw_scored, uniform
from treeleak.core.bits import lowest_bit
from treeleak.core.compiled import njit

_PARTNERS = 256
"""Rows looked at, at most, for one to change places with."""


class Trees(NamedTuple):
    """Trees as bits, and as nodes: see :class:`~treeleak.partition.masks.Masks`.

    ``open`` has its trees and words in one axis; ``lively`` says which attributes move.
    """

    start: Any
    open: Any
    first: Any
    change_start: Any
    change_tree: Any
    lively: Any
    n_words: Any
    root: Any
    parent: Any
    leaf: Any
    path_start: Any
    path: Any


class Counts(NamedTuple):
    """What is counted at the nodes of all trees."""

    equation: Any
    """Shape (n_nodes, n_classes). In which draws of a class are counted."""
    distinct: Any
    """Shape (n_nodes,). In which rows are counted that the tree drew at all; -1 for none."""
    draws: Any
    """Shape (n_rows, n_trees). How often each tree counts each row."""
    residual: Any
    """Shape (n_equations,). r = A m - n."""
    multiplier: Any
    """Shape (n_equations,). What each draw that is counted adds to the cost."""
    n_own: Any
    """Int. Equations of leaves; those of inner nodes, which follow from them, are behind."""


class Likes(NamedTuple):
    """Log prior of a row: over its atoms, and over pairs of bins of neighbouring attributes."""

    log_share: Any
    """Shape (n_lines, n_atoms)."""
    line: Any
    """Shape (n_rows,). Each row's line."""
    bin: Any
    """Shape (n_atoms,)."""
    neighbour: Any
    """Shape (n_attributes, most). -1 behind the last."""
    coupling: Any
    """Shape (n_attributes, most, n_bins, n_bins). By own bin and the neighbour's."""


class Rows(NamedTuple):
    """Rows on their walk."""

    atoms: Any
    """Shape (n_rows, n_attributes). Each attribute counted from 0."""
    label: Any
    """Shape (n_rows,)."""
    open_rows: Any
    open_label: Any
    """Int32 array. Rows that may move, and those of them whose class may change."""
    leaves: Any
    """Shape (n_rows, n_trees). Numbered from the left."""
    best: Any
    """Shape (n_rows, n_attributes + 1). The rows with the least misfit so far; the class last."""
    misfit: Any
    """Shape (2,). Of the rows, and of the best: sum of |A m - n| over the leaves."""
    rng: Any
    """Shape (1,)."""


class WalkSettings(NamedTuple):
    """How rows walk."""

    price: Any
    """Float. Of each missed count: rows are as likely as exp(-price x |r| - multiplier x r)."""
    inner: Any
    """Float. Share of it that what is missed at inner nodes costs."""
    pull: Any
    """Float. After each sweep, multipliers grow by pull x r (at inner nodes, by that share of
    it)."""
    swaps: Any
    """Int. How often a row that has moved is to exchange an attribute with another one."""
    trades: Any
    """Bool. Whether a row that has moved may change places with one that stands where it would like
    to. Partners are chosen by what is to be gained: such a walk searches, and samples no law."""
    classes: Any
    """Bool. Whether classes that are not proved are drawn afresh."""
    until_met: Any
    """Bool. Stop as soon as every count is met."""


@njit()
def _gain(residual: Any, draws: Any) -> Any:
    """What |residual| grows by with more draws."""
    return abs(residual + draws) - abs(residual)


@njit()
def _count(trees: Any, counts: Any, leaves: Any, label: int, k: int, sign: int) -> int:
    """Count a row in all of its nodes, or no more; say by how much the misfit grows."""
    path_start, path = trees.path_start, trees.path
    equation, distinct, draws = counts.equation, counts.distinct, counts.draws
    residual, grown = counts.residual, 0
    for t in range(len(leaves)):
        b = sign * draws[k, t]
        if b:
            last = path_start[leaves[t] + 1] - 1
            for i in range(path_start[leaves[t]], last + 1):
                e, d = equation[path[i], label], distinct[path[i]]
                if i == last:
                    grown += _gain(residual[e], b)
                    if d >= 0:
                        grown += _gain(residual[d], sign)
                residual[e] += b
                if d >= 0:
                    residual[d] += sign
    return grown


@njit()
def _leaf_costs(
    trees: Any, counts: Any, settings: Any, label: int, k: int, above: Any, out: Any
) -> None:
    """What each leaf costs a row that is taken out: the sum over the nodes on the way to it."""
    root, parent, leaf = trees.root, trees.parent, trees.leaf
    equation, distinct, draws = counts.equation, counts.distinct, counts.draws
    residual, multiplier = counts.residual, counts.multiplier
    for t in range(draws.shape[1]):
        b = draws[k, t]
        if not b:
            continue
        for v in range(root[t], root[t + 1]):
            price = settings.price if leaf[v] >= 0 else settings.price * settings.inner
            e, d = equation[v, label], distinct[v]
            cost = price * _gain(residual[e], b) + multiplier[e] * b
            if d >= 0:
                cost += price * _gain(residual[d], 1) + multiplier[d]
            if parent[v] >= 0:
                cost += above[parent[v]]
            above[v] = cost
            if leaf[v] >= 0:
                out[leaf[v]] = cost


@njit()
def _liking(likes: Any, start: Any, atoms: Any, k: int, a: int, out: Any) -> None:
    """Add the log prior of each atom of one attribute, given the row's other attributes."""
    log_share, bin_, coupling = likes.log_share, likes.bin, likes.coupling
    line, neighbour = likes.line[k], likes.neighbour
    begin, n = start[a], start[a + 1] - start[a]
    for v in range(n):
        out[v] += log_share[line, begin + v]
    for q in range(neighbour.shape[1]):
        other = neighbour[a, q]
        if other < 0:
            break
        theirs = bin_[start[other] + atoms[other]]
        for v in range(n):
            out[v] += coupling[a, q, bin_[begin + v], theirs]


@njit()
def _row_liking(likes: Any, start: Any, atoms: Any, k: int) -> float:
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


@njit()
def _first_open(trees: Any, words: Any, out: Any) -> None:
    """Leaf of every tree, given the leaves that all attributes leave open."""
    first, n_words = trees.first, trees.n_words
    for t in range(len(first)):
        for w in range(t * n_words, (t + 1) * n_words):
            if words[w] != np.uint64(0):
                out[t] = first[t] + 64 * (w - t * n_words) + lowest_bit(words[w])
                break


@njit()
def _enter(trees: Any, atoms: Any, words: Any, out: Any) -> None:
    """Leaves of a row."""
    open_, start = trees.open, trees.start
    words[:] = ~np.uint64(0)
    for a in range(len(atoms)):
        own = open_[start[a] + atoms[a]]
        for w in range(len(words)):
            words[w] &= own[w]
    _first_open(trees, words, out)


@njit()
def _redraw(trees: Any, likes: Any, rows: Any, drawn: Any, k: int, cost: Any, room: Any) -> None:
    """Draw all attributes of a row that is taken out, one after the other, given all else."""
    behind, before, words, leaf, score = room
    # Helpers that take arrays cost more than they do here: every look into a tuple of arrays, and
    # every array handed over, counts a reference.
    open_, first, n_words, start = trees.open, trees.first, trees.n_words, trees.start
    change_start, change_tree, lively = trees.change_start, trees.change_tree, trees.lively
    atoms, n_all = rows.atoms[k], open_.shape[1]
    behind[len(atoms), :] = ~np.uint64(0)
    for a in range(len(atoms) - 1, 0, -1):
        own = open_[start[a] + atoms[a]]
        for w in range(n_all):
            behind[a, w] = behind[a + 1, w] & own[w]
    before[:] = ~np.uint64(0)
    for a in range(len(atoms)):
        begin, n = start[a], start[a + 1] - start[a]
        if lively[a]:
            total, later = 0.0, behind[a + 1]
            own = open_[begin]
            for w in range(n_all):
                words[w] = before[w] & later[w]
            for t in range(len(first)):
                if drawn[t]:
                    for w in range(t * n_words, (t + 1) * n_words):
                        word = words[w] & own[w]
                        if word != np.uint64(0):
                            leaf[t] = first[t] + 64 * (w - t * n_words) + lowest_bit(word)
                            break
                    total += cost[leaf[t]]
            score[0] = -total
            for at in range(begin + 1, begin + n):
                own = open_[at]
                for i in range(change_start[at], change_start[at + 1]):
                    t = change_tree[i]
                    if not drawn[t]:
                        continue
                    for w in range(t * n_words, (t + 1) * n_words):
                        word = words[w] & own[w]
                        if word != np.uint64(0):
                            new = first[t] + 64 * (w - t * n_words) + lowest_bit(word)
                            total += cost[new] - cost[leaf[t]]
                            leaf[t] = new
                            break
                score[at - begin] = -total
            _liking(likes, start, atoms, k, a, score)
            atoms[a] = draw_scored(score, n, rows.rng)
        own = open_[begin + atoms[a]]
        for w in range(n_all):
            before[w] &= own[w]
    _first_open(trees, before, rows.leaves[k])


@njit()
def _partner(rows: Any, drawn: Any, k: int, cost: Any, score: Any) -> int:
    """Draw a row of the same class by what it would cost a row that is taken out to stand there."""
    open_rows, leaves, label = rows.open_rows, rows.leaves, rows.label
    n = min(len(open_rows), _PARTNERS)
    begin = int(uniform(rows.rng) * len(open_rows))
    for i in range(n):
        j = open_rows[(begin + i) % len(open_rows)]
        total = 0.0
        for t in range(leaves.shape[1]):
            if drawn[t]:
                total += cost[leaves[j, t]]
        score[i] = -total if label[j] == label[k] and j != k else -np.inf
    i = draw_scored(score, n, rows.rng)
    return int(open_rows[(begin + i) % len(open_rows)])


@njit()
def _standing(trees: Any, counts: Any, settings: Any, leaves: Any, label: int, k: int) -> float:
    """What a row that is taken out costs in given leaves."""
    path_start, path = trees.path_start, trees.path
    equation, distinct, draws = counts.equation, counts.distinct, counts.draws
    residual, multiplier = counts.residual, counts.multiplier
    cost = 0.0
    for t in range(len(leaves)):
        b, last = draws[k, t], path_start[leaves[t] + 1] - 1
        if b:
            for i in range(path_start[leaves[t]], last + 1):
                price = settings.price if i == last else settings.price * settings.inner
                e, d = equation[path[i], label], distinct[path[i]]
                cost += price * _gain(residual[e], b) + multiplier[e] * b
                if d >= 0:
                    cost += price * _gain(residual[d], 1) + multiplier[d]
    return cost


@njit()
def _relabel(trees: Any, counts: Any, rows: Any, settings: Any, k: int, score: Any) -> None:
    """Draw the class of a row that is taken out, given all else."""
    n_classes = counts.equation.shape[1]
    for c in range(n_classes):
        score[c] = -_standing(trees, counts, settings, rows.leaves[k], c, k)
    rows.label[k] = draw_scored(score, n_classes, rows.rng)


@njit()
def _moved(
    trees: Any, counts: Any, rows: Any, settings: Any, k: int, j: int, there: Any, cost: float
) -> bool:
    """Try to let two rows stand in other leaves; ``cost`` is what that costs beside counts."""
    leaves, label = rows.leaves, rows.label
    # Taken out one after the other, and put back in the other order: no row sees itself.
    grown = _count(trees, counts, leaves[k], label[k], k, -1)
    cost -= _standing(trees, counts, settings, leaves[k], label[k], k)
    grown += _count(trees, counts, leaves[j], label[j], j, -1)
    cost -= _standing(trees, counts, settings, leaves[j], label[j], j)
    cost += _standing(trees, counts, settings, there[1], label[j], j)
    back = _count(trees, counts, there[1], label[j], j, 1)
    cost += _standing(trees, counts, settings, there[0], label[k], k)
    if uniform(rows.rng) < np.exp(min(0.0, -cost)):
        rows.misfit[0] += grown + back + _count(trees, counts, there[0], label[k], k, 1)
        leaves[k], leaves[j] = there[0], there[1]
        return True
    _count(trees, counts, there[1], label[j], j, -1)
    _count(trees, counts, leaves[j], label[j], j, 1)
    _count(trees, counts, leaves[k], label[k], k, 1)
    return False


@njit()
def _swap(
    trees: Any, counts: Any, likes: Any, rows: Any, settings: Any, k: int, j: int, a: int, room: Any
) -> None:
    """Try to exchange an attribute of two rows."""
    words, there, new = room
    atoms, start = rows.atoms, trees.start
    if atoms[k, a] == atoms[j, a]:
        return
    new[0], new[1] = atoms[k], atoms[j]
    new[0, a], new[1, a] = atoms[j, a], atoms[k, a]
    cost = _row_liking(likes, start, atoms[k], k) + _row_liking(likes, start, atoms[j], j)
    cost -= _row_liking(likes, start, new[0], k) + _row_liking(likes, start, new[1], j)
    _enter(trees, new[0], words, there[0])
    _enter(trees, new[1], words, there[1])
    if _moved(trees, counts, rows, settings, k, j, there, cost):
        atoms[k], atoms[j] = new[0], new[1]


@njit()
def _trade(trees: Any, counts: Any, rows: Any, settings: Any, k: int, j: int, room: Any) -> None:
    """Try to let two rows of a class change places: each in the leaves of the other.

    What is learned of rows is told for a class: it does not change.
    """
    _, there, new = room
    there[0], there[1] = rows.leaves[j], rows.leaves[k]
    if _moved(trees, counts, rows, settings, k, j, there, 0.0):
        new[0], new[1] = rows.atoms[j], rows.atoms[k]
        rows.atoms[k], rows.atoms[j] = new[0], new[1]


@njit()
def walk(sweeps: int, trees: Any, counts: Any, likes: Any, rows: Any, settings: Any) -> int:
    """Move rows, in place; a sweep has as many moves as there are rows that may move.

    Returns sweeps done.
    """
    n_open, n_trees, n_attributes = len(rows.open_rows), rows.leaves.shape[1], rows.atoms.shape[1]
    most = max(counts.equation.shape[1], _PARTNERS)
    for a in range(n_attributes):
        most = max(most, trees.start[a + 1] - trees.start[a])
    n_all = trees.open.shape[1]
    score = np.empty(most)
    room = (
        np.empty((n_attributes + 1, n_all), dtype=np.uint64),
        np.empty(n_all, dtype=np.uint64),
        np.empty(n_all, dtype=np.uint64),
        np.zeros(n_trees, dtype=np.int32),
        score,
    )
    both = (
        room[1],
        np.empty((2, n_trees), dtype=np.int32),
        np.empty((2, n_attributes), dtype=np.int32),
    )
    above, cost = np.empty(len(trees.parent)), np.zeros(len(trees.path_start) - 1)
    open_label = np.zeros(len(rows.label), dtype=np.bool_)
    if settings.classes:
        open_label[rows.open_label] = True
    for sweep in range(sweeps):
        for _ in range(n_open):
            k = rows.open_rows[int(uniform(rows.rng) * n_open)]
            drawn, partner = counts.draws[k], -1
            grown = _count(trees, counts, rows.leaves[k], rows.label[k], k, -1)
            if open_label[k]:
                _relabel(trees, counts, rows, settings, k, score)
            _leaf_costs(trees, counts, settings, rows.label[k], k, above, cost)
            _redraw(trees, likes, rows, drawn, k, cost, room)
            if settings.trades:
                partner = _partner(rows, drawn, k, cost, score)
            rows.misfit[0] += grown + _count(trees, counts, rows.leaves[k], rows.label[k], k, 1)
            if partner >= 0 and partner != k and rows.label[partner] == rows.label[k]:
                _trade(trees, counts, rows, settings, k, partner, both)
            for _ in range(settings.swaps):
                j = rows.open_rows[int(uniform(rows.rng) * n_open)]
                a = int(uniform(rows.rng) * n_attributes)
                if j != k and trees.lively[a]:
                    _swap(trees, counts, likes, rows, settings, k, j, a, both)
            if rows.misfit[0] < rows.misfit[1]:
                rows.misfit[1] = rows.misfit[0]
                rows.best[:, :-1] = rows.atoms
                rows.best[:, -1] = rows.label
                if settings.until_met and rows.misfit[1] == 0:
                    return sweep + 1
        if settings.pull > 0:
            for e in range(len(counts.residual)):
                share = settings.pull if e < counts.n_own else settings.pull * settings.inner
                counts.multiplier[e] += share * counts.residual[e]
    return sweeps
