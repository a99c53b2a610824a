"""What the values of R become: arrays, lists, dictionaries, and objects whose type begins "R.".

Attributes never vanish: what a file holds is somewhere in the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.errors import BadModel
from treeleak.release.bounds import at_most
from treeleak.release.stored import StoredObject

Attributes = dict[str, Any]
Pairs = list[tuple[str | None, Any]]

_LOGICAL, _INTEGER, _REAL, _COMPLEX = 10, 13, 14, 15
_NAMES_OF = {_LOGICAL: "numbers", _INTEGER: "numbers", _REAL: "numbers", _COMPLEX: "numbers"}
_MISSING_WHOLE = -(2**31)
_NOT_A_NUMBER = np.array([0x7FF8000000000000, 0x7FF00000000007A2, 0x7FF80000000007A2], np.uint64)
"""Not a number, and the two ways in which R writes that a number is missing; the sign aside."""
_MOST_DIMENSIONS = 32


def symbol(name: str) -> StoredObject:
    """Make a symbol; one without a name stands for an argument that is not there."""
    return StoredObject("R.symbol", {"name": name})


MISSING = symbol("")


def value_of(value: Any) -> Any:
    """Strip names and other attributes of a vector without a class."""
    return value.get("value") if isinstance(value, StoredObject) and _plain(value) else value


def names_of(value: Any) -> list[str]:
    """List the names of a vector's or a list's elements; empty where there are none."""
    if isinstance(value, Mapping):
        return [str(key) for key in value]
    names = value_of(value.get("names")) if isinstance(value, StoredObject) else None
    return [str(name) for name in names] if isinstance(names, np.ndarray) else []


def _plain(value: StoredObject) -> bool:
    return value.type == "R.vector"


# ------------------------------------------------------------------------------------ numbers


def numbers(kind: int, raw: bytes, dtype: np.dtype[Any]) -> tuple[str, Any]:
    """Make an array of the numbers of a vector; R's missing ones become "not a number"."""
    if kind not in _NAMES_OF:
        return "raw", raw
    stored = np.frombuffer(raw, dtype).astype(dtype.newbyteorder("="))
    if kind in (_REAL, _COMPLEX):
        flat = stored.view(np.float64)
        odd = np.flatnonzero(np.isnan(flat))
        bits = flat[odd].view(np.uint64) & np.uint64(2**63 - 1)
        # Other bits stay as they are: somebody may have written them.
        flat[odd[np.isin(bits, _NOT_A_NUMBER)]] = np.nan
        return "numbers", stored
    missing = stored == _MISSING_WHOLE
    if kind == _LOGICAL and not (stored[~missing] >> 1).any():
        whole: NDArray[Any] = stored.astype(bool)
    else:
        whole = stored.astype(np.int64)
    return "numbers", np.where(missing, np.nan, whole) if missing.any() else whole


def grown(name: Any, state: list[Any], most: int) -> tuple[str, Any] | None:
    """Make the vector that a short form stands for; None where the form is not known."""
    first, *more = state or [None]
    if not isinstance(first, np.ndarray) or first.ndim != 1:
        return None
    if name == "deferred_string" and not one_whole(more):
        return None
    if name != "deferred_string" and more:
        return None
    if name in ("compact_intseq", "compact_realseq"):
        plain = first.dtype.kind in "if" and len(first) == 3 and np.isfinite(first).all()
        if not plain or (first != np.floor(first)).any():
            raise BadModel(f"{name}: not a number of items, a first one and a step")
        n, start, step = first.tolist()
        at_most(most, n := max(int(n), 0), "numbers in a row")
        if abs(step) != 1 or abs(start) + n > 2**53:
            raise BadModel(f"{name}: a step other than 1 or -1, or numbers beyond all bounds")
        values = start + step * np.arange(n)
        return "numbers", values.astype(np.int64) if name == "compact_intseq" else values
    if name == "deferred_string" and first.dtype.kind in "bif" and _plain_gaps(first):
        at_most(most, len(first), "texts in a row")
        texts = [None if x != x else f"{x:.15g}" for x in first.tolist()]
        return "texts", np.array([*texts, None], dtype=object)[:-1]
    return None


def one_whole(values: list[Any]) -> bool:
    """Say whether there is one whole number, and nothing else."""
    (one,) = values if len(values) == 1 else (None,)
    return isinstance(one, np.ndarray) and one.dtype == np.int64 and one.shape == (1,)


def _plain_gaps(values: NDArray[Any]) -> bool:
    """Say whether "not a number" has no other bits, which a text or a code would not show."""
    if values.dtype.kind != "f":
        return True
    bits = values[np.isnan(values)].view(np.uint64) & np.uint64(2**63 - 1)
    return bool((bits == _NOT_A_NUMBER[0]).all())


def same(one: Any, other: Any) -> bool:
    """Say whether two values are the same, or arrays of the same bits or texts."""
    if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)):
        return one is other
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return (
        one.tolist() == other.tolist() if one.dtype == object else one.tobytes() == other.tobytes()
    )


# ------------------------------------------------------------------------------------- values


def named(cells: Iterable[tuple[str | None, Any]]) -> dict[str, Any]:
    """Make a dictionary of values; those without a name, or with another's, go by their place."""
    out: dict[str, Any] = {}
    for k, (name, value) in enumerate(cells):
        key = name or f"[[{k + 1}]]"
        while key in out:
            key = f"[[{k + 1}]]" if key == name else f"{key}'"
        out[key] = value
    return out


