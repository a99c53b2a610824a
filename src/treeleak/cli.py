"""The command line."""

# Typer reads the help of every option from the signature.

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from treeleak._version import __version__
from treeleak.errors import BadInput, TreeleakError

if TYPE_CHECKING:
    import pandas as pd

    from treeleak.clock import Progress
    from treeleak.reconstruction import Reconstruction
    from treeleak.schema import Schema

__all__ = ["app", "main"]

METHODS = ("auto", "reference-cp")
AUDITED, NO_ANSWER, INTERRUPTED = 0, 3, 130
BAD_INPUT = BadInput.exit_code


class _Group(TyperGroup):
    """Turns errors into one line and an exit status."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except TreeleakError as error:
            _say(f"treeleak: {error}")
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            _say("treeleak: interrupted")
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="How much of its training data does a tree model give away? Rebuild it and see.",
    epilog="Exit status: 0 audited, 2 bad input, 3 no answer in time, 130 interrupted.",
)

Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A .skops, .pkl, .joblib or release.json file.")
]
SchemaFile = Annotated[
    Path | None, typer.Option("--schema", metavar="FILE", help="What a row can be (TOML or JSON).")
]
Train = Annotated[
    Path | None,
    typer.Option(
        metavar="CSV", help="The training rows, in the columns that enter the trees, to compare."
    ),
]
Label = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of the labels.")]
TimeLimit = Annotated[
    float, typer.Option(metavar="SECONDS", help="For the reconstruction.", show_default=True)
]
Seed = Annotated[
    int, typer.Option(metavar="N", min=0, help="Of the attack: same seed, same answer.")
]
Bootstrap = Annotated[
    str, typer.Option(metavar="auto|none|known|hidden", help="What to assume of the draws.")
]
SeedSearch = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        help="Where the seeds were taken out of the file of a bootstrap forest: "
        "forest seeds to try, 0, 1, 2 and so on, until one fits; 0 for none.",
    ),
]
TrustPickle = Annotated[
    bool,
    typer.Option(
        "--trust-pickle", help="Open pickle and joblib files: they can run code. Off by default."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]


def main() -> None:
    """Run the command line; what nobody foresaw is shown in full."""
    try:
        app()
    except Exception:
        traceback.print_exc()
        _say("treeleak: this is a bug; please report it with the lines above.")
        sys.exit(1)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"treeleak {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def audit(
    model: Model,
    schema: SchemaFile = None,
    train: Train = None,
    label: Label = None,
    time_limit: TimeLimit = 60,
    seed: Seed = 0,
    bootstrap: Bootstrap = "auto",
    seed_search: SeedSearch = 1_000_000,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the audit as JSON.")
    ] = None,
    include_rows: Annotated[
        bool, typer.Option("--include-rows", help="Show rebuilt rows, and put them in the JSON.")
    ] = False,
    trust_pickle: TrustPickle = False,
    quiet: Quiet = False,
) -> None:
    """Find out what a model gives away: inventory, counts, reconstruction."""
    from rich.console import Console

    import treeleak
    from treeleak.report import render

    _check_options(time_limit, bootstrap)
    rows, labels = _training(train, label)
    known = _schema(schema)
    if json is not None:
        _check_place(json, model, schema, train)
    with _progress(quiet) as progress:
        result = treeleak.audit(
            model,
            rows,
            labels,
            schema=known,
            time_limit=time_limit,
            seed=seed,
            bootstrap=bootstrap,
            seed_search=seed_search,
            trust_pickle=trust_pickle,
            progress=progress,
        )
    if json is not None:
        _write(json, result.to_json(include_rows) + "\n", private=include_rows, force=True)
    render(result, Console(highlight=False), include_rows)
    if result.mismatch is not None:
        _say(f"treeleak: {train}: these are not the model's training rows: {result.mismatch}")
    status = _status(result.reconstruction)
    if status == AUDITED and result.mismatch is not None:
        status = BAD_INPUT
    raise typer.Exit(status)


@app.command()
def reconstruct(
    model: Model,
    out: Annotated[Path, typer.Option(metavar="CSV", help="Where to write the rows.")],
    schema: SchemaFile = None,
    label: Annotated[str, typer.Option(metavar="COLUMN", help="Name of the labels.")] = "label",
    time_limit: TimeLimit = 60,
    seed: Seed = 0,
    bootstrap: Bootstrap = "auto",
    seed_search: SeedSearch = 1_000_000,
    method: Annotated[
        str,
        typer.Option(
            metavar="|".join(METHODS),
            help="treeleak's own attack, or the constraint program published in 2024.",
        ),
    ] = "auto",
    trust_pickle: TrustPickle = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Rebuild the training rows and write them to a file that only you can read."""
    import treeleak

    _check_options(time_limit, bootstrap)
    if method not in METHODS:
        raise BadInput(f"--method must be one of {', '.join(METHODS)}, not {method!r}")
    _check_free(out, force, model, schema)
    known = _schema(schema)
    with _progress(quiet) as progress:
        result = treeleak.reconstruct(
            model, known, bootstrap, time_limit, seed, method=method, seed_search=seed_search,
            trust_pickle=trust_pickle, progress=progress,
        )  # fmt: skip
    stopped = "interrupted, " if result.interrupted else ""
    if result.X is None or result.y is None:
        if result.status == "infeasible":
            raise BadInput(
                f"{model}: no rows fit the counts and the schema: {result.contradiction}"
            )
        _say(f"{out} was not written: {stopped}{result.status}: {result.meaning}")
        raise typer.Exit(_status(result))
    if label in result.X:
        raise BadInput(f"the model has a column {label!r}: give the labels another name (--label)")
    table = result.X.assign(**{label: result.y.to_numpy()})
    _write(out, table.to_csv(index=False), private=True, force=force)
    _say(f"{out}: {result.n_rows} rows, {stopped}{result.status}: {result.meaning}")
    _say_order(result)
    if result.misfit:
        _say(f"The counts of these rows differ from the model's by {result.misfit:g} in sum.")
    raise typer.Exit(_status(result))


