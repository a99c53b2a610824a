"""treeleak's own private forests, from stored data to a release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from treeleak.core.errors import BadInput, BadModel
from treeleak.release.adapters.sklearn import class_labels, feature_names, fitted
from treeleak.release.checked_json import located
from treeleak.release.noise.laws import CountNoise, DiscreteLaplace, LabelNoise, Laplace
from treeleak.release.readers.release_file import noise_from_dict
from treeleak.release.registry import adapter
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows
from treeleak.release.statistics import ROWS, Statistics
from treeleak.release.stored import StoredObject
from treeleak.release.tree import Tree

__all__: list[str] = []

# Kinds of numpy types, and how many dimensions each array has.
_ARRAYS = {
    "feature": ("i", 1),
    "threshold": ("f", 1),
    "left": ("i", 1),
    "right": ("i", 1),
    "missing_left": ("b", 1),
    "counts": ("f", 2),
}
_LAWS = {law.__name__: law.law for law in (DiscreteLaplace, Laplace)}


@adapter("treeleak", "DPForestClassifier")
def _dp_forest(stored: StoredObject) -> Release:
    names, notes = feature_names(stored)
    schema = stored.get("schema")
    return Release(
        trees=tuple(
            _leaves_only(_tree(tree, t), t) for t, tree in enumerate(fitted(stored, "trees_"))
        ),
        feature_names=names,
        classes=class_labels(stored),
        sampling=AllRows(),
        n_rows=None,
        noise=_noise(stored.get("noise_")),
        maybe_missing=_maybe_missing(schema, names),
        one_hot=_one_hot(schema, names),
        origin="treeleak, DPForestClassifier",
        notes=notes,
        sources=tuple(fitted(stored, "trees_")),
    )


def _tree(stored: Any, t: int) -> Tree:
    if not isinstance(stored, StoredObject):
        raise BadModel(f"tree {t} is not a tree")
    arrays = {name: stored.get(name) for name in _ARRAYS}
    for name, (kind, dimensions) in _ARRAYS.items():
        array = arrays[name]
        fits = isinstance(array, np.ndarray) and array.dtype.kind == kind
        if not fits or array.ndim != dimensions:
            raise BadModel(f"tree {t}: {name} is not an array of {dimensions} dimensions")
        arrays[name] = array.astype({"i": np.int64, "f": np.float64, "b": np.bool_}[kind])
    with located(f"tree {t}: "):
        counts = arrays.pop("counts")
        return Tree(**arrays, statistics=Statistics.counting(ROWS, counts))


def _leaves_only(tree: Tree, t: int) -> Tree:
    assert tree.counts is not None  # noqa: S101
    inner = ~tree.is_leaf & (tree.counts != 0).any(axis=1)
    if inner.any():
        raise BadModel(f"tree {t}, node {inner.argmax()}: counts rows, and is not a leaf")
    leaves = Statistics.counting(ROWS, tree.counts, present=tree.is_leaf)
    return replace(tree, statistics=leaves)


def _noise(stored: Any) -> CountNoise | LabelNoise:
    if not isinstance(stored, StoredObject) or stored.name not in _LAWS:
        raise BadModel("noise_ is not a law of noise that treeleak draws from")
    return noise_from_dict({"law": _LAWS[stored.name], **stored.state})


def _attributes(schema: Any) -> Any:
    return schema.get("attributes", ()) if isinstance(schema, StoredObject) else ()


def _maybe_missing(schema: Any, names: tuple[str, ...]) -> frozenset[str]:
    allowed = {a.get("name") for a in _attributes(schema) if a.get("missing")}
    if unknown := allowed - set(names):
        raise BadInput(f"the schema allows missing values in an unknown column: {unknown.pop()!r}")
    return frozenset(allowed)


def _one_hot(schema: Any, names: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
    groups = {}
    for attribute in _attributes(schema):
        if attribute.name != "OneHot" or attribute.get("at_most_one"):
            continue
        columns = tuple(attribute.get("members"))
        if not set(columns) <= set(names):
            raise BadInput(f"one-hot group {attribute.get('name')!r} names an unknown column")
        groups[str(attribute.get("name"))] = columns
    return groups
