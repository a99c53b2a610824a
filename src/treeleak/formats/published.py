"""The documents by name, and their JSON Schemas.

``python -m treeleak.formats.published`` writes them into this folder.
"""

from __future__ import annotations

import json
from pathlib import Path

from treeleak.core.declared import Published, schema_of
from treeleak.formats.release import Release
from treeleak.formats.rules import Rules

PUBLISHED: dict[str, type[Published]] = {"release": Release, "rules": Rules}


def text_of(kind: type[Published]) -> str:
    """Write a JSON Schema as text."""
    return json.dumps(schema_of(kind), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name, kind in PUBLISHED.items():
        Path(__file__).with_name(f"{name}.schema.json").write_text(text_of(kind), encoding="utf-8")
