"""Target folders of SACRO-ML: read as data, audited, and reported in its layout."""

import importlib
import json
import pickle
import sys
import types
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import treeleak
from helpers.cli import run
from helpers.examples import spread
from treeleak.bridges.sacro_report import ATTACK_NAME, _parameters
from treeleak.bridges.sacro_target import OPAQUE, OTHER_COLUMNS, parse_yaml, read_target
from treeleak.core.errors import BadInput
from treeleak.release import to_release
from treeleak.schema import OneHot

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

TEXT = """\
dataset_name: people
dataset_module_path: ''
features:
  0:
    name: colour
    indices:
    - 0
    - 1
    - 2
    encoding: onehot
  1:
    name: flag
    indices: &id001
    - 3
    encoding: int64
generalisation_gap: !!python/object/apply:numpy._core.multiarray.scalar
- !!python/object/apply:numpy.dtype
  args:
  - f8
  - false
  - true
- !!binary |
  AAAAAAAA8D8=
safemodel: []
model_type: SklearnModel
model_name: RandomForestClassifier
model_params:
  bootstrap: false
  ccp_alpha: 0.0
  class_weight: null
  n_estimators: 20
  random_state: 0
model_path: model.EXT
X_train_path: X_train.pkl
y_train_path: y_train.pkl
X_test_path: X_test.pkl
y_test_path: y_test.pkl
X_train_orig_path: ''
proba_train_path: ''
indices_train_path: ''
"""


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = np.zeros((n, 6))
    X[np.arange(n), rng.integers(0, 3, n)] = 1
    X[:, 3:] = rng.integers(0, 2, (n, 3))
    return X, (X[:, 0] + X[:, 3] + rng.integers(0, 2, n) > 1).astype(int)


@pytest.fixture(scope="module")
def model():
    return RandomForestClassifier(20, bootstrap=False, random_state=0).fit(*rows(60, 0))


@pytest.fixture
def folder(tmp_path, model):
    """What ``Target.save`` leaves, once with its own pickle and once with skops for the model."""
    own = tmp_path / "target"
    own.mkdir()
    for part, (X, y) in {"train": rows(60, 0), "test": rows(120, 1)}.items():
        (own / f"X_{part}.pkl").write_bytes(pickle.dumps(X, pickle.HIGHEST_PROTOCOL))
        (own / f"y_{part}.pkl").write_bytes(pickle.dumps(y, pickle.HIGHEST_PROTOCOL))
    (own / "model.pkl").write_bytes(pickle.dumps(model, pickle.HIGHEST_PROTOCOL))
    (own / "target.yaml").write_text(TEXT.replace("EXT", "pkl"))
    return own


# --------------------------------------------------------------------------------------- audit


@pytest.mark.slow
def test_a_folder_is_audited_with_its_rows(folder):
    out = folder.parent / "audit.json"
    done = run("audit", folder, "--trust-pickle", "--json", out, "--time-limit", 20)
    assert done.exit_code == 0, done.output
    found = json.loads(out.read_text())
    assert found["measurement"]["exact_rows"] > 0.9
    assert found["measurement"]["significance"]["n_control"] == 120
    assert found["structure"]["groups"][0]["by"] == "answer"


@pytest.mark.slow
def test_groups_of_the_description_become_one_hot(folder, model):
    target = read_target(folder, trust_pickle=True)
    schema, notes = target.schema_for(to_release(model))
    groups = [a for a in schema.attributes if isinstance(a, OneHot)]
    assert [(g.name, g.columns, g.at_most_one) for g in groups] == [
        ("colour", ("x0", "x1", "x2"), False)
    ]
    assert notes == (OTHER_COLUMNS,)
    assert schema.for_model(to_release(model).feature_names)


def test_rows_speak_against_a_group(folder, model):
    X, _ = rows(60, 0)
    X[0, :3] = 1
    (folder / "X_train.pkl").write_bytes(pickle.dumps(X))
    schema, notes = read_target(folder, trust_pickle=True).schema_for(to_release(model))
    assert schema is None
    assert "several 1" in notes[0]


