"""How well each single training row was rebuilt, and whether outliers fare better or worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.core.errors import BadInput
from treeleak.core.private import dataclass
from treeleak.metrics.encoding import Table, table_columns
from treeleak.metrics.matching import Matching, best_matching
from treeleak.schema import Schema


@dataclass(frozen=True)
class Group:
    """Some of the training rows.

    Attributes
    ----------
    n_rows : int
    error : float
        Mean over the rows; NaN without rows, as all that follows.
    perfect : float
        Share of the rows without any difference.
    worst : float
        Error of the row that was rebuilt worst.
    """

    n_rows: int
    error: float
    perfect: float
    worst: float


@dataclass(frozen=True, eq=False)
class Individual:
    """Errors row by row.

    Attributes
    ----------
    errors : float array, shape (n_rows,)
        Mean distance of each training row's values from those of the rebuilt row matched with it;
        NaN where all of them were known. The best matching is not always the only one: sums over
        all rows are, single errors need not be.
    outlier : bool array, shape (n_rows,)
    """

    errors: FloatArray
    outlier: BoolArray

    @property
    def all(self) -> Group:
        """All rows."""
        return self._group(np.ones(len(self.errors), dtype=bool))

    @property
    def inliers(self) -> Group:
        """Rows that resemble others."""
        return self._group(~self.outlier)

    @property
    def outliers(self) -> Group:
        """Outliers."""
        return self._group(self.outlier)

    def _group(self, member: BoolArray) -> Group:
        errors = self.errors[member & ~np.isnan(self.errors)]
        if not len(errors):
            return Group(0, np.nan, np.nan, np.nan)
        return Group(
            len(errors), float(errors.mean()), float((errors == 0).mean()), float(errors.max())
        )

    def to_dict(self) -> dict[str, Any]:
        """Describe the groups (formats/audit.schema.json); null where a group has no rows."""
        groups = {"all": self.all, "inliers": self.inliers, "outliers": self.outliers}
        none = {"n_rows": 0, "error": None, "perfect": None, "worst": None}
        return {name: asdict(group) if group.n_rows else none for name, group in groups.items()}


def individual_errors(
    X_rec: Table,
    X_true: Table,
    schema: Schema | None = None,
    known: pd.DataFrame | NDArray[Any] | Sequence[str] | None = None,
    seed: int = 0,
    matching: Matching | None = None,
) -> Individual:
    """Measure each training row against the rebuilt row matched with it.

    After DRAFT-DP's table III.

    Parameters
    ----------
    X_rec, X_true, schema
        As for :func:`~treeleak.metrics.reconstruction_error`.
    known
        Which values of ``X_rec`` were known (see :attr:`Reconstruction.known`), or the names of the
        columns that were: these do not count.
    seed : int
        Of :func:`find_outliers`.
    matching : Matching, optional
        The best one, where it is known already.

    Returns
    -------
    Individual
        In the order of ``X_true``.

    Raises
    ------
    BadInput
        As for :func:`~treeleak.metrics.reconstruction_error`.
    """
    matched, distance = matching or best_matching(X_rec, X_true, schema)
    names = table_columns(X_rec, X_true, schema)
    known_mask = np.zeros(distance.shape, dtype=bool)
    if known is not None:
        known_mask = known_values(known, names, distance.shape)
    open_ = (~known_mask).sum(axis=1)
    errors = np.full(len(distance), np.nan)
    found = (distance * ~known_mask).sum(axis=1)
    np.divide(found, open_, out=errors, where=open_ > 0)
    in_order = np.empty_like(errors)
    in_order[matched] = errors
    rows = pd.DataFrame(X_true)
    if isinstance(X_true, pd.DataFrame):
        rows = rows.set_axis([str(c) for c in rows.columns], axis=1)[names]
    return Individual(in_order, find_outliers(rows, seed))


def find_outliers(X: pd.DataFrame, seed: int = 0) -> BoolArray:
    """Tell outliers with an isolation forest in scikit-learn's default settings, as DRAFT-DP does.

    Texts are numbered in the order of their values; a missing value lies below all others.

    Returns an array of shape (n_rows,).
    """
    # Takes a second to load, and only this needs it.
    from sklearn.ensemble import IsolationForest

    plain = pd.DataFrame(
        {
            k: X[c] if pd.api.types.is_numeric_dtype(X[c]) else pd.factorize(X[c], sort=True)[0]
            for k, c in enumerate(X)
        }
    ).astype(float)
    filled = plain.fillna(plain.min() - 1).fillna(0.0).to_numpy()
    return np.asarray(IsolationForest(random_state=seed).fit_predict(filled) < 0)


def known_values(
    known: pd.DataFrame | NDArray[Any] | Sequence[str],
    names: Sequence[str],
    shape: tuple[int, ...],
) -> BoolArray:
    """Write what was known, however it is said, as one truth value per value of a table.

    ``known``: as for :func:`individual_errors`. ``names``: columns of the table. ``shape``: its
    rows and columns. Raises BadInput if it does not fit the table.
    """
    if isinstance(known, pd.DataFrame):
        known = known.set_axis([str(c) for c in known.columns], axis=1)
        if absent := [c for c in names if c not in known.columns]:
            raise BadInput(f"what is known does not name column {absent[0]!r}")
        mask = known[list(names)].to_numpy(dtype=bool)
    elif isinstance(known, np.ndarray) and known.dtype == bool:
        mask = known
    else:
        if absent := [c for c in known if c not in names]:
            raise BadInput(f"column {absent[0]!r} is known, but is not compared")
        mask = np.broadcast_to(np.isin(names, list(known)), shape)
    if mask.shape != shape:
        raise BadInput(f"what is known has shape {mask.shape}, the rows {shape}")
    return mask
