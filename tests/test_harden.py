"""Hardening: what each step takes away, what it keeps, and that what is left is attacked."""

import io
import json
import re
import signal
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import skops.io
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsOneClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.cli import keep
from helpers.documents import rewrite, valid
from helpers.examples import examples, spread
from treeleak.core.clock import Clock
from treeleak.core.errors import BadInput, BadModel, Mismatch, NotCovered
from treeleak.hardening import DEFAULT, parse_steps
from treeleak.hardening import run as hardening_run
from treeleak.hardening.answers import compare, random_rows
from treeleak.hardening.archive import Archive
from treeleak.hardening.steps import _majority, _merged, _rounded
from treeleak.release import read_model, to_release
from treeleak.release.adapters.sklearn.counts import rescale_weights_to_counts
from treeleak.release.noise.laws import LabelNoise
from treeleak.report import render_hardened

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

MODELS = Path(__file__).parent / "models"
STORED = sorted(MODELS.glob("[0-9]*/*.skops"))
FOREST_SEED = 918273645


def data(n=60, columns=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (n, columns)).astype(float)
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(0, 2, n) > 4).astype(int) + (X[:, 3] > 2)
    return X, y


X, Y = data()
FEW = {"n_estimators": 5, "random_state": FOREST_SEED}
KINDS = {
    "forest": RandomForestClassifier(**FEW, oob_score=False),
    "forest, shallow": RandomForestClassifier(**FEW, max_depth=2, max_features=1),
    "forest, all rows": RandomForestClassifier(**FEW, bootstrap=False),
    "forest, weighted": RandomForestClassifier(**FEW, class_weight="balanced"),
    "extra": ExtraTreesClassifier(**FEW),
    "tree": DecisionTreeClassifier(random_state=FOREST_SEED),
    "bagging": BaggingClassifier(**FEW, max_features=0.5),
    "pipeline": make_pipeline(StandardScaler(), RandomForestClassifier(**FEW)),
    "search": GridSearchCV(RandomForestClassifier(**FEW), {"max_depth": [2, 3]}, cv=2),
    "calibrated": CalibratedClassifierCV(RandomForestClassifier(**FEW), cv=2),
    "ada": AdaBoostClassifier(**FEW),
    "boosted": GradientBoostingClassifier(**FEW, subsample=0.5),
    "boosted, numbers": GradientBoostingRegressor(**FEW),
    "histogram": HistGradientBoostingClassifier(max_iter=3, random_state=FOREST_SEED),
    "histogram, numbers": HistGradientBoostingRegressor(max_iter=3, random_state=FOREST_SEED),
    "regression": RandomForestRegressor(**FEW),
    "isolation": IsolationForest(**FEW),
    "voting": VotingClassifier(
        [("a", RandomForestClassifier(**FEW)), ("b", GradientBoostingClassifier(**FEW))],
        voting="soft",
    ),
    "stacking": StackingClassifier(
        [("a", ExtraTreesClassifier(**FEW)), ("b", DecisionTreeClassifier(random_state=1))], cv=2
    ),
}
OTHERS = {
    "calibrated", "ada", "boosted", "boosted, numbers", "histogram", "histogram, numbers",
    "isolation", "voting", "stacking",
}  # fmt: skip
AVERAGED = [k for k in KINDS if k not in OTHERS]


def load(path):
    return skops.io.load(path, trusted=skops.io.get_untrusted_types(file=path))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, model in KINDS.items():
        skops.io.dump(model.fit(X, Y), folder / f"{name}.skops")
    return folder


def stepped(path, out, *names):
    archive = Archive.read(path)
    for step in parse_steps(names):
        archive = step.apply(archive)
    out.write_bytes(archive.to_bytes())
    return out


def members(path):
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


# ------------------------------------------------------------------------- predictions stay


@pytest.mark.parametrize("name", spread(KINDS, fast=6))
def test_the_hardened_model_loads_and_predicts_the_same_in_scikit_learn(saved, tmp_path, name):
    path = saved / f"{name}.skops"
    out = stepped(path, tmp_path / "out.skops", *DEFAULT)
    old, new = load(path), load(out)
    rng = np.random.default_rng(1)
    rows = np.concatenate([X, rng.uniform(-1, 5, (10_000, X.shape[1]))])
    np.testing.assert_array_equal(old.predict(rows), new.predict(rows))
    for method in ("predict_proba", "score_samples", "decision_function"):
        if hasattr(old, method):
            np.testing.assert_array_equal(getattr(old, method)(rows), getattr(new, method)(rows))


