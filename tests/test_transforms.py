"""Rows in the columns that enter a pipeline: its fitted transformers undone."""

import json
import math
from dataclasses import replace
from importlib import resources

import numpy as np
import pandas as pd
import pytest
import skops.io
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import validate
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.cli import run
from helpers.examples import examples
from helpers.older import made
from helpers.patient import AMPLE
from treeleak.core.errors import BadInput, Mismatch, NotCovered
from treeleak.release import StoredObject, to_release
from treeleak.release.infer_schema import infer_schema, notes_from_file
from treeleak.release.live import snapshot
from treeleak.release.pipeline.inputs import Code, Indicator, Inputs, Missing, Number
from treeleak.schema import Binary, Categorical, Numeric, OneHot

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

N = 24


def table(seed=0, n=N):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "job": rng.permutation((["cook", "judge", "smith"] * n)[:n]),
            "sex": rng.permutation((["f", "m"] * n)[:n]),
            "mixed": np.array(rng.permutation(([1, 2, 7] * n)[:n]), dtype=object),
            "age": rng.integers(18, 90, n),
            "pay": rng.normal(3e4, 1e3, n),
            "constant": np.full(n, 3.5),
        }
    )


def pipeline(*steps):
    return make_pipeline(*steps, DecisionTreeClassifier(random_state=0, max_depth=2))


def fitted(step, X):
    y = np.arange(len(X)) % 2
    return pipeline(step).fit(X, y)


def transformed(model, X, release):
    out = model[:-1].transform(X)
    out = out.toarray() if hasattr(out, "toarray") else np.asarray(out, dtype=float)
    return pd.DataFrame(out, columns=release.feature_names)


def back(step, X, model=None):
    model = fitted(step, X) if model is None else model
    release = to_release(model)
    release.inputs.check()
    return release.inputs.table(transformed(model, X, release))


def assert_same(found, X):
    assert list(found.columns) == list(X.columns)
    for name in X:
        if pd.api.types.is_numeric_dtype(X[name]):
            own = X[name].to_numpy(dtype=float)
            scale = max(np.nanmax(np.abs(own), initial=0), 1.0)
            assert found[name].to_numpy(dtype=float) == pytest.approx(
                own, abs=1e-9 * scale, nan_ok=True
            )
        else:
            pairs = zip(found[name], X[name], strict=True)
            assert all(a == b or (pd.isna(a) and pd.isna(b)) for a, b in pairs)


scaler = st.sampled_from(
    [
        StandardScaler(),
        StandardScaler(with_mean=False),
        StandardScaler(with_std=False),
        MinMaxScaler(),
        MinMaxScaler((-3, 5)),
        MaxAbsScaler(),
        RobustScaler(),
        RobustScaler(with_centering=False),
        RobustScaler(with_scaling=False, unit_variance=True),
        FunctionTransformer(),
        "passthrough",
        SimpleImputer(),
    ]
)
numeric_step = st.lists(scaler, min_size=1, max_size=3).map(lambda steps: make_pipeline(*steps))
one_hot = st.sampled_from(
    [
        OneHotEncoder(),
        OneHotEncoder(drop="first"),
        OneHotEncoder(drop="if_binary"),
        OneHotEncoder(handle_unknown="ignore"),
    ]
)
word_step = st.one_of(
    one_hot,
    st.just(OrdinalEncoder()),
    one_hot.map(lambda e: make_pipeline(OrdinalEncoder(), e)),
    one_hot.map(lambda e: make_pipeline(e, MaxAbsScaler())),
    st.just(make_pipeline(OrdinalEncoder(), StandardScaler())),
    st.just(make_pipeline(OneHotEncoder(sparse_output=False), StandardScaler())),
    st.just(make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(drop="first"))),
)
WORDS, NUMBERS = ["job", "sex", "mixed"], ["age", "pay", "constant"]


