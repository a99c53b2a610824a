"""Train forests with a stated privacy budget."""

from treeleak.learn.forest import DPForestClassifier

__all__ = ["DPForestClassifier"]
