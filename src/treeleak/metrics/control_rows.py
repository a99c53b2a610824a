"""Whether a reconstruction discloses the training rows, or only their population."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import BadInput
from treeleak.core.private import dataclass
from treeleak.metrics.baseline import FEWEST_DRAWS, bounded_schema
from treeleak.metrics.matching import MATCH_LIMIT, part_errors
from treeleak.schema import Schema

FEWEST = 100
"""Other draws without which neither the rank nor the fitted law says much."""

PAIRS_PER_DRAW = 500_000
"""Most pairs of rows between which distances are taken for one draw of the test."""

MOST_PAIRS = 10**7
"""Most pairs of rows for all draws of the baseline together, but for the three that it needs."""

_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Significance:
    """A reconstruction against its training rows, and against other draws of their population.

    Draws hold as many rows as the training set, from control and training rows together.

    Attributes
    ----------
    error : float
        Between the rebuilt and the training rows.
    errors : float array, shape (n_draws,)
        Between the rebuilt rows and each of the other draws.
    baseline : float array
        Between the training rows and control rows, as many: the baseline of an adversary who knows
        the population and nothing of the model (``train_vs_other_draws`` of DRAFT-DP's results).
    n_rows, n_compared, n_control : int
        Training rows; rebuilt rows that ``error`` and ``errors`` compare; control rows.
    """

    error: float
    errors: FloatArray
    baseline: FloatArray
    n_rows: int
    n_compared: int
    n_control: int

    @property
    def tail(self) -> float:
        """Probability of so small an error for another draw, by a normal law fitted to them.

        Far below ``1 / n_draws`` this rests on the law alone.
        """
        spread = float(self.errors.std())
        if spread < _ROUNDING:
            return float(self.error > self.errors.mean() - _ROUNDING)
        return float(ndtr((self.error - self.errors.mean()) / spread))

    @property
    def rank(self) -> float:
        """(1 + draws at or below ``error``) / (1 + draws).

        If the rebuilt rows told no more of the training rows than of the control rows, the training
        set would be just one more draw, and a rank of p or less would have probability p or less:
        exactly, for any number of control rows and any law of the errors.
        """
        return (1 + self.as_near) / (1 + len(self.errors))

    @property
    def as_near(self) -> int:
        """Other draws whose error is at or below :attr:`error`."""
        return int((self.errors <= self.error + _ROUNDING).sum())

    @property
    def train_vs_other_draws(self) -> float:
        """Mean of :attr:`baseline`."""
        return float(self.baseline.mean())

    @property
    def replaced(self) -> bool:
        """Whether :attr:`baseline` drew control rows with replacement, for there are too few."""
        return self.n_control < min(self.n_rows, MATCH_LIMIT)

    @property
    def overlapping(self) -> bool:
        """Whether more than a third of a draw are training rows, so that the test shows little."""
        return self.n_control < self.needed

    @property
    def needed(self) -> int:
        """Control rows from which on the test counts."""
        return 2 * self.n_rows

    @property
    def better(self) -> int:
        """Control rows from which on a draw holds few training rows."""
        return 10 * self.n_rows

    def to_dict(self) -> dict[str, Any]:
        """Describe the result (formats/audit.schema.json)."""
        return {
            "error": self.error,
            "draws": len(self.errors),
            "as_near": self.as_near,
            "others_mean": float(self.errors.mean()),
            "others_sd": float(self.errors.std()),
            "tail": self.tail,
            "rank": self.rank,
            "train_vs_other_draws": self.train_vs_other_draws,
            "n_rows": self.n_rows,
            "n_compared": self.n_compared,
            "n_control": self.n_control,
            "replaced": self.replaced,
            "overlapping": self.overlapping,
        }


def significance(
    X_rec: pd.DataFrame,
    X_true: pd.DataFrame,
    control: pd.DataFrame,
    schema: Schema,
    n_draws: int = FEWEST,
    seed: int = 0,
) -> Significance:
    """Test whether rebuilt rows are nearer to the training rows than to others like them.

    After DRAFT-DP's appendix D, but as a permutation test: draw datasets of the size of the
    training set from control and training rows together, measure the reconstruction against each,
    and see where its error against the training set lies among these. Draws of the control rows
    alone would not vary as much as training sets do, and the rank would be small too often.

    Up to 707 rows, all are matched. Of more, a random part of the rebuilt rows is, each with any
    row of a dataset of full size: training set and other draws are still treated alike, so that the
    test stays valid, but ``error`` is less than that of the whole. The baseline is always that of
    whole tables (of 6,000 rows at most), from fewer draws if there are more than 316 rows.

    Parameters
    ----------
    X_rec, X_true : DataFrame
        As many rows each: see :func:`~treeleak.metrics.same_size`.
    control : DataFrame
        Rows of the same population that the model was not trained on, ten times as many as
        training rows or more: with fewer, the test is as valid, but draws hold many training
        rows, so that it shows less.
    schema : Schema
        Numeric columns without bounds have the range of training and control rows.
    n_draws : int
        At least 100.
    seed : int

    Returns
    -------
    Significance

    Raises
    ------
    BadInput
        If there are no control rows, too few draws, or tables that do not fit.
    """
    n = len(X_true)
    if n_draws < FEWEST:
        raise BadInput(f"{n_draws} other draws: at least {FEWEST} are needed")
    if len(X_rec) != n:
        raise BadInput(f"{len(X_rec)} reconstructed rows against {n} true rows")
    if control.empty:
        raise BadInput("the control table has no rows")
    pool = pd.concat([X_true, control[X_true.columns]], ignore_index=True)
    schema = bounded_schema(schema, pool)
    rng, other = np.random.default_rng(seed).spawn(2)
    compared = min(n, max(FEWEST, PAIRS_PER_DRAW // n))
    part = X_rec if compared == n else X_rec.iloc[rng.permutation(n)[:compared]]
    most = min(n, MATCH_LIMIT)
    whole = X_true if most == n else X_true.iloc[other.permutation(n)[:most]]
    few = min(n_draws, max(FEWEST_DRAWS, MOST_PAIRS // n**2))
    return Significance(
        error=float(part_errors(part, X_true, [np.arange(n)], schema)[0]),
        errors=part_errors(part, pool, _draws(len(pool), n, n_draws, rng), schema),
        baseline=part_errors(whole, control, _draws(len(control), most, few, other), schema),
        n_rows=n,
        n_compared=compared,
        n_control=len(control),
    )


def _draws(n_pool: int, n_rows: int, n_draws: int, rng: np.random.Generator) -> Iterator[IntArray]:
    for _ in range(n_draws):
        yield rng.choice(n_pool, n_rows, replace=n_pool < n_rows)
