"""Compiled loops of :mod:`kinds`: kinds of rows are fitted to what a tree counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeleak.attacks.known_draws.belief_kernels import (
    admitted,
    project,
    read_pieces,
    sum_pieces,
)
from treeleak.core.compiled import njit

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
