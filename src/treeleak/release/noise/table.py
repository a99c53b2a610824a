"""Laws of noise as tables, and of sums of noises; bounds on how improbable a sum of them is."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import logsumexp

from treeleak.core.arrays import FloatArray
from treeleak.core.private import dataclass
from treeleak.release.noise.laws import CountNoise

FLOOR = 1e-13
"""Share of its peak under which a law that a Fourier transform gave says nothing."""

# Of a law on a grid: points on either side of 0, and points per standard deviation of one noise
# that is not whole.
_HALF_GRID, _COARSE = 2**19, 2**14
_FINENESS = 100
# Of the law of one noise: how far it goes, in standard deviations, and points in each.
_REACH, _POINTS = 120, 100
_NOTHING = -30.0
"""Log share of a moment that may lie beyond the table."""


@dataclass(frozen=True, eq=False)
class NoiseTable:
    """A symmetric law at 0, step, 2 step, ...; each point stands for ``step`` values around it."""

    step: float
    log_density: FloatArray
    whole: bool
    """Whether values are whole numbers."""
    sd: float
    """Standard deviation of the law."""

    @classmethod
    def of(cls, noise: CountNoise) -> NoiseTable:
        """The law of one noise."""
        return _table(noise)

    @classmethod
    def of_sum(cls, noise: CountNoise, number: int) -> NoiseTable:
        """The law of the sum of several noises."""
        if number == 1:
            return cls.of(noise)
        _, step, laws = sum_laws(noise, {number}, _COARSE)
        sd = _sd(noise, number)
        stride = max(math.floor(sd / (_POINTS * step)), 1)
        law, step = laws[number][::stride], step * stride
        mass = logsumexp(np.concatenate([law[1:], law])) + math.log(step)
        return cls(step, law - mass, noise.whole, sd)

    @cached_property
    def log_mass(self) -> FloatArray:
        """Log probability of what each point stands for, on either side."""
        return np.asarray(self.log_density + math.log(self.step))

    def surprise(self, y: ArrayLike) -> FloatArray:
        """-log density at these values; the table's last beyond its end."""
        at = np.abs(np.asarray(y, dtype=float)) / self.step
        return np.asarray(-np.interp(at, np.arange(len(self.log_density)), self.log_density))

    @cached_property
    def log_moments(self) -> tuple[FloatArray, FloatArray]:
        """Some powers from 0 to 501, and log of the sum of density^power over all values."""
        power = np.concatenate([np.linspace(0.1, 0.98, 30), 1 + np.geomspace(0.01, 500.0, 36)])
        one = np.multiply.outer(power, self.log_density)
        return power, _both_sides(one) + math.log(self.step)

    @cached_property
    def log_mgf(self) -> tuple[FloatArray, FloatArray]:
        """Some s, and log of the mean of e^(s Y); infinite where the table ends too early."""
        s = np.concatenate([[0.0], np.geomspace(1e-4, 10.0, 120)]) / self.sd
        y = np.arange(len(self.log_density)) * self.step
        # cosh, in logs.
        bent = np.multiply.outer(s, y)
        one = self.log_mass + bent + np.log1p(np.exp(-2 * bent)) - math.log(2)
        total = _both_sides(one)
        return s, np.where(one[:, -1] < total + _NOTHING, total, np.inf)

    def upto(self, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """P(Y < y) and P(Y <= y); the same where values are not whole."""
        half = np.exp(self.log_mass)
        mass = np.concatenate([half[:0:-1], half])
        edges = (np.arange(-len(half) + 1, len(half) + 1) - 0.5) * self.step
        total = np.concatenate([[0.0], mass.cumsum()]) / mass.sum()
        y = np.asarray(y, dtype=float)
        inside = 0.5 if self.whole else 0.0
        return np.interp(y - inside, edges, total), np.interp(y + inside, edges, total)


@lru_cache(maxsize=8)
def _table(noise: CountNoise) -> NoiseTable:
    sd = _sd(noise)
    step = max(float(math.ceil(sd / _POINTS)), 1.0) if noise.whole else sd / _POINTS
    at = np.arange(math.ceil(_REACH * sd / step) + 40) * step
    return NoiseTable(step, noise.log_prob(at), noise.whole, sd)


def _sd(noise: CountNoise, number: int = 1) -> float:
    """Of a sum of noises; a hundredth at least where they are whole, and the law nearly none."""
    sd = math.sqrt(number * noise.variance)
    return max(sd, 0.01) if noise.whole else sd


def _both_sides(log_values: FloatArray) -> FloatArray:
    """Log sum of values at 0, step, 2 step, ... and of the same at -step, -2 step, ..."""
    doubled = log_values + math.log(2)
    doubled[:, 0] -= math.log(2)
    return np.asarray(logsumexp(doubled, axis=1))


def sum_laws(
    noise: CountNoise, numbers: set[int], half_grid: int = _HALF_GRID
) -> tuple[float, float, dict[int, FloatArray]]:
    """Laws of sums of noises, by Fourier transform: exact for whole noise that is not huge.

    Parameters
    ----------
    numbers : set of int
        How many noises are in the sums.
    half_grid : int
        Most points on either side of 0.

    Returns
    -------
    reach : float
        Beyond, no such sum is.
    step : float
        Between two points of the grid: 1 for whole noise, more only if it is huge.
    laws : dict of int to float array
        For each number of noises the log probability, less its maximum, at 0, step, 2 step, ...
        It ends at a floor: a tree that is out by more tells nothing instead of all.
    """
    sd = math.sqrt(noise.variance)
    fine = 1.0 if noise.whole else sd / _FINENESS
    # The tails of one noise are exponential, those of a sum of many are normal.
    reach = (9 * math.sqrt(max(numbers)) + 40) * sd + 8 * fine
    step = max(fine, reach / half_grid)
    if noise.whole:
        step = math.ceil(step)
    size = next_fast_len(2 * math.ceil(reach / step) + 1, real=True)
    around = np.arange(size)
    # Every law is symmetric, and so is real after the transform.
    mass = np.exp(noise.log_prob(step * np.minimum(around, size - around)))
    wave = rfft(mass / mass.sum()).real
    laws = {}
    for number in numbers:
        law = irfft(wave**number, size)[: size // 2 + 1]
        laws[number] = np.log(np.maximum(law, 0) / law.max() + FLOOR)
    return reach, step, laws


def excess_bound(table: NoiseTable, off: float, weights: Iterable[tuple[float, int]]) -> float:
    """Bound the log probability that a weighted sum of noises is as far from 0, on either side.

    By Chernoff: it is at most 2 e^(-s off) times the mean of e^(s sum), for every s.

    ``table``: of one noise. ``off``: the sum. ``weights``: weight of some noises, and how many have
    it.
    """
    groups = list(weights)
    heaviest = max(weight for weight, _ in groups)
    s, log_mgf = table.log_mgf
    total = -s / heaviest * abs(off)
    for weight, number in groups:
        # Of a convex function, what lies on a chord lies above.
        total = total + number * np.interp(s * weight / heaviest, s, log_mgf)
    return float(min(np.nanmin(total) + math.log(2), 0.0))
