"""Transformers that put codes for values: encoders and bins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from treeleak.release.pipeline.columns import Columns, Readings, UnknownStep, bounded, tried, undone
from treeleak.release.pipeline.inputs import MISSING, Code, Indicator, Number, Reading, Unreadable
from treeleak.release.stored import Opaque, StoredObject


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
