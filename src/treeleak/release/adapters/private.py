"""Differentially private trees, diffprivlib's and treeleak's, from stored data to a release.

Nothing of diffprivlib is imported: a saved model is read as data, so that the scikit-learn that
diffprivlib needs and the one that treeleak runs on need not be the same.

What its forest does, found out from the sources of 0.6.6 and checked by training (a test):

- The rows are cut into as many parts of equal size as there are trees, in their order or shuffled,
  and each tree sees one part. So each tree has the whole budget.
- Splits are drawn between the bounds. Leaves hold 1 for one class and 0 for the others: the class
  that permute-and-flip chose by the rows of each class, with epsilon as the weight of a row
  (sensitivity 1; monotonic, since neighbours add or remove a row). An empty leaf names any class
  with the same probability, as permute-and-flip would.
- The forest compares the numbers of the labels with the labels themselves. Unless these are 0, 1,
  2 and so on, its leaves name classes that have nothing to do with the rows.
- Each tree keeps the seed from which its splits and the noise of its labels were drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treeleak.core.errors import BadInput, BadModel
from treeleak.core.message import static_message
from treeleak.release.adapters.sklearn import class_labels, feature_names, fitted, tree_and_values
from treeleak.release.checked_json import located
from treeleak.release.noise.laws import DiscreteLaplace, LabelNoise, Laplace
from treeleak.release.readers.release_file import noise_from_dict
from treeleak.release.registry import adapter
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows, Disjoint, Sampling, UnknownSampling
from treeleak.release.statistics import LABELS, ROWS, Statistics
from treeleak.release.stored import StoredObject
from treeleak.release.tree import Tree

__all__: list[str] = []

MIXED_UP = static_message(
    "diffprivlib confuses labels with their numbers in a forest whose classes are not 0, 1, 2 "
    "and so on: its leaves say nothing about their rows",
    "diffprivlib_mixed_up",
)
WARM = static_message(
    "with warm_start, each call of fit splits the rows again, and the file does not record the "
    "calls",
    "diffprivlib_warm",
)
SEEDED = static_message(
    "The model holds the seed of each tree, which produced its splits and the noise of its "
    "labels. Anyone who has the model can draw them again, so the privacy budget does not "
    "bound what it discloses.",
    "diffprivlib_seeded",
)


@adapter("diffprivlib", "RandomForestClassifier")
def _forest(stored: StoredObject) -> Release:
    trees = fitted(stored, "estimators_")
    release = _release(stored, trees, Disjoint())
    if stored.get("warm_start"):
        return replace(release, sampling=UnknownSampling(WARM), not_covered=WARM)
    if release.classes != tuple(range(len(release.classes))):
        return replace(release, not_covered=MIXED_UP)
    return release


@adapter("diffprivlib", "DecisionTreeClassifier")
def _single_tree(stored: StoredObject) -> Release:
    return _release(stored, [stored], AllRows())


def _release(stored: StoredObject, trees: Sequence[Any], sampling: Sampling) -> Release:
    names, notes = feature_names(stored)
    read = [tree_and_values(t, tree, len(names)) for t, tree in enumerate(trees)]
    if any(part.get("random_state") is not None for part in (stored, *trees)):
        notes = (*notes, SEEDED)
    return Release(
        trees=tuple(tree.with_counts(LABELS, counts=values) for tree, values in read),
        feature_names=names,
        classes=class_labels(stored),
        sampling=sampling,
        n_rows=None,
        noise=_noise([tree.get("epsilon") for tree in trees]),
        float_type="float32",
        origin=f"diffprivlib, {stored.name}",
        notes=notes,
        sources=tuple(tree.get("tree_") for tree in trees),
    )


def _noise(budgets: Sequence[Any]) -> Any:
    """The law of the labels, by the budget that each tree was grown with."""
    numbers = {float(epsilon) for epsilon in budgets}
    if len(numbers) != 1:
        raise BadModel(f"its trees have different budgets: {sorted(numbers)[:5]}")
    (epsilon,) = numbers
    if np.isposinf(epsilon):
        return LabelNoise("majority")
    return noise_from_dict({"law": "label", "rule": "permute-and-flip", "scale": epsilon})


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
    schema, noise = stored.get("schema"), stored.get("noise_")
    if not isinstance(noise, StoredObject) or noise.name not in _LAWS:
        raise BadModel("noise_ is not a law of noise that treeleak draws from")
    allowed = {a.get("name") for a in _attributes(schema) if a.get("missing")}
    if unknown := allowed - set(names):
        raise BadInput(f"the schema allows missing values in an unknown column: {unknown.pop()!r}")
    groups = {}
    for attribute in _attributes(schema):
        if attribute.name != "OneHot" or attribute.get("at_most_one"):
            continue
        columns = tuple(attribute.get("members"))
        if not set(columns) <= set(names):
            raise BadInput(f"one-hot group {attribute.get('name')!r} names an unknown column")
        groups[str(attribute.get("name"))] = columns
    return Release(
        trees=tuple(_tree(tree, t) for t, tree in enumerate(fitted(stored, "trees_"))),
        feature_names=names,
        classes=class_labels(stored),
        sampling=AllRows(),
        n_rows=None,
        noise=noise_from_dict({"law": _LAWS[noise.name], **noise.state}),
        maybe_missing=frozenset(allowed),
        one_hot=groups,
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
        tree = Tree(**arrays, statistics=Statistics.counting(ROWS, counts))
    inner = ~tree.is_leaf & (counts != 0).any(axis=1)
    if inner.any():
        raise BadModel(f"tree {t}, node {inner.argmax()}: counts rows, and is not a leaf")
    return tree.with_statistics(Statistics.counting(ROWS, counts, present=tree.is_leaf))


def _attributes(schema: Any) -> Any:
    return schema.get("attributes", ()) if isinstance(schema, StoredObject) else ()
