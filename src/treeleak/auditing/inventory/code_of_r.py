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
        plain = len(seen) <= _MOST_SEEN
        if isinstance(one, StoredObject) and _is_source(one):
            plain &= _is_plain_source(one)
        elif isinstance(one, StoredObject):
            plain &= one.type in (*_CODE, "R.vector", "R.srcref")
            plain &= n_constants(one) <= MOST_CONSTANTS
            stack += one.state.values()
        elif isinstance(one, Opaque):
            stack += _constants_of(one)
        elif isinstance(one, (Mapping, list, tuple)):
            stack += one.values() if isinstance(one, Mapping) else one
        elif isinstance(one, np.ndarray):
            plain &= one.size <= _MOST_TYPED
            stack += one.ravel()[:_MOST_TYPED].tolist()
        elif isinstance(one, (str, bytes)):
            plain &= len(one) <= forms.MAX_PROSE
        if not plain:
            return False
    return True


def _constants_of(code: Opaque) -> list[Any]:
    """List what byte code holds beside its instructions and their places."""
    if code.type != "R.bytecode" or not isinstance(code.content, list) or not code.content:
        return [code.content]
    instructions, *constants = code.content
    n = np.size(instructions) if isinstance(instructions, np.ndarray) else 0
    places = (s.get("value") if isinstance(s, StoredObject) and s.type in _PLACES else None
              for s in constants)  # fmt: skip
    return [
        inner
        for inner, at in zip(constants, places, strict=True)
        if not (isinstance(at, np.ndarray) and len(at) == n)
    ]


def _is_source(value: StoredObject) -> bool:
    """Say whether R keeps a source file here."""
    classes = value.get("class")
    named = isinstance(classes, tuple) and classes[0] in ("srcfile", "srcfilecopy", "srcfilealias")
    return value.type == "R.environment" and named


def _is_plain_source(value: StoredObject) -> bool:
    """Say whether what R keeps of a source file is its text, and where each token lies."""
    held = value.get("values")
    for name, inner in held.items() if isinstance(held, Mapping) else ():
        array = inner.get("value") if isinstance(inner, StoredObject) else inner
        if isinstance(array, np.ndarray) and name == "parseData":
            plain = array.ndim == 2 and len(array) == _TOKEN
        elif isinstance(array, np.ndarray) and name == "lines":
            likely = sum(forms.is_like_row(str(line).strip()) for line in array.ravel().tolist())
            plain = likely <= _MOST_LIKE_ROWS
        else:
            plain = array is None or (isinstance(array, np.ndarray) and array.size <= forms.SHORT)
        # An alias holds the file that it stands for.
        if not plain and not (isinstance(inner, StoredObject) and _is_source(inner)):
            return False
    return True
