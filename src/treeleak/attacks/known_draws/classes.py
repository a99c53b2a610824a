"""Classes of rows from what whole trees count, where draws are known.

Every tree says how many draws of each class it made, and where each leaf holds one class, how many
rows of each class it drew at all: linear equations in the classes of the rows, with nothing in them
of where the rows lie.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.optimize import lsq_linear

from treeleak.attacks.solvers.cp_sat import LinearExpr, Model, run
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.evidence import KnownDraws

_DENSE = 500
"""Rows up to which matrices are written out."""
_TRY, _PROOF = 20.0, 8.0
"""Work for the integer solver (about seconds): for any classes, and for the proof."""


def find_classes(evidence: KnownDraws, clock: Clock, seed: int) -> tuple[IntArray, BoolArray]:
    """Find classes that meet what whole trees count.

    Returns
    -------
    label : int array, shape (n_rows,)
    proved : bool array, shape (n_rows,)
        Whether no other classes meet it; False for rows that no tree drew.
    """
    weight, target = _equations(evidence)
    solver: Literal["exact", "lsmr"] = "exact" if evidence.n_rows <= _DENSE else "lsmr"
    share = np.column_stack([
        lsq_linear(weight, own, (0, 1), lsq_solver=solver).x for own in target.T
    ])  # fmt: skip
    label = share.argmax(axis=1)
    model = Model()
    z = [[model.new_bool_var("") for _ in own] for own in share]
    for k, own in enumerate(z):
        model.add_exactly_one(own)
        for c, literal in enumerate(own):
            model.add_hint(literal, int(label[k] == c))
    for own, totals in zip(weight.astype(np.int64), target.tolist(), strict=True):
        drawn = np.flatnonzero(own).tolist()
        for c, total in enumerate(totals):
            literals = [z[k][c] for k in drawn]
            model.add(LinearExpr.weighted_sum(literals, own[drawn].tolist()) == total)
    ended = run(model, clock, seed, _TRY)
    if not ended.found:
        return label, np.zeros(len(label), dtype=bool)
    label = np.array([[ended.solver.boolean_value(v) for v in own] for own in z]).argmax(axis=1)
    model.clear_hints()
    drawn = np.flatnonzero(evidence.drawn).tolist()
    model.add_bool_or([~z[k][label[k]] for k in drawn])
    return label, evidence.drawn & run(model, clock, seed, _PROOF).none


def _equations(evidence: KnownDraws) -> tuple[FloatArray, IntArray]:
    """Weight of each row and total of each class, equation by equation."""
    start = evidence.geometry.leaf_start[: len(evidence.draws)]
    weight = evidence.draws.astype(float)
    target = np.add.reduceat(evidence.n, start, axis=0)
    if evidence.d is not None:
        # Of a leaf of several classes it is not told how many rows of each it holds.
        pure = (evidence.n > 0).sum(axis=1) <= 1
        told = np.logical_and.reduceat(pure, start)
        rows = np.add.reduceat(np.where(evidence.n > 0, evidence.d[:, None], 0), start, axis=0)
        weight = np.concatenate([weight, weight[told] > 0])
        target = np.concatenate([target, rows[told]])
    return weight, target
