"""A live object as plain data."""

from __future__ import annotations

import datetime
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from treeleak.release.stored import Opaque, StoredObject

Description = Callable[[Any], Mapping[str, Any]]
AnyDescription = TypeVar("AnyDescription", bound=Description)

# Deeper than any fitted estimator, shallower than Python's own recursion limit allows.
MAX_DEPTH = 100

_SCALARS = (type(None), bool, int, float, complex, str, bytes)
_CONTAINERS = (
    np.ndarray, np.dtype, Mapping, list, tuple, set, frozenset, str, bytes, int, float,
)  # fmt: skip
_NAMED = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    np.ufunc,
)


_DESCRIPTIONS: dict[tuple[str, str], Description] = {}


def describes(package: str, *classes: str) -> Callable[[AnyDescription], AnyDescription]:
    """Register the function that lists the attributes of objects that cannot be pickled.

    ``package``: first part of the classes' full names. ``*classes`` (str): names without module.
    """

    def register(function: AnyDescription) -> AnyDescription:
        _DESCRIPTIONS.update({(package, name): function for name in classes})
        return function

    return register


def snapshot(model: Any) -> StoredObject:
    """Describe a live object as plain data.

    Parameters
    ----------
    model : object
        A fitted estimator, say.

    Returns
    -------
    StoredObject
        What a saved file of the model would hold. Arrays are shared with the model, not copied.
    """
    described = _Walk().value(model, 0)
    if isinstance(described, StoredObject):
        return described
    return StoredObject(_type_name(type(model)), {"value": described})