@pytest.mark.parametrize(
    ("name", "step"),
    [
        pytest.param(name, step, marks=() if fast else pytest.mark.slow)
        for name in AVERAGED
        for step in ("round=1", "merge=4", "majority")
        for fast in [name in ("forest", "regression") or step == "round=1"]
    ],
)
def test_what_is_said_of_changed_labels_is_what_scikit_learn_finds(saved, tmp_path, name, step):
    path = saved / f"{name}.skops"
    out = stepped(path, tmp_path / "out.skops", step)
    before, after = read_model(path), read_model(out)
    old, new = load(path), load(out)
    rows = random_rows(before, X.shape[1], 300, 0)
    told = compare(before, after, rows, "")
    seen = rows
    if name == "pipeline":
        # The trees read what the scaler puts out.
        seen = old[0].inverse_transform(rows)
    changed = old.predict(seen) != new.predict(seen)
    assert told.changed_labels == changed.sum()
    if hasattr(old, "predict_proba"):
        off = np.abs(old.predict_proba(seen) - new.predict_proba(seen)).max()
        assert told.largest_change == pytest.approx(off, abs=1e-9)
    if name == "regression":
        assert told.largest_change == 0


@examples(50, fast=6)
@given(st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=9))
def test_rounded_and_merged_shares_are_shares_with_the_same_largest_class(counts):
    table = np.array(counts, dtype=float) + np.array([[1e-9, 0, 0]])
    share = table / table.sum(axis=1, keepdims=True)
    for change in (_rounded(1), _rounded(3), _merged(2), _merged(5), _majority):
        new = change(share)
        np.testing.assert_allclose(new.sum(axis=1), 1)
        np.testing.assert_array_equal(change(new), new)
        own = np.arange(len(share)), share.argmax(axis=1)
        np.testing.assert_array_equal(new[own], new.max(axis=1))
    assert len(np.unique(_merged(2)(share))) <= 2


# --------------------------------------------------------------------------- what is taken away


@pytest.mark.parametrize("name", spread(KINDS, fast=5))
def test_seeds_are_nowhere_in_the_file(saved, tmp_path, name):
    path = saved / f"{name}.skops"
    seeds = {FOREST_SEED}
    for stored in read_everything(load(path)):
        seeds.add(stored)
    out = stepped(path, tmp_path / "out.skops", "seeds")
    old, new = members(path), members(out)
    assert any(found(seed, old) for seed in seeds)
    for seed in seeds:
        assert not found(seed, new)


def read_everything(model):
    """Seeds of the trees of a fitted model, by scikit-learn's own attributes."""
    if hasattr(model, "steps"):
        model = model[-1]
    if hasattr(model, "best_estimator_"):
        model = model.best_estimator_
    if hasattr(model, "calibrated_classifiers_"):
        return [s for c in model.calibrated_classifiers_ for s in read_everything(c.estimator)]
    if isinstance(model, (VotingClassifier, StackingClassifier)):
        return [s for inner in model.estimators_ for s in read_everything(inner)]
    if hasattr(model, "_random_seed"):
        return [int(model._random_seed)]
    trees = np.ravel(getattr(model, "estimators_", []))
    return [int(t.random_state) for t in trees if isinstance(t.random_state, (int, np.integer))]


def found(seed, files):
    """Whether a seed stands in the description or in an array of numbers."""
    text = files["schema.json"].decode()
    if re.search(rf'"content": "{seed}"', text):
        return True
    for name, content in files.items():
        if name.endswith(".npy"):
            array = np.load(io.BytesIO(content))
            if array.dtype.kind in "iu" and (array == seed).any():
                return True
    return False


