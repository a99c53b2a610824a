"""Compiled loops over the leaves of cells, for sums over rows that trees drew."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeleak.core.compiled import njit


@njit()
def add_spread(
    leaf: Any, counts: Any, draws: Any, u: Any, first: int, last: int, least: float, out: Any
) -> None:
    """Add the covariance of all sums in the leaves of some trees.

    ``leaf``, shape (n_trees, n_cells). ``counts``, shape (n_sums, n_classes, n_trees, n_cells):
    what a row of a kind counts. ``draws``, shape (n_trees, n_rows). ``u``, shape (n_rows, n_kinds):
    probability of each kind, of which those below ``least`` are left out. ``out``, shape (n_leaves,
    n_sums, n_sums).
    """
    n_sums, n_cells = counts.shape[0], counts.shape[3]
    mean = np.zeros((len(out), n_sums))
    for k in range(len(u)):
        for kind in range(u.shape[1]):
            w = u[k, kind]
            if w < least:
                continue
            c, j = kind // n_cells, kind % n_cells
            for t in range(first, last):
                if draws[t, k] > 0:
                    cell = leaf[t, j]
                    for a in range(n_sums):
                        x = counts[a, c, t, j]
                        mean[cell, a] += w * x
                        for b in range(n_sums):
                            out[cell, a, b] += w * x * counts[b, c, t, j]
        for kind in range(u.shape[1]):
            if u[k, kind] < least:
                continue
            j = kind % n_cells
            for t in range(first, last):
                if draws[t, k] > 0:
                    cell = leaf[t, j]
                    if mean[cell, 0] != 0 or mean[cell, n_sums - 1] != 0:
                        for a in range(n_sums):
                            for b in range(n_sums):
                                out[cell, a, b] -= mean[cell, a] * mean[cell, b]
                        for a in range(n_sums):
                            mean[cell, a] = 0.0


@njit()
def add_reaction(
    leaf: Any, counts: Any, draws: Any, u: Any, precision: Any, rows: Any, least: float, out: Any
) -> None:
    """Add to scores of kinds what a row's own part in the sums of leaves says for them.

    ``precision``, shape (n_leaves, n_sums, n_sums): inverse of the covariance of the sums.
    ``rows``: which. ``out``, shape (n_rows, n_kinds); other arrays as in :func:`add_spread`.
    """
    n_sums, n_classes, n_trees, n_cells = counts.shape
    own = np.zeros((len(precision), n_sums))
    for k in rows:
        for kind in range(u.shape[1]):
            w = u[k, kind]
            if w < least:
                continue
            c, j = kind // n_cells, kind % n_cells
            for t in range(n_trees):
                if draws[t, k] > 0:
                    cell = leaf[t, j]
                    for a in range(n_sums):
                        for b in range(n_sums):
                            own[cell, a] += w * precision[cell, a, b] * counts[b, c, t, j]
        for t in range(n_trees):
            if draws[t, k] > 0:
                for c in range(n_classes):
                    for j in range(n_cells):
                        cell = leaf[t, j]
                        s = 0.0
                        for a in range(n_sums):
                            s += own[cell, a] * counts[a, c, t, j]
                        out[k, c * n_cells + j] += s
        for kind in range(u.shape[1]):
            if u[k, kind] < least:
                continue
            for t in range(n_trees):
                if draws[t, k] > 0:
                    cell = leaf[t, kind % n_cells]
                    for a in range(n_sums):
                        own[cell, a] = 0.0
