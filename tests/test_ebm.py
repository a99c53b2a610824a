"""Explainable boosting machines: terms as trees, their counts, and what else their files hold."""

from __future__ import annotations

import copy
import json

import numpy as np
import pandas as pd
import pytest

import treeleak
from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.inventory.inventory import take_inventory
from treeleak.core.errors import BadInput, BadModel, NotCovered, TreeleakError
from treeleak.release import read_model, snapshot, to_release
from treeleak.release.statistics import ROWS
from treeleak.verification.columns import in_model_columns

glassbox = pytest.importorskip(
    "interpret.glassbox", reason="needs interpret: pip install interpret-core"
)
pytestmark = pytest.mark.filterwarnings("ignore")

QUICK = {"outer_bags": 2, "max_rounds": 8, "n_jobs": 1}
CLASSIFIER, REGRESSOR = (
    glassbox.ExplainableBoostingClassifier,
    glassbox.ExplainableBoostingRegressor,
)


def some_rows(rng, n, gaps=0.1):
    """Whole numbers, numbers of many digits, texts: some missing."""
    table = pd.DataFrame(
        {
            "age": rng.integers(17, 60, n).astype(float),
            "income": np.exp(rng.normal(8, 2, n)),
            "town": rng.choice(["Basel", "Cork", "Łódź", "1"], n).astype(object),
            "flag": rng.integers(0, 2, n),
        }
    )
    table.loc[rng.random(n) < gaps, "age"] = np.nan
    table.loc[rng.random(n) < gaps, "town"] = None
    return table


def some_model(seed, n=120, regression=False, **given):
    rng = np.random.default_rng(seed)
    X = some_rows(rng, n, float(rng.choice([0.0, 0.15])))
    y = X["age"].fillna(40) + 9 * rng.normal(size=n)
    options = {"interactions": int(rng.integers(4)), "max_bins": int(rng.choice([5, 30, 1024]))}
    options |= {"max_interaction_bins": int(rng.choice([4, 16])), "random_state": seed}
    kind = REGRESSOR if regression else CLASSIFIER
    model = kind(**{**QUICK, **options, **given})
    return model.fit(X, y if regression else (y > 40).astype(int)), X, y


@pytest.fixture(scope="module")
def fitted():
    return some_model(3, interactions=2)


def written(model, path, **options):
    model.to_json(path, **options)
    return path


def probes(X, model, rng, n=2000):
    """Rows of values of the training, of cuts, and of the numbers next to them."""
    out = {}
    for j, name in enumerate(X):
        values = X[name].to_numpy()
        levels = [level for level in model.bins_[j] if isinstance(level, np.ndarray)]
        if levels:
            cuts = np.concatenate(levels)
            ends = np.array([-np.inf, np.inf, -1e300, 1e300])
            values = np.concatenate(
                [values.astype(float), cuts, *(np.nextafter(cuts, e) for e in ends[:2]), ends]
            )
        out[name] = rng.choice(values, n)
    return pd.DataFrame(out)


# --------------------------------------------------------------------------------- the terms


@pytest.mark.parametrize("seed", range(4))
def test_leaves_are_the_bins_of_the_library_and_count_its_rows(seed):
    model, X, _ = some_model(seed, regression=bool(seed % 2))
    release = to_release(model)
    rows, _, _ = in_model_columns(release, X)
    leaves = release.leaves(rows)
    others = probes(X, model, np.random.default_rng(seed))
    known = [c for c in others if c not in release.maybe_missing]
    others = others[others[known].notna().all(axis=1)]
    ends = release.leaves(in_model_columns(release, others)[0])
    bins = list(_bin_numbers(model, others))
    assert len(release.trees) >= len(model.term_features_)
    for t, tree in enumerate(release.trees):
        held = np.bincount(leaves[:, t], minlength=tree.n_nodes)
        assert tree.totals is not None
        assert np.array_equal(held[tree.leaves], tree.totals[tree.leaves])
        assert tree.totals[0] == release.n_rows == len(X)
        if t < len(bins):
            # Bins without rows may share a leaf; all others have one of their own.
            counts = model.bin_weights_[t][tuple(bins[t].T)]
            assert np.array_equal(tree.totals[ends[:, t]], counts)
            pairs = {*zip(map(tuple, bins[t][counts > 0]), ends[counts > 0, t], strict=True)}
            assert len(pairs) == len({b for b, _ in pairs}) == len({leaf for _, leaf in pairs})


