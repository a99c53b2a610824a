"""DRAFT's figure 5 and appendix D: default forests of which columns or rows are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from experiments.beside import beside_runs, draw_published
from experiments.claims import claims_table
from experiments.data import DATASETS, NAMES, draft
from experiments.drawing import (
    COLOURS,
    MARKERS,
    from_zero,
    legend_below,
    panels,
    styled,
)
from experiments.partial_error import partial_error
from experiments.studies.dp_runs import known_names
from experiments.studies.draft_claims import of_known_columns, of_known_rows
from experiments.studies.draft_runs import (
    LIMIT,
    SEEDS,
    UNANSWERED,
    answered,
    draft_study,
    means_of,
)
from experiments.studies.published import read_published
from experiments.study import Parameters, Record, Study, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ATTRIBUTES = {"compas": 7, "adult": 14, "default_credit": 16}
_SHARES = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


def attack_knowing(parameters: Parameters) -> Record:
    """Attack a default forest, draws hidden, with columns or rows known; measure the rest.

    Parameters
    ----------
    parameters : mapping
        ``dataset``, ``what`` ("attributes" or "examples"), ``known`` (attributes, or the share of
        the 100 rows), ``seed`` and ``time_limit``.
    """
    from sklearn.ensemble import RandomForestClassifier

    from experiments.draft_tables import draft_sample

    p = parameters
    data = draft(p["dataset"])
    X, y = draft_sample(data, 100, p["seed"])
    forest = RandomForestClassifier(random_state=p["seed"]).fit(X, y)
    mask = pd.DataFrame(data=False, index=X.index, columns=X.columns)
    told: dict[str, Any] = {}
    if p["what"] == "attributes":
        columns = known_names(data, int(p["known"]), p["seed"])
        if columns:
            told["known_columns"] = X[columns]
        mask[columns] = True
    elif p["known"]:
        rng = np.random.default_rng(p["seed"])
        rows = np.sort(rng.permutation(len(X))[: round(float(p["known"]) * len(X))])
        told["known_rows"] = X.iloc[rows].assign(label=y.iloc[rows])
    result, seconds = answered(forest, data.schema, "hidden", p["time_limit"], p["seed"], **told)
    if result is None:
        return {"seconds": seconds, "status": UNANSWERED, "error": np.nan}
    error = np.nan
    if result.X is not None:
        known = mask if p["what"] == "attributes" else result.known
        given = mask if known is None else known
        error = partial_error(result.X, X, given, data.schema)
    return {"seconds": seconds, "status": result.status, "error": error}


def _partly(seeds: Sequence[int], what: str, limit: float, every: int = 1) -> list[dict[str, Any]]:
    return [
        {"dataset": name, "what": what, "known": known, "seed": seed, "time_limit": limit}
        for name in DATASETS
        for known in (range(_ATTRIBUTES[name]) if what == "attributes" else _SHARES)[::every]
        for seed in seeds
    ]


def _partial_table(runs: pd.DataFrame, name: str, title: str) -> list[Table]:
    keys = ["dataset", "what", "known"]
    means = means_of(runs.astype({"known": float}), keys, sd=("error", "std"))
    frame = beside_runs(means, read_published("draft_partial"), keys).drop(columns="what")
    note = (
        "Error of what was not known. Published: mean error of the authors' runs, which the paper "
        "draws for attributes, and says of rows that these hardly help. Ahead: no greater."
    )
    claims = of_known_columns if "attributes" in set(runs.what) else of_known_rows
    return [
        Table(name, title, frame, note),
        claims_table(name, title.partition(":")[0], claims(runs)),
    ]


def _partial_drawn(runs: pd.DataFrame, name: str, label: str) -> dict[str, Figure]:
    published = read_published("draft_partial")
    with styled():
        figure, axes = panels(1, len(DATASETS), share_x=False)
        for ax, dataset in zip(axes[0], DATASETS, strict=True):
            grouped = runs[runs.dataset == dataset].groupby("known").error
            mean, sd = grouped.mean(), grouped.std().fillna(0.0)
            ax.errorbar(
                mean.index, mean, sd, color=COLOURS[0], marker=MARKERS[0], capsize=2,
                label="treeleak, mean and sd",
            )  # fmt: skip
            theirs = published[(published.dataset == dataset) & published.what.isin(runs.what)]
            draw_published(ax, theirs, "known")
            ax.set(title=NAMES[dataset], xlabel=label)
        axes[0, 0].set_ylabel("error of the rest")
        from_zero(axes)
        legend_below(figure, axes[0, 0])
    return {name: figure}


def _partial_study(
    name: str,
    where: str,
    parts: str,
    what: str,
    every: int,
    label: str,
    seconds: Callable[[Parameters], float],
) -> Study:
    return draft_study(
        name=name,
        what=f"{where}: error of the rest where some {parts} are known",
        full=lambda: _partly(SEEDS, what, LIMIT),
        quick=lambda: _partly([0], what, 5.0, every),
        run=attack_knowing,
        tables=lambda runs: _partial_table(runs, name, f"DRAFT, {where}: some {parts} known"),
        figures=lambda runs: _partial_drawn(runs, name, label),
        seconds=seconds,
        warm=lambda p: {
            **p, "dataset": "compas", "known": 1 if what == "attributes" else 0.1, "seed": 0,
        },
        experiment="",
    )  # fmt: skip


FIGURE_5 = _partial_study(
    "draft-figure-5", "figure 5", "attributes", "attributes", 3, "attributes known",
    lambda p: min(20.0, float(p["time_limit"])),
)  # fmt: skip
KNOWN_EXAMPLES = _partial_study(
    "draft-known-examples", "appendix D", "rows", "examples", 2, "share of the rows known",
    lambda p: min(20.0 * (1.0 - float(p["known"])) + 0.5, float(p["time_limit"])),
)  # fmt: skip
