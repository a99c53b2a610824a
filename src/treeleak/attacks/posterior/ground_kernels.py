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
def set_log_priors(state: Any, ground: Any, prior: Any) -> None:
    """Note the log probability of all rows under a prior, in place."""
    n_classes = ground.radix[-1]
    for i in range(len(state.atoms)):
        pair = point_of(state.atoms[i], ground.stride) * n_classes + state.atoms[i, -1]
        state.log_prior[i] = log_prior_of(state.atoms[i], pair, prior, ground.radix)


@njit()
def point_of(atom: Any, stride: Any) -> int:
    """Give the number of a row's grid point, or of its place in a table of some attributes."""
    point = 0
    for a in range(len(stride)):
        point += atom[a] * stride[a]
    return point


@njit()
def obeys(atom: Any, ground: Any) -> bool:
    """Whether a row meets the rules of the schema."""
    for k in range(len(ground.rule_start)):
        if not ground.valid[ground.rule_start[k] + point_of(atom, ground.rule_stride[k])]:
            return False
    return True


@njit()
def drop(atom: Any, point: int, ground: Any, leaf: Any) -> None:
    """Find the leaf of a row in every tree."""
    if ground.listed:
        for t in range(len(leaf)):
            leaf[t] = ground.table[point, t]
        return
    for t in range(len(leaf)):
        v = ground.root[t]
        while ground.attribute[v] >= 0:
            left = ground.goes_left[ground.test[v] + atom[ground.attribute[v]]]
            v = ground.left[v] if left else ground.right[v]
        leaf[t] = ground.left[v]


@njit()
def drop_all(atoms: Any, ground: Any, leaves: Any) -> None:
    """Find the leaves of all rows, in place."""
    for i in range(len(atoms)):
        drop(atoms[i], point_of(atoms[i], ground.stride), ground, leaves[i])
