"""CatBoost's statistics of the target (ctr): rows of each class by category, exactly.

Found out from 1.2.10, and checked by training (a test). ``ctr_data`` has a table for each column of
categories, and for each combination of such columns with borders of numbers and single categories,
that some tree tests. A table counts the training rows of every value that it met, by class
(``Borders``, ``Buckets``) or together (``Counter``), whatever their weights. A regression puts
targets into bins, and counts these. Trees compare what was counted *before* a row, in a random
order, so that the numbers in their leaves are no numbers of rows that the file would send there.

A value is known by 64 bits, which mix the 32-bit hashes of its categories and the answers to its
tests, one after the other: ``h = m (h + m x)``. As m is odd, every step can be undone. So hashes of
categories follow from tables with one column; and combinations are found from both ends.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import BadModel
from treeleak.core.private import dataclass
from treeleak.release.adapters.catboost_trees import Columns
from treeleak.release.bounds import MOST_ROWS, MOST_TREES, at_most
from treeleak.release.checked_json import is_finite, is_whole, located
from treeleak.release.release import ANOTHER, HASH

BY_CLASS, TOGETHER = ("Borders", "Buckets"), ("Counter", "FeatureFreq")
_MOST_PARTS, _MOST_TEXT = 32, 2**14
"""Columns and tests that make a value; characters of their description."""
MOST_TRIED, MOST_OF_ALL = 2**22, 2**27
"""Ways to take values apart, in a table and in all: more are not tried."""
_MIXED = 4096
"""Values that are mixed from the first parts, to be met by those that are undone."""
_EMPTY = 2**64 - 1
"""Stands where a table has no value."""
_MIX = np.uint64(0x4906BA494954CB65)
_UNMIX = np.uint64(pow(int(_MIX), -1, 2**64))
_BEGIN = np.zeros(1, dtype=np.uint64)

Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class Part:
    """What a value is made of: a column of categories, or the answer to a test."""

    column: int
    border: float | None = None
    """Of a test for more than that."""
    code: int | None = None
    """Hash of a category, of a test for it."""

    @property
    def tests(self) -> bool:
        """Whether there are two answers."""
        return self.code is not None or self.border is not None


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of each value.

    Attributes
    ----------
    where : str
        Its name, for messages.
    parts : tuple of Part
        In the order in which they are mixed.
    keys : uint64 array, shape (n_values,)
    counts : float array, shape (n_values, n_classes)
        One column where classes are not told apart.
    """

    where: str
    parts: tuple[Part, ...]
    keys: Hashes
    counts: FloatArray
    by_class: bool
    """Whether rows are told apart by class, or by a bin of the target."""


def read_tables(data: Any, columns: Columns) -> list[Table]:
    """Read all tables of numbers of rows; others hold means, and are left.

    Raises BadModel, naming the table.
    """
    if not isinstance(data, Mapping):
        raise BadModel("ctr_data is not an object")
    at_most(MOST_TREES, len(data), "tables in ctr_data")
    found = []
    for name, table in data.items():
        with located(f"ctr_data, {name!r:.60}: "):
            described = _parsed(name)
            kind = described.get("type")
            if kind in (*BY_CLASS, *TOGETHER):
                parts = _parts(described.get("identifier"), columns)
                found.append(_table(name, table, parts, kind in BY_CLASS))
    return found


def _parsed(name: str) -> Mapping[str, Any]:
    try:
        described = json.loads(name) if len(name) <= _MOST_TEXT else None
    except (ValueError, RecursionError):
        described = None
    if not isinstance(described, Mapping):
        raise BadModel("not named by what it counts")
    return described


def _parts(listed: Any, columns: Columns) -> tuple[Part, ...]:
    if not isinstance(listed, list) or not all(isinstance(part, Mapping) for part in listed):
        raise BadModel("no list of what its values are made of")
    at_most(_MOST_PARTS, len(listed), "parts of a value")
    parts = []
    for part in listed:
        kind, value, border = (part.get(k) for k in ("combination_element", "value", "border"))
        numeric = kind == "float_feature"
        places = columns.numeric if numeric else columns.categorical
        index = part.get(f"{'float' if numeric else 'cat'}_feature_index")
        column = places.get(index) if type(index) is int else None
        if column is None:
            raise BadModel("its values are made of no column")
        if numeric and is_finite(border):
            with np.errstate(over="ignore"):
                parts.append(Part(column, float(np.float32(border))))
        elif kind == "cat_feature_exact_value" and is_whole(value, -(2**31), 2**31):
            parts.append(Part(column, code=value))
        elif kind == "cat_feature_value":
            parts.append(Part(column))
        else:
            raise BadModel(f"its values are made of {kind!r:.40}")
    return tuple(parts)


