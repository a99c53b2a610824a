"""How loops are compiled: kept on disk, without the interpreter's lock, and with types for mypy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def njit(*, inline: bool = False, fastmath: bool = False) -> Callable[[F], F]:
    """Compile a function at its first call, and keep what was compiled for later processes."""
    how = "always" if inline else "never"
    return numba.njit(cache=True, nogil=True, inline=how, fastmath=fastmath)  # type: ignore[no-any-return]
