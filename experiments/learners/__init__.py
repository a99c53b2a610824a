"""Greedy rule lists, and the best rule lists and trees of each size, on columns of 0 and 1."""

from experiments.learners.rule_lists import greedy_lists, optimal_lists
from experiments.learners.trees import optimal_trees

__all__ = ["greedy_lists", "optimal_lists", "optimal_trees"]
