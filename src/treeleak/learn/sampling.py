"""Noise for counts, drawn from any source of random bits.

The discrete Laplace law is drawn exactly, with whole numbers only (Canonne, Kamath and Steinke
2020): a sampler on floats leaves gaps in its values from which the count behind them can be read,
so that no epsilon holds.
"""

from __future__ import annotations

from fractions import Fraction
from random import Random


def discrete_laplace(epsilon: Fraction, source: Random) -> int:
    """Draw Y with P(Y = y) proportional to e^(-epsilon |y|), exactly.

    ``epsilon``: greater than 0. ``source``: ``secrets.SystemRandom()`` for noise that is to protect
    anybody.
    """
    s, t = epsilon.numerator, epsilon.denominator
    while True:
        # u + t v is geometric with ratio e^(-1 / t): its digits to the base t are independent.
        u = source.randrange(t)
        if not _bernoulli_exp(u, t, source):
            continue
        v = 0
        while _bernoulli_exp(1, 1, source):
            v += 1
        size = (u + t * v) // s
        negative = source.getrandbits(1)
        # Zero has but one sign.
        if size or not negative:
            return -size if negative else size


def _bernoulli_exp(p: int, q: int, source: Random) -> bool:
    """Say yes with probability e^(-p / q), for p <= q.

    The number of successes of probability (p / q) / k for k = 1, 2, ... before the first failure
    is even with just that probability: the series of the exponential function.
    """
    k = 1
    while source.randrange(q * k) < p:
        k += 1
    return k % 2 == 1


def truncated_laplace(epsilon: Fraction, source: Random) -> int:
    """Draw int(Y), Y ~ Lap(1 / epsilon): the noise of DRAFT-DP 2026, kept for comparison."""
    size = int(source.expovariate(float(epsilon)))
    return -size if source.getrandbits(1) else size
