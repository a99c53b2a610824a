"""How close a reconstruction is to the training rows, and whom it singles out."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.audit.training import TrainingRows
from treeleak.metrics import exact_row_share, random_baseline, reconstruction_error
from treeleak.reconstruction import Reconstruction
from treeleak.release.tree import Release

__all__ = ["Measurement", "measure", "singled_out"]


@dataclass(frozen=True)
class Measurement:
    """A reconstruction against the true rows.

    Attributes
    ----------
    error : float
        Share of values that are wrong, under the best matching of rows.
    exact_rows : float
        Share of the true rows that were rebuilt without any difference.
    located_rows : float
        Share of the true rows that were rebuilt without a difference that any tree could tell. A
        number is never rebuilt exactly, for trees only narrow it down.
    guess_mean, guess_sd : float
        Error of random guesses that know the schema and nothing of the model.
    compared : str
        What was compared first, to see that these are the training rows.
    """

    error: float
    exact_rows: float
    located_rows: float
    guess_mean: float
    guess_sd: float
    compared: str

    def to_dict(self) -> dict[str, float | str]:
        """Describe the measurement (formats/audit.schema.json)."""
        return asdict(self)


def measure(
    reconstruction: Reconstruction, truth: TrainingRows, release: Release, seed: int = 0
) -> Measurement | None:
    """Compare a reconstruction with the training rows; None if there are no rows to compare."""
    if reconstruction.X is None or reconstruction.X.empty:
        return None
    guess = random_baseline(truth.X, reconstruction.schema, seed=seed)
    return Measurement(
        error=reconstruction_error(reconstruction.X, truth.X, reconstruction.schema),
        exact_rows=exact_row_share(reconstruction.X, truth.X),
        located_rows=exact_row_share(_leaves(reconstruction.X, release), _leaves(truth.X, release)),
        guess_mean=guess.mean,
        guess_sd=guess.std,
        compared=truth.checked,
    )


def _leaves(X: pd.DataFrame, release: Release) -> NDArray[np.int64]:
    """Leaf of every row in every tree."""
    table = X[list(release.feature_names)]
    rows = np.ascontiguousarray(table.to_numpy(dtype=release.float_type))
    return np.column_stack([tree.apply(rows) for tree in release.trees])


def singled_out(reconstruction: Reconstruction, release: Release) -> int:
    """Count the rows that are proved, and proved to share their place with no other of their class.

    A proof that four hundred rows have the same value in the one column that a tree tests is a
    statistic. A proof that one row lies where no other does speaks of a person. It is there where
    a leaf counts a single row; and where every row (of the class, if classes are counted) is
    proved, since then the rebuilt rows tell of each place how many lie there.
    """
    X, y, proved = reconstruction.X, reconstruction.y, reconstruction.proved
    if X is None or y is None or proved is None or X.empty:
        return 0
    by_class = release.counts_are == "rows"
    number = {c: i for i, c in enumerate(release.classes)}
    label = np.array([number.get(v, 0) if by_class else 0 for v in y], dtype=np.int64)
    leaves = _leaves(X, release)
    sure = proved.to_numpy(dtype=bool)
    complete = np.array([sure[label == c].all() for c in range(label.max() + 1)])[label]
    _, group, size = np.unique(
        np.column_stack([label, leaves]), axis=0, return_inverse=True, return_counts=True
    )
    alone = complete & (size[group.ravel()] == 1)
    for tree, leaf in zip(release.trees, leaves.T, strict=True):
        if by_class and tree.counts is not None:
            alone |= tree.counts[leaf, label] == 1
        elif tree.totals is not None:
            alone |= tree.totals[leaf] == 1
    return int((alone & sure).sum())
