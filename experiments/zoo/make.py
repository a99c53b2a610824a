"""Writes the zoo: an archive of models, and another one of the truth."""

from __future__ import annotations

import hashlib
import json
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.zoo.kinds import Kind
from experiments.zoo.tables import sample
from treeleak.core.errors import BadInput
from treeleak.reconstruction import versions
from treeleak.schema import Schema

SIZES = (60, 200, 500)
"""Rows that models are trained on, or half of the table if that is less."""
MODELS, TRUTH, MANIFEST = "models.zip", "truth.zip", "manifest.json"
_DATE = 1980, 1, 1, 0, 0, 0
"""The same for all members: equal contents are equal archives."""


@dataclass(frozen=True)
class Place:
    """One model of the zoo, before it is made."""

    name: str
    kind: Kind
    table: str
    form: str
    n_rows: int


def places(kinds: Iterable[Kind]) -> list[Place]:
    """Lay kinds over tables, forms and sizes: two models each, three of forests and plain names."""
    out: list[Place] = []
    for i, kind in enumerate(kinds):
        for j in range(2 if "-" in kind.name and not kind.family.startswith("forest") else 3):
            table = kind.tables[(i + j) % len(kind.tables)]
            form = kind.forms[(i + j) % len(kind.forms)]
            size = SIZES[(i + 2 * j) % len(SIZES)]
            out.append(Place(f"{len(out) + 1:03d}-{kind.name}", kind, table, form, size))
    return out


def make(
    folder: Path,
    todo: Sequence[Place],
    seed: int,
    told: Callable[[str], None] = lambda _: None,
) -> list[tuple[str, str]]:
    """Train models and write the archives; name what is left out, with the reason.

    The archive of models holds their files and, in its manifest, what is public: the kind, the
    schema and the hash of each, and versions of libraries. Rows, their number and order, control
    rows and the seed are in the other archive alone. Equal seeds and versions give equal bytes
    wherever a library writes the same model twice alike: skops, YDF and CatBoost do not.
    """
    warnings.simplefilter("ignore")
    left_out: dict[str, str] = {}
    public: list[dict[str, Any]] = []
    truth: list[dict[str, Any]] = []
    folder.mkdir(parents=True, exist_ok=True)
    with _archive(folder / MODELS) as models, _archive(folder / TRUTH) as truths:
        for k, place in enumerate(todo):
            kind = place.kind
            if (why := kind.missing) is not None:
                left_out[kind.name] = why
                continue
            told(place.name)
            data = sample(place.table, place.form, kind.task, place.n_rows, 1000 * seed + k)
            with tempfile.TemporaryDirectory() as scratch:
                try:
                    file = kind.write(data, seed, Path(scratch) / place.name)
                except Exception as error:  # other versions refuse other settings
                    left_out[place.name] = f"{type(error).__name__}: {str(error).strip()[:200]}"
                    continue
                hashed = _add_tree(models, file)
            public.append({
                "name": place.name, "file": file.name, "kind": kind.name, "family": kind.family,
                "table": place.table, "form": place.form, "schema": data.schema.to_dict(),
                "sha256": hashed,
            })  # fmt: skip
            truth.append({"name": place.name, "n_rows": len(data.X), "task": kind.task})
            for part, X, y in (("rows", data.X, data.y), ("control", data.control, data.control_y)):
                _add(truths, f"{place.name}/{part}.csv", _csv(pd.concat([X, y], axis=1)))
        about = {"versions": dict(versions()), "left_out": left_out, "models": public}
        _add(models, MANIFEST, json.dumps(about, indent=1).encode())
        _add(truths, MANIFEST, json.dumps({"seed": seed, "models": truth}, indent=1).encode())
    return list(left_out.items())


def _archive(path: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, _DATE)
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, content)


def _add_tree(archive: zipfile.ZipFile, path: Path) -> str:
    """Add a file, or all that is in a folder; give the hash of names and contents."""
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    whole = hashlib.sha256()
    for file in files:
        name, content = file.relative_to(path.parent).as_posix(), file.read_bytes()
        whole.update(f"{name} {len(content)}\n".encode() + content)
        _add(archive, f"files/{name}", content)
    return whole.hexdigest()


def _csv(table: pd.DataFrame) -> bytes:
    return str(table.to_csv(index=False)).encode()


# ------------------------------------------------------------------------------------ the archives


@dataclass(frozen=True)
class Entry:
    """What is public of a model."""

    name: str
    file: str
    kind: str
    family: str
    table: str
    form: str
    schema: Schema
    sha256: str


def entries(folder: Path) -> list[Entry]:
    """List the models of a zoo.

    Raises
    ------
    BadInput
        If there is none in the folder.
    """
    try:
        with zipfile.ZipFile(folder / MODELS) as archive:
            models = json.loads(archive.read(MANIFEST))["models"]
    except (OSError, zipfile.BadZipFile, KeyError, ValueError) as error:
        hint = f"`python -m experiments zoo make {folder}` makes one"
        raise BadInput(f"{folder / MODELS}: no zoo ({error}); {hint}") from error
    return [Entry(**{**one, "schema": Schema.from_dict(one["schema"])}) for one in models]


def unpacked(folder: Path, entry: Entry, into: Path) -> Path:
    """Unpack the files of one model, and nothing else."""
    begin = f"files/{entry.file}"
    with zipfile.ZipFile(folder / MODELS) as archive:
        own = [n for n in archive.namelist() if n == begin or n.startswith(f"{begin}/")]
        archive.extractall(into, own)
    return into / begin


@dataclass(frozen=True, eq=False)
class Truth:
    """The training rows of a model in their order, and other rows of the table; with outcomes."""

    rows: pd.DataFrame
    y: pd.DataFrame
    control: pd.DataFrame


def truth_of(folder: Path, entry: Entry) -> Truth:
    """Read the truth of a model."""
    outcomes = ["target", "event"]
    with zipfile.ZipFile(folder / TRUTH) as archive:
        rows, control = (
            _read(archive, f"{entry.name}/{p}.csv", entry) for p in ("rows", "control")
        )
    held = [c for c in outcomes if c in rows]
    return Truth(rows.drop(columns=held), rows[held], control.drop(columns=held))


def _read(archive: zipfile.ZipFile, name: str, entry: Entry) -> pd.DataFrame:
    with archive.open(name) as file:
        return read_rows(file, entry.schema)


def read_rows(file: Any, schema: Schema) -> pd.DataFrame:
    """Read rows with their outcomes from CSV: words as they are, numbers to their last digit."""
    rows = pd.read_csv(file, dtype=str, keep_default_na=False).replace("", "nan")
    words = [c for a in schema.attributes if a.kind == "categorical" for c in a.columns]
    if "event" in rows:
        rows["event"] = rows["event"] == "True"
    if "target" in rows:
        there = rows.loc[rows["target"] != "nan", "target"]
        if pd.to_numeric(there, errors="coerce").isna().any():
            words = [*words, "target"]  # names of classes
    return rows.astype({c: float for c in rows if c not in (*words, "event")})
