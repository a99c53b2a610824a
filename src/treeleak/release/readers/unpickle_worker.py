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
import functools
import gzip
import io
import json
import lzma
import math
import pickle
import sys
import zipfile
import zlib
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


UNREAD: list[Any] = []
"""What the file holds and the model does not, as far as it was met on the way."""


def drop(*values: Any) -> None:
    """Keep what the model will not hold, unless it only names code or says nothing."""
    for value in values:
        empty = isinstance(value, (str, bytes, tuple, list, dict)) and not value
        if not (empty or value is None or isinstance(value, (Name, bool))):
            UNREAD.append(value)


class Name:
    """What the pickle calls ``module.name``: calling it makes a stub."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self, *args: Any) -> Any:
        make = MAKERS.get((self.module, self.name))
        if make is None and self.name.startswith(CYTHON) and len(args) == 3:
            return compiled(self, *args)
        return make(*args) if make else Stub(self, args)


class Stub:
    """An object of a class that stays unknown: arguments, state and items as they came."""

    def __init__(self, cls: Any, args: tuple[Any, ...] = ()) -> None:
        self.cls = cls if isinstance(cls, Name) else Name("pickle", "unnamed")
        self.args = args
        self.state: Any = None
        self.items: list[Any] = []

    def append(self, item: Any) -> None:
        self.items.append(item)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items.append((key, value))


class DType:
    """A numpy type in the making."""

    def __init__(self, code: Any, *rest: Any) -> None:
        self.code, self.state = code, None
        drop(*(flag for flag in rest if type(flag) not in (bool, int)))

    def real(self) -> np.dtype[Any]:
        code = self.code.name if isinstance(self.code, Name) else str(self.code)
        if self.state is None:
            return np.dtype(code)
        _, order, subarray, names, fields, size, *rest = self.state
        # Two whole numbers of numpy's own; what may follow are notes of whoever made the type.
        drop(*rest[2:])
        if subarray is not None:
            base, shape = subarray
            return np.dtype((base.real(), shape))
        if names:
            parts = [fields[n] for n in names]
            return np.dtype(
                {
                    "names": list(names),
                    "formats": [p[0].real() for p in parts],
                    "offsets": [int(p[1]) for p in parts],
                    "itemsize": int(size),
                }
            )
        return np.dtype(code).newbyteorder(order if order in "<>" else "=")


class Array:
    """A numpy array in the making: filled by its state."""

    def __init__(self, *args: Any) -> None:
        self.state: Any = None
        # A class, an empty shape and the letter b: what is in the array comes with its state.
        drop(*(a for a in args if not isinstance(a, (tuple, bytes)) or a not in ((0,), b"b")))

    @functools.cached_property
    def real(self) -> Any:
        _, shape, dtype, fortran, raw = self.state
        return fill(raw, dtype.real(), shape, "F" if fortran else "C")


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


def from_buffer(raw: Any, dtype: DType, shape: tuple[int, ...], order: str, *rest: Any) -> Any:
    """Stand in for the function by which numpy writes arrays in protocol 5."""
    drop(*rest)
    return fill(bytes(raw), dtype.real(), shape, "F" if order == "F" else "C")


CYTHON = "__pyx_unpickle_"


def compiled(function: Name, cls: Any, checksum: Any, state: Any) -> Stub:
    """Stand in for the functions by which Cython makes an object again: one for each class."""
    if type(checksum) is not int or not 0 <= checksum < 1 << 32:
        drop(checksum)
    drop(cls)
    name = Name(function.module, function.name.removeprefix(CYTHON))
    return Stub(name, state if isinstance(state, tuple) else (state,))


def scalar(dtype: DType, raw: Any = b"") -> Any:
    """Stand in for the function by which numpy writes scalars."""
    real = dtype.real()
    return raw if real.kind == "O" else fill(raw, real, (), "C")[()]


def by_keyword(*args: Any) -> Any:
    """Stand in for ``copyreg.__newobj_ex__``."""
    cls, positional, named = args
    return Stub(cls, (*positional, named))


def encoded(text: Any, *rest: Any) -> bytes:
    """Stand in for the codec by which old protocols write bytes."""
    drop(*(r for r in rest if r not in ("latin1", "latin-1")))
    if isinstance(text, bytes):  # how protocols 3 and 4 write what can be changed
        return text
    return str(text).encode("latin-1")


def dropping(make: Any) -> Any:
    """Make something without arguments, and note them."""

    def call(*args: Any) -> Any:
        drop(*args)
        return make()

    return call


MAKERS: dict[tuple[str, str], Any] = {
    ("copyreg", "_reconstructor"): lambda cls, base, state: (
        Stub(cls) if state is None and isinstance(base, Name) else Stub(cls, (base, state))
    ),
    ("copyreg", "__newobj__"): lambda cls, *args: Stub(cls, args),
    ("copyreg", "__newobj_ex__"): by_keyword,
    ("_codecs", "encode"): encoded,
    ("builtins", "bytes"): lambda *args: encoded(*args) if args else b"",
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "list"): list,
    ("builtins", "tuple"): tuple,
    ("builtins", "dict"): dict,
    ("builtins", "bytearray"): lambda *args: encoded(*args) if args else b"",
    ("collections", "OrderedDict"): lambda *args: dict(*args),
    ("collections", "defaultdict"): dropping(dict),
    ("numpy", "dtype"): DType,
    ("numpy.random._pickle", "__randomstate_ctor"): lambda *args: Stub(
        Name("numpy.random.mtrand", "RandomState"), args
    ),
    ("numpy.random._pickle", "__generator_ctor"): lambda *args: Stub(
        Name("numpy.random._generator", "Generator"), args
    ),
}
for core in ("numpy.core", "numpy._core"):
    MAKERS[f"{core}.multiarray", "_reconstruct"] = Array
    MAKERS[f"{core}.multiarray", "scalar"] = scalar
    MAKERS[f"{core}.numeric", "_frombuffer"] = from_buffer

OLD_NAMES = {"__builtin__": "builtins", "copy_reg": "copyreg"}


WRAPPED = (
    "subclass", "shape", "order", "dtype", "allow_mmap", "numpy_array_alignment_bytes",
)  # fmt: skip


class Unpickler(Base):  # type: ignore[misc]
    """The interpreter's own unpickler, cut off from every class and function."""

    dispatch: ClassVar[dict[int, Any]] = dict(Base.dispatch)

    def __init__(self, file: Any) -> None:
        # Python 2 wrote bytes as text.
        super().__init__(file, encoding="latin-1")
        self.file_handle = file

    def load(self) -> Any:
        """Read one object, and note what the file leaves behind on its way."""
        result = super().load()
        drop(*self.stack, *(v for stack in self.metastack for v in stack))
        return result

    def load_pop(self) -> None:
        if self.stack:
            drop(self.stack.pop())
        else:
            drop(*self.pop_mark())

    def load_pop_mark(self) -> None:
        drop(*self.pop_mark())

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.put(self.stack[-1], key, value)

    def load_setitems(self) -> None:
        items = self.pop_mark()
        for key, value in zip(items[::2], items[1::2], strict=True):
            self.put(self.stack[-1], key, value)

    def put(self, target: Any, key: Any, value: Any) -> None:
        if isinstance(target, dict) and key in target:
            drop(target[key])
        target[key] = value

    def find_class(self, module: str, name: str) -> Name:
        return Name(OLD_NAMES.get(module, module), name)

    def get_extension(self, code: int) -> None:
        self.append(Name("copyreg", f"extension_{code}"))

    def persistent_load(self, pid: Any) -> Any:
        return Stub(Name("pickle", "persistent"), (pid,))

    def call(self, function: Any, args: Any) -> Any:
        if isinstance(function, Stub):  # the result of a call that was not made
            return Stub(function, (function, *args))
        if not isinstance(function, Name):
            raise UnreadableError("calls something that is not a name")
        return function(*args)

    def load_reduce(self) -> None:
        args = self.stack.pop()
        self.stack[-1] = self.call(self.stack[-1], args)

    def load_newobj(self) -> None:
        args = self.stack.pop()
        self.append(self.call(Name("copyreg", "__newobj__"), (self.stack.pop(), *args)))

    def load_newobj_ex(self) -> None:
        named, args, cls = self.stack.pop(), self.stack.pop(), self.stack.pop()
        self.append(by_keyword(cls, args, named))

    def _instantiate(self, cls: Any, args: Any) -> None:
        self.append(self.call(cls, args))

    def load_build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if not isinstance(target, (Stub, DType, Array)):
            raise UnreadableError(f"sets the state of a {type(target).__name__}")
        drop(target.state)
        target.state = state
        if isinstance(target, Stub) and target.cls.name in ("NDArrayWrapper", "ZNDArrayWrapper"):
            raise UnreadableError(
                "its arrays are in files beside it, as joblib before 0.10 wrote them"
            )
        if isinstance(target, Stub) and target.cls.name == "NumpyArrayWrapper":
            self.stack[-1] = self.joblib_array(state)

    def joblib_array(self, state: Any) -> Any:
        """Read an array that joblib wrote as raw bytes between two parts of the pickle."""
        dtype, shape = state["dtype"].real(), tuple(state["shape"])
        drop(*(v for k, v in state.items() if k not in WRAPPED))
        if dtype.hasobject:
            return Unpickler(self.file_handle).load()
        if state.get("numpy_array_alignment_bytes") is not None:
            drop(self.file_handle.read(self.file_handle.read(1)[0]).strip(b"\xff"))
        raw = self.file_handle.read(math.prod(shape) * dtype.itemsize)
        return fill(raw, dtype, shape, "F" if state["order"] == "F" else "C")


