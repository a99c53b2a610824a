"""What a document of a library can hold, as data; whatever else stands there is left over.

A shape names the keys of an object, how many items a list has, and what a value can be. What it
does not speak of, or speaks of otherwise, is found by difference: no reader has to look for it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from treeleak.auditing.inventory.numbers import MOST_ROUNDS
from treeleak.core.private import dataclass
from treeleak.release.stored import StoredObject

Sizes: TypeAlias = Mapping[str, int]
"""How many columns, trees, nodes and so on there are, by their names."""
Test: TypeAlias = Callable[[Any, Sizes], bool]
Shape: TypeAlias = "Mapping[str, Shape] | Test | Items | ByColumn"
Place: TypeAlias = tuple[str | int, ...]
"""Keys and places in lists, from the root."""

MOST_DEEP = 12
MOST_LETTERS = 128
FEW = 32
_TIMES = 16
"""Numbers of a setting, in all places where it stands."""
MOST_STEPS = 3
"""Times that a score of whole numbers, such as a share of errors of 0 or 1, changes."""
SINGLE_DIGITS, DOUBLE_DIGITS = 9, 17
"""Digits that tell any number in single or double precision from its neighbours."""
_NUMBER = re.compile(
    r"[-+]?(?:\d{1,20}|\d{0,20}\.\d{0,20}|\d(?:\.\d{0,20})?)(?:[eE][-+]?\d{1,3})?|nan|-?inf"
)
_WORD = re.compile(r"[A-Za-z][A-Za-z_0-9:.@-]{0,47}")


class Accounted(StoredObject):
    """A part of a file, all of whose values were held against its shape."""


@dataclass(frozen=True, eq=False)
class Items:
    """A list of no more items than the size of this name, each of one shape."""

    item: Shape
    size: str
    item_sizes: Callable[[Any, int], Sizes] = lambda _, __: {}
    """Sizes of an item, given its place."""


@dataclass(frozen=True, eq=False)
class ByColumn:
    """An object whose keys are numbers of columns."""

    item: Shape

    def of(self, key: str, sizes: Sizes) -> Shape | None:
        """Give the shape of a column's value; None if there is no such column."""
        known = key.isdigit() and len(key) < 7 and int(key) < max(sizes.get("columns", 0), FEW)
        return self.item if known else None


def left_over(
    value: Any, shape: Shape, sizes: Sizes, at: Place = ()
) -> Iterator[tuple[Place, Any]]:
    """List what a shape does not account for, with its place."""
    if isinstance(shape, (Mapping, ByColumn)):
        if not isinstance(value, Mapping):
            yield at, value
            return
        for key, inner in value.items():
            expected = shape.of(key, sizes) if isinstance(shape, ByColumn) else shape.get(key)
            if expected is None:
                yield (*at, key), inner
            else:
                yield from left_over(inner, expected, sizes, (*at, key))
    elif isinstance(shape, Items):
        items = value.tolist() if isinstance(value, np.ndarray) else value
        if not isinstance(items, list) or len(items) > sizes.get(shape.size, 0):
            yield at, value
            return
        for k, inner in enumerate(items):
            yield from left_over(
                inner, shape.item, {**sizes, **shape.item_sizes(inner, k)}, (*at, k)
            )
    elif not shape(value, sizes):
        yield at, value


def fits(value: Any, shape: Shape, sizes: Sizes) -> bool:
    """Say whether a shape accounts for all of a value."""
    return next(left_over(value, shape, sizes), None) is None


def without(value: Any, places: Sequence[Place]) -> Any:
    """Drop what stands at some places; the very same document if there are none."""
    if not places:
        return value
    if () in places:
        return None
    by_key: dict[str | int, list[Place]] = {}
    for first, *rest in places:
        by_key.setdefault(first, []).append(tuple(rest))
    if isinstance(value, Mapping):
        return {
            key: without(inner, by_key.get(key, ()))
            for key, inner in value.items()
            if () not in by_key.get(key, ())
        }
    return [
        without(inner, by_key.get(k, ()))
        for k, inner in enumerate(value)
        if () not in by_key.get(k, ())
    ]


