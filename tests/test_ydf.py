"""Models of Yggdrasil decision forests: what is read, what nodes count, and what is refused."""

import gzip
import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, softmax
from sklearn.datasets import load_wine

import treeleak
from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.inventory.inventory import take_inventory
from treeleak.auditing.prepare import context_of
from treeleak.core.errors import BadModel, NotCovered, TreeleakError
from treeleak.release import read_model, to_release
from treeleak.release.draws.recompute import fitted_rows
from treeleak.release.draws.seeds import known_draws
from treeleak.release.readers import protobuf
from treeleak.release.readers.ydf import _crc, unaccounted
from treeleak.release.statistics import GRADIENT, MEAN, VALUE, VARIANCE
from treeleak.release.stored import StoredObject, objects_in

MODELS = Path(__file__).parent / "models" / "ydf"
TRUTH = json.loads((MODELS / "truth.json").read_text())
NAMES = tuple(TRUTH["models"])
NODES = "nodes-00000-of-00001"


def frame(split):
    return pd.DataFrame(split["data"], columns=split["columns"])


def encoded(release, table):
    """Give rows in the numbers of the model's columns."""
    out = {}
    for name in release.feature_names:
        levels = release.levels.get(name)
        out[name] = [
            np.nan if pd.isna(v) else float(v) if levels is None else
            levels.index(v) if v in levels else levels.index("<OOD>")
            for v in table[name]
        ]  # fmt: skip
    return pd.DataFrame(out)


def predicted(release, table, *, votes=False):
    """Predict as the library does, from the trees of the release."""
    leaf = release.leaves(encoded(release, table))
    each = list(zip(release.trees, leaf.T, strict=True))
    if release.ensemble is not None:
        starts = np.array(release.ensemble.base_scores)
        sums = np.tile(starts, (len(table), 1))
        for t, (tree, at) in enumerate(each):
            sums[:, t % len(starts)] += tree.statistics.get(VALUE).values[at]
        if not release.classes:
            return sums[:, 0]
        return softmax(sums, axis=1) if len(starts) > 1 else expit(sums[:, 0])
    if not release.classes:
        return np.mean([tree.statistics.get(MEAN).values[at] for tree, at in each], axis=0)
    counts = [tree.counts[at] for tree, at in each]
    if votes:
        shares = [np.eye(release.n_classes)[c.argmax(axis=1)] for c in counts]
    else:
        shares = [c / c.sum(axis=1, keepdims=True) for c in counts]
    mean = np.mean(shares, axis=0)
    return mean[:, 1] if release.n_classes == 2 else mean


def counts_are_right(release, table, draws=None):
    """Say whether every leaf counts the rows, or draws, that get there."""
    held = getattr(release.sampling, "held_back", None)
    if held is not None:
        table = table.iloc[fitted_rows(held, len(table), None)]
    assert draws is not None or len(table) == release.n_rows
    leaf = release.leaves(encoded(release, table))
    for t, tree in enumerate(release.trees):
        weights = np.ones(len(table)) if draws is None else draws[t]
        n = np.bincount(leaf[:, t], weights=weights, minlength=tree.n_nodes)
        if not np.array_equal(n[tree.leaves], tree.totals[tree.leaves]):
            return False
    return True


def inventory(path):
    content = read_model(path)
    return take_inventory(content, context_of(content, to_release(content)))


@pytest.fixture
def copy(tmp_path):
    """Copy a model to a folder in which it may be changed."""

    def make(name="boosted"):
        return Path(shutil.copytree(MODELS / name, tmp_path / name))

    return make


def changed(path, change):
    path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize("name", NAMES)
def test_leaves_count_the_rows_that_training_used(name):
    rows = frame(TRUTH["rows"])
    release = to_release(MODELS / name)
    # Too few trees of the regression to confirm the seed by: its draws are recomputed, though.
    draws = known_draws(release).counts if release.sampling.kind == "bootstrap" else None
    assert counts_are_right(release, rows, draws)


def test_the_default_seed_is_confirmed_by_the_roots_and_another_is_not():
    release = to_release(MODELS / "forest")
    draws = known_draws(release)
    assert draws.forest_seed == 123456
    assert (draws.counts.sum(axis=1) == 60).all()
    # Other roots, of trees in another order, do not agree with these draws.
    mixed = np.random.default_rng(0).permutation(40)
    other = treeleak.release.Release(
        **{**release.__dict__, "trees": tuple(release.trees[t] for t in mixed), "notes": ()}
    )
    with pytest.raises(NotCovered, match="default"):
        known_draws(other)


