"""Write small models of Yggdrasil decision forests, and what the library says of rows.

    python -m venv v && v/bin/pip install ydf==0.16.1 pandas
    v/bin/python tools/make_ydf_models.py tests/models/ydf

Each model is a folder; ``truth.json`` has the training rows and, for rows that lie at thresholds
and right below them, what each model predicts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import ydf

N = 60
LEARNERS = {
    "forest": (ydf.RandomForestLearner, "class", {"num_trees": 40, "winner_take_all": False}),
    "boosted": (ydf.GradientBoostedTreesLearner, "class", {"num_trees": 5}),
    "several": (ydf.GradientBoostedTreesLearner, "kind", {"num_trees": 2, "use_hessian_gain": True,
                                                          "l2_regularization": 2.0}),
    "single": (ydf.CartLearner, "kind", {}),
    "targets": (ydf.RandomForestLearner, "amount", {"num_trees": 3}),
}  # fmt: skip


def table() -> pd.DataFrame:
    """Rows with numbers, categories, truth values and gaps."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({
        "size": rng.normal(size=N), "age": rng.integers(0, 9, N),
        "colour": rng.choice(["red", "green", "é blue"], N), "flag": rng.random(N) < 0.4,
    })  # fmt: skip
    X.loc[:4, "size"] = np.nan
    score = X["size"].fillna(0) + X.age / 4 + 2 * (X.colour == "red") + rng.normal(size=N)
    cuts = np.quantile(score, [0.4, 0.7])
    X["class"] = np.where(score > cuts[0], "yes", "no")
    X["kind"] = np.digitize(score, cuts)
    X["amount"] = score.round(2)
    return X


def main(folder: Path) -> None:
    """Train the models, and write them with their predictions."""
    ydf.verbose(0)
    X, truth = table(), {}
    inputs = [c for c in X if c not in ("class", "kind", "amount")]
    for name, (learner, target, settings) in LEARNERS.items():
        task = ydf.Task.REGRESSION if target == "amount" else ydf.Task.CLASSIFICATION
        model = learner(label=target, task=task, **settings).train(X[[*inputs, target]])
        model.save(str(folder / name), ydf.ModelIOOptions(file_prefix="x_" * (name == "single")))
        tried = X[inputs].copy()
        # The label comes first among the columns.
        size = model.input_feature_names().index("size") + 1
        cuts = [
            node.condition.threshold
            for t in range(model.num_trees())
            for node in _nodes(model.get_tree(t).root)
            if getattr(node.condition, "attribute", None) == size
            and hasattr(node.condition, "threshold")
        ]
        ends = np.array(cuts[: N // 2], dtype=np.float32)
        tried.loc[: len(ends) - 1, "size"] = ends
        below = np.nextafter(ends, np.float32(-np.inf))
        tried.loc[N - len(ends) :, "size"] = below
        truth[name] = {
            "tried": json.loads(tried.to_json(orient="split", double_precision=15)),
            "predictions": model.predict(tried, use_slow_engine=True).tolist(),
        }
    (folder / "truth.json").write_text(
        json.dumps(
            {"rows": json.loads(X.to_json(orient="split", double_precision=15)), "models": truth}
        )
    )


def _nodes(node):
    """List the tests of a tree."""
    if hasattr(node, "condition"):
        yield node
        yield from _nodes(node.neg_child)
        yield from _nodes(node.pos_child)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