def inside(document: Any, *keys: str) -> Any:
    """Take what stands under some keys in each other; None where there is nothing."""
    for key in keys:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


# -------------------------------------------------------------------------------------- values


def array_in(value: Any) -> np.ndarray[Any, Any] | None:
    """Take a list of numbers, in whatever form it is at hand; None for anything else."""
    if isinstance(value, list):
        if any(isinstance(x, (list, Mapping)) or x is None for x in value[:FEW]):
            return None
        try:
            value = np.array(value, dtype=float)
        except (TypeError, ValueError, OverflowError):
            return None
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "biuf":
        return value
    return None


def whole(size: str, low: float = -(2**31), high: float = 2**32, exactly: bool = True) -> Test:
    """As many whole numbers as the size says, or at most as many."""

    def test(value: Any, sizes: Sizes) -> bool:
        array, n = array_in(value), sizes.get(size, 0)
        if array is None or (len(array) != n if exactly else len(array) > n):
            return False
        return bool(((array >= low) & (array < high) & (array == np.floor(array))).all())

    return test


def single(size: str, times: str = "", exactly: bool = True) -> Test:
    """As many numbers as the size says, in single precision or written with its digits."""

    def test(value: Any, sizes: Sizes) -> bool:
        array = array_in(value)
        most = sizes.get(size, 0) * max(sizes.get(times, 1), 1)
        if array is None or (len(array) not in (0, most) if exactly else len(array) > most):
            return False
        return is_single(array)

    return test


def is_single(array: np.ndarray[Any, Any]) -> bool:
    """Say whether no number needs more than single precision."""
    if array.dtype.kind != "f" or array.dtype.itemsize <= 4:
        return True
    with np.errstate(all="ignore"):
        odd = array[(array != array.astype(np.float32)) & np.isfinite(array)]
    return all(float(f"{x:.{SINGLE_DIGITS - 1}e}") == x for x in odd.tolist())


def real(size: str, exactly: bool = False) -> Test:
    """Up to as many numbers as the size says."""

    def test(value: Any, sizes: Sizes) -> bool:
        array, n = array_in(value), sizes.get(size, 0)
        return array is not None and (len(array) == n if exactly else len(array) <= n)

    return test


def either(*tests: Shape) -> Test:
    """Say whether a value fits one of several shapes."""
    return lambda value, sizes: any(fits(value, test, sizes) for test in tests)


def one_number(value: Any, sizes: Sizes) -> bool:  # noqa: ARG001
    """A number, or the text of one that a float can tell."""
    if value is None or isinstance(value, (bool, float, np.number)):
        return True
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    if not isinstance(value, str) or _NUMBER.fullmatch(value) is None:
        return False
    digits = re.sub(r"[eE].*|[-+.]", "", value).strip("0")
    return len(digits) <= (20 if value.lstrip("-").isdigit() else DOUBLE_DIGITS)


def count(value: Any, sizes: Sizes) -> bool:  # noqa: ARG001
    """A whole number, or its text."""
    return isinstance(value, (int, str)) and str(value).isdigit() and len(str(value)) <= 12


def numbers_text(value: Any, sizes: Sizes) -> bool:
    """A number, or a list of a few, as text."""
    parts = value.strip("[]()").split(",") if isinstance(value, str) else [value]
    most = max(FEW, *(sizes.get(name, 0) for name in ("outputs", "columns")))
    return len(parts) <= most and all(
        (isinstance(p, str) and not p) or one_number(p, sizes) for p in parts
    )


def word(value: Any, sizes: Sizes) -> bool:  # noqa: ARG001
    """Words of the library, each once; not a text of another's."""
    if not isinstance(value, str):
        return value is None or isinstance(value, bool)
    parts = value.split(",")
    known = len(parts) == len(set(parts)) <= FEW and all(map(_WORD.fullmatch, parts))
    return not value or known


def like(pattern: str) -> Test:
    """A text of this form."""
    known = re.compile(pattern)
    return lambda value, _: isinstance(value, str) and known.fullmatch(value) is not None


