"""Which rows each tree of a boosted model saw, given its seed.

XGBoost: which rows are in depends on the seed, the share and the number of rows, and not on what
rows hold. For ``hist``, its generator is known. For others, a model is trained on as many rows that
can be recognised: each ends in a leaf of its own, whose sum of hessians is the number of the row.
That needs XGBoost, of about the model's version.

LightGBM: every 1,024 rows have a generator of their own (x -> 214013 x + 2531011 modulo 2^32, from
the seed plus the number of the block); in each round that draws, a row is in if the upper 15 of its
number's lower 31 bits, as a fraction, are less than the share.

How many rows there are is the number for which as many are in as the trees count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from math import ceil, floor, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import NotCovered
from treeleak.core.message import static_message
from treeleak.core.private import dataclass
from treeleak.release.draws.recompute import MAX_ROWS, Draws, check_size
from treeleak.release.draws.xgboost_generator import (
    MOST_NUMBERS,
    NOT_FOUND,
    generator_powers,
    likeliest,
    rows_drawn,
)
from treeleak.release.release import Release
from treeleak.release.sampling import Subsample
from treeleak.release.statistics import HESSIAN

XGBOOST_RULE, XGBOOST_OPEN = "XGBoost {} of {}", "XGBoost hist of a share that is not known"
METHODS = {"grow_quantile_histmaker": "hist", "grow_colmaker": "exact", "grow_histmaker": "approx"}
"""Its ways to grow trees, each of which draws in its own way."""
_XGBOOST = re.compile(r"XGBoost (hist|exact|approx) of (0?\.\d{1,17})")
_STEPS = (5**0.5 / 2 - 0.5, 2**0.5 - 1, 3**0.5 - 1, 7**0.5 - 2, 11**0.5 - 3, 13**0.5 - 3)
"""Gradients of rows lie so far apart, beyond whole numbers."""
_NONE, _TWO = 0.75, 1.75
"""A leaf of one row weighs 1 to 1.5."""
_DEEP = 60
"""Depth where one is due: other trees grow until all rows are parted."""


class SeveralNumbers(NotCovered):
    """Several numbers of rows fit what trees say of their draws; ``numbers``: some of them."""

    def __init__(self, numbers: Sequence[int]) -> None:
        super().__init__(
            f"the number of training rows is not known: {numbers[0]:,} and {numbers[1]:,} fit, and "
            "maybe others; give it (n_rows, --n-rows)"
        )
        self.numbers = tuple(numbers)


def xgboost_draws(release: Release, sampling: Subsample) -> Draws:
    """Recompute which rows each tree saw.

    Raises
    ------
    NotCovered
        Saying what is missing, or that no number of rows fits.
    """
    if sampling.rule == XGBOOST_OPEN:
        drawn = release.trees[0].totals
        if drawn is None:
            raise NotCovered(NOT_FOUND)
        sums = [tree.statistics.get(HESSIAN) for tree in release.trees]
        roots = np.array([np.nan if entry is None else float(entry.values[0]) for entry in sums])
        guess, *others = likeliest(roots, int(drawn[0]), release.n_rows)
        if others:
            raise SeveralNumbers([guess.n_rows, *(other.n_rows for other in others)])
        counts = rows_drawn(*guess, len(release.trees))
        origin = (
            f"the seed {guess.seed} and a share of {guess.share:g} of {guess.n_rows:,} rows, which "
            "explain the sums of hessians at the roots of the trees"
        )
        return Draws(counts, origin, guess.seed, checked=True)
    known, seed = _by_rule(_XGBOOST, sampling)
    rounds, share = np.arange(len(release.trees)), float(known[2])
    if known[1] == "hist":
        masks = partial(rows_drawn, seed, share)
        counts = masks_of_fitting_size(release, share, rounds, masks)
    else:
        trainer = _Trainer(_xgboost(), known[1], share, seed)
        counts = masks_of_fitting_size(release, share, rounds, trainer.masks, trainer.sizes)
    return Draws(counts, "the model's seed in the file", seed, checked=True)


def _xgboost() -> Any:
    try:
        return import_module("xgboost")
    except ImportError as why:
        raise NotCovered(
            static_message(
                "which rows each tree saw shows by training with XGBoost, which is not installed: "
                "python -m pip install 'treeleak[xgboost]'"
            )
        ) from why


@dataclass(frozen=True)
class _Trainer:
    """Draws rows as XGBoost does."""

    xgboost: Any
    method: str
    share: float
    seed: int

    def sizes(self, n_rows: int, n_trees: int) -> IntArray:
        """How many rows each tree drew."""
        trees = self._trees(np.zeros((n_rows, 1)), np.ones(n_rows), np.ones(n_rows), n_trees, 1)
        return np.array([round(tree["sum_hessian"][0]) for tree in trees])

    def masks(self, n_rows: int, n_trees: int) -> NDArray[np.uint8]:
        """Which rows each tree drew, shape (n_trees, n_rows)."""
        number = np.arange(n_rows)
        # Three columns with few values each part all rows.
        base = int(np.ceil(n_rows ** (1 / 3)))
        X = np.column_stack([number // base**2, number // base % base, number % base])
        hessian: FloatArray = np.asarray(1.0 + number / (2.0 * n_rows))
        sizes, out = self.sizes(n_rows, n_trees), np.zeros((n_trees, n_rows), dtype=np.uint8)
        for step in _STEPS:
            # Two rows whose gradients are nearly alike may stay together: of others, others do.
            gradient: FloatArray = np.asarray((number * step) % 1.0 - 0.5)
            for mask, tree in zip(out, self._trees(X, gradient, hessian, n_trees, 0), strict=True):
                weight = np.array(tree["sum_hessian"])[np.array(tree["left_children"]) < 0]
                alone = weight[(weight > _NONE) & (weight < _TWO)]
                mask[np.rint((alone - 1.0) * (2 * n_rows)).astype(np.int64)] = 1
            if np.array_equal(out.sum(axis=1), sizes):
                return out
        raise NotCovered(
            static_message("XGBoost did not separate the rows that show which it drew")
        )

    def _trees(
        self, X: NDArray[Any], gradient: FloatArray, hessian: FloatArray, n_trees: int, depth: int
    ) -> list[Any]:
        parameters = {
            "tree_method": self.method, "subsample": self.share, "seed": self.seed, "lambda": 0,
            "gamma": 0, "min_child_weight": 0, "max_depth": depth, "base_score": 0.0,
            "verbosity": 0, "nthread": 1, "max_leaves": 0, "grow_policy": "lossguide",
        }  # fmt: skip
        if self.method == "exact":
            parameters |= {"grow_policy": "depthwise", "max_depth": depth or _DEEP}
        data = self.xgboost.DMatrix(X.astype(np.float32))
        model = self.xgboost.train(
            parameters, data, n_trees, obj=lambda _margin, _data: (gradient, hessian)
        )
        raw = json.loads(bytes(model.save_raw("json")))
        return list(raw["learner"]["gradient_booster"]["model"]["trees"])


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
        if len(fit) == MOST_NUMBERS:
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
        raise SeveralNumbers([drawn.shape[1] for drawn in fit])
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


LIGHTGBM_RULE = "LightGBM bagging of {} every {}"
_LIGHTGBM = re.compile(r"LightGBM bagging of (0?\.\d{1,17}) every ([1-9]\d{0,5})")
_BLOCK = 1024
_FACTOR, _STEP, _MASK = 214013, 2531011, 2**32 - 1


def lightgbm_draws(release: Release, sampling: Subsample) -> Draws:
    """Recompute which rows each tree saw.

    Raises
    ------
    NotCovered
        Saying what is missing, or that no number of rows fits.
    """
    known, seed = _by_rule(_LIGHTGBM, sampling)
    share, every = float(known[1]), int(known[2])
    outputs = max((tree.output or 0) for tree in release.trees) + 1
    rounds = np.arange(len(release.trees)) // outputs // every

    def masks(n_rows: int, n_rounds: int) -> NDArray[np.uint8]:
        return lightgbm_masks(seed, share, n_rows, n_rounds)

    counts = masks_of_fitting_size(release, share, rounds, masks)
    return Draws(counts, "the seed of the bagging in the file", seed, checked=True)


def _by_rule(rule: re.Pattern[str], sampling: Subsample) -> tuple[re.Match[str], int]:
    known, seed = rule.fullmatch(sampling.rule), sampling.forest_seed
    if known is None or seed is None:
        raise NotCovered(f"the draws follow the rule {sampling.rule!r:.80}, which is not known")
    return known, seed


def lightgbm_masks(seed: int, share: float, n_rows: int, n_rounds: int) -> NDArray[np.uint8]:
    """Say which rows each round drew, shape (n_rounds, n_rows)."""
    sizes = [min(_BLOCK, n_rows - first) for first in range(0, n_rows, _BLOCK)]
    factor, step = generator_powers(sizes[0] * n_rounds, _FACTOR, _STEP, _MASK)
    parts = []
    for block, size in enumerate(sizes):
        n = size * n_rounds
        fraction = _fractions(seed + block, factor[:n], step[:n])
        parts.append((fraction < share).reshape(n_rounds, size))
    return np.concatenate(parts, axis=1).astype(np.uint8)


def lightgbm_fractions(seed: int, n: int) -> FloatArray:
    """Give the first numbers of a generator, in [0, 1)."""
    return _fractions(seed, *generator_powers(n, _FACTOR, _STEP, _MASK))


def _fractions(seed: int, factor: NDArray[np.uint64], step: NDArray[np.uint64]) -> FloatArray:
    number = (factor * np.uint64(seed & _MASK) + step) & np.uint64(_MASK)
    return np.asarray(((number >> np.uint64(16)) & np.uint64(0x7FFF)) / 32768.0)
