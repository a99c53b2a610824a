"""First part of an audit: everything in a model that stems from single rows, without a solver.

Every value is known by a rule, by name, type and size, or it is a finding: unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from treeleak.auditing.inventory.beside import holds_more, holds_parts, is_around, rule_beside
from treeleak.auditing.inventory.budget import within_budget
from treeleak.auditing.inventory.conditions import Change, Context, Rule
from treeleak.auditing.inventory.forms import SHORT, fitted, is_code, pieces, short
from treeleak.auditing.inventory.known_classes import is_name, is_plain_name, known_class
from treeleak.auditing.inventory.layouts import UNNAMED, laid_out
from treeleak.auditing.inventory.owners import hides_bits
from treeleak.auditing.inventory.r_objects import WALK as OF_R
from treeleak.auditing.inventory.rules import (
    INTERNAL,
    RULES,
    SEED_NAMES,
    SETTING,
    STORED,
    UNKNOWN,
)
from treeleak.auditing.inventory.shapes import Accounted
from treeleak.auditing.inventory.stored_rows import Held, Table, values_of_people
from treeleak.auditing.inventory.walks import Named, Walk
from treeleak.core.errors import BadModel
from treeleak.core.private import dataclass
from treeleak.formats.literals import Mark
from treeleak.release.readers.release_file import release_to_dict
from treeleak.release.readers.rule_file import rules_to_dict
from treeleak.release.release import Release
from treeleak.release.rule_list import RuleList
from treeleak.release.stored import Opaque, StoredObject

# A hostile file can refer to one object along exponentially many ways.
MOST_CONTAINERS = 200_000
WALKS: tuple[Walk, ...] = (OF_R,)
"""Of the kinds of objects that are not walked through by attributes of known classes."""
MOST_TOLD = 3
"""Sentences in numbers about one part of a model."""

_OWN = ("release", "rules")
_CONTAINERS = (StoredObject, Mapping, list, tuple, set, frozenset, np.ndarray)
_ORDER: Mapping[Mark, int] = {"leaks": 0, "not assessed": 1, "harmless": 2}
_BEFORE_NUMBER = re.compile(r"_+|(?<=[^\W\d])(?=\d)")
_HOLDS_OBJECTS = re.compile(
    "estimator|steps|transformer|regressor|classifier|kernel|init|random_state|loss|memory|cv|"
    "scor|imputer|remainder|func|base|dtype|schema|noise|calibrat|attributes|rules|encoder|cluster|"
    "owner"
)
"""Parameters in which an object may stand; all others are numbers and words."""
_IN_MEMORY = replace(
    UNKNOWN,
    what="bytes between the fields of nodes",
    why="Where a model was copied (copy.deepcopy), numpy leaves there what was in memory: anything "
    "that the program held, rows among it. Predictions do not need it.",
)


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
        Whether it holds training rows, or their labels, as they are.
    unknown : bool
        Whether no rule knows what it is: a table could stand there.
    told : str
        What a stranger reads there, in numbers of this model; for the owner only.
    held : Held or None
        How many different values it holds, where that is more than every second row has.
    in_order : bool
        Whether it holds a value for each row, in their order, that is none of the table itself.
    """

    _shown_fields: ClassVar = ("mark", "what")

    where: str
    names: tuple[str, ...]
    mark: Mark
    what: str
    why: str
    found: int
    change: Change | None = None
    rows: bool = False
    unknown: bool = False
    told: str = ""
    held: Held | None = None
    in_order: bool = False

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
            "unknown": self.unknown,
        } | ({"told": self.told} if self.told else {})


