"""Answers of attacks, whose rows are values of attributes, in the columns that were attacked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks import Answer
from treeleak.attacks.answer import Rows
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.partition.value_index import ValueIndex
from treeleak.side_information.known_tables import Filled


def unsure(table: FloatArray, label: IntArray) -> Filled:
    """Rows as they are, of which nothing is proved."""
    none = np.zeros(len(table))
    nowhere = np.zeros(table.shape)
    return Filled(table, label, nowhere, nowhere, none, none.astype(bool))


def in_columns(answer: Answer) -> Filled:
    """The rows of an answer in the columns that were attacked."""
    values = np.concatenate([r.values for r in answer.rows])
    sure = np.concatenate([r.confidence for r in answer.rows])
    proved = np.concatenate([r.proved for r in answer.rows])
    table = answer.values.rows(values[:, :-1], answer.values.n_columns)
    label = values[:, -1] - answer.values.start[-2]
    order = np.arange(len(table))
    if not answer.ordered:
        order = np.lexsort((*table.T[::-1], label))
    within = np.concatenate([_within(r) for r in answer.rows])
    return Filled(
        table[order],
        label[order],
        _by_column(sure, answer.values)[order],
        _by_column(within, answer.values)[order],
        sure[order, -1],
        proved[order],
    )


def _by_column(shares: FloatArray, values: ValueIndex) -> FloatArray:
    """What is said of attributes, said of their columns."""
    out = np.empty((len(shares), values.n_columns))
    for a, part in enumerate(values.parts):
        out[:, part.columns] = shares[:, a, None]
    return out


def _within(rows: Rows) -> FloatArray:
    if rows.within is not None:
        return rows.within
    # From leaves that rows need not be in, nothing follows.
    return np.full(rows.confidence.shape, float(not rows.misfit))


def tidy(table: FloatArray) -> NDArray[Any]:
    """Whole numbers as integers, so that a binary column reads 0 and 1."""
    # From 2^53 on, floats skip whole numbers.
    whole = bool(((np.abs(table) < 2.0**53) & (table == np.round(table))).all())
    return table.astype(np.int64) if whole else table
