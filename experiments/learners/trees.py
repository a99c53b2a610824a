"""The best decision trees on 0/1 columns."""

from __future__ import annotations

import numpy as np
import pandas as pd

from experiments.learners.binary_table import BinaryTable
from experiments.learners.kernels import Search
from experiments.learners.rule_lists import best_literal, errors_of
from experiments.learners.subcubes import Subcubes, enumerate_subcubes
from treeleak.core.arrays import BoolArray, IntArray
from treeleak.release import AllRows, Release
from treeleak.release.growing import GrowingTree
from treeleak.release.statistics import ROWS, Statistics
from treeleak.release.tree import LEAF, Tree


def optimal_trees(X: pd.DataFrame, y: pd.Series, most: int, support: float) -> list[Release]:
    """Find, for each depth up to ``most``, the tree with the greatest training accuracy.

    As DL8.5's, it splits also where that does not lower the error, as long as depth and support
    allow and a node is not of one class. Ties go to the column that comes first.

    Parameters
    ----------
    X : DataFrame of 0/1 values
    y : Series
    most : int
        Depth.
    support : float
        Share of the training rows that each leaf keeps at least, rounded down to whole rows, and
        one row in any case.
    """
    table = BinaryTable.of(X, y)
    search = Search(False, max(1, int(support * table.n_rows)))
    found = enumerate_subcubes(table, search, most)
    trees = (_walk(table, search, found, k) for k in range(1, most + 1))
    return [Release((tree,), table.names, table.classes, AllRows(), table.n_rows) for tree in trees]


def _walk(table: BinaryTable, search: Search, found: Subcubes, depth: int) -> Tree:
    tree, counts = GrowingTree(), list[IntArray]()

    def grow(state: int, rows: BoolArray, steps: int, parent: int, side: int) -> None:
        counts.append(table.counts(rows))
        step, literal = None, -1
        if steps and errors_of(counts[-1]):
            step = found.step(state, steps)
            # A part of which no more is known stands as one that nothing improves.
            literal = step[0] if step else best_literal(table, rows, search)
        if literal < 0:
            tree.add(parent=parent, side=side)
            return
        node = tree.add(literal // 2, 0.5, parent, side)
        right = table.values[:, literal // 2]
        one, other = step[1:] if step else (LEAF, LEAF)
        grow(one, rows & ~right, steps - 1, node, 0)
        grow(other, rows & right, steps - 1, node, 1)

    grow(found.root, np.ones(table.n_rows, dtype=bool), depth, LEAF, 0)
    return tree.tree(Statistics.counting(ROWS, np.array(counts, dtype=np.float64)))
