"""Documents that are declared once, as structs: their reading and their JSON Schema follow.

What is read must hold what is declared, no more and no less. The first fault is named in plain
words, with its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from inspect import cleandoc
from math import log2
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from treeleak.core.errors import BadInput
from treeleak.core.text import did_you_mean, unknown_keys

LARGEST = 1.7976931348623157e308
"""The largest float; what lies beyond, and what is no number, fails every comparison with it."""
EXACT_WHOLE = 2**53
"""From here on floats skip whole numbers."""

Whole = Annotated[int, Meta(ge=0, le=EXACT_WHOLE - 1)]
Number = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
Share = Annotated[float, Meta(ge=0, le=1)]
Real = Annotated[int, Meta(ge=-EXACT_WHOLE, le=EXACT_WHOLE)] | Number
"""A number that stays whole if it is."""
Label = str | bool | int | Number
Document = TypeVar("Document")
Place = Sequence[str | int]
"""Keys, and numbers of items in lists."""


class Declared(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An object in a document: a key for each field, those with a default may be left out."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Published(Declared, frozen=True):
    """A whole document, whose JSON Schema is among the package's files."""

    schema_id: ClassVar[str]
    title: ClassVar[str]
    also: ClassVar[Mapping[str, Any]] = {}
    """What else the JSON Schema says, of structs by name."""


def described_as(what: str, **more: Any) -> Meta:
    """Say in the JSON Schema what a field is."""
    return Meta(description=what, **more)


def to_builtins(document: Struct) -> dict[str, Any]:
    """Write a document in objects, lists, texts and numbers that JSON can hold.

    Lists are taken as they are, tuples may hold further objects.
    """
    config = document.__struct_config__
    out: dict[str, Any] = {config.tag_field: config.tag} if config.tag_field else {}
    for name, key, default in _fields(type(document)):
        value = getattr(document, name)
        if value is not UNSET and not (config.omit_defaults and value == default):
            out[key] = plain(value)
    return out


@cache
def _fields(kind: type[Struct]) -> list[tuple[str, str, Any]]:
    """List fields, their keys and their defaults."""
    return [
        (
            field.name,
            field.encode_name,
            field.default
            if field.default_factory is msgspec.NODEFAULT
            else field.default_factory(),
        )
        for field in msgspec.structs.fields(kind)
    ]


def plain(part: Any) -> Any:
    """Describe a struct, a dataclass, several of them, a text or a number as JSON can hold it."""
    if isinstance(part, Struct):
        return to_builtins(part)
    if is_dataclass(part):
        return {item.name: plain(getattr(part, item.name)) for item in fields(part)}
    if isinstance(part, Mapping):
        return {key: plain(item) for key, item in part.items()}
    if isinstance(part, (tuple, frozenset)):
        return [plain(item) for item in (part if isinstance(part, tuple) else sorted(part))]
    return part.item() if isinstance(part, np.generic) else part


def set_fields(document: Struct) -> dict[str, Any]:
    """List the fields that a document says something of."""
    items = ((name, getattr(document, name)) for name in document.__struct_fields__)
    return {name: value for name, value in items if value is not UNSET and value is not None}


def in_words(place: Place) -> str:
    """Name a place in a document: ``a: b[0]``."""
    return "".join(
        f"[{step}]" if isinstance(step, int) else f"{': ' if i else ''}{step:.80}"
        for i, step in enumerate(place)
    )


def read(
    kind: type[Document],
    data: object,
    error: type[BadInput] = BadInput,
    place: Callable[[Place], str] = in_words,
) -> Document:
    """Read what a parser made of a document.

    ``error``: what is raised, naming the place by ``place``, where it is not as declared.
    """
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as found:
        raise error(_fault(kind, data, str(found), place)) from found


def schema_of(kind: type[Published]) -> dict[str, Any]:
    """Make the JSON Schema of a document."""
    _, parts = msgspec.json.schema_components((kind,), ref_template="#/$defs/{name}")
    parts = {name: _shortened(part) | kind.also.get(name, {}) for name, part in parts.items()}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": kind.schema_id}
    body = parts.pop(kind.__name__)
    whole = {**head, "title": kind.title, **body, **({"$defs": parts} if parts else {})}
    # A document that is part of itself.
    text = json.dumps(whole).replace(f'"#/$defs/{kind.__name__}"', '"#"')
    made: dict[str, Any] = json.loads(text)
    return made


def _shortened(part: Any) -> Any:
    """Leave out what every number in JSON meets, and titles, which are the names of structs."""
    if isinstance(part, list):
        items = [_shortened(item) for item in part]
        numbers = {"type": "number"} in items
        return [item for item in items if not (numbers and item.get("type") == "integer")]
    if not isinstance(part, dict):
        return part
    idle = {("minimum", -LARGEST), ("maximum", LARGEST)}
    out = {
        key: item if key in ("enum", "required", "default") else _shortened(item)
        for key, item in part.items()
        if not (isinstance(item, float) and (key, item) in idle)
        and not (key == "title" and isinstance(item, str))
    }
    if isinstance(out.get("description"), str):
        # Python 3.13 takes the indentation out of docstrings, and others leave it in.
        out["description"] = cleandoc(out["description"])
    if all(set(item) == {"type"} for item in out.get("anyOf", [{}])):
        types = [item["type"] for item in out.pop("anyOf")]
        out.setdefault("type", types if len(types) > 1 else types[0])
    return out


