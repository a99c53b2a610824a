"""How loops are compiled: kept on disk, without the interpreter's lock, and with types for mypy.

Time spent compiling counts for no clock, and whoever watches is told of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numba import types
from numba.core import event
from numba.extending import intrinsic

from treeleak.core.clock import PAUSE

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=tuple[Any, ...])

_BRIEF = 1.0
"""Seconds of compiling that nobody needs to be told of."""


class _Compiling(event.Listener):  # type: ignore[misc]
    """Stops all clocks while something is compiled; what the cache holds is not."""

    def on_start(self, event: event.Event) -> None:  # noqa: ARG002
        if PAUSE.seconds > _BRIEF:
            PAUSE.compiling()
        PAUSE.begin()

    def on_end(self, event: event.Event) -> None:  # noqa: ARG002
        PAUSE.end()


event.register("numba:compile", _Compiling())


def njit(*, inline: bool = False, fastmath: bool = False) -> Callable[[F], F]:
    """Compile a function at its first call, and keep what was compiled for later processes.

    One whose name begins with ``_`` is called by other compiled functions only: without what Python
    calls it by, it is compiled sooner.
    """

    def compiled(function: F) -> F:
        options = {
            "nogil": True,
            "inline": "always" if inline else "never",
            "fastmath": fastmath,
            "no_cpython_wrapper": function.__name__.startswith("_"),
            "no_cfunc_wrapper": True,
        }
        try:
            return numba.njit(cache=True, **options)(function)  # type: ignore[no-any-return]
        except RuntimeError:  # No folder can be written: each process compiles anew.
            return numba.njit(**options)(function)  # type: ignore[no-any-return]

    return compiled


@njit(inline=True)
def put(out: Any, values: Any) -> None:
    """Write values into an array of one axis, for loops.

    What ``out[:] = values`` says of arrays that do not fit takes longer to compile than most loops.
    """
    for i in range(len(out)):
        out[i] = values[i]


def stored_in() -> str | None:
    """Folder of what was compiled of this module, like those of the others; None for none."""
    folder: str | None = getattr(put, "stats").cache_path  # noqa: B009 (added by numba)
    return folder


def copied(arrays: T) -> T:
    """Copy what a loop is going to write into: who holds the old arrays sees no change."""
    make: Callable[..., T] = type(arrays)
    return make(*(x.copy() if isinstance(x, np.ndarray) else x for x in arrays))


@intrinsic  # type: ignore[untyped-decorator]
def lowest_bit(_typing: Any, x: Any) -> Any:
    """Number of the lowest bit that is set; of no use for 0."""

    def code(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], context.get_constant(types.boolean, 1))

    return types.int64(x), code


@intrinsic  # type: ignore[untyped-decorator]
def count_bits(_typing: Any, x: Any) -> Any:
    """How many bits are set."""

    def code(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(x), code
