"""How close a reconstruction is to the training rows, and whom it singles out."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

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
    guess_mean, guess_sd : float
        Error of random guesses that know the schema and nothing of the model.
    compared : str
        What was compared first, to see that these are the training rows.
    """

    error: float
    exact_rows: float
    guess_mean: float
    guess_sd: float
    compared: str

    def to_dict(self) -> dict[str, float | str]:
        """Describe the measurement (formats/audit.schema.json)."""
        return asdict(self)


def measure(
    reconstruction: Reconstruction, truth: TrainingRows, seed: int = 0
) -> Measurement | None:
    """Compare a reconstruction with the training rows; None if there are no rows to compare."""
    if reconstruction.X is None or reconstruction.X.empty:
        return None
    guess = random_baseline(truth.X, reconstruction.schema, seed=seed)
    return Measurement(
        error=reconstruction_error(reconstruction.X, truth.X, reconstruction.schema),
        exact_rows=exact_row_share(reconstruction.X, truth.X),
        guess_mean=guess.mean,
        guess_sd=guess.std,
        compared=truth.checked,
    )


def singled_out(reconstruction: Reconstruction, release: Release) -> int:
    """Count the rows that are proved, and that no other row shares its leaves and class with.

    A proof that four hundred rows have the same value in the one column that a tree tests is a
    statistic. A proof that one row lies where no other does speaks of a person.
    """
    if reconstruction.X is None or reconstruction.y is None or reconstruction.proved is None:
        return 0
    if not len(reconstruction.X):
        return 0
    rows = np.ascontiguousarray(reconstruction.X.to_numpy(dtype=release.float_type))
    label = pd.factorize(reconstruction.y)[0]
    signature = np.column_stack([label, *(tree.apply(rows) for tree in release.trees)])
    _, group, size = np.unique(signature, axis=0, return_inverse=True, return_counts=True)
    alone = size[group.ravel()] == 1
    return int((alone & reconstruction.proved.to_numpy(dtype=bool)).sum())
