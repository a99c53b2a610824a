"""What stands for the objects in a pickle: names, stubs, and numpy's types and arrays."""

from __future__ import annotations

import contextlib
import functools
import math
from typing import Any, Literal

import numpy as np

Order = Literal["C", "F"]

PLAIN = (type(None), bool, int, float, str)


class UnreadableError(Exception):
    """The file cannot be read; the text says why."""


class Name:
    """What the pickle calls ``module.name``: calling it makes a stub."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def is_one_of(self, names: str) -> bool:
        return f"{self.module}.{self.name}" in names.split()


class Stub:
    """An object of a class that stays unknown: arguments, state and items as they came."""

    def __init__(self, cls: Any, args: tuple[Any, ...] = (), sources: tuple[Any, ...] = ()) -> None:
        named = isinstance(cls, Name)
        self.cls = cls if named else Name("pickle", "unnamed")
        self.args = args if named else (cls, *args)
        self.sources = sources
        self.states: list[Any] = []
        self.items: list[Any] = []

    @property
    def state(self) -> Any:
        return self.states[-1] if self.states else None

    def parts(self) -> list[Any]:
        """What of the file stands in it."""
        items = [v for item in self.items for v in (item if type(item) is Pair else (item,))]
        return [*self.sources, *self.states[-1:], *items]

    def append(self, item: Any) -> None:
        self.items.append(item)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items.append(Pair((key, value)))


class Pair(tuple[Any, ...]):
    """A key and its value."""


class DType(Stub):
    """A numpy type in the making."""

    @functools.cached_property
    def real(self) -> np.dtype[Any]:
        code = self.args[0].name if isinstance(self.args[0], Name) else str(self.args[0])
        if self.state is None:
            return np.dtype(code)
        _, order, subarray, names, fields, size, _, _, *rest = self.state
        if rest and rest[0] and code[0] in "mM":
            unit, number, *_ = rest[0][1]
            code = f"{code[0]}8[{number}{bytes(unit).decode()}]"
        if subarray is not None:
            base, shape = subarray
            return np.dtype((base.real, shape))
        if names:
            parts = [fields[n] for n in names]
            return np.dtype(
                {
                    "names": list(names),
                    "formats": [p[0].real for p in parts],
                    "offsets": [int(p[1]) for p in parts],
                    "itemsize": int(size),
                }
            )
        return np.dtype(code).newbyteorder(order if order in "<>" else "=")

    def parts(self) -> list[Any]:
        """Its description, if numpy describes the type so: no notes, titles or other states."""
        code, *flags = self.args
        code, real = code.name if isinstance(code, Name) else code, self.real
        usual = self.state is None and code in (real.str, real.str[1:], real.name)
        for one in variants(real) if self.state is not None else ():
            reduced: Any = one.__reduce__()
            expected, state = reduced[1][0], reduced[2]
            # Versions of numpy number states, and leave out notes, differently.
            version, *fields = described(self.state)
            noted = [tuple(n or {} for n in rest[:1]) for rest in (fields[7:], state[8:])]
            same = code == expected and tuple(fields[:7]) == state[1:8] and version in (3, 4)
            usual |= same and len(fields) < 9 and noted[0] in ((), noted[1])
        return super().parts() if usual and flags in USUAL_FLAGS else []


def variants(dtype: np.dtype[Any]) -> list[np.dtype[Any]]:
    """List the types that only differ in whether their fields are aligned."""
    if not dtype.names or dtype.fields is None:
        return [dtype]
    fields = [dtype.fields[n][:2] for n in dtype.names]
    formats, offsets = zip(*fields, strict=True)
    spec: Any = {"names": dtype.names, "formats": formats, "offsets": offsets}
    spec["itemsize"] = dtype.itemsize
    out = [np.dtype(spec)]
    with contextlib.suppress(ValueError):
        out.append(np.dtype(spec, align=True))
    return out


USUAL_FLAGS: tuple[list[bool], ...] = ([], [False, True], [False, False])
ARRAYS = (
    "numpy.ndarray numpy.memmap numpy.matrix numpy.core.memmap.memmap numpy.recarray "
    "numpy.matrixlib.defmatrix.matrix numpy.rec.recarray"
)


def described(value: Any) -> Any:
    """Put real types in place of those in the making."""
    if isinstance(value, DType):
        return value.real
    if isinstance(value, tuple):
        return tuple(map(described, value))
    return {k: described(v) for k, v in value.items()} if isinstance(value, dict) else value


class Array(Stub):
    """A numpy array in the making: filled by its state."""

    @functools.cached_property
    def real(self) -> Any:
        _, shape, dtype, fortran, raw = self.state
        return fill(raw, dtype.real, shape, "F" if fortran else "C")

    def parts(self) -> list[Any]:
        plain = len(self.args) == 3 and isinstance(self.args[0], Name)
        if plain and self.args[0].is_one_of(ARRAYS) and self.args[1:] == ((0,), b"b"):
            version, shape, _, order, _ = self.state
            if version == 1 and is_shape(shape) and order in (0, 1) and bool(order) == turned(self):
                return super().parts()
        return []


def is_shape(shape: Any) -> bool:
    return type(shape) is tuple and all(type(n) is int for n in shape)


def turned(array: Any) -> bool:
    """Say whether numpy calls the order of an array Fortran's."""
    flags = (array.real if isinstance(array, Array) else array).flags
    return bool(flags.f_contiguous and not flags.c_contiguous)


