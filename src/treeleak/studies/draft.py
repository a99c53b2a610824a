"""DRAFT (Ferry, Fukasawa, Pascal, Vidal, ICML 2024): its tables and figures as studies."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from treeleak.studies.published import read_published
from treeleak.studies.study import Parameters, Record, Study, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDIES", "attack"]

PAPER = "DRAFT 2024"
DATASETS = ("compas", "adult", "default_credit")
DEPTHS = (2, 3, 4, 5, 10, None)
TREES = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
SEEDS = range(5)
NEEDS = "DRAFT's tables: downloaded, or in the folder that TREELEAK_DATA names"
UNANSWERED = "unknown"
KEYS = ("dataset", "n_trees", "depth", "bootstrap", "seed", "n_rows", "method", "time_limit")


def attack(parameters: Parameters) -> Record:
    """Train a forest as the paper does, attack it, measure.

    Parameters
    ----------
    parameters : mapping
        ``dataset``, ``n_trees``, ``depth``, ``bootstrap`` ("none", "known" or "hidden"), ``seed``,
        ``n_rows``, ``method`` and ``time_limit``.
    """
    from sklearn.ensemble import RandomForestClassifier

    import treeleak
    from treeleak.datasets import draft_sample, load_draft

    p = parameters
    data = load_draft(p["dataset"])
    X, y = draft_sample(data, p["n_rows"], p["seed"])
    forest = RandomForestClassifier(
        p["n_trees"],
        max_depth=p["depth"],
        bootstrap=p["bootstrap"] != "none",
        random_state=p["seed"],
    ).fit(X, y)
    start = time.perf_counter()
    result = treeleak.reconstruct(
        forest, data.schema, p["bootstrap"], p["time_limit"], p["seed"], method=p["method"]
    )
    seconds = time.perf_counter() - start
    error = np.nan
    if result.X is not None:
        error = treeleak.metrics.reconstruction_error(result.X, X, data.schema)
    return {
        "seconds": seconds,
        "status": result.status,
        "error": error,
        "expected_error": result.expected_error,
        "guess": treeleak.metrics.random_baseline(X, data.schema, 20, p["seed"]).mean,
        "misfit": result.misfit,
    }


def _point(**changed: Any) -> dict[str, Any]:
    return {
        "dataset": "compas", "n_trees": 100, "depth": None, "bootstrap": "none", "seed": 0,
        "n_rows": 100, "method": "auto", "time_limit": 60.0, **changed,
    }  # fmt: skip


def _seconds(p: Parameters) -> float:
    """About how long a run takes; the reference mostly takes all of its time."""
    limit, n_trees, n_rows = float(p["time_limit"]), float(p["n_trees"]), float(p["n_rows"])
    if p["method"] != "auto":
        return limit
    if p["bootstrap"] == "hidden":
        return min(0.25 * n_trees * n_rows / 100, limit)
    shallow = p["depth"] is not None and n_trees >= 10
    return min(20.0 if shallow else 0.5 + n_rows / 1000, limit)


def _have_tables() -> None:
    from treeleak.datasets import load_draft

    for name in DATASETS:
        load_draft(name)


def _warm(p: Parameters) -> Parameters:
    """Say what compiles the same kernels: another kind of draws, or method, has others."""
    small = {"dataset": "compas", "n_trees": 3, "depth": 3, "seed": 0, "time_limit": 20.0}
    return {**p, **small, "n_rows": 40}


def _cross(
    seeds: Sequence[int],
    trees: Sequence[int],
    depths: Sequence[int | None],
    draws: Sequence[str],
    datasets: Sequence[str] = DATASETS,
    **fixed: Any,
) -> Iterator[dict[str, Any]]:
    for dataset in datasets:
        for n_trees in trees:
            for depth in depths:
                for bootstrap in draws:
                    for seed in seeds:
                        yield _point(
                            dataset=dataset, n_trees=n_trees, depth=depth, bootstrap=bootstrap,
                            seed=seed, **fixed,
                        )  # fmt: skip


def _depth(depth: Any) -> str:
    return "None" if depth is None or pd.isna(depth) else f"{depth:g}"


# ------------------------------------------------------------------------ tables 2 and 3: times


def _times(runs: pd.DataFrame, published: pd.DataFrame, by: str, number: int) -> list[Table]:
    """Seconds and runs without an answer beside the paper's; without bootstrap, and with it."""
    own = runs.assign(depth=[_depth(d) for d in runs.depth])
    title = f"DRAFT, table {number}, {'100 trees' if by == 'depth' else 'trees of any depth'}"
    plain: list[dict[str, Any]] = []
    hidden: list[dict[str, Any]] = []
    for line in published.to_dict("records"):
        mine = own[(own.dataset == line["dataset"]) & (own[by].astype(str) == str(line[by]))]
        point = {"dataset": line["dataset"], by: line[by]}
        for draws, lines in (("none", plain), ("hidden", hidden)):
            part = mine[mine.bootstrap == draws]
            if not part.empty:
                lines.append(point | _against(part, line, draws))
    note = "Runs without an answer: of five in the paper, after five hours on 16 threads. "
    notes = [
        f"{note}Published seconds are means over runs with an answer; ours over all.",
        f"{note}The paper gives no seconds here: its runs took the five hours.",
    ]
    return [
        Table(f"draft-table-{number}-{name}", f"{title}: {what}", pd.DataFrame(lines), said)
        for name, what, lines, said in (
            ("no-bootstrap", "no bootstrap", plain, notes[0]),
            ("bootstrap", "bootstrap, draws hidden", hidden, notes[1]),
        )
        if lines
    ]


