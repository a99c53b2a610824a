"""Hardened files of boosting libraries: they load, predict the same to the last bit, tell less.

What needs no library is tried on the stored files of several versions. The rest is skipped, with
the reason, where a library is missing.
"""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import numpy as np
import pytest

import treeleak
from experiments.zoo import settings
from helpers.cli import run
from helpers.examples import seeds, spread
from treeleak.auditing.inventory import owners
from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.inventory.inventory import take_inventory
from treeleak.core.errors import BadInput, BadModel, NotCovered
from treeleak.evidence import LeafValueEvidence, evidence_for
from treeleak.hardening.files import catboost
from treeleak.hardening.files.document import json_bytes
from treeleak.hardening.formats import format_of
from treeleak.release import read_model, to_release
from treeleak.release.statistics import GAIN, HESSIAN, L2, ROWS, STEP, VALUE

pytestmark = pytest.mark.filterwarnings("ignore")

STORED = Path(__file__).parent / "models" / "boosted"
FILES = sorted(
    path
    for path in STORED.glob("*/*")
    if path.suffix in (".json", ".ubj", ".txt", ".cbm") and path.name != "truth.json"
)
N_ROWS = 10_000
ODD = "lines that LightGBM does not write"


def hardened(path, out, *names):
    """The file after all steps of its format, or those named; nothing is attacked."""
    kind = format_of(Path(path))
    content = kind.read(Path(path))
    for step in kind.steps:
        if not names or step.name in names:
            content = step.apply(content)
    Path(out).write_bytes(content.to_bytes())
    return Path(out)


def tried(rng, X):
    """Rows around those of the training, on their values, with some missing."""
    rows = rng.choice(X.ravel()[~np.isnan(X.ravel())], (N_ROWS, X.shape[1]))
    rows += rng.choice([0, 0, 0.5, 1e-9, -0.5], rows.shape)
    rows[rng.random(rows.shape) < 0.15] = np.nan
    return rows


def same_bits(a, b):
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype
    assert a.tobytes() == b.tobytes()


def inventory_of(path, X=None):
    stored = read_model(path)
    return take_inventory(stored, Context(release=to_release(stored), rows=X), X)


def id_of(path):
    return f"{path.parent.name}/{path.name}"


# --------------------------------------------------------------------------- the stored files


@pytest.mark.parametrize("path", FILES, ids=id_of)
def test_every_step_is_idempotent_and_says_where_it_finds_nothing(path):
    kind = format_of(path)
    content = kind.read(path)
    for step in kind.steps:
        once = step.apply(content)
        assert step.apply(once) is once
        content = once
    assert all(step.apply(content) is content for step in kind.steps)


