"""What rows have in common, by what all trees count of them: rows are of a few kinds.

Within a kind, attributes are independent; over all kinds, they go together as they do in the
training set. Kinds are fitted to the counts by expectation and maximisation: each draw lies in a
leaf and is of a class, and how probable these are for each kind says of which kind it is.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from treeleak.attacks.known_draws.belief_kernels import (
    TreePieces,
    admitted,
    project,
    read_pieces,
    sum_pieces,
)
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.compiled import njit
from treeleak.core.parallel import THREADS, run_all
from treeleak.core.private import dataclass

_ROUNDS, _GAIN = 80, 3e-4
"""Rounds at most, and the gain of a round, in nats for each draw, below which kinds are fitted."""
_ATOM, _DRAW = 1.0, 0.01
"""Rows that are added to each kind: spread over atoms as rows of the class are, and whatever."""
_APART = 2.0
"""How far kinds are apart at first: the largest log of what they differ by, about."""


@dataclass(frozen=True, eq=False)
class LatentClasses:
    """Kinds of rows, of each class."""

    log_share: FloatArray
    """Shape (n_classes, n_kinds). Log of the share of rows that are of a class and a kind."""
    log_atoms: FloatArray
    """Shape (n_classes, n_kinds, n_atoms). What such rows are like: log of the share of atoms."""


def fitted_classes(
    trees: list[TreePieces], n_latent: int, n_classes: int, start: IntArray, clock: Clock
) -> LatentClasses:
    """Fit kinds to what all leaves count.

    ``start``, shape (n_attributes + 1,): first atom of each attribute.
    """
    even = np.repeat(1.0 / np.diff(start), np.diff(start))[None]
    share = sum((np.bincount(t.label, t.n, n_classes) for t in trees), np.full(n_classes, _DRAW))
    shares, atoms = [], []
    for c, whole in enumerate(share / share.sum()):
        usual, _ = _fitted(trees, c, start, even, np.ones(1), even, clock)
        apart = _scaled(_apart(usual.repeat(n_latent, axis=0), start), start)
        atom_share, of_kind = _fitted(
            trees, c, start, apart, np.full(n_latent, 1 / n_latent), usual, clock
        )
        atoms.append(np.log(atom_share))
        shares.append(np.log(whole * of_kind))
    return LatentClasses(np.array(shares), np.array(atoms))


def _apart(atoms: FloatArray, start: IntArray) -> FloatArray:
    """Set kinds apart: each has more of the low or of the high atoms of an attribute."""
    rng, out = np.random.default_rng(0), atoms.copy()
    for begin, end in pairwise(start if len(atoms) > 1 else ()):
        part = out[:, begin:end]
        place = 2.0 * np.cumsum(part, axis=1) - part - 1.0
        part *= np.exp(_APART * rng.normal(size=(len(part), 1)) * place)
    return out


def _fitted(
    trees: list[TreePieces], c: int, start: IntArray, atoms: FloatArray, share: FloatArray,
    usual: FloatArray, clock: Clock,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Go on from kinds of a class to those that suit the counts best.

    ``atoms``, shape (n_kinds, n_atoms), and ``share``, shape (n_kinds,): shares of atoms, and of
    kinds. Returns both.
    """
    n, before = sum(float(t.n[t.label == c].sum()) for t in trees), -np.inf
    for _ in range(_ROUNDS):
        if clock.stopped:
            break
        mean, count, log = _counted(trees, c, atoms, share)
        atoms = _scaled(mean / len(trees) + _ATOM * usual, start)
        share = count / len(trees) + _DRAW
        share /= share.sum()
        if log - before < _GAIN * n:
            break
        before = log
    return atoms, share


def _counted(
    trees: list[TreePieces], c: int, atoms: FloatArray, share: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """Add up where draws of each kind lie, over all trees; how many; and how probable that is."""
    upto = np.pad(atoms.cumsum(axis=1), ((0, 0), (1, 0)))
    mean, count = np.zeros((THREADS, *atoms.shape)), np.zeros((THREADS, len(share)))

    def some(worker: int) -> float:
        few = trees[worker::THREADS]
        logs = [count_by_class(t, c, upto, share, mean[worker], count[worker]) for t in few]
        return float(sum(logs))

    log = sum(run_all([partial(some, i) for i in range(THREADS)]))
    return mean.sum(axis=0), count.sum(axis=0), log


def _scaled(atoms: FloatArray, start: IntArray) -> FloatArray:
    """Scale the atoms of each attribute to shares."""
    whole = np.add.reduceat(atoms, start[:-1], axis=1)
    return np.asarray(atoms / whole.repeat(np.diff(start), axis=1))


_LEAST = 1e-300


@njit()
def count_by_class(tree: Any, c: Any, upto: Any, share: Any, mean: Any, count: Any) -> Any:
    """Add up where draws of each kind of class c lie, if they lie in leaves as counted.

    ``upto``, shape (n_kinds, n_atoms + 1): shares of atoms, summed up to each; ``share``, shape
    (n_kinds,). Adds to ``mean``, shape (n_kinds, n_atoms), and ``count``, shaped as ``share``.
    Returns the log of how probable the counts are.
    """
    n_latent, n_positions = len(upto), tree.first[-1]
    mass, total = np.zeros(n_positions), np.zeros((n_latent, n_positions + 1))
    weight, log = np.zeros((n_latent, 2, len(tree.leaf))), 0.0
    for z in range(n_latent):
        read_pieces(tree, upto[z], mass)
        sum_pieces(tree, mass, total[z])
    for j in np.flatnonzero(tree.label == c):
        whole = _LEAST
        for z in range(n_latent):
            weight[z, 0, j] = share[z]
            for k in range(tree.bound[tree.leaf[j]], tree.bound[tree.leaf[j] + 1]):
                weight[z, 0, j] *= admitted(tree, k, total[z])
            whole += weight[z, 0, j]
        log += tree.n[j] * np.log(whole)
        for z in range(n_latent):
            weight[z, 0, j] *= tree.n[j] / whole
            count[z] += weight[z, 0, j]
    factor = np.zeros((2, n_positions + 1))
    for z in range(n_latent):
        whole = project(tree, weight[z], total[z], factor)[0]
        for q in range(len(tree.first) - 1):
            for p in range(tree.first[q], tree.first[q + 1] - 1):
                for x in range(tree.low[p], tree.high[p]):
                    mean[z, x] += whole * factor[0, p] * (upto[z, x + 1] - upto[z, x])
    return log
