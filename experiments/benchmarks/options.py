"""Options that benchmarks have in common."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from experiments.store import FOLDER


class Options(argparse.ArgumentParser):
    """What can be asked of a benchmark, to which each adds its own.

    Parameters
    ----------
    name : str
        Of the benchmark.
    doc : str
        What it measures.
    parts : iterable of str
        Of which one can be asked for alone.
    seeds : str
        Those that run unless others are asked for, as ``first-last``; "" where there are none.
    kept : bool
        Whether its runs are kept.
    at_once : int
        Runs side by side, unless other numbers are asked for; 0 where that cannot be.
    """

    def __init__(
        self, name: str, doc: str, parts: Iterable[str] = (), seeds: str = "", kept: bool = True,
        at_once: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(
            prog=f"python -m experiments run {name}", description=doc,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        if parts:
            self.add_argument("--part", choices=[*parts, "all"], default="all")
        if seeds:
            self.add_argument(
                "--seeds", type=seed_range, default=seeds, help=f"first-last (default {seeds})"
            )
        if kept:
            self.add_argument("--fresh", action="store_true", help="do not use stored runs")
            self.add_argument(
                "--out", type=Path, default=FOLDER, metavar="DIR",
                help=f"where runs are kept (default {FOLDER})",
            )  # fmt: skip
        if at_once:
            self.add_argument(
                "--at-once", type=int, default=at_once, metavar="N",
                help=f"runs side by side (default {at_once}); seconds are then those of a share "
                "of the machine",
            )  # fmt: skip


def seed_range(text: str) -> range:
    """Read ``first-last``, or one number."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)
