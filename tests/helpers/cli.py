"""Commands as a user runs them."""

from __future__ import annotations

from typer.testing import CliRunner

from treeleak.cli import app


def run(*arguments, **how):
    result = CliRunner().invoke(app, [str(a) for a in arguments], **how)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result
