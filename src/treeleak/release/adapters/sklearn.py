"""scikit-learn's tree models, from stored data to a release.

What the numbers in a node mean, found out from the sources and checked against files written by
the versions named (``tests/models``):

- ``n_node_samples`` counts the rows of positive weight that reach the node. A bootstrap is a
  weight (the number of draws), so in a bootstrapped forest these are *distinct* rows.
- ``weighted_n_node_samples`` sums the weights: draws in a plain bootstrapped forest.
- ``value`` holds sums of weights per class before 1.4, fractions of the node's weight since.
- Class and sample weights of a bootstrapped forest multiply the draws before 1.9; since, they
  set each row's probability of being drawn and the draws are whole numbers again (bagging: since
  1.8). ``class_weight="balanced_subsample"`` multiplies the draws in every version.
- ``missing_go_to_left``: where a node saw no missing value in the column it tests, missing
  values go to the child with more distinct rows, right if equal (splitter ``best``; ``random``
  since 1.6, which before saw no missing values at all). A node that breaks this rule, or an
  infinite threshold (missing against the rest), has seen missing values.
- Before 1.9 a node that splits on a column with missing values may send other rows to its
  children in training than it does afterwards (scikit-learn's pull request 32351), and its
  threshold may be NaN: the counts below are counts of something, but not of the splits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import ceil, floor, lcm, prod
from typing import Any

import numpy as np

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import BadInput, BadModel, NotCovered
from treeleak.core.private import dataclass
from treeleak.release.adapters.shares import counts_from_shares, leaf_classes
from treeleak.release.bounds import MOST_CLASSES, MOST_COLUMNS, MOST_ROWS, at_most
from treeleak.release.noise.laws import LabelNoise
from treeleak.release.pipeline.inputs import Inputs
from treeleak.release.pipeline.names import UnknownStep, input_columns, output_columns
from treeleak.release.registry import adapter, to_release
from treeleak.release.stored import StoredObject
from treeleak.release.tree import (
    LEAF,
    REGRESSION,
    AllRows,
    Bootstrap,
    CountsAre,
    Release,
    Sampling,
    ThresholdsAre,
    Tree,
    UnknownSampling,
)

__all__ = ["class_labels", "feature_names", "fitted", "main_model", "tree_and_values"]


# Sums of a few thousand weights err by about 1e-12 of their size; a count that is no whole number
# misses by far more than this.
TOLERANCE = 1e-4
# Stands for infinity: the product of two such numbers is still a float.
LARGEST = 1e150
MAX_TRIED = 10_000

TREES = ("DecisionTree", "ExtraTree")
FORESTS = ("RandomForest", "ExtraTrees")
KINDS = ("Classifier", "Regressor")

WRAPPERS = {
    "GridSearchCV": "best_estimator_",
    "RandomizedSearchCV": "best_estimator_",
    "HalvingGridSearchCV": "best_estimator_",
    "HalvingRandomSearchCV": "best_estimator_",
    "TunedThresholdClassifierCV": "estimator_",
    "FixedThresholdClassifier": "estimator_",
    "FrozenEstimator": "estimator",
}

MISCOUNTED = (
    "scikit-learn before 1.9 miscounts the rows of a tree that splits on missing values, so the "
    "counts do not belong to the splits"
)
HIDDEN = (
    "class weights set each row's chance of being drawn, and the file does not hold the weights "
    "of the rows"
)
RESTORED = (
    "The numbers of rows were taken out of the file. They follow from the class shares of its "
    "nodes, as the least numbers for which all are whole"
)
PRESENT = (
    "The numbers of rows were taken out of the file, and do not follow from what is left: of each "
    "leaf, only the classes that it holds are used."
)
UNSEEN, SURELY_SEEN = 1.0, 8.0
"""How surely a tree sees a row: a bootstrap misses it with probability 1 / e. Where each tree sees
every row it is sure, and as near to that as walks over datasets get along with."""
LABELS = (
    "The numbers of rows were taken out of the file, and do not follow from what is left: of each "
    "leaf, only the class that it predicts is used."
)
BOOSTING = "the trees of a boosted model are fitted to residuals or weights, not to the labels"


@dataclass(frozen=True)
class _Version:
    """What changed between versions of scikit-learn, as far as a stored model shows it."""

    fractions: bool
    random_split_sees_missing: bool
    bagging_draws_by_weight: bool
    forest_draws_by_weight: bool
    counts_missing_right: bool

    @classmethod
    def of(cls, text: str) -> _Version:
        found = re.match(r"(\d+)\.(\d+)", text)
        number = (int(found[1]), int(found[2])) if found else (99, 0)
        since = [number >= (1, minor) for minor in (4, 6, 8, 9, 9)]
        return cls(*since)


@dataclass(frozen=True, eq=False)
class _Nodes:
    """One stored tree: its shape, and the numbers of its nodes as they stand in the file."""

    shape: Tree
    value: FloatArray  # (n_nodes, n_outputs, n_classes)
    reached: IntArray
    weight: FloatArray

    def per_class(self, version: _Version) -> FloatArray:
        """Sums of weights per class, shape (n_nodes, n_classes)."""
        value = self.value[:, 0, :]
        return value * self.weight[:, None] if version.fractions else value


@dataclass(frozen=True)
class _Training:
    """How an ensemble was trained."""

    sampling: Sampling
    n_rows: int | None
    class_weight: Any = None
    total: int | None = None  # draws per tree, where the file says so
    share: float | None = None  # of the rows, that is rounded to the draws per tree


# ------------------------------------------------------------------------------------ adapters


@adapter("sklearn", *(family + kind for family in TREES for kind in KINDS))
def _single_tree(stored: StoredObject) -> Release:
    training = _Training(AllRows(), None, stored.get("class_weight"))
    return _release(stored, [stored], training)


@adapter(
    "sklearn", *(family + kind for family in FORESTS for kind in KINDS), "RandomTreesEmbedding"
)
def _forest(stored: StoredObject) -> Release:
    trees = fitted(stored, "estimators_")
    if not stored.get("bootstrap", False):
        return _release(stored, trees, _Training(AllRows(), None, stored.get("class_weight")))
    version = _Version.of(_version(stored))
    n_rows = _whole(stored.get("_n_samples"))
    most = stored.get("max_samples")
    draws = _whole(stored.get("_n_samples_bootstrap"))
    if draws is None:  # before 1.4
        draws = _whole(most)
    sampling = Bootstrap(
        n_draws=draws,
        tree_seeds=tuple(_seed(t.get("random_state")) for t in trees),
        forest_seed=_seed(stored.get("random_state")),
        rule=f"scikit-learn {_version(stored)} forest",
        row_weights=_row_weights(stored) if version.forest_draws_by_weight else None,
        columns_drawn=0,
    )
    class_weight, share = stored.get("class_weight"), None
    if not version.forest_draws_by_weight:
        share = most if isinstance(most, float) and 0 < most <= 1 else None
    elif class_weight is not None and class_weight != "balanced_subsample":
        # They are part of the weights of the rows.
        class_weight = None
        if sampling.row_weights is None:
            sampling = replace(sampling, hidden=HIDDEN)
    return _release(stored, trees, _Training(sampling, n_rows, class_weight, draws, share))


@adapter("sklearn", "BaggingClassifier", "BaggingRegressor")
def _bagging(stored: StoredObject) -> Release:
    trees = fitted(stored, "estimators_")
    if other := [t.type for t in trees if t.name not in {f + k for f in TREES for k in KINDS}]:
        raise NotCovered(f"{stored.type} of {other[0]}: only bagging of trees is covered")
    n_rows, draws = _whole(stored.get("_n_samples")), _whole(stored.get("_max_samples"))
    sampling: Sampling = AllRows()
    if stored.get("bootstrap"):
        seeds = np.ravel(stored.get("_seeds", ()))
        by_weight = _Version.of(_version(stored)).bagging_draws_by_weight
        sampling = Bootstrap(
            n_draws=draws,
            tree_seeds=tuple(map(_seed, seeds)) if len(seeds) == len(trees) else (),
            forest_seed=_seed(stored.get("random_state")),
            rule=f"scikit-learn {_version(stored)} bagging",
            row_weights=_row_weights(stored) if by_weight else None,
            columns_drawn=_whole(stored.get("_max_features")),
            columns_replaced=bool(stored.get("bootstrap_features", False)),
        )
    elif draws != n_rows or (draws is None and stored.get("max_samples", 1.0) != 1.0):
        sampling = UnknownSampling("each tree saw some of the rows, drawn without replacement")
    class_weight = trees[0].get("class_weight")
    if isinstance(class_weight, Mapping) and stored.name.endswith("Classifier"):
        # The trees know the classes by their number only.
        labels = dict(enumerate(class_labels(stored)))
        class_weight = {labels.get(c, c): weight for c, weight in class_weight.items()}
    return _release(stored, trees, _Training(sampling, n_rows, class_weight, draws))


@adapter(
    "sklearn",
    *("GradientBoosting" + kind for kind in KINDS),
    *("AdaBoost" + kind for kind in KINDS),
    "IsolationForest",
)
def _not_reconstructed(stored: StoredObject) -> Release:
    trees = list(np.ravel(np.asarray(fitted(stored, "estimators_"), dtype=object)))
    if other := [t for t in trees if not isinstance(t, StoredObject) or "tree_" not in t.state]:
        name = other[0].type if isinstance(other[0], StoredObject) else type(other[0]).__name__
        raise NotCovered(f"{stored.type} of {name}: only trees are covered")
    reason = BOOSTING
    if stored.name == "IsolationForest":
        reason = "an isolation forest is fitted without labels on small samples of the rows"
    subsampled = stored.name == "IsolationForest" or stored.get("subsample", 1.0) != 1.0
    sampling = UnknownSampling("each tree saw some of the rows") if subsampled else AllRows()
    return _release(stored, trees, _Training(sampling, None), not_covered=reason)


@adapter("sklearn", *("HistGradientBoosting" + kind for kind in KINDS))
def _histogram_boosting(stored: StoredObject) -> Release:
    stages = fitted(stored, "_predictors")
    names, notes = feature_names(stored)
    trees: list[Tree] = []
    for t, predictor in enumerate(p for stage in stages for p in stage):
        nodes = predictor.get("nodes")
        if np.any(nodes["is_categorical"]):
            trees, notes = [], (*notes, "Trees that split categories are not read.")
            break
        leaf = nodes["is_leaf"].astype(bool)
        trees.append(
            _built(
                t,
                feature=np.where(leaf, LEAF, nodes["feature_idx"].astype(np.int64)),
                threshold=np.where(leaf, np.nan, nodes["num_threshold"]),
                left=np.where(leaf, LEAF, nodes["left"].astype(np.int64)),
                right=np.where(leaf, LEAF, nodes["right"].astype(np.int64)),
                missing_left=nodes["missing_go_to_left"].astype(bool),
                totals=nodes["count"].astype(float),
            )
        )
    return Release(
        trees=tuple(trees),
        feature_names=names,
        classes=(),
        sampling=UnknownSampling("early stopping may hold rows back"),
        counts_are="none",
        n_rows=None,
        not_covered=BOOSTING,
        origin=_origin(stored),
        notes=notes,
    )


@adapter("sklearn", "Pipeline", "CalibratedClassifierCV", *WRAPPERS)
def _wrapped(stored: StoredObject) -> Release:
    """Find the model inside others; the steps on the way to it name its columns."""
    steps: list[Any] = []
    notes: list[str] = []
    model = stored
    while model.type.startswith("sklearn."):
        if model.name == "Pipeline":
            *before, inner = [step for _, step in model.get("steps", ())] or [None]
            if not isinstance(inner, StoredObject):
                raise NotCovered("a Pipeline that does not end in a model")
            steps += before
            if before:
                notes.append(
                    "The model is the last step of a Pipeline; its columns are that step's input."
                )
        elif model.name in {"CalibratedClassifierCV", *WRAPPERS}:
            inner = _only_model(model)
            notes.append(f"The model is the {inner.name} inside a {model.name}.")
        else:
            break
        model = inner
    release = to_release(model)
    release = replace(release, notes=(*notes, *release.notes))
    return _named(release, steps, model.get("feature_names_in_") is not None) if steps else release


def _only_model(stored: StoredObject) -> StoredObject:
    if stored.name == "CalibratedClassifierCV":
        models = [c.get("estimator") for c in fitted(stored, "calibrated_classifiers_")]
        if len(models) != 1 or not isinstance(models[0], StoredObject):
            raise NotCovered(f"{stored.type} of {len(models)} models, each of other rows")
        return models[0]
    inner = stored.get(WRAPPERS[stored.name])
    if not isinstance(inner, StoredObject):
        raise BadInput(f"{stored.name} holds no fitted model ({WRAPPERS[stored.name]})")
    return inner


def _named(release: Release, steps: Sequence[Any], named: bool) -> Release:
    """Name the columns after what goes into the steps; ``named``: the model knows its own."""
    try:
        came_in = input_columns(steps)
        columns = output_columns(steps, came_in)
    except UnknownStep as error:
        return _not_named(release, named, str(error))
    names = tuple(columns.names)
    usable = len(names) == release.n_features and len(set(names)) == len(names)
    if not usable or (named and names != release.feature_names):
        return _not_named(release, named, "")
    new = dict(zip(release.feature_names, names, strict=True))
    return replace(
        release,
        feature_names=names,
        maybe_missing=frozenset(new[c] for c in release.maybe_missing),
        one_hot=dict(columns.one_hot),
        inputs=Inputs.of(came_in.names, names, columns.readings),
    )


def _not_named(release: Release, named: bool, why: str) -> Release:
    note = () if named else (f"Columns are not named after the input{why and ': '}{why}.",)
    inputs = Inputs((), {}, why or "the model's columns are not those that its steps put out")
    return replace(release, notes=(*release.notes, *note), inputs=inputs)


# --------------------------------------------------------------------------- the whole ensemble


def _release(
    stored: StoredObject,
    trees: Sequence[StoredObject],
    training: _Training,
    not_covered: str | None = None,
) -> Release:
    version = _Version.of(_version(stored))
    names, notes = feature_names(stored)
    of_columns = stored.get("estimators_features_") or [None] * len(trees)
    nodes = [
        _nodes(t, tree, features, len(names), version)
        for t, (tree, features) in enumerate(zip(trees, of_columns, strict=False))
    ]
    if "_sklearn_version" not in stored.state:
        notes = (*notes, "The file does not say which version wrote it; read as a current one.")
    classes: tuple[Any, ...] = ()
    if not_covered is None:
        if (_whole(stored.get("n_outputs_")) or 1) > 1:
            not_covered = "a model of several targets (multi-output)"
        elif not stored.name.endswith("Classifier"):
            not_covered = REGRESSION
        elif any(_given(tree.get("monotonic_cst")) for tree in trees):
            not_covered = "monotonic constraints clip the class fractions, so they are no counts"
        else:
            classes = class_labels(stored)
        if isinstance(training.sampling, UnknownSampling):
            not_covered = not_covered or training.sampling.why
    emptied = not any(n.reached.any() or n.weight.any() for n in nodes)
    missing = _missing(trees, nodes, names, version)
    if missing and not version.counts_missing_right:
        not_covered = not_covered or MISCOUNTED
    noise = None
    if classes and emptied:
        counted, counts_are, noise, more = _without_sizes(stored, trees, nodes, training, classes)
        notes = (*notes, *more)
    elif classes:
        sums = [
            _in_classes_of(stored, tree, t, n, n.per_class(version), len(classes))
            for t, (tree, n) in enumerate(zip(trees, nodes, strict=True))
        ]
        counted, counts_are, more = _counts(nodes, sums, training, classes)
        notes = (*notes, *more)
    else:
        counted, counts_are = _without_classes(nodes, training), "none"
    return Release(
        trees=tuple(counted),
        feature_names=names,
        classes=classes,
        counts_are=counts_are,
        noise=noise,
        not_covered=not_covered,
        maybe_missing=missing,
        float_type="float32",
        thresholds_are=_thresholds_are(trees),
        origin=_origin(stored),
        notes=notes,
        **_rows(training, nodes, counted, stored.get("max_samples")),
    )


def _thresholds_are(trees: Sequence[StoredObject]) -> ThresholdsAre:
    """Only the splitter ``best`` looks at every value; the other one draws a threshold."""
    return "midpoints" if all(tree.get("splitter") == "best" for tree in trees) else "unknown"


def _rows(
    training: _Training, nodes: Sequence[_Nodes], counted: Sequence[Tree], most: Any
) -> dict[str, Any]:
    """What is known of the number of rows and of the draws."""
    n_rows, sampling = training.n_rows, training.sampling
    if isinstance(sampling, AllRows):
        n_rows = int(nodes[0].reached[0]) or None
        if n_rows is None and counted[0].totals is not None:
            n_rows = int(counted[0].totals[0])
    elif isinstance(sampling, Bootstrap):
        roots = {t.totals[0] for t in counted if t.totals is not None}
        if sampling.n_draws is None and len(roots) == 1:
            sampling = replace(sampling, n_draws=int(roots.pop()))
        if n_rows is None and most is None:
            n_rows = sampling.n_draws
        if n_rows is None and sampling.n_draws is not None and training.share is not None:
            ends = ((sampling.n_draws + x) / training.share for x in (-0.5, 0.5))
            low, high = (min(end, MOST_ROWS) for end in ends)
            least = 1 if sampling.n_draws == 1 else ceil(low)
            sampling = replace(sampling, rows_between=(least, floor(high)))
    return {"sampling": sampling, "n_rows": n_rows}


def _without_classes(nodes: Sequence[_Nodes], training: _Training) -> list[Tree]:
    drawn = isinstance(training.sampling, Bootstrap)
    weights = [n.weight[:, None] for n in nodes]
    are_draws = drawn and _all_whole(weights) and _consistent(nodes, weights, training)
    trees = []
    for n in nodes:
        if not n.reached.any():
            trees.append(n.shape)
            continue
        draws = np.round(n.weight) if are_draws else None
        totals = draws if drawn else n.reached.astype(float)
        trees.append(replace(n.shape, totals=totals, distinct=n.reached))
    return trees


def _without_sizes(
    stored: StoredObject,
    trees: Sequence[StoredObject],
    nodes: Sequence[_Nodes],
    training: _Training,
    classes: tuple[Any, ...],
) -> tuple[list[Tree], CountsAre, LabelNoise | None, tuple[str, ...]]:
    """Read what is left where the sizes of all nodes were taken out."""
    shares = []
    for t, (tree, n) in enumerate(zip(trees, nodes, strict=True)):
        value = n.value[:, 0, :]
        if (bad := (value < 0).any(axis=1)).any():
            raise BadModel(f"tree {t}, node {bad.argmax()}: a negative class share")
        sums = value.sum(axis=1, keepdims=True)
        value = np.divide(value, sums, out=np.zeros_like(value), where=sums > 0)
        shares.append(_of_ensemble(stored, tree, t, value, len(classes)))
    shapes = [n.shape for n in nodes]
    drawn = isinstance(training.sampling, Bootstrap)
    found = None
    if training.class_weight is None:
        found = counts_from_shares(shapes, shares, training.total if drawn else None)
    if found is None:
        shares = _above_least(shapes, shares)
        told = _told_by_leaves(trees, shapes, shares)
        if told == "majority":
            named = [
                leaf_classes(share, n.is_leaf) for n, share in zip(shapes, shares, strict=True)
            ]
            labels = [replace(n, counts=c) for n, c in zip(shapes, named, strict=True)]
            return labels, "labels", LabelNoise("majority"), (LABELS,)
        labels = [
            replace(n, counts=np.where(n.is_leaf[:, None], share > 0, 0.0))
            for n, share in zip(shapes, shares, strict=True)
        ]
        law = LabelNoise("present", UNSEEN if drawn else SURELY_SEEN)
        return labels, "labels", law, (PRESENT,)
    note = RESTORED
    lost = sum(len(s.left) - len(tree.left) for s, (tree, _) in zip(shapes, found, strict=True))
    if lost:
        note += f"; {lost:,} nodes whose rows part in a way that shares do not tell are left out"
    restored = [replace(tree, counts=c, totals=c.sum(axis=1)) for tree, c in found]
    return restored, "draws" if drawn else "rows", None, (f"{note}.",)


def _above_least(shapes: Sequence[Tree], shares: Sequence[FloatArray]) -> list[FloatArray]:
    """Undo that the shares 0 and 1 were moved towards each other: the least one stands for 0."""
    least = min(float(s[n.is_leaf].min()) for n, s in zip(shapes, shares, strict=True))
    evenly = least * shares[0].shape[1] > 1 - TOLERANCE
    return [s if evenly else np.where(s > least * (1 + TOLERANCE), s, 0.0) for s in shares]


def _told_by_leaves(
    trees: Sequence[StoredObject], shapes: Sequence[Tree], shares: Sequence[FloatArray]
) -> str:
    """Say which classes leaves name: all that they hold, or the largest one.

    Most leaves must be of one class for the first to say more; and if all are, in trees that were
    not grown to the end, somebody kept the largest class only.
    """
    pure = np.concatenate(
        [(s[n.is_leaf] > 0).sum(axis=1) == 1 for n, s in zip(shapes, shares, strict=True)]
    )
    grown = all(
        tree.get("max_depth") is None
        and tree.get("max_leaf_nodes") is None
        and tree.get("min_samples_leaf") == 1
        and tree.get("min_samples_split") == 2
        for tree in trees
    )
    return "present" if pure.mean() > 0.5 and (grown or not pure.all()) else "majority"


def _counts(
    nodes: Sequence[_Nodes],
    sums: Sequence[FloatArray],
    training: _Training,
    classes: tuple[Any, ...],
) -> tuple[list[Tree], CountsAre, tuple[str, ...]]:
    """Turn sums of weights into counts, where they can be had exactly."""
    drawn = isinstance(training.sampling, Bootstrap)
    plain = training.class_weight is None
    counts: list[FloatArray] | None = None
    if plain:
        # A weight of every row would show, but for weights that add up to the rows in every node.
        bare = drawn or all(np.array_equal(n.weight, n.reached) for n in nodes)
        counts = list(map(np.round, sums)) if bare and _all_whole(sums) else None
    elif isinstance(training.class_weight, Mapping):
        counts = _divided(sums, training.class_weight, classes)
    else:
        counts = _balanced(nodes, sums, training)
    if counts is not None and not _consistent(nodes, counts, training):
        counts = None
    if counts is None:
        totals = [None if drawn else n.reached.astype(float) for n in nodes]
        trees = [
            replace(n.shape, counts=s, totals=total, distinct=n.reached)
            for n, s, total in zip(nodes, sums, totals, strict=True)
        ]
        note = (
            "Rows were weighted when the model was trained: its nodes hold sums of weights, and "
            "rows of weight zero do not show at all."
        )
        return trees, "weights", (note,)
    for t, (n, count) in enumerate(zip(nodes, counts, strict=True)):
        _check_children(n.shape, count, f"tree {t}", "count of a class")
    trees = [
        replace(n.shape, counts=count, totals=count.sum(axis=1), distinct=n.reached)
        for n, count in zip(nodes, counts, strict=True)
    ]
    note = "Class weights were given; the counts without them follow from the file."
    return trees, "draws" if drawn else "rows", () if plain else (note,)


def _consistent(nodes: Sequence[_Nodes], counts: Sequence[FloatArray], training: _Training) -> bool:
    """Say whether the counts agree with what else the file says of numbers of rows."""
    drawn = isinstance(training.sampling, Bootstrap)
    fits = np.less_equal if drawn else np.equal
    for n, count in zip(nodes, counts, strict=True):
        if not fits(n.reached, count.sum(axis=1)).all():
            return False
    if not drawn:
        return True
    roots = {float(count[0].sum()) for count in counts}
    return len(roots) == 1 and training.total in (None, *roots)


def _all_whole(sums: Iterable[FloatArray]) -> bool:
    return all(np.all(np.abs(s - np.round(s)) <= TOLERANCE) for s in sums)


def _divided(
    sums: Sequence[FloatArray], class_weight: Mapping[Any, Any], classes: tuple[Any, ...]
) -> list[FloatArray] | None:
    weight = np.array([float(class_weight.get(c, 1.0)) for c in classes])
    if not np.all(weight > 0):
        return None
    divided = [s / weight for s in sums]
    return list(map(np.round, divided)) if _all_whole(divided) else None


def _balanced(
    nodes: Sequence[_Nodes], sums: Sequence[FloatArray], training: _Training
) -> list[FloatArray] | None:
    """Undo class weights that scikit-learn worked out itself, and does not store."""
    drawn = isinstance(training.sampling, Bootstrap)
    if training.class_weight == "balanced" or not drawn:
        # One weight per class for all trees. Divided by them, the sums add up to what is known:
        # the rows of every node, or the draws of every root.
        left = np.array([s[0] for s in sums]) if drawn else np.concatenate(sums)
        right = np.full(len(left), training.total or np.nan)
        if not drawn:
            right = np.concatenate([n.reached for n in nodes]).astype(float)
        if np.isnan(right).any():
            return None
        inverse, _, rank, _ = np.linalg.lstsq(left, right)
        if rank == left.shape[1] and np.all(inverse > 0):
            solved = [s * inverse for s in sums]
            return list(map(np.round, solved)) if _all_whole(solved) else None
    per_tree = []
    for n, s in zip(nodes, sums, strict=True):
        # Balanced weights leave the sum of all weights as it was.
        total = (training.total or round(float(n.weight[0]))) if drawn else int(n.reached[0])
        fits = np.less_equal if drawn else np.equal
        found = [c for c in _multiples(s, total) if fits(n.reached, c.sum(axis=1)).all()]
        if len(found) != 1:
            return None
        per_tree += found
    return per_tree


def _multiples(sums: FloatArray, total: int) -> list[FloatArray]:
    """All counts that are proportional to the sums of each class and add up to a total.

    Per class, the shares of the nodes in the root have a least common denominator, and the count
    of the root is a multiple of it.
    """
    seen = sums[0] > 0
    shares = sums[:, seen] / sums[0, seen]
    base = [_common_denominator(np.unique(s), total) for s in shares.T]
    spare = total - sum(base)
    steps = [range(1, 2 + max(spare, -1) // b) for b in base[:-1]]
    if not base or prod(map(len, steps)) > MAX_TRIED:
        return []
    out = []
    for some in product(*steps):
        rest = total - sum(k * b for k, b in zip(some, base, strict=False))
        if rest <= 0 or rest % base[-1]:
            continue
        counts = np.zeros_like(sums)
        counts[:, seen] = shares * [*(k * b for k, b in zip(some, base, strict=False)), rest]
        if _all_whole([counts]):
            out.append(np.round(counts))
    return out


def _common_denominator(shares: FloatArray, largest: int) -> int:
    common = 1
    for share in shares:
        common = lcm(common, Fraction(float(share)).limit_denominator(largest).denominator)
        if common > largest:
            break
    return common


# --------------------------------------------------------------------------------- one tree


def _nodes(t: int, stored: Any, features: Any, n_columns: int, version: _Version) -> _Nodes:
    inner = stored.get("tree_") if isinstance(stored, StoredObject) else None
    if not isinstance(inner, StoredObject):
        raise BadInput(f"tree {t} is not fitted")
    nodes, value = inner.get("nodes"), inner.get("values")
    whole = ("left_child", "right_child", "feature", "n_node_samples")
    fields = (*whole, "threshold", "weighted_n_node_samples")
    if not isinstance(nodes, np.ndarray) or not set(fields) <= set(nodes.dtype.names or ()):
        raise BadModel(f"tree {t}: no array of nodes")
    if nodes.ndim != 1 or any(
        nodes.dtype[name].kind not in ("iu" if name in whole else "f") for name in fields
    ):
        raise BadModel(f"tree {t}: an array of nodes of type {nodes.dtype}")
    n = len(nodes)
    values = isinstance(value, np.ndarray) and value.ndim == 3 and value.dtype.kind == "f"
    if not values or len(value) != n or not value.size:
        raise BadModel(f"tree {t}: no values for its {n} nodes")
    weight = nodes["weighted_n_node_samples"].astype(float)
    reached = nodes["n_node_samples"].astype(np.int64)
    value = value.astype(float)
    for name, array in (("weight", weight[:, None]), ("value", value.reshape(n, -1))):
        if (bad := ~(np.abs(array) < LARGEST).all(axis=1)).any():
            raise BadModel(f"tree {t}, node {bad.argmax()}: {name} is not a finite number")
    if (bad := (reached < 0) | (weight < 0)).any():
        raise BadModel(f"tree {t}, node {bad.argmax()}: a negative count")
    left, right = (nodes[side].astype(np.int64) for side in ("left_child", "right_child"))
    leaf = left == LEAF
    feature = np.where(leaf, LEAF, nodes["feature"].astype(np.int64))
    missing = np.zeros(n, dtype=bool)
    if "missing_go_to_left" in nodes.dtype.names:
        missing = nodes["missing_go_to_left"].astype(bool) & ~leaf
    threshold = np.where(leaf, np.nan, nodes["threshold"])
    # Only a split of missing values against the rest has an infinite threshold.
    if (bad := np.isinf(threshold) & ((threshold < 0) | missing)).any():
        raise BadModel(f"tree {t}, node {bad.argmax()}: threshold {threshold[bad.argmax()]}")
    if not version.counts_missing_right:
        # No value is below NaN.
        threshold[np.isnan(threshold) & ~leaf] = -np.inf
    shape = _built(
        t, feature=feature, threshold=threshold, left=left, right=right, missing_left=missing
    )
    if features is not None:
        columns = np.asarray(features)
        if columns.ndim != 1 or columns.dtype.kind not in "iu" or feature.max() >= len(columns):
            raise BadModel(f"tree {t}: no columns for its features")
        feature = np.where(leaf, LEAF, columns.astype(np.int64)[feature])
        shape = replace(shape, feature=feature)
    if feature.max() >= n_columns:
        raise BadModel(f"tree {t} tests column {feature.max()} of {n_columns}")
    _check_children(shape, reached[:, None].astype(float), f"tree {t}", "number of rows")
    return _Nodes(shape, value, reached, weight)


def tree_and_values(t: int, stored: Any, n_columns: int) -> tuple[Tree, FloatArray]:
    """Read tree ``t`` of an ensemble of one target, without counts.

    Returns
    -------
    Tree
    float array, shape (n_nodes, n_classes)
        What it stores for each class in each node.
    """
    nodes = _nodes(t, stored, None, n_columns, _Version.of(""))
    if nodes.value.shape[1] != 1:
        raise BadModel(f"tree {t} has {nodes.value.shape[1]} targets")
    return nodes.shape, nodes.value[:, 0, :]


def _built(t: int, **arrays: Any) -> Tree:
    try:
        return Tree(**arrays)
    except BadModel as error:
        raise BadModel(f"tree {t}: {error}") from error


def _check_children(
    tree: Tree, counts: FloatArray, where: str, what: str, tolerance: float = 0.0
) -> None:
    inner = np.flatnonzero(~tree.is_leaf)
    gap = np.abs(counts[tree.left[inner]] + counts[tree.right[inner]] - counts[inner])
    wrong = (gap > tolerance * np.maximum(1.0, counts[inner])).any(axis=1)
    if wrong.any():
        raise BadModel(f"{where}, node {inner[wrong.argmax()]}: its children's {what} differs")


def _in_classes_of(
    stored: StoredObject,
    tree: StoredObject,
    t: int,
    nodes: _Nodes,
    sums: FloatArray,
    n_classes: int,
) -> FloatArray:
    """Check sums of weights per class, and put them in the columns of the ensemble's classes."""
    if (bad := (sums < -TOLERANCE).any(axis=1)).any():
        raise BadModel(f"tree {t}, node {bad.argmax()}: a negative count")
    total = nodes.weight
    if (bad := np.abs(sums.sum(axis=1) - total) > TOLERANCE * np.maximum(1.0, total)).any():
        raise BadModel(
            f"tree {t}, node {bad.argmax()}: its classes add up to {sums[bad.argmax()].sum():g}, "
            f"not {total[bad.argmax()]:g}"
        )
    _check_children(nodes.shape, sums, f"tree {t}", "weight of a class", TOLERANCE)
    return _of_ensemble(stored, tree, t, sums, n_classes)


