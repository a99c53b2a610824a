"""How close a reconstruction is to the truth, and how close a guess would have been."""

from treeleak.metrics.bagging import BaggingBound, bagging_bound, likeliest_draws
from treeleak.metrics.baseline import Baseline, random_baseline, random_rows
from treeleak.metrics.matching import exact_row_share, match_rows, reconstruction_error
from treeleak.metrics.partial import partial_error

__all__ = [
    "BaggingBound",
    "Baseline",
    "bagging_bound",
    "exact_row_share",
    "likeliest_draws",
    "match_rows",
    "partial_error",
    "random_baseline",
    "random_rows",
    "reconstruction_error",
]
