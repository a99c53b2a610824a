"""Trees on COMPAS beside the published runs of Ferry et al. (2024), seed by seed.

Runs are those of the study ferry-figure-2; what the store lacks is run first. Figures 2 to 7 and
what the paper says of them are studies of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from experiments import as_frame, carry_out, find_study, plan
from experiments.benchmarks.options import Options
from experiments.benchmarks.tables import CONSOLE, new_table, published_runs, verdict
from experiments.standing import runs_of
from experiments.store import FOLDER, Store, store_file
from experiments.studies.ferry import SIZES, SUPPORTS, TREES, models_of

PUBLISHED_NAMES = dict(zip(TREES, ("DL8.5", "sklearn_DT"), strict=True))
TOLERANCE = 0.01


def beside_published(models: pd.DataFrame) -> None:
    """Print mean shares of entropy left beside the published ones."""
    runs = published_runs("probabilistic_2024_trees_compas.csv")
    if runs is None:
        return
    runs = runs.rename(columns={"min_support": "support", "max_depth": "limit"}).assign(
        theirs=runs.entropy_reduction_ratio, their_train=runs.train_acc,
        seed=runs.random_state_value,
    )  # fmt: skip
    runs["method"] = runs.method.map({theirs: ours for ours, theirs in PUBLISHED_NAMES.items()})
    both = models[models.dataset == "compas"].merge(runs, on=["method", "support", "limit", "seed"],
                                                    suffixes=("", "_theirs"))  # fmt: skip
    if both.empty:
        CONSOLE.print("no published runs on these seeds")
        return
    out = new_table(
        f"compas, share of entropy left, ours / published, means over {both.seed.nunique()} seeds",
        "trees, support, " + ", ".join(f"depth {d}" for d in SIZES) + ", within 0.01", "trees",
    )  # fmt: skip
    means = both.groupby(["method", "support", "limit"])[["left", "theirs"]].mean()
    for method in TREES:
        for support in SUPPORTS:
            own = means.loc[method, support]
            near = (own.left - own.theirs).abs() <= TOLERANCE
            cells = [f"{a:.3f}/{b:.3f}" for a, b in zip(own.left, own.theirs, strict=True)]
            out.add_row(method, f"{support:g}", *cells, f"{near.sum()} of {len(near)}")
    CONSOLE.print(out)
    gap = (means.left - means.theirs).abs()
    for method in TREES:
        own = gap.loc[method]
        same = both[both.method == method]
        equal = np.isclose(same.train, same.their_train, atol=1e-5)
        CONSOLE.print(
            f"{method}: largest difference of means {own.max():.4f}, within {TOLERANCE}: "
            f"{(own <= TOLERANCE).sum()} of {len(own)}: {verdict(bool((own <= TOLERANCE).all()))}; "
            f"training accuracy equal in {equal.sum()} of {len(equal)} runs, "
            f"never lower: {bool((same.train >= same.their_train - 1e-5).all())}"
        )


def main(args: Sequence[str]) -> None:
    options = Options("interpretable", __doc__, kept=False)
    options.add_argument("--out", type=Path, default=FOLDER, metavar="DIR")
    options.add_argument("--jobs", type=int, default=2, metavar="N", help="runs at once")
    chosen = options.parse_args(args)
    study, store = find_study("ferry-figure-2"), Store(store_file(chosen.out))
    outcome = carry_out(plan(study, store), store, chosen.jobs)
    for parameters, why in outcome.failed:
        CONSOLE.print(f"{dict(parameters)}: {why}")
    runs = runs_of(study, store, quick=False)
    beside_published(models_of(as_frame(runs)))
