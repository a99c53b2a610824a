"""The reconstructor network of DRAFT-DP's appendix G, beside the exact posterior.

Balle, Cherubin and Hayes (2022) train a network that reads the parameters of a model and writes the
one training row that is missing; DRAFT-DP's authors adapted it to forests. It is a yardstick: the
posterior of the missing row is known exactly, so no network can do better, and how much worse it
does says what published attacks of this kind leave on the table.

A shadow forest has the trees of the released one and is trained on the known rows and one row
more. What it adds to the counts of the known rows is a one in one leaf of each tree, under the
row's class, and noise. So shadow forests need not be trained: that is drawn. Rows that the released
forest was not trained on serve as shadow rows, and one network serves for all missing rows.

The paper says "1,600 pairs (shadow forest, shadow row)". Networks trained on one forest for each of
1,600 rows learn the noise by heart: they err more than the published ones at epsilon 20 and 30, by
two to four standard errors. With five for each row, hardly more than chance is between them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

import treeleak
from experiments.claims import claims_table
from experiments.studies.dp_claims import of_network
from experiments.studies.dp_runs import informed_forest
from experiments.studies.draft_dp import (
    BUDGETS,
    PERFECT,
    against_budget,
    informed_grid,
    informed_study,
)
from experiments.studies.network import Floats, train
from experiments.studies.published import read_published
from experiments.study import AGREES, DIFFERS, Parameters, Record, Study, Table, verdict
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.datasets import Dataset
from treeleak.learn import DPForestClassifier
from treeleak.metrics.individual import Individual

SHADOWS = 1_600
"""Shadow rows; the paper's number."""
DRAWS = 5
"""Shadow forests of each shadow row, with noise of their own: see above."""
THEIR_RUNS = 10
"""Runs behind each published mean."""
NEAR = 0.02
"""How far the network's mean error may lie from the published one."""


def against_network(parameters: Parameters) -> Record:
    """Rebuild the same missing rows by the exact posterior and by a network.

    Parameters
    ----------
    parameters : mapping
        As for :func:`~experiments.studies.dp_runs.informed_attack`; noise is the paper's.

    Returns
    -------
    dict
        Of the network ``error``, ``perfect``, the same for inliers and outliers, and ``seconds``;
        of the posterior ``exact``, ``exact_perfect`` and ``exact_seconds``; and ``majority``.
    """
    p = parameters
    data, chosen, forest = informed_forest(p)
    X, y = data.X.iloc[chosen].reset_index(drop=True), data.y.iloc[chosen].reset_index(drop=True)
    exact = treeleak.informed_audit(
        forest, X, y, data.schema, n_targets=p["n_targets"], seed=p["seed"]
    )
    targets = exact.targets.index.to_numpy()
    start = time.perf_counter()
    rows = by_network(forest, data, chosen, targets, p["epsilon"] / p["n_trees"], p["seed"])
    seconds = time.perf_counter() - start
    wrong = (rows != X.to_numpy()[targets]).mean(axis=1)
    own = Individual(wrong, exact.targets["outlier"].to_numpy())
    return {
        "error": own.all.error,
        "perfect": own.all.perfect,
        "inliers": own.inliers.error,
        "outliers": own.outliers.error,
        "perfect_inliers": own.inliers.perfect,
        "perfect_outliers": own.outliers.perfect,
        "seconds": seconds,
        "exact": exact.individual.all.error,
        "exact_perfect": exact.individual.all.perfect,
        "exact_seconds": exact.seconds,
        "majority": exact.means["majority"],
    }


def by_network(
    forest: DPForestClassifier,
    data: Dataset,
    chosen: IntArray,
    targets: IntArray,
    budget: float,
    seed: int,
) -> IntArray:
    """Rebuild missing rows by a network: zeros and ones, shape (n_targets, n_columns).

    The forest was trained on the ``chosen`` rows of ``data``; ``targets`` says which of these are
    the missing ones, each by itself. ``budget`` is epsilon of one tree, as the law of the noise.
    """
    rng = np.random.default_rng([seed, 1])
    values = data.X[list(forest.feature_names_in_)]
    places = _places(forest, values, data.y)
    noisy = _released(forest)
    left = noisy - np.bincount(places[chosen].ravel(), minlength=len(noisy))
    others = np.setdiff1d(np.arange(len(values)), chosen)
    shadow = np.tile(rng.choice(others, SHADOWS, replace=False), DRAWS)
    noise = np.trunc(rng.laplace(scale=1 / budget, size=(len(shadow), len(noisy))))
    pairs = _added(noise, places[shadow])
    rows = values.to_numpy(dtype=np.float32)
    network = train(pairs, rows[shadow], rng)
    # All rows are taken off, and the missing one is put back.
    seen = _added(np.tile(left, (len(targets), 1)), places[chosen][targets])
    found = network.logits(seen) > 0
    return pd.DataFrame(found.astype(int), columns=values.columns)[list(data.X)].to_numpy()


def _released(forest: DPForestClassifier) -> FloatArray:
    """Counts that the forest states: of tree after tree, leaf after leaf, each class."""
    stated = [t.counts[t.leaves].ravel() for t in forest.trees_ if t.counts is not None]
    return np.concatenate(stated)


