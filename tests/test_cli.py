"""The command line: what it prints and writes, its exit status, bad input."""

import json
import os
import pickle
import re
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import treeleak
from helpers.cli import keep, run
from helpers.models import without_seeds
from helpers.patient import AMPLE
from helpers.tables import compas_sample
from treeleak.release import DecisionRule, RuleList, registry, write_rules
from treeleak.schema import Schema

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

J48 = Path(__file__).parent / "models" / "j48"
CANARY = 31337
LABEL = "again"


def save(folder, X, y, schema=None, **options):
    forest = RandomForestClassifier(**{"n_estimators": 20, "random_state": 0, **options})
    return keep(folder, forest.fit(X, y), X, y, schema, LABEL)


@pytest.fixture(scope="module")
def compas():
    X, y, data = compas_sample(40, seed=1)
    return X, y, data.schema


@pytest.fixture(scope="module")
def folder(tmp_path_factory, compas):
    X, y, schema = compas
    folder = tmp_path_factory.mktemp("model")
    save(folder, X, y, schema, bootstrap=False, n_estimators=25)
    return folder


@pytest.fixture(scope="module")
def shallow(tmp_path_factory):
    """A forest that takes long to answer."""
    data = treeleak.datasets.load_adult()
    X = data.X.sample(300, random_state=0)
    folder = tmp_path_factory.mktemp("shallow")
    y, schema = data.y[X.index], data.schema
    save(folder, X, y, schema, bootstrap=False, n_estimators=100, max_depth=3)
    return folder


@pytest.fixture
def train(folder):
    return ["--train", folder / "train.csv", "--label", LABEL]


# --------------------------------------------------------------------------------------- audit


@pytest.mark.slow
def test_audit_tells_all_three_parts_and_what_to_change(folder, train):
    result = run("audit", folder / "model.skops", "--schema", folder / "schema.toml", *train)
    assert result.exit_code == 0
    text = result.stdout
    parts = ["Verdict", "1. What is in", "2. Small leaves", "3. Rebuilding", "What to change"]
    assert [text.index(p) for p in parts] == sorted(text.index(p) for p in parts)
    assert "Leak shown" in text
    assert "n_node_samples" in text
    assert "Training rows rebuilt exactly" in text
    assert re.search(r"How far off .*\n? *the rebuilt rows +[\d.<]+%", text)
    assert re.search(r"a random baseline +[\d.]+%", text)
    assert max(map(len, text.splitlines())) <= 80
    assert result.stderr == ""


@pytest.mark.slow
def test_control_rows_are_told_beside_the_training_rows(folder, train, compas, tmp_path):
    X, _, _ = compas
    data = treeleak.datasets.load_compas()
    others = tmp_path / "control.csv"
    data.X.drop(X.index).assign(**{LABEL: data.y.drop(X.index)}).to_csv(others, index=False)
    audit = ["audit", folder / "model.skops", "--schema", folder / "schema.toml"]
    result = run(*audit, *train, "--control", others)
    assert result.exit_code == 0
    assert re.search(r"samples as near as the training rows +0 ", result.stdout)
    for said in (
        "knowing the population only",
        "rows that resemble others",
        "rows that are outliers",
    ):
        assert said in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "ignored" not in result.stdout
    without = run(*audit, *train)
    assert "Not assessed against the population" in unframed(without.stdout)
    alone = run(*audit, "--control", others)
    assert alone.exit_code == 2
    assert "give --train, too" in alone.stderr
    data.X.drop(columns=data.X.columns[0]).to_csv(others, index=False)
    wrong = run(*audit, *train, "--control", others)
    assert wrong.exit_code == 2
    assert f"{others} lack 1 columns" in wrong.stderr


def test_a_model_without_columns_is_counted_and_not_rebuilt(tmp_path):
    rules = RuleList((), (0, 1), (), DecisionRule((), 0, (2, 1)))
    write_rules(rules, tmp_path / "rules.json")
    for model in (J48 / "loans_one_leaf.txt", tmp_path / "rules.json"):
        result = run("audit", model)
        assert result.exit_code == (2 if model.suffix == ".txt" else 0)
        text = unframed(result.stdout)
        assert "the model tests no column, and its file names none" in text
        assert "what a row could be is not known" in text
        assert "Not assessed" in text
    reconstruct = ("reconstruct", J48 / "loans_one_leaf.txt", "--out", tmp_path / "rows.csv")
    assert "tests no column" in refused(*reconstruct)


