"""Probabilistic datasets: all datasets that one tree or one rule list allows."""

from treeleak.uncertainty.dataset import Expected, ProbabilisticDataset
from treeleak.uncertainty.sources import from_rows, from_rule_list, from_tree

__all__ = ["Expected", "ProbabilisticDataset", "from_rows", "from_rule_list", "from_tree"]
