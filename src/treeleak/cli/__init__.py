"""The command line."""

from __future__ import annotations

# Each command registers itself.
from treeleak.cli import (  # noqa: F401
    audit,
    check,
    demo,
    export,
    harden,
    informed,
    reconstruct,
    schema,
    warm_up,
)
from treeleak.cli.application import app, main

__all__ = ["app", "main"]
