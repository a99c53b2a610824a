"""Compiled loops of what hidden draws say: of one class alone, and of distinct rows, which split
among classes.

Equations, and what is seen of them, are as in :mod:`.draw_kernels`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeleak.attacks.kernels import uniform
from treeleak.core.compiled import njit, put

TABLED = 256
"""Draws up to which the numbers of surjections are tabled."""
_SCANNED = 48
"""Ways to split distinct rows between two classes up to which all are weighed."""
_STEPS = 12
"""Steps of a walk over the splits, where there are more."""


@njit()
def climb(table: Any, draws: Any, weight: Any, sweeps: int) -> None:
    """EM on the multinomial likelihood of one class, in place.

    m <- m / T x A'(n / A m), up to the total: a step never lowers sum n log(A m).

    ``table``: shape (n_points, n_trees). ``draws``: shape (n_leaves,). ``weight``, shape
    (n_points,): m, shares of the rows of the class.
    """
    n_points, n_trees = table.shape
    total = np.zeros(len(draws))
    ratio = np.zeros(len(draws))
    for _ in range(sweeps):
        total[:] = 0.0
        for p in range(n_points):
            if weight[p] > 1e-12:
                for t in range(n_trees):
                    total[table[p, t]] += weight[p]
        mass = 0.0
        for v in range(len(draws)):
            ratio[v] = draws[v] / total[v] if total[v] > 0.0 else 0.0
        for p in range(n_points):
            if weight[p] > 1e-12:
                pull = 0.0
                for t in range(n_trees):
                    pull += ratio[table[p, t]]
                weight[p] *= pull
                mass += weight[p]
            else:
                weight[p] = 0.0
        if mass <= 0.0:
            return
        for p in range(n_points):
            weight[p] /= mass


@njit()
def log_surjections(most: int) -> Any:
    """Log of the number of ways in which n draws hit exactly d rows, for n, d <= most.

    surj(n, d) = d (surj(n - 1, d) + surj(n - 1, d - 1)).
    """
    out = np.full((most + 1, most + 1), -np.inf)
    out[0, 0] = 0.0
    for n in range(1, most + 1):
        for d in range(1, n + 1):
            x, y = out[n - 1, d], out[n - 1, d - 1]
            high = max(x, y)
            out[n, d] = np.log(d) + high + np.log(np.exp(x - high) + np.exp(y - high))
    return out


@njit()
def log_surjection(n: int, d: int, table: Any, log_factorial: Any) -> float:
    """Log surj(n, d); beyond the table by Temme's uniform approximation (1993)."""
    if n < len(table):
        return table[n, d]  # type: ignore[no-any-return]
    if d <= 1 or d >= n:
        if d == n:
            return log_factorial[n]  # type: ignore[no-any-return]
        return 0.0 if d == 1 else -np.inf
    # x / (1 - exp(-x)) = n / d by Newton's method, from above where the left side is convex.
    ratio = n / d
    x = ratio if ratio > 1.5 else 2.0 * (ratio - 1.0)
    for _ in range(30):
        e = np.exp(-x)
        f = x / (1.0 - e) - ratio
        slope = (1.0 - e - x * e) / (1.0 - e) ** 2
        x_new = max(x - f / slope, 1e-12)
        if abs(x_new - x) < 1e-12 * x:
            x = x_new
            break
        x = x_new
    t = ratio - 1.0
    height = -n * np.log(x) + d * (x + np.log(-np.expm1(-x))) - d * t + (n - d) * np.log(t)
    # Stirling's number: sqrt(t / ((1 + t)(x - t))) e^height d^(n - d) C(n, d); times d!.
    return (  # type: ignore[no-any-return]
        0.5 * np.log(t / ((1.0 + t) * (x - t)))
        + height
        + (n - d) * np.log(d)
        + log_factorial[n]
        - log_factorial[n - d]
    )


