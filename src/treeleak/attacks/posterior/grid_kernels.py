"""Compiled loops of a single row: where it lies, what rules it obeys, how probable it is."""

from __future__ import annotations

from typing import Any

from treeleak.core.compiled import njit


@njit()
def log_prior_of(atom: Any, pair: int, prior: Any, radix: Any) -> float:
    """Log probability of a row before anything is counted."""
    if prior.tabled:
        return prior.grid[pair]  # type: ignore[no-any-return]
    out = 0.0
    for a in range(len(radix)):
        at = prior.offset[a] + atom[a]
        if prior.parent[a] >= 0:
            at += prior.bin[prior.parent[a], atom[prior.parent[a]]] * radix[a]
        out += prior.log_share[at]
    return out


@njit()
def log_priors_of(atom: Any, a: int, prior: Any, radix: Any, out: Any) -> None:
    """Log probability of a row for each atom of one attribute, up to a constant; not by a table."""
    at = prior.offset[a]
    if prior.parent[a] >= 0:
        at += prior.bin[prior.parent[a], atom[prior.parent[a]]] * radix[a]
    for x in range(radix[a]):
        out[x] = prior.log_share[at + x]
    for b in range(len(radix)):
        if prior.parent[b] == a:
            below = prior.offset[b] + atom[b]
            for x in range(radix[a]):
                out[x] += prior.log_share[below + prior.bin[a, x] * radix[b]]


@njit()
def set_log_priors(state: Any, grid: Any, prior: Any) -> None:
    """Note the log probability of all rows under a prior, in place."""
    n_classes = grid.radix[-1]
    for i in range(len(state.atoms)):
        pair = point_of(state.atoms[i], grid.stride) * n_classes + state.atoms[i, -1]
        state.log_prior[i] = log_prior_of(state.atoms[i], pair, prior, grid.radix)


@njit()
def point_of(atom: Any, stride: Any) -> int:
    """Give the number of a row's grid point, or of its place in a table of some attributes."""
    point = 0
    for a in range(len(stride)):
        point += atom[a] * stride[a]
    return point


@njit()
def obeys(atom: Any, grid: Any) -> bool:
    """Whether a row meets the rules of the schema."""
    for k in range(len(grid.rule_start)):
        if not grid.valid[grid.rule_start[k] + point_of(atom, grid.rule_stride[k])]:
            return False
    return True


@njit()
def drop(atom: Any, point: int, grid: Any, leaf: Any) -> None:
    """Find the leaf of a row in every tree."""
    if grid.listed:
        for t in range(len(leaf)):
            leaf[t] = grid.table[point, t]
        return
    for t in range(len(leaf)):
        v = grid.root[t]
        while grid.attribute[v] >= 0:
            left = grid.goes_left[grid.test[v] + atom[grid.attribute[v]]]
            v = grid.left[v] if left else grid.right[v]
        leaf[t] = grid.left[v]


@njit()
def drop_all(atoms: Any, grid: Any, leaves: Any) -> None:
    """Find the leaves of all rows, in place."""
    for i in range(len(atoms)):
        drop(atoms[i], point_of(atoms[i], grid.stride), grid, leaves[i])
