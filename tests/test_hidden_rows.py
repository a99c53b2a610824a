"""Tables hidden in a model's file: every way is found or refused, and clean models are clean."""

from __future__ import annotations

import io
import json
import pickle
import warnings
import zipfile
from inspect import signature
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import skops.io
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_matrix, save_npz
from sklearn import model_selection
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import RFE, RFECV, SelectFromModel, SelectKBest, VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler, SkewedChi2Sampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, RandomizedSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.random_projection import GaussianRandomProjection
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

import treeleak
from helpers.cli import run
from helpers.examples import examples, spread
from helpers.hidden_rows import WAYS, clean
from helpers.older import made, sklearn_since
from treeleak.auditing.findings.verdict import LEAK, NO_LEAK, OPEN, Finding, overall
from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.inventory.inventory import take_inventory
from treeleak.auditing.inventory.known_classes import known_class
from treeleak.auditing.inventory.owners import hides_bits
from treeleak.auditing.inventory.stored_rows import Table
from treeleak.core.errors import BadInput, TreeleakError
from treeleak.hardening.archive import Archive
from treeleak.hardening.steps import without_unknown
from treeleak.learn import DPForestClassifier
from treeleak.release import StoredObject, read_model, snapshot
from treeleak.release.readers.npy import odd_header, parse_npy, plain_records, write_npy
from treeleak.release.readers.skops_archive import read_value
from treeleak.release.readers.skops_layout import laid_out

MODELS = Path(__file__).parent / "models"
NAMES = [f"{way.ending}: {way.name}" for way in WAYS]
# What a transformer uses might be what predictions rest on.
NEEDED = {
    "FunctionTransformer: kw_args",
    "labels of classes",
    "categories: base64",
    "random projection",
    "model in the arguments of a partial",
}
DRAWN = {
    "projection": lambda: GaussianRandomProjection(70, random_state=0),
    "wide projection": lambda: GaussianRandomProjection(200),
    "features": lambda: RBFSampler(),
    "few features": lambda: RBFSampler(n_components=3, gamma="scale"),
    "features of chi2": lambda: SkewedChi2Sampler(),
}


def unknown(model, rows=None, n_rows=40):
    entries = take_inventory(model, Context(n_rows, drawn=True), rows)
    return [e for e in entries if e.unknown or (rows is not None and e.rows)]


# ------------------------------------------------------------------------------- hidden tables


@pytest.mark.parametrize("way", spread(WAYS, fast=26), ids=NAMES)
def test_no_way_to_hide_a_table_is_taken_for_harmless(way, tmp_path):
    model, X, _, _ = clean()
    path = tmp_path / f"model.{way.ending}"
    way.hide(model, X, path)
    try:
        stored = read_model(path, trust_pickle=True)
    except TreeleakError:
        return
    assert unknown(stored)
    assert unknown(stored, X)


@pytest.mark.parametrize(
    "way", spread((w for w in WAYS if w.ending == "skops"), fast=12), ids=lambda way: way.name
)  # fmt: skip
@pytest.mark.filterwarnings(
    "ignore:Trying to unpickle", "ignore:X has feature names", "ignore:X does not have"
)
def test_hardening_drops_what_no_rule_knows(way, tmp_path):
    model, X, _, _ = clean()
    expected = model.predict(X)
    path, out = tmp_path / "model.skops", tmp_path / "out.skops"
    way.hide(model, X, path)
    try:
        archive = Archive.read(path)
    except TreeleakError:
        return
    hardened = without_unknown(archive)
    out.write_bytes(hardened.to_bytes())
    left = unknown(read_model(out), X)
    if way.name in NEEDED:
        assert left
        with pytest.raises((BadInput, TreeleakError)):
            treeleak.harden(path, tmp_path / "no.skops", "unknown", time_limit=1)
        assert not (tmp_path / "no.skops").exists()
        return
    assert not left
    again = skops.io.load(out, trusted=skops.io.get_untrusted_types(file=out))
    assert (again.predict(X.to_numpy()) == expected).all()
    assert without_unknown(Archive.read(out)).to_bytes() == out.read_bytes()


@pytest.mark.parametrize("name", DRAWN)
def test_what_was_drawn_is_known_by_its_law(name):
    _, X, _, _ = clean()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = DRAWN[name]().fit(X)
    model = snapshot(make_pipeline(step, DecisionTreeClassifier(max_depth=1)))
    assert not [e for e in unknown(model) if e.unknown or e.held]


