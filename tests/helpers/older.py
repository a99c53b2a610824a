"""Tests on older versions of libraries."""

from __future__ import annotations

import inspect
from typing import Any


def made(kind: Any, *given: Any, **options: Any) -> Any:
    """Make an estimator; options that the installed version does not know are left out."""
    known = inspect.signature(kind).parameters
    return kind(*given, **{name: value for name, value in options.items() if name in known})
