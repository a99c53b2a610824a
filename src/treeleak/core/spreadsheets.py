"""Tables as CSV files of which a spreadsheet runs nothing.

Spreadsheets run cells that begin like a formula, and a model's file chooses names and classes. So
these get an apostrophe in front, which spreadsheets take for the mark of a text. Texts that look
marked already get one more: what is read is what was written.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_ACTS = re.compile(r"'*[=+\-@\t\r\n]")
_MARKED = re.compile(r"'+[=+\-@\t\r\n]")


def csv_text(table: pd.DataFrame) -> str:
    """Write a table of differently named columns as CSV, without its index."""
    shown = _with_texts(table, _marked)
    text = shown.to_csv(index=False)
    if "\r" not in text.replace("\r\n", "\n"):
        return text
    # Where texts are not quoted, this alone would begin a row, and a formula.
    return shown.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC)


def unmarked(table: pd.DataFrame) -> pd.DataFrame:
    """Take the marks of :func:`csv_text` off names and cells that were read."""
    return _with_texts(table, _unmarked)


def _marked(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and _acts(value) else value


def _unmarked(value: Any) -> Any:
    return value[1:] if isinstance(value, str) and _MARKED.match(value) else value


def _acts(text: str) -> bool:
    if not _ACTS.match(text):
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False


def _with_texts(table: pd.DataFrame, change: Callable[[Any], Any]) -> pd.DataFrame:
    """Change names and cells; columns in which nothing changes stay as they are."""
    new = table.rename(columns=change)
    for name in table.select_dtypes(exclude=["number", "bool"]):
        cells = list(table[name])
        changed = [change(cell) for cell in cells]
        if any(a is not b for a, b in zip(cells, changed, strict=True)):
            new[change(name)] = changed
    return new
