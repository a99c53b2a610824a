"""Write a small explainable boosting machine with whatever version of interpret is installed.

    python -m venv v
    v/bin/pip install interpret-core==0.6.0 "numpy<2" "pandas<2.3" "scikit-learn<1.4"
    v/bin/python tools/make_ebm_models.py tests/models/ebm

A pickle, the library's JSON, and the training rows, which are the same for all versions.
"""

import json
import pickle
import sys
import warnings
from pathlib import Path

import interpret
import numpy as np
import pandas as pd
from interpret.glassbox import ExplainableBoostingClassifier

N = 150


def main(folder: Path) -> None:
    """Train and write."""
    warnings.filterwarnings("ignore")
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 40, N).astype(float), rng.normal(size=N)
    X = pd.DataFrame({"a": a, "b": b, "c": rng.choice(list("pqr"), N).astype(object)})
    X.loc[::9, "a"] = np.nan
    y = (X.b + rng.normal(size=N) > 0).astype(int).to_numpy()
    model = ExplainableBoostingClassifier(
        interactions=2, outer_bags=2, max_rounds=10, n_jobs=1, max_interaction_bins=8
    ).fit(X, y)
    path = folder / f"{interpret.__version__}.pkl"
    path.write_bytes(pickle.dumps(model))
    model.to_json(path.with_suffix(".json"))
    document = json.loads(path.with_suffix(".json").read_text())
    path.with_suffix(".json").write_text(json.dumps(document))
    X.to_csv(folder / "rows.csv", index=False)


main(Path(sys.argv[1]))