def test_nodes_sum_up_the_derivatives():
    release, rows = to_release(MODELS / "boosted"), frame(TRUTH["rows"])
    fitted = rows.iloc[fitted_rows(release.sampling.held_back, len(rows), None)]
    assert release.ensemble.learning_rate == pytest.approx(0.1)
    assert release.ensemble.fitting.l2 == 0
    is_class = fitted["class"].to_numpy() == release.classes[1]
    leaf = release.leaves(encoded(release, fitted))
    margin = np.full(len(fitted), release.ensemble.base_scores[0])
    for t, tree in enumerate(release.trees):
        first = expit(margin) - is_class
        n = tree.totals[tree.leaves]
        sums, squares = (
            np.bincount(leaf[:, t], weights=w, minlength=tree.n_nodes)[tree.leaves]
            for w in (first, first**2)
        )
        assert np.allclose(tree.statistics.get(GRADIENT).values[tree.leaves], sums, atol=1e-5)
        variance = tree.statistics.get(VARIANCE).values[tree.leaves]
        assert np.allclose(variance, squares / n - (sums / n) ** 2, atol=1e-5)
        margin = margin + tree.statistics.get(VALUE).values[leaf[:, t]]


@pytest.mark.slow
def test_a_forest_gives_its_rows_back():
    rows = frame(TRUTH["rows"])
    found = treeleak.reconstruct(MODELS / "forest", time_limit=20)
    assert found.ordered
    assert len(found.X) == len(rows)
    age = rows["age"].to_numpy(float)
    assert np.mean((age >= found.lower["age"]) & (age <= found.upper["age"])) > 0.6


@pytest.mark.parametrize("name", NAMES)
def test_everything_in_the_files_is_known(name):
    entries = inventory(MODELS / name)
    assert not [e for e in entries if e.unknown or (e.rows and e.change == "rows")]
    what = {e.what for e in entries if e.mark == "leaks"}
    assert ("thresholds" in what) == (name != "single")
    assert {"smallest and largest value of each column",
            "values that occur in the training rows"} <= what  # fmt: skip
    labels = "label and prediction of each row that was held back"
    assert (labels in what) == (name == "single")


@pytest.mark.parametrize("start", [-60, 10**4])
def test_rounds_that_training_cannot_have_had_are_unknown(start):
    rows = np.random.default_rng(0).normal(size=60)
    state = {"number_of_trees": start + np.arange(60), "training_loss": rows}
    model = StoredObject("ydf.Entry", state)
    assert {n for e in take_inventory(model, Context()) if e.unknown for n in e.names} == {*state}


def importances(rows, keys):
    return [
        StoredObject("ydf.VariableImportances", {
            "key": key, "value.variable_importances": StoredObject(
                "ydf.VariableImportance", {"attribute_idx": [1, 2, 3, 4], "importance": row})})
        for key, row in zip(keys, rows, strict=False)
    ]  # fmt: skip


def column(row):
    low, mean, high, spread = row
    held = {"mean": mean, "min_value": low, "max_value": high, "standard_deviation": spread}
    return StoredObject("ydf.Column", {f"numerical.{key}": v for key, v in held.items()})


def scored(one, **changes):
    return StoredObject(
        one.type, {**one.state, **{f"evaluation.{k}": v for k, v in changes.items()}}
    )


@pytest.mark.parametrize(
    ("name", "header", "key", "change"),
    [
        ("forest", "header", "precomputed_variable_importances", lambda _, rows: importances(
            rows, [f"SUM_SCORE_{k}" for k in range(60)])),
        ("forest", "header", "precomputed_variable_importances", lambda _, rows: importances(
            rows, ["SUM_SCORE"] * 60)),
        ("forest", "header", "precomputed_variable_importances", lambda _, rows: importances(
            rows, [f"MEAN_DECREASE_IN_AP_{k}_VS_OTHERS" for k in range(60)])),
        ("forest", "random_forest_header", "mean_decrease_in_accuracy", lambda _, rows:
            StoredObject("ydf.VariableImportance", {"attribute_idx": np.arange(240)})),
        ("forest", "data_spec", "columns", lambda held, rows: [*held, *map(column, rows)]),
        ("forest", "data_spec", "columns", lambda held, rows: [*held[:1], *map(column, rows[1:5])]),
        ("forest", "random_forest_header", "out_of_bag_evaluations", lambda held, rows: held * 12),
        ("forest", "random_forest_header", "out_of_bag_evaluations", lambda held, rows: [
            scored(one, label_column=column(row)) for one, row in zip(held, rows, strict=False)]),
        ("forest", "random_forest_header", "out_of_bag_evaluations", lambda held, rows: [
            scored(one, **{"classification.confusion.counts": row.tolist()})
            for one, row in zip(held, rows, strict=False)]),
        ("boosted", "gradient_boosted_trees_header", "training_logs.entries", lambda _, rows:
            StoredObject("ydf.Entry", {"number_of_trees": np.arange(1, 61), "loss": rows})),
    ],
)  # fmt: skip
def test_numbers_that_no_tree_column_or_round_stands_for_are_left_over(name, header, key, change):
    folder = read_model(MODELS / name)
    model = next(v for v in folder.files.values() if isinstance(v, StoredObject))
    assert [*unaccounted(model.state)] == []
    part, rows = model.get(header), np.abs(np.random.default_rng(0).normal(size=(60, 4)))
    held = {**part.state, key: change(part.get(key), rows)}
    assert [*unaccounted({**model.state, header: StoredObject(part.type, held)})]


