"""Train forests with a stated privacy budget."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treeleak.learn.forest import DPForestClassifier

__all__ = ["DPForestClassifier"]


def __getattr__(name: str) -> Any:
    # scikit-learn is slow to import, and shadow models of other libraries do without it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("treeleak.learn.forest"), name)
