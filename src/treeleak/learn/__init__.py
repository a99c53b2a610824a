"""Train forests with a stated privacy budget, rule lists, and optimal models."""

from treeleak.learn.forest import DPForestClassifier
from treeleak.learn.optimal_tree import OptimalTreeClassifier
from treeleak.learn.rule_lists import GreedyRuleList, OptimalRuleList

__all__ = ["DPForestClassifier", "GreedyRuleList", "OptimalRuleList", "OptimalTreeClassifier"]
