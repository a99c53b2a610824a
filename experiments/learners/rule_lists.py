"""Rule lists of single literals: the greedy ones, and the best ones."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from experiments.learners.binary_table import BinaryTable
from experiments.learners.kernels import Search
from experiments.learners.subcubes import Subcubes, enumerate_subcubes
from treeleak.core.arrays import BoolArray, IntArray
from treeleak.release import Condition, DecisionRule, RuleList


def greedy_lists(X: pd.DataFrame, y: pd.Series, most: int, support: float) -> list[RuleList]:
    """Grow lists of up to 1 to ``most`` rules, each the best one for the rows that reach it.

    Best is the least Gini impurity of the rows captured and of the rest, weighted by their numbers;
    a list ends where no rule lowers it. Ties go to the literal that comes first: in the order of
    the columns, 1 before 0.

    Parameters
    ----------
    X : DataFrame of 0/1 values
    y : Series
    most : int
        Rules, without the default.
    support : float
        Share of the training rows that each rule captures at least, and one row in any case.
    """
    table = BinaryTable.of(X, y)
    least, rules = _least(support, table.n_rows), list[int]()
    left = np.ones(table.n_rows, dtype=bool)
    while len(rules) < most and left.any():
        total = table.counts(left)
        met = table.counts_by_literal(left)
        size = met.sum(axis=1)
        rest = total - met
        with np.errstate(invalid="ignore"):
            score = np.nan_to_num((met**2).sum(axis=1) / size) + np.nan_to_num(
                (rest**2).sum(axis=1) / rest.sum(axis=1)
            )
        best, chosen = float((total**2 / total.sum()).sum()), -1
        for literal in np.flatnonzero(size >= least).tolist():
            # Less than rounding may do is a tie.
            if score[literal] > best * (1 + 1e-12):
                best, chosen = float(score[literal]), literal
        if chosen < 0:
            break
        rules.append(chosen)
        left &= ~table.meets(chosen)
    return [_rule_list(table, rules[:k]) for k in range(1, most + 1)]


def optimal_lists(X: pd.DataFrame, y: pd.Series, most: int, support: float) -> list[RuleList]:
    """Find, for each number of rules up to ``most``, the list with the greatest training accuracy.

    Among the best lists it is a shortest one. Ties go to the literal that comes first. Parameters
    as for :func:`greedy_lists`.
    """
    table = BinaryTable.of(X, y)
    search = Search(True, _least(support, table.n_rows))
    found = enumerate_subcubes(table, search, most)
    return [_rule_list(table, _walk(table, search, found, k)) for k in range(1, most + 1)]


def _least(support: float, n_rows: int) -> int:
    """Fewest rows, one at least, that are no smaller a share of all rows than ``support``."""
    rows = math.ceil(support * n_rows)
    # The product is rounded, so its ceiling may be one too many.
    return max(1, rows - 1 if (rows - 1) / n_rows >= support else rows)


def errors_of(counts: IntArray) -> IntArray:
    """Rows outside the most frequent class; classes along the last axis."""
    out: IntArray = counts.sum(axis=-1) - counts.max(axis=-1)
    return out


def best_literal(table: BinaryTable, rows: BoolArray, search: Search) -> int:
    """Find the first literal that leaves the least error; -1 where the support allows none."""
    met, total = table.counts_by_literal(rows), table.counts(rows)
    size, n = met.sum(axis=1), int(total.sum())
    if search.lists:
        enough = (size >= search.least) & (size > 0) & (size < n)
    else:
        # Which side comes first makes no difference to a split.
        enough = (np.minimum(size, n - size) >= search.least) & (np.arange(len(size)) % 2 == 0)
    error = np.where(enough, errors_of(met) + errors_of(total - met), n + 1)
    return int(error.argmin()) if enough.any() else -1


def _walk(table: BinaryTable, search: Search, found: Subcubes, steps: int) -> list[int]:
    state, rules = found.root, list[int]()
    left = np.ones(table.n_rows, dtype=bool)
    while steps and found.error(state, steps) < found.error(state, 0):
        while found.error(state, steps - 1) == found.error(state, steps):
            steps -= 1
        step = found.step(state, steps)
        literal, _, state = step or (best_literal(table, left, search), -1, -1)
        rules.append(literal)
        left &= ~table.meets(literal)
        steps = steps - 1 if step else 0
    return rules


def _rule_list(table: BinaryTable, rules: list[int]) -> RuleList:
    left, counts = np.ones(table.n_rows, dtype=bool), []
    for literal in rules:
        met = table.meets(literal)
        counts.append(table.counts(left & met))
        left &= ~met
    conditions = [(Condition(table.names[x // 2], (float(x % 2 == 0),)),) for x in rules]
    *parts, default = (
        DecisionRule(when, table.classes[own.argmax()], tuple(own.tolist()))
        for when, own in zip([*conditions, ()], [*counts, table.counts(left)], strict=True)
    )
    return RuleList(table.names, table.classes, tuple(parts), default, n_rows=table.n_rows)
