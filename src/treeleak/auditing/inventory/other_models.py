"""Fitted tree models in a file that no attack looks at.

A pipeline's step, a bagging's base or an attribute that someone added can hold a fitted model
beside the one that is attacked. It discloses its training rows just as much. So trees are searched
for everywhere in a file, by what they are and not by what holds them, and those that the release
was read from are set aside one by one.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from treeleak.auditing.inventory.known_classes import is_plain_name
from treeleak.core.errors import BadInput, BadModel, NotCovered, TimeUp
from treeleak.core.private import dataclass
from treeleak.release.adapters.sklearn.containers import AROUND
from treeleak.release.containers.bundle import Bundle
from treeleak.release.registry import has_adapter, to_release
from treeleak.release.release import Release
from treeleak.release.stored import Opaque, StoredObject

_TREES = ("Tree", "TreePredictor")
_CONTENT = ("nodes", "values", "handle", "_handle", "__model")
"""What trees and boosters hold themselves."""
_OF_NODES = ({"left_child", "right_child"}, {"left", "right", "feature_idx"})
"""Fields of the records in which libraries keep the nodes of a tree."""


@dataclass(frozen=True)
class OtherModel:
    """A fitted tree model that no attack looks at."""

    place: str
    """Attributes and items on the way to it from the model as a whole."""
    name: str
    """Its class."""
    release: Release | None
    """The model by itself; None where it cannot be read."""
    leaves: NDArray[Any] | None = None
    """Rows in the leaves of a tree that cannot be read as a model, as far as they are known."""


@dataclass(frozen=True, eq=False)
class _Visit:
    """A value on the walk, and what holds it."""

    value: Any
    place: str
    above: _Visit | None = None

    def around(self) -> Iterator[_Visit]:
        """Itself, what holds it, what holds that, and so on."""
        at: _Visit | None = self
        while at is not None:
            yield at
            at = at.above


def other_models(model: StoredObject, release: Release | None) -> tuple[OtherModel, ...]:
    """List the fitted tree models in a file beside the one that a release was read from.

    Parameters
    ----------
    model : StoredObject
    release : Release or None
        What the audit attacks; None if it attacks nothing.
    """
    seen = {_key(source) for source in (() if release is None else release.sources)}
    visits = list(_walk(model))
    order = {id(visit): k for k, visit in enumerate(visits)}
    trees = [visit for visit in visits if _is_tree(visit)]
    holding = {id(up) for visit in trees for up in visit.around()}
    # Libraries that keep no tree of their own in view: the whole object is the model.
    trees += [v for v in visits if _has_adapter(v.value) and id(v) not in holding]
    read: dict[int, Release | Literal["not fitted"] | None] = {}
    if release is not None:
        read[id(model)] = release
    found: list[tuple[int, OtherModel]] = []
    for tree in trees:
        if _key(tree.value) in seen:
            continue
        model_read: Release | Literal["not fitted"] | None = None
        for holder in reversed([v for v in tree.around() if _has_adapter(v.value)]):
            key = id(holder.value)
            model_read = read[key] if key in read else read.setdefault(key, _read(holder.value))
            if not isinstance(model_read, Release):
                continue
            sources = {_key(source) for source in model_read.sources}
            if holder is tree or _key(tree.value) in sources:
                if not sources <= seen:
                    other = OtherModel(holder.place, holder.value.name, model_read)
                    found.append((order[id(holder)], other))
                seen |= sources
                break
        else:
            if model_read != "not fitted" or not _has_adapter(tree.value):
                name = tree.value.name if isinstance(tree.value, StoredObject) else "Tree"
                other = OtherModel(tree.place, name, None, _leaves(tree.value))
                found.append((order[id(tree)], other))
    return tuple(other for _, other in sorted(found, key=lambda item: item[0]))


def _key(value: Any) -> Any:
    """Tell trees apart; a copy that is equal byte for byte says nothing new."""
    held = [value.get(name) for name in _CONTENT] if isinstance(value, StoredObject) else []
    raw = [
        h.tobytes() if isinstance(h, np.ndarray) else h.encode() if isinstance(h, str) else h
        for h in held
        if isinstance(h, (str, bytes)) or (isinstance(h, np.ndarray) and not h.dtype.hasobject)
    ]
    return hashlib.sha256(b"".join(raw)).digest() if any(raw) else id(value)


def _read(stored: StoredObject) -> Release | Literal["not fitted"] | None:
    try:
        return to_release(stored)
    except TimeUp:
        raise
    except (BadModel, NotCovered):
        return None
    except BadInput:
        return "not fitted"


def _has_adapter(value: Any) -> bool:
    return isinstance(value, StoredObject) and value.name not in AROUND and has_adapter(value)


def _is_tree(visit: _Visit) -> bool:
    value = visit.value
    if isinstance(value, StoredObject):
        return value.name in _TREES and bool(value.state)
    if not isinstance(value, np.ndarray) or value.dtype.names is None:
        return False
    of_tree = visit.above is not None and _is_tree(visit.above)
    return not of_tree and any(fields <= set(value.dtype.names) for fields in _OF_NODES)


def _leaves(value: Any) -> NDArray[Any] | None:
    """Rows in the leaves of a tree of scikit-learn's."""
    nodes = value.get("nodes") if isinstance(value, StoredObject) else value
    fields = (nodes.dtype.names or ()) if isinstance(nodes, np.ndarray) else ()
    found: NDArray[Any] | None = None
    if {"left_child", "n_node_samples"} <= set(fields):
        found = nodes["n_node_samples"][nodes["left_child"] == -1]
    elif {"is_leaf", "count"} <= set(fields):
        found = nodes["count"][nodes["is_leaf"] != 0]
    return found


