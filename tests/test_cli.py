"""The command line: what it prints and writes, its exit status, bad input."""

import json
import os
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
        (["--known-columns"], "COLUMN\n1\n", "has 1 rows, the training set 16"),
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


# ----------------------------------------------------------------------------------- bad input


def refused(*arguments, status=2):
    result = run(*arguments)
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    return result.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["--time-limit", "0"],
        ["--bootstrap", "perhaps"],
        ["--seed", "-1"],
        ["--json", "/nowhere/audit.json"],
        ["--no-such-option"],
    ],
)
def test_options_that_cannot_be(folder, options):
    assert (
        options[0] in refused("audit", folder / "model.skops", *options)
        or "/nowhere" in (options[1])
    )


# ----------------------------------------------------------------- no answer in time, interrupt


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