def test_pickles_are_refused_unless_trusted(folder):
    refused = run("audit", folder)
    assert refused.exit_code == 2
    assert "--trust-pickle" in refused.stderr
    assert "X_train.pkl" in refused.stderr


@pytest.mark.slow
def test_without_pickles_nothing_needs_trust(folder, model):
    skops.io.dump(model, folder / "model.skops")
    for part, (X, y) in {"train": rows(60, 0), "test": rows(120, 1)}.items():
        np.save(folder / f"X_{part}.npy", X)
        pd.DataFrame(y).to_csv(folder / f"y_{part}.csv", header=False, index=False)
    text = (folder / "target.yaml").read_text().replace("model.pkl", "model.skops")
    text = text.replace("_train.pkl", "_train.npy").replace("_test.pkl", "_test.npy")
    text = text.replace("y_train.npy", "y_train.csv").replace("y_test.npy", "y_test.csv")
    (folder / "target.yaml").write_text(text)
    done = run("audit", folder, "--time-limit", 60)
    assert done.exit_code == 0, done.output
    assert "Training file verified" in done.stdout


def test_a_pickle_runs_nothing_even_if_trusted(folder, tmp_path):
    class Hostile:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    (folder / "X_train.pkl").write_bytes(pickle.dumps(Hostile()))
    with pytest.raises(BadInput, match=r"X_train\.pkl"):
        read_target(folder, trust_pickle=True)
    assert not (tmp_path / "ran").exists()


def test_arrays_of_objects_in_npy_are_refused(folder):
    np.save(folder / "X_train.npy", np.array([[1, "a"]], dtype=object), allow_pickle=True)
    text = (folder / "target.yaml").read_text().replace("X_train.pkl", "X_train.npy")
    (folder / "target.yaml").write_text(text)
    with pytest.raises(BadInput, match="X_train"):
        read_target(folder, trust_pickle=True)


@pytest.mark.slow
def test_rows_from_code_are_left_aside(folder):
    text = (folder / "target.yaml").read_text().replace("path: ''\nf", "path: dataset.py\nf")
    for name in ("X_train", "y_train", "X_test", "y_test"):
        text = text.replace(f"{name}.pkl", "''")
    (folder / "target.yaml").write_text(text)
    (folder / "dataset.py").write_text("raise SystemExit(99)")
    done = run("audit", folder, "--trust-pickle", "--time-limit", 60)
    assert done.exit_code == 0, done.output
    assert "'dataset.py'" in done.stderr
    assert "Training file verified" not in done.stdout


@pytest.mark.parametrize(
    "name", ["../secret.pkl", "/etc/passwd", "C:\\x.pkl", "link.pkl", "sub/.."]
)
def test_nothing_outside_the_folder_is_read(folder, name):
    (folder.parent / "secret.pkl").write_bytes(b"x")
    (folder / "link.pkl").symlink_to(folder.parent / "secret.pkl")
    text = (folder / "target.yaml").read_text().replace("X_train.pkl", f"'{name}'")
    (folder / "target.yaml").write_text(text)
    with pytest.raises(BadInput, match="X_train_path"):
        read_target(folder, trust_pickle=True)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    spread(
        [
            ("model_path: model.pkl", "model_path: ''", "model_path"),
            ("model_path: model.pkl", "model_path: other.pkl", "no file"),
            ("model_path: model.pkl", "model_path: 3", "name of a file"),
            ("SklearnModel", "PytorchModel", "PytorchModel"),
            ("    - 2\n", "    - -2\n", "whole numbers"),
            ("    - 2\n", "    - 1\n", "different"),
            ("y_train_path: y_train.pkl", "y_train_path: y_test.pkl", "60 rows"),
            ("X_train_path: X_train.pkl", "X_train_path: ''", "labels without rows"),
            ("safemodel: []", "safemodel: [", "line"),
        ],
        fast=3,
        each=True,
    ),
)
def test_what_is_wrong_is_named(folder, old, new, said):
    text = (folder / "target.yaml").read_text()
    assert old in text
    (folder / "target.yaml").write_text(text.replace(old, new))
    with pytest.raises(BadInput, match=said) as error:
        read_target(folder, trust_pickle=True)
    assert str(folder) in str(error.value)


