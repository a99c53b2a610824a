"""What a model file or a live object holds, as plain data: nothing of it is ever run.

Every reader (skops archive, pickle, live estimator) hands back the same thing, a
:class:`StoredObject`, so that the inventory and the adapters are written once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

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
        """The class without its module."""
        return self.type.rpartition(".")[2]

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
