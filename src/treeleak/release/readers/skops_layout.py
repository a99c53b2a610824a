"""What skops 0.9 to 0.16 write, key by key; all else in an archive is left over."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from json.encoder import encode_basestring_ascii
from typing import Any

from treeleak.release.stored import Leftover

SCHEMA = "schema.json"

Node = dict[str, Any]

_COMMON = frozenset({"__class__", "__module__", "__loader__", "__id__"})
_ROOT = frozenset({"protocol", "_skops_version"})
_CONTENT = frozenset({"content"})
_KEYS: Mapping[str, frozenset[str]] = {
    "JsonNode": frozenset({"content", "is_json"}),
    "DictNode": frozenset({"content", "key_types"}),
    "BytesNode": frozenset({"file"}),
    "BytearrayNode": frozenset({"file"}),
    "NdArrayNode": frozenset({"type", "file", "content", "shape"}),
    "SparseMatrixNode": frozenset({"type", "file"}),
    "TreeNode": frozenset({"__reduce__", "content"}),
    "LossNode": frozenset({"__reduce__", "content"}),
    "QuantileForestNode": frozenset({"__reduce__", "content"}),
    "TypeNode": frozenset(),
    "CachedNode": frozenset(),
    "OperatorFuncNode": frozenset({"attrs"}),
}
_WITHIN: Mapping[str, frozenset[str]] = {
    "MaskedArrayNode": frozenset({"data", "mask"}),
    "SliceNode": frozenset({"start", "stop", "step"}),
    "PartialNode": frozenset({"func", "args", "kwds", "namespace"}),
    "DefaultDictNode": frozenset({"main", "default_factory"}),
    "_DictWithDeprecatedKeysNode": frozenset({"main", "_deprecated_key_to_new_key"}),
    "RandomGeneratorNode": frozenset({"bit_generator", "seed_seq"}),
    "MethodNode": frozenset({"func", "obj"}),
    "FunctionNode": frozenset({"module_path", "function"}),
}
# Classes of values that are no objects: the reader does not ask for them.
_CLASSES: Mapping[str, re.Pattern[str]] = {
    "JsonNode": re.compile("str|"),
    "DictNode": re.compile("dict|OrderedDict|Bunch|defaultdict|Params|ParamsDict|_?[A-Za-z]{1,30}"),
    "ListNode": re.compile("list|"),
    "TupleNode": re.compile("tuple|[A-Za-z_]{1,30}|"),
    "SetNode": re.compile("set|frozenset|"),
    "BytesNode": re.compile("bytes"),
    "BytearrayNode": re.compile("bytearray"),
    "SliceNode": re.compile("slice"),
    "NdArrayNode": re.compile(
        "ndarray|bool_?|str_|bytes_|void|(u?int|float|complex)[0-9]{0,3}|longlong|ulonglong|longdouble|object_?"
    ),
    "KeyType": re.compile("str_?|bool_?|(u?int|float)[0-9]{0,3}|NoneType"),
}
_MEMBER = re.compile(r"[0-9a-f-]{1,36}\.(npy|npz|bin)")
_NAME = re.compile(r"[A-Za-z0-9_.<>]{0,100}")
_MOST_ID = 2**64


def is_usual_name(member: str) -> bool:
    """Say whether skops names members so."""
    return member == SCHEMA or _MEMBER.fullmatch(member) is not None


def is_mark(mark: Any) -> bool:
    """Say whether skops marks values so: by an address."""
    return type(mark) is int and 0 <= mark < _MOST_ID


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


def unknown_keys(node: Node, loader: str, root: bool) -> list[tuple[Node, str]]:
    """List the keys in the description of a value that skops does not write, with their place."""
    known = _COMMON | _KEYS.get(loader, _CONTENT) | (_ROOT if root else frozenset())
    found = [(node, key) for key in node.keys() - known]
    content, reduced = node.get("content"), node.get("__reduce__")
    if loader in _WITHIN and isinstance(content, dict):
        found += [(content, key) for key in content.keys() - _WITHIN[loader]]
    if isinstance(reduced, dict):
        found += [(reduced, key) for key in reduced.keys() - {"args"}]
    return found


def odd_keys(node: Node, loader: str, root: bool, as_key: bool = False) -> Iterator[Leftover]:
    """List what stands in the description of a value and is not read."""
    for place, key in unknown_keys(node, loader, root):
        yield Leftover(SCHEMA, "key that skops does not write", {key: place[key]})
    usual = _CLASSES.get("KeyType" if as_key else loader, _NAME)
    for key, pattern in (("__class__", usual), ("__module__", _NAME)):
        if key in node and not (isinstance(node[key], str) and pattern.fullmatch(node[key])):
            yield Leftover(SCHEMA, "name of a class that is none", node[key])
    mark = node.get("__id__", 0)
    if not is_mark(mark):
        yield Leftover(SCHEMA, "mark of a value that is none", mark)
    if node.get("is_json", True) is not True or ("file" in node and "content" in node):
        yield Leftover(SCHEMA, "description that skops does not write", dict(node))
    if root:
        stated = (node.get("protocol", 0), node.get("_skops_version", "0"))
        if type(stated[0]) is not int or not re.fullmatch(r"[\w.+]{1,24}", str(stated[1])):
            yield Leftover(SCHEMA, "version that is none", stated)
