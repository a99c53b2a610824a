"""Compiled loops that learn, within a chain, what rows are like. Every loop releases the GIL.

The model of a row: attributes form a forest, each depends on at most one other. Over the rows,
m_a ~ Dirichlet(alpha s_a) and p_a(. | u) ~ Dirichlet(kappa m_a) for each atom u of the parent, or
each bin of them, where s_a gives each atom its share of the points of the schema times the number
of atoms (intervals have equal shares). In binary columns, s is (2 - 2 q, 2 q) with one q for all,
which is learned like the rest.

All of it is drawn given the rows that the chain holds: parents (by their probability once p is
summed out), alpha and kappa (on a grid), q and m (with the tables of a Chinese restaurant as
auxiliaries, Teh et al. 2006), then p. Together with moves of the rows this is a Gibbs sampler of
rows and model.
"""

from __future__ import annotations

from math import lgamma
from typing import Any, NamedTuple

import numpy as np

from treeleak.attacks.kernels import uniform
from treeleak.core.compiled import njit

_LEAST_LOG = -690.0
"""Log probabilities are no lower: e to this power is still a number."""
_LEAST_MARGINAL, _LEAST_Q = 1e-26, 0.02


class HierarchicalPrior(NamedTuple):
    """What a chain takes rows to be like; redrawn in place."""

    parent: Any
    """Shape (n_attributes + 1,). The attribute on which each depends; -1 for none. The class is the
    last attribute."""
    offset: Any
    """Shape (n_attributes + 2,). Where the table of each attribute begins, and the end."""
    log_share: Any
    """Float64 array. log p_a(x | u) at offset[a] + u * radix[a] + x, u a bin of the parent's
    atoms."""
    bin: Any
    """Int32 array. As in :class:`Prior`."""
    n_bins: Any
    """Shape (n_attributes + 1,)."""
    order: Any
    """Shape (n_attributes + 1,). Attributes, parents first."""
    marginal: Any
    size: Any
    """Shape (n_atoms,). m and s, attribute by attribute."""
    strength: Any
    """Shape (2,). alpha, kappa."""
    alphas: Any
    kappas: Any
    """Float64 arrays. What these may be."""
    flag: Any
    """Shape (n_attributes + 1,). The binary columns."""
    ones: Any
    """Shape (2,). Columns' worth of hierarchy, before any row, that flags are 0 and that they are
    1."""
    every: Any
    """Int. Steps of a walk between two redraws; 0 for never."""


@njit()
def _normal(rng: Any) -> float:
    while True:
        x, y = 2.0 * uniform(rng) - 1.0, 2.0 * uniform(rng) - 1.0
        r = x * x + y * y
        if 0.0 < r < 1.0:
            return x * np.sqrt(-2.0 * np.log(r) / r)  # type: ignore[no-any-return]


@njit()
def log_gamma(rng: Any, shape: float) -> float:
    """Draw the log of a gamma variate (Marsaglia and Tsang 2000), also where that underflows."""
    low = 0.0
    if shape < 1.0:
        low = np.log(1.0 - uniform(rng)) / shape
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / np.sqrt(9.0 * d)
    while True:
        x = _normal(rng)
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        if np.log(1.0 - uniform(rng)) < 0.5 * x * x + d - d * v + d * np.log(v):
            return low + np.log(d * v)  # type: ignore[no-any-return]


@njit()
def log_dirichlet(rng: Any, shape: Any, out: Any) -> None:
    """Draw the log of a Dirichlet variate."""
    best = -np.inf
    for x in range(len(shape)):
        out[x] = log_gamma(rng, shape[x])
        best = max(best, out[x])
    total = 0.0
    for x in range(len(shape)):
        total += np.exp(out[x] - best)
    total = best + np.log(total)
    for x in range(len(shape)):
        out[x] = max(out[x] - total, _LEAST_LOG)


