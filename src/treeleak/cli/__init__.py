"""The command line."""

from __future__ import annotations

# Each command registers itself.
from treeleak.cli import audit, harden, reconstruct, small_commands  # noqa: F401
from treeleak.cli.application import app, main

__all__ = ["app", "main"]

# Help lists them by name, whatever module they are in.
app.registered_commands.sort(
    key=lambda known: str(known.name or getattr(known.callback, "__name__", ""))
)