# --------------------------------------------------------------------------------------- report


@pytest.mark.slow
def test_reports_hold_one_entry_per_run_beside_those_of_others(folder):
    out = folder.parent / "report.json"
    other = {"WorstCase attack_1": {"log_id": "1", "metadata": {"attack_name": "WorstCase attack"}}}
    out.write_text(json.dumps(other))
    for _ in range(2):
        arguments = ("--trust-pickle", "--sacro-report", out, "--time-limit", 60)
        assert run("audit", folder, *arguments).exit_code == 0
    held = json.loads(out.read_text())
    assert held["WorstCase attack_1"] == other["WorstCase attack_1"]
    own = {key: entry for key, entry in held.items() if key.startswith(ATTACK_NAME)}
    assert len(own) == 2
    for key, entry in own.items():
        assert key == f"{ATTACK_NAME}_{entry['log_id']}"
        metadata = entry["metadata"]
        assert metadata["attack_name"] == ATTACK_NAME
        assert metadata["target_model"] == "RandomForestClassifier"
        assert metadata["target_model_params"]["bootstrap"] is False
        # It would tell which rows each tree drew.
        assert "random_state" not in metadata["target_model_params"]
        figures = entry["attack_experiment_logger"]["attack_instance_logger"]["instance_0"]
        assert figures["exact_rows"] > 0.9
        assert figures["dof_risk"] is True
        assert figures["k_anonymity_risk"] in (True, False)
        assert figures["class_disclosure_risk"] is True


@pytest.mark.slow
def test_a_report_says_what_the_releasable_edition_says(folder):
    out = folder.parent / "report.json"
    run("audit", folder, "--trust-pickle", "--sacro-report", out, "--internal", "--time-limit", 60)
    figures = next(iter(json.loads(out.read_text()).values()))["attack_experiment_logger"]
    details = figures["attack_instance_logger"]["instance_0"]["details"]
    assert details["by_leaf_of_every_tree"]["smallest"] is None


@pytest.mark.parametrize("text", ["[1]", "{", '{"a": 3}'])
@pytest.mark.slow
def test_a_file_that_is_no_report_stays(folder, text):
    out = folder.parent / "report.json"
    out.write_text(text)
    done = run("audit", folder, "--trust-pickle", "--sacro-report", out, "--time-limit", 60)
    assert done.exit_code == 2
    assert "not a report" in done.output
    assert out.read_text() == text


# ----------------------------------------------------------------------------------------- yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("a: 1\nb: [1, x]\nc: {}\n", {"a": 1, "b": [1, "x"], "c": {}}),
        ("a:\n- 1\n-\n  - 2\n- - 3\n  - 4\n", {"a": [1, [2], [3, 4]]}),
        ('a: "x\\ty\\u00e9 \\\n  \\ z"\n', {"a": "x\ty\u00e9  z"}),
        ("a: &x\n- 1\nb: *x\n", {"a": [1], "b": [1]}),
        ("a: !!python/object:os.system\n  b: 1\nc: 2\n", {"a": OPAQUE, "c": 2}),
        ("a: !!binary |\n  AAA=\n  BBB=\nb: |\n  x\n  y\n", {"a": OPAQUE, "b": "x\ny\n"}),
        ("a: 2026-11-22\n", {"a": OPAQUE}),
    ],
)
def test_yaml_is_read(text, value):
    assert repr(parse_yaml(text)) == repr(value)


