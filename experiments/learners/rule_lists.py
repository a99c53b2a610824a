"""Rule lists: the greedy one, and the best one with single literals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from experiments.learners.binary_table import BinaryTable, read_columns, read_table
from experiments.learners.optimal import OptimalModel, best_literal, errors_of
from experiments.learners.subcube_kernels import Search, best_rule
from experiments.learners.subcubes import Subcubes
from treeleak.core.arrays import BoolArray, IntArray
from treeleak.learn.checks import flag, rows_of, share, whole
from treeleak.release.rule_list import Condition, DecisionRule, RuleList

# A literal is twice its column, plus one where it asks for 0.
Rule = tuple[int, ...]

MAX_RULES = 1000


class _RuleListClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What estimators that keep a ``rule_list_`` have in common."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row.

        Parameters
        ----------
        X : DataFrame or array of 0/1 values, shape (n_rows, n_columns)
            A DataFrame's columns are found by name.
        """
        check_is_fitted(self, "rule_list_")
        values, names = read_columns(X, self.rule_list_.columns)
        said = self.rule_list_.predict(pd.DataFrame(values.astype(np.int8), columns=list(names)))
        return said.astype(self.classes_.dtype)

    def _keep(self, table: BinaryTable, rules: list[Rule]) -> None:
        self.classes_ = table.classes
        self.n_features_in_ = len(table.names)
        self.feature_names_in_ = np.array(table.names, dtype=object)
        self.rule_list_ = _rule_list(table, rules, f"treeleak, {type(self).__name__}")


class GreedyRuleList(_RuleListClassifier):
    """Rule list grown from the top, each rule the best one for the rows that reach it.

    Best is the least Gini impurity of the rows captured and of the rest, weighted by their numbers;
    the list ends where no rule lowers it.

    Ties go to the rule with fewer literals, then to the one whose literals come first: in the
    order of the columns, 1 before 0.

    Parameters
    ----------
    max_rules : int, default 10
        Without the default.
    max_width : int, default 1
        Literals of a rule at most.
    min_support : float, default 0.01
        Share of the training rows that each rule captures at least, and one row in any case. The
        rows that are left need not be as many: the list ends where no rule captures enough of
        them.
    negations : bool, default True
        Whether a rule may ask for 0.

    Attributes
    ----------
    rule_list_ : RuleList
        With counts.
    classes_, n_features_in_, feature_names_in_
        As in scikit-learn; columns of an array are named ``x0``, ``x1`` and so on.
    """

    def __init__(
        self,
        max_rules: int = 10,
        *,
        max_width: int = 1,
        min_support: float = 0.01,
        negations: bool = True,
    ) -> None:
        self.max_rules = max_rules
        self.max_width = max_width
        self.min_support = min_support
        self.negations = negations

    def fit(self, X: Any, y: Any) -> GreedyRuleList:
        """Grow the list.

        Parameters
        ----------
        X : DataFrame or array of 0/1 values, shape (n_rows, n_columns)
        y : sequence

        Raises
        ------
        BadInput
            Naming the column or the parameter that cannot be used.
        """
        most = whole("max_rules", self.max_rules, 1, MAX_RULES)
        width = whole("max_width", self.max_width, 1)
        support = share("min_support", self.min_support)
        negations = flag("negations", self.negations)
        table = read_table(X, y)
        least = rows_of(support, table.n_rows)
        self._keep(table, _grow(table, most, width, least, negations))
        return self


