"""``treeleak harden``."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from treeleak.cli import options as opt
from treeleak.cli.application import app, in_bounds
from treeleak.cli.files import (
    AUDITED,
    BAD_INPUT,
    check_different,
    check_free,
    check_place,
    console,
    progress_shown,
    say,
    status_of,
)
from treeleak.cli.options import clock_of, read_schema
from treeleak.cli.tables import Tables, schema_named, training_rows
from treeleak.core.errors import BadInput, TimeUp

if TYPE_CHECKING:
    from treeleak.core.clock import Clock, Progress
    from treeleak.hardening import Hardened

_LATE = (
    "the time limit of {:g} s was reached in the midst of it ({}). Nothing was written: a file is "
    "written when all steps are done, and what they leave was attacked. Give more time: treeleak "
    "harden {} --out {} --time-limit {:g}, with the same other options"
)


@app.command()
def harden(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="A .skops file, or one of XGBoost (JSON, UBJSON), LightGBM (text) or CatBoost "
            "(JSON, cbm); also a folder or an archive with one in it.",
        ),
    ],
    *,
    out: Annotated[
        Path, typer.Option(metavar="FILE|FOLDER", help="Where to write the hardened model.")
    ],
    steps: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Steps, in this order, separated by commas. Default: all steps of the format "
            "that change no prediction. For skops archives: oob, weights, sizes, impurity, "
            "seeds, counts, inner, borders, scores, unknown. Others: round=N, merge=N, "
            "majority. An unknown name lists the steps of a format.",
        ),
    ] = None,
    train: opt.Train = None,
    label: opt.Label = None,
    rows: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV", help="Compare predictions on these rows, not on the training rows."
        ),
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share of the compared rows that may get another label."),
    ] = 0.0,
    schema: opt.SchemaFile = None,
    time_limit: opt.TimeLimit = 300,
    seed: opt.Seed = 0,
    seed_search: opt.SeedSearch = 1_000_000,
    n_rows: opt.NRows = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the result as JSON.")
    ] = None,
    force: opt.Force = False,
    quiet: opt.Quiet = False,
) -> None:
    """Remove from a model's file what predictions do not need, and attack the rest."""
    clock, others, stages = clock_of(time_limit), None, ["reading the model"]
    made: list[Hardened] = []
    import treeleak
    from treeleak.release.containers.members import is_archive

    def finish() -> int:
        if not made:
            again = shlex.quote(str(model)), shlex.quote(str(out)), 2 * time_limit
            raise TimeUp(_LATE.format(time_limit, stages[0], *again))
        return _ended(made[-1], out, json)

    if model.is_dir() or is_archive(model):
        if rows is not None or json is not None or force:
            raise BadInput("--rows, --json and --force: for one model file at a time")
        chosen = {"tolerance": tolerance, "seed": seed, "seed_search": seed_search,
                  "n_rows": n_rows}  # fmt: skip
        tables = Tables(model, read_schema(schema), label, trust_pickle=False)
        with _watched(clock, quiet, stages, finish) as progress, schema_named(None):
            X, y = training_rows(tables, train, [])
            raise typer.Exit(_harden_folder(tables, out, steps, (X, y), clock, progress, chosen))
    check_free(out, force, model, schema, train, rows)
    if json is not None:
        check_place(json, model, schema, train, rows)
    check_different(out, json)
    known = read_schema(schema)
    tables = Tables(model, known, label, trust_pickle=False)
    X, y = training_rows(tables, train, [rows] if rows is not None else [])
    if rows is not None:
        others = tables.read(rows).drop(columns=[label], errors="ignore")
    with _watched(clock, quiet, stages, finish) as progress, schema_named(schema):
        result = treeleak.harden(
            model, out, steps, X, y, rows=others,
            tolerance=tolerance, force=force, schema=known, time_limit=clock, seed=seed,
            seed_search=seed_search, n_rows=n_rows, progress=progress,
        )  # fmt: skip
        made.append(result)
    raise typer.Exit(_ended(made[-1], out, json))


@contextmanager
def _watched(
    clock: Clock, quiet: bool, stages: list[str], finish: Callable[[], int]
) -> Iterator[Callable[[Progress], None]]:
    """Keep to the limits, note each stage, and say what was done if the time is up."""
    with in_bounds(clock, finish), progress_shown(quiet, clock) as shown:

        def progress(now: Progress) -> None:
            stages[0] = now.stage
            if shown is not None:
                shown(now)

        try:
            yield progress
        except TimeUp:
            raise typer.Exit(finish()) from None


def _ended(result: Hardened, out: Path, json: Path | None) -> int:
    """Print and write what hardening found."""
    from treeleak.report import render_hardened

    if json is not None:
        result.to_json(json)
    render_hardened(result, console())
    status = status_of(result.audit.reconstruction)
    if status == AUDITED and result.audit.not_looked_at is not None:
        say(f"treeleak: {out}: {result.audit.not_looked_at}.")
        status = BAD_INPUT
    return status


def _harden_folder(
    tables: Tables,
    out: Path,
    steps: str | None,
    rows: tuple[Any, Any],
    clock: Clock,
    progress: Callable[[Progress], None],
    chosen: dict[str, Any],
) -> int:
    """Harden the models in a folder or an archive, and say what became of the rest."""
    from treeleak.hardening import harden_folder
    from treeleak.report import render_hardened

    result = harden_folder(
        tables.model, out, steps, *rows, time_limit=clock, schema=tables.schema,
        progress=progress,
        **chosen,
    )  # fmt: skip
    for hardened in result.models:
        render_hardened(hardened, console())
    for names, what in (
        (result.removed, "left out, since it holds rows"),
        (result.changed, "copied without its examples of rows"),
        (result.unknown, "copied as it is, though no rule knows it: look at it yourself"),
    ):
        for name in names:
            say(f"treeleak: {name}: {what}", err=False)
    say(f"treeleak: the hardened folder is {out}", err=False)
    return max(status_of(hardened.audit.reconstruction) for hardened in result.models)
