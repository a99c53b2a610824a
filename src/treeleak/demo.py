"""The demonstration: default models on public data, saved, and their training rows got back."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import skops.io
from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from threadpoolctl import threadpool_limits

from treeleak.auditing import Audit, audit
from treeleak.core.clock import Progress
from treeleak.core.errors import BadInput, cause
from treeleak.core.output import write_file
from treeleak.core.private import dataclass
from treeleak.core.spreadsheets import csv_text
from treeleak.core.text import percent
from treeleak.datasets import load_compas
from treeleak.metrics import exact_row_share, random_rows
from treeleak.reconstruction import Reconstruction
from treeleak.reconstruction.run import reconstruct
from treeleak.report import render_html

N_PEOPLE = 100
N_BOOSTED = 1000
"""People behind the boosted model: those of the forest, and others."""
N_TREES = 20
"""Trees of each forest of the calibrated model."""
N_SHOWN = 3
SEED = 0
FOREST_SEED = 42
LABEL = "recidivated"
REPORT = "report.html"


@dataclass(frozen=True, eq=False)
class Demo:
    """The files of the demonstration and what came out."""

    folder: Path
    """Holds the files of :func:`files`; the report is the releasable edition of the audit."""
    true: pd.DataFrame
    rebuilt: pd.DataFrame
    guessed: pd.DataFrame
    """The same people, row by row: as they were, as the model gave them away (in the order that it
    gave them), and a guess at random."""
    audit: Audit
    searched: Reconstruction
    """From the file without seeds."""
    calibrated: Reconstruction
    """From the file of five forests, each of which saw another part of the people."""
    boosted: Reconstruction
    """From the file of the boosted model."""
    boosted_exact: float
    """Share of its training rows that came back exactly."""


def run(
    folder: Path, progress: Callable[[Progress], None] | None = None
) -> Iterator[RenderableType]:
    """Make the demonstration, and say in words what it shows."""
    return _screens(make(folder, progress))


def make(folder: Path, progress: Callable[[Progress], None] | None = None) -> Demo:
    """Train a default forest, save it, and audit the file.

    Then the same without seeds, a calibrated forest, and a boosted model. ``folder``: made if it is
    not there; the seven files in it are overwritten. Raises BadInput if the folder cannot be
    written.
    """
    data = load_compas()
    many = data.X.sample(N_BOOSTED, random_state=SEED)
    X = many.iloc[:N_PEOPLE]
    y = data.y[X.index].rename(LABEL)
    model, seedless, calibrated, boosted, train, schema, report = files(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{folder}: {cause(error)}") from error
    forest = RandomForestClassifier(random_state=FOREST_SEED).fit(X, y)
    write_file(model, skops.io.dumps(forest))
    for part in (forest, *forest.estimators_):
        part.random_state = None
    write_file(seedless, skops.io.dumps(forest))
    write_file(train, csv_text(X.assign(**{LABEL: y})))
    write_file(schema, data.schema.to_toml())
    found = audit(model, X, y, schema=data.schema, seed=SEED, progress=progress)
    searched = reconstruct(seedless, data.schema, seed=SEED, progress=progress)
    small = RandomForestClassifier(N_TREES, random_state=FOREST_SEED)
    write_file(calibrated, skops.io.dumps(CalibratedClassifierCV(small).fit(X, y)))
    joined = reconstruct(calibrated, data.schema, seed=SEED, progress=progress)
    with threadpool_limits(1, user_api="openmp"):  # of few rows, threads take longer
        trees = HistGradientBoostingClassifier().fit(many, data.y[many.index])
    write_file(boosted, skops.io.dumps(trees))
    again = reconstruct(boosted, data.schema, seed=SEED, progress=progress)
    names = f"{model.name} --schema {schema.name} --train {train.name} --label {LABEL}"
    page = render_html(found, command=f"treeleak audit {names}")
    write_file(report, page)
    rebuilt = found.reconstruction.X if found.reconstruction is not None else None
    if rebuilt is None or again.X is None:
        raise RuntimeError("the demonstration's own models were not reconstructed")
    guess = random_rows(X, data.schema, seed=SEED)[list(X.columns)].astype(int)
    exact = exact_row_share(again.X, many)
    people = X.reset_index(drop=True)
    return Demo(folder, people, rebuilt, guess, found, searched, joined, again, exact)


def files(folder: Path) -> tuple[Path, ...]:
    """Name the models with seeds, without, calibrated, and boosted; then the rows, their schema,
    and the report.
    """
    names = ("model", "without-seeds", "calibrated", "boosted")
    models = (folder / f"{name}.skops" for name in names)
    return *models, folder / "train.csv", folder / "schema.toml", folder / REPORT


# ---------------------------------------------------------------------------------- in words


def _screens(demo: Demo) -> Iterator[RenderableType]:
    measured, searched = demo.audit.measurement, demo.searched
    model, seedless, calibrated, boosted, train, schema, report = map(str, files(demo.folder))
    yield Text.assemble(
        "A random forest with scikit-learn's defaults, RandomForestClassifier(random_state="
        f"{FOREST_SEED}), was trained on {N_PEOPLE} people from ProPublica's COMPAS table (does "
        "a person re-offend within two years?) and saved as ",
        (model, "bold"),
        ". Then treeleak was given that file and a description of the columns. It never saw the "
        "training rows until the rows below were rebuilt.",
    )
    yield ""
    yield Panel(Text(demo.audit.headline), title="Verdict", border_style="bold red")
    yield ""
    yield Text(
        "Three of the people, numbered by their rows in the training table: as they truly "
        "were, as the attack rebuilt them, and as a baseline guesses them that knows the "
        "columns but not the model. Wrong values are marked (!)."
    )
    yield ""
    yield _people(demo)
    if measured is not None and measured.exact_in_order is not None:
        yield Text(
            f"Of all {N_PEOPLE} people, {percent(measured.exact_in_order)} came back exactly, each "
            f"in their own row; {percent(measured.error, 1)} of the values are wrong. A random "
            f"baseline gets {percent(measured.guess_mean or 0.0, 1)} wrong, even after "
            "optimal one-to-one matching."
        )
    yield ""
    yield Text("What this means", style="bold")
    yield Text(
        "Each tree in the file says how many of its rows ended in each leaf. It drew these "
        "rows at random. But the file also holds the seed of every tree "
        "(scikit-learn always stores it). The seed shows which rows the tree drew, by "
        "number, and how often. So thousands of counts are about numbered rows, and here "
        "only one table of people agrees with all of them. Anyone who gets the file gets "
        "the people, in their order, without access to the data, knowledge of any of them, "
        "or a running service to query."
    )
    yield ""
    yield Text("Without the seeds?", style="bold")
    same = searched.X is not None and searched.X.equals(demo.rebuilt)
    yield Text.assemble(
        "All seeds were removed, and the forest saved as ",
        (seedless, "bold"),
        ". The draws are now known from: ",
        f"{searched.draws}. That and the rows took {searched.seconds:.1f} s, ",
        "and the rows are the same." if same else "and the rows are not the same.",
        " This search does not find a large secret seed, or that of random_state=None. But "
        "even then, the counts are not harmless.",
    )
    yield ""
    yield Text("Five forests in one file", style="bold")
    joined = demo.calibrated
    rows = joined.X if joined.X is not None else demo.guessed
    back = float((rows.to_numpy() == demo.true.to_numpy()).all(axis=1).mean())
    yield Text.assemble(
        f"CalibratedClassifierCV(RandomForestClassifier({N_TREES}, random_state={FOREST_SEED})) "
        "trains five forests, each without a fifth of the people, and was saved as ",
        (calibrated, "bold"),
        ". Each forest discloses the labels of its people in their order, and so who was left "
        f"out of it. Then all five were attacked together: in {joined.seconds:.1f} s, "
        f"{percent(back)} of the people came back exactly, each in their own row.",
    )
    yield ""
    yield Text("Boosting does not protect", style="bold")
    others = demo.boosted
    yield Text.assemble(
        "Boosted trees draw no rows: by default, each of them counts all. "
        "HistGradientBoostingClassifier() was trained on these people and "
        f"{N_BOOSTED - N_PEOPLE} others, and saved as ",
        (boosted, "bold"),
        f". In {others.seconds:.1f} s, {percent(demo.boosted_exact)} of the {N_BOOSTED:,} people "
        "came back exactly, in no order (labels are not compared here); "
        f"{percent(others.share_proved_rows)} of the rows are proved.",
    )
    yield ""
    yield Text("Try it yourself", style="bold")
    command = _command()
    yield Text(
        f"  {command} audit {model} \\\n"
        f"    --schema {schema} \\\n"
        f"    --train {train} --label {LABEL}\n"
        f"  {command} reconstruct {seedless} \\\n"
        f"    --schema {schema} \\\n"
        f"    --out {demo.folder / 'rows.csv'}\n"
        f"  {command} reconstruct {boosted} \\\n"
        f"    --schema {schema} \\\n"
        f"    --out {demo.folder / 'boosted-rows.csv'}\n"
        f"  {command} audit YOUR_MODEL.skops --report YOUR_REPORT.html"
    )
    yield ""
    yield Text("The report", style="bold")
    yield Text.assemble(
        "For the people who decide on the release, without rows: ", (report, "bold")
    )


def _command() -> str:
    """What to type: an environment that is not activated keeps its commands off the path."""
    called = Path(sys.argv[0])
    hidden = called.name == "treeleak" and shutil.which("treeleak") is None
    return str(called) if hidden else "treeleak"


_WORDS = (
    {"sex:Male": "male", "": "female"},
    {
        "age:18-20": "age 18 to 20", "age:21-22": "age 21 or 22", "age:23-25": "age 23 to 25",
        "age:26-45": "age 26 to 45", "age:>45": "older than 45", "": "of no age",
    },
    {
        "priors:=0": "no priors", "priors:=1": "1 prior", "priors:2-3": "2 or 3 priors",
        "priors:>3": "more than 3 priors", "": "priors untold",
    },
    {"juvenile-felonies:>0": "juvenile felonies", "": "no juvenile felonies"},
    {"juvenile-misdemeanors:>0": "juvenile misdemeanors", "": "no juvenile misdemeanors"},
    {"juvenile-crimes:>0": "juvenile crimes", "": "no juvenile crimes"},
    {"current-charge-degree:Misdemeanor": "charged with a misdemeanor",
     "": "charged with a felony"},
)  # fmt: skip
"""For each attribute of a person, its columns in words, and what it is if none of them is 1."""


def in_words(person: pd.Series[int]) -> list[str]:
    """Describe a person, attribute by attribute."""
    return [next(w for c, w in words.items() if not c or person[c] == 1) for words in _WORDS]


def _people(demo: Demo) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    sources = {"true": demo.true, "back": demo.rebuilt, "guess": demo.guessed}
    for k in _distinct(demo.true):
        true = in_words(demo.true.iloc[k])
        for source, people in sources.items():
            told = [
                Text(word) if word == right else Text(f"!{word}", style="bold red")
                for word, right in zip(in_words(people.iloc[k]), true, strict=True)
                # What nearly nobody has is told of those who have it, or are said to.
                if word != right or not word.startswith("no juvenile")
            ]
            name = f"row {k + 1}" if source == "true" else ""
            table.add_row(name, source, Text(", ").join(told))
    return table


def _distinct(X: pd.DataFrame) -> list[int]:
    """Choose the first few whom nobody else equals in every column."""
    return [int(i) for i in X.index[~X.duplicated(keep=False)][:N_SHOWN]]
