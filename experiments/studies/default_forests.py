"""Forests of scikit-learn in their defaults, of more rows than the papers tried.

The published constraint program runs beside treeleak on the smallest; the papers have no figures
for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from experiments import forests
from experiments.data import DATASETS, have_tables
from experiments.forests import Forest
from experiments.study import OWN, Parameters, Record, Study, Table

SEEDS = range(5)
TREELEAK, PROGRAM = "auto", "reference-cp"
_SIZES = (100, 1000, 2000)
_LARGE, _HIDDEN = 40_000, 5000
_HIDDEN_SEEDS = range(2)
_LIMITS = {"none": 120.0, "known": 120.0, "hidden": 300.0}
"""Seconds of a run, by its draws."""
_PROGRAM_LIMIT, _BRIEF = 300.0, 20.0


def attack(parameters: Parameters) -> Record:
    """Train a forest of 100 unlimited trees, attack it, measure.

    Parameters
    ----------
    parameters : mapping
        ``dataset``, ``n_rows``, ``bootstrap`` ("none", "known" or "hidden"), ``distinct`` (whether
        the numbers of different rows in leaves are used), ``method``, ``seed``, ``time_limit``.

    Returns
    -------
    dict
        Shares of the training rows, labels included: ``right`` came back anywhere, ``in_order`` in
        their own place, ``proved`` are called proved.
    """
    found = forests.attack(Forest(n_trees=100, depth=None, **parameters))
    return {name: found[name] for name in ("status", "seconds", "misfit", "in_order")} | {
        "right": found["exact_rows"], "proved": found["proved_rows"],
    }  # fmt: skip


def _point(dataset: str, n_rows: int, bootstrap: str, seed: int, **changed: Any) -> dict[str, Any]:
    return {
        "dataset": dataset, "n_rows": n_rows, "bootstrap": bootstrap, "distinct": True,
        "method": TREELEAK, "seed": seed, "time_limit": _LIMITS[bootstrap], **changed,
    }  # fmt: skip


def full_grid() -> list[dict[str, Any]]:
    """Draws known, beside the published program, which knows of no different rows; then large."""
    program = {"distinct": False, "time_limit": _PROGRAM_LIMIT}
    return [
        *(
            _point(dataset, n, "known", seed)
            for n in _SIZES
            for dataset in DATASETS
            for seed in SEEDS
            if (dataset, n) != ("default_credit", _SIZES[-1])
        ),
        *(
            _point(dataset, _SIZES[0], "known", seed, method=method, **program)
            for dataset in DATASETS[:2]
            for seed in SEEDS
            # In turn, so that other work on the machine slows both.
            for method in (TREELEAK, PROGRAM)
        ),
        *(_point("adult", _LARGE, "none", seed) for seed in SEEDS),
        *(_point("adult", _HIDDEN, "hidden", seed) for seed in _HIDDEN_SEEDS),
    ]


def quick_grid() -> list[dict[str, Any]]:
    """One seed; the published program on one table, and little time for hidden draws."""
    return [
        p if p["bootstrap"] != "hidden" else {**p, "time_limit": _BRIEF}
        for p in full_grid()
        if p["seed"] == 0 and (p["method"] == TREELEAK or p["dataset"] == DATASETS[0])
    ]


def tables(runs: pd.DataFrame) -> list[Table]:
    """Lay out what came back, a line for each kind of forest."""
    runs = runs.assign(in_order=pd.to_numeric(runs.in_order))
    lines = []
    shape = ["bootstrap", "n_rows", "dataset", "distinct", "method"]
    for (draws, n, dataset, distinct, method), own in runs.groupby(shape, sort=False):
        lines.append(
            {
                "draws": draws, "rows": n, "dataset": dataset,
                "method": "treeleak" if method == TREELEAK else "published program",
                "different rows": "used" if distinct else "not used",
                "right": own.right.mean(), "least": own.right.min(),
                "in their place": own.in_order.mean(), "proved": own.proved.mean(),
                "median s": own.seconds.median(), "most s": own.seconds.max(), "runs": len(own),
            }
        )  # fmt: skip
    note = (
        "100 unlimited trees. Right: share of the training rows that came back, label included; "
        "least: of any seed. Different rows: scikit-learn stores their number in each leaf; the "
        "published program, rewritten from the paper, does not use it. Seconds of one run at a "
        "time, on two cores that did other work, too."
    )
    title = "Forests in their defaults: what comes back"
    return [Table("default-forests", title, pd.DataFrame(lines), note)]


def _seconds(p: Parameters) -> float:
    """About how long a run takes."""
    if p["method"] == PROGRAM:
        return 30.0
    hidden = p["bootstrap"] == "hidden"
    return min(80.0, float(p["time_limit"])) if hidden else 0.5 + p["n_rows"] / 1000


STUDIES: Sequence[Study] = (
    Study(
        name="default-forests",
        paper=OWN,
        what="forests in their defaults, of up to 40,000 rows",
        full=full_grid,
        quick=quick_grid,
        run=attack,
        tables=tables,
        seconds=_seconds,
        warm=lambda p: {**p, "dataset": "compas", "n_rows": 40, "seed": 0, "time_limit": 10.0},
        check=have_tables,
    ),
)
