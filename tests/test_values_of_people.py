"""Fitted steps that hold a value of each person, by number; and ordinary ones, that do not."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import (
    GridSearchCV,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeClassifier

from treeleak.auditing.case import AuditResults
from treeleak.auditing.findings.finding import NO_LEAK, OPEN, POSSIBLE, Finding
from treeleak.auditing.findings.verdict import find, overall
from treeleak.auditing.inventory.inventory import take_inventory
from treeleak.auditing.inventory.stored_rows import Table
from treeleak.auditing.prepare import context_of
from treeleak.core.errors import NotCovered
from treeleak.core.message import Audience, static_message
from treeleak.release import snapshot, to_release
from treeleak.release.pipeline.through import put_through
from treeleak.release.registry import with_steps

pytestmark = pytest.mark.filterwarnings("ignore")

N = 100
RNG = np.random.default_rng(0)
X = pd.DataFrame(
    {
        "age": RNG.integers(18, 90, N).astype(float),
        "income": RNG.normal(50, 9, N).round(3),
        "sex": RNG.choice(["m", "f"], N),
        "city": RNG.choice(list("abcdefgh"), N),
        "code": [f"p{k:04d}" for k in RNG.permutation(N)],
        "note": [f"person {k} came by" for k in range(N)],
        "words": RNG.choice(["fever", "cough", "cold"], N),
    }
)
y = (X["age"] + RNG.normal(0, 20, N) > 50).astype(int).to_numpy()
NUMBERS = ["age", "income"]


def stump():
    return DecisionTreeClassifier(max_depth=1, min_samples_leaf=20)


def after(step, columns):
    rest = [c for c in NUMBERS if c not in columns]
    kept = ColumnTransformer([("own", step, columns), ("rest", "passthrough", rest)])
    return make_pipeline(kept, stump()).fit(X, y)


def entries(model, n_rows=N):
    stored = snapshot(model)
    try:
        release = to_release(stored)
    except NotCovered:
        release = None
    return take_inventory(stored, replace(context_of(stored, release), n_rows=n_rows))


OF_PEOPLE = {
    "one-hot": (OneHotEncoder(), ["code"]),
    "ordinal": (OrdinalEncoder(), ["sex", "code"]),
    "targets": (TargetEncoder(), ["code"]),
    "ordinal numbers": (OrdinalEncoder(), ["income"]),
    "notes": (CountVectorizer(ngram_range=(1, 4)), "note"),
    "weighted notes": (TfidfVectorizer(analyzer=lambda text: [text]), "note"),
    "quantiles": (QuantileTransformer(), ["income"]),
    "bins": (KBinsDiscretizer(60, encode="ordinal"), ["income"]),
    "centres": (KMeans(60, n_init=1), NUMBERS),
    "knots": (SplineTransformer(60, knots="quantile"), ["income"]),
}
ORDINARY = {
    "scaled": (StandardScaler(), NUMBERS),
    "one-hot": (OneHotEncoder(min_frequency=3), ["sex", "city"]),
    "ordinal": (OrdinalEncoder(), ["sex", "city"]),
    "targets": (TargetEncoder(), ["city"]),
    "imputed": (SimpleImputer(), NUMBERS),
    "bins": (KBinsDiscretizer(5), NUMBERS),
    "powers": (PowerTransformer(), NUMBERS),
    "components": (PCA(2), NUMBERS),
    "knots": (SplineTransformer(), NUMBERS),
    "quantiles": (QuantileTransformer(n_quantiles=10), NUMBERS),
    "centres": (KMeans(5, n_init=1), NUMBERS),
    "words": (CountVectorizer(), "words"),
    "hashes": (HashingVectorizer(n_features=256), "note"),
    "products": (PolynomialFeatures(9), NUMBERS),
    "random directions": (RBFSampler(n_components=90), NUMBERS),
}


@pytest.mark.parametrize("name", OF_PEOPLE)
def test_what_holds_as_many_values_as_rows_is_a_finding(name):
    found = AuditResults(inventory=entries(after(*OF_PEOPLE[name])), people=N)
    findings = find(found)
    own = next(f for f in findings if f.code == "values_of_people")
    assert own.verdict == OPEN
    # Clusters are a value of each row, in their order.
    worst = POSSIBLE if name == "centres" else OPEN
    rebuilt = Finding("reconstruction", NO_LEAK, (static_message("no"),))
    assert overall([*findings, rebuilt]) == worst
    # Nobody else reads a value of anybody.
    told = json.dumps(own.to_dict(Audience(10)))
    assert "p00" not in told
    assert "person 1" not in told


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_steps_give_no_alarm(name):
    model = after(*ORDINARY[name])
    assert [e for e in entries(model) if e.held is not None or e.unknown] == []


def test_a_column_that_is_unique_per_person_is_named_as_an_identifier():
    found = find(
        AuditResults(inventory=entries(after(OrdinalEncoder(), ["sex", "code"])), people=N)
    )
    own = next(f for f in found if f.code == "values_of_people")
    assert (
        "'code' holds a different value for each of the 100 rows: it is an identifier" in own.text
    )
    assert "'sex'" not in own.text
    assert "'code'" not in own.render_for(Audience(10))
    # Categories that were stated beforehand are not those of rows.
    stated = OrdinalEncoder(categories=[[f"p{k:04d}" for k in range(N)]])
    assert all(e.held is None or e.held.column is None for e in entries(after(stated, ["code"])))


@pytest.mark.parametrize("remainder", ["drop", "passthrough"])
@pytest.mark.parametrize(
    "chosen", [["a", "b"], [0, 1], slice(0, 2), make_column_selector(dtype_include="number")]
)
def test_columns_that_a_step_chose_are_names(chosen, remainder):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 3)), columns=list("abc"))
    step = ColumnTransformer([("scaled", StandardScaler(), chosen)], remainder=remainder)
    model = make_pipeline(step, DecisionTreeClassifier(max_depth=2)).fit(X, [0, 1] * 15)
    found = take_inventory(snapshot(model), context_of(snapshot(model), to_release(model)))
    assert {e.what for e in found if e.mark == "not assessed"} == {"shape of the trees"}


def test_more_columns_than_rows_are_no_values_of_people():
    wide = pd.DataFrame(RNG.normal(size=(30, 70)), columns=[f"c{k}" for k in range(70)])
    model = make_pipeline(SimpleImputer(), StandardScaler(), stump()).fit(wide, np.arange(30) % 2)
    assert [e for e in entries(model, 30) if e.held is not None or e.unknown] == []


# ------------------------------------------------------------------------- stored training rows


@pytest.mark.parametrize("width", [2, 3, 5])
def test_sorted_categories_are_no_stored_rows(width):
    first = RNG.integers(0, 30, 60)
    numbers = pd.DataFrame({f"c{k}": first + k for k in range(width)})
    texts = numbers.map(lambda v: f"v{v:03d}")
    for table in (numbers, texts):
        categories = [np.unique(table[c].to_numpy()) for c in table]
        assert not Table.of(table).stands_in(categories)
        assert Table.of(table).stands_in(table.to_numpy().tolist())
        assert Table.of(table).stands_in(table.to_numpy().ravel())


def test_rows_that_fit_both_columns_are_read_as_the_counts_say():
    # In either reading rows reach both leaves.
    rows = pd.DataFrame({"a": RNG.normal(0.3, 1, N)})
    scale = StandardScaler(with_std=False).set_output(transform="pandas")
    model = make_pipeline(scale, stump()).fit(rows, rows["a"] > 0.5)
    release = with_steps(to_release(snapshot(model)), model)
    read, said = put_through(release, rows)
    assert said
    assert read["a"].tolist() == model[0].transform(rows)["a"].tolist()
    assert put_through(release, read) == (read, ())


# --------------------------------------------------------------------------- nothing is unknown

FRAME = X[["age", "income"]].assign(
    city=X["city"].astype("category"), sex=X["sex"].astype("category")
)
PLAIN = X[NUMBERS]
NAMES = np.array(["no", "yes", "perhaps"])[y + (X["income"] > 50)]
GRID = {"max_depth": [1, 2]}


def forest(**options):
    return RandomForestClassifier(3, random_state=0, **options)


USUAL = {
    "out of bag": lambda: forest(oob_score=True).fit(PLAIN, y),
    "categories": lambda: HistGradientBoostingClassifier(
        max_iter=3, categorical_features="from_dtype"
    ).fit(FRAME, y),
    "callable": lambda: RandomForestRegressor(3, max_samples=0.5).fit(PLAIN, X["age"]),
    "text classes": lambda: forest(class_weight="balanced").fit(PLAIN, NAMES),
    "voting": lambda: VotingClassifier([("a", forest()), ("b", stump())]).fit(PLAIN, NAMES),
    "search": lambda: GridSearchCV(forest(), GRID, cv=2).fit(PLAIN, y),
    "generator": lambda: RandomForestClassifier(3, random_state=np.random.RandomState(1)).fit(
        PLAIN, y
    ),
}
MORE = {
    "monotonic": lambda: forest(monotonic_cst=[1, 0]).fit(PLAIN, y),
    "weights": lambda: forest().fit(PLAIN, y, sample_weight=RNG.random(N)),
    "leaves": lambda: forest(max_leaf_nodes=4, ccp_alpha=0.01, criterion="entropy").fit(PLAIN, y),
    "several outputs": lambda: forest().fit(PLAIN, np.c_[y, 1 - y]),
    "extra regressor": lambda: ExtraTreesRegressor(3, bootstrap=True, oob_score=True).fit(
        PLAIN, X["age"]
    ),
    "early": lambda: HistGradientBoostingClassifier(max_iter=9, early_stopping=True).fit(FRAME, y),
    "rounds": lambda: GradientBoostingClassifier(
        n_estimators=9, subsample=0.5, n_iter_no_change=2, random_state=0
    ).fit(PLAIN, NAMES),
    "own start": lambda: GradientBoostingClassifier(n_estimators=3, init=stump()).fit(PLAIN, y),
    "bagging": lambda: BaggingClassifier(
        stump(), 3, max_features=0.5, bootstrap_features=True, oob_score=True
    ).fit(PLAIN, NAMES),
    "by errors": lambda: AdaBoostClassifier(stump(), n_estimators=3).fit(PLAIN, NAMES),
    "isolation": lambda: IsolationForest(n_estimators=3, contamination=0.1).fit(PLAIN),
    "stacking": lambda: StackingClassifier([("a", forest())], stump(), cv=2).fit(PLAIN, y),
    "calibrated": lambda: CalibratedClassifierCV(forest(), method="isotonic", cv=2).fit(PLAIN, y),
    "several scores": lambda: GridSearchCV(
        forest(), GRID, cv=2, scoring=["accuracy", "roc_auc"], refit="accuracy",
        return_train_score=True,
    ).fit(PLAIN, y),
}  # fmt: skip


@pytest.mark.parametrize("name", USUAL)
def test_a_fitted_model_has_no_unknown_part(name):
    assert [(e.where, e.names) for e in entries(USUAL[name]()) if e.unknown or e.held] == []


@pytest.mark.slow
@pytest.mark.each
@pytest.mark.parametrize("name", MORE)
def test_more_fitted_models_have_no_unknown_part(name):
    assert [(e.where, e.names) for e in entries(MORE[name]()) if e.unknown] == []
