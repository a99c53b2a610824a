"""Which rows each of LightGBM's trees saw, given the seed of its bagging.

Every 1,024 rows have a generator of their own (x -> 214013 x + 2531011 modulo 2^32, from the seed
plus the number of the block); in each round that draws, a row is in if the upper 15 of its number's
lower 31 bits, as a fraction, are less than the share. How many rows there are is the number for
which as many are in as the trees count.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from treeleak.core.errors import NotCovered
from treeleak.release.draws.fitting_sizes import masks_of_fitting_size
from treeleak.release.draws.recompute import Draws
from treeleak.release.release import Release
from treeleak.release.sampling import Subsample

RULE = "LightGBM bagging of {} every {}"
_RULE = re.compile(r"LightGBM bagging of (0?\.\d{1,17}) every ([1-9]\d{0,5})")
_BLOCK = 1024
_FACTOR, _STEP, _MASK = 214013, 2531011, 2**32 - 1


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

    def masks(n_rows: int, n_rounds: int) -> NDArray[np.uint8]:
        return lightgbm_masks(seed, share, n_rows, n_rounds)

    counts = masks_of_fitting_size(release, share, rounds, masks)
    return Draws(counts, "the seed of the bagging in the file", seed, checked=True)


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
