"""What a new user meets: wrong inputs, shell completion, terminals without colours."""

import os
import pickle
import pty
import subprocess
import sys

import pytest
from sklearn.ensemble import RandomForestClassifier

from helpers.cli import keep, run
from helpers.examples import spread
from helpers.tables import compas_sample

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

NAMED = "import sys; sys.argv[0] = 'treeleak'; from treeleak.cli import main; main()"
"""The command under the name that it is installed by."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A model with its schema and training rows, in the folder where the user is."""
    monkeypatch.chdir(tmp_path)
    X, y, data = compas_sample(30, seed=0)
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    keep(tmp_path, forest, X, y, data.schema, "again")
    (tmp_path / "folder").mkdir()
    return tmp_path


# --------------------------------------------------------------------------- wrong inputs

TRAIN = ["audit", "model.skops", "--label", "again", "--train"]


def lines(change):
    """The training rows with another text."""
    return lambda text: change(text.splitlines())


WRONG = {
    "model missing": (["audit", "none.skops"], None, ["none.skops: No such", "check the name"]),
    "model is a table": (
        ["audit", "train.csv"],
        None,
        ["train.csv: this is a table", "skops.io.dump"],
    ),
    "model empty": (["audit", "wrong"], b"", ["wrong: the file is empty", "save the model again"]),
    "pickle": (["audit", "wrong"], pickle.dumps([1]), ["wrong: a pickle", "--trust-pickle"]),
    "schema missing": (
        ["audit", "model.skops", "--schema", "none.toml"],
        None,
        ["none.toml: No such file", "check the name"],
    ),
    "rows missing": ([*TRAIN, "none.csv"], None, ["none.csv: No such file", "check the name"]),
    "rows empty": ([*TRAIN, "wrong"], b"", ["wrong: the file is empty", "first line names"]),
    "header only": (
        [*TRAIN, "wrong"],
        lines(lambda rows: rows[:1]),
        ["wrong: these rows do not fit the model", "30 rows, these are 0"],
    ),
    "encoding": (
        [*TRAIN, "wrong"],
        "größe,again\n1,0\n".encode("latin-1"),
        ["wrong: not text in UTF-8", "save it again"],
    ),
    "semicolons": (
        [*TRAIN, "wrong"],
        lines(lambda rows: [row.replace(",", ";") for row in rows]),
        ["wrong: its values are separated by ';'", "save the table with commas"],
    ),
    "ragged": (
        [*TRAIN, "wrong"],
        lines(lambda rows: [*rows[:2], rows[2] + ",1,2"]),
        ["wrong: not a table", "line 3", "as many values"],
    ),
    "label": (
        ["audit", "model.skops", "--label", "agian", "--train", "train.csv"],
        None,
        ["train.csv: no column 'agian'", "--label", "did you mean 'again'?"],
    ),
    "infinite": (
        [*TRAIN, "wrong"],
        lines(lambda rows: [*rows[:3], "inf" + rows[3][1:], *rows[4:]]),
        ["wrong: column 'sex:Male' is infinite in row 2", "correct it"],
    ),
    "text for a number": (
        [*TRAIN, "wrong"],
        lines(lambda rows: [*rows[:3], "male" + rows[3][1:], *rows[4:]]),
        ["wrong: column 'sex:Male'", "something other than numbers"],
    ),
    "no such folder": (
        ["reconstruct", "model.skops", "--out", "none/rows.csv"],
        None,
        ["none/rows.csv: there is no folder none", "make it first"],
    ),
    "demo into a file": (["demo", "--out", "train.csv"], None, ["train.csv: File", "choose"]),
}


@pytest.mark.parametrize(
    ("arguments", "content", "said"), spread(WRONG.values(), fast=7), ids=WRONG
)
def test_errors_name_the_cause_and_the_next_step(folder, arguments, content, said):
    if callable(content):
        content = "\n".join(content((folder / "train.csv").read_text())).encode()
    if content is not None:
        (folder / "wrong").write_bytes(content)
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    for piece in said:
        assert piece in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "Errno" not in result.stderr


@pytest.mark.parametrize("command", [["audit"], ["reconstruct", "--out", "rows.csv"]])
def test_a_schema_that_does_not_fit_is_named_with_what_was_meant(folder, command):
    text = (folder / "schema.toml").read_text(encoding="utf-8")
    (folder / "wrong.toml").write_text(text.replace("sex:Male", "sex:Mail"), encoding="utf-8")
    name, *more = command
    result = run(name, "model.skops", "--schema", "wrong.toml", *more)
    assert result.exit_code == 2, result.output
    assert "wrong.toml: the schema names columns that the model lacks" in result.stderr
    assert "did you mean 'sex:Male'?" in result.stderr


# ------------------------------------------------------------------ colours, progress, quiet


def on_a_terminal(*arguments, **environment):
    """What the command writes where somebody watches, errors and progress included."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", NAMED, *arguments],
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", **environment},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    written = b""
    try:
        while piece := os.read(ours, 4096):
            written += piece
    except OSError:  # Linux says so when the other end is closed.
        pass
    os.close(ours)
    process.wait(timeout=120)
    return written.decode()


SPOKEN = [
    pytest.param(["--help"], id="help"),
    pytest.param(["audit", "--help"], id="help of a command"),
    pytest.param(["audit", "none.skops", "--quiet"], id="error"),
    pytest.param(["audit", "model.skops", "--tran", "x"], id="usage"),
]
"""What is printed without an audit, whose colours are looked at by themselves."""


@pytest.mark.parametrize("arguments", SPOKEN)
@pytest.mark.slow
def test_no_color_means_plain_text(folder, arguments):
    assert "\x1b" not in on_a_terminal(*arguments, NO_COLOR="1")


@pytest.mark.slow
def test_colours_and_progress_where_somebody_watches(folder):
    shown = on_a_terminal("audit", "model.skops")
    assert "\x1b[" in shown
    assert "reading the model" in shown


@pytest.mark.slow
def test_quiet_leaves_results_and_errors(folder):
    loud, quiet = (
        run("reconstruct", "model.skops", "--out", f"{name}.csv", *more)
        for name, more in (("loud", []), ("quiet", ["--quiet"]))
    )
    assert "The bootstrap samples are known from" in loud.stderr
    told, kept = loud.stderr.replace("loud", "quiet").splitlines(), quiet.stderr.splitlines()
    assert kept[0] == told[0]
    assert set(kept) < set(told)
    assert "The bootstrap samples" not in quiet.stderr
    assert (folder / "loud.csv").read_bytes() == (folder / "quiet.csv").read_bytes()
    refused = run("audit", "none.skops", "--quiet")
    assert refused.stderr.startswith("treeleak: none.skops: No such file")
