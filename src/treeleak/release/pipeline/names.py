"""What fitted scikit-learn transformers put out, from their stored state: names, and readings.

The rules for names are those of scikit-learn's own ``get_feature_names_out``, which cannot be
asked: the transformers are data here. How a column is read as one of the input follows the
``transform`` methods. A column that cannot be read keeps its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from treeleak.release.pipeline.columns import Columns, Readings, Rule, UnknownStep, bounded
from treeleak.release.pipeline.transformers import (
    best,
    bins,
    changed,
    components,
    function,
    imputer,
    indicator,
    one_hot,
    ordinal,
    scaler,
    support,
    variance,
)
from treeleak.release.stored import StoredObject


def output_columns(steps: Sequence[Any], columns: Columns | None) -> Columns:
    """Name the columns that come out of some fitted steps.

    ``steps``: stored transformers, or ``"passthrough"``, in order. ``columns``: what goes in;
    otherwise what the first step says of its input. Raises UnknownStep if a step is not known here,
    or its state is not what it should be.
    """
    for step in steps:
        if step is None or step == "passthrough":
            continue
        if not isinstance(step, StoredObject):
            raise UnknownStep(f"a step that is {step!r}")
        columns = _input(step, columns)
        rule = _RULES.get(step.name) if step.type.startswith("sklearn.") else None
        if rule is None:
            raise UnknownStep(f"{step.type} is not known")
        try:
            columns = rule(step, columns)
        except UnknownStep:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise UnknownStep(f"{step.type} is stored in an unknown way ({error})") from error
    if columns is None:
        raise UnknownStep("no step says what its input is")
    return columns


def input_columns(steps: Sequence[Any]) -> Columns:
    """Name the columns that go into some fitted steps, as the first of them says.

    Raises UnknownStep if none does.
    """
    for step in steps:
        if isinstance(step, StoredObject):
            return _input(step, None)
    raise UnknownStep("no step says what its input is")


def _input(step: StoredObject, columns: Columns | None) -> Columns:
    """What goes into a step: its own word counts first."""
    input_names = step.get("feature_names_in_")
    if input_names is not None and (columns is None or len(input_names) == len(columns.names)):
        names = [str(n) for n in np.ravel(input_names)]
        if columns is None:
            return Columns(names)
        return columns if columns.names == names else Columns(names, {}, columns.readings)
    if columns is not None:
        return columns
    n = step.get("n_features_in_")
    for parts in ("steps", "transformer_list"):
        for _, inner in step.get(parts, ())[:1]:
            if isinstance(inner, StoredObject):
                return _input(inner, None)
    if not isinstance(n, (int, np.integer)) or not 0 < n < 1_000_000:
        raise UnknownStep(f"{step.type} does not say what its input is")
    return Columns([f"x{i}" for i in range(n)])


def _column_transformer(step: StoredObject, columns: Columns) -> Columns:
    inputs = step.get("_transformer_to_input_indices")
    parts: list[tuple[str, Columns]] = []
    for name, inner, _ in step.get("transformers_"):
        at = list(inputs[name])
        if not at or inner == "drop":
            continue
        # The step's own order of columns counts, not that of the table.
        parts.append((str(name), output_columns([inner], columns.take(at))))
    return _joined(step, parts)


def _union(step: StoredObject, columns: Columns) -> Columns:
    parts = (
        (str(name), output_columns([inner], columns))
        for name, inner in step.get("transformer_list")
        if inner != "drop"
    )
    return _joined(step, parts)


def _joined(step: StoredObject, parts: Iterable[tuple[str, Columns]]) -> Columns:
    verbose = step.get("verbose_feature_names_out", True)
    pattern = "{transformer_name}__{feature_name}" if verbose is True else verbose
    if pattern is False:
        pattern = "{feature_name}"
    if not isinstance(pattern, str):
        raise UnknownStep(f"a {step.name} that names its columns by a function")
    names: list[str] = []
    groups: dict[str, tuple[str, ...]] = {}
    readings: Readings = []
    text = 0
    for name, part in parts:
        # Not str.format: a pattern from a file could ask for attributes of its arguments.
        text = bounded(text + pattern.count("{transformer_name}") * len(name))
        head = pattern.replace("{transformer_name}", name)
        longest = max(map(len, part.names), default=0)
        each = len(head) + head.count("{feature_name}") * longest
        text = bounded(text + each * len(part.names))
        part = part.prefixed(partial(head.replace, "{feature_name}"))
        names += part.names
        groups.update(part.one_hot)
        readings += part.readings
    return Columns(names, groups, readings)


_RULES: dict[str, Rule] = {
    "Binarizer": changed,
    "Normalizer": changed,
    "PowerTransformer": changed,
    "QuantileTransformer": changed,
    "MaxAbsScaler": scaler,
    "MinMaxScaler": scaler,
    "RobustScaler": scaler,
    "StandardScaler": scaler,
    "OrdinalEncoder": ordinal,
    "FunctionTransformer": function,
    "SimpleImputer": imputer,
    "KNNImputer": imputer,
    "MissingIndicator": indicator,
    "OneHotEncoder": one_hot,
    "KBinsDiscretizer": bins,
    "ColumnTransformer": _column_transformer,
    "FeatureUnion": _union,
    "Pipeline": lambda step, columns: output_columns([s for _, s in step.get("steps")], columns),
    "RFE": support,
    "RFECV": support,
    "SelectKBest": best,
    "VarianceThreshold": variance,
    "PCA": components,
    "TruncatedSVD": components,
}
