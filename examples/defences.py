"""What each measure against a leak removes, and what it costs: one line per measure.

    python examples/defences.py [--rows N] [--seconds S]

Trains forests on bundled data, each with one measure. Rebuilds the rows like an adversary who has
the file and knows the schema. Prints how well each forest predicts other people, and how many of
the rebuilt values are wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace

import pandas as pd
from sklearn.ensemble import RandomForestClassifier

import treeleak
from treeleak.learn import DPForestClassifier
from treeleak.release import to_release

LARGE_SEED = 3_141_592_653


def without_seeds(forest: RandomForestClassifier) -> RandomForestClassifier:
    for part in (forest, *forest.estimators_):
        part.random_state = None
    return forest


def without_distinct(forest: RandomForestClassifier) -> treeleak.Release:
    """Leave out n_node_samples: of how many different rows the draws in a leaf were."""
    release = to_release(forest)
    trees = tuple(tree.with_counts(distinct=None) for tree in release.trees)
    return replace(release, trees=trees)


def measures(
    X: pd.DataFrame, y: pd.Series, schema: treeleak.Schema
) -> dict[str, tuple[Callable[[], object], dict[str, object]]]:
    """Name to how the model is trained, and what else the attack knows."""

    def forest(**options: object) -> RandomForestClassifier:
        return RandomForestClassifier(**{"random_state": LARGE_SEED, **options}).fit(X, y)

    def private(epsilon: float) -> DPForestClassifier:
        return DPForestClassifier(10, 4, epsilon, schema=schema, classes=[0, 1]).fit(X, y)

    hidden = {"bootstrap": "hidden"}
    return {
        "none: scikit-learn's defaults": (lambda: forest(random_state=0), {}),
        "at least 10 rows in a leaf": (lambda: forest(random_state=0, min_samples_leaf=10), {}),
        "seeds deleted, random_state=0": (lambda: without_seeds(forest(random_state=0)), {}),
        "seeds deleted, a large secret one": (lambda: without_seeds(forest()), hidden),
        "  and n_node_samples deleted": (
            lambda: without_seeds(forest()),
            hidden,
        ),
        "  and at least 10 rows in a leaf": (
            lambda: without_seeds(forest(min_samples_leaf=10)),
            hidden,
        ),
        "  and depth 3": (
            lambda: without_seeds(forest(max_depth=3)),
            hidden,
        ),
        "  and depth 3, 10 trees": (
            lambda: without_seeds(forest(max_depth=3, n_estimators=10)),
            hidden,
        ),
        "noise, epsilon = 10": (lambda: private(10), {"n_rows": len(X)}),
        "noise, epsilon = 1": (lambda: private(1), {"n_rows": len(X)}),
        "  a guess by the same attack": (
            lambda: private(1),
            {"n_rows": len(X), "method": "without-counts"},
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20)
    given = parser.parse_args()
    data = treeleak.datasets.load_compas()
    X = data.X.sample(given.rows, random_state=0)
    y = data.y[X.index]
    unseen = data.X.drop(X.index)
    truth = data.y[unseen.index]
    print(f"{'measure':34}  {'accuracy':>8}  {'status':8}  {'rows exact':>10}  error")
    for name, (train, told) in measures(X, y, data.schema).items():
        model = train()
        left = without_distinct(model) if name.startswith("  and") else model
        result = treeleak.reconstruct(left, data.schema, time_limit=given.seconds, **told)
        error = treeleak.metrics.reconstruction_error(result.X, X, data.schema)
        exact = treeleak.metrics.exact_row_share(result.X, X)
        accuracy = model.score(unseen, truth)
        print(f"{name:34}  {accuracy:8.1%}  {result.status:8}  {exact:10.0%}  {error:12.1%}")
    guess = treeleak.metrics.random_baseline(X, data.schema).mean
    majority = max(truth.mean(), 1 - truth.mean())
    print(f"{'no model: a random baseline':34}  {majority:8.1%}  {'':8}  {'':10}  {guess:12.1%}")


if __name__ == "__main__":
    main()
