"""Column names from stored steps, against scikit-learn's own get_feature_names_out."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier

from helpers.older import made, needs_sklearn, sklearn_since
from treeleak.release import StoredObject, to_release
from treeleak.release.pipeline.columns import Columns, UnknownStep
from treeleak.release.pipeline.names import output_columns

rng = np.random.default_rng(5)
N = 60
TABLE = pd.DataFrame(
    {
        "job": rng.choice(["cook", "judge", "smith"], N),
        "ward": rng.choice(["a", "b", "c", "d"], N, p=[0.5, 0.4, 0.05, 0.05]),
        "age": rng.integers(18, 90, N).astype(float),
        "bmi": rng.normal(25, 4, N),
        "flag": rng.integers(0, 2, N),
    }
)
GAPS = TABLE[["age", "bmi", "flag"]].astype(float)
GAPS.loc[::4, "bmi"] = np.nan
GAPS["void"] = np.nan
Y = np.array(["no", "yes"])[(TABLE["age"] > 50).astype(int)]
NUMBERS = ["age", "bmi"]
WORDS = ["job", "ward"]


def columns(*steps, **options):
    return ColumnTransformer(list(steps), **options)


STEPS = {
    "scalers": (
        make_pipeline(
            StandardScaler(), MinMaxScaler(), RobustScaler(), MaxAbsScaler(), "passthrough"
        ),
        TABLE[NUMBERS],
    ),
    "imputer": (SimpleImputer(), GAPS),
    "imputer with indicator": (SimpleImputer(add_indicator=True), GAPS),
    "one-hot": (OneHotEncoder(), TABLE[WORDS]),
    "one-hot drop first": (OneHotEncoder(drop="first", sparse_output=False), TABLE[WORDS]),
    "one-hot drop binary": (OneHotEncoder(drop="if_binary"), TABLE[["job", "flag"]]),
    "one-hot infrequent": (
        OneHotEncoder(min_frequency=8, handle_unknown="infrequent_if_exist"),
        TABLE[WORDS],
    ),
    "ordinal": (OrdinalEncoder(), TABLE[WORDS]),
    "bins": (made(KBinsDiscretizer, 4, quantile_method="averaged_inverted_cdf"), TABLE[NUMBERS]),
    "columns": (
        columns(("words", OneHotEncoder(), WORDS), ("numbers", StandardScaler(), NUMBERS)),
        TABLE,
    ),
    "columns without prefix": (
        columns(
            ("words", OneHotEncoder(), WORDS),
            ("gone", "drop", ["flag"]),
            ("empty", StandardScaler(), []),
            remainder="passthrough",
            verbose_feature_names_out=False,
        ),
        TABLE,
    ),
    "columns with a pattern": (
        columns(
            ("words", OneHotEncoder(), WORDS),
            verbose_feature_names_out="{feature_name}<{transformer_name}>",
        ),
        TABLE,
    ),
    "columns in another order": (
        columns(("back", StandardScaler(), ["flag", "age"]), ("mid", "passthrough", [3])),
        TABLE,
    ),
    "columns by slice, mask and selector": (
        columns(
            ("slice", MinMaxScaler(), slice(2, 4)),
            ("mask", "passthrough", [False, False, False, False, True]),
            ("chosen", OneHotEncoder(), make_column_selector(dtype_exclude=np.number)),
        ),
        TABLE,
    ),
    "nested": (
        columns(
            ("num", make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), ["bmi"]),
            (
                "rest",
                make_pipeline(
                    SimpleImputer(),
                    made(KBinsDiscretizer, 3, quantile_method="averaged_inverted_cdf"),
                ),
                ["age", "flag"],
            ),
        ),
        GAPS,
    ),
    "identity": (
        columns(("same", FunctionTransformer(feature_names_out="one-to-one"), NUMBERS)),
        TABLE,
    ),
    "best": (SelectKBest(k=2), TABLE[["age", "bmi", "flag"]]),
    "varying": (VarianceThreshold(1.0), TABLE[["age", "bmi", "flag"]]),
    "union": (FeatureUnion([("a", StandardScaler()), ("b", PCA(2))]), TABLE[NUMBERS]),
}


def fitted(step, X):
    return make_pipeline(step, DecisionTreeClassifier(random_state=0)).fit(X, Y)


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.filterwarnings("ignore:Skipping features without any observed")
@pytest.mark.filterwarnings("ignore:Bins whose width are too small")
@pytest.mark.filterwarnings("ignore:Feature 1 is constant")
def test_names_are_those_of_scikit_learn(name):
    if name == "columns with a pattern":
        needs_sklearn(6, "pattern of names")
    step, X = STEPS[name]
    model = fitted(step, X)
    release = to_release(model)
    assert release.feature_names == tuple(model[:-1].get_feature_names_out())
    table = model[:-1].transform(X)
    table = np.asarray(table.toarray() if hasattr(table, "toarray") else table, dtype=float)
    at = {c: i for i, c in enumerate(release.feature_names)}
    for group in release.one_hot.values():
        assert (table[:, [at[c] for c in group]].sum(axis=1) == 1).all()


def groups(step, X=TABLE[WORDS]):
    return {len(g) for g in to_release(fitted(step, X)).one_hot.values()}


@pytest.mark.filterwarnings("ignore:Found unknown categories")
def test_columns_that_may_all_be_zero_are_no_group():
    assert groups(OneHotEncoder(drop="first")) == set()
    lists = [["cook", "judge"], ["a", "b", "c", "d"]]
    for unknown in ("ignore", *["warn"] * sklearn_since(6), "infrequent_if_exist"):
        assert groups(OneHotEncoder(categories=lists, handle_unknown=unknown)) == set()
    assert groups(OneHotEncoder(categories=[["cook", "judge", "smith"], lists[1]])) == {3, 4}
    assert groups(make_pipeline(OneHotEncoder(sparse_output=False), StandardScaler())) == set()


def test_the_names_that_a_file_can_ask_for_are_bounded():
    union = StoredObject("sklearn.pipeline.FeatureUnion", {"transformer_list": [("a", None)] * 4})
    table = Columns(["b" * 100])
    assert len(output_columns([union], table).names) == 4
    for key, value in (
        ("transformer_list", [("a" * 1000, None)] * 100_000),
        ("verbose_feature_names_out", "{transformer_name}" * 1_000_000),
        ("verbose_feature_names_out", "{feature_name}" * 1_000_000),
    ):
        changed = StoredObject(union.type, {"transformer_list": [("a" * 100, None)], key: value})
        with pytest.raises(UnknownStep, match="more than 67108864 characters"):
            output_columns([changed], table)


def test_a_group_that_loses_a_column_is_none():
    encoded = make_pipeline(OneHotEncoder(), SelectKBest(k=6))
    assert len(groups(encoded)) == 1


@pytest.mark.filterwarnings("ignore:Features .* are constant")
@pytest.mark.parametrize(
    ("step", "why"),
    [
        (PolynomialFeatures(2), "PolynomialFeatures is not known"),
        (FunctionTransformer(np.sqrt), "does not name its columns"),
        (
            columns(("a", PolynomialFeatures(2), NUMBERS), ("b", "passthrough", ["flag"])),
            "PolynomialFeatures is not known",
        ),
    ],
)
def test_an_unknown_step_gives_numbered_columns_and_a_note(step, why):
    X = TABLE[["age", "bmi", "flag"]]
    X = X if isinstance(step, ColumnTransformer) else X.to_numpy()
    release = to_release(fitted(step, X))
    assert release.feature_names == tuple(f"x{i}" for i in range(release.n_features))
    assert why in release.notes[-1]
