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
_SLIGHT = 1e-7
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


class Said(NamedTuple):
    """What a tree said to the rows that it drew, as logs."""

    pieces: Any
    """Shape (n_own_rows, n_classes, n_positions)."""
    classes: Any
    """Shape (n_own_rows, n_classes)."""


class Beliefs(NamedTuple):
    """What is believed of each row."""

    atoms: Any
    """Shape (n_rows, n_classes, n_atoms + 1). Of its attributes, if it is of a class: probabilities
    summed up to each atom."""
    label: Any
    """Shape (n_rows, n_classes). Of its class."""


@njit()
def _admitted(tree: Any, i: Any, total: Any) -> Any:
    """Mass of what bound i of a leaf admits."""
    mass = 0.0
    for r in range(tree.run[i], tree.run[i + 1]):
        mass += total[tree.end[r]] - total[tree.begin[r]]
    return max(mass, 0.0)


@njit()
def _sum_pieces(tree: Any, mass: Any, total: Any) -> Any:
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
def _read_pieces(tree: Any, belief: Any, mass: Any) -> None:
    """Read masses of pieces from beliefs that are summed up to each atom."""
    for q in range(len(tree.first) - 1):
        for p in range(tree.first[q], tree.first[q + 1] - 1):
            mass[p] = max(belief[tree.high[p]] - belief[tree.low[p]], 0.0)


@njit()
def _take_back(tree: Any, belief: Any, message: Any, mass: Any) -> None:
    """The same, but for what this tree said itself."""
    _read_pieces(tree, belief, mass)
    for p in range(len(mass)):
        mass[p] *= np.exp(-message[p])


@njit()
def reach_places(tree: Any, rows: Any, beliefs: Beliefs, said: Said, reach: Any) -> None:
    """How probable each place is of each row, but for what this tree said itself.

    ``reach``, shape (n_own_rows, n_places).
    """
    n_classes, n_positions = beliefs.label.shape[1], tree.first[-1]
    mass, total = np.zeros(n_positions), np.zeros((n_classes, n_positions + 1))
    log = np.zeros(n_classes)
    for i in range(len(rows)):
        for c in range(n_classes):
            log[c] = -np.inf
            if beliefs.label[rows[i], c] > 0.0:
                _take_back(tree, beliefs.atoms[rows[i], c], said.pieces[i, c], mass)
                log[c] = _sum_pieces(tree, mass, total[c])
                log[c] += np.log(beliefs.label[rows[i], c]) - said.classes[i, c]
        most, whole = log.max(), _LEAST
        for j in range(len(tree.leaf)):
            c = tree.label[j]
            own = np.exp(log[c] - most)
            if own > 0.0:
                for k in range(tree.bound[tree.leaf[j]], tree.bound[tree.leaf[j] + 1]):
                    own *= _admitted(tree, k, total[c])
            reach[i, j] = own
            whole += own
        for j in range(len(tree.leaf)):
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
def hear_counts(tree: Any, b: Any, reach: Any, heard: Any) -> None:
    """What is believed of a row's places with the counts, up to a factor for each row.

    The other rows lie where they are believed to, each by itself.
    """
    p, out = np.zeros(len(b)), np.zeros(len(b))
    for j in range(len(tree.leaf)):
        for i in range(len(b)):
            p[i] = min(max(reach[i, j], 0.0), 1.0)
        count_ratios(p, b, tree.n[j], tree.d[j], out)
        for i in range(len(b)):
            heard[i, j] = np.log(max(reach[i, j], _LEAST)) + out[i]
    for i in range(len(b)):
        most = heard[i].max()
        for j in range(len(tree.leaf)):
            heard[i, j] = np.exp(heard[i, j] - most) if reach[i, j] > 0.0 else 0.0


@njit()
def _project(tree: Any, c: Any, weight: Any, total: Any, of_piece: Any) -> Any:
    """Factors by which weights of places change the mass of each piece; weights of the class.

    ``weight``, shape (2, n_places), two weights at once; ``total``: masses summed up to each
    position; ``of_piece``, shape (2, n_positions + 1).
    """
    n_slots = len(tree.first) - 1
    for p in range(of_piece.shape[1]):
        of_piece[0, p], of_piece[1, p] = 0.0, 0.0
    bounded, whole = np.zeros((2, n_slots)), np.zeros(2)
    for j in range(len(tree.leaf)):
        one, two = weight[0, j], weight[1, j]
        if tree.label[j] != c or (one <= _SLIGHT and two <= _SLIGHT):
            continue
        whole[0] += one
        whole[1] += two
        for k in range(tree.bound[tree.leaf[j]], tree.bound[tree.leaf[j] + 1]):
            part = 1.0 / max(_admitted(tree, k, total), _LEAST)
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
            own, rest = 0.0, whole[i] - bounded[i, q]
            for p in range(tree.first[q], tree.first[q + 1] - 1):
                own += of_piece[i, p]
                of_piece[i, p] = max((own + rest) / max(whole[i], _LEAST), _SLIGHT)
            of_piece[i, tree.first[q + 1] - 1] = 0.0
    return whole


