"""Train tree models that keep a stated privacy budget."""

from treeleak.learn.forest import DPForestClassifier

__all__ = ["DPForestClassifier"]
