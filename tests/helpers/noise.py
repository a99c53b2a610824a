"""Noise drawn, and held against its law."""

from __future__ import annotations

from collections import Counter

import numpy as np
from scipy.stats import chi2

from treeleak.release.noise.laws import CountNoise, DiscreteLaplace, Laplace


def noise_drawn(noise, shape, rng):
    """Noise of a law, from uniform numbers and the rounding's definition, not from ``log_prob``."""
    if isinstance(noise, DiscreteLaplace):
        p = -np.expm1(-noise.epsilon)
        return (rng.geometric(p, shape) - rng.geometric(p, shape)).astype(float)
    if isinstance(noise, Laplace):
        y = rng.laplace(0, 1 / noise.epsilon, shape)
    else:
        y = rng.normal(0, noise.sigma, shape)
    return {"none": y, "nearest": np.rint(y), "towards zero": np.trunc(y)}[noise.rounding]


def fits(draws: list[int], law: CountNoise) -> None:
    """Chi-square against the law, with tails pooled until five are expected."""
    n, seen = len(draws), Counter(draws)
    ends = range(max(1, max(map(abs, draws))) + 1)
    low = next((y for y in ends if n * np.exp(law.log_prob(y)) < 5), ends[-1])
    inside = np.arange(-low + 1, low)
    p = np.exp(law.log_prob(inside))
    tail = (1 - p.sum()) / 2
    expected = n * np.array([tail, *p, tail])
    below = sum(c for y, c in seen.items() if y <= -low)
    above = sum(c for y, c in seen.items() if y >= low)
    observed = np.array([below, *(seen[y] for y in inside.tolist()), above])
    keep = expected > 0
    assert observed[~keep].sum() == 0
    statistic = ((observed - expected)[keep] ** 2 / expected[keep]).sum()
    assert statistic < chi2.ppf(0.999, keep.sum() - 1)