@pytest.mark.parametrize("path", [p for p in FILES if p.suffix != ".cbm"], ids=id_of)
def test_trees_and_leaves_stay_and_all_other_numbers_are_gone(path, tmp_path):
    before = to_release(path)
    after = to_release(hardened(path, tmp_path / "out"))
    assert before.ensemble.base_scores == after.ensemble.base_scores
    assert before.classes == after.classes
    assert before.feature_names == after.feature_names
    for one, other in zip(before.trees, after.trees, strict=True):
        for name in ("feature", "threshold", "left", "right", "missing_left"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        # What was added to sums is no number of the file: it follows from tests for categories.
        told = {entry.quantity for entry in other.statistics} - {L2}
        assert told == {VALUE}
        for per_class in (False, True):
            values = [t.statistics.get(VALUE, per_class=per_class) for t in (one, other)]
            assert (values[0] is None) == (values[1] is None)
            if values[0] is not None:
                leaves = one.leaves
                same_bits(values[0].values[leaves], values[1].values[leaves])
    assert any({ROWS, HESSIAN, GAIN, STEP} & {e.quantity for e in t.statistics}
               for t in before.trees)  # fmt: skip
    assert after.n_rows is None
    # What leaves add is left, and may be enough.
    assert after.not_covered is not None or evidence_for(after) is LeafValueEvidence


def numbers_in(value, found):
    """All numbers in a document, with the key that they stand under."""
    for key, own in value.items() if isinstance(value, dict) else ():
        if isinstance(own, list) and own and not isinstance(own[0], (dict, list, str)):
            found.setdefault(key, []).extend(own)
        elif isinstance(own, np.ndarray):
            found.setdefault(key, []).extend(own.tolist())
        for inner in own if isinstance(own, list) else [own]:
            numbers_in(inner, found)
    return found


def test_notes_of_somebody_are_dropped_and_those_of_the_library_stay(tmp_path):
    path = STORED / "xgboost-3.2.0" / "logistic.ubj"
    model = json.loads((STORED / "xgboost-3.2.0" / "regression.json").read_text())
    model["learner"]["attributes"] = {"best_iteration": "1", "best_score": "0.25", "who": "Ann"}
    model["learner"]["table"] = [[1, 2], [3, 4]]
    model["learner"]["objective"]["reg_loss_param"]["scale_pos_weight"] = "7.5"
    model["learner"]["gradient_booster"]["model"]["trees"][0]["rows"] = [4, 5, 6]
    given = tmp_path / "given.json"
    given.write_text(json.dumps(model))
    found = inventory_of(given)
    assert {n for e in found if e.unknown for n in e.names} == {"who", "table", "rows"}
    text = hardened(given, tmp_path / "out").read_text()
    for word in ("Ann", "table", '"rows"', "0.25", "7.5"):
        assert word not in text
    assert '"best_iteration":"1"' in text
    assert not [e for e in inventory_of(tmp_path / "out") if e.unknown]
    assert b"learner" in hardened(path, tmp_path / "ubj").read_bytes()


@pytest.mark.parametrize(
    ("n", "more", "unknown"), [(300, 0, set()), (300, 1, {"importances", ODD})]
)
def test_importances_of_the_columns_that_trees_test_are_known_and_no_more(
    n, more, unknown, tmp_path
):
    text = (STORED / "lightgbm-4.7.0" / "regression.txt").read_text()
    names = [f"town={k}" for k in range(n)]
    splits = [f"town={k}={times}\n" for k, times in ((0, 6), (3, 5), (2, 3), (1, 1))]
    told = "".join([*splits, *splits[:more]])
    for pattern, new in {
        r"max_feature_idx=.*": f"max_feature_idx={n - 1}",
        r"feature_names=.*": f"feature_names={' '.join(names)}",
        r"feature_infos=.*": f"feature_infos={' '.join(['none'] * n)}",
        r"(feature_importances:\n)([^\n]+\n)*": rf"\1{told}",
    }.items():
        text, found = re.subn(pattern, new, text)
        assert found == 1
    (tmp_path / "wide.txt").write_text(text)
    entries = inventory_of(tmp_path / "wide.txt")
    assert {name for e in entries if e.unknown for name in e.names} == unknown


@pytest.mark.parametrize("path", sorted(STORED.glob("sklearn-*/*.skops")), ids=id_of)
def test_leaves_speak_of_targets_where_there_are_targets(path):
    found = inventory_of(path)
    assert not [e.names for e in found if e.unknown]
    told = {e.what for e in found if e.mark == "leaks"}
    targets = ("mean target, or step, of each node", "prediction of each leaf")
    random = "means and variances of random numbers"
    assert (random in told) == (path.stem == "isolation")
    assert (random in told) != bool(told & set(targets))


# ------------------------------------------------------------------------- the command line


@pytest.mark.parametrize(
    "name",
    spread(["xgboost-3.2.0/regression.json", "xgboost-1.7.6/logistic.ubj",
            "lightgbm-4.7.0/binary.txt", "catboost-1.2.10/logloss.json"], fast=1),
)  # fmt: skip
def test_the_command_hardens_attacks_and_says_what_is_left(name, tmp_path):
    out = tmp_path / "out"
    done = run("harden", STORED / name, "--out", out, "--time-limit", "1", "--json",
               tmp_path / "told.json", "--quiet")  # fmt: skip
    assert done.exit_code in (0, 3), done.output  # The attack may have had too little time.
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["states"][-1]["leak"]["verdict"] == "not assessed"
    assert told["states"][-1]["leak"]["why"]
    assert told["answers"]["largest_change"] == 0
    assert {"hessians", "counts"} & {s["step"] for s in told["states"] if s["changed"]}
    left = {e["what"] for e in told["still_there"]}
    assert any("leaf adds" in what for what in left)
    assert any("thresholds" in what for what in left)
    assert not any("rows in" in what or "gain" in what for what in left)
    assert read_model(out) is not None
    again = run("harden", out, "--out", tmp_path / "again", "--time-limit", "1", "--quiet")
    assert again.exit_code in (0, 3)
    assert (tmp_path / "again").read_bytes() == out.read_bytes()


def test_steps_of_other_formats_are_refused(tmp_path):
    path = STORED / "xgboost-3.2.0" / "regression.json"
    with pytest.raises(BadInput, match="no step is named 'ranges'; there are hessians"):
        treeleak.harden(path, tmp_path / "out", "ranges")
    with pytest.raises(NotCovered, match="round=2"):
        treeleak.harden(path, tmp_path / "out", "round=2")
    pickled = STORED / "xgboost-3.2.0" / "pickled.pkl"
    with pytest.raises(BadInput, match="dump or save_model"):
        treeleak.harden(pickled, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    snapshot = tmp_path / "snapshot.json"
    snapshot.write_bytes(json_bytes({"Config": {}, "Model": json.loads(path.read_text())}))
    with pytest.raises(NotCovered, match="save the model with save_model first"):
        treeleak.harden(snapshot, tmp_path / "out")


@seeds(300, fast=20)
def test_damaged_files_end_in_an_error_or_in_a_file_that_is_read(seeds, tmp_path):
    rng = np.random.default_rng(0)
    paths = [p for p in FILES if p.parent.name.endswith(("3.2.0", "4.7.0", "1.2.10"))]
    for seed in seeds:
        path = paths[seed % len(paths)]
        raw = bytearray(path.read_bytes())
        for at in rng.integers(0, len(raw), rng.integers(1, 4)):
            raw[at] = rng.integers(0, 256)
        place = tmp_path / path.name
        place.write_bytes(bytes(raw[: rng.integers(1, len(raw))] if rng.random() < 0.2 else raw))
        try:
            hardened(place, tmp_path / "out")
        except (BadInput, BadModel, NotCovered):
            continue
        assert (tmp_path / "out").stat().st_size > 0


def test_a_cbm_file_that_points_outside_of_itself_is_refused(tmp_path):
    raw = (STORED / "catboost-1.2.10" / "logloss.cbm").read_bytes()
    refused = 0
    for at in range(8, 120, 4):
        bad = bytearray(raw)
        struct.pack_into("<I", bad, at, 0x7FFFFFF0)
        (tmp_path / "bad.cbm").write_bytes(bad)
        try:
            catboost.Cbm.read(tmp_path / "bad.cbm")
        except BadModel:
            refused += 1
    assert refused > 5


# --------------------------------------------------------------- predictions, by the libraries


NATIVE = {"xgboost": ("json", "ubj"), "lightgbm": ("txt",), "catboost": ("json", "cbm")}
SEEDS = {"xgboost": "seed", "lightgbm": "seed", "catboost": "random_seed"}
SEED = 918273645
# What releases do not cover, and models whose predictions need counts of categories.
UNCOUNTED = ("vector_leaves", "zero_missing", "linear_trees", "counters", "counters_pairs")
TRAINED = [
    (library, end, *setting)
    for library, ends in NATIVE.items()
    for setting in settings.SETTINGS[library]
    for end in ends
    if setting[0] != "linear" and "_wrapper" not in setting[2] and "_save" not in setting[2]
]


def of_xgboost(path, X):
    """What XGBoost itself says of rows by a file, in all ways."""
    import xgboost

    model = xgboost.Booster({"nthread": 1}, model_file=str(path))
    rows = xgboost.DMatrix(X, enable_categorical=True)
    ways = ({"output_margin": True}, {}, {"pred_leaf": True}, {"iteration_range": (0, 1)})
    return [model.predict(rows, **how) for how in ways], model


def of_lightgbm(path, X):
    import lightgbm

    model = lightgbm.Booster(model_file=path)
    ways = ({"raw_score": True}, {}, {"pred_leaf": True}, {"num_iteration": 1})
    return [model.predict(X, **how) for how in ways], model


def of_catboost(path, X):
    import catboost

    model = catboost.CatBoost().load_model(str(path), format=path.suffix[1:])
    kinds = ["RawFormulaVal", "Exponent"]
    kinds += ["Probability", "Class"] if model.classes_ is not None and len(model.classes_) else []
    return [model.predict(X, kind) for kind in kinds], model


SAID = {"xgboost": of_xgboost, "lightgbm": of_lightgbm, "catboost": of_catboost}


@pytest.mark.parametrize(("library", "end", "name", "table", "params"), spread(TRAINED, fast=12))
def test_the_library_predicts_the_same_to_the_last_bit(library, end, name, table, params, tmp_path):
    pytest.importorskip(library, reason=f"needs treeleak[{library}]")
    data = settings.table(table)
    own = {**params, "_save": end, SEEDS[library]: SEED}
    path = settings.MAKERS[library](own, data, tmp_path / name)
    out = hardened(path, tmp_path / f"out.{end}")
    if library != "xgboost":
        assert str(SEED).encode() in path.read_bytes()
    assert str(SEED).encode() not in out.read_bytes()
    X = data["X"]
    if not hasattr(X, "columns"):
        X = tried(np.random.default_rng(0), X)
    (before, old), (after, new) = (SAID[library](at, X) for at in (path, out))
    for one, other in zip(before, after, strict=True):
        same_bits(one, other)
    # What the library writes of it again is no more than what was left.
    again = tmp_path / f"again.{end}"
    new.save_model(str(again), **{"format": end} if library == "catboost" else {})
    if library == "xgboost":
        assert old.attributes().get("best_iteration") == new.attributes().get("best_iteration")
    if library == "catboost":
        assert b"metrics_history" not in again.read_bytes()
    for tree in () if name in UNCOUNTED else to_release(again).trees:
        told = [e for e in tree.statistics if e.quantity in (ROWS, HESSIAN, GAIN)]
        assert not any(entry.values.any() for entry in told)


def test_what_was_pruned_leaves_no_threshold_behind(tmp_path):
    xgboost = pytest.importorskip("xgboost", reason="needs XGBoost: treeleak[xgboost]")
    X = np.random.default_rng(0).normal(size=(300, 3))
    params = {"gamma": 12, "max_depth": 6, "tree_method": "exact", "nthread": 1}
    data = xgboost.DMatrix(X, X[:, 0] + X[:, 1] ** 2)
    xgboost.train(params, data, 2).save_model(tmp_path / "a.json")
    pruned = [t for t in trees_in(tmp_path / "a.json") if t["tree_param"]["num_deleted"] != "0"]
    assert pruned
    assert all(unreached(tree) for tree in pruned)
    out = hardened(tmp_path / "a.json", tmp_path / "b.json")
    assert not any(unreached(tree) for tree in trees_in(out))
    old, new = (xgboost.Booster(model_file=str(p)) for p in (tmp_path / "a.json", out))
    same_bits(old.predict(data), new.predict(data))


def trees_in(path):
    return json.loads(path.read_text())["learner"]["gradient_booster"]["model"]["trees"]


def unreached(tree):
    """Thresholds of nodes that no other names as a child."""
    named = {0, *tree["left_children"], *tree["right_children"]}
    return {v for i, v in enumerate(tree["split_conditions"]) if i not in named} - {0}


def test_the_estimators_of_xgboost_load_what_is_left(tmp_path):
    xgboost = pytest.importorskip("xgboost", reason="needs XGBoost: treeleak[xgboost]")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 4)), rng.integers(0, 3, 200)
    model = xgboost.XGBClassifier(n_estimators=4, early_stopping_rounds=2)
    model.fit(X, y, eval_set=[(X, y)], verbose=False).save_model(tmp_path / "a.json")
    new = xgboost.XGBClassifier()
    new.load_model(hardened(tmp_path / "a.json", tmp_path / "b.json"))
    rows = tried(rng, X)
    same_bits(model.predict_proba(rows), new.predict_proba(rows))
    same_bits(model.predict(rows), new.predict(rows))
    assert "best_score" not in (tmp_path / "b.json").read_text()


