"""The number of training rows behind hidden draws and behind noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, norm
from sklearn.ensemble import RandomForestClassifier

from helpers.noise import noise_drawn
from helpers.releases import counted_as, drawn_alone, stumps
from treeleak.core.errors import BadInput, NotCovered
from treeleak.release import to_release
from treeleak.release.n_rows import RowCount, count_rows, rows_behind_noise
from treeleak.release.noise.laws import DiscreteLaplace, Gaussian, LabelNoise, Laplace
from treeleak.release.sampling import Bootstrap, Disjoint


def bagged(n=60, seed=0, trees=20, **options):
    rng = np.random.default_rng(seed)
    X = rng.integers(2, size=(n, 6))
    y = rng.integers(2, size=n)
    return to_release(RandomForestClassifier(trees, random_state=seed, **options).fit(X, y))


def silent(release, distinct=True):
    """The same, where only draws tell of the number of rows."""
    sampling = replace(release.sampling, rows_between=None)
    return replace(drawn_alone(release, distinct), n_rows=None, sampling=sampling)


@pytest.mark.parametrize("max_samples", [None, 0.4, 25])
@pytest.mark.slow
def test_the_interval_covers_the_number_in_most_cases(max_samples):
    covered, off = 0, []
    for seed in range(60):
        release = silent(bagged(seed=seed, trees=8, max_depth=1, max_samples=max_samples))
        found = count_rows(release)
        low, high = found.between
        assert low <= found.n <= high
        covered += low <= 60 <= high
        off.append(found.n - 60)
    # Of 60 intervals at 95 %, fewer than 51 hold with a chance of 1 in 3,000.
    assert covered >= 51
    assert abs(np.median(off)) <= 3


def test_draws_bound_the_number_where_a_share_was_drawn():
    release = silent(bagged(max_samples=0.5), distinct=False)
    within = replace(release, sampling=replace(release.sampling, rows_between=(59, 61)))
    low, high = count_rows(silent(bagged(max_samples=0.5))).between
    told = replace(
        silent(bagged(max_samples=0.5)), sampling=replace(release.sampling, rows_between=(59, 61))
    )
    assert low < 59
    assert high > 61
    assert 59 <= count_rows(told).between[0] <= count_rows(told).between[1] <= 61
    assert count_rows(within).n == 59
    exact = replace(release, sampling=replace(release.sampling, rows_between=(60, 60)))
    assert count_rows(exact) == RowCount(60, (60, 60), "as the model's number of draws says")


def test_without_distinct_rows_as_many_as_were_drawn():
    for max_samples, n in ((None, 60), (25, 25)):
        release = silent(bagged(max_samples=max_samples), distinct=False)
        found = count_rows(release)
        assert found == RowCount(n, (n, n), "taken to be the number of draws of a tree")


def test_where_no_row_was_drawn_twice_the_number_must_be_given():
    """However many rows there were: more would make it likelier."""
    release = silent(bagged(n=500, trees=2, max_depth=1, max_samples=2))
    assert all(t.distinct[t.leaves].sum() == 2 for t in release.trees)
    with pytest.raises(NotCovered, match=r"do not show how many training rows.*n_rows"):
        count_rows(release)
    assert count_rows(release, 500).n == 500
    within = replace(release, sampling=replace(release.sampling, rows_between=(400, 600)))
    assert 400 <= count_rows(within).n <= 600


def test_a_tree_without_counts_is_named():
    release = bagged(trees=3)
    bare = release.trees[2].with_counts(counts=None, distinct=None)
    with pytest.raises(NotCovered, match="tree 2 gives no counts"):
        count_rows(replace(release, trees=(*release.trees[:2], bare)))


# Behind noise.

LAWS = [
    DiscreteLaplace(0.7),
    DiscreteLaplace(0.05),
    Laplace(0.7, "towards zero"),
    Laplace(0.05, "nearest"),
    Laplace(0.3),
    Gaussian(1.5, "nearest"),
    Gaussian(20.0, "towards zero"),
    Gaussian(4.0),
]


@pytest.mark.parametrize("noise", [law for law in LAWS if law.whole], ids=str)
@pytest.mark.parametrize("n_leaves", [1, 3])
def test_the_law_of_a_sum_is_the_convolution(noise, n_leaves):
    y = np.arange(-600, 601)
    one = np.exp(noise.log_prob(y))
    several = np.array([1.0])
    for _ in range(2 * n_leaves):
        several = np.convolve(several, one)
    middle = len(several) // 2
    likely = np.ones(1200)
    for total in (100, 103, 98):
        likely *= several[middle + total - np.arange(1, 1201)]
    rows, share = rows_behind_noise(stumps((100, 103, 98), noise, n_leaves=n_leaves))
    assert share.sum() == pytest.approx(1)
    expected = likely / likely.sum()
    np.testing.assert_allclose(share, expected[rows - 1], rtol=1e-6, atol=1e-9)
    assert np.delete(expected, rows - 1).sum() < 1e-6


def test_a_sum_of_normal_noises_is_normal():
    rows, share = rows_behind_noise(stumps((99.7, 104.2), Gaussian(4.0), n_leaves=3))
    weight = norm.pdf(rows, (99.7 + 104.2) / 2, 4 * np.sqrt(6 / 2))
    np.testing.assert_allclose(share, weight / weight.sum(), rtol=1e-4, atol=1e-9)


def test_a_sum_of_two_laplace_noises_that_are_not_rounded():
    """Its density is epsilon (1 + epsilon |y|) e^(-epsilon |y|) / 4."""
    rows, share = rows_behind_noise(stumps((60.4,), Laplace(0.3), n_leaves=1))
    off = 0.3 * np.abs(60.4 - rows)
    weight = (1 + off) * np.exp(-off)
    np.testing.assert_allclose(share, weight / weight.sum(), rtol=1e-3, atol=1e-8)


@pytest.mark.parametrize("noise", LAWS, ids=str)
@pytest.mark.parametrize(
    ("true", "n_trees", "n_leaves"), [(3, 1, 8), pytest.param(100, 4, 4, marks=pytest.mark.slow)]
)
@pytest.mark.slow
def test_intervals_behind_noise_hold_the_number_as_often_as_they_say(
    noise, true, n_trees, n_leaves
):
    runs, rng = 300, np.random.default_rng(7)
    held = 0
    for _ in range(runs):
        sums = true + noise_drawn(noise, (n_trees, 2 * n_leaves), rng).sum(axis=1)
        found = count_rows(stumps(sums, noise, n_leaves=n_leaves))
        low, high = found.between
        assert 1 <= low <= found.n <= high
        held += low <= true <= high
    # A flat prior at a boundary, and whole numbers, move the coverage by a few percent.
    assert held >= binom.ppf(1e-4, runs, 0.93)
    if true == 100:
        assert held <= binom.ppf(1 - 1e-4, runs, 0.97)


def test_trees_that_disagree_beyond_all_noise_leave_both_possible():
    found = count_rows(stumps((100.0, 200.0), DiscreteLaplace(20.0)))
    assert found.between == (100, 200)


def test_sums_that_no_number_explains():
    with pytest.raises(BadInput, match=r"add up to -500 at most.*cannot be 1 rows or more"):
        count_rows(stumps((-500.0, -600.0), DiscreteLaplace(5.0)))
    with pytest.raises(NotCovered, match="add up to 3,000,000 rows or more; at most 2,000,000"):
        count_rows(stumps((3e6, 3.1e6), DiscreteLaplace(5.0)))


def test_disjoint_trees_add_up_to_one_number():
    noise = DiscreteLaplace(0.3)
    found = count_rows(stumps((30.0, 50.0, 41.0), noise, Disjoint()))
    whole = count_rows(stumps((121.0,), noise, n_leaves=6))
    assert found == whole
    exact = count_rows(stumps((30.0, 50.0, 41.0), None, Disjoint()))
    assert exact == RowCount(121, (121, 121), "counted by all trees together")


def test_behind_a_bootstrap_noise_hides_the_number_of_draws():
    noise = DiscreteLaplace(0.1)
    found = count_rows(stumps((90.0, 120.0), noise, Bootstrap()))
    assert (found.n, found.between) == (105, count_rows(stumps((90.0, 120.0), noise)).between)
    assert "draws of a tree" in found.origin
    within = count_rows(stumps((90.0, 120.0), noise, Bootstrap(rows_between=(107, 110))))
    assert 107 <= within.between[0] <= within.n <= within.between[1] <= 110


def test_labels_do_not_tell_the_number():
    release = counted_as(
        stumps((1.0, 1.0), LabelNoise("permute-and-flip", 0.5), n_leaves=1), "labels"
    )
    with pytest.raises(
        NotCovered, match=r"labels of leaves do not show.*give their number.*n_rows"
    ):
        count_rows(release)
    assert count_rows(release, 100).n == 100


def test_without_noise_there_is_nothing_behind_it():
    with pytest.raises(NotCovered, match="nothing of noise"):
        rows_behind_noise(stumps((3.0,), None))
