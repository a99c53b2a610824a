"""Real tables to audit."""

from treeleak.datasets.bundled import Dataset, load_adult, load_compas, load_german_credit

__all__ = [
    "Dataset",
    "load_adult",
    "load_compas",
    "load_german_credit",
]