@pytest.mark.parametrize("value", [np.nan, -np.nan, np.float32("nan"), 0.0, np.inf])
def test_usual_numbers_hide_no_bits(value):
    assert not hides_bits(np.array([value, 1]))
    assert not hides_bits(np.zeros(1) / np.float64(1))


FOUND_IN_ROWS = [
    "attribute: list of lists", "attribute: text of a CSV file", "attribute: bytes",
    "attribute: dictionary of truth values", "FunctionTransformer: kw_args", "extra member",
    "extra key of the description", "bytes behind the archive",
]  # fmt: skip


@pytest.mark.parametrize("name", FOUND_IN_ROWS)
@pytest.mark.slow
def test_training_rows_are_recognised_in_what_is_unknown(name, tmp_path):
    model, X, y, schema = clean()
    path = tmp_path / "model.skops"
    next(w for w in WAYS if w.name == name).hide(model, X, path)
    audit = treeleak.audit(path, X, y, schema=schema, time_limit=2)
    assert audit.verdict == LEAK
    assert any(e.rows for e in audit.inventory)
    # Other rows of the same columns are not called these ones.
    others = treeleak.datasets.load_compas().X.drop(X.index).sample(40, random_state=5)
    assert not any(e.rows for e in take_inventory(read_model(path), Context(40), 7 * others + 3))


def test_what_stands_beside_the_parts_of_a_sparse_matrix_is_left_over(tmp_path):
    path, data = tmp_path / "matrix.skops", io.BytesIO()
    matrix = csr_matrix(np.eye(3))
    skops.io.dump(matrix, path)
    assert read_value(path)[1] == ()
    save_npz(data, matrix)
    with zipfile.ZipFile(data, "a") as inner:
        inner.comment = b"age,income"
    with zipfile.ZipFile(path) as archive:
        members = {i: archive.read(i) for i in archive.infolist()}
    with zipfile.ZipFile(path, "w") as archive:
        for info, content in members.items():
            archive.writestr(info, data.getvalue() if info.filename.endswith("npz") else content)
    (left,) = read_value(path)[1]
    assert left.content == b"age,income"


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gate")
    (folder / "policy.toml").write_text('name = "Gate"\n[limits]\nstored_rows = 0\n')
    _, X, y, schema = clean()
    (folder / "schema.toml").write_text(schema.to_toml())
    X.assign(label=y).to_csv(folder / "train.csv", index=False)

    def status(path, *more):
        asked = ["--policy", folder / "policy.toml", "--schema", folder / "schema.toml", *more]
        return run("audit", path, *asked).exit_code

    return folder, status


@pytest.mark.parametrize("name", ["attribute: list of lists", "comment of a member"])
def test_the_gate_closes_on_a_hidden_table(gate, name):
    folder, status = gate
    model, X, _, _ = clean()
    path = folder / "hidden.skops"
    next(w for w in WAYS if w.name == name).hide(model, X, path)
    assert status(path) == 4


def test_the_gate_lets_a_clean_model_pass(gate):
    folder, status = gate
    path = folder / "clean.skops"
    skops.io.dump(clean()[0], path)
    assert status(path) == 0


def test_no_leak_is_not_said_while_something_is_unknown():
    no_leak, leak = Finding("reconstruction", NO_LEAK, ()), Finding("reconstruction", LEAK, ())
    open_ = Finding("inventory", OPEN, ())
    assert overall([no_leak]) == NO_LEAK
    assert overall([Finding("membership", NO_LEAK, ())]) == NO_LEAK
    assert overall([Finding("membership", LEAK, ())]) == LEAK
    assert overall([no_leak, open_]) == OPEN
    assert overall([no_leak, open_, leak]) == LEAK
    assert overall([no_leak, Finding("uncertainty", OPEN, ())]) == NO_LEAK


# ------------------------------------------------------------------------------- clean models

FEW = {"n_estimators": 3, "random_state": 0}


def table(n=60):
    rng = np.random.default_rng(0)
    numbers = pd.DataFrame(rng.normal(size=(n, 3)).round(2), columns=["height", "age", "income"])
    numbers.loc[::9, "age"] = np.nan
    words = {"ward": rng.choice(["north", "south", "east"], n), "sex": rng.choice(["m", "f"], n)}
    return numbers.assign(**words), np.where(numbers.height > 0, "yes", "no")


def encoded(**more):
    numeric = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    words = OneHotEncoder(min_frequency=5, handle_unknown="infrequent_if_exist")
    return ColumnTransformer(
        [("n", numeric, ["height", "age", "income"]), ("w", words, ["ward", "sex"])], **more
    )


