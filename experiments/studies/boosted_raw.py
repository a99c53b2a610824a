"""Boosted models on raw tables, beside TimberStrike's published attack and other rows.

TimberStrike (Di Gennaro and others, 2025) attacks federated training of boosted trees, in which one
client sees the trees that another one trains; treeleak here has one finished model. So its best
published figures stand beside, on the same tables and by the same measure, and say no more than
that. Models and measures are those of
:mod:`experiments.raw_boosted_models`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.attempt import Case, is_there, say_missing
from experiments.benchmarks.known_raw_tables import TABLES
from experiments.raw_boosted_models import DEFAULTS, run
from experiments.studies.published import read_published
from experiments.study import Parameters, Record, Study, Table, verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

PAPER = "TimberStrike 2025"
SIZES: Mapping[str, tuple[int, ...]] = {"stroke": (205, 300, 500), "diabetes": (205, 300)}
SEEDS = range(3)
LIMIT = 60.0
"""Seconds of a run."""
_PUBLISHED_FOR = "XGB"
"""The model that TimberStrike attacks."""


def attack(parameters: Parameters) -> Record:
    """Train a boosted model on a raw table, as a Case says, rebuild its rows, and measure."""
    return run(Case(**parameters))


def whole_grid() -> list[dict[str, Any]]:
    """All runs: all models and tables with one seed, then TimberStrike's model with others.

    The others take all of their time, and stand beside it.
    """
    return [
        {"model": model, "table": table, "n_rows": n, "seed": seed, "time_limit": LIMIT}
        for seed, (table, sizes) in product(SEEDS, SIZES.items())
        for n, model in product(sizes, DEFAULTS)
        if seed == SEEDS[0] or model == _PUBLISHED_FOR
    ]


def full_grid() -> list[dict[str, Any]]:
    """All runs of libraries that are there."""
    return [p for p in whole_grid() if is_there(DEFAULTS[p["model"]][0])]


def quick_grid() -> list[dict[str, Any]]:
    """All models, on few rows of each table, in a fifth of the time."""
    return [
        {**p, "time_limit": LIMIT / 5}
        for p in full_grid()
        if p["seed"] == 0 and p["n_rows"] == min(SIZES[p["table"]])
    ]


def have_all() -> None:
    """Say which libraries are missing.

    Raises
    ------
    BadInput
        If a table is missing.
    """
    say_missing(module for module, *_ in DEFAULTS.values())
    for name in SIZES:
        TABLES[name]()


def tables(runs: pd.DataFrame) -> list[Table]:
    """Lay answers beside other rows of the same table, and beside the published best."""
    figures = ["near", "shuffled", "others", "exact", "other_exact", "ceiling", "rows", "labels"]
    runs = runs.assign(**{name: pd.to_numeric(runs[name]) for name in figures})
    lines, beside = [], []
    published = read_published("timberstrike").set_index("table")
    for (table, n, model), own in runs.groupby(["table", "n_rows", "model"]):
        mean = own.select_dtypes("number").mean()
        answered = own.near.notna()
        some = own[answered]
        lines.append(
            {
                "table": table, "rows": n, "model": model,
                "near": mean.near, "other rows": some.others.mean(),
                "shuffled columns": some.shuffled.mean(),
                "beyond other rows": mean.near - some.others.mean(),
                "exact": mean.exact, "exact, other rows": some.other_exact.mean(),
                "exact, at most": some.ceiling.mean(), "whole rows": mean.rows,
                "classes": mean.labels,
                "s": mean.seconds, "answered": f"{answered.sum()} of {len(own)}",
            }
        )  # fmt: skip
        if model == _PUBLISHED_FOR:
            best = published.loc[str(table)]
            ahead = bool(answered.all() and 100 * mean.near > best.percent)
            beside.append(
                {
                    "table": table, "rows": n, "published": best.percent,
                    "treeleak": 100 * mean.near, "published baseline": best.baseline,
                    "other rows": 100 * some.others.mean(),
                    "answered": f"{answered.sum()} of {len(own)}", "verdict": verdict(ahead),
                }
            )  # fmt: skip
    return [_of_all(lines), _of_published(beside)]


def _of_all(lines: list[dict[str, Any]]) -> Table:
    note = (
        "Near: TimberStrike's measure, the share of values that are right after rows are matched "
        "one to one, categories exactly and numbers within 0.319 standard deviations. Beside it, "
        "by the same measure, as many other rows of the same table, and the training rows with "
        "each column shuffled. An answer that is not above other rows says nothing of the people "
        "in the training set. Exact: right to the last digit; at most: were it known of each "
        "value between which thresholds it lies. Whole rows: with each value on the right side of "
        f"every threshold. Means over the seeds with an answer, within {LIMIT:g} s; seconds over "
        "all of them, measured on a machine with two cores that others used at the same time."
    )
    title = "Boosted models on raw tables: what comes back"
    return Table("boosted-raw", title, pd.DataFrame(lines), note)


def _of_published(beside: list[dict[str, Any]]) -> Table:
    note = (
        "Percent of values by TimberStrike's measure, over all columns. Published: the best of its "
        "means over federated systems and depths, and the baseline that it prints beside that one. "
        "Its attack sees the trees of another client in federated training, as they are trained; "
        "treeleak sees one default model. Ahead: all seeds have an answer, and their mean is above "
        "the published best. "
        "Neither figure says more of the training rows than other rows of the table do, unless it "
        "is above theirs."
    )
    title = "XGBoost on raw tables: TimberStrike's best beside treeleak"
    return Table("boosted-raw-published", title, pd.DataFrame(beside), note)


STUDIES: Sequence[Study] = (
    Study(
        name="boosted-raw",
        paper=PAPER,
        what="boosted models on raw stroke and diabetes tables, beside the best published figures",
        full=full_grid,
        quick=quick_grid,
        run=attack,
        tables=tables,
        seconds=lambda p: 0.75 * float(p["time_limit"]),
        warm=lambda p: {**p, "n_rows": 100, "seed": 0, "time_limit": 5.0},
        check=have_all,
        everywhere=whole_grid,
    ),
)
