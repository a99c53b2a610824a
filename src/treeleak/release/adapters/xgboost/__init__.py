"""XGBoost's models, from stored data to a release; XGBoost is not imported.

What they do, found out from versions 1.3.3 to 3.2.0 and checked by training (a test):

- A row goes left where ``value < threshold``, both in single precision. Of a test for categories
  the stored ones go right.
- ``sum_hessian`` of a node sums the loss's second derivatives over its rows: 1 each for losses on
  targets, so that it counts rows in every tree; p(1 - p) for the logistic loss, where p is one
  number for all rows before the first tree, so that it counts rows there.
- Leaves hold what they add, already made smaller by the learning rate; ``base_weights`` of inner
  nodes are not made smaller.
- A file does not say whether trees saw a part of the rows (``subsample``); a Python object does.
  Which rows follows from its seed (:mod:`treeleak.release.draws.boosters`).
"""

from __future__ import annotations

# Imported for what it registers.
from treeleak.release.adapters.xgboost import boosters  # noqa: F401
