"""Tree models of R, made by R itself (tools/make_r_models.R), against R's own answers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import treeleak
from treeleak import audit
from treeleak.auditing.findings.finding import LEAK, OPEN, POSSIBLE
from treeleak.core.errors import BadInput, BadModel, NotCovered, TreeleakError
from treeleak.release import StoredObject, read_model, to_release
from treeleak.release.adapters.r import forests
from treeleak.release.draws.seeds import known_draws
from treeleak.release.statistics import MEAN, VALUE, VARIANCE
from treeleak.release.tree import Tree

MODELS = Path(__file__).parent / "models" / "r"
EDUCATION = ("0-5yrs", "6-11yrs", "12+ yrs")
NAMES = sorted(p.stem for p in MODELS.glob("*.rds") if not p.stem.startswith("object_"))


def stored(name):
    return read_model(MODELS / f"{name}.rds")


def truth(name, what):
    return pd.read_csv(MODELS / f"{name}.{what}.csv")


def coded(name, release):
    """The training rows in the codes of the trees."""
    rows = truth(name, "rows")[list(release.feature_names)]
    for column, texts in release.levels.items():
        codes = rows[column].map({text: float(k) for k, text in enumerate(texts)})
        rows[column] = codes
    if "education" in rows and "education" not in release.levels:
        # ranger keeps no texts of factors: their codes count from 1.
        rows["education"] = rows["education"].map({t: k + 1.0 for k, t in enumerate(EDUCATION)})
    return rows.astype(float)


def label_of(name):
    return next(c for c in ("y", "case", "progressed", "mpg") if c in truth(name, "rows"))


@pytest.mark.parametrize("name", [n for n in NAMES if not n.startswith("rpart")])
def test_rows_go_to_the_leaves_of_r(name):
    release = to_release(stored(name))
    leaf = release.leaves(coded(name, release))
    theirs = truth(name, "leaf").to_numpy()
    if name.startswith("randomforest"):
        theirs = theirs - 1
    assert leaf.shape == theirs.shape
    assert (leaf == theirs).all()


@pytest.mark.parametrize("name", ["ranger_probability_inbag", "ranger_probability_partition"])
def test_shares_of_ranger_are_its_predictions(name):
    release = to_release(stored(name))
    leaf = release.leaves(coded(name, release))
    shares = [
        tree.statistics.get(VALUE, per_class=True).values[leaf[:, t]]
        for t, tree in enumerate(release.trees)
    ]
    theirs = truth(name, "prediction")[list(release.classes)]
    assert np.allclose(np.mean(shares, axis=0), theirs, atol=1e-12)


def test_draws_in_a_file_are_known():
    release = to_release(stored("ranger_probability_inbag"))
    draws = known_draws(release, seed_search=0)
    assert draws.counts.shape == (40, 80)
    assert draws.checked
    assert (draws.counts.sum(axis=1) == 80).all()
    with pytest.raises(BadModel, match="draws of 40 trees"):
        replace(release, trees=release.trees[1:])


def test_sizes_of_leaves_follow_from_out_of_bag_predictions():
    name = "ranger_probability_inbag"
    release = to_release(stored(name))
    leaf, label = release.leaves(coded(name, release)), truth(name, "rows")["y"] == "yes"
    for t, tree in enumerate(release.trees):
        counted = np.zeros((tree.n_nodes, 2))
        np.add.at(counted, (leaf[:, t], label.to_numpy().astype(int)), release.draws[t])
        assert (counted[tree.leaves] == tree.counts[tree.leaves]).all()
        assert tree.totals[0] == 80


@pytest.mark.parametrize("name", ["rpart_classification", "rpart_regression"])
def test_counts_of_rpart_are_those_of_the_rows(name):
    model = stored(name)
    release = to_release(model)
    rows, (tree,) = coded(name, release), release.trees
    y = truth(name, "rows")[label_of(name)]
    at = tree.apply(rows.to_numpy())
    assert (np.bincount(at, minlength=tree.n_nodes)[tree.leaves] == tree.totals[tree.leaves]).all()
    if release.classes:
        for c, label in enumerate(release.classes):
            held = np.bincount(at[y.astype(str) == label], minlength=tree.n_nodes)
            assert (held[tree.leaves] == tree.counts[tree.leaves, c]).all()
        assert release.left_out
        assert release.maybe_missing == {"eet", "g2", "gleason"}
        return
    of_leaf = y.groupby(at).agg(["mean", lambda v: v.var(ddof=0)])
    for quantity, column in ((MEAN, 0), (VARIANCE, 1)):
        values = tree.statistics.get(quantity).values[of_leaf.index]
        assert np.allclose(values, of_leaf.iloc[:, column], atol=1e-9)
    # The leaf of each row, by the line of the frame.
    assert (at + 1 == truth(name, "leaf")["leaf"]).all()


@pytest.mark.parametrize("kind", ["gbm", "constparty"])
def test_rows_are_found_in_objects_whose_trees_are_not_read(kind):
    """By default, such objects hold their training table."""
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=list("abc"))
    held = StoredObject("R.list", {"x": rows.to_numpy().ravel(order="F"), "y": rows["a"] * 2.0})
    for state, verdict in (({"data": held}, LEAK), ({}, OPEN)):
        model = StoredObject(f"R.{kind}", {"trees": [], "initF": np.array([0.5]), **state})
        with pytest.raises(NotCovered, match=r"(gbm|partykit), wh.* not read"):
            to_release(model)
        assert audit(model, rows, rows["a"] * 2.0, time_limit=5).verdict == verdict


def test_all_rows_of_a_ranger_that_kept_its_draws_come_back_in_order():
    found = treeleak.reconstruct(MODELS / "ranger_probability_inbag.rds", time_limit=60)
    rows = truth("ranger_probability_inbag", "rows")
    assert found.status == "unique"
    assert found.ordered
    assert (found.X.to_numpy() == rows.drop(columns="y").to_numpy()).all()
    assert (found.y == rows["y"]).all()


@pytest.mark.parametrize("name", ["randomforest_flags", "rpart_regression"])
@pytest.mark.slow
def test_an_audit_names_library_and_parts_in_order(name):
    rows, label = truth(name, "rows"), label_of(name)
    found = audit(MODELS / f"{name}.rds", rows.drop(columns=label), rows[label], time_limit=20)
    parts = {entry.what: entry for entry in found.inventory}
    assert not any(entry.unknown for entry in found.inventory)
    assert "labels of all training rows, in order" in parts or name == "rpart_regression"
    if name == "rpart_regression":
        assert parts["the leaf of each training row"].mark == "leaks"
    advice = " ".join(found.advice)
    assert "NULL" in advice
    assert "treeleak harden" not in advice
    assert not found.others


def test_labels_and_leaves_of_all_rows_in_order_are_part_of_the_verdict():
    model, found = stored("rpart_classification"), {}
    for left_out in ((), ("y",), ("y", "where")):
        kept = {k: v for k, v in model.state.items() if k not in left_out}
        found[left_out] = audit(StoredObject(model.type, kept), time_limit=1)
    codes = {k: [f.code for f in a.findings if f.part == "inventory"] for k, a in found.items()}
    assert found[()].verdict == LEAK
    assert "labels_stored" in codes[()]
    assert "labels of all training rows" in found[()].headline
    # None was given.
    assert "under the schema" not in " ".join(f.text for a in found.values() for f in a.findings)
    assert "labels_stored" not in codes["y",]
    assert "values_in_order" in codes["y",]
    assert found["y",].verdict in (POSSIBLE, LEAK)
    assert not {"labels_stored", "values_in_order"} & {*codes["y", "where"]}


def test_what_holds_no_trees_says_so():
    model = stored("ranger_classification")
    bare = StoredObject(model.type, {k: v for k, v in model.state.items() if k != "forest"})
    with pytest.raises(BadInput, match=r"write\.forest"):
        to_release(bare)


@pytest.mark.parametrize("name", NAMES)
def test_damaged_trees_are_refused_or_read(name, instead):
    """Whatever stands in place of a vector of a tree, nothing else than our own errors comes."""
    instead("MOST_POINTS", 2**8, forests)
    model, rng = stored(name), np.random.default_rng(0)

    def damaged(value, deep=0):
        if isinstance(value, StoredObject):
            keys = list(value.state)
            if not keys:
                return None
            key = keys[rng.integers(len(keys))]
            state = {**value.state, key: damaged(value.state[key], deep + 1)}
            return StoredObject(value.type, state)
        if isinstance(value, dict) and value:
            key = list(value)[rng.integers(len(value))]
            return {**value, key: damaged(value[key], deep + 1)}
        if isinstance(value, list) and value and deep < 8:
            k = rng.integers(len(value))
            return [*value[:k], damaged(value[k], deep + 1), *value[k + 1 :]]
        if isinstance(value, np.ndarray) and value.size and rng.random() < 0.8:
            changed = value.copy()
            new = [np.nan, -1.0, 1e300, 0.5, 2.0**31, 3.0][rng.integers(6)]
            flat = changed.astype(object if value.dtype == object else float).ravel()
            flat[rng.integers(flat.size)] = new
            return flat.reshape(value.shape)
        return [None, np.zeros(0), "x", [], {}][rng.integers(5)]

    for _ in range(40):
        try:
            release = to_release(damaged(model))
        except TreeleakError:
            continue
        assert all(isinstance(tree, Tree) for tree in release.trees)
