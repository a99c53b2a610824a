"""How close a reconstruction is to the truth, and how close baselines come."""

from treeleak.metrics.baseline import (
    Baseline,
    Guesses,
    random_baseline,
    random_guesses,
    random_rows,
)
from treeleak.metrics.control_rows import Significance, significance
from treeleak.metrics.individual import Group, Individual, individual_errors
from treeleak.metrics.inference import Rate, Risk, wilson
from treeleak.metrics.matching import exact_row_share, match_rows, reconstruction_error, same_size

__all__ = [
    "Baseline",
    "Group",
    "Guesses",
    "Individual",
    "Rate",
    "Risk",
    "Significance",
    "exact_row_share",
    "individual_errors",
    "match_rows",
    "random_baseline",
    "random_guesses",
    "random_rows",
    "reconstruction_error",
    "same_size",
    "significance",
    "wilson",
]