@pytest.mark.parametrize("name", spread((k for k in KINDS if k != "isolation"), fast=5))
def test_counts_impurities_and_inner_values_are_gone(saved, tmp_path, name):
    out = stepped(saved / f"{name}.skops", tmp_path / "out.skops", *DEFAULT)
    trees = []
    Archive.read(out).with_trees(lambda tree: trees.append(tree) or tree)
    assert trees
    for tree in trees:
        fields = tree.nodes.dtype.names
        for field in ("n_node_samples", "weighted_n_node_samples", "impurity", "count", "gain"):
            assert field not in fields or not tree.nodes[field].any()
        if tree.values is not None:
            inner = tree.nodes["left_child"] != -1
            assert not tree.values[inner].any()
            assert tree.values[~inner].any(axis=(1, 2)).any()


SELECTING = make_pipeline(SelectFromModel(RandomForestClassifier(**FEW)), DecisionTreeClassifier())


@pytest.mark.parametrize(
    ("model", "several"),
    spread(
        [
            (VotingClassifier([("a", RandomForestClassifier(**FEW)), ("b", SELECTING)]), False),
            (CalibratedClassifierCV(SELECTING, cv=2), False),
            (OneVsOneClassifier(SELECTING), False),
            (MultiOutputClassifier(SELECTING), True),
            (ClassifierChain(SELECTING), True),
        ],
        fast=2,
        each=True,
    ),
    ids=lambda x: type(x).__name__,
)
def test_a_choice_of_columns_by_counts_is_refused_wherever_it_is(tmp_path, model, several):
    y = np.column_stack([Y > 0, X[:, 0] > 1]).astype(int) if several else Y
    skops.io.dump(model.fit(X, y), tmp_path / "model.skops")
    with pytest.raises(BadInput, match="SelectFromModel, which chooses columns"):
        treeleak.harden(tmp_path / "model.skops", tmp_path / "out.skops", time_limit=5)
    assert not (tmp_path / "out.skops").exists()


@pytest.mark.parametrize("first", [True, False])
def test_a_vote_with_trees_that_are_not_compared_is_refused(tmp_path, first):
    members = [
        ("a", HistGradientBoostingClassifier(max_iter=2)),
        ("b", GradientBoostingClassifier(n_estimators=2)),
    ]
    model = VotingClassifier(members if first else members[::-1]).fit(X, Y)
    skops.io.dump(model, tmp_path / "model.skops")
    with pytest.raises(BadInput, match="beside the one that answers"):
        treeleak.harden(tmp_path / "model.skops", tmp_path / "out.skops", time_limit=5)
    assert not (tmp_path / "out.skops").exists()


# ------------------------------------------------------------------------- the rest is untouched


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path,
            marks=() if path in STORED[-5:] else pytest.mark.slow,
            id=f"{path.parent.name}-{path.stem}",
        )
        for path in STORED
    ],
)
def test_files_of_all_versions_twice_hardened_are_the_same_and_the_rest_is_untouched(
    path, tmp_path
):
    once = stepped(path, tmp_path / "once.skops", *DEFAULT, "round=2")
    twice = stepped(once, tmp_path / "twice.skops", *DEFAULT, "round=2")
    assert once.read_bytes() == twice.read_bytes()
    old, new = members(path), members(once)
    trees = set()
    for text in re.findall(
        r'"__class__": "Tree".*?"values": \{.*?\}', old["schema.json"].decode(), re.S
    ):
        trees |= set(re.findall(r"\d+\.npy", text))
    for name, content in new.items():
        assert content == old[name] or name in trees | {"schema.json"}
    release = to_release(path)
    rows = random_rows(read_model(path), release.n_features, 200, 0)
    plain = stepped(path, tmp_path / "plain.skops", *DEFAULT)
    told = compare(read_model(path), read_model(plain), rows, "")
    assert told.changed_labels == 0
    assert told.largest_change < 1e-12
    assert to_release(plain).feature_names == release.feature_names


# --------------------------------------------------------------------------- counts from shares


@pytest.mark.parametrize(
    "name", ["forest", "forest, shallow", "forest, all rows", "extra", "tree", "bagging"]
)
def test_without_counts_the_shares_of_inner_nodes_give_them_back(saved, tmp_path, name):
    path = saved / f"{name}.skops"
    old = to_release(path)
    new = to_release(stepped(path, tmp_path / "out.skops", "counts"))
    assert new.counts_are == old.counts_are
    assert new.n_rows == old.n_rows
    for before, after in zip(old.trees, new.trees, strict=True):
        assert after.distinct is None
        if after.n_nodes == before.n_nodes:
            np.testing.assert_array_equal(before.counts, after.counts)
        else:
            # Cut where the children have equal shares: the leaves of the rest add up.
            np.testing.assert_array_equal(before.counts[0], after.counts[after.leaves].sum(axis=0))


