"""Compiled walk over the datasets that almost meet exact counts.

It samples datasets under what rows are like, and looks for some that meet all counts, or for the
cheapest of these.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeleak.attacks.kernels import misfit_change, misfit_change_of_two, move_row, uniform
from treeleak.attacks.posterior.grid_kernels import log_prior_of
from treeleak.core.compiled import njit, put
from treeleak.core.private import shows_no_value

_TWICE = 0.3
"""Share of the moves of one row that set two atoms."""
_PART = 0.5
"""Share of the exchanges that take each attribute with even odds, where the others take one."""
_CHEAPER = 1e-9
"""What rows must cost less to be better: sums are added up in the order of the moves."""


@shows_no_value
class Places(NamedTuple):
    """What rows of a system can be: see :class:`.SearchSpace`."""

    signature: Any
    """Shape (n_cells, n_columns). Distinct equations of each cell, -1 for none."""
    cell: Any
    """Shape (n_points,)."""
    value: Any
    """Shape (n_points, n_moving). Atoms of attributes that can move, numbered over all of them."""
    neighbour: Any
    """Shape (n_points, n_atoms). The point with one atom set, -1 where it is not possible."""
    code: Any
    """Shape (n_points,). A number of each point, ascending."""
    weight: Any
    """Shape (n_atoms,). What each atom adds to it."""
    atoms: Any
    """Int16 array, shape (n_points, n_attributes + 1). All atoms, counted from 0 in each attribute;
    the class is the last."""
    tilt: Any
    """Shape (n_points,). What the counts add to the log prior of a row there."""


@njit(inline=True)
def _log_prior(p: int, places: Any, prior: Any, radix: Any) -> float:
    return log_prior_of(places.atoms[p], 0, prior, radix) + places.tilt[p]  # type: ignore[no-any-return]


@njit()
def set_log_priors(rows: Any, places: Any, prior: Any, radix: Any, log_prior: Any) -> None:
    """Note the log probability of all rows under a prior, in place."""
    for k in range(len(rows)):
        log_prior[k] = _log_prior(rows[k], places, prior, radix)


@njit(inline=True)
def _point(code: int, places: Any) -> int:
    """The point with a code, -1 if there is none."""
    low, high = 0, len(places.code)
    while low < high:
        middle = (low + high) // 2
        if places.code[middle] < code:
            low = middle + 1
        else:
            high = middle
    return low if low < len(places.code) and places.code[low] == code else -1


@njit(inline=True)
def _cost(cost: Any, k: int, p: int, places: Any) -> float:
    """What row k costs at a point."""
    out = 0.0
    for a in range(places.value.shape[1]):
        out += cost[k, places.value[p, a]]
    return out


@njit()
def walk(
    steps: int,
    temperature: float,
    swaps: float,
    until_met: bool,
    rows: Any,
    log_prior: Any,
    residual: Any,
    places: Any,
    prior: Any,
    radix: Any,
    cost: Any,
    best: Any,
    least: Any,
    rng: Any,
) -> tuple[int, int]:
    """Metropolis-Hastings over the rows of a system, in place.

    Its law is proportional to

        prod_k prior(row k) x exp(-(sum |A m - n| + sum_k cost[k, atoms of row k]) / temperature).

    A tilt that is a sum over the equations of a cell is the same for all datasets that meet all
    counts: of these, each is as frequent as the prior says.

    Parameters
    ----------
    swaps : float
        Share of the moves in which two rows exchange atoms.
    until_met : bool
        Return as soon as all counts are met.
    rows : int64 array, shape (n_rows,)
        Points.
    log_prior : float array, shape (n_rows,)
    residual : int64 array
        A m - n.
    cost : float32 array, shape (n_rows, n_atoms) or (0, n_atoms)
    best : int64 array, shape (n_rows,) or (0,)
        Where it has places, the rows that miss least so far, and of these the cheapest;
    least : float array, shape (2,)
        their misfit and cost.

    Returns
    -------
    tuple of int
        Steps that were made, and moves that were taken.
    """
    n_rows, n_atoms, n_moving = len(rows), places.neighbour.shape[1], places.value.shape[1]
    misfit, spent, taken = 0, 0.0, 0
    for r in residual:
        misfit += abs(r)
    for k in range(len(cost)):
        spent += _cost(cost, k, rows[k], places)
    for step in range(steps):
        if until_met and misfit == 0:
            return step, taken
        k = int(uniform(rng) * n_rows)
        p = rows[k]
        k2, p2, new2 = -1, p, p
        if uniform(rng) < swaps:
            k2 = int(uniform(rng) * n_rows)
            p2 = rows[k2]
            if uniform(rng) < _PART:
                shift = 0
                for a in range(n_moving):
                    if uniform(rng) < 0.5:
                        here, there = places.value[p, a], places.value[p2, a]
                        shift += places.weight[there] - places.weight[here]
                if shift == 0:
                    continue
                new = _point(places.code[p] + shift, places)
                new2 = -1 if new < 0 else _point(places.code[p2] - shift, places)
            else:
                a = int(uniform(rng) * n_moving)
                if places.value[p, a] == places.value[p2, a]:
                    continue
                new = places.neighbour[p, places.value[p2, a]]
                new2 = places.neighbour[p2, places.value[p, a]]
            if new2 < 0 or new == p2:
                continue
        else:
            new = places.neighbour[p, int(uniform(rng) * n_atoms)]
            if new >= 0 and uniform(rng) < _TWICE:
                new = places.neighbour[new, int(uniform(rng) * n_atoms)]
        if new < 0 or new == p:
            continue
        log_new, log_new2 = _log_prior(new, places, prior, radix), 0.0
        odds = log_new - log_prior[k]
        if k2 >= 0:
            log_new2 = _log_prior(new2, places, prior, radix)
            odds += log_new2 - log_prior[k2]
        # What it may cost at most is drawn first: the sum need not be known beyond.
        extra = 0.0
        if len(cost):
            extra = _cost(cost, k, new, places) - _cost(cost, k, p, places)
            if k2 >= 0:
                extra += _cost(cost, k2, new2, places) - _cost(cost, k2, p2, places)
        limit = temperature * (odds - np.log(1.0 - uniform(rng))) - extra
        if k2 >= 0:
            change = misfit_change_of_two(
                places.signature, residual, places.cell[p], places.cell[new],
                places.cell[p2], places.cell[new2], limit,
            )  # fmt: skip
        else:
            change = misfit_change(
                places.signature, residual, places.cell[p], places.cell[new], limit
            )
        if change > limit:
            continue
        move_row(places.signature, residual, places.cell[p], places.cell[new])
        rows[k], log_prior[k] = new, log_new
        if k2 >= 0:
            move_row(places.signature, residual, places.cell[p2], places.cell[new2])
            rows[k2], log_prior[k2] = new2, log_new2
        misfit += change
        spent += extra
        taken += 1
        if len(best) and (
            misfit < least[0] or (misfit == least[0] and spent < least[1] - _CHEAPER)
        ):
            least[0], least[1] = misfit, spent
            put(best, rows)
    return steps, taken