@njit()
def _log_hits(
    a: int, n: int, d: int, penalty: float, temperature: float, table: Any, log_factorial: Any
) -> float:
    """Log of the number of ways in which n draws hit exactly d of a rows."""
    ways = penalty * (a - d)
    if a >= d:
        ways = log_factorial[a] - log_factorial[d] - log_factorial[a - d]
    return (ways + log_surjection(n, d, table, log_factorial)) / temperature


@njit()
def log_complete(
    rows: Any, seen: Any, draws: Any, penalty: float, table: Any, log_fact: Any
) -> float:
    """Log likelihood of draws together with one way to split the distinct rows among classes."""
    total = 0.0
    for e in range(len(rows)):
        if draws[e] > 0:
            total += _log_hits(rows[e], draws[e], seen[e], penalty, 1.0, table, log_fact)
    return total


@njit()
def log_marginal(
    rows: Any, distinct: Any, draws: Any, n_classes: int, penalty: float, table: Any, log_fact: Any
) -> float:
    """Log likelihood of draws and distinct rows, over all ways to split these among classes."""
    total = 0.0
    for leaf in range(len(distinct)):
        most = distinct[leaf]
        ways, more = np.full(most + 1, -np.inf), np.empty(most + 1)
        ways[0] = 0.0
        for c in range(n_classes):
            e = leaf * n_classes + c
            if draws[e] == 0:
                continue
            more[:] = -np.inf
            for d in range(1, min(draws[e], most) + 1):
                log_class = _log_hits(rows[e], draws[e], d, penalty, 1.0, table, log_fact)
                for x in range(most - d + 1):
                    both = ways[x] + log_class
                    high = max(both, more[x + d])
                    if high > -np.inf:
                        low = min(both, more[x + d])
                        more[x + d] = high + np.log1p(np.exp(low - high))
            put(ways, more)
        total += ways[most]
    return total


@njit()
def split(temperature: float, penalty: float, state: Any, law: Any) -> None:
    """Redraw how the distinct rows of each mixed leaf split among its classes, in place.

    Two classes at a time, given the rows: a Gibbs step where there are few splits, else a walk.
    """
    rng, rows, seen = state.rng, state.rows, state.seen
    mixed_start, mixed, draws = law.start, law.equation, law.draws
    table, log_factorial = law.table, law.log_factorial
    weight = np.empty(_SCANNED + 1)
    for leaf in range(len(mixed_start) - 1):
        for k in range(mixed_start[leaf], mixed_start[leaf + 1] - 1):
            e, f = mixed[k], mixed[k + 1]
            both = seen[e] + seen[f]
            low, high = max(1, both - draws[f]), min(draws[e], both - 1)
            if high <= low:
                continue
            if high - low <= _SCANNED:
                best = -np.inf
                for x in range(low, high + 1):
                    w = _log_hits(rows[e], draws[e], x, penalty, temperature, table, log_factorial)
                    w += _log_hits(
                        rows[f], draws[f], both - x, penalty, temperature, table, log_factorial
                    )
                    weight[x - low] = w
                    best = max(best, w)
                total = 0.0
                for x in range(high - low + 1):
                    total += np.exp(weight[x] - best)
                    weight[x] = total
                at = uniform(rng) * total
                x = 0
                while x < high - low and weight[x] <= at:
                    x += 1
                seen[e], seen[f] = low + x, both - low - x
                continue
            now = _log_hits(rows[e], draws[e], seen[e], penalty, temperature, table, log_factorial)
            now += _log_hits(rows[f], draws[f], seen[f], penalty, temperature, table, log_factorial)
            reach = 1 + int(0.5 * np.sqrt(both))
            for _ in range(_STEPS):
                x = seen[e] + 1 + int(uniform(rng) * reach)
                if uniform(rng) < 0.5:
                    x = 2 * seen[e] - x
                if x < low or x > high:
                    continue
                then = _log_hits(rows[e], draws[e], x, penalty, temperature, table, log_factorial)
                then += _log_hits(
                    rows[f], draws[f], both - x, penalty, temperature, table, log_factorial
                )
                if then >= now or uniform(rng) < np.exp(then - now):
                    now = then
                    seen[e], seen[f] = x, both - x
