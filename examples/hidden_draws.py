"""A default forest without its seeds: what it still discloses about its rows, and how surely.

    python examples/hidden_draws.py

Trains a forest on bundled data, removes the seeds, and rebuilds the rows from its counts. Then
finds out whether some records are in the training set, and estimates a figure of it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import skops.io
from sklearn.ensemble import RandomForestClassifier

import treeleak


def main() -> None:
    data = treeleak.datasets.load_compas()
    X = data.X.sample(100, random_state=0)
    y = data.y[X.index]
    forest = RandomForestClassifier(max_depth=3).fit(X, y)
    for part in (forest, *forest.estimators_):
        part.random_state = None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.skops"
        skops.io.dump(forest, file)
        result = treeleak.reconstruct(file, data.schema, bootstrap="hidden", time_limit=8)
    print(f"{result.status}: {result.n_rows} rows from {result.evidence}")
    print(f"Expected error, the attack's own estimate: {result.expected_error:.1%} of the values")
    error = treeleak.metrics.reconstruction_error(result.X, X, data.schema)
    print(f"{error:.1%} are wrong.")

    everybody = data.X.assign(label=data.y)
    members = everybody.loc[X.index]
    others = everybody.merge(members.drop_duplicates(), how="left", indicator=True)
    others = others[others.pop("_merge") == "left_only"]
    for name, records in (("of the training set", members), ("that nobody in it has", others)):
        chance = result.membership(records.sample(5, random_state=0))
        print(f"records {name}: probabilities", ", ".join(f"{p:.2f}" for p in chance))

    share = result.expectation(lambda rows, label: label[rows["sex:Male"] == 1].mean())
    truth = y[X["sex:Male"] == 1].mean()
    print(f"share of class 1 among men: {share}; in truth {truth:.2f}")


if __name__ == "__main__":
    main()
