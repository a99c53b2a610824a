"""Real tables to audit: three in the package, and DRAFT's, which are downloaded on demand."""

from treeleak.datasets.bundled import load_adult, load_compas, load_german_credit
from treeleak.datasets.dataset import Dataset
from treeleak.datasets.dp_forests import load_dp_forest
from treeleak.datasets.draft import draft_sample, load_draft

__all__ = [
    "Dataset",
    "draft_sample",
    "load_adult",
    "load_compas",
    "load_dp_forest",
    "load_draft",
    "load_german_credit",
]
