"""Trees that test for categories: read, rebuilt from, and told in words."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest

import treeleak
from helpers.releases import tree_of
from treeleak.core.errors import BadSchema
from treeleak.release import to_release
from treeleak.release.check_schema import match_levels
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows
from treeleak.release.tree import CategorySets, Tree
from treeleak.schema import Categorical, Schema


def stump(codes, column=0, missing_left=False) -> Tree:
    sets = CategorySets(np.zeros(len(codes), dtype=np.int64), np.array(codes, dtype=np.int64))
    missing = np.array([missing_left, False, False])
    return tree_of((column, np.nan), None, None, missing_left=missing, categories=sets)


def release_of(*trees, names=("c",), **more) -> Release:
    return Release(trees, names, (), AllRows(), None, **more)


def test_a_release_moved_to_other_codes_names_the_same_labels():
    release = release_of(stump([0, 2]), levels={"c": ("x", "y", "z")})
    schema = Schema([Categorical("c", labels=("z", "w", "x", "y"))])
    moved = match_levels(release, schema)
    assert moved.trees[0].categories.value.tolist() == [0, 2]
    assert moved.levels == {"c": ("z", "w", "x", "y")}
    moved = match_levels(release, Schema([Categorical("c", labels=("z", "y", "x"))]))
    assert moved.trees[0].categories.value.tolist() == [0, 2]
    moved = match_levels(release, Schema([Categorical("c", labels=("y", "z"))]))
    assert moved.trees[0].categories.value.tolist() == [1]
    for labels, values in ((("y",), (0,)), (("x", "y", "z"), (0.5, 1, 2)), (("x", "z"), (-1, 2))):
        with pytest.raises(BadSchema, match="'c': the model tests for categories"):
            match_levels(release, Schema([Categorical("c", labels=labels, values=values)]))


def people(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.integers(20, 26, n),
            "job": pd.Categorical(rng.choice(["clerk", "cook", "judge", "nurse", "smith"], n)),
            "city": pd.Categorical(rng.choice(list("ABCDEFG"), n)),
            "smoker": rng.integers(0, 2, n),
        }
    )
    good = X["job"].isin(["nurse", "judge"]) * 2 + X["city"].isin(list("ACE"))
    return X, (X["age"] > 23) + good + rng.normal(size=n)


def back(model, X, **given):
    """The share of rows that come back, categories by their codes."""
    answer = treeleak.reconstruct(model, seed=0, time_limit=60, **given)
    codes = X.apply(lambda c: c.cat.codes if c.dtype == "category" else c).astype(float)
    true, found = (Counter(map(tuple, t[list(X)].to_numpy(float))) for t in (codes, answer.X))
    return answer, sum((true & found).values()) / len(X)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_rows_come_back_from_boosting_libraries(library):
    found = pytest.importorskip(library, reason=f"needs {library}")
    X, y = people()
    if library == "lightgbm":
        sharp = {"min_child_samples": 3, "cat_smooth": 1, "min_data_per_group": 1, "verbose": -1}
        model = found.LGBMRegressor(**sharp, n_jobs=1)
    else:
        model = found.XGBRegressor(enable_categorical=True, n_jobs=1)
    answer, share = back(model.fit(X, y), X, n_rows=len(X))
    assert answer.status == "unique"
    assert share == 1
    if (
        library == "xgboost"
    ):  # A row that weighs 2 looks like two, if nobody says how many there are.
        alone, share = back(model, X)
        assert (alone.status, share) == ("feasible", 1)
        assert 0 < (~alone.proved).sum() < len(X) / 4
        assert any("weighs 2" in note for note in alone.notes)


@pytest.mark.filterwarnings("ignore")
def test_rows_come_back_from_catboost_with_their_categories_as_hashes():
    catboost = pytest.importorskip("catboost", reason="needs CatBoost")
    X, y = people()
    X = X.assign(job=X["job"].astype(str), city=X["city"].astype(str))
    model = catboost.CatBoostRegressor(
        one_hot_max_size=20, iterations=150, verbose=0, thread_count=1, allow_writing_files=False,
        cat_features=["job", "city"],
    ).fit(X, y)  # fmt: skip
    answer = treeleak.reconstruct(model, seed=0, time_limit=60, n_rows=len(X))
    assert answer.status == "unique"
    # Which hash is which text, nobody says: the pattern of each column is that of the rows.
    codes = X.apply(lambda c: pd.factorize(c)[0] if c.dtype == object else c)
    for column in ("job", "city"):
        sizes = [sorted(t[column].value_counts()) for t in (codes, answer.X)]
        assert sizes[0] == sizes[1]
    pairs = [sorted(t.groupby(["age", "smoker"]).size()) for t in (X, answer.X)]
    assert pairs[0] == pairs[1]
    assert to_release(model).levels["job"][-1] == "another"
