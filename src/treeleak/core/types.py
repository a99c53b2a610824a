"""What users give: the types of rows, labels and fitted models."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

import pandas as pd
from numpy.typing import NDArray

Place = str | os.PathLike[str]
"""Of a file."""
Rows = pd.DataFrame | NDArray[Any] | Sequence[Sequence[Any]]
"""Rows of a table."""
Labels = pd.Series | pd.DataFrame | NDArray[Any] | Sequence[Any]
"""One of each row."""


class Predicts(Protocol):
    """A fitted estimator."""

    def predict(self, X: Any, /) -> Any:
        """Answer for each row."""


class Transforms(Protocol):
    """A fitted estimator that does not predict, such as trees that encode rows by their leaves."""

    def transform(self, X: Any, /) -> Any:
        """Encode each row."""


Estimator = Predicts | Transforms
