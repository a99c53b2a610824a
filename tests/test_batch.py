"""Audits of several models: index, resumption, failures that stay alone, exit status."""

import json
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.tree import DecisionTreeClassifier

from helpers.cli import run
from treeleak.batch import index
from treeleak.batch.index import Ended
from treeleak.report.page import render_index

pytestmark = pytest.mark.usefixtures("short_walks_throughout")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A tree that gives its rows away, one that does not, and no model."""
    folder = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 2, (40, 5)), columns=list("abcde"))
    y = X["a"] ^ X["b"]
    X.assign(label=y).to_csv(folder / "train.csv", index=False)
    for name, options in {"deep": {}, "stump": {"max_depth": 1}}.items():
        tree = DecisionTreeClassifier(random_state=0, **options).fit(X, y)
        skops.io.dump(tree, folder / f"{name}.skops")
    (folder / "broken.skops").write_text("no model")
    return folder


class Ran(list):
    """Commands, and what was written to standard error while they ran: the batch's lines, too."""

    errors = ""


@pytest.fixture
def ran(monkeypatch):
    """Which commands were run, in place of processes: by this process, one after another."""
    said = Ran()
    one = threading.Lock()

    def run_command(words, threads=None, folder=None):
        with one:
            said.append(list(words))
            done = run(*words)
            said.errors += done.stderr
        return Ended(done.exit_code, done.stderr, 0.1)

    monkeypatch.setattr(index, "run_command", run_command)
    return said


def entries(folder):
    return {e["name"]: e for e in json.loads((folder / "index.json").read_text())["audits"]}


def audit(models, out, *more):
    files = [models / f"{name}.skops" for name in ("deep", "stump", "broken")]
    return run("audit", *files, "--report", out, "--time-limit", 10, *more)


def test_every_model_has_a_line_and_one_failure_stops_no_other(models, tmp_path, ran):
    done = audit(models, tmp_path / "out", "--train", models / "train.csv", "--label", "label")
    assert done.exit_code == 2, done.output
    found = entries(tmp_path / "out")
    assert set(found) == {"deep", "stump", "broken"}
    assert found["broken"]["verdict"] is None
    assert found["deep"]["verdict"] is not None
    assert found["deep"]["exact_rows"] is not None
    assert found["deep"]["json"] == "deep.json"
    page = (tmp_path / "out" / "index.html").read_text()
    assert 'href="deep.html"' in page
    assert 'href="broken.html"' not in page
    assert (tmp_path / "out" / "stump.html").is_file()
    assert "3 models" in done.stdout


def test_what_stands_is_not_done_again(models, tmp_path, ran):
    out = tmp_path / "out"
    audit(models, out)
    assert len(ran) == 3
    audit(models, out)
    assert [Path(words[-1]).name for words in ran[3:]] == ["broken.skops"]
    audit(models, out, "--seed", 1)
    assert len(ran) == 7
    audit(models, out, "--seed", 1, "--again")
    assert len(ran) == 10


@pytest.mark.slow
def test_another_model_or_version_or_report_lost_is_done_again(models, tmp_path, ran, monkeypatch):
    out, own = tmp_path / "out", tmp_path / "a.skops"
    own.write_bytes((models / "deep.skops").read_bytes())
    out.mkdir()

    def audits():
        before = len(ran)
        assert run("audit", own, "--report", out, "--time-limit", 5).exit_code == 0
        return len(ran) - before

    assert [audits(), audits()] == [1, 0]
    own.write_bytes((models / "stump.skops").read_bytes())
    assert [audits(), audits()] == [1, 0]
    (out / "a.html").unlink()
    assert [audits(), audits()] == [1, 0]
    monkeypatch.setattr(index, "__version__", "0")
    assert [audits(), audits()] == [1, 0]


def test_a_policy_judges_each(models, tmp_path, ran):
    policy = tmp_path / "policy.toml"
    policy.write_text('name = "house"\n[limits]\nproved_rows = 0.0\n')
    files = [models / "deep.skops", models / "stump.skops"]
    done = run("audit", *files, "--report", tmp_path / "out", "--policy", policy)
    found = entries(tmp_path / "out")
    assert found["deep"]["policy_met"] is False
    assert done.exit_code == 4
    assert "policy not met: " in done.stdout