@pytest.mark.slow
def test_audit_of_a_release_file_is_that_of_the_model(folder, tmp_path):
    release = tmp_path / "release.json"
    assert run("export", folder / "model.skops", release).exit_code == 0
    verdicts = []
    for model in (folder / "model.skops", release):
        assert run("audit", model, "--json", tmp_path / "audit.json").exit_code == 0
        audit = json.loads((tmp_path / "audit.json").read_text())
        verdicts.append((audit["verdict"], audit["counts"], audit["reconstruction"]["status"]))
    assert verdicts[0] == verdicts[1]


def unframed(text):
    return " ".join(text.replace("│", " ").split())


@pytest.fixture(scope="module")
def hidden(tmp_path_factory, compas):
    """A small forest whose draws are hidden, and what may be known beside."""
    X, y, _ = compas
    X, y = X.iloc[:16, :5], y.iloc[:16]
    folder = tmp_path_factory.mktemp("hidden")
    forest = RandomForestClassifier(30, random_state=11).fit(X, y)
    skops.io.dump(without_seeds(forest), folder / "model.skops")
    (folder / "schema.toml").write_text(Schema.from_columns(X.columns).to_toml())
    train = X.assign(**{LABEL: y}).reset_index(drop=True)
    train.to_csv(folder / "train.csv", index=False)
    train[:4].rename_axis("row").to_csv(folder / "rows.csv")
    train[[X.columns[0], LABEL]].to_csv(folder / "columns.csv", index=False)
    pd.concat([train, 1 - train]).to_csv(folder / "population.csv", index=False)
    shares = {X.columns[0]: 0.5, X.columns[1]: {"0": 0.25, "1": 0.75}, LABEL: {"0": 0.5, "1": 0.5}}
    (folder / "population.json").write_text(json.dumps(shares))
    (1 - train).iloc[:6].to_csv(folder / "records.csv", index=False)
    return folder


def of_hidden(command, folder, *more):
    arguments = [command, folder / "model.skops", "--schema", folder / "schema.toml"]
    return [*arguments, "--bootstrap", "hidden", "--time-limit", AMPLE, *more]


def test_targets_beside_what_is_known_are_left_out(tmp_path, monkeypatch, instead):
    X = pd.DataFrame({"a": [0, 0, 1, 1] * 3, "b": [0, 1, 0, 1] * 3})
    y = X["a"] * 4.0 + X["b"]
    model = keep(tmp_path, DecisionTreeRegressor(random_state=0).fit(X, y), X, y, None)
    (tmp_path / "shares.json").write_text(json.dumps({"a": 0.5, "label": {"0": 0.25, "4": 0.75}}))
    given = {"known_rows": "train.csv", "known_columns": "train.csv", "population": "train.csv"}
    seen = []

    def note(*_, **more):
        seen.append({name: list(more[name]) for name in given})
        raise treeleak.errors.BadInput("enough")

    instead("reconstruct", note)
    for files in (given, given | {"population": "shares.json"}):
        options = [o for k, f in files.items() for o in (f"--{k.replace('_', '-')}", tmp_path / f)]
        run("reconstruct", model, "--out", tmp_path / "o.csv", *options, "--label", "label")
    assert seen == [
        {name: ["a", "b"] for name in given},
        {name: ["a", "b"] for name in given} | {"population": ["a"]},
    ]
    monkeypatch.undo()
    known = ["--known-rows", tmp_path / "train.csv", "--label", "label"]
    result = run("reconstruct", model, "--out", tmp_path / "o.csv", *known)
    assert result.exit_code == 0, result.stderr


@pytest.mark.slow
def test_records_get_their_probability_of_membership(hidden, tmp_path):
    out, members = tmp_path / "rows.csv", tmp_path / "members.csv"
    asked = ("--members", hidden / "records.csv", "--members-out", members)
    result = run(*of_hidden("reconstruct", hidden, "--out", out, *asked))
    assert result.exit_code == 0, result.stderr
    assert "6 records" in result.stderr
    assert stat.S_IMODE(members.stat().st_mode) == 0o600
    schema = Schema.read(hidden / "schema.toml")
    posterior = treeleak.reconstruct(hidden / "model.skops", schema, "hidden", AMPLE)
    expected = posterior.membership(pd.read_csv(hidden / "records.csv"))
    found = pd.read_csv(members)
    assert found["membership"].tolist() == pytest.approx(expected.tolist())
    assert found.drop(columns="membership").equals(pd.read_csv(hidden / "records.csv"))