@pytest.mark.parametrize("bootstrap", [False, True])
@pytest.mark.slow
def test_shares_that_fit_fewer_rows_are_those_of_the_rows_told(tmp_path, bootstrap):
    """Half of twenty rows on each side: the shares alone are those of two."""
    rows = pd.DataFrame({"a": [0, 1] * 10, "b": [0, 0, 1, 1] * 5})
    forest = RandomForestClassifier(1, bootstrap=bootstrap, random_state=0).fit(rows, rows["a"])
    source, out = tmp_path / "model.skops", tmp_path / "out.skops"
    skops.io.dump(forest, source)
    for given_ in ({}, {"X": rows, "y": rows["a"]}):
        found = treeleak.harden(source, out, force=True, time_limit=30, seed_search=1, **given_)
        assert found.audit.mismatch is None
        by_step = {s.step: s.leak for s in found.states}
        if not bootstrap:
            # As before the step, which took nothing that shares do not tell.
            assert by_step["counts"].status == by_step["impurity"].status == "feasible"
    treeleak.harden(source, out, "sizes,counts", force=True, time_limit=30, seed_search=1)
    plain, told = to_release(out), rescale_weights_to_counts(to_release(out), 20)
    assert int(told.trees[0].totals[0]) == 20
    assert rescale_weights_to_counts(told, 20) is told
    assert rescale_weights_to_counts(plain, 7) is plain or int(plain.trees[0].totals[0]) in (1, 7)
    assert rescale_weights_to_counts(plain, None) is plain
    if not bootstrap:
        np.testing.assert_array_equal(plain.trees[0].counts[1:], [[1, 0], [0, 1]])
        np.testing.assert_array_equal(told.trees[0].counts[1:], [[10, 0], [0, 10]])
        audit = treeleak.audit(out, rows, rows["a"], time_limit=10)
        assert audit.mismatch is None
        assert any("each count is 10 times" in note for note in audit.notes)
        with pytest.raises(BadInput, match="n_rows is 21, but the leaves of tree 0 count 2 rows"):
            treeleak.reconstruct(out, n_rows=21)


@pytest.mark.parametrize("name", ["forest", "forest, all rows", "tree", "forest, shallow"])
def test_without_inner_shares_leaves_tell_the_classes_that_they_hold(saved, tmp_path, name):
    path = saved / f"{name}.skops"
    old = to_release(path)
    new = to_release(stepped(path, tmp_path / "out.skops", *DEFAULT))
    assert new.counts_are == "labels"
    assert new.n_rows is None
    shallow = name == "forest, shallow"
    drawn = old.sampling.kind == "bootstrap"
    assert new.noise == (LabelNoise() if shallow else LabelNoise("present", 1 if drawn else 8))
    for before, after in zip(old.trees, new.trees, strict=True):
        counts = before.counts[before.leaves]
        named = np.eye(3)[counts.argmax(axis=1)] if shallow else counts > 0
        np.testing.assert_array_equal(after.counts[after.leaves], named)
        assert not after.counts[~after.is_leaf].any()
        assert after.totals is None
        assert after.distinct is None


# ------------------------------------------------------------------------------------ the whole


@pytest.fixture(scope="module")
def binary(tmp_path_factory):
    rng = np.random.default_rng(3)
    rows = pd.DataFrame(rng.integers(0, 2, (40, 6)), columns=list("abcdef"))
    label = (rows["a"] + rows["b"] * rows["c"] > 1).astype(int) ^ (rng.random(40) < 0.1)
    folder = tmp_path_factory.mktemp("binary")
    model = RandomForestClassifier(12, random_state=42).fit(rows, label)
    keep(folder, model, rows, label, None, "y")
    return folder, rows, label


