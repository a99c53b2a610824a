"""Write small forests of diffprivlib and the rows behind them, with whatever version is installed.

    python -m venv v && v/bin/pip install diffprivlib==0.6.6 "scikit-learn<1.9" skops
    v/bin/python tools/make_diffprivlib_models.py tests/models

With a budget of a million, a leaf names the largest class of its rows, whatever the noise: that
shows which rows each tree saw.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import skops.io
from diffprivlib.models import RandomForestClassifier

N, TREES = 60, 4


def main(folder: Path) -> None:
    """Write one forest without noise and one with, of the same rows."""
    rng = np.random.default_rng(3)
    X = rng.integers(0, 2, (N, 3)).astype(float)
    y = rng.integers(0, 3, N)
    name = f"diffprivlib_{version('diffprivlib')}"
    for kind, epsilon in (("certain", 1e6), ("private", 0.75)):
        model = RandomForestClassifier(
            TREES, epsilon=epsilon, bounds=(0, 1), classes=[0, 1, 2], max_depth=2, random_state=0
        )
        skops.io.dump(model.fit(X, y), folder / f"{name}_{kind}.skops", compression=8)
    rows = {"X": X.tolist(), "y": y.tolist()}
    (folder / f"{name}.json").write_text(json.dumps(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