@st.composite
def pipelines(draw):
    """A transformer of the whole table, its columns cut into a few parts."""
    order = draw(st.permutations(WORDS + NUMBERS))
    parts = []
    for i, name in enumerate(order):
        step = draw(word_step if name in WORDS else numeric_step)
        if name not in WORDS and draw(st.booleans()):
            continue  # The remainder.
        parts.append((f"p{i}", step, [name]))
    remainder = draw(st.sampled_from(["passthrough", StandardScaler()]))
    whole = ColumnTransformer(
        parts, remainder=remainder, sparse_threshold=draw(st.sampled_from([0.0, 1.0]))
    )
    if draw(st.booleans()) and whole.sparse_threshold == 0:
        whole = make_pipeline(whole, draw(st.sampled_from([StandardScaler(), MinMaxScaler()])))
    return whole


@given(pipelines(), st.integers(0, 10))
@examples(60)
def test_rows_come_back_as_they_went_in(step, seed):
    X = table(seed)
    assert_same(back(step, X), X)


@pytest.mark.slow
@given(pipelines())
@settings(max_examples=8, deadline=None)
def test_a_file_says_what_the_estimator_says(tmp_path_factory, step):
    X = table()
    model = fitted(step, X)
    path = tmp_path_factory.mktemp("models") / "model.skops"
    skops.io.dump(model, path)
    live, stored = to_release(model), to_release(path)
    assert stored.inputs == live.inputs
    assert_same(stored.inputs.table(transformed(model, X, live)), X)


def gaps():
    X = table()[["age", "pay"]].astype(float)
    X.loc[::4, "age"] = np.nan
    return X


def test_missing_values_come_back_where_an_indicator_tells_them():
    step = SimpleImputer(add_indicator=True)
    assert_same(back(step, gaps()), gaps())
    assert to_release(fitted(step, gaps())).inputs.notes() == ()
    assert_same(back(make_pipeline(step, StandardScaler()), gaps()), gaps())
    union = FeatureUnion([("v", SimpleImputer()), ("m", MissingIndicator())])
    assert_same(back(union, gaps()), gaps())
    coded = gaps().fillna(-1)
    told = SimpleImputer(missing_values=-1, add_indicator=True)
    assert_same(back(told, coded), coded)


@pytest.mark.parametrize("imputer", [SimpleImputer(), KNNImputer()])
def test_what_was_filled_in_is_said_to_be_unknown(imputer):
    found = back(make_pipeline(StandardScaler(), imputer), gaps())
    kept = gaps().notna()
    assert found[kept].to_numpy() == pytest.approx(gaps().to_numpy(), nan_ok=True)
    assert found.notna().all(axis=None)
    (note,) = to_release(fitted(imputer, gaps())).inputs.notes()
    assert "filled in" in note
    assert "'age', 'pay'" in note


def test_what_is_dropped_is_said_to_be_lost():
    X = table()
    step = ColumnTransformer([("n", StandardScaler(), ["age"]), ("gone", "drop", ["pay"])])
    inputs = to_release(fitted(step, X)).inputs
    assert inputs.lost == ("job", "sex", "mixed", "pay", "constant")
    assert "lost before the model saw them: 'job'" in inputs.notes()[0]
    assert_same(back(step, X), X[["age"]])


def test_missing_categories_have_values_of_their_own():
    X = pd.DataFrame({"word": ["a", None, "b", "a"] * 4, "number": [1.0, np.nan, 3.0, 1.0] * 4})
    X["word"] = X["word"].astype(object)
    for step in (OneHotEncoder(), OrdinalEncoder(), OrdinalEncoder(encoded_missing_value=-1)):
        if isinstance(step, OrdinalEncoder) and np.isnan(step.encoded_missing_value):
            assert_same(back(step, X[["number"]]), X[["number"]])
        else:
            assert_same(back(step, X), X)