class OptimalRuleList(_RuleListClassifier, OptimalModel):
    """Rule list of single literals with the greatest training accuracy there is.

    Among the best lists it is a shortest one. Ties go to the literal that comes first: in the
    order of the columns, 1 before 0.

    Parameters
    ----------
    max_rules : int, default 10
        Without the default.
    min_support : float, default 0.01
        Share of the training rows that each rule captures at least, and one row in any case. The
        default may capture fewer.
    max_states : int, default 5_000_000
        Sets of rows to look at before the search is given up. Each takes a few hundred bytes.
    time_limit : float or None, default None
        Seconds for the search. Ctrl-C also ends it.

    Attributes
    ----------
    rule_list_ : RuleList
        With counts. If the search was ended, the best list that it or a greedy search found.
    optimal_ : bool
        Whether the list is proved to be best. If not, ``fit`` warns.
    bound_ : float
        Training accuracy that no such list exceeds; that of the list itself if it is optimal.
    n_states_ : int
        Sets of rows that were looked at.
    classes_, n_features_in_, feature_names_in_
        As in scikit-learn; columns of an array are named ``x0``, ``x1`` and so on.
    """

    _size = "max_rules"
    _most = MAX_RULES

    def __init__(
        self,
        max_rules: int = 10,
        *,
        min_support: float = 0.01,
        max_states: int = 5_000_000,
        time_limit: float | None = None,
    ) -> None:
        self.max_rules = max_rules
        self.min_support = min_support
        self.max_states = max_states
        self.time_limit = time_limit

    def _search(self, support: float, n_rows: int) -> Search:
        return Search(True, rows_of(support, n_rows))

    def _keep_best(self, table: BinaryTable, search: Search, found: Subcubes, k: int) -> int:
        rules = _walk(table, search, found, k)
        if _error(table, rules) > found.bounds[k]:
            greedy = _grow(table, k, 1, search.least, True)
            rules = min(rules, greedy, key=lambda r: _error(table, r))
        self._keep(table, rules)
        return _error(table, rules)


def _grow(table: BinaryTable, most: int, width: int, least: int, negations: bool) -> list[Rule]:
    rows = table.packed
    literals = np.stack([rows.columns, rows.everyone & ~rows.columns], axis=1)
    if not negations:
        literals[:, 1] = 0
    literals = literals.reshape(-1, len(rows.everyone))
    bits, rules = rows.everyone.copy(), list[Rule]()
    left = np.ones(table.n_rows, dtype=bool)
    while len(rules) < most and left.any():
        total = table.counts(left)
        score = float((total**2 / total.sum()).sum())
        rule: Rule | None = None
        # Words without a row that is left say nothing.
        kept = bits != 0
        args = np.ascontiguousarray(literals[:, kept]), bits[kept], rows.word_class[kept], total
        for w in range(1, min(width, len(table.names)) + 1):
            score, chosen = best_rule(*args, w, least, score)
            if chosen[0] >= 0:
                rule = tuple(int(x) for x in chosen)
        if rule is None:
            break
        rules.append(rule)
        bits &= ~np.bitwise_and.reduce(literals[list(rule)], axis=0)
        left &= ~_meets(table, rule)
    return rules


def _walk(table: BinaryTable, search: Search, found: Subcubes, steps: int) -> list[Rule]:
    state, rules = found.root, list[Rule]()
    left = np.ones(table.n_rows, dtype=bool)
    while steps and found.error(state, steps) < found.error(state, 0):
        while found.error(state, steps - 1) == found.error(state, steps):
            steps -= 1
        step = found.step(state, steps)
        literal, _, state = step or (best_literal(table, left, search), -1, -1)
        rules.append((literal,))
        left &= ~_meets(table, (literal,))
        steps = steps - 1 if step else 0
    return rules


def _meets(table: BinaryTable, rule: Rule) -> BoolArray:
    wanted = np.array([literal % 2 == 0 for literal in rule])
    met: BoolArray = (table.values[:, [x // 2 for x in rule]] == wanted).all(axis=1)
    return met


def _counts(table: BinaryTable, rules: list[Rule]) -> IntArray:
    left = np.ones(table.n_rows, dtype=bool)
    counts = []
    for rule in rules:
        met = _meets(table, rule)
        counts.append(table.counts(left & met))
        left &= ~met
    return np.array([*counts, table.counts(left)])


def _error(table: BinaryTable, rules: list[Rule]) -> int:
    return int(errors_of(_counts(table, rules)).sum())


def _rule_list(table: BinaryTable, rules: list[Rule], origin: str) -> RuleList:
    classes = tuple(table.classes.tolist())
    counts = _counts(table, rules)
    said = counts.argmax(axis=1).tolist()
    *parts, default = (
        DecisionRule(
            tuple(Condition(table.names[x // 2], (float(x % 2 == 0),)) for x in rule),
            classes[c],
            tuple(map(int, own)),
        )
        for rule, c, own in zip((*rules, ()), said, counts, strict=True)
    )
    return RuleList(table.names, classes, tuple(parts), default, n_rows=table.n_rows, origin=origin)
