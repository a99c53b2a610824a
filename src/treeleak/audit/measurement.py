"""How close a reconstruction is to the training rows, and whom it singles out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.metrics import exact_row_share, random_baseline, reconstruction_error
from treeleak.reconstruction import Reconstruction
from treeleak.release.tree import Release
from treeleak.training import TrainingRows

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
    exact_in_order, located_in_order : float or None
        The same shares of rows, but of those rebuilt in their own place: row k as row k. None
        where the reconstruction has no order.
    error_in_order : float or None
        Share of values that are wrong where each row is compared with the one in its place,
        without the columns of numbers, as the reconstruction's own ``expected_error``.
    """

    error: float
    exact_rows: float
    located_rows: float
    guess_mean: float
    guess_sd: float
    compared: str
    exact_in_order: float | None = None
    located_in_order: float | None = None
    error_in_order: float | None = None

    def to_dict(self) -> dict[str, float | str | None]:
        """Describe the measurement (formats/audit.schema.json)."""
        return asdict(self)


def measure(
    reconstruction: Reconstruction, truth: TrainingRows, release: Release, seed: int = 0
) -> Measurement | None:
    """Compare a reconstruction with the training rows; None if there are no rows to compare."""
    if reconstruction.X is None or reconstruction.X.empty:
        return None
    rebuilt, true = reconstruction.X, truth.X
    rebuilt_leaves, true_leaves = _leaves(rebuilt, release), _leaves(true, release)
    guess = random_baseline(true, reconstruction.schema, seed=seed)
    exact_in_order = located_in_order = error_in_order = None
    if reconstruction.ordered:
        same = _same(rebuilt[true.columns].to_numpy(), true.to_numpy())
        exact_in_order = float(same.all(axis=1).mean())
        located_in_order = float(_same(rebuilt_leaves, true_leaves).all(axis=1).mean())
        if (told := ~true.columns.isin(reconstruction.interval_columns)).any():
            error_in_order = float((~same[:, told]).mean())
    return Measurement(
        error=reconstruction_error(rebuilt, true, reconstruction.schema),
        exact_rows=exact_row_share(rebuilt, true),
        located_rows=exact_row_share(rebuilt_leaves, true_leaves),
        guess_mean=guess.mean,
        guess_sd=guess.std,
        compared=truth.checked,
        exact_in_order=exact_in_order,
        located_in_order=located_in_order,
        error_in_order=error_in_order,
    )


def _same(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray((a == b) | (np.isnan(a) & np.isnan(b)))


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

    Where row k is row k of the training set, a proof names the row. There, a proved row counts
    if no other rebuilt row has its place: to prove that all rows are alike is no proof about any.
    A leaf that counts a single draw may hold rows that its tree did not draw, and proves nothing.
    """
    X, y, proved = reconstruction.X, reconstruction.y, reconstruction.proved
    if X is None or y is None or proved is None or X.empty:
        return 0
    by_class = reconstruction.ordered or release.counts_are == "rows"
    number = {c: i for i, c in enumerate(release.classes)}
    label = np.array([number.get(v, 0) if by_class else 0 for v in y], dtype=np.int64)
    leaves = _leaves(X, release)
    sure = proved.to_numpy(dtype=bool)
    _, group, size = np.unique(
        np.column_stack([label, leaves]), axis=0, return_inverse=True, return_counts=True
    )
    alone = size[group.ravel()] == 1
    if reconstruction.ordered:
        return int((alone & sure).sum())
    alone &= np.array([sure[label == c].all() for c in range(label.max() + 1)])[label]
    for tree, leaf in zip(release.trees, leaves.T, strict=True):
        if by_class and tree.counts is not None:
            alone |= tree.counts[leaf, label] == 1
        elif tree.totals is not None:
            alone |= tree.totals[leaf] == 1
    return int((alone & sure).sum())
