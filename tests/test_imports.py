"""What importing costs, and where names are."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
import subprocess
import sys
from ast import literal_eval
from types import ModuleType

import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.cli import keep
from helpers.tables import compas_sample
from treeleak.core import errors as core_errors

HEAVY = (
    "joblib", "matplotlib", "msgspec", "numba", "numpy", "ortools", "pandas", "scipy",
    "scipy.stats", "skops", "sklearn",
)  # fmt: skip
PROMISED_LATE = ("matplotlib", "ortools", "scipy.stats", "sklearn")
"""What reading and auditing itself has no use for."""
# An older Typer imports from a newer click what it will have no longer.
STRICT = ("-W", "error", "-W", "ignore:'click:DeprecationWarning:typer")


def loaded_by(code: str, among: tuple[str, ...] = HEAVY) -> list[str]:
    """Which modules a fresh process has loaded after some code."""
    code += f"\nimport sys\nprint([m for m in {among!r} if m in sys.modules], file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, *STRICT, "-c", code], capture_output=True, text=True, check=True
    )
    return literal_eval(done.stderr)


def test_light_modules_load_nothing_heavy():
    names = (
        "treeleak", "treeleak.cli", "treeleak.errors", "treeleak.report",
        "treeleak.report.safe_console", "treeleak.core.clock", "treeleak.core.text",
        "treeleak.core.private", "treeleak.core.output", "treeleak.core.signals",
    )  # fmt: skip
    assert loaded_by(f"import {', '.join(names)}") == []


def test_a_schema_needs_no_more_than_numpy_and_its_declaration():
    assert loaded_by("import treeleak.schema") == ["msgspec", "numpy"]


def test_solvers_and_drawing_wait_until_they_are_used():
    names = "audit", "reconstruct", "harden", "metrics", "uncertainty"
    used = "; ".join(f"treeleak.{name}" for name in names)
    code = f"import treeleak.cli; {used}"
    assert loaded_by(code, PROMISED_LATE) == []


def test_help_loads_nothing_heavy():
    code = """
import sys
from treeleak.cli import main
for typed in "--help", "audit --help", "reconstruct --help", "--version":
    sys.argv = ["treeleak", *typed.split()]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code
"""
    assert loaded_by(code) == []


def packages() -> list[ModuleType]:
    """The package, and all that are in it."""
    walked = pkgutil.walk_packages(treeleak.__path__, "treeleak.")
    return [treeleak, *(importlib.import_module(m.name) for m in walked if m.ispkg)]


@pytest.mark.parametrize("package", packages(), ids=lambda package: package.__name__)
def test_no_name_hides_a_module(package):
    for name in getattr(package, "__all__", ()):
        getattr(package, name)
    for found in pkgutil.iter_modules(package.__path__):
        if found.name != "__main__":
            module = importlib.import_module(f"{package.__name__}.{found.name}")
            assert getattr(package, found.name) is module


def test_errors_are_where_users_meet_them():
    own = {
        n
        for n, v in vars(core_errors).items()
        if getattr(v, "__module__", "") == core_errors.__name__ and isinstance(v, type)
    }
    assert own <= {*treeleak.errors.__all__}
    for name in treeleak.errors.__all__:
        assert getattr(treeleak.errors, name) is getattr(core_errors, name)


def test_names_are_listed_and_others_are_no_names():
    assert dir(treeleak) == sorted(treeleak.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = treeleak.nothing
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = treeleak.report.nothing


# ------------------------------------------------------------------------- nothing opens a socket


# From the first line on, so that imports are watched, too.
WATCHED = """
import os, sys

def watch(event, args):
    if event.startswith("socket."):
        print("opened a socket:", event, args, file=sys.stderr, flush=True)
        os._exit(99)  # not an exception, which somebody could catch

sys.addaudithook(watch)
"""

COMMANDS = (
    WATCHED
    + """
from treeleak.cli import main

os.chdir(sys.argv[1])
for line in sys.argv[2:]:
    sys.argv = ["treeleak", *line.split()]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, (line, ended.code)
"""
)

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


LINES = (
    "audit model.skops --schema schema.toml --train train.csv --json audit.json",
    "audit model.pkl --trust-pickle",
    "reconstruct model.skops --out rows.csv",
    "schema model.skops --train train.csv",
    "export model.skops release.json",
    "demo --out demo",
)


@pytest.mark.slow
def test_commands_open_no_socket(folder):
    process = watched(COMMANDS, folder, *LINES)
    assert process.returncode == 0, process.stderr
    assert {"audit.json", "rows.csv", "release.json", "demo"} <= {p.name for p in folder.iterdir()}


@pytest.mark.slow
def test_the_package_opens_no_socket():
    process = watched(WATCHED + PYTHON)
    assert process.returncode == 0, process.stderr


def test_the_watch_sees_a_socket():
    process = watched(WATCHED + "import socket\nsocket.socket().close()\n")
    assert process.returncode == 99
    assert "opened a socket" in process.stderr
