"""The number of training rows of which trees drew as many as they count."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor, sqrt

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import IntArray
from treeleak.core.errors import NotCovered
from treeleak.core.message import static_message
from treeleak.release.draws.recompute import MAX_ROWS, check_size
from treeleak.release.release import Release

# Standard deviations around the likeliest number of rows.
_WIDE = 8
_FIRST = 8
_MOST_TRIED = 2**30


def masks_of_fitting_size(
    release: Release,
    share: float,
    rounds: IntArray,
    masks: Callable[[int, int], NDArray[np.uint8]],
    sizes: Callable[[int, int], IntArray] | None = None,
) -> NDArray[np.uint8]:
    """Find which rows each tree drew, shape (n_trees, n_rows), for the number of rows that fits.

    ``share``: of the rows that a tree draws. ``rounds``, shape (n_trees,): draw that a tree takes.
    ``masks``: says of a number of rows and of draws which rows each draws. ``sizes``: says how many
    each draws, where that takes less.

    Raises
    ------
    NotCovered
        If no number of rows fits, or several do.
    """
    roots = np.array([-1 if t.totals is None else int(t.totals[0]) for t in release.trees])
    has_root = roots >= 0
    if not has_root.any():
        raise NotCovered(static_message("how many rows each tree drew is not known"))
    n_rounds = int(rounds[-1]) + 1
    fit: list[NDArray[np.uint8]] = []
    for n_rows in _candidates(release, roots[has_root], share):
        if len(fit) == 2:
            break
        check_size(len(roots) * n_rows, n_rows)
        early, first = has_root & (rounds < _FIRST), min(_FIRST, n_rounds)
        # Almost every wrong number shows in the first rounds.
        size = masks(n_rows, first).sum(axis=1) if sizes is None else sizes(n_rows, first)
        if not np.array_equal(size[rounds[early]], roots[early]):
            continue
        drawn = masks(n_rows, n_rounds)
        if np.array_equal(drawn.sum(axis=1)[rounds[has_root]], roots[has_root]):
            fit.append(drawn)
    if not fit:
        raise NotCovered(
            static_message(
                "no number of rows fits the seed in the file and the counts of the trees"
            )
        )
    if len(fit) > 1:
        raise NotCovered(
            f"the number of training rows is not known: {fit[0].shape[1]:,} and "
            f"{fit[1].shape[1]:,} fit, and maybe others; give it (n_rows, --n-rows)"
        )
    return fit[0][rounds]


def _candidates(release: Release, roots: IntArray, share: float) -> range:
    """List the numbers of rows of which the trees may have drawn so many."""
    if release.n_rows is not None:
        return range(release.n_rows, release.n_rows + 1)
    likely = float(roots.mean()) / share
    off = _WIDE * sqrt(max(likely, 1) * (1 - share) / share / len(roots)) + 2
    low, high = max(floor(likely - off), int(roots.max()), 1), ceil(likely + off)
    if high > MAX_ROWS or (high - low + 1) * high * _FIRST > _MOST_TRIED:
        raise NotCovered(
            static_message("too many numbers of training rows may fit; give it (n_rows, --n-rows)")
        )
    return range(low, high + 1)
