"""Rows in the columns of a pipeline's input, put through its fitted steps.

A live pipeline's own steps do it; of a file, nothing is run: each column is worked out from what
is stored of its transformers.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from treeleak.core.arrays import FloatArray
from treeleak.core.errors import Mismatch
from treeleak.core.message import Kind
from treeleak.release.pipeline.inputs import (
    MISSING,
    Code,
    Indicator,
    Inputs,
    Missing,
    Number,
    Reading,
)

if TYPE_CHECKING:
    from treeleak.release.release import Release

PUT_THROUGH = Kind(
    "rows_put_through", "treeleak applied the pipeline's fitted steps to the {what}."
)
WRAPPERS = {
    "GridSearchCV": "best_estimator_",
    "RandomizedSearchCV": "best_estimator_",
    "HalvingGridSearchCV": "best_estimator_",
    "HalvingRandomSearchCV": "best_estimator_",
    "TunedThresholdClassifierCV": "estimator_",
    "FixedThresholdClassifier": "estimator_",
    "FrozenEstimator": "estimator",
}
"""What scikit-learn wraps around a model or a pipeline, and where that is."""
TRANSFORM = "rows = pd.DataFrame(pipe[:-1].transform(X), columns=pipe[:-1].get_feature_names_out())"
"""What makes rows of the trees' columns."""
LINES = f"{TRANSFORM}; treeleak.audit(pipe, rows, y)"
"""What to type where rows cannot be put through."""


def put_through(release: Release, X: Any, what: str = "rows") -> tuple[Any, tuple[str, ...]]:
    """Put rows through the steps before the model, if they are in the columns of the input.

    Rows whose columns could be either, as where all that is done is scaling, are those that reach
    more of the leaves: training rows reach them all. Where both do, they are those that lie in the
    leaves in the numbers that the model counts.

    Parameters
    ----------
    release : Release
    X : DataFrame or array
    what : str
        What messages call the rows.

    Returns
    -------
    X : DataFrame or array
        The very same where there is nothing to do.
    notes : tuple of str

    Raises
    ------
    Mismatch
        If they are in the columns of the input and cannot be put through, with the code that does.
    """
    inputs = release.inputs
    if inputs is None or not (names := _comes_in(inputs)):
        return X, ()
    own, raw = _fits(X, release.feature_names), _fits(X, names)
    if not raw:
        if not own and isinstance(X, pd.DataFrame):
            _check_meant({str(c) for c in X.columns}, names, release.feature_names, what)
        return X, ()
    try:
        found = _through(release, inputs, X, names, what)
    except Mismatch:
        if own:
            return X, ()
        raise
    if own and _fit(release, X) >= _fit(release, found):
        return X, ()
    return found, (PUT_THROUGH(what=what),)


def _comes_in(inputs: Inputs) -> tuple[str, ...]:
    """Name the columns of the input; the pipeline itself may know more than was stored."""
    own = getattr(inputs.live, "feature_names_in_", None)
    return inputs.names or (() if own is None else tuple(map(str, own)))


def _fits(X: Any, names: tuple[str, ...]) -> bool:
    if not isinstance(X, pd.DataFrame):
        return np.ndim(X) == 2 and np.shape(X)[1] == len(names)
    return set(names) <= {str(c) for c in X.columns}


def _check_meant(
    given: set[str], names: tuple[str, ...], of_model: tuple[str, ...], what: str
) -> None:
    """Refuse rows of which most columns are those of the input, naming those that they lack."""
    lacks = [c for c in names if c not in given]
    if 2 * len(lacks) > len(names) or len(given & set(of_model)) >= len(names) - len(lacks):
        return
    near = get_close_matches(lacks[0], sorted(given - set(names)), 1)
    hint = f" (did you mean {lacks[0]!r} by {near[0]!r}?)" if near else ""
    raise Mismatch(
        f"the {what} are in the columns that enter the pipeline, but lack "
        f"{', '.join(map(repr, lacks[:5]))}{' and more' * (len(lacks) > 5)}{hint}"
    )


def _through(
    release: Release, inputs: Inputs, X: Any, names: tuple[str, ...], what: str
) -> pd.DataFrame:
    if isinstance(X, pd.DataFrame):
        table = X.set_axis([str(c) for c in X.columns], axis=1)[list(names)]
    else:
        table = pd.DataFrame(np.asarray(X), columns=list(names))
    try:
        if inputs.live is not None:
            values = _run(inputs.live, table)
        else:
            if inputs.why_not:
                raise _NotPutThrough(inputs.why_not)
            values = np.column_stack(
                [_column(inputs.readings[c], c, table) for c in release.feature_names]
            )
    except Exception as error:  # The steps are the user's own code.
        # What an error of theirs says may quote a value.
        why = f": {error}" if isinstance(error, _NotPutThrough) else f" ({type(error).__name__})"
        raise Mismatch(
            f"the {what} are in the columns that enter the pipeline, not in those that enter the "
            f"trees, and could not be put through its steps{why}. In Python: {LINES}"
        ) from error
    if values.shape[1:] != (release.n_features,):
        raise Mismatch(
            f"the pipeline's steps make {values.shape[-1]} columns of the {what}; the trees have "
            f"{release.n_features}"
        )
    return pd.DataFrame(values, index=table.index, columns=list(release.feature_names))


