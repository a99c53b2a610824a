"""How many runs are done, and how long the rest may take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from treeleak.cli.files import say

_LOG_EVERY = 60.0
"""Seconds."""


@contextmanager
def watched(total: int, quiet: bool = False) -> Iterator[Callable[[int, int, float], None]]:
    """Show how many runs are done; in a log, now and then.

    What it gives is told the runs that are done, all runs, and the seconds since the beginning.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if quiet or not total:
        yield lambda *_: None
        return
    if not console.is_terminal:
        last = 0.0

        def log(done: int, all_: int, seconds: float) -> None:
            nonlocal last
            if done and (seconds - last >= _LOG_EVERY or done == all_):
                last = seconds
                left = _said(seconds / done * (all_ - done))
                say(f"{done} of {all_} runs, about {left} left")

        yield log
        return
    columns = TextColumn("running"), BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda done, *_: bar.update(task, completed=done)


def _said(seconds: float) -> str:
    """Say how long something may take: "80 s", "12 min", "2.5 h"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