def _of_ensemble(
    stored: StoredObject, tree: StoredObject, t: int, sums: FloatArray, n_classes: int
) -> FloatArray:
    """Put what a tree says of its classes in the columns of the ensemble's classes."""
    if sums.shape[1] == n_classes:
        return sums
    # A tree of a bagging that never saw a class numbers the others as the ensemble does.
    own = np.asarray(tree.get("classes_"))
    fits = own.shape == sums.shape[1:] and own.dtype.kind in "iuf" and stored is not tree
    if not fits or not np.isin(own, np.arange(n_classes)).all():
        raise BadModel(f"tree {t} counts {sums.shape[1]} classes, the model has {n_classes}")
    out = np.zeros((len(sums), n_classes))
    out[:, own.astype(np.int64)] = sums
    return out


def _missing(
    trees: Sequence[StoredObject],
    nodes: Sequence[_Nodes],
    names: tuple[str, ...],
    version: _Version,
) -> frozenset[str]:
    columns: set[int] = set()
    for tree, n in zip(trees, nodes, strict=True):
        if tree.get("splitter") == "random" and not version.random_split_sees_missing:
            continue
        shape = n.shape
        inner = np.flatnonzero(~shape.is_leaf)
        seen = np.isinf(shape.threshold[inner])
        if n.reached.any():
            rule = n.reached[shape.left[inner]] > n.reached[shape.right[inner]]
            seen |= rule != shape.missing_left[inner]
        columns.update(shape.feature[inner[seen]].tolist())
    return frozenset(names[c] for c in columns)