def _walk(model: StoredObject) -> Iterator[_Visit]:
    """Visit each container of a file once, nearest to the whole first."""
    seen = {id(model)}
    waiting = deque([_Visit(model, "")])
    waiting.extend(_Visit(left.content, left.where) for left in model.leftovers)
    while waiting:
        visit = waiting.popleft()
        yield visit
        for place, value in _inside(visit):
            if id(value) not in seen:
                seen.add(id(value))
                waiting.append(_Visit(value, place, visit))


def _inside(visit: _Visit) -> Iterator[tuple[str, Any]]:
    value, place = visit.value, visit.place
    if isinstance(value, Bundle):
        yield from ((name, v) for name, v in value.files.items() if _may_hold(v))
    elif isinstance(value, StoredObject):
        beside = {"args": value.args} if value.args else {}
        yield from _named({**value.state, **beside}, place)
    elif isinstance(value, Mapping):
        yield from _named(value, place)
    elif isinstance(value, Opaque):
        yield from _items((value.content,), place)
    elif isinstance(value, np.ndarray):
        yield from _items(value.ravel().tolist(), place) if value.dtype == object else ()
    elif isinstance(value, tuple) and len(value) > 1 and isinstance(value[0], str):
        # A named step, as pipelines and ensembles list them.
        yield from _named({value[0]: value[1]}, place)
        yield from _items(value[2:], place)
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from _items(list(value), place)


def _named(values: Mapping[Any, Any], place: str) -> Iterator[tuple[str, Any]]:
    for k, (key, value) in enumerate(values.items()):
        if _may_hold(value):
            # A name that someone chose can hold data as well.
            name = str(key) if is_plain_name(str(key)) else f"[{k}]"
            yield f"{place}.{name}" if place and not name.startswith("[") else place + name, value


def _items(values: Sequence[Any], place: str) -> Iterator[tuple[str, Any]]:
    for k, value in enumerate(values):
        if _may_hold(value):
            yield f"{place}[{k}]", value


def _may_hold(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.hasobject or value.dtype.names is not None
    return isinstance(value, (StoredObject, Mapping, Opaque, list, tuple, set, frozenset))
