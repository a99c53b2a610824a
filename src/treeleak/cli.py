"""The command line."""

# Typer reads the help of every option from the signature.

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer
from typer.core import TyperGroup

from treeleak._version import __version__
from treeleak.errors import BadInput, NotCovered, TreeleakError

if TYPE_CHECKING:
    import pandas as pd

    from treeleak.clock import Progress
    from treeleak.reconstruction import Reconstruction
    from treeleak.release import Release, RuleList
    from treeleak.schema import Schema

__all__ = ["app", "main"]

METHODS = ("auto", "reference-cp", "reference-milp")
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

_FILES = "A .skops, .pkl, .joblib or release.json file, or the text of a J48 tree"
Model = Annotated[Path, typer.Argument(metavar="MODEL", help=f"{_FILES}.")]
Audited = Annotated[
    Path, typer.Argument(metavar="MODEL", help=f"{_FILES}; also rules.json, of rule lists.")
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
Control = Annotated[
    Path | None,
    typer.Option(
        metavar="CSV",
        help="Rows of the same population that the model was not trained on: is what was rebuilt "
        "nearer to the training rows than to these? Needs --train.",
    ),
]
Label = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column of the labels, in all CSV files.")
]
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
NRows = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Rows of the training set, if the model does not say: for counts with noise, and for "
        "draws that are hidden.",
    ),
]
DrawnCountsOnly = Annotated[
    bool,
    typer.Option("--drawn-counts-only", help="Leave aside how many different rows a leaf holds."),
]
KnownRows = Annotated[
    Path | None,
    typer.Option(
        metavar="CSV",
        help="Training rows that are known, with labels. A column 'row' holds their positions.",
    ),
]
KnownColumns = Annotated[
    Path | None,
    typer.Option(
        metavar="CSV", help="Columns that are known of all training rows, labels maybe among them."
    ),
]
Population = Annotated[
    Path | None,
    typer.Option(
        metavar="CSV|JSON",
        help="Other rows of the population, or in JSON its marginals: column, value, share.",
    ),
]
Earlier = Annotated[
    Path | None,
    typer.Option(metavar="MODEL", help="A model trained before on a part of the same rows."),
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
    model: Audited,
    schema: SchemaFile = None,
    train: Train = None,
    label: Label = None,
    control: Control = None,
    time_limit: TimeLimit = 60,
    seed: Seed = 0,
    bootstrap: Bootstrap = "auto",
    seed_search: SeedSearch = 1_000_000,
    n_rows: NRows = None,
    drawn_counts_only: DrawnCountsOnly = False,
    known_rows: KnownRows = None,
    known_columns: KnownColumns = None,
    population: Population = None,
    earlier: Earlier = None,
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
    beside = _Beside(known_rows, known_columns, population, earlier)
    known = _schema(schema)
    tables = _Tables(model, known, label, trust_pickle)
    rows, labels = _training(tables, train, beside.tables)
    if control is not None and train is None:
        raise BadInput("--control is compared with the training rows: give --train, too")
    others = None
    if control is not None:
        others = tables.read(control).drop(columns=[label], errors="ignore")
    given = beside.read(tables)
    if json is not None:
        _check_place(json, model, schema, train, control, *beside.files)
    names = {} if control is None else {"the control rows": control}
    with _progress(quiet) as progress, beside.named(), _named(names):
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
            n_rows=n_rows,
            use_distinct=not drawn_counts_only,
            control=others,
            **given,
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
    label: Label = None,
    time_limit: TimeLimit = 60,
    seed: Seed = 0,
    bootstrap: Bootstrap = "auto",
    seed_search: SeedSearch = 1_000_000,
    method: Annotated[
        str,
        typer.Option(
            metavar="|".join(METHODS),
            help="treeleak's own attack, or the constraint or integer program published in 2024.",
        ),
    ] = "auto",
    n_rows: NRows = None,
    drawn_counts_only: DrawnCountsOnly = False,
    known_rows: KnownRows = None,
    known_columns: KnownColumns = None,
    population: Population = None,
    earlier: Earlier = None,
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
            help="Records: how probable is it that each is in the training set? "
            "For hidden draws and for noise; needs --members-out.",
        ),
    ] = None,
    members_out: Annotated[
        Path | None,
        typer.Option(metavar="CSV", help="Where to write the records with these probabilities."),
    ] = None,
    trust_pickle: TrustPickle = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Rebuild the training rows and write them to a file that only you can read."""
    import treeleak
    from treeleak.reconstruction import Space

    _check_options(time_limit, bootstrap)
    if method not in METHODS:
        raise BadInput(f"--method must be one of {', '.join(METHODS)}, not {method!r}")
    if space not in get_args(Space):
        raise BadInput(f"--space must be one of {', '.join(get_args(Space))}, not {space!r}")
    if (members is None) != (members_out is None):
        raise BadInput("--members and --members-out go together: give both or none")
    beside = _Beside(known_rows, known_columns, population, earlier)
    _check_free(out, force, model, schema, members, *beside.files)
    if members_out is not None:
        _check_free(members_out, force, model, schema, members, *beside.files)
        if members_out.resolve() == out.resolve():
            raise BadInput(f"{out}: is named by both --out and --members-out")
    known = _schema(schema)
    tables = _Tables(model, known, label, trust_pickle)
    given = beside.read(tables)
    records = None if members is None else _records(members, tables)
    with _progress(quiet) as progress, beside.named():
        result = treeleak.reconstruct(
            model, known, bootstrap, time_limit, seed, method=method, seed_search=seed_search,
            trust_pickle=trust_pickle, progress=progress, n_rows=n_rows,
            use_distinct=not drawn_counts_only, space=cast(Space, space), **given,
        )  # fmt: skip
    label = label or "label"
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
        _say(f"{result.misfit_means}, in sum: {result.misfit:,.0f}.")
    if records is not None and members is not None and members_out is not None:
        with _named({"the records": members}):
            chance = result.membership(records)
        table = records.assign(membership=chance)
        _write(members_out, table.to_csv(index=False), private=True, force=force)
        _say(
            f"{members_out}: {len(table)} records, of which {chance.sum():.1f} are expected to be "
            "in the training set."
        )
    raise typer.Exit(_status(result))


@app.command()
def informed(
    model: Model,
    train: Annotated[Path, typer.Option(metavar="CSV", help="All training rows, with labels.")],
    label: Annotated[str, typer.Option(metavar="COLUMN", help="Column of the labels.")],
    schema: SchemaFile = None,
    targets: Annotated[
        int, typer.Option(metavar="N", min=1, help="Rows taken in turn as the missing one.")
    ] = 100,
    seed: Seed = 0,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the figures as JSON.")
    ] = None,
    trust_pickle: TrustPickle = False,
) -> None:
    """Say how well a model tells one training row to somebody who knows all others."""
    from rich.console import Console

    import treeleak
    from treeleak.report import render_informed

    known = _schema(schema)
    rows, labels = _training(_Tables(model, known, label, trust_pickle), train, ())
    if json is not None:
        _check_place(json, model, schema, train)
    with _named({"the training rows": train}):
        result = treeleak.informed_audit(
            model, rows, labels, known, targets, seed, trust_pickle=trust_pickle
        )
    if json is not None:
        _write(json, result.to_json() + "\n", private=False, force=True)
    render_informed(result, Console(highlight=False))


@app.command()
def schema(
    model: Audited,
    train: Train = None,
    label: Label = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write it, if not to the terminal.")
    ] = None,
    trust_pickle: TrustPickle = False,
    force: Force = False,
) -> None:
    """Write a starting schema, for you to correct: what a row can be."""
    from treeleak.infer import suggest_rule_schema, suggest_schema
    from treeleak.release import RuleList, read_model, to_release

    if out is not None:
        _check_free(out, force, model, train)
    rows, _ = _training(_Tables(model, None, label, trust_pickle), train, ())
    content = read_model(model, trust_pickle)
    try:
        if isinstance(content, RuleList):
            suggested, remarks = suggest_rule_schema(content, rows)
        else:
            suggested, remarks = suggest_schema(to_release(model, trust_pickle), rows)
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


@dataclass(frozen=True)
class _Tables:
    """Reads CSV files about a model."""

    model: Path
    schema: Schema | None
    label: str | None
    trust_pickle: bool

    def read(self, path: Path) -> pd.DataFrame:
        """Read a table; empty, NA, None and their like are missing, unless they are texts.

        In a column of which model or schema name such a text, it is that text.
        """
        import pandas as pd

        try:
            table = pd.read_csv(path)
            if table.notna().all(axis=None):
                return table
            written = pd.read_csv(path, dtype=str, keep_default_na=False)
        except (OSError, ValueError) as error:
            raise BadInput(f"{path}: {getattr(error, 'strerror', None) or error}") from error
        for column, texts in self.texts.items():
            if column in table:
                lost = table[column].isna() & written[column].isin(texts)
                if lost.any():
                    table[column] = table[column].astype(object).mask(lost, written[column])
        return table

    @cached_property
    def content(self) -> Release | RuleList:
        """The model."""
        from treeleak.release import RuleList, read_model, to_release

        content = read_model(self.model, self.trust_pickle)
        if isinstance(content, RuleList):
            return content
        return to_release(self.model, self.trust_pickle)

    @property
    def texts(self) -> dict[str, set[str]]:
        """Texts that the model or the schema name, of each column and of the labels."""
        from treeleak.release import RuleList
        from treeleak.schema import Categorical

        content: Release | RuleList | None = None
        # Of a model that is not covered, the command itself says so.
        with suppress(NotCovered):
            content = self.content
        named: dict[str, set[str]] = {}
        if isinstance(content, RuleList):
            for condition in (c for rule in content.rules for c in rule.conditions):
                texts = [v for v in condition.values or () if isinstance(v, str)]
                named.setdefault(condition.column, set()).update(texts)
        elif content is not None:
            named = {column: set(texts) for column, texts in content.levels.items()}
        for attribute in () if self.schema is None else self.schema.attributes:
            if isinstance(attribute, Categorical):
                named.setdefault(attribute.name, set()).update(attribute.labels or ())
        if self.label is not None and content is not None:
            classes = {c for c in content.classes if isinstance(c, str)}
            named.setdefault(self.label, set()).update(classes)
        return named

    @property
    def columns(self) -> tuple[str, ...]:
        """The model's columns."""
        from treeleak.release import RuleList

        content = self.content
        return content.columns if isinstance(content, RuleList) else content.feature_names