TREE = DecisionTreeClassifier(max_depth=3, random_state=0)
FOREST = RandomForestClassifier(**FEW)
ON_NUMBERS = [
    TREE, ExtraTreeClassifier(random_state=0), FOREST, ExtraTreesClassifier(**FEW),
    RandomForestClassifier(40, oob_score=True, class_weight="balanced", random_state=0),
    RandomForestClassifier(3, random_state=np.random.RandomState(3), max_samples=0.5),
    made(RandomForestClassifier, max_features=0.5, monotonic_cst=[1, 0, -1], **FEW),
    BaggingClassifier(max_features=0.5, **FEW),
    BaggingClassifier(make_pipeline(PCA(), TREE), **FEW),
    AdaBoostClassifier(**FEW), GradientBoostingClassifier(subsample=0.5, **FEW),
    GradientBoostingClassifier(n_iter_no_change=2, **FEW),
    HistGradientBoostingClassifier(max_iter=3, early_stopping=True), IsolationForest(),
    GridSearchCV(TREE, {"max_depth": [1, 2], "class_weight": [None, "balanced"]}, cv=2),
    GridSearchCV(TREE, {"ccp_alpha": np.logspace(-4, 0, 60), "max_depth": [None, 9, 5, 2]}, cv=2),
    RandomizedSearchCV(
        TREE, {"max_depth": [*range(1, 40)], "min_samples_leaf": range(1, 50)}, n_iter=40, cv=2
    ),
    HalvingGridSearchCV(TREE, {"max_depth": [1, 2, 3, None]}, cv=2, random_state=0),
    RFECV(TREE, cv=2), RFECV(TREE, cv=3, step=2),
    *([model_selection.TunedThresholdClassifierCV(TREE, cv=2)] if sklearn_since(5) else []),
    CalibratedClassifierCV(TREE, cv=2), CalibratedClassifierCV(TREE, cv=2, method="isotonic"),
    VotingClassifier([("a", TREE), ("b", FOREST)]),
    StackingClassifier([("a", TREE), ("b", FOREST)], cv=2),
    *(
        make_pipeline(step, TREE)
        for step in (
            MinMaxScaler(), RobustScaler(), PowerTransformer(), QuantileTransformer(n_quantiles=9),
            KBinsDiscretizer(3), PolynomialFeatures(), SelectKBest(k=2), VarianceThreshold(),
            SelectFromModel(FOREST), RFE(TREE), PCA(2), FunctionTransformer(np.abs),
            FeatureUnion([("a", PCA(2)), ("b", StandardScaler())]), LogisticRegression()
        )
        if hasattr(step, "transform")
    ),
]  # fmt: skip
ON_TABLE = [
    make_pipeline(encoded(), FOREST),
    make_pipeline(encoded(remainder="passthrough", sparse_threshold=0), TREE),
    make_pipeline(encoded(verbose_feature_names_out=False), SelectKBest(k=3), FOREST),
]
ON_WORDS = [
    make_pipeline(step, TREE)
    for step in (
        OneHotEncoder(drop="first"), OneHotEncoder(sparse_output=False),
        OrdinalEncoder(categories=[["south", "north", "east"], ["m", "f"]]), TargetEncoder(),
        make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()),
    )
]  # fmt: skip


def short(model):
    return "".join(str(model).split())[:60]


@pytest.mark.parametrize("model", spread([*ON_NUMBERS, *ON_TABLE, *ON_WORDS], fast=13), ids=short)
def test_nothing_in_a_clean_model_is_unknown(model, tmp_path):
    X, y = table()
    if model in ON_NUMBERS:
        X = X[["height", "age", "income"]].fillna(0)
    elif model in ON_WORDS:
        X = X[["ward", "sex"]]
    model.fit(X, y)
    assert unknown(snapshot(model), X, len(X)) == []
    skops.io.dump(model, tmp_path / "model.skops", compression=zipfile.ZIP_DEFLATED)
    assert unknown(read_model(tmp_path / "model.skops"), X, len(X)) == []


def _grid_of_rows(search, rows):
    search.param_grid = [{f"p{k}": [v] for k, v in enumerate(row)} for row in rows]


def _grid_of_columns(search, rows):
    search.param_grid = {f"p{k}": column.tolist() for k, column in enumerate(rows.T)}


def _grid_of_nested_rows(search, rows):
    search.param_grid = {"p": [tuple(row) for row in rows.tolist()]}


