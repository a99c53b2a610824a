"""Whether a changed model still answers as before, from the trees in both files alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.auditing.inventory.other_models import OtherModel
from treeleak.auditing.record import Serialisable
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import BadModel, NotCovered
from treeleak.core.private import dataclass
from treeleak.release.adapters.sklearn import fitted, main_model, tree_and_values
from treeleak.release.registry import to_release
from treeleak.release.statistics import VALUE
from treeleak.release.stored import StoredObject, objects_in
from treeleak.release.tree import Tree

_AVERAGING = ("RandomForest", "ExtraTrees", "DecisionTree", "ExtraTree", "Bagging")
_HISTOGRAM = "HistGradientBoosting"
_MISSING = 0.1
"""Share of the values that are missing in rows drawn at random."""


@dataclass(frozen=True)
class Answers(Serialisable):
    """Predictions of the original and of the hardened file on the same rows."""

    rows: int
    of: str
    """Which rows, in words."""
    same_labels: float
    """Share of the rows whose label is the same."""
    changed_labels: int
    largest_change: float
    """Greatest difference of a probability (of a mean, of a regression)."""


@dataclass(frozen=True, eq=False)
class _Voice:
    """A tree with the columns that it reads and what its leaves say."""

    tree: Tree
    values: FloatArray
    columns: IntArray | None
    shares: bool = True
    """Whether it says how many of its rows are of each class."""

    def votes(self, X: NDArray[Any]) -> FloatArray:
        columns = X if self.columns is None else X[:, self.columns]
        value = self.values[self.tree.apply(columns)]
        if value.shape[1] > 1 and self.shares:
            # Before scikit-learn 1.4 these are sums of weights.
            sums = value.sum(axis=1, keepdims=True)
            value = np.where(np.abs(sums - 1) < 1e-6, value, value / sums)
        return np.asarray(value)


def averages(model: StoredObject) -> bool:
    """Whether a model's answer is the mean of what the leaves of its trees say."""
    inner = main_model(model)
    return inner.type.startswith("sklearn.") and inner.name.startswith(_AVERAGING)


def chooses_columns(model: StoredObject) -> bool:
    """Whether a step, at any depth, computes its choice of columns from the counts of trees."""
    return any(
        part.name in ("Tree", "TreePredictor")
        for step in objects_in(model)
        if step.name == "SelectFromModel"
        for part in objects_in(step)
    )


def comparable(container: StoredObject, others: Sequence[OtherModel]) -> bool:
    """Whether all models in a container have trees that :func:`compare` looks at.

    ``others``: models in it beside the one that is attacked.
    """
    of_library = ("sklearn.", "numpy.", "scipy.", "builtins.")
    return all(other.release is not None for other in others) and all(
        v.type.startswith(of_library) and not v.name.startswith(_HISTOGRAM)
        for v in objects_in(container)
    )


def compare(before: StoredObject, after: StoredObject, X: NDArray[Any], of: str) -> Answers:
    """Compare what two models say of rows.

    A model that averages its trees is compared as a whole, any other tree by tree: equal trees
    make equal answers.

    ``X``: shape (n_rows, n_columns). ``of``: which rows these are, in words.
    """
    old, new = _voices(before, X.shape[1]), _voices(after, X.shape[1])
    if len(old) != len(new):
        raise BadModel(f"{len(new)} trees instead of {len(old)}")
    float_type = "float32"
    if _is_boosted(before):
        releases = to_release(before), to_release(after)
        bases = [r.ensemble.base_scores if r.ensemble is not None else () for r in releases]
        if bases[0] != bases[1]:
            raise BadModel("another start value of the sum over trees")
        float_type = releases[0].float_type
    X = np.ascontiguousarray(X, dtype=float_type)
    same = np.ones(len(X), dtype=bool)
    largest = 0.0
    if averages(before):
        pairs = [(_mean(before, old, X), _mean(after, new, X))]
    else:
        pairs = [(o.votes(X), n.votes(X)) for o, n in zip(old, new, strict=True)]
    for one, other in pairs:
        if not (np.isfinite(one).all() and np.isfinite(other).all()):
            raise BadModel("what some leaves say is no number: predictions cannot be compared")
        largest = max(largest, float(np.abs(one - other).max(initial=0.0)))
        if one.shape[1] > 1:
            same &= one.argmax(axis=1) == other.argmax(axis=1)
        else:
            same &= (one == other).all(axis=1)
    changed = int((~same).sum())
    return Answers(len(X), of, 1 - changed / max(len(X), 1), changed, largest)


def _is_boosted(model: StoredObject) -> bool:
    """Whether this is a model of a boosting library, read by its adapter."""
    return not model.type.startswith("sklearn.")


def n_columns_of(model: StoredObject) -> int:
    """Count the columns that enter the trees."""
    if _is_boosted(model):
        return to_release(model).n_features
    inner = main_model(model)
    found = [t.get("n_features_in_") for t, _ in _trees(model)]
    if found or inner.name.startswith(_HISTOGRAM):
        found.append(inner.get("n_features_in_"))
    known = [int(n) for n in found if isinstance(n, (int, np.integer))]
    if not known:
        raise NotCovered(f"{model.type} holds no trees of scikit-learn that treeleak could harden")
    return known[-1] if inner.name.startswith(_AVERAGING) else max(known)


