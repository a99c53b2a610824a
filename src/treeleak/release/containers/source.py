"""Read a folder or an archive: the models in it by their readers, everything else by its kind."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from treeleak.core.errors import BadModel, NotCovered, TreeleakError, cause
from treeleak.release.checked_json import read_json
from treeleak.release.containers.bundle import (
    BUNDLE,
    DESCRIPTION,
    Bundle,
    Description,
    Layout,
    StoredTable,
    layout_of,
    least_count,
    matches,
)
from treeleak.release.containers.members import Member, is_archive, members_of
from treeleak.release.readers.npy import parse_npy
from treeleak.release.readers.ohdsi import with_names
from treeleak.release.readers.pickled import is_pickle, read_pickled
from treeleak.release.readers.r_serialized import is_r, read_r
from treeleak.release.readers.skops_archive import read_value
from treeleak.release.registry import (
    HEAD_BYTES,
    candidates,
    describe_format,
    models_of_files,
    read_model,
    reader,
    reads_folders,
)
from treeleak.release.release import Release
from treeleak.release.rule_list import RuleList
from treeleak.release.stored import Leftover, Opaque, StoredObject
from treeleak.release.unsupported_formats import (
    HOW_TO_SAVE,
    kind_of_folder,
    kind_of_members,
)

MOST_PARSED = 64 << 20
"""Bytes of a table or a document beside the model that are parsed."""
MOST_KEPT = 512 << 20
"""Bytes of all files together that are opened, models by their names apart."""
MOST_ROWS = 20_000
"""Of a table: more are counted, and the first are kept."""
_BLOCK = 1 << 20
_TABLES = (".csv", ".tsv", ".tab")
_NOT_OPENED = "a pickle: opened with --trust-pickle (trust_pickle=True) alone"
_SURE = (
    "*.skops",
    "*.ubj",
    "*.cbm",
    "*.xgb",
    "*.lgb",
    "*.cb",
    "*.rds",
    "*.rda",
    "*.RData",
    "xgboost-model",
)
"""Files that are models, or damaged."""


def open_source(path: Path, trust_pickle: bool = False) -> Bundle:
    """Read a folder or an archive.

    Parameters
    ----------
    path : path
    trust_pickle : bool
        Also open pickle and joblib files in it.

    Raises
    ------
    BadModel
        Naming the member that is damaged, or saying that no model is in it.
    """
    with members_of(path) as members:
        layout = layout_of([member.name for member in members])
        state: dict[str, Any] = {}
        errors: dict[str, TreeleakError] = {}
        kept, used = 0, set[str]()
        files = {member.name: member.path for member in members if not member.link}
        for start, model, names in models_of_files(files):
            state[f"{start}header.pb"] = model
            used |= names
        for member in members:
            if member.name in used:
                continue
            kept += 0 if member.link else min(member.path.stat().st_size, MOST_PARSED)
            if kept > MOST_KEPT and not matches(_SURE, member.name):
                state[member.name] = Opaque(member.name, "more than is opened in all: not read")
                continue
            try:
                value = _content(member, layout, trust_pickle)
                if isinstance(value, (Release, RuleList)):
                    value = Opaque(member.name, "trees or rules: audit them by themselves")
                state[member.name] = value
            except TreeleakError as error:
                text = str(error).replace(str(member.path), member.name)
                text = text if text.startswith(member.name) else f"{member.name}: {text}"
                errors[member.name] = type(error)(text)
                state[member.name] = Opaque(member.name, text, _text(member.path))
        models = _models(state, layout)
        if not models:
            _raise_why(path, errors, state, layout)
        if bad := next((errors[name] for name in errors if matches(_SURE, name)), None):
            raise bad
    return Bundle(
        BUNDLE,
        {"value": with_names(state, models)},
        layout=layout.name,
        models=models,
        rows=frozenset(name for name in state if matches(layout.rows, name)),
        least_count=least_count({k: v for k, v in state.items() if isinstance(v, dict)}),
    )


reads_folders(open_source)


describe_format(
    "archive",
    ".zip .tar .tar.gz, or a folder",
    "what the models in it do; tables and reports beside them",
)


@reader("archive", lambda head: head[:4] == b"PK\x03\x04" or _packed(head), first=True)
def _read_archive(path: Path, trust_pickle: bool) -> Any:
    """Read an archive of files; what is no such archive goes to the other readers."""
    return open_source(path, trust_pickle) if is_archive(path) else NotImplemented


def _packed(head: bytes) -> bool:
    return head[257:262] == b"ustar" or head.startswith((b"\x1f\x8b", b"BZh"))


def _models(state: dict[str, Any], layout: Layout) -> tuple[str, ...]:
    """Name the files with a model in them, as the layout ranks them."""
    with_model = [name for name, value in state.items() if candidates([value])]
    rank = {p: k for k, p in enumerate(layout.models)}
    first = {
        name: min((k for p, k in rank.items() if matches((p,), name)), default=len(rank))
        for name in with_model
    }

    def place(name: str) -> tuple[int, int, bool, str]:
        called = name.rpartition("/")[2].startswith("model")
        return first[name], name.count("/"), not called, name

    return tuple(sorted(with_model, key=place))


def _raise_why(
    path: Path, errors: dict[str, TreeleakError], state: dict[str, Any], layout: Layout
) -> None:
    """Say why there is no model: the file that should be one, or all that is there."""
    tried = (name for pattern in layout.models for name in state if matches((pattern,), name))
    for name in tried:
        if name in errors:
            raise errors[name]
        if isinstance(value := state[name], Opaque) and value.why == _NOT_OPENED:
            raise BadModel(
                f"{name}: a pickle or joblib file can run any code when it is opened. If you know "
                "who made it, allow it with --trust-pickle (trust_pickle=True), or save the model "
                "with skops instead"
            )
    if path.is_dir():
        raise BadModel(f"this is {kind_of_folder(path)}")
    none = f"an archive without a tree model that treeleak knows: {HOW_TO_SAVE}"
    raise BadModel(f"this is {kind_of_members(state) or none}")


# ------------------------------------------------------------------------------ one file


def _content(member: Member, layout: Layout, trust_pickle: bool) -> Any:
    """Read a file as what it is; what is too large or unknown is kept as bytes, or not at all."""
    if member.link:
        return Opaque(member.name, "a link or a device: not followed")
    name, path = member.name, member.path
    size, suffix = path.stat().st_size, Path(name).suffix.lower()
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if head.startswith(b"PK\x03\x04"):
        return _whole(*read_value(path))
    if is_r(head) and (of_r := read_r(path)) is not NotImplemented:
        return of_r
    if is_pickle(head):
        # Whether a model or not: what is in it is found by what it holds.
        if not trust_pickle:
            return Opaque(name, _NOT_OPENED, _text(path))
        return _whole(*read_pickled(path, trust_pickle))
    if suffix in _TABLES:
        return _csv(path, size)
    if head.startswith(b"\x93NUMPY") and size <= MOST_PARSED:
        return parse_npy(path.read_bytes(), name)
    if head.startswith((b"PAR1", b"ARROW1")) and size <= MOST_PARSED:
        # Read a table of Parquet or Arrow, where pyarrow is installed.
        try:
            import pyarrow  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: F401
        except ImportError:
            return Opaque(path.name, "a table (Parquet or Arrow): read where pyarrow is installed")
        import pandas as pd

        read: Callable[..., Any] = pd.read_parquet
        try:
            frame = read(path)
        except Exception as error:  # pyarrow has errors of its own.
            raise BadModel(
                f"no table ({cause(error) if isinstance(error, OSError) else error})"
            ) from (error)
        cells = np.array(frame.to_numpy(dtype=object)[:MOST_ROWS])
        return StoredTable.of(tuple(map(str, frame.columns)), cells, len(frame))
    if suffix in (".json", ".jsonl", "") and head.lstrip()[:1] in (b"{", b"["):
        return _json(member, size, head, trust_pickle)
    if matches(_SURE, name) or head.startswith(b"tree\n"):
        return read_model(path, trust_pickle)
    text = _text(path) if size <= MOST_PARSED else None
    if text is None:
        return Opaque(name, f"larger than {MOST_PARSED >> 20} MiB: not read")
    for pattern, describes in (layout.described or {}).items():
        if isinstance(text, str) and matches((pattern,), name) and describes(text):
            return Description(DESCRIPTION, {"text": text})
    return text


def _whole(value: Any, left: tuple[Leftover, ...]) -> Any:
    """Keep with a value what its file holds beside it."""
    if not left:
        return value
    if isinstance(value, StoredObject):
        return replace(value, leftovers=left)
    return StoredObject(f"builtins.{type(value).__name__}", {"value": value}, leftovers=left)


def _text(path: Path) -> str | bytes | None:
    if not path.is_file() or path.stat().st_size > MOST_PARSED:
        return None
    raw = path.read_bytes()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw


def _json(member: Member, size: int, head: bytes, trust_pickle: bool) -> Any:
    """Read a model, or any other document."""
    path = member.path
    if head.lstrip()[:1] == b"{":
        try:
            return read_model(path, trust_pickle)
        except NotCovered:
            raise
        except BadModel:
            if size > MOST_PARSED or matches(("model.json",), member.name):
                raise
    elif size > MOST_PARSED:
        return Opaque(path.name, "a long document: not read")
    text = _text(path)
    if not isinstance(text, str):
        raise BadModel("no text")
    lines = text.splitlines()
    try:
        return read_json(text, _same, constants=True) if head.lstrip()[:1] == b"{" else (
            json.loads(text))  # fmt: skip
    except (BadModel, ValueError, RecursionError):
        try:
            return [json.loads(line) for line in lines if line.strip()]
        except (ValueError, RecursionError):
            return text


def _same(value: Any) -> Any:
    return value


def _csv(path: Path, size: int) -> Any:
    """Read the first rows of a table, and count all of them."""
    text, lines = "", 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            lines += block.count(b"\n")
            if len(text) < MOST_PARSED and text.count("\n") <= MOST_ROWS:
                text += block.decode("utf-8", "replace")
    if len(text) < size:
        text = text.rpartition("\n")[0]
    elif text and not text.endswith("\n"):
        lines += 1
    first = text.partition("\n")[0].removeprefix("\ufeff")
    mark = max(",;\t|", key=first.count)
    try:
        read = csv.reader(StringIO(text.removeprefix("\ufeff")), delimiter=mark)
        rows = [row for row in read if row][: MOST_ROWS + 1]
    except csv.Error as error:
        raise BadModel(f"no table ({error})") from error
    if not rows or len({len(row) for row in rows}) != 1:
        return text
    named = not any(_is_number(cell) for cell in rows[0])
    names = tuple(cell.strip() for cell in rows[0]) if named else ()
    cells = np.array(rows[named:], dtype=object)
    if not cells.size:
        return text
    return StoredTable.of(names, cells, max(len(cells), lines - named if len(text) < size else 0))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