def _depths_of_rows(model, rows):
    one = np.resize(rows.ravel(), len(model._decision_path_lengths[0])).astype(int)
    model._decision_path_lengths = (one, *model._decision_path_lengths[1:])


def _lengths_of_rows(model, rows):
    one = np.resize(rows.ravel().astype(float), len(model._average_path_length_per_tree[0]))
    model._average_path_length_per_tree = (one, *model._average_path_length_per_tree[1:])


def _rankings_of_rows(model, rows):
    if "split0_ranking" not in model.cv_results_:
        pytest.skip("this scikit-learn stores no rankings")
    ranks = model.cv_results_["split0_ranking"]
    model.cv_results_["split0_ranking"] = np.resize(rows.astype(int), ranks.shape)


def _supports_of_rows(model, rows):
    model.cv_results_["split7_support"] = rows > 0


@pytest.mark.parametrize(
    ("model", "hide"),
    [
        *((GridSearchCV(TREE, {"max_depth": [1, 2]}, cv=2), f)
          for f in (_grid_of_rows, _grid_of_columns, _grid_of_nested_rows)),
        *((IsolationForest(n_estimators=3), f) for f in (_depths_of_rows, _lengths_of_rows)),
        *((RFECV(TREE, cv=2), f) for f in (_rankings_of_rows, _supports_of_rows)),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)  # fmt: skip
def test_rows_in_what_a_search_or_a_forest_repeats_are_unknown(model, hide):
    X, y = table()
    X = X[["height", "age", "income"]].fillna(0)
    model.fit(X, y)
    hide(model, X.to_numpy())
    assert unknown(snapshot(model))


def test_nothing_in_models_of_several_targets_or_other_learners_is_unknown():
    numbers = table()[0][["height", "age", "income"]].fillna(0)
    bits = (numbers[["height", "income"]] > 0).astype(int)
    both = np.column_stack([bits.to_numpy(), bits.to_numpy()[:, :1]])
    for model in (RandomForestClassifier(**FEW), MultiOutputClassifier(TREE)):
        assert unknown(snapshot(model.fit(numbers, both)), numbers) == []
    assert unknown(snapshot(RandomForestRegressor(**FEW).fit(numbers, bits.height))) == []
    data = treeleak.datasets.load_compas()
    rows, labels = data.X[:60], data.y[:60]
    private = DPForestClassifier(3, max_depth=3, epsilon=1.0, classes=[0, 1], schema=data.schema)
    assert unknown(snapshot(private.fit(rows.iloc[:, :14], labels)), rows) == []


@pytest.mark.parametrize(
    "path",
    spread(
        sorted(p for p in MODELS.glob("[0-9]*/*") if p.suffix in {".skops", ".pkl", ".joblib"}),
        fast=18,
    ),
    ids=lambda p: f"{p.parent.name}-{p.name}",
)
def test_nothing_in_a_file_of_any_version_is_unknown(path):
    assert unknown(read_model(path, trust_pickle=True), n_rows=60) == []


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_nothing_in_a_pickle_is_left_over(protocol, tmp_path):
    X, y = table()
    model = make_pipeline(encoded(), RandomForestClassifier(**FEW)).fit(X, y)
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps(model, protocol=protocol))
    assert unknown(read_model(path, trust_pickle=True)) == []


def test_every_estimator_that_is_installed_is_in_the_table():
    for cls in (DecisionTreeClassifier, RandomForestClassifier, OneHotEncoder, GridSearchCV):
        known = known_class(f"{cls.__module__}.{cls.__name__}")
        assert set(signature(cls).parameters) <= known.parameters
    assert known_class("evil.sklearn.DecisionTreeClassifier") is None
    assert known_class("sklearn.evil." + "x" * 200) is None
    assert not known_class("sklearn.tree._classes.DecisionTreeClassifier").holds("mean_")


# --------------------------------------------------------------------------- hostile values

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary()
    | hnp.arrays(st.sampled_from(["f8", "i4", "U3", "?"]), hnp.array_shapes(max_side=3)),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    | st.builds(StoredObject, st.just("sklearn.tree._tree.Tree"), st.dictionaries(
        st.sampled_from(["nodes", "values", "node_count", "threshold"]), inner, max_size=3)),
    max_leaves=6,
)  # fmt: skip
ATTRIBUTES = st.sampled_from(
    [
        "mean_", "classes_", "n_classes_", "n_features_in_", "feature_names_in_", "categories_",
        "cv_results_", "random_state", "estimators_", "tree_", "oob_score_", "coef_", "bins",
        "bin_edges_", "_sklearn_version", "n_estimators", "whatever", "hidden_layer_sizes",
    ]
)  # fmt: skip


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@pytest.mark.slow
@examples(100, fast=10)
@given(JSON)
def test_descriptions_are_laid_out_as_python_lays_them_out(document):
    assert laid_out(document) == json.dumps(document, indent=2)