def reading(monkeypatch, then):
    """Call something with the path of each model file that was read."""

    def watched(known):
        def read(path, trust_pickle):
            content = known.read(path, trust_pickle)
            if content is not NotImplemented:  # Another format reads it.
                then(path)
            return content

        return replace(known, read=read)

    monkeypatch.setattr(registry, "_FORMATS", [watched(known) for known in registry._FORMATS])


@pytest.mark.parametrize("command", [pytest.param("audit", marks=pytest.mark.slow), "reconstruct"])
def test_a_command_reads_its_model_once(hidden, tmp_path, monkeypatch, command):
    reads = []
    reading(monkeypatch, reads.append)
    given = ["--known-columns", hidden / "columns.csv", "--label", LABEL]
    members = ["--members", hidden / "records.csv", "--members-out", tmp_path / "m.csv"]
    own = {
        "audit": ["--train", hidden / "train.csv", "--json", tmp_path / "a.json"],
        "reconstruct": ["--out", tmp_path / "o.csv", *members],
    }
    run(*of_hidden(command, hidden, *given, *own[command]))
    assert reads == [hidden / "model.skops"]


def test_a_model_that_changes_while_it_is_read_is_refused(hidden, tmp_path, monkeypatch):
    model = tmp_path / "model.skops"
    model.write_bytes((hidden / "model.skops").read_bytes())
    reading(monkeypatch, lambda path: os.utime(path, ns=(0, 0)))
    assert f"{model}: changed while it was read" in refused("audit", model)


@pytest.mark.parametrize(
    ("options", "content", "said"),
    [
        (["--known-rows"], "a\n1\n", "columns.*'a'|column 'a'|lack"),
        (["--known-rows"], "", "the file is empty"),
        (["--known-columns"], "COLUMN\n1\n", "has 1 rows, the training set 16"),
        (["--known-columns"], "COLUMN\n" + "7\n" * 16, "row 0, column .*: the value is outside"),
        (["--population"], "COLUMN\n1\n", "lack column"),
        (["--members", "--members-out"], "COLUMN\n1\n", "lack column"),
        (["--members", "--members-out"], "membership\n1\n", "'membership' is there already"),
    ],
)
def test_errors_name_the_file_of_what_is_known(hidden, tmp_path, options, content, said):
    file = tmp_path / "given.csv"
    file.write_text(content.replace("COLUMN", pd.read_csv(hidden / "train.csv").columns[0]))
    places = dict(zip(options, (file, tmp_path / "members.csv"), strict=False))
    arguments = [a for pair in places.items() for a in pair]
    told = refused(*of_hidden("reconstruct", hidden, "--out", tmp_path / "o.csv", *arguments))
    assert str(file) in told
    assert re.search(said, told)
    assert not (tmp_path / "members.csv").exists()


@pytest.mark.slow
def test_options_of_what_is_known_that_cannot_be(hidden, tmp_path):
    out = ("--out", tmp_path / "o.csv")
    shares, rows = tmp_path / "shares.json", hidden / "rows.csv"
    for text, why in (
        ("{", "shares.json"),
        ("[1]", "no mapping"),
        ('{"typo": 0.5}', "column 'typo' is neither"),
    ):
        shares.write_text(text)
        assert why in refused(*of_hidden("audit", hidden, "--population", shares))
    told = refused(*of_hidden("audit", hidden, "--known-rows", rows, "--label", "other"))
    assert f"{rows}: no column 'other'" in told
    told = refused(*of_hidden("audit", hidden, "--population", rows, "--label", "other"))
    assert f"{rows}: column 'row' is neither" in told
    told = refused(*of_hidden("reconstruct", hidden, *out, "--members", rows))
    assert "--members-out" in told
    members = ("--members", rows, "--members-out", out[1])
    assert "both" in refused(*of_hidden("reconstruct", hidden, *out, *members))
    model = hidden / "model.skops"
    before = rows.read_bytes()
    told = refused("reconstruct", model, "--known-rows", rows, "--out", rows, "--force")
    assert "would be overwritten" in told
    assert rows.read_bytes() == before
    small = refused(*of_hidden("reconstruct", hidden, *out, "--n-rows", 2))
    assert "n_rows is 2, but tree 0 drew" in small


