"""Known bootstrap draws: scikit-learn's default forests, whose file says what each tree drew.

Each run has a process of its own, and its kernels are compiled before the clock runs. "in_order"
compares row k with row k, the label included; "error" is DRAFT's, after matching.

All parts take about an hour per five seeds on 2 idle cores, and three if every run needs its whole
time. five_thousand takes 5 minutes per run: "all" does it for the first seed only, ``--part
five_thousand`` for each.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pandas as pd

from experiments.benchmarks.frame import (
    CONSOLE,
    Floor,
    collect,
    flat,
    options,
    said_of,
    show,
    statuses,
)
from experiments.benchmarks.published import depth_name
from experiments.data import DATASETS
from experiments.forests import Forest, attack

_ORDER = {"order_error": 0.0005}
"""The error in order is 0.000."""
FLOORS = {
    "small": {
        name: Floor(median={"seconds": s}, most=_ORDER)
        for name, s in zip(DATASETS, (0.3, 3, 6), strict=True)
    },
    "thousand": {
        name: Floor(median={"seconds": s}, most=_ORDER)
        for name, s in zip(DATASETS, (10, 30, 40), strict=True)
    },
    "two_thousand": {
        "compas": Floor(most={"seconds": 120}, least={"in_order": 0.95}),
        "adult": Floor(most={"seconds": 120}, least={"in_order": 0.98}),
    },
    "five_thousand": {"adult": Floor(most={"seconds": 300}, least={"in_order": 0.75})},
    "shallow": dict.fromkeys(DATASETS, Floor(most={"seconds": 60}, least={"answered": 1})),
}
SHAPES: dict[str, tuple[int, tuple[int | None, ...], float]] = {
    "small": (100, (None,), 60),
    "thousand": (1000, (None,), 120),
    # Less than the floor's time, which counts all steps, also those after the attack.
    "two_thousand": (2000, (None,), 115),
    "five_thousand": (5000, (None,), 290),
    "shallow": (100, (3, 5), 58),
}
"""Rows, depths and time limit of each part."""


def cases(
    part: str, seeds: Iterable[int], distinct: Iterable[bool], limit: float | None
) -> Iterator[Forest]:
    """All runs of a part, as its lines are printed."""
    n, depths, own = SHAPES[part]
    for dataset, depth, used, seed in itertools.product(FLOORS[part], depths, distinct, seeds):
        yield Forest(dataset, 100, depth, "known", seed, n, "auto", limit or own, used)


def warm(case: Forest) -> Forest:
    """A small case that goes the same way."""
    return replace(case, n_rows=30, n_trees=10, depth=2, time_limit=2.0)


def table(part: str, runs: pd.DataFrame) -> bool:
    """Print one line per point, over all seeds."""
    # What is called the only answer must be right.
    only = (runs.status != "unique") | (runs.order_error < 0.0005)
    runs = runs.assign(
        answered=(runs.status != "unknown") & only,
        in_order=runs.in_order.fillna(0), order_error=runs.order_error.fillna(1),
        depth=[depth_name(d) for d in runs.depth],
    )  # fmt: skip
    shape, lines = ["dataset", "n_rows", "depth", "distinct"], []
    for key, own in runs.groupby(shape, sort=False):
        floor = FLOORS[part][key[0]]
        lines.append(dict(zip(shape, key, strict=True)) | {
            "in_order": own.in_order.mean(), "worst": own.in_order.min(),
            "order_error": own.order_error.mean(), "error": own.error.mean(),
            "status": statuses(own.status), "proved rows": own.proved_rows.mean(),
            "s": own.seconds.median(), "most s": own.seconds.max(), "MB": own.peak_mb.max(),
            "floor": str(floor), "met": floor.judge(own),
        })  # fmt: skip
    met = show(f"known draws, {part}: {said_of(runs)}", lines)
    if wrong := runs.wrong_proved.sum():
        CONSOLE.print(f"{part}: {wrong} values called proved are WRONG")
    return met and not wrong


def main(args: Sequence[str]) -> int:
    given = options(
        "known", __doc__, args, parts=SHAPES, kept=True, seeds=range(5),
        distinct=("both", "with", "without"), time_limit=float,
    )  # fmt: skip
    distinct = {"with": (True,), "without": (False,), "both": (True, False)}[given.distinct]
    met = True
    for part in given.parts:
        few = part == "five_thousand" and len(given.parts) > 1
        todo = cases(part, given.seeds[:1] if few else given.seeds, distinct, given.time_limit)
        records = collect("known", todo, attack, warm, given, apart=True)
        met &= table(part, flat(records, ["error", "in_order", "order_error"]))
    return int(not met)