def fill(raw: Any, dtype: np.dtype[Any], shape: tuple[int, ...], order: Order) -> Any:
    """Make an array of bytes (or, for objects, of a list) that must fit its shape."""
    if dtype.kind == "O":
        if len(raw) != math.prod(shape):
            raise UnreadableError("an array of objects does not fit its shape")
        array = np.empty(len(raw), dtype=object)
        for i, item in enumerate(raw):
            array[i] = item
        return array.reshape(shape, order=order)
    if dtype.hasobject:
        raise UnreadableError("an array of records with objects")
    if isinstance(raw, str):  # written by Python 2
        raw = raw.encode("latin-1")
    if not dtype.itemsize or len(raw) != math.prod(shape) * dtype.itemsize:
        raise UnreadableError("an array does not fit its shape")
    return np.ndarray(shape, dtype, buffer=raw, order=order)


# Each of these stands in for a function, and says beside its result whether the result holds all of
# the arguments. What it does not hold is left over.


def from_buffer(raw: Any, dtype: DType, shape: tuple[int, ...], order: str, *rest: Any) -> Any:
    """Stand in for the function by which numpy writes arrays in protocol 5."""
    array = fill(bytes(raw), dtype.real, shape, "F" if order == "F" else "C")
    return array, not rest and is_shape(shape) and order == ("F" if turned(array) else "C")


CYTHON = "__pyx_unpickle_"


def compiled(function: Name, *args: Any) -> Any:
    """Stand in for the functions by which Cython makes an object again: one for each class."""
    cls, checksum, state = args if len(args) == 3 else (None, -1, None)
    name = function.name.removeprefix(CYTHON)
    usual = isinstance(cls, Name) and cls.name == name
    if not usual or type(checksum) is not int or not 0 <= checksum < 1 << 32:
        return Stub(function, args), True
    arguments = state if isinstance(state, tuple) else (state,)
    return Stub(Name(function.module, name), arguments), True


def scalar(dtype: DType, raw: Any = b"") -> Any:
    """Stand in for the function by which numpy writes scalars."""
    if dtype.real.kind == "O":
        return raw, False
    return fill(raw, dtype.real, (), "C")[()], True


def masked(*args: Any) -> Any:
    """Stand in for the function by which numpy writes masked arrays."""
    return Masked(Name("numpy.ma", "MaskedArray"), args), True


