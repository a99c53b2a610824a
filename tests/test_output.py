"""Files are written whole or not at all, and a process that is told to end leaves nothing."""

import ast
import csv
import errno
import io
import json
import os
import resource
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import experiments
import treeleak
from helpers.cli import keep, run
from treeleak.core.errors import BadInput
from treeleak.core.output import write_file
from treeleak.core.signals import private_folder
from treeleak.core.spreadsheets import csv_text, unmarked

PACKAGE = Path(treeleak.__file__).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(3)
    rows = pd.DataFrame(rng.integers(0, 2, (40, 6)), columns=list("abcdef"))
    label = (rows["a"] + rows["b"] * rows["c"] > 1).astype(int)
    place = tmp_path_factory.mktemp("model")
    model = RandomForestClassifier(6, bootstrap=False, random_state=42).fit(rows, label)
    keep(place, model, rows, label, None, "y")
    return place


@pytest.fixture
def full(instead):
    """A disk that is full by the time that a file should be on it."""

    def sync(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    instead("fsync", sync, os)


# ------------------------------------------------------------------------------- whole or nothing


@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("content", ["räume\r\n", b"\x00\xff"])
def test_a_file_is_written_and_replaced(tmp_path, content, private):
    path = tmp_path / ("n" * 250)
    for _ in range(2):
        write_file(path, content, private=private)
        wanted = content.encode() if isinstance(content, str) else content
        assert path.read_bytes() == wanted
        assert os.listdir(tmp_path) == [path.name]
    with pytest.raises(BadInput, match="File exists"):
        write_file(path, b"other", private=private, overwrite=False)
    assert path.read_bytes() == wanted
    assert os.listdir(tmp_path) == [path.name]


@given(st.integers(0, 64), st.binary(min_size=65, max_size=200))
def test_what_does_not_fit_leaves_the_old_file_alone(tmp_path_factory, room, content):
    place = tmp_path_factory.mktemp("full")
    path = place / "rows.json"
    path.write_bytes(b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        with pytest.raises(BadInput, match=r"rows\.json: File too large"):
            write_file(path, content)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == b"old"
    assert os.listdir(place) == ["rows.json"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError, SystemExit])
def test_whatever_stops_it_leaves_no_part(tmp_path, instead, stop):
    def stopped(*_):
        raise stop

    instead("fsync", stopped, os)
    with pytest.raises(stop):
        write_file(tmp_path / "rows.json", b"new")
    assert os.listdir(tmp_path) == []


def test_nobody_may_read_more_than_before(tmp_path):
    before = os.umask(0)
    try:
        write_file(tmp_path / "open", "x")
        write_file(tmp_path / "mine", "x", private=True)
        (tmp_path / "team").write_text("x")
        (tmp_path / "team").chmod(0o640)
        write_file(tmp_path / "team", "y")
    finally:
        os.umask(before)
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
    assert modes == {"open": 0o666, "mine": 0o600, "team": 0o640}


def test_a_link_is_replaced_and_a_device_is_not(tmp_path):
    (tmp_path / "far").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "far")
    write_file(tmp_path / "link", "new", private=True)
    assert (tmp_path / "far").read_text() == "old"
    assert not (tmp_path / "link").is_symlink()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "away").symlink_to(os.devnull)
    for name in ("pipe", "away"):
        with pytest.raises(BadInput, match="not an ordinary file"):
            write_file(tmp_path / name, "new")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


COMMANDS = [
    ("audit", "model.skops", "--json", "OUT"),
    ("audit", "model.skops", "--internal", "--json", "OUT"),
    ("audit", "model.skops", "--report", "OUT"),
    ("reconstruct", "model.skops", "--force", "--out", "OUT"),
    ("schema", "model.skops", "--force", "--out", "OUT"),
    ("export", "model.skops", "--force", "OUT"),
    ("harden", "model.skops", "--steps", "sizes", "--time-limit", "1", "--force", "--out", "OUT"),
    ("informed", "model.skops", "--train", "train.csv", "--label", "y", "--targets", "1",
     "--json", "OUT"),
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: " ".join(c[:1] + c[2:3]))
@pytest.mark.slow
def test_a_full_disk_leaves_the_old_file_whatever_the_command(folder, tmp_path, full, command):
    out = tmp_path / "out"
    out.write_text("old")
    names = {"OUT": out, **{name: folder / name for name in ("model.skops", "train.csv")}}
    result = run(*(names.get(word, word) for word in command))
    assert result.exit_code == 2, result.output
    assert "No space left on device: make room" in result.output
    assert out.read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]


