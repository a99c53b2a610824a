"""What chance does: bounds for shares of random events, by the binomial law."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

TAIL = 1e-4
"""How often a bound is missed by chance alone."""


def likely_shares(claimed: ArrayLike, together: int = 1) -> tuple[float, float]:
    """Bounds for the share that is right of answers with these probabilities of being right.

    Parameters
    ----------
    claimed : array_like
        The probability that each answer claims.
    together : int
        How many answers may be right or wrong together: so many count as one trial.

    Returns
    -------
    tuple of float
        Least and largest share of right answers; answers that are calibrated leave these bounds
        with a probability of 2e-4 at most.
    """
    claimed = np.asarray(claimed, dtype=float)
    trials = claimed.size // together
    few, many = binom.ppf((TAIL, 1 - TAIL), trials, claimed.mean())
    return few / trials, many / trials