def _table(name: str, table: Any, parts: tuple[Part, ...], by_class: bool) -> Table:
    given = table if isinstance(table, Mapping) else {}
    held, width = given.get("hash_map"), given.get("hash_stride")
    if not isinstance(held, list) or not isinstance(width, int) or not parts:
        raise BadModel("hash_map is no list of values, or they are not made of anything")
    if not is_whole(width, 2, 2**16) or len(held) % width:
        raise BadModel("hash_map is no list of values, each with its numbers of rows")
    texts, numbers = held[::width], [held[k::width] for k in range(1, width)]
    if not all(isinstance(t, str) and t.isascii() and t.isdigit() and len(t) <= 20 for t in texts):
        raise BadModel("hash_map holds a value that is no number of 64 bits")
    keys = [int(text) for text in texts]
    if max(keys, default=0) > _EMPTY or len(set(keys)) < len(keys):
        raise BadModel("hash_map holds a value twice, or one of more than 64 bits")
    if not all(is_whole(n, 0, MOST_ROWS + 1) for listed in numbers for n in listed):
        raise BadModel("hash_map holds something other than numbers of rows")
    there = np.array([key != _EMPTY for key in keys], dtype=bool)
    counts = np.array(numbers, dtype=float).reshape(width - 1, -1).T[there]
    return Table(name, parts, np.array(keys, dtype=np.uint64)[there], counts, by_class)


# ------------------------------------------------------------------- values, taken apart again


def with_known_categories(
    columns: Columns, tables: Sequence[Table], texts: Mapping[int, str]
) -> Columns:
    """Find all categories of the columns that some table counts by themselves, or beside tests.

    ``texts``: those of hashes, as far as the file has them.
    """
    values, complete = dict(columns.values), set()
    for table in tables:
        of = [k for k, part in enumerate(table.parts) if not part.tests]
        if of != [0] or len(table.keys) << (len(table.parts) - 1) > MOST_TRIED:
            continue
        column = table.parts[0].column
        rest = _undone(table.keys[:, None], [_choices(p, columns) for p in table.parts[1:]])
        hashes, fits = codes_of(rest)
        if fits.any(axis=1).all():
            values[column] = tuple(sorted({*values.get(column, ()), *hashes[fits].tolist()}))
            complete.add(column)
    levels = {
        columns.names[c]: _distinct(
            [texts.get(code, f"{HASH}{code}") for code in known], (ANOTHER,) * (c not in complete)
        )
        for c, known in values.items()
        if known
    }
    return replace(columns, values=values, levels=levels)


def codes_of(keys: Hashes) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Give the hash of a category that each value is made of, and whether it can be one."""
    hashes = (keys * _UNMIX * _UNMIX).astype(np.int64)
    return hashes, hashes == hashes.astype(np.int32)


def _distinct(texts: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    """Number texts that stand there twice."""
    named = [text if texts.count(text) == 1 else f"{text} ({k})" for k, text in enumerate(texts)]
    return (*named, *(text for text in more if text not in named))


def _undone(keys: Hashes, choices: Sequence[Hashes]) -> Hashes:
    """Undo the last steps, for all their choices, the last choice first in the order of columns."""
    for chosen in reversed(choices):
        keys = (keys[..., None] * _UNMIX - _MIX * chosen).reshape(len(keys), -1)
    return keys


def taken_apart(table: Table, columns: Columns) -> IntArray | None:
    """Find what each value is made of.

    Returns
    -------
    int array, shape (n_values, n_parts), or None
        Numbers of categories, and answers 0 or 1. None where that is not found out.
    """
    choices = [_choices(part, columns) for part in table.parts]
    front, back = _ends(table, columns)
    if ways(table, columns) > MOST_TRIED:
        return None
    split = len(front)
    made = _BEGIN
    for chosen in choices[:split]:
        made = (_MIX * (made[:, None] + _MIX * chosen)).reshape(-1)
    left = _undone(table.keys[:, None], choices[split:])
    order = np.argsort(made)
    place = np.minimum(np.searchsorted(made[order], left), len(made) - 1)
    met = made[order][place] == left
    if not (met.sum(axis=1) == 1).all():
        return None
    last = met.argmax(axis=1)
    first = order[np.take_along_axis(place, last[:, None], 1)[:, 0]]
    found = [*np.unravel_index(first, front)]
    # Each step back was laid out behind those before it: the last part varies slowest.
    found += reversed(np.unravel_index(last, back[::-1])) if back else []
    return np.column_stack(found).astype(np.int64)


def _ends(table: Table, columns: Columns) -> tuple[list[int], list[int]]:
    """Number the choices of each part, of the first ones, which are mixed, and of the others."""
    sizes = [len(_choices(part, columns)) for part in table.parts]
    front = np.cumprod(sizes, dtype=float)
    split = max(int(np.searchsorted(front, _MIXED, side="right")), 1)
    return sizes[:split], sizes[split:]


def ways(table: Table, columns: Columns) -> float:
    """Say how many ways there are to take a table's values apart; infinite if none is known."""
    front, back = (np.prod(sizes, dtype=float) for sizes in _ends(table, columns))
    return float(front + len(table.keys) * back) if front * back else np.inf


def _choices(part: Part, columns: Columns) -> Hashes:
    if part.tests:
        return np.arange(2, dtype=np.uint64)
    return np.array(columns.values.get(part.column, ()), dtype=np.int64).astype(np.uint64)
