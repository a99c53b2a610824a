"""``treeleak reconstruct`` and ``treeleak informed``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from treeleak.cli import options as opt
from treeleak.cli.application import app, in_bounds
from treeleak.cli.files import (
    check_different,
    check_free,
    check_place,
    console,
    progress_shown,
    say,
    status_of,
)
from treeleak.cli.options import clock_of, read_schema
from treeleak.cli.tables import Beside, Tables, check_label, named, read_records, schema_named
from treeleak.core.errors import BadInput
from treeleak.core.output import write_file
from treeleak.core.spreadsheets import csv_text
from treeleak.core.text import free_name

if TYPE_CHECKING:
    import pandas as pd

    from treeleak.reconstruction import Reconstruction


@app.command()
def reconstruct(
    model: opt.Model,
    *,
    out: Annotated[Path, typer.Option(metavar="CSV", help="Where to write the rows.")],
    schema: opt.SchemaFile = None,
    label: opt.Label = None,
    time_limit: opt.TimeLimit = 60,
    seed: opt.Seed = 0,
    bootstrap: opt.Bootstrap = "auto",
    seed_search: opt.SeedSearch = 1_000_000,
    n_rows: opt.NRows = None,
    known_rows: opt.KnownRows = None,
    known_columns: opt.KnownColumns = None,
    population: opt.Population = None,
    space: Annotated[
        str,
        typer.Option(
            metavar="model|input",
            help="Write the columns that enter the trees, or those that enter the pipeline.",
        ),
    ] = "model",
    members: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV",
            help="Membership inference: the probability that each record is in the training set. "
            "Needs --members-out.",
        ),
    ] = None,
    members_out: Annotated[
        Path | None,
        typer.Option(metavar="CSV", help="Where to write the records with these probabilities."),
    ] = None,
    trust_pickle: opt.TrustPickle = False,
    force: opt.Force = False,
    quiet: opt.Quiet = False,
) -> None:
    """Rebuild the training rows and write them to a file that only you can read."""
    clock = clock_of(time_limit, bootstrap)
    import treeleak
    from treeleak.reconstruction import Space

    if space not in get_args(Space):
        raise BadInput(f"--space must be one of {', '.join(get_args(Space))}, not {space!r}")
    if (members is None) != (members_out is None):
        raise BadInput("--members and --members-out go together: give both or none")
    beside = Beside(known_rows, known_columns, population)
    check_free(out, force, model, schema, members, *beside.files)
    if members_out is not None:
        check_free(members_out, force, model, schema, members, *beside.files)
    check_different(out, members_out)
    with in_bounds(clock), clock.enforced():
        known = read_schema(schema)
        tables = Tables(model, known, label, trust_pickle)
        tables.check_name()
        side_information, source = beside.read(tables), tables.model_file
        records = None if members is None else read_records(members, tables)
    shown = progress_shown(quiet)
    with in_bounds(clock), shown as progress, beside.named(), schema_named(schema):
        result = treeleak.reconstruct(
            source, known, bootstrap, clock, seed, seed_search=seed_search,
            trust_pickle=trust_pickle, progress=progress, n_rows=n_rows,
            space=cast(Space, space), **side_information,
        )  # fmt: skip
    stopped = "interrupted, " if result.interrupted else ""
    if result.X is None:
        if result.status == "infeasible":
            values = "the schema" if known else "the values that the thresholds suggest"
            raise BadInput(f"{model}: no rows fit the counts and {values}: {result.contradiction}")
        say(f"{out} was not written: {stopped}{result.status}: {result.meaning}")
        raise typer.Exit(status_of(result))
    table, name = result.X, ""
    if (outcomes := result.outcomes) is not None:
        name = label or free_name(str(outcomes.name), result.X)
        table = result.X.assign(**{name: outcomes.to_numpy()})
    status = free_name("status", table)
    if (events := result.events) is not None:
        table = table.assign(**{status: events.astype("Int8")})
    write_file(out, csv_text(table), private=True, overwrite=force)
    say(f"{out}: {result.n_rows} rows, {stopped}{result.status}: {result.meaning}")
    if not quiet:
        _say_order(result)
        _say_outcomes(result, result.X, name, status)
        for note in result.notes:
            say(f"Note: {note.rstrip('.')}.")
    if result.misfit:
        say(f"{result.misfit_means}, in sum: {result.misfit:,.0f}.")
    if records is not None and members is not None and members_out is not None:
        with named({"the records": members}):
            chance = result.membership(records)
        table = records.assign(membership=chance)
        write_file(members_out, csv_text(table), private=True, overwrite=force)
        say(
            f"{members_out}: {len(table)} records; {chance.sum():.1f} of them are expected to be "
            "in the training set."
        )
    raise typer.Exit(status_of(result))


def _say_outcomes(result: Reconstruction, X: pd.DataFrame, column: str, status: str) -> None:
    if result.outcomes is None:
        say("Without labels or targets: the evidence that the attack used discloses none.")
        return
    if not result.labelled:
        n_known = int(result.outcomes.notna().sum())
        say(f"Targets: leaves disclose those of {n_known:,} of {result.n_rows:,} rows.")
    if (events := result.events) is not None:
        had, left = int((events == 1).sum()), int((events == 0).sum())
        say(
            f"Column {status!r} is 1 for {had:,} rows with an event, and 0 for {left:,} that left "
            "without: the target is then when they left."
        )
    if (usual := str(result.outcomes.name)) in X:
        what = "labels" if result.labelled else "targets"
        say(f"Column {column!r} holds the {what}: the model has a column {usual!r} itself.")


def _say_order(result: Reconstruction) -> None:
    if result.ordered:
        say("In order: row k of the file is that for row k of the training set. Do not sort it.")
    if result.draws is not None:
        say(f"The bootstrap samples are known from: {result.draws}.")
    if result.draws_hidden:
        say("It is not known which rows each tree drew: the attack allowed all of them.")
    if result.row_count is not None:
        say(f"Training set: {result.row_count}.")
    if (n_proved := result.numbers.get("settled_rows")) is not None:
        say(f"Proved in each tree that drew them: {n_proved:,} of {result.n_rows:,} rows.")
    if left_open := result.numbers.get("rows_left_open"):
        say(f"The counts leave {left_open:,} rows open: other tables meet them and differ there.")
    if result.status == "likely" and result.expected_error is not None:
        wrong = f"{result.expected_error:.1%} of the values"
        say(f"Expected error (the attack's own estimate): {wrong}.")
    if never := result.numbers.get("rows_never_drawn"):
        say(f"No tree drew {never} of the rows: the model holds no evidence about them.")


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
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the figures as JSON.")
    ] = None,
    trust_pickle: opt.TrustPickle = False,
    quiet: opt.Quiet = False,
) -> None:
    """Measure how well a model discloses one training row to an adversary who knows all others.

    For classifiers whose trees all saw every row. Their counts are exact,
    carry noise of a known law, or only name a class.

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
            trust_pickle=trust_pickle,
            progress=progress,
        )
    if json is not None:
        result.to_json(json)
    render_informed(result, console())