def test_rows_that_no_tree_drew_are_said_to_be_guesses(tmp_path):
    X = pd.DataFrame({"a": [0, 1] * 6, "b": [0, 0, 1, 1] * 3})
    model = save(tmp_path, X, X["a"] ^ X["b"], n_estimators=2)
    never = 12 - len(
        np.unique(
            np.concatenate(
                skops.io.load(model, trusted=["sklearn.tree._tree.Tree"]).estimators_samples_
            )
        )
    )
    assert never > 0
    result = run("reconstruct", model, "--out", tmp_path / "rows.csv", "--time-limit", 10)
    assert f"No tree drew {never} of the rows: the model holds no evidence" in result.stderr
    text = unframed(run("audit", model, "--time-limit", 10).stdout)
    assert f"Rows that no tree drew: no evidence {never}" in text


# ---------------------------------------------------------------------------- no training rows


@pytest.fixture
def canary(tmp_path):
    """Rows with a value that occurs nowhere else, and a text that no report may repeat."""
    X = pd.DataFrame({"sex": [0, 1] * 15, "salary": np.arange(30) * 7 + CANARY})
    y = np.array(["no", "yes"])[np.arange(30) % 3 // 2]
    schema = Schema([treeleak.Binary("sex"), treeleak.Ordinal("salary", 0, 10**6)])
    return save(tmp_path, X, y, schema, bootstrap=False), X


def told(model, *more):
    out = model.parent / "audit.json"
    arguments = ["audit", model, "--schema", model.parent / "schema.toml", "--json", out]
    result = run(*arguments, *more)
    return result, result.stdout + result.stderr + out.read_text()


@pytest.mark.parametrize(
    "spoil",
    [
        None,
        lambda X: X.assign(sex=1 - X.sex),
        pytest.param(lambda X: X.iloc[1:], marks=pytest.mark.slow),
    ],
)
def test_no_row_value_in_terminal_or_json(canary, spoil):
    model, X = canary
    train = model.parent / "train.csv"
    if spoil is not None:
        spoil(pd.read_csv(train)).to_csv(train, index=False)
    result, text = told(model, "--train", train, "--label", LABEL)
    assert result.exit_code == (0 if spoil is None else 2)
    values = {*X["salary"].astype(str), *(f"{v:g}" for v in X["salary"])}
    # Not as a part of another number, such as a time.
    assert not [v for v in values if re.search(rf"(?<![\d.]){v}(?!\d)", text)]
    assert "rows" not in json.loads((model.parent / "audit.json").read_text())["reconstruction"]


def test_rows_where_asked_for(canary):
    model, X = canary
    result, _ = told(model, "--internal")
    assert "Rebuilt rows" in result.stdout
    assert "8 of 30 rows" in result.stdout
    salary = next(
        line for line in result.stdout.splitlines() if line.split()[:1] == ["salary"]
    ).split()[1:]
    assert len(salary) == 8
    assert max(map(len, result.stdout.splitlines())) <= 80
    out = model.parent / "audit.json"
    assert len(json.loads(out.read_text())["reconstruction"]["rows"]["values"]) == len(X)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


@pytest.mark.slow
def test_a_private_report_replaces_one_that_others_could_read(canary):
    model, _ = canary
    told(model)
    told(model, "--internal")
    assert stat.S_IMODE((model.parent / "audit.json").stat().st_mode) == 0o600


# ----------------------------------------------------------------------------------- bad input


def refused(*arguments, status=2):
    result = run(*arguments)
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    return result.stderr


def test_pickles_need_trust(tmp_path):
    model = DecisionTreeClassifier().fit([[0], [1]], [0, 1])
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps(model))
    assert "pickle" in refused("audit", path)
    assert run("audit", path, "--trust-pickle").exit_code == 0