def take_inventory(
    model: StoredObject | Release | RuleList, context: Context, rows: Any = None
) -> tuple[Entry, ...]:
    """List what a model holds, the leaks first.

    ``rows`` (DataFrame or array): the training rows: what is unknown is searched for them. Returns
    one for each place and rule; what no rule speaks of is unknown.
    """
    if isinstance(model, Release):
        document = release_to_dict(model)
        for tree in document["trees"]:
            # By what they count: the reader has checked it, and every rule speaks of all.
            if "statistics" in tree:
                tree["statistics"] = list(tree["statistics"].values())
        # A list of no seeds says nothing.
        document["sampling"] = {k: v for k, v in document["sampling"].items() if v != []}
        model = StoredObject("release", document, leftovers=model.leftovers)
    elif isinstance(model, RuleList):
        model = StoredObject("rules", rules_to_dict(model))
    for walk in WALKS:
        context = walk.context(model, context) if walk.owns(model) or is_around(model) else context
    table = None if rows is None else Table.of(rows)
    context = context if table is None else replace(context, rows=rows, table=table)
    found: dict[tuple[str, Rule], Counter[str]] = {}
    descriptions: dict[tuple[str, Rule], dict[str, None]] = {}
    spread: dict[tuple[str, str, Rule], list[_Part]] = {}
    people: dict[tuple[str, Rule], Held] = {}
    for part, rule in within_budget(_judged(model, context)):
        if table is not None and not rule.rows and _searched(part, rule):
            rule = STORED if table.stands_in(part.value) else rule
        found.setdefault((part.where, rule), Counter())[_shown(part, rule)] += 1
        if _may_be_of_people(part, rule):
            held = values_of_people(part.value, part.owner, part.name, context.n_rows)
            if held is not None:
                key = (part.where, rule)
                people[key] = max(
                    people.get(key, held), held, key=lambda candidate: candidate.values
                )
        if in_numbers := rule.describe(part.value, part.owner):
            document = descriptions.setdefault((part.where, rule), {})
            if len(document) < MOST_TOLD:
                document[in_numbers] = None
        if table is not None and not rule.rows and _searched(part, rule):
            spread.setdefault((part.where, part.attribute, rule), []).append(part)
    for (where, *_), parts in spread.items():
        # What is short in every object can be a table in all of them together.
        # What is the same in all, as classes are, would spell rows of few columns by chance.
        values = [part.value for part in parts]
        differ = table is not None and len({_content(value) for value in values}) > 1
        if differ and table is not None and table.stands_in(values):
            found.setdefault((where, STORED), Counter())[_shown(parts[0], STORED)] += len(parts)
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
            unknown=rule.unknown,
            told=" ".join(
                filter(None, (rule.of_columns(context), *descriptions.get((where, rule), ())))
            ),
            held=people.get((where, rule)),
            in_order=rule.in_order,
        )
        for (where, rule), names in sorted(found.items(), key=lambda item: _rank(item[0][1]))
    )
    return tuple(entries)


def _content(value: Any) -> tuple[Any, ...]:
    """Tell equal values from others; an object equals itself alone."""
    held = pieces(value)
    others = (o.tobytes() if isinstance(o, np.ndarray) else id(o) for o in held.others)
    return (repr(held.scalars), *others)


def unknown_places(model: StoredObject) -> list[tuple[tuple[StoredObject, str], ...]]:
    """Find everything in a model that no rule knows.

    Returns for each value the object and the attribute in which it stands, and those around it.
    """
    context = Context(drawn=None, missing=None)
    judged = within_budget(_judged(model, context))
    unknown = (p for p, rule in judged if rule.unknown and (p.above or not p.left_over))
    return [tuple(part.holders()) for part in unknown]


def _rank(rule: Rule) -> tuple[bool, int, bool, int]:
    """Stored rows, then other leaks, then the unknown, then the rest in the order of the table."""
    place = RULES.index(rule) if rule in RULES else len(RULES)
    return not rule.rows, _ORDER[rule.mark], not rule.unknown, place


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
    above: _Part | None = None
    left_over: bool = False

    @property
    def attribute(self) -> str:
        """The attribute of the owner in which the value stands."""
        return self.name if self.field is None else self.field

    def holders(self) -> Iterator[tuple[StoredObject, str]]:
        """List the object that holds the value, the one that holds that, and so on."""
        part: _Part | None = self
        while part is not None:
            yield part.owner, part.attribute
            part = part.above


