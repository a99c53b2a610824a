"""Models in what is put around them: dictionaries, lists, tuples, and objects of any class."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from treeleak.release.stored import StoredObject

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
        names = sorted(filter(str.isidentifier, value.state), key=lambda n: not n.endswith("_"))
        yield from ((f".{name}", value.state[name]) for name in names)
    elif isinstance(value, Mapping):
        yield from ((f"[{k!r:.80}]", v) for k, v in value.items() if isinstance(k, (str, int)))
    elif isinstance(value, (list, tuple)):
        yield from ((f"[{i}]", v) for i, v in enumerate(value))
