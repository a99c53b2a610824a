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
from treeleak.core.compiled import lowest_bit, njit, put

_PARTNERS = 256
"""Rows looked at, at most, for one to change places with."""
_IN, _OUT = np.int32(1), np.int32(-1)
"""Whether a row is counted or taken out; of one type, so that one loop is compiled for both."""


class Trees(NamedTuple):
    """Trees as bits, and as nodes: see :class:`~treeleak.partition.masks.Masks`.

    ``open`` has its trees and words in one axis; ``lively`` says which attributes move. The parent
    of a root is one more node; of inner nodes, those that have a parent are listed tree by tree.
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
    inner: Any
    inner_start: Any
    leaf_node: Any
    path_start: Any
    path: Any


class Counts(NamedTuple):
    """What is counted at the nodes of all trees."""

    grouped: Any
    distinct: Any
    walled: Any
    spanned: Any
    """Bools. Whether some classes are counted together, rows that a tree drew are counted, leaves
    are closed to rows, and rows have a span."""
    group: Any
    """Shape (n_nodes, n_classes) or (0, n_classes). First of the classes that a node counts
    together with a class, where some are."""
    draws: Any
    """Shape (n_rows, n_trees). How often each tree counts each row."""
    residual: Any
    """Shape (n_classes, n_nodes), or one line more. r = A m - n of draws of each class; last, of
    rows that the tree drew at all, where these are counted. Classes that are counted together have
    the same."""
    multiplier: Any
    """Shape (n_classes, n_nodes), or one line more: like residual. What each draw that is counted
    adds to the cost."""
    walls: Any
    """Shape (n_rows, n_leaves) or (0, 0). Whether a row is known not to lie in a leaf."""
    span: Any
    """Shape (2, n_rows, n_attributes) or (2, 0, 0). Lowest and highest atom that a row may have."""
    open_draws: Any
    """Shape (n_rows, n_trees). Draws of the trees that a row may move in: 0 where all that its span
    leaves open is one leaf."""


class LogPriorTables(NamedTuple):
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
    wall: Any = 12.0
    """Float. What a leaf costs in which a row is known not to lie."""


@njit(inline=True)
def _gain(residual: Any, draws: Any) -> Any:
    """What |residual| grows by with more draws."""
    return np.int32(abs(residual + draws) - abs(residual))


@njit()
def _count(trees: Any, counts: Any, leaves: Any, label: int, k: int, sign: Any) -> int:
    """Count a row in all of its nodes, or no more; say by how much the misfit grows."""
    path_start, path = trees.path_start, trees.path
    group, draws, residual, grown = counts.group, counts.draws, counts.residual, 0
    n_classes = group.shape[1]
    for t in range(len(leaves)):
        b = sign * draws[k, t]
        if b:
            last = path_start[leaves[t] + 1] - 1
            for i in range(path_start[leaves[t]], last + 1):
                v = path[i]
                if i == last:
                    grown += _gain(residual[label, v], b)
                    if counts.distinct:
                        grown += _gain(residual[n_classes, v], sign)
                residual[label, v] += b
                if counts.distinct:
                    residual[n_classes, v] += sign
                if counts.grouped:
                    for c in range(n_classes):
                        if c != label and group[v, c] == group[v, label]:
                            residual[c, v] += b
    return grown


@njit()
def _leaf_costs(
    trees: Any, counts: Any, settings: Any, label: int, k: int, weight: Any, above: Any, out: Any
) -> None:
    """What each leaf costs a row that is taken out: the sum over the nodes on the way to it.

    ``weight`` says which part of the price what is missed at a node costs. Leaves of trees that it
    does not move in cost nothing.
    """
    root, parent, first, leaf_node = trees.root, trees.parent, trees.first, trees.leaf_node
    inner, inner_start = trees.inner, trees.inner_start
    draws, walls, n_classes = counts.open_draws, counts.walls, counts.group.shape[1]
    residual, multiplier = counts.residual, counts.multiplier
    one = np.int32(1)
    for t in range(draws.shape[1]):
        begin, end, b = root[t], root[t + 1], draws[k, t]
        low, high = first[t], first[t] + (end - begin + 1) // 2
        if not b:
            out[low:high] = 0.0
            continue
        # In parts that the compiler turns into operations on several nodes at a time.
        node_cost, their = above[begin:end], weight[begin:end]
        missed, pull = residual[label][begin:end], multiplier[label][begin:end]
        for v in range(len(node_cost)):
            node_cost[v] = settings.price * their[v] * _gain(missed[v], b) + pull[v] * b
        if counts.distinct:
            missed, pull = residual[n_classes][begin:end], multiplier[n_classes][begin:end]
            for v in range(len(node_cost)):
                node_cost[v] += settings.price * their[v] * _gain(missed[v], one) + pull[v]
        for i in range(inner_start[t], inner_start[t + 1]):
            above[inner[i]] += above[parent[inner[i]]]
        for e in range(low, high):
            out[e] = above[leaf_node[e]] + above[parent[leaf_node[e]]]
        if counts.walled:
            for e in range(low, high):
                out[e] += settings.wall * walls[k, e]


@njit()
def _liking(
    likes: Any, begin: int, n: int, start: Any, atoms: Any, k: int, a: int, out: Any
) -> None:
    """Add the log prior of n atoms of one attribute, given the row's other attributes."""
    log_share, bin_, coupling = likes.log_share, likes.bin, likes.coupling
    line, neighbour = likes.line[k], likes.neighbour
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
        open_words = open_[start[a] + atoms[a]]
        for w in range(len(words)):
            words[w] &= open_words[w]
    _first_open(trees, words, out)


