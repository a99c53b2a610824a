"""Studies: a store that loses nothing and repeats nothing, runs side by side, what is shown."""

import lzma
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import treeleak
from experiments import (  # fmt: skip
    STUDIES,
    Run,
    Store,
    as_frame,
    carry_out,
    catalogue,
    forests,
    plan,
    results_version,
    runner,
)
from experiments.__main__ import app
from experiments.catalogue import BENCHMARKS
from experiments.runner import runs_of
from experiments.store import _MOST_TEXT
from experiments.studies import draft_runs
from toy_study import ENVIRONMENT, TRACE, study, traced
from treeleak.core.errors import BadInput, TimeUp

pytestmark = pytest.mark.slow

TOY = Path(__file__).parent / "toy_study.py"


def run_of(x, version=1, record=None):
    return Run("toy", {"x": x}, version, {"square": x * x} if record is None else record)


# --------------------------------------------------------------------------------------- store


def test_a_run_is_kept_once(tmp_path):
    store = Store(tmp_path / "deep" / "runs.sqlite")
    assert store.add(run_of(3))
    assert not store.add(run_of(3, record={"square": -1}))
    again = Store(store.path)
    assert again.runs("toy") == again.runs("toy", 1) == [run_of(3)]
    assert again.runs("toy", 2) == again.runs("toys") == []


def test_of_several_versions_the_last_counts(tmp_path):
    store = Store(tmp_path / "runs.sqlite")
    # Whoever goes back to an older checkout makes no newer result.
    for version in (2, 10, 1):
        store.add(run_of(3, version, {"square": version}))
    assert [r.record["square"] for r in store.runs("toy")] == [10]
    assert [r.record["square"] for r in store.runs("toy", 1)] == [1]


def test_numbers_of_numpy_are_plain_and_nan_is_nothing(tmp_path):
    store = Store(tmp_path / "runs.sqlite")
    record = {
        "a": np.float64(0.5),
        "b": np.int32(3),
        "c": np.nan,
        "d": [np.bool_(True)],
        "e": np.inf,
    }
    store.add(run_of(1, record=record))
    assert store.runs("toy")[0].record == {"a": 0.5, "b": 3, "c": None, "d": [True], "e": "inf"}


@pytest.mark.slow
def test_many_processes_write_at_once(tmp_path):
    path = tmp_path / "runs.sqlite"
    more = "1"
    command = [sys.executable, str(TOY), str(path), "1", "30", "0.002", more]
    assert subprocess.run(command, env=ENVIRONMENT, timeout=120, check=False).returncode == 0
    assert sorted(r.parameters["x"] for r in Store(path).runs("toy")) == [
        x for x in range(30) if x != 13
    ]


def test_a_store_that_is_none_or_damaged_is_named_and_left_alone(tmp_path):
    path = tmp_path / "runs.sqlite"
    path.write_text("no store\n" * 1000)
    with pytest.raises(BadInput, match=r"runs\.sqlite: the store cannot be used"):
        Store(path)
    assert path.read_text() == "no store\n" * 1000
    path.unlink()
    store = Store(path)
    for x in range(500):
        store.add(run_of(x, record={"text": "x" * 300}))
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + os.urandom(len(whole) - 8192) + whole[-4096:])
    with pytest.raises(BadInput, match="the store cannot be used"):
        Store(path).runs("toy")


def test_a_record_that_was_changed_is_named(tmp_path):
    store = Store(tmp_path / "runs.sqlite")
    store.add(run_of(3))
    with sqlite3.connect(store.path) as base:
        base.execute("""UPDATE results SET record = '{"square":10}'""")
    with pytest.raises(BadInput, match=r'the run toy {"x":3} was changed'):
        store.runs("toy")


