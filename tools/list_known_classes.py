"""List what objects of scikit-learn, of libraries built on it, and of treeleak can hold.

Usage: ``python tools/list_known_classes.py WHEEL...`` with a wheel of each version that model files
come from (``pip download --no-deps scikit-learn==1.9.1``). The sources are read and not run. What
several versions say is put together in src/treeleak/auditing/inventory/known_classes.json; of a
library of which no wheel is given, what stands there stays.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src/treeleak"
OUT = PACKAGE / "auditing/inventory/known_classes.json"
LIBRARIES = ("sklearn", "diffprivlib", "treeleak", "sksurv", "quantile_forest")
WHEELS = {"scikit_learn": "sklearn", "scikit_survival": "sksurv"}
"""Libraries by the names of their wheels, where these differ."""
LEFT_OUT = (
    "/tests/",
    "/externals/",
    "/datasets/",
    "conftest",
    "_testing",
    "_build_utils",
    "_mocking",
)
NO_STATE = ("Display", "Warning", "Exporter", "Mock", "Callback", "Monitor", "Constraint")
OWN = (
    "learn/*.py", "schema/*.py", "release/noise/laws.py", "release/tree.py", "release/rule_list.py",
)  # fmt: skip


@dataclass
class Found:
    """A class as its source describes it."""

    bases: set[str] = field(default_factory=set)
    parameters: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)


def classes_in(wheel: Path, library: str) -> dict[str, Found]:
    """Find all classes of one wheel."""
    with zipfile.ZipFile(wheel) as archive:
        sources = [
            archive.read(name)
            for name in archive.namelist()
            if name.startswith(f"{library}/")
            and name.endswith(".py")
            and not any(part in name for part in LEFT_OUT)
        ]
    return classes_of(sources)


def classes_of(sources: Iterable[str | bytes]) -> dict[str, Found]:
    """Find all classes in some sources."""
    found: dict[str, Found] = {}
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                add(found.setdefault(node.name, Found()), node)
    return found


def add(found: Found, cls: ast.ClassDef) -> None:
    """Note bases, parameters, and every attribute that a method sets or the docstring names."""
    found.bases |= {
        b.attr if isinstance(b, ast.Attribute) else getattr(b, "id", "") for b in cls.bases
    }
    found.attributes |= set(re.findall(r"^ *(\w+_) : ", ast.get_docstring(cls) or "", re.MULTILINE))
    for method in cls.body:
        if isinstance(method, ast.AnnAssign) and isinstance(method.target, ast.Name):
            # Fields of a dataclass.
            found.attributes.add(method.target.id)
        if isinstance(method, ast.FunctionDef):
            if any(getattr(d, "id", "") == "cached_property" for d in method.decorator_list):
                found.attributes.add(method.name)
            if method.name == "__init__":
                args = method.args
                found.parameters |= {a.arg for a in (*args.args[1:], *args.kwonlyargs)}
            found.attributes |= {mangled(name, cls.name) for name in attributes_set(method)}


def mangled(name: str, of_class: str) -> str:
    """Write a private name as Python stores it."""
    private = name.startswith("__") and not name.endswith("__")
    return f"_{of_class.lstrip('_')}{name}" if private else name


def attributes_set(method: ast.FunctionDef) -> Iterator[str]:
    """List the attributes of ``self`` (or of a copy, in ``fit``) that a method assigns."""
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                yield node.attr
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setattr":
            name = node.args[1]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield name.value


def with_bases(found: dict[str, Found], name: str, seen: frozenset[str] = frozenset()) -> Found:
    """Add what a class inherits; its own parameters hide those of its bases."""
    own = found.get(name)
    if own is None or name in seen:
        return Found()
    out = Found(set(own.bases), set(own.parameters), set(own.attributes))
    for base in own.bases:
        inherited = with_bases(found, base, seen | {name})
        out.bases |= inherited.bases
        out.attributes |= inherited.attributes
        if not own.parameters:
            out.parameters |= inherited.parameters
    return out


def main(wheels: list[str]) -> None:
    """Read the wheels and write the table."""
    table: dict[str, dict[str, dict[str, set[str]]]] = {name: {} for name in LIBRARIES}
    own = (path for pattern in OWN for path in sorted(PACKAGE.glob(pattern)))
    sources = [("treeleak", classes_of(path.read_text() for path in own))]
    for wheel in map(Path, wheels):
        package = wheel.name.partition("-")[0]
        library = WHEELS.get(package, package)
        sources.append((library, classes_in(wheel, library)))
    old = {
        (library, name): [set(names.split()) for names in held]
        for library, name, *held in json.loads(OUT.read_text(encoding="ascii"))
    }
    for (library, name), held in old.items():
        if library not in dict(sources):
            entry = dict(zip(("parameters", "attributes"), held, strict=True))
            table[library][name] = entry
    for library, own_classes in sources:
        found = dict(own_classes)
        if library not in ("sklearn", "treeleak"):
            # Bases that stand in scikit-learn.
            for (of, name), (parameters, attributes) in old.items():
                if of == "sklearn":
                    found.setdefault(name, Found(set(), set(), parameters | attributes))
        for name in own_classes:
            full = with_bases(found, name)
            empty = not full.parameters and not full.attributes
            if empty or any(part in name for part in NO_STATE):
                continue
            entry = table[library].setdefault(name, {"parameters": set(), "attributes": set()})
            entry["parameters"] |= full.parameters
            entry["attributes"] |= full.attributes - full.parameters
    lines = [
        json.dumps([library, name, *(" ".join(sorted(names)) for names in entry.values())])
        for library, classes in table.items()
        for name, entry in sorted(classes.items())
    ]
    OUT.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="ascii")


if __name__ == "__main__":
    main(sys.argv[1:])
