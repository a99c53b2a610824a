"""First part of an audit: everything in a model that stems from single rows, without a solver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from treeleak._private import dataclass
from treeleak.audit.rules import INTERNAL, RULES, SETTING, Change, Context, Mark, Rule
from treeleak.errors import BadModel
from treeleak.release.exchange import release_to_dict
from treeleak.release.rule_file import rules_to_dict
from treeleak.release.rule_list import RuleList
from treeleak.release.stored import Opaque, StoredObject
from treeleak.release.tree import Release

__all__ = ["Entry", "take_inventory"]

# A hostile file can refer to one object along exponentially many ways.
MOST_CONTAINERS = 200_000
CODE = "code, not data"

_LIBRARIES = ("sklearn.", "treeleak.learn.", "diffprivlib.")
_CONTAINERS = (StoredObject, Mapping, list, tuple, np.ndarray)
_ORDER: Mapping[Mark, int] = {"leaks": 0, "not assessed": 1, "harmless": 2}


@dataclass(frozen=True)
class Entry:
    """Something that a model holds.

    Attributes
    ----------
    where : str
        Place in the model; ``[*]`` stands for every item of a list.
    names : tuple of str
        Attributes there.
    mark : {"leaks", "harmless", "not assessed"}
    what, why : str
        In plain words.
    found : int
        How many such values there are.
    change : str or None
        Key of the advice that helps.
    rows : bool
        Whether training rows stand there as they are.
    """

    _said: ClassVar = ("mark", "what")

    where: str
    names: tuple[str, ...]
    mark: Mark
    what: str
    why: str
    found: int
    change: Change | None = None
    rows: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Describe the entry; no value of the model is in it."""
        return {
            "where": self.where,
            "names": list(self.names),
            "mark": self.mark,
            "what": self.what,
            "why": self.why,
            "found": self.found,
            "training_rows": self.rows,
        }


def take_inventory(model: StoredObject | Release | RuleList, context: Context) -> tuple[Entry, ...]:
    """List what a model holds, the leaks first.

    Parameters
    ----------
    model : StoredObject, Release or RuleList
    context : Context

    Returns
    -------
    tuple of Entry
        One for each place and rule; what no rule speaks of is "not assessed".
    """
    if isinstance(model, Release):
        model = StoredObject("release", release_to_dict(model))
    elif isinstance(model, RuleList):
        model = StoredObject("rules", rules_to_dict(model))
    found: dict[tuple[str, Rule], Counter[str]] = {}
    for part, rule in _judged(model, context):
        name = part.name if part.field is None or rule in RULES[:-1] else part.field
        found.setdefault((part.where, rule), Counter())[name] += 1
    entries = (
        Entry(
            where=where,
            names=tuple(names),
            mark=rule.mark,
            what=rule.what,
            why=rule.why,
            found=names.total(),
            change=rule.change,
            rows=rule.rows,
        )
        for (where, rule), names in sorted(found.items(), key=lambda item: _rank(item[0][1]))
    )
    return tuple(entries)


def _rank(rule: Rule) -> tuple[bool, int, int]:
    """Stored rows, then other leaks, then the rest; each in the order of the table."""
    place = RULES.index(rule) if rule in RULES else len(RULES)
    return not rule.rows, _ORDER[rule.mark], place


@dataclass(frozen=True)
class _Part:
    """A value on the walk: where it stands, who holds it under which name.

    What stands in a dictionary goes by its key, but a key may be a value out of a training row: it
    is shown only where a rule knows it, and else the attribute (``field``) that holds it all.
    """

    where: str
    owner: StoredObject
    name: str
    value: Any
    path: str
    field: str | None = None


def _judged(model: StoredObject, context: Context) -> Iterator[tuple[_Part, Rule]]:
    """Walk through all that is stored; a container that a rule knows is taken as a whole."""
    seen: set[tuple[int, str]] = set()
    stack = _members(model.name, model)
    while stack:
        part = stack.pop()
        if part.value is None or isinstance(part.value, (bool, np.bool_)):
            continue
        known = (r for r in RULES if r.matches(part.owner.name, part.name, part.value, context))
        if (rule := next(known, None)) is not None:
            yield part, rule
            continue
        inside = _inside(part)
        if inside is None:
            yield from ((part, rule) for rule in _fallback(part))
            continue
        # The same object at the same place says nothing new, however often it is referred to.
        key = (id(part.value), part.path)
        if key not in seen:
            seen.add(key)
            stack += inside
        if len(seen) > MOST_CONTAINERS:
            raise BadModel("the model is nested in more ways than any fitted model is")


def _fallback(part: _Part) -> Iterator[Rule]:
    value = part.value
    if isinstance(value, Opaque):
        if value.why != CODE:
            yield INTERNAL
    elif _is_setting(part):
        yield SETTING
    else:
        yield INTERNAL


def _is_setting(part: _Part) -> bool:
    """scikit-learn's habit: what is learnt ends in, what is internal starts with an underscore."""
    plain = not isinstance(part.value, np.ndarray) or part.value.ndim == 0
    inner = "_" in (part.name[:1], part.name[-1:])
    return part.owner.type.startswith(_LIBRARIES) and plain and not inner


def _members(path: str, owner: StoredObject) -> list[_Part]:
    parts = [_Part(path, owner, k, v, f"{path}.{k}") for k, v in owner.state.items()]
    if owner.args:
        parts.append(_Part(path, owner, "args", owner.args, f"{path}.args"))
    return parts[::-1]


def _inside(part: _Part) -> list[_Part] | None:
    """What a container holds; None for a value."""
    value, path = part.value, part.path
    if isinstance(value, StoredObject):
        return _members(path, value)
    if isinstance(value, Mapping):
        field = part.field or part.name
        return [_Part(path, part.owner, str(k), v, f"{path}[*]", field) for k, v in value.items()]
    if isinstance(value, np.ndarray) and value.dtype.names:
        columns = ((c, value[c]) for c in value.dtype.names)
        return [_Part(path, part.owner, c, v, f"{path}.{c}") for c, v in columns]
    if isinstance(value, np.ndarray) and value.dtype == object:
        value = value.ravel().tolist()
    if isinstance(value, (list, tuple)) and any(isinstance(v, _CONTAINERS) for v in value):
        return [replace(part, value=v, path=_item(part, v)) for v in value]
    return None


def _item(part: _Part, value: Any) -> str:
    """Items of a list are alike; an object in a tuple goes by its class."""
    if isinstance(part.value, tuple) and isinstance(value, StoredObject):
        return f"{part.path}.{value.name}"
    return part.path if isinstance(part.value, tuple) else f"{part.path}[*]"
