"""The board of the zoo in documents: marked tables and a picture, all from the stored CSV."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import pandas as pd

from experiments.shown import with_tables
from experiments.zoo.board import POPULATION
from treeleak.core.errors import BadInput
from treeleak.core.output import write_file

_FAMILIES = (
    "family", "attack", "files", "with rows", "decided", "leak shown", "error", "others",
    "rows right", "in order",
)  # fmt: skip
_COUNTED = ("decided", "leak shown")
_STYLE = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "lines.markersize": 3.5,
    "figure.constrained_layout.use": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "treeleak",
}


def by_family(board: pd.DataFrame) -> pd.DataFrame:
    """All lines but those of the population, which the column *others* has beside each."""
    return _whole(board[board.attack != POPULATION][[*_FAMILIES]])


def by_attack(board: pd.DataFrame) -> pd.DataFrame:
    """Sums over families; errors are means over the files that have rows, shares over all."""
    lines = []
    for attack, own in board[board.attack != POPULATION].groupby("attack", sort=False):
        rows, files = own["with rows"], own["files"]
        line: dict[str, Any] = {"attack": attack, "files": files.sum(), "with rows": rows.sum()}
        line |= {name: own[name].sum(min_count=1) for name in _COUNTED}
        for name in ("error", "others"):
            line[name] = (own[name] * rows).sum() / rows.sum() if rows.sum() else None
        line["rows right"] = (own["rows right"] * files).sum() / files.sum()
        lines.append(line)
    return _whole(pd.DataFrame(lines))


def _whole(lines: pd.DataFrame) -> pd.DataFrame:
    """Write counts without decimals: a line without one makes all of them floats."""
    return lines.assign(**{n: lines[n].astype("Int64").astype(object) for n in _COUNTED}).where(
        lines.notna(), None
    )


TABLES = {"zoo-families": by_family, "zoo-attacks": by_attack}


def with_board(text: str, board: pd.DataFrame, where: str = "") -> str:
    """Write the marked tables of a text anew, see :func:`~experiments.shown.with_tables`."""
    tables = {name: partial(make, board) for name, make in TABLES.items()}
    return with_tables(text, "zoo publish", tables, where)


def picture(board: pd.DataFrame) -> bytes:
    """Draw the error of each family's rows beside that of other rows of the tables, as SVG."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    own, out = board[(board.attack == "treeleak") & board.error.notna()], BytesIO()
    own = own.sort_values("error")
    with rc_context(cast(Any, _STYLE)):
        figure = Figure(figsize=(6.8, 0.2 * len(own) + 0.9))
        ax = figure.subplots()
        for name, label, look in (("error", "treeleak", "o"), ("others", "other rows", "s")):
            ax.plot(own[name], own.family, look, label=label)
        ax.set_xlim(left=0)
        ax.set_xlabel("mean distance of a value from the true one")
        ax.invert_yaxis()
        ax.legend(loc="lower right")
        # Without a date, equal boards give equal files.
        figure.savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None})
    return out.getvalue()


def publish(csv: Path, documents: Sequence[Path]) -> list[Path]:
    """Renew marked tables of documents, and the picture beside the CSV; say what was written.

    Raises
    ------
    BadInput
        If there is no board, or a document has no mark.
    """
    if not csv.is_file():
        raise BadInput(f"{csv}: no such file; `python -m experiments zoo board --csv` writes it")
    board = pd.read_csv(csv)
    texts = {path: path.read_text(encoding="utf-8") for path in documents}
    renewed = {path: with_board(text, board, str(path)) for path, text in texts.items()}
    for path, text in renewed.items():
        write_file(path, text)
    drawn = csv.parent / "board.svg"
    write_file(drawn, picture(board))
    return [drawn, *documents]