def _training(
    tables: _Tables, path: Path | None, others: Sequence[Path]
) -> tuple[pd.DataFrame | None, pd.Series[Any] | None]:
    label = tables.label
    if path is None:
        if label is not None and not others:
            raise BadInput("--label names a column of the training rows: give --train, too")
        return None, None
    table = tables.read(path)
    if label is None:
        return table, None
    _check_label(path, table, label)
    return table.drop(columns=label), table[label]


def _records(path: Path, tables: _Tables) -> pd.DataFrame:
    """Read records in the model's columns, and find what is wrong with them before any work."""
    from treeleak.infer import read_columns
    from treeleak.release import to_release

    table = tables.read(path)
    if "membership" in table:
        raise BadInput(f"{path}: column 'membership' is there already")
    read_columns(to_release(tables.model, tables.trust_pickle), table, str(path))
    return table


def _check_label(path: Path, table: pd.DataFrame, label: str) -> None:
    if label not in table:
        raise BadInput(f"{path}: no column {label!r} for the labels")


@dataclass(frozen=True)
class _Beside:
    """Files with what is known beside the model."""

    known_rows: Path | None
    known_columns: Path | None
    population: Path | None
    earlier: Path | None

    @property
    def files(self) -> tuple[Path, ...]:
        """All that were given."""
        all_ = (self.known_rows, self.known_columns, self.population, self.earlier)
        return tuple(path for path in all_ if path is not None)

    @property
    def tables(self) -> tuple[Path, ...]:
        """Those in which --label may name a column."""
        return tuple(path for path in self.files if path != self.earlier)

    def read(self, tables: _Tables) -> dict[str, Any]:
        """Read them, as :func:`treeleak.reconstruct` takes them."""
        given: dict[str, Any] = {} if self.earlier is None else {"earlier": self.earlier}
        names, label = tables.columns if self.tables else (), tables.label
        if self.known_rows is not None:
            table = tables.read(self.known_rows)
            if "row" in table and "row" not in names:
                table = table.set_index("row")
            if label is not None:
                _check_label(self.known_rows, table, label)
            given["known_rows"] = table
        if self.known_columns is not None:
            given["known_columns"] = tables.read(self.known_columns)
        if self.population is not None:
            json = self.population.suffix.lower() == ".json"
            read = _marginals if json else tables.read
            given["population"] = read(self.population)
        for path, key in zip(self.tables, (k for k in given if k != "earlier"), strict=True):
            other = [c for c in given[key] if c not in names and c != label]
            if other and (label is not None or path.suffix.lower() == ".json"):
                raise BadInput(
                    f"{path}: column {other[0]!r} is neither one of the model's nor that of the "
                    "labels, which --label names"
                )
        return given

    def named(self) -> AbstractContextManager[None]:
        """Let errors name the files."""
        names = {
            "known_rows": self.known_rows,
            "known_columns": self.known_columns,
            "the population's rows": self.population,
            "the population's shares": self.population,
            "the earlier release": self.earlier,
        }
        return _named({name: path for name, path in names.items() if path is not None})


@contextmanager
def _named(files: Mapping[str, Path]) -> Iterator[None]:
    """Put a file's name in place of what Python calls its table."""
    try:
        yield
    except TreeleakError as error:
        text = str(error)
        for name, path in files.items():
            text = text.replace(name, str(path))
        raise type(error)(text) from error


def _marginals(path: Path) -> Any:
    """Read column -> {value: share}; JSON writes values that are numbers as texts."""
    import json

    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    if not isinstance(found, dict):
        raise BadInput(f"{path}: holds no mapping of columns to shares")
    return {
        column: {_number(v): share for v, share in shares.items()}
        if isinstance(shares, dict)
        else shares
        for column, shares in found.items()
    }


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


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
    if result.draws_hidden:
        _say("Which rows each tree drew is not known: all draws were taken as possible.")
    if result.row_count is not None:
        _say(f"Training set: {result.row_count}.")
    if result.in_earlier is not None:
        _say(f"{int(result.in_earlier.sum())} of the rows are in the earlier training set.")
    if result.status == "likely" and result.expected_error is not None:
        _say(f"{result.expected_error:.1%} of the values may be wrong, as the attack expects.")
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