class Masked(Array):
    """A masked array in the making."""

    @functools.cached_property
    def real(self) -> Any:
        _, shape, dtype, fortran, raw, mask, value = self.state
        order: Order = "F" if fortran else "C"
        out = {"data": fill(raw, dtype.real, shape, order)}
        out["mask"] = fill(mask, np.dtype(bool), shape, order)
        return out if value is None else out | {"fill_value": value}

    def parts(self) -> list[Any]:
        *names, shape, code = self.args
        known = [isinstance(n, Name) and n.is_one_of(MASKED) for n in names]
        version, real_shape, _, order, *_ = self.state
        usual = version == 1 and is_shape(real_shape) and order in (False, True)
        if all(known) and shape == (0,) and code in ("b", b"b") and usual:
            return Stub.parts(self)
        return []


MASKED = "numpy.ma.MaskedArray numpy.ma.core.MaskedArray numpy.ndarray"
FACTORIES = (
    "builtins.bool builtins.dict builtins.float builtins.int builtins.list builtins.set "
    "builtins.str builtins.tuple collections.OrderedDict collections.defaultdict"
)


def encoded(text: Any = b"", *rest: Any) -> Any:
    """Stand in for the codec by which old protocols write bytes."""
    known = isinstance(text, (str, bytes, bytearray)) and rest in ((), ("latin1",), ("latin-1",))
    if isinstance(text, (bytes, bytearray)):  # how protocols 3 and 4 write what can be changed
        return bytes(text), known
    return str(text).encode("latin-1"), known


class Shell(tuple[Any, ...]):
    """Containers whose items stand in the result."""


def container(kind: Any) -> Any:
    def make(*args: Any) -> Any:
        pairs = [p for a in args for p in a if type(p) in (tuple, list)] if kind is dict else []
        return kind(*args), Shell((*args, *pairs))

    return make


def stub(cls: Any, *args: Any) -> Any:
    return Stub(cls, args), True


def reconstructed(cls: Any, base: Any, state: Any) -> Any:
    plain = state is None and isinstance(base, Name) and base.is_one_of("builtins.object")
    return Stub(cls, () if plain else (base, state)), True


MAKERS: dict[tuple[str, str], Any] = {
    ("copyreg", "_reconstructor"): reconstructed,
    ("copyreg", "__newobj__"): stub,
    ("copyreg", "__newobj_ex__"): lambda cls, args, named: stub(cls, *args, named),
    ("_codecs", "encode"): encoded,
    ("builtins", "bytes"): encoded,
    ("builtins", "bytearray"): encoded,
    **{
        ("builtins", kind.__name__): container(kind) for kind in (set, frozenset, list, tuple, dict)
    },
    ("collections", "OrderedDict"): container(dict),
    ("collections", "defaultdict"): lambda *args: (
        {},
        all(isinstance(a, Name) and a.is_one_of(FACTORIES) for a in args),
    ),
    ("numpy", "dtype"): lambda *args: (DType(Name("numpy", "dtype"), args), None),
    ("numpy.random._pickle", "__randomstate_ctor"): lambda *args: stub(
        Name("numpy.random.mtrand", "RandomState"), *args
    ),
    ("numpy.random._pickle", "__generator_ctor"): lambda *args: stub(
        Name("numpy.random._generator", "Generator"), *args
    ),
    ("numpy.ma.core", "_mareconstruct"): masked,
}
for core in ("numpy.core", "numpy._core"):
    MAKERS[f"{core}.multiarray", "_reconstruct"] = lambda *args: (Array(args[0], args), None)
    MAKERS[f"{core}.multiarray", "scalar"] = scalar
    MAKERS[f"{core}.numeric", "_frombuffer"] = from_buffer

OLD_NAMES = {"__builtin__": "builtins", "copy_reg": "copyreg"}
