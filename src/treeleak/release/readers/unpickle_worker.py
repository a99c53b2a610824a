"""Turn a pickle or joblib file into an archive of plain arrays; run as a process of its own.

Arguments: FILE OUT. :mod:`.bounded` runs it, within bounds. Every name in the pickle becomes a
stub: no class or function that the file asks for is imported or called, except the few below that
build containers and arrays, and those are rewritten here. OUT is laid out like a skops archive, so
that the reader of such archives, which trusts nothing, reads it.

The script stands alone (standard library and numpy) because an isolated interpreter need not
find the package that it belongs to. It stays one file, long as it is: with a second one it would
need a folder to import from, in a process that opens files nobody trusts.
"""

from __future__ import annotations

import bz2
import contextlib
import functools
import gzip
import io
import json
import lzma
import math
import pickle
import re
import sys
import zipfile
import zlib
from collections import Counter
from typing import Any, ClassVar, Literal

import numpy as np

__all__ = ["main"]

Order = Literal["C", "F"]

# The pure Python unpickler: its steps can be replaced one by one.
Base: Any = pickle._Unpickler

PLAIN = (type(None), bool, int, float, str)
MAX_NODES = 400_000
MAX_DEPTH = 90
MOST_BEHIND = 1 << 26


class UnreadableError(Exception):
    """The file cannot be read; the text says why."""


class Name:
    """What the pickle calls ``module.name``: calling it makes a stub."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def is_one_of(self, names: str) -> bool:
        return f"{self.module}.{self.name}" in names.split()


class Stub:
    """An object of a class that stays unknown: arguments, state and items as they came."""

    def __init__(self, cls: Any, args: tuple[Any, ...] = (), sources: tuple[Any, ...] = ()) -> None:
        named = isinstance(cls, Name)
        self.cls = cls if named else Name("pickle", "unnamed")
        self.args = args if named else (cls, *args)
        self.sources = sources
        self.states: list[Any] = []
        self.items: list[Any] = []

    @property
    def state(self) -> Any:
        return self.states[-1] if self.states else None

    def parts(self) -> list[Any]:
        """What of the file stands in it."""
        items = [v for item in self.items for v in (item if type(item) is Pair else (item,))]
        return [*self.sources, *self.states[-1:], *items]

    def append(self, item: Any) -> None:
        self.items.append(item)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items.append(Pair((key, value)))


class Pair(tuple[Any, ...]):
    """A key and its value."""


class DType(Stub):
    """A numpy type in the making."""

    @functools.cached_property
    def real(self) -> np.dtype[Any]:
        code = self.args[0].name if isinstance(self.args[0], Name) else str(self.args[0])
        if self.state is None:
            return np.dtype(code)
        _, order, subarray, names, fields, size, _, _, *rest = self.state
        if rest and rest[0] and code[0] in "mM":
            unit, number, *_ = rest[0][1]
            code = f"{code[0]}8[{number}{bytes(unit).decode()}]"
        if subarray is not None:
            base, shape = subarray
            return np.dtype((base.real, shape))
        if names:
            parts = [fields[n] for n in names]
            return np.dtype(
                {
                    "names": list(names),
                    "formats": [p[0].real for p in parts],
                    "offsets": [int(p[1]) for p in parts],
                    "itemsize": int(size),
                }
            )
        return np.dtype(code).newbyteorder(order if order in "<>" else "=")

    def parts(self) -> list[Any]:
        """Its description, if numpy describes the type so: no notes, titles or other states."""
        code, *flags = self.args
        code, real = code.name if isinstance(code, Name) else code, self.real
        usual = self.state is None and code in (real.str, real.str[1:], real.name)
        for one in variants(real) if self.state is not None else ():
            reduced: Any = one.__reduce__()
            expected, state = reduced[1][0], reduced[2]
            # Versions of numpy number states, and leave out notes, differently.
            version, *given = described(self.state)
            noted = [tuple(n or {} for n in rest[:1]) for rest in (given[7:], state[8:])]
            same = code == expected and tuple(given[:7]) == state[1:8] and version in (3, 4)
            usual |= same and len(given) < 9 and noted[0] in ((), noted[1])
        return super().parts() if usual and flags in USUAL_FLAGS else []


def variants(dtype: np.dtype[Any]) -> list[np.dtype[Any]]:
    """List the types that only differ in whether their fields are aligned."""
    if not dtype.names or dtype.fields is None:
        return [dtype]
    fields = [dtype.fields[n][:2] for n in dtype.names]
    formats, offsets = zip(*fields, strict=True)
    spec: Any = {"names": dtype.names, "formats": formats, "offsets": offsets}
    spec["itemsize"] = dtype.itemsize
    out = [np.dtype(spec)]
    with contextlib.suppress(ValueError):
        out.append(np.dtype(spec, align=True))
    return out


USUAL_FLAGS: tuple[list[bool], ...] = ([], [False, True], [False, False])
ARRAYS = (
    "numpy.ndarray numpy.memmap numpy.matrix numpy.core.memmap.memmap numpy.recarray "
    "numpy.matrixlib.defmatrix.matrix numpy.rec.recarray"
)


def described(value: Any) -> Any:
    """Put real types in place of those in the making."""
    if isinstance(value, DType):
        return value.real
    if isinstance(value, tuple):
        return tuple(map(described, value))
    return {k: described(v) for k, v in value.items()} if isinstance(value, dict) else value


class Array(Stub):
    """A numpy array in the making: filled by its state."""

    @functools.cached_property
    def real(self) -> Any:
        _, shape, dtype, fortran, raw = self.state
        return fill(raw, dtype.real, shape, "F" if fortran else "C")

    def parts(self) -> list[Any]:
        plain = len(self.args) == 3 and isinstance(self.args[0], Name)
        if plain and self.args[0].is_one_of(ARRAYS) and self.args[1:] == ((0,), b"b"):
            version, shape, _, order, _ = self.state
            if version == 1 and is_shape(shape) and order in (0, 1) and bool(order) == turned(self):
                return super().parts()
        return []


def is_shape(shape: Any) -> bool:
    return type(shape) is tuple and all(type(n) is int for n in shape)


def turned(array: Any) -> bool:
    """Say whether numpy calls the order of an array Fortran's."""
    flags = (array.real if isinstance(array, Array) else array).flags
    return bool(flags.f_contiguous and not flags.c_contiguous)


