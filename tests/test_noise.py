"""The laws of noise, the samplers that draw from them, and the privacy that they buy."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from helpers.noise import fits
from treeleak.core.errors import BadInput
from treeleak.learn.forest import discrete_laplace, truncated_laplace
from treeleak.release.noise.laws import CountNoise, DiscreteLaplace, Gaussian, LabelNoise, Laplace

WHOLE = [
    *(DiscreteLaplace(e) for e in (0.05, 1.0, 4.0)),
    *(Laplace(e, r) for e in (0.05, 1.0, 4.0) for r in ("nearest", "towards zero")),
    *(Gaussian(s, r) for s in (0.3, 2.0, 20.0) for r in ("nearest", "towards zero")),
]
PURE = [law for law in WHOLE if not isinstance(law, Gaussian)]
EXTREME = [
    law
    for size in (1e-9, 1e9)
    for law in (DiscreteLaplace(size), *(Laplace(size, r) for r in ("nearest", "towards zero")))
]


class Bits(random.Random):
    """A source of whole numbers that has no floats to give."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._inner = random.Random(seed)

    def getrandbits(self, k: int) -> int:
        return self._inner.getrandbits(k)

    def random(self) -> float:
        raise AssertionError("a float was drawn")


@pytest.mark.parametrize("law", WHOLE, ids=repr)
def test_a_law_of_whole_numbers_sums_to_one_and_has_its_variance(law: CountNoise):
    y = np.arange(-1000, 1001)
    p = np.exp(law.log_prob(y))
    assert p.sum() == pytest.approx(1.0)
    assert (p * y**2).sum() == pytest.approx(law.variance)


@pytest.mark.parametrize(("law", "end"), [(Laplace(0.5), 60), (Gaussian(2.0), 30)], ids=repr)
def test_a_density_integrates_to_one_and_has_its_variance(law: CountNoise, end: float):
    y, step = np.linspace(-end, end, 200_001, retstep=True)
    p = np.exp(law.log_prob(y)) * step
    assert p.sum() == pytest.approx(1.0)
    assert (p * y**2).sum() == pytest.approx(law.variance, rel=1e-4)


@pytest.mark.parametrize("law", PURE, ids=repr)
def test_the_loss_is_the_greatest_log_ratio_for_one_row_more(law: CountNoise):
    log_p = law.log_prob(np.arange(-100, 101))
    assert np.abs(np.diff(log_p)).max() == pytest.approx(law.loss, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0, 20.0])
def test_discrete_laplace_noise_costs_epsilon_and_the_paper_s_noise_more(epsilon: float):
    exact = DiscreteLaplace(epsilon).log_prob(np.arange(-50, 51))
    assert np.abs(np.diff(exact)) == pytest.approx(epsilon)
    assert DiscreteLaplace(epsilon).loss == epsilon
    assert Laplace(epsilon, "towards zero").loss == pytest.approx(epsilon + math.log(2))


def test_no_ratio_bounds_gaussian_noise():
    law = Gaussian(1.0, "nearest")
    assert math.isinf(law.loss)
    assert np.abs(np.diff(law.log_prob(np.arange(30, 33)))).min() > 29


@pytest.mark.parametrize("law", EXTREME, ids=repr)
def test_extreme_noise_stays_within_the_floats(law: CountNoise):
    assert math.isfinite(law.variance)
    assert np.isfinite(law.log_prob([0, 1, 10**8])).all()


@pytest.mark.parametrize("wrong", [0, -1.0, math.inf, math.nan])
def test_noise_without_a_size_is_refused(wrong: float):
    for make in (DiscreteLaplace, Laplace, Gaussian, lambda x: LabelNoise("exponential", x)):
        with pytest.raises(BadInput, match="must be positive"):
            make(wrong)


@pytest.mark.parametrize("rule", ["majority", "permute-and-flip", "exponential"])
@pytest.mark.parametrize("n_classes", [2, 40, 90])
def test_the_names_of_a_leaf_sum_to_one_however_many_classes_there_are(rule, n_classes: int):
    noise = LabelNoise(rule, 0.5)
    counts = np.random.default_rng(n_classes).integers(0, 9, (20, n_classes))
    assert np.exp(noise.log_prob(counts)).sum(axis=1) == pytest.approx(1.0, rel=1e-9)
    assert noise.log_prob(np.full((1, n_classes), 3)) == pytest.approx(-math.log(n_classes))


def test_a_class_far_behind_has_the_probability_of_its_turn():
    # Against k others at the top, it is taken first, or never: p / (k + 1).
    k, p = 60, math.exp(-20.0)
    found = LabelNoise("permute-and-flip", 1.0).log_prob([[20.0] * k + [0.0]])
    assert found[0, -1] == pytest.approx(math.log(p / (k + 1)), rel=1e-12)


EPSILONS = [Fraction(1, 30), Fraction(0.1), Fraction(7, 5), Fraction(3)]


@pytest.mark.parametrize("epsilon", EPSILONS, ids=float)
def test_the_exact_sampler_meets_its_law_without_a_float(epsilon: Fraction):
    source = Bits(1)
    fits(
        [discrete_laplace(epsilon, source) for _ in range(20_000)], DiscreteLaplace(float(epsilon))
    )


@pytest.mark.parametrize("epsilon", EPSILONS, ids=float)
def test_the_paper_s_sampler_meets_its_law(epsilon: Fraction):
    source = random.Random(2)
    draws = [truncated_laplace(epsilon, source) for _ in range(20_000)]
    fits(draws, Laplace(float(epsilon), "towards zero"))


def test_the_test_of_a_law_tells_these_two_apart():
    source = random.Random(3)
    draws = [truncated_laplace(Fraction(1), source) for _ in range(20_000)]
    with pytest.raises(AssertionError):
        fits(draws, DiscreteLaplace(1.0))