def _bin_numbers(model, X):
    from interpret.glassbox._ebm._bin import eval_terms
    from interpret.utils._clean_x import preclean_X

    names, types = model.feature_names_in_, model.feature_types_in_
    clean, n = preclean_X(X, names, types)
    for bins in eval_terms(clean, n, names, types, model.bins_, model.term_features_):
        yield np.column_stack(bins)


def test_scores_of_leaves_add_up_to_the_predictions_of_the_library(fitted):
    model, X, _ = fitted
    scores = model.intercept_[0] + sum(
        model.term_scores_[t][tuple(bins.T)] for t, bins in enumerate(_bin_numbers(model, X))
    )
    np.testing.assert_allclose(1 / (1 + np.exp(-scores)), model.predict_proba(X)[:, 1])


def test_a_column_of_many_values_is_counted_by_its_histogram_too():
    model, X, _ = some_model(0, max_bins=5, interactions=0)
    release = to_release(model)
    j = model.feature_names_in_.index("income")
    of_income = [t for t in release.trees if set(t.feature[~t.is_leaf]) == {j}]
    assert len(of_income) == 2
    values = X["income"].to_numpy()
    inner = np.asarray(model.histogram_edges_[j][1:-1])
    expected = np.histogram(values, [-np.inf, *inner, np.inf])[0]
    leaves = of_income[1].leaves
    found = of_income[1].statistics.get(ROWS).values[leaves]
    assert sorted(found[found > 0]) == sorted(expected[expected > 0])
    assert release.ranges["income"] == (values.min(), values.max())


def test_a_model_that_is_not_fitted_or_noisy_or_weighted_is_refused_with_the_reason(fitted):
    with pytest.raises(BadInput, match="not fitted"):
        to_release(CLASSIFIER())
    _, X, y = fitted
    weights = np.random.default_rng(0).random(len(X)) + 0.5
    weighted = REGRESSOR(interactions=0, **QUICK).fit(X, y, sample_weight=weights)
    with pytest.raises(NotCovered, match="fractions"):
        to_release(weighted)
    private = pytest.importorskip("interpret.privacy").DPExplainableBoostingRegressor
    numbers = X[["income", "flag"]]
    with pytest.raises(NotCovered, match="noise"):
        to_release(private(max_rounds=3, outer_bags=1, n_jobs=1).fit(numbers, y))


def test_whole_weights_are_told_from_rows_where_bags_tell():
    _, X, y = some_model(1)
    plain = to_release(REGRESSOR(interactions=0, **QUICK).fit(X, y))
    assert not plain.adds_weights
    for weights in (np.full(len(X), 2.0), np.arange(len(X)) % 7 + 1.0):
        model = REGRESSOR(interactions=0, **QUICK).fit(X, y, sample_weight=weights)
        assert to_release(model).adds_weights


# ---------------------------------------------------------------------------- files and forms


@pytest.mark.parametrize("part", ["outputs", "features", "terms", "implementation_params"])
@pytest.mark.parametrize("value", [None, 7, "x", [], [7], {}, [{}], [{"name": []}]])
def test_other_things_in_place_of_parts_of_a_file_end_in_an_error(fitted, part, value, tmp_path):
    path = written(fitted[0], tmp_path / "m.json")
    document = json.loads(path.read_text())
    document["ebm"][part] = value
    path.write_text(json.dumps(document))
    if not (part == "implementation_params" and value == {}):
        with pytest.raises(TreeleakError):
            to_release(path)


HOSTILE = (
    ("bins_", lambda v: [[np.array([np.nan, 1.0])], *v[1:]]),
    ("bins_", lambda v: [[np.array([2.0, 1.0])], *v[1:]]),
    ("bins_", lambda v: [[], *v[1:]]),
    ("bins_", lambda v: [{"a": 1}, *v[1:]]),
    ("bins_", lambda v: v[:-1]),
    ("bins_", lambda v: [*v[:2], [{"a": 10**12, "b": 1}], *v[3:]]),
    ("bins_", lambda v: [*v[:2], [{"a": 1, "b": 3}], *v[3:]]),
    ("bins_", lambda v: 7),
    ("term_features_", lambda v: [(10**9,), *v[1:]]),
    ("term_features_", lambda v: [(), *v[1:]]),
    ("term_features_", lambda v: [(-1,), *v[1:]]),
    ("term_features_", lambda v: [(0,) * 10_000, *v[1:]]),
    ("term_features_", lambda v: v[1:]),
    ("bin_weights_", lambda v: [-v[0], *v[1:]]),
    ("bin_weights_", lambda v: [v[0] * np.nan, *v[1:]]),
    ("bin_weights_", lambda v: [v[0][:-1], *v[1:]]),
    ("bin_weights_", lambda v: [v[0][None], *v[1:]]),
    ("bin_weights_", lambda v: [v[0] * 1e30, *v[1:]]),
    ("bin_weights_", lambda v: [np.zeros((2,) * 25), *v[1:]]),
    ("histogram_weights_", lambda v: v[1:]),
)


