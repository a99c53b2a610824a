"""Settings of the splitter of scikit-learn's trees."""

from __future__ import annotations

from collections.abc import Sequence

from treeleak.formats.release import MOST_COLUMNS, MOST_OF_A_SPLITTER
from treeleak.release.adapters.sklearn.attributes import given, whole
from treeleak.release.adapters.sklearn.node_targets import SQUARED
from treeleak.release.splitting import Splitting
from treeleak.release.stored import StoredObject

_CRITERIA = ("gini", *(name for name in SQUARED if name != "friedman_mse"))
"""Those of which it is known what gains the same."""
_ZERO = ("min_weight_fraction_leaf", "min_impurity_decrease", "ccp_alpha", "monotonic_cst")
_DEEPEST = 2**31 - 1
"""What scikit-learn takes for no limit."""


def splitting_of(trees: Sequence[StoredObject]) -> Splitting | None:
    """Read the settings that all trees share.

    Returns None where another search than the one that is replayed was, or may have been, made.
    """
    found = {_of(tree) for tree in trees}
    return found.pop() if len(found) == 1 else None


def _of(tree: StoredObject) -> Splitting | None:
    columns, deepest = whole(tree.get("max_features_")), tree.get("max_depth")
    least, leaf = whole(tree.get("min_samples_split")), whole(tree.get("min_samples_leaf"))
    plain = (
        tree.get("splitter") == "best"
        and tree.get("criterion") in _CRITERIA
        and tree.get("max_leaf_nodes") is None
        and not any(given(tree.get(name)) for name in _ZERO)
    )
    level = _DEEPEST if deepest is None else whole(deepest)
    if not plain or columns is None or level is None or least is None or leaf != 1:
        return None
    # What a release file would not hold was not written by scikit-learn.
    most = MOST_OF_A_SPLITTER
    if not (1 <= columns <= MOST_COLUMNS and 1 <= level <= most and least <= most):
        return None
    return Splitting(columns, max(least, 2), None if level == _DEEPEST else level)