@pytest.mark.filterwarnings("ignore:Features .* are constant")
@pytest.mark.parametrize(
    ("step", "columns", "why"),
    [
        (PCA(1), NUMBERS, "'pca0': PCA is not undone"),
        (PolynomialFeatures(2), NUMBERS, "PolynomialFeatures is not known"),
        (PowerTransformer(), ["age", "pay"], "PowerTransformer is not undone"),
        (Binarizer(), NUMBERS, "Binarizer is not undone"),
        (FunctionTransformer(np.sqrt, feature_names_out="one-to-one"), NUMBERS, "FunctionTransf"),
        (OneHotEncoder(min_frequency=9), ["job", "mixed"], "infrequent categories one column"),
        (OrdinalEncoder(max_categories=2), ["job"], "infrequent categories one code"),
        (
            make_pipeline(OneHotEncoder(sparse_output=False), OrdinalEncoder()),
            ["job"],
            "stands for a category already",
        ),
        (
            make_pipeline(OneHotEncoder(sparse_output=False), SimpleImputer(missing_values=0)),
            ["job"],
            "SimpleImputer fills in columns that say which category",
        ),
        (ColumnTransformer([("t", TfidfVectorizer(), "job")]), WORDS, "TfidfVectorizer is not kno"),
    ],
)
def test_a_step_that_cannot_be_undone_is_named(step, columns, why):
    X = table()[columns]
    model = fitted(step, X)
    with pytest.raises(NotCovered, match=why):
        treeleak.reconstruct(model, space="input")
    assert treeleak.reconstruct(model, time_limit=5).X is not None


def test_a_model_alone_has_no_input_of_its_own():
    model = DecisionTreeClassifier().fit(table()[NUMBERS], np.arange(N) % 2)
    with pytest.raises(NotCovered, match="no transformers"):
        treeleak.reconstruct(model, space="input")
    with pytest.raises(BadInput, match="space must be"):
        treeleak.reconstruct(model, space="inputs")


def changed(model, step, **state):
    stored = snapshot(model)
    steps = list(stored.get("steps"))
    name, old = steps[step]
    steps[step] = (name, StoredObject(old.type, {**old.state, **state}))
    return StoredObject(stored.type, {**stored.state, "steps": steps})


@pytest.mark.parametrize(
    ("step", "state"),
    [
        (StandardScaler(), {"scale_": np.zeros(2)}),
        (StandardScaler(), {"scale_": np.full(2, np.nan)}),
        (StandardScaler(), {"scale_": np.full(2, 1e-320)}),
        (StandardScaler(), {"scale_": np.full(2, 1e300)}),
        (StandardScaler(), {"mean_": np.full(2, np.inf)}),
        (StandardScaler(), {"scale_": np.ones(3)}),
        (StandardScaler(), {"scale_": np.ones((2, 2))}),
        (StandardScaler(), {"scale_": np.array(["a", "b"])}),
        (StandardScaler(), {"scale_": "ab"}),
        (StandardScaler(), {"mean_": None}),
        (MinMaxScaler(), {"scale_": np.zeros(2)}),
        (MinMaxScaler(), {"data_max_": np.array(["a", "b"])}),
        (RobustScaler(), {"center_": [1.0, 2.0]}),
        (OrdinalEncoder(), {"categories_": [np.array([[1]]), np.array([1])]}),
        (OrdinalEncoder(), {"categories_": [np.array([]), np.array([])]}),
        (OrdinalEncoder(), {"categories_": [[StoredObject("evil.Thing")], [1]]}),
        (OrdinalEncoder(), {"categories_": [[math.inf], [1]]}),
        (OrdinalEncoder(), {"categories_": [[1]]}),
        (OrdinalEncoder(), {"categories_": [[1, np.nan], [1]], "encoded_missing_value": math.inf}),
        (OneHotEncoder(), {"categories_": [[StoredObject("evil.Thing")] * 24, range(24)]}),
        (OneHotEncoder(), {"categories_": 5}),
        (OneHotEncoder(), {"drop_idx_": [math.inf, 0], "_drop_idx_after_grouping": [math.inf, 0]}),
        (
            made(KBinsDiscretizer, 2, encode="ordinal", quantile_method="averaged_inverted_cdf"),
            {"bin_edges_": [[np.nan, 1], [1]]},
        ),
    ],
)
def test_a_hostile_file_is_refused_in_words_and_costs_no_names(step, state):
    X = table()[["age", "pay"]]
    stored = changed(fitted(step, X), 0, **state)
    release = to_release(stored)
    with pytest.raises(NotCovered, match="cannot be written in the columns of the input"):
        release.inputs.check()
    if "categories_" not in state and "drop_idx_" not in state:
        assert release.feature_names == to_release(fitted(step, X)).feature_names