ALLOWED = {
    # JSON Schemas, where the package is developed.
    ("formats/published.py", "write_text"): 1,
    # Into a folder that is removed, or into memory.
    ("hardening/run.py", "write_bytes"): 2,
    ("release/readers/catboost_json.py", "write_bytes"): 1,
    ("release/containers/members.py", "open"): 1,
    ("report/pdf.py", "TemporaryDirectory"): 1,
    ("core/spreadsheets.py", "to_csv"): 2,
}
WRITES = {
    "write_text", "write_bytes", "to_csv", "savefig", "TemporaryDirectory", "NamedTemporaryFile",
    "mkstemp", "mkdtemp",
}  # fmt: skip


def writes_of(folder):
    """Calls that write files, by module and name."""
    found: dict[tuple[str, str], int] = {}
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        # The process of its own in which pickles are read writes where it is told to.
        if name == "release/readers/unpickling/__main__.py" or name == "core/output.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            modes = [a.value for a in node.args if isinstance(a, ast.Constant)]
            opens = called == "open" and any(str(m) in {"w", "wb", "a", "x", "xb"} for m in modes)
            if called in WRITES or opens:
                found[name, called] = found.get((name, called), 0) + 1
    return found


@pytest.mark.slow
def test_nothing_else_writes_files():
    assert writes_of(PACKAGE) == ALLOWED, "write files by treeleak.core.output.write_file"


def test_nothing_else_that_studies_share_writes_files():
    found = writes_of(Path(experiments.__file__).parent)
    apart = ("benchmarks/", "zoo/")
    assert {place: n for place, n in found.items() if not place[0].startswith(apart)} == {
        ("page.py", "to_csv"): 2,  # into text, which write_file writes
        ("shown.py", "to_csv"): 1,
    }


# --------------------------------------------------------------------------------- told to end


def test_a_private_folder_is_gone_whatever_happens():
    made = []

    def use():
        with private_folder() as own:
            made.append(own)
            assert stat.S_IMODE(own.stat().st_mode) == 0o700
            (own / "deep").mkdir()
            (own / "deep" / "model.skops").write_text("secret")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        use()
    (own,) = made
    assert not own.exists()


