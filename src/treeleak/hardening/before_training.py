"""What settings decide before a model is trained: which of them give rows away, and what to change.

No library is asked for and nothing is trained: a class is known by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from treeleak.auditing.record import Serialisable
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.private import dataclass

_FORESTS = {
    "RandomForestClassifier": True, "RandomForestRegressor": True, "ExtraTreesClassifier": False,
    "ExtraTreesRegressor": False,
}  # fmt: skip
"""Whether they draw rows unless told otherwise."""
_TREES = (
    "DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier", "ExtraTreeRegressor",
)  # fmt: skip
_BOOSTED: Mapping[str, tuple[str, str, int]] = {
    "GradientBoosting": (
        "in each node, how many rows it has and their mean", "min_samples_leaf", 1
    ),
    "HistGradientBoosting": (
        "in each leaf, its value and the number of rows", "min_samples_leaf", 20
    ),
    "XGB": ("sums of hessians and gains in each node", "min_child_weight", 1),
    "LGBM": (
        "in each leaf, its value, its weight and the number of rows", "min_child_samples", 20
    ),
    "CatBoost": ("leaf values and weights, and the borders between values", "depth", 6),
}  # fmt: skip
"""What a file holds, and the setting of the size of leaves with the library's default."""
_DRAWING = ("GradientBoosting", "XGB", "LGBM")
"""Those whose draws of rows follow from a seed that treeleak repeats."""
_ENDINGS = ("Classifier", "Regressor", "Ranker")
_NUMBERS = {"n_estimators", "max_depth", "min_samples_leaf", "max_leaf_nodes"}
SMALL_LEAF = 10
"""Rows in a leaf from which on output checkers ask no questions."""
FEW_ROWS = 10
"""Rows for each leaf below which trees that end by themselves part nearly all rows."""


@dataclass(frozen=True)
class Point(Serialisable):
    """What one setting decides.

    Attributes
    ----------
    setting : str
        With its value, as it would be typed.
    leaks : bool
        Whether it gives rows away; False for one that protects.
    says : str
    change : str
        What to set instead; empty where nothing is to be changed.
    """

    setting: str
    leaks: bool
    says: str
    change: str = ""


@dataclass(frozen=True)
class Checked(Serialisable):
    """What is known of a model before it is trained.

    Attributes
    ----------
    kind : str
        The class.
    points : tuple of Point
        In the order in which to change them.
    """

    kind: str
    points: tuple[Point, ...]


def check(
    model: Any,
    *,
    n_rows: int | None = None,
    n_columns: int | None = None,
    params: Mapping[str, Any] | None = None,
) -> Checked:
    """Check before training which settings of a model will disclose most.

    Parameters
    ----------
    model : estimator or str
        Not fitted, or the name of a class: of scikit-learn's trees, forests and gradient boosting,
        XGBoost, LightGBM or CatBoost. No library needs to be installed for a name.
    n_rows, n_columns : int, optional
        Of the training set.
    params : mapping, optional
        Settings, for a name. All others have the library's defaults.

    Returns
    -------
    Checked
        This is not an audit. Only an audit of the file shows what a trained model discloses.

    Raises
    ------
    NotCovered
        If the class is none of these.
    BadInput
        If a number of rows or columns is not positive.
    """
    for name, n in (("n_rows", n_rows), ("n_columns", n_columns)):
        if n is not None and n < 1:
            raise BadInput(f"{name}: must be 1 or more, not {n}")
    kind = model if isinstance(model, str) else type(model).__name__
    settings = {} if isinstance(model, str) else dict(model.get_params(deep=False))
    settings |= params or {}
    for name in _NUMBERS & set(settings):
        value = settings[name]
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if value is not None and not (number and value > 0):
            raise BadInput(f"{name}: must be a number above 0, not {value!r:.40}")
    if kind in _FORESTS or kind in _TREES:
        points = _of_counts(kind, settings, n_rows)
        return Checked(kind, (*points, *_of_columns(n_rows, n_columns)))
    for prefix, (stored_sums, least, default) in _BOOSTED.items():
        if kind == prefix or kind in {prefix + ending for ending in _ENDINGS}:
            points = _of_boosted(stored_sums, least, default, settings)
            if prefix in _DRAWING:
                points += _of_draws(settings)
            return Checked(kind, (*points, *_of_columns(n_rows, n_columns)))
    raise NotCovered(
        f"{kind}: not a class that treeleak knows. It knows scikit-learn's trees, forests and "
        "gradient boosting, XGBoost, LightGBM and CatBoost, by the names of their classes"
    )


