"""The values in a skops archive, node by node; nothing is instantiated or imported."""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.errors import BadModel
from treeleak.core.private import dataclass
from treeleak.release.live import MAX_DEPTH, attributes
from treeleak.release.readers.npy import odd_header, parse_npy
from treeleak.release.readers.skops_layout import (
    SCHEMA,
    Fields,
    Node,
    is_usual_name,
    key_of,
    odd_fields,
    odd_text,
    unread_fields,
)
from treeleak.release.readers.zip_bytes import unused_bytes
from treeleak.release.stored import Leftover, Opaque, StoredObject
from treeleak.release.unsupported_formats import HOW_TO_SAVE, kind_of_members

# A small hostile file must not grow into gigabytes; honest archives hold little that compresses
# better than this.
MAX_GROWTH = 40
FREE_BYTES = 64 << 20
MAX_SCHEMA_BYTES = 64 << 20
MAX_MEMBERS = 200_000
_LOCKED = 1  # the flag of a member with a password
# No more than the text of one node takes, so that only what is referred to again and again can
# cost more than the archive holds.
NODE_BYTES = 64


@dataclass(frozen=True)
class _Known:
    """A value that a later node may refer to, and what it comes to when written out."""

    value: Any
    size: int
    height: int


class Archive:
    """An archive on its way to one value.

    References (a mark, the name of a member) let a few bytes stand for a value that is
    exponentially large or deep for code that walks, hashes or prints it. So size and depth are
    counted as if every reference were written out.
    """

    def __init__(self, archive: zipfile.ZipFile, file_bytes: int) -> None:
        check_size(archive, file_bytes)
        if any(info.flag_bits & _LOCKED for info in archive.infolist()):
            raise BadModel("this is an archive with a password: unpack it, and audit what is in it")
        self.leftovers: list[Leftover] = []
        self.sources: list[tuple[StoredObject, Node]] = []
        self.schema = Fields({})
        self.unread: list[tuple[Fields, str]] = []
        """Fields that no reader of a value asked for."""
        self._zip = archive
        self._members: dict[str, bytes] = {}
        self._by_id: dict[int, _Known] = {}
        self._most = FREE_BYTES + MAX_GROWTH * file_bytes
        self._size = 0
        self._deepest = 0

    def root(self) -> Any:
        """Read the value that the archive holds."""
        try:
            info = self._zip.getinfo(SCHEMA)
        except KeyError:
            kind = kind_of_members(self._zip.namelist())
            other = f"a zip archive without {SCHEMA}, not a skops archive: {HOW_TO_SAVE}"
            raise BadModel(f"this is {kind or other}") from None
        if info.file_size > MAX_SCHEMA_BYTES:
            raise BadModel(f"{SCHEMA} is larger than {MAX_SCHEMA_BYTES >> 20} MiB: not read")
        text = unpack(self._zip, info).decode()
        schema = json.loads(text, object_hook=Fields)
        if not isinstance(schema, Fields):
            raise BadModel(f"{SCHEMA} is not an object")
        self.schema = schema
        self.leftovers += odd_text(text, schema)
        value = self.value(schema, 0)
        self.unread = unread_fields(schema)
        for node, key in self.unread:
            self.left("key that skops does not write", {key: node[key]})
        return value

    def unused_members(self) -> Iterator[Leftover]:
        """List members that no value refers to, or that have a name as data might."""
        for info in self._zip.infolist():
            name = info.filename
            if name != SCHEMA and name not in self._members:
                data = unpack(self._zip, info)
                yield Leftover("the archive", "member that nothing refers to", (name, data))
            elif not is_usual_name(name):
                yield Leftover("the archive", "member of an unusual name", name)

    def value(self, node: Any, depth: int) -> Any:
        """Read the value that a node describes."""
        if not isinstance(node, Fields):
            raise BadModel(f"{SCHEMA}: a {type(node).__name__} where an object was due")
        if depth > MAX_DEPTH:
            raise BadModel(f"nested deeper than {MAX_DEPTH} levels")
        self.grow(NODE_BYTES)
        self._deepest = max(self._deepest, depth)
        loader, mark = str(node.get("__loader__")), node.get("__id__")
        self.leftovers += odd_fields(node, loader, root=depth == 0)
        if loader == "CachedNode":
            known = self._by_id.get(node["__id__"])
            if known is None:
                return Opaque(_type(node), "refers back to itself")
            self.grow(known.size)
            self._deepest = max(self._deepest, depth + known.height)
            if self._deepest > MAX_DEPTH:
                raise BadModel(f"nested deeper than {MAX_DEPTH} levels")
            return known.value
        read = _LOADERS.get(loader)
        if read is None:
            return Opaque(_type(node), f"stored by {loader}, which is not known here", _raw(node))
        if not isinstance(mark, int):
            return read(self, node, depth + 1)
        before, deepest, self._deepest = self._size, self._deepest, depth
        value = read(self, node, depth + 1)
        self._by_id[mark] = _Known(value, self._size - before, self._deepest - depth)
        self._deepest = max(self._deepest, deepest)
        return value

    def grow(self, size: int) -> None:
        """Count what a value comes to when written out."""
        self._size += size
        if self._size > self._most:
            raise BadModel("refers to its parts so often that it is far more than its own size")

    def member(self, node: Node) -> bytes:
        """Unpack a member, once: an archive may name one a million times."""
        info = self._zip.getinfo(str(node["file"]))
        self.grow(info.file_size)
        if info.filename not in self._members:
            self._members[info.filename] = unpack(self._zip, info)
        return self._members[info.filename]

    def made(self, value: StoredObject, node: Node) -> StoredObject:
        """Note which object a description became."""
        self.sources.append((value, node))
        return value

    def left(self, what: str, content: Any) -> None:
        """Note what is not part of any value."""
        self.leftovers.append(Leftover(SCHEMA, what, content))


