"""UBJSON (draft 12), taken for hostile until checked: what JSON says, in binary.

Lists that name one type of number for all their items become arrays. Lengths are held against the
bytes that are left before anything is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.errors import BadModel
from treeleak.release.bounds import MOST_JSON_BYTES, MOST_JSON_VALUES, at_most

MOST_NESTED = 100
"""Levels of lists and objects: a model has about ten."""

MOST_SINGLE = 2**23
"""Values that are no part of an array: each takes a step in Python, a tree has about fifty."""

_NUMBERS = {
    b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8",
}  # fmt: skip
_WHOLE = b"iUIlL"
_CONSTANTS = {b"Z": None, b"T": True, b"F": False}


def read_ubj(data: bytes) -> Any:
    """Read one value, which must be all that there is: an array, or one that JSON can hold.

    Raises
    ------
    BadModel
        Naming the byte at which the data stops making sense.
    """
    at_most(MOST_JSON_BYTES, len(data), "bytes")
    reading = _Reading(data)
    value = reading.value(reading.marker(), 0)
    if reading.at != len(data):
        raise BadModel(f"{len(data) - reading.at} bytes after the end of the model")
    return value


class _Reading:
    """A walk over the bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self._values = 0
        self._single = 0

    def take(self, n: int) -> bytes:
        """Take the next bytes, all of which must be there."""
        if not 0 <= n <= len(self.data) - self.at:
            raise BadModel(
                f"byte {self.at}: {n:,} bytes expected, {len(self.data) - self.at:,} left: "
                "damaged, or cut short on its way: copy or save it again"
            )
        self.at += n
        return self.data[self.at - n : self.at]

    def peek(self) -> bytes:
        """Look at the next byte."""
        return self.data[self.at : self.at + 1]

    def marker(self) -> bytes:
        """Take the byte that says what comes; those that say nothing are passed over."""
        while (kind := self.take(1)) == b"N":
            pass
        return kind

    def value(self, kind: bytes, depth: int) -> Any:
        """Read a value of a kind."""
        self._single += 1
        at_most(MOST_SINGLE, self._single, "values outside of arrays")
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind in _NUMBERS:
            return self.numbers(kind, 1)[0].item()
        if kind == b"S":
            return self.text()
        if kind == b"C":
            return self._decoded(self.take(1))
        if kind in (b"[", b"{"):
            if depth >= MOST_NESTED:
                raise BadModel(f"byte {self.at}: nested deeper than {MOST_NESTED} levels")
            return self.array(depth + 1) if kind == b"[" else self.mapping(depth + 1)
        raise BadModel(f"byte {self.at - 1}: {kind!r} is not a kind of value that treeleak reads")

    def numbers(self, kind: bytes, n: int) -> NDArray[Any]:
        """Read numbers of one kind, in the byte order of this machine."""
        dtype = np.dtype(_NUMBERS[kind])
        raw = np.frombuffer(self.take(n * dtype.itemsize), dtype)
        return raw.astype(dtype.newbyteorder("="))

    def length(self) -> int:
        """Read how much there is of something."""
        kind = self.marker()
        if kind not in _WHOLE:
            raise BadModel(f"byte {self.at - 1}: {kind!r} in place of a length")
        n = int(self.numbers(kind, 1)[0])
        if not 0 <= n <= len(self.data) - self.at:
            left = len(self.data) - self.at
            raise BadModel(f"byte {self.at}: a length of {n:,}, and {left:,} bytes left")
        return n

    def text(self) -> str:
        """Read a text, without its mark."""
        return self._decoded(self.take(self.length()))

    def _decoded(self, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise BadModel(f"byte {self.at - len(raw)}: a text that is not UTF-8") from error

    def header(self) -> tuple[bytes | None, int | None]:
        """Read what kind all items of a container are of, and how many there are, where it says."""
        kind = None
        if self.peek() == b"$":
            self.take(1)
            kind = self.take(1)
            if self.peek() != b"#":
                raise BadModel(f"byte {self.at}: a list of one kind that does not say its length")
        if self.peek() != b"#":
            return kind, None
        self.take(1)
        return kind, self.length()

    def array(self, depth: int) -> Any:
        """Read a list, behind its bracket."""
        kind, n = self.header()
        if kind in _NUMBERS and n is not None:
            self._values += n
            at_most(MOST_JSON_VALUES, self._values, "values")
            return self.numbers(kind, n)
        self._check_sized(kind)
        return list(self._items(kind, n, b"]", lambda k: self.value(k, depth)))

    def mapping(self, depth: int) -> dict[str, Any]:
        """Read an object, behind its brace."""
        kind, n = self.header()
        self._check_sized(kind)
        out: dict[str, Any] = {}

        def entry(_: bytes) -> None:
            # A key is a text without its mark: what was read is the mark of its length.
            self.at -= 1
            key = self.text()
            if key in out:
                raise BadModel(f"byte {self.at}: the key {key!r:.80} appears twice in an object")
            out[key] = self.value(kind or self.marker(), depth)

        for _ in self._items(None, n, b"}", entry):
            pass
        return out

    def _check_sized(self, kind: bytes | None) -> None:
        if kind is not None and kind not in (*_NUMBERS, b"S", b"C", b"[", b"{"):
            raise BadModel(f"byte {self.at}: a list of {kind!r}, whose items take no bytes")

    def _items(
        self, kind: bytes | None, n: int | None, end: bytes, read: Callable[[bytes], Any]
    ) -> Iterator[Any]:
        """Read as many items as are announced, or up to the end mark."""
        if n is not None:
            for _ in range(n):
                yield read(kind or self.marker())
            return
        while (found := self.marker()) != end:
            yield read(found)


def is_ubj(head: bytes) -> bool:
    """Say whether a file begins as an object in UBJSON does."""
    return len(head) > 2 and head[:1] == b"{" and head[1:2] in (b"i", b"U", b"I", b"l", b"L", b"#")


_ARRAYS = {
    "i1": b"i", "u1": b"U", "i2": b"I", "i4": b"l", "i8": b"L", "f4": b"d", "f8": b"D",
}  # fmt: skip
_WRITTEN = {None: b"Z", True: b"T", False: b"F"}


def ubj_bytes(value: Any) -> bytes:
    """Write a value that was read from UBJSON."""
    parts: list[bytes] = []
    _append(value, parts)
    return b"".join(parts)


def _append(value: Any, parts: list[bytes]) -> None:
    if isinstance(value, np.ndarray):
        kind = _ARRAYS[value.dtype.str[1:]]
        big = np.ascontiguousarray(value, value.dtype.newbyteorder(">"))
        parts += (b"[$", kind, b"#", _length(len(value)), big.tobytes())
    elif isinstance(value, Mapping):
        parts.append(b"{")
        for key, item in value.items():
            parts.append(_text(key))
            _append(item, parts)
        parts.append(b"}")
    elif isinstance(value, list):
        parts += (b"[#", _length(len(value)))
        for item in value:
            _append(item, parts)
    elif isinstance(value, str):
        parts += (b"S", _text(value))
    elif value is None or isinstance(value, bool):
        parts.append(_WRITTEN[value])
    elif isinstance(value, int):
        # XGBoost takes the next larger type for the ends of one.
        ends = ((kind, np.iinfo(_NUMBERS[kind])) for kind in (b"i", b"I", b"l", b"L"))
        fits = (code for code, of_code in ends if of_code.min < value < of_code.max)
        if (code := next(fits, None)) is None:
            raise BadModel("a whole number beyond 64 bits")
        parts += (code, np.array(value, _NUMBERS[code]).tobytes())
    elif isinstance(value, float):
        parts += (b"d", np.array(value, ">f4").tobytes())
    else:
        raise BadModel(f"a {type(value).__name__} in UBJSON")


def _length(n: int) -> bytes:
    return b"L" + np.array(n, ">i8").tobytes()


def _text(text: str) -> bytes:
    raw = text.encode()
    return _length(len(raw)) + raw
