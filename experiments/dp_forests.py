"""The differentially private forests of DRAFT-DP's Table I, as releases."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from experiments.data import draft_schema
from treeleak.core.errors import BadInput, BadModel
from treeleak.release.noise.laws import Laplace
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows
from treeleak.release.statistics import ROWS, Statistics
from treeleak.release.tree import LEAF, Tree

_PREFIX = "dp_forests_"


def load_dp_forest(
    path: str | Path, n_trees: int, depth: int, seed: int, epsilon: float | None
) -> Release:
    """Load a forest of DRAFT-DP: trees on 0/1 columns, and counts with the paper's noise.

    From an archive named ``dp_forests_<table>.npz``, table one of DRAFT's. The noise of each count
    is int(Lap(n_trees / epsilon)), without epsilon none. The release does not say how many rows
    there were: the paper's forests were trained on 100. Raises BadInput if there is no such forest.
    """
    path = Path(path)
    columns = draft_schema(path.stem.removeprefix(_PREFIX)).columns
    key = f"trees{n_trees}_depth{depth}_seed{seed}"
    kind = "counts" if epsilon is None else f"noisy_eps{epsilon:g}"
    try:
        with np.load(path, allow_pickle=False) as archive:
            parts = ("feature", "left", "right", kind)
            feature, left, right, counts = (archive[f"{key}_{part}"] for part in parts)
    except KeyError as error:
        raise BadInput(f"{path}: no forest {error.args[0]}") from error
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: {error}") from error
    trees = []
    for t in range(n_trees):
        try:
            # Nodes beyond the last of a smaller tree are nobody's children.
            n = 1 + int(max(left[t].max(), right[t].max(), 0))
            leaf = left[t, :n] < 0
            trees.append(
                Tree(
                    np.where(leaf, LEAF, feature[t, :n]).astype(np.int64),
                    np.where(leaf, np.nan, 0.5),
                    np.where(leaf, LEAF, left[t, :n]).astype(np.int64),
                    np.where(leaf, LEAF, right[t, :n]).astype(np.int64),
                    np.zeros(n, dtype=bool),
                    Statistics.counting(ROWS, counts[t, :n].astype(np.float64)),
                )
            )
        except (BadModel, IndexError) as error:
            raise BadInput(f"{path}: {key}, tree {t}: {error}") from error
    return Release(
        trees=tuple(trees),
        feature_names=tuple(columns),
        classes=(0, 1),
        sampling=AllRows(),
        n_rows=None,
        noise=None if epsilon is None else Laplace(epsilon / n_trees, "towards zero"),
        origin="DRAFT-DP (diffprivlib, adapted)",
    )