# Loads the package once. Of each job that it is told, it runs the command in copies of itself and
# sends each a signal.
SERVER = """
import faulthandler, json, os, signal, sys, time
from pathlib import Path

faulthandler.enable()

import treeleak
from treeleak import cli
from treeleak.attacks import exact, known_draws
from treeleak.core import signals
from treeleak.hardening import run as harden
from treeleak.release.readers import pickled
from treeleak.report import terminal

for line in sys.stdin:
    job = json.loads(line)
    home = Path(job["home"])
    told = []
    for k, delay in enumerate(job["delays"]):
        temp = home / str(k)
        temp.mkdir()
        pid = os.fork()
        if pid == 0:
            # Under nohup it would be ignored.
            signal.signal(getattr(signal, job["signal"]), signal.SIG_DFL)
            os.environ["TMPDIR"] = str(temp)
            exec(job["before"])
            sys.argv = ["treeleak", *(w.replace("TEMP", str(temp)) for w in job["command"])]
            cli.main()
            os._exit(99)
        while not any(temp.glob(job["appears"])):
            time.sleep(0.002)
            assert os.waitpid(pid, os.WNOHANG) == (0, 0), "ended before it began"
        there = sorted(p.name for p in temp.rglob("*"))
        time.sleep(delay)
        os.kill(pid, getattr(signal, job["signal"]))
        _, status = os.waitpid(pid, 0)
        left = sorted(str(p.relative_to(temp)) for p in temp.rglob("*") if p.name != "child")
        child = temp / "child"
        alive = child.exists() and Path(f"/proc/{child.read_text()}").exists()
        told.append([os.waitstatus_to_exitcode(status), len(there), left, alive])
    print("told", json.dumps(told), flush=True)
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """Exit status, files before, files left, and whether the child lives: for each delay."""
    heard = tmp_path_factory.mktemp("server") / "stderr"
    with heard.open("w") as errors, subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=errors, text=True,
    ) as server:  # fmt: skip

        def ended(home, command, *, delays=(0.0,), before="", appears="treeleak-*",
                  number="SIGTERM"):  # fmt: skip
            job = {
                "home": str(home), "command": [str(w) for w in command], "delays": delays,
                "before": before, "appears": appears, "signal": number,
            }  # fmt: skip
            too_long = threading.Timer(200, server.kill)
            too_long.start()
            print(json.dumps(job), file=server.stdin, flush=True)
            lines = iter(server.stdout.readline, "")
            told = next((line for line in lines if line.startswith("told ")), None)
            too_long.cancel()
            assert told is not None, heard.read_text()
            assert "Traceback" not in heard.read_text(), heard.read_text()
            return json.loads(told.removeprefix("told "))

        yield ended
        server.stdin.close()


@pytest.mark.slow
def test_sigterm_leaves_no_unhardened_model_at_whatever_moment(folder, ended, tmp_path):
    command = ["harden", folder / "model.skops", "--out", "TEMP/out.skops", "--time-limit", "60"]
    command += ["--train", folder / "train.csv", "--label", "y", "-q"]
    delays = [0.0, 0.01, 0.03, 0.07, 0.15, 0.25, 0.4]
    for code, there, left, _ in ended(tmp_path, command, delays=delays):
        assert there > 0
        # Who is done before the signal comes has written the file.
        assert (code, left) in ((143, []), (0, ["out.skops"]))


@pytest.mark.slow
def test_sighup_ends_it_as_tidily(folder, ended, tmp_path):
    command = ["harden", folder / "model.skops", "--out", "TEMP/out.skops"]
    before = "harden.audit = lambda *_, **__: time.sleep(60)"
    assert ended(tmp_path, command, before=before, number="SIGHUP")[0][0::2] == [129, []]


FINALIZED = """
class Slow:
    def __del__(self):
        time.sleep(60)

harden.audit = lambda *_, **__: Slow() and None
"""


@pytest.mark.slow
def test_a_signal_that_meets_a_finalizer_ends_it_as_tidily(folder, ended, tmp_path):
    command = ["harden", folder / "model.skops", "--out", "TEMP/out.skops"]
    assert ended(tmp_path, command, before=FINALIZED, delays=[0.3])[0][0::2] == [143, []]


COMPILED = """
# As a callback of LLVM would be found on the stack.
made = {"__name__": "llvmlite.binding.executionengine"}
exec("def notify(work): work()", made)

def compile():
    (temp / "child").write_text("0")
    try:
        time.sleep(60)
    finally:
        os._exit(1)

harden.audit = lambda *_, **__: made["notify"](compile)
"""


@pytest.mark.slow
def test_a_signal_that_meets_a_compiler_raises_nothing_there(folder, ended, tmp_path):
    command = ["harden", folder / "model.skops", "--out", "TEMP/out.skops"]
    found = ended(tmp_path, command, before=COMPILED, appears="child")
    assert found[0][0::2] == [143, []]


# Python cannot raise in the main thread while that waits for threads.
BUSY = """
from concurrent.futures import ThreadPoolExecutor
signals.GRACE = 0.1

def audit(*_, **__):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(time.sleep, 60)

harden.audit = audit
"""


@pytest.mark.slow
def test_threads_that_go_on_do_not_keep_it(folder, ended, tmp_path):
    command = ["harden", folder / "model.skops", "--out", "TEMP/out.skops"]
    found = ended(tmp_path, command, before=BUSY, delays=[0.2])
    assert found[0][0] == 143
    assert found[0][2] == []


SLOW = """
import dataclasses