def test_runs_go_from_store_to_store_as_a_file(tmp_path):
    one, other = Store(tmp_path / "one.sqlite"), Store(tmp_path / "other.sqlite")
    for x in range(5):
        one.add(run_of(x, record={"square": -1}))
        one.add(run_of(x, 2, {"nothing": None, "text": "é\n", "half": 0.5}))
    one.add(Run("kept", {}, 1, {}))
    other.add(run_of(3, 9, {"square": 9}))
    assert one.write(tmp_path / "runs.jsonl.xz", ["toy", "toy"]) == 5
    assert other.read(tmp_path / "runs.jsonl.xz") == 5
    assert other.read(tmp_path / "runs.jsonl.xz") == 0
    by_x = {run.parameters["x"]: run for run in other.runs("toy")}
    assert by_x[3] == run_of(3, 9, {"square": 9})
    assert [by_x[x] for x in (0, 1, 2, 4)] == [
        run for run in one.runs("toy") if run.parameters["x"] != 3
    ]
    assert other.runs("kept") == []
    assert Store(one.path).write(tmp_path / "again.xz", ["toy"]) == 5
    assert (tmp_path / "again.xz").read_bytes() == (tmp_path / "runs.jsonl.xz").read_bytes()


GOOD = b'["toy", {}, 1, {}, 0.5]\n'


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is cut off"),
        (lzma.compress(GOOD)[:-9], "it is cut off"),
        (lzma.compress(GOOD) + lzma.compress(GOOD), "something stands behind its end"),
        (lzma.compress(GOOD + b"{}"), "not a run: {}"),
        (lzma.compress(GOOD + b'["toy", {}, 1]'), "not a run"),
        (lzma.compress(GOOD + b'["toy", [], 1, {}, 0.5]'), "not a run"),
        (lzma.compress(GOOD + b"x"), "Expecting value"),
        (lzma.compress(b"\xff"), "utf-8"),
        (lzma.compress(GOOD + b'["\\ud800", {}, 1, {}, 0.5]'), "surrogates"),
        (lzma.compress(GOOD + b'["toy", {"a": ' + b"[" * 700 + b"]" * 700 + b'}, 1, {}, 0.5]'),
         "recursion"),
        (lzma.compress(b"[" * 10**5), "recursion"),
        (lzma.compress(b" " * (_MOST_TEXT + 1)), f"more than {_MOST_TEXT:,} bytes"),
    ],
)  # fmt: skip
def test_a_file_that_holds_no_runs_is_named_and_adds_none(data, why, tmp_path):
    store = Store(tmp_path / "runs.sqlite")
    with pytest.raises(BadInput, match=r"runs\.xz: No such file"):
        store.read(tmp_path / "runs.xz")
    (tmp_path / "runs.xz").write_bytes(data)
    with pytest.raises(BadInput, match=rf"runs\.xz: not the runs of a store \(.*{why}"):
        store.read(tmp_path / "runs.xz")
    assert store.runs("toy") == []


# ------------------------------------------------------------------------------------ versions


@pytest.fixture
def raised(monkeypatch):
    """Raise the results version of some experiments."""

    def change(*names):
        versions = results_version.VERSIONS
        raised = dict.fromkeys(names, max(versions.values()) + 1)
        monkeypatch.setattr(results_version, "VERSIONS", {**versions, **raised})

    return change


def test_a_raised_version_makes_runs_due_again(tmp_path, raised):
    store, toy = Store(tmp_path / "runs.sqlite"), study(5)
    carry_out(plan(toy, store), store)
    before = toy.version
    assert plan(toy, store).done == 5
    raised("another")
    assert toy.version == before
    assert plan(toy, store).done == 5
    raised("another", "toy")
    assert toy.version == max(results_version.VERSIONS.values()) > before
    assert (plan(toy, store).done, plan(toy, store, any_version=True).done) == (0, 5)
    assert runs_of(toy, store, quick=False) == []
    assert carry_out(plan(toy, store), store).finished == 5
    assert {run.version for run in runs_of(toy, store, quick=False)} == {toy.version}


def test_versions_are_of_experiments_that_there_are():
    known = {own.kept_as for own in STUDIES.values()} | set(BENCHMARKS)
    assert set(results_version.VERSIONS) <= known
    assert max(results_version.VERSIONS.values()) == results_version.RESULTS_VERSION


