"""Compiled loops of :mod:`beliefs`: what a tree hears of rows, and what rows hear of a tree.

A place is a leaf and a class that it counts. A piece is a run of atoms of one attribute that no
test of a tree parts; its mass is how probable it is there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeleak.attacks.known_draws.law_kernels import count_ratios, log_ratio
from treeleak.core.compiled import njit

_LEAST = 1e-300
_WIDE = 1e30
"""Largest scale of a place."""
_UNLIKELY, _NEVER = 1e-4, 1e-10
"""Probability up to which a part is neither heard nor told of places, and up to which a row is
taken never to lie in one."""
_SLIGHT = 1e-6
"""Probability up to which a place says nothing of where a row lies, and least factor of a piece:
sums round to less where there should be none."""
_SCALED = 3
"""How often scales of places are fitted in a round; they begin where the last round left them."""


class TreePieces(NamedTuple):
    """What one tree tells apart.

    Pieces of an attribute stand beside each other, with one more position behind them, so that
    masses can be summed up to each.
    """

    first: Any
    """Shape (n_slots + 1,). First position of each attribute with tests."""
    low: Any
    high: Any
    """Shape (n_positions,). Atoms of each piece: from, up to and without; of all attributes."""
    slot: Any
    """Shape (n_bounds,). Which attribute a bound of a leaf is about."""
    bound: Any
    """Shape (n_leaves + 1,). First bound of each leaf."""
    run: Any
    """Shape (n_bounds + 1,). First run of each bound; a leaf admits several runs of pieces where
    values are missing or have no order."""
    begin: Any
    end: Any
    """Shape (n_runs,). Positions of the pieces of a run: from, up to and without."""
    leaf: Any
    label: Any
    """Shape (n_places,). Leaf of each place, counted within the tree, and its class."""
    n: Any
    d: Any
    """Shape (n_places,). Draws of a place, and distinct rows of its leaf; -1 where not known, or
    where the leaf holds several classes."""


class Messages(NamedTuple):
    """What a tree said to the rows that it drew, as logs."""

    pieces: Any
    """Shape (n_tree_rows, n_parts, n_positions)."""
    parts: Any
    """Shape (n_tree_rows, n_parts)."""


class Beliefs(NamedTuple):
    """What is believed of each row: parts, each of a class and of a kind of rows."""

    atoms: Any
    """Shape (n_rows, n_parts, n_atoms + 1). Of its attributes, if it is of a part: probabilities
    summed up to each atom."""
    share: Any
    """Shape (n_rows, n_parts). How probable each part is."""
    label: Any
    """Shape (n_rows, n_parts). Class of each part."""
    kind: Any
    """Shape (n_parts,). Kind of each part."""


@njit()
def admitted(tree: Any, i: Any, total: Any) -> Any:
    """Mass of what bound i of a leaf admits."""
    mass = 0.0
    for r in range(tree.run[i], tree.run[i + 1]):
        mass += total[tree.end[r]] - total[tree.begin[r]]
    return max(mass, 0.0)


@njit()
def sum_pieces(tree: Any, mass: Any, total: Any) -> Any:
    """Sum masses of pieces up to each position, those of an attribute to 1.

    Returns the log of the product of what they came to before.
    """
    product = 0.0
    for q in range(len(tree.first) - 1):
        whole = 0.0
        for p in range(tree.first[q], tree.first[q + 1] - 1):
            whole += mass[p]
        whole = max(whole, _LEAST)
        total[tree.first[q]] = 0.0
        for p in range(tree.first[q], tree.first[q + 1] - 1):
            total[p + 1] = total[p] + mass[p] / whole
        product += np.log(whole)
    return product


@njit()
def read_pieces(tree: Any, belief: Any, mass: Any) -> None:
    """Read masses of pieces from beliefs that are summed up to each atom."""
    for q in range(len(tree.first) - 1):
        for p in range(tree.first[q], tree.first[q + 1] - 1):
            mass[p] = max(belief[tree.high[p]] - belief[tree.low[p]], 0.0)


@njit()
def _take_back(tree: Any, belief: Any, message: Any, mass: Any) -> None:
    """The same, but for what this tree said itself."""
    read_pieces(tree, belief, mass)
    for p in range(len(mass)):
        mass[p] *= np.exp(-message[p])


@njit()
def reach_places(
    tree: Any,
    rows: Any,
    beliefs: Beliefs,
    messages: Messages,
    total: Any,
    part_reach: Any,
    reach: Any,
) -> None:
    """How probable each place is of each row, but for what this tree said itself.

    ``total``, shape (n_tree_rows, n_parts, n_positions + 1): masses of pieces, summed up to each;
    ``part_reach``, shape (n_tree_rows, n_parts, n_places): how probable places are of each part, up
    to a factor for each row; ``reach``, shape (n_tree_rows, n_places): of all.
    """
    n_parts, n_places = beliefs.share.shape[1], len(tree.leaf)
    mass, log = np.zeros(tree.first[-1]), np.zeros(n_parts)
    for i in range(len(rows)):
        k = rows[i]
        for s in range(n_parts):
            log[s] = -np.inf
            if beliefs.share[k, s] > _UNLIKELY:
                _take_back(tree, beliefs.atoms[k, s], messages.pieces[i, s], mass)
                log[s] = sum_pieces(tree, mass, total[i, s])
                log[s] += np.log(beliefs.share[k, s]) - messages.parts[i, s]
        most, whole = log.max(), _LEAST
        for s in range(n_parts):
            first = np.exp(log[s] - most)
            for j in range(n_places):
                part_reach[i, s, j] = 0.0
                if first <= _NEVER or tree.label[j] != beliefs.label[k, s]:
                    continue
                there = first
                for b in range(tree.bound[tree.leaf[j]], tree.bound[tree.leaf[j] + 1]):
                    there *= admitted(tree, b, total[i, s])
                    if there <= _NEVER:
                        there = 0.0
                        break
                part_reach[i, s, j] = there
        for j in range(n_places):
            reach[i, j] = 0.0
            for s in range(n_parts):
                reach[i, j] += part_reach[i, s, j]
            whole += reach[i, j]
        for j in range(n_places):
            reach[i, j] /= whole


@njit()
def scale_places(tree: Any, b: Any, scale: Any, reach: Any) -> None:
    """Scale places until they expect the draws that they count; apply the scales."""
    n_rows, n_places = reach.shape
    for _ in range(_SCALED):
        expected = np.zeros(n_places)
        for i in range(n_rows):
            whole = _LEAST
            for j in range(n_places):
                whole += reach[i, j] * scale[j]
            for j in range(n_places):
                expected[j] += b[i] * reach[i, j] * scale[j] / whole
        for j in range(n_places):
            fitted = scale[j] * tree.n[j] / max(expected[j], _LEAST)
            scale[j] = min(max(fitted, 1.0 / _WIDE), _WIDE)
    for i in range(n_rows):
        whole = _LEAST
        for j in range(n_places):
            reach[i, j] *= scale[j]
            whole += reach[i, j]
        for j in range(n_places):
            reach[i, j] /= whole


@njit()
def message_from_counts(tree: Any, b: Any, reach: Any, with_counts: Any) -> None:
    """What is believed of a row's places with the counts, up to a factor for each row.

    The other rows lie where they are believed to, each by itself.
    """
    for i in range(len(b)):
        for j in range(len(tree.leaf)):
            with_counts[i, j] = -np.inf
    for j in range(len(tree.leaf)):
        near = np.flatnonzero(reach[:, j] > 0.0)
        p, out = reach[near, j], np.zeros(len(near))
        count_ratios(np.minimum(p, 1.0), b[near], tree.n[j], tree.d[j], out)
        for x in range(len(near)):
            with_counts[near[x], j] = np.log(p[x]) + out[x]
    for i in range(len(b)):
        most = with_counts[i].max()
        for j in range(len(tree.leaf)):
            with_counts[i, j] = np.exp(with_counts[i, j] - most) if reach[i, j] > 0.0 else 0.0


@njit()
def project(tree: Any, weight: Any, total: Any, of_piece: Any) -> Any:
    """Factors by which weights of places change the mass of each piece; the weights' sums.

    ``weight``, shape (2, n_places), two weights at once; ``total``: masses summed up to each
    position; ``of_piece``, shape (2, n_positions + 1).
    """
    n_slots = len(tree.first) - 1
    of_piece[:] = 0.0
    bounded, whole = np.zeros((2, n_slots)), np.zeros(2)
    for j in range(len(tree.leaf)):
        one, two = weight[0, j], weight[1, j]
        if one <= _SLIGHT and two <= _SLIGHT:
            continue
        whole[0] += one
        whole[1] += two
        for k in range(tree.bound[tree.leaf[j]], tree.bound[tree.leaf[j] + 1]):
            part = 1.0 / max(admitted(tree, k, total), _LEAST)
            bounded[0, tree.slot[k]] += one
            bounded[1, tree.slot[k]] += two
            for r in range(tree.run[k], tree.run[k + 1]):
                begin, end = tree.begin[r], tree.end[r]
                of_piece[0, begin] += one * part
                of_piece[0, end] -= one * part
                of_piece[1, begin] += two * part
                of_piece[1, end] -= two * part
    for i in range(2):
        for q in range(n_slots):
            inside, rest = 0.0, whole[i] - bounded[i, q]
            for p in range(tree.first[q], tree.first[q + 1] - 1):
                inside += of_piece[i, p]
                of_piece[i, p] = max((inside + rest) / max(whole[i], _LEAST), _SLIGHT)
            of_piece[i, tree.first[q + 1] - 1] = 0.0
    return whole


@njit()
def message_to_rows(
    tree: Any,
    messages: Messages,
    total: Any,
    part_reach: Any,
    reach: Any,
    with_counts: Any,
    step: Any,
    damping: Any,
) -> None:
    """Let rows hear what counts say of them: beliefs with the counts, by beliefs without.

    ``total`` and ``part_reach``: see :func:`reach_places`. ``step``: how far messages move to what
    they should be, which is the share ``damping`` of it.
    """
    n_tree_rows, n_parts, n_places = part_reach.shape
    factor, weight = np.zeros((2, tree.first[-1] + 1)), np.zeros((2, n_places))
    for i in range(n_tree_rows):
        for s in range(n_parts):
            whole, n_open = np.zeros(2), 0
            for j in range(n_places):
                weight[0, j], weight[1, j] = 0.0, 0.0
                if part_reach[i, s, j] > 0.0:
                    part = part_reach[i, s, j] / part_reach[i, :, j].sum()
                    weight[0, j], weight[1, j] = part * with_counts[i, j], part * reach[i, j]
                    whole[0] += weight[0, j]
                    whole[1] += weight[1, j]
                    n_open += 1
            if whole[1] <= _NEVER:
                continue
            to = damping * log_ratio(whole[0], whole[1])
            messages.parts[i, s] += step * (to - messages.parts[i, s])
            if n_open == 1:
                for p in range(tree.first[-1]):
                    messages.pieces[i, s, p] *= 1.0 - step
                continue
            weight[0] /= max(whole[0], _LEAST)
            weight[1] /= whole[1]
            project(tree, weight, total[i, s], factor)
            for p in range(tree.first[-1]):
                to = damping * log_ratio(factor[0, p], factor[1, p])
                messages.pieces[i, s, p] += step * (to - messages.pieces[i, s, p])


@njit()
def gather(tree: Any, rows: Any, among: Any, messages: Messages, beliefs: Beliefs) -> None:
    """Add what a tree said to the logs of rows' beliefs, where it changes from atom to atom.

    ``among``: which of the rows.
    """
    for i in among:
        k = rows[i]
        for s in range(beliefs.share.shape[1]):
            if beliefs.share[k, s] == -np.inf:
                continue
            beliefs.share[k, s] += messages.parts[i, s]
            for q in range(len(tree.first) - 1):
                previous = 0.0
                for p in range(tree.first[q], tree.first[q + 1] - 1):
                    beliefs.atoms[k, s, tree.low[p]] += messages.pieces[i, s, p] - previous
                    previous = messages.pieces[i, s, p]
                beliefs.atoms[k, s, tree.high[tree.first[q + 1] - 2]] -= previous


@njit()
def believe(
    rows: Any, start: Any, log_atoms: Any, allowed: Any, group: Any, beliefs: Beliefs
) -> None:
    """Turn logs, each less the one below, into probabilities summed up to each atom.

    ``start``, shape (n_attributes + 1,): first atom of each; ``log_atoms``, shape (n_classes,
    n_kinds, n_atoms): what rows of a class and a kind are like; ``allowed``, shape (n_groups,
    n_atoms): which atoms rows of a group may have.
    """
    n_parts = beliefs.share.shape[1]
    for k in rows:
        may = allowed[group[k]]
        for s in range(n_parts):
            if beliefs.share[k, s] == -np.inf:
                continue
            log_belief, usual, log = (
                beliefs.atoms[k, s],
                log_atoms[beliefs.label[k, s], beliefs.kind[s]],
                0.0,
            )
            for x in range(start[-1]):
                log += log_belief[x]
                log_belief[x] = log + usual[x] if may[x] else -np.inf
            total = 0.0
            for a in range(len(start) - 1):
                most = log_belief[start[a] : start[a + 1]].max()
                whole = 0.0
                for x in range(start[a], start[a + 1]):
                    log_belief[x] = np.exp(log_belief[x] - most)
                    whole += log_belief[x]
                beliefs.share[k, s] += most + np.log(whole)
                for x in range(start[a], start[a + 1]):
                    mass, log_belief[x] = log_belief[x] / whole, total
                    total += mass
            log_belief[start[-1]] = total
        most = beliefs.share[k].max()
        beliefs.share[k] = np.exp(beliefs.share[k] - most)
        beliefs.share[k] /= beliefs.share[k].sum()