def _places(forest: DPForestClassifier, values: pd.DataFrame, y: pd.Series[Any]) -> IntArray:
    """Which of these counts each row adds one to, shape (n_rows, n_trees)."""
    rows = values.to_numpy(dtype=float)
    label = pd.Index(forest.classes_).get_indexer(pd.Index(y))
    n_classes, before, out = len(forest.classes_), 0, []
    for tree in forest.trees_:
        out.append(before + np.searchsorted(tree.leaves, tree.apply(rows)) * n_classes + label)
        before += len(tree.leaves) * n_classes
    return np.column_stack(out)


def _added(counts: FloatArray, places: IntArray) -> Floats:
    """Add to each line of counts what one row adds."""
    out = counts.astype(np.float32)
    np.add.at(out, (np.arange(len(out))[:, None], places), 1)
    return out


# ---------------------------------------------------------------------------------- what is shown


def _error(sd: float, n: int, published_sd: float) -> float:
    """Give the standard error of the difference between our mean of ``n`` runs and theirs."""
    return float(np.hypot(sd / np.sqrt(n), published_sd / np.sqrt(THEIR_RUNS))) if n > 1 else np.nan


def _beside_published(runs: pd.DataFrame) -> list[Table]:
    """Lay the network beside the published one, and the posterior beside both attacks."""
    lines = read_published("draft_dp_figure_15").itertuples(index=False)
    published: dict[Any, Any] = {(line.dataset, line.epsilon): line for line in lines}
    network, exact, near = [], [], list[float]()
    for key, part in runs.groupby(["dataset", "epsilon"]):
        theirs, mean = published[key], part.select_dtypes("number").mean()
        first = dict(zip(("dataset", "epsilon"), key, strict=True))
        error = _error(part.error.std(), len(part), theirs.network_sd)
        near.append(2 * norm.cdf(NEAR / error) - 1)
        network.append(
            first | {
                "published": theirs.network, "network": mean.error,
                "published sd": theirs.network_sd, "sd": part.error.std(),
                "apart": (mean.error - theirs.network) / error,
                "inliers": mean.inliers, "outliers": mean.outliers,
                "% perfect": 100 * mean.perfect, "% inliers": 100 * mean.perfect_inliers,
                "% outliers": 100 * mean.perfect_outliers, "runs": len(part),
                "published s": theirs.network_seconds, "s": mean.seconds,
                "verdict": AGREES if abs(mean.error - theirs.network) <= NEAR else DIFFERS,
            }
        )  # fmt: skip
        exact.append(
            first | {
                "published": theirs.attack, "treeleak": mean.exact, "network": mean.error,
                "majority": mean.majority, "% perfect": 100 * mean.exact_perfect,
                "network % perfect": 100 * mean.perfect, "runs": len(part),
                "verdict": verdict(bool(mean.exact < min(theirs.attack, theirs.network))),
            }
        )  # fmt: skip
    agree = f"{np.sum(near):.1f} lines of {len(near)} would agree"
    by_chance = f"; if nothing but chance lay between means, {agree}"
    told = (
        f"{SHADOWS:,} shadow rows, {DRAWS} shadow forests of each, three hidden layers of 1,024, "
        "512 and 256, five epochs; one network for each forest, 100 of whose rows are missing in "
        f"turn. Published: the authors' means over {THEIR_RUNS} runs, whose forests and missing "
        f"rows are others. Agrees: no further than {NEAR:g} apart"
        f"{by_chance if np.isfinite(near).all() else ''}. Apart: the difference in its standard "
        "errors. Figure 15 draws inliers and outliers, figure 17 the perfect rows."
    )
    of_exact = (
        "Same forests, same missing rows. Published: the authors' own attack (figure 13). Ahead: "
        "below both of their means, that of the attack and that of the network. Majority: of each "
        "column, from the known rows alone."
    )
    name, title = "draft-dp-figure-15", "DRAFT-DP, figures 13, 15 and 17"
    return [
        Table(name, f"{title}: a network for the one missing row", pd.DataFrame(network), told),
        Table(
            f"{name}-exact",
            f"{title}: the exact posterior beside it",
            pd.DataFrame(exact),
            of_exact,
        ),
        claims_table(name, title, of_network(runs)),
    ]


_OF_NETWORK = {
    15: {"error": "all", "inliers": "inliers", "outliers": "outliers", "exact": "treeleak, all"},
    17: PERFECT,
}

STUDIES: Sequence[Study] = (
    informed_study(
        name="draft-dp-figure-15",
        what="figures 13, 15 and 17: a reconstructor network beside the exact posterior",
        full=lambda: informed_grid(range(10), BUDGETS),
        quick=lambda: informed_grid([0], (20.0, 1000.0)),
        run=against_network,
        tables=_beside_published,
        figures=lambda runs: against_budget(runs, _OF_NETWORK),
        seconds=lambda p: {"compas": 14.0, "default_credit": 17.0, "adult": 20.0}[p["dataset"]],
    ),
)