@pytest.mark.slow
def test_the_leak_is_shown_after_each_step(binary, tmp_path):
    folder, rows, label = binary
    source, out = folder / "model.skops", tmp_path / "out.skops"
    found = treeleak.harden(source, out, X=rows, y=label, time_limit=12, seed_search=100)
    assert [s.step for s in found.states] == ["as it was", *DEFAULT]
    by_step = {s.step: s for s in found.states}
    assert by_step["as it was"].leak.wrong < 0.05
    assert "trees' seeds" in by_step["as it was"].leak.draws
    # The seed 42 is found again as long as the numbers of distinct rows are there.
    assert "forest seed 42" in by_step["seeds"].leak.draws
    assert by_step["counts"].leak.draws is None
    assert by_step["counts"].leak.measured
    assert not by_step["oob"].changed
    assert found.leak.wrong > by_step["as it was"].leak.wrong
    assert found.answers.changed_labels == 0
    assert found.audit.provenance.file == str(out)
    assert [e.names for e in found.still_there] == [("values",)]
    valid(json.loads(found.to_json()), "hardened")
    again = treeleak.audit(out, time_limit=2)
    assert again.provenance.sha256 == found.sha256
    assert "--n-rows" in dict(again.not_assessed)["reconstruction"]
    assert again.verdict == "not assessed"


def times_of(instead, takes):
    """Let the n-th attack take so many seconds; note what each may take, and what was left."""
    told, ends = [], iter(takes)

    def audit(model, **options):
        clock = options.pop("time_limit")
        told.append((clock.left, clock.parent.left))
        # As if that much time had passed.
        clock.parent.started -= next(ends)
        return treeleak.audit(model, **options, time_limit=0.2)

    instead("audit", audit, hardening_run)
    return told


@pytest.mark.slow
def test_a_state_without_time_says_so_and_the_last_has_its_share(binary, tmp_path, instead):
    told = times_of(instead, [7_600, 0])
    steps, source = "seeds,counts,inner", binary[0] / "model.skops"
    found = treeleak.harden(source, tmp_path / "o", steps, time_limit=Clock(10_000.0))
    first, *passed, last = found.states
    assert len(told) == 2
    assert told[-1][0] == pytest.approx(2_400, rel=0.01)
    assert first.leak.status is not None
    assert last.attacked
    assert len(passed) == 2
    for state in passed:
        assert state.leak.verdict == "not assessed"
        assert state.leak.why == "the time limit of 10000 s was reached"
        assert state.changed
        assert not state.attacked
    console = Console(file=io.StringIO(), width=80, force_terminal=False)
    render_hardened(found, console)
    said = " ".join(console.file.getvalue().split())
    assert "seeds: not assessed: the time limit of 10000 s was reached" in said
    assert "not run again" not in said
    # Nothing of what is written depends on time.
    times_of(instead, [0] * 9)
    treeleak.harden(source, tmp_path / "again", steps, time_limit=Clock(10_000.0))
    assert (tmp_path / "o").read_bytes() == (tmp_path / "again").read_bytes()


@pytest.mark.slow
def test_labels_that_change_are_counted_and_refused_unless_tolerated(saved, tmp_path):
    source, out = saved / "forest, shallow.skops", tmp_path / "out.skops"
    steps = "counts,inner,majority"
    with pytest.raises(BadInput, match=r"rows .* get another label, more than allowed"):
        treeleak.harden(source, out, steps, rows=X, time_limit=1)
    with pytest.raises(BadInput, match="after step majority leaves contradict"):
        treeleak.harden(source, out, "majority", rows=X, tolerance=1, time_limit=1)
    assert not out.exists()
    found = treeleak.harden(source, out, steps, rows=X, tolerance=1, time_limit=1)
    changed = load(source).predict(X) != load(out).predict(X)
    assert found.answers.changed_labels == changed.sum() > 0
    with pytest.raises(NotCovered, match="single trees, forests and baggings"):
        treeleak.harden(saved / "ada.skops", out, "majority", force=True)