def _of_counts(kind: str, settings: Mapping[str, Any], n_rows: int | None) -> list[Point]:
    points = []
    draws = settings.get("bootstrap", _FORESTS.get(kind, False))
    if kind in _FORESTS and not draws:
        risk = (
            "every tree counts every row: with enough trees, no other rows fit the counts. "
            "This setting matters most."
        )
        points.append(Point("bootstrap=False", True, risk, "bootstrap=True, and harden the file"))
    elif kind in _FORESTS:
        risk = (
            "each tree draws its rows, but the file keeps the seed of each: an attack "
            "repeats the draws, and rebuilds rows in their order"
        )
        points.append(Point("bootstrap=True", True, risk, "treeleak harden removes the seeds"))
    least, depth, ends = (
        settings.get("min_samples_leaf", 1),
        settings.get("max_depth"),
        settings.get("max_leaf_nodes"),
    )
    rows = least * n_rows if isinstance(least, float) and n_rows else least
    if isinstance(rows, (int, float)) and not (isinstance(least, float) and not n_rows):
        small = rows < SMALL_LEAF
        risk = (
            f"each leaf holds at least {rows:,.0f} rows"
            if not small
            else (
                "a leaf may hold a single row" if rows <= 1 else f"a leaf may hold {rows:,.0f} rows"
            )
        )
        change = f"min_samples_leaf={SMALL_LEAF} or more" if small else ""
        points.append(Point(f"min_samples_leaf={least!r}", small, risk, change))
    if depth is None and ends is None:
        risk = (
            "no setting ends a path before its leaf is pure: trees separate all rows that they can"
        )
        points.append(Point("max_depth=None", True, risk, "max_depth=4, or less"))
    elif depth is not None and n_rows and n_rows < FEW_ROWS * 2 ** min(depth, 60):
        risk = f"up to {2 ** min(depth, 60):,} leaves for {n_rows:,} rows: few rows for each leaf"
        points.append(Point(f"max_depth={depth}", True, risk, "a smaller depth"))
    trees = settings.get("n_estimators", 100)
    if kind in _FORESTS and isinstance(trees, int):
        risk = (
            f"each of the {trees:,} trees counts these rows again"
            if trees > 10
            else "few trees count these rows"
        )
        change = "n_estimators=10, if accuracy allows" if trees > 10 else ""
        points.append(Point(f"n_estimators={trees}", trees > 10, risk, change))
    if kind in _FORESTS and draws and isinstance(settings.get("random_state"), int):
        risk = (
            "a seed that an adversary can guess discloses all draws, even if the file does not "
            "keep it"
        )
        points.append(
            Point(
                f"random_state={settings['random_state']}", True, risk, "a seed of 32 random bits"
            )
        )
    return points


def _of_boosted(
    stored_sums: str, least: str, default: int, settings: Mapping[str, Any]
) -> list[Point]:
    risk = (
        f"its file holds {stored_sums}: these are sums over training rows, and attacks solve them"
    )
    points = [Point("the file itself", True, risk, "treeleak harden removes them if it can")]
    value = default if settings.get(least) is None else settings[least]
    setting = f"{least}={value!r}"
    if least == "depth":
        risk = "deeper trees have fewer rows in a leaf, down to a single row"
        return [*points, Point(setting, True, risk, "a smaller depth")]
    small = not isinstance(value, (int, float)) or value < SMALL_LEAF
    risk = "sums of small leaves are close to single rows"
    return [*points, Point(setting, small, risk, f"a larger {least}" if small else "")]


def _of_draws(settings: Mapping[str, Any]) -> list[Point]:
    """Say that trees that draw part of the rows do not protect them."""
    shares = {name: settings.get(name) for name in ("subsample", "bagging_fraction")}
    drawn = {name: x for name, x in shares.items() if isinstance(x, (int, float)) and x < 1}
    risk = (
        "does not protect: an attack repeats the draws from the seed in the file, from the "
        "library's default or from a small one, and rebuilds rows in their order"
    )
    change = "a seed of 32 random bits that you keep secret, beside the other changes"
    return [Point(f"{name}={x}", True, risk, change) for name, x in drawn.items()]


def _of_columns(n_rows: int | None, n_columns: int | None) -> list[Point]:
    if not n_rows or not n_columns or 2 ** min(n_columns, 60) > n_rows:
        return []
    risk = (
        f"if all {n_columns} columns hold 0 and 1 only, there are {2**n_columns:,} possible rows, "
        "and many people share one; columns of numbers have far more"
    )
    return [Point(f"{n_rows:,} rows", False, risk)]