# ------------------------------------------------------------------------------------- running


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_is_done_is_not_repeated(tmp_path, monkeypatch, jobs):
    monkeypatch.setenv(TRACE, str(tmp_path))
    store, toy = Store(tmp_path / "runs.sqlite"), study(13)
    first = plan(toy, store, quick=True)
    assert [p["x"] for p in first.todo] == [0, 5, 10]
    assert carry_out(first, store, jobs).finished == 3
    second = plan(toy, store)
    assert (second.done, len(second.todo)) == (3, 10)
    assert carry_out(second, store, jobs).finished == 10
    assert plan(toy, store).todo == ()
    assert traced(tmp_path) == list(range(13))
    frame = as_frame(store.runs("toy"))
    assert dict(zip(frame.x, frame.square, strict=True)) == {x: x * x for x in range(13)}
    assert frame.seconds.ge(0).all()


def test_a_run_that_fails_ends_no_other_and_is_tried_again(tmp_path):
    store, toy = Store(tmp_path / "runs.sqlite"), study(20)
    outcome = carry_out(plan(toy, store), store)
    assert outcome.finished == 19
    assert [(dict(p)["x"], why) for p, why in outcome.failed] == [(13, "ValueError: thirteen")]
    assert [p["x"] for p in plan(toy, store).todo] == [13]


def test_an_interrupt_keeps_what_is_done(tmp_path):
    store, toy = Store(tmp_path / "runs.sqlite"), study(10)

    def told(done, all_, seconds):
        if done == 4:
            raise KeyboardInterrupt

    outcome = carry_out(plan(toy, store), store, told=told)
    assert outcome.interrupted
    assert len(store.runs("toy")) == outcome.finished == 4


def test_each_process_warms_up_once_and_that_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setenv(TRACE, str(tmp_path))
    runner._warmed.cache_clear()
    store = Store(tmp_path / "runs.sqlite")
    toy = study(5, warm=lambda p: {**p, "x": 1000})
    assert carry_out(plan(toy, store), store).finished == 5
    assert traced(tmp_path) == [0, 1, 2, 3, 4, 1000]


