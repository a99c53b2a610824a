"""Real tables to audit."""

from treeleak.datasets.bundled import load_adult, load_compas, load_german_credit
from treeleak.datasets.dataset import Dataset

__all__ = [
    "Dataset",
    "load_adult",
    "load_compas",
    "load_german_credit",
]