@pytest.mark.slow
def test_the_counts_of_a_cbm_file_are_nowhere_in_it(tmp_path):
    catboost = pytest.importorskip("catboost", reason="needs CatBoost: treeleak[catboost]")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 4))
    model = catboost.CatBoostClassifier(
        iterations=3, depth=4, verbose=0, allow_writing_files=False
    ).fit(X, X[:, 0] > 0)
    model.save_model(str(tmp_path / "a.cbm"))
    model.save_model(str(tmp_path / "a.json"), format="json")
    trees = json.loads((tmp_path / "a.json").read_text())["oblivious_trees"]
    stored = [struct.pack(f"<{len(t['leaf_weights'])}d", *t["leaf_weights"]) for t in trees]
    raw = (tmp_path / "a.cbm").read_bytes()
    assert all(part in raw for part in stored)
    kept = hardened(tmp_path / "a.cbm", tmp_path / "b.cbm").read_bytes()
    for part in stored:
        for at in range(0, len(part) - 16, 8):
            if part[at : at + 16].strip(b"\0"):
                assert part[at : at + 16] not in kept
    done = run("harden", tmp_path / "a.cbm", "--out", tmp_path / "c.cbm", "--quiet",
               "--time-limit", "0.5")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert (tmp_path / "c.cbm").read_bytes() == kept


def test_a_whole_number_of_any_length_makes_no_table_of_numbers():
    assert owners.numbers_in([1, 10**400]) is None
    assert owners.numbers_in([1, 10**30]) is not None


def test_hessians_count_the_rows_of_the_first_tree_where_counts_are_gone(tmp_path):
    """LightGBM's other trees stay uncounted: before them, predictions differ."""
    tried_any = 0
    for path in FILES:
        before = to_release(path) if path.suffix == ".txt" else None
        ensemble = None if before is None else before.ensemble
        fitting = None if ensemble is None else ensemble.fitting
        if fitting is None or fitting.loss != "logistic" or before.n_rows is None:
            continue
        after = to_release(hardened(path, tmp_path / path.name, "counts"))
        first = after.trees[0].statistics.get(ROWS)
        if first is None:
            continue
        tried_any += 1
        assert (first.values == before.trees[0].statistics.get(ROWS).values).all()
        assert after.n_rows == before.n_rows
        for tree in after.trees[1:]:
            assert tree.n_nodes == 1 or tree.statistics.get(ROWS) is None
    assert tried_any
