"""The application that commands register with, and how it ends."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from treeleak._version import __version__
from treeleak.cli.files import INTERRUPTED, say
from treeleak.core.clock import PAUSE, Clock
from treeleak.core.errors import TimeUp, TreeleakError
from treeleak.core.memory import TooLarge, bounded
from treeleak.core.signals import Terminated, at_work, end_now, ended_in_time, terminable
from treeleak.core.text import listed, plain

# Click comes with Typer, in some versions under a name of its own.
_CLICKS: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


@contextmanager
def _plain_usage() -> Iterator[None]:
    """Quote what was typed wrongly as plain text."""
    try:
        yield
    except _CLICKS as error:
        error.message = plain(error.message, keep="\n")
        if owners := _owners(error):
            error.message += f": it is an option of {listed(owners)}"
            error.possibilities = None
        raise


def _owners(error: Any) -> list[str]:
    """Name the commands that have an option, where it was given to another."""
    option, ctx = getattr(error, "option_name", None), getattr(error, "ctx", None)
    others = getattr(getattr(getattr(ctx, "parent", None), "command", None), "commands", {})
    return [
        f"treeleak {name}"
        for name, command in others.items()
        if any(option in (*p.opts, *p.secondary_opts) for p in command.params)
    ]


class _Group(TyperGroup):
    """Turns errors into one line and an exit status, and remembers what was typed."""

    def make_context(self, info_name: Any, args: list[str], *more: Any, **extra: Any) -> Any:
        typed = tuple(args)
        with _plain_usage():
            ctx = super().make_context(info_name, args, *more, **extra)
        ctx.obj = typed
        return ctx

    def invoke(self, ctx: Any) -> Any:
        try:
            with _plain_usage():
                return super().invoke(ctx)
        except TreeleakError as error:
            raise typer.Exit(_refused(error)) from None
        except MemoryError:
            raise typer.Exit(_refused(TooLarge())) from None
        except KeyboardInterrupt:
            say("treeleak: interrupted")
            raise typer.Exit(INTERRUPTED) from None


def _refused(error: TreeleakError) -> int:
    say(f"treeleak: {error}")
    return error.exit_code


@contextmanager
def in_bounds(clock: Clock, finish: Callable[[], int] | None = None) -> Iterator[None]:
    """Keep to the limits of time and memory.

    ``finish``: as for :func:`ended_in_time`; without it, all that is said is that the time is up.
    """

    def last() -> int:
        try:
            if finish is None:
                raise TimeUp(clock.timeout_message)
            return finish()
        except TreeleakError as error:
            return _refused(error)
        except Exception:
            return _unforeseen()

    with ended_in_time(clock, last), bounded():
        yield


def commands(description: str, epilog: str, completion: bool = True) -> typer.Typer:
    """Make an application whose errors are one line and an exit status.

    ``description``: what it is for. ``epilog``: what stands below its options. ``completion``:
    whether shells can be told to complete what is typed.
    """
    return typer.Typer(
        cls=_Group,
        no_args_is_help=True,
        add_completion=completion,
        # Rich leaves bold and italics where colours are unwanted; without markup there is neither.
        rich_markup_mode=None if os.environ.get("NO_COLOR") else "rich",
        pretty_exceptions_enable=False,
        pretty_exceptions_show_locals=False,
        help=description,
        epilog=epilog,
    )


app = commands(
    "How much of its training data does a tree model disclose? Rebuild it and see.",
    "Exit status: 0 done, 1 a bug, 2 bad input, 3 no answer in time, 4 policy not met, "
    "130 interrupted, 143 ended by SIGTERM.",
)


def run_commands(chosen: typer.Typer) -> None:
    """Run a command line; what nobody foresaw is shown in full."""
    PAUSE.compiling = _Compiling()
    try:
        with terminable():
            chosen()
        status = 0
    except SystemExit as end:
        if not at_work():
            raise
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except Terminated as told:
        say(f"treeleak: ended by {told}")
        end_now(told.exit_code)
    except Exception:
        status = _unforeseen()
    if at_work():
        end_now(status)
    sys.exit(status)


def _unforeseen() -> int:
    for line in traceback.format_exc().splitlines():
        say(line)
    say(
        "treeleak: this is a bug. Please report it with the lines above, but remove any "
        "values of your data."
    )
    return 1


class _Compiling:
    """Says that loops are compiled, and every ten seconds how long so far."""

    next = 0.0

    def __call__(self) -> None:
        if PAUSE.seconds >= self.next:
            first = (
                "once: about 80 s of processor time in all, which count for no time limit "
                "(treeleak warm-up does it beforehand)"
            )
            say(f"treeleak: compiling, {f'{PAUSE.seconds:.0f} s so far' if self.next else first}")
            self.next = PAUSE.seconds + 10.0


def main() -> None:
    """Run the command line of treeleak."""
    run_commands(app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"treeleak {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass
