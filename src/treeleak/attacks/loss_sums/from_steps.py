"""Rows from what leaves add, where nothing counts them.

Non-negative least squares give how many rows of each class there are in each cell: near whole
numbers, where the steps of leaves are as exact as they should be; or of shares, which have to be
multiplied until they are whole.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.loss_sums.certificate import independent
from treeleak.attacks.loss_sums.least_squares import fit
from treeleak.attacks.loss_sums.search import MOST_SURE, CellFit, Search
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.evidence import MAX_ROWS, LeafValueEvidence

_NEAR, _NEAR_SHARES = 0.1, 0.02
"""How far from whole numbers rows may be; the second where only shares are told."""
_SHARES_SURE = 0.5
"""Probability of rows then, if the leaves do not tie all kinds of rows together: some of these
alone may explain the leaves in which they lie, and be more than they seem."""
_USED = 1e-6
"""Least share of the largest number of rows that counts as any."""
_TIMES = 4
"""Most rows of the rarest kind, where only shares are told."""


def rows_from_steps(search: Search) -> CellFit | None:
    """Find rows whose leaves would have taken the steps that they took; None if there are none yet.

    What is found meets all steps, within their rounding.
    """
    evidence, got = search.evidence, list[CellFit]()
    assert isinstance(evidence, LeafValueEvidence)  # noqa: S101
    column_set = search.by_class(evidence.statements())
    # No leaf was grown for nobody; those that no cell reaches are not asked.
    some = np.unique(search.partition.signature)
    size = float(np.abs(column_set.columns.right).sum())

    def report(residual: FloatArray) -> None:
        off = float(np.abs(residual).sum()) / size
        search.clock.report_progress("fitting what leaves add", 0.7 * (1.0 - min(off, 1.0)))

    def accept(chosen: IntArray, x: NDArray[Any]) -> bool:
        for m in _whole(x, shares=evidence.shares_only):
            leaf = column_set.columns.leaf[chosen]
            held = np.bincount(
                leaf.ravel(), np.repeat(m, leaf.shape[1]), column_set.columns.n_leaves
            )
            if not held[some].all():
                continue
            known = replace(search, evidence=replace(evidence, held=held.astype(np.int64)))
            known_columns = known.by_class(known.evidence.statements())
            tied = not evidence.shares_only or independent(column_set.columns, chosen[m > 0])
            sure = np.full(len(m), MOST_SURE if tied else _SHARES_SURE)
            found = known.classed(known_columns, chosen, m, sure)
            if not found.missed:
                got.append(found)
                return True
        return False

    ended = fit(column_set.columns, search.clock, accept, report)
    return replace(got[0], rounds=ended.rounds) if got else None


def _whole(x: FloatArray, *, shares: bool) -> list[IntArray]:
    """Whole numbers near some numbers; of shares, near multiples of them, small ones first."""
    used = x > _USED * x.max(initial=0.0)
    if not used.any():
        return []
    unit = float(x[used].min())
    out = []
    for times in range(1, _TIMES + 1) if shares else (1,):
        rows = x * (times / unit if shares else 1.0)
        m = np.rint(rows)
        near = _NEAR_SHARES if shares else _NEAR
        if np.abs(rows - m).max() <= near and 0 < m.sum() <= MAX_ROWS:
            out.append(m.astype(np.int64))
    return out