def test_two_columns_of_one_name_are_refused():
    stored = changed(
        fitted(StandardScaler(), table()[["age", "pay"]]),
        0,
        feature_names_in_=np.array(["a", "a"], dtype=object),
    )
    release = to_release(stored)
    with pytest.raises(NotCovered, match="columns"):
        release.inputs.check()
    with pytest.raises(NotCovered, match="two columns of the input have one name"):
        Inputs.of(("a", "a"), ("p", "q"), [Number("a"), Number("a")]).check()


# ------------------------------------------------------------------------ intervals and domains


def frame(**columns):
    return pd.DataFrame(columns)


def test_intervals_are_unscaled_and_turned_with_the_sign():
    readings = {
        "a": Number("x", 2.0, 10.0),
        "b": Number("y", -0.5, 1.0),
        "c": Code("z", codes=(0.0, 1.0, 2.0), values=(1, 3, 5), ends=((0, 2), (2, 4), (4, 6))),
        "d": Indicator("w", values=("u", "v"), at=0),
        "e": Indicator("w", values=("u", "v"), at=1),
    }
    inputs = Inputs(("x", "y", "z", "w"), readings)
    lower = frame(a=[-1.0, -np.inf], b=[-2.0, np.nan], c=[0.5, 1.5], d=[0.0, 1.0], e=[0.0, 0.0])
    upper = frame(a=[3.0, 0.0], b=[4.0, np.nan], c=[2.5, 1.6], d=[1.0, 1.0], e=[1.0, 0.0])
    low, high = inputs.bounds(lower, upper)
    assert low.to_numpy().tolist()[0][:3] == [8.0, -1.0, 2.0]
    assert high.to_numpy().tolist()[0][:3] == [16.0, 2.0, 6.0]
    assert low["x"][1] == -np.inf
    assert high["x"][1] == 10.0
    assert low.isna().to_numpy()[1].tolist() == [False, True, True, True]
    assert high.isna().to_numpy()[1].tolist() == [False, True, True, True]


def test_the_least_sure_part_says_how_sure_a_value_is():
    readings = {
        "d": Indicator("w", values=("u", "v"), at=0),
        "e": Indicator("w", values=("u", "v"), at=1),
        "m": Missing("w"),
        "n": Number("x"),
    }
    inputs = Inputs(("w", "x"), readings)
    sure = frame(d=[1.0, 0.5], e=[0.75, 1.0], m=[1.0, 0.25], n=[0.5, 0.125])
    assert inputs.least(sure).to_numpy().tolist() == [[0.75, 0.5], [0.25, 0.125]]
    known = inputs.least(sure == 1)
    assert known.to_numpy().tolist() == [[False, False], [False, False]]
    assert known.dtypes.tolist() == [bool, bool]
    assert inputs.holding(["d", "e"]) == ()
    assert inputs.holding(["d", "e", "m", "n"]) == ("w", "x")


def attributes(step, columns, X=None):
    X = table() if X is None else X
    release = to_release(fitted(step, X[columns]))
    schema = infer_schema(release)
    return list(schema.attributes), notes_from_file(schema, release, rows=True)


