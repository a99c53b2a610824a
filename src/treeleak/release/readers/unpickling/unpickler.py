"""Read a pickle without importing or calling what it asks for, and account for each opcode."""

from __future__ import annotations

import functools
import math
import pickle
from collections import Counter
from typing import Any, ClassVar

from .objects import (
    ARRAYS,
    CYTHON,
    MAKERS,
    OLD_NAMES,
    PLAIN,
    Name,
    Shell,
    Stub,
    UnreadableError,
    compiled,
    fill,
    is_shape,
    turned,
)

# The pure Python unpickler: its steps can be replaced one by one.
Base: Any = pickle._Unpickler

MOST_BEHIND = 1 << 26
WRAPPED = {
    "subclass", "shape", "order", "dtype", "allow_mmap", "numpy_array_alignment_bytes",
}  # fmt: skip
ALIGNED = 16


class Source:
    """A file, how far it was read, and the bytes of the last opcode."""

    def __init__(self, file: Any) -> None:
        self.file, self.at, self.last = file, 0, b""

    def read(self, n: int = -1) -> bytes:
        return self._noted(self.file.read(n), LARGE)

    def readline(self) -> bytes:
        return self._noted(self.file.readline(), MOST_BEHIND)

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _noted(self, data: bytes, most: int) -> bytes:
        self.at += len(data)
        self.last += data[:most]
        return data


LARGE, LEAST_FRAME, BATCH = 1 << 16, 4, 1000
"""How picklers cut: bytes of a frame, fewest bytes of one, items that are added at once."""
STOP, FRAME, PROTO = pickle.STOP, pickle.FRAME, pickle.PROTO
PUTS, GETS, ADDING = (
    (b"p", b"q", b"r", b"\x94"),
    (b"g", b"h", b"j"),
    (b"a", b"e", b"s", b"u", b"\x90"),
)
SILENT = {b"(", b".", b"b", b"0", b"1", FRAME, PROTO, *PUTS, *ADDING}
"""Opcodes after which nothing new lies on the stack."""
ESCAPED = {"\\": "\\u005c", "\0": "\\u0000", "\n": "\\u000a", "\r": "\\u000d", "\x1a": "\\u001a"}


