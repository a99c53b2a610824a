"""Draws of Yggdrasil's forests (YDF), given the seed of the training, which no file holds.

All numbers come from ``std::mt19937``, whose stream NumPy's ``RandomState`` has as well. A forest
hands each tree one number as its seed; a tree draws its rows first, by the multiplication of
Lemire (2019), as the C++ library of GCC does. Who sets no seed has 123456, on every machine.

Nodes count draws alone, never different rows, so a seed is confirmed by what roots say: trees that
drew the same rows often have similar sums, and more so than chance if the draws are right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray
from treeleak.core.errors import NotCovered
from treeleak.core.message import static_message
from treeleak.release.draws.recompute import Draws, check_size, stream
from treeleak.release.release import Release
from treeleak.release.sampling import YGGDRASIL, Bootstrap
from treeleak.release.statistics import MEAN

DEFAULT_SEED = 123456
FOREST_RULE = f"{YGGDRASIL} forest"
MOST_TRIED = 130
"""Seeds from 0 on, as people choose them; each takes some milliseconds."""
_CHANCE = 5.0
"""Standard deviations beyond which similarity is no chance, among so many seeds."""
_ODDS = 1.0
"""Log odds, before roots are looked at, that nobody set a seed."""
NO_SEED = static_message(
    "the file does not hold the seed, and neither the library's default (123456) nor one of the "
    "first seeds from 0 on gives the draws that the roots of the trees count",
    "ydf_no_seed",
)


def yggdrasil_draws(
    release: Release, sampling: Bootstrap, seed_search: int, tick: Callable[[float], None]
) -> Draws:
    """Find the seed of a forest whose trees drew as many rows as there are.

    Raises
    ------
    NotCovered
        If none fits.
    """
    n, n_trees = release.n_rows, len(release.trees)
    if n is None or sampling.n_draws != n:
        raise NotCovered(static_message("how many rows each tree drew is not known"))
    check_size(n_trees * n, n)
    sums = _root_sums(release)
    first = DEFAULT_SEED if sampling.forest_seed is None else sampling.forest_seed
    seeds = [first, *range(min(seed_search, MOST_TRIED) if n * n_trees <= 10**6 else 0)]
    for k, seed in enumerate(seeds):
        tick(k / len(seeds))
        counts = drawn(seed, n_trees, n)
        likeness, expected = (0.0, 0.0) if sums is None else _likeness(counts, sums)
        usual = k == 0 and (likeness - expected / 2) * expected > -_ODDS
        if usual or likeness > _CHANCE:
            origin = "the library's default seed, 123456" if k == 0 else f"seed {seed}, found"
            return Draws(counts, origin, seed, likeness > _CHANCE)
    raise NotCovered(NO_SEED)


def drawn(seed: int, n_trees: int, n_rows: int) -> NDArray[np.unsignedinteger[Any]]:
    """Count how often each tree draws each row."""
    counts: NDArray[np.unsignedinteger[Any]] = np.zeros((n_trees, n_rows), dtype=np.uint8)
    random = np.random.RandomState()
    for t, own in enumerate(stream(random, seed, n_trees).tolist()):
        rows = np.zeros(0, dtype=np.int64)
        spare = 8 + n_rows // 1000
        while len(rows) < n_rows:
            product = stream(random, own, n_rows + spare) * np.uint64(n_rows)
            even = (product & np.uint64(2**32 - 1)) >= np.uint64((2**32 - n_rows) % n_rows)
            rows = (product >> np.uint64(32))[even][:n_rows].astype(np.int64)
            spare *= 4
        tally = np.bincount(rows, minlength=n_rows)
        if tally.max(initial=0) > np.iinfo(counts.dtype).max:
            counts = counts.astype(np.uint32)
        counts[t] = tally
    return counts


def _root_sums(release: Release) -> FloatArray | None:
    """Give what each root sums up over the draws, shape (n_trees, n_sums), without their means."""
    found = []
    for tree in release.trees:
        entry = tree.statistics.get(MEAN)
        if tree.counts is not None:
            found.append(tree.counts[0, 1:])
        elif entry is not None:
            found.append(entry.values[:1])
    sums = np.array(found, dtype=float)
    if len(found) != len(release.trees) or len(found) < 2 or not sums.size:
        return None
    return np.asarray(sums - sums.mean(axis=0))


def _likeness(counts: NDArray[np.unsignedinteger[Any]], sums: FloatArray) -> tuple[float, float]:
    """Compare how alike sums of trees are with how alike their draws are.

    Returns how far they go together, in standard deviations of what chance does, and how far they
    would if the draws are right.
    """
    each = counts.astype(np.float32) - 1.0
    alike = np.triu((each @ each.T).astype(float), 1)
    size = np.sqrt((alike**2).sum() * sums.shape[1])
    white = sums @ np.linalg.pinv(sums.T @ sums / len(sums)) @ sums.T
    if not size > 0:
        return 0.0, 0.0
    n_rows = counts.shape[1]
    expected = size / n_rows
    return float((alike * white).sum() / size), float(expected)
