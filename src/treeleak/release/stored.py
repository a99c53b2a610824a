"""What a model file or a live object holds, as plain data: nothing of it is ever run.

Every reader (skops archive, pickle, live estimator) hands back the same thing, a
:class:`StoredObject`, so that the inventory and the adapters are written once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from itertools import islice
from typing import Any

import numpy as np

from treeleak.core.private import dataclass


@dataclass(frozen=True, eq=False)
class StoredObject:
    """An object as stored: the name of its class and its attributes.

    Attributes
    ----------
    type : str
        Full name, for example ``"sklearn.tree._tree.Tree"``.
    state : mapping of str to value
        Attributes. A value is None, bool, int, float, complex, str, bytes, a numpy array or
        scalar, a list, tuple, dict or set of values, a :class:`StoredObject` or an :class:`Opaque`.
    args : tuple
        Arguments of the constructor, for classes that are stored with some.
    leftovers : tuple of Leftover
        Of the model as a whole: what its file holds beside it.
    """

    type: str
    state: Mapping[str, Any] = field(default_factory=dict)
    args: tuple[Any, ...] = ()
    leftovers: tuple[Leftover, ...] = ()

    @property
    def name(self) -> str:
        """The class without its module; classes of R have dots in their names."""
        return self.type[2:] if self.type.startswith("R.") else self.type.rpartition(".")[2]

    def get(self, attribute: str, default: Any = None) -> Any:
        """The stored attribute, or ``default``."""
        return self.state.get(attribute, default)


@dataclass(frozen=True)
class Opaque:
    """Something in the file that is not read, and why; what it holds, where it holds anything."""

    type: str
    why: str
    content: Any = None


@dataclass(frozen=True, eq=False)
class Leftover:
    """A part of a file that belongs to no value of the model."""

    where: str
    """Place in the file, in words."""
    what: str
    """What it is, in words."""
    content: Any
    """What stands there."""


def objects_in(model: StoredObject) -> Iterator[StoredObject]:
    """List a model and all objects in it, at any depth, each once, in the order of the file."""
    waiting: list[Any] = [model]
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, StoredObject):
            yield value
            waiting += reversed((*value.args, *value.state.values()))
        elif isinstance(value, Opaque):
            waiting.append(value.content)
        elif isinstance(value, Mapping):
            waiting += reversed(list(value.values()))
        elif isinstance(value, np.ndarray) and value.dtype == object:
            waiting += reversed(value.ravel().tolist())
        elif isinstance(value, (list, tuple, set, frozenset)):
            waiting += reversed(list(value))


DEEPEST, MOST_SEEN = 6, 10_000


def models_inside(
    value: Any, is_model: Callable[[StoredObject], bool]
) -> Iterator[tuple[str, StoredObject]]:
    """List the models in a value, the outermost first, each with how to get at it.

    What is in a model is not listed.
    """
    level, seen = [("", value)], 0
    for _ in range(DEEPEST):
        below: list[tuple[str, Any]] = []
        for place, outer in level:
            for step, inner in islice(_parts(outer), MOST_SEEN):
                seen += 1
                if isinstance(inner, StoredObject) and is_model(inner):
                    yield place + step, inner
                else:
                    below.append((place + step, inner))
            if seen > MOST_SEEN:
                return
        level = below


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, StoredObject) and value.state.keys() <= {"value", "beside"}:
        # A dictionary or a list as a whole.
        yield from _parts(value.get("value"))
    elif isinstance(value, StoredObject):
        # What was fitted before what it was made from.
        plain = [name for name in value.state if name.isidentifier()]
        names = sorted(plain, key=lambda n: not n.endswith("_"))
        yield from ((f".{name}", value.state[name]) for name in names)
        if value.type.startswith("R."):
            # Names of R have dots in them.
            others = (name for name in value.state if not name.isidentifier())
            yield from ((f"[{name!r:.80}]", value.state[name]) for name in others)
    elif isinstance(value, Mapping):
        yield from ((f"[{k!r:.80}]", v) for k, v in value.items() if isinstance(k, (str, int)))
    elif isinstance(value, (list, tuple)):
        yield from ((f"[{i}]", v) for i, v in enumerate(value))
