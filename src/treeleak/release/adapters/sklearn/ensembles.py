"""The adapters of scikit-learn's trees and of what is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, floor
from typing import Any, Literal

import numpy as np

from treeleak.core.arrays import FloatArray
from treeleak.core.errors import NotCovered
from treeleak.core.message import static_message
from treeleak.release.adapters.sklearn.attributes import (
    class_labels,
    feature_names,
    fitted,
    is_nonzero,
    origin_of,
    row_weights,
    seed,
    version_of,
    whole,
)
from treeleak.release.adapters.sklearn.counts import (
    Training,
    counts_of,
    without_classes,
    without_sizes,
)
from treeleak.release.adapters.sklearn.nodes import (
    LARGEST,
    Nodes,
    Version,
    check_impurity,
    in_classes_of,
    maybe_missing,
    read_nodes,
    rightly_counted,
    with_targets,
)
from treeleak.release.bounds import MOST_ROWS
from treeleak.release.registry import adapter
from treeleak.release.release import Part, Release
from treeleak.release.row_facts import OutOfBag, out_of_bag
from treeleak.release.row_sets import LEAST_ROUNDS, of_row_sets, runs_of
from treeleak.release.sampling import AllRows, Bootstrap, Sampling, Subsample, UnknownSampling
from treeleak.release.stored import StoredObject
from treeleak.release.tree import Tree

TREES = ("DecisionTree", "ExtraTree")
FORESTS = ("RandomForest", "ExtraTrees")
KINDS = ("Classifier", "Regressor")


def bagged_subsample(stored: StoredObject, trees: Sequence[StoredObject]) -> Sampling:
    """Say how each tree of a bagging drew some of the rows, each of them once at most."""
    seeds = np.ravel(stored.get("_seeds", ()))
    weighted = row_weights(stored) is not None
    return Subsample(
        n_draws=whole(stored.get("_max_samples")),
        tree_seeds=tuple(map(seed, seeds)) if len(seeds) == len(trees) else (),
        forest_seed=seed(stored.get("random_state")),
        rule=f"scikit-learn {version_of(stored)} bagging",
        columns_drawn=whole(stored.get("_max_features")),
        columns_replaced=bool(stored.get("bootstrap_features", False)),
        hidden="rows of more weight were drawn more often" if weighted else "",
    )


MISCOUNTED = static_message(
    "scikit-learn before 1.9 miscounts the rows of a tree that splits on missing values, so the "
    "counts do not belong to the splits",
    "ensembles_miscounted",
)
HIDDEN = static_message(
    "class weights set each row's chance of being drawn, and the file does not hold the weights "
    "of the rows",
    "ensembles_hidden",
)


MONOTONIC = static_message(
    "monotonic constraints clip the class fractions, so they are not counts", "ensembles_monotonic"
)
WEIGHTED_ROWS = static_message(
    "its trees drew rows, each once at most, and rows or classes were weighted: sums of weights do "
    "not say how many rows there were",
    "ensembles_weighted_rows",
)
LeafMeaning = Literal["classes", "targets", "rows"]
"""What the nodes of a model say of the rows beside their number: nothing, where targets are made
up, or what other trees left to explain."""


@adapter("sklearn", *(family + kind for family in TREES for kind in KINDS))
def _single_tree(stored: StoredObject) -> Release:
    training = Training(AllRows(), None, stored.get("class_weight"))
    return release_of(stored, [stored], training)


@adapter("sklearn", "RandomTreesEmbedding")
def _embedding(stored: StoredObject) -> Release:
    # Its trees were fitted to random numbers in place of targets.
    return release_of(stored, fitted(stored, "estimators_"), Training(AllRows(), None), "rows")


@adapter("sklearn", *(family + kind for family in FORESTS for kind in KINDS))
def _forest(stored: StoredObject) -> Release:
    return forest(stored)


def forest(stored: StoredObject, meaning: LeafMeaning | None = None) -> Release:
    """Read a forest of trees that drew rows as scikit-learn's do, or that all saw every row.

    ``meaning``: as for :func:`release_of`.
    """
    trees = fitted(stored, "estimators_")
    if not stored.get("bootstrap", False):
        training = Training(AllRows(), None, stored.get("class_weight"))
        return release_of(stored, trees, training, meaning)
    version = Version.of(version_of(stored))
    n_rows = whole(stored.get("_n_samples"))
    most = stored.get("max_samples")
    draws = whole(stored.get("_n_samples_bootstrap"))
    if draws is None:  # before 1.4
        draws = whole(most)
    sampling = Bootstrap(
        n_draws=draws,
        tree_seeds=tuple(seed(t.get("random_state")) for t in trees),
        forest_seed=seed(stored.get("random_state")),
        rule=f"scikit-learn {version_of(stored)} forest",
        row_weights=row_weights(stored) if version.forest_draws_by_weight else None,
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
    training = Training(sampling, n_rows, class_weight, draws, share)
    return _of_tables(stored, trees, training, meaning)


@adapter("sklearn", "BaggingClassifier", "BaggingRegressor")
def _bagging(stored: StoredObject) -> Release:
    trees = fitted(stored, "estimators_")
    if other := [t.type for t in trees if t.name not in {f + k for f in TREES for k in KINDS}]:
        raise NotCovered(f"{stored.type} of {other[0]}: only bagging of trees is covered")
    n_rows, draws = whole(stored.get("_n_samples")), whole(stored.get("_max_samples"))
    sampling: Sampling = AllRows()
    if stored.get("bootstrap"):
        seeds = np.ravel(stored.get("_seeds", ()))
        by_weight = Version.of(version_of(stored)).bagging_draws_by_weight
        sampling = Bootstrap(
            n_draws=draws,
            tree_seeds=tuple(map(seed, seeds)) if len(seeds) == len(trees) else (),
            forest_seed=seed(stored.get("random_state")),
            rule=f"scikit-learn {version_of(stored)} bagging",
            row_weights=row_weights(stored) if by_weight else None,
            columns_drawn=whole(stored.get("_max_features")),
            columns_replaced=bool(stored.get("bootstrap_features", False)),
        )
    elif draws != n_rows or (draws is None and stored.get("max_samples", 1.0) != 1.0):
        sampling = bagged_subsample(stored, trees)
    class_weight = trees[0].get("class_weight")
    if isinstance(class_weight, Mapping) and stored.name.endswith("Classifier"):
        # The trees know the classes by their number only.
        labels = dict(enumerate(class_labels(stored)))
        class_weight = {labels.get(c, c): weight for c, weight in class_weight.items()}
    return _of_tables(stored, trees, Training(sampling, n_rows, class_weight, draws))


def _of_tables(
    stored: StoredObject,
    trees: Sequence[StoredObject],
    training: Training,
    meaning: LeafMeaning | None = None,
) -> Release:
    """Read trees that drew rows; those that drew so many from another table are a part each."""
    runs: list[tuple[int, int]] = []
    sampling = training.sampling
    if stored.get("warm_start") and isinstance(sampling, Bootstrap):
        version = Version.of(version_of(stored))
        roots = [
            read_nodes(t, tree, None, 2**31, version).weight[0] for t, tree in enumerate(trees)
        ]
        runs = runs_of(roots, LEAST_ROUNDS)
        if any(root != int(root) for root in roots):
            runs = []
    if len(runs) < 2 or not isinstance(sampling, Bootstrap):
        return release_of(stored, trees, training, meaning)
    # A bagging keeps the seeds of the trees that came last.
    parts, last = [], np.ravel(stored.get("_seeds", ()))
    for first, end in runs:
        draws = int(roots[first])
        seeds = sampling.tree_seeds[first:end]
        if not seeds and end == len(trees) and len(last) == end - first:
            seeds = tuple(map(seed, last))
        forest_seed = None if first else sampling.forest_seed
        drew = replace(sampling, n_draws=draws, tree_seeds=seeds, forest_seed=forest_seed)
        every = stored.get("max_samples") in (None, 1.0)
        told = replace(training, sampling=drew, n_rows=draws if every else None, total=draws)
        parts.append(
            Part(f"trees {first} to {end - 1}", release_of(stored, trees[first:end], told, meaning))
        )
    return of_row_sets(parts)


def release_of(
    stored: StoredObject,
    trees: Sequence[StoredObject],
    training: Training,
    meaning: LeafMeaning | None = None,
) -> Release:
    """Read an ensemble of scikit-learn's trees.

    ``meaning``: by default what the model's own name says.
    """
    version = Version.of(version_of(stored))
    names, notes = feature_names(stored)
    of_columns = stored.get("estimators_features_") or [None] * len(trees)
    nodes = [
        read_nodes(t, tree, features, len(names), version)
        for t, (tree, features) in enumerate(zip(trees, of_columns, strict=False))
    ]
    if "_sklearn_version" not in stored.state:
        notes = (
            *notes,
            static_message("The file does not say which version wrote it; read as a current one."),
        )
    if meaning is None:
        meaning = "classes" if stored.name.endswith("Classifier") else "targets"
    clipped = any(is_nonzero(tree.get("monotonic_cst")) for tree in trees)
    not_covered: str | None = None
    # Whatever the model says of itself, no leaf may hold numbers that nobody looked at.
    stored_numbers = [n.value.shape[1:] for n in nodes]
    of_leaf = max(o * (1 if meaning == "classes" else k) for o, k in stored_numbers)
    n_targets = max(whole(stored.get("n_outputs_")) or 1, of_leaf)
    if n_targets > 1:
        meaning = "rows"
    elif meaning == "classes" and clipped:
        not_covered = MONOTONIC
    if isinstance(training.sampling, UnknownSampling):
        not_covered = not_covered or training.sampling.why
    classes: tuple[Any, ...] = ()
    if meaning == "classes" and not_covered is None:
        classes = class_labels(stored)
    emptied = not any(n.reached.any() or n.weight.any() for n in nodes)
    missing = maybe_missing(trees, nodes, names, version)
    left_out: str | None = None
    if missing and not version.counts_missing_right and not_covered is None:
        if meaning != "rows":
            nodes, left_out = rightly_counted(nodes, [names.index(c) for c in missing])
        not_covered = None if left_out else MISCOUNTED
    noise, more, per_class = None, tuple[str, ...](), list[FloatArray]()
    if classes and emptied:
        counted, noise, more = without_sizes(stored, trees, nodes, training, classes)
    elif classes:
        sums = [
            in_classes_of(stored, tree, t, n, n.per_class(version), len(classes))
            for t, (tree, n) in enumerate(zip(trees, nodes, strict=True))
        ]
        # Before, rows with missing values that go unnoticed may be in the one and not in the other.
        if version.counts_missing_right:
            for t, (tree, n, tree_sums) in enumerate(zip(trees, nodes, sums, strict=True)):
                check_impurity(tree, t, n, tree_sums)
        counted, more = counts_of(nodes, sums, training, classes)
        per_class = sums
    else:
        counted, more = without_classes(nodes, training)
    # Rows that a tree drew once at most add up to more or less than that.
    roots = [(t.distinct[0], t.totals[0]) for t in counted
             if t.distinct is not None and t.totals is not None]  # fmt: skip
    if isinstance(training.sampling, Subsample) and any(d != total for d, total in roots):
        not_covered = not_covered or WEIGHTED_ROWS
    if meaning == "targets" and not_covered is None:
        each = zip(trees, nodes, counted, strict=True)
        counted = [with_targets(*arguments, clipped=clipped) for arguments in each]
    # Only the splitter ``best`` looks at every value; the other one draws a threshold.
    best = all(tree.get("splitter") == "best" for tree in trees)
    return Release(
        trees=tuple(counted),
        feature_names=names,
        classes=classes,
        noise=noise,
        not_covered=not_covered,
        left_out=left_out,
        maybe_missing=missing,
        float_type="float32",
        thresholds_are="midpoints" if best else "unknown",
        origin=origin_of(stored),
        notes=(*notes, *more),
        sources=tuple(tree.get("tree_") for tree in trees),
        n_targets=n_targets,
        out_of_bag=_out_of_bag(stored, nodes, per_class, training, whole_trees=not left_out),
        **_rows(training, nodes, counted, stored.get("max_samples")),
    )


def _out_of_bag(
    stored: StoredObject,
    nodes: Sequence[Nodes],
    sums: Sequence[FloatArray],
    training: Training,
    *,
    whole_trees: bool,
) -> tuple[OutOfBag, ...]:
    """Read the out-of-bag predictions, where they are sure to be those of these trees and rows.

    ``sums``: of the weights per class in each node; empty for a regressor.
    """
    sampling = training.sampling
    # Another fit with other settings leaves the array of the one before in place.
    current = stored.get("oob_score") and not stored.get("warm_start")
    if not isinstance(sampling, Bootstrap) or not whole_trees or not current:
        return ()
    if sampling.row_weights is not None or sampling.hidden:
        return ()
    if stored.name.endswith("Classifier"):
        total = [s.sum(axis=1, keepdims=True) for s in sums]
        if not sums or any((t <= 0).any() for t in total):
            return ()
        values = [s / t for s, t in zip(sums, total, strict=True)]
        found = out_of_bag(stored.get("oob_decision_function_"), values, training.n_rows, LARGEST)
    else:
        values = [n.value[:, 0, :] for n in nodes]
        found = out_of_bag(stored.get("oob_prediction_"), values, training.n_rows, LARGEST)
    return () if found is None else (found,)


def _rows(
    training: Training, nodes: Sequence[Nodes], counted: Sequence[Tree], most: Any
) -> dict[str, Any]:
    """What is known of the number of rows and of the draws."""
    n_rows, sampling = training.n_rows, training.sampling
    if isinstance(sampling, AllRows):
        n_rows = int(nodes[0].reached[0]) or None
        if n_rows is None and counted[0].totals is not None:
            n_rows = int(counted[0].totals[0])
    elif isinstance(sampling, (Bootstrap, Subsample)):
        roots = {t.totals[0] for t in counted if t.totals is not None}
        if sampling.n_draws is None and len(roots) == 1:
            sampling = replace(sampling, n_draws=int(roots.pop()))
        if n_rows is None and most is None and isinstance(sampling, Bootstrap):
            n_rows = sampling.n_draws
        if n_rows is None and sampling.n_draws is not None and training.share is not None:
            ends = ((sampling.n_draws + x) / training.share for x in (-0.5, 0.5))
            low, high = (min(end, MOST_ROWS) for end in ends)
            least = 1 if sampling.n_draws == 1 else ceil(low)
            sampling = replace(sampling, rows_between=(least, floor(high)))
    return {"sampling": sampling, "n_rows": n_rows}
