"""Why a line of a table is behind the paper, or differs from what the paper says.

A reason names the lines that it explains by the values in their columns. Lines that none names are
shown as not explained yet, and a reason that explains no line fails a test: runs change.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from experiments.study import BEHIND, DIFFERS
from treeleak.core.private import dataclass

NOT_EXPLAINED = "Not explained yet."


@dataclass(frozen=True)
class Reason:
    """Why some lines of a table are behind, or differ.

    Attributes
    ----------
    table : str
        ``Table.name``.
    lines : sequence of mappings
        Each names lines by values in their columns; an empty one names all.
    why : str
    """

    table: str
    lines: Sequence[Mapping[str, Any]]
    why: str

    def explains(self, line: Mapping[Any, Any]) -> bool:
        """Say whether this is the reason for a line."""
        return any(all(line.get(k) == v for k, v in own.items()) for own in self.lines)


REASONS: tuple[Reason, ...] = tuple(
    Reason(**reason)
    for reason in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))[
        "reason"
    ]
)


def reason_for(table: str, line: Mapping[Any, Any]) -> str:
    """Say why a line of a table is behind, or differs."""
    return next((r.why for r in REASONS if r.table == table and r.explains(line)), NOT_EXPLAINED)


def worse_lines(frame: pd.DataFrame) -> Mapping[int, dict[Any, Any]]:
    """Find the lines that are behind, or differ, by their place."""
    if "verdict" not in frame:
        return MappingProxyType({})
    lines = enumerate(frame.to_dict("records"))
    return {k: line for k, line in lines if line["verdict"] in (BEHIND, DIFFERS)}
