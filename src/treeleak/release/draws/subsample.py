"""Which rows each tree saw that drew some of them without replacement, given seeds.

scikit-learn's rules, which have not changed since 0.24: a bagging (an isolation forest is one)
draws the columns of a tree, and then its rows, from the tree's own seed; gradient boosting draws a
mask of the rows before each round, and each tree takes one number more, all from one generator.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import IntArray
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.message import static_message
from treeleak.release.draws import mt19937_kernels as mt
from treeleak.release.draws.lightgbm_bagging import lightgbm_draws
from treeleak.release.draws.recompute import NOT_RECOMPUTED, Draws, check_size
from treeleak.release.draws.xgboost_subsample import xgboost_draws
from treeleak.release.release import Release
from treeleak.release.sampling import Subsample

_TREE_SEEDS_END = 2**31 - 1
"""Below which a tree of a boosted model draws its seed."""


def subsampled(release: Release, sampling: Subsample) -> Draws:
    """Recompute which rows each tree saw: 1 for each of them, else 0.

    Raises
    ------
    NotCovered
        Saying what is missing.
    """
    if sampling.hidden:
        raise NotCovered(NOT_RECOMPUTED(why=sampling.hidden))
    if sampling.rule.startswith("LightGBM"):
        return lightgbm_draws(release, sampling)
    if sampling.rule.startswith("XGBoost"):
        return xgboost_draws(release, sampling)
    known = re.fullmatch(r"scikit-learn .* (boosting|bagging)", sampling.rule)
    if known is None:
        raise NotCovered(f"the draws follow the rule {sampling.rule!r:.80}, which is not known")
    n_draws, n_rows = sampling.n_draws, _n_rows(release, sampling)
    if n_draws is None or not 0 < n_draws <= n_rows:
        raise NotCovered(static_message("how many rows each tree drew is not known"))
    check_size(len(release.trees) * n_rows, n_rows)
    if known[1] == "boosting":
        if sampling.forest_seed is None:
            raise NotCovered(static_message("the seed of the model is not in the file"))
        counts = _masks(release, sampling.forest_seed, n_rows, n_draws)
        return Draws(counts, "the model's seed in the file", sampling.forest_seed, checked=False)
    seeds, origin = sampling.tree_seeds, "the trees' seeds in the file"
    if len(seeds) != len(release.trees) or None in seeds:
        if sampling.forest_seed is None:
            raise NotCovered(static_message("the seeds of the trees are not in the file"))
        seeds = tuple(mt.tree_seeds(sampling.forest_seed, len(release.trees)).tolist())
        origin = "the model's seed in the file"
    counts = np.zeros((len(seeds), n_rows), dtype=np.uint8)
    for t, seed in enumerate(seeds):
        rng = np.random.RandomState(seed)
        n_columns = release.n_features
        drawn = n_columns if sampling.columns_drawn is None else sampling.columns_drawn
        if sampling.columns_replaced:
            rng.randint(0, n_columns, drawn)
        else:
            _without_replacement(rng, n_columns, drawn)
        counts[t, _without_replacement(rng, n_rows, n_draws)] = 1
    return Draws(counts, origin, sampling.forest_seed, checked=False)


def _n_rows(release: Release, sampling: Subsample) -> int:
    low, high = sampling.rows_between or (0, 0)
    if release.n_rows is not None:
        if high and not low <= release.n_rows <= high:
            raise BadInput(
                f"the model says that there were {low:,} to {high:,} training rows, not "
                f"{release.n_rows:,}"
            )
        return release.n_rows
    if low == high > 0:
        return low
    between = f": {low:,} to {high:,} fit" if sampling.rows_between else ""
    raise NotCovered(
        f"the number of training rows is not known{between}; give it (n_rows, --n-rows)"
    )


def _masks(release: Release, seed: int, n_rows: int, n_draws: int) -> NDArray[np.uint8]:
    """Rows of each round, for each of its trees."""
    rng = np.random.RandomState(seed)
    outputs = max((tree.output or 0) for tree in release.trees) + 1
    counts = np.zeros((len(release.trees), n_rows), dtype=np.uint8)
    for first in range(0, len(release.trees), outputs):
        # Row i is taken with the probability that one of those still to be taken has.
        chance, taken = rng.uniform(size=n_rows), 0
        for i, threshold in enumerate(chance * (n_rows - np.arange(n_rows))):
            if threshold < n_draws - taken:
                counts[first : first + outputs, i] = 1
                taken += 1
        for _ in range(outputs):
            rng.randint(0, _TREE_SEEDS_END)
    return counts


def _without_replacement(rng: np.random.RandomState, n: int, k: int) -> IntArray:
    """Draw as ``sklearn.utils.random.sample_without_replacement`` does."""
    share = k / n if n else 1.0
    if 0.01 < share < 0.99:
        return np.asarray(rng.permutation(n)[:k])
    if share < 0.2:
        taken: list[int] = []
        seen: set[int] = set()
        while len(taken) < k:
            j = int(rng.randint(n))
            if j not in seen:
                seen.add(j)
                taken.append(j)
        return np.array(taken, dtype=np.int64)
    out = np.arange(k)
    for i in range(k, n):
        j = int(rng.randint(0, i + 1))
        if j < k:
            out[j] = i
    return out
