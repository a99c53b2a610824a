"""Answers to known draws, whose row k is row k of the training set."""

from __future__ import annotations

import numpy as np

from treeleak.attacks.answer import Answer
from treeleak.release.release import Release

from .cases import Drawn
from .releases import leaves_of, summed
from .tables_of import written


def table_of(answer: Answer, release: Release) -> np.ndarray:
    """Rows of an answer with the class in a last column."""
    (rows,) = answer.rows
    return written(rows.values, answer, release.n_features)


def misfit_of(case: Drawn, table: np.ndarray, distinct: bool) -> float:
    """Counts that a table misses, by following each row alone."""
    leaves, y = leaves_of(case.release, table[:, :-1]), table[:, -1].astype(int)
    misfit = 0.0
    for t, tree in enumerate(case.release.trees):
        b = case.b[t].astype(float)
        by_class = b[:, None] * np.eye(len(case.release.classes))[y]
        misfit += np.abs((summed(tree, leaves[:, t], by_class) - tree.counts)[tree.leaves]).sum()
        if distinct:
            found = summed(tree, leaves[:, t], (b > 0).astype(float))
            misfit += np.abs((found - tree.distinct)[tree.leaves]).sum()
    return misfit


def check_form(answer: Answer, case: Drawn, distinct: bool) -> np.ndarray:
    """What holds of every answer with rows; gives the table."""
    (rows,) = answer.rows
    assert answer.ordered
    assert len(rows.values) == case.b.shape[1]
    table = table_of(answer, case.release)
    assert case.schema.valid(table[:, :-1], case.release.feature_names).all()
    assert rows.misfit == misfit_of(case, table, distinct)
    assert (rows.misfit == 0) == (answer.status in ("unique", "feasible"))
    assert rows.confidence.shape == rows.values.shape
    assert (rows.confidence > 0).all()
    assert (rows.confidence <= 1).all()
    # Of a row that no tree drew the counts say nothing.
    assert not rows.proved[~case.seen].any()
    assert (rows.confidence[~case.seen] < 1).all()
    assert ((rows.confidence < 1) | rows.proved[:, None]).all()
    assert (answer.status == "unique") <= (rows.proved.all() and (rows.confidence == 1).all())
    return table