def names(size: str) -> Test:
    """A short text for each column or class, each once."""

    def test(value: Any, sizes: Sizes) -> bool:
        if not isinstance(value, (list, np.ndarray)):
            return False
        texts = list(map(str, value))
        few = len(texts) == len(set(texts)) <= sizes.get(size, 0)
        return few and all(len(t) <= MOST_LETTERS and t.isprintable() for t in texts)

    return test


def name(value: Any, sizes: Sizes) -> bool:  # noqa: ARG001
    """A short text."""
    return isinstance(value, str) and len(value) <= MOST_LETTERS and value.isprintable()


def words(size: str) -> Test:
    """Up to as many words of the library as the size says."""
    return lambda value, sizes: (
        isinstance(value, (list, np.ndarray))
        and len(value) <= sizes.get(size, FEW)
        and all(word(one, sizes) for one in value)
    )


def groups(value: Any, sizes: Sizes) -> bool:
    """Lists of columns, as text or as lists: none of them twice in a list."""
    if isinstance(value, str):
        try:
            value = json.loads(value or "[]")
        except (ValueError, RecursionError):
            return False
    if not isinstance(value, list) or len(value) > max(sizes.get("columns", 0), FEW):
        return False
    return all(
        isinstance(group, (list, tuple, np.ndarray))
        and len(set(map(str, group))) == len(group)
        and all(count(x, sizes) or (isinstance(x, str) and not one_number(x, sizes)) for x in group)
        for group in value
    )


def settings(keys: Mapping[str, Shape]) -> Test:
    """Objects in objects, all of whose keys are known; other values are numbers and words.

    There are no more numbers than keys, and few of one key.
    """

    def test(value: Any, sizes: Sizes, deep: int = 0) -> bool:
        if isinstance(value, Mapping):
            return deep < MOST_DEEP and all(
                key in keys
                and (
                    test(entry, sizes, deep + 1)
                    if keys[key] is word
                    else fits(entry, keys[key], sizes)
                )
                for key, entry in value.items()
            )
        if isinstance(value, (list, np.ndarray)):
            return len(value) <= FEW and all(test(entry, sizes, deep + 1) for entry in value)
        return one_number(value, sizes) or word(value, sizes)

    def few(value: Any) -> bool:
        waiting, found = [("", value)], Counter[str]()
        while waiting:
            at, one = waiting.pop()
            if isinstance(one, Mapping):
                waiting += [(key, x) for key, x in one.items() if keys.get(key) is word]
            elif isinstance(one, (list, np.ndarray)):
                waiting += [(at, x) for x in one]
            else:
                found[at] += not word(one, {})
        return max(found.values(), default=0) <= _TIMES and found.total() <= max(len(keys), _TIMES)

    return lambda value, sizes: few(value) and test(value, sizes)


def json_text(shape: Shape) -> Test:
    """The text of a document of this shape."""

    def test(value: Any, sizes: Sizes) -> bool:
        try:
            value = json.loads(value) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            return False
        return fits(value, shape, sizes)

    return test


def history(value: Any, sizes: Sizes) -> bool:
    """Scores by metric and round: numbers, no more in a list than there were rounds."""
    return _is_history(value, max(sizes.get("rounds", 0), FEW), 0)


def _is_history(value: Any, rounds: int, deep: int) -> bool:
    if isinstance(value, Mapping):
        few = len(value) <= FEW and deep < 5
        return few and all(
            name(key, {}) and _is_history(entry, rounds, deep + 1) for key, entry in value.items()
        )
    if isinstance(value, (list, np.ndarray)):
        few = len(value) <= min(rounds, MOST_ROUNDS) and deep < 6
        if (numbers := array_in(value)) is not None:
            return few and _are_scores(numbers)
        # Only scores of several tables stand in a list of their own.
        inner = (entry for entry in value if not isinstance(entry, Mapping))
        nested = all(isinstance(entry, list) and array_in(entry) is None for entry in inner)
        return few and nested and all(_is_history(entry, rounds, deep + 1) for entry in value)
    return one_number(value, {})


def _are_scores(numbers: np.ndarray[Any, Any]) -> bool:
    """Say whether these can be averages, which are hardly ever all whole: but for 0 and 1."""
    all_whole = bool((numbers == np.floor(numbers)).all())
    return not all_whole or int((np.diff(numbers) != 0).sum()) <= MOST_STEPS
