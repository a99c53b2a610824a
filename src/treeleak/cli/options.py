"""Options that several commands take.

Typer reads the help of every option from the signature.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treeleak.core.clock import Clock
from treeleak.core.errors import BadInput

if TYPE_CHECKING:
    from treeleak.schema import Schema

_FILES = (
    "A .skops, .pkl, .joblib or release.json file, a model of XGBoost, LightGBM, CatBoost, R "
    "(.rds), YDF (its folder) or interpret (JSON), ONNX, PMML, and others: treeleak formats lists "
    "them"
)
Model = Annotated[Path, typer.Argument(metavar="MODEL", help=f"{_FILES}.")]
Audited = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help=f"{_FILES}; also a rules.json file, a folder or an archive.",
    ),
]
SeveralAudited = Annotated[
    list[Path],
    typer.Argument(
        metavar="MODEL...",
        help=f"{_FILES}; also a rules.json file, a folder or an archive. With several, "
        "--report names a folder.",
    ),
]
SchemaFile = Annotated[
    Path | None, typer.Option("--schema", metavar="FILE", help="What a row can be (TOML or JSON).")
]
Train = Annotated[
    Path | None,
    typer.Option(
        metavar="CSV",
        help="The training rows, to compare with: in the columns that enter the trees, or in "
        "those that enter the pipeline.",
    ),
]
Control = Annotated[
    Path | None,
    typer.Option(
        metavar="CSV",
        help="Rows of the same population that the model was not trained on. Are the rebuilt "
        "rows nearer to the training rows than to these? Needs --train.",
    ),
]
Sensitive = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMNS",
        help="Attribute inference: can an adversary who knows everything else about a person "
        "infer these columns? Separate them with commas. Needs --train.",
    ),
]
Groups = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMNS",
        help="Also report errors by the values of these columns of the training rows. "
        "Separate them with commas. Needs --train.",
    ),
]
Label = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column of the labels, in all CSV files.")
]
TimeLimit = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        help="Time limit of the whole command. Loading and compiling do not count.",
        show_default=True,
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        metavar="N", min=0, help="Seed of the attack: the same seed gives the same answer."
    ),
]
Bootstrap = Annotated[
    str,
    typer.Option(
        metavar="auto|none|known|hidden",
        help="How trees drew rows: auto finds out, none takes every tree to have seen every row, "
        "known needs the seeds, hidden uses none.",
    ),
]
SeedSearch = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        help="If the file of a bootstrap forest has no seeds, try this many forest seeds (0, 1, 2 "
        "and so on) until one fits. 0 turns the search off.",
    ),
]
NRows = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Number of training rows, if the model does not hold it (counts with noise, hidden "
        "draws). Where only --train says it, treeleak audit takes it from there.",
    ),
]
KnownRows = Annotated[
    Path | None,
    typer.Option(
        metavar="CSV",
        help="Known training rows, with labels. A column 'row' holds their positions.",
    ),
]
KnownColumns = Annotated[
    Path | None,
    typer.Option(metavar="CSV", help="Known columns of all training rows, with or without labels."),
]
Population = Annotated[
    Path | None,
    typer.Option(
        metavar="CSV|JSON",
        help="Other rows of the population, or in JSON its marginals: column, value, share.",
    ),
]
TrustPickle = Annotated[
    bool,
    typer.Option(
        "--trust-pickle", help="Open pickle and joblib files: they can run code. Off by default."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print results and errors only.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]


def clock_of(time_limit: float, bootstrap: str = "auto") -> Clock:
    """Start the clock once libraries are loaded, and refuse what Typer cannot check."""
    from treeleak import auditing, report  # noqa: F401  Loading them takes seconds, once.
    from treeleak.evidence import BOOTSTRAP_MODES

    if not time_limit > 0:
        raise BadInput(f"--time-limit must be positive, not {time_limit:g}")
    if bootstrap not in BOOTSTRAP_MODES:
        known = ", ".join(BOOTSTRAP_MODES)
        raise BadInput(f"--bootstrap must be one of {known}, not {bootstrap!r}")
    return Clock(time_limit)


def columns_of(option: str, listed: str | None, train: Path | None) -> tuple[str, ...]:
    """Read columns of the training rows that are listed with commas."""
    if listed is None:
        return ()
    if train is None:
        raise BadInput(f"{option} needs the training rows: give --train, too")
    names = tuple(name.strip() for name in listed.split(","))
    if not all(names):
        raise BadInput(f"{option} must name columns, separated by commas, not {listed!r}")
    return names


def read_schema(path: Path | None) -> Schema | None:
    """Read the schema file, if there is one."""
    from treeleak.schema import Schema

    return None if path is None else Schema.read(path)