@pytest.mark.parametrize(("name", "change"), HOSTILE)
def test_hostile_numbers_are_refused(fitted, name, change):
    model = copy.copy(fitted[0])
    setattr(model, name, change(getattr(model, name)))
    with pytest.raises(BadModel):
        to_release(model)


# --------------------------------------------------------------------------------- an inventory


def inventory(stored, n, **given):
    release = to_release(stored)
    context = Context(n_rows=n, drawn=False, missing=None, release=release)
    return take_inventory(stored, context, **given)


@pytest.mark.parametrize("regression", [False, True])
def test_every_part_has_a_rule(regression, tmp_path):
    model, X, _ = some_model(7, regression=regression, interactions=2)
    found = {}
    for stored in (snapshot(model), read_model(written(model, tmp_path / "m.json"))):
        entries = inventory(stored, len(X))
        assert not [e.names for e in entries if e.unknown or e.rows]
        found |= {name: e.mark for e in entries for name in e.names}
    leaks = ["bin_weights_", "histogram_weights_", "histogram_edges_", "bins_", "feature_bounds_"]
    leaks += ["unique_val_counts_"] + ["min_target_", "max_target_"] * regression
    assert {found[name] for name in leaks} == {"leaks"}


@pytest.mark.parametrize("chosen", [[-9.0, 0.0, 9e6], ["low", "mid", "high"]])
def test_cuts_and_categories_that_somebody_chose_may_hold_no_row(chosen, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=60), "b": rng.choice(["low", "mid"], 60)})
    if isinstance(chosen[0], float):
        X["b"] = X.a
    kinds = {
        "feature_types": ["continuous", chosen],
        "interactions": 0,
        "max_rounds": 5,
        "n_jobs": 1,
    }
    model = glassbox.ExplainableBoostingClassifier(**kinds).fit(X, X.a > 0)
    for detail in ("all", "interpretable"):
        stored = read_model(written(model, tmp_path / f"{detail}.json", detail=detail))
        assert not [e.names for e in take_inventory(stored, Context(60)) if e.unknown]


@pytest.mark.parametrize(
    "name", ["bins_", "bin_weights_", "histogram_edges_", "term_scores_", "bag_weights_", "notes_",
             "feature_bounds_", "unique_val_counts_", "intercept_", "term_names_", "max_rounds"]
)  # fmt: skip
def test_planted_rows_are_found_wherever_they_stand(fitted, name):
    model, X = copy.copy(fitted[0]), fitted[1]
    table = X[["income", "age", "flag"]].fillna(1.0).to_numpy()
    setattr(model, name, [table] if name != "bag_weights_" else table)
    stored = snapshot(model)
    entries = take_inventory(stored, Context(n_rows=len(X)), X[["income", "age", "flag"]])
    assert any(name in e.names and (e.unknown or e.rows) for e in entries)


def test_what_stands_beside_the_document_is_found(fitted, tmp_path):
    path = written(fitted[0], tmp_path / "m.json")
    document = json.loads(path.read_text())
    document["ebm"]["terms"][0]["note"] = document["rows"] = [[1, 2], [3, 4]]
    path.write_text(json.dumps(document))
    assert any(e.unknown for e in inventory(read_model(path), 120))


# -------------------------------------------------------------------------------------- attacks


def test_rows_of_separate_terms_meet_every_count_and_hold_the_very_values():
    model, X, _ = some_model(2, n=80, regression=True, interactions=0, max_bins=1024)
    found = treeleak.reconstruct(model, time_limit=20, seed=0)
    assert found.status == "feasible"
    assert found.X is not None
    assert found.misfit == 0
    ages, true = (np.sort(x["age"].to_numpy()) for x in (found.X, X))
    np.testing.assert_array_equal(ages, true)
    release = to_release(model)
    towns = [release.levels["town"][int(c)] for c in found.X["town"].dropna()]
    assert sorted(towns) == sorted(X["town"].dropna())
