"""Rules of what survival and quantile forests hold beside trees: times, curves, and targets."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from treeleak.auditing.inventory import conditions, forms
from treeleak.auditing.inventory.conditions import Context, Rule
from treeleak.auditing.inventory.owners import numbers_in
from treeleak.release.stored import StoredObject

_HASH = re.compile(r"[0-9a-f]{32}")


def _of_survival(value: Any, context: Context) -> bool:
    """Say whether these are values of nodes that hold curves, or with low memory one number."""
    release = context.release
    origin = "" if release is None else release.origin
    trees = origin.startswith("scikit-survival") and "Boosting" not in origin
    return trees and isinstance(value, np.ndarray)


def _curves(value: Any, context: Context) -> bool:
    return _of_survival(value, context) and value.ndim == 3 and value.shape[2] == 2


def _infinite(value: Any, _: Context) -> bool:
    array = numbers_in(value)
    return array is not None and bool(np.isposinf(array).all())


def _all_alike(value: Any, owner: StoredObject) -> bool:
    """Sizes of a tree; the number of values for each output is the same everywhere."""
    parts = value if isinstance(value, tuple) else (value,)
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    few = all(a.ndim == 1 and a.dtype.kind in "iu" and len(np.unique(a)) == 1 for a in arrays)
    rest = tuple(part for part in parts if not isinstance(part, np.ndarray))
    return bool(arrays) and few and forms.short(rest, owner)


def _flags(value: Any, owner: StoredObject) -> bool:
    times = owner.get("unique_times_")
    flags = isinstance(value, np.ndarray) and value.dtype.kind == "b" and value.ndim == 1
    return flags and isinstance(times, np.ndarray) and times.shape == value.shape


def _hash(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


# fmt: off
OF_OUTCOMES: tuple[Rule, ...] = (
    # -- survival
    Rule("is_event_time_", "leaks", "event times and status of training rows",
         "It says which of the times are those of events.",
         when=conditions.filled, change="event times", form=_flags),
    Rule("unique_times_ unique_time_ event_times_", "leaks",
         "event times and status of training rows",
         "It lists every time at which a training row had an event or left without one. Most "
             "belong to one person.",
         when=conditions.filled, change="event times", form=forms.edges),
    Rule("x y _domain", "leaks", "event times and status of training rows",
         "The curve grows at the event times of training rows, and ends at the last of all.",
         owner="StepFunction", change="event times"),
    Rule("values", "leaks", "survival curves of each node",
         "A curve has a step at the event time of each row of its node, and its height is the "
             "number of rows at risk. With the draws, event times and status of rows follow, "
             "by their number.",
         owner="Tree", when=_curves, change="event times", form=forms.tree_values),
    Rule("values", "leaks", "risk score of each node",
         "It adds up the hazards of the rows of the node.",
         owner="Tree", when=_of_survival, change="counts", form=forms.tree_values),
    Rule("impurity", "harmless", "no impurity", "Infinite everywhere: the log-rank test has none.",
         owner="Tree", when=_infinite, form=forms.per_node),
    Rule("n_classes_", "harmless", "sizes", "Values of each node for each time.",
         owner="*Survival*", form=_all_alike),
    Rule("args", "harmless", "sizes", "Numbers of columns, of times and of values for each.",
         owner="Tree", form=_all_alike),
    Rule("_scale", "harmless", "settings", "Shares of trees' steps that dropping trees left.",
         owner="*GradientBoostingSurvival*", form=forms.per_tree),
    # -- quantile forests
    Rule("args matrix1", "leaks", "targets of all training rows, and the rows of each leaf",
         "The file holds the target of every training row, and for every leaf the rows in it.",
         owner="QuantileForest", when=conditions.filled, change="rows", rows=True),
    Rule("matrix2", "leaks", "bounds of targets in each leaf", "They are means of targets.",
         owner="QuantileForest", change="counts"),
    Rule("shape1 shape2 n_train_samples_", "harmless", "sizes", "Numbers of rows, trees and nodes.",
         owner="QuantileForest *QuantileRegressor", form=forms.short),
    Rule("sorter_", "leaks", "one entry for each training row",
         "With the targets, which the forest keeps in their order, it names the row of each.",
         owner="*QuantileRegressor", change="rows", form=forms.per_row),
    Rule("unsampled_indices_", "leaks", "row numbers that each tree drew",
         "It names the rows that are not behind a count.",
         owner="*QuantileRegressor", when=conditions.filled, change="seeds"),
    Rule("sample_weight_", "leaks", "weights of the training rows",
         "Weights can distinguish rows and show how trees drew them.",
         owner="*QuantileRegressor", when=conditions.filled, change="per_row", form=forms.per_row,
         in_order=True),
    Rule("X_train_hash_", "leaks", "hash of the training table",
         "It confirms a table that was guessed or rebuilt, to the last bit.",
         owner="*QuantileRegressor", change="per_row", form=_hash),
)
# fmt: on
