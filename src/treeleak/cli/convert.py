"""``treeleak convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treeleak.cli import options as opt
from treeleak.cli.application import app
from treeleak.cli.files import check_free, check_place
from treeleak.core.errors import BadInput
from treeleak.core.output import read_text, write_file
from treeleak.core.text import did_you_mean


@app.command()
def convert(
    audits: Annotated[
        list[Path],
        typer.Argument(
            metavar="AUDIT...",
            help="What treeleak audit --json wrote, or a folder that --report FOLDER made.",
        ),
    ],
    to: Annotated[
        str,
        typer.Option(
            metavar="sarif|model-card|cyclonedx",
            help="SARIF for code hosts, a section of a model card, or a bill of materials.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where to write it, if not to the terminal. A model card that is there is "
            "added to: an earlier section of treeleak is replaced, the rest stays. Other files "
            "need --force.",
        ),
    ] = None,
    folder: Annotated[
        str,
        typer.Option(
            metavar="FOLDER",
            help="Where the models lie in the repository: audits leave folders out, and code "
            "hosts need them.",
        ),
    ] = "",
    force: opt.Force = False,
) -> None:
    """Write audits for other tools: what the releasable edition says, and no more."""
    from treeleak.batch.index import MOST_BYTES
    from treeleak.bridges.formats import ADDING, FORMATS
    from treeleak.bridges.model_card import is_card
    from treeleak.bridges.summary import read_summaries

    if to not in FORMATS:
        raise BadInput(f"--to must be one of {', '.join(FORMATS)}{did_you_mean(to, FORMATS)}")
    before = ""
    if out is not None and to in ADDING:
        check_place(out, *audits)
        before = read_text(out, MOST_BYTES, BadInput) if out.exists() else ""
        if before.strip() and not (force or is_card(before)):
            raise BadInput(
                f"{out}: is no model card: it has neither front matter nor a section of treeleak; "
                "name another file, or add them with --force"
            )
    elif out is not None:
        check_free(out, force, *audits)
    found = [summary for place in audits for summary in read_summaries(place, folder)]
    text = FORMATS[to](found, before)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_file(out, text, overwrite=force or to in ADDING)