@pytest.mark.parametrize(
    "text",
    [
        "a: |x\n  x",
        "a: 1\n  b: 2",
        "a: *x",
        "a: 'x",
        "\ta: 1",
        'a: "\\q"',
        "a: [1",
        "a: &x [*x]",
        "? [a]\n: b",
        "a: " + "1" * 5000,
        "- " * 3000,
        "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
        + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in pairwise("abcdefgh")),
    ],
)
def test_other_yaml_is_refused(text):
    with pytest.raises(BadInput):
        parse_yaml(text)


def test_folders_say_what_they_need(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(BadInput, match=r"pip install 'treeleak\[sacro\]'"):
        read_target(folder)


# -------------------------------------------------------------------------------------- sacroml


@pytest.fixture
def attacks(monkeypatch, tmp_path):
    """The part of sacroml's interface that an attack needs, and nothing behind it."""

    class Attack:
        def __init__(self, output_dir, write_report):
            self.output_dir, self.write_report, self.metadata = output_dir, write_report, {}

        def attack(self, target):
            return self._attack(target) if type(self).attackable(target) else {}

        def _construct_metadata(self):
            self.metadata = {"attack_name": str(self), "global_metrics": {}}

        def _make_report(self, target):
            self._construct_metadata()
            logged = self._get_attack_metrics_instances()
            return {"metadata": self.metadata, "attack_experiment_logger": logged}

        def _write_report(self, output):
            assert self._make_pdf(output) is None
            json.dumps(output)

    names = ("sacroml", "sacroml.attacks", "sacroml.attacks.attack", "sacroml.attacks.factory")
    own = {name: types.ModuleType(name) for name in names}
    own["sacroml.attacks.attack"].Attack = Attack
    own["sacroml.attacks.factory"].registry = {}
    own["sacroml.attacks"].factory = own["sacroml.attacks.factory"]
    for name, module in own.items():
        monkeypatch.setitem(sys.modules, name, module)
    # Whoever asks for the module later gets the one that was there before.
    monkeypatch.setattr(treeleak.bridges, "sacro_attack", None, raising=False)
    monkeypatch.delitem(sys.modules, "treeleak.bridges.sacro_attack", raising=False)
    module = importlib.import_module("treeleak.bridges.sacro_attack")
    module.register()
    yield own["sacroml.attacks.factory"].registry
    sys.modules.pop("treeleak.bridges.sacro_attack", None)


def as_target(model, X=None, y=None, X_test=None):
    return SimpleNamespace(
        model=SimpleNamespace(model=model),
        has_model=lambda: model is not None,
        X_train=X,
        y_train=y,
        X_test=X_test,
        y_test=None,
    )


@pytest.mark.slow
def test_sacroml_runs_the_attack_by_its_name(attacks, model):
    attack = attacks["treeleak"](time_limit=10, seed=1)
    output = attack.attack(as_target(model, *rows(60, 0), rows(120, 1)[0]))
    assert output["metadata"]["attack_name"] == ATTACK_NAME
    assert output["metadata"]["global_metrics"]["exact_rows"] > 0.9
    found = output["attack_experiment_logger"]["attack_instance_logger"]["instance_0"]
    assert found["class_disclosure_risk"] is True


def test_sacroml_learns_what_is_no_target(attacks):
    attack = attacks["treeleak"]
    assert not attack.attackable(as_target(None))
    assert not attack.attackable(as_target(LogisticRegression().fit(*rows(60, 0))))
    assert attack().attack(as_target(None)) == {}


def test_seeds_of_parts_are_seeds():
    told = {"randomforestclassifier__random_state": 3, "random_seed": 1, "steps__max_depth": 2}
    assert _parameters(told) == {"steps__max_depth": 2}


def test_without_sacroml_the_attack_says_so():
    module = importlib.import_module("treeleak.bridges.sacro_attack")
    with pytest.raises(BadInput, match="not installed"):
        module.register()
