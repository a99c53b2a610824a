"""The number of training rows behind hidden draws."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier

from treeleak.errors import BadInput, NotCovered
from treeleak.release import to_release
from treeleak.release.n_rows import RowCount, count_rows


def bagged(n=60, seed=0, trees=20, **options):
    rng = np.random.default_rng(seed)
    X = rng.integers(2, size=(n, 6))
    y = rng.integers(2, size=n)
    return to_release(RandomForestClassifier(trees, random_state=seed, **options).fit(X, y))


def silent(release, distinct=True):
    """The same, where only draws tell of the number of rows."""
    trees = release.trees if distinct else (replace(t, distinct=None) for t in release.trees)
    sampling = replace(release.sampling, rows_between=None)
    return replace(release, n_rows=None, sampling=sampling, trees=tuple(trees))


@pytest.mark.parametrize("max_samples", [None, 0.3, 0.999, 1.0, 17])
def test_what_the_model_says_is_believed(max_samples):
    found = count_rows(bagged(max_samples=max_samples))
    assert found == RowCount(60, (60, 60), "as the model says")


@pytest.mark.parametrize(("max_samples", "n"), [(0.5, 60), (0.3, 60), (23, 60), (None, 60)])
def test_a_number_given_is_taken_before_all_others(max_samples, n):
    release = bagged(max_samples=max_samples)
    for own in (release, silent(release), silent(release, distinct=False)):
        assert count_rows(own, n) == RowCount(n, (n, n), "as given")
    # Fewer than some tree drew cannot be, but where only draws are counted.
    most = max(int(t.distinct[t.leaves].sum()) for t in release.trees)
    assert count_rows(release, most).n == most
    with pytest.raises(BadInput, match=rf"n_rows is {most - 1}, but tree \d+ drew {most}"):
        count_rows(release, most - 1)
    assert count_rows(release, most - 1, use_distinct=False).n == most - 1
    for wrong in (0, -3):
        with pytest.raises(BadInput, match=f"n_rows (is|must be).*{wrong}"):
            count_rows(release, wrong, use_distinct=False)


@pytest.mark.parametrize("max_samples", [None, 0.4, 25])
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


def brute(release, most):
    """Posterior over the number of rows, by counting surjections one by one."""
    hits = []
    for tree in release.trees:
        drawn = round(tree.counts[tree.leaves].sum())
        hits.append((int(tree.distinct[tree.leaves].sum()), drawn))
    least = max(d for d, _ in hits)
    numbers = range(least, most)
    weight = np.array([
        math.prod(math.perm(n, d) / n**drawn for d, drawn in hits) for n in numbers
    ])  # fmt: skip
    return np.array(numbers), weight / weight.sum()


@pytest.mark.parametrize("seed", range(4))
def test_the_number_inferred_is_the_likeliest(seed):
    release = silent(bagged(n=12, seed=seed, trees=5, max_samples=7))
    numbers, share = brute(release, 2000)
    found = count_rows(release)
    assert found.n == numbers[share.argmax()]
    assert found.origin == "the likeliest for the numbers of distinct rows"
    inside = (numbers >= found.between[0]) & (numbers <= found.between[1])
    assert share[inside].sum() + 1e-9 >= 0.95
    assert share[inside][1:-1].sum() <= 0.95 + 1e-9


def test_more_trees_know_it_better():
    widths = []
    for trees in (2, 10, 100):
        low, high = count_rows(silent(bagged(trees=trees, max_depth=1, max_samples=0.5))).between
        widths.append(high - low)
    assert widths[0] > widths[1] > widths[2] > 0


def test_draws_bound_the_number_where_a_share_was_drawn():
    release = silent(bagged(max_samples=0.5), distinct=False)
    within = replace(release, sampling=replace(release.sampling, rows_between=(59, 61)))
    low, high = count_rows(silent(bagged(max_samples=0.5))).between
    told = replace(
        silent(bagged(max_samples=0.5)),
        sampling=replace(release.sampling, rows_between=(59, 61)),
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
        with_ = silent(bagged(max_samples=max_samples))
        assert count_rows(with_, use_distinct=False) == found


def test_where_no_row_was_drawn_twice_the_number_must_be_given():
    """However many rows there were: more would make it likelier."""
    release = silent(bagged(n=500, trees=2, max_depth=1, max_samples=2))
    assert all(t.distinct[t.leaves].sum() == 2 for t in release.trees)
    with pytest.raises(NotCovered, match=r"do not tell how many training rows.*n_rows"):
        count_rows(release)
    assert count_rows(release, 500).n == 500
    within = replace(release, sampling=replace(release.sampling, rows_between=(400, 600)))
    assert 400 <= count_rows(within).n <= 600


def test_a_tree_without_counts_is_named():
    release = bagged(trees=3)
    bare = replace(release.trees[2], counts=None, distinct=None)
    with pytest.raises(NotCovered, match="tree 2 gives no counts"):
        count_rows(replace(release, trees=(*release.trees[:2], bare)))


def test_bagging_is_counted_as_forests_are():
    rng = np.random.default_rng(0)
    X, y = rng.integers(2, size=(40, 4)), rng.integers(2, size=40)
    model = BaggingClassifier(n_estimators=30, max_samples=0.5, random_state=0).fit(X, y)
    release = to_release(model)
    low, high = count_rows(silent(release)).between
    assert low <= 40 <= high


def test_what_a_count_says_in_words():
    assert str(RowCount(1200, (1200, 1200), "as given")) == "1,200, as given"
    assert str(RowCount(98, (90, 1107), "so")) == "98 (95 %: 90 to 1,107), so"
