"""Tests on older versions of libraries."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
import sklearn


def made(kind: Any, *given: Any, **options: Any) -> Any:
    """Make an estimator; options that the installed version does not know are left out."""
    known = inspect.signature(kind).parameters
    return kind(*given, **{name: value for name, value in options.items() if name in known})


def needs_counted_gaps() -> None:
    """Skip a test whose forest has missing values, where scikit-learn miscounts their rows."""
    if tuple(map(int, re.findall(r"\d+", sklearn.__version__)[:2])) < (1, 9):
        pytest.skip("scikit-learn before 1.9 miscounts rows with missing values: not covered")
