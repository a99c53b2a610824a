"""What importing costs, where names are, and where those of treeleak 0.1 went."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
import subprocess
import sys
from ast import literal_eval
from pathlib import Path
from types import ModuleType

import pytest
import skops.io

import treeleak
from treeleak.core import errors as core_errors
from treeleak.core.moved import MOVED
from treeleak.core.on_demand import load
from treeleak.learn import DPForestClassifier
from treeleak.release import to_release
from treeleak.release.noise.laws import DiscreteLaplace

MODELS = Path(__file__).parent / "models"
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
        "treeleak.report.plainly", "treeleak.core.clock", "treeleak.core.plain",
        "treeleak.core.private", "treeleak.core.output", "treeleak.core.ending",
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
    rooms -= {"cli", "studies"}
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


@pytest.mark.parametrize("old", MOVED)
def test_old_modules_warn_and_give_the_same(old):
    now, names = MOVED[old]
    module = importlib.import_module(old)
    for name in names.split():
        with pytest.warns(DeprecationWarning, match=rf"{old}\.{name} is now {now}\.{name}"):
            assert getattr(module, name) is load(f"{now}:{name}")
    assert dir(module) == sorted(names.split())
    with pytest.raises(AttributeError):
        _ = module.nothing


def test_old_modules_hide_no_function():
    with pytest.warns(DeprecationWarning, match=r"is now treeleak\.auditing\.Audit"):
        from treeleak.audit import Audit  # type: ignore[import-not-found]
    assert Audit is treeleak.Audit
    assert all(callable(getattr(treeleak, f)) for f in ("audit", "harden", "informed"))
    assert treeleak.plots is importlib.import_module("treeleak.report.plots")
    with pytest.warns(DeprecationWarning, match=r"is now treeleak\.uncertainty\.from_tree"):
        assert treeleak.probabilistic.from_tree is treeleak.uncertainty.from_tree


def test_old_modules_load_nothing():
    assert loaded_by("import treeleak.noise, treeleak.plots, treeleak.probabilistic") == []


def test_a_forest_pickled_by_0_1_is_read():
    with pytest.warns(DeprecationWarning, match=r"treeleak\.noise\.DiscreteLaplace is now"):
        forest = pickle.loads((MODELS / "dp-forest-0.1.pkl").read_bytes())
    assert isinstance(forest, DPForestClassifier)
    assert isinstance(forest.noise_, DiscreteLaplace)
    trusted = to_release(MODELS / "dp-forest-0.1.pkl", trust_pickle=True)
    assert trusted.noise == to_release(forest).noise


def test_a_forest_saved_by_0_1_is_read():
    path = MODELS / "dp-forest-0.1.skops"
    names = skops.io.get_untrusted_types(file=path)
    assert "treeleak.noise.DiscreteLaplace" in names
    with pytest.warns(DeprecationWarning, match=r"treeleak\.noise\.DiscreteLaplace is now"):
        forest = skops.io.load(path, trusted=names)
    assert to_release(path).noise == to_release(forest).noise


@pytest.mark.slow
def test_what_notebooks_show_is_found_when_it_is_asked_for():
    assert loaded_by("import treeleak; treeleak.Audit._repr_html_", ("jinja2",)) == []
    with pytest.raises(AttributeError, match="'int' object has no attribute"):
        treeleak.Audit._repr_html_(1)
