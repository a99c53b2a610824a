"""Tests on older versions of libraries."""

from __future__ import annotations

import inspect
import re
from importlib.metadata import version
from typing import Any

import pytest
import sklearn


def made(kind: Any, *given: Any, **options: Any) -> Any:
    """Make an estimator; options that the installed version does not know are left out."""
    known = inspect.signature(kind).parameters
    return kind(*given, **{name: value for name, value in options.items() if name in known})


def sklearn_since(minor: int) -> bool:
    """Whether this scikit-learn is 1.``minor`` or later."""
    return tuple(map(int, re.findall(r"\d+", sklearn.__version__)[:2])) >= (1, minor)


COUNTS_GAPS = sklearn_since(9)
"""Before, scikit-learn miscounts rows with missing values, and treeleak covers no such tree."""


def needs_counted_gaps() -> None:
    """Skip a test that is about trees that saw missing values."""
    if not COUNTS_GAPS:
        pytest.skip("scikit-learn before 1.9 miscounts rows with missing values: not covered")


def needs_sklearn(minor: int, what: str) -> None:
    """Skip a test of what older versions of scikit-learn do not have."""
    if not sklearn_since(minor):
        pytest.skip(f"scikit-learn before 1.{minor} has no {what}")


def constants() -> int:
    """Variables that OR-Tools makes for constants: 9.10 keeps one that is always true."""
    return int(tuple(map(int, version("ortools").split(".")[:2])) <= (9, 10))


def frozen(model: Any) -> Any:
    """Wrap a fitted model so that no other fit changes it; skip where nothing does that."""
    needs_sklearn(6, "FrozenEstimator")
    from sklearn.frozen import FrozenEstimator

    return FrozenEstimator(model)