class _Walk:
    """One pass over an object: what was seen keeps its description, a cycle ends in an Opaque."""

    def __init__(self) -> None:
        # The object stands beside its description so that its id is not given to another.
        self._seen: dict[int, tuple[Any, Any]] = {}

    def value(self, x: Any, depth: int) -> Any:
        if isinstance(x, np.generic) or type(x) in _SCALARS:
            return x
        if isinstance(x, _NAMED):
            return Opaque(_name_of(x), "code, not data", self._held_by_code(x, depth))
        if depth > MAX_DEPTH:
            return Opaque(_type_name(type(x)), f"nested deeper than {MAX_DEPTH} levels")
        if id(x) in self._seen:
            return self._seen[id(x)][1]
        self._seen[id(x)] = (x, Opaque(_type_name(type(x)), "refers back to itself"))
        described = self._container(x, depth + 1)
        self._seen[id(x)] = (x, described)
        return described

    def _held_by_code(self, x: Any, depth: int) -> Any:
        """What a function or method holds beside its code, if a file would hold it, too."""
        owner = getattr(x, "__self__", None)
        if isinstance(x, (types.MethodType, types.BuiltinFunctionType)):
            named = owner is None or isinstance(owner, (type, types.ModuleType))
            return None if named else self.value(owner, depth + 1)
        if not isinstance(x, types.FunctionType) or _is_importable(x):
            return None
        cells = [cell.cell_contents for cell in x.__closure__ or () if cell != types.CellType()]
        held = (x.__defaults__, x.__kwdefaults__, cells, vars(x), x.__code__.co_consts)
        return self.value([part for part in held if part], depth + 1) or None

    def _container(self, x: Any, depth: int) -> Any:
        described = self._plain_container(x, depth)
        # Attributes of an object of a class derived from a container, and notes on a type.
        beside = dict(getattr(x, "__dict__", None) or {})
        if isinstance(x, np.ma.MaskedArray):
            beside = {k: beside[k] for k in ("_optinfo", "_basedict") if beside.get(k)}
            usual = np.ma.array(x.data, mask=False).fill_value
            if x.dtype.names is None and repr(x.fill_value) != repr(usual):
                beside["fill_value"] = x.fill_value
        dtype = x if isinstance(x, np.dtype) else getattr(x, "dtype", None)
        if isinstance(dtype, np.dtype) and (notes := _notes(dtype)):
            beside["metadata"] = notes
        if not beside or not isinstance(x, _CONTAINERS):
            return described
        state = {"value": described, "beside": self.value(beside, depth)}
        return StoredObject(_type_name(type(x)), state)

    def _plain_container(self, x: Any, depth: int) -> Any:
        if isinstance(x, np.ma.MaskedArray):
            state = {"data": np.asarray(x.data), "mask": np.asarray(x.mask)}
            return StoredObject("numpy.ma.MaskedArray", state)
        if isinstance(x, np.ndarray):
            return self._array(np.asarray(x), depth)
        if isinstance(x, Mapping):
            described = {self._key(k, depth): self.value(v, depth) for k, v in x.items()}
            # Keys that read alike would hide each other's values.
            return (
                described
                if len(described) == len(x)
                else [(self.value(k, depth), self.value(v, depth)) for k, v in x.items()]
            )
        if isinstance(x, (list, tuple)):
            items = [self.value(v, depth) for v in x]
            return items if isinstance(x, list) else tuple(items)
        if isinstance(x, (set, frozenset)):
            return frozenset(self._key(v, depth) for v in x)
        if isinstance(x, (str, bytes, int, float, datetime.date, np.dtype)):
            return StoredObject(_type_name(type(x)), args=(str(x),))
        if isinstance(x, np.random.RandomState):
            state = self.value(x.get_state(legacy=False), depth)
            return StoredObject("numpy.random.mtrand.RandomState", state)
        return self._object(x, depth)

    def _array(self, x: np.ndarray[Any, Any], depth: int) -> Any:
        if not x.dtype.hasobject:
            return x
        if x.dtype != object:
            return Opaque("numpy.ndarray", f"records with objects: {x.dtype}")
        described = np.empty(x.shape, dtype=object)
        for index, item in np.ndenumerate(x):
            described[index] = self.value(item, depth)
        return described

    def _key(self, x: Any, depth: int) -> Any:
        described = self.value(x, depth)
        return described if isinstance(described, (*_SCALARS, np.generic)) else str(x)

    def _object(self, x: Any, depth: int) -> Any:
        name = _type_name(type(x))
        if describe := _DESCRIPTIONS.get((name.partition(".")[0], type(x).__name__)):
            return StoredObject(name, attributes(self.value(describe(x), depth)))
        try:
            reduced = x.__reduce_ex__(2)
        except Exception as error:
            return Opaque(name, f"cannot be described: {error}")
        if not isinstance(reduced, tuple) or len(reduced) < 2:
            return Opaque(name, "code, not data")
        args = [a for a in reduced[1] if not (isinstance(a, type) and isinstance(x, a))]
        args += [reduced[0]] if not isinstance(reduced[0], _NAMED) else []
        state = reduced[2] if len(reduced) > 2 else None
        items = [list(part) for part in reduced[3:5] if part is not None]
        args += [part for part in items if part]
        return StoredObject(
            name, attributes(self.value(state, depth)), tuple(self.value(a, depth) for a in args)
        )


def _is_importable(x: types.FunctionType) -> bool:
    """Say whether a file would hold the name of a function alone."""
    found: Any = sys.modules.get(x.__module__)
    for name in x.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is x


def _notes(dtype: np.dtype[Any]) -> list[Any]:
    """What someone wrote beside a type: notes, and titles of fields."""
    fields = (dtype.fields or {}).values()
    metadata = [dict(dtype.metadata)] if dtype.metadata else []
    return metadata + [n for f in fields for n in (*f[2:], *_notes(f[0]))]


def attributes(state: Any) -> dict[str, Any]:
    """Bring any form of an object's state (dict, dict and slots, other) into one."""
    if state is None:
        return {}
    if isinstance(state, dict):
        return {str(k): v for k, v in state.items()}
    slots = isinstance(state, tuple) and len(state) == 2
    if slots and all(part is None or isinstance(part, dict) for part in state):
        return {str(k): v for part in state for k, v in (part or {}).items()}
    return {"state": state}


def _type_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _name_of(x: Any) -> str:
    module = getattr(x, "__module__", None)
    name = getattr(x, "__qualname__", getattr(x, "__name__", type(x).__name__))
    return f"{module}.{name}" if module else str(name)