@pytest.mark.parametrize(
    "options",
    [
        ["--time-limit", "0"],
        ["--time-limit", "nan"],
        ["--bootstrap", "perhaps"],
        ["--seed", "-1"],
        ["--seed-search", "-1"],
        ["--json", "/nowhere/audit.json"],
        ["--no-such-option"],
    ],
)
def test_options_that_cannot_be(folder, options):
    assert (
        options[0] in refused("audit", folder / "model.skops", *options)
        or "/nowhere" in (options[1])
    )


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (pd.DataFrame({"a": [0, 1, 1, 0]}), [1, 1, 1, 1]),
        (pd.DataFrame({"a": [1]}), ["only"]),
        (pd.DataFrame({"a": [0] * 6 + [1] * 7}), [0] * 6 + [1] * 7),
        pytest.param(
            pd.DataFrame(np.eye(8, 100, dtype=int)).rename(columns=str),
            [0, 1] * 4,
            marks=pytest.mark.slow,
        ),
    ],
    ids=["one class", "one row", "stump", "100 columns, most unused"],
)
@pytest.mark.slow
def test_small_and_odd_models_are_audited(tmp_path, X, y):
    model = save(tmp_path, X, y, bootstrap=False, n_estimators=3)
    result = run(
        *("audit", model, "--train", tmp_path / "train.csv", "--label", LABEL),
        *("--time-limit", 3, "--json", tmp_path / "audit.json"),
    )
    assert result.exit_code == 0, result.output
    audit = json.loads((tmp_path / "audit.json").read_text())
    assert audit["reconstruction"]["n_rows"] == len(X)
    assert audit["mismatch"] is None


# ----------------------------------------------------------------- no answer in time, interrupt


@pytest.mark.slow
def test_a_millisecond_is_not_enough_and_leaves_what_there_is(shallow, tmp_path):
    arguments = [shallow / "model.skops", "--schema", shallow / "schema.toml"]
    rows, report = tmp_path / "rows.csv", tmp_path / "audit.json"
    result = run("reconstruct", *arguments, "--out", rows, "--time-limit", 0.001)
    assert result.exit_code == 3
    assert "unknown" in result.stderr
    assert len(pd.read_csv(rows)) == 300
    result = run("audit", *arguments, "--json", report, "--time-limit", 0.001)
    assert result.exit_code == 3
    audit = json.loads(report.read_text())
    assert audit["reconstruction"]["status"] == "unknown"
    assert audit["reconstruction"]["misfit"] > 0


def test_no_rows_in_time_are_not_called_a_contradiction(tmp_path):
    X = pd.DataFrame(np.random.default_rng(0).integers(2, size=(300, 26))).rename(columns=str)
    model = save(tmp_path, X, X["0"] ^ X["1"], bootstrap=False, n_estimators=5)
    rows, no_time = tmp_path / "rows.csv", ("--time-limit", 1e-9)
    said = refused("reconstruct", model, "--out", rows, *no_time, status=3)
    assert "time ran out before there were any rows" in said
    assert not rows.exists()
    result = run("audit", model, "--json", tmp_path / "audit.json", *no_time)
    assert result.exit_code == 3
    assert "Time ran out before any row was rebuilt" in result.stdout
    assert "best so far" not in result.stdout
    assert "Rows proved" not in result.stdout
    json_ = json.loads((tmp_path / "audit.json").read_text())
    assert json_["reconstruction"]["meaning"] == "time ran out before there were any rows"


INTERRUPTED = """
import os, signal, threading
from treeleak import cli
from treeleak.core.clock import Clock

tell = Clock.report_progress
timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))

def told(clock, stage, *more):
    if stage.startswith("rebuilding") and timer.ident is None:
        timer.start()
    tell(clock, stage, *more)

Clock.report_progress = told
cli.main()
"""