@examples(60, fast=8)
@given(
    st.sampled_from(["RandomForestClassifier", "MLPClassifier", "OneHotEncoder", "GridSearchCV"]),
    st.dictionaries(ATTRIBUTES, VALUES, max_size=5),
)
def test_whatever_stands_in_a_file_is_judged_without_an_error(name, state):
    entries = take_inventory(StoredObject(f"sklearn.x.{name}", state), Context(3), np.eye(3))
    if "whatever" in state:
        assert any(e.unknown or e.rows for e in entries)


@examples(40, fast=5)
@given(
    hnp.arrays(
        np.int64, st.tuples(st.integers(12, 20), st.integers(3, 6)), elements=st.integers(0, 99)
    ),
    st.sampled_from(["lists", "csv", "f8", "f4", "i4", "u1", "columns", "records", "object"]),
    st.binary(max_size=7),
)
def test_rows_are_found_in_whatever_way_they_are_written(rows, form, before):
    # A table of fewer different rows than this may stand anywhere by chance.
    if len(np.unique(rows, axis=0)) < 8 or len(np.unique(rows)) < 5:
        return
    frame = pd.DataFrame(rows)
    written = {
        "lists": rows.tolist(),
        "csv": frame.to_csv(),
        "columns": frame.to_dict("list"),
        "records": frame.to_dict("records"),
        "object": rows.astype(object),
    }
    if form not in written:
        written[form] = before + rows.astype(form).tobytes()
    assert Table.of(frame).stands_in(written[form])


def test_noise_is_not_taken_for_rows():
    rng = np.random.default_rng(0)
    for n, d, high in ((60, 3, 2), (60, 14, 2), (100, 6, 10)):
        rows, others = rng.integers(0, high, (n, d)), rng.integers(0, high, (n, d))
        assert not Table.of(rows).stands_in(others)
        assert not Table.of(rows).stands_in(np.zeros(1000))
    assert not Table.of(pd.DataFrame({"a": ["x", "y"] * 5, "b": ["u", "v"] * 5})).stands_in(
        "x and v"
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_shape_of_trees_is_not_taken_for_rows(seed):
    """Boosted files hold thousands of small whole numbers, as tables of codes do."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, (2, 3, 9, 2, 5), (80, 5)), columns=list("abcde"))
    trees = [rng.integers(0, 5, 40).tolist() for _ in range(60)]
    parents = [sorted(rng.integers(0, 20, 40).tolist()) for _ in range(60)]
    settings = {f"setting {k}": str(rng.integers(0, 2)) for k in range(200)}
    table = Table.of(X)
    assert not any(table.stands_in(own) for own in (*trees, *parents, trees, parents, settings))
    shuffled = X.sample(frac=1, random_state=seed)
    assert table.stands_in(shuffled.to_numpy().tolist())
    assert table.stands_in(X.to_numpy().tolist())


# --------------------------------------------------------------------------- bytes of an archive


@examples(40, fast=5)
@given(st.floats(0, 1), st.binary(min_size=8, max_size=40))
def test_every_byte_that_is_put_into_an_archive_is_noticed(tmp_path_factory, at, added):
    content = skops.io.dumps(DecisionTreeClassifier(max_depth=1).fit([[0], [1]], [0, 1]))
    path = tmp_path_factory.mktemp("archive") / "model.skops"
    cut = round(at * len(content))
    path.write_bytes(content[:cut] + added + content[cut:])
    try:
        stored = read_model(path)
    except TreeleakError:
        return
    assert stored.leftovers


def test_records_are_written_without_what_was_in_memory():
    aligned = np.dtype({"names": ["a", "b"], "formats": ["i8", "u1"], "itemsize": 16})
    raw = np.full(160, 255, np.uint8)
    records = raw.view(aligned)
    plain = plain_records(records)
    assert (plain["a"] == records["a"]).all()
    assert (plain["b"] == records["b"]).all()
    assert not plain.view(np.uint8).reshape(-1, 16)[:, 9:].any()
    content = write_npy(records)
    assert not odd_header(content, parse_npy(content, "x"))
    assert parse_npy(content, "x").tobytes() == plain.tobytes()
