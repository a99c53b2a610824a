"""``treeleak demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treeleak.cli import options as opt
from treeleak.cli.application import app
from treeleak.cli.files import console, open_page, progress_shown


@app.command()
def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to put the files.")] = Path(
        "demo"
    ),
    open_report: Annotated[
        bool,
        typer.Option(
            "--open/--no-open", help="Open the report in a browser, where there is a screen."
        ),
    ] = True,
    quiet: opt.Quiet = False,
) -> None:
    """Train models on public data, then get the training rows back from their files."""
    from treeleak.demo import REPORT, run

    with progress_shown(quiet) as progress:
        shown = run(out, progress)
    terminal = console()
    for part in shown:
        terminal.print(part)
    if open_report:
        open_page(out / REPORT)
