"""Hardening with the rows that enter a pipeline, as their owner has them."""

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.patient import AMPLE
from treeleak.core.errors import BadInput, Mismatch

pytestmark = pytest.mark.usefixtures("short_walks_throughout")


def table(n=40):
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, n).astype(float)
    X = pd.DataFrame({"job": rng.choice(["cook", "judge"], n), "age": age})
    X.loc[[3, 17], "age"] = np.nan
    return X, (X["age"] > 40).astype(int)


def steps():
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    words = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
    return ColumnTransformer([("n", numbers, ["age"]), ("w", words, ["job"])])


def tree(*before):
    return make_pipeline(*before, DecisionTreeClassifier(max_depth=3, random_state=0))


@pytest.fixture
def pipe():
    return tree(steps()).fit(*table())


@pytest.fixture
def saved(pipe, tmp_path):
    skops.io.dump(pipe, tmp_path / "m.skops")
    X, y = table()
    X.assign(y=y).to_csv(tmp_path / "train.csv", index=False)
    return tmp_path


def test_a_file_is_hardened_and_measured_with_the_rows_of_its_pipeline(saved):
    X, y = table()
    found = treeleak.harden(saved / "m.skops", saved / "out.skops", X=X, y=y, time_limit=AMPLE)
    assert found.answers.of == "training rows"
    assert found.answers.rows == len(X)
    assert found.states[0].leak.measured


def test_rows_that_cannot_be_put_through_are_refused_before_the_attack(tmp_path, no_attack):
    X, y = table()
    skops.io.dump(tree(steps(), PCA(2)).fit(X, y), tmp_path / "m.skops")
    with pytest.raises(Mismatch, match=r"pipe\[:-1\]\.transform\(X\)"):
        treeleak.harden(tmp_path / "m.skops", tmp_path / "out.skops", X=X, y=y)
    assert not (tmp_path / "out.skops").exists()


def test_other_rows_are_refused_before_the_attack(saved, no_attack):
    X, y = table()
    with pytest.raises(Mismatch, match=r"not its training rows: .*counts differ"):
        treeleak.harden(saved / "m.skops", saved / "out.skops", X=X, y=1 - y)
    assert not (saved / "out.skops").exists()


def test_rows_of_a_model_without_an_attack_are_asked_for_in_the_columns_of_its_trees(tmp_path):
    X, y = table()
    model = make_pipeline(steps(), OneVsOneClassifier(DecisionTreeClassifier())).fit(X, y)
    skops.io.dump(model, tmp_path / "m.skops")
    with pytest.raises(BadInput, match=r"not all values are numbers.*pipe\[:-1\]") as error:
        treeleak.harden(tmp_path / "m.skops", tmp_path / "out.skops", X=X, y=y)
    assert "cook" not in str(error.value)


def test_a_model_that_is_no_file_is_to_be_saved_first(pipe, tmp_path):
    with pytest.raises(BadInput, match=r"Save it first: skops\.io\.dump"):
        treeleak.harden(pipe, tmp_path / "out.skops")
