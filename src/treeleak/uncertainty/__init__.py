"""Probabilistic datasets: all datasets that one tree or one rule list allows."""

from treeleak.uncertainty.dataset import ProbabilisticDataset
from treeleak.uncertainty.sources import from_rule_list, from_tree

__all__ = ["ProbabilisticDataset", "from_rule_list", "from_tree"]