def test_encoders_tell_their_groups_and_codes():
    (group,), notes = attributes(OneHotEncoder(drop="first"), ["job"])
    assert group == OneHot("job", ("job_judge", "job_smith"), at_most_one=True)
    assert notes == ["from the fitted transformers before the model: one-hot groups (1)"]
    (group,), _ = attributes(OneHotEncoder(), ["job"])
    assert group == OneHot("job", ("job_cook", "job_judge", "job_smith"))
    # What is left of two categories is a binary column.
    assert attributes(OneHotEncoder(drop="if_binary"), ["sex"]) == ([Binary("sex_m")], [])
    (codes,), notes = attributes(OrdinalEncoder(), ["job"])
    assert codes == Categorical("job", (0.0, 1.0, 2.0), ("cook", "judge", "smith"))
    assert notes == ["from the fitted transformers before the model: columns of codes (1)"]
    (codes,), _ = attributes(
        make_pipeline(OrdinalEncoder(), SimpleImputer(strategy="most_frequent")), ["job"]
    )
    assert isinstance(codes, Categorical)


def test_what_may_be_something_else_is_not_told():
    unknown = OrdinalEncoder(
        categories=[["cook", "judge"]], handle_unknown="use_encoded_value", unknown_value=-1
    )
    mean = make_pipeline(OrdinalEncoder(), SimpleImputer())
    # The mean of the codes 0, 1, 2, each as frequent, is a code; that of 0, 0, 1, 2 is none.
    words = table()[["job"]].iloc[[*range(N), 0, 1, 2, 3]]
    words = words.assign(job=[*words["job"].iloc[:-4], *["cook"] * 4])
    # Scaled to and fro, a code may miss the whole number that it was.
    there_and_back = make_pipeline(OrdinalEncoder(), StandardScaler(), MinMaxScaler((0, 2)))
    assert not to_release(fitted(there_and_back, words)).inputs.readings["job"].unscaled
    assert not Number("x").scaled(0.5, 0.0).scaled(2.0, 0.0).unscaled
    for step in (unknown, mean, make_pipeline(OrdinalEncoder(), StandardScaler())):
        (column,), notes = attributes(step, ["job"], words)
        assert not isinstance(column, Categorical)
        assert notes == []
    (codes,), _ = attributes(mean, ["job"])
    assert isinstance(codes, Categorical)


def test_scalers_tell_the_ends_of_numbers():
    X = table()[["pay", "age"]]
    for step, low, high in (
        (MinMaxScaler((-2, 3)), -2, 3),
        (MaxAbsScaler(), -1, 1),
        (make_pipeline(MinMaxScaler(), FunctionTransformer()), 0, 1),
    ):
        found, notes = attributes(step, ["pay", "age"])
        assert notes == ["from the fitted transformers before the model: ranges of numbers (2)"]
        release = to_release(fitted(step, X))
        rows = transformed(fitted(step, X), X, release)
        assert infer_schema(release).valid(rows, release.feature_names).all()
        for column in found:
            assert column.bounds == pytest.approx((low, high), abs=1e-6)
    filled = gaps().assign(age=lambda t: t["age"].fillna(-100))
    step = make_pipeline(
        SimpleImputer(missing_values=-100, strategy="constant", fill_value=500), MinMaxScaler()
    )
    both = make_pipeline(
        MinMaxScaler(), SimpleImputer(strategy="constant", fill_value=7), RobustScaler()
    )
    for X, steps in ((filled, step), (gaps(), both)):
        model = fitted(steps, X)
        release = to_release(model)
        rows = transformed(model, X, release)
        schema = infer_schema(release)
        assert schema.valid(rows, release.feature_names).all()
        assert np.isfinite(schema.attributes[0].bounds).all()


def test_what_a_threshold_or_a_row_speaks_against_is_not_believed():
    model = fitted(MinMaxScaler(), table()[["pay"]])
    release = to_release(model)
    cut = release.thresholds[0][0]
    narrow = replace(release.inputs.readings["pay"], high=float(cut * 3e3 + 1e4))
    lying = replace(release, inputs=Inputs(("pay",), {"pay": replace(narrow, factor=1e9)}))
    assert infer_schema(lying).attributes == (Numeric("pay"),)
    other = pd.DataFrame({"pay": [0.25, 4.5]})
    assert infer_schema(release, other).attributes[0].high >= 4.5
    words = to_release(fitted(OneHotEncoder(drop="first"), table()[["job"]]))
    two = pd.DataFrame([[1, 1]], columns=list(words.feature_names))
    assert not any(isinstance(a, OneHot) for a in infer_schema(words, two).attributes)