@app.command()
def schema(
    model: Model,
    train: Train = None,
    label: Label = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write it, if not to the terminal.")
    ] = None,
    trust_pickle: TrustPickle = False,
    force: Force = False,
) -> None:
    """Write a starting schema, for you to correct: what a row can be."""
    from treeleak.infer import suggest_schema
    from treeleak.release import to_release

    if out is not None:
        _check_free(out, force, model, train)
    rows, _ = _training(train, label)
    release = to_release(model, trust_pickle)
    try:
        suggested, remarks = suggest_schema(release, rows)
    except BadInput as error:
        raise (error if train is None else BadInput(f"{train}: {error}")) from error
    basis = "the model" if rows is None else "the model and training rows"
    comments = [f"Inferred from {basis}. Check it: what it says is taken as true.", *remarks]
    text = "".join(f"# {' '.join(c.splitlines())}\n" for c in comments) + suggested.to_toml()
    if out is None:
        typer.echo(text, nl=False)
    else:
        _write(out, text, private=False, force=force)
        for remark in remarks:
            _say(remark)


@app.command()
def export(
    model: Model,
    out: Annotated[Path, typer.Argument(metavar="RELEASE.JSON", help="Where to write it.")],
    trust_pickle: TrustPickle = False,
    force: Force = False,
) -> None:
    """Write trees and counts as a file that no library is needed to read."""
    from treeleak.release import to_release
    from treeleak.release.exchange import write_release

    _check_free(out, force, model)
    release = to_release(model, trust_pickle)
    try:
        write_release(release, out)
    except OSError as error:
        raise BadInput(f"{out}: {error.strerror or error}") from error


@app.command()
def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to put the files.")] = Path(
        "demo"
    ),
    quiet: Quiet = False,
) -> None:
    """Train a forest on public data, then get the training rows back from its file."""
    from rich.console import Console

    from treeleak.demo import run

    with _progress(quiet) as progress:
        shown = run(out, progress)
    console = Console(highlight=False)
    for part in shown:
        console.print(part)


# ----------------------------------------------------------------------------------- options


def _check_options(time_limit: float, bootstrap: str) -> None:
    from treeleak.evidence import BOOTSTRAP_MODES

    if not time_limit > 0:
        raise BadInput(f"--time-limit must be positive, not {time_limit:g}")
    if bootstrap not in BOOTSTRAP_MODES:
        known = ", ".join(BOOTSTRAP_MODES)
        raise BadInput(f"--bootstrap must be one of {known}, not {bootstrap!r}")


def _schema(path: Path | None) -> Schema | None:
    from treeleak.schema import Schema

    return None if path is None else Schema.read(path)


def _training(
    path: Path | None, label: str | None
) -> tuple[pd.DataFrame | None, pd.Series[Any] | None]:
    if path is None:
        if label is not None:
            raise BadInput("--label names a column of the training rows: give --train, too")
        return None, None
    import pandas as pd

    try:
        table = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    if label is None:
        return table, None
    if label not in table:
        raise BadInput(f"{path}: no column {label!r} for the labels")
    return table.drop(columns=label), table[label]


# ----------------------------------------------------------------------------- files, progress


def _status(result: Reconstruction | None) -> int:
    if result is None:
        return AUDITED
    if result.interrupted:
        return INTERRUPTED
    return NO_ANSWER if result.status == "unknown" else AUDITED


def _say_order(result: Reconstruction) -> None:
    if result.ordered:
        _say("In order: row k of the file is that for row k of the training set. Do not sort it.")
    if result.draws is not None:
        _say(f"Which rows each tree drew is known from: {result.draws}.")
    if never := result.numbers.get("rows_never_drawn"):
        _say(f"{never} of the rows were drawn by no tree: they are guesses.")


def _check_place(path: Path, *inputs: Path | None) -> None:
    if not path.parent.is_dir():
        raise BadInput(f"{path}: there is no folder {path.parent}")
    if path.exists() and any(i.exists() and path.samefile(i) for i in inputs if i is not None):
        raise BadInput(f"{path}: is read by the same command, and would be overwritten")


def _check_free(path: Path, force: bool, *inputs: Path | None) -> None:
    _check_place(path, *inputs)
    if path.exists() and not force:
        raise BadInput(f"{path}: exists already; --force overwrites it")


def _write(path: Path, text: str, private: bool, force: bool) -> None:
    """Write a file; a private one is never, not for a moment, open to others."""
    try:
        if force:
            # What is there may have wider permissions, or be a link to somewhere else.
            path.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        descriptor = os.open(path, flags, 0o600 if private else 0o666)
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error


def _say(text: str) -> None:
    typer.echo(text, err=True)


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[Progress], None] | None]:
    """Show on the error stream what is being done; nothing where nobody watches."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar
    from rich.table import Column

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(10),
        TimeElapsedColumn(Column(min_width=7)),
        TextColumn("{task.fields[missed]}"),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading the model", total=1.0, missed="")

        def show(step: Progress) -> None:
            missed = "" if step.misfit is None else f"{step.misfit:,} counts missed"
            bar.update(task, description=step.stage, completed=step.done, missed=missed)

        yield show
