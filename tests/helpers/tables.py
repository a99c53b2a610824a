"""Tables of rows to learn from."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from treeleak.datasets import Dataset, load_compas
from treeleak.schema import Binary, OneHot, Schema

Rows = tuple[np.ndarray, np.ndarray]


@st.composite
def tables(draw: st.DrawFn, most_columns: int = 4, most_rows: int = 24) -> Rows:
    n, m = draw(st.integers(1, most_rows)), draw(st.integers(1, most_columns))
    X = draw(hnp.arrays(np.int8, (n, m), elements=st.integers(0, 1)))
    return X, draw(hnp.arrays(np.int8, n, elements=st.integers(0, draw(st.integers(0, 2)))))


def errors(y: np.ndarray) -> int:
    return len(y) - int(np.bincount(y).max(initial=0))


def small_table() -> Dataset:
    """Six rows of a binary column and a group of two."""
    rows = [[0, 1, 0], [1, 1, 0], [1, 0, 1], [0, 0, 1], [0, 1, 0], [1, 0, 1]]
    X = pd.DataFrame(rows, columns=["a", "b", "c"])
    schema = Schema([Binary("a"), OneHot("g", ["b", "c"])])
    return Dataset("small", X, pd.Series([0, 0, 1, 1, 1, 1]), schema, "", "", "")


def compas_sample(n: int, seed: int = 3) -> tuple[pd.DataFrame, pd.Series, Dataset]:
    """Rows of COMPAS at random, their labels, and the table that they are from."""
    compas = load_compas()
    X = compas.X.sample(n, random_state=seed)
    return X, compas.y[X.index], compas


def shared_file(name: str, folder: str = "data") -> Path:
    """A file of the shared data, or a skipped test."""
    variable = {"data": "TREELEAK_DATA", "published": "TREELEAK_PUBLISHED"}[folder]
    beside = Path(__file__).parents[3] / "shared" / folder
    path = Path(os.environ.get(variable, beside)) / name
    if not path.is_file():
        pytest.skip(f"{path} is missing ({variable})")
    return path