@njit()
def _redraw(
    trees: Any, likes: Any, rows: Any, counts: Any, drawn: Any, k: int, cost: Any, room: Any
) -> None:
    """Draw all attributes of a row that is taken out, one after the other, given all else.

    ``drawn``: trees that it may move in; leaves of others cost nothing.
    """
    behind, before, words, tree_cost, score = room
    # Helpers that take arrays cost more than they do here: every look into a tuple of arrays, and
    # every array handed over, counts a reference.
    open_, first, n_words, start = trees.open, trees.first, trees.n_words, trees.start
    change_start, change_tree, lively = trees.change_start, trees.change_tree, trees.lively
    atoms, n_all, span, b = rows.atoms[k], open_.shape[1], counts.span, counts.open_draws[k]
    tree_cost[:] = 0.0
    behind[len(atoms), :] = ~np.uint64(0)
    for a in range(len(atoms) - 1, 0, -1):
        open_words = open_[start[a] + atoms[a]]
        for w in range(n_all):
            behind[a, w] = behind[a + 1, w] & open_words[w]
    before[:] = ~np.uint64(0)
    for a in range(len(atoms)):
        begin, n, low = start[a], start[a + 1] - start[a], 0
        if counts.spanned:
            low, n = span[0, k, a], span[1, k, a] - span[0, k, a] + 1
        if lively[a] and n == 1 and counts.spanned:
            atoms[a] = low
        elif lively[a]:
            begin += low
            total, later = 0.0, behind[a + 1]
            for w in range(n_all):
                words[w] = before[w] & later[w]
            for t in drawn:
                tree_cost[t] = _cost_at(open_, begin, first, n_words, words, cost, t)
                total += tree_cost[t]
            score[0] = -total
            for at in range(begin + 1, begin + n):
                for i in range(change_start[at], change_start[at + 1]):
                    t = change_tree[i]
                    if not b[t]:
                        continue
                    new = _cost_at(open_, at, first, n_words, words, cost, t)
                    total += new - tree_cost[t]
                    tree_cost[t] = new
                score[at - begin] = -total
            _liking(likes, begin, n, start, atoms, k, a, score)
            atoms[a] = low + draw_scored(score, n, rows.rng)
        open_words = open_[start[a] + atoms[a]]
        for w in range(n_all):
            before[w] &= open_words[w]
    _first_open(trees, before, rows.leaves[k])


