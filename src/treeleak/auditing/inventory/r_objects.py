"""Rows, and entries for each row, in objects of R of any class: found by what they are.

A model of R keeps the table it was fitted to in many ways: as a field (``model``, ``x``, ``data``,
``trainingData``), in an attribute, in the environment of a formula or of a closure, in a call. So
tables are looked for wherever they can stand: data frames, matrices, lists of columns. Names decide
what cannot be told from numbers: what each field of a common class is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.auditing.inventory import code_of_r as code
from treeleak.auditing.inventory import forms
from treeleak.auditing.inventory import rules_of_r as rules
from treeleak.auditing.inventory import vectors_of_r as vectors
from treeleak.auditing.inventory.conditions import Context, Rule, fits
from treeleak.auditing.inventory.known_classes import is_name
from treeleak.auditing.inventory.owners import hides_bits
from treeleak.auditing.inventory.walks import Walk
from treeleak.release.adapters.r.values import whole
from treeleak.release.stored import Opaque, StoredObject, objects_in

FEWEST, SURE = 5, 20
"""Lines of a table with as many as there are training rows, and of any other table."""
_LEAST_WIDE = {"frame": 1, "matrix": 2, "list": 3, "vector": 2}
"""Columns of what is taken for a table: two vectors of equal length are common."""
_MOST_NAMES = 10_000
_MOST_KNOWN = 0.8
"""Share of the model's columns that a table of its rows has at least."""
_NAMES = f"{rules.NAME_NAMES} {rules.COLUMN_NAMES}"
_CONTAINERS = (StoredObject, Mapping, list, tuple, set, frozenset, Opaque)
_PLACE = re.compile(r"[a-z ]{1,40}( (package:)?[A-Za-z][A-Za-z0-9.]{0,39}(, [\d.-]{1,15})?)?")
"""What stands for an environment: a package and its version."""
_ROWS_STATED = "num.samples nobs nTrain"
"""Fields that state the number of training rows."""


def is_r(stored: Any) -> bool:
    """Say whether an object comes from R."""
    return isinstance(stored, StoredObject) and stored.type.startswith("R.")


def context_of_r(model: StoredObject, context: Context) -> Context:
    """Add what an object of R says of the number of rows and of the names of columns.

    Where nothing states the number, it is guessed from the fields that have an entry for each row.
    """
    stated: Counter[int] = Counter()
    counted: Counter[int] = Counter()
    columns = set() if context.release is None else set(context.release.feature_names)
    for stored in filter(is_r, objects_in(model)):
        if stored.type == "R.data.frame":
            # Its columns may be called anything.
            continue
        inner = (value for value in stored.state.values() if isinstance(value, Mapping))
        for holder in (stored.state, *inner):
            for name, value in holder.items():
                if fits(_ROWS_STATED, str(name)):
                    stated[whole(value) or 0] += 1
                elif fits(rules.ENTRY_NAMES, str(name)):
                    counted[vectors.lines_of(value)] += 1
                elif fits(rules.TABLE_NAMES, str(name)):
                    counted[vectors.lines_of(value) if vectors.columns_of(value) else 0] += 1
                elif fits(rules.COLUMN_NAMES, str(name)):
                    columns |= vectors.texts_of(value)
    likely = [(times, n) for n, times in stated.items() if n >= FEWEST]
    likely = likely or [(times, n) for n, times in counted.items() if n >= SURE]
    n_rows = context.n_rows or (max(likely)[1] if likely else None)
    return replace(context, n_rows=n_rows, columns=frozenset(columns))


def rule_of_r(owner: StoredObject, name: str, value: Any, context: Context) -> Rule | None:
    """Find the rule that knows a value in an object of R; None if it must be taken apart."""
    if value is None or (isinstance(value, Opaque) and value.content is None):
        named = value is None or value.type != "R.environment" or _PLACE.fullmatch(value.why)
        return rules.SETTINGS if named else rules.UNKNOWN
    array = vectors.vector_of(value)
    if isinstance(array, np.ndarray) and hides_bits(array):
        return rules.UNKNOWN
    n = context.n_rows
    lines = vectors.lines_of(value)
    for rule in rules.OF_CLASSES:
        known = rule.names_it(owner.name, name) and rule.form(value, owner)
        # What has a line for each row is looked at again, whatever it is called.
        plain = rule.mark == "leaks" or lines != n or lines == 1
        if known and plain and rule.when(value, context):
            return rule
    table = vectors.columns_of(value, _known_fields(value.name if is_r(value) else owner.name))
    if table is not None and (of_table := _of_table(table, name, context)) is not None:
        return of_table
    if code.is_code(value):
        typed = code.judged(value).plain
        return rules.UNKNOWN_CODE if typed is None else rules.CODE if typed else None
    if isinstance(value, tuple) and all(isinstance(v, str) for v in value):
        array = np.array([*value, None], dtype=object)[:-1]
    if isinstance(array, np.ndarray):
        return _of_entries(array, owner, name, n)
    if _are_alike(value):
        return rules.UNKNOWN
    if array is None and isinstance(value, _CONTAINERS):
        return None
    short = forms.is_scalar(value) if array is None else len(array) <= forms.SHORT
    return rules.SETTINGS if short else rules.UNKNOWN


def _is_name(value: Any) -> bool:
    text = str(value)
    return len(text) <= forms.MAX_NAME and not forms.is_like_row(text)


