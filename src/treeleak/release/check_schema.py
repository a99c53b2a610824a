"""Comparison of a schema, or a table of rows, with the columns of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.core.city_hash import category_hash
from treeleak.core.errors import BadInput, BadSchema
from treeleak.release.release import ANOTHER, HASH, Release
from treeleak.release.tree import CategorySets, Tree
from treeleak.schema import Attribute, Binary, Categorical, Ordinal, Schema

ENDLESS = 3.4028234663852886e38
"""From here on a threshold is as good as infinite: CatBoost writes this for it, LightGBM more."""


def check_schema(schema: Schema, release: Release) -> list[str]:
    """Check a schema against what the model says.

    Returns
    -------
    list of str
        Remarks that are no errors: columns in which the trees saw missing values, though the
        schema allows none, or values beyond its ends.

    Raises
    ------
    BadSchema
        If the columns are not those of the model, codes stand for other labels than in the model
        (see :func:`match_levels`), or a domain excludes a threshold: no value that the schema
        allows could take one of the two branches.
    """
    schema.for_model(release.feature_names)
    owner = {c: a for a in schema.attributes for c in a.columns}
    for column, texts in release.levels.items():
        code_of = {text: code for code, text in enumerate(texts)}
        text_of: dict[float, str] = dict(enumerate(texts))
        for text, code in _codes(owner[column]).items():
            if text_of.get(code, text) != text or code_of.get(text, code) != code:
                raise BadSchema(
                    f"column {column!r}: code {code:g} stands for {text!r} in the schema, "
                    f"the model's codes for {list(texts)} are 0 to {len(texts) - 1}"
                )
    for column, thresholds in zip(release.feature_names, release.thresholds, strict=True):
        # The model compares rounded values.
        with np.errstate(over="ignore"):
            low, high = np.array(owner[column].bounds).astype(release.float_type).astype(float)
        finite = thresholds[np.abs(thresholds) < ENDLESS]
        # A test against the highest value parts all that is known from what is missing.
        beyond = finite > high if getattr(owner[column], "missing", False) else finite >= high
        outside = finite[(finite < low) | beyond]
        if outside.size:
            raise BadSchema(
                f"column {column!r}: the schema allows {low:g} to {high:g}, but the model tests "
                f"{column!r} <= {outside[0]:g}, which is always the same for these values"
            )
    beyond_ends = [
        f"column {c!r}: its values in training go from {low:g} to {high:g}, as the file says; the "
        f"schema allows {owner[c].bounds[0]:g} to {owner[c].bounds[1]:g}"
        for c, (low, high) in release.ranges.items()
        if low < owner[c].bounds[0] or high > owner[c].bounds[1]
    ]
    return beyond_ends + [
        f"column {c!r}: the trees saw missing values, the schema allows none"
        for c in release.feature_names
        if c in release.maybe_missing and not getattr(owner[c], "missing", False)
    ]


def reached(schema: Schema, release: Release, X: pd.DataFrame) -> BoolArray:
    """Say of which rows (in the model's columns) the schema allows one in the same leaves.

    A domain that was inferred from thresholds has values between all of them, but ends next to
    the outermost ones. So flags, whole numbers and codes are held against the nearest value.
    """
    values = X.to_numpy(dtype=float)
    near = values.copy()
    for attribute in schema.attributes:
        at = [release.feature_names.index(c) for c in attribute.columns]
        if isinstance(attribute, (Binary, Ordinal)):
            near[:, at] = np.clip(np.ceil(near[:, at] - 0.5), *attribute.bounds)
        elif isinstance(attribute, Categorical):
            known = np.isin(near[:, at], attribute.values) | np.isnan(near[:, at])
            near[:, at] = np.where(known, near[:, at], attribute.values[-1])
    same = (release.leaves(near) == release.leaves(values)).all(axis=1)
    return np.asarray(same & schema.valid(near, release.feature_names))


def match_levels(release: Release, schema: Schema) -> Release:
    """Move a release to the codes that a schema gives to the labels of its columns.

    Where both the release and the schema name the labels of a column, a test parts some of the
    release's labels from the others; its new threshold parts the same ones by the schema's codes.
    Labels that only the schema has go where their codes put them: the model says nothing of them.

    Returns
    -------
    Release
        The same where there is nothing to move.

    Raises
    ------
    BadSchema
        If the codes are in an order in which no threshold parts what a test parts: the column, and
        an order that does; or if the schema lacks all labels on one side of a test.
    """
    moved: dict[int, dict[float, float]] = {}
    renamed: dict[int, dict[int, float]] = {}
    levels = dict(release.levels)
    for attribute in schema.attributes:
        texts = release.levels.get(attribute.name, ())
        codes = _codes(attribute)
        if not texts or not codes or all(codes.get(t) == i for i, t in enumerate(texts)):
            continue
        column = release.feature_names.index(attribute.name)
        moved[column] = {
            cut: _moved(attribute.name, cut, texts, codes)
            for cut in release.thresholds[column][np.isfinite(release.thresholds[column])].tolist()
        }
        renamed[column] = {code: codes[t] for code, t in enumerate(texts) if t in codes}
        in_order = sorted(codes, key=codes.__getitem__)
        del levels[attribute.name]
        if [codes[text] for text in in_order] == list(range(len(codes))):
            levels[attribute.name] = tuple(in_order)
    if not moved:
        return release
    trees = []
    for tree in release.trees:
        threshold = tree.cuts(release.float_type).copy()
        for node in np.flatnonzero(~tree.is_leaf):
            cut = float(threshold[node])
            threshold[node] = moved.get(int(tree.feature[node]), {}).get(cut, cut)
        sets = _renamed(tree, renamed, release)
        trees.append(replace(tree, threshold=threshold, strict=None, categories=sets))
    return replace(release, trees=tuple(trees), levels=levels)


def _renamed(
    tree: Tree, codes: Mapping[int, Mapping[int, float]], release: Release
) -> CategorySets | None:
    """Give the categories for which a tree tests the codes of a schema, column by column."""
    if tree.categories is None:
        return None
    pairs: list[tuple[int, float]] = []
    for node, categories in tree.categories.by_node.items():
        column = int(tree.feature[node])
        new = codes.get(column)
        values = (
            categories.tolist()
            if new is None
            else [new[v] for v in categories.tolist() if v in new]
        )
        if not values or any(v != int(v) or v < 0 for v in values):
            raise BadSchema(
                f"column {release.feature_names[column]!r}: the model tests for categories, of "
                "which the schema has none or whose codes are not whole numbers from 0 on"
            )
        pairs += [(node, v) for v in sorted(values)]
    return CategorySets(*np.array(pairs, dtype=np.int64).T)


def _codes(attribute: Attribute) -> dict[str, float]:
    if not isinstance(attribute, Categorical) or attribute.labels is None:
        return {}
    return dict(zip(attribute.labels, attribute.values, strict=True))


def _moved(column: str, cut: float, texts: Sequence[str], codes: dict[str, float]) -> float:
    if not 0 <= cut < len(texts) - 1:
        # Parts no two labels, but maybe known values from missing ones.
        return min(codes.values()) - 1 if cut < 0 else max(codes.values())
    left = [codes[t] for code, t in enumerate(texts) if code <= cut and t in codes]
    right = [codes[t] for code, t in enumerate(texts) if code > cut and t in codes]
    if not left or not right:
        lost = [t for code, t in enumerate(texts) if (code <= cut) is not bool(left)]
        raise BadSchema(f"column {column!r}: the model tests for {lost}, which the schema lacks")
    if max(left) >= min(right):
        apart = [t for i, t in enumerate(texts) if i <= cut]
        raise BadSchema(
            f"column {column!r}: the model separates {apart} from its other labels, and the "
            f"schema's codes mix the two; give the labels codes in the order {list(texts)}"
        )
    return (max(left) + min(right)) / 2


def read_columns(
    release: Release, X: pd.DataFrame, what: str = "the rows"
) -> dict[str, FloatArray]:
    """Read the model's columns of a table as numbers, texts by their codes; others are ignored.

    Raises
    ------
    BadInput
        Naming the column; ``what`` is what the message calls the table.
    """
    table = X.set_axis([str(c) for c in X.columns], axis=1)
    names = release.feature_names
    if list(names) == [f"x{i}" for i in range(table.shape[1])] and not set(names) & set(table):
        table = table.set_axis(list(names), axis=1)
    values, levels = {}, levels_with(release, table)
    for column in release.feature_names:
        if column not in table:
            raise BadInput(f"{what} lack column {column!r} of the model")
        series = table[column]
        if not isinstance(series, pd.Series):
            raise BadInput(f"column {column!r} appears twice in {what}")
        series = coded(series, levels.get(column))
        try:
            numeric = pd.to_numeric(series)
        except (OverflowError, TypeError, ValueError):
            raise BadInput(
                f"column {column!r} of {what} holds something other than numbers"
                f"{how_to_code(release, column)}"
            ) from None
        values[column] = numeric.to_numpy(dtype=float, na_value=np.nan)
        if np.isinf(values[column]).any():
            raise BadInput(f"column {column!r} of {what} holds an infinite number")
    return values


def levels_with(release: Release, table: pd.DataFrame) -> Mapping[str, tuple[str, ...]]:
    """Give the categories of the model, and of columns that no tree tests, the texts of a table.

    Of these, nobody knows which codes they had, and no answer depends on it.
    """
    levels = dict(release.levels)
    once = set(table.columns[~table.columns.duplicated(keep=False)])
    for column in set(release.feature_names) & once - set(levels):
        if not pd.api.types.is_numeric_dtype(table[column].dtype) and column not in release.tested:
            known = set(table[column].dropna())
            if known and all(isinstance(value, str) for value in known):
                levels[column] = tuple(sorted(known))
    return levels


def how_to_code(release: Release, column: str) -> str:
    """Say what to do with a column of texts that are no categories of the model."""
    if column in release.levels:
        return ", and none of the categories that the model knows"
    if release.origin.endswith("(R)"):
        return (
            ": the file keeps codes of factors, and not their texts. In R, with the model m and "
            "the training rows d, v <- m$forest$independent.variable.names; "
            'd[v] <- data.matrix(d[v]) makes the codes; then write.csv(d, "train.csv", row.names = '
            "FALSE)"
        )
    return ": the model saw it in another encoding"


def coded(series: pd.Series[Any], levels: tuple[str, ...] | None) -> pd.Series[Any]:
    """Replace texts by their codes; what is none of them stays.

    Numbers that are all named by texts, as 3 is by "3" or "3.0", are those texts; else codes. So
    are texts that a model knows by their hashes.
    """
    if levels is None:
        return series
    codes: dict[Any, int] = {text: code for code, text in enumerate(levels)}
    if any(text.startswith(HASH) for text in levels):
        values = series.dropna().unique().tolist()
        named = {v: codes.get(f"{HASH}{category_hash(str(v))}") for v in values}
        others = codes.get(ANOTHER)
        if not pd.api.types.is_numeric_dtype(series) or None not in named.values():
            found = {v: others if code is None else code for v, code in named.items()}
            codes = {v: code for v, code in found.items() if code is not None} | codes
            return series.astype(object).map(lambda value: codes.get(value, value))
    if pd.api.types.is_numeric_dtype(series):
        known, numbers = series.dropna().unique().tolist(), _numbers_in(codes)
        named = {value: codes.get(str(value), numbers.get(float(value))) for value in known}
        return series if None in named.values() else series.map(named)
    others = codes.get(ANOTHER)

    def code(value: Any) -> Any:
        unnamed = value if others is None or not isinstance(value, str) else others
        return codes.get(value, unnamed)

    return series.astype(object).map(code)


def _numbers_in(codes: Mapping[str, int]) -> dict[float, int]:
    """Give the codes of texts that write numbers by these numbers; of equal ones, the first."""
    found: dict[float, int] = {}
    for text, code in codes.items():
        with suppress(ValueError):
            found.setdefault(float(text), code)
    return found
