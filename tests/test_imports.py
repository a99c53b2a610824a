"""What importing costs, and where names are."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from ast import literal_eval
from types import ModuleType

import pytest

import treeleak
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
    assert loaded_by(f"import treeleak; {used}", PROMISED_LATE) == []


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


@pytest.mark.slow
def test_every_room_is_an_attribute():
    rooms = {m.name for m in pkgutil.iter_modules(treeleak.__path__) if m.ispkg}
    rooms -= {"cli"}
    code = f"""
import sys
for room in {sorted(rooms)}:
    for loaded in [m for m in sys.modules if m.partition(".")[0] == "treeleak"]:
        del sys.modules[loaded]  # what one room imports is no attribute on its own account
    import treeleak
    getattr(treeleak, room)
"""
    assert loaded_by(code, ("matplotlib", "ortools")) == []


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


@pytest.mark.slow
def test_what_notebooks_show_is_found_when_it_is_asked_for():
    assert loaded_by("import treeleak; treeleak.Audit._repr_html_", ("jinja2",)) == []
    with pytest.raises(AttributeError, match="'int' object has no attribute"):
        treeleak.Audit._repr_html_(1)
