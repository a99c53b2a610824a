"""``python -m experiments zoo``: make, run, score, board."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments.benchmarks.frame import CONSOLE, show
from experiments.progress import watched
from experiments.zoo.attacks import ATTACKS
from experiments.zoo.board import board, reasons, score
from experiments.zoo.kinds import kinds
from experiments.zoo.make import make, places
from experiments.zoo.publish import publish
from experiments.zoo.run import AUDIT, carry_out, cases
from treeleak.cli.application import commands
from treeleak.cli.files import say
from treeleak.core.output import write_file

app = commands(
    "A frozen set of model files of all kinds, attacks on each, and a board of what came back.",
    "`make`, then `run`, then `board`; docs/zoo.md says how to add an attack.",
    completion=False,
)
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Of the zoo.")]
Only = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Only this family, kind or file; may be repeated."),
]
Csv = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the lines there.")]


@app.command("make")
def make_(
    folder: Folder,
    seed: Annotated[int, typer.Option(help="Of rows and models: another one, another zoo.")] = 0,
    only: Only = None,
) -> None:
    """Train the models; write models.zip, and the truth apart from them."""
    todo = [
        p for p in places(kinds()) if not only or {p.name, p.kind.name, p.kind.family} & {*only}
    ]
    left_out = make(folder, todo, seed, say)
    for name, why in left_out:
        say(f"{name} is left out: {why}")


@app.command("run")
def run_(
    folder: Folder,
    attack: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="An attack, or `module:function`; may be repeated. All, if none."
        ),
    ] = None,
    limit: Annotated[float, typer.Option(help="Seconds for each file and attack.")] = 10.0,
    seed: int = 0,
    only: Only = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at once.")] = 1,
) -> None:
    """Attack each file; what was run before is not run again."""
    todo = cases(folder, attack or [*ATTACKS, AUDIT], limit, seed, only or ())
    with watched(len(todo)) as told:
        say(f"{carry_out(folder, todo, jobs, told)} of {len(todo)} runs are new")


@app.command("score")
def score_(folder: Folder, csv: Csv = None) -> None:
    """Hold the rows of all runs against the truth: a line for each file and attack."""
    write_file(csv or folder / "scores.csv", score(folder).to_csv(index=False, float_format="%.4g"))


@app.command("board")
def board_(folder: Folder, csv: Csv = None) -> None:
    """Print what came back by family and attack, and what is open, with the reason."""
    scores = score(folder)
    lines = board(scores)
    show("the zoo", lines)
    show("open, refused or at fault", reasons(scores))
    if csv is not None:
        write_file(csv, lines.to_csv(index=False, float_format="%.4g"))
        CONSOLE.print(str(csv), markup=False)


@app.command("publish")
def publish_(
    csv: Annotated[Path, typer.Argument(metavar="CSV", help="What `board --csv` wrote.")],
    documents: Annotated[
        list[Path], typer.Argument(metavar="DOCUMENT...", help="Their marked tables are renewed.")
    ],
) -> None:
    """Write a board into documents, and draw it beside the CSV."""
    for path in publish(csv, documents):
        say(str(path))
