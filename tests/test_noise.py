"""The laws of noise, the samplers that draw from them, and the privacy that they buy."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

import treeleak
from helpers.noise import fits, noise_drawn
from helpers.tables import compas_sample
from treeleak.core.errors import BadInput, BadModel, Mismatch
from treeleak.learn import DPForestClassifier
from treeleak.learn.forest import discrete_laplace, truncated_laplace
from treeleak.reconstruction.answering import of_noise
from treeleak.release import AllRows, to_release
from treeleak.release.n_rows import check_row_count
from treeleak.release.noise.goodness_of_fit import (
    count_misfit,
    label_misfit,
    noise_misfit,
    scale_of_labels,
    scale_of_noise,
)
from treeleak.release.noise.laws import CountNoise, DiscreteLaplace, Gaussian, LabelNoise, Laplace
from treeleak.release.stated_noise import check_counts_agree, noise_left, stated_noise_misfit
from treeleak.verification.training_rows import match_training

WHOLE = [
    *(DiscreteLaplace(e) for e in (0.05, 1.0, 4.0)),
    *(Laplace(e, r) for e in (0.05, 1.0, 4.0) for r in ("nearest", "towards zero")),
    *(Gaussian(s, r) for s in (0.3, 2.0, 20.0) for r in ("nearest", "towards zero")),
]
PURE = [law for law in WHOLE if not isinstance(law, Gaussian)]


class Bits(random.Random):
    """A source of whole numbers that has no floats to give."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._inner = random.Random(seed)

    def getrandbits(self, k: int) -> int:
        return self._inner.getrandbits(k)

    def random(self) -> float:
        raise AssertionError("a float was drawn")


@pytest.mark.parametrize("law", [*WHOLE, Laplace(0.5), Gaussian(2.0)], ids=repr)
def test_a_law_sums_to_one_and_has_its_variance(law: CountNoise):
    y, step = np.linspace(-1000, 1000, 2001 if law.whole else 2_000_001, retstep=True)
    p = np.exp(law.log_prob(y)) * step
    assert p.sum() == pytest.approx(1.0)
    assert (p * y**2).sum() == pytest.approx(law.variance)


@pytest.mark.parametrize("law", PURE, ids=repr)
def test_the_loss_is_the_greatest_log_ratio_for_one_row_more(law: CountNoise):
    log_p = law.log_prob(np.arange(-100, 101))
    assert np.abs(np.diff(log_p)).max() == pytest.approx(law.loss, rel=1e-12)


@pytest.mark.parametrize("wrong", [0, -1.0, math.inf, math.nan])
def test_noise_without_a_size_is_refused(wrong: float):
    for make in (DiscreteLaplace, Laplace, Gaussian, lambda x: LabelNoise("exponential", x)):
        with pytest.raises(BadInput, match="must be positive"):
            make(wrong)


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


# --------------------------------------------------------------------------- noise that is stated


LAWS = [
    DiscreteLaplace(1e-4), DiscreteLaplace(0.5), DiscreteLaplace(20.0),
    Laplace(0.05), Laplace(1.0, "nearest"), Laplace(1.0, "towards zero"),
    Gaussian(0.3), Gaussian(50.0), Gaussian(5.0, "nearest"), Gaussian(5.0, "towards zero"),
]  # fmt: skip
WIDE = [law for law in LAWS if law.variance > 1.5]


def trees_of(law, rng, n_trees=10):
    return [noise_drawn(law, (rng.integers(3, 20), 2), rng) for _ in range(n_trees)]


def cells(off, rng, n_rows=100):
    """True counts that add up to the same number in every tree."""
    return [
        rng.multinomial(n_rows, np.full(y.size, 1 / y.size)).reshape(y.shape).astype(float)
        for y in off
    ]


# ------------------------------------------------------------------------------------- noise


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.slow
def test_noise_of_the_law_is_not_doubted(law):
    rng = np.random.default_rng(0)
    for _ in range(8):
        off = trees_of(law, rng)
        assert noise_misfit(law, off) is None
        assert noise_misfit(law, off, centred=False) is None
        counts = [y + n for y, n in zip(off, cells(off, rng), strict=True)]
        assert count_misfit(law, counts, agree=True) is None
        pairs = [own.sum(axis=1)[:, None] for own in off]
        assert noise_misfit(law, pairs, summed=2) is None


@pytest.mark.parametrize("law", WIDE, ids=repr)
def test_no_noise_too_little_too_much_and_noise_in_some_trees_is_doubted(law):
    rng = np.random.default_rng(1)
    off = trees_of(law, rng, 20)
    assert noise_misfit(law, [0 * y for y in off]).how == "smaller"
    assert (
        noise_misfit(law, [np.trunc(y / 5) if law.whole else y / 5 for y in off]).how == "smaller"
    )
    assert noise_misfit(law, [4 * y for y in off]).how == "larger"
    assert noise_misfit(law, [y + round(law.variance**0.5) for y in off]).how == "larger"
    half = [np.where(rng.random(y.shape) < 0.5, y, 0) for y in off]
    assert noise_misfit(law, half).how == "smaller"
    some = [y if t % 3 else 0 * y for t, y in enumerate(off)]
    assert noise_misfit(law, some).how == "smaller"
    one = [0 * off[0], *off[1:]]
    if law.variance > 20 and off[0].size > 9:
        assert noise_misfit(law, one).how == "smaller"


