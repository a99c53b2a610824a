"""Hardening and training again with the rows that enter a pipeline, as their owner has them."""

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.cli import run
from helpers.patient import AMPLE
from treeleak.core.errors import BadInput, Mismatch
from treeleak.hardening import ways

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


@pytest.fixture(autouse=True)
def few_ways(instead, few_guesses):
    instead("LEAVES", (5,), ways)


@pytest.mark.parametrize("as_file", [False, True])
def test_trees_are_trained_again_on_rows_put_through_the_steps(pipe, saved, as_file):
    X, y = table()
    found = treeleak.retrain(saved / "m.skops" if as_file else pipe, X, y, time_limit=AMPLE)
    now = found.alternatives[0]
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    right = cross_val_score(pipe[-1], pipe[:-1].transform(X), y, cv=folds)
    assert now.accuracy == pytest.approx(right.mean())
    assert len(found.alternatives) > 1
    assert all(way.error is not None and way.why is None for way in found.alternatives)


def test_columns_that_do_not_enter_the_trees_are_left_out_of_training_again():
    X, y = table()
    X = pd.DataFrame({"age": X["age"].fillna(50)})
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y)
    alone, beside = (
        treeleak.retrain(model, rows, y, time_limit=AMPLE).alternatives[0]
        for rows in (X, X.assign(answer=y)[["answer", "age"]])
    )
    assert alone.accuracy == beside.accuracy


def test_a_file_is_hardened_and_measured_with_the_rows_of_its_pipeline(saved):
    X, y = table()
    found = treeleak.harden(saved / "m.skops", saved / "out.skops", X=X, y=y, time_limit=AMPLE)
    assert found.answers.of == "training rows"
    assert found.answers.rows == len(X)
    assert found.states[0].leak.measured


@pytest.mark.slow
def test_the_command_line_takes_the_rows_of_a_pipeline(saved):
    files = [str(saved / name) for name in ("m.skops", "out.skops", "train.csv")]
    arguments = ["--out", files[1], "--train", files[2], "--label", "y", "--time-limit", str(AMPLE)]
    result = run("harden", files[0], *arguments, "--quiet")
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert "at least 5 rows in a leaf" in said
    assert "not assessed" not in said.partition("at least 5 rows in a leaf")[2].split("%")[0]


def test_rows_that_cannot_be_put_through_are_refused_before_the_attack(tmp_path, no_attack):
    X, y = table()
    skops.io.dump(tree(steps(), PCA(2)).fit(X, y), tmp_path / "m.skops")
    with pytest.raises(Mismatch, match=r"pipe\[:-1\]\.transform\(X\)"):
        treeleak.harden(tmp_path / "m.skops", tmp_path / "out.skops", X=X, y=y)
    with pytest.raises(Mismatch, match=r"pipe\[:-1\]\.transform\(X\)"):
        treeleak.retrain(tmp_path / "m.skops", X, y)
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