for opcode, method in (
    (pickle.REDUCE, Unpickler.load_reduce),
    (pickle.NEWOBJ, Unpickler.load_newobj),
    (pickle.NEWOBJ_EX, Unpickler.load_newobj_ex),
    (pickle.BUILD, Unpickler.load_build),
    (pickle.POP, Unpickler.load_pop),
    (pickle.POP_MARK, Unpickler.load_pop_mark),
    (pickle.SETITEM, Unpickler.load_setitem),
    (pickle.SETITEMS, Unpickler.load_setitems),
):
    Unpickler.dispatch[opcode[0]] = method


class Writer:
    """Lay plain values out as a skops archive."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive
        self.nodes = 0
        self.open: set[int] = set()
        self.seen: set[int] = set()
        self.members: dict[int, tuple[Any, str]] = {}

    def node(self, x: Any, depth: int = 0) -> dict[str, Any]:
        self.nodes += 1
        self.seen.add(id(x))
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
        if isinstance(x, Array):
            x = x.real
        if isinstance(x, (np.ndarray, np.generic)):
            return self.array(x, depth)
        if isinstance(x, (bytes, bytearray)):
            return loader("BytesNode", "builtins", "bytes", file=self.member(bytes(x), "bin"))
        if isinstance(x, dict) and not has_plain_keys(x):
            return self.node([[k, v] for k, v in x.items()], depth)
        if isinstance(x, dict):
            kinds = [loader("TypeNode", "builtins", type(k).__name__) for k in x]
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
        if isinstance(x, DType):
            code = self.node((str(x.real()),), depth)
            return loader("ConstructorFromReduceNode", "numpy", "dtype", content=code)
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
    return json.dumps(key) if isinstance(key, (bool, int, float)) else str(key)


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
    with opened(path) as file:
        model = Unpickler(file).load()
        # Whatever stands behind the end is not read as objects, whatever it may be.
        drop(file.read(MOST_BEHIND))
    drop(behind_stream(path))
    with zipfile.ZipFile(out, "w") as archive:
        writer = Writer(archive)
        described = writer.node(model)
        held = set(writer.seen)
        unread = [value for value in UNREAD if id(value) not in held]
        if unread:
            described["unread"] = writer.node(unread)
        archive.writestr("schema.json", json.dumps(described))


def behind_stream(path: str) -> bytes:
    """What stands behind the end of a compressed stream, or in its header beside it."""
    with open(path, "rb") as file:
        raw = file.read()
    stream: Any = None
    beside = b""
    if raw.startswith(b"\x1f\x8b"):
        stream, beside = zlib.decompressobj(31), raw[10:512] if raw[3] else b""
    elif raw.startswith(b"BZ"):
        stream = bz2.BZ2Decompressor()
    elif raw.startswith((b"\x5d\x00", b"\xfd7zXZ")):
        stream = lzma.LZMADecompressor()
    elif raw.startswith(b"\x78"):
        stream = zlib.decompressobj()
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
