"""The adapters of scikit-learn's boosting over its own trees, and of isolation forests.

What their files hold, found out from the sources and checked against the library's own answers:

- Gradient boosting: every row is used in every tree, unless ``subsample`` or early stopping leaves
  some out. A tree's inner nodes hold the mean of the negative gradients of their rows, leaves the
  step that was taken from there, not yet multiplied by the learning rate; impurity is the variance
  of the negative gradients.
- AdaBoost for classes: every row in every tree, with weights of its own; a weight is above zero
  wherever a row is, so leaves name the classes that they hold.
- AdaBoost for targets: trees draw rows by chances that follow from the errors of the trees before.
- Isolation forests: trees on small samples of the rows, fitted to random numbers.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, floor
from typing import Any

import numpy as np
from scipy.special import logit

from treeleak.core.arrays import FloatArray
from treeleak.core.errors import NotCovered
from treeleak.core.message import static_message
from treeleak.release.adapters.sklearn.attributes import (
    class_labels,
    fitted,
    held_back,
    is_nonzero,
    seed,
    version_of,
    whole,
)
from treeleak.release.adapters.sklearn.counts import WEIGHTED, Training
from treeleak.release.adapters.sklearn.ensembles import KINDS, bagged_subsample, release_of
from treeleak.release.adapters.sklearn.nodes import (
    SQUARED,
    Nodes,
    Version,
    read_nodes,
    with_statistic,
    with_targets,
)
from treeleak.release.bounds import MOST_REAL, MOST_ROWS
from treeleak.release.ensemble import Ensemble, Fitting, Loss
from treeleak.release.registry import adapter
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows, Sampling, Subsample, UnknownSampling
from treeleak.release.statistics import GRADIENT, VALUE, VARIANCE
from treeleak.release.stored import StoredObject
from treeleak.release.tree import Tree

HELD_BACK = static_message(
    "Early stopping held part of the rows back: counts, and all that is rebuilt from them, are of "
    "the rows that the trees were fitted to.",
    "boosting_held_back",
)
BY_ERRORS = static_message(
    "each tree drew rows with probabilities that follow from the errors of earlier trees, so "
    "neither the draws nor these probabilities are known",
    "boosting_by_errors",
)
UNEVEN = static_message(
    "its trees count different numbers of rows: rows of weight zero are not counted",
    "boosting_uneven",
)
NO_BASE = static_message(
    "the model starts from the predictions of another model (init), which are not read",
    "boosting_no_base",
)


def boosted_counts(stored: StoredObject, by_class: bool, hidden: str = "") -> Release:
    """Read what trees of gradient boosting count, and which rows each saw.

    ``by_class``: whether early stopping holds equal shares of the classes back. ``hidden``: why
    the rows of each tree do not follow from the seed.
    """
    _, trees = _rounds(stored)
    held = None
    if stored.get("n_iter_no_change") is not None:
        held = held_back(stored, stored.get("random_state"), by_class)
    sampling: Sampling = AllRows(held)
    share = stored.get("subsample", 1.0)
    if share != 1.0:
        sampling = Subsample(
            forest_seed=seed(stored.get("random_state")),
            rule=f"scikit-learn {version_of(stored)} boosting",
            hidden=hidden
            or "the trees were added to in several steps" * bool(stored.get("warm_start")),
            held_back=held,
        )
    release = release_of(stored, trees, Training(sampling, None), "rows")
    if isinstance(release.sampling, Subsample):
        release = _sized(release, release.sampling, share, stored)
    if stored.get("n_iter_no_change") is not None:
        release = replace(release, notes=(*release.notes, HELD_BACK))
    return release


@adapter("sklearn", *("GradientBoosting" + kind for kind in KINDS))
def _gradient_boosting(stored: StoredObject) -> Release:
    rounds, trees = _rounds(stored)
    release = boosted_counts(stored, stored.name.endswith("Classifier"))
    base = _base_scores(stored, rounds.shape[1])
    notes = list(release.notes)
    ensemble = None
    if base is None:
        notes.append(NO_BASE[:1].upper() + NO_BASE[1:] + ".")
    else:
        rate = float(stored.get("learning_rate", 1.0))
        loss = str(stored.get("loss"))[:40]
        losses: dict[str, Loss] = {"squared_error": "squared", "ls": "squared"}
        if len(base) == 1:
            losses |= {"log_loss": "logistic", "deviance": "logistic"}
        plain = loss in losses and WEIGHTED not in release.notes
        fitting = Fitting(losses[loss]) if plain else None
        ensemble = Ensemble(loss, tuple(base.tolist()), rate, fitting)
    version = Version.of(version_of(stored))
    read = [
        _with_steps(
            stored,
            t,
            tree,
            read_nodes(t, stored_tree, None, release.n_features, version),
            stored_tree,
        )
        for t, (tree, stored_tree) in enumerate(zip(release.trees, trees, strict=True))
    ]
    if rounds.shape[1] > 1:
        read = [replace(tree, output=t % rounds.shape[1]) for t, tree in enumerate(read)]
    classes = class_labels(stored) if stored.name.endswith("Classifier") else ()
    return replace(
        release, trees=tuple(read), classes=classes, ensemble=ensemble, notes=tuple(notes)
    )


def _sized(release: Release, sampling: Subsample, share: Any, stored: StoredObject) -> Release:
    """Find the number of training rows behind the number that each round drew."""
    n = sampling.n_draws
    if n is None or not isinstance(share, float) or not 0 < share < 1 or not 0 < n < MOST_ROWS:
        return release
    around = range(max(n, floor(n / share) - 1), ceil((n + 1) / share) + 2)
    fit = [rows for rows in around if max(1, int(share * rows)) == n]
    start = stored.get("init_")
    prior = start.get("class_prior_") if isinstance(start, StoredObject) else None
    if isinstance(prior, np.ndarray) and prior.dtype.kind == "f":
        fit = [k for k in fit if (np.abs(prior * k - np.round(prior * k)) < 1e-9 * k).all()]
    if not fit:
        return release
    sampling = replace(sampling, rows_between=(fit[0], fit[-1]))
    return replace(release, sampling=sampling, n_rows=fit[0] if len(fit) == 1 else None)


def _rounds(stored: StoredObject) -> tuple[np.ndarray[Any, Any], list[StoredObject]]:
    """Trees by round and output, and one after the other."""
    rounds = np.asarray(fitted(stored, "estimators_"), dtype=object)
    trees = list(rounds.ravel())
    if other := [t for t in trees if not isinstance(t, StoredObject) or "tree_" not in t.state]:
        name = other[0].type if isinstance(other[0], StoredObject) else type(other[0]).__name__
        raise NotCovered(f"{stored.type} of {name}: only trees are covered")
    return rounds.reshape(len(rounds), -1), trees


def _with_steps(
    stored: StoredObject, t: int, tree: Tree, nodes: Nodes, stored_tree: StoredObject
) -> Tree:
    """Add what the nodes hold of the gradients, and of the targets of the first tree."""
    if nodes.value.shape[1:] != (1, 1) or stored_tree.get("criterion") not in SQUARED:
        return tree
    value, rate = nodes.value[:, 0, 0], float(stored.get("learning_rate", 1.0))
    tree = with_statistic(tree, VALUE, np.where(tree.is_leaf, value * rate, 0.0), tree.is_leaf)
    tree = with_statistic(tree, GRADIENT, -nodes.weight * value, ~tree.is_leaf)
    base = _base_scores(stored, 1)
    if t == 0 and stored.get("loss") in ("squared_error", "ls") and base is not None:
        return with_targets(stored_tree, nodes, tree, float(base[0]))
    return with_statistic(tree, VARIANCE, nodes.impurity)


_OLD_STARTS = {
    "MeanEstimator": "mean",
    "QuantileEstimator": "quantile",
    "LogOddsEstimator": "prior",
    "ScaledLogOddsEstimator": "prior",
    "PriorProbabilityEstimator": "priors",
    "ZeroEstimator": "",
}
"""What predicts the start before 0.21, by the attribute that holds its scores; the last holds none.
From ``sklearn/ensemble/gradient_boosting.py`` of 0.20."""


def _base_scores(stored: StoredObject, n_outputs: int) -> FloatArray | None:
    """What each output is before the first tree; None where that differs from row to row."""
    start = stored.get("init_")
    if start == "zero":
        return np.zeros(n_outputs)
    if not isinstance(start, StoredObject):
        return None
    base: Any = None
    if start.name in _OLD_STARTS:
        base = np.zeros(n_outputs)
        if attribute := _OLD_STARTS[start.name]:
            base = np.ravel(np.asarray(start.get(attribute), dtype=float))
    elif start.name == "DummyRegressor":
        base = np.ravel(np.asarray(start.get("constant_"), dtype=float))
    elif start.name == "DummyClassifier" and start.get("strategy") == "prior":
        prior = np.ravel(np.asarray(start.get("class_prior_"), dtype=float))
        if not (len(prior) > 1 and ((prior > 0) & (prior < 1)).all()):
            return None
        if n_outputs == 1 and len(prior) == 2:
            half = 0.5 if stored.get("loss") == "exponential" else 1.0
            base = half * logit(prior[1:])
        elif Version.of(version_of(stored)).centred_scores:
            base = np.log(prior / np.exp(np.log(prior).mean()))
        else:
            base = np.log(prior)
    usable = base is not None and base.shape == (n_outputs,) and (np.abs(base) <= MOST_REAL).all()
    return base if usable else None


@adapter("sklearn", "AdaBoostClassifier")
def _weights_by_errors(stored: StoredObject) -> Release:
    _, trees = _rounds(stored)
    class_weight = next((w for t in trees if (w := t.get("class_weight")) is not None), None)
    release = release_of(stored, trees, Training(AllRows(), None, class_weight))
    held = {float(tree.totals[0]) for tree in release.trees if tree.totals is not None}
    if len(held) > 1 and release.not_covered is None:
        return replace(release, not_covered=UNEVEN)
    return release


@adapter("sklearn", "AdaBoostRegressor")
def _draws_by_errors(stored: StoredObject) -> Release:
    _, trees = _rounds(stored)
    return release_of(stored, trees, Training(UnknownSampling(BY_ERRORS), None), "rows")


@adapter("sklearn", "IsolationForest")
def _isolation(stored: StoredObject) -> Release:
    _, trees = _rounds(stored)
    n_rows, drawn = whole(stored.get("_n_samples")), whole(stored.get("_max_samples"))
    sampling: Sampling = AllRows()
    if is_nonzero(stored.get("bootstrap")):
        sampling = UnknownSampling("each tree drew some of the rows, with replacement")
    elif n_rows is None or n_rows != drawn:
        sampling = bagged_subsample(stored, trees)
    return release_of(stored, trees, Training(sampling, n_rows), "rows")
