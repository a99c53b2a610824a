"""What a model of an OHDSI bundle can lose and still predict: the steps for its JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from treeleak.auditing.inventory.rules import SEED_NAMES
from treeleak.core.errors import BadModel
from treeleak.hardening.files.document import (
    NOTHING,
    Change,
    Document,
    Step,
    dropped,
    read_document,
    step,
    zero,
)
from treeleak.release.readers.ohdsi import OF_TREE, is_ohdsi, model_from_ohdsi

_LEFT_CHILD, _IMPURITY, _ROWS, _WEIGHT = 0, 4, 5, 6
"""Places of fields in a node."""
_KEYS = frozenset((
    "meta", "params", "classes_", "n_classes_", "n_features_in_", "n_outputs_", "max_features_",
    "feature_importances_", "tree_", "estimators_", "estimator_weights_", "estimator_errors_",
    "max_depth", "min_samples_split", "min_samples_leaf", "min_weight_fraction_leaf",
    "max_features", "max_leaf_nodes", "min_impurity_decrease", "bootstrap", "oob_score",
    "n_estimators", "criterion", "class_weight", "warm_start", "max_samples", "ccp_alpha",
))  # fmt: skip


def read_json_file(path: Path) -> Document:
    """Read the model of a bundle.

    Raises
    ------
    BadModel
        If it is none of scikit-learn's.
    """
    document = read_document(
        path, lambda root: is_ohdsi(root) and "meta" in root, "model of an OHDSI bundle"
    )
    # What the reader of models refuses, no step shall change.
    model_from_ohdsi(document.root)
    return document


def _at_trees(change: Change) -> tuple[tuple[str, Change], ...]:
    return ("tree_", change), ("estimators_/*/tree_", change)


def _zeroed(*fields: int) -> Change:
    """Put zeros in fields of all nodes."""

    def change(tree: Any) -> Any:
        nodes = _nodes(tree)
        if all(float(node[k]) == 0 for node in nodes for k in fields):
            return tree
        emptied = [[zero(x) if k in fields else x for k, x in enumerate(n)] for n in nodes]
        return {**tree, "nodes": emptied}

    return change


def _no_inner(tree: Any) -> Any:
    """Put zeros in the values of nodes that are no leaves."""
    inner = [int(node[_LEFT_CHILD]) != -1 for node in _nodes(tree)]
    values = tree.get("values")
    if not isinstance(values, list) or len(values) != len(inner):
        raise BadModel("a tree without a value for each node")
    new = [_zeros(v) if i else v for v, i in zip(values, inner, strict=True)]
    return tree if new == values else {**tree, "values": new}


def _zeros(value: Any) -> Any:
    return [_zeros(inner) for inner in value] if isinstance(value, list) else zero(value)


def _nodes(tree: Any) -> list[list[Any]]:
    nodes = tree.get("nodes") if isinstance(tree, Mapping) else None
    if not isinstance(nodes, list):
        raise BadModel("a tree without nodes")
    return nodes


def _no_importances(value: Any) -> Any:
    done = not isinstance(value, list) or all(float(x) == 0 for x in value)
    return value if done else [zero(x) for x in value]


def _no_seeds(params: Any) -> Any:
    """Put null in place of seeds: programs look for their keys."""
    if not isinstance(params, Mapping):
        return params
    patterns = SEED_NAMES.split()
    seeds = [k for k in params if any(fnmatchcase(k, p) for p in patterns)]
    found = [k for k in seeds if params[k] is not None]
    return {**params, **dict.fromkeys(found)} if found else params


def _everywhere(name: str, change: Callable[[Any], Any]) -> tuple[tuple[str, Change], ...]:
    return (name, change), (f"estimators_/*/{name}", change)


def _known(root: Any) -> Any:
    """Keep the keys that the package writes, in the model and in its trees."""
    new = {key: value for key, value in root.items() if key in _KEYS}
    if isinstance(inner := new.get("tree_"), Mapping) and not inner.keys() <= set(OF_TREE):
        new["tree_"] = {key: value for key, value in inner.items() if key in OF_TREE}
    if isinstance(trees := new.get("estimators_"), list):
        kept = [_known(tree) for tree in trees]
        same = all(a is b for a, b in zip(kept, trees, strict=True))
        new["estimators_"] = trees if same else kept
    same = len(new) == len(root) and all(new[key] is root[key] for key in new)
    return root if same else new


STEPS: tuple[Step, ...] = (
    step("oob", "predictions and scores of rows that trees did not draw", "out-of-bag scores",
         ("oob_decision_function_", dropped), ("oob_score_", dropped)),
    step("importances", "importance of each column in each tree", "feature_importances_",
         *_everywhere("feature_importances_", _no_importances)),
    step("impurity", "impurity of each node", "feature_importances_",
         *_at_trees(_zeroed(_IMPURITY))),
    step("seeds", "seeds of the forest and of its trees", "training the same model again",
         *_everywhere("params", _no_seeds)),
    step("counts", "numbers of rows in each node", NOTHING, *_at_trees(_zeroed(_ROWS, _WEIGHT))),
    step("inner", "class shares of inner nodes", "pictures of trees show them empty",
         *_at_trees(_no_inner)),
    step("unknown", "keys that the package does not write", NOTHING, ("", _known)),
)  # fmt: skip
