"""Documents against their formats, and files of models changed."""

from __future__ import annotations

import io
import json
import zipfile
from functools import cache
from importlib import resources
from typing import Any

import jsonschema
import numpy as np


def valid(document: dict[str, Any], name: str = "audit") -> dict[str, Any]:
    """The document of an audit (or of what ``name`` says), if it follows its schema."""
    _validator(name).validate(document)
    return document


@cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    stored = resources.files("treeleak").joinpath("formats", f"{name}.schema.json")
    return jsonschema.Draft202012Validator(json.loads(stored.read_text(encoding="utf-8")))


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
