"""Transformers that change, fill in, choose or mix columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.release.pipeline.columns import Columns, Readings, UnknownStep, bounded, tried, undone
from treeleak.release.pipeline.inputs import (
    MISSING,
    Code,
    Indicator,
    Missing,
    Number,
    Reading,
    Unreadable,
)
from treeleak.release.stored import Opaque, StoredObject


def changed(step: StoredObject, columns: Columns) -> Columns:
    """Columns that keep their names, but not their values."""
    why = Unreadable(f"{step.name} is not undone")
    return Columns(columns.names, {}, [why] * len(columns.names))


def scaler(step: StoredObject, columns: Columns) -> Columns:
    """Undo a scaler."""
    n = len(columns.names)

    def one(i: int, reading: Reading) -> Reading | Unreadable:
        factor, offset = _scaling(step, i, n)
        scaled = reading.scaled(factor, offset)
        ends = _ENDS.get(step.name)
        if ends is None or not isinstance(reading, Number) or not isinstance(scaled, Number):
            return scaled
        low, high = (float(_numbers(step, name, n)[i]) for name in ends)
        if step.name == "MaxAbsScaler":
            low = -low
        low, high = sorted([reading.plain(low), reading.plain(high)])
        return replace(scaled, low=max(low, reading.low), high=min(high, reading.high))

    return Columns(columns.names, {}, undone(step, columns, one))


_ENDS = {"MinMaxScaler": ("data_min_", "data_max_"), "MaxAbsScaler": ("max_abs_", "max_abs_")}


def _scaling(step: StoredObject, i: int, n: int) -> tuple[float, float]:
    """Factor and offset that undo a scaler in column ``i``."""
    scale = 1.0
    if step.get("with_std", True) and step.get("with_scaling", True):
        scale = float(_numbers(step, "scale_", n)[i])
    if step.name == "MinMaxScaler":
        return 1 / scale, -float(_numbers(step, "min_", n)[i]) / scale
    if step.name == "StandardScaler" and step.get("with_mean", True):
        return scale, float(_numbers(step, "mean_", n)[i])
    if step.name == "RobustScaler" and step.get("with_centering", True):
        return scale, float(_numbers(step, "center_", n)[i])
    return scale, 0.0


def _numbers(step: StoredObject, attribute: str, n: int) -> NDArray[Any]:
    array = step.get(attribute)
    if not isinstance(array, np.ndarray) or array.shape != (n,) or array.dtype.kind not in "iuf":
        raise ValueError(f"no {n} numbers in {attribute}")
    return array


def function(step: StoredObject, columns: Columns) -> Columns:
    """Name the columns of a FunctionTransformer."""
    if step.get("func") is None:
        return columns
    if step.get("feature_names_out") == "one-to-one":
        return changed(step, columns)
    raise UnknownStep("a FunctionTransformer that does not name its columns")


def imputer(step: StoredObject, columns: Columns) -> Columns:
    """Name and read the columns of an imputer."""
    if step.name == "KNNImputer":
        known = np.asarray(step.get("_valid_mask"), dtype=bool)
    else:
        known = np.array([x == x for x in np.ravel(step.get("statistics_"))])
    missing, has_indicator = step.get("missing_values"), bool(step.get("add_indicator"))
    # It may fill in the zeros of a one-hot group; no group holds NaN.
    groups = {} if missing == missing else columns.one_hot

    def filled(i: int, reading: Reading) -> float:
        return float(reading.plain(float(np.ravel(step.get("statistics_"))[i])))

    def one(i: int, reading: Reading) -> Reading | Unreadable:
        # Where missing values are told, a column that is not spoken of has none.
        reading = replace(
            reading,
            imputed=reading.imputed or not has_indicator,
            fills=_fills(step, i, reading),
            one_way=reading.one_way or missing == missing,
        )
        if isinstance(reading, Number) and np.isfinite(reading.low - reading.high):
            # What neighbours have lies between the ends already.
            x = filled(i, reading) if step.name == "SimpleImputer" else reading.low
            return replace(reading, low=min(reading.low, x), high=max(reading.high, x))
        if isinstance(reading, Indicator) and missing == missing:
            return Unreadable(f"{step.name} fills in columns that say which category a row has")
        if isinstance(reading, Code):
            whole = reading.closed and step.name == "SimpleImputer" and missing != missing
            return replace(reading, closed=whole and filled(i, reading) in reading.codes)
        return reading

    out = Columns(columns.names, groups, undone(step, columns, one)).keep(known)
    if not has_indicator:
        return out
    added = indicator(step.get("indicator_"), columns)
    return Columns(out.names + added.names, out.one_hot, out.readings + added.readings)


def _fills(step: StoredObject, i: int, reading: Reading) -> tuple[Any, ...] | None:
    """Say what value of the input an imputer puts in place of a missing one."""
    if reading.fills != ():
        return reading.fills
    if step.name != "SimpleImputer":
        return None
    statistic = np.ravel(step.get("statistics_"))[i]
    statistic = statistic.item() if isinstance(statistic, np.generic) else statistic
    if isinstance(reading, Code):
        code = reading.plain(float(statistic))
        return (reading.values[reading.codes.index(code)],) if code in reading.codes else None
    if (
        isinstance(reading, Number)
        and reading.unscaled
        and isinstance(statistic, (str, int, float))
    ):
        return (statistic,)
    return (reading.plain(float(statistic)),) if isinstance(reading, Number) else None


def indicator(step: StoredObject, columns: Columns) -> Columns:
    """Name and read the columns of a MissingIndicator."""
    at = [int(i) for i in step.get("features_")]
    names = [f"missingindicator_{columns.names[i]}" for i in at]

    def one(_: int, reading: Reading) -> Reading:
        value = step.get("missing_values")
        is_plain = isinstance(value, (int, float, str)) and value == value
        is_plain = is_plain and isinstance(reading, Number) and reading.unscaled
        return Missing(reading.source, value=value if is_plain else MISSING)

    out = columns.take(at)
    return Columns(names, {}, undone(step, out, one))


def support(step: StoredObject, columns: Columns) -> Columns:
    """Keep the columns that a selection says it keeps."""
    return columns.keep(step.get("support_"))


def best(step: StoredObject, columns: Columns) -> Columns:
    """Keep the columns of the best scores."""
    if step.get("k") == "all":
        return columns
    scores = np.array(step.get("scores_"), dtype=float)
    scores[np.isnan(scores)] = np.finfo(float).min
    chosen = np.zeros(len(scores), dtype=bool)
    chosen[np.argsort(scores, kind="mergesort")[max(len(scores) - int(step.get("k")), 0) :]] = True
    return columns.keep(chosen)


def variance(step: StoredObject, columns: Columns) -> Columns:
    """Keep the columns that vary enough."""
    return columns.keep(np.asarray(step.get("variances_")) > step.get("threshold"))


def components(step: StoredObject, _: Columns) -> Columns:
    """Name the columns of a decomposition, each of which mixes all."""
    names = [f"{step.name.lower()}{i}" for i in range(len(step.get("components_")))]
    why = Unreadable(f"{step.name} is not undone: each of its columns mixes all that go in")
    return Columns(names, {}, [why] * len(names))


def ordinal(step: StoredObject, columns: Columns) -> Columns:
    """Read the codes of an OrdinalEncoder."""
    categories = step.get("categories_")
    if len(categories) != len(columns.names):
        raise ValueError(f"{len(categories)} lists of categories for {len(columns.names)} columns")
    complete = step.get("handle_unknown", "error") == "error" or step.get("categories") == "auto"

    def one(i: int, reading: Reading) -> Reading | Unreadable:
        if step.get("_infrequent_enabled"):
            return Unreadable("OrdinalEncoder gives infrequent categories one code")
        values = _encoded(reading, categories[i])
        code_of = dict(enumerate(values))
        codes = {float(code): value for code, value in code_of.items() if value is not MISSING}
        if len(codes) < len(values):
            absent = float(step.get("encoded_missing_value", MISSING))
            if np.isinf(absent):
                raise ValueError("an infinite code")
            if absent == absent:
                codes[absent] = MISSING
        ordered = sorted(codes)
        return Code(
            reading.source,
            imputed=reading.imputed,
            fills=reading.fills,
            one_way=reading.one_way,
            codes=tuple(ordered),
            values=tuple(codes[c] for c in ordered),
            closed=complete,
        )

    return Columns(columns.names, {}, undone(step, columns, one))


def _encoded(reading: Reading, categories: Any) -> tuple[Any, ...]:
    """The categories that an encoder found in a column, as values of the input."""
    if not isinstance(reading, (Number, Code)):
        raise ValueError("it encodes what stands for a category already")
    if np.ndim(categories) != 1 or not len(categories):
        raise ValueError("no list of categories")
    return tuple(_value(reading, c.item() if isinstance(c, np.generic) else c) for c in categories)


def _value(reading: Number | Code, category: Any) -> Any:
    if category is None:
        return None
    if not isinstance(category, (str, int, float)) or category in (np.inf, -np.inf):
        raise ValueError("a category that is neither text nor a number")
    if category != category:
        return MISSING
    if isinstance(reading, Number) and reading.unscaled:
        return category
    plain = reading.plain(float(category))
    return plain if isinstance(reading, Number) else reading.values[reading.codes.index(plain)]


def one_hot(step: StoredObject, columns: Columns) -> Columns:
    """Name and read the columns of a OneHotEncoder."""
    combine = step.get("feature_name_combiner", "concat")
    if isinstance(combine, (Opaque, StoredObject)):
        raise UnknownStep("a OneHotEncoder that names its columns by a function")
    infrequent = step.get("_infrequent_enabled") and step.get("_default_to_infrequent_mappings")
    infrequent = infrequent or [None] * len(columns.names)
    dropped = step.get("_drop_idx_after_grouping", step.get("drop_idx_"))
    # A row of an unknown category has no 1, where such rows are let in at all. The rows that the
    # encoder learnt its categories from have none.
    complete = step.get("handle_unknown", "error") == "error" or step.get("categories") == "auto"
    text = 0
    names: list[str] = []
    groups: dict[str, tuple[str, ...]] = {}
    readings: Readings = []
    for i, (feature, categories) in enumerate(
        zip(columns.names, step.get("categories_"), strict=True)
    ):
        labels, at = list(categories), list(range(len(categories)))
        if infrequent[i] is not None:
            mapping = np.asarray(infrequent[i])
            labels = [c for c, to in zip(labels, mapping, strict=True) if to < mapping.max()]
            labels.append("infrequent_sklearn")
        drop = None if dropped is None else dropped[i]
        if drop is not None:
            del labels[int(drop)], at[int(drop)]
        text = bounded(text + len(feature) * len(labels))
        indicators = [f"{feature}_{label}" for label in labels]
        names += indicators
        if infrequent[i] is None:
            readings += _indicators(step, columns.readings[i], categories, at, complete)
        else:
            why = Unreadable("OneHotEncoder gives infrequent categories one column")
            readings += [why] * len(indicators)
        if complete and drop is None:
            groups[feature] = tuple(indicators)
    return Columns(names, groups, readings)


def _indicators(
    step: StoredObject,
    reading: Reading | Unreadable,
    categories: Any,
    at: Sequence[int],
    complete: bool,
) -> Readings:
    """Read the columns that stand for the categories number ``at`` of one column."""
    values = tried(step, reading, lambda codes: _encoded(codes, categories))
    if isinstance(values, Unreadable) or isinstance(reading, Unreadable):
        return [values if isinstance(values, Unreadable) else reading] * len(at)
    one = Indicator(
        reading.source, imputed=reading.imputed, fills=reading.fills, one_way=reading.one_way,
        values=values, at=0, closed=complete,
    )  # fmt: skip
    return [replace(one, at=k) for k in at]


def bins(step: StoredObject, columns: Columns) -> Columns:
    """Read the bins of a KBinsDiscretizer."""

    def one(i: int, reading: Reading) -> Reading:
        if not isinstance(reading, Number):
            raise ValueError("it bins something other than numbers")
        edges = reading.plain(np.asarray(step.get("bin_edges_")[i], dtype=float))
        if edges.ndim != 1 or len(edges) < 2 or not np.isfinite(edges).all():
            raise ValueError("no edges of bins")
        ends = tuple((min(a, b), max(a, b)) for a, b in pairwise(edges.tolist()))
        return Code(
            reading.source,
            imputed=reading.imputed,
            fills=reading.fills,
            one_way=reading.one_way,
            codes=tuple(map(float, range(len(ends)))),
            values=tuple((low + high) / 2 for low, high in ends),
            ends=ends,
        )

    binned = Columns(columns.names, {}, undone(step, columns, one))
    encoder = step.get("_encoder")
    return binned if encoder is None else one_hot(encoder, binned)
