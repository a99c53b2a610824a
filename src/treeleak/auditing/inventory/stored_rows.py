"""Whether training rows stand in a part of a file that no rule knows.

Rows are looked for in numbers, in texts (as in a CSV file), and in bytes (as arrays of the usual
types lay them out), one row after the other or one column after the other. Rows that were packed,
scrambled or encrypted are not found.

Fitted parts may also hold about as many different values as there are training rows. If n rows have
k different values, one each, then 2k - n of the values or more belong to one row alone. So a list
of more than n/2 values may hold those of single people, whatever it is called: categories, bins,
quantiles, centres of clusters, words of notes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.auditing.inventory.known_classes import PARTS
from treeleak.auditing.inventory.owners import is_drawn, n_columns
from treeleak.core.arrays import FloatArray
from treeleak.core.errors import BadInput
from treeleak.core.private import dataclass
from treeleak.release.registry import has_adapter
from treeleak.release.stored import Opaque, StoredObject

HashArray = NDArray[np.uint64]

MOST_VALUES = 1 << 22
FEWEST_ROWS = 2
FEWEST_COLUMNS = 3
CHANCE = 1e-6
"""What is found counts if chance would show as much at most this often."""
OTHERS, MOST_OTHERS = 20, 20_000
"""Rows that are none, for each that is one: enough to be sure of few rows as well."""
# Beside a row may stand its number and its label.
BESIDE = 3

_TOKEN = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[^\W\d]\w*")
_DIGITS = re.compile(r"[0-9]+")
_LAYOUTS = ("<f8", "<f4", "<i8", "<i4", "<i2", "u1")
_TRUTH = {"true": 1.0, "false": 0.0}
_FOREIGN = -1e300


@dataclass(frozen=True, eq=False)
class Table:
    """Training rows as numbers, made comparable."""

    rows: FloatArray
    """Shape (n_rows, n_columns)."""
    texts: Mapping[str, float]
    """Numbers that stand for texts."""

    @classmethod
    def of(cls, data: Any) -> Table:
        """Take over a table or an array."""
        try:
            frame = pd.DataFrame(data)
        except (TypeError, ValueError) as error:
            raise BadInput(f"the training rows are not a table: {error}") from error
        plain = [pd.api.types.is_numeric_dtype(frame.iloc[:, k]) for k in range(frame.shape[1])]
        texts: dict[str, float] = {}
        # In their order, so that a sorted list of them is one of numbers, too.
        held = {str(v).strip() for k, n in enumerate(plain) if not n for v in frame.iloc[:, k]}
        _numbered(sorted(held), texts, new=True)
        columns = []
        for k in range(frame.shape[1]):
            column = frame.iloc[:, k]
            if plain[k]:
                columns.append(_comparable(column.to_numpy(dtype=float, na_value=np.nan)))
            else:
                columns.append(_numbered(list(column), texts))
        return cls(np.column_stack(columns) if columns else np.zeros((len(frame), 0)), texts)

    def stands_in(self, value: Any) -> bool:
        """Say whether rows of the table stand in a value, more of them than chance explains."""
        return any(self._in(sequence) for sequence in self._sequences(value))

    def numbers(self, values: list[Any]) -> FloatArray:
        """Write values as numbers, as those of the table are."""
        return _numbered(values, self.texts)

    def _in(self, sequence: FloatArray) -> bool:
        n, d = self.rows.shape
        if min(n, d) == 0 or len(sequence) < FEWEST_ROWS * d:
            return False
        by_columns = [
            np.ascontiguousarray(sequence.reshape(width, n).T).ravel()
            for width in range(d, d + BESIDE)
            if len(sequence) == n * width
        ]
        return any(self._row_by_row(layout) for layout in (sequence, *by_columns))

    @cached_property
    def _known(self) -> FloatArray:
        return np.unique(self.rows[~np.isnan(self.rows)])

    @cached_property
    def _row_hashes(self) -> HashArray:
        return _hashes(_codes(self.rows, self._known))

    @cached_property
    def _telling(self) -> HashArray:
        """Rows of more than one value."""
        return np.unique(self._row_hashes[[len(np.unique(row)) > 1 for row in self.rows]])

    @cached_property
    def _others(self) -> HashArray:
        """Rows that are none: values of the same columns, put together anew."""
        n, d = self.rows.shape
        at = np.random.default_rng(n).integers(0, n, (min(OTHERS * n, MOST_OTHERS), d))
        anew = np.take_along_axis(self.rows, at, axis=0)
        anew = anew[(anew != anew[:, :1]).any(axis=1)]
        return np.setdiff1d(_hashes(_codes(anew, self._known)), self._row_hashes)

    def _row_by_row(self, sequence: FloatArray) -> bool:
        d = self.rows.shape[1]
        codes = _codes(sequence, self._known)
        windows = _hashes(np.lib.stride_tricks.sliding_window_view(codes, d))
        if self._in_order(windows):
            return True
        n = len(self._telling)
        found = _n_found(self._telling, windows)
        if found < FEWEST_ROWS or (d < FEWEST_COLUMNS and found <= n / 5):
            return False
        # Small numbers meet by chance, and then so do rows that are none. Fisher's exact test says
        # how often as many of what was found would be true rows.
        in_all = found + _n_found(self._others, windows)
        return _share_of_draws(found, n, in_all, len(self._others)) <= CHANCE

    @cached_property
    def _surprise(self) -> FloatArray:
        """How unlikely the first rows are in their order, as the log of one in so many: sums."""
        _, kind, times = np.unique(self._row_hashes, return_inverse=True, return_counts=True)
        return np.asarray(np.cumsum(np.log(len(kind) / times[kind])))

    def _in_order(self, windows: HashArray) -> bool:
        """Whether the first rows follow each other at equal distances, too many for chance."""
        d = self.rows.shape[1]
        enough = np.searchsorted(self._surprise, np.log(len(windows) / CHANCE))
        if enough == len(self._row_hashes):
            return False
        first = self._row_hashes[: enough + 1]
        for stride in range(d, d + BESIDE):
            room = len(windows) - stride * (len(first) - 1)
            if room <= 0:
                continue
            fits = np.ones(room, dtype=bool)
            for k, row in enumerate(first):
                fits &= windows[k * stride : k * stride + room] == row
            if fits.any():
                return True
        return False

    def _sequences(self, value: Any) -> Iterator[FloatArray]:
        """Write a value as numbers, in every way that it can be read."""
        plain: list[Any] = []
        keys: list[Any] = []
        stack, seen = [value], set()
        while stack and len(plain) < MOST_VALUES:
            one = stack.pop()
            if isinstance(one, (StoredObject, Opaque, Mapping, list, tuple, set, frozenset)):
                if id(one) in seen:
                    continue
                seen.add(id(one))
            if isinstance(one, StoredObject):
                # The state itself: a copy could take the place in memory of one that was seen.
                stack += [one.args, one.state]
            elif isinstance(one, Opaque):
                stack.append(one.content)
            elif isinstance(one, Mapping):
                keys += one
                stack += reversed(list(one.values()))
            elif self._is_sorted(one):
                continue
            elif isinstance(one, (list, tuple, set, frozenset)):
                stack += reversed(list(one))
            elif isinstance(one, np.ndarray):
                if one.dtype == object:
                    stack += reversed(one.ravel().tolist())
                else:
                    yield from self._of_array(one)
                    plain += one.ravel()[:MOST_VALUES].tolist()
            elif isinstance(one, (bytes, bytearray)):
                yield from self._of_bytes(bytes(one))
            elif isinstance(one, str):
                plain += self._tokens(one)
            else:
                plain.append(one)
        yield _numbered(plain, self.texts)
        if keys:
            yield _numbered([t for k in keys for t in self._tokens(str(k))], self.texts)
        digits = "".join(p for p in (*plain, *keys) if isinstance(p, str) and _DIGITS.fullmatch(p))
        if digits:
            yield np.array([float(c) for c in digits])

    def _is_sorted(self, value: Any) -> bool:
        """Say whether this is a list of different values in their order, longer than a row.

        Rows of neighbouring values stand in each such list by themselves.
        """
        if not isinstance(value, (list, tuple, np.ndarray)) or getattr(value, "ndim", 1) != 1:
            return False
        items = value.tolist() if isinstance(value, np.ndarray) else list(value)
        if len(items) < FEWEST_ROWS * self.rows.shape[1]:
            return False
        if not all(isinstance(item, (int, float, str, np.generic)) for item in items):
            return False
        steps = np.diff(_numbered(items, self.texts))
        return bool((steps > 0).all() or (steps < 0).all())

    def _of_array(self, array: NDArray[Any]) -> Iterator[FloatArray]:
        if array.dtype.names:
            columns = [self._plain(array[name].ravel()) for name in array.dtype.names]
            yield np.concatenate(columns)
            yield (
                np.column_stack(columns).ravel() if len(set(map(len, columns))) == 1 else columns[0]
            )
        elif array.ndim > 1:
            yield self._plain(array.T.ravel())
        yield from self._of_bytes(array.tobytes()) if array.dtype.kind in "SV" else ()

    def _plain(self, array: NDArray[Any]) -> FloatArray:
        if array.dtype.kind in "biuf":
            return _comparable(array.astype(float))
        return _numbered(array.tolist(), self.texts)

    def _of_bytes(self, raw: bytes) -> Iterator[FloatArray]:
        yield _numbered(self._tokens(raw[:MOST_VALUES].decode("utf-8", "replace")), self.texts)
        for layout in _LAYOUTS:
            size = np.dtype(layout).itemsize
            for start in range(size):
                whole = (len(raw) - start) // size
                if whole > 0:
                    read = np.frombuffer(raw, layout, min(whole, MOST_VALUES), start)
                    with np.errstate(invalid="ignore"):
                        yield _comparable(read.astype(float))

    def _tokens(self, text: str) -> list[Any]:
        text = text[: 8 * MOST_VALUES]
        if text.strip() in self.texts:
            return [text.strip()]
        found: list[Any] = _TOKEN.findall(text)
        if len(text) > 1 and _DIGITS.fullmatch(text):
            # Digits in a row may be as many columns.
            found = list(text)
        return [_TRUTH.get(t.lower(), t) for t in found]


def _comparable(numbers: FloatArray) -> FloatArray:
    """In single precision, as many models and files store them."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(numbers, dtype=np.float32).astype(float)