def interrupted(*arguments):
    """Run a command in a process of its own that is interrupted amid the reconstruction."""
    command = [sys.executable, "-c", INTERRUPTED, *map(str, arguments), "--time-limit", "600"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
def test_ctrl_c_keeps_the_audit(shallow, tmp_path):
    report = tmp_path / "audit.json"
    schema = shallow / "schema.toml"
    process = interrupted("audit", shallow / "model.skops", "--schema", schema, "--json", report)
    assert process.returncode == 130, process.stderr
    assert "interrupted before every count was met" in process.stdout
    assert "ime ran out" not in process.stdout
    assert json.loads(report.read_text())["reconstruction"]["interrupted"] is True


def test_an_interrupt_elsewhere_is_one_line(folder, breaks):
    breaks(treeleak, "audit", KeyboardInterrupt())
    assert refused("audit", folder / "model.skops", status=130) == "treeleak: interrupted\n"


def test_what_nobody_foresaw_is_shown_in_full(folder, monkeypatch, breaks, capsys):
    from treeleak import cli

    breaks(treeleak, "audit", ZeroDivisionError("odd"))
    monkeypatch.setattr(sys, "argv", ["treeleak", "audit", str(folder / "model.skops")])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    assert exit_.value.code == 1
    err = capsys.readouterr().err
    assert "ZeroDivisionError: odd" in err
    assert "Please report it" in err


# ------------------------------------------------------------------ reconstruct, schema, export


def test_reconstruct_writes_rows_that_only_the_owner_can_read(folder, compas, tmp_path):
    X, y, _ = compas
    out = tmp_path / "rows.csv"
    arguments = ["reconstruct", folder / "model.skops", "--schema", folder / "schema.toml"]
    before = os.umask(0)
    try:
        assert run(*arguments, "--out", out, "--label", LABEL).exit_code == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    table = pd.read_csv(out)
    assert list(table.columns) == [*X.columns, LABEL]
    assert sorted(table[LABEL]) == sorted(y)
    assert treeleak.metrics.reconstruction_error(table[list(X.columns)], X) < 0.02


def test_nothing_is_overwritten_unless_forced(folder, tmp_path):
    out = tmp_path / "rows.csv"
    out.write_text("precious")
    out.chmod(0o644)
    for command in (
        ["reconstruct", folder / "model.skops", "--out", out],
        ["schema", folder / "model.skops", "--out", out],
        ["export", folder / "model.skops", out],
    ):
        assert "--force" in refused(*command)
        assert out.read_text() == "precious"
    linked = tmp_path / "elsewhere.csv"
    linked.symlink_to(out)
    assert (
        run("reconstruct", folder / "model.skops", "--out", linked, "--force").exit_code
        == 0
    )  # fmt: skip
    assert out.read_text() == "precious"
    assert not linked.is_symlink()
    assert stat.S_IMODE(linked.stat().st_mode) == 0o600


def test_no_input_is_overwritten_even_if_forced(folder):
    model, train = folder / "model.skops", folder / "train.csv"
    before = model.read_bytes(), train.read_bytes()
    for command in (
        ["audit", model, "--json", model],
        ["audit", model, "--train", train, "--label", LABEL, "--json", train],
        ["reconstruct", model, "--out", folder / "." / "model.skops", "--force"],
        ["schema", model, "--train", train, "--out", train, "--force"],
        ["export", model, model, "--force"],
    ):
        assert "would be overwritten" in refused(*command)
    assert (model.read_bytes(), train.read_bytes()) == before


def test_two_results_need_two_files(folder, tmp_path):
    model, place = folder / "model.skops", tmp_path / "new"
    for command in (
        ["audit", model, "--json", place, "--sacro-report", place],
        ["harden", model, "--out", place, "--json", place],
    ):
        assert "named twice" in refused(*command)
    assert not place.exists()


def test_a_label_column_needs_a_name_of_its_own(folder, compas, tmp_path, instead):
    X, _, _ = compas
    out = tmp_path / "rows.csv"
    instead("reconstruct", lambda *_, **__: pytest.fail("an attack"))
    told = refused("reconstruct", folder / "model.skops", "--out", out, "--label", X.columns[0])
    assert f"{folder / 'model.skops'}: the model itself has a column {X.columns[0]!r}" in told
    assert "--label" in told
    assert not out.exists()


def test_targets_stand_beside_a_column_of_their_name(tmp_path):
    X = pd.DataFrame({"target": [0, 0, 1, 1] * 3, "target_": [0, 1, 0, 1] * 3})
    y = X["target"] * 4.0 + X["target_"]
    model = keep(tmp_path, DecisionTreeRegressor(random_state=0).fit(X, y), X, y, None)
    out = tmp_path / "rows.csv"
    result = run("reconstruct", model, "--out", out, "--time-limit", 10)
    assert result.exit_code == 0, result.stderr
    assert "Column 'target__' holds the targets: the model has a column 'target'" in result.stderr
    found = pd.read_csv(out)
    assert (found["target__"] == found["target"] * 4.0 + found["target_"]).all()


def test_schema_is_a_file_to_start_from(folder, tmp_path):
    out = tmp_path / "schema.toml"
    model = folder / "model.skops"
    assert "a guess from the names alone" in run("schema", model, "--out", out).stderr
    first = Schema.read(out)
    result = run("schema", model, "--train", folder / "train.csv", "--label", LABEL)
    assert result.exit_code == 0
    assert result.stdout.startswith("# Inferred from the model and training rows")
    assert result.stderr == ""
    assert "a guess: each of the 40 rows" in result.stdout
    (tmp_path / "second.toml").write_text(result.stdout)
    assert set(Schema.read(tmp_path / "second.toml").columns) == set(first.columns)
    assert run("audit", model, "--schema", tmp_path / "second.toml").exit_code == 0


def test_version_and_help():
    assert run("--version").stdout == f"treeleak {treeleak.__version__}\n"
    text = run("--help").stdout
    for command in ("audit", "reconstruct", "schema", "export", "demo"):
        assert command in text


def test_it_runs_as_a_module():
    command = [sys.executable, "-m", "treeleak", "--version"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert process.returncode == 0
    assert process.stderr == ""
    assert process.stdout == f"treeleak {treeleak.__version__}\n"


# ------------------------------------------------------------------------------ one row missing


def test_informed_says_how_well_one_row_is_told(folder, tmp_path):
    written = tmp_path / "informed.json"
    arguments = ["informed", folder / "model.skops", "--train", folder / "train.csv"]
    arguments += ["--label", LABEL, "--schema", folder / "schema.toml", "--targets", 12]
    done = run(*arguments, "--json", written)
    assert done.exit_code == 0
    assert "39 of the 40 training rows" in " ".join(done.stdout.split())
    assert re.search(r"Rows taken in turn +12\b", done.stdout)
    assert re.search(r"Rows rebuilt without any error +100%", done.stdout)
    assert re.search(r"Reconstruction error +0%", done.stdout)
    told = json.loads(written.read_text())
    assert told["individual"]["all"] == {"n_rows": 12, "error": 0.0, "perfect": 1.0, "worst": 0.0}
    assert "targets" not in told


def test_informed_names_the_file_whose_rows_do_not_fit(folder, tmp_path):
    table = pd.read_csv(folder / "train.csv")
    other = tmp_path / "other.csv"
    table.drop(columns=table.columns[0]).to_csv(other, index=False)
    done = run("informed", folder / "model.skops", "--train", other, "--label", LABEL)
    assert done.exit_code == 2
    assert str(other) in done.stderr
    done = run("informed", folder / "model.skops", "--train", other, "--label", "nothing")
    assert (done.exit_code, "no column 'nothing'" in done.stderr) == (2, True)


@pytest.mark.slow
def test_groups_and_what_is_sensitive_are_told(folder, train):
    result = run(
        "audit",
        folder / "model.skops",
        "--schema",
        folder / "schema.toml",
        *train,
        "--sensitive",
        "priors",
        "--groups",
        "age, priors",
    )
    assert result.exit_code == 0, result.stderr
    assert "Attribute inference of 'priors'" in result.stdout
    for line in (
        "Rows proved",
        "Columns most exposed",
        "class: 0",
        "age",
        "priors",
        "Singling out",
    ):
        assert line in result.stdout, line


@pytest.mark.parametrize("option", ["--sensitive", "--groups"])
def test_columns_that_were_asked_for_must_be_there(folder, train, option):
    result = run("audit", folder / "model.skops", *train, option, "sex:Mal")
    assert result.exit_code == 2
    assert f"{option[2:]}: no column 'sex:Mal'; did you mean 'sex:Male'?" in result.stderr
    result = run("audit", folder / "model.skops", *train, option, "sex:Male,")
    assert result.exit_code == 2
    assert f"{option} must name columns, separated by commas" in result.stderr
    result = run("audit", folder / "model.skops", option, "sex:Male")
    assert result.exit_code == 2
    assert f"{option} needs the training rows: give --train, too" in result.stderr
