"""The command line."""

from __future__ import annotations

# Each command registers itself.
from treeleak.cli import audit, demo, export, harden, informed, reconstruct, schema  # noqa: F401
from treeleak.cli.app import app, main

__all__ = ["app", "main"]
