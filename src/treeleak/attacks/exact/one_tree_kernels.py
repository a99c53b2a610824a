"""Redraws the rows behind one tree, leaf by leaf. It releases the GIL."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeleak.attacks.kernels import uniform
from treeleak.attacks.posterior.prior_kernels import relearn
from treeleak.core.compiled import njit


@njit()
def _shares(grid: Any, hierarchy: Any, share: Any) -> None:
    """Take what rows are like out of its logs, in place."""
    for a in range(len(grid.radix)):
        up, at = hierarchy.parent[a], hierarchy.offset[a]
        lines = hierarchy.n_bins[up] if up >= 0 else 1
        for i in range(at, at + lines * grid.radix[a]):
            share[i] = np.exp(hierarchy.log_share[i])


@njit()
def _believe(
    allowed: Any, share: Any, grid: Any, hierarchy: Any, belief: Any, message: Any
) -> None:
    """Weigh each atom by how likely a box is below it: messages from leaves to roots, in place.

    What depends on an attribute depends on bins of its atoms; ``message`` has room for these.
    Messages are scaled: only their ratios count.
    """
    start, order = grid.start, hierarchy.order
    for i in range(len(belief)):
        belief[i] = 1.0 if allowed[i] else 0.0
    for k in range(len(order) - 1, -1, -1):
        a = order[k]
        up, r = hierarchy.parent[a], grid.radix[a]
        if up < 0:
            continue
        most = 0.0
        for u in range(hierarchy.n_bins[up]):
            at, total = hierarchy.offset[a] + u * r, 0.0
            for x in range(r):
                total += share[at + x] * belief[start[a] + x]
            message[u] = total
            most = max(most, total)
        if most > 0.0:
            for x in range(grid.radix[up]):
                belief[start[up] + x] *= message[hierarchy.bin[up, x]] / most


@njit()
def redraw(atoms: Any, box: Any, allowed: Any, grid: Any, hierarchy: Any, rng: Any) -> None:
    """Draw rows anew from what rows are like, each within its box, in place.

    Parameters
    ----------
    atoms : int16 array, shape (n_rows, n_attributes + 1)
        Counted from 0 in each attribute.
    box : int array, shape (n_rows,)
        Box of each row, equal ones side by side; rows of -1 stay as they are.
    allowed : bool array, shape (n_boxes, n_atoms)
    """
    start = grid.start
    share, belief = np.empty(hierarchy.offset[-1]), np.empty(start[-1])
    message = np.empty(hierarchy.n_bins.max())
    _shares(grid, hierarchy, share)
    last = -1
    for k in range(len(box)):
        b = box[k]
        if b < 0:
            continue
        if b != last:
            _believe(allowed[b], share, grid, hierarchy, belief, message)
            last = b
        for a in hierarchy.order:
            up, r, at = hierarchy.parent[a], grid.radix[a], hierarchy.offset[a]
            if up >= 0:
                at += hierarchy.bin[up, atoms[k, up]] * r
            total = 0.0
            for x in range(r):
                total += share[at + x] * belief[start[a] + x]
            left = uniform(rng) * total
            for x in range(r):
                if allowed[b, start[a] + x]:
                    # The last one, should rounding leave something over.
                    atoms[k, a] = x
                    left -= share[at + x] * belief[start[a] + x]
                    if left < 0.0:
                        break


@njit()
def redraw_and_relearn(
    turns: int, atoms: Any, box: Any, allowed: Any, grid: Any, hierarchy: Any, rng: Any
) -> None:
    """Redraw rows and what they are like in turns, in place: a Gibbs sampler of both."""
    for _ in range(turns):
        redraw(atoms, box, allowed, grid, hierarchy, rng)
        relearn(rng, atoms, grid, hierarchy)