def _against(part: pd.DataFrame, line: Mapping[Any, Any], draws: str) -> dict[str, Any]:
    seconds, open_ = float(part.seconds.mean()), _open(part)
    theirs = line["unanswered" if draws == "none" else "unanswered_bootstrap"]
    known = {"published s": line["seconds"]} if draws == "none" else {}
    ratio = {"ratio": line["seconds"] / seconds} if known else {}
    ahead = open_ / len(part) <= theirs / 5 and (not known or seconds < line["seconds"])
    return {
        **known,
        "treeleak s": seconds,
        **ratio,
        "published open": f"{theirs} of 5",
        "open": f"{open_} of {len(part)}",
        "error": float(part.error.mean()),
        "guess": float(part.guess.mean()),
        "verdict": _verdict(ahead),
    }


def _open(runs: pd.DataFrame) -> int:
    return int((runs.status == UNANSWERED).sum())


def _verdict(ahead: bool) -> str:
    return "ahead" if ahead else "BEHIND"


def _no_figures(runs: pd.DataFrame) -> dict[str, Figure]:  # noqa: ARG001
    return {}


TABLE_2 = Study(
    name="draft-table-2",
    paper=PAPER,
    what="table 2: run time with 100 trees, by depth",
    full=lambda: list(_cross(SEEDS, [100], DEPTHS, ("none", "hidden"))),
    quick=lambda: (
        list(_cross([0], [100], DEPTHS, ("none",), time_limit=5.0))
        + list(_cross([0], [100], [None], ("hidden",), time_limit=10.0))
    ),
    run=attack,
    tables=lambda runs: _times(runs, read_published("draft_table_2"), "depth", 2),
    figures=_no_figures,
    seconds=_seconds,
    warm=_warm,
    check=_have_tables,
    needs=NEEDS,
)

_TABLE_3_TREES = (1, 10, 30, 50, 80, 100)

TABLE_3 = Study(
    name="draft-table-3",
    paper=PAPER,
    what="table 3: run time with trees of any depth, by their number",
    full=lambda: list(_cross(SEEDS, _TABLE_3_TREES, [None], ("none", "hidden"))),
    quick=lambda: (
        list(_cross([0], _TABLE_3_TREES, [None], ("none",), time_limit=10.0))
        + list(_cross([0], [10], [None], ("hidden",), time_limit=10.0))
    ),
    run=attack,
    tables=lambda runs: _times(runs, read_published("draft_table_3"), "n_trees", 3),
    figures=_no_figures,
    seconds=_seconds,
    warm=_warm,
    check=_have_tables,
    needs=NEEDS,
)

STUDIES: Sequence[Study] = (TABLE_2, TABLE_3)
