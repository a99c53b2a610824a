"""``treeleak schema``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treeleak.cli import options as opt
from treeleak.cli.application import app
from treeleak.cli.files import check_free, say
from treeleak.cli.tables import Tables, training_rows
from treeleak.core.errors import BadInput
from treeleak.core.output import write_file
from treeleak.core.text import plain


@app.command()
def schema(
    model: opt.Audited,
    train: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV", help="Training rows: the schema then rests on their values, too."
        ),
    ] = None,
    label: opt.Label = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write it, if not to the terminal.")
    ] = None,
    trust_pickle: opt.TrustPickle = False,
    force: opt.Force = False,
    quiet: opt.Quiet = False,
) -> None:
    """Write a starting schema, for you to correct: what a row can be."""
    from treeleak.release import RuleList
    from treeleak.release.infer_schema import suggest_rule_schema, suggest_schema

    if out is not None:
        check_free(out, force, model, train)
    tables = Tables(model, None, label, trust_pickle)
    rows, _ = training_rows(tables, train, ())
    content = tables.content
    try:
        if isinstance(content, RuleList):
            suggested, notes = suggest_rule_schema(content, rows)
        else:
            suggested, notes = suggest_schema(content, rows)
    except BadInput as error:
        raise (error if train is None else BadInput(f"{train}: {error}")) from error
    basis = "the model" if rows is None else "the model and training rows"
    comments = [
        f"Inferred from {basis}. Check it: treeleak takes its statements as true.",
        *notes,
    ]
    text = "".join(f"# {plain(' '.join(c.splitlines()))}\n" for c in comments) + suggested.to_toml()
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_file(out, text, overwrite=force)
        for remark in () if quiet else notes:
            say(remark)
