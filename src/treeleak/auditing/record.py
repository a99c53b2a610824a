"""What makes an audit a record: from which files, against and for whom, until when it holds."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, fields, is_dataclass
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from treeleak.core.errors import BadInput, cause
from treeleak.core.private import dataclass
from treeleak.core.text import listed
from treeleak.reconstruction import versions

if TYPE_CHECKING:
    from treeleak.auditing.case import AuditRequest


_NAMES = ("what", "name", "column", "group", "by")
"""What tells the items of a list in a document apart."""


class Serialisable:
    """A dataclass that goes into a document as it is, but for fields that no representation has."""

    def to_dict(self) -> dict[str, Any]:
        """Describe it (formats/audit.schema.json, formats/hardened.schema.json)."""
        return _fields(self)


def _fields(part: Any) -> dict[str, Any]:
    return {f.name: _plain(getattr(part, f.name)) for f in fields(part) if f.repr}


def _plain(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return _fields(value)
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value


def figures_of(part: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Take the numbers and flags out of a part of a document."""
    if isinstance(part, (bool, Real, np.bool_)):
        yield name, part
    items: Iterable[tuple[str, Any]] = ()
    if isinstance(part, Mapping):
        items = ((key, value) for key, value in part.items())
    elif isinstance(part, list):
        named = [item for item in part if isinstance(item, Mapping)]
        items = ((", ".join(str(i[k]) for k in _NAMES if k in i), i) for i in named)
    for key, value in items:
        yield from figures_of(value, f"{name}: {key}" if name else key)


READERS: Mapping[str, str] = {
    "releasable": "people who receive the model or decide about it: the report holds no row, no "
    "value of a person, and nothing about single leaves or small groups",
    "internal": "only people who may see the training rows: the report shows rebuilt rows",
}
"""Who may see each edition."""

REVIEW = "when the model, its data, its recipient or the known attacks change"
"""When to decide anew, unless a policy names a day."""

_KNOWN = {
    "known_rows": "some of the training rows",
    "known_columns": "some columns of every training row",
    "population": "the distribution of values in the population",
}


@dataclass(frozen=True)
class InputFile:
    """A file that an audit read.

    Attributes
    ----------
    file : str
    sha256 : str or None
        None in the releasable edition, where it would tell whether a guess of the data is right.
    """

    file: str
    sha256: str | None


def now() -> str:
    """Say date and time in UTC, as ISO 8601 has it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def hashed(files: Mapping[str, Path | None]) -> dict[str, InputFile]:
    """Take the hashes of the files that were given; ``files``: what each is, and where."""
    found = {}
    for what, path in files.items():
        if path is None:
            continue
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise BadInput(f"{path}: {cause(error)}") from error
        found[what] = InputFile(str(path), digest)
    return found


def threat_model(request: AuditRequest) -> str:
    """Say in one sentence whom the attacks stand for, by what they were given."""
    schema = "the possible values of a row" if request.schema is not None else ""
    known = [schema] * bool(schema)
    known += [text for name, text in _KNOWN.items() if request.beside.get(name) is not None]
    if request.n_rows is not None:
        known.append("the number of training rows")
    beside = f" and knows {listed(known, len(known))}" if known else ", and knows nothing else"
    lacks = {
        "hidden": "; not the bootstrap samples",
        "none": "; the attack assumed that every tree saw every row",
    }.get(request.bootstrap, "")
    measured = (
        ""
        if request.X is None
        else " The attack got none of the training rows, at most their number; they only measured "
        "its result."
    )
    return f"An adversary who holds the model (white box){beside}{lacks}.{measured}"


@dataclass(frozen=True)
class Provenance(Serialisable):
    """Where an audit came from.

    Attributes
    ----------
    file, sha256 : str or None
        Of the model, where it was a file.
    origin : str
        Library, version and class that made the model, as far as known.
    seed : int
    seconds : float
    time : str
        When it ended: date and time in UTC.
    threat_model : str
        Whom the attacks stand for, in one sentence.
    inputs : mapping of str to InputFile
        The files that were read beside that of the model, by what they are.
    versions : mapping of str to str
    """

    file: str | None
    sha256: str | None
    origin: str
    seed: int
    seconds: float
    time: str = field(default_factory=now)
    threat_model: str = ""
    inputs: Mapping[str, InputFile] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=versions)
