"""JSON taken for hostile until checked: nothing in it is run, and every fault is named.

Shared by the files that hold a model: :mod:`treeleak.release.readers.release_file` (trees) and
:mod:`treeleak.release.readers.rule_file` (rules).
"""

from __future__ import annotations

import gc
import json
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from treeleak.core.errors import BadModel, TreeleakError
from treeleak.core.listed import unknown_keys
from treeleak.core.text_files import read_text
from treeleak.release.bounds import MOST_JSON_BYTES, MOST_JSON_LISTS, MOST_JSON_VALUES, at_most

LARGEST = float(np.finfo(float).max)
# Beyond this, whole floats stop being the only float that their digits name.
EXACT_WHOLE = 2**53
REQUIRED: Any = object()
_KINDS = {
    str: "text", int: "a whole number", bool: "true or false", list: "a list", dict: "an object",
}  # fmt: skip

Model = TypeVar("Model")


def read_json(
    source: str | Path,
    make: Callable[[Any], Model],
    *,
    constants: bool = False,
    number: Callable[[str], Any] | None = None,
) -> Model:
    """Read a file, or its text, and make something of what it holds.

    ``source``: the file, or its text (a ``str`` that starts with a brace). ``make``: gets what the
    JSON says. ``constants``: also read NaN and infinities, which some libraries write though JSON
    has none. ``number``: gets the text of each number, these included, and makes something of it.
    Raises BadModel, naming the file, and what ``make`` found wrong with it.
    """
    if isinstance(source, str) and source.lstrip().startswith("{"):
        text, where = source, ""
    else:
        text, where = read_text(source, MOST_JSON_BYTES), f"{source}: "
    try:
        return make(_parsed(text, constants, number))
    except (ValueError, RecursionError) as error:
        raise BadModel(f"{where}{error}") from error


def take(
    data: Mapping[str, Any], key: str, kind: type, default: Any = REQUIRED, where: str = ""
) -> Any:
    """Take the value of a key, which must be of one kind; a key left out gets its default."""
    if key not in data and default is REQUIRED:
        raise BadModel(f"{where}{key} is missing")
    value = data.get(key, default)
    if type(value) is not kind and not (value is None and default is None):
        raise BadModel(f"{where}{key} must be {_KINDS[kind]}, not {value!r:.40}")
    return value


def choice(
    data: Mapping[str, Any],
    key: str,
    choices: tuple[str, ...],
    default: Any = REQUIRED,
    where: str = "",
) -> Any:
    """Take a text that is one of a few."""
    value = take(data, key, str, default, where)
    if value not in choices:
        raise BadModel(f"{where}{key} is {value!r:.40}, must be one of {', '.join(choices)}")
    return value


def only(data: Mapping[str, Any], known: Iterable[str], where: str = "") -> None:
    """Refuse keys that nobody reads."""
    if unknown := set(data).difference(known):
        raise BadModel(f"{where}{unknown_keys(unknown, known)}")


def record(kind: type[Model], data: Mapping[str, Any], where: str) -> Model:
    """Make a dataclass of an object, which must hold what its fields are declared to be.

    Whole numbers are from 0 to 2^53, and others are finite. Raises BadModel, naming the key.
    """
    hints = get_type_hints(kind)
    own = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    only(data, own, where)
    if lacking := [name for name, f in own.items() if f.default is MISSING and name not in data]:
        raise BadModel(f"{where}{lacking[0]} is missing")
    given = {name: declared(hints[name], value, where + name) for name, value in data.items()}
    with located(where):
        return kind(**given)


_DECLARED: dict[Any, tuple[Callable[[Any], bool], str]] = {
    str: (lambda value: isinstance(value, str), "text"),
    bool: (lambda value: isinstance(value, bool), "true or false"),
    int: (lambda value: is_whole(value, 0, EXACT_WHOLE), "a whole number of 0 or more"),
    float: (lambda value: is_finite(value), "a number"),
}


def declared(hint: Any, value: Any, name: str) -> Any:
    """Take a value that is what a type hint says; of a dataclass, an object.

    Raises BadModel, which begins with ``name``, and the place within where there are several.
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin is types.UnionType:
        return None if value is None else declared(args[0], value, name)
    if origin in (tuple, frozenset) and isinstance(value, list):
        kinds = args if origin is tuple and args[-1] is not ... else args[:1] * len(value)
        if len(value) == len(kinds):
            items = enumerate(zip(kinds, value, strict=True))
            return origin(declared(each, item, f"{name}[{i}]") for i, (each, item) in items)
    if isinstance(value, dict) and origin is Mapping:
        return {key: declared(args[1], own, f"{name}: {key:.80}") for key, own in value.items()}
    if isinstance(value, dict) and isinstance(hint, type) and is_dataclass(hint):
        return record(hint, value, f"{name}: ")
    if origin is Literal and isinstance(value, str) and value in args:
        return value
    if hint in _DECLARED and _DECLARED[hint][0](value):
        return float(value) if hint is float else value
    due = _DECLARED[hint][1] if hint in _DECLARED else "an object"
    if origin in (tuple, frozenset):
        some = origin is tuple and args[-1] is not ...
        due = f"a list of {len(args)}" if some else "a list"
    elif origin is Literal:
        due = f"one of {', '.join(args)}"
    raise BadModel(f"{name} is {value!r:.40}, must be {due}")


def plain(value: Any) -> Any:
    """Describe a number, a text, several of them, or a dataclass, as JSON can hold it."""
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(own) for name, own in value.items()}
    if isinstance(value, (tuple, frozenset)):
        return [plain(v) for v in (value if isinstance(value, tuple) else sorted(value))]
    return value.item() if isinstance(value, np.generic) else value


@contextmanager
def located(where: str) -> Iterator[None]:
    """Let errors begin with the place that they speak of, unless they do so already."""
    try:
        yield
    except TreeleakError as error:
        if str(error).startswith(where):
            raise
        raise type(error)(f"{where}{error}") from error


def is_finite(value: Any) -> bool:
    """Say whether this is a number that a float can hold."""
    # A whole number beyond the floats' range has no float to be read as.
    return type(value) in (int, float) and -LARGEST <= value <= LARGEST


def is_whole(value: Any, start: int, stop: int) -> bool:
    """Say whether this is a whole number from ``start`` to below ``stop``."""
    return type(value) is int and start <= value < stop


def label(value: Any) -> Any:
    """Turn a class label into one that JSON can hold."""
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, (str, bool)) and not is_finite(plain):
        raise BadModel(f"class label {value!r:.40} is neither text, nor number, nor truth value")
    return str(plain) if isinstance(plain, str) else plain


def _parsed(text: str, constants: bool, number: Callable[[str], Any] | None) -> Any:
    # What it would take once it is read; texts that hold such letters count, too.
    at_most(MOST_JSON_LISTS, text.count("[") + text.count("{"), "lists and objects")
    at_most(MOST_JSON_VALUES, text.count(","), "values")
    collecting = gc.isenabled()
    # Looking for cycles among millions of lists takes longer than making them.
    gc.disable()
    try:
        known = number if constants or number is not None else _no_constant
        return json.loads(
            text, parse_constant=known, parse_float=number, parse_int=number,
            object_pairs_hook=_no_key_twice,
        )  # fmt: skip
    finally:
        if collecting:
            gc.enable()


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse what two readers could read in two ways."""
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError(f"a key stands twice in the object with the keys {list(out)[:5]!r:.200}")
    return out


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
