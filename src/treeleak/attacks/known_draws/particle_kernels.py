"""Compiled walk of what rows may be, over a grid too large to list, pulled by sums of the loss.

Each row has some particles: points that it may be, each with a class and a weight. A particle
changes one attribute at a time. With it, the leaves of some trees change, and with these the
predictions before all later trees, and so what the row counts there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeleak.attacks.kernels import uniform
from treeleak.core.compiled import lowest_bit, njit

_NEAR, _STEPS = 0.4, 3
"""How often an ordered attribute moves by a few atoms, and how many: else it is drawn afresh."""
_FEW = 0.5
"""Share of the particles by which a row is held: with fewer, those of more weight are doubled."""


class Model(NamedTuple):
    """What is known of the training; leaves are numbered from the left."""

    open: Any
    """Shape (n_atoms, n_trees). Leaves that an atom leaves open, as bits."""
    start: Any
    """Shape (n_attributes + 1,). First atom of each attribute."""
    test_start: Any
    """Shape (n_attributes + 1,)."""
    test_tree: Any
    """The trees that test each attribute, ascending."""
    first: Any
    """Shape (n_trees,). First leaf of each tree."""
    draws: Any
    """Shape (n_trees, n_rows)."""
    counts: Any
    """Shape (n_sums, n_leaves, 3). What goes in each sum with 1, a row's second derivative, and its
    first one."""
    values: Any
    """Shape (n_leaves,). What leaves add."""
    begin: Any
    """Shape (2,). Prediction before the first tree, and what the later ones start from."""
    weights: Any
    """Shape (2,). Weights of the classes."""


class Pull(NamedTuple):
    """What sums say of rows: a' m + a' P (by_row - a / 2), of what a row counts, a."""

    multiplier: Any
    """Shape (n_leaves, n_sums). m."""
    precision: Any
    """Shape (n_leaves, n_sums, n_sums). P."""
    by_row: Any
    """Shape (n_rows, n_leaves, n_sums). What a row is expected to count itself."""
    upto: Any
    """Shape (n_atoms,). Share of the rows up to each atom of an attribute."""
    log_share: Any
    """Shape (n_atoms,)."""
    reacts: Any
    """Bool. Whether P is more than 0."""


class Particles(NamedTuple):
    """What rows may be; all arrays begin with (n_rows, n_particles)."""

    atoms: Any
    label: Any
    leaf: Any
    margin: Any
    """Predictions before each tree, added up; of the first one, what later ones start from."""
    chance: Any
    """The chance of the second class that these say."""
    score: Any
    log_weight: Any
    rng: Any
    """Shape (n_rows, 1)."""


@njit()
def _chance(model: Any, t: int, margin: float) -> Any:
    return 1.0 / (1.0 + np.exp(-(margin if t else model.begin[0])))


@njit()
def _scored(model: Any, pull: Any, k: int, leaf: Any, chance: Any, label: int, begin: int) -> float:
    """What the trees from ``begin`` on that drew row k say of it."""
    counts, m, P, by_row = model.counts, pull.multiplier, pull.precision, pull.by_row
    n_sums, out, weight = len(counts), 0.0, model.weights[label]
    for t in range(begin, len(leaf)):
        if not model.draws[t, k]:
            continue
        v, p = leaf[t], chance[t]
        h, g = p * (1.0 - p) * weight, (p - label) * weight
        for a in range(n_sums):
            x = counts[a, v, 0] + counts[a, v, 1] * h + counts[a, v, 2] * g
            z = m[v, a]
            if pull.reacts:
                for b in range(n_sums):
                    y = counts[b, v, 0] + counts[b, v, 1] * h + counts[b, v, 2] * g
                    z += P[v, a, b] * (by_row[k, v, b] - 0.5 * y)
            out += x * z
    return out


@njit()
def settle(model: Any, particles: Any, k: int, i: int) -> None:
    """Work out the leaves of a particle, and its predictions."""
    total = model.begin[1]
    for t in range(len(model.first)):
        word = ~np.uint64(0)
        for a in range(len(model.start) - 1):
            word &= model.open[model.start[a] + particles.atoms[k, i, a], t]
        v = model.first[t] + lowest_bit(word)
        particles.leaf[k, i, t] = v
        particles.margin[k, i, t] = total
        particles.chance[k, i, t] = _chance(model, t, total)
        total += model.values[v]


@njit()
def begin(model: Any, particles: Any, upto: Any) -> None:
    """Draw all particles, attribute by attribute."""
    for k in range(len(particles.label)):
        for i in range(particles.label.shape[1]):
            for a in range(len(model.start) - 1):
                particles.atoms[k, i, a] = _drawn(model, upto, a, particles.rng[k])
            particles.label[k, i] = i % 2
            settle(model, particles, k, i)


@njit()
def _drawn(model: Any, upto: Any, a: int, rng: Any) -> int:
    # Whatever the others are not: rounding may leave their shares below 1.
    return int(np.searchsorted(upto[model.start[a] : model.start[a + 1] - 1], uniform(rng)))


@njit()
def _weigh(model: Any, pull: Any, particles: Any, k: int) -> None:
    """Weigh the particles of a row by how sums have come to pull, and double some, if few count."""
    score, log_weight, n = particles.score[k], particles.log_weight[k], particles.label.shape[1]
    for i in range(n):
        here = particles.leaf[k, i], particles.chance[k, i], particles.label[k, i]
        now = _scored(model, pull, k, *here, 0)
        log_weight[i] += now - score[i]
        score[i] = now
    log_weight -= log_weight.max()
    weight = np.exp(log_weight)
    total = weight.sum()
    if total * total >= _FEW * n * (weight * weight).sum():
        return
    atoms, label, before = particles.atoms[k].copy(), particles.label[k].copy(), score.copy()
    leaf, margin, chance = (
        particles.leaf[k].copy(),
        particles.margin[k].copy(),
        particles.chance[k].copy(),
    )
    at, upto = 0, weight[0] / total
    x = uniform(particles.rng[k]) / n
    for i in range(n):
        while upto < x and at < n - 1:
            at += 1
            upto += weight[at] / total
        particles.atoms[k, i], particles.label[k, i] = atoms[at], label[at]
        particles.leaf[k, i], particles.margin[k, i] = leaf[at], margin[at]
        particles.chance[k, i] = chance[at]
        score[i], log_weight[i] = before[at], 0.0
        x += 1.0 / n


@njit()
def walk(model: Any, pull: Any, particles: Any, rows: Any) -> None:
    """Let the particles of some rows take a step in each attribute, and in their class."""
    n_trees, n_attributes = len(model.first), len(model.start) - 1
    leaf, margin, chance = np.empty(n_trees, dtype=np.int32), np.empty(n_trees), np.empty(n_trees)
    for k in rows:
        _weigh(model, pull, particles, k)
        rng = particles.rng[k]
        for i in range(particles.label.shape[1]):
            atoms, label = particles.atoms[k, i], particles.label[k, i]
            for a in range(n_attributes + 1):
                begin, new, prior, other = 0, 0, 0.0, label
                leaf[:], margin[:] = particles.leaf[k, i], particles.margin[k, i]
                chance[:] = particles.chance[k, i]
                if a == n_attributes:
                    other = 1 - label
                else:
                    low, n = model.start[a], model.start[a + 1] - model.start[a]
                    old = atoms[a]
                    if n > _STEPS + 1 and uniform(rng) < _NEAR:
                        step = 1 + int(uniform(rng) * _STEPS)
                        new = old + step if uniform(rng) < 0.5 else old - step
                        if new < 0 or new >= n:
                            continue
                        prior = pull.log_share[low + new] - pull.log_share[low + old]
                    else:
                        new = _drawn(model, pull.upto, a, rng)
                    if new == old:
                        continue
                    begin = n_trees
                    for j in range(model.test_start[a], model.test_start[a + 1]):
                        t = model.test_tree[j]
                        word = model.open[low + new, t]
                        for b in range(n_attributes):
                            if b != a:
                                word &= model.open[model.start[b] + atoms[b], t]
                        leaf[t] = model.first[t] + lowest_bit(word)
                        if begin == n_trees and leaf[t] != particles.leaf[k, i, t]:
                            begin = t
                    if begin < n_trees:
                        total = margin[begin]
                        for t in range(begin, n_trees):
                            margin[t], chance[t] = total, _chance(model, t, total)
                            total += model.values[leaf[t]]
                now = _scored(model, pull, k, leaf, chance, other, begin)
                here = particles.leaf[k, i], particles.chance[k, i], label
                gain = now - _scored(model, pull, k, *here, begin)
                if gain + prior >= 0 or uniform(rng) < np.exp(gain + prior):
                    particles.score[k, i] += gain
                    particles.leaf[k, i], particles.margin[k, i] = leaf, margin
                    particles.chance[k, i] = chance
                    particles.label[k, i] = label = other
                    if a < n_attributes:
                        atoms[a] = new


@njit()
def expect(model: Any, particles: Any, share: float, by_row: Any, mean: Any, spread: Any) -> None:
    """Add up what rows are expected to count, in place.

    ``share`` of what they were is replaced in ``by_row``, shape as in :class:`Pull`. ``mean``,
    shape (n_leaves, n_sums), and ``spread``, shape (n_leaves, n_sums, n_sums): of all rows.
    """
    counts = model.counts
    n_rows, n, n_trees = particles.leaf.shape
    n_sums = len(counts)
    by_row *= 1.0 - share
    mean[:], spread[:] = 0.0, 0.0
    x = np.empty(n_sums)
    for k in range(n_rows):
        weight = np.exp(particles.log_weight[k] - particles.log_weight[k].max())
        weight /= weight.sum()
        for t in range(n_trees):
            if model.draws[t, k]:
                for i in range(n):
                    v, p, label = (
                        particles.leaf[k, i, t],
                        particles.chance[k, i, t],
                        particles.label[k, i],
                    )
                    h, g = p * (1.0 - p) * model.weights[label], (p - label) * model.weights[label]
                    for a in range(n_sums):
                        x[a] = counts[a, v, 0] + counts[a, v, 1] * h + counts[a, v, 2] * g
                    for a in range(n_sums):
                        by_row[k, v, a] += share * weight[i] * x[a]
                        for b in range(n_sums):
                            spread[v, a, b] += weight[i] * x[a] * x[b]
        for v in range(len(mean)):
            for a in range(n_sums):
                mean[v, a] += by_row[k, v, a]
                for b in range(n_sums):
                    spread[v, a, b] -= by_row[k, v, a] * by_row[k, v, b]
