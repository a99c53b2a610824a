"""Compiled loops of the attacks. All arrays are contiguous; every loop releases the GIL."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeleak.core.compiled import njit

_FAR = 30.0
"""An atom this much less likely than the best, on the log scale, is not drawn."""


@njit()
def propagate(signature: Any, target: Any, lower: Any, upper: Any, max_sweeps: int) -> Any:
    """Tighten lower <= m <= upper under A m = n, in place.

    With s_r the sum of the lower and S_r of the upper bounds of equation r's cells, every cell j
    of r has m_j <= n_r - (s_r - lower_j) and m_j >= n_r - (S_r - upper_j).

    Returns the equation that cannot be met, or -1.
    """
    n_cells, n_trees = signature.shape
    low_sum = np.zeros(len(target), dtype=np.int64)
    high_sum = np.zeros(len(target), dtype=np.int64)
    for j in range(n_cells):
        for t in range(n_trees):
            low_sum[signature[j, t]] += lower[j]
            high_sum[signature[j, t]] += upper[j]
    for _ in range(max_sweeps):
        changed = False
        for j in range(n_cells):
            if lower[j] == upper[j]:
                continue
            low, high = lower[j], upper[j]
            for t in range(n_trees):
                r = signature[j, t]
                high = min(high, target[r] - (low_sum[r] - lower[j]))
                low = max(low, target[r] - (high_sum[r] - upper[j]))
            if low > high:
                for t in range(n_trees):
                    r = signature[j, t]
                    if target[r] < low_sum[r] or target[r] > high_sum[r]:
                        return r
                return signature[j, 0]
            if low != lower[j] or high != upper[j]:
                changed = True
                for t in range(n_trees):
                    r = signature[j, t]
                    low_sum[r] += low - lower[j]
                    high_sum[r] += high - upper[j]
                lower[j], upper[j] = low, high
        if not changed:
            break
    for r in range(len(target)):
        if target[r] < low_sum[r] or target[r] > high_sum[r]:
            return r
    return -1


@njit()
def fit_weights(leaves: Any, target: Any, weight: Any, sweeps: int, tolerance: float) -> float:
    """Scale weights tree by tree until A w = n (iterative proportional fitting), in place.

    Its limit is the w that meets the equations with the least KL(w || start).
    ``leaves``: shape (n_trees, n_cells), the equation of each cell in each tree.
    Returns the largest |A w - n| seen in the last sweep.
    """
    n_trees, n_cells = leaves.shape
    if n_trees == 0:
        return 0.0
    equations, begin = _listed(leaves, len(target))
    total, scale = np.zeros(len(target)), np.ones(len(target))
    last, worst = leaves[0], 0.0
    for _ in range(sweeps):
        worst = 0.0
        for t in range(n_trees):
            leaf = leaves[t]
            for r in equations[begin[t] : begin[t + 1]]:
                total[r] = 0.0
            # Cells are scaled for one tree while they are summed for the next: one pass for both.
            for j in range(n_cells):
                scaled = weight[j] * scale[last[j]]
                weight[j] = scaled
                total[leaf[j]] += scaled
            for r in equations[begin[t] : begin[t + 1]]:
                scale[r] = 1.0
                if total[r] > 0.0:
                    scale[r] = target[r] / total[r]
                    worst = max(worst, abs(total[r] - target[r]))
            last = leaf
        if worst < tolerance:
            break
    for j in range(n_cells):
        weight[j] *= scale[last[j]]
    return worst


@njit()
def _listed(leaves: Any, n_equations: int) -> Any:
    """List the equations that cells have, tree by tree, and say where those of each tree begin."""
    n_trees, n_cells = leaves.shape
    equations, begin = np.empty(n_equations, np.int64), np.zeros(n_trees + 1, np.int64)
    seen, n = np.zeros(n_equations, np.bool_), 0
    for t in range(n_trees):
        for j in range(n_cells):
            r = leaves[t, j]
            if not seen[r]:
                seen[r], equations[n] = True, r
                n += 1
        begin[t + 1] = n
    return equations, begin


@njit()
def pair_costs(cost: Any, rows: Any, sample: Any, others: Any) -> Any:
    """What each row of ``others`` of a sample costs in the place of each row of ``rows``."""
    out = np.empty((len(rows), len(others)))
    for x in range(len(rows)):
        row_cost = cost[rows[x]]
        for y in range(len(others)):
            total = 0.0
            for entry in sample[others[y]]:
                total += row_cost[entry]
            out[x, y] = total
    return out


@njit(inline=True)
def uniform(state: Any) -> float:
    """Draw a number from [0, 1)."""
    # xorshift64*: a chain carries its own generator, so that it is the same in any thread.
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    bits: Any = (x * np.uint64(2685821657736338717)) >> np.uint64(11)
    return bits * (1.0 / 9007199254740992.0)  # type: ignore[no-any-return]


@njit()
def draw_scored(score: Any, n: int, rng: Any) -> int:
    """Draw a number by the exponential of its score; what is in ``score`` is lost."""
    best = -np.inf
    for v in range(n):
        best = max(best, score[v])
    total, last, weight = 0.0, np.nan, 0.0
    for v in range(n):
        if score[v] > best - _FAR:
            # Neighbours are often alike.
            if score[v] != last:
                last, weight = score[v], np.exp(score[v] - best)
            total += weight
        score[v] = total
    u, v = uniform(rng) * total, 0
    while v < n - 1 and score[v] <= u:
        v += 1
    return v


@njit(inline=True)
def misfit_change(signature: Any, residual: Any, old: int, new: int, limit: float) -> int:
    """Change of sum |residual| if a row moved between cells; cut short once above ``limit``.

    A column changes the sum by 2 at the most.
    """
    change = 0
    n = signature.shape[1]
    for t in range(n):
        a, b = signature[old, t], signature[new, t]
        if a != b:
            if a >= 0:
                change += -1 if residual[a] > 0 else 1
            if b >= 0:
                change += 1 if residual[b] >= 0 else -1
            if change - 2 * (n - 1 - t) > limit:
                break
    return change


@njit(inline=True)
def misfit_change_of_two(
    signature: Any, residual: Any, old: int, new: int, old2: int, new2: int, limit: float
) -> int:
    """The same if two rows moved at once; a column changes the sum by 4 at the most."""
    change = 0
    n = signature.shape[1]
    for t in range(n):
        a, b = signature[old, t], signature[new, t]
        c, d = signature[old2, t], signature[new2, t]
        # A leaf that one row enters and another leaves keeps its count.
        if a == b:
            a = b = -1
        elif a == d:
            a = d = -1
        if c == b:
            c = b = -1
        elif c == d:
            c = d = -1
        if a >= 0 and a == c:
            change += abs(residual[a] - 2) - abs(residual[a])
        else:
            if a >= 0:
                change += -1 if residual[a] > 0 else 1
            if c >= 0:
                change += -1 if residual[c] > 0 else 1
        if b >= 0 and b == d:
            change += abs(residual[b] + 2) - abs(residual[b])
        else:
            if b >= 0:
                change += 1 if residual[b] >= 0 else -1
            if d >= 0:
                change += 1 if residual[d] >= 0 else -1
        if change - 4 * (n - 1 - t) > limit:
            break
    return change


@njit(inline=True)
def move_row(signature: Any, residual: Any, old: int, new: int) -> None:
    """Move one row between cells."""
    for t in range(signature.shape[1]):
        a, b = signature[old, t], signature[new, t]
        if a >= 0:
            residual[a] -= 1
        if b >= 0:
            residual[b] += 1
