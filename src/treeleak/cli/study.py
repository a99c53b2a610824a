"""``treeleak study``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treeleak.cli.application import app
from treeleak.cli.files import INTERRUPTED, check_place, say
from treeleak.cli.options import Quiet
from treeleak.core.errors import BadInput, NotCovered

if TYPE_CHECKING:
    from experiments import Plan, Store

__all__ = ["studies"]

FAILED = 1
STORE = "runs.sqlite"
_LOG_EVERY = 60.0

studies = typer.Typer(
    no_args_is_help=True, help="The papers' experiments, beside the published figures."
)
app.add_typer(studies, name="study")

Name = Annotated[str, typer.Argument(metavar="NAME", help="See `treeleak study list`.")]
Folder = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="Where runs, tables and figures are kept.")
]
QuickRun = Annotated[
    bool, typer.Option("--quick", help="A part of the runs, over all kinds of them.")
]
AnyVersion = Annotated[
    bool, typer.Option("--any-version", help="Runs of other results versions count as done.")
]
AnyCode = Annotated[bool, typer.Option("--any-code", hidden=True)]
"""What it was called in treeleak 0.1."""


@studies.command("list")
def list_() -> None:
    """Name all studies."""
    from rich.console import Console
    from rich.table import Table

    from experiments import STUDIES

    out = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("study", "paper", "what", "runs", "quick"):
        out.add_column(column)
    for study in STUDIES.values():
        sizes = [str(len(study.grid(quick))) for quick in (False, True)]
        out.add_row(study.name, study.paper, study.what, *sizes)
    Console(highlight=False).print(out)


@studies.command()
def run(
    name: Name,
    quick: QuickRun = False,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Runs at once.")] = 1,
    out: Folder = Path("studies"),
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Of a Dask scheduler, whose workers run instead."),
    ] = None,
    any_version: AnyVersion = False,
    any_code: AnyCode = False,
    quiet: Quiet = False,
) -> None:
    """Run what is not done yet, and show the table. Stopped studies go on where they were."""
    from experiments import Store, carry_out, find_study, plan

    study, store = find_study(name), Store(out / STORE)
    todo = plan(study, store, quick, any_version or any_code)
    if not quiet:
        say(_announced(todo, jobs))
    try:
        with _watched(len(todo.todo), quiet) as told:
            outcome = carry_out(todo, store, jobs, cluster, told)
    except NotCovered as error:
        raise BadInput(f"{name}: {error}") from error
    for parameters, why in outcome.failed[:5]:
        say(f"treeleak: {name}: {dict(parameters)}: {why}")
    if len(outcome.failed) > 5:
        say(f"treeleak: {name}: {len(outcome.failed) - 5} more runs failed")
    if outcome.interrupted:
        say(f"treeleak: interrupted; {outcome.finished} runs were kept, the same command goes on")
        raise typer.Exit(INTERRUPTED)
    show(name, quick, out, any_version or any_code)
    if outcome.failed:
        raise typer.Exit(FAILED)


@studies.command()
def show(
    name: Name,
    quick: QuickRun = False,
    out: Folder = Path("studies"),
    any_version: AnyVersion = False,
    any_code: AnyCode = False,
) -> None:
    """Show tables of what is done so far, and write them and the figures beside the store."""
    from rich.console import Console

    from experiments import as_frame, find_study
    from experiments.page import runs_of
    from experiments.shown import render_tables, write_figures, write_tables

    study = find_study(name)
    store, total = _made(out, f"; `treeleak study run {name}` does"), len(study.grid(quick))
    any_version |= any_code
    runs = runs_of(study, store, quick, any_version)
    if not runs:
        which = "" if any_version else f" of results version {study.version}; try --any-version"
        raise BadInput(f"{name}: nothing was run{which}")
    if len(runs) < total:
        say(f"{len(runs)} of {total} runs are done; the tables show these")
    table = as_frame(runs)
    tables = study.tables(table)
    render_tables(tables, Console(highlight=False))
    for path in [*write_tables(tables, out), *write_figures(study.figures(table), out)]:
        say(str(path))


@studies.command()
def page(
    to: Annotated[Path, typer.Argument(metavar="PAGE", help="A Markdown file; overwritten.")],
    out: Folder = Path("studies"),
) -> None:
    """Write the page that compares all studies with the papers, from runs of any version."""
    from experiments import STUDIES
    from experiments.page import write_page

    store = _made(out)
    check_place(to)
    try:
        for path in write_page(STUDIES.values(), store, to):
            say(str(path))
    except OSError as error:
        raise BadInput(f"{to}: {error.strerror or error}") from error


@studies.command("export")
def export_(
    to: Annotated[Path, typer.Argument(metavar="FILE", help="Ending in .jsonl.xz; overwritten.")],
    out: Folder = Path("studies"),
) -> None:
    """Write the latest runs of all studies into one file, from which other stores read them."""
    from experiments import STUDIES

    store = _made(out)
    check_place(to, store.path)
    n = store.write(to, (study.kept_as for study in STUDIES.values()))
    say(f"{to}: {n:,} runs")


@studies.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Written by `export`.")],
    out: Folder = Path("studies"),
) -> None:
    """Add the runs of a file to those that are kept; of equal ones the latest count."""
    from experiments import Store

    if not file.is_file():
        raise BadInput(f"{file}: no such file")
    say(f"{file}: {Store(out / STORE).read(file):,} runs were added")


def _made(out: Path, hint: str = "") -> Store:
    """Open a store that has to be there."""
    from experiments import Store

    if not (out / STORE).exists():
        raise BadInput(f"{out / STORE}: nothing was run yet{hint}")
    return Store(out / STORE)


def _announced(plan: Plan, jobs: int) -> str:
    """Say what is to be done, and how long that may take."""
    n, name = len(plan.todo), plan.study.name
    if not n:
        return f"{name}: all {plan.done} runs are done"
    done = f"{plan.done} are done, " if plan.done else ""
    return f"{name}: {done}{n} to run, about {_time(plan.seconds / jobs)}"


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def _watched(total: int, quiet: bool) -> Iterator[Callable[[int, int, float], None]]:
    """Show how many runs are done, and how long the rest may take; in a log, now and then."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if quiet or not total:
        yield lambda *_: None
        return
    if not console.is_terminal:
        last = 0.0

        def log(done: int, all_: int, seconds: float) -> None:
            nonlocal last
            if done and (seconds - last >= _LOG_EVERY or done == all_):
                last = seconds
                say(f"{done} of {all_} runs, about {_time(seconds / done * (all_ - done))} left")

        yield log
        return
    columns = TextColumn("running"), BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda done, *_: bar.update(task, completed=done)
