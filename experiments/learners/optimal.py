"""What optimal rule lists and optimal trees share: the search, its limits, its first choices."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from experiments.learners.binary_table import BinaryTable, read_table
from experiments.learners.subcube_kernels import Search
from experiments.learners.subcubes import Subcubes, enumerate_subcubes
from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.errors import NotProvedWarning
from treeleak.learn.checks import seconds, share, whole


class OptimalModel(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Estimator that finds the best model of each size, in one search."""

    _size: ClassVar[str]
    _most: ClassVar[int]
    min_support: float
    max_states: int
    time_limit: float | None

    def fit(self, X: Any, y: Any) -> Self:
        """Find the best model.

        Parameters
        ----------
        X : DataFrame or array of 0/1 values, shape (n_rows, n_columns)
        y : sequence

        Raises
        ------
        BadInput
            Naming the column or the parameter that cannot be used.
        """
        best = self._models(X, y)[-1]
        _warn_unless_proved([best])
        self.__dict__.update(vars(best))
        return self

    def path(self, X: Any, y: Any) -> list[Self]:
        """Find the best model of every size, in one search.

        Parameters
        ----------
        X, y
            As for :meth:`fit`.

        Returns
        -------
        list
            Fitted estimators like this one: for sizes (``max_rules`` or ``max_depth``) from 1 to
            its own.
        """
        models = self._models(X, y)
        _warn_unless_proved(models)
        return models

    def _models(self, X: Any, y: Any) -> list[Self]:
        most = whole(self._size, getattr(self, self._size), 1, self._most)
        support = share("min_support", self.min_support)
        max_states = whole("max_states", self.max_states, 1)
        clock = Clock(seconds("time_limit", self.time_limit))
        table = read_table(X, y)
        search = self._search(support, table.n_rows)
        with clock.until_interrupt():
            found = enumerate_subcubes(table, search, most, max_states, clock)
        return [self._fitted(table, search, found, k) for k in range(1, most + 1)]

    def _fitted(self, table: BinaryTable, search: Search, found: Subcubes, k: int) -> Self:
        model: Self = clone(self).set_params(**{self._size: k})
        bound = int(found.bounds[k])
        error = model._keep_best(table, search, found, k)
        model.optimal_ = error == bound
        model.bound_ = 1 - bound / table.n_rows
        model.n_states_ = found.n_states
        return model

    def _search(self, support: float, n_rows: int) -> Search:
        """Say what to search."""
        raise NotImplementedError

    def _keep_best(self, table: BinaryTable, search: Search, found: Subcubes, k: int) -> int:
        """Keep the best model that the search found, or a greedy one if that is better.

        Returns the errors that it makes.
        """
        raise NotImplementedError


def _warn_unless_proved(models: Sequence[OptimalModel]) -> None:
    unproved = [m for m in models if not m.optimal_]
    if unproved:
        last = unproved[-1]
        warnings.warn(
            f"the search stopped early: the model of {last._size}={getattr(last, last._size)} "
            f"may not be the best. The best training accuracy is at most {last.bound_:.6f}. "
            "Raise time_limit or max_states to prove more.",
            NotProvedWarning,
            stacklevel=3,
        )


def errors_of(counts: IntArray) -> IntArray:
    """Rows outside the most frequent class; classes along the last axis."""
    out: IntArray = counts.sum(axis=-1) - counts.max(axis=-1)
    return out


def best_literal(table: BinaryTable, rows: BoolArray, search: Search) -> int:
    """Find the first literal that leaves the least error, as the compiled search numbers them.

    -1 where the support allows none.
    """
    values, labels = table.values[rows], table.labels[rows]
    total = table.counts(rows)
    ones = np.array([values[labels == c].sum(axis=0) for c in range(len(total))]).T
    error = errors_of(ones) + errors_of(total - ones)
    captured = np.stack([ones.sum(axis=1), (total - ones).sum(axis=1)], axis=1)
    enough = captured >= search.least
    if not search.lists:
        # Which side comes first makes no difference to a split.
        enough[:, 0], enough[:, 1] = enough.all(axis=1), False
    enough &= (captured > 0).all(axis=1, keepdims=True)
    found = np.where(enough, error[:, None], len(labels) + 1)
    return int(found.argmin()) if enough.any() else -1