@pytest.mark.parametrize("law", WIDE, ids=repr)
def test_noise_that_is_not_independent_is_doubted(law):
    rng = np.random.default_rng(2)
    own = noise_drawn(law, (12, 2), rng)
    assert noise_misfit(law, [own] * 12) is not None
    signs = [own if t % 2 else -own for t in range(12)]
    assert noise_misfit(law, signs) is not None
    off = trees_of(law, rng, 20)
    for y in off:
        y[-1, -1] -= y.sum()
    assert noise_misfit(law, off) is not None


def test_whole_numbers_are_no_noise_that_is_not_rounded():
    rng = np.random.default_rng(0)
    off = [np.round(rng.normal(0, 50, (10, 2))) for _ in range(5)]
    assert "whole numbers" in count_misfit(Gaussian(50.0), off, agree=True).why
    # Counts that were written with one decimal are whole one time in ten.
    written = [np.round(rng.normal(0, 50, (10, 2)), 1) for _ in range(5)]
    assert count_misfit(Gaussian(50.0), written, agree=True) is None


def test_counts_that_agree_too_well_are_doubted_without_any_row():
    rng = np.random.default_rng(3)
    off = trees_of(DiscreteLaplace(0.5), rng, 20)
    exact = cells(off, rng)
    for law in WIDE:
        assert count_misfit(law, exact, agree=True) is not None
    # Where trees saw different rows, sums may differ or not: large counts hide small noise.
    large = cells(off, rng, 100_000)
    assert count_misfit(DiscreteLaplace(0.5), large, agree=False) is None
    assert "agree too well" in count_misfit(DiscreteLaplace(0.5), large, agree=True).why
    assert count_misfit(DiscreteLaplace(0.5), [*large[:-1], large[-1] + 40], True) is not None


# ------------------------------------------------------------------------------------- scale


@pytest.mark.parametrize("law", [DiscreteLaplace(0.5), Laplace(0.1), Gaussian(5.0)], ids=repr)
@pytest.mark.slow
def test_the_interval_of_the_scale_holds_it_as_often_as_it_says(law):
    rng, held, runs = np.random.default_rng(0), 0, 200
    true = getattr(law, "sigma", None) or law.epsilon
    for _ in range(runs):
        found = scale_of_noise(law, [noise_drawn(law, 60, rng)])
        assert found.low < found.high < 3 * found.low
        held += found.low <= true <= found.high
    assert binom.ppf(1e-4, runs, 0.95) <= held


# ------------------------------------------------------------------------------------- labels


def named(law, held, rng):
    p = np.exp(law.log_prob(held))
    return np.eye(held.shape[1])[[rng.choice(held.shape[1], p=row / row.sum()) for row in p]]


@pytest.mark.parametrize("rule", ["permute-and-flip", "exponential"])
@pytest.mark.parametrize("scale", [1e-3, 0.3, 3.0])
def test_names_of_leaves_are_tested_on_both_sides(rule, scale):
    law, rng = LabelNoise(rule, scale), np.random.default_rng(0)
    held = [rng.integers(0, 9, (30, 3)).astype(float) for _ in range(10)]
    told = [named(law, own, rng) for own in held]
    assert label_misfit(law, held, told) is None
    assert label_misfit(law, held, told, alone=False) is None
    largest = [np.eye(3)[own.argmax(axis=1)] for own in held]
    if scale < 1:
        assert label_misfit(law, held, largest).how == "smaller"
    if scale < 0.1:
        assert label_misfit(law, held, largest, alone=False).how == "smaller"
    least = [np.eye(3)[own.argmin(axis=1)] for own in held]
    assert label_misfit(law, held, least).how == "larger"
    found = scale_of_labels(law, held, told)
    if scale == 0.3:
        assert found.low < scale < found.high < 3 * found.low
    assert scale_of_labels(LabelNoise("majority"), held, told) is None


# ------------------------------------------------------------------------------------ releases


@pytest.fixture(scope="module")
def data():
    X, y, compas = compas_sample(60, seed=0)
    return X, y, compas.schema


@pytest.fixture(scope="module")
def exact(data):
    X, y, _ = data
    model = treeleak.learn.DPForestClassifier(
        20, 4, 1e6, schema=data[2], classes=[0, 1], random_state=0
    )
    with pytest.warns(treeleak.errors.PrivacyWarning):
        return to_release(model.fit(X, y))


def private(data, epsilon, seed=0):
    X, y, schema = data
    model = DPForestClassifier(10, 4, epsilon, schema=schema, classes=[0, 1], random_state=seed)
    with pytest.warns(treeleak.errors.PrivacyWarning):
        return to_release(model.fit(X, y))


def claimed(release, noise, sampling=None):
    return replace(release, noise=noise, sampling=sampling or AllRows())


