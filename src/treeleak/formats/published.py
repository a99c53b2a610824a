"""The documents that are read, by name, and their JSON Schemas.

``python -m treeleak.formats.published`` writes them into this folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from treeleak.core.declared import Published, schema_of
from treeleak.formats.release import Release
from treeleak.formats.rules import Rules
from treeleak.formats.schema import Schema

MOST_LETTERS = 92
"""In a line, beside its key."""
PUBLISHED: dict[str, type[Published]] = {
    "release": Release,
    "rules": Rules,
    "schema": Schema,
}


def text_of(kind: type[Published]) -> str:
    """Write a JSON Schema as text."""
    return _laid_out(schema_of(kind), "") + "\n"


def _laid_out(part: Any, before: str) -> str:
    """Write what fits into a line on one line."""
    line = json.dumps(part, ensure_ascii=False)
    if len(before) + len(line) <= MOST_LETTERS or not isinstance(part, (dict, list)):
        return line
    inside = before + "  "
    if isinstance(part, list):
        items = [inside + _laid_out(item, inside) for item in part]
        return "[\n" + ",\n".join(items) + f"\n{before}]"
    items = [f"{inside}{json.dumps(key)}: {_laid_out(item, inside)}" for key, item in part.items()]
    return "{\n" + ",\n".join(items) + f"\n{before}}}"


if __name__ == "__main__":
    for name, kind in PUBLISHED.items():
        Path(__file__).with_name(f"{name}.schema.json").write_text(text_of(kind), encoding="utf-8")
