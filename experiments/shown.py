"""What is shown of a study: tables on the terminal and in files."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from experiments.study import Table
from treeleak.core.errors import BadInput
from treeleak.core.output import write_file


def render_tables(tables: Iterable[Table], console: Console) -> None:
    """Print tables."""
    for table in tables:
        out = RichTable(title=Text(table.title), box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in table.frame:
            numbers = pd.api.types.is_numeric_dtype(table.frame[name])
            out.add_column(str(name), justify="right" if numbers else "left")
        for line in table.frame.itertuples(index=False):
            out.add_row(*(said(value) for value in line))
        console.print(out)
        if table.note:
            console.print(Text(table.note, style="dim"))
        console.print()


def as_markdown(table: Table) -> str:
    """Write a table as Markdown."""
    head = [str(name) for name in table.frame]
    lines = [head, ["---"] * len(head)]
    lines += [[said(v) for v in line] for line in table.frame.itertuples(index=False)]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{body}\n" + (f"\n{table.note}\n" if table.note else "")


def write_tables(tables: Sequence[Table], folder: Path) -> list[Path]:
    """Write each table as CSV and as Markdown; say where."""
    written = []
    for table in tables:
        csv, text = (folder / f"{table.name}.{ending}" for ending in ("csv", "md"))
        write_file(csv, table.frame.to_csv(index=False))
        write_file(text, f"# {table.title}\n\n{as_markdown(table)}")
        written += [csv, text]
    return written


def with_tables(
    text: str, command: str, tables: Mapping[str, Callable[[], pd.DataFrame]], where: str = ""
) -> str:
    """Write the marked tables of a text anew.

    A table stands between ``<!-- made by python -m experiments COMMAND: NAME -->`` and
    ``<!-- end -->``. With ``where``, a text without any is refused.

    Raises
    ------
    BadInput
        If a mark has a name that is not known.
    """
    head = rf"(<!-- made by python -m experiments {command}: ([a-z-]+) -->\n)"

    def made(mark: re.Match[str]) -> str:
        if mark[2] not in tables:
            raise BadInput(f"no table is called {mark[2]!r}: {', '.join(tables)}")
        return f"{mark[1]}\n{as_markdown(Table(mark[2], '', tables[mark[2]]()))}\n<!-- end -->"

    out, n = re.subn(f"{head}.*?<!-- end -->", made, text, flags=re.DOTALL)
    if where and not n:
        raise BadInput(f"{where}: no table in it is marked as made by `{command}`")
    return out


def said(value: Any) -> str:
    """Write a value in a table; nothing for what is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return str(value)
