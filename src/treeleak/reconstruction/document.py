"""What all documents of results share: versions, and how they are written as JSON."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from treeleak.core.arrays import Place
from treeleak.core.output import write_file


@cache
def versions() -> Mapping[str, str]:
    """Versions of everything that an answer depends on."""
    names = ("treeleak", "numpy", "numba", "scipy", "pandas", "ortools", "scikit-learn")
    found = {"python": platform.python_version()}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def as_json(document: Mapping[str, Any]) -> str:
    """Write a document that may hold numpy's numbers as JSON."""
    return json.dumps(document, indent=2, allow_nan=False, default=_plain)


def written(
    document: Callable[[bool], Mapping[str, Any]], path: Place | None, include_rows: bool
) -> str:
    """Write a document as JSON, to a file too where one is named.

    A file with rows can be read by its owner only.
    """
    text = as_json(document(include_rows))
    if path is not None:
        write_file(path, text + "\n", private=include_rows)
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
