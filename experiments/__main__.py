"""``python -m experiments``: studies and benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperCommand

from experiments import catalogue
from experiments.catalogue import BENCHMARKS, find_benchmark, find_study
from experiments.data import use_folders_beside
from experiments.headline import STORED, made_of
from experiments.page import write_page
from experiments.progress import watched
from experiments.runner import Plan, as_frame, carry_out, plan, runs_of
from experiments.shown import render_tables, with_tables, write_tables
from experiments.store import FOLDER, Store, store_file
from experiments.zoo.cli import app as zoo
from treeleak.cli.application import commands, run_commands
from treeleak.cli.files import INTERRUPTED, check_place, say
from treeleak.cli.options import Quiet
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.output import write_file

FAILED = 1


class _Run(TyperCommand):
    """Leaves what stands behind the name of a benchmark to the benchmark."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] in BENCHMARKS:
            raise SystemExit(find_benchmark(args[0])(args[1:]))
        return super().parse_args(ctx, args)


app = commands(
    "Experiments: studies repeat those of the papers, benchmarks compare treeleak with floors.",
    "Exit status: 0 done, 1 runs failed, 2 bad input, 130 interrupted, 143 ended by SIGTERM.",
    completion=False,
)
app.add_typer(zoo, name="zoo")

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of a study (see `python -m experiments list`).")
]
Folder = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="Where runs and tables are kept.")
]
QuickRun = Annotated[bool, typer.Option("--quick", help="Some runs of each kind.")]
AnyVersion = Annotated[
    bool, typer.Option("--any-version", help="Runs of other results versions count as done.")
]


@app.command("list")
def list_() -> None:
    """Name all studies and benchmarks."""
    studies = _columns("study", "paper", "what", "runs", "quick")
    for study in catalogue.STUDIES.values():
        sizes = [str(len(study.grid(quick))) for quick in (False, True)]
        studies.add_row(study.name, study.paper, study.what, *sizes)
    benchmarks = _columns("benchmark", "what")
    for name, what in BENCHMARKS.items():
        benchmarks.add_row(name, what)
    Console(highlight=False).print(studies, "", benchmarks)


@app.command(
    cls=_Run,
    epilog="Each benchmark has its own options: `python -m experiments run hidden --help`.",
)
def run(
    name: Name,
    quick: QuickRun = False,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Runs at once.")] = 1,
    out: Folder = FOLDER,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Address of a Dask scheduler: its workers do the runs."
        ),
    ] = None,
    any_version: AnyVersion = False,
    quiet: Quiet = False,
) -> None:
    """Run what is missing, and show the table. Stopped studies go on where they stopped."""
    study, store = find_study(name), Store(store_file(out))
    todo = plan(study, store, quick, any_version)
    if not quiet:
        say(_announced(todo))
    try:
        with watched(len(todo.todo), quiet) as told:
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
    show(name, quick, out, any_version)
    if outcome.failed:
        raise typer.Exit(FAILED)


@app.command()
def show(
    name: Name,
    quick: QuickRun = False,
    out: Folder = FOLDER,
    any_version: AnyVersion = False,
) -> None:
    """Show the tables so far, and write them to the folder of the store."""
    study = find_study(name)
    store, total = _made(out, f"; `python -m experiments run {name}` does"), len(study.grid(quick))
    runs = runs_of(study, store, quick, any_version)
    if not runs:
        which = "" if any_version else f" of results version {study.version}; try --any-version"
        raise BadInput(f"{name}: nothing was run{which}")
    if len(runs) < total:
        say(f"{len(runs)} of {total} runs are done; the tables show these")
    table = as_frame(runs)
    tables = study.tables(table)
    render_tables(tables, Console(highlight=False))
    for path in write_tables(tables, out):
        say(str(path))


@app.command()
def page(
    to: Annotated[Path, typer.Argument(metavar="PAGE", help="A Markdown file; overwritten.")],
    out: Folder = FOLDER,
    tables_in: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Also renew the marked tables of this document."),
    ] = None,
) -> None:
    """Write the page that compares all studies with the papers, from runs of any version."""
    store = _made(out)
    check_place(to)
    try:
        for path in write_page(catalogue.STUDIES.values(), store, to):
            say(str(path))
        made = made_of(catalogue.STUDIES, store)
        for path in tables_in or []:
            text = path.read_text(encoding="utf-8")
            write_file(path, with_tables(text, "page", made, str(path)))
            say(str(path))
    except OSError as error:
        raise BadInput(f"{to}: {error.strerror or error}") from error


@app.command("export")
def export_(
    to: Annotated[Path, typer.Argument(metavar="FILE", help="Ending in .jsonl.xz; overwritten.")],
    out: Folder = FOLDER,
) -> None:
    """Write the latest runs of all studies into one file, for other stores."""
    store = _made(out)
    check_place(to, store.path)
    n = store.write(to, (*STORED, *(study.kept_as for study in catalogue.STUDIES.values())))
    say(f"{to}: {n:,} runs")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Written by `export`.")],
    out: Folder = FOLDER,
) -> None:
    """Add the runs of a file to the store; of equal runs, the latest counts."""
    if not file.is_file():
        raise BadInput(f"{file}: no such file")
    say(f"{file}: {Store(store_file(out)).read(file):,} runs were added")


def _columns(*names: str) -> Table:
    out = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in names:
        out.add_column(name)
    return out


def _made(out: Path, hint: str = "") -> Store:
    """Open a store that has to be there."""
    path = store_file(out)
    if not path.exists():
        raise BadInput(f"{path}: nothing was run yet{hint}")
    return Store(path)


def _announced(plan: Plan) -> str:
    """Say what is to be done."""
    n, name = len(plan.todo), plan.study.name
    if not n:
        return f"{name}: all {plan.done} runs are done"
    done = f"{plan.done} are done, " if plan.done else ""
    return f"{name}: {done}{n} to run"


def main() -> None:
    """Run the command line."""
    use_folders_beside()
    run_commands(app)


if __name__ == "__main__":
    main()
