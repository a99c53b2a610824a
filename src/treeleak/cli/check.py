"""``treeleak check``."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from treeleak.cli.application import app
from treeleak.cli.files import say
from treeleak.core.errors import BadInput


@app.command()
def check(
    model: Annotated[
        str, typer.Option(metavar="CLASS", help="For example RandomForestClassifier.")
    ],
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A setting. Repeat it as needed."),
    ] = None,
    rows: Annotated[int | None, typer.Option(metavar="N", help="Number of training rows.")] = None,
    columns: Annotated[int | None, typer.Option(metavar="N", help="Number of columns.")] = None,
) -> None:
    """Check before training which settings will disclose rows, and what to change."""
    from treeleak.hardening.before_training import check as checked

    found = checked(model, n_rows=rows, n_columns=columns, params=dict(map(_setting, param or ())))
    lines = [f"{found.kind}, before training:"]
    for point in found.points:
        lines += ["", f"{'!' if point.leaks else '-'} {point.setting}", f"    {point.says}"]
        lines += [f"    Change: {point.change}"] * bool(point.change)
    lines += ["", found.figure] * bool(found.figure)
    for line in [*lines, "", "This is not an audit. Train, then: treeleak audit, treeleak harden."]:
        say(line, err=False)


def _setting(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE: numbers, true, false and none, or text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise BadInput(f"--param {text!r:.80}: must be NAME=VALUE")
    if value.lower() in ("true", "false", "none", "null"):
        return name, {"true": True, "false": False}.get(value.lower())
    try:
        found = json.loads(value)
    except ValueError:
        return name, value
    return name, found if isinstance(found, (int, float)) else value