def _numbered(values: list[Any], texts: Mapping[str, float], new: bool = False) -> FloatArray:
    """Write numbers and texts as numbers; a text that the table lacks is like no other value."""
    out = np.full(len(values), _FOREIGN)
    numbers = np.zeros(len(values), dtype=bool)
    for i, value in enumerate(values):
        try:
            out[i] = float(value)
            numbers[i] = True
        except (TypeError, ValueError, OverflowError):
            text = str(value).strip()
            if new and isinstance(texts, dict):
                texts.setdefault(text, -1e30 * (1 + len(texts)))
            out[i] = texts.get(text, _FOREIGN)
    out[numbers] = _comparable(out[numbers])
    return out


def _codes(values: FloatArray, known: FloatArray) -> HashArray:
    """Number values by their place among the known ones; 0 for any other, and for none."""
    at = np.searchsorted(known, values)
    at[at == len(known)] = 0
    fits = known[at] == values if len(known) else np.zeros(values.shape, bool)
    return np.where(fits, at + 1, 0).astype(np.uint64)


def _hashes(rows: NDArray[np.uint64]) -> HashArray:
    """One number for each row; that two rows share one by chance is out of the question."""
    rng = np.random.default_rng(rows.shape[1])
    out = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.T:
        out = (out + column) * rng.integers(1, 2**63, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    return out


def _n_found(hashes: HashArray, windows: HashArray) -> int:
    """How many different hashes, in their order, are among those of windows."""
    at = np.searchsorted(hashes, windows)
    inside = at < len(hashes)
    at, windows = at[inside], windows[inside]
    return len(np.unique(at[hashes[at] == windows]))


def _share_of_draws(least: int, n: int, drawn: int, others: int) -> float:
    """How often so many draws out of ``n`` and others hold at least so many of the ``n``."""
    from scipy.stats import hypergeom  # Takes long to load.

    return float(hypergeom.sf(least - 1, n + others, n, drawn))


FEW = 10
"""Different values that a table of any size may have."""
NEARLY_ALL = 0.9
"""Share of the rows from which a column that has so many values identifies them."""

_OF_TREES = (
    "Tree", "TreePredictor", "_BinMapper", "release", "rules", "TreeEnsembleClassifier",
    "TreeEnsembleRegressor",
)  # fmt: skip
"""What these hold, attacks look at."""
_BESIDE_TREES = ("unique_times_",)
"""What models of trees keep beside them, as it was in the rows."""


@dataclass(frozen=True)
class Held:
    """How many different values a part holds."""

    values: int
    column: str | None = None
    """The column of an encoder that has a value of its own for nearly each row."""


def values_of_people(value: Any, owner: StoredObject, name: str, n_rows: int | None) -> Held | None:
    """Count the different values of a part if there are more than every second row has.

    Returns None where there are not, or where the number of rows is not known.
    """
    of_file = owner.type.startswith((PARTS, "numpy.random."))
    if (
        n_rows is None
        or of_file
        or owner.name in _OF_TREES
        or is_drawn(owner)
        or (has_adapter(owner) and name not in _BESIDE_TREES)
    ):
        return None
    counts = list(_different(value, n_columns(owner)))
    most = max(counts, default=0)
    if most <= FEW or 2 * most <= n_rows:
        return None
    of_encoder = name == "categories_" and isinstance(owner.get("categories", "auto"), str)
    if most < NEARLY_ALL * n_rows or not of_encoder:
        return Held(most)
    names = owner.get("feature_names_in_")
    at = counts.index(most)
    named = isinstance(names, np.ndarray) and len(names) == len(counts)
    return Held(most, str(names[at]) if named else f"x{at}")


def _different(value: Any, columns: int) -> Iterator[int]:
    """Count the different values of each list in a value, or its different rows."""
    if isinstance(value, Mapping):
        yield len(value)
        for inner in value.values():
            yield from _different(inner, columns)
    elif isinstance(value, np.ndarray) and value.dtype != object:
        yield _of_array(value, columns)
    elif isinstance(value, (list, tuple, set, frozenset, np.ndarray)):
        items = value.ravel().tolist() if isinstance(value, np.ndarray) else list(value)
        inside = [v for v in items if isinstance(v, (np.ndarray, list, tuple, Mapping))]
        for inner in inside:
            yield max(_different(inner, columns), default=0)
        if not inside:
            plain = {v for v in items if not isinstance(v, (StoredObject, Opaque))}
            yield 0 if len(items) == columns else len(plain)


def _of_array(array: NDArray[Any], columns: int) -> int:
    """Different values, or parts along an axis, but for axes as long as there are columns."""
    if array.ndim == 1:
        plain = array[array == array]
        return 0 if len(array) == columns else len(np.unique(plain))
    axes = [k for k in range(array.ndim) if array.shape[k] != columns]
    return max(
        (len({part.tobytes() for part in np.moveaxis(array, k, 0)}) for k in axes), default=0
    )
