"""What skops 0.9 to 0.16 write; all else in an archive, and what nobody reads, is left over."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from json.encoder import encode_basestring_ascii
from typing import Any

from treeleak.release.stored import Leftover

SCHEMA = "schema.json"

Node = dict[str, Any]


class Fields(Node):
    """An object of the description, and which of its fields someone has read."""

    def __init__(self, fields: Node) -> None:
        super().__init__(fields)
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Read a field that may be missing."""
        self.read.add(key)
        return super().get(key, default)

    def whole(self) -> Node:
        """Read all fields."""
        self.read.update(self)
        return self


def unread_fields(schema: Fields) -> list[tuple[Fields, str]]:
    """List the fields that nobody has read, with the objects in which they stand."""
    found: list[tuple[Fields, str]] = []
    stack: list[Any] = [schema]
    while stack:
        part = stack.pop()
        if isinstance(part, Fields):
            found += ((part, key) for key in part.keys() - part.read)
            stack += (value for key, value in part.items() if key in part.read)
        elif isinstance(part, list):
            stack += part
    return found


_NUMBERS = " ".join(
    f"numpy.{name}"
    for name in (
        *(
            f"{kind}{bits}"
            for kind in ("int", "uint", "float", "complex")
            for bits in (8, 16, 32, 64)
        ),
        *("float128", "complex128", "complex256", "longlong", "ulonglong", "longdouble"),
        *("clongdouble", "bool", "bool_", "str_", "bytes_", "datetime64", "timedelta64"),
    )
)
# Classes of values that are no objects: the reader does not ask for them.
_CLASSES: Mapping[str, frozenset[str]] = {
    loader: frozenset(names.split())
    for loader, names in {
        "JsonNode": "builtins.str builtins.",
        "DictNode": "builtins.dict collections.OrderedDict sklearn.utils.Bunch "
        "sklearn.utils._bunch.Bunch sklearn.utils._repr_html.params.ParamsDict",
        "DefaultDictNode": "collections.defaultdict",
        "ListNode": "builtins.list builtins.",
        "TupleNode": "builtins.tuple builtins.",
        "SetNode": "builtins.set builtins.frozenset builtins.",
        "BytesNode": "builtins.bytes",
        "BytearrayNode": "builtins.bytearray",
        "SliceNode": "builtins.slice",
        "DTypeNode": "numpy.dtype",
        "NdArrayNode": f"numpy.ndarray numpy.memmap numpy.matrix numpy.recarray numpy.rec.recarray "
        f"numpy.void numpy.object_ {_NUMBERS}",
        "CachedNode": "None.None",
        "KeyType": "builtins.str builtins.int builtins.float builtins.bool builtins.NoneType "
        + _NUMBERS,
    }.items()
}
_MEMBER = re.compile(r"[0-9a-f-]{1,36}\.(npy|npz|bin)")
_NAME = re.compile(r"[A-Za-z0-9_.<>]{0,100}")
_VERSION = re.compile(r"[0-9]{1,3}\.[0-9]{1,3}[\w.+]{0,8}")
_FIRST_ADDRESS, _LAST_ADDRESS, _APART = 1 << 16, 1 << 48, 8
"""Where objects lie in memory."""
_MOST_VERSION = 9


def is_usual_name(member: str) -> bool:
    """Say whether skops names members so."""
    return member == SCHEMA or _MEMBER.fullmatch(member) is not None


def is_mark(mark: Any) -> bool:
    """Say whether skops marks values so: by an address."""
    return type(mark) is int and _FIRST_ADDRESS <= mark < _LAST_ADDRESS and mark % _APART == 0


def laid_out(document: Any, line: str = "\n") -> str:
    """Write a description as ``json.dumps(document, indent=2)`` does, in half the time."""
    if isinstance(document, str):
        return encode_basestring_ascii(document)
    if type(document) is int:
        return repr(document)
    inner = line + "  "
    if isinstance(document, dict) and document:
        items = [f"{encode_basestring_ascii(k)}: {laid_out(v, inner)}" for k, v in document.items()]
        return "{" + inner + ("," + inner).join(items) + line + "}"
    if isinstance(document, list) and document:
        return "[" + inner + ("," + inner).join([laid_out(v, inner) for v in document]) + line + "]"
    return json.dumps(document)


def odd_text(text: str, document: Any) -> Iterator[Leftover]:
    """Say whether the description is laid out as no program that writes it does.

    So there is nothing between the values, and no key appears twice.
    """
    if text != laid_out(document) and text != json.dumps(document):
        yield Leftover(SCHEMA, "layout that skops does not write", text)


def odd_fields(node: Node, loader: str, root: bool, as_key: bool = False) -> Iterator[Leftover]:
    """List what stands in fields that every value has, and is not read."""
    name, module = node.get("__class__"), node.get("__module__")
    known = _CLASSES.get("KeyType" if as_key else loader)
    stated = "__class__" in node or "__module__" in node
    # The others are names of objects, and stand in what is read.
    plain = all(isinstance(text, str) and _NAME.fullmatch(text) for text in (name, module))
    if stated and not (plain if known is None else f"{module}.{name}" in known):
        yield Leftover(SCHEMA, "name of a class that is none", (module, name))
    if "__id__" in node and not is_mark(mark := node.get("__id__")):
        yield Leftover(SCHEMA, "mark of a value that is none", mark)
    if loader == "JsonNode" and node.get("is_json", True) is not True:
        yield Leftover(SCHEMA, "description that skops does not write", dict(node))
    if root:
        version, skops = node.get("protocol", 0), node.get("_skops_version", "0.0")
        if (
            type(version) is not int
            or version > _MOST_VERSION
            or not _VERSION.fullmatch(str(skops))
        ):
            yield Leftover(SCHEMA, "version that is none", (version, skops))


def key_of(text: str, type_name: str) -> Any:
    """Undo what JSON does to a key that is no string.

    Raises ValueError if JSON would write the key otherwise.
    """
    if type_name.startswith("str"):
        return text
    key_types: Mapping[str, type] = {
        "bool": bool, "int": int, "uint": int, "float": float, "NoneType": type(None),
    }  # fmt: skip
    kind = key_types[type_name.rstrip("_0123456789")]
    value = json.loads(text)
    if type(value) is not kind or json.dumps(value) != text:
        raise ValueError(text)
    return value
