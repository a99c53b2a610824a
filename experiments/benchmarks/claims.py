"""Raw Adult, its categories as codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import treeleak


def raw_adult(n: int) -> tuple[pd.DataFrame, Any, pd.DataFrame, Any]:
    """Draw rows of raw Adult, its categories as codes: rows, their labels, and all others' too."""
    data = treeleak.datasets.load_adult()
    table = coded(data.raw)
    order = np.random.default_rng(0).permutation(len(table))
    y = np.asarray(pd.factorize(data.y)[0])[order]
    return table.iloc[order[:n]], y[:n], table.iloc[order[n:]], y[n:]


def coded(X: pd.DataFrame) -> pd.DataFrame:
    """Write categories as codes."""
    texts = [c for c in X if not pd.api.types.is_numeric_dtype(X[c])]
    return X.assign(**{c: X[c].astype("category").cat.codes for c in texts})
