"""Nothing opens a socket: a model under audit stays on the machine."""

import pickle
import subprocess
import sys

import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from helpers.cli import keep
from helpers.tables import compas_sample

# From the first line on, so that imports are watched, too.
WATCHED = """
import os, sys

def watch(event, args):
    if event.startswith("socket."):
        print("opened a socket:", event, args, file=sys.stderr, flush=True)
        os._exit(99)  # not an exception, which somebody could catch

sys.addaudithook(watch)
"""

COMMAND = WATCHED + "from treeleak.cli import main\nmain()\n"

PYTHON = """
import treeleak
from sklearn.ensemble import RandomForestClassifier

data = treeleak.datasets.load_compas()
X = data.X.sample(30, random_state=0)
y = data.y[X.index]
model = RandomForestClassifier(3, bootstrap=False, random_state=0).fit(X, y)
result = treeleak.reconstruct(model, data.schema, time_limit=1)
treeleak.metrics.reconstruction_error(result.X, X, data.schema)
treeleak.audit(model, X, y, schema=data.schema, time_limit=1).to_json(edition="internal")
"""


def watched(script, *arguments):
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small forest with its schema and rows, and a tree as a pickle."""
    folder = tmp_path_factory.mktemp("offline")
    X, y, data = compas_sample(30, seed=0)
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    keep(folder, forest, X, y, data.schema)
    tree = DecisionTreeClassifier().fit([[0], [1]], [0, 1])
    (folder / "model.pkl").write_bytes(pickle.dumps(tree))
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        "audit model.skops --schema schema.toml --train train.csv --json audit.json",
        "audit model.pkl --trust-pickle",
        *(
            pytest.param(line, marks=pytest.mark.slow)
            for line in (
                "demo --out ./demo",
                "reconstruct model.skops --out rows.csv",
                "schema model.skops --train train.csv",
                "export model.skops release.json",
            )
        ),
    ],
)
@pytest.mark.slow
def test_commands_open_no_socket(folder, arguments):
    named = [folder / a if "." in a else a for a in arguments.split()]
    process = watched(COMMAND, *named)
    assert process.returncode == 0, process.stderr


@pytest.mark.slow
def test_the_package_opens_no_socket():
    process = watched(WATCHED + PYTHON)
    assert process.returncode == 0, process.stderr


def test_the_watch_sees_a_socket():
    process = watched(WATCHED + "import socket\nsocket.socket().close()\n")
    assert process.returncode == 99
    assert "opened a socket" in process.stderr