def test_a_cluster_without_dask_says_what_to_type(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    store = Store(tmp_path / "runs.sqlite")
    with pytest.raises(BadInput, match=r"pip install 'treeleak\[cluster\]'"):
        carry_out(plan(study(5), store), store, cluster="tcp://127.0.0.1:1")


# ------------------------------------------------------------------------------------ catalogue


STORED = ("ferry-figure-3", "ferry-figure-6")
"""Studies whose runs are stored, and not made anew."""


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_holds_together(name):
    own = STUDIES[name]
    full, quick = own.grid(quick=False), own.grid(quick=True)
    assert own.name == name
    if name in STORED:
        assert not full
        assert own.whole
        return
    assert 0 < len(quick) < len(full)
    assert set(quick[0]) == set(own.names)
    # Of every stratum of the full grid there is a run in the quick one.
    for key in set(own.names) - {"seed", "time_limit", "n_rows"}:
        known = {str(p[key]) for p in full}
        if len(known) <= 3:
            assert {str(p[key]) for p in quick} == known, key


# --------------------------------------------------------------------------------- command line


@pytest.fixture
def known_studies(monkeypatch):
    """Let there be these studies."""
    return lambda **own: monkeypatch.setattr(catalogue, "STUDIES", own)


@pytest.fixture
def toy(known_studies):
    own = study(20)
    known_studies(toy=own)
    return own


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_a_study_on_the_command_line(toy, tmp_path, monkeypatch):
    assert "toy" in run("list").stdout
    result = run("run", "toy", "--quick", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "toy: 4 to run" in result.stderr
    assert "225" in result.stdout
    assert {p.name for p in tmp_path.iterdir()} == {"runs.sqlite", "toy.csv", "toy.md"}
    assert pd.read_csv(tmp_path / "toy.csv").square.tolist() == [0, 25, 100, 225]
    again = run("run", "toy", "--quick", "--out", tmp_path)
    assert "all 4 runs are done" in again.stderr
    partly = run("show", "toy", "--out", tmp_path)
    assert partly.exit_code == 0
    assert "4 of 20 runs are done" in partly.stderr
    failed = run("run", "toy", "--out", tmp_path)
    assert failed.exit_code == 1
    assert "ValueError: thirteen" in failed.stderr
    assert "361" in failed.stdout


def test_a_run_without_an_answer_in_time_is_a_run_without_an_answer(instead, breaks):
    breaks(treeleak, "reconstruct", TimeUp("the time limit of 1 s was reached"))
    instead("draft", lambda _: treeleak.datasets.load_compas(), forests)
    record = draft_runs.attack(
        {"dataset": "compas", "n_trees": 2, "depth": 2, "bootstrap": "none", "seed": 0,
         "n_rows": 20, "method": "auto", "time_limit": 1.0}
    )  # fmt: skip
    assert record["status"] == "unknown"
    assert np.isnan(record["error"])
    assert 0 < record["guess"] < 1


def test_no_module_of_the_package_needs_the_experiments():
    for path in Path(treeleak.__file__).parent.rglob("*.py"):
        assert not re.search(r"^\s*(from|import) experiments\b", path.read_text(), re.MULTILINE), (
            path
        )


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_says_what_it_can_be_asked(name):
    asked = run("run", name, "--help")
    assert asked.exit_code == 0, asked.output
    assert f"usage: python -m experiments run {name}" in asked.stdout
    assert name in run("list").stdout


def test_runs_of_other_versions_count_if_they_may(toy, tmp_path, raised):
    run("run", "toy", "--quick", "--out", tmp_path / "old")
    sent = run("export", tmp_path / "runs.jsonl.xz", "--out", tmp_path / "old")
    assert sent.exit_code == 0
    assert "runs.jsonl.xz: 4 runs" in sent.stderr.replace("\n", "")
    raised("toy")
    got = run("import", tmp_path / "runs.jsonl.xz", "--out", tmp_path)
    assert got.exit_code == 0
    assert "4 runs were added" in got.stderr
    assert "toy: 4 to run" in run("run", "toy", "--quick", "--out", tmp_path / "old").stderr
    again = run("run", "toy", "--quick", "--any-version", "--out", tmp_path)
    assert again.exit_code == 0
    assert "all 4 runs are done" in again.stderr
    assert "225" in again.stdout
    assert run("export", tmp_path / "x", "--out", tmp_path / "none").exit_code == 2
    missing = run("import", tmp_path / "x", "--out", tmp_path / "none")
    assert missing.exit_code == 2
    assert not (tmp_path / "none").exists()
    onto = run("export", tmp_path / "old" / "runs.sqlite", "--out", tmp_path / "old")
    assert onto.exit_code == 2
    assert len(Store(tmp_path / "old" / "runs.sqlite").runs("toy")) == 4


def test_what_is_not_there_is_said(toy, tmp_path):
    nothing = run("show", "toy", "--out", tmp_path)
    assert nothing.exit_code == 2
    assert "nothing was run yet" in nothing.stderr
    assert run("run", "to", "--out", tmp_path).exit_code == 2
    (tmp_path / "runs.sqlite").write_text("x" * 5000)
    damaged = run("run", "toy", "--out", tmp_path)
    assert damaged.exit_code == 2
    assert "runs.sqlite: the store cannot be used" in damaged.stderr


def test_the_page_tells_what_is_done_and_who_is_ahead(toy, tmp_path):
    empty = run("page", tmp_path / "r.md", "--out", tmp_path)
    assert empty.exit_code == 2
    run("run", "toy", "--quick", "--out", tmp_path)
    few = run("page", tmp_path / "r.md", "--out", tmp_path)
    assert few.exit_code == 2
    assert "not more than half of the runs" in few.stderr.replace("\n", " ")
    run("run", "toy", "--out", tmp_path)
    done = run("page", tmp_path / "r.md", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    text = (tmp_path / "r.md").read_text()
    assert "### toy\n\nsquares. 19 of 20 runs, results version 1." in text
    (csv,) = (path for path in (tmp_path / "r").glob("*.csv") if path.name != "tables.csv")
    assert f"[{csv.name}](r/{csv.name})" in text
    assert "15,225" in csv.read_text()
