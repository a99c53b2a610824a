"""Messages of Protocol Buffers, read by a table of fields: no schema of a file is believed.

What the table does not name is kept as left over. A field that may stand once and stands twice, or
a number with more bytes than it needs, is damage: what such bytes hide, no reader would show.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from treeleak.core.errors import BadModel
from treeleak.core.private import dataclass
from treeleak.release.bounds import MOST_COUNTS, at_most
from treeleak.release.stored import Leftover, StoredObject

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_FIXED = {"d": (FIXED64, "<d"), "f": (FIXED32, "<f")}
MOST_REPEATED, MOST_ONE_BY_ONE = 2**18, 2**24
"""Messages of a kind in another; texts, or numbers that stand there one by one."""
MOST_LEFT = 10_000
"""Fields that no table names; each is kept."""


@dataclass(frozen=True)
class _Field:
    name: str
    kind: str
    """i, b, f, d, s, y (bytes), e (an empty message), or the name of a message."""
    repeated: bool
    inline: bool
    """Whether the fields of the message stand among those of the one that it is in."""
    columns: bool
    """Whether messages that may stand several times are laid out as one array for each field."""


def tables_of(text: str) -> Mapping[str, Mapping[int, _Field]]:
    """Read tables of fields: ``Message: 1 name kind, 2 name kind*`` in each line.

    ``*`` marks what may stand several times, ``@`` such messages that are laid out as arrays, and
    ``<`` a message whose fields join those around it.
    """
    tables = {}
    for line in text.strip().splitlines():
        message, _, listed = line.partition(":")
        fields = (entry.split() for entry in listed.split(","))
        tables[message] = {
            int(number): _Field(
                name, kind.strip("<*@"), kind[-1] in "*@", kind[0] == "<", kind[-1] == "@"
            )
            for number, name, kind in fields
        }
    return tables


def names_in(message: str, tables: Mapping[str, Mapping[int, _Field]]) -> Iterator[str]:
    """List what a message can hold, by the names under which it is read."""
    for field in tables[message].values():
        if field.inline:
            yield from (f"{field.name}.{inner}" for inner in names_in(field.kind, tables))
        else:
            yield field.name


class Messages:
    """The messages of one model: their tables, and what was left over so far."""

    def __init__(self, library: str, tables: Mapping[str, Mapping[int, _Field]]) -> None:
        self._library, self._tables = library, tables
        self._left: dict[tuple[str, str], list[bytes]] = {}
        self._n_left = 0

    @property
    def leftovers(self) -> tuple[Leftover, ...]:
        """What no table names, by message and field."""
        return tuple(Leftover(where, what, each) for (where, what), each in self._left.items())

    def keep(self, where: str, what: str, content: bytes) -> None:
        """Keep what belongs to no field."""
        self._n_left += 1
        at_most(MOST_LEFT, self._n_left, "fields that are not known")
        self._left.setdefault((where, what), []).append(content)

    def read(self, message: str, data: bytes, where: str) -> dict[str, Any]:
        """Read a message, and the messages in it: as deep as tables name each other.

        Parameters
        ----------
        message : str
            Its table.
        data : bytes
        where : str
            The file, for errors.

        Raises
        ------
        BadModel
            Naming the field that is damaged.
        """
        table, at, end = self._tables[message], 0, len(data)
        where = f"{where}: {message}" if ":" not in where else f"{where}.{message}"
        out: dict[str, Any] = {}
        seen: set[int] = set()
        while at < end:
            begin = at
            key, at = varint(data, at, where)
            number, wire = key >> 3, key & 7
            if wire == VARINT:
                value, at = varint(data, at, where)
                start = at
            elif wire in (FIXED32, FIXED64):
                start, at = at, at + (8 if wire == FIXED64 else 4)
            elif wire == LENGTH:
                size, start = varint(data, at, where)
                at = start + size
            else:
                raise BadModel(f"{where}: field {number} is of the unknown kind {wire}")
            if at > end:
                raise BadModel(f"{where}: field {number} is cut short")
            field = table.get(number)
            if field is None:
                self.keep(where, f"field {number}", data[begin:at])
                continue
            name, kind = field.name, field.kind
            if not field.repeated and number in seen:
                raise BadModel(f"{where}: {name} stands there twice")
            seen.add(number)
            if kind in ("i", "b", "d", "f"):
                own = VARINT if kind in "ib" else _FIXED[kind][0]
                if wire == LENGTH and field.repeated:
                    out.setdefault(name, []).extend(_packed(data[start:at], kind, where))
                    continue
                if wire != own:
                    raise BadModel(f"{where}: {name} is no number of its kind")
                if kind == "b" and value > 1:
                    raise BadModel(f"{where}: {name} is {value}, not 0 or 1")
                if wire == VARINT:
                    read: Any = bool(value) if kind == "b" else _signed(value)
                else:
                    read = struct.unpack_from(_FIXED[kind][1], data, start)[0]
            elif wire != LENGTH or (kind == "e" and at > start):
                raise BadModel(f"{where}: {name} is no message, or holds what it should not")
            elif kind == "s":
                read = data[start:at].decode("utf-8", "backslashreplace")
            elif kind in ("y", "e"):
                read = data[start:at] if kind == "y" else True
            else:
                read = self.read(kind, data[start:at], where)
                if not (field.inline or field.columns):
                    read = StoredObject(f"{self._library}.{kind}", read)
            if field.repeated:
                few = isinstance(read, (StoredObject, dict))
                most = MOST_REPEATED if few else MOST_ONE_BY_ONE
                at_most(most, len(out.setdefault(name, [])), name)
                out[name].append(read)
            elif field.inline:
                out.update((f"{name}.{inner}", entry) for inner, entry in read.items())
            else:
                out[name] = read
        for field in table.values():
            if field.columns and field.name in out:
                arrays = as_columns(out[field.name], f"{where}.{field.name}")
                out[field.name] = StoredObject(f"{self._library}.{field.kind}", arrays)
        return out


def varint(data: bytes, at: int, where: str) -> tuple[int, int]:
    """Read a number of 7 bits a byte, and where it ends."""
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if (byte == 0 and shift) or value >= 1 << 64:
                break
            return value, at
        shift += 7
    raise BadModel(f"{where}: a number is cut short, or longer than it needs to be")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _packed(data: bytes, kind: str, where: str) -> list[Any]:
    """Read numbers that stand one after the other."""
    if kind in _FIXED:
        form = _FIXED[kind][1]
        if len(data) % struct.calcsize(form):
            raise BadModel(f"{where}: a list of numbers is cut short")
        return list(np.frombuffer(data, form).tolist())
    out, at = [], 0
    while at < len(data):
        value, at = varint(data, at, where)
        out.append(_signed(value))
    return out


def as_columns(
    records: Sequence[Mapping[str, Any]], where: str, ragged: Sequence[str] = ()
) -> dict[str, Any]:
    """Lay records of one message out as arrays, one for each field.

    Where a record lacks a field: NaN, -1, False, or a row of zeros. Of fields that are ``ragged``,
    all numbers stand in a row, and in ``.at`` the record of each.
    """
    out: dict[str, Any] = {}
    for name in dict.fromkeys(name for record in records for name in record):
        column = [record.get(name) for record in records]
        first = next(value for value in column if value is not None)
        if name in ragged:
            each = [np.asarray(() if value is None else value) for value in column]
            out[name] = np.concatenate([part for part in each if len(part)] or each[:1])
            out[f"{name}.at"] = np.repeat(np.arange(len(each)), [len(part) for part in each])
        elif isinstance(first, list):
            width = len(first)
            at_most(MOST_COUNTS, width * len(column), "numbers in nodes")
            if any(value is not None and len(value) != width for value in column):
                raise BadModel(f"{where}: {name} has several lengths")
            out[name] = np.array([[0.0] * width if v is None else v for v in column], dtype=float)
        elif isinstance(first, (bool, int, float)):
            absent = {bool: False, int: -1}.get(type(first), np.nan)
            out[name] = np.array([absent if value is None else value for value in column])
        else:
            text = np.empty(len(column), dtype=object)
            text[:] = column
            out[name] = text
    return out
