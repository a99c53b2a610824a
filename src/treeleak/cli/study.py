"""``treeleak study``, which is no command any more: studies are no part of the package."""

from __future__ import annotations

import shlex

import typer

from treeleak.cli.application import app
from treeleak.core.errors import BadInput

__all__: list[str] = []


@app.command(
    hidden=True,
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def study(ctx: typer.Context) -> None:
    """Say what to type instead."""
    raise BadInput(
        "studies are no longer part of the package. In a checkout of the repository, type: "
        f"python -m experiments {shlex.join(ctx.args or ['list'])}"
    )