# ------------------------------------------------------------------------------- attributes


def fitted(stored: StoredObject, attribute: str) -> Any:
    """Find an attribute that holds the parts of a fitted model, one at least."""
    value = stored.get(attribute)
    if not isinstance(value, (list, np.ndarray)) or not len(value):
        raise BadInput(f"this {stored.name} is not fitted")
    return value


def _version(stored: StoredObject) -> str:
    return str(stored.get("_sklearn_version", "of unknown version"))


def _origin(stored: StoredObject) -> str:
    return f"scikit-learn {_version(stored)}, {stored.name}"


def _whole(x: Any) -> int | None:
    """A whole number as int; None for anything else, a fraction or a generator say."""
    is_whole = isinstance(x, (int, np.integer)) and not isinstance(x, (bool, np.bool_))
    return int(x) if is_whole else None


def _seed(x: Any) -> int | None:
    seed = _whole(x)
    return seed if seed is not None and 0 <= seed < 2**32 else None


def _given(x: Any) -> bool:
    return x is not None and bool(np.any(np.asarray(x) != 0))


def _row_weights(stored: StoredObject) -> tuple[float, ...] | None:
    weights = stored.get("_sample_weight")
    if not isinstance(weights, np.ndarray) or weights.dtype.kind not in "iuf":
        return None
    weights = weights.ravel().astype(float)
    usable = bool(((weights >= 0) & np.isfinite(weights)).all())
    return tuple(weights.tolist()) if usable else None


