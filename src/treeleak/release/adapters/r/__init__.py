"""The adapters of R's tree models: one module for each library."""

from treeleak.release.adapters.r import random_forest, ranger, rpart

__all__ = ["random_forest", "ranger", "rpart"]