@pytest.mark.slow
def test_an_interruption_leaves_no_file(binary, tmp_path):
    folder, rows, label = binary
    sent = []

    def stop(progress):
        if not sent:
            sent.append(True)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        treeleak.harden(
            folder / "model.skops", tmp_path / "out.skops", X=rows, y=label, progress=stop,
            time_limit=5,
        )  # fmt: skip
    assert sent
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_cannot_be_hardened_is_refused(saved, tmp_path, binary):
    out = tmp_path / "out.skops"
    folder, rows, label = binary
    source = folder / "model.skops"
    with pytest.raises(BadInput, match=r"with skops\.io\.dump or save_model"):
        treeleak.harden(MODELS / "1.9.1" / "drawn.pkl", out)
    with pytest.raises(BadInput, match=r"no step is named 'nonsense'; there are oob, weights"):
        treeleak.harden(source, out, "seeds,nonsense")
    for text, told in [("round", "round=N"), ("merge=1", "from 2"), ("seeds,seeds", "twice")]:
        with pytest.raises(BadInput, match=told):
            parse_steps(text)
    with pytest.raises(BadInput, match="is the model itself"):
        treeleak.harden(source, source, force=True)
    out.write_text("x")
    with pytest.raises(BadInput, match="--force"):
        treeleak.harden(source, out)
    assert out.read_text() == "x"
    with pytest.raises(Mismatch, match="not its training rows"):
        treeleak.harden(source, out, "seeds", X=1 - rows, y=label, force=True, time_limit=2)
    assert out.read_text() == "x"
    skops.io.dump(LogisticRegression().fit(rows, label), tmp_path / "other.skops")
    with pytest.raises(NotCovered, match="holds no trees"):
        treeleak.harden(tmp_path / "other.skops", tmp_path / "no.skops")


@pytest.mark.slow
def test_hostile_archives_are_refused(saved, tmp_path):
    out, bad = tmp_path / "out.skops", tmp_path / "bad.skops"
    with zipfile.ZipFile(bad, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("schema.json", " " * (200 << 20))
    with pytest.raises(BadModel, match="far more than its own size"):
        treeleak.harden(bad, out)
    source = saved / "forest.skops"
    bad.write_bytes(source.read_bytes()[:-100])
    with pytest.raises(BadModel, match="damaged"):
        treeleak.harden(bad, out)

    def lost(schema):
        schema["content"]["content"]["classes_"]["file"] = "gone.npy"

    with pytest.raises(BadModel):
        treeleak.harden(rewrite(source, bad, lost), out)
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(bad, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
        with pytest.warns(UserWarning, match="Duplicate"):
            new.writestr("schema.json", old.read("schema.json"))
    with pytest.raises(BadModel, match="two members have one name"):
        treeleak.harden(bad, out)

    def cached(schema):
        schema["content"]["content"]["max_depth"] = {"__loader__": "CachedNode", "__id__": 5}

    with pytest.raises(NotCovered, match=r"skops\.io\.dump"):
        treeleak.harden(rewrite(source, bad, cached), out)
    assert not out.exists()


# ------------------------------------------------------------------------------ the command line


@pytest.mark.parametrize("name", ["histogram", "boosted"])
def test_borders_and_scores_of_boosting_are_gone(tmp_path, name):
    rng = np.random.default_rng(3)
    table = np.column_stack([rng.normal(size=200), rng.integers(0, 4, 200)])
    label = table[:, 0] > 0
    model = HistGradientBoostingClassifier(
        max_iter=3, early_stopping=True, categorical_features=[1], random_state=0
    )
    if name == "boosted":
        model = GradientBoostingClassifier(n_estimators=3, subsample=0.5, random_state=0)
    skops.io.dump(model.fit(table, label), tmp_path / "a.skops")
    out = stepped(tmp_path / "a.skops", tmp_path / "b.skops", *DEFAULT)
    old, new = load(tmp_path / "a.skops"), load(out)
    rows = np.column_stack([rng.normal(size=500), rng.integers(-1, 6, 500)])
    rows[::7] = np.nan
    if name == "boosted":
        rows = np.nan_to_num(rows)
    np.testing.assert_array_equal(old.predict_proba(rows), new.predict_proba(rows))
    raw = b"".join(members(out).values())
    scores = np.asarray(old.train_score_, dtype=float)
    assert any(s.tobytes() in b"".join(members(tmp_path / "a.skops").values()) for s in scores)
    assert not any(s.tobytes() in raw for s in scores)
    if name == "histogram":
        borders = old._bin_mapper.bin_thresholds_[1]  # Categories come first.
        tested = {n for p in old._predictors for t in p for n in t.nodes["num_threshold"]}
        hidden = [b for b in borders if b not in tested]
        assert len(hidden) > 100
        assert not any(np.float64(b).tobytes() in raw for b in hidden)
        assert to_release(out).borders == {}
