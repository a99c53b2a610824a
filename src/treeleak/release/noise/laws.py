"""Laws of the noise that a differentially private forest adds to what its leaves say.

Two kinds: noise on the count of each class, and a leaf that names but one class, chosen at random
so that large classes are likelier. Pure laws, without data: learners draw from them, evidence asks
how probable a count is under them, and the privacy that they buy follows from them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, log_softmax

from treeleak.core.arrays import FloatArray
from treeleak.core.errors import BadInput

Rounding = Literal["none", "nearest", "towards zero"]
ROUNDINGS: tuple[Rounding, ...] = ("none", "nearest", "towards zero")
LabelRule = Literal["majority", "permute-and-flip", "exponential", "present"]


class CountNoise(ABC):
    """Noise that is added to each count, independently: n* = n + Y."""

    law: ClassVar[str]

    @property
    def whole(self) -> bool:
        """Whether the noise is a whole number."""
        return True

    @property
    @abstractmethod
    def variance(self) -> float:
        """Of Y."""

    @property
    @abstractmethod
    def loss(self) -> float:
        """Greatest log ratio of the probabilities of one n* for counts that differ by one row.

        This is the epsilon of one count; infinite where no ratio bounds it.
        """

    @abstractmethod
    def log_prob(self, y: ArrayLike) -> FloatArray:
        """Log probability (density, if not whole) that Y takes these values."""


@dataclass(frozen=True)
class DiscreteLaplace(CountNoise):
    """Two-sided geometric: P(Y = y) = tanh(epsilon / 2) e^(-epsilon |y|), y a whole number."""

    epsilon: float
    """Of one count."""
    law: ClassVar[str] = "discrete-laplace"

    def __post_init__(self) -> None:
        _check_positive("epsilon", self.epsilon)

    @property
    def variance(self) -> float:
        """Of Y."""
        return float(2 * np.exp(-self.epsilon) / np.expm1(-self.epsilon) ** 2)

    @property
    def loss(self) -> float:
        """Epsilon, exactly."""
        return self.epsilon

    def log_prob(self, y: ArrayLike) -> FloatArray:
        """Log probability that Y takes these values."""
        return np.asarray(np.log(np.tanh(self.epsilon / 2)) - self.epsilon * np.abs(_floats(y)))


class _Rounded(CountNoise):
    """Noise that may be rounded to whole numbers."""

    rounding: Rounding

    @property
    def whole(self) -> bool:
        """Whether the noise is rounded."""
        return self.rounding != "none"

    def _check_rounding(self) -> None:
        if self.rounding not in ROUNDINGS:
            raise BadInput(
                f"rounding of the noise must be one of {ROUNDINGS}, not {self.rounding!r}"
            )


@dataclass(frozen=True)
class Laplace(_Rounded):
    """Laplace noise of scale 1 / epsilon, rounded or not.

    DRAFT-DP's noise is int(Y): rounded towards zero. Zero then stands for noise from -1 to 1, twice
    the width of any other value, so that one count costs epsilon + ln 2.
    """

    epsilon: float
    """Of one count, before rounding."""
    rounding: Rounding = "none"
    law: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        _check_positive("epsilon", self.epsilon)
        self._check_rounding()

    @property
    def variance(self) -> float:
        """Of Y."""
        e = self.epsilon
        if self.rounding == "none":
            return 2.0 / e**2
        # Sum of y^2 r^|y| over all whole y is 2 r (1 + r) / (1 - r)^3.
        r = np.exp(-e)
        first = np.sqrt(r) if self.rounding == "nearest" else r
        return float(first * (1 + r) / np.expm1(-e) ** 2)

    @property
    def loss(self) -> float:
        """Epsilon of one count, as it is after rounding."""
        if self.rounding == "none":
            return self.epsilon
        zero, one = self.log_prob([0, 1])
        return max(self.epsilon, float(zero - one))

    def log_prob(self, y: ArrayLike) -> FloatArray:
        """Log probability (density, if not rounded) that Y takes these values."""
        size, e = np.abs(_floats(y)), self.epsilon
        if self.rounding == "none":
            return np.asarray(np.log(e / 2) - e * size)
        if self.rounding == "nearest":
            # P(y) = e^(-e |y|) sinh(e / 2), P(0) = 1 - e^(-e / 2)
            other = e / 2 - e * size + np.log(-np.expm1(-e) / 2)
            return np.asarray(np.where(size == 0, np.log(-np.expm1(-e / 2)), other))
        # DRAFT-DP, section III: P(l) is the integral over [l, l + 1), that of 0 over (-1, 1).
        other = -e * size + np.log(-np.expm1(-e) / 2)
        return np.asarray(np.where(size == 0, np.log(-np.expm1(-e)), other))


@dataclass(frozen=True)
class Gaussian(_Rounded):
    """Normal noise, rounded or not. It gives (epsilon, delta) only, no pure epsilon."""

    sigma: float
    rounding: Rounding = "none"
    law: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        _check_positive("sigma", self.sigma)
        self._check_rounding()

    @property
    def variance(self) -> float:
        """Of Y."""
        if self.rounding == "none":
            return self.sigma**2
        y = np.arange(1, int(40 * self.sigma) + 3)
        return float(2 * (np.exp(self.log_prob(y)) * y.astype(float) ** 2).sum())

    @property
    def loss(self) -> float:
        """Infinite: far out, one more row changes the probability of a count by any factor."""
        return float("inf")

    def log_prob(self, y: ArrayLike) -> FloatArray:
        """Log probability (density, if not rounded) that Y takes these values."""
        size, s = np.abs(_floats(y)), self.sigma
        if self.rounding == "none":
            return np.asarray(-0.5 * (size / s) ** 2 - np.log(s * np.sqrt(2 * np.pi)))
        low, high = (size - 0.5, size + 0.5) if self.rounding == "nearest" else (size, size + 1)
        # log of Phi(-low) - Phi(-high), stable far out, and twice as much for 0 towards zero.
        far, near = log_ndtr(-high / s), log_ndtr(-low / s)
        out = near + np.log1p(-np.exp(far - near))
        if self.rounding == "towards zero":
            out = out + np.where(size == 0, np.log(2.0), 0.0)
        return np.asarray(out)


@dataclass(frozen=True)
class LabelNoise:
    """A leaf names one class c only, chosen by how many rows a_c of each it holds; or all."""

    rule: LabelRule = "majority"
    """majority: the largest class; a tie is broken at random. exponential: P(c) ~ e^(scale a_c).
    permute-and-flip (McKenna and Sheldon 2020): classes in random order, each taken with
    probability e^(scale (a_c - max a)), until one is. present: every class of which the leaf saw a
    row, where a_c rows go unseen with probability e^(-scale a_c): in a bootstrap of N draws scale
    is 1, for it misses a row with probability 1 / e."""
    scale: float = 0.0
    """Weight of one row in the exponent. Noise for epsilon has scale epsilon where rows can only
    add to counts (neighbours add or remove a row), else epsilon / 2."""

    def __post_init__(self) -> None:
        if self.rule not in get_args(LabelRule):
            raise BadInput(f"no rule for labels is named {self.rule!r}")
        if self.rule != "majority":
            _check_positive("scale", self.scale)

    def log_prob(self, counts: ArrayLike) -> FloatArray:
        """Log probability that a leaf with these rows of each class names each class.

        Parameters
        ----------
        counts : array, shape (n_leaves, n_classes)

        Returns
        -------
        float array, shape (n_leaves, n_classes)
        """
        a = _floats(counts)
        behind = a - a.max(axis=1, keepdims=True)
        if self.rule == "present":
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(-np.expm1(-self.scale * a)))
        if self.rule == "exponential":
            return np.asarray(log_softmax(self.scale * a, axis=1))
        if self.rule == "majority":
            first = behind == 0
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(first / first.sum(axis=1, keepdims=True)))
        # Classes in the order of uniform times: at time u, another has been taken before with
        # probability p u, p = e^(scale behind). The product of all others' 1 - p u, in powers of
        # 1 - u, has positive terms only: however many classes there are, nothing cancels.
        taken = np.exp(self.scale * behind)
        free = np.empty_like(a)
        for c in range(a.shape[1]):
            power = np.zeros_like(a)
            power[:, 0] = 1.0
            for p in np.delete(taken, c, axis=1).T[:, :, None]:
                power[:, 1:] = (1.0 - p) * power[:, 1:] + p * power[:, :-1]
                power[:, :1] *= 1.0 - p
            free[:, c] = power @ (1.0 / np.arange(1, a.shape[1] + 1))
        return np.asarray(self.scale * behind + np.log(free))


def _floats(y: ArrayLike) -> FloatArray:
    return np.asarray(y, dtype=np.float64)


def _check_positive(name: str, value: float) -> None:
    if not (np.isfinite(value) and value > 0):
        raise BadInput(f"{name} of the noise must be positive, not {value!r}")
