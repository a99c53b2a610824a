"""How sure a model is of the labels of rows: the score of membership attacks on predictions.

Higher for rows that the model was trained on. Of a class it is arcsin √p of its probability p, of a
model without probabilities whether it is right, and of a regression how little it is off, with a
minus sign.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import NotCovered
from treeleak.core.message import static_message
from treeleak.metrics.shadow_models import confidence_of
from treeleak.release.release import Release
from treeleak.release.statistics import MEAN, VALUE, WEIGHTS, Quantity

UNKNOWN = static_message(
    "how the trees in the file come to a prediction is not known", "confidence_unknown"
)


def of_model(model: Any, X: Any, y: NDArray[Any]) -> FloatArray:
    """Ask a live model.

    Parameters
    ----------
    model : fitted estimator
    X : DataFrame or array, shape (n_rows, n_columns)
    y : array, shape (n_rows,)

    Returns
    -------
    array, shape (n_rows,)
    """
    classes = getattr(model, "classes_", None)
    if classes is None or np.ndim(classes) != 1 or not len(classes):  # CatBoost's regressors: []
        return _how_near(np.ravel(model.predict(X)), y)
    if hasattr(model, "predict_proba"):
        probabilities = np.asarray(model.predict_proba(X), dtype=float)
        number = {value: k for k, value in enumerate(np.asarray(classes).tolist())}
        at = np.array([number.get(value, -1) for value in y.tolist()])
        return _of_classes(probabilities, at)
    return np.asarray(np.ravel(model.predict(X)) == y, dtype=float)


def of_trees(release: Release, X: Any, y: NDArray[Any]) -> FloatArray:
    """Work out what the trees of a file predict; as for :func:`of_model`, in the trees' columns.

    Raises NotCovered if that is not known.
    """
    node, ensemble = release.leaves(X), release.ensemble
    if ensemble is None:
        return _of_forest(release, node, y)
    if ensemble.fitting is None:
        raise NotCovered(UNKNOWN)
    total = np.tile(np.asarray(ensemble.base_scores, dtype=float), (len(node), 1))
    for t, values in enumerate(_at_nodes(release, VALUE)):
        total[:, release.trees[t].output or 0] += values[node[:, t]]
    if ensemble.fitting.loss == "squared":
        return _how_near(total[:, 0], y)
    at = release.class_numbers(y.tolist())
    if total.shape[1] == 1:
        return confidence_of(expit(np.where(at == 1, total[:, 0], -total[:, 0])))
    return _of_classes(np.exp(log_softmax(total, axis=1)), at)


def _of_forest(release: Release, node: IntArray, y: NDArray[Any]) -> FloatArray:
    if not release.classes:
        means = _at_nodes(release, MEAN)
        return _how_near(np.mean([m[node[:, t]] for t, m in enumerate(means)], axis=0), y)
    probabilities = np.zeros((len(node), len(release.classes)))
    for t, tree in enumerate(release.trees):
        # Trees of AdaBoost, which count weights, do not all have one vote.
        if tree.counts is None or release.counts_are == WEIGHTS.name:
            raise NotCovered(UNKNOWN)
        counts = tree.counts[node[:, t]]
        probabilities += counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)
    return _of_classes(probabilities / len(release.trees), release.class_numbers(y.tolist()))


def _at_nodes(release: Release, quantity: Quantity) -> list[FloatArray]:
    entries = [tree.statistics.get(quantity) for tree in release.trees]
    if any(entry is None or np.ndim(entry.values) != 1 for entry in entries):
        raise NotCovered(UNKNOWN)
    return [np.asarray(entry.values, dtype=float) for entry in entries if entry is not None]


def _of_classes(probabilities: FloatArray, at: IntArray) -> FloatArray:
    # A class that the model does not know is as unlikely as can be.
    return confidence_of(np.where(at >= 0, probabilities[np.arange(len(at)), at], 0.0))


def _how_near(predicted: Any, y: NDArray[Any]) -> FloatArray:
    return np.asarray(-np.abs(np.asarray(predicted, dtype=float) - y.astype(float)))
