"""Boosted models in their defaults, and with other settings: what their files disclose.

No paper has these figures. Models are those of :mod:`experiments.boosted_models`, trained on the
binary tables of DRAFT. Beside each answer stands what as many other rows of the same table have
right: an adversary who knows the population alone has as much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from experiments.attempt import is_there, say_missing
from experiments.boosted_models import ALL, LEFT, MODELS, VALUES_ALONE, Case, holds, run
from experiments.data import DATASETS, have_tables
from experiments.studies.boosted_shown import (
    DEFAULT,
    SWEPT_ROWS,
    SWEPT_TABLES,
    by_rows,
    by_setting,
)
from experiments.study import OWN, Parameters, Record, Study, Table

if TYPE_CHECKING:
    import pandas as pd

LIBRARIES = (
    "XGBClassifier", "LGBMClassifier", "CatBoost 100", "HistGradientBoosting", "GradientBoosting",
)  # fmt: skip
"""By their names in MODELS; CatBoost has 100 trees, as the others have, where its default is 1,000.
"""
SMALL = (100, 300, 1000)
SEEDS = range(5)
_LIMIT = 30.0
"""Seconds of a run."""
SETTINGS: Mapping[str, Mapping[str, tuple[float, ...]]] = MappingProxyType(
    {
        # The first value of each is the default, which needs no run of its own.
        "XGBClassifier": {
            "learning_rate": (0.3, 0.03, 0.1, 1.0),
            "max_depth": (6, 2, 4, 10),
            "min_child_weight": (1, 0, 5, 20),
            "reg_lambda": (1, 0, 10),
            "n_estimators": (100, 10, 30, 300),
            "subsample": (1.0, 0.8, 0.5),
        },
        "LGBMClassifier": {
            "learning_rate": (0.1, 0.03, 0.3, 1.0),
            "max_depth": (-1, 2, 4, 6, 10),
            "num_leaves": (31, 7, 15, 63),
            "min_child_samples": (20, 1, 5, 50),
            "reg_lambda": (0, 1, 10),
            "n_estimators": (100, 10, 30, 300),
            "subsample": (1.0, 0.8, 0.5),
        },
    }
)
"""By model and parameter; LightGBM draws rows (``subsample``) anew for each tree."""
LEFT_MODELS = ("XGBClassifier", "LGBMClassifier", "HistGradientBoosting")
LEFT_TABLES, LEFT_SEEDS = (("compas", 100), ("compas", 1000), ("adult", 1000)), range(3)
"""Models of which each statistic is left alone, with what files hold of it."""


def attack(parameters: Parameters) -> Record:
    """Train a boosted model, rebuild its rows, and measure.

    Parameters
    ----------
    parameters : mapping
        ``model``, ``table``, ``n_rows``, ``seed``, ``time_limit``; ``setting``, which is "default",
        a name in ``LEFT`` or a parameter of the model, and its ``value``.

    Returns
    -------
    dict
        What :func:`~experiments.boosted_models.run` measures; ``library`` is the version of the
        model's.
    """
    p = parameters
    left = p["setting"] if p["setting"] in LEFT else ALL
    case = Case(p["model"], p["table"], p["n_rows"], p["seed"], p["time_limit"], left)
    return run(case, _given(p)) | {"library": import_module(MODELS[p["model"]][0]).__version__}


def _given(p: Parameters) -> dict[str, Any]:
    """Parameters of the model that are no defaults."""
    if p["setting"] in (DEFAULT, *LEFT):
        return {}
    # Without a frequency, LightGBM draws no rows.
    often = {"subsample_freq": 1} if p["model"].startswith("LGBM") else {}
    return {p["setting"]: p["value"], **(often if p["setting"] == "subsample" else {})}


def defaults_grid() -> list[dict[str, Any]]:
    """Defaults of up to 1,000 rows: all of one seed, then of the next."""
    return _points(SMALL, SEEDS)


def settings_grid() -> list[dict[str, Any]]:
    """Other settings, beside defaults; then one statistic alone."""
    plain = _points((SWEPT_ROWS,), (0,), SWEPT_TABLES)
    return [
        *(p for p in plain if p["model"] in SETTINGS),
        *(_point(m, table, SWEPT_ROWS, 0, setting, v) for m, setting, v, table in _settings()),
        *(
            _point(model, table, n, seed, left)
            for seed, left, (table, n), model in product(LEFT_SEEDS, LEFT, LEFT_TABLES, LEFT_MODELS)
            if holds(model, left)
        ),
        *(
            p
            for p in _points(SMALL[-1:], (0, 1), ("compas",), VALUES_ALONE)
            if p["model"] not in LEFT_MODELS
        ),
    ]


def _points(
    sizes: Iterable[int],
    seeds: Iterable[int],
    names: Iterable[str] = DATASETS,
    setting: str = DEFAULT,
) -> list[dict[str, Any]]:
    cases = product(seeds, sizes, names, LIBRARIES)
    return [_point(model, table, n, seed, setting) for seed, n, table, model in cases]


def _point(
    model: str, table: str, n: int, seed: int, setting: str, value: float | None = None
) -> dict[str, Any]:
    return {
        "model": model, "table": table, "n_rows": n, "seed": seed,
        "time_limit": _LIMIT, "setting": setting, "value": value,
    }  # fmt: skip


def _settings() -> list[tuple[str, str, float, str]]:
    return [
        (model, setting, value, table)
        for model, settings in SETTINGS.items()
        for setting, values in settings.items()
        for value in values[1:]
        for table in SWEPT_TABLES
    ]


def there(grid: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out runs of libraries that are missing."""
    return [p for p in grid if is_there(MODELS[p["model"]][0])]


