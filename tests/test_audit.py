"""The audit: inventory, counts, training rows, verdict, JSON."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.ensemble import (
    RandomForestClassifier,
)
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.impute import KNNImputer
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity, KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.documents import valid
from helpers.models import without_seeds
from helpers.partial_error import partial_error
from helpers.releases import counted_as
from helpers.tables import compas_sample
from treeleak.auditing import Measurement, Variant
from treeleak.auditing.assessors.baselines import BaselineComparison
from treeleak.auditing.assessors.counts import count_leaves
from treeleak.auditing.assessors.isolation import proved_alone
from treeleak.auditing.assessors.measurement import measure
from treeleak.auditing.case import AuditResults
from treeleak.auditing.findings.finding import LEAK, NO_LEAK, OPEN, POSSIBLE
from treeleak.auditing.findings.verdict import find, overall
from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.inventory.inventory import take_inventory
from treeleak.core.errors import BadInput, BadModel, Mismatch
from treeleak.core.text import hundredths, percent
from treeleak.metrics import Significance
from treeleak.metrics.scores import Scores
from treeleak.release import AllRows, Release, StoredObject, Tree, snapshot, to_release
from treeleak.release.n_rows import count_rows
from treeleak.release.stored import Opaque
from treeleak.verification.training_rows import match_training

pytestmark = pytest.mark.usefixtures("short_walks_throughout")


@pytest.fixture(scope="module")
def data():
    X, y, compas = compas_sample(60)
    return X, y, compas.schema


@pytest.fixture(scope="module")
def forest(data):
    X, y, _ = data
    return RandomForestClassifier(40, bootstrap=False, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def few_trees(data):
    X, y, _ = data
    return RandomForestClassifier(20, bootstrap=False, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def audited(forest, data):
    X, y, schema = data
    return treeleak.audit(forest, X, y, schema=schema)


def numbers(rows=30, columns=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    return X, (X[:, 0] + rng.normal(size=rows) > 0).astype(int)


def marks(model, **context):
    """Marks by attribute name."""
    found = {}
    for entry in take_inventory(snapshot(model), Context(**context)):
        for name in entry.names:
            found.setdefault(name, set()).add(entry.mark)
    return found


# ----------------------------------------------------------------------------------- inventory


def test_inventory_names_what_a_forest_counts(forest):
    found = marks(forest, n_rows=60)
    for name in ("n_node_samples", "weighted_n_node_samples", "values", "impurity"):
        assert found[name] == {"leaks"}, name
    assert found["threshold"] == found["random_state"] == {"harmless"}
    # scikit-learn 1.3 does not keep it.
    assert found.get("_n_samples", {"harmless"}) == {"harmless"}
    assert found["feature"] == {"not assessed"}


def test_seeds_leak_only_where_rows_were_drawn():
    X, y = numbers()
    forest = RandomForestClassifier(50, oob_score=True, random_state=0).fit(X, y)
    drawn = marks(forest, n_rows=30, drawn=True)
    for name in ("random_state", "_n_samples_bootstrap", "oob_decision_function_"):
        assert drawn[name] == {"leaks"}, name
    assert drawn.get("_n_samples", {"leaks"}) == {"leaks"}
    assert drawn["oob_score_"] == {"harmless"}
    assert drawn["threshold"] == {"leaks"}
    assert marks(forest, drawn=None)["random_state"] == {"not assessed"}


def test_weights_of_rows_leak():
    stored = StoredObject(
        "sklearn.ensemble.RandomForestClassifier", {"_sample_weight": np.ones(30)}
    )
    (entry,) = take_inventory(stored, Context(30))
    assert entry.mark == "leaks"


@pytest.mark.parametrize(
    "make",
    [
        lambda: make_pipeline(KNNImputer(), DecisionTreeClassifier()),
        lambda: KNeighborsClassifier(algorithm="kd_tree"),
        lambda: KNeighborsClassifier(algorithm="ball_tree"),
        lambda: KernelDensity(),
        lambda: GaussianProcessClassifier(),
        lambda: SVC(),
    ],
)
def test_stored_training_tables_are_found(make):
    X, y = numbers()
    result = treeleak.audit(make().fit(X, y), time_limit=5)
    assert any(e.rows for e in result.inventory)
    assert result.verdict == LEAK
    assert "holds training rows" in result.headline
    assert any("stores the training table" in text for text in result.advice)


def test_preprocessing_is_judged():
    X, y = numbers()
    table = pd.DataFrame({"ward": ["a", "b", "c"] * 10})
    assert marks(OneHotEncoder().fit(table))["categories_"] == {"leaks"}
    extremes = marks(MinMaxScaler().fit(X))
    assert extremes["data_min_"] == extremes["scale_"] == {"leaks"}
    assert marks(StandardScaler().fit(X))["scale_"] == {"harmless"}
    search = GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1, 2]}, cv=2).fit(X, y)
    assert marks(search)["cv_results_"] == {"harmless"}


def test_what_no_rule_knows_is_not_assessed():
    X, _ = numbers()
    stored = StoredObject(
        "elsewhere.Model",
        {"mystery": 3.5, "per_row": np.arange(30), "hidden": Opaque("elsewhere.Thing", "unread")},
    )
    entries = take_inventory(stored, Context(30))
    assert {n for e in entries for n in e.names} == {"mystery", "per_row", "hidden"}
    assert {e.mark for e in entries} == {"not assessed"}
    suspicious = next(e for e in entries if "per_row" in e.names)
    assert "as many entries" in suspicious.what
    assert "cluster_centers_" in marks(KMeans(2, n_init=1).fit(X))


def test_keys_of_dictionaries_may_be_training_values_and_are_not_told():
    means = {"Jane Doe": 1.0, "John Doe": {"Jim Doe": np.arange(30)}}
    stored = StoredObject("elsewhere.Encoder", {"means": means, "_fit": {"X_train_": np.eye(3)}})
    entries = take_inventory(stored, Context(30))
    assert {n for e in entries for n in e.names} == {"means", "X_train_"}
    assert not [e for e in entries if "Doe" in repr(e)]


def test_code_and_flags_are_no_entries():
    held = {
        "max_depth": None,
        "warm_start": True,
        "criterion": Opaque("numpy.mean", "code, not data"),
        "oob_score": np.bool_(1),
    }
    forest = "sklearn.ensemble._forest.RandomForestClassifier"
    assert take_inventory(StoredObject(forest, held), Context()) == ()
    # Many of them can hold a table, and no such class has them.
    unknown = take_inventory(StoredObject(forest, {"a": None, "b": True}), Context())
    assert [e.unknown for e in unknown] == [True]


@pytest.mark.slow
def test_inventory_ends_on_a_hostile_web_of_references():
    value = StoredObject("evil.Leaf", {"x": 1.0})
    for level in range(40):
        value = StoredObject("evil.Node", {f"a{level}": value, f"b{level}": value})
    with pytest.raises(BadModel, match="nested"):
        take_inventory(value, Context())


# -------------------------------------------------------------------------------------- counts


def tree(counts, distinct=None):
    """A tree of four leaves in which only leaves count anything but the root."""
    leaf = np.array(counts, dtype=float)
    inner = np.array([leaf.sum(axis=0), leaf[:2].sum(axis=0), leaf[2:].sum(axis=0)])
    counts = np.concatenate([inner, leaf])
    return Tree(
        feature=np.array([0, 1, 1, -1, -1, -1, -1]),
        threshold=np.array([0.5, 0.5, 0.5, np.nan, np.nan, np.nan, np.nan]),
        left=np.array([1, 3, 5, -1, -1, -1, -1]),
        right=np.array([2, 4, 6, -1, -1, -1, -1]),
        missing_left=np.zeros(7, dtype=bool),
    ).with_counts(counts=counts, totals=counts.sum(axis=1), distinct=distinct)


def release(*trees, counts_are="rows", **kwargs):
    said = {
        "feature_names": ("a", "b"),
        "classes": ("no", "yes"),
        "sampling": AllRows(),
        "n_rows": None,
    }
    return counted_as(Release(trees=trees, **(said | kwargs)), counts_are)


def test_counts_by_hand():
    counts = count_leaves(release(tree([[9, 0], [5, 5], [1, 0], [3, 8]])), threshold=10)
    assert counts.total == {
        "leaves": 4,
        "small": 2,
        "single": 1,
        "smallest": 1,
        "excludes_class": 2,
        "one_class": 2,
    }


def test_different_rows_count_before_draws():
    distinct = np.array([9, 4, 5, 1, 3, 4, 1])
    drawn = tree([[12, 0], [15, 5], [11, 0], [13, 8]], distinct)
    counts = count_leaves(release(drawn, counts_are="draws"))
    assert counts.unit == "rows"
    assert counts.total["small"] == 4
    assert counts.total["single"] == 2
    assert (
        count_leaves(release(drawn.with_counts(distinct=None), counts_are="draws")).unit == "draws"
    )


# ------------------------------------------------------------------------------- training rows


def test_shuffled_columns_are_aligned_by_name(forest, data):
    X, y, _ = data
    truth = match_training(to_release(forest), X[X.columns[::-1]].assign(extra=1), y)
    assert list(truth.X.columns) == list(X.columns)
    assert any("another order" in n for n in truth.notes)
    assert any("'extra'" in n for n in truth.notes)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda X, y: (X.drop(columns=X.columns[2]), y), "lack 1 columns of the model"),
        (lambda X, y: (X.iloc[:-1], y.iloc[:-1]), "trained on 60 rows, these are 59"),
        (lambda X, y: (X, y + 5), "label that the model does not know"),
        (lambda X, y: (X, 1 - y), r"tree 0, leaf \d+: the model counts"),
        (lambda X, y: (X + 1, y), "encoded in another way"),
        (lambda X, y: (X.map(lambda v: "yes" if v else "no"), y), "other than numbers"),
        (lambda X, y: (X.to_numpy()[:, 1:], y), "shape"),
    ],
)
def test_wrong_rows_are_named_and_not_measured(few_trees, data, spoil, said):
    X, y, schema = data
    forest = few_trees
    X, y = spoil(X, y)
    with pytest.raises(Mismatch, match=said):
        match_training(to_release(forest), X, y)
    with pytest.raises(Mismatch, match=said):
        treeleak.audit(forest, X, y, schema=schema)
    result = treeleak.audit(forest, X, y, schema=schema, on_mismatch="report")
    assert result.measurement is None
    assert result.headline.startswith("The rows given do not fit the model")
    assert result.to_dict()["headline"].startswith("The rows given do not fit")
    assert result.mismatch == dict(result.not_assessed)["measurement"]
    assert result.reconstruction is not None


@pytest.mark.slow
def test_without_a_schema_values_beyond_the_thresholds_undo_no_proof():
    # Trees that ask for none or some visits suggest a flag.
    rng = np.random.default_rng(8)
    X = pd.DataFrame({"age": rng.permutation(40), "visits": rng.choice([0, 1, 5], 40)})
    y = (X["age"] + 5 * rng.random(40) > 20) ^ (X["visits"] > 0)
    model = DecisionTreeClassifier(random_state=0).fit(X, y)
    alone, compared = treeleak.audit(model), treeleak.audit(model, X, y)
    assert compared.impossible > 0
    assert alone.verdict == compared.verdict == LEAK
    said = " ".join(compared.notes)
    assert "No schema was given, and" in said
    assert "The schema excludes" not in said
    # A schema that was given is a statement, and a wrong one.
    stated = treeleak.audit(model, X, y, schema=compared.reconstruction.schema)
    assert stated.verdict == OPEN


# ------------------------------------------------------------------------------------- verdict


def held(name, knows, error, nearer=0.0):
    return BaselineComparison(name, knows, Scores(error, 0.0, error), 0.01, nearer, 1.0)


# Somebody who knows the schema errs by 0.2, somebody who knows the population by 0.15.
HELD = (held("random", "schema", 0.2), held("middle", "people", 0.15))
MEASURED = Measurement(0.1, 0.5, 0.5, 0.2, 0.01, "rows", yardsticks=HELD)


@pytest.fixture(scope="module")
def rebuilt(audited):
    return audited.reconstruction


@pytest.mark.parametrize(
    ("status", "error", "alone", "expected"),
    [
        ("unique", None, 0, LEAK),
        ("feasible", None, 0, NO_LEAK),
        ("feasible", None, 1, LEAK),
        ("feasible", 0.1, 0, LEAK),
        # By at least a quarter below who knows the population, or else perhaps.
        ("feasible", 0.112, 0, LEAK),
        ("feasible", 0.113, 0, POSSIBLE),
        ("feasible", 0.199, 0, POSSIBLE),
        ("feasible", 0.201, 0, NO_LEAK),
        ("unknown", None, 0, OPEN),
        ("unknown", 0.1, 0, LEAK),
        ("unknown", 0.15, 0, POSSIBLE),
        ("unknown", 0.21, 0, OPEN),
        ("infeasible", None, 0, OPEN),
        ("likely", None, 0, OPEN),
        ("likely", 0.1, 0, LEAK),
        ("likely", 0.15, 0, POSSIBLE),
        ("likely", 0.21, 0, NO_LEAK),
    ],
)
def test_the_rule_of_the_verdict(rebuilt, status, error, alone, expected):
    measured = None if error is None else replace(MEASURED, error=error)
    evidence = "hidden draws" if status == "likely" else rebuilt.evidence
    said = replace(rebuilt, status=status, evidence=evidence)
    findings = find(AuditResults(reconstruction=said, measurement=measured, alone=alone))
    assert overall(findings) == expected
    assert "safe " not in " ".join(f.text for f in findings)


@pytest.mark.parametrize(
    ("met", "single", "error", "expected"),
    [
        (None, 1, 0.21, NO_LEAK),
        (1.0, 1, 0.21, NO_LEAK),
        (0.54, 0, 0.21, NO_LEAK),
        (0.54, 1, 0.21, POSSIBLE),
        (0.54, 1, None, POSSIBLE),
        (0.54, 1, 0.1, LEAK),
    ],
)
def test_rows_that_miss_what_thresholds_say_are_no_last_word(audited, met, single, error, expected):
    """Leaves that hold single people say more than the attack found."""
    rebuilt = replace(audited.reconstruction, status="feasible", midpoints_met=met)
    measured = None if error is None else replace(MEASURED, error=error)
    counts = replace(audited.counts, trees=audited.counts.trees.assign(single=single))
    found = find(AuditResults(reconstruction=rebuilt, measurement=measured, counts=counts))
    assert overall(found) == expected
    assert any("can do better" in f.text for f in found) == (expected == POSSIBLE)


def test_proofs_under_a_schema_that_the_training_rows_refute_do_not_count():
    """Two columns that are no one-hot group: the only rows that fit are not the training rows."""
    X = pd.DataFrame({"a": [0, 0, 0, 1, 1, 1], "b": [0, 1, 0, 1, 0, 1]})
    y = [0, 0, 0, 1, 1, 1]
    tree = DecisionTreeClassifier().fit(X, y)
    assert tree.tree_.node_count == 3
    schema = treeleak.Schema.from_columns(["a", "b"], one_hot=[["a", "b"]])
    alone = treeleak.audit(tree, schema=schema)
    assert alone.headline.startswith("Leak shown. All 6 training rows were rebuilt")
    found = treeleak.audit(tree, X, y, schema=schema)
    assert found.reconstruction.status == "unique"
    assert found.measurement.error > 0
    assert not [f for f in found.findings if "All 6 training rows" in f.text]
    assert any("so no proof under it holds" in n for n in found.notes)


def test_one_possible_dataset_is_no_better_than_the_guess(rebuilt):
    certain = Measurement(0.0, 1.0, 1.0, 0.0, 0.0, "rows")
    findings = find(
        AuditResults(reconstruction=replace(rebuilt, status="feasible"), measurement=certain)
    )
    assert overall(findings) == NO_LEAK


@pytest.mark.parametrize(
    ("share", "digits", "text"),
    [
        (0, 0, "0%"),
        (0.004, 0, "<1%"),
        (0.996, 0, ">99%"),
        (1, 0, "100%"),
        (0, 1, "0.0%"),
        (0.0004, 1, "<0.1%"),
        (0.9996, 1, ">99.9%"),
        (0.125, 1, "12.5%"),
    ],
)
def test_shares_are_rounded_to_all_or_nothing_only_where_they_are(share, digits, text):
    assert percent(share, digits) == text


def test_a_statistic_singles_nobody_out():
    X = pd.DataFrame({"a": [0] * 12 + [1] * 11, "b": [0, 1] * 11 + [0]})
    y = [0] * 11 + [1] * 12
    stump = DecisionTreeClassifier(max_depth=1).fit(X, y)
    result = treeleak.audit(stump, schema=treeleak.Schema.from_columns(["a", "b"]))
    # One row of class 1 lies at a = 0, and the stump says so.
    assert proved_alone(result.reconstruction, to_release(stump)).sum() == 1
    assert result.verdict == LEAK
    y[11] = 0
    stump = DecisionTreeClassifier(max_depth=1).fit(X, y)
    result = treeleak.audit(stump, schema=treeleak.Schema.from_columns(["a", "b"]))
    assert proved_alone(result.reconstruction, to_release(stump)).sum() == 0
    assert result.reconstruction.share_proved_rows == 1.0
    assert result.verdict == NO_LEAK


def test_a_person_alone_in_a_large_place_is_a_small_cell():
    X = pd.DataFrame({"a": [0] * 12 + [1] * 11, **{f"b{k}": [0, 1] * 11 + [0] for k in range(3)}})
    stump = DecisionTreeClassifier(max_depth=1, max_features=None, random_state=0)
    stump.fit(X, [0] * 11 + [1] * 12)
    result = treeleak.audit(stump, schema=treeleak.Schema.from_columns(X.columns))
    # Eleven others lie there, and one of four columns is known.
    assert proved_alone(result.reconstruction, to_release(stump)).sum() == 1
    assert result.verdict == POSSIBLE
    assert "rows_alone_not_rare" in {m.code for f in result.findings for m in f.messages}


def test_contradicting_counts_are_named():
    clash = release(tree([[3, 0], [2, 1], [0, 4], [1, 1]]), tree([[4, 0], [1, 1], [0, 4], [1, 1]]))
    result = treeleak.audit(clash)
    assert result.reconstruction.status == "infeasible"
    assert result.verdict == OPEN
    assert "tree" in result.headline


# ------------------------------------------------------------------------------ the population


@pytest.fixture(scope="module")
def control(data):
    X, _, _ = data
    return treeleak.datasets.load_compas().X.drop(X.index)


@pytest.fixture(scope="module")
def held_against(forest, data, control):
    X, y, schema = data
    return treeleak.audit(forest, X, y, schema=schema, control=control)


@pytest.mark.slow
def test_control_rows_tell_rows_from_population(held_against):
    test = held_against.measurement.significance
    assert [part for part, _ in held_against.not_assessed] == ["shadows"]  # Too few rows.
    assert held_against.verdict == LEAK
    assert test.rank == 1 / 101
    assert test.error == pytest.approx(held_against.measurement.error)
    assert test.error < test.train_vs_other_draws < held_against.measurement.guess_mean
    told = [f.text for f in held_against.findings if f.verdict == LEAK]
    assert any("0 of 100 control samples of the population are as near" in text for text in told)
    document = valid(json.loads(held_against.to_json()))["measurement"]
    whole = held_against.to_dict("internal")["measurement"]["significance"]
    assert whole == test.to_dict()
    rounded = ("error", "others_mean", "train_vs_other_draws")
    assert document["significance"] == whole | {k: hundredths(whole[k]) for k in rounded}
    assert document["significance"] != whole
    assert document["individual"]["all"]["n_rows"] == 60
    assert document["individual"]["all"]["perfect"] == document["exact_rows"]


def _finer(told, key=""):
    """Keys of the figures of a document that are finer than hundredths."""
    if isinstance(told, dict):
        return {k for name, value in told.items() for k in _finer(value, name)}
    if isinstance(told, list):
        return {k for value in told for k in _finer(value, key)}
    return {key} if isinstance(told, float) and told != round(told, 2) else set()


def test_no_score_of_the_releasable_edition_is_finer_than_a_percent(held_against):
    rows = {"exact_rows", "exact_in_order", "located_rows", "located_in_order", "perfect"}
    chances = {"nearer", "more_rows", "nearer_than_usual", "nearer_than_others", "tail", "rank"}
    spread = {"others_sd"}
    told = {e: held_against.to_dict(e) for e in ("internal", "releasable")}
    assert _finer(told["releasable"]["measurement"]) <= rows | chances | spread
    scores = {"error", "others_mean", "guess_mean", "guess_sd", "categories", "sd"}
    assert _finer(told["internal"]["measurement"]) >= scores
    assert not _finer([[g["error"], g["guess"]] for g in told["releasable"]["exposure"]["groups"]])


def against(near, n_control=1000):
    """A test that ``near`` of 100 other draws pass."""
    errors = np.where(np.arange(100) < near, 0.05, 0.15)
    return Significance(0.1, errors, np.full(100, 0.12), 60, 60, n_control)


@pytest.mark.parametrize(
    ("error", "test", "expected"),
    [
        (0.1, against(0), LEAK),
        (0.1, against(1), NO_LEAK),
        # Nearer to these rows than to others, but not than somebody who knows the population.
        (0.15, against(0), POSSIBLE),
        (0.15, against(50), NO_LEAK),
        (0.21, against(0), NO_LEAK),
        # Too few control rows decide nothing.
        (0.1, against(50, n_control=119), LEAK),
        (0.21, against(0, n_control=119), NO_LEAK),
        (0.1, against(50, n_control=120), NO_LEAK),
    ],
)
def test_where_there_is_a_population_better_than_a_guess_is_not_enough(
    rebuilt, error, test, expected
):
    measured = replace(MEASURED, error=error, significance=test)
    likely = replace(rebuilt, status="likely")
    assert overall(find(AuditResults(reconstruction=likely, measurement=measured))) == expected
    variants = [Variant("without the population", rebuilt, measured)]
    far = replace(MEASURED, error=0.21)
    found = find(AuditResults(reconstruction=likely, measurement=far, variants=tuple(variants)))
    assert (overall(found) == LEAK) == (expected == LEAK)


def test_control_rows_must_have_the_model_s_columns(forest, data, control):
    X, y, schema = data
    with pytest.raises(Mismatch, match="the control rows lack 1 columns of the model"):
        treeleak.audit(forest, X, y, schema=schema, control=control.iloc[:, 1:])
    with pytest.raises(BadInput, match="the control rows have the shape"):
        treeleak.audit(forest, X, y, schema=schema, control=control.to_numpy()[:, 1:])
    with pytest.raises(BadInput, match="table of control rows is empty"):
        treeleak.audit(forest, X, y, schema=schema, control=control[:0])
    with pytest.raises(BadInput, match="control rows without training rows"):
        treeleak.audit(forest, schema=schema, control=control)


# --------------------------------------------------------------------------------- known draws


@pytest.fixture(scope="module")
def drawn(data):
    X, y, schema = data
    forest = RandomForestClassifier(100, random_state=3).fit(X, y)
    return treeleak.audit(forest, X, y, schema=schema)


@pytest.mark.slow
def test_places_count_where_rows_have_an_order(drawn, data):
    from treeleak.auditing.assessors.measurement import measure
    from treeleak.verification.training_rows import TrainingRows

    X, y, _ = data
    model = to_release(RandomForestClassifier(100, random_state=3).fit(X, y))
    truth = TrainingRows(X.reset_index(drop=True), "rows")
    backwards = drawn.reconstruction.X.iloc[::-1].reset_index(drop=True)
    turned = measure(replace(drawn.reconstruction, X=backwards), truth, model)
    assert turned.exact_rows == turned.located_rows == 1
    own = (backwards.to_numpy() == truth.X.to_numpy()).all(axis=1).mean()
    assert 0 < own < 1
    assert turned.exact_in_order == own
    assert turned.error == 0
    wrong = (backwards != truth.X).to_numpy().mean()
    assert turned.error_in_order == pytest.approx(wrong)
    unordered = measure(replace(drawn.reconstruction, ordered=False), truth, model)
    assert unordered.exact_in_order is unordered.error_in_order is None


def bare_forest(X, y, **options):
    return without_seeds(RandomForestClassifier(**{"random_state": 3, **options}).fit(X, y))


def small(data, n=20):
    X, y, _ = data
    X, y = X.iloc[:n, :8], y.iloc[:n]
    return X, y, treeleak.Schema.from_columns(X.columns)


HIDDEN = {"bootstrap": "hidden", "time_limit": 20}


@pytest.fixture(scope="module")
def seedless(data):
    """A small forest whose draws are hidden."""
    X, y, _ = small(data)
    return bare_forest(X, y, n_estimators=30)


@pytest.fixture(scope="module")
def behind(data, seedless):
    """The same, audited with its training rows."""
    X, y, schema = small(data)
    return treeleak.audit(seedless, X, y, schema=schema, seed_search=3, time_limit=60)


def test_likely_rows_prove_nothing_and_refute_nothing(data, seedless):
    _, _, schema = small(data)
    found = treeleak.audit(seedless, schema=schema, **HIDDEN)
    assert found.verdict == OPEN
    assert found.variants == ()
    assert "20 rows. They are probabilistic: it proves none" in found.headline
    assert found.reconstruction.evidence.endswith("distinct counts")
    valid(json.loads(found.to_json(edition="internal")))


def test_training_rows_that_hidden_draws_cannot_come_from_are_named(data, seedless):
    X, y, _ = small(data)
    release = to_release(seedless)
    counted = count_rows(release)
    for rows, labels, why in (
        (
            X.iloc[1:],
            y.iloc[1:],
            "these are 19 rows; the model was trained on 20 rows, as the model says",
        ),
        (X, 1 - y, "draws of [0-9]+ rows that are not among these"),
        (1 - X, y, "draws of [0-9]+ rows that are not among these"),
    ):
        with pytest.raises(Mismatch, match=why):
            match_training(release, rows, labels, hidden=counted)
    shuffled = X.sample(frac=1, random_state=0)
    assert match_training(release, shuffled, y[shuffled.index], hidden=counted)
    assert match_training(release, X, hidden=counted)
    with pytest.raises(Mismatch, match="not among these"):
        match_training(release, 1 - X, hidden=counted)


def silent_on_n(model, distinct):
    """A release that does not say how many rows there were, and maybe not how many were drawn."""
    release = to_release(model)
    trees = release.trees if distinct else (t.with_counts(distinct=None) for t in release.trees)
    sampling = replace(release.sampling, rows_between=None)
    return replace(release, n_rows=None, sampling=sampling, trees=tuple(trees))


@pytest.mark.slow
def test_a_number_of_rows_that_was_inferred_is_told_with_its_interval(data):
    X, y, schema = small(data, 24)
    model = bare_forest(X, y, n_estimators=10, max_samples=0.5)
    release = silent_on_n(model, distinct=True)
    counted = count_rows(release)
    low, high = counted.between
    assert low < 24 < high
    assert counted.n != 24
    found = treeleak.audit(release, X, y, schema=schema, **HIDDEN)
    assert found.reconstruction.row_count == counted
    assert found.mismatch is None
    (note,) = (n for n in found.notes if "give their number" in n)
    assert f"The attack rebuilt {counted.n} rows; there are 24 training rows" in note
    assert 0 < found.measurement.error < 0.5
    assert (
        sum(
            g.n_rows
            for g in (found.measurement.individual.inliers, found.measurement.individual.outliers)
        )
        == 24
    )


@pytest.mark.slow
def test_what_was_given_is_neither_proved_nor_measured(data):
    X, y, schema = small(data)
    model = bare_forest(X, y, n_estimators=30)
    rows = X.iloc[:4].assign(label=y.iloc[:4])
    columns = X[X.columns[:1]]
    found = treeleak.audit(
        model, X, y, schema=schema, known_rows=rows, known_columns=columns, **HIDDEN
    )
    known = found.reconstruction.known
    assert known.to_numpy().sum() == 20 + 4 * 7
    assert found.measurement.error == partial_error(found.reconstruction.X, X, known, schema)
    assert "of the values, of what was not given" in found.headline
    whole = treeleak.audit(model, X, y, schema=schema, known_columns=X.assign(label=y), **HIDDEN)
    assert whole.verdict == OPEN
    assert "nothing was left to rebuild" in whole.headline
    assert dict(whole.not_assessed)["measurement"] == "all rows were given"


@pytest.mark.slow
def test_rows_that_were_given_do_not_count_as_rebuilt(data):
    X, y, schema = data
    forest = RandomForestClassifier(40, bootstrap=False, random_state=0).fit(X, y)
    rows = X.iloc[:50].assign(label=y.iloc[:50])
    rebuilt = treeleak.reconstruct(forest, schema, known_rows=rows)
    whole = treeleak.reconstruct(forest, schema)
    release = to_release(forest)
    assert 0 < proved_alone(rebuilt, release).sum() <= 10 < proved_alone(whole, release).sum()
    # One of the ten others is made wrong: nine of ten, not 59 of 60.
    off = rebuilt.X.copy()
    place = int(np.flatnonzero(~rebuilt.given.all(axis=1))[0])
    off.iloc[place] = 1 - off.iloc[place]
    measured = measure(replace(rebuilt, X=off), match_training(release, X, y), release)
    assert measured.exact_rows == pytest.approx(0.9)
    (finding,) = (f for f in find(AuditResults(reconstruction=rebuilt)) if f.verdict == LEAK)
    assert finding.text.startswith("All 10 training rows that were not given were rebuilt")


def test_a_proof_of_a_numbered_row_singles_it_out_unless_others_are_like_it(drawn, data):
    X, y, _ = data
    model = to_release(RandomForestClassifier(100, random_state=3).fit(X, y))
    labelled = drawn.reconstruction.X.assign(label=drawn.reconstruction.y)
    unlike = int((~labelled.duplicated(keep=False)).sum())
    assert 0 < unlike < 60
    assert proved_alone(drawn.reconstruction, model).sum() == unlike
    # Also where others are not proved: some rows are never drawn.
    first = drawn.reconstruction.proved & (drawn.reconstruction.proved.index > 0)
    alone = int(not labelled.duplicated(keep=False)[0])
    assert proved_alone(replace(drawn.reconstruction, proved=first), model).sum() == unlike - alone
    (finding,) = (
        f
        for f in find(
            AuditResults(
                reconstruction=replace(drawn.reconstruction, status="feasible"), alone=unlike
            )
        )
        if f.verdict == LEAK
    )
    assert "60 of 60 rows are proved under the schema, each with its number" in finding.text
    assert f"{unlike} of them are unique" in finding.text


def test_one_leaf_proves_nothing_of_anybody():
    """Every row is proved to lie in the only leaf: all are alike."""
    X = pd.DataFrame({"a": [0, 1] * 10})
    forest = RandomForestClassifier(20, random_state=0).fit(X, [1] * 20)
    found = treeleak.audit(forest, schema=treeleak.Schema.from_columns(["a"]))
    assert found.reconstruction.share_proved_rows == 1.0
    assert found.verdict == NO_LEAK


# ---------------------------------------------------------------------------------------- JSON


def test_singling_out_needs_a_proof_of_being_alone(rebuilt, forest):
    model = to_release(forest)
    assert proved_alone(rebuilt, model).sum() > 0
    unproved = replace(rebuilt, proved=rebuilt.proved & False)
    assert proved_alone(unproved, model).sum() == 0
    # One row of each class unproved: only a leaf that counts one row proves being alone.
    first = ~rebuilt.y.duplicated()
    partly = replace(rebuilt, proved=rebuilt.proved & ~first)
    blurred = replace(
        model, trees=tuple(t.with_counts(counts=t.counts * 2, totals=None) for t in model.trees)
    )
    assert 0 < proved_alone(partly, model).sum() <= proved_alone(rebuilt, model).sum()
    assert proved_alone(partly, blurred).sum() == 0
    assert proved_alone(rebuilt, blurred).sum() > 0