def _shown(part: _Part, rule: Rule) -> str:
    known = rule in RULES and not rule.unknown
    if is_around(part.owner):
        return part.attribute
    name = part.name if known else part.attribute
    # A name that somebody chose can hold data as well.
    return name if known or part.left_over or is_plain_name(name) else UNNAMED


def _may_be_of_people(part: _Part, rule: Rule) -> bool:
    """Whether to count values: not in settings or averages, nor where a finding says more."""
    if rule.rows or rule.unknown or rule.names == SEED_NAMES:
        return False
    if _walk_of(part.owner) and not isinstance(part.value, np.ndarray):
        return False
    # Those of encoders of labels are the values of a column.
    return rule.mark != "harmless" or part.name == "classes_"


def _searched(part: _Part, rule: Rule) -> bool:
    """Whether to look for rows: not in the counts of trees, where small numbers meet by chance."""
    return rule.unknown or (part.owner.name not in ("Tree", "TreePredictor", *_OWN))


def _judged(model: StoredObject, context: Context) -> Iterator[tuple[_Part, Rule]]:
    """Walk through all that is stored; a container that a rule knows is taken as a whole."""
    seen: set[tuple[int, str]] = set()
    stack = _members(model.name, model)
    of_model = _walk_of(model)
    if of_model is not None:
        # What such a file holds may itself be a table.
        whole = StoredObject(f"{model.type.partition('.')[0]}.file", {model.name: model})
        stack = [
            _Part(model.name, whole, model.name, model, model.name),
            *(part for part in stack if part.left_over),
        ]
    while stack:
        part = stack.pop()
        rule = UNKNOWN if part.left_over else _known(part, context)
        walk = _walk_of(part.owner, part.value)
        # Environments of R refer to each other, and to themselves.
        key = (id(part.value), part.path if walk is None else "")
        if rule is not None:
            if walk and not part.left_over and rule not in walk.alone and key not in seen:
                # Attributes of a table, or of a vector, can hold others.
                rest = walk.beside(part.value)
                seen.update([key] if rest else [])
                stack += _parts(part, rest)
            # Flags and what is left empty would only fill the list.
            if rule.unknown or not _is_flag(part.value):
                yield part, rule
            continue
        # The same object at the same place says nothing new, however often it is referred to.
        if key not in seen:
            seen.add(key)
            judged, inside = _apart(part, context)
            yield from judged
            stack += inside
        if len(seen) > (MOST_CONTAINERS if of_model is None else of_model.most):
            raise BadModel("the model is nested in more ways than any fitted model is")


def _is_flag(value: Any) -> bool:
    empty = isinstance(value, Opaque) and value.content is None
    return value is None or empty or isinstance(value, (bool, np.bool_))


def _known(part: _Part, context: Context) -> Rule | None:
    """Find the rule that knows a value as a whole; None if it must be taken apart."""
    if (walk := _walk_of(part.owner, part.value)) is not None:
        return _of_class(part, context) or walk.rule(part.owner, part.name, part.value, context)
    if (beside := rule_beside(part.owner, part.name, part.value, context)) is not None:
        return beside
    if any(map(hides_bits, _arrays(part.value))):
        return UNKNOWN
    known_type = known_class(part.owner.type)
    ours = part.owner.type in _OWN
    held, accounted = _is_held(part), isinstance(part.owner, Accounted)
    if held and part.value is None:
        return SETTING
    misfit = False
    for rule in _rules_of(part.owner.name, part.name):
        # What a rule of its own class does not recognise is no formula's numbers, either.
        if misfit and rule.form is fitted:
            continue
        # The form first: what a rule asks of a value takes its form for granted.
        fits = rule.rows or accounted or (held and rule.form(part.value, part.owner))
        if fits and rule.when(part.value, context):
            return rule
        misfit |= not fits and (ours or rule.owner != "*")
    if held and (is_code(part.value) or (accounted and not _holds_objects(part.value))):
        return SETTING
    # What a rule of its own class does not recognise is nothing else of that class, either.
    if ours and misfit:
        return _unknown(part.value, context)
    if held and not misfit and known_type is not None and short(part.value, part.owner):
        return SETTING if part.attribute in known_type.parameters else INTERNAL
    if isinstance(part.value, _CONTAINERS):
        return None
    return SETTING if ours and _is_flag(part.value) else _unknown(part.value, context)


