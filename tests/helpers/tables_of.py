"""Tables that an answer writes: its rows, and those of its datasets."""

from __future__ import annotations

import numpy as np

from treeleak.attacks.answer import Answer


def labelled(chosen: np.ndarray, answer: Answer, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of numbered values in the model's columns, and their classes."""
    X = answer.values.rows(chosen[:, :-1], n_features)
    return X, chosen[:, -1] - answer.values.start[-2]


def written(chosen: np.ndarray, answer: Answer, n_features: int) -> np.ndarray:
    """The same with the class in a last column."""
    return np.column_stack(labelled(chosen, answer, n_features))


def dataset(atoms: np.ndarray, answer: Answer, n_features: int) -> np.ndarray:
    """Rows of numbered atoms, each with the first value that it stands for."""
    return written(answer.values.first[atoms], answer, n_features)
