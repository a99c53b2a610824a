"""Gambs et al. (2012): what a decision tree on raw Adult records tells of them.

200 records, 14 raw attributes, each a domain of whole numbers or of categories as in the whole
table. Trees are trained on the first 1 to 200 of the records; the distance is that of the rebuilt
dataset, filled up with unknown rows, to all 200. The paper's trees are C4.5's, as WEKA's J48, whose
runs are stored; scikit-learn's, trained anew, split on the gain of information as well, but cut the
codes of categories where C4.5 gives each a branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from experiments.claims import falls
from experiments.study import AGREES, DIFFERS, Parameters, Record, Study, Table
from treeleak.core.errors import BadInput

if TYPE_CHECKING:
    from treeleak.schema import Schema
    from treeleak.uncertainty import ProbabilisticDataset

PAPER = "Gambs 2012"
C45, CART = "C4.5", "CART"
SEEDS = range(50)
N_ROWS = 200
TRAINED_ON = (1, 2, 5, *range(10, N_ROWS + 1, 10))


def trees_on_more_and_more(parameters: Parameters) -> Record:
    """Train trees on more and more of the records.

    Parameters
    ----------
    parameters : mapping
        ``learner`` ("CART"), ``n_rows`` and ``seed``.
    """
    n_rows = parameters["n_rows"]
    if parameters["learner"] != CART:
        raise BadInput(f"{parameters['learner']}: its runs are stored, and not made anew")
    schema, table, y = raw_adult()
    chosen = np.random.default_rng(parameters["seed"]).permutation(len(table))[:n_rows]
    X, y = table.iloc[chosen].reset_index(drop=True), y.iloc[chosen].reset_index(drop=True)
    sizes = [n for n in TRAINED_ON if n <= n_rows]
    rebuilt = {n: _rebuilt(X[:n], y[:n], schema) for n in sizes}
    return {
        "trained_on": sizes,
        "dist": [(n * d.dist() + n_rows - n) / n_rows for n, d in rebuilt.items()],
        "own": [d.dist() for d in rebuilt.values()],
        "joint": [d.dist_g() for d in rebuilt.values()],
        "worlds": [d.contains(X[:n], y[:n].tolist()) for n, d in rebuilt.items()],
    }


@cache
def raw_adult() -> tuple[Schema, pd.DataFrame, pd.Series[Any]]:
    """Load all records with categories as codes; domains are as in the whole table."""
    from treeleak.datasets import load_adult
    from treeleak.schema import Attribute, Categorical, Ordinal, Schema

    data = load_adult()
    attributes: list[Attribute] = []
    columns: dict[str, Any] = {}
    for name, values in cast(pd.DataFrame, data.raw).items():
        if pd.api.types.is_numeric_dtype(values):
            attributes.append(Ordinal(str(name), int(values.min()), int(values.max())))
            columns[str(name)] = values
        else:
            codes, labels = pd.factorize(values, sort=True)
            attributes.append(Categorical(str(name), labels=tuple(labels)))
            columns[str(name)] = codes
    return Schema(attributes), pd.DataFrame(columns), data.y


def _rebuilt(X: pd.DataFrame, y: pd.Series[Any], schema: Schema) -> ProbabilisticDataset:
    from sklearn.tree import DecisionTreeClassifier

    from treeleak.uncertainty import from_tree

    tree = DecisionTreeClassifier(criterion="entropy", random_state=0)
    return _with_classes(from_tree(tree.fit(X, y), schema))


def _with_classes(found: ProbabilisticDataset) -> ProbabilisticDataset:
    """Know both classes, also where the first records have one only."""
    if found.classes == (0, 1):
        return found
    counts = np.zeros((len(found.counts), 3), dtype=np.int64)
    for i, label in enumerate(found.classes):
        counts[:, int(label)] = found.counts[:, i]
    return replace(found, classes=(0, 1), counts=counts)


def _grid(seeds: Sequence[int], learners: Sequence[str] = (CART,)) -> list[dict[str, Any]]:
    return [{"learner": m, "n_rows": N_ROWS, "seed": seed} for m in learners for seed in seeds]


# --------------------------------------------------------------------------- figure 1: distance


def _distances(runs: pd.DataFrame) -> list[Table]:
    lines = []
    for learner, own in runs.groupby("learner", sort=False):
        dist, mine, joint = (np.array(own[c].tolist()) for c in ("dist", "own", "joint"))
        low, high = np.quantile(dist, [0.05, 0.95], axis=0)
        for i, n in enumerate(own.trained_on.iloc[0]):
            lines.append(
                {
                    "learner": learner, "trained on": n, "Dist": dist[:, i].mean(), "5 %": low[i],
                    "95 %": high[i], "Dist of its own rows": mine[:, i].mean(),
                    "Dist_G of its own rows": joint[:, i].mean(),
                }
            )  # fmt: skip
    note = (
        f"Dist to all {N_ROWS} records: 1 where nothing is known, 0 where all is. Means and "
        f"quantiles over {runs.seed.nunique()} draws of the records. The paper draws this line for "
        "one draw and prints no numbers for it."
    )
    table = Table("gambs-figure-1", "Gambs 2012, figure 1: distance", pd.DataFrame(lines), note)
    return [table, _claims(runs)]


def _claims(runs: pd.DataFrame) -> Table:
    lines = []
    for learner, own in runs.groupby("learner", sort=False):
        means = np.array(own.dist.tolist()).mean(axis=0)
        worlds = np.concatenate(own.worlds.tolist())
        for says, so, enough in (
            ("more records bring what is rebuilt nearer", falls(means), 0.9),
            ("the true records are among the worlds", worlds, 1.0),
        ):
            verdict = AGREES if so.mean() >= enough else DIFFERS
            lines.append(
                {"the paper says": says, "learner": learner,
                 "treeleak": f"{so.sum()} of {so.size}", "verdict": verdict}
            )  # fmt: skip
    title = "Gambs 2012, figure 1: what the paper says of it"
    note = (
        "Nearer: of all pairs of sizes whose mean distances differ, those in which the larger is "
        "nearer; nine in ten agree. Worlds: of all trees."
    )
    return Table("gambs-figure-1-claims", title, pd.DataFrame(lines), note)


STUDIES: Sequence[Study] = (
    Study(
        name="gambs-figure-1",
        paper=PAPER,
        what="figure 1: distance by records trained on",
        full=lambda: _grid(SEEDS),
        quick=lambda: _grid(SEEDS[:3]),
        run=trees_on_more_and_more,
        tables=_distances,
        warm=lambda p: {**p, "n_rows": 20},
        experiment="gambs",
        everywhere=lambda: _grid(SEEDS, (C45, CART)),
    ),
)