def _field(number, content):
    return bytes([number << 3 | 2, len(content)]) + content


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("header.pb", lambda raw: raw + _field(13, b"34,no,1,7;51,yes,2,3")),
        ("header.pb", lambda raw: raw.replace(b"\x0a\x00\x10", b"\x0a\x00\x10", 1)
            + _field(11, b"rows")),
        ("data_spec.pb", lambda raw: raw + _field(15, b"34,no,1,7")),
        (NODES, lambda raw: raw[:5] + b"row" + raw[8:]),
        ("done", lambda raw: raw + b"34,no,1,7"),
        ("README.txt", lambda raw: raw + b"34;51;22"),
    ],
)  # fmt: skip
def test_what_stands_elsewhere_is_unknown(copy, file, change):
    folder = copy()
    (folder / "README.txt").write_bytes(b"")
    changed(folder / file, change)
    assert [e for e in inventory(folder) if e.unknown]


def test_planted_rows_are_found_among_known_fields(copy):
    folder = copy("forest")
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(8, 4)), columns=list("abcd"))
    content = rows.to_csv(index=False).encode()[:120]
    changed(folder / "header.pb", lambda raw: raw + _field(14, content[:100]))
    with pytest.raises(BadModel, match=r"label_entry_age_col_idx"):
        read_model(folder)


def _blobs(raw):
    at = 8
    while at < len(raw):
        (size,) = struct.unpack_from("<I", raw, at)
        yield raw[at + 4 : at + 4 + size]
        at += 4 + size


def _tf(blob):
    size = struct.pack("<Q", len(blob))
    return size + struct.pack("<I", _crc(size)) + blob + struct.pack("<I", _crc(blob))


FOLLOWING = {
    "forest": ("classifier.top_value", "classifier.distribution.sum", "condition.split_score",
               "condition.num_training_examples_with_weight",
               "condition.num_training_examples_without_weight",
               "condition.num_pos_training_examples_with_weight",
               "condition.num_pos_training_examples_without_weight"),
    "targets": ("condition.split_score", "condition.num_training_examples_with_weight"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "key"), [(n, key) for n in FOLLOWING for key in FOLLOWING[n]])
@pytest.mark.parametrize("at_leaves", [False, True])
def test_what_trees_say_twice_follows_from_their_counts(name, key, at_leaves):
    (model,) = (x for x in objects_in(read_model(MODELS / name)) if x.type == "ydf.Model")
    tree = model.get("trees")[0]
    inner = tree.state["condition.attribute"] >= 0
    held = tree.state[key].copy()
    rows = np.resize(load_wine().data, len(held)).astype(held.dtype)
    tree.state[key] = np.where(inner != at_leaves, rows, held)
    assert any(entry.unknown for entry in take_inventory(model, Context()))


@pytest.mark.parametrize("form", ["BLOB_SEQUENCE_GZIP", "TFE_RECORDIO"])
def test_other_forms_of_nodes_say_the_same(copy, form):
    plain, folder = to_release(MODELS / "boosted"), copy()

    def header(raw):
        old = b"BLOB_SEQUENCE"
        return raw.replace(bytes([len(old)]) + old, bytes([len(form)]) + form.encode())

    changed(folder / "gradient_boosted_trees_header.pb", header)
    if form == "TFE_RECORDIO":
        assert _crc(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) % 2**32
        changed(folder / NODES, lambda raw: b"".join(map(_tf, _blobs(raw))))
    else:
        changed(folder / NODES, lambda raw: raw[:4] + b"\x01" + raw[5:8] +
                gzip.compress(raw[8:], mtime=0))  # fmt: skip
    again = to_release(folder)
    assert all(
        np.array_equal(a.threshold, b.threshold, equal_nan=True)
        for a, b in zip(plain.trees, again.trees, strict=True)
    )
    changed(folder / NODES, lambda raw: raw[:-5])
    with pytest.raises(BadModel, match="nodes-00000"):
        read_model(folder)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("header.pb", lambda raw: raw + b"\x10\x01", "task stands there twice"),
        ("header.pb", lambda raw: raw[:-1], "cut short"),
        ("header.pb", lambda raw: b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "cut short"),
        ("header.pb", lambda raw: b"\x10\x81\x80\x00" + raw, "longer than it needs"),
        ("header.pb", lambda raw: b"\x0b" + raw, "unknown kind 3"),
        ("header.pb", lambda raw: b"", None),
        (NODES, lambda raw: raw[:8], "num_trees is"),
        (NODES, lambda raw: raw + raw[8:], "num_trees is"),
        (NODES, lambda raw: raw[:8] + b"\xff\xff\xff\x7f" + raw[12:], "cut short"),
        (NODES, lambda raw: b"BS\x09" + raw[3:], "version 9"),
    ],
)
def test_damage_is_named(copy, file, change, message):
    folder = copy()
    changed(folder / file, change)
    with pytest.raises(TreeleakError, match=message):
        to_release(folder)