@njit()
def _chosen(rng: Any, weight: Any) -> int:
    """Choose one by log weights."""
    best, total = weight[0], 0.0
    for k in range(1, len(weight)):
        best = max(best, weight[k])
    for k in range(len(weight)):
        total += np.exp(weight[k] - best)
    at = uniform(rng) * total
    for k in range(len(weight)):
        at -= np.exp(weight[k] - best)
        if at < 0.0:
            return k
    return len(weight) - 1


@njit()
def _counted(atoms: Any, a: int, up: int, radix: Any, hierarchy: Any, buffer: Any) -> Any:
    """Count the atoms of an attribute under each bin of another, or in all if that is -1."""
    r = radix[a]
    count = buffer[: r if up < 0 else hierarchy.n_bins[up] * r]
    count[:] = 0.0
    for i in range(len(atoms)):
        u = 0 if up < 0 else hierarchy.bin[up, atoms[i, up]]
        count[u * r + atoms[i, a]] += 1.0
    return count


@njit()
def _log_counted(count: Any, weight: float, m: Any) -> float:
    """Log probability of counts if p ~ Dirichlet(weight m) in each line, p summed out."""
    out, r = 0.0, len(m)
    for u in range(len(count) // r):
        n = 0.0
        for x in range(r):
            c = count[u * r + x]
            if c > 0.0:
                n += c
                out += lgamma(weight * m[x] + c) - lgamma(weight * m[x])
        if n > 0.0:
            out += lgamma(weight) - lgamma(weight + n)
    return out


@njit()
def _is_below(b: int, a: int, parent: Any) -> bool:
    """Whether attribute b is a, or depends on it, directly or not."""
    while b >= 0:
        if b == a:
            return True
        b = parent[b]
    return False


@njit()
def _new_parent(rng: Any, atoms: Any, a: int, grid: Any, hierarchy: Any, buffer: Any) -> None:
    """Redraw on which attribute this one depends."""
    radix, start, parent = grid.radix, grid.start, hierarchy.parent
    m = hierarchy.marginal[start[a] : start[a] + radix[a]]
    weight, candidate = np.empty(len(radix) + 1), np.empty(len(radix) + 1, np.int64)
    room, n = hierarchy.offset[a + 1] - hierarchy.offset[a], 0
    for b in range(-1, len(radix)):
        if b >= 0 and (hierarchy.n_bins[b] * radix[a] > room or _is_below(b, a, parent)):
            continue
        count = _counted(atoms, a, b, radix, hierarchy, buffer)
        weight[n] = _log_counted(count, hierarchy.strength[1], m)
        candidate[n] = b
        n += 1
    parent[a] = candidate[_chosen(rng, weight[:n])]


@njit()
def _tables(rng: Any, atoms: Any, grid: Any, hierarchy: Any, buffer: Any) -> Any:
    """Draw how many rows came directly from m, per atom: tables of a Chinese restaurant."""
    radix, start, kappa = grid.radix, grid.start, hierarchy.strength[1]
    table = np.zeros(len(hierarchy.marginal))
    for a in range(len(radix)):
        count = _counted(atoms, a, hierarchy.parent[a], radix, hierarchy, buffer)
        for k in range(len(count)):
            atom = start[a] + k % radix[a]
            weak = kappa * hierarchy.marginal[atom]
            for i in range(int(count[k])):
                if uniform(rng) * (weak + i) < weak:
                    table[atom] += 1.0
    return table


@njit()
def relearn(rng: Any, atoms: Any, grid: Any, hierarchy: Any) -> None:
    """Redraw, in place, what rows are like, given rows (or none).

    ``atoms``: int16, (n_rows, n_attributes + 1).
    """
    radix, start, parent = grid.radix, grid.start, hierarchy.parent
    most = 0
    for a in range(len(radix)):
        most = max(most, hierarchy.offset[a + 1] - hierarchy.offset[a])
    buffer = np.empty(most)
    _new_parent(rng, atoms, int(uniform(rng) * len(radix)), grid, hierarchy, buffer)
    weight = np.zeros(len(hierarchy.kappas))
    for a in range(len(radix)):
        count = _counted(atoms, a, parent[a], radix, hierarchy, buffer)
        for k in range(len(weight)):
            m = hierarchy.marginal[start[a] : start[a] + radix[a]]
            weight[k] += _log_counted(count, hierarchy.kappas[k], m)
    kappa = hierarchy.kappas[_chosen(rng, weight)]
    hierarchy.strength[1] = kappa
    table = _tables(rng, atoms, grid, hierarchy, buffer)
    weight = np.zeros(len(hierarchy.alphas))
    for a in range(len(radix)):
        table_counts, r = table[start[a] : start[a] + radix[a]], radix[a]
        for k in range(len(weight)):
            s = hierarchy.size[start[a] : start[a] + r]
            weight[k] += _log_counted(table_counts, hierarchy.alphas[k] * r, s / r)
    alpha = hierarchy.alphas[_chosen(rng, weight)]
    hierarchy.strength[0] = alpha
    zero, one = hierarchy.ones
    for a in range(len(radix)):
        if hierarchy.flag[a]:
            # Tables within tables: how many of those came directly from s.
            for bit in range(2):
                weak = alpha * hierarchy.size[start[a] + bit]
                for i in range(int(table[start[a] + bit])):
                    if uniform(rng) * (weak + i) < weak:
                        zero, one = (zero + 1.0, one) if bit == 0 else (zero, one + 1.0)
    x, y = log_gamma(rng, zero), log_gamma(rng, one)
    q = min(max(1.0 / (1.0 + np.exp(x - y)), _LEAST_Q), 1.0 - _LEAST_Q)
    for a in range(len(radix)):
        if hierarchy.flag[a]:
            hierarchy.size[start[a]], hierarchy.size[start[a] + 1] = 2.0 - 2.0 * q, 2.0 * q
    for a in range(len(radix)):
        r = radix[a]
        m = hierarchy.marginal[start[a] : start[a] + r]
        s = hierarchy.size[start[a] : start[a] + r]
        log_dirichlet(rng, table[start[a] : start[a] + r] + alpha * s, m)
        for x in range(r):
            m[x] = max(np.exp(m[x]), _LEAST_MARGINAL)
        count = _counted(atoms, a, parent[a], radix, hierarchy, buffer)
        for u in range(len(count) // r):
            at = hierarchy.offset[a] + u * r
            share = hierarchy.log_share[at : at + r]
            log_dirichlet(rng, count[u * r : (u + 1) * r] + kappa * m, share)
    _sort(parent, hierarchy.order)


@njit()
def _sort(parent: Any, order: Any) -> None:
    n, sorted_ = 0, np.zeros(len(parent), np.bool_)
    while n < len(parent):
        for a in range(len(parent)):
            if not sorted_[a] and (parent[a] < 0 or sorted_[parent[a]]):
                order[n], sorted_[a] = a, True
                n += 1


@njit()
def draw_row(rng: Any, atom: Any, grid: Any, prior: Any) -> None:
    """Draw a row from a prior with an order, in place."""
    for a in prior.order:
        r, at = grid.radix[a], prior.offset[a]
        if prior.parent[a] >= 0:
            at += prior.bin[prior.parent[a], atom[prior.parent[a]]] * r
        u, x = uniform(rng), 0
        while x < r - 1:
            u -= np.exp(prior.log_share[at + x])
            if u < 0.0:
                break
            x += 1
        atom[a] = x


@njit()
def imagine(rng: Any, atoms: Any, grid: Any, hierarchy: Any, turns: int) -> None:
    """Draw what rows are like before anything is counted, and rows that are like that, in place."""
    hierarchy.strength[0] = hierarchy.alphas[int(uniform(rng) * len(hierarchy.alphas))]
    hierarchy.strength[1] = hierarchy.kappas[int(uniform(rng) * len(hierarchy.kappas))]
    for _ in range(turns):
        relearn(rng, atoms[:0], grid, hierarchy)
    for i in range(len(atoms)):
        draw_row(rng, atoms[i], grid, hierarchy)
