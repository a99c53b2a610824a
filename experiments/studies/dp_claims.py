"""What DRAFT-DP says of its figures, held against runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from experiments.claims import claim, falls
from experiments.studies.dp_cells import CELL, TREES, typed

Claims = Iterator[dict[str, Any]]
LEAK = 0.05
"""Probability below which the paper sees a leak."""
_LITTLE = 0.02
"""Errors that differ by less are next to the same."""
_BEST = (5, 10)
"""Trees beyond which, the paper says, the error rises again."""
_WELL, _BADLY = 5.0, 1.0
"""Budgets above which the missing row is learned, and up to which it is not."""


def of_budgets(runs: pd.DataFrame) -> Claims:
    """Figures 2 and 3: COMPAS, by budget."""
    noisy = runs[runs.epsilon.notna() & (runs.dataset == "compas")]
    five, seven = (noisy[noisy.depth == depth] for depth in (5, 7))
    if len(five):
        errors = five.pivot_table("error", "epsilon", "n_trees")
        guess = five.guess.mean()
        yield claim("the error falls where the budget rises", "compas", falls(errors), True)
        usual = errors[(errors.index == 1) | (errors.index == 5)]
        yield claim("at epsilon 1 and 5, it is below a random guess", "compas", usual < guess, True)
        yield claim("at epsilon 0.1, it is not", "compas",
                    errors[errors.index == 0.1] > guess)  # fmt: skip
        if set(errors) == set(TREES):
            yield claim("for all budgets, 5 to 10 trees leave the least error", "compas",
                        errors.idxmin(axis=1).isin(_BEST), True)  # fmt: skip
    if len(least := seven[seven.epsilon == 0.1]):
        train = least.groupby("n_trees").train.mean()
        yield claim("at epsilon 0.1, forests often predict no better than the majority", "compas",
                    train <= least.majority.mean())  # fmt: skip


def of_corners(runs: pd.DataFrame) -> Claims:
    """Figures 4, 7 and 8: usefulness against error."""
    cells = runs.groupby(CELL)[["error", "train", "guess", "majority"]].mean().dropna()
    useful, told = cells.train > cells.majority, cells.error < cells.guess
    for dataset, so in (useful == told).groupby("dataset"):
        yield claim("most forests are useful and told, or neither", dataset, so)
    safe = cells[useful & ~told].reset_index()
    for dataset, own in safe.groupby("dataset"):
        yield claim("useful ones that are not told are single trees", dataset,
                    own.n_trees == 1, True)  # fmt: skip


def of_one_forest(runs: pd.DataFrame) -> Claims:
    """Figure 9: one forest, three budgets."""
    for run in runs.sort_values("epsilon").to_dict("records"):
        leaks = run["epsilon"] > 1
        says = "are nearer than other draws" if leaks else "are no nearer than other draws"
        published = {1.0: 0.114, 30.0: 1e-7}.get(run["epsilon"])
        line = claim(f"at epsilon {run['epsilon']:g}, training rows {says} (0.05)", "adult",
                     [(run["tail"] < LEAK) == leaks])  # fmt: skip
        yield line | {"published": published, "treeleak": run["tail"]}


def of_rows(runs: pd.DataFrame) -> Claims:
    """Figure 11: accuracies and errors by rows."""
    for dataset, own in runs.groupby("dataset"):
        means = own.groupby("n_rows")[["train", "test", "error", "guess"]].mean()
        yield claim("more rows lower the training accuracy", dataset, falls(means.train))
        yield claim("more rows raise the test accuracy", dataset, falls(-means.test))
        yield claim("more rows lower the error", dataset, falls(means.error))
        fall = (means.iloc[0] - means)[1:]
        yield claim("the error falls by more than that of a guess", dataset,
                    fall.error > fall.guess)  # fmt: skip


def of_missing_row(runs: pd.DataFrame) -> Claims:
    """Figures 13, 14 and 16: the exact posterior of the missing row."""
    for dataset, means in _by_budget(runs):
        gain = means.majority - means.error
        yield claim("13: for epsilon above 5, it errs less than the majority", dataset,
                    gain[means.index > _WELL] > 0, True)  # fmt: skip
        yield claim("13: at 1 and below, it does not (0.02)", dataset,
                    gain[means.index <= _BADLY] < _LITTLE, True)  # fmt: skip
        yield claim("14: inliers err less", dataset, _less(means.inliers, means.outliers), True)
        yield claim("14: at 30 and above, outliers come near to inliers (0.02)", dataset,
                    (means.outliers - means.inliers)[means.index >= 30] < _LITTLE)  # fmt: skip
        yield from _of_perfect(16, dataset, means)


def _less(some: Any, others: Any) -> Any:
    """Say of points that differ whether some are less than the others."""
    return (some < others)[(some - others).abs() > 1e-9]


def _of_perfect(number: int, dataset: str, means: Any) -> Claims:
    both = means[["perfect_inliers", "perfect_outliers"]]
    yield claim(f"{number}: more are without an error where the budget rises", dataset,
                falls(-both), True)  # fmt: skip


def _by_budget(runs: pd.DataFrame) -> Iterator[tuple[str, Any]]:
    for dataset, own in typed(runs).groupby("dataset"):
        yield str(dataset), own.groupby("epsilon").mean(numeric_only=True)