def test_a_packed_file_that_grows_is_refused(copy, monkeypatch):
    folder = copy()
    changed(folder / NODES, lambda raw: raw[:4] + b"\x01" + raw[5:8] + gzip.compress(bytes(10**6)))
    monkeypatch.setattr("treeleak.release.readers.ydf.MOST_BYTES", 10**5)
    with pytest.raises(BadModel, match="unpacked"):
        read_model(folder)


def test_tests_of_several_columns_are_refused(copy):
    oblique = _field(7, b"\x0a\x02\x01\x02\x1d\x00\x00\x00\x00")
    root = _field(3, b"\x08\x00\x10\x01" + _field(3, oblique))
    leaf = b"\x20\x05"
    folder = copy()
    nodes = b"".join(struct.pack("<I", len(n)) + n for n in (root, leaf, leaf) * 5)
    changed(folder / NODES, lambda raw: raw[:8] + nodes)
    with pytest.raises(NotCovered, match="oblique"):
        to_release(folder)


@pytest.mark.parametrize("name", NAMES)
def test_mutations_end_in_an_answer_or_an_error(copy, name):
    folder = copy(name)
    rng = np.random.default_rng(5)
    files = [f for f in sorted(folder.iterdir()) if f.stat().st_size]
    plain = {f: f.read_bytes() for f in files}
    for _ in range(60):
        file = files[rng.integers(len(files))]
        raw = bytearray(plain[file])
        for _ in range(rng.integers(1, 4)):
            raw[rng.integers(len(raw))] = rng.integers(256)
        file.write_bytes(bytes(raw[: rng.integers(len(raw))] if rng.random() < 0.1 else raw))
        try:
            content = read_model(folder)
            to_release(content)
            take_inventory(content, context_of(content, None))
        except TreeleakError:
            pass
        finally:
            file.write_bytes(plain[file])


def test_lists_of_messages_are_bounded(monkeypatch):
    monkeypatch.setattr(protobuf, "MOST_REPEATED", 10)
    tables = protobuf.tables_of("A: 1 b B*\nB: 1 x i")
    messages = protobuf.Messages("t", tables)
    assert len(messages.read("A", b"\x0a\x00" * 10, "f")["b"]) == 10
    with pytest.raises(BadModel, match="b, more than 10"):
        messages.read("A", b"\x0a\x00" * 12, "f")


@pytest.mark.parametrize("seed", range(8))
def test_models_of_the_library_itself(tmp_path, seed):
    ydf = pytest.importorskip("ydf", reason="needs ydf: pip install ydf")
    ydf.verbose(0)
    rng = np.random.default_rng(seed)
    n = int(rng.integers(60, 200))
    X = pd.DataFrame({
        "a": rng.normal(size=n), "b": rng.integers(0, 20, n),
        "c": rng.choice(["red", "green", "blue", "rare"], n, p=[0.5, 0.3, 0.17, 0.03]),
        "d": rng.random(n) < 0.3,
    })  # fmt: skip
    X.loc[rng.random(n) < 0.1, "a"] = np.nan
    if seed % 2:
        X["c"] = X["c"].where(rng.random(n) > 0.1, None)
    score = X.a.fillna(0) + (X.c == "red") + X.b / 10 + rng.normal(size=n)
    X["y"] = np.digitize(score, [0.5] if seed % 4 < 2 else [0.5, 1.5])
    settings = {"allow_na_conditions": True} if seed % 3 == 0 else {}
    if seed % 3 == 1:
        settings["missing_value_policy"] = "LOCAL_IMPUTATION"
    learner = (ydf.RandomForestLearner, ydf.GradientBoostedTreesLearner)[seed // 4]
    model = learner(label="y", num_trees=30, **settings).train(X)
    model.save(str(tmp_path / "m"))
    release = to_release(tmp_path / "m")
    forest = release.sampling.kind == "bootstrap"
    draws = known_draws(release).counts if forest else None
    found = predicted(release, X, votes=forest)
    assert np.allclose(found, model.predict(X, use_slow_engine=True), atol=1e-5)
    assert counts_are_right(release, X, draws)
    assert not [e for e in inventory(tmp_path / "m") if e.unknown]