@njit()
def hear_trees(
    tree: Any, rows: Any, beliefs: Beliefs, said: Said, reach: Any, heard: Any, step: Any,
    heeded: Any,
) -> None:  # fmt: skip
    """Let rows hear what counts say of them: beliefs with the counts, by beliefs without.

    ``step``: how far messages move to what they should be, which is the share ``heeded`` of it.
    """
    n_classes, n_positions = beliefs.label.shape[1], tree.first[-1]
    mass, total = np.zeros(n_positions), np.zeros(n_positions + 1)
    factor, weight = np.zeros((2, n_positions + 1)), np.zeros((2, len(tree.leaf)))
    for i in range(len(rows)):
        for j in range(len(tree.leaf)):
            weight[0, j], weight[1, j] = heard[i, j], reach[i, j]
        for c in range(n_classes):
            if beliefs.label[rows[i], c] <= 0.0:
                continue
            _take_back(tree, beliefs.atoms[rows[i], c], said.pieces[i, c], mass)
            _sum_pieces(tree, mass, total)
            whole = _project(tree, c, weight, total, factor)
            for p in range(n_positions):
                to = heeded * log_ratio(factor[0, p], factor[1, p])
                said.pieces[i, c, p] += step * (to - said.pieces[i, c, p])
            said.classes[i, c] += step * (
                heeded * log_ratio(whole[0], whole[1]) - said.classes[i, c]
            )


@njit()
def gather(tree: Any, rows: Any, among: Any, said: Said, beliefs: Beliefs) -> None:
    """Add what a tree said to the logs of rows' beliefs, where it changes from atom to atom.

    ``among``: which of the rows.
    """
    for i in among:
        k = rows[i]
        for c in range(beliefs.label.shape[1]):
            beliefs.label[k, c] += said.classes[i, c]
            for q in range(len(tree.first) - 1):
                own = 0.0
                for p in range(tree.first[q], tree.first[q + 1] - 1):
                    beliefs.atoms[k, c, tree.low[p]] += said.pieces[i, c, p] - own
                    own = said.pieces[i, c, p]
                beliefs.atoms[k, c, tree.high[tree.first[q + 1] - 2]] -= own


@njit()
def believe(
    rows: Any, start: Any, log_prior: Any, allowed: Any, group: Any, beliefs: Beliefs
) -> None:
    """Turn logs, each less the one below, into probabilities summed up to each atom.

    ``start``, shape (n_attributes + 1,): first atom of each; ``log_prior``, shape (n_classes,
    n_atoms); ``allowed``, shape (n_groups, n_atoms): which atoms rows of a group may have.
    """
    n_classes = beliefs.label.shape[1]
    for k in rows:
        may = allowed[group[k]]
        for c in range(n_classes):
            if beliefs.label[k, c] == -np.inf:
                continue
            own, log = beliefs.atoms[k, c], 0.0
            for x in range(start[-1]):
                log += own[x]
                own[x] = log + log_prior[c, x] if may[x] else -np.inf
            for a in range(len(start) - 1):
                most = own[start[a] : start[a + 1]].max()
                whole = 0.0
                for x in range(start[a], start[a + 1]):
                    own[x] = np.exp(own[x] - most)
                    whole += own[x]
                for x in range(start[a], start[a + 1]):
                    own[x] /= whole
                beliefs.label[k, c] += most + np.log(whole)
        norm = beliefs.label[k].max()
        beliefs.label[k] = np.exp(beliefs.label[k] - norm)
        beliefs.label[k] /= beliefs.label[k].sum()
        for c in range(n_classes):
            if beliefs.label[k, c] <= 0.0:
                continue
            own, total = beliefs.atoms[k, c], 0.0
            for x in range(start[-1]):
                mass, own[x] = own[x], total
                total += mass
            own[start[-1]] = total


@njit()
def count_pieces(tree: Any, prior: Any, mean: Any) -> None:
    """Add up where draws lie, if they lie in leaves as the prior says and leaves as counted.

    ``prior``, shape (n_classes, n_atoms + 1): summed up to each atom; ``mean``, shape (n_classes,
    n_atoms).
    """
    n_positions = tree.first[-1]
    mass, total = np.zeros(n_positions), np.zeros(n_positions + 1)
    factor, weight = np.zeros((2, n_positions + 1)), np.zeros((2, len(tree.leaf)))
    for j in range(len(tree.leaf)):
        weight[0, j] = tree.n[j]
    for c in range(len(prior)):
        _read_pieces(tree, prior[c], mass)
        _sum_pieces(tree, mass, total)
        whole = _project(tree, c, weight, total, factor)[0]
        for q in range(len(tree.first) - 1):
            for p in range(tree.first[q], tree.first[q + 1] - 1):
                for x in range(tree.low[p], tree.high[p]):
                    mean[c, x] += whole * factor[0, p] * (prior[c, x + 1] - prior[c, x])
