"""Code of R in a file: calls, functions, byte code, and the text they were typed as.

A model keeps the call that made it, and functions with all that they refer to. Code that holds only
words and single numbers is what somebody typed; a table can stand in a call as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.auditing.inventory import forms
from treeleak.core.private import dataclass
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
_NAMED = ("R.symbol", "R.builtin")
_OPERANDS = (
    "00120002100310001000111111110101001000111111111111111111111101120"
    "2020202022000000000111121211101112100402211112222221122111200100"
)
"""How many numbers follow each instruction of R's byte code."""
_JUMPS = frozenset((2, 3, 7, 11, 12, 63, 65, 67, 69, 71, 88, 90, 104, 105, 110, 111, 123))
"""Instructions whose last number is the place of another."""
_OF_FUNCTIONS, _MOST_FUNCTIONS = (118, 119), 65
"""Instructions that number a function of C, or its arguments."""
_TOKEN = 8
"""Numbers that R keeps of each token of a source file."""


def is_code(value: Any) -> bool:
    """Say whether this is code, a formula or a name of a variable."""
    if isinstance(value, Opaque):
        return value.type == "R.bytecode"
    return isinstance(value, StoredObject) and (value.type in _CODE or _is_source(value))


@dataclass(frozen=True)
class Typed:
    """What code holds beside its words."""

    plain: bool | None
    """Whether these are words and single numbers, as what is typed; None where there are more, in
    all its calls together, than anybody types, or byte code that R does not compile."""
    numbers: tuple[Any, ...] = ()
    texts: frozenset[str] = frozenset()
    """Names and constants."""


def judged(value: Any) -> Typed:
    """Say whether code holds only words and single numbers, as what is typed does, and which."""
    stack, seen = [value], set()
    constants, plain = 0, True
    numbers, texts = list[Any](), set[str]()
    while stack:
        one = stack.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        plain &= len(seen) <= _MOST_SEEN
        if isinstance(one, StoredObject) and _is_source(one):
            plain &= _is_plain_source(one)
        elif isinstance(one, StoredObject) and one.type in _NAMED:
            plain &= forms.is_text(one.get("name"), forms.MAX_NAME)
            texts.add(str(one.get("name")))
            stack += [v for k, v in one.state.items() if k != "name"]
        elif isinstance(one, StoredObject):
            known = one.type in (*_CODE, "R.vector", "R.srcref")
            plain &= known
            stack += one.state.values() if known else ()
        elif isinstance(one, Opaque):
            inside = _constants_of(one)
            if inside is None:
                return Typed(None)
            stack += inside
        elif isinstance(one, (Mapping, list, tuple)):
            stack += one.values() if isinstance(one, Mapping) else one
        elif isinstance(one, np.ndarray):
            constants += 1
            plain &= one.size <= _MOST_TYPED
            stack += one.ravel()[:_MOST_TYPED].tolist()
        elif isinstance(one, (str, bytes)):
            plain &= len(one) <= forms.MAX_PROSE
            plain &= isinstance(one, bytes) or not forms.is_like_row(one)
            texts.add(str(one))
        elif isinstance(one, (int, float)):
            numbers.append(one)
        if constants > MOST_CONSTANTS or len(seen) > _MOST_SEEN:
            return Typed(None)
    return Typed(plain, tuple(numbers), frozenset(texts))


def _constants_of(code: Opaque) -> list[Any] | None:
    """List what byte code holds beside its instructions and their places; None if these are odd."""
    if code.type != "R.bytecode" or not isinstance(code.content, list) or not code.content:
        return [code.content]
    instructions, *constants = code.content
    starts = _starts(instructions, len(constants))
    if starts is None:
        return None
    kept = []
    for inner in constants:
        if isinstance(inner, StoredObject) and inner.type in _PLACES:
            if not _are_places(inner.get("value"), starts, len(constants)):
                return None
            kept += [v for k, v in inner.state.items() if k not in ("value", "class")]
        else:
            kept.append(inner)
    return kept


def _starts(instructions: Any, n_constants: int) -> NDArray[Any] | None:
    """Where in byte code the instruction starts that each number is of; None if it is no code."""
    if not isinstance(instructions, np.ndarray) or instructions.ndim != 1:
        return None
    numbers, starts, at = instructions.tolist(), [0], 1
    jumps = set()
    while at < len(numbers):
        if numbers[at] not in range(len(_OPERANDS)):
            return None
        n = int(_OPERANDS[numbers[at]])
        operands = numbers[at + 1 : at + 1 + n]
        starts += [at] * (n + 1)
        if numbers[at] in _JUMPS:
            jumps.add(operands.pop() if len(operands) == n else -1)
        most = _MOST_FUNCTIONS if numbers[at] in _OF_FUNCTIONS else max(n_constants, _MOST_TYPED)
        if not all(v in range(most) for v in operands):
            return None
        at += n + 1
    if at > max(len(numbers), 1) or not jumps <= {*starts}:
        return None
    return np.array(starts)


def _are_places(value: Any, starts: NDArray[Any], n_constants: int) -> bool:
    """Say whether each instruction, with its operands, has one constant that it comes from."""
    if (
        not isinstance(value, np.ndarray)
        or value.shape != starts.shape
        or value.dtype.kind not in "if"
    ):
        return False
    rest = value[1:]
    return bool(np.isin(rest, np.arange(n_constants)).all() and (rest == value[starts][1:]).all())


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
            plain = _are_tokens(array)
        elif isinstance(array, np.ndarray) and name == "lines":
            likely = sum(forms.is_like_row(str(line).strip()) for line in array.ravel().tolist())
            plain = likely <= _MOST_LIKE_ROWS
        else:
            plain = array is None or (isinstance(array, np.ndarray) and array.size <= forms.SHORT)
        # An alias holds the file that it stands for.
        if not plain and not (isinstance(inner, StoredObject) and _is_source(inner)):
            return False
    return True


def _are_tokens(array: NDArray[Any]) -> bool:
    """Say whether these are tokens of a file: from where to where, what, and within which."""
    if array.ndim != 2 or len(array) != _TOKEN or array.dtype.kind not in "if":
        return False
    first, _, last, _, terminal, _, number, parent = array
    ascending = bool(
        (np.diff(first) >= 0).all() and (first <= last).all() and (array[:6] >= 0).all()
    )
    inside = (
        np.isin(np.abs(parent), [0, *number.tolist()]).all() and np.isin(terminal, (0, 1)).all()
    )
    return ascending and bool(inside) and len(set(number.tolist())) == len(number)
