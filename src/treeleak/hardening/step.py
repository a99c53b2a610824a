"""A measure: what it takes out of a model's file, and what that costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treeleak.core.private import dataclass

NOTHING = "nothing that predictions need"


@dataclass(frozen=True)
class Step:
    """A measure."""

    name: str
    """As it is asked for."""
    takes: str
    """What it takes away, in words."""
    costs: str
    """What no longer works, in words."""
    apply: Callable[[Any], Any]
    """From what a file holds to the changed content, or to the very same if there is nothing to
    change."""
    lossless: bool = True
    """Whether predictions stay what they are."""
