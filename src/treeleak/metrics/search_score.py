"""A score for searches over settings: how much of its training set a fitted model keeps back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treeleak.reconstruction import Reconstruction
from treeleak.reconstruction.run import reconstruct

if TYPE_CHECKING:
    from treeleak.schema import Schema

PROBABLE = 0.9
"""Least confidence of a value that counts as rebuilt, though it is not proved."""


def leak_score(
    estimator: Any,
    X: Any = None,  # noqa: ARG001
    y: Any = None,  # noqa: ARG001
    *,
    schema: Schema | None = None,
    time_limit: float = 10,
    seed: int = 0,
) -> float:
    """Minus the share of training values that an attack on the fitted model rebuilds: 0 is best.

    A scorer as scikit-learn calls one, for a search that looks at accuracy and leak at once::

        search = GridSearchCV(
            RandomForestClassifier(),
            {"min_samples_leaf": [1, 5, 20]},
            scoring={"accuracy": "accuracy", "leak": treeleak.metrics.leak_score},
            refit="accuracy",
        )

    The training rows are not looked at, and nothing is compared with them. A value counts if the
    attack is sure of it, with 90 % or more; of a number, that is the interval between thresholds in
    which it lies. Values of columns that no tree tests are not rebuilt. So the score ranks settings
    on one table, and is no audit: confidence may be wrong, and 0 is no proof of safety. Audit the
    model that you chose.

    Parameters
    ----------
    estimator : fitted estimator
        Of any kind that :func:`treeleak.reconstruct` takes, pipelines among them.
    X, y : ignored
        scikit-learn gives the rows held back, which tell nothing of the training rows.
    schema : Schema, optional
        What a row can be; the model's own thresholds, unless given.
    time_limit : float
        Seconds for each fitted model; ``functools.partial(leak_score, time_limit=60)`` gives more.
    seed : int

    Returns
    -------
    float
        From -1 (every value) to 0 (none). NaN if the attack came to no answer in time, or if the
        counts contradict the schema: nothing is known then, and a search ranks it last.

    Raises
    ------
    NotCovered
        If the model is none that treeleak can attack.
    """
    rebuilt = reconstruct(estimator, schema, time_limit=time_limit, seed=seed)
    if rebuilt.X is None or rebuilt.status in ("unknown", "infeasible"):
        return float("nan")
    return -_rebuilt_share(rebuilt)


def _rebuilt_share(rebuilt: Reconstruction) -> float:
    if rebuilt.confidence is None or not rebuilt.confidence.size:
        return 0.0
    sure = rebuilt.confidence.to_numpy() >= PROBABLE
    sure[:, rebuilt.confidence.columns.isin(rebuilt.free_columns)] = False
    return float(sure.mean())
