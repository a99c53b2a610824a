"""R objects (saveRDS, save), taken for hostile until checked: nothing in them is run.

What each value becomes, :mod:`treeleak.release.readers.r_values` says. The format is R's own (R
Internals, "Serialization Formats"): a tree of items, each behind a word of flags.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np

from treeleak.core.errors import BadModel
from treeleak.release.bounds import MOST_R_GROWN, MOST_R_ITEMS, MOST_R_LEVELS, at_most
from treeleak.release.readers.packed import PACKED, unpacked
from treeleak.release.readers.r_values import (
    MISSING,
    Attributes,
    Pairs,
    grown,
    made,
    named,
    numbers,
    one_whole,
    same,
    symbol,
    with_attributes,
)
from treeleak.release.registry import describe_format, reader
from treeleak.release.stored import Leftover, Opaque, StoredObject

Steps = Generator["Steps", Any, Any]
"""A part of the walk: it hands over what has to be read first, and gets what was read."""

_HEAD = re.compile(rb"(RD[XB][23]\n)?(?:(X\n)\0\0\0[\2\3]|(B\n)[\2\3]\0\0\0)")
_TEXT = re.compile(rb"RDA[23]\n|A\r?\n[23]\r?\n\d")

_AS_TEXT = (
    'an R object written as text: read it in R, and write it with saveRDS(x, "model.rds"), or, '
    'of a workspace, with load() and then save(x, file = "model.RData")'
)
_ENCODING = re.compile(
    r"(?i)utf-?8|(us-?)?ascii|ansi_x3\.4-1968|iso-?8859-?\d{1,2}|latin-?1|cp125\d"
)
_MOST_ENCODING = 63
_WRITERS, _READERS = range(0x020000, 0x0A0000), (0x020300, 0x030500)
"""Versions of R that write, and that can read what was written."""
_STEPS = 3
"""That a level of items takes."""
_NIL = 254
_CONSTANTS = {
    _NIL: None,
    253: Opaque("R.environment", "the global environment"),
    242: Opaque("R.environment", "the empty environment"),
    241: Opaque("R.environment", "the base environment"),
    250: Opaque("R.environment", "the namespace of base"),
    252: Opaque("R.unbound", "a variable without a value"),
    251: MISSING,
}
_SYMBOL, _PAIRS, _CLOSURE, _ENVIRONMENT, _PROMISE, _CALL = 1, 2, 3, 4, 5, 6
_TEXT_ITEM, _TEXTS, _DOTS, _LIST, _EXPRESSION, _BYTE_CODE = 9, 16, 17, 19, 20, 21
_POINTER, _WEAK, _RAW, _S4 = 22, 23, 24, 25
_NUMBERS = {10: "i4", 13: "i4", 14: "f8", 15: "c16", _RAW: "u1"}
_ALTERNATIVE, _REFERENCE, _PERSISTENT = 238, 255, 247
_NAMED = {248: "the package", 249: "the namespace"}
_EXACT = (_SYMBOL, _ENVIRONMENT, _PERSISTENT, *_NAMED)
_CELLS = {_PAIRS, _CALL, 239, 240}
"""In byte code: a pairlist or a call; the same with attributes."""
_DEFINED, _REPEATED = 244, 243
_SHORT = {"compact_intseq": 13, "compact_realseq": 14, "deferred_string": 16} | {
    f"wrap_{name}": kind
    for name, kind in zip(
        ("logical", "integer", "real", "complex", "string", "list", "raw"),
        (10, 13, 14, 15, _TEXTS, _LIST, _RAW),
        strict=True,
    )
}
"""The shorter forms of vectors that R itself has, and the kinds that they stand for."""
_SORTED = (-2.0, -1.0, 0.0, 1.0, 2.0)
_ODD_FLAGS = 0xF0000800
_IS_OBJECT, _HAS_ATTRIBUTES, _HAS_TAG = 1 << 8, 1 << 9, 1 << 10
_OF_S4, _ROOM = 0x10, 0x20
_MARKS = {
    # Of arguments that are missing, and of variables that are locked or active.
    **dict.fromkeys((_PAIRS, _DOTS), 0xC003),
    # Of what is compiled, and of S4.
    _CLOSURE: 0xF0,
    _PROMISE: 3,
    # Of texts, their encoding.
    _TEXT_ITEM: 0x4F,
    **dict.fromkeys((*_NUMBERS, _TEXTS, _LIST, _EXPRESSION), _ROOM),
    _S4: _OF_S4,
}
"""The bits behind the first twelve that R sets, by kind; any object may be one of S4."""


def is_r(head: bytes) -> bool:
    """Say whether a file can be an R object, by its first bytes."""
    return bool(_HEAD.match(head) or _TEXT.match(head)) or head.startswith(PACKED)


describe_format(
    "R object", ".rds .RData .rda", "counts, class shares or means of nodes; often rows and labels"
)


@reader("R object", is_r, first=True)
def read_r(path: Path, trust_pickle: bool = False) -> Any:  # noqa: ARG001
    """Read the object in an .rds file, or all those in an .RData file.

    Returns NotImplemented where something else is packed. Raises BadModel, naming the byte at which
    the data stops making sense.
    """
    content = unpacked(path, lambda start: bool(_HEAD.match(start) or _TEXT.match(start)))
    if content is None:
        return NotImplemented
    try:
        value, left = read_r_value(content.data)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, BadModel):
            raise
        raise BadModel(f"damaged: copy it again, or save it again ({error})") from error
    if isinstance(value, (dict, list)):
        value = StoredObject("R.list", {"value": value})
    elif isinstance(value, (Opaque, np.ndarray, bytes)):
        value = StoredObject("R.vector", {"value": value})
    elif value is None:
        raise BadModel("an R object without anything in it (NULL): save the model again")
    return StoredObject(value.type, value.state, leftovers=(*content.left, *left))


def read_r_value(data: bytes | bytearray) -> tuple[Any, tuple[Leftover, ...]]:
    """Read whatever unpacked bytes hold, and what is left over behind it."""
    start = _HEAD.match(data)
    if start is None:
        raise BadModel(_AS_TEXT if _TEXT.match(data) else "no R object")
    reading = _Reading(data, len(start[1] or b"") + 2, ">" if start[2] else "<")
    value, left = reading.whole(workspace=start[1] is not None)
    if reading.at != len(data):
        behind = bytes(reading.data[reading.at :])
        left += (Leftover("the end of the file", "bytes after the object", behind),)
    return value, left


class _Reading:
    """A walk over the bytes, with a stack of its own."""

    def __init__(self, data: bytes | bytearray, at: int, order: str) -> None:
        self.data, self.at, self.order = memoryview(data), at, order
        self._references: list[Any] = []
        self._items = self._grown = 0
        self._widths = {0}
        self._native = "utf-8"
        self._texts: dict[tuple[str, bytes], str] = {}

    def whole(self, workspace: bool) -> tuple[Any, tuple[Leftover, ...]]:
        """Read the header and the object behind it."""
        version, writer, oldest = (self.integer() for _ in range(3))
        odd: dict[str, Any] = {}
        if writer not in _WRITERS or oldest not in _READERS:
            odd["version"] = (writer, oldest)
        if version == 3:
            n = self.integer()
            at_most(_MOST_ENCODING, n, "bytes of the name of an encoding")
            name = self.take(n).decode("latin-1")
            try:
                # Not any codec of Python's: some of them do other things.
                self._native = codecs.lookup(name if _ENCODING.fullmatch(name) else "").name
            except LookupError:
                odd["encoding"] = name
        left = (Leftover("the header", "what R does not write", odd),) * bool(odd)
        if not workspace:
            return self._run(self.item()), left
        flags = self.flags()
        if flags & 0xFF not in (_NIL, _PAIRS):
            raise BadModel(f"byte {self.at - 4}: a workspace that is no list of variables")
        cells = self._run(self.plain_pairs(flags))
        return StoredObject("R.workspace", named(cells)), left

    def _run(self, first: Steps) -> Any:
        """Take steps until nothing is left to be read first."""
        stack, value = [first], None
        while stack:
            try:
                below = stack[-1].send(value)
            except StopIteration as end:
                value = end.value
                stack.pop()
            else:
                value = None
                stack.append(below)
                if len(stack) > _STEPS * MOST_R_LEVELS:
                    raise BadModel(f"byte {self.at}: nested deeper than {MOST_R_LEVELS:,} levels")
        return value

    # -------------------------------------------------------------------------- plain values

    def take(self, n: int) -> bytes:
        """Take the next bytes, all of which must be there."""
        if not 0 <= n <= len(self.data) - self.at:
            raise BadModel(
                f"byte {self.at}: {n:,} bytes expected, {len(self.data) - self.at:,} left: "
                "damaged, or cut short on its way: copy or save it again"
            )
        self.at += n
        return bytes(self.data[self.at - n : self.at])

    def integer(self) -> int:
        """Read a whole number."""
        order = "big" if self.order == ">" else "little"
        return int.from_bytes(self.take(4), order, signed=True)  # type: ignore[arg-type]

    def flags(self) -> int:
        """Read what the next item is."""
        self._count()
        flags = self.integer() & 0xFFFFFFFF
        if flags & 0xFF != _REFERENCE and flags & _ODD_FLAGS:
            raise BadModel(f"byte {self.at - 4}: an item with flags that R does not write")
        kind = flags & 0xFF
        marks = _MARKS.get(kind, 0) | _OF_S4 * bool(flags & (_IS_OBJECT | _HAS_ATTRIBUTES))
        if kind != _REFERENCE and flags >> 12 & ~marks:
            raise BadModel(f"byte {self.at - 4}: an item with flags that R does not write")
        return flags

    def _count(self) -> None:
        self._items += 1
        at_most(MOST_R_ITEMS, self._items, "items")

    def length(self, size: int) -> int:
        """Read how many there are of something; so many times ``size`` bytes must be left."""
        n = self.integer()
        if n == -1:
            upper = self.integer()
            n = (upper << 32) + (self.integer() & 0xFFFFFFFF)
        if not 0 <= n <= (len(self.data) - self.at) // size:
            raise BadModel(
                f"byte {self.at}: a length of {n:,}, and {len(self.data) - self.at:,} bytes left: "
                "damaged, or cut short on its way: copy or save it again"
            )
        return n

    def text(self) -> str | None:
        """Read a text as it stands in vectors and symbols."""
        flags = self.flags()
        if flags & 0xFF != _TEXT_ITEM or flags & _HAS_ATTRIBUTES:
            raise BadModel(f"byte {self.at - 4}: no text where one must be")
        n = self.integer()
        if n == -1:
            return None
        raw, marks = self.take(n), flags >> 12
        encoding = (
            "utf-8" if marks & 8 else "latin-1" if marks & 4
            else "ascii" if marks & 2 else self._native
        )  # fmt: skip
        key = (encoding, raw)
        if (known := self._texts.get(key)) is None:
            # What is no text in its encoding shows its bytes: nothing of it is lost.
            known = self._texts[key] = raw.decode(encoding, "backslashreplace")
        return known

    def texts(self) -> list[str | None]:
        """Read texts behind their number."""
        return [self.text() for _ in range(self.length(8))]

    # ----------------------------------------------------------------------- what is nested

    def item(self, flags: int | None = None) -> Steps:
        """Read an item."""
        kind, value, attributes = yield self.parts(self.flags() if flags is None else flags)
        return made(kind, value, attributes)

    def parts(self, flags: int) -> Steps:
        """Read an item into its kind, its value and its attributes."""
        kind = flags & 0xFF
        if flags != kind and (kind in _CONSTANTS or kind in _EXACT):
            raise BadModel(f"byte {self.at - 4}: an item with flags that R does not write")
        if kind in _CONSTANTS:
            return "ready", _CONSTANTS[kind], {}
        if kind == _REFERENCE:
            index = (flags >> 8) or self.integer()
            if not 1 <= index <= len(self._references):
                raise BadModel(f"byte {self.at}: a reference to an item that is not there")
            return "ready", self._references[index - 1], {}
        if kind == _SYMBOL:
            return "ready", self._kept(symbol("NA" if (t := self.text()) is None else t)), {}
        if kind in _NAMED or kind == _PERSISTENT:
            if self.integer():
                raise BadModel(f"byte {self.at - 4}: names with attributes")
            names = ", ".join(map(str, self.texts()))
            if kind == _PERSISTENT:
                raise BadModel(f"byte {self.at}: an object that only another program knows")
            return "ready", self._kept(Opaque("R.environment", f"{_NAMED[kind]} {names}")), {}
        if kind == _ENVIRONMENT:
            return "ready", (yield self.environment()), {}
        if kind in (_PAIRS, _DOTS, _CALL):
            attributes, cells = yield self.pairs(flags)
            return ("call" if kind == _CALL else "pairs"), cells, attributes
        if kind in (_CLOSURE, _PROMISE):
            attributes = (yield self.attributes()) if flags & _HAS_ATTRIBUTES else {}
            environment = (yield self.item()) if flags & _HAS_TAG else None
            first, second = (yield self.item()), (yield self.item())
            return (
                "function" if kind == _CLOSURE else "promise",
                (first, second, environment),
                attributes,
            )
        if kind == _ALTERNATIVE:
            return (yield self.alternative())
        name, value = yield self.vector(kind)
        attributes = (yield self.attributes()) if flags & _HAS_ATTRIBUTES else {}
        if name == "opaque":
            value.content.extend([attributes] * bool(attributes))
            return "ready", value, {}
        return name, value, attributes

    def vector(self, kind: int) -> Steps:
        """Read what stands in an item before its attributes."""
        if kind in _NUMBERS:
            dtype = np.dtype(self.order + _NUMBERS[kind])
            n = self.length(dtype.itemsize)
            return numbers(kind, self.take(n * dtype.itemsize), dtype)
        if kind == _TEXTS:
            return "texts", np.array([*self.texts(), None], dtype=object)[:-1]
        if kind in (_LIST, _EXPRESSION):
            values: list[Any] = []
            n = self.length(4)
            # Nothing is made room for: lists in lists could announce the same bytes again.
            while len(values) < n:
                values.append((yield self.item()))
            return ("list" if kind == _LIST else "expression"), values
        if kind == _BYTE_CODE:
            defined: dict[int, list[Any]] = {}
            self.length(4)
            return "opaque", Opaque("R.bytecode", "byte code", (yield self.code(defined)))
        if kind in (_POINTER, _WEAK):
            pointer = self._kept(Opaque("R.pointer", "what only stood in memory", []))
            if kind == _POINTER:
                for _ in range(2):
                    pointer.content.append((yield self.item()))
            return "opaque", pointer
        if kind in (7, 8):
            return "builtin", self.take(self.length(1)).decode("utf-8", "backslashreplace")
        if kind == _S4:
            return "s4", None
        if kind == _TEXT_ITEM:
            self.at -= 4
            self._items -= 1
            return "texts", np.array([self.text(), None], dtype=object)[:-1]
        raise BadModel(f"byte {self.at - 4}: an item of the kind {kind}, which R does not write")

    def _kept(self, value: Any) -> Any:
        """Let later items refer to a value."""
        self._references.append(value)
        return value

    def environment(self) -> Steps:
        """Read variables; what they hold may refer to the environment itself."""
        locked = self.integer()
        values: dict[str, Any] = {}
        state: dict[str, Any] = {"values": values, "enclosing": None}
        environment = self._kept(StoredObject("R.environment", state))
        if locked not in (0, 1):
            state["locked"] = locked
        state["enclosing"] = yield self.item()
        cells = yield self.plain_pairs(self.flags())
        flags = self.flags()
        if flags & 0xFF == _LIST and not flags & _HAS_ATTRIBUTES:
            for _ in range(self.length(4)):
                cells += yield self.plain_pairs(self.flags())
        elif flags & 0xFF != _NIL:
            raise BadModel(f"byte {self.at - 4}: an environment without its table of variables")
        values.update(named(cells))
        with_attributes(state, (yield self.attributes()))
        return environment

    def attributes(self) -> Steps:
        """Read attributes by name."""
        return named((yield self.plain_pairs(self.flags())))

    def plain_pairs(self, flags: int) -> Steps:
        """Read the cells of a pairlist to which R gives no attributes."""
        attributes, cells = yield self.pairs(flags)
        if attributes:
            raise BadModel(f"byte {self.at}: a list with attributes ({', '.join(attributes)})")
        return cells

    def pairs(self, flags: int) -> Steps:
        """Read the attributes of a pairlist, and its cells: tags and values."""
        cells: Pairs = []
        attributes: Attributes = {}
        while flags & 0xFF != _NIL:
            if flags & 0xFF not in (_PAIRS, _DOTS, _CALL):
                # The last cell may end in a value, as those of some vectors do.
                cells.append((None, (yield self.item(flags))))
                break
            held = (yield self.attributes()) if flags & _HAS_ATTRIBUTES else {}
            tag = (yield self.item()) if flags & _HAS_TAG else None
            value = yield self.item()
            if cells and held:
                value = StoredObject("R.vector", {"value": value, **held})
            attributes = attributes if cells else held
            cells.append((self._tag(tag), value))
            flags = self.flags()
        return attributes, cells

    def _tag(self, tag: Any) -> str | None:
        if tag is None or (isinstance(tag, StoredObject) and tag.type == "R.symbol"):
            return None if tag is None else str(tag.get("name"))
        raise BadModel(f"byte {self.at}: a tag that is no symbol")

    def alternative(self) -> Steps:
        """Read a vector that R keeps in a shorter form."""
        info = yield self.plain_pairs(self.flags())
        name, package, kind = self._form(info)
        known = package == "base" and _SHORT.get(name) == kind
        if known and name.startswith("wrap_"):
            return (yield self.wrapped(name))
        flags = self.flags()
        if flags & 0xFF == _PAIRS:
            cells = yield self.plain_pairs(flags)
        else:
            cells = [(None, (yield self.item(flags)))]
        attributes = yield self.attributes()
        state = [value for _, value in cells]
        plain = known and not any(tag for tag, _ in cells)
        found = grown(name, state, MOST_R_GROWN - self._grown) if plain else None
        if found is not None and len(state) == 2:
            # An option of R's session, for its numbers as texts: no value of each vector.
            self._widths.add(int(state[1][0]))
        if found is None or len(self._widths) > 2:
            why = "a vector that only another package can read"
            return "ready", Opaque("R.vector", why, [name, package, kind, cells, attributes]), {}
        self._grown += len(found[1])
        return (*found, attributes)

    def _form(self, info: Pairs) -> tuple[str, str, int]:
        """Take apart what R writes of a shorter form: its name, its package and its kind."""
        values = [value for tag, value in info if tag is None]
        if len(values) == len(info) == 3:
            *names, kind = values
            symbols = [n.get("name") for n in names if getattr(n, "type", "") == "R.symbol"]
            if len(symbols) == 2 and one_whole([kind]):
                return symbols[0], symbols[1], int(kind[0])
        raise BadModel(f"byte {self.at}: a short form of a vector that R does not write")

    def wrapped(self, name: str) -> Steps:
        """Read a cell of a vector and what is known of it: whether it is sorted, and has gaps."""
        if self.flags() != _PAIRS:
            raise BadModel(f"byte {self.at - 4}: {name} of an unknown form")
        kind, value, inner = yield self.parts(self.flags())
        known = yield self.item()
        if (
            not isinstance(known, np.ndarray)
            or known.dtype.kind not in "if"
            or known.shape != (2,)
            or not (known[0] in _SORTED or known[0] != known[0])
            or known[1] not in (0, 1)
        ):
            raise BadModel(f"byte {self.at}: {name}: what is known of it is not two small numbers")
        outer = yield self.attributes()
        # The vector has the same attributes as a rule; others stay beside them.
        other = {key: held for key, held in inner.items() if not same(held, outer.get(key))}
        return kind, value, with_attributes(outer, other)

    # ---------------------------------------------------------------------------- byte code

    def code(self, defined: dict[int, list[Any]]) -> Steps:
        """Read byte code: numbers, and constants, calls among them."""
        content = [(yield self.item())]
        for _ in range(self.length(4)):
            kind = self.integer()
            if kind == _BYTE_CODE:
                inner = yield self.code(defined)
                content.append(Opaque("R.bytecode", "byte code", inner))
            else:
                content.append((yield self.cell(kind, defined)))
        return content

    def cell(self, kind: int, defined: dict[int, list[Any]]) -> Steps:
        """Read a constant; what was defined before may come again."""
        if kind not in (*_CELLS, _DEFINED, _REPEATED):
            return (yield self.item())
        cells: list[Any] = []
        places = []
        while kind in (*_CELLS, _DEFINED):
            if kind == _DEFINED:
                places.append(self.integer())
                kind = self.integer()
                continue
            self._count()
            held = (yield self.attributes()) if kind not in (_PAIRS, _CALL) else {}
            tag = yield self.item()
            value = yield self.cell(self.integer(), defined)
            value = StoredObject("R.vector", {"value": value, **held}) if held else value
            cells.append((self._tag(tag), value))
            kind = self.integer()
        if kind != _REPEATED:
            cells.append((None, (yield self.item())))
        elif (place := self.integer()) in defined:
            cells.append((None, defined[place]))
        else:
            raise BadModel(f"byte {self.at - 4}: byte code that refers to nothing")
        # Only what is whole may come again: no cell holds itself.
        defined.update(dict.fromkeys(places, cells))
        return cells
