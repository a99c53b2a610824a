"""Which rows each of LightGBM's trees saw, given the seed of its bagging.

Every 1,024 rows have a generator of their own (x -> 214013 x + 2531011 modulo 2^32, from the seed
plus the number of the block); in each round that draws, a row is in if the upper 15 of its number's
lower 31 bits, as a fraction, are less than the share. How many rows there are is the number for
which as many are in as the trees count.
"""

from __future__ import annotations

import re
from math import ceil, floor, sqrt

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import IntArray
from treeleak.core.errors import NotCovered
from treeleak.core.message import own_words
from treeleak.release.draws.recompute import MAX_ROWS, Draws, check_size
from treeleak.release.release import Release
from treeleak.release.sampling import Subsample

RULE = "LightGBM bagging of {} every {}"
_RULE = re.compile(r"LightGBM bagging of (0?\.\d{1,17}) every ([1-9]\d{0,5})")
_BLOCK = 1024
_FACTOR, _STEP, _MASK = 214013, 2531011, 2**32 - 1
# Standard deviations around the likeliest number of rows.
_WIDE = 8
_FIRST = 8
_MOST_TRIED = 2**30


def lightgbm_draws(release: Release, sampling: Subsample) -> Draws:
    """Recompute which rows each tree saw.

    Raises
    ------
    NotCovered
        Saying what is missing, or that no number of rows fits.
    """
    known, seed = _RULE.fullmatch(sampling.rule), sampling.forest_seed
    if known is None or seed is None:
        raise NotCovered(f"the draws follow the rule {sampling.rule!r:.80}, which is not known")
    share, every = float(known[1]), int(known[2])
    outputs = max((tree.output or 0) for tree in release.trees) + 1
    rounds = np.arange(len(release.trees)) // outputs // every
    roots = np.array([-1 if t.totals is None else int(t.totals[0]) for t in release.trees])
    told = roots >= 0
    if not told.any():
        raise NotCovered(own_words("how many rows each tree drew is not known"))
    n_rounds = int(rounds[-1]) + 1
    fit: list[NDArray[np.uint8]] = []
    for n_rows in _candidates(release, roots[told], share):
        if len(fit) == 2:
            break
        check_size(len(roots) * n_rows, n_rows)
        early = told & (rounds < _FIRST)
        # Almost every wrong number shows in the first rounds.
        for some, last in ((early, min(_FIRST, n_rounds)), (told, n_rounds)):
            masks = lightgbm_masks(seed, share, n_rows, last)
            if not np.array_equal(masks.sum(axis=1)[rounds[some]], roots[some]):
                break
        else:
            fit.append(masks)
    if not fit:
        raise NotCovered(
            own_words("no number of rows fits the seed in the file and the counts of the trees")
        )
    if len(fit) > 1:
        raise NotCovered(
            f"the number of training rows is not known: {fit[0].shape[1]:,} and "
            f"{fit[1].shape[1]:,} fit, and maybe others; give it (n_rows, --n-rows)"
        )
    return Draws(fit[0][rounds], "the seed of the bagging in the file", seed, checked=True)


def _candidates(release: Release, roots: IntArray, share: float) -> range:
    """List the numbers of rows of which the trees may have drawn so many."""
    if release.n_rows is not None:
        return range(release.n_rows, release.n_rows + 1)
    likely = float(roots.mean()) / share
    off = _WIDE * sqrt(max(likely, 1) * (1 - share) / share / len(roots)) + 2
    low, high = max(floor(likely - off), int(roots.max()), 1), ceil(likely + off)
    if high > MAX_ROWS or (high - low + 1) * high * _FIRST > _MOST_TRIED:
        raise NotCovered(
            own_words("too many numbers of training rows may fit; give it (n_rows, --n-rows)")
        )
    return range(low, high + 1)


def lightgbm_masks(seed: int, share: float, n_rows: int, n_rounds: int) -> NDArray[np.uint8]:
    """Say which rows each round drew, shape (n_rounds, n_rows)."""
    sizes = [min(_BLOCK, n_rows - first) for first in range(0, n_rows, _BLOCK)]
    factor, step = _powers(sizes[0] * n_rounds)
    parts = []
    for block, size in enumerate(sizes):
        first = np.uint64((seed + block) & _MASK)
        number = (factor[: size * n_rounds] * first + step[: size * n_rounds]) & np.uint64(_MASK)
        fraction = ((number >> np.uint64(16)) & np.uint64(0x7FFF)) / 32768.0
        parts.append((fraction < share).reshape(n_rounds, size))
    return np.concatenate(parts, axis=1).astype(np.uint8)


def _powers(n: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Factor and step of the generator taken 1 to n times, by doubling."""
    factor, step = np.array([_FACTOR], np.uint64), np.array([_STEP], np.uint64)
    mask = np.uint64(_MASK)
    while len(factor) < n:
        last_factor, last_step = factor[-1], step[-1]
        more = (factor * last_factor) & mask
        step = np.concatenate([step, (factor * last_step + step) & mask])
        factor = np.concatenate([factor, more])
    return factor[:n], step[:n]