def fill(raw: Any, dtype: np.dtype[Any], shape: tuple[int, ...], order: Order) -> Any:
    """Make an array of bytes (or, for objects, of a list) that must fit its shape."""
    if dtype.kind == "O":
        if len(raw) != math.prod(shape):
            raise UnreadableError("an array of objects does not fit its shape")
        array = np.empty(len(raw), dtype=object)
        for i, item in enumerate(raw):
            array[i] = item
        return array.reshape(shape, order=order)
    if dtype.hasobject:
        raise UnreadableError("an array of records with objects")
    if isinstance(raw, str):  # written by Python 2
        raw = raw.encode("latin-1")
    if not dtype.itemsize or len(raw) != math.prod(shape) * dtype.itemsize:
        raise UnreadableError("an array does not fit its shape")
    return np.ndarray(shape, dtype, buffer=raw, order=order)


# Each of these stands in for a function, and says beside its result whether the result holds all of
# the arguments. What it does not hold is left over.


def from_buffer(raw: Any, dtype: DType, shape: tuple[int, ...], order: str, *rest: Any) -> Any:
    """Stand in for the function by which numpy writes arrays in protocol 5."""
    array = fill(bytes(raw), dtype.real, shape, "F" if order == "F" else "C")
    return array, not rest and is_shape(shape) and order == ("F" if turned(array) else "C")


CYTHON = "__pyx_unpickle_"


def compiled(function: Name, *args: Any) -> Any:
    """Stand in for the functions by which Cython makes an object again: one for each class."""
    cls, checksum, state = args if len(args) == 3 else (None, None, None)
    name = function.name.removeprefix(CYTHON)
    usual = isinstance(cls, Name) and cls.name == name
    if not usual or type(checksum) is not int or not 0 <= checksum < 1 << 32:
        return Stub(function, args), True
    own = state if isinstance(state, tuple) else (state,)
    return Stub(Name(function.module, name), own), True


