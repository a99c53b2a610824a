"""Dataclasses that show no value: one traceback or one line of a log must not disclose a person.

Whatever holds rows, counts or texts of a model is made with this :func:`dataclass` in place of the
standard one. What it shows fits in a line: the name of the class, and sizes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sized
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["dataclass", "shows_no_value"]

T = TypeVar("T")

_LONGEST = 60
"""Letters of a word that is shown."""


def shows_no_value(cls: type[T]) -> type[T]:
    """Give a class a representation of one line, without any value.

    A class may name the attributes that say most of it in ``_shown_fields``. Of them, tables and
    lists are shown by their sizes, numbers and words as they are: those must be treeleak's own.
    Without ``_shown_fields``, the sizes of all fields are shown.
    """
    cls.__repr__ = _line  # type: ignore[method-assign]
    return cls


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type[T] | None = None, /, **options: Any) -> Any:
        """Make a dataclass as the standard library does, but for its representation."""
        if cls is None:
            return lambda cls: dataclass(cls, **options)
        has_repr = "__repr__" in cls.__dict__
        made = dataclasses.dataclass(**options, repr=False)(cls)
        return made if has_repr else shows_no_value(made)


def _line(self: Any) -> str:
    chosen = getattr(type(self), "_shown_fields", None)
    names = chosen or _fields(self)
    # What is not there yet: a constructor may fail half way.
    values = ((name, getattr(self, name, None)) for name in names)
    shown = ((name, _size(value) or (_word(value) if chosen else "")) for name, value in values)
    return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in shown if v)})"


def _fields(self: Any) -> tuple[str, ...]:
    if dataclasses.is_dataclass(self):
        return tuple(f.name for f in dataclasses.fields(self))
    return tuple(getattr(type(self), "_fields", ()))


def _size(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return "×".join(map(str, shape)) or "1"
    if isinstance(value, Sized) and not isinstance(value, (str, bytes)):
        return str(len(value))
    return ""


def _word(value: Any) -> str:
    return repr(value)[:_LONGEST] if isinstance(value, (str, int, float, type(None))) else ""
