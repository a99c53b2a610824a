"""A skops archive read as data: its JSON and its arrays, nothing instantiated or imported."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from treeleak.core.errors import BadModel
from treeleak.core.private import dataclass
from treeleak.release.readers.skops_layout import Node
from treeleak.release.readers.skops_values import Archive, check_size, unpack
from treeleak.release.readers.zip_bytes import unused_bytes
from treeleak.release.registry import candidates, describe_format, no_model, reader
from treeleak.release.stored import Leftover, StoredObject

describe_format(
    "skops",
    ".skops",
    "rows of each class in each node, seeds of the draws, thresholds; what steps keep",
)


@reader("skops", lambda head: head.startswith(b"PK\x03\x04"))
def read_archive(path: Path, trust_pickle: bool = False) -> StoredObject:  # noqa: ARG001
    """Read the object in a skops archive.

    ``trust_pickle``: not used: reading an archive runs nothing. Raises BadModel, naming the file
    and what is wrong with it.
    """
    value, left = read_value(path)
    if isinstance(value, (dict, list, tuple)) and candidates(value):
        value = StoredObject(f"builtins.{type(value).__name__}", {"value": value})
    if not isinstance(value, StoredObject):
        raise BadModel(f"{path}: {no_model(value)}")
    return replace(value, leftovers=left)


def read_value(path: Path) -> tuple[Any, tuple[Leftover, ...]]:
    """Read whatever an archive holds, and what is left over in it.

    Raises BadModel, naming the file and what is wrong with it.
    """
    with _located(path), path.open("rb") as file, zipfile.ZipFile(file) as archive:
        reading = Archive(archive, path.stat().st_size)
        value = reading.root()
        left = (*reading.leftovers, *reading.unused_members(), *unused_bytes(archive, file))
    return value, left


@dataclass(frozen=True, eq=False)
class Members:
    """An archive as it is stored, for whoever writes it again."""

    infos: tuple[zipfile.ZipInfo, ...]
    """In their order, the schema among them."""
    data: Mapping[str, bytes]
    """Unpacked content by name."""


def read_members(path: Path) -> Members:
    """Read all members of an archive that :func:`read_archive` reads, with the same bounds.

    Raises BadModel, naming the file and what is wrong with it.
    """
    read_archive(path)
    with _located(path), zipfile.ZipFile(path) as archive:
        check_size(archive, path.stat().st_size)
        infos = tuple(archive.infolist())
        return Members(infos, {info.filename: unpack(archive, info) for info in infos})


def read_with_sources(
    content: bytes,
) -> tuple[StoredObject, Node, list[tuple[StoredObject, Node]], list[tuple[Node, str]]]:
    """Read an archive, and say which object each description became, and what nobody read.

    Returns
    -------
    StoredObject
        The model.
    dict
        The description of all values.
    list of tuple
        Objects and their descriptions.
    list of tuple
        Descriptions, and keys in them that stand for nothing.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        reading = Archive(archive, len(content))
        value = reading.root()
    if not isinstance(value, StoredObject):
        raise no_model(value)
    return value, reading.schema, reading.sources, [*reading.unread]


@contextmanager
def _located(path: Path) -> Iterator[None]:
    """Turn whatever a damaged archive makes Python raise into an error that names the file."""
    try:
        yield
    except BadModel as error:
        raise BadModel(f"{path}: {error}") from error
    except RecursionError as error:
        raise BadModel(f"{path}: nested too deep") from error
    except (EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise BadModel(
            f"{path}: damaged archive, cut short or changed on its way: copy or save it again "
            f"({error})"
        ) from error
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        OSError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        raise BadModel(f"{path}: damaged archive ({type(error).__name__}: {error})") from error