worker = home / "worker.py"
worker.write_text(
    "import os, sys, time\\n"
    f"open({str(temp / 'child')!r}, 'w').write(str(os.getpid()))\\n"
    "open(sys.argv[2], 'w').write('rows')\\n"
    "time.sleep(60)\\n"
)
pickled.WORKER = dataclasses.replace(pickled.WORKER, script=worker)
"""


@pytest.mark.slow
def test_the_process_that_reads_a_pickle_ends_with_it(folder, ended, tmp_path):
    (tmp_path / "model.pkl").write_bytes(b"\x80\x04N.")
    command = ["audit", tmp_path / "model.pkl", "--trust-pickle"]
    home = tmp_path / "home"
    home.mkdir()
    appears = "treeleak-*/model.zip"
    assert ended(home, command, before=SLOW, appears=appears)[0] == [143, 3, [], False]


WORKERS = """
import multiprocessing
signals.GRACE = 0.1
BLOCKED = False

def audit(*_, **__):
    worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    worker.start()
    (temp / "child").write_text(str(worker.pid))
    if BLOCKED:
        # Another thread gets the signal: this one goes on waiting, and no handler runs.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    (temp / "treeleak-x").mkdir()
    worker.join()

treeleak.audit = audit
"""


@pytest.mark.slow
@pytest.mark.parametrize("blocked", [False, True])
def test_workers_end_with_it(folder, ended, tmp_path, blocked):
    before = WORKERS.replace("BLOCKED = False", f"BLOCKED = {blocked}")
    found = ended(tmp_path, ["audit", folder / "model.skops"], before=before)
    assert found[0][0] == 143
    assert found[0][3] is False


# ------------------------------------------------------------------------------------ spreadsheets

FORMULAS = ["=1+1", "+a", "-a", "@a", "\ta", "\ra", "\na", "'=a", "''-1", "-1-1", "=a\r=b"]
HARMLESS = ["a=1", "-1", "+2.5", "-1e3", "'a", "a", " =a", "-inf", "a\r=b"]


@given(st.lists(st.one_of(st.sampled_from(FORMULAS + HARMLESS), st.text("'=+-@\t1a")), min_size=1))
def test_a_spreadsheet_runs_nothing_of_a_table_and_reading_gives_back_what_was_written(texts):
    names = [*dict.fromkeys(texts)]
    table = pd.DataFrame([[*reversed(names)]] * 2, columns=names, dtype=object)
    cells = list(csv.reader(io.StringIO(csv_text(table), newline="")))
    for cell in (cell for line in cells for cell in line):
        assert cell[:1] not in "=+-@\t\r\n" or cell == "" or float(cell) is not None
    read = unmarked(pd.DataFrame(cells[1:], columns=cells[0], dtype=object))
    assert list(read) == names
    assert read.to_numpy().tolist() == table.to_numpy().tolist()


def test_rows_of_a_hostile_model_run_nowhere_and_are_read_back(tmp_path):
    X = pd.DataFrame({"=cmd()": [0, 0, 1, 1] * 3, "@b": [0, 1, 0, 1] * 3})
    y = np.array(["-no", "=yes()"])[X["=cmd()"] ^ X["@b"]]
    model = DecisionTreeClassifier(random_state=0).fit(X, y)
    path = keep(tmp_path, model, X, y, None)
    command = ["reconstruct", path, "--label", "+y", "--out"]
    first = run(*command, tmp_path / "rows.csv")
    assert first.exit_code == 0, first.stderr
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    assert lines[0] == "'=cmd(),'@b,'+y"
    assert {line.split(",")[2] for line in lines[1:]} == {"'-no", "'=yes()"}
    again = run(*command, tmp_path / "again.csv", "--known-rows", tmp_path / "rows.csv")
    assert again.exit_code == 0, again.stderr
    assert sorted((tmp_path / "again.csv").read_text().splitlines()) == sorted(lines)
    (tmp_path / "twice.csv").write_text("=cmd(),'=cmd(),'@b,+y\n0,0,0,-no\n")
    refused = run("audit", path, "--known-rows", tmp_path / "twice.csv", "--label", "+y")
    assert f"{tmp_path / 'twice.csv'}: the names of two columns" in refused.stderr
