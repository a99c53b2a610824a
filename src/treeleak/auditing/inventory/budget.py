"""What is short in every place can be a table in all places together: one budget for a model.

Settings and other short values are harmless by their size alone. So all of them are counted over
the whole model, by class and attribute: a value that all objects of a class share counts once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Set
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from treeleak.auditing.inventory import forms
from treeleak.auditing.inventory.code_of_r import judged
from treeleak.auditing.inventory.conditions import Rule
from treeleak.auditing.inventory.forms import SHORT, pieces
from treeleak.auditing.inventory.known_classes import FILES, LIGHTGBM, PARTS
from treeleak.auditing.inventory.owners import checked_by_reader, follows_from_nodes
from treeleak.auditing.inventory.rules import INTERNAL, SETTING, UNKNOWN
from treeleak.auditing.inventory.rules_of_r import ABOUT_COLUMNS, CODE, SETTINGS
from treeleak.auditing.inventory.vectors_of_r import columns_of, vector_of
from treeleak.release.stored import Opaque, StoredObject

WORD = 16
"""Mean length of the value of a setting: the words that scikit-learn's options take are shorter,
and so are numbers that someone chose."""
_DIGITS, _LEAST_STEM = 8, 3
NAMES, _IN_NAME = "names of columns and classes", 3
"""What rules call them; numbers in one, as a day and the ends of an interval of a column have."""
MOST_LONG = 128
"""Numbers of more than one digit among settings and code of an object of R: up to 57 were found in
models of rpart, randomForest, ranger, gbm, partykit and caret that nobody had put anything in."""
MOST_TYPED = 1024
"""Numbers in all code of an object of R, of one digit too: up to 84 were found."""
_DRAWN = 1 << 20
"""Of seeds that are drawn below 2^31, one in 2,000 is smaller."""


class Part(Protocol):
    """A value on the walk through a model."""

    @property
    def owner(self) -> StoredObject:
        """The object that holds it."""

    @property
    def value(self) -> Any:
        """What stands there."""

    @property
    def attribute(self) -> str:
        """The attribute of the owner."""


AnyPart = TypeVar("AnyPart", bound=Part)
Judged = list[tuple[AnyPart, Rule]]


def within_budget(judged: Iterable[tuple[AnyPart, Rule]]) -> Judged[AnyPart]:
    """Call unknown what is more than all settings, names and seeds of a model come to."""
    parts = list(judged)
    # Of files of boosting libraries, the rules bound each part.
    judged_parts = [
        (part, rule)
        for part, rule in parts
        if not (rule.rows or rule.unknown or checked_by_reader(part.owner))
        and part.owner.type not in FILES
        and not part.owner.type.startswith(PARTS)
        and not follows_from_nodes(part.owner, part.attribute, part.value)
    ]
    names = [part for part, rule in judged_parts if rule.form is forms.names]
    columns = max((_texts(part.value) for part in names), key=len, default=frozenset())
    over = _names(names, columns)
    over |= _settings([part for part, rule in judged_parts if _is_short(rule)], columns)
    over |= _seeds([part for part, rule in judged_parts if rule.form is forms.seeds])
    over |= _figures(
        [(p, _texts_in(p, rule)) for p, rule in parts if rule.what == NAMES or rule.texts]
    )
    over |= _typed([(p, rule) for p, rule in parts if rule in (CODE, SETTINGS)])
    over |= _about([part for part, rule in parts if rule is ABOUT_COLUMNS])
    return [(part, UNKNOWN if id(part) in over else rule) for part, rule in parts]


def _is_short(rule: Rule) -> bool:
    return rule in (SETTING, INTERNAL) or rule.form in (forms.short, forms.prose)


def _by_name(
    parts: Iterable[AnyPart], held: Callable[[Any], Iterable[Any]]
) -> dict[tuple[str, str], tuple[set[Any], list[AnyPart]]]:
    found: dict[tuple[str, str], tuple[set[Any], list[AnyPart]]] = defaultdict(lambda: (set(), []))
    for part in parts:
        values, same_name = found[part.owner.name, part.attribute]
        values.update(held(part.value))
        same_name.append(part)
    return found


def _settings(parts: list[AnyPart], columns: frozenset[str]) -> set[int]:
    """One value for each name, and as many again, or as many as a single setting may have."""
    free = {repr(column) for column in columns}
    by_name = _by_name(parts, lambda value: [_content(value, free)])
    contents = {content for contents_of_name, _ in by_name.values() for content in contents_of_name}
    # What several classes have alike, as a forest and its trees do, counts once.
    wide = sum(len(content) - 1 for content in contents if content)
    many = wide + sum(len(contents_of_name) - 1 for contents_of_name, _ in by_name.values()) > max(
        SHORT, len(by_name)
    )
    length = {content: sum(map(len, content)) for content in contents}
    long = sum(length.values()) > WORD * len(by_name) + _DIGITS * SHORT
    return {
        id(part)
        for contents_of_name, held in by_name.values()
        if (
            many
            and (len(contents_of_name) > 1 or any(len(content) > 1 for content in contents_of_name))
        )
        or (long and sum(length[content] for content in contents_of_name) > WORD)
        for part in held
    }


def _content(value: Any, free: Set[str] = frozenset()) -> tuple[str, ...]:
    code = (o.type for o in pieces(value).others if isinstance(o, Opaque))
    return (*code, *(text for v in _scalars(value) if (text := repr(v)) not in free))


def _entries(array: NDArray[Any]) -> list[Any]:
    """List the entries; an array that counts from 0, as codes of categories do, tells its size."""
    counted = array.size > 1 and np.array_equal(array, np.arange(array.size))
    return [range(array.size)] if counted else array.ravel().tolist()


def _texts(value: Any) -> frozenset[str]:
    return frozenset(v for v in _scalars(value) if isinstance(v, str))


def _scalars(value: Any) -> list[Any]:
    """List numbers and texts, those in arrays, too."""
    held = pieces(value)
    arrays = (_entries(a) for a in held.others if isinstance(a, np.ndarray))
    raw = (list(b) for b in held.others if isinstance(b, bytes))
    return [*held.scalars, *(v for array in (*arrays, *raw) for v in array)]


def _names(parts: list[AnyPart], columns: frozenset[str]) -> set[int]:
    """Names of columns, names made of these (``num__age``), and a few others."""
    stems = {name.rpartition("__")[2] for name in columns}
    stems = {f"__{stem}" if len(stem) < _LEAST_STEM else stem for stem in stems}
    others = [_texts(part.value) - columns for part in parts]
    strange = {t for texts in set(others) for t in texts if not any(s in t for s in stems)}
    if len(strange) <= SHORT:
        return set()
    return {id(part) for part, texts in zip(parts, others, strict=True) if texts & strange}


def _texts_in(part: Part, rule: Rule) -> frozenset[str]:
    """List the texts in a part that somebody chose; in R, with the name under which it stands."""
    if rule is CODE:
        return judged(part.value).texts | {part.attribute}
    texts = _texts(part.value)
    if part.owner.type == LIGHTGBM:
        return frozenset(word for text in texts for word in text.split())
    return texts | ({part.attribute} if part.owner.type.startswith("R.") else set())


def _figures(parts: list[tuple[AnyPart, frozenset[str]]]) -> set[int]:
    """Names have few numbers in them, and lines of a table many."""
    many: dict[int, int] = {}
    seen: set[str] = set()
    for part, texts in parts:
        for text in texts - seen:
            if (more := forms.figures(text) - _IN_NAME) > 0:
                many[id(part)] = many.get(id(part), 0) + more
        seen |= texts
    return {*many} if sum(many.values()) > SHORT else set()


def _typed(parts: Judged[AnyPart]) -> set[int]:
    """Numbers that somebody typed, or set, have one digit mostly: those with more are few.

    In R, any object can have settings of any name, and any number of functions.
    """
    longer: set[tuple[Any, ...]] = set()
    holding: set[int] = set()
    for part, rule in parts:
        typed = rule is CODE
        listed = judged(part.value).numbers if typed else _numbers_of(part.value)
        for k, number in enumerate(listed):
            if forms.is_long(number):
                # A part of code has its numbers for itself; copies of a setting count once.
                longer.add((id(part), k) if typed else (part.attribute, number))
                holding.add(id(part))
    code = {id(part): len(judged(part.value).numbers) for part, rule in parts if rule is CODE}
    holding |= {*code} if sum(code.values()) > MOST_TYPED else set()
    return holding if len(longer) > MOST_LONG or sum(code.values()) > MOST_TYPED else set()


def _about(parts: list[AnyPart]) -> set[int]:
    """A few numbers for each column: many tables of them are one on its side."""
    tables = {id(p.value): found for p in parts if (found := columns_of(p.value)) is not None}
    lines = max((table.lines for table in tables.values()), default=0)
    numbers = sum(table.lines * len(table.columns) for table in tables.values())
    return {id(p) for p in parts} if numbers > max(SHORT, 2 * lines) * lines else set()


def _numbers_of(value: Any) -> list[Any]:
    array = vector_of(value)
    return array.ravel().tolist() if isinstance(array, np.ndarray) else [value]


def _seeds(parts: list[AnyPart]) -> set[int]:
    """One generator for each name; seeds that are drawn are large, and those chosen are few."""
    generators = [part for part in parts if isinstance(part.value, StoredObject)]
    by_name = _by_name(generators, lambda value: [_content((value.state, value.args))])
    over = {
        id(part)
        for values, same_name in by_name.values()
        if sum(len(v) for v, _ in by_name.values()) > len(by_name) and len(values) > 1
        for part in same_name
    }
    small = _by_name(parts, lambda value: {v for v in _numbers(value) if abs(v) < _DRAWN})
    return over | {
        id(p) for values, same_name in small.values() if len(values) > SHORT for p in same_name
    }


def _numbers(value: Any) -> list[int]:
    return [int(v) for v in pieces(value).scalars if isinstance(v, (int, np.integer))]