def _fault(kind: Any, data: Any, found: str, place: Callable[[Place], str]) -> str:
    problem, _, at = found.partition(" - at `")
    hint, value, steps = kind, data, []
    for step in re.findall(r"\.([^.\[`]+)|\[(\d+)\]|(\[\.\.\.\])", at):
        hint, value, place_inside = _inside(hint, value, step)
        steps.append(place_inside)
    where = place(steps)
    before = f"{where}: " if where else ""
    if at.startswith("key` in"):
        return before + "a key is not a text"
    if name := re.match(r"Object missing required field `(.*)`", problem):
        return f"{before}{name[1]} is missing"
    if problem.startswith("Object contains unknown field"):
        struct = _struct(hint, value)
        tag = struct.__struct_config__.tag_field
        known = [*((tag,) if tag else ()), *struct.__struct_encode_fields__]
        return f"{before}{unknown_keys(set(value).difference(known), known)}"
    if not value and "of length >= 1" in problem:
        return f"{where} is empty"
    hinted = ""
    if get_origin(hint) is Literal and isinstance(value, str):
        hinted = did_you_mean(value[:80], map(str, get_args(hint)))
    return f"{where or 'this'} is {value!r:.40}, must be {_due(hint)}{hinted}"


def _inside(hint: Any, value: Any, step: tuple[str, str, str]) -> tuple[Any, Any, str | int]:
    """Go one step down: the hint and the value there, and how the step is called."""
    name, number, _ = step
    if name:
        struct = _struct(hint, value)
        inner = value.get(name) if isinstance(value, Mapping) else None
        if name == struct.__struct_config__.tag_field:
            return _tags(hint), inner, name
        names = dict(zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True))
        return get_type_hints(struct, include_extras=True)[names[name]], inner, name
    if number:
        items = next(h for h in union_members(hint) if get_origin(h) in (list, tuple, frozenset))
        args = get_args(items)
        several = get_origin(items) is tuple and args[-1] is not ...
        return args[int(number) if several else 0], value[int(number)], int(number)
    items = get_args(next(h for h in union_members(hint) if get_origin(h) is dict))[1]
    for key, names in value.items():
        try:
            msgspec.convert(names, items)
        except msgspec.ValidationError:
            return items, names, key
    raise AssertionError("nothing is wrong with any value")


def union_members(hint: Any) -> Iterator[Any]:
    """Go through what a value may be, without its bounds."""
    if get_origin(hint) is Annotated:
        yield from union_members(get_args(hint)[0])
    elif get_origin(hint) in (Union, UnionType):
        for option in get_args(hint):
            yield from union_members(option)
    else:
        yield hint


def _struct(hint: Any, value: Any) -> type[Struct]:
    """Choose the struct that an object is, by its tag where there are several."""
    structs = [
        option
        for option in union_members(hint)
        if isinstance(option, type) and issubclass(option, Struct)
    ]
    with suppress(TypeError, KeyError, StopIteration):
        configs = ((s, s.__struct_config__) for s in structs)
        return next(s for s, config in configs if config.tag == value[config.tag_field or ""])
    return structs[0]


def _tags(hint: Any) -> Any:
    structs = (
        struct
        for struct in union_members(hint)
        if isinstance(struct, type) and issubclass(struct, Struct)
    )
    return Literal[tuple(struct.__struct_config__.tag for struct in structs)]


def _due(hint: Any) -> str:
    """Say in plain words what a value must be."""
    if get_origin(hint) in (Union, UnionType):
        return _one_of([option for option in get_args(hint) if option is not UnsetType])
    bounds: list[Any] = []
    if get_origin(hint) is Annotated:
        hint, *bounds = get_args(hint)
        if get_origin(hint) in (Annotated, Union, UnionType):
            return _due(hint)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return f"one of {', '.join(map(str, args))}" if len(args) > 1 else f"{args[0]!r}"
    if origin is tuple and args[-1] is not ...:
        return f"a list of {len(args)}"
    if isinstance(hint, type) and issubclass(hint, Struct):
        return "an object"
    return _DUE.get(origin or hint, str(hint)) + "".join(map(_bounds, bounds))


def _one_of(hints: Sequence[Any]) -> str:
    real = any(float in union_members(option) for option in hints)
    whole = next((option for option in hints if real and int in union_members(option)), None)
    *first, last = dict.fromkeys(_due(option) for option in hints if option is not whole)
    text = f"{', '.join(first)} or {last}" if first else last
    if whole is None or whole is int:
        return text
    return f"{text} (whole ones to 2^{round(log2(get_args(whole)[1].le))})"


_DUE: dict[Any, str] = {
    str: "text", int: "a whole number", float: "a number", bool: "true or false",
    list: "a list", tuple: "a list", frozenset: "a list", dict: "an object", NoneType: "null",
}  # fmt: skip


def _bounds(meta: Meta) -> str:
    low, high = meta.ge, meta.le
    if meta.gt is not None:
        return f" above {meta.gt:g}"
    if low is not None and low > -LARGEST:
        bounded = high is not None and high < EXACT_WHOLE - 1
        return f" from {low:g} to {high:.10g}" if bounded else f" of {low:g} or more"
    if high is not None and high < LARGEST:
        return f" of {high:g} or less"
    if meta.min_length is not None:
        return f" of length {meta.min_length} or more"
    return f" of length {meta.max_length} at most" if meta.max_length is not None else ""
