"""The best decision tree on 0/1 columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted

from experiments.learners.binary_table import BinaryTable, read_columns
from experiments.learners.optimal import OptimalModel, best_literal, errors_of
from experiments.learners.subcube_kernels import Search
from experiments.learners.subcubes import Subcubes
from treeleak.core.arrays import BoolArray, IntArray
from treeleak.learn.checks import flag
from treeleak.release.growing import GrowingTree
from treeleak.release.statistics import ROWS, Statistics
from treeleak.release.tree import LEAF, Tree

MAX_DEPTH = 60


class OptimalTreeClassifier(OptimalModel):
    """Decision tree of 0/1 columns with the greatest training accuracy there is.

    Ties go to the column that comes first.

    Parameters
    ----------
    max_depth : int, default 5
    min_support : float, default 0.01
        Share of the training rows that each leaf keeps at least, rounded down to whole rows, and
        one row in any case.
    full : bool, default False
        Split also where that does not lower the error, as long as depth and support allow and a
        node is not of one class: so does DL8.5, and tells more of the rows for nothing.
    max_states : int, default 5_000_000
        Sets of rows to look at before the search is given up. Each takes a few hundred bytes.
    time_limit : float or None, default None
        Seconds for the search. Ctrl-C also ends it.

    Attributes
    ----------
    tree_ : Tree
        With the rows of each class in every node. If the search was ended, the best tree that it
        or CART found.
    optimal_ : bool
        Whether the tree is proved to be best. If not, ``fit`` warns.
    bound_ : float
        Training accuracy that no such tree exceeds; that of the tree itself if it is optimal.
    n_states_ : int
        Sets of rows that were looked at.
    classes_, n_features_in_, feature_names_in_
        As in scikit-learn; columns of an array are named ``x0``, ``x1`` and so on.
    """

    _size = "max_depth"
    _most = MAX_DEPTH

    def __init__(
        self,
        max_depth: int = 5,
        *,
        min_support: float = 0.01,
        full: bool = False,
        max_states: int = 5_000_000,
        time_limit: float | None = None,
    ) -> None:
        self.max_depth = max_depth
        self.min_support = min_support
        self.full = full
        self.max_states = max_states
        self.time_limit = time_limit

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row.

        Parameters
        ----------
        X : DataFrame or array of 0/1 values, shape (n_rows, n_columns)
            A DataFrame's columns are found by name.
        """
        check_is_fitted(self, "tree_")
        values, _ = read_columns(X, self.feature_names_in_.tolist())
        counts = self.tree_.counts
        assert counts is not None  # noqa: S101
        leaf = self.tree_.apply(values.astype(np.float64))
        said: NDArray[Any] = self.classes_[counts.argmax(axis=1)[leaf]]
        return said

    def _search(self, support: float, n_rows: int) -> Search:
        return Search(False, max(1, int(support * n_rows)))

    def _keep_best(self, table: BinaryTable, search: Search, found: Subcubes, k: int) -> int:
        tree = _walk(table, search, found, k, flag("full", self.full))
        if _error(tree) > found.bounds[k]:
            tree = min(tree, _cart(table, search.least, k), key=_error)
        self.classes_ = table.classes
        self.n_features_in_ = len(table.names)
        self.feature_names_in_ = np.array(table.names, dtype=object)
        self.tree_ = tree
        return _error(tree)


def _walk(table: BinaryTable, search: Search, found: Subcubes, depth: int, full: bool) -> Tree:
    tree, counts = GrowingTree(), list[IntArray]()

    def grow(state: int, rows: BoolArray, steps: int, parent: int, side: int) -> None:
        counts.append(table.counts(rows))
        useless = found.error(state, steps) == found.error(state, 0)
        if useless and not (full and steps and errors_of(counts[-1])):
            tree.add(parent=parent, side=side)
            return
        step = found.step(state, steps)
        # A part of which no more is known stands as one that nothing improves.
        literal, one, other = step or (best_literal(table, rows, search), LEAF, LEAF)
        if literal < 0:
            tree.add(parent=parent, side=side)
            return
        node = tree.add(literal // 2, 0.5, parent, side)
        right = table.values[:, literal // 2]
        grow(one, rows & ~right, steps - 1, node, 0)
        grow(other, rows & right, steps - 1, node, 1)

    grow(found.root, np.ones(table.n_rows, dtype=bool), depth, LEAF, 0)
    return tree.tree(Statistics.counting(ROWS, np.array(counts, dtype=np.float64)))


def _cart(table: BinaryTable, least: int, depth: int) -> Tree:
    fitted = DecisionTreeClassifier(max_depth=depth, min_samples_leaf=least, random_state=0)
    grown = fitted.fit(table.values, table.labels).tree_
    reached = fitted.decision_path(table.values).toarray().astype(bool)
    counts = np.array([table.counts(own) for own in reached.T], dtype=np.float64)
    leaf = grown.children_left == LEAF
    return Tree(
        np.where(leaf, LEAF, grown.feature).astype(np.int64),
        np.where(leaf, np.nan, 0.5),
        grown.children_left.astype(np.int64),
        grown.children_right.astype(np.int64),
        np.zeros(grown.node_count, dtype=bool),
        Statistics.counting(ROWS, counts),
    )


def _error(tree: Tree) -> int:
    assert tree.counts is not None  # noqa: S101
    return int(errors_of(tree.counts[tree.leaves].astype(np.int64)).sum())