# ------------------------------------------------------------------------------- the main road


def people(n=14, seed=3):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "job": rng.choice(["cook", "judge", "smith"], n),
            "age": rng.choice([20, 40, 60], n),
            "id": np.arange(n),
        }
    )
    return X, ((X["job"] == "cook") ^ (X["age"] > 30)).map({True: "yes", False: "no"})


def forest(X, y, n_estimators=20, **options):
    step = ColumnTransformer(
        [("job", OneHotEncoder(**options), ["job"]), ("age", StandardScaler(), ["age"])]
    )
    model = RandomForestClassifier(n_estimators, bootstrap=False, random_state=0)
    return make_pipeline(step, model).fit(X, y)


@pytest.mark.parametrize("options", [{}, {"drop": "first"}])
def test_rows_are_rebuilt_in_the_units_of_the_user(options):
    X, y = people()
    model = forest(X, y, **options)
    plain = treeleak.reconstruct(model, time_limit=AMPLE)
    found = treeleak.reconstruct(model, time_limit=AMPLE, space="input")
    assert (plain.space, found.space) == ("model", "input")
    assert list(found.X.columns) == ["job", "age"]
    assert found.confidence.columns.equals(found.X.columns)
    assert found.confidence.shape == found.X.shape
    assert found.interval_columns == ("age",)
    assert found.free_columns == ()
    assert any("lost before the model saw them: 'id'" in n for n in found.notes)
    assert any("one-hot groups" in n for n in plain.notes)
    inputs = to_release(model).inputs
    assert_same(inputs.table(plain.X), found.X)

    def rows(table, labels):
        # The three ages lie in three intervals.
        age = np.select([table["age"] < 30, table["age"] < 50], [20, 40], 60)
        return sorted(zip(table["job"], age, labels, strict=True))

    assert rows(found.X, found.y) == rows(X, y)
    assert (found.lower["age"] <= found.X["age"]).all()
    assert (found.upper["age"] >= found.X["age"]).all()
    assert set(np.round(found.upper["age"][found.X["age"] < 30], 4)) == {30.0}
    assert found.lower["job"].isna().all()
    document = json.loads(found.to_json(include_rows=True))
    assert document["space"] == "input"
    assert document["rows"]["columns"] == ["job", "age"]
    schema = json.loads(
        (resources.files("treeleak") / "formats/reconstruction.schema.json").read_text()
    )
    validate(document, schema)


@pytest.mark.slow
def test_hidden_draws_come_back_in_the_units_of_the_user():
    X, y = people(8)
    step = ColumnTransformer([("job", OrdinalEncoder(), ["job"]), ("age", MaxAbsScaler(), ["age"])])
    model = make_pipeline(step, RandomForestClassifier(4, max_depth=2, random_state=0)).fit(X, y)
    found = treeleak.reconstruct(model, time_limit=3, bootstrap="hidden", space="input")
    assert found.space == "input"
    assert set(found.X["job"]) <= {"cook", "judge", "smith"}
    assert list(found.most_likely[0].columns) == ["job", "age"]
    assert found.membership(transformed(model, X, to_release(model))).between(0, 1).all()


@pytest.mark.slow
def test_the_command_line_writes_the_columns_of_the_input(tmp_path):
    X, y = people()
    skops.io.dump(forest(X, y), tmp_path / "model.skops")
    out = tmp_path / "rows.csv"
    result = run("reconstruct", tmp_path / "model.skops", "--out", out, "--space", "input", "-q")
    assert result.exit_code == 0
    assert list(pd.read_csv(out).columns) == ["job", "age", "label"]
    result = run("reconstruct", tmp_path / "model.skops", "--out", out, "--space", "feet")
    assert result.exit_code == 2
    assert "--space must be one of model, input" in result.stderr


# ------------------------------------------------------------------------- rows of the input


def raw(n=40):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"job": rng.choice(["cook", "judge"], n), "age": rng.integers(18, 80, n)})
    return X, (X["age"] > 40).astype(int)