def _are_alike(value: Any) -> bool:
    """Say whether a list has many items of the same few numbers, as lines of a table are."""
    items = list(value.values()) if isinstance(value, Mapping) else value
    if not isinstance(items, (list, tuple)) or len(items) < SURE:
        return False
    shapes = {_shape_of(item) for item in items}
    return len(shapes) == 1 and None not in shapes


def _shape_of(item: Any) -> tuple[Any, ...] | None:
    """Shape of a few numbers, or names of items that hold one number each; None of others."""
    array = vectors.vector_of(item)
    if isinstance(array, np.ndarray):
        few = 1 < array.size <= forms.SHORT and array.dtype.kind in "iufc"
        return array.shape if few else None
    held = list(item.values()) if isinstance(item, Mapping) else item
    if not isinstance(held, list) or not 1 < len(held) <= forms.SHORT:
        return None
    single = all(np.size(v) == 1 for v in map(vectors.vector_of, held) if v is not None)
    single &= all(vectors.vector_of(v) is not None for v in held)
    return tuple(item) if single and isinstance(item, Mapping) else (len(held),) if single else None


def _of_entries(array: NDArray[Any], owner: StoredObject, name: str, n: int | None) -> Rule:
    """Judge a vector, or what each name stands for."""
    texts = [v for v in array.ravel().tolist() if v is not None] if array.dtype == object else []
    names = fits(_NAMES, name) and (bool(texts) or not array.size)
    if n is not None and n >= FEWEST:
        # Names of lines that are none, or numbers.
        if len(array) == n and not (names and all(str(v).isdigit() for v in texts)):
            return rules.PER_ROW if fits(rules.PER_ROW_NAMES, name) else rules.AS_MANY
        # A matrix without its dimensions.
        if fits(rules.TABLE_NAMES, name) and array.size >= 2 * n and array.size % n == 0:
            return rules.ROWS
    if name == "levels" and n is not None and 2 * len(texts) > n:
        return rules.VALUES
    if names and array.size <= _MOST_NAMES and all(_is_name(v) for v in texts):
        return rules.NAMES
    same = len(set(array.ravel().tolist())) == 1 and forms.is_scalar(array.ravel()[0])
    return rules.SETTINGS if same or forms.short(array, owner) else rules.UNKNOWN


def _of_table(table: vectors.Columns, name: str, context: Context) -> Rule | None:
    """Tell lines that are rows from those that are columns, trees or settings; None if too few."""
    n, d = context.n_rows, len(table.columns)
    named = fits(rules.TABLE_NAMES, name)
    if n is not None and table.lines == n >= FEWEST:
        return rules.ROWS if d >= _LEAST_WIDE[table.kind] else None
    if vectors.is_about(table, context.columns):
        return rules.ABOUT_COLUMNS if table.kind != "list" else None
    known = set() if context.release is None else set(context.release.feature_names)
    if known and table.lines >= FEWEST and len(known & {*table.names}) >= _MOST_KNOWN * len(known):
        return rules.ROWS
    if table.lines < FEWEST or d < _LEAST_WIDE[table.kind]:
        return None
    if vectors.is_grid(table):
        return rules.SETTINGS
    if table.lines < (FEWEST if named else SURE) or (vectors.is_curve(table) and not named):
        return rules.UNKNOWN if table.kind == "frame" else None
    # A matrix as wide as it is long is one of columns by columns, more likely than not.
    return None if table.kind == "matrix" and table.lines <= d and not named else rules.ROWS


@lru_cache(1000)
def _known_fields(owner: str) -> tuple[str, ...]:
    """List the fields of a class that are no columns, whatever their length."""
    of_class = [rule.names for rule in rules.OF_CLASSES if fits(rule.owner, owner)]
    return tuple(" ".join((rules.ENTRY_NAMES, *of_class)).split())


def rest_of(value: Any) -> list[tuple[str | None, Any]]:
    """List what stands beside the columns of a table, or beside the entries of a vector."""
    if not isinstance(value, (StoredObject, Mapping)):
        return [("content", value.content)] if isinstance(value, Opaque) else []
    members = value.state if isinstance(value, StoredObject) else value
    of_class = value.type if isinstance(value, StoredObject) else ""
    if of_class and vectors.vector_of(value) is not None:
        return [(k, v) for k, v in members.items() if k not in ("value", "codes")]
    if of_class == "R.environment" and isinstance(held := members.get("values"), Mapping):
        return rest_of(held) + [(k, v) for k, v in members.items() if k != "values"]
    table = vectors.columns_of(value)
    lines = -1 if table is None else table.lines
    return [(str(k), v) for k, v in members.items() if vectors.lines_of(v) != lines]


def inside_r(value: Any) -> Iterator[tuple[str | None, Any]]:
    """List the parts of a container of R by their names, or None where they have none."""
    if isinstance(value, Opaque):
        value = [value.content]
    members = value.state if isinstance(value, StoredObject) else value
    if isinstance(members, Mapping):
        return ((str(k), v) for k, v in members.items())
    return ((None, v) for v in members)


def _is_odd(value: Any) -> bool:
    """Say whether a name is too long, or a class is called as none can be."""
    if isinstance(value, Mapping):
        return any(len(str(key)) > forms.MAX_NAME for key in value)
    return isinstance(value, StoredObject) and not is_name(value.type)


WALK = Walk(
    owns=is_r, context=context_of_r, rule=rule_of_r, inside=inside_r, beside=rest_of,
    alone=(rules.CODE,), is_odd=_is_odd, most=2_000_000,
)  # fmt: skip
"""Of R's trees, each node is a list of lists; each is looked at once."""
