"""How close a reconstruction is to the truth, and how close a guess would have been."""

from treeleak.metrics.baseline import Baseline, random_baseline, random_rows
from treeleak.metrics.matching import exact_row_share, match_rows, reconstruction_error

__all__ = [
    "Baseline",
    "exact_row_share",
    "match_rows",
    "random_baseline",
    "random_rows",
    "reconstruction_error",
]
