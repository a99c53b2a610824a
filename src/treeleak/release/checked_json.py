"""JSON taken for hostile: nothing in it is run, and its size is bounded before it is parsed.

What must be in a release file or a rule file, :mod:`treeleak.formats` says.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from treeleak.core.declared import LARGEST
from treeleak.core.errors import BadModel, TreeleakError
from treeleak.core.output import read_text
from treeleak.release.bounds import MOST_JSON_BYTES, MOST_JSON_LISTS, MOST_JSON_VALUES, at_most

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
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            behind, place = len(text[error.pos :].encode()), f"line {error.lineno}"
            hint = f"{behind:,} bytes follow the end of the JSON ({place}, column {error.colno})"
            raise ValueError(f"{hint}: they belong to no model; save it again") from None
        at_the_end = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        if not text or not at_the_end:
            raise
        hint = "the text ends too early; if a program wrote it, copy or save it again"
        raise ValueError(f"{error}: {hint}") from None
    finally:
        if collecting:
            gc.enable()


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse what two readers could read in two ways."""
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError(f"a key appears twice in the object with the keys {list(out)[:5]!r:.200}")
    return out


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