def scalar(dtype: DType, raw: Any = b"") -> Any:
    """Stand in for the function by which numpy writes scalars."""
    if dtype.real.kind == "O":
        return raw, False
    return fill(raw, dtype.real, (), "C")[()], True


def masked(*args: Any) -> Any:
    """Stand in for the function by which numpy writes masked arrays."""
    return Masked(Name("numpy.ma", "MaskedArray"), args), True


class Masked(Array):
    """A masked array in the making."""

    @functools.cached_property
    def real(self) -> Any:
        _, shape, dtype, fortran, raw, mask, value = self.state
        order: Order = "F" if fortran else "C"
        out = {"data": fill(raw, dtype.real, shape, order)}
        out["mask"] = fill(mask, np.dtype(bool), shape, order)
        return out if value is None else out | {"fill_value": value}

    def parts(self) -> list[Any]:
        *names, shape, code = self.args
        known = [isinstance(n, Name) and n.is_one_of(MASKED) for n in names]
        version, real_shape, _, order, *_ = self.state
        usual = version == 1 and is_shape(real_shape) and order in (False, True)
        if all(known) and shape == (0,) and code in ("b", b"b") and usual:
            return Stub.parts(self)
        return []


MASKED = "numpy.ma.MaskedArray numpy.ma.core.MaskedArray numpy.ndarray"
FACTORIES = (
    "builtins.bool builtins.dict builtins.float builtins.int builtins.list builtins.set "
    "builtins.str builtins.tuple collections.OrderedDict collections.defaultdict"
)


def encoded(text: Any = b"", *rest: Any) -> Any:
    """Stand in for the codec by which old protocols write bytes."""
    known = isinstance(text, (str, bytes, bytearray)) and rest in ((), ("latin1",), ("latin-1",))
    if isinstance(text, (bytes, bytearray)):  # how protocols 3 and 4 write what can be changed
        return bytes(text), known
    return str(text).encode("latin-1"), known


class Shell(tuple[Any, ...]):
    """Containers whose items stand in the result."""


def container(kind: Any) -> Any:
    def make(*args: Any) -> Any:
        pairs = [p for a in args for p in a if type(p) in (tuple, list)] if kind is dict else []
        return kind(*args), Shell((*args, *pairs))

    return make


def stub(cls: Any, *args: Any) -> Any:
    return Stub(cls, args), True


def reconstructed(cls: Any, base: Any, state: Any) -> Any:
    plain = state is None and isinstance(base, Name) and base.is_one_of("builtins.object")
    return Stub(cls, () if plain else (base, state)), True


MAKERS: dict[tuple[str, str], Any] = {
    ("copyreg", "_reconstructor"): reconstructed,
    ("copyreg", "__newobj__"): stub,
    ("copyreg", "__newobj_ex__"): lambda cls, args, named: stub(cls, *args, named),
    ("_codecs", "encode"): encoded,
    ("builtins", "bytes"): encoded,
    ("builtins", "bytearray"): encoded,
    **{
        ("builtins", kind.__name__): container(kind) for kind in (set, frozenset, list, tuple, dict)
    },
    ("collections", "OrderedDict"): container(dict),
    ("collections", "defaultdict"): lambda *args: (
        {},
        all(isinstance(a, Name) and a.is_one_of(FACTORIES) for a in args),
    ),
    ("numpy", "dtype"): lambda *args: (DType(Name("numpy", "dtype"), args), None),
    ("numpy.random._pickle", "__randomstate_ctor"): lambda *args: stub(
        Name("numpy.random.mtrand", "RandomState"), *args
    ),
    ("numpy.random._pickle", "__generator_ctor"): lambda *args: stub(
        Name("numpy.random._generator", "Generator"), *args
    ),
    ("numpy.ma.core", "_mareconstruct"): masked,
}
for core in ("numpy.core", "numpy._core"):
    MAKERS[f"{core}.multiarray", "_reconstruct"] = lambda *args: (Array(args[0], args), None)
    MAKERS[f"{core}.multiarray", "scalar"] = scalar
    MAKERS[f"{core}.numeric", "_frombuffer"] = from_buffer

OLD_NAMES = {"__builtin__": "builtins", "copy_reg": "copyreg"}


