"""Functions that are named in one place, and imported when they are asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(place: str) -> Any:
    """Import what "module:name" names."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
