"""Code of R in a file: calls, functions, byte code, and the text they were typed as.

A model keeps the call that made it, and functions with all that they refer to. Code that holds only
words and single numbers is what somebody typed; a table can stand in a call as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from treeleak.auditing.inventory import forms
from treeleak.release.stored import Opaque, StoredObject

MOST_CONSTANTS = 64
"""In one call: more were not typed by anybody."""
_MOST_LIKE_ROWS = 5
"""Lines of a source file that look like lines of a table."""
_MOST_TYPED = 4
"""Numbers in one constant of code: R computes ``1:4`` when it compiles."""
_MOST_SEEN = 100_000
_CODE = ("R.call", "R.symbol", "R.builtin", "R.expression")
_PLACES = ("R.expressionsIndex", "R.srcrefsIndex")
"""For each instruction: which constant says where it comes from."""
_SOURCE = ("srcfile", "srcfilecopy", "srcfilealias")
_TOKEN = 8
"""Numbers that R keeps of each token of a source file."""


def is_code(value: Any) -> bool:
    """Say whether this is code, a formula or a name of a variable."""
    if isinstance(value, Opaque):
        return value.type == "R.bytecode"
    return isinstance(value, StoredObject) and (value.type in _CODE or _is_source(value))


def n_constants(value: Any) -> int:
    """Count the constants in the arguments of a call."""
    arguments = value.get("arguments") if isinstance(value, StoredObject) else None
    return sum(isinstance(inner, np.ndarray) for _, inner in arguments or ())


def is_plain_code(value: Any) -> bool:
    """Say whether code holds no more than words and single numbers, as what is typed does."""
    stack, seen = [value], set()
    while stack:
        one = stack.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if len(seen) > _MOST_SEEN:
            return False
        if isinstance(one, StoredObject):
            if _is_source(one):
                if not _is_plain_source(one):
                    return False
            elif (
                one.type not in (*_CODE, "R.vector", "R.srcref")
                or n_constants(one) > MOST_CONSTANTS
            ):
                return False
            else:
                stack += one.state.values()
        elif isinstance(one, Opaque):
            stack += _constants_of(one)
        elif isinstance(one, Mapping):
            stack += one.values()
        elif isinstance(one, (list, tuple)):
            stack += one
        elif isinstance(one, np.ndarray):
            if one.size > _MOST_TYPED:
                return False
            stack += one.ravel().tolist()
        elif isinstance(one, (str, bytes)) and len(one) > forms.MAX_PROSE:
            return False
    return True


def _constants_of(code: Opaque) -> list[Any]:
    """List what byte code holds beside its instructions and their places."""
    if code.type != "R.bytecode" or not isinstance(code.content, list) or not code.content:
        return [code.content]
    instructions, *constants = code.content
    n = len(instructions) if isinstance(instructions, np.ndarray) else 0
    return [
        inner
        for inner in constants
        if not (
            isinstance(inner, StoredObject)
            and inner.type in _PLACES
            and isinstance(places := inner.get("value"), np.ndarray)
            and len(places) == n
        )
    ]


def _is_source(value: StoredObject) -> bool:
    classes = value.get("class")
    return value.type == "R.environment" and isinstance(classes, tuple) and (classes[0] in _SOURCE)


def _is_plain_source(value: StoredObject) -> bool:
    """Say whether what R keeps of a source file is its text, and where each token lies."""
    held = value.get("values")
    for name, inner in held.items() if isinstance(held, Mapping) else ():
        array = inner.get("value") if isinstance(inner, StoredObject) else inner
        if name == "parseData":
            if not isinstance(array, np.ndarray) or array.ndim != 2 or len(array) != _TOKEN:
                return False
        elif name == "lines" and isinstance(array, np.ndarray):
            lines = [str(line).strip() for line in array.tolist()]
            if sum(map(forms.is_like_row, lines)) > _MOST_LIKE_ROWS:
                return False
        elif not ((isinstance(array, np.ndarray) and array.size <= forms.SHORT) or array is None):
            return isinstance(inner, StoredObject) and _is_source(inner)
    return True