def encoder():
    return ColumnTransformer(
        [("job", OneHotEncoder(), ["job"]), ("age", StandardScaler(), ["age"])]
    )


def whole(*steps, **options):
    X, y = raw()
    forest = RandomForestClassifier(
        **{"n_estimators": 5, "random_state": 0, "bootstrap": False, **options}
    )
    return make_pipeline(*steps, forest).fit(X, y)


@pytest.mark.parametrize("as_file", [False, True])
@pytest.mark.slow
def test_training_rows_may_be_those_that_enter_the_pipeline(tmp_path, as_file):
    (X, y), model = raw(), whole(encoder())
    if as_file:
        skops.io.dump(model, tmp_path / "m.skops")
        model = tmp_path / "m.skops"
    found = treeleak.audit(
        model, X, y, groups=["job"], control=X[:8].assign(age=33), known_rows=X[:2].assign(y=y[:2])
    )
    assert found.mismatch is None
    assert set(found.exposure.groups["group"]) >= {"cook", "judge"}
    assert found.reconstruction.given.all(axis=1).sum() == 2


@pytest.mark.slow
def test_what_was_filled_in_is_filled_in_again():
    X, y = raw()
    X = X.astype({"age": float})
    X.loc[3:6, "age"], X.loc[:2, "job"] = np.nan, np.nan
    fill = ColumnTransformer(
        [
            (
                "job",
                make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()),
                ["job"],
            ),
            ("age", make_pipeline(SimpleImputer(), StandardScaler()), ["age"]),
        ]
    )
    model = make_pipeline(fill, DecisionTreeClassifier(random_state=0)).fit(X, y)
    assert treeleak.audit(snapshot(model), X, y).mismatch is None
    model = make_pipeline(KNNImputer(), DecisionTreeClassifier(random_state=0)).fit(X[["age"]], y)
    with pytest.raises(Mismatch):
        treeleak.audit(snapshot(model), X[["age"]], y)
    assert treeleak.audit(model, X[["age"]], y).mismatch is None


def test_a_value_that_the_encoder_does_not_know_is_named_by_its_row_alone():
    (X, y), model = raw(), whole(encoder())
    X.loc[7, "job"] = "smith"
    with pytest.raises(Mismatch, match="row 7 has a value of 'job'") as error:
        treeleak.audit(snapshot(model), X, y)
    assert "smith" not in str(error.value)


def test_a_column_of_the_input_that_is_not_there_is_named():
    (X, y), model = raw(), whole(encoder())
    for file in (model, snapshot(model)):
        with pytest.raises(Mismatch, match=r"that enter the pipeline, but lack 'age'$"):
            treeleak.audit(file, X[["job"]], y)
        with pytest.raises(Mismatch, match="did you mean 'age' by 'ages'"):
            treeleak.audit(file, X.rename(columns={"age": "ages"}), y)


def test_other_rows_are_refused_before_the_attack(no_attack):
    X, y = raw()
    for options in ({}, {"bootstrap": True}):
        with pytest.raises(Mismatch, match="counts differ"):
            treeleak.audit(whole(encoder(), **options), X, 1 - y)
    with pytest.raises(BadInput, match="on_mismatch must be"):
        treeleak.audit(whole(encoder()), X, y, on_mismatch="ignore")


def test_the_command_line_puts_rows_through_the_steps_of_a_file(tmp_path):
    X, y = raw()
    skops.io.dump(whole(encoder()), tmp_path / "m.skops")
    X.assign(y=y).to_csv(tmp_path / "train.csv", index=False)
    X[:3].assign(y=y[:3]).to_csv(tmp_path / "known.csv", index=False)
    files = [str(tmp_path / name) for name in ("m.skops", "train.csv", "known.csv")]
    result = run("audit", files[0], "--train", files[1], "--known-rows", files[2], "--label", "y")
    assert result.exit_code == 0, result.output
    assert "applied the pipeline's fitted steps" in " ".join(result.output.split())
