"""Models of the libraries by the names of their classes: silent, on one thread, each time alike."""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import Any

_QUIET = MappingProxyType(
    {
        "xgboost": {"n_jobs": 1, "random_state": 0},
        "lightgbm": {"n_jobs": 1, "random_state": 0, "verbose": -1},
        "catboost": {"thread_count": 1, "verbose": False, "allow_writing_files": False},
        "sklearn.tree": {"random_state": 0},
        "sklearn.ensemble": {"random_state": 0},
    }
)


def module_of(name: str) -> str:
    """Say which module has a class."""
    beginnings = {"XGB": "xgboost", "LGBM": "lightgbm", "CatBoost": "catboost"}
    tree = "sklearn.tree" if name.startswith(("Decision", "ExtraTreeC")) else "sklearn.ensemble"
    return next((m for start, m in beginnings.items() if name.startswith(start)), tree)


def unfitted(name: str, **settings: Any) -> Any:
    """Make a model of a class, such as "XGBClassifier", with some settings.

    Raises
    ------
    ImportError
        If its library is not installed.
    """
    module = module_of(name)
    return getattr(import_module(module), name)(**{**_QUIET[module], **settings})