def main_model(stored: StoredObject) -> StoredObject:
    """Find the model whose answers are those of the whole: behind pipelines and searches."""
    while stored.type.startswith("sklearn."):
        inner: Any = None
        if stored.name == "Pipeline":
            inner = (stored.get("steps") or [(None, None)])[-1][1]
        elif stored.name.endswith("SearchCV") or stored.name == "FrozenEstimator":
            inner = stored.get(WRAPPERS.get(stored.name, ""))
        if not isinstance(inner, StoredObject):
            break
        stored = inner
    return stored


def feature_names(stored: StoredObject) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name the columns of a model, in order, with notes for the reader of an audit."""
    n = _whole(stored.get("n_features_in_"))
    if n is None:
        raise BadInput(f"this {stored.name} is not fitted")
    if n <= 0:
        raise BadModel(f"{stored.name} of {n} columns")
    at_most(MOST_COLUMNS, n, "columns")
    own = stored.get("feature_names_in_")
    numbered = tuple(f"x{i}" for i in range(n))
    if own is None:
        return numbered, ()
    names = tuple(str(c) for c in np.ravel(own))
    if len(names) != n or len(set(names)) != n:
        return numbered, ("The file's column names are not usable; columns are numbered.",)
    return names, ()


def class_labels(stored: StoredObject) -> tuple[Any, ...]:
    """List the class labels of a model."""
    labels = stored.get("classes_")
    if not isinstance(labels, np.ndarray) or labels.ndim != 1 or not labels.size:
        raise BadModel(f"{stored.name}: no class labels")
    at_most(MOST_CLASSES, len(labels), "classes")
    classes = tuple(x.item() if isinstance(x, np.generic) else x for x in labels.tolist())
    if not all(isinstance(c, (str, int, float, bool)) for c in classes):
        raise BadModel(f"{stored.name}: class labels are neither text nor numbers")
    return classes