def random_rows(model: StoredObject, n_columns: int, n_rows: int, seed: int) -> FloatArray:
    """Draw rows on either side of every threshold, of boosted models with missing values, too."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n_rows, n_columns))
    cuts: dict[int, list[float]] = {}
    for voice in _voices(model, n_columns):
        inner = ~voice.tree.is_leaf & np.isfinite(voice.tree.threshold)
        feature = voice.tree.feature[inner]
        if voice.columns is not None:
            feature = voice.columns[feature]
        for column, cut in zip(feature.tolist(), voice.tree.threshold[inner].tolist(), strict=True):
            cuts.setdefault(column, []).append(cut)
    for column, found in sorted(cuts.items()):
        at = np.unique(found)
        between = (at[1:] + at[:-1]) / 2
        X[:, column] = rng.choice(np.concatenate([[at[0] - 1], between, [at[-1] + 1]]), n_rows)
    if _is_boosted(model):
        for column, values in sorted(_categories(model).items()):
            X[:, column] = rng.choice([*values, max(values) + 1], n_rows)
        X[rng.random(X.shape) < _MISSING] = np.nan
    return X


def _categories(model: StoredObject) -> dict[int, list[int]]:
    """List the categories for which a column is tested."""
    found: dict[int, set[int]] = {}
    for tree in to_release(model).trees:
        if tree.categories is not None:
            pairs = zip(tree.feature[tree.categories.node], tree.categories.value, strict=True)
            for column, value in pairs:
                found.setdefault(int(column), set()).add(int(value))
    return {column: sorted(values) for column, values in found.items()}


def _mean(model: StoredObject, voices: Sequence[_Voice], X: NDArray[Any]) -> FloatArray:
    """Average what trees say, each class in its place."""
    inner = main_model(model)
    trees, classes = inner.get("estimators_", []), inner.get("classes_")
    n_classes = max(v.values.shape[1] for v in voices)
    if isinstance(classes, np.ndarray):
        n_classes = max(n_classes, len(classes))
    out = np.zeros((len(X), n_classes))
    for k, voice in enumerate(voices):
        votes = voice.votes(X)
        places = np.arange(votes.shape[1])
        if votes.shape[1] < n_classes and k < len(trees):
            # A tree of a bagging that never saw a class numbers the others as the ensemble does.
            places = np.asarray(trees[k].get("classes_", places), dtype=np.int64)
        out[:, places] += votes
    # In this order, as scikit-learn does: votes may be nearly equal.
    return np.asarray(out / len(voices))


def _voices(model: StoredObject, n_columns: int) -> list[_Voice]:
    out: list[_Voice] = []
    if _is_boosted(model):
        return [_Voice(tree, _added(tree), None, shares=False) for tree in to_release(model).trees]
    inner = main_model(model)
    if inner.name.startswith(_HISTOGRAM):
        trees = to_release(inner).trees
        stored = [p for stage in fitted(inner, "_predictors") for p in stage]
        if len(trees) != len(stored):
            raise NotCovered(
                "trees that split categories: treeleak cannot compare their predictions"
            )
        return [
            _Voice(tree, one.get("nodes")["value"][:, None].astype(float), None)
            for tree, one in zip(trees, stored, strict=True)
        ]
    for tree, columns in _trees(model):
        inside = tree.get("tree_")
        if not isinstance(inside, StoredObject):
            raise NotCovered(
                f"{inner.name} of {tree.name}: treeleak compares predictions of single trees only"
            )
        values = inside.get("values")
        width = n_columns if columns is None else len(columns)
        if isinstance(values, np.ndarray) and values.ndim == 3 and values.shape[1] == 1:
            shape, value = tree_and_values(len(out), tree, width)
            out.append(_Voice(shape, value, columns))
        elif isinstance(values, np.ndarray) and values.ndim == 3:
            for k in range(values.shape[1]):
                one = {**inside.state, "values": np.ascontiguousarray(values[:, [k]])}
                alone = StoredObject(tree.type, {"tree_": StoredObject(inside.type, one)})
                shape, value = tree_and_values(len(out), alone, width)
                out.append(_Voice(shape, value, columns))
    return out


def _added(tree: Tree) -> FloatArray:
    """What the nodes of a boosted tree add, by output."""
    value = tree.statistics.get(VALUE) or tree.statistics.get(VALUE, per_class=True)
    if value is None:
        raise NotCovered(
            "trees whose leaves add several numbers, or that test statistics of the target (ctr): "
            "treeleak cannot compare their predictions"
        )
    return value.values.reshape(tree.n_nodes, -1)


def _trees(model: StoredObject) -> Iterator[tuple[StoredObject, IntArray | None]]:
    """All trees that answer, with the columns that a bagging gave them."""
    inner = main_model(model)
    if averages(model):
        of_columns = inner.get("estimators_features_") or []
        alone = "estimators_" not in inner.state
        for k, tree in enumerate([inner] if alone else fitted(inner, "estimators_")):
            columns = np.asarray(of_columns[k], dtype=np.int64) if k < len(of_columns) else None
            yield tree, columns
        return
    for value in objects_in(model):
        if isinstance(value.get("tree_"), StoredObject):
            yield value, None