def quick_settings() -> list[dict[str, Any]]:
    """The last value of each setting on COMPAS, and statistics alone of one seed."""
    last = {(m, s, values[-1]) for m, own in SETTINGS.items() for s, values in own.items()}

    def alone(p: Parameters) -> bool:
        small = p["n_rows"] == SMALL[0] or p["model"] not in LEFT_MODELS
        return small or (p["table"] == "adult" and p["setting"] == "counts and leaf values")

    return [
        p
        for p in there(settings_grid())
        if (p["table"] == "compas" and (p["model"], p["setting"], p["value"]) in last)
        or (p["setting"] in LEFT and p["seed"] == 0 and alone(p))
    ]


def have_all() -> None:
    """Say which libraries are missing.

    Raises
    ------
    BadInput
        If a table is missing.
    """
    say_missing(MODELS[model][0] for model in LIBRARIES)
    have_tables()


def _seconds(p: Parameters) -> float:
    """About how long a run takes."""
    return {100: 1.2, 300: 3.0, 1000: 12.0}[p["n_rows"]]


def _study(
    name: str,
    what: str,
    grid: Callable[[], list[dict[str, Any]]],
    quick: Callable[[], list[dict[str, Any]]],
    tables: Callable[[pd.DataFrame], list[Table]],
) -> Study:
    return Study(
        name=name,
        paper=OWN,
        what=what,
        full=lambda: there(grid()),
        quick=quick,
        run=attack,
        tables=tables,
        seconds=_seconds,
        warm=lambda p: {
            **p, "n_rows": 60, "seed": 0, "time_limit": 10.0, "setting": DEFAULT, "value": None,
        },
        check=have_all,
        experiment="boosted-models",
        everywhere=grid,
    )  # fmt: skip


STUDIES: Sequence[Study] = (
    _study(
        "boosted-models",
        "boosted models in their defaults, up to 1,000 rows",
        defaults_grid,
        lambda: there(_points(SMALL[:1], (0, 1))),
        by_rows,
    ),
    _study(
        "boosted-settings",
        "boosted models with other settings, and with one statistic alone",
        settings_grid,
        quick_settings,
        by_setting,
    ),
)
