"""What fitted scikit-learn transformers put out, from their stored state: names, and readings.

The rules for names are those of scikit-learn's own ``get_feature_names_out``, which cannot be
asked: the transformers are data here. How a column is read as one of the input follows the
``transform`` methods. A column that cannot be read keeps its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from treeleak.core.private import dataclass
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

__all__ = ["Columns", "UnknownStep", "input_columns", "output_columns"]


# Characters in all names together: a few bytes of a hostile file can ask for any number.
MAX_TEXT = 1 << 26


class UnknownStep(Exception):
    """A step whose output columns cannot be named; the text says which."""


Readings = list[Reading | Unreadable]
T = TypeVar("T")


@dataclass(frozen=True)
class Columns:
    """Columns on their way through the steps.

    Attributes
    ----------
    names : list of str
    one_hot : mapping of str to tuple of str
        Groups of 0/1 columns of which every training row had exactly one 1.
    readings : list of Reading or Unreadable
        How each column is read as one of the input; without them, these are the input.
    """

    names: list[str]
    one_hot: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    readings: Readings = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.readings:
            object.__setattr__(self, "readings", [Number(n) for n in self.names])

    def keep(self, mask: Iterable[Any]) -> Columns:
        """Drop columns; a group that loses a column is none any more."""
        return self.take([i for i, (_, k) in enumerate(zip(self.names, mask, strict=True)) if k])

    def take(self, at: Iterable[int]) -> Columns:
        """Choose columns by number, in any order."""
        at = list(at)
        names = [self.names[i] for i in at]
        left = set(names)
        groups = {g: cols for g, cols in self.one_hot.items() if left.issuperset(cols)}
        return Columns(names, groups, [self.readings[i] for i in at])

    def prefixed(self, rename: Callable[[str], str]) -> Columns:
        """Rename every column."""
        groups = {rename(g): tuple(map(rename, cols)) for g, cols in self.one_hot.items()}
        return Columns([rename(n) for n in self.names], groups, self.readings)


Rule = Callable[[StoredObject, Columns], Columns]


def output_columns(steps: Sequence[Any], columns: Columns | None = None) -> Columns:
    """Name the columns that come out of some fitted steps.

    Parameters
    ----------
    steps : sequence
        Stored transformers, or ``"passthrough"``, in order.
    columns : Columns, optional
        What goes in; otherwise what the first step says of its input.

    Raises
    ------
    UnknownStep
        If a step is not known here, or its state is not what it should be.
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

    Raises
    ------
    UnknownStep
        If none does.
    """
    for step in steps:
        if isinstance(step, StoredObject):
            return _input(step, None)
    raise UnknownStep("no step says what its input is")


def _input(step: StoredObject, columns: Columns | None) -> Columns:
    """What goes into a step: its own word counts first."""
    own = step.get("feature_names_in_")
    if own is not None and (columns is None or len(own) == len(columns.names)):
        names = [str(n) for n in np.ravel(own)]
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


def _tried(
    step: StoredObject, reading: Reading | Unreadable, read: Callable[[Reading], T]
) -> T | Unreadable:
    """Read on, if the column can be read so far and the step is understood."""
    if isinstance(reading, Unreadable):
        return reading
    try:
        return read(reading)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return Unreadable(f"{step.name} cannot be undone ({error})")


def _undone(
    step: StoredObject, columns: Columns, one: Callable[[int, Reading], Reading | Unreadable]
) -> Readings:
    """Read each column of a step that puts out as many as go in."""
    return [_tried(step, r, partial(one, i)) for i, r in enumerate(columns.readings)]


def _changed(step: StoredObject, columns: Columns) -> Columns:
    """Columns that keep their names, but not their values."""
    why = Unreadable(f"{step.name} is not undone")
    return Columns(columns.names, {}, [why] * len(columns.names))


def _scaler(step: StoredObject, columns: Columns) -> Columns:
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

    return Columns(columns.names, {}, _undone(step, columns, one))


_ENDS = {
    "MinMaxScaler": ("data_min_", "data_max_"),
    "MaxAbsScaler": ("max_abs_", "max_abs_"),
}


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


def _ordinal(step: StoredObject, columns: Columns) -> Columns:
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
            codes=tuple(ordered),
            values=tuple(codes[c] for c in ordered),
            closed=complete,
        )

    return Columns(columns.names, {}, _undone(step, columns, one))


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


def _function(step: StoredObject, columns: Columns) -> Columns:
    if step.get("func") is None:
        return columns
    if step.get("feature_names_out") == "one-to-one":
        return _changed(step, columns)
    raise UnknownStep("a FunctionTransformer that does not name its columns")


def _imputer(step: StoredObject, columns: Columns) -> Columns:
    if step.name == "KNNImputer":
        known = np.asarray(step.get("_valid_mask"), dtype=bool)
    else:
        known = np.array([x == x for x in np.ravel(step.get("statistics_"))])
    missing, told = step.get("missing_values"), bool(step.get("add_indicator"))
    # It may fill in the zeros of a one-hot group; no group holds NaN.
    groups = {} if missing == missing else columns.one_hot

    def filled(i: int, reading: Reading) -> float:
        return float(reading.plain(float(np.ravel(step.get("statistics_"))[i])))

    def one(i: int, reading: Reading) -> Reading | Unreadable:
        # Where missing values are told, a column that is not spoken of has none.
        reading = replace(reading, imputed=reading.imputed or not told)
        if isinstance(reading, Number) and np.isfinite(reading.low - reading.high):
            # What neighbours have lies between the ends already.
            x = filled(i, reading) if step.name == "SimpleImputer" else reading.low
            return replace(reading, low=min(reading.low, x), high=max(reading.high, x))
        if isinstance(reading, Indicator) and missing == missing:
            return Unreadable(f"{step.name} fills in what says which category a row has")
        if isinstance(reading, Code):
            whole = reading.closed and step.name == "SimpleImputer" and missing != missing
            return replace(reading, closed=whole and filled(i, reading) in reading.codes)
        return reading

    out = Columns(columns.names, groups, _undone(step, columns, one)).keep(known)
    if not told:
        return out
    added = _indicator(step.get("indicator_"), columns)
    return Columns(out.names + added.names, out.one_hot, out.readings + added.readings)


def _indicator(step: StoredObject, columns: Columns) -> Columns:
    at = [int(i) for i in step.get("features_")]
    names = [f"missingindicator_{columns.names[i]}" for i in at]

    def one(_: int, reading: Reading) -> Reading:
        value = step.get("missing_values")
        told = isinstance(value, (int, float, str)) and value == value
        told = told and isinstance(reading, Number) and reading.unscaled
        return Missing(reading.source, value=value if told else MISSING)

    out = columns.take(at)
    return Columns(names, {}, _undone(step, out, one))


def _one_hot(step: StoredObject, columns: Columns) -> Columns:
    combine = step.get("feature_name_combiner", "concat")
    if isinstance(combine, (Opaque, StoredObject)):
        raise UnknownStep("a OneHotEncoder that names its columns by a function")
    infrequent = step.get("_default_to_infrequent_mappings") or [None] * len(columns.names)
    if not step.get("_infrequent_enabled"):
        infrequent = [None] * len(columns.names)
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
        labels = list(categories)
        if infrequent[i] is not None:
            mapping = np.asarray(infrequent[i])
            labels = [c for c, to in zip(labels, mapping, strict=True) if to < mapping.max()]
            labels.append("infrequent_sklearn")
        drop = None if dropped is None else dropped[i]
        if drop is not None:
            del labels[int(drop)]
        text = _bounded(text + len(feature) * len(labels))
        own = [f"{feature}_{label}" for label in labels]
        names += own
        if infrequent[i] is None:
            at = list(range(len(categories)))
            if drop is not None:
                del at[int(drop)]
            readings += _indicators(step, columns.readings[i], categories, at, complete)
        else:
            why = Unreadable("OneHotEncoder gives infrequent categories one column")
            readings += [why] * len(own)
        if complete and drop is None:
            groups[feature] = tuple(own)
    return Columns(names, groups, readings)


def _indicators(
    step: StoredObject,
    reading: Reading | Unreadable,
    categories: Any,
    at: Sequence[int],
    complete: bool,
) -> Readings:
    """Read the columns that stand for the categories number ``at`` of one column."""
    values = _tried(step, reading, lambda own: _encoded(own, categories))
    if isinstance(values, Unreadable) or isinstance(reading, Unreadable):
        return [values if isinstance(values, Unreadable) else reading] * len(at)
    one = Indicator(reading.source, imputed=reading.imputed, values=values, at=0, closed=complete)
    return [replace(one, at=k) for k in at]


def _bins(step: StoredObject, columns: Columns) -> Columns:
    def one(i: int, reading: Reading) -> Reading:
        if not isinstance(reading, Number):
            raise ValueError("it bins what is no number")
        edges = reading.plain(np.asarray(step.get("bin_edges_")[i], dtype=float))
        if edges.ndim != 1 or len(edges) < 2 or not np.isfinite(edges).all():
            raise ValueError("no edges of bins")
        ends = tuple((min(a, b), max(a, b)) for a, b in pairwise(edges.tolist()))
        return Code(
            reading.source,
            imputed=reading.imputed,
            codes=tuple(map(float, range(len(ends)))),
            values=tuple((low + high) / 2 for low, high in ends),
            ends=ends,
        )

    binned = Columns(columns.names, {}, _undone(step, columns, one))
    encoder = step.get("_encoder")
    return binned if encoder is None else _one_hot(encoder, binned)


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
        text = _bounded(text + pattern.count("{transformer_name}") * len(name))
        head = pattern.replace("{transformer_name}", name)
        longest = max(map(len, part.names), default=0)
        each = len(head) + head.count("{feature_name}") * longest
        text = _bounded(text + each * len(part.names))
        part = part.prefixed(partial(head.replace, "{feature_name}"))
        names += part.names
        groups.update(part.one_hot)
        readings += part.readings
    return Columns(names, groups, readings)


def _bounded(text: int) -> int:
    if text > MAX_TEXT:
        raise UnknownStep(f"the names of the columns take more than {MAX_TEXT} characters")
    return text


def _pipeline(step: StoredObject, columns: Columns) -> Columns:
    return output_columns([inner for _, inner in step.get("steps")], columns)


def _support(step: StoredObject, columns: Columns) -> Columns:
    return columns.keep(step.get("support_"))


def _best(step: StoredObject, columns: Columns) -> Columns:
    if step.get("k") == "all":
        return columns
    scores = np.array(step.get("scores_"), dtype=float)
    scores[np.isnan(scores)] = np.finfo(float).min
    chosen = np.zeros(len(scores), dtype=bool)
    chosen[np.argsort(scores, kind="mergesort")[max(len(scores) - int(step.get("k")), 0) :]] = True
    return columns.keep(chosen)


def _variance(step: StoredObject, columns: Columns) -> Columns:
    return columns.keep(np.asarray(step.get("variances_")) > step.get("threshold"))


def _components(step: StoredObject, _: Columns) -> Columns:
    names = [f"{step.name.lower()}{i}" for i in range(len(step.get("components_")))]
    why = Unreadable(f"{step.name} is not undone: each of its columns mixes all that go in")
    return Columns(names, {}, [why] * len(names))


_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        (
            "Binarizer",
            "Normalizer",
            "PowerTransformer",
            "QuantileTransformer",
        ),
        _changed,
    ),
    **dict.fromkeys(
        ("MaxAbsScaler", "MinMaxScaler", "RobustScaler", "StandardScaler"),
        _scaler,
    ),
    "OrdinalEncoder": _ordinal,
    "FunctionTransformer": _function,
    "SimpleImputer": _imputer,
    "KNNImputer": _imputer,
    "MissingIndicator": _indicator,
    "OneHotEncoder": _one_hot,
    "KBinsDiscretizer": _bins,
    "ColumnTransformer": _column_transformer,
    "FeatureUnion": _union,
    "Pipeline": _pipeline,
    "RFE": _support,
    "RFECV": _support,
    "SelectKBest": _best,
    "VarianceThreshold": _variance,
    "PCA": _components,
    "TruncatedSVD": _components,
}