def with_attributes(state: dict[str, Any], attributes: Attributes) -> dict[str, Any]:
    """Add attributes to what an object holds; an element of the same name keeps it."""
    for name, value in attributes.items():
        key = name
        while key in state:
            key = f"attr {key}"
        classes = _classes(value) if name == "class" else ()
        state[key] = value if not classes or value_of(value) is not value else classes
    return state


def _classes(value: Any) -> tuple[str, ...]:
    texts = value_of(value)
    if not isinstance(texts, np.ndarray) or texts.dtype != object or texts.ndim != 1:
        return ()
    return tuple(map(str, texts))


def made(kind: str, value: Any, attributes: Attributes) -> Any:
    """Make of an item what the rest of treeleak reads."""
    if kind == "ready":
        return StoredObject("R.vector", {"value": value, **attributes}) if attributes else value
    if kind == "pairs":
        tags = [tag or "" for tag, _ in value]
        names = {"names": np.array([*tags, None], dtype=object)[:-1]} if any(tags) else {}
        return _of_list([inner for _, inner in value], {**attributes, **names})
    if kind == "list":
        return _of_list(value, dict(attributes))
    if kind == "call":
        function = value[0][1] if value else None
        state = {"function": function, "arguments": value[1:]}
        return StoredObject("R.call", with_attributes(state, attributes))
    if kind == "function":
        state = dict(zip(("formals", "body", "environment"), value, strict=True))
        return StoredObject("R.function", with_attributes(state, attributes))
    if kind == "promise":
        state = dict(zip(("value", "code", "environment"), value, strict=True))
        return StoredObject("R.promise", with_attributes(state, attributes))
    if kind == "builtin":
        return StoredObject("R.builtin", with_attributes({"name": value}, attributes))
    return _of_vector(value, dict(attributes), kind)


def _first_class(attributes: Attributes) -> str | None:
    """Take the class out of attributes, unless there is more to it than one name."""
    classes = _classes(attributes.get("class"))
    if not classes:
        return None
    if len(classes) == 1 and isinstance(attributes["class"], np.ndarray):
        del attributes["class"]
    return classes[0]


def _of_list(values: list[Any], attributes: Attributes) -> Any:
    names = _names(attributes.get("names"), len(values))
    known = names is not None and all(names) and len(set(names)) == len(names)
    classes = _classes(attributes.get("class"))
    if not classes:
        value: Any = values
        if names is not None and known:
            del attributes["names"]
            value = dict(zip(names, values, strict=True)) if names else values
        if not attributes:
            return value
        return StoredObject("R.vector", with_attributes({"value": value}, attributes))
    first = _first_class(attributes)
    if names is not None:
        del attributes["names"]
    state = named(zip(names or [None] * len(values), values, strict=True))
    if "data.frame" in classes:
        first = "data.frame"
        if (rows := attributes.get("row.names")) is not None:
            attributes["row.names"] = _row_names(rows)
    return StoredObject(f"R.{first}", with_attributes(state, attributes))


def _names(names: Any, n: int) -> list[str | None] | None:
    """Names of elements; None where they are none, or have attributes of their own."""
    if not isinstance(names, np.ndarray) or names.dtype != object or names.shape != (n,):
        return None
    return list(names)


def _row_names(rows: Any) -> Any:
    """Make of the numbers 1 to n, which R writes in two ways, n."""
    if not isinstance(rows, np.ndarray) or rows.dtype == object:
        return rows
    if len(rows) == 2 and np.isnan(rows[0]) and np.isfinite(rows[1]) and _plain_gaps(rows):
        return int(abs(rows[1])) if rows[1] == int(rows[1]) else rows
    return len(rows) if np.array_equal(rows, np.arange(1, len(rows) + 1)) else rows


def _of_vector(value: Any, attributes: Attributes, kind: str) -> Any:
    dim = attributes.get("dim")
    if dim is not None and isinstance(value, (np.ndarray, bytes)):
        flat = np.frombuffer(value, np.uint8) if isinstance(value, bytes) else value
        value = _shaped(flat, dim)
        del attributes["dim"]
    classes = _classes(attributes.get("class"))
    first = _first_class(attributes)
    if "factor" in classes and _are_codes(value):
        codes = np.nan_to_num(value).astype(np.int64)
        return StoredObject("R.factor", with_attributes({"codes": codes}, attributes))
    if kind == "s4":
        return StoredObject(f"R.{first or 'S4'}", with_attributes({}, attributes))
    if kind == "expression":
        return StoredObject("R.expression", with_attributes({"value": value}, attributes))
    if first is None and not attributes:
        return value
    return StoredObject(f"R.{first or 'vector'}", with_attributes({"value": value}, attributes))


def _are_codes(value: Any) -> bool:
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "if":
        return False
    if value.dtype.kind == "i":
        return True
    codes = np.nan_to_num(value)
    whole = (np.abs(codes) < -_MISSING_WHOLE) & (codes == np.floor(codes))
    return bool(whole.all()) and _plain_gaps(value)


def _shaped(flat: NDArray[Any], dim: Any) -> NDArray[Any]:
    sizes = dim.tolist() if isinstance(dim, np.ndarray) and dim.dtype.kind in "if" else [-1]
    if len(sizes) > _MOST_DIMENSIONS or any(n < 0 or n != int(n) for n in sizes if n == n):
        raise BadModel("an array whose dimensions (dim) are no sizes")
    product = 1
    for n in sizes:
        product *= int(n) if n == n else -1
    if product != len(flat):
        raise BadModel(f"an array of {len(flat):,} items with the dimensions (dim) {sizes}")
    try:
        return flat.reshape([int(n) for n in sizes], order="F")
    except ValueError as error:
        raise BadModel(f"an array with the dimensions (dim) {sizes}") from error