@njit(inline=True)
def _cost_at(open_: Any, at: int, first: Any, n_words: int, words: Any, cost: Any, t: int) -> Any:
    """What the leaf of a tree costs that an atom leaves of those that other atoms leave open."""
    if n_words == 1:
        return cost[first[t] + lowest_bit(words[t] & open_[at, t])]
    for w in range(t * n_words, (t + 1) * n_words):
        word = words[w] & open_[at, w]
        if word != np.uint64(0):
            return cost[first[t] + 64 * (w - t * n_words) + lowest_bit(word)]
    return 0.0


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
def _standing(trees: Any, counts: Any, settings: Any, leaves: Any, label: Any, k: int) -> float:
    """What a row that is taken out costs in given leaves."""
    path_start, path = trees.path_start, trees.path
    draws, residual, multiplier = counts.draws, counts.residual, counts.multiplier
    n_classes, walls = counts.group.shape[1], counts.walls
    cost = 0.0
    for t in range(len(leaves)):
        b, last = draws[k, t], path_start[leaves[t] + 1] - 1
        if b:
            cost += settings.wall * (walls[k, leaves[t]] if counts.walled else 0)
            for i in range(path_start[leaves[t]], last + 1):
                v, price = path[i], settings.price if i == last else settings.price * settings.inner
                cost += price * _gain(residual[label, v], b) + multiplier[label, v] * b
                if counts.distinct:
                    cost += price * _gain(residual[n_classes, v], 1) + multiplier[n_classes, v]
    return cost


@njit()
def _relabel(trees: Any, counts: Any, rows: Any, settings: Any, k: int, score: Any) -> None:
    """Draw the class of a row that is taken out, given all else."""
    n_classes = counts.group.shape[1]
    for c in range(n_classes):
        score[c] = -_standing(trees, counts, settings, rows.leaves[k], np.int32(c), k)
    rows.label[k] = draw_scored(score, n_classes, rows.rng)


@njit()
def _moved(
    trees: Any, counts: Any, rows: Any, settings: Any, k: int, j: int, there: Any, cost: float
) -> bool:
    """Try to let two rows stand in other leaves; ``cost`` is what that costs beside counts."""
    leaves, label = rows.leaves, rows.label
    # Taken out one after the other, and put back in the other order: no row sees itself.
    grown = _count(trees, counts, leaves[k], label[k], k, _OUT)
    cost -= _standing(trees, counts, settings, leaves[k], label[k], k)
    grown += _count(trees, counts, leaves[j], label[j], j, _OUT)
    cost -= _standing(trees, counts, settings, leaves[j], label[j], j)
    cost += _standing(trees, counts, settings, there[1], label[j], j)
    back = _count(trees, counts, there[1], label[j], j, _IN)
    cost += _standing(trees, counts, settings, there[0], label[k], k)
    if uniform(rows.rng) < np.exp(min(0.0, -cost)):
        rows.misfit[0] += grown + back + _count(trees, counts, there[0], label[k], k, _IN)
        put(leaves[k], there[0])
        put(leaves[j], there[1])
        return True
    _count(trees, counts, there[1], label[j], j, _OUT)
    _count(trees, counts, leaves[j], label[j], j, _IN)
    _count(trees, counts, leaves[k], label[k], k, _IN)
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
    put(new[0], atoms[k])
    put(new[1], atoms[j])
    new[0, a], new[1, a] = atoms[j, a], atoms[k, a]
    cost = _row_liking(likes, start, atoms[k], k) + _row_liking(likes, start, atoms[j], j)
    cost -= _row_liking(likes, start, new[0], k) + _row_liking(likes, start, new[1], j)
    _enter(trees, new[0], words, there[0])
    _enter(trees, new[1], words, there[1])
    if _moved(trees, counts, rows, settings, k, j, there, cost):
        put(atoms[k], new[0])
        put(atoms[j], new[1])


