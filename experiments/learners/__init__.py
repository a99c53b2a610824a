"""Greedy rule lists, and the best rule lists and trees of their size, on columns of 0 and 1."""

from experiments.learners.optimal_tree import OptimalTreeClassifier
from experiments.learners.rule_lists import GreedyRuleList, OptimalRuleList

__all__ = ["GreedyRuleList", "OptimalRuleList", "OptimalTreeClassifier"]
