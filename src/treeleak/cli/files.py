"""Files that commands write, what they say, and how they end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from treeleak.core.errors import BadInput
from treeleak.core.text import plain

if TYPE_CHECKING:
    from rich.console import Console

    from treeleak.core.clock import Clock, Progress
    from treeleak.reconstruction import Reconstruction

AUDITED, NO_ANSWER, VIOLATED, INTERRUPTED = 0, 3, 4, 130
BAD_INPUT = BadInput.exit_code

_OF_PATHS = ("TyperPath", "Path")


def status_of(result: Reconstruction | None) -> int:
    """Exit status that goes with an answer."""
    if result is None:
        return AUDITED
    if result.interrupted:
        return INTERRUPTED
    return NO_ANSWER if result.status == "unknown" else AUDITED


def make_paths(ctx: typer.Context) -> None:
    """Let the options of a command be paths where files were asked for.

    Before 0.29, Typer keeps text in ``ctx.params``: what hides folders from others found no file.
    """
    for option in ctx.command.params:
        value = ctx.params.get(option.name or "")
        if option.name and value and getattr(option, "type", None).__class__.__name__ in _OF_PATHS:
            several = isinstance(value, (list, tuple))
            ctx.params[option.name] = [Path(p) for p in value] if several else Path(value)


def check_words(words: Sequence[str]) -> None:
    """Refuse a file that would be read as an option: a commit may name files, and choose none."""
    for word in takewhile(lambda word: word != "--", words):
        if word.startswith("-") and Path(word).exists():
            raise BadInput(f"{word}: is a file, but reads as an option: type ./{word}, or -- first")


def check_place(path: Path, *inputs: Path | None) -> None:
    """Refuse a place that cannot be written, or is read by the same command."""
    if not path.parent.is_dir():
        raise BadInput(f"{path}: there is no folder {path.parent}: make it first")
    if path.is_dir():
        raise BadInput(f"{path}: is a folder: name a file in it")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise BadInput(f"{path}: you cannot write in {path.parent}: choose another place")
    if path.exists() and any(i.exists() and path.samefile(i) for i in inputs if i is not None):
        raise BadInput(f"{path}: is read by the same command, and would be overwritten")


def check_different(*places: Path | None) -> None:
    """Refuse one place for two results."""
    named: set[Path] = set()
    for place in filter(None, places):
        if place.resolve() in named:
            raise BadInput(f"{place}: named twice, and both results cannot be in one file")
        named.add(place.resolve())


def check_free(path: Path, force: bool, *inputs: Path | None) -> None:
    """Refuse to overwrite unless told to."""
    check_place(path, *inputs)
    if path.exists() and not force:
        raise BadInput(f"{path}: exists already; --force overwrites it")


def say(text: str, err: bool = True) -> None:
    """Print a line, to the error stream unless it is a result."""
    typer.echo(plain(text), err=err)


def console(stderr: bool = False) -> Console:
    """Where reports and progress go: plain text with NO_COLOR, and where nobody watches."""
    from rich.console import Console

    from treeleak.report.safe_console import guard

    plain_only = bool(os.environ.get("NO_COLOR"))
    return guard(
        Console(stderr=stderr, highlight=False, color_system=None if plain_only else "auto")
    )


def open_page(path: Path) -> None:
    """Open a page in the user's browser, if there is a screen to see it on.

    Without a terminal nobody waits for a page; without a screen, the terminal itself would become
    the browser.
    """
    screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if sys.stdout.isatty() and (screen or sys.platform in ("darwin", "win32")):
        import webbrowser

        with suppress(OSError, webbrowser.Error):
            webbrowser.open(path.resolve().as_uri())


@contextmanager
def progress_shown(
    quiet: bool, clock: Clock | None = None
) -> Iterator[Callable[[Progress], None] | None]:
    """Show on the error stream what is being done; nothing where nobody watches.

    A line stays of each stage that took a second or more. ``clock``: how much time is left.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar
    from rich.table import Column

    from treeleak.core.clock import now

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(10),
        TimeElapsedColumn(Column(min_width=7)),
        TextColumn("{task.fields[more]}"),
    )
    with Bar(*columns, console=console(stderr=True), transient=True) as bar:
        stage, since = "reading the model", now()
        task = bar.add_task(stage, total=1.0, more="")

        def show(step: Progress) -> None:
            nonlocal stage, since
            more = [] if step.misfit is None else [f"{step.misfit:,} counts missed"]
            more += [] if clock is None else [f"{clock.left:.0f} s left at most"]
            if step.stage != stage:
                took, stage, since = (stage, now() - since), step.stage, now()
                if took[1] >= 1.0:
                    line = ", ".join((f"{took[0]}: {took[1]:.0f} s", *more))
                    bar.console.print(line, style="dim", markup=False)
            bar.update(task, description=stage, completed=step.done, more=", ".join(more))

        yield show
