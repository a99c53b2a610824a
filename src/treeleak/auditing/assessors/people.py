"""Attributes by name, and the groups of people that their values make."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.core.errors import BadInput
from treeleak.release import Release
from treeleak.release.release import class_numbers
from treeleak.schema import Attribute, Categorical, OneHot, Schema

if TYPE_CHECKING:
    from treeleak.auditing.case import AuditRequest

CLASS = "class"
"""What groups by label are called."""

MOST_VALUES = 12
"""Numbers with more different values are told in quarters."""

QUARTERS = ("lowest quarter", "second quarter", "third quarter", "highest quarter")
MISSING = "missing"

_LAST_PART = re.compile(r"[_\-:=. |]*[^_\-:=. |]*$")
"""What follows the last sign that parts words, with it."""


def check_names(wanted: Sequence[str], known: Collection[str], what: str) -> None:
    """Refuse a name that is none of a table's columns.

    Raises BadInput, naming it, and the one that is meant, perhaps.
    """
    for name in wanted:
        if name not in known:
            near = get_close_matches(str(name), list(known), 1, cutoff=0.0)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise BadInput(f"{what}: no column {name!r}{hint}")


def labels_of(schema: Schema) -> dict[str, Attribute]:
    """Name the attributes, each once, without naming the categories of a one-hot group."""
    found: dict[str, Attribute] = {}
    for attribute in schema.attributes:
        members, label = attribute.columns, attribute.name
        if isinstance(attribute, OneHot) and label == " | ".join(members):
            start = zip(min(members), max(members), strict=False)
            common = "".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], start))
            label = _LAST_PART.sub("", common) or f"one of {len(members)} columns"
        found[label if label not in found else f"{label} ({len(found) + 1})"] = attribute
    return found


def attribute_of(name: str, schema: Schema, release: Release | None) -> Attribute | None:
    """Find the attribute that a column, a group of columns or its label names."""
    labels = labels_of(schema)
    if name in labels:
        return labels[name]
    members = () if release is None else release.one_hot.get(name, ())
    for attribute in schema.attributes:
        if name == attribute.name or name in attribute.columns or attribute.columns == members:
            return attribute
    return None


def groups_of(
    truth: pd.DataFrame, request: AuditRequest, release: Release, schema: Schema
) -> dict[str, pd.Series[Any]]:
    """Sort training rows into groups: by class, then by each column that is wanted.

    ``truth``: the rows in the model's columns. ``request``: the rows as they were given, perhaps
    with columns that the model lacks, with their labels.
    """
    found: dict[str, pd.Series[Any]] = {}
    if request.y is not None and release.classes:
        number = class_numbers(release.classes, np.ravel(np.asarray(request.y, dtype=object)))
        found[CLASS] = _named(number, [str(c) for c in release.classes])
    table = request.X if isinstance(request.X, pd.DataFrame) else pd.DataFrame()
    named = {str(c): table[c] for c in table}
    labels = labels_of(schema)
    for name in request.groups:
        attribute = attribute_of(name, schema, release)
        if attribute is not None and (len(attribute.columns) > 1 or name not in named):
            # The column of one category groups by all of them, and is not what they are called.
            member = len(attribute.columns) > 1 and name in attribute.columns
            called = next(k for k, a in labels.items() if a is attribute) if member else name
            found[called] = _by_attribute(attribute, truth, release)
        elif name in named:
            found[name] = _by_value(named[name].reset_index(drop=True))
        else:
            raise BadInput(f"groups: {name!r} is not a column to group rows by")
    return found


def _by_attribute(attribute: Attribute, X: pd.DataFrame, release: Release) -> pd.Series[Any]:
    if isinstance(attribute, OneHot):
        members = list(attribute.members)
        ones = X[members].to_numpy() == 1.0
        names = np.array([*members, "none of them"], dtype=object)
        return pd.Series(names[np.where(ones.any(axis=1), ones.argmax(axis=1), len(members))])
    values = X[attribute.name].reset_index(drop=True)
    texts: dict[float, str] = dict(enumerate(release.levels.get(attribute.name, ())))
    if isinstance(attribute, Categorical) and attribute.labels is not None:
        texts = dict(zip(attribute.values, attribute.labels, strict=True))
    return _by_value(values.map(texts) if texts else values)


def _by_value(values: pd.Series[Any]) -> pd.Series[Any]:
    """Name the groups by the values, or in quarters where there are many numbers."""
    known = values.dropna()
    if not pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
        return values.astype(object).where(values.notna(), MISSING).map(str)
    numbers = values.to_numpy(dtype=float, na_value=np.nan)
    if known.nunique() > MOST_VALUES:
        ends = np.quantile(known.to_numpy(dtype=float), (0.25, 0.5, 0.75))
        names, code = [*QUARTERS, MISSING], np.searchsorted(ends, numbers)
    else:
        levels = sorted(known.unique())
        names = [*(f"{v:g}" for v in levels), MISSING]
        code = np.searchsorted(np.array(levels, dtype=float), numbers)
    return _named(np.where(values.isna(), len(names) - 1, code), names)


def _named(code: NDArray[np.integer[Any]], names: Sequence[str]) -> pd.Series[Any]:
    """Name codes; groups keep the order of their names."""
    texts = pd.Series(np.array(names, dtype=object)[code])
    return texts.astype(pd.CategoricalDtype(list(names)))
