"""Commands as a user runs them."""

from __future__ import annotations

from typer.testing import CliRunner

from treeleak.cli import app


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result