def test_a_policy_needs_no_folder(models, tmp_path, ran):
    policy = tmp_path / "policy.toml"
    policy.write_text('name = "house"\n[limits]\nproved_rows = 0.0\n')
    done = run("audit", models / "deep.skops", models / "broken.skops", "--policy", policy)
    assert done.exit_code == 2
    errors = ran.errors + done.stderr
    assert "deep.skops: no leak shown" in errors
    assert "does not meet the policy" in errors
    assert "broken.skops: no audit: " in errors
    (place,) = {Path(words[words.index("--json") + 1]).parent for words in ran}
    assert not place.exists()
    assert list(tmp_path.iterdir()) == [policy]


def test_options_reach_each_audit(models, tmp_path, ran):
    audit(models, tmp_path / "out", "--internal", "--bootstrap", "none", "--jobs", 2, "--quiet")
    for words in ran:
        assert words[:3] == ["audit", "--time-limit", "10.0"]
        assert "--internal" in words
        assert words[words.index("--bootstrap") + 1] == "none"
        assert "--jobs" not in words
    index_file = tmp_path / "out" / "index.json"
    assert index_file.stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_errors_stay_out_of_what_is_passed_on(models, tmp_path, ran):
    audit(models, tmp_path / "a")
    assert entries(tmp_path / "a")["broken"]["said"] == ""
    assert str(models) not in (tmp_path / "a" / "index.html").read_text()
    audit(models, tmp_path / "b", "--internal")
    assert "not a model" in entries(tmp_path / "b")["broken"]["said"]


@pytest.mark.parametrize("option", ["--json", "--sacro-report"])
def test_one_file_is_no_place_for_many(models, tmp_path, option):
    done = audit(models, tmp_path / "out", option, tmp_path / "x.json")
    assert done.exit_code == 2
    assert option in done.stderr


def test_many_need_a_folder(models, tmp_path):
    files = [models / "deep.skops", models / "stump.skops"]
    assert "--report FOLDER" in run("audit", *files).stderr
    (tmp_path / "f").write_text("")
    assert "no folder" in run("audit", *files, "--report", tmp_path / "f").stderr
    (tmp_path / "index.json").write_text("{}")
    assert "not an index" in run("audit", *files, "--report", tmp_path).stderr


@pytest.mark.parametrize("name", ["deep.json", "deep.html", "index.html"])
def test_a_batch_overwrites_nothing_but_results(models, tmp_path, ran, name):
    (tmp_path / name).write_text('{"learner": {}, "version": [3, 0, 0]}')
    done = run("audit", models / "deep.skops", "--report", tmp_path)
    assert done.exit_code == 2
    assert f"{tmp_path / name}: is no result of treeleak" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert not ran


def test_a_batch_overwrites_no_file_that_it_reads(models, tmp_path, ran):
    (tmp_path / "deep.skops").write_bytes((models / "deep.skops").read_bytes())
    inputs = [tmp_path / "deep.skops", tmp_path / "deep.json"]
    for text in ('{"learner": {}}', '{"format": "treeleak-audit"}'):
        inputs[1].write_text(text)
        done = run("audit", *inputs, "--report", tmp_path)
        assert f"{inputs[1]}: is read by the same command" in done.stderr
        assert inputs[1].read_text() == text
    assert not ran


def test_the_worst_exit_status_counts():
    assert index.worst([]) == 0
    assert index.worst([0, 3, 4]) == 4
    assert index.worst([4, 2, 0]) == 2
    assert index.worst([2, -9]) == 1
    assert index.worst([2, 1, 130]) == 130


def test_the_page_says_names_as_text(tmp_path):
    entry = index.entry_of("<b>&", "", 1, "<script>x</script>", tmp_path)
    page = render_index([entry], internal=False)
    assert "<b>&" not in page
    assert "<script>x" not in page
