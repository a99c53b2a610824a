"""Draws recomputed from seeds, against NumPy's generator and scikit-learn's own draws."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.random import sample_without_replacement

from helpers.examples import examples, spread
from helpers.releases import tree_of
from treeleak.core.errors import BadInput, NotCovered
from treeleak.release import StoredObject, read_model, to_release
from treeleak.release.draws import mt19937_kernels as _mt19937
from treeleak.release.draws.seeds import known_draws
from treeleak.release.readers.release_file import release_from_dict, release_to_dict
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows, Bootstrap

MODELS = Path(__file__).parent / "models"
RECORDED = {
    (path.parent.name, name): np.array(counts)
    for path in sorted(MODELS.glob("*/draws.json"))
    for name, counts in json.loads(path.read_text()).items()
}
# Before 1.4 a forest stores neither rows nor draws, and here its nodes hold sums of weights.
UNSAID = {("1.3.2", "row_weight")}

SEEDS = st.sampled_from([0, 1, 2**31, 2**32 - 1]) | st.integers(0, 2**32 - 1)
SIZES = st.sampled_from([1, 2, 64, 65, 1024]) | st.integers(1, 3000)
NO_COLUMNS = (np.zeros(0, dtype=np.int64), False)
EVENLY = np.zeros(0)


def fixture(version, name):
    (path,) = (p for p in (MODELS / version).glob(f"{name}.*") if p.suffix != ".json")
    return to_release(path, trust_pickle=True)


def drawn(seed, n_rows, n_draws, p=None):
    """What a tree of a forest draws, by scikit-learn's rule as its sources have it."""
    random = np.random.RandomState(seed)
    if p is None:
        return random.randint(0, n_rows, n_draws)
    return random.choice(n_rows, n_draws, replace=True, p=p)


def seeds_of(forest_seed, n_trees):
    return np.random.RandomState(forest_seed).randint(np.iinfo(np.int32).max, size=n_trees)


def tabled(indices, n_rows):
    return np.array([np.bincount(i, minlength=n_rows) for i in indices])


def stump(n_draws, distinct):
    return tree_of(None).with_counts(
        totals=np.array([float(n_draws)]),
        distinct=None if distinct is None else np.array([distinct]),
    )


def ensemble(table, distinct=True, n_columns=4, **sampling):
    """A release whose trees drew these rows; seeds as given."""
    n_draws = int(table[0].sum())
    return Release(
        trees=tuple(stump(n_draws, (row > 0).sum() if distinct else None) for row in table),
        feature_names=tuple(f"x{i}" for i in range(n_columns)),
        classes=(),
        sampling=Bootstrap(
            **{"n_draws": n_draws, "rule": "scikit-learn 1.5.2 forest", "columns_drawn": 0}
            | sampling
        ),
        n_rows=table.shape[1],
    )


def forest(seed=1234, n_trees=30, n_rows=60, n_draws=60, p=None, **more):
    """A stripped forest, and what it drew."""
    table = tabled([drawn(s, n_rows, n_draws, p) for s in seeds_of(seed, n_trees)], n_rows)
    return ensemble(table, **more), table


def with_sampling(release, **changed):
    return replace(release, sampling=replace(release.sampling, **changed))


# ------------------------------------------------------------------------------- the generator


@examples(100, fast=10)
@given(st.lists(SEEDS, min_size=1, max_size=3), SIZES, SIZES, st.booleans())
@example([0, 2**32 - 1], 1, 1500, False)
@example([2**32 - 1, 0], 1024, 1500, False)
def test_draws_are_those_of_numpy(seeds, n_rows, n_draws, weighted):
    p = cdf = None
    if weighted:
        p = np.random.default_rng(n_rows).integers(0, 3, n_rows) + (np.arange(n_rows) == 0)
        p = p / p.sum()
        cdf = p.cumsum() / p.cumsum()[-1]
    rule = (n_rows, n_draws, *NO_COLUMNS, EVENLY if cdf is None else cdf)
    expected = tabled([drawn(s, n_rows, n_draws, p) for s in seeds], n_rows)
    table = np.zeros((len(seeds), n_rows), dtype=np.uint16)
    assert _mt19937.tally(np.array(seeds), *rule, table)
    np.testing.assert_array_equal(table, expected)
    np.testing.assert_array_equal(
        _mt19937.distinct_rows(np.array(seeds), *rule), (expected > 0).sum(axis=1)
    )