def check_size(archive: zipfile.ZipFile, packed_bytes: int) -> None:
    """Refuse members that are too many, or grow too much, or share a name."""
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise BadModel(f"{len(members)} members, more than {MAX_MEMBERS}")
    if len({m.filename for m in members}) < len(members):
        raise BadModel("two members have one name")
    if sum(m.file_size for m in members) > FREE_BYTES + MAX_GROWTH * packed_bytes:
        raise BadModel("unpacks to far more than its own size: not read")


def unpack(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Read a member, which must be as long as it says."""
    # zipfile bounds what it unpacks by the size asked for, not by the size declared, and only
    # for these two methods.
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise BadModel(f"{info.filename}: compression method {info.compress_type}")
    with archive.open(info) as file:
        data = file.read(info.file_size)
    if len(data) != info.file_size:
        raise BadModel(f"{info.filename} is cut short")
    return data


def _type(node: Node) -> str:
    return f"{node.get('__module__')}.{node.get('__class__')}"


def _list(archive: Archive, node: Node, depth: int) -> list[Any]:
    return [archive.value(v, depth) for v in _content(node, list)]


def _content(node: Node, kind: type) -> Any:
    content = node["content"]
    if not isinstance(content, kind):
        raise BadModel(f"{SCHEMA}: {_type(node)} holds no {kind.__name__}")
    return content


def _dict(archive: Archive, node: Node, depth: int) -> dict[Any, Any]:
    content = _content(node, dict)
    listed = node.get("key_types", Fields({"content": []}))
    archive.leftovers += odd_fields(listed, str(listed.get("__loader__", "")), root=False)
    types = listed.get("content", [])
    for type_node in types:
        archive.leftovers += odd_fields(
            type_node, str(type_node.get("__loader__")), root=False, as_key=True
        )
    names = [str(t.get("__class__")) for t in types]
    if len(types) != len(content):
        names = ["str"] * len(content)
        if types:
            archive.left("types of keys that are none", _raw(types))
    values = [archive.value(v, depth) for v in content.whole().values()]
    out: dict[Any, Any] = {}
    for key, name, value in zip(content, names, values, strict=True):
        try:
            out[key_of(key, name)] = value
        except (ValueError, KeyError):
            archive.left("key that is not of its type", key)
            out[key] = value
    if len(out) < len(values):
        archive.left("several values with one key", values)
    return out


def _raw(part: Any) -> Any:
    """Read a part of the description as it stands."""
    if isinstance(part, Fields):
        return {key: _raw(value) for key, value in part.whole().items()}
    return [_raw(value) for value in part] if isinstance(part, list) else part


def _set(archive: Archive, node: Node, depth: int) -> Any:
    items = tuple(_list(archive, node, depth))
    try:
        out = frozenset(items)
    except TypeError:
        return items
    return out if len(out) == len(items) else items


def _json(archive: Archive, node: Node, depth: int) -> Any:  # noqa: ARG001
    text = node["content"]
    archive.grow(len(text))
    value = json.loads(text)
    if json.dumps(value) != text:
        archive.left("text around a value", text)
    return value


def _array(archive: Archive, node: Node, depth: int) -> Any:
    if node["type"] == "numpy":
        array = _npy(archive, archive.member(node), str(node["file"]))
        return array if node.get("__class__") == "ndarray" else array[()]
    stated = tuple(archive.value(node["shape"], depth))
    shape = tuple(int(n) for n in stated)
    if node["type"] != "json" or any(type(n) is not int for n in stated):
        archive.left("type or shape of an array that is none", (node["type"], stated))
    if len(shape) > MAX_DEPTH:
        raise BadModel(f"an array of {len(shape)} dimensions")
    items: list[Any] = _list(archive, node, depth)
    for _ in shape[1:]:
        items = [x for item in items for x in item]
    if len(items) != math.prod(shape):
        raise BadModel(f"an array of shape {shape} with {len(items)} items")
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        array[i] = item
    return array.reshape(shape)


def _object(archive: Archive, node: Node, depth: int) -> StoredObject:
    state = archive.value(node["content"], depth) if node.get("content") else None
    return archive.made(StoredObject(_type(node), attributes(state)), node)


def _reduced(archive: Archive, node: Node, depth: int) -> StoredObject:
    args = archive.value(node["__reduce__"]["args"], depth)
    state = archive.value(node["content"], depth)
    return archive.made(StoredObject(_type(node), attributes(state), tuple(args)), node)


def _sparse(archive: Archive, node: Node, depth: int) -> StoredObject:  # noqa: ARG001
    if node.get("type", "scipy") != "scipy":
        archive.left("type of a matrix that is none", node["type"])
    file = io.BytesIO(archive.member(node))
    parts = {}
    with zipfile.ZipFile(file) as inner:
        check_size(inner, len(file.getbuffer()))
        archive.grow(sum(info.file_size for info in inner.infolist()))
        for info in inner.infolist():
            array = _npy(archive, unpack(inner, info), info.filename)
            parts[info.filename.removesuffix(".npy")] = array
        archive.leftovers.extend(unused_bytes(inner, file))
    return StoredObject(_type(node), parts)


def _npy(archive: Archive, data: bytes, name: str) -> NDArray[Any]:
    array = parse_npy(data, name)
    if odd_header(data, array):
        archive.left("header of an array", data[: len(data) - array.nbytes])
    return array


def _parts(archive: Archive, node: Node, depth: int) -> StoredObject:
    content = _content(node, dict)
    # Older protocols store some parts as they are.
    state = {
        str(n): archive.value(v, depth) if isinstance(v, dict) and "__loader__" in v else _raw(v)
        for n, v in content.whole().items()
    }
    return StoredObject(_type(node), state)


def _main(archive: Archive, node: Node, depth: int) -> Any:
    """The dictionary in a dictionary of another class; what is beside it must hold nothing."""
    content = _content(node, dict)
    for name in content.keys() - {"main"}:
        beside = archive.value(content[name], depth)
        if beside not in (None, {}) and not (isinstance(beside, Opaque) and not beside.content):
            archive.left("beside a dictionary", beside)
    return archive.value(content["main"], depth)


def _code(archive: Archive, node: Node, depth: int) -> Opaque:
    held = node.get("attrs", node.get("content"))
    if isinstance(held, dict) and "__loader__" in held:
        held = archive.value(held, depth)
    elif isinstance(held, dict) and isinstance(held.get("obj"), dict):
        held = {**{key: held[key] for key in held}, "obj": archive.value(held["obj"], depth)}
    else:
        held = _raw(held)
    if held == {"module_path": node.get("__module__"), "function": node.get("__class__")}:
        held = None
    return Opaque(_type(node), "code, not data", held)


def _dtype(archive: Archive, node: Node, depth: int) -> StoredObject:
    array = archive.value(node["content"], depth)
    if array.size:
        archive.left("values in a type", array)
    return StoredObject("numpy.dtype", args=(str(array.dtype),))


# One entry per loader that skops 0.9 to 0.16 write; protocols 0 to 2 differ only in functions
# and generators.
_LOADERS: dict[str, Callable[[Archive, Node, int], Any]] = {
    "JsonNode": _json,
    "DictNode": _dict,
    "DefaultDictNode": _main,
    "_DictWithDeprecatedKeysNode": _main,
    "ListNode": _list,
    "TupleNode": lambda a, node, d: tuple(_list(a, node, d)),
    "SetNode": _set,
    "BytesNode": lambda a, node, _: a.member(node),
    "BytearrayNode": lambda a, node, _: a.member(node),
    "SliceNode": lambda _, node, __: StoredObject(
        "builtins.slice",
        args=tuple(_raw(_content(node, dict).get(k)) for k in ("start", "stop", "step")),
    ),
    "NdArrayNode": _array,
    "MaskedArrayNode": _parts,
    "SparseMatrixNode": _sparse,
    "DTypeNode": _dtype,
    "RandomStateNode": _object,
    "RandomGeneratorNode": _parts,
    "ObjectNode": _object,
    "TreeNode": _reduced,
    "LossNode": _reduced,
    "QuantileForestNode": _reduced,
    "ConstructorFromReduceNode": lambda a, node, d: StoredObject(
        _type(node), args=tuple(a.value(node["content"], d))
    ),
    "PartialNode": _parts,
    "FunctionNode": _code,
    "TypeNode": _code,
    "MethodNode": _code,
    "OperatorFuncNode": _code,
}
