"""``treeleak informed``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treeleak.cli import options as opt
from treeleak.cli.application import app
from treeleak.cli.files import check_place, console, progress_shown
from treeleak.cli.options import read_schema
from treeleak.cli.tables import Tables, check_label, named


@app.command()
def informed(
    model: opt.Model,
    *,
    train: Annotated[Path, typer.Option(metavar="CSV", help="All training rows, with labels.")],
    label: Annotated[str, typer.Option(metavar="COLUMN", help="Column of the labels.")],
    schema: opt.SchemaFile = None,
    targets: Annotated[
        int, typer.Option(metavar="N", min=1, help="Rows taken in turn as the missing one.")
    ] = 100,
    seed: opt.Seed = 0,
    seed_search: opt.SeedSearch = 1_000_000,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the figures as JSON.")
    ] = None,
    trust_pickle: opt.TrustPickle = False,
    quiet: opt.Quiet = False,
) -> None:
    """Measure how well a model discloses one training row to an adversary who knows all others.

    For models whose trees all saw every row. Their counts are exact, carry
    noise of a known law, or only name a class. Also for bootstrap forests with
    exact counts, if the seeds are in the file or found by search, and the rows
    are in the order of training. For boosted classifiers it uses the numbers of
    rows in leaves only.

    treeleak must list all possible rows: at most 2^26 pairs of a row and a tree.
    """
    import treeleak
    from treeleak.report import render_informed

    known = read_schema(schema)
    tables = Tables(model, known, label, trust_pickle)
    table = tables.read(train)
    check_label(train, table, label)
    rows, labels = table.drop(columns=label), table[label]
    if json is not None:
        check_place(json, model, schema, train)
    with progress_shown(quiet) as progress, named({"the training rows": train}):
        result = treeleak.informed_audit(
            tables.model_file,
            rows,
            labels,
            known,
            targets,
            seed,
            seed_search=seed_search,
            trust_pickle=trust_pickle,
            progress=progress,
        )
    if json is not None:
        result.to_json(json)
    render_informed(result, console())