def _of_class(part: _Part, context: Context) -> Rule | None:
    """Find the rule of a field of a known class."""
    if not _is_held(part) or any(map(hides_bits, _arrays(part.value))):
        return None
    of_class = (r for r in _rules_of(part.owner.name, part.name) if r.owner != "*")
    fitting = (r for r in of_class if r.rows or r.form(part.value, part.owner))
    return next((r for r in fitting if r.when(part.value, context)), None)


def _arrays(value: Any) -> Iterator[Any]:
    """Arrays and numbers of numpy in a value, as far as a rule takes it as a whole."""
    if isinstance(value, (np.ndarray, np.floating)):
        yield from value.ravel().tolist() if value.dtype == object else (value,)
    elif isinstance(value, (list, tuple)):
        yield from value


@lru_cache(4096)
def _rules_of(owner: str, name: str) -> tuple[Rule, ...]:
    """List the rules that speak of attributes of this name."""
    return tuple(rule for rule in RULES[:-1] if rule.names_it(owner, name))


def _is_held(part: _Part) -> bool:
    """Whether objects of the owner's class have something of this name."""
    known_type = known_class(part.owner.type)
    ours = part.owner.type in _OWN or isinstance(part.owner, Accounted)
    return ours or (known_type is not None and known_type.holds(part.attribute))


def _holds_objects(value: Any) -> bool:
    items = value if isinstance(value, list) else [value]
    return any(isinstance(item, StoredObject) for item in items)


def _members(path: str, owner: StoredObject, above: _Part | None = None) -> list[_Part]:
    owner = laid_out(owner)
    held = [*owner.state.items(), *([("args", owner.args)] if owner.args else [])]
    parts = [_Part(path, owner, k, v, f"{path}.{k}", above=above) for k, v in held[::-1]]
    for left in owner.leftovers:
        where = left.where if above is None else f"{path}: {left.where}"
        parts.append(_Part(where, owner, left.what, left.content, where, None, above, True))
    return parts


def _apart(part: _Part, context: Context) -> tuple[list[tuple[_Part, Rule]], list[_Part]]:
    """Take a container apart: what is told of its own values, and the parts within it."""
    value, path = part.value, part.path
    if (walk := _walk_of(part.owner)) is not None:
        odd = walk.is_odd(value)
        return [(part, UNKNOWN)] if odd else [], _parts(part, walk.inside(value))
    if isinstance(value, StoredObject):
        known_type = known_class(part.owner.type)
        known = known_type is not None or part.owner.type in _OWN
        odd = not is_name(value.type) or (known and not _is_held(part))
        if known_type is not None and part.attribute in known_type.parameters:
            # A class may leave all that it holds to its private twin, as SciPy's BSpline does.
            twin = value.type == f"{part.owner.type.rpartition('.')[0]}._{part.owner.name}"
            odd |= not (twin or _HOLDS_OBJECTS.search(part.attribute))
        return [(part, UNKNOWN)] if odd else [], _members(path, value, part)
    objects = [o for o in pieces(value).others if isinstance(o, StoredObject)]
    inside = [replace(part, value=o, path=f"{path}[*]") for o in objects]
    if is_around(part.owner) and (isinstance(value, Mapping) or holds_parts(value)):
        if holds_more(value, part.name):
            return [(part, UNKNOWN)], _files(part)
        return [(part, STORED)] if _rows_in_names(value, context) else [], _files(part)
    if isinstance(value, Mapping):
        if not _is_held(part) and not any(_names_rows(part.owner, str(k)) for k in value):
            return [(part, _unknown(value, context))], inside
        # Values by their keys: plain ones are known together or not at all.
        at = part.path
        inside = [
            replace(part, where=at, name=str(k), value=v, path=f"{at}[*]", field=part.attribute)
            for k, v in part.value.items()
        ]
        odd = part.owner.type not in _OWN and any(not is_name(str(k)) for k in part.value)
        return [(part, UNKNOWN)] if odd else [], inside
    if isinstance(value, np.ndarray) and value.dtype.names:
        inside = [
            replace(
                part, where=path, name=c, value=value[c], path=f"{path}.{c}", field=part.attribute
            )
            for c in value.dtype.names
        ]
        return [(part, _IN_MEMORY)] if _padded(value) else [], inside
    if isinstance(value, np.ndarray) and value.dtype != object:
        return [(part, _unknown(value, context))], []
    items = value.ravel().tolist() if isinstance(value, np.ndarray) else list(value)
    if (
        part.owner.type in _OWN
        or (objects and len(pieces(value).scalars) <= SHORT + 8 * len(objects))
        or (_is_held(part) and all(isinstance(v, np.ndarray) for v in items))
    ):
        return [], [replace(part, value=v, path=_item(part, v)) for v in items]
    return [(part, _unknown(value, context))], inside


