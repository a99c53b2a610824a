"""Which rows each of XGBoost's trees saw, given its seed: by training on other rows.

Which rows are in depends on the seed, the share and the number of rows, and not on what rows hold.
So a model is trained on as many rows that can be recognised: each ends in a leaf of its own, whose
sum of hessians is the number of the row. It needs XGBoost, of about the model's version. How many
rows there are is the number for which as many are in as the trees count.
"""

from __future__ import annotations

import json
import re
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import NotCovered
from treeleak.core.message import static_message
from treeleak.core.private import dataclass
from treeleak.release.draws.fitting_sizes import masks_of_fitting_size
from treeleak.release.draws.recompute import Draws
from treeleak.release.release import Release
from treeleak.release.sampling import Subsample

RULE = "XGBoost {} of {}"
METHODS = {"grow_quantile_histmaker": "hist", "grow_colmaker": "exact", "grow_histmaker": "approx"}
"""Its ways to grow trees, each of which draws in its own way."""
_RULE = re.compile(r"XGBoost (hist|exact|approx) of (0?\.\d{1,17})")
_STEPS = (5**0.5 / 2 - 0.5, 2**0.5 - 1, 3**0.5 - 1, 7**0.5 - 2, 11**0.5 - 3, 13**0.5 - 3)
"""Gradients of rows lie so far apart, beyond whole numbers."""
_NONE, _TWO = 0.75, 1.75
"""A leaf of one row weighs 1 to 1.5."""
_DEEP = 60
"""Depth where one is due: other trees grow until all rows are parted."""


def xgboost_draws(release: Release, sampling: Subsample) -> Draws:
    """Recompute which rows each tree saw.

    Raises
    ------
    NotCovered
        Saying what is missing, or that no number of rows fits.
    """
    known, seed = _RULE.fullmatch(sampling.rule), sampling.forest_seed
    if known is None or seed is None:
        raise NotCovered(f"the draws follow the rule {sampling.rule!r:.80}, which is not known")
    try:
        xgboost = import_module("xgboost")
    except ImportError as why:
        raise NotCovered(
            static_message(
                "which rows each tree saw shows by training with XGBoost, which is not installed: "
                "python -m pip install 'treeleak[xgboost]'"
            )
        ) from why

    trainer = _Trainer(xgboost, known[1], float(known[2]), seed)
    rounds = np.arange(len(release.trees))
    counts = masks_of_fitting_size(release, trainer.share, rounds, trainer.masks, trainer.sizes)
    return Draws(counts, "the model's seed in the file", seed, checked=True)


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