class _NotPutThrough(Exception):
    """Says what stood in the way, and no value."""


def _run(live: Any, table: Any) -> FloatArray:
    if getattr(live, "feature_names_in_", None) is None:
        table = table.to_numpy()
    for step in steps_of(live):
        table = step.transform(table)
    dense = table.toarray() if hasattr(table, "toarray") else table
    return np.asarray(dense, dtype=float)


def steps_of(live: Any) -> Iterator[Any]:
    """List the fitted transformers of a live pipeline, those within what it is wrapped in too."""
    while live is not None:
        if hasattr(live, "steps"):
            *before, (_, live) = live.steps
            yield from (s for _, s in before if s is not None and s != "passthrough")
        elif calibrated := getattr(live, "calibrated_classifiers_", None):
            live = calibrated[0].estimator
        else:
            live = getattr(live, WRAPPERS.get(type(live).__name__, ""), None)


def _column(reading: Reading, name: str, table: pd.DataFrame) -> FloatArray:
    """Work out one column of the model."""
    given = table[reading.source]
    if isinstance(reading, Missing):
        plain = given.isna() if reading.value is MISSING else given == reading.value
        return _scaled(reading, np.asarray(plain, dtype=np.float64))
    if reading.one_way or (reading.fills is None and given.isna().any()):
        raise _NotPutThrough(f"what was filled in for {reading.source!r} is not known")
    if reading.fills:
        given = given.astype(object).where(given.notna(), reading.fills[0]).infer_objects()
    if isinstance(reading, Number):
        numbers = pd.to_numeric(given, errors="coerce")
        if (wrong := (numbers.isna() & given.notna()).to_numpy()).any():
            raise _NotPutThrough(
                f"column {reading.source!r} holds something other than numbers in row "
                f"{wrong.argmax()}"
            )
        return _scaled(reading, numbers.to_numpy(dtype=float))
    if isinstance(reading, Code) and reading.ends is not None:
        edges = np.array([low for low, _ in reading.ends[1:]])
        if (np.diff(edges) <= 0).any():
            raise _NotPutThrough(f"the bins of {reading.source!r} do not ascend")
        binned = np.searchsorted(edges, given.to_numpy(dtype=float), side="right")
        return _scaled(reading, np.array(reading.codes)[binned])
    if not isinstance(reading, (Code, Indicator)):
        raise _NotPutThrough(f"column {name!r} is not read as one of the input")
    at = _place(given, reading.values)
    if reading.closed and (at < 0).any():
        raise _NotPutThrough(
            f"row {int(at.argmin())} has a value of {reading.source!r} that the encoder does not "
            "know"
        )
    if isinstance(reading, Indicator):
        return _scaled(reading, (at == reading.at).astype(float))
    if (at < 0).any():
        raise _NotPutThrough(f"not every value of {reading.source!r} has a known code")
    return _scaled(reading, np.array(reading.codes)[at])


def _scaled(reading: Reading, plain: Any) -> FloatArray:
    scaled: FloatArray = (plain - reading.offset) / reading.factor
    return scaled


def _place(given: pd.Series[Any], values: tuple[Any, ...]) -> Any:
    """Number of each row's value among those that an encoder knows; -1 for none of them."""
    number = {value: k for k, value in enumerate(values) if value is not MISSING}
    gap = next((k for k, value in enumerate(values) if value is MISSING), -1)
    gap = number.get(None, gap)
    return np.array([gap if pd.isna(v) else number.get(v, -1) for v in given.tolist()])


def _fit(release: Release, X: Any) -> tuple[float, float]:
    """Say how well rows fit: the share of the leaves that they reach, less their count residual."""
    try:
        leaves = release.leaves(X)
    except (TypeError, ValueError):
        return 0.0, 0.0
    reached = residual = 0.0
    for tree, own in zip(release.trees, leaves.T, strict=True):
        lie = np.bincount(own, minlength=tree.n_nodes)[tree.leaves]
        reached += np.count_nonzero(lie)
        totals = None if tree.totals is None else tree.totals[tree.leaves]
        if totals is not None and totals.sum() > 0:
            # As shares: drawn rows, and weights, add up to another number.
            residual += float(np.abs(lie / max(len(own), 1) - totals / totals.sum()).sum())
    return reached / sum(len(tree.leaves) for tree in release.trees), -residual
