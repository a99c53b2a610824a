"""Documents against their formats, and files of models changed."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from treeleak.core.errors import BadModel
from treeleak.release import checked_json


def valid(document: dict[str, Any], name: str = "audit") -> dict[str, Any]:
    """The document of an audit (or of what ``name`` says), if it follows its schema."""
    _validator(name).validate(document)
    return document


@cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    stored = resources.files("treeleak").joinpath("formats", f"{name}.schema.json")
    return jsonschema.Draft202012Validator(json.loads(stored.read_text(encoding="utf-8")))


def put(data: Any, path: Sequence[Any], value: Any) -> Any:
    """Put something else at a place in a document, which is given back."""
    at = data
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return data


def check_damaged(read: Callable[[Path], Any], folder: Path, text: str, says: str) -> None:
    """A text that is no document is refused by an error that names its file."""
    path = folder / "damaged.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadModel, match=says) as error:
        read(path)
    assert str(path) in str(error.value)


def check_unreadable(read: Callable[[str | Path], Any], folder: Path) -> None:
    """Files that are absent, binary or huge are refused by an error that names them."""
    (folder / "binary.json").write_bytes(b"\x80\x04")
    for name in ("absent.json", "binary.json"):
        with pytest.raises(BadModel, match=name):
            read(str(folder / name))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checked_json, "MOST_JSON_BYTES", 1)
        with pytest.raises(BadModel, match=r"binary\.json: larger"):
            read(folder / "binary.json")


def rewrite(source, target, change=None, arrays=None, **options):
    """Copy a skops archive with its schema or its arrays changed."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", **options) as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "schema.json" and change:
                schema = json.loads(data)
                schema = change(schema) or schema
                data = json.dumps(schema).encode()
            elif name.endswith(".npy") and arrays:
                array = np.load(io.BytesIO(data))
                buffer = io.BytesIO()
                np.save(buffer, arrays(array))
                data = buffer.getvalue()
            new.writestr(name, data)
    return target
