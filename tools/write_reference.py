"""Write the parts of the reference that Sphinx cannot: the commands, and the keys of all files.

    python tools/write_reference.py docs/api

``docs/conf.py`` calls it for every build: nothing of this is written by hand, or kept.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from typer.cli import get_docs_for_click

import treeleak.formats
from treeleak.cli import app

FORMATS = Path(treeleak.formats.__file__).parent
Part = Mapping[str, Any]


def commands() -> str:
    """Describe every command with its options, as their help does."""
    command = typer.main.get_command(app)
    context = typer.Context(command, info_name="treeleak")
    text = get_docs_for_click(obj=command, ctx=context, name="treeleak", title="Commands")
    # Markdown would take names of metavariables for HTML.
    return re.sub(r"<(.*?)>", r"(\1)", text)


def files() -> str:
    """Describe every key of the files that treeleak reads and writes, by their JSON Schemas."""
    out = ["# Files", "", "Keys of the files that treeleak reads and writes."]
    for path in sorted(FORMATS.glob("*.schema.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        title = schema.get("title", path.name)
        out += ["", f"## {title}", "", f"`treeleak/formats/{path.name}`", ""]
        out += _described(schema)
        for name, part in schema.get("$defs", {}).items():
            if "properties" in part:
                out += ["", f"### {title}: {name}", "", *_described(part)]
    return "\n".join(out) + "\n"


def _described(part: Part) -> Iterator[str]:
    if "description" in part:
        yield from (part["description"], "")
    required = part.get("required", ())
    yield from ("| key | holds | if left out | |", "|---|---|---|---|")
    for key, value in part.get("properties", {}).items():
        absent = "" if "default" not in value else f"`{json.dumps(value['default'])}`"
        cells = (
            f"`{key}`",
            _kind(value),
            "required" if key in required else absent,
            value.get("description", ""),
        )
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _kind(value: Part) -> str:
    """Say in words what may stand there."""
    if "$ref" in value:
        return str(value["$ref"].rpartition("/")[2])
    if "enum" in value or "const" in value:
        return ", ".join(f"`{json.dumps(x)}`" for x in value.get("enum", [value.get("const")]))
    if several := value.get("anyOf", value.get("oneOf")):
        return " or ".join(dict.fromkeys(map(_kind, several)))
    kind = value.get("type", "anything")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array" and isinstance(value.get("items"), dict):
        return f"list of {_kind(value['items'])}"
    if kind == "object" and isinstance(value.get("additionalProperties"), dict):
        return f"names, each with {_kind(value['additionalProperties'])}"
    return str(kind)


def write(folder: Path) -> None:
    """Write both pages."""
    for name, text in (("commands", commands()), ("files", files())):
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
