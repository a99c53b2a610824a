"""Forms and rules of models in formats of exchange, which many programs write: ONNX and PMML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from treeleak.auditing.inventory import conditions, forms
from treeleak.auditing.inventory.conditions import Rule
from treeleak.auditing.inventory.owners import numbers_in
from treeleak.release.stored import StoredObject

_SIZES = 12
"""Numbers and words of the type of a tensor."""
_ENSEMBLE = "TreeEnsembleClassifier TreeEnsembleRegressor"


def _of_nodes(value: Any, owner: StoredObject) -> bool:
    """A number for each node."""
    modes = owner.get("nodes_modes")
    sized = isinstance(value, np.ndarray) and isinstance(modes, np.ndarray)
    return sized and value.shape == modes.shape and value.dtype.kind in "if"


def _per_node(value: Any, owner: StoredObject) -> bool:
    """A number for each node; leaves, which test nothing, all have the same."""
    at_leaves = value[owner.get("nodes_modes") == "LEAF"] if _of_nodes(value, owner) else None
    return at_leaves is not None and bool((at_leaves == at_leaves[:1]).all())


def _modes(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """A few words, over and over."""
    words = {*value.tolist()} if isinstance(value, np.ndarray) and value.dtype == object else {0}
    return all(isinstance(word, str) and word.startswith(("LEAF", "BRANCH_")) for word in words)


def _per_leaf(value: Any, owner: StoredObject) -> bool:
    """A number for each class or target of a leaf, none of which is listed twice."""
    of = "class" if owner.get("class_nodeids") is not None else "target"
    lists = [owner.get(f"{of}_{key}") for key in ("treeids", "nodeids", "ids")]
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "if":
        return False
    if any(not isinstance(x, np.ndarray) or x.shape != value.shape for x in lists):
        return False
    return len(np.unique(np.stack(lists), axis=1).T) == len(value)


def _per_output(value: Any, owner: StoredObject) -> bool:
    """A number for each class or target that leaves add to."""
    array, listed = numbers_in(value), (owner.get("class_ids"), owner.get("target_ids"))
    ids = [of for of in map(numbers_in, listed) if of is not None and of.size]
    labels = [len(of) for key, of in owner.state.items() if key.startswith("classlabels")]
    return array is not None and array.size <= max(
        1, *(int(of.max()) + 1 for of in ids), *labels, 0
    )


def _numbers(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """Numbers; the reader has counted them, over all steps."""
    return numbers_in(value) is not None


def _typed(value: Any, owner: StoredObject) -> bool:
    """Names with a type and sizes each; or names alone."""
    if not isinstance(value, Mapping):
        return forms.names(value, owner)
    few = (forms.pieces(kind) for kind in value.values())
    scalars = all(len(held.scalars) <= _SIZES and not held.others for held in few)
    return scalars and all(forms.is_scalar(v, forms.MAX_NAME) for v in forms.pieces(value).scalars)


# fmt: off
OF_EXCHANGE: tuple[Rule, ...] = (
    Rule("class_weights class_weights_as_tensor target_weights target_weights_as_tensor", "leaks",
         "class shares, or value, of each leaf",
         "Predictions need them. In a leaf of one row, or of equal rows, they are the class or the "
             "target of the row itself, or what other trees left to explain.",
         owner=_ENSEMBLE, change="leaves", form=_per_leaf),
    Rule("nodes_hitrates nodes_hitrates_as_tensor", "harmless", "rows in each node, not told",
         "All are equal.", owner=_ENSEMBLE, form=_of_nodes,
         when=lambda v, _: isinstance(v, np.ndarray) and bool((v == v[:1]).all())),
    Rule("nodes_hitrates nodes_hitrates_as_tensor", "not assessed", "unknown parts",
         "They may say how often rows reach each node, or hold rows. Predictions do not need them, "
             "and no attack of this audit uses them.",
         owner=_ENSEMBLE, change="counts", unknown=True),
    Rule("nodes_values nodes_values_as_tensor", "leaks", "thresholds",
         "Each lies between two values of training rows, mostly half-way.",
         owner=_ENSEMBLE, change="values", form=_per_node),
    Rule("nodes_missing_value_tracks_true", "not assessed", "where missing values go",
         "If a tree saw missing values, it shows in which columns training rows had none.",
         owner=_ENSEMBLE, change="values", form=_per_node),
    Rule("nodes_featureids nodes_truenodeids nodes_falsenodeids", "not assessed",
         "shape of the trees",
         "Predictions need it. The choice of splits depends on the rows. This audit does "
             "not attack the shape alone.", owner=_ENSEMBLE, form=_per_node),
    Rule("nodes_treeids nodes_nodeids", "not assessed", "shape of the trees",
         "They number trees and nodes.", owner=_ENSEMBLE, form=_of_nodes),
    Rule("nodes_modes", "not assessed", "shape of the trees",
         "They say how each node compares.", owner=_ENSEMBLE, form=_modes),
    Rule("class_treeids class_nodeids class_ids target_treeids target_nodeids target_ids",
         "not assessed", "shape of the trees", "They say which leaf a value belongs to.",
         owner=_ENSEMBLE, form=_per_leaf),
    Rule("base_values base_values_as_tensor", "harmless", "where predictions begin",
         "It discloses the mean target, or the share of each class in all rows.",
         owner=_ENSEMBLE, form=_per_output),
    Rule("base_values base_values_as_tensor", "not assessed", "unknown parts",
         "There are more numbers than classes or targets. Rows may stand there.",
         owner=_ENSEMBLE, unknown=True),
    Rule("classlabels_int64s classlabels_strings input output value_info", "harmless",
         "names of columns and classes",
         "They name columns, labels and the results of steps, not the rows that have them.",
         owner=f"Graph Node {_ENSEMBLE}", form=_typed),
    Rule("cats_int64s cats_strings keys_strings keys_int64s", "leaks",
         "values that occur in the training rows",
         "The list includes values that only one person has.",
         owner="Node", when=conditions.filled, change="values", form=forms.distinct),
    Rule("offset scale imputed_value_floats imputed_value_int64s", "not assessed",
         "fitted parameters",
         "They are means and spreads of columns over all rows, or their ends, which are values of "
             "single rows.", owner="Node", form=_numbers),
    Rule("*", "harmless", "settings", "These were chosen before training, without looking at rows.",
         owner=f"Model Graph Node {_ENSEMBLE}", form=forms.short, texts=True),
)
# fmt: on