@given(SEEDS, st.integers(1, 400), st.floats(0, 1), st.booleans())
@example(5, 300, 0.01, False)  # drawn until different
@example(5, 300, 0.007, False)
@example(5, 300, 0.995, False)  # reservoir
@example(5, 300, 0.99, False)
@example(5, 300, 0.5, False)  # shuffle
@example(5, 1, 1.0, True)
@examples(60, fast=10)
def test_columns_are_drawn_first(seed, n_columns, share, replaced):
    n_drawn = max(1, round(share * n_columns))
    random = np.random.RandomState(seed)
    if replaced:
        random.randint(0, n_columns, n_drawn)
    else:
        sample_without_replacement(n_columns, n_drawn, random_state=random)
    expected = tabled([random.randint(0, 50, 40)], 50)
    release = ensemble(
        expected,
        n_columns=n_columns,
        tree_seeds=(seed,),
        columns_drawn=n_drawn,
        columns_replaced=replaced,
    )
    np.testing.assert_array_equal(known_draws(release, seed_search=0).counts, expected)


# ------------------------------------------------------------------- files of several versions


@pytest.mark.versions
@pytest.mark.parametrize(
    "case", spread(zip(sorted(RECORDED.keys() - UNSAID)), fast=12), ids="-".join
)
def test_seeds_in_a_file_give_the_draws_of_its_training(case):
    release = fixture(*case)
    found = known_draws(release, seed_search=0)
    np.testing.assert_array_equal(found.counts, RECORDED[case])
    assert "the trees' seeds in the file" in found.origin
    assert found.forest_seed is None
    assert found.checked

    stripped = with_sampling(release, tree_seeds=(None, *release.sampling.tree_seeds[1:]))
    found = known_draws(stripped, seed_search=0)
    np.testing.assert_array_equal(found.counts, RECORDED[case])
    assert "the forest's seed in the file" in found.origin
    assert found.forest_seed == 0
    assert found.checked


@pytest.mark.versions
@pytest.mark.parametrize("case", sorted(UNSAID), ids="-".join)
def test_a_file_that_says_neither_rows_nor_draws(case):
    with pytest.raises(NotCovered, match="does not say how many rows each tree drew"):
        known_draws(fixture(*case))


@pytest.mark.slow
@pytest.mark.versions
def test_the_number_of_rows_follows_from_a_rounded_share_or_from_the_counts():
    share, number = fixture("1.3.2", "drawn"), fixture("1.3.2", "drawn_extra")
    assert share.n_rows is number.n_rows is None
    assert share.sampling.rows_between == (30, 30)
    assert number.sampling.rows_between is None
    assert "30 training rows, the only number that fits" in known_draws(number).origin
    for release in (share, number):
        written = release_from_dict(json.loads(json.dumps(release_to_dict(release))))
        assert known_draws(written).counts.shape == (3, 30)


@pytest.mark.versions
@pytest.mark.parametrize("share", ["balanced", {"no": 1.0, "often": 3.0, "yes": 2.0}])
def test_class_weights_without_the_weights_of_rows(share):
    (path,) = MODELS.glob("1.9.1/balanced.skops")
    stored = read_model(path)
    state = {**stored.state, "class_weight": share, "_sample_weight": None}
    with pytest.raises(NotCovered, match="class weights set each row's chance"):
        known_draws(to_release(StoredObject(stored.type, state)))


# --------------------------------------------------------------------------------- the search


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(40),
        RandomForestClassifier(40, max_samples=33),
        ExtraTreesClassifier(40, bootstrap=True, max_samples=0.5),
        BaggingClassifier(DecisionTreeClassifier(), n_estimators=40),
        BaggingClassifier(DecisionTreeClassifier(), n_estimators=40, max_features=0.5),
        BaggingClassifier(
            DecisionTreeClassifier(), n_estimators=40, max_features=3, bootstrap_features=True
        ),
    ],
    ids=str,
)
def test_a_stripped_model_gives_its_seed_away(model):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, (50, 5)), rng.integers(0, 2, 50)
    model.set_params(random_state=777).fit(X, y)
    truth = tabled(model.estimators_samples_, 50)

    model.set_params(random_state=None)
    if isinstance(model, BaggingClassifier):
        del model._seeds
    for tree in model.estimators_:
        tree.random_state = None
    release = to_release(model)
    assert not any(release.sampling.tree_seeds)
    assert release.sampling.forest_seed is None
    found = known_draws(release, seed_search=2000)
    np.testing.assert_array_equal(found.counts, truth)
    assert found.forest_seed == 777
    assert found.origin == "forest seed 777, found by search among the first 2,000"
    assert found.checked


def test_a_seed_beyond_the_search_is_not_found():
    release, _ = forest(1000)
    with pytest.raises(NotCovered, match=r"none of the first 1,000 forest seeds fits"):
        known_draws(release, seed_search=1000)


