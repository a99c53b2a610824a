"""Rows whose columns or categories are written in another way than the model's."""

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from treeleak.core.errors import Mismatch
from treeleak.release import to_release
from treeleak.release.check_schema import coded
from treeleak.release.pipeline.through import put_through
from treeleak.verification.columns import columns_by_name, in_model_columns

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {"city": RNG.choice(["New Delhi", "Rome", "Oslo"], 40), "age": RNG.integers(20, 60, 40)}
)
LABELS = RNG.integers(0, 2, 40)
FOREST = RandomForestClassifier(3, bootstrap=False, random_state=0)


def file_of(model, tmp_path):
    joblib.dump(model, tmp_path / "model.joblib")
    return to_release(tmp_path / "model.joblib", trust_pickle=True)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("encoder", [OneHotEncoder(handle_unknown="ignore"), OneHotEncoder(),
                                     OrdinalEncoder()])  # fmt: skip
def test_control_rows_of_unseen_categories_are_taken_and_counted(encoder, stored, tmp_path):
    steps = make_column_transformer((encoder, ["city"]), remainder="passthrough")
    model = make_pipeline(steps, FOREST).fit(TABLE, LABELS)
    release = file_of(model, tmp_path) if stored else to_release(model)
    others = TABLE.assign(city=["Lima", "Lima", "Bern", *TABLE["city"][3:]])
    X, _, notes = in_model_columns(release, others, what="control rows", unseen=True)
    assert len(X) == len(others)
    assert any("3 of the control rows have a category" in note for note in notes)
    known = in_model_columns(release, TABLE)[0]
    assert X[3:].equals(known[3:])
    assert not (X[:3].iloc[:, :1] == known["remainder__age"][0]).any(axis=None)
    if getattr(encoder, "handle_unknown", "") != "ignore" or stored:
        with pytest.raises(Mismatch):
            in_model_columns(release, others)


@pytest.mark.parametrize("stored", [False, True])
def test_a_pipeline_without_names_takes_columns_in_order(stored, tmp_path):
    numbers = TABLE.assign(city=pd.factorize(TABLE["city"])[0])
    model = make_pipeline(StandardScaler(), FOREST).fit(numbers.to_numpy(float), LABELS)
    release = file_of(model, tmp_path) if stored else to_release(model)
    X, notes = put_through(release, numbers)
    assert np.allclose(X.to_numpy(float), model[:-1].transform(numbers.to_numpy(float)))
    assert any("taken in order" in note for note in notes)
    with pytest.raises(Mismatch):
        in_model_columns(release, numbers.assign(more=1))


@pytest.mark.parametrize("sign", ["_", ".", "-", "__", " (", "/"])
def test_names_that_differ_in_signs_are_matched(sign):
    names = ("City_New_Delhi", "City_Rome", "age")
    given = pd.DataFrame(np.eye(3), columns=[f"City_New{sign}Delhi", "City_Rome", "age"])
    table, notes = columns_by_name(names, given)
    assert list(table) == list(names)
    assert (table.to_numpy() == np.eye(3)).all()
    assert sign == "_" or any("other signs" in note for note in notes)


def test_names_that_could_be_two_columns_are_not_matched():
    given = pd.DataFrame(np.eye(3), columns=["a b", "a-b", "c"])
    with pytest.raises(Mismatch):
        columns_by_name(("a_b", "c"), given)
    with pytest.raises(Mismatch):
        columns_by_name(("a.b", "a_b", "c"), pd.DataFrame(np.eye(2), columns=["a b", "c"]))


@pytest.mark.parametrize(
    ("given", "levels", "codes"),
    [
        ([3, 4, 6, 8], ("3", "4", "6", "8"), [0, 1, 2, 3]),
        ([8.0, 3.0, np.nan], ("3", "4", "6", "8"), [3, 0, np.nan]),
        ([8, 3], ("3.0", "8.0"), [1, 0]),
        ([True, False], ("False", "True"), [1, 0]),
        ([1, 2], ("1", "2"), [0, 1]),
        ([0, 1], ("1", "2"), [0, 1]),  # Codes: no text names 0.
        ([0, 2], ("a", "b", "c"), [0, 2]),
        (["b", "z"], ("a", "b"), [1, "z"]),
    ],
)
def test_numbers_are_the_texts_that_name_them_or_codes(given, levels, codes):
    found = coded(pd.Series(given), levels).tolist()
    assert str([float(v) if not isinstance(v, str) else v for v in found]) == str(
        [float(v) if not isinstance(v, str) else v for v in codes]
    )
