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

from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.core.errors import Mismatch
from treeleak.core.message import Message, MessageTemplate
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

PUT_THROUGH = MessageTemplate(
    "rows_put_through", "treeleak applied the pipeline's fitted steps to the {what}."
)
UNNAMED_INPUT = MessageTemplate(
    "input_taken_in_order",
    "The pipeline has no column names: the columns of the {what} were taken in order.",
)
UNSEEN = MessageTemplate(
    "categories_unseen",
    "{rows:people} of the {what} have a category that the pipeline's encoders do not know: it "
    "counts as none of those that they know.",
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
_NO_CODE = -1.0
"""In place of the code of a category that has none, as OrdinalEncoder is usually told to put it."""
TRANSFORM = "rows = pd.DataFrame(pipe[:-1].transform(X), columns=pipe[:-1].get_feature_names_out())"
"""What makes rows of the trees' columns."""
LINES = f"{TRANSFORM}; treeleak.audit(pipe, rows, y)"
"""What to type where rows cannot be put through."""


def put_through(
    release: Release, X: Any, what: str = "rows", unseen: bool = False
) -> tuple[Any, tuple[str, ...]]:
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
    unseen : bool
        Whether they may have categories that no training row had: these are none of those that an
        encoder knows.

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
    # The pipeline itself may know more than was stored.
    live_names = getattr(inputs and inputs.live, "feature_names_in_", None)
    known = () if live_names is None else tuple(map(str, live_names))
    if inputs is None or not (names := inputs.names or known):
        return X, ()
    by_input, at = _by_position(X, names), _by_position(X, release.feature_names)
    fits_model, raw = _fits(at, release.feature_names), _fits(by_input, names)
    if not raw:
        if not fits_model and isinstance(X, pd.DataFrame):
            _check_intended({str(c) for c in X.columns}, names, release.feature_names, what)
        return X, ()
    try:
        found, notes = _through(release, inputs, by_input, names, what, unseen)
    except Mismatch:
        if fits_model:
            return X, ()
        raise
    if fits_model and _fit(release, at) >= _fit(release, found):
        return X, ()
    named = () if by_input is X else (UNNAMED_INPUT(what=what),)
    return found, (*named, PUT_THROUGH(what=what), *notes)


def _by_position(X: Any, names: tuple[str, ...]) -> Any:
    """Name columns by their places, where the model's have no names and they are as many."""
    numbered = names == tuple(f"x{i}" for i in range(len(names)))
    if not isinstance(X, pd.DataFrame) or not numbered or X.shape[1] != len(names):
        return X
    return X if set(names) & {str(c) for c in X.columns} else X.set_axis(list(names), axis=1)


def _fits(X: Any, names: tuple[str, ...]) -> bool:
    if not isinstance(X, pd.DataFrame):
        return np.ndim(X) == 2 and np.shape(X)[1] == len(names)
    return set(names) <= {str(c) for c in X.columns}


def _check_intended(
    columns: set[str], names: tuple[str, ...], of_model: tuple[str, ...], what: str
) -> None:
    """Refuse rows of which most columns are those of the input, naming those that they lack."""
    lacks = [c for c in names if c not in columns]
    if 2 * len(lacks) > len(names) or len(columns & set(of_model)) >= len(names) - len(lacks):
        return
    near = get_close_matches(lacks[0], sorted(columns - set(names)), 1)
    hint = f" (did you mean {lacks[0]!r} by {near[0]!r}?)" if near else ""
    raise Mismatch(
        f"the {what} are in the columns that enter the pipeline, but lack "
        f"{', '.join(map(repr, lacks[:5]))}{' and more' * (len(lacks) > 5)}{hint}"
    )


def _through(
    release: Release, inputs: Inputs, X: Any, names: tuple[str, ...], what: str, unseen: bool
) -> tuple[pd.DataFrame, tuple[Message, ...]]:
    if isinstance(X, pd.DataFrame):
        table = X.set_axis([str(c) for c in X.columns], axis=1)[list(names)]
    else:
        table = pd.DataFrame(np.asarray(X), columns=list(names))
    try:
        others = _unseen(inputs, table) if unseen else np.zeros(len(table), dtype=bool)
        stored = others.any() and not inputs.why_not
        if inputs.live is not None and not stored:
            values = _run(inputs.live, table)
        else:
            if inputs.why_not:
                raise _NotPutThrough(inputs.why_not)
            values = np.column_stack(
                [_column(inputs.readings[c], c, table, unseen) for c in release.feature_names]
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
    notes = (UNSEEN(rows=int(others.sum()), what=what),) if others.any() else ()
    found = pd.DataFrame(values, index=table.index, columns=list(release.feature_names))
    return found, notes


def _unseen(inputs: Inputs, table: pd.DataFrame) -> BoolArray:
    """Say which rows have a category that no encoder knows."""
    found = np.zeros(len(table), dtype=bool)
    for reading in inputs.readings.values():
        if isinstance(reading, (Code, Indicator)) and getattr(reading, "ends", None) is None:
            values = table[reading.source]
            known = values.notna().to_numpy() | (not reading.fills)
            found |= (_place(values, reading.values) < 0) & known
    return found


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


def _column(reading: Reading, name: str, table: pd.DataFrame, unseen: bool = False) -> FloatArray:
    """Work out one column of the model."""
    values = table[reading.source]
    if isinstance(reading, Missing):
        plain = values.isna() if reading.value is MISSING else values == reading.value
        return _scaled(reading, np.asarray(plain, dtype=np.float64))
    if reading.one_way or (reading.fills is None and values.isna().any()):
        raise _NotPutThrough(f"what was filled in for {reading.source!r} is not known")
    if reading.fills:
        values = values.astype(object).where(values.notna(), reading.fills[0]).infer_objects()
    if isinstance(reading, Number):
        numbers = pd.to_numeric(values, errors="coerce")
        if (wrong := (numbers.isna() & values.notna()).to_numpy()).any():
            raise _NotPutThrough(
                f"column {reading.source!r} holds something other than numbers in row "
                f"{wrong.argmax()}"
            )
        return _scaled(reading, numbers.to_numpy(dtype=float))
    if isinstance(reading, Code) and reading.ends is not None:
        edges = np.array([low for low, _ in reading.ends[1:]])
        if (np.diff(edges) <= 0).any():
            raise _NotPutThrough(f"the bins of {reading.source!r} do not ascend")
        binned = np.searchsorted(edges, values.to_numpy(dtype=float), side="right")
        return _scaled(reading, np.array(reading.codes)[binned])
    if not isinstance(reading, (Code, Indicator)):
        raise _NotPutThrough(f"column {name!r} is not read as one of the input")
    at = _place(values, reading.values)
    if reading.closed and (at < 0).any() and not unseen:
        raise _NotPutThrough(
            f"row {int(at.argmin())} has a value of {reading.source!r} that the encoder does not "
            "know"
        )
    if isinstance(reading, Indicator):
        return _scaled(reading, (at == reading.at).astype(float))
    if (at < 0).any() and not unseen:
        raise _NotPutThrough(f"not every value of {reading.source!r} has a known code")
    return _scaled(reading, np.where(at < 0, _NO_CODE, np.array(reading.codes)[at]))


def _scaled(reading: Reading, plain: Any) -> FloatArray:
    scaled: FloatArray = (plain - reading.offset) / reading.factor
    return scaled


def _place(entries: pd.Series[Any], values: tuple[Any, ...]) -> Any:
    """Number of each row's value among those that an encoder knows; -1 for none of them."""
    number = {value: k for k, value in enumerate(values) if value is not MISSING}
    # A table read from a file may hold as numbers what the encoder saw as texts.
    texts = {str(value): k for value, k in number.items()}
    gap = next((k for k, value in enumerate(values) if value is MISSING), -1)
    gap = number.get(None, gap)
    return np.array(
        [gap if pd.isna(v) else number.get(v, texts.get(str(v), -1)) for v in entries.tolist()]
    )


def _fit(release: Release, X: Any) -> tuple[float, float]:
    """Say how well rows fit: the share of the leaves that they reach, less their count residual."""
    try:
        leaves = release.leaves(X)
    except (TypeError, ValueError):
        return 0.0, 0.0
    reached = residual = 0.0
    for tree, leaf in zip(release.trees, leaves.T, strict=True):
        lie = np.bincount(leaf, minlength=tree.n_nodes)[tree.leaves]
        reached += np.count_nonzero(lie)
        totals = None if tree.totals is None else tree.totals[tree.leaves]
        if totals is not None and totals.sum() > 0:
            # As shares: drawn rows, and weights, add up to another number.
            residual += float(np.abs(lie / max(len(leaf), 1) - totals / totals.sum()).sum())
    return reached / sum(len(tree.leaves) for tree in release.trees), -residual