@pytest.mark.parametrize("rule", ["", "scikit-learn 1.5.2 bagging"])
@pytest.mark.parametrize("replaced", [None, False, True])
def test_what_the_release_leaves_open_is_tried(rule, replaced):
    def tree(seed):
        random = np.random.RandomState(seed)
        if replaced:
            random.randint(0, 7, 7)
        elif replaced is not None:
            random.permutation(7)
        return random.randint(0, 60, 60)

    table = tabled(map(tree, seeds_of(321, 30)), 60)
    release = ensemble(table, n_columns=7, rule=rule, columns_drawn=None)
    shares = []
    found = known_draws(release, seed_search=1000, tick=shares.append)
    np.testing.assert_array_equal(found.counts, table)
    assert shares == sorted(shares)
    assert shares[-1] <= 1


def test_stored_seeds_that_do_not_fit_are_passed_over():
    release, table = forest(seed=5)
    wrong = with_sampling(release, tree_seeds=tuple(range(30)), forest_seed=5)
    assert known_draws(wrong, seed_search=0).origin == "the forest's seed in the file"
    wrong = with_sampling(wrong, forest_seed=6)
    found = known_draws(wrong, seed_search=10)
    assert found.forest_seed == 5
    np.testing.assert_array_equal(found.counts, table)
    with pytest.raises(NotCovered) as error:
        known_draws(wrong, seed_search=0)
    assert "with the trees' seeds in the file, tree 0 would have drawn" in str(error.value)
    assert "with the forest's seed in the file, tree 0 would have drawn" in str(error.value)
    assert "no forest seeds were tried" in str(error.value)


def test_too_few_trees_name_no_seed():
    release, _ = forest(seed=5, n_trees=2)
    with pytest.raises(
        NotCovered, match=r"cannot be distinguished: 2 trees .* wrong seeds would fit"
    ):
        known_draws(release)
    distinct = np.array([tree.distinct[0] for tree in release.trees], dtype=np.int64)
    none = np.zeros(0, dtype=np.int64)
    fits = _mt19937.matching(0, 1000, none, distinct, 60, 60, *NO_COLUMNS, EVENLY)
    assert len(fits) == 2, "more than one does"


# -------------------------------------------------------------------- an unknown number of rows


@pytest.mark.parametrize(
    ("n_rows", "n_draws"), [(1, 5), (2, 9), (3, 9), (20, 30), (64, 64), (65, 40), (1000, 900)]
)
def test_the_number_of_rows_is_found_with_the_seeds(n_rows, n_draws):
    release, table = forest(1, n_rows=n_rows, n_draws=n_draws)
    for known in ({"tree_seeds": tuple(seeds_of(1, 30).tolist())}, {"forest_seed": 1}):
        found = known_draws(with_sampling(replace(release, n_rows=None), **known))
        np.testing.assert_array_equal(found.counts, table)
        assert f"; {n_rows} training rows, the only number that fits" in found.origin


# ------------------------------------------------------------------------- progress and limits


def test_many_draws_of_one_row_are_counted():
    release, table = forest(
        n_trees=2, n_rows=2, n_draws=70_000, p=[0.0, 1.0], row_weights=(0.0, 1.0), forest_seed=1234
    )
    found = known_draws(release)
    assert found.counts.dtype == np.uint32
    np.testing.assert_array_equal(found.counts, table)


@pytest.mark.parametrize(
    ("changed", "sampling", "reason"),
    [
        ({"n_rows": 10**7 + 1}, {}, "too many"),
        ({"n_rows": 0}, {}, "no rows were drawn"),
        ({"trees": ()}, {}, "without trees"),
        ({"sampling": AllRows()}, {}, "did not draw"),
        ({}, {"n_draws": 59}, "59 in the model, 60 in tree 0"),
        ({}, {"rule": "ranger 0.16"}, "'ranger 0.16', which is not known"),
        ({}, {"row_weights": (1.0, 2.0)}, "60 rows, and weights of 2"),
        ({}, {"row_weights": (0.0,) * 60}, "add up to 0"),
        ({}, {"columns_drawn": 2**50}, "of 4 columns"),
        ({}, {"hidden": "of a reason"}, "of a reason"),
    ],
)
def test_what_cannot_be_is_refused(changed, sampling, reason):
    release, _ = forest(forest_seed=1234)
    with pytest.raises(NotCovered, match=reason):
        known_draws(replace(with_sampling(release, **sampling), **changed))


def test_a_negative_number_of_seeds():
    with pytest.raises(BadInput, match="-1"):
        known_draws(forest()[0], seed_search=-1)
