"""Who writes which folders: one declaration each.

A layout says how its folders are recognised, which files are models, and which hold rows. What it
does not name is read by its kind, and listed by the inventory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from fnmatch import fnmatchcase
from typing import Any

from treeleak.core.private import dataclass

Describes = Callable[[str], bool]
"""Says whether a text is, line by line, what a program writes there."""

_MOST_LINES, _MOST_COLUMNS = 120, 100_000
_PACKAGE = re.compile(
    r"name: [\w.\-]{1,40}|\s*(- )?[A-Za-z][\w.\-]{0,39}(\[[\w,]{1,40}\])?\s*:?"
    r"\s*([=<>!~]{1,2}\s?[\w.*+!]{1,16},?\s?){0,2}"
)
_SETTING = re.compile(r"\s*[A-Za-z_]{1,40}:( ['\"]?[\w.\-+/: ]{0,60}['\"]?)?")
_SIGNATURE = re.compile(r"\s*(inputs|outputs|params): ('(?P<q>.*)'|(?P<n>null))")


def packages(text: str) -> bool:
    """Say whether a text lists packages and their versions."""
    lines = [line for line in text.splitlines() if line.strip()]
    return len(lines) <= _MOST_LINES and all(_PACKAGE.fullmatch(line) for line in lines)


def mlmodel(text: str) -> bool:
    """Say whether a text is MLflow's description of a model: settings, columns, versions."""
    lines = text.splitlines()
    if len(lines) > _MOST_LINES:
        return False
    for line in lines:
        found = _SIGNATURE.fullmatch(line)
        if found is None and not _SETTING.fullmatch(line):
            return False
        if found is not None and found["q"] and not _is_signature(found["q"]):
            return False
    return True


def _is_signature(text: str) -> bool:
    """Say whether columns are described by their names and types, and nothing else."""
    try:
        columns = json.loads(text.replace("''", "'"))
    except ValueError:
        return False
    keys = {"type", "name", "required", "tensor-spec"}
    return (
        isinstance(columns, list)
        and len(columns) <= _MOST_COLUMNS
        and all(isinstance(c, dict) and c.keys() <= keys for c in columns)
        and all(len(json.dumps(c)) <= 200 for c in columns)
    )


@dataclass(frozen=True, eq=False)
class Layout:
    """A kind of folder. Patterns are of paths in it, with slashes."""

    name: str
    markers: tuple[str, ...]
    """Patterns, each of which some file fits."""
    models: tuple[str, ...]
    """Patterns of models, the one to attack first."""
    rows: tuple[str, ...] = ()
    """Patterns of files that hold rows, or examples of rows."""
    described: Mapping[str, Describes] | None = None
    """Patterns of files that only describe, with what such a file looks like."""

    def fits(self, names: Collection[str]) -> bool:
        """Say whether these are the files of such a folder."""
        return all(any(matches((marker,), name) for name in names) for marker in self.markers)


def matches(patterns: Collection[str], name: str) -> bool:
    """Say whether a path fits one of some patterns, from the root or from a folder in it."""
    return any(fnmatchcase(name, p) or fnmatchcase(name, f"*/{p}") for p in patterns)


MODELS = (
    "*.skops", "*.ubj", "*.cbm", "*.xgb", "*.lgb", "*.cb", "xgboost-model", "model.json",
    "model.txt", "release.json", "model.pkl", "model.joblib", "*.joblib", "*.pkl", "*.pickle",
    "*.json", "*.txt", "*.bin",
)  # fmt: skip
"""Patterns of files that may be models, the surest first."""
_EXAMPLES = ("*input_example*.json", "serving_input_*.json", "*example_input*")
_PACKAGES: Mapping[str, Describes] = {
    "requirements*.txt": packages, "conda.yaml": packages, "python_env.yaml": packages,
}  # fmt: skip

LAYOUTS: tuple[Layout, ...] = (
    Layout("MLflow", ("MLmodel",), MODELS, _EXAMPLES, {**_PACKAGES, "MLmodel": mlmodel}),
    Layout("OHDSI PatientLevelPrediction", ("model.json", "*[aA]ttributes.json"), ("model.json",)),
    Layout("OHDSI PatientLevelPrediction", ("model.json", "modelDesign.json"), ("model.json",)),
    Layout(
        "AutoGluon", ("models/*/model.pkl", "predictor.pkl"), ("models/*/model.pkl",),
        ("utils/data/*", "utils/oof/*", "models/*/utils/oof.pkl"),
    ),
    Layout("SACRO-ML", ("target.yaml",), MODELS, ("X_*", "y_*")),
    Layout("Hugging Face", ("config.json", "README.md"), MODELS, _EXAMPLES, _PACKAGES),
    Layout("SageMaker", ("xgboost-model",), ("xgboost-model",), _EXAMPLES, _PACKAGES),
)  # fmt: skip
UNKNOWN = Layout("", (), MODELS, _EXAMPLES, _PACKAGES)


def layout_of(names: Collection[str]) -> Layout:
    """Find who wrote a folder of these files."""
    return next((layout for layout in LAYOUTS if layout.fits(names)), UNKNOWN)


def least_count(documents: Mapping[str, Any]) -> int | None:
    """Find the smallest number of people that a folder itself lets be shown (minCellCount)."""
    waiting: list[tuple[Any, int]] = [(value, 0) for value in documents.values()]
    found: list[int] = []
    while waiting:
        value, depth = waiting.pop()
        if not isinstance(value, dict) or depth > 5:
            continue
        stated = value.get("minCellCount")
        stated = stated[0] if isinstance(stated, list) and len(stated) == 1 else stated
        if isinstance(stated, int) and not isinstance(stated, bool) and 1 <= stated <= 10_000:
            found.append(stated)
        waiting += ((inner, depth + 1) for inner in value.values())
    return max(found, default=None)
