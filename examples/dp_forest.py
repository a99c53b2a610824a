"""A differentially private forest: what does its epsilon buy?

    python examples/dp_forest.py

Trains forests with three budgets on bundled data and saves them. Audits each file like its owner,
with other rows of the population to compare with. Rebuilds rows like an adversary who has only the
file.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import skops.io

import treeleak
from treeleak.learn import DPForestClassifier


def main() -> None:
    data = treeleak.datasets.load_compas()
    X = data.X.sample(80, random_state=0)
    y = data.y[X.index]
    others = data.X.drop(X.index).sample(800, random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        for epsilon in (0.1, 5.0, 50.0):
            forest = DPForestClassifier(10, 4, epsilon, schema=data.schema, classes=[0, 1])
            file = Path(folder) / f"epsilon-{epsilon}.skops"
            skops.io.dump(forest.fit(X, y), file)
            audit = treeleak.audit(
                file, X, y, schema=data.schema, control=others, n_rows=len(X), time_limit=5
            )
            found = audit.measurement
            print(f"epsilon = {audit.budget.cost:g}: {audit.verdict}")
            print(
                f"  {found.error:.1%} of the values are wrong; {found.shape.error:.1%} in a "
                f"baseline without the counts, {found.significance.train_vs_other_draws:.1%} "
                "for an adversary who knows the population"
            )
            print(f"  {found.significance.as_near} of 100 control samples are as near")

        result = treeleak.reconstruct(file, data.schema, time_limit=5)
    print(f"Without the number of rows: {result.row_count}")
    print(f"Expected error, the attack's own estimate: {result.expected_error:.1%} of the values")
    strangers = others[~others.apply(tuple, axis=1).isin(X.apply(tuple, axis=1))]
    for whose, records in (("of the training set", X), ("of other people", strangers)):
        chance = ", ".join(f"{p:.2f}" for p in result.membership(records.head(4)))
        print(f"records {whose}: probabilities {chance}")


if __name__ == "__main__":
    main()
