"""Tables that an answer writes: its rows, and those of its datasets."""

from __future__ import annotations

import numpy as np

from treeleak.attacks.answer import Answer


def written(chosen: np.ndarray, answer: Answer, n_features: int) -> np.ndarray:
    """Rows of numbered values, with the class in a last column."""
    X = answer.values.rows(chosen[:, :-1], n_features)
    return np.column_stack([X, chosen[:, -1] - answer.values.start[-2]])


def dataset(atoms: np.ndarray, answer: Answer, n_features: int) -> np.ndarray:
    """Rows of numbered atoms, each with the first value that it stands for."""
    return written(answer.values.first[atoms], answer, n_features)