@njit()
def _trade(trees: Any, counts: Any, rows: Any, settings: Any, k: int, j: int, room: Any) -> None:
    """Try to let two rows of a class change places: each in the leaves of the other.

    What is learned of rows is told for a class: it does not change.
    """
    _, there, new = room
    put(there[0], rows.leaves[j])
    put(there[1], rows.leaves[k])
    if _moved(trees, counts, rows, settings, k, j, there, 0.0):
        put(new[0], rows.atoms[j])
        put(new[1], rows.atoms[k])
        put(rows.atoms[k], new[0])
        put(rows.atoms[j], new[1])


@njit()
def walk(sweeps: int, trees: Any, counts: Any, likes: Any, rows: Any, settings: Any) -> int:
    """Move rows, in place; a sweep has as many moves as there are rows that may move.

    Returns sweeps done.
    """
    n_open, n_trees, n_attributes = len(rows.open_rows), rows.leaves.shape[1], rows.atoms.shape[1]
    most = max(counts.group.shape[1], _PARTNERS)
    for a in range(n_attributes):
        most = max(most, trees.start[a + 1] - trees.start[a])
    n_all = trees.open.shape[1]
    score = np.empty(most)
    room = (
        np.empty((n_attributes + 1, n_all), dtype=np.uint64),
        np.empty(n_all, dtype=np.uint64),
        np.empty(n_all, dtype=np.uint64),
        np.zeros(n_trees),
        score,
    )
    both = (
        room[1],
        np.empty((2, n_trees), dtype=np.int32),
        np.empty((2, n_attributes), dtype=np.int32),
    )
    above, cost = np.zeros(len(trees.parent) + 1), np.zeros(len(trees.path_start) - 1)
    weight = np.empty(len(trees.leaf))
    for v in range(len(weight)):
        weight[v] = 1.0 if trees.leaf[v] >= 0 else settings.inner
    open_label = np.zeros(len(rows.label), dtype=np.bool_)
    if settings.classes:
        open_label[rows.open_label] = True
    for sweep in range(sweeps):
        for _ in range(n_open):
            k = int(np.int64(rows.open_rows[int(uniform(rows.rng) * n_open)]))
            drawn, partner = counts.open_draws[k], -1
            grown = _count(trees, counts, rows.leaves[k], rows.label[k], k, _OUT)
            if open_label[k]:
                _relabel(trees, counts, rows, settings, k, score)
            _leaf_costs(trees, counts, settings, rows.label[k], k, weight, above, cost)
            _redraw(trees, likes, rows, counts, np.flatnonzero(drawn), k, cost, room)
            if settings.trades:
                partner = _partner(rows, drawn, k, cost, score)
            rows.misfit[0] += grown + _count(trees, counts, rows.leaves[k], rows.label[k], k, _IN)
            if partner >= 0 and partner != k and rows.label[partner] == rows.label[k]:
                _trade(trees, counts, rows, settings, k, partner, both)
            for _ in range(settings.swaps):
                j = int(np.int64(rows.open_rows[int(uniform(rows.rng) * n_open)]))
                a = int(uniform(rows.rng) * n_attributes)
                if j != k and trees.lively[a]:
                    _swap(trees, counts, likes, rows, settings, k, j, a, both)
            if rows.misfit[0] < rows.misfit[1]:
                rows.misfit[1] = rows.misfit[0]
                for i in range(len(rows.atoms)):
                    for a in range(n_attributes):
                        rows.best[i, a] = rows.atoms[i, a]
                    rows.best[i, n_attributes] = rows.label[i]
                if settings.until_met and rows.misfit[1] == 0:
                    return sweep + 1
        if settings.pull > 0:
            for v in range(len(trees.leaf)):
                share = settings.pull if trees.leaf[v] >= 0 else settings.pull * settings.inner
                for c in range(len(counts.residual)):
                    counts.multiplier[c, v] += share * counts.residual[c, v]
    return sweeps