@pytest.mark.parametrize("noise", [Gaussian(50.0), DiscreteLaplace(1e-4), DiscreteLaplace(1.0)])
@pytest.mark.slow
def test_noise_that_is_not_there_is_refuted_and_the_counts_are_attacked_as_they_are(
    data, exact, noise
):
    X, y, schema = data
    release = claimed(exact, noise)
    with pytest.raises(Mismatch, match=r"by far less than the stated noise|another way"):
        match_training(release, X, y)
    for rows in ((X, y), (X,), ()):
        found = treeleak.audit(release, *rows, schema=schema, time_limit=10)
        assert found.verdict == "leak shown"
        assert "do not carry the stated noise" in found.budget.refuted
        assert found.budget.cost is None
        assert found.reconstruction.evidence.startswith("exact")
        ruling = treeleak.judge(found, treeleak.Policy("p", {"epsilon": 1.0}))
        assert {check.key: check.state for check in ruling.checks}["ended"] == "not assessed"
        assert not ruling.passed


@pytest.mark.slow
def test_counts_without_their_noise_never_show_that_nothing_leaks(data):
    """Of large leaves that are claimed noisy: the attack finds nothing, and that is no verdict."""
    compas = treeleak.datasets.load_compas()
    X, y = compas.X[:400], compas.y[:400]
    model = DPForestClassifier(3, 1, 1e6, schema=compas.schema, classes=[0, 1], random_state=0)
    with pytest.warns(treeleak.errors.PrivacyWarning):
        release = to_release(model.fit(X, y))
    bare = treeleak.audit(replace(release, noise=None), schema=compas.schema, time_limit=10)
    assert bare.verdict.startswith("no leak")
    found = treeleak.audit(
        claimed(release, Gaussian(9999.0, "nearest")), schema=compas.schema, time_limit=3
    )
    assert found.budget.refuted
    assert found.verdict == "not assessed"


def test_a_private_forest_is_not_doubted_and_its_noise_is_found(data):
    X, y, _ = data
    for epsilon in (0.1, 1.0, 30.0):
        release = private(data, epsilon)
        assert stated_noise_misfit(release) is None
        left = noise_left(release, X.to_numpy(dtype=float), y.to_numpy())
        assert left.compared
        assert left.misfit is None
        assert left.scale.low < epsilon / 10 < left.scale.high
        check_row_count(release, 60)


def test_a_wrong_number_of_rows_is_refused(data, exact):
    X, _, schema = data
    release = private(data, 30.0)
    for n_rows in (1, 20, 200):
        with pytest.raises(BadInput, match=rf"n_rows is {n_rows}, but the noisy counts add up to"):
            treeleak.reconstruct(release, schema, n_rows=n_rows)
        with pytest.raises(BadInput, match=f"trained on {n_rows} rows, but the noisy counts"):
            treeleak.reconstruct(replace(release, n_rows=n_rows), schema)
    check_row_count(release, 60)
    bare = replace(exact, noise=None)
    with pytest.raises(BadInput, match="n_rows is 20, but the leaves of tree 0 count 60 rows"):
        treeleak.reconstruct(bare, schema, n_rows=20)
    with pytest.raises(BadInput, match="trained on 20 rows, but the leaves of tree 0 count 60"):
        treeleak.reconstruct(replace(bare, n_rows=20), schema)
    with pytest.raises(BadInput, match="the known columns have 20 rows, but the noisy counts"):
        treeleak.reconstruct(release, schema, known_columns=X[["sex:Male"]][:20])


def test_numbers_without_noise_beside_noisy_counts_are_refused(exact):
    first = exact.trees[0]
    ones = np.ones(first.n_nodes)
    for other, said in (
        (first.with_counts(totals=ones), "totals beside counts with noise"),
        (first.with_counts(distinct=ones.astype(int)), "distinct beside counts with noise"),
        (
            first.with_counts(counts=first.counts + np.eye(len(ones))[:, :1]),
            "node 0: it is not a leaf",
        ),
    ):
        with pytest.raises(BadModel, match=f"tree 0.*{said}"):
            check_counts_agree(replace(exact, trees=(other, *exact.trees[1:])))
    bare = replace(exact, noise=None)
    with pytest.raises(BadModel, match=r"tree 0, leaf .*: counts add up to .*, totals say"):
        check_counts_agree(replace(bare, trees=(first.with_counts(totals=ones * 99),)))
    check_counts_agree(exact)


def test_likely_rows_doubt_noise_that_is_ten_times_larger_than_stated(data):
    X, y, _ = data
    release = private(data, 30.0)
    assert of_noise(release, X, y) == of_noise(replace(release, noise=None), X, y) == ()
    stated = replace(release, noise=replace(release.noise, epsilon=10 * release.noise.epsilon))
    (note,) = of_noise(stated, X, y)
    assert "larger than stated, or the search needs more time. With these rows, epsilon" in note
    # Noise that is smaller than stated may be so because the likeliest rows are near the counts.
    assert of_noise(replace(release, noise=replace(release.noise, epsilon=0.1)), X, y) == ()