def is_usual(code: bytes, value: Any, raw: bytes, protocol: int) -> bool:
    """Say whether picklers write a value by this opcode with these bytes.

    ``raw``: what follows the opcode, of large values the first bytes.
    """
    size = len(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else 0
    size = len(value) if isinstance(value, (bytes, bytearray)) else size
    match code:
        case b"I":
            return bool(raw == (b"%d\n" if type(value) is int else b"%02d\n") % value)
        case b"L":
            return bool(raw == b"%dL\n" % value)
        case b"F":
            return raw == f"{value!r}\n".encode()
        case b"G":
            return not math.isnan(value) or raw[1:] == b"\xf8" + bytes(6)
        case b"V":
            text = "".join(ESCAPED.get(c, c) for c in value)
            return raw == text.encode("raw-unicode-escape") + b"\n"
        case b"S":
            return raw == repr(value.encode("latin-1"))[1:].encode() + b"\n"
        case b"M":
            return bool(value > 0xFF)
        case b"J":
            return not 0 <= value <= 0xFFFF
        case b"\x8a" | b"\x8b":
            usual = -(2**31) <= value < 2**31, (n := len(pickle.encode_long(value))) > 0xFF
            return usual == (False, code == b"\x8b") and len(raw) in (n + 1, n + 4, LARGE)
        case b"X":
            return protocol < 4 or size > 0xFF
        case b"T" | b"B":
            return size > 0xFF
        case b"\x8d" | b"\x8e":
            return size > 0xFFFFFFFF
        case _:
            return True


class Unpickler(Base):  # type: ignore[misc]
    """The interpreter's own unpickler, cut off from every class and function."""

    dispatch: ClassVar[dict[int, Any]] = dict(Base.dispatch)

    def __init__(self, file: Any, ledger: Ledger | None = None) -> None:
        # Python 2 wrote bytes as text.
        super().__init__(file, encoding="latin-1")
        self.source = file if isinstance(file, Source) else Source(file)
        self.ledger = Ledger() if ledger is None else ledger

    def load(self) -> Any:
        """Read one object; account for each opcode on the way."""
        source, ledger = self.source, self.ledger
        self.read, self.readline, self.readinto = source.read, source.readline, source.readinto
        self.metastack: list[Any] = []
        self.stack: list[Any] = []
        self.append = self.stack.append
        self.proto, start, first, before = 0, source.at, 0, b""
        self.frame_end, self.frame_size, self.frame_due, self.loose = start, 0, True, 0
        while True:
            source.last, at = b"", source.at
            code = source.read(1)
            if not code:
                raise EOFError
            odd = (code == PROTO and at > start) or self.is_odd(code)
            if code == STOP:
                return self.stack.pop()
            self.dispatch[code[0]](self)
            raw = source.last[1:]
            if code in PUTS:
                number = len(self.memo) - 1 if code == b"\x94" else number_of(code, raw)
                first = number if len(self.memo) == 1 and number == 1 else first  # as Python 2
                odd |= number != len(self.memo) - 1 + first
                # What is new is remembered at once, and simple values never.
                odd |= before in (*SILENT, *GETS) or type(self.stack[-1]) in PLAIN[:4]
            elif code not in SILENT:
                value = self.stack[-1]
                ledger.push(value)
                reading = code in GETS
                odd |= (
                    number_of(code, raw) is None
                    if reading
                    else not is_usual(code, value, raw, self.proto)
                )
            odd |= self.is_badly_framed(code, at)
            before = before if code == FRAME else code
            if odd:
                ledger.odd.append(source.last)

    def is_odd(self, code: bytes) -> bool:
        """Say whether no pickler writes an opcode where it stands."""
        if code in (b"0", b"1", b"2"):
            return code != b"0" or not self.stack
        if code not in ADDING:
            return False
        many = code in (b"e", b"u", b"\x90")
        target = self.metastack[-1][-1] if many else self.stack[-2 if code == b"a" else -3]
        held = target.items if isinstance(target, Stub) else target
        cut = isinstance(held, (list, dict, set)) and len(held) % BATCH > 0 and self.proto > 0
        return cut or (many and not self.stack)

    def is_badly_framed(self, code: bytes, at: int) -> bool:
        """Say whether a frame ends where no pickler ends one: early, and before nothing large."""
        end, now = self.frame_end, self.source.at
        if self.proto < 4 or code == PROTO or now <= end:
            if now == end:
                self.frame_due, self.loose = self.frame_size >= LARGE, 0
            return False
        if now - at >= LARGE:
            self.frame_due, self.loose = True, 0
            return at < end
        self.loose += now - at
        return self.loose >= LEAST_FRAME or at < end

    def load_frame(self) -> None:
        self.frame_size = int.from_bytes(self.read(8), "little")
        if not self.frame_due or self.proto < 4 or self.source.at < self.frame_end:
            self.ledger.odd.append(self.source.last)
        self.frame_end, self.frame_due = self.source.at + self.frame_size, False

    def load_stack_global(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if type(name) is not str or type(module) is not str:
            raise UnreadableError("names something by what is no text")
        self.ledger.take(module, name)
        self.append(self.find_class(module, name))

    def find_class(self, module: str, name: str) -> Name:
        return Name(OLD_NAMES.get(module, module), name)

    def get_extension(self, code: int) -> None:
        self.append(Name("copyreg", f"extension_{code}"))

    def persistent_load(self, pid: Any) -> Any:
        return Stub(Name("pickle", "persistent"), (pid,), (pid,))

    def call(self, function: Any, args: Any, *sources: Any) -> Any:
        """Make what a call stands for; ``sources``: function and arguments as they were pushed."""
        if isinstance(function, Stub):  # the result of a call that was not made
            return Stub(function, args, sources)
        if not isinstance(function, Name):
            raise UnreadableError("calls something that is not a name")
        make = MAKERS.get((function.module, function.name))
        if make is None and function.name.startswith(CYTHON):
            make = functools.partial(compiled, function)
        if make is None:
            return Stub(function, tuple(args), sources)
        value, whole = make(*args)
        if isinstance(value, Stub):
            value.sources = sources
        elif isinstance(whole, Shell):
            self.ledger.take_shells(*sources, *whole)
        else:
            self.ledger.take(*(sources if whole else sources[:1]))
        return value

    def load_reduce(self) -> None:
        args, function = self.stack.pop(), self.stack.pop()
        self.append(self.call(function, args, function, args))

    def load_newobj(self) -> None:
        args, cls = self.stack.pop(), self.stack.pop()
        self.append(Stub(cls, args, (cls, args)))

    def load_newobj_ex(self) -> None:
        named, args, cls = self.stack.pop(), self.stack.pop(), self.stack.pop()
        self.append(Stub(cls, (*args, named), (cls, args, named)))

    def _instantiate(self, cls: Any, args: Any) -> None:
        self.ledger.push(tuple(args))
        self.append(self.call(cls, tuple(args), cls, self.ledger.pushed[-1]))

    def load_build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if not isinstance(target, Stub):
            raise UnreadableError(f"sets the state of a {type(target).__name__}")
        target.states.append(state)
        if target.cls.name in ("NDArrayWrapper", "ZNDArrayWrapper"):
            raise UnreadableError(
                "its arrays are in files beside it, as joblib before 0.10 wrote them"
            )
        if target.cls.name == "NumpyArrayWrapper":
            self.stack[-1] = self.joblib_array(target, state)

    def joblib_array(self, wrapper: Stub, state: Any) -> Any:
        """Read an array that joblib wrote as raw bytes between two parts of the pickle."""
        dtype, shape, source = state["dtype"].real, tuple(state["shape"]), self.source
        aligned, mapped = state.get("numpy_array_alignment_bytes"), state.get("allow_mmap", False)
        subclass, padding = state.get("subclass"), b""
        if source.at < self.frame_end:
            raise UnreadableError("an array in the middle of a frame")
        if dtype.hasobject:
            array: Any = Unpickler(source, self.ledger).load()
            real, expected = getattr(array, "real", array), False
        else:
            if aligned is not None:
                room = ALIGNED - (source.at + 1) % ALIGNED
                padding = source.read(1)
                padding += source.read(padding[0])
                if padding != bytes([room]) + b"\xff" * room:
                    self.ledger.odd.append(padding)
            raw = source.read(math.prod(shape) * dtype.itemsize)
            array = real = fill(raw, dtype, shape, "F" if state["order"] == "F" else "C")
            self.ledger.push(array)
            expected = self.ledger.mapped = (
                mapped if self.ledger.mapped is None else self.ledger.mapped
            )
        if (
            state.keys() <= WRAPPED
            and is_shape(state["shape"]) and getattr(real, "shape", None) == shape
            and state["order"] == ("F" if turned(real) else "C")
            and type(mapped) is bool and mapped == expected
            and aligned in (None, ALIGNED)
            and isinstance(subclass, Name) and subclass.is_one_of(ARRAYS)
        ):  # fmt: skip
            self.ledger.take(wrapper)
        # Another frame begins.
        self.frame_end, self.frame_size = source.at, LARGE
        return array


def number_of(code: bytes, raw: bytes) -> int | None:
    """The place that an opcode names; None where picklers would name it otherwise."""
    text = code in (b"p", b"g")
    number = int(raw) if text else int.from_bytes(raw, "little")
    usual = raw == b"%d\n" % number if text else code in (b"q", b"h") or number > 0xFF
    return number if usual else None


for opcode, method in (
    (pickle.FRAME, Unpickler.load_frame),
    (pickle.STACK_GLOBAL, Unpickler.load_stack_global),
    (pickle.REDUCE, Unpickler.load_reduce),
    (pickle.NEWOBJ, Unpickler.load_newobj),
    (pickle.NEWOBJ_EX, Unpickler.load_newobj_ex),
    (pickle.BUILD, Unpickler.load_build),
):
    Unpickler.dispatch[opcode[0]] = method


class Ledger:
    """All that a pickle puts on its stack, and how much of it stands in what was read.

    Each push of a value, also of one that was remembered, is one reference to it. Each place
    where the result holds the value takes one. What is left was pushed for nothing.
    """

    def __init__(self) -> None:
        self.pushed: list[Any] = []
        self.open: Counter[Any] = Counter()
        self.odd: list[Any] = []
        """What no program that writes pickles writes."""
        self.mapped: bool | None = None
        self._visited: set[int] = set()

    def push(self, value: Any) -> None:
        self.pushed.append(value)
        self.open[key_of(value)] += 1

    def take(self, *values: Any) -> None:
        """Take one reference to each value, and to what stands in it."""
        stack = list(values)
        while stack:
            value = stack.pop()
            self.open[key_of(value)] -= 1
            if id(value) not in self._visited and not is_plain(value):
                self._visited.add(id(value))
                stack += parts_of(value)

    def take_shells(self, *values: Any) -> None:
        """Take one reference to each value alone."""
        for value in values:
            self.open[key_of(value)] -= 1

    def left(self) -> list[Any]:
        """List what is left, containers with what stands in them."""
        out = []
        for outer in (True, False):
            for value in self.pushed:
                if self.open[key_of(value)] > 0 and is_plain(value) is not outer:
                    out.append(value)
                    self.take(value)
        return out + self.odd


def is_plain(value: Any) -> bool:
    """Say whether equal values of the type are the same."""
    empty = type(value) in (tuple, frozenset) and not value
    return empty or type(value) in (*PLAIN, bytes)


def key_of(value: Any) -> Any:
    # Texts tell 1 from 1.0 and True, and 0.0 from -0.0; those of numbers are short.
    text = repr(value) if type(value) in (int, float) else value
    return (type(value), text) if is_plain(value) else id(value)


def parts_of(value: Any) -> list[Any]:
    if isinstance(value, Stub):
        return value.parts()
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return list(value) if isinstance(value, (list, tuple, set, frozenset)) else []