def _walk_of(*values: Any) -> Walk | None:
    """Find how objects are walked through of whose kind one of these is; None of known classes."""
    return next((walk for walk in WALKS if any(map(walk.owns, values))), None)


def _parts(part: _Part, inside: Iterable[Named]) -> list[_Part]:
    """Parts of a container, each of which goes by its name."""
    value, path = part.value, part.path
    if isinstance(value, StoredObject) and _walk_of(value) is None:
        return _members(path, value, part)
    owner = value if isinstance(value, StoredObject) else part.owner
    found = [
        _Part(path, owner, k, v, f"{path}.{k}", above=part)
        if k is not None
        else replace(part, value=v, path=f"{path}[*]")
        for k, v in inside
    ]
    return found[::-1]


def _rows_in_names(value: Any, context: Context) -> bool:
    """Say whether training rows stand in the names of files, or in the keys of a dictionary."""
    if context.table is None or not isinstance(value, Mapping):
        return False
    return context.table.stands_in([_BEFORE_NUMBER.sub(" ", str(key)) for key in value])


def _names_rows(owner: StoredObject, name: str) -> bool:
    return any(r.rows and r.names != "*" for r in _rules_of(owner.name, name))


def _files(part: _Part) -> list[_Part]:
    """Parts of a folder, or of what is put around a model: each at a place of its own."""
    inside = part.value.items() if isinstance(part.value, Mapping) else enumerate(part.value)
    at = part.path.removesuffix(".value")
    return [
        replace(part, where=place, name=str(k), value=v, path=place, field=str(k))
        for k, v, place in ((k, v, f"{at}[{k!r:.80}]") for k, v in inside)
    ]


def _unknown(value: Any, context: Context) -> Rule:
    last = RULES[-1]
    return last if last.when(value, context) else UNKNOWN


def _padded(array: np.ndarray[Any, Any]) -> bool:
    """Whether something stands in the bytes between the fields of records."""
    fields = array.dtype.fields or {}
    unused = np.ones(array.dtype.itemsize, dtype=bool)
    for dtype, offset, *_ in fields.values():
        unused[offset : offset + dtype.itemsize] = False
    if not unused.any():
        return False
    raw = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
    return bool(raw.reshape(-1, array.dtype.itemsize)[:, unused].any())


def _item(part: _Part, value: Any) -> str:
    """Items of a list are alike; an object in a tuple goes by its class."""
    if isinstance(part.value, tuple) and isinstance(value, StoredObject):
        return f"{part.path}.{value.name}"
    return part.path if isinstance(part.value, tuple) else f"{part.path}[*]"
