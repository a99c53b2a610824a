"""Harden a folder or an archive: its models, and what holds rows beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import copyfile
from typing import Any

from treeleak.auditing.inventory.beside import EXAMPLES, is_rows_beside
from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.prepare import context_of
from treeleak.core.arrays import Labels, Rows
from treeleak.core.clock import Clock
from treeleak.core.errors import BadInput, BadModel
from treeleak.core.output import write_file
from treeleak.core.private import dataclass
from treeleak.core.signals import private_folder
from treeleak.hardening.result import Hardened
from treeleak.hardening.run import harden
from treeleak.release import to_release
from treeleak.release.checked_json import located
from treeleak.release.containers.bundle import Bundle, Description, StoredTable
from treeleak.release.containers.members import members_of
from treeleak.release.containers.source import open_source
from treeleak.verification.columns import in_model_columns


@dataclass(frozen=True)
class HardenedFolder:
    """A folder whose models were hardened.

    Attributes
    ----------
    models : tuple of Hardened
        One for each model file, the one that an audit attacks first.
    removed : tuple of str
        Files that were left out: they hold rows, or a line for each row.
    changed : tuple of str
        Documents out of which examples of rows were taken.
    unknown : tuple of str
        Files that were copied as they are, though no rule knows them.
    """

    models: tuple[Hardened, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    unknown: tuple[str, ...]


def harden_folder(
    source: Path,
    out: Path,
    steps: str | Sequence[str] | None = None,
    X: Rows | None = None,
    y: Labels | None = None,
    *,
    time_limit: float | Clock = 60,
    **options: Any,
) -> HardenedFolder:
    """Write a folder with hardened models, and without the rows beside them.

    Parameters
    ----------
    source : path
        A folder or an archive.
    out : path
        A folder that does not exist yet.
    steps, X, y, time_limit, **options
        As for :func:`treeleak.harden`, for each of the models.

    Raises
    ------
    BadInput
        If a model in it cannot be hardened: then nothing is written.
    """
    if out.exists() or not out.parent.is_dir():
        raise BadInput(f"{out}: name a folder that does not exist yet, in one that does")
    clock = Clock.of(time_limit)
    with located(f"{source}: "):
        bundle = open_source(source)
    with members_of(source) as members, private_folder() as scratch:
        files = {member.name: member for member in members}
        for name in files:
            if any(name.startswith(f"{other}/") for other in files):
                raise BadInput(f"{source}: {name}: an archive in it: unpack that first")
        hardened = []
        for k, name in enumerate(bundle.models):
            part = clock.part(clock.left / (len(bundle.models) - k))
            rows = _in_columns(bundle, name, X)
            place = scratch / str(k)
            try:
                made = harden(files[name].path, place, steps, rows, y, time_limit=part, **options)
            except (BadInput, BadModel) as error:
                text = str(error).replace(str(files[name].path), name)
                raise type(error)(f"{source}: {text}") from error
            hardened.append(made)
        context = context_of(bundle, to_release(bundle))
        removed, changed, unknown = [], [], []
        kept: dict[str, Path | bytes] = {n: scratch / str(k) for k, n in enumerate(bundle.models)}
        for name, member in files.items():
            if name in kept:
                continue
            value = bundle.files[name]
            if member.link or is_rows_beside(bundle, name, value, context) or name in bundle.rows:
                removed.append(name)
                continue
            cleared = _cleared(bundle, value, context)
            if cleared is not value:
                changed.append(name)
                kept[name] = json.dumps(cleared, indent=2).encode()
                continue
            if not isinstance(value, (Description, StoredTable)):
                unknown.append(name)
            kept[name] = member.path
        _write(out, kept)
    return HardenedFolder(tuple(hardened), tuple(removed), tuple(changed), tuple(unknown))


def _in_columns(bundle: Bundle, name: str, X: Rows | None) -> Any:
    """Put rows in the order of a model's columns, where only the folder names them."""
    if X is None:
        return None
    release = to_release(bundle.files[name])
    return in_model_columns(release, X)[0].to_numpy() if bundle.layout.startswith("OHDSI") else X


def _cleared(bundle: Bundle, value: Any, context: Context) -> Any:
    """Take tables of rows out of a document; the very same where there are none."""
    if not isinstance(value, Mapping):
        return value
    new = {}
    for key, inner in value.items():
        if not (key in EXAMPLES or is_rows_beside(bundle, str(key), inner, context)):
            new[key] = _cleared(bundle, inner, context)
    same = len(new) == len(value) and all(new[key] is value[key] for key in new)
    return value if same else new


def _write(out: Path, kept: Mapping[str, Path | bytes]) -> None:
    """Write files at their names, which were checked where the archive was unpacked."""
    out.mkdir()
    for name, content in kept.items():
        place = out / name
        if not place.resolve().is_relative_to(out.resolve()):
            raise BadInput(f"{name!r:.80}: a name that leads out of the folder")
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            write_file(place, content)
        elif isinstance(content, Path):
            copyfile(content, place)
