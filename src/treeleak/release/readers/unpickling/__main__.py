"""Turn a pickle or joblib file into an archive of plain arrays; run as a process of its own.

Arguments: FILE OUT. :mod:`..bounded` runs it, within bounds. Every name in the pickle becomes a
stub: no class or function that the file asks for is imported or called, except the few that build
containers and arrays, and those are rewritten in :mod:`.objects`. OUT is laid out like a skops
archive, so that the reader of such archives, which trusts nothing, reads it.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import sys
import zipfile
import zlib
from typing import Any

import numpy as np

from .objects import PLAIN, Array, DType, Masked, Name, Stub, UnreadableError
from .unpickler import MOST_BEHIND, Ledger, Unpickler

MAX_NODES = 400_000
MAX_DEPTH = 90


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
            key_types = [loader("TypeNode", type(k).__module__, type(k).__name__) for k in x]
            content = {json_key(k): self.node(v, depth) for k, v in x.items()}
            return loader(
                "DictNode", "builtins", "dict", content=content, key_types={"content": key_types}
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


def open_compressed(path: str) -> Any:
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
    with open_compressed(path) as file:
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