WRAPPED = {
    "subclass", "shape", "order", "dtype", "allow_mmap", "numpy_array_alignment_bytes",
}  # fmt: skip
ALIGNED = 16


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
        self.proto, begun, first, before = 0, source.at, 0, b""
        self.frame_end, self.frame_size, self.frame_due, self.loose = begun, 0, True, 0
        while True:
            source.last, at = b"", source.at
            code = source.read(1)
            if not code:
                raise EOFError
            odd = (code == PROTO and at > begun) or self.is_odd(code)
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


class Writer:
    """Lay plain values out as a skops archive."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive
        self.nodes = 0
        self.open: set[int] = set()
        self.members: dict[int, tuple[Any, str]] = {}

    def node(self, x: Any, depth: int = 0) -> dict[str, Any]:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise UnreadableError(f"holds more than {MAX_NODES} objects")
        if type(x) in PLAIN or (type(x) is list and all(type(v) in PLAIN for v in x)):
            self.nodes += len(x) // 10 if type(x) is list else 0
            return loader("JsonNode", content=json.dumps(x))
        if id(x) in self.open or depth > MAX_DEPTH:
            return loader("FunctionNode", *type_of(x))
        self.open.add(id(x))
        try:
            return self.container(x, depth + 1)
        finally:
            self.open.discard(id(x))

    def container(self, x: Any, depth: int) -> dict[str, Any]:
        if isinstance(x, Masked):
            state = self.node(x.real, depth)
            return loader(
                "TreeNode", *type_of(x), content=state, __reduce__={"args": self.node([])}
            )
        if isinstance(x, DType):
            code = self.node((str(x.real),), depth)
            return loader("ConstructorFromReduceNode", "numpy", "dtype", content=code)
        if isinstance(x, Array):
            x = x.real
        if isinstance(x, (np.ndarray, np.generic)):
            return self.array(x, depth)
        if isinstance(x, (bytes, bytearray)):
            return loader("BytesNode", "builtins", "bytes", file=self.member(bytes(x), "bin"))
        if isinstance(x, dict) and not has_plain_keys(x):
            return self.node([[k, v] for k, v in x.items()], depth)
        if isinstance(x, dict):
            kinds = [loader("TypeNode", type(k).__module__, type(k).__name__) for k in x]
            content = {json_key(k): self.node(v, depth) for k, v in x.items()}
            return loader(
                "DictNode", "builtins", "dict", content=content, key_types={"content": kinds}
            )
        for kind, name in ((list, "ListNode"), (tuple, "TupleNode"), ((set, frozenset), "SetNode")):
            if isinstance(x, kind):
                return loader(name, content=[self.node(v, depth) for v in x])
        if isinstance(x, Stub):
            args = list(x.args) + ([x.items] if x.items else [])
            return loader(
                "TreeNode",
                *type_of(x),
                content=self.node(x.state, depth),
                __reduce__={"args": self.node(args, depth)},
            )
        if isinstance(x, complex):
            return self.node([x.real, x.imag], depth)
        return loader("FunctionNode", *type_of(x))

    def array(self, x: Any, depth: int) -> dict[str, Any]:
        kind = "ndarray" if isinstance(x, np.ndarray) else type(x).__name__
        if x.dtype != object:
            file = self.member(x, "npy")
            return loader("NdArrayNode", "numpy", kind, type="numpy", file=file)
        items = x.tolist() if x.ndim else [x.item()]
        content = [self.node(v, depth) for v in items]
        shape = self.node(tuple(x.shape))
        return loader("NdArrayNode", "numpy", kind, type="json", content=content, shape=shape)

    def member(self, x: Any, ending: str) -> str:
        if id(x) not in self.members:
            # The value stands beside its name so that its id is not given to another.
            self.members[id(x)] = (x, f"{len(self.members)}.{ending}")
            with self.archive.open(self.members[id(x)][1], "w", force_zip64=True) as file:
                if isinstance(x, bytes):
                    file.write(x)
                else:
                    np.save(file, x, allow_pickle=False)
        return self.members[id(x)][1]


def loader(kind: str, module: str = "builtins", name: str = "", **rest: Any) -> dict[str, Any]:
    return {"__loader__": kind, "__module__": module, "__class__": name, **rest}


def type_of(x: Any) -> tuple[str, str]:
    name = x.cls if isinstance(x, Stub) else x
    if isinstance(name, Name):
        return str(name.module), str(name.name)
    return "builtins", type(x).__name__


def has_plain_keys(x: dict[Any, Any]) -> bool:
    """Say whether keys can be told by their text and type."""
    plain = all(type(k) in PLAIN or isinstance(k, (np.integer, np.floating, np.bool_)) for k in x)
    return plain and len({json_key(k) for k in x}) == len(x)


def json_key(key: Any) -> str:
    plain = key is None or isinstance(key, (bool, int, float))
    return json.dumps(key) if plain else str(key)


def opened(path: str) -> Any:
    """Open the file, through the decompressor that its first bytes call for."""
    file = open(path, "rb")  # noqa: SIM115
    head = file.read(8)
    file.seek(0)
    if head.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=file)
    if head.startswith(b"BZ"):
        return bz2.BZ2File(file)
    if head.startswith((b"\x5d\x00", b"\xfd7zXZ")):
        return lzma.LZMAFile(file)
    if head.startswith(b"\x04\x22\x4d\x18"):
        try:
            import lz4.frame  # type: ignore[import-not-found]
        except ImportError:
            raise UnreadableError(
                "compressed with lz4: install the package lz4 to read it"
            ) from None
        return lz4.frame.LZ4FrameFile(file)
    if head.startswith(b"\x78"):
        return io.BufferedReader(Inflated(file))
    return io.BufferedReader(file)


class Inflated(io.RawIOBase):
    """A zlib stream, unpacked as it is read."""

    def __init__(self, file: Any) -> None:
        self.file, self.z, self.tail = file, zlib.decompressobj(), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.z.eof:
            data = self.tail or self.file.read(1 << 16)
            out = self.z.decompress(data, len(buffer))
            self.tail = self.z.unconsumed_tail
            if out:
                buffer[: len(out)] = out
                return len(out)
            if not data:
                raise UnreadableError("the compressed data is cut short")
        return 0


def main(path: str, out: str) -> None:
    """Read the pickle at ``path`` and write the archive ``out``."""
    ledger = Ledger()
    with opened(path) as file:
        model = Unpickler(file, ledger).load()
        ledger.take(model)
        # Whatever stands behind the end is not read as objects, whatever it may be.
        ledger.odd += filter(None, (file.read(MOST_BEHIND), behind_stream(path)))
    with zipfile.ZipFile(out, "w") as archive:
        writer = Writer(archive)
        description = writer.node(model)
        if left := ledger.left():
            description["unread"] = writer.node(left)
        archive.writestr(zipfile.ZipInfo("schema.json"), json.dumps(description))


def behind_stream(path: str) -> bytes:
    """What stands behind the end of a compressed stream, or in its header beside it."""
    with open(path, "rb") as file:
        raw = file.read()
    stream: Any = None
    beside = b""
    if raw.startswith(b"\x1f\x8b"):
        name, _, rest = raw[10:512].partition(b"\0")
        named = raw[3] == 8 and re.fullmatch(rb"[\w.-]{0,64}", name) is not None
        stream, beside = zlib.decompressobj(31), b"" if not raw[3] or named else name + rest
    elif raw.startswith(b"BZ"):
        stream = bz2.BZ2Decompressor()
    elif raw.startswith((b"\x5d\x00", b"\xfd7zXZ")):
        stream = lzma.LZMADecompressor()
    elif raw.startswith(b"\x78"):
        stream = zlib.decompressobj()
    elif raw.startswith(b"\x04\x22\x4d\x18"):
        import lz4.frame

        stream = lz4.frame.LZ4FrameDecompressor()
    if stream is None:
        return beside
    for at in range(0, len(raw), 1 << 16):
        stream.decompress(raw[at : at + (1 << 16)])
        if stream.eof:
            return beside + bytes(stream.unused_data) + raw[at + (1 << 16) :]
    return beside


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:
        # Whatever a hostile file provokes, the answer is one line.
        text = (
            str(error) if isinstance(error, UnreadableError) else f"{type(error).__name__}: {error}"
        )
        sys.exit(text[:300] or type(error).__name__)
