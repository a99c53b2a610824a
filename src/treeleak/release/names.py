"""Names of the columns that fitted scikit-learn transformers put out, from their stored state.

The rules are those of scikit-learn's own ``get_feature_names_out``, which cannot be asked: the
transformers are data here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from treeleak.release.stored import Opaque, StoredObject

__all__ = ["Columns", "UnknownStep", "output_columns"]


# Characters in all names together: a few bytes of a hostile file can ask for any number.
MAX_TEXT = 1 << 26


class UnknownStep(Exception):
    """A step whose output columns cannot be named; the text says which."""


@dataclass(frozen=True)
class Columns:
    """Columns on their way through the steps.

    Attributes
    ----------
    names : list of str
    one_hot : mapping of str to tuple of str
        Groups of 0/1 columns of which every training row had exactly one 1.
    """

    names: list[str]
    one_hot: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def keep(self, mask: Iterable[Any]) -> Columns:
        """Drop columns; a group that loses a column is none any more."""
        return self._of([n for n, k in zip(self.names, mask, strict=True) if k])

    def take(self, at: Iterable[int]) -> Columns:
        """Choose columns by number, in any order."""
        return self._of([self.names[i] for i in at])

    def _of(self, names: list[str]) -> Columns:
        left = set(names)
        groups = {g: cols for g, cols in self.one_hot.items() if left.issuperset(cols)}
        return Columns(names, groups)

    def prefixed(self, rename: Callable[[str], str]) -> Columns:
        """Rename every column."""
        groups = {rename(g): tuple(map(rename, cols)) for g, cols in self.one_hot.items()}
        return Columns([rename(n) for n in self.names], groups)


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
        except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise UnknownStep(f"{step.type} is stored in an unknown way ({error})") from error
    if columns is None:
        raise UnknownStep("no step says what its input is")
    return columns


def _input(step: StoredObject, columns: Columns | None) -> Columns:
    """What goes into a step: its own word counts first."""
    own = step.get("feature_names_in_")
    if own is not None and (columns is None or len(own) == len(columns.names)):
        names = [str(n) for n in np.ravel(own)]
        return columns if columns is not None and columns.names == names else Columns(names)
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


def _same(_: StoredObject, columns: Columns) -> Columns:
    return Columns(columns.names)


def _function(step: StoredObject, columns: Columns) -> Columns:
    if step.get("func") is None:
        return columns
    if step.get("feature_names_out") == "one-to-one":
        return Columns(columns.names)
    raise UnknownStep("a FunctionTransformer that does not name its columns")


def _imputer(step: StoredObject, columns: Columns) -> Columns:
    if step.name == "KNNImputer":
        known = np.asarray(step.get("_valid_mask"), dtype=bool)
    else:
        known = np.array([x == x for x in np.ravel(step.get("statistics_"))])
    out = columns.keep(known)
    missing = step.get("missing_values")
    if missing == missing:
        # It may fill in the zeros of a one-hot group; no group holds NaN.
        out = Columns(out.names)
    if not step.get("add_indicator"):
        return out
    added = _indicator(step.get("indicator_"), columns).names
    return Columns(out.names + added, out.one_hot)


def _indicator(step: StoredObject, columns: Columns) -> Columns:
    return Columns([f"missingindicator_{columns.names[i]}" for i in step.get("features_")])


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
        if complete and drop is None:
            groups[feature] = tuple(own)
    return Columns(names, groups)


def _bins(step: StoredObject, columns: Columns) -> Columns:
    encoder = step.get("_encoder")
    return Columns(columns.names) if encoder is None else _one_hot(encoder, columns)


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
    return Columns(names, groups)


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
    return Columns([f"{step.name.lower()}{i}" for i in range(len(step.get("components_")))])


_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        (
            "Binarizer",
            "MaxAbsScaler",
            "MinMaxScaler",
            "Normalizer",
            "OrdinalEncoder",
            "PowerTransformer",
            "QuantileTransformer",
            "RobustScaler",
            "StandardScaler",
        ),
        _same,
    ),
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
