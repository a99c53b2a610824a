"""How much memory an attack may take: asked before it is taken, not after."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from treeleak.core.errors import NotCovered
from treeleak.core.message import MessageTemplate

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

LIMIT = 4 << 30
"""Bytes that a process may hold: about half of what a small machine has."""
TOO_MUCH = MessageTemplate("memory_limit", "{what} needs more than {gigabytes} GB of memory")


class TooLarge(NotCovered):
    """Something needs more memory than treeleak takes."""

    def __init__(self, what: str = "this") -> None:
        super().__init__(TOO_MUCH(what=what, gigabytes=LIMIT >> 30))


def require(what: str, shape: Sequence[int], dtype: DTypeLike = float) -> None:
    """Raise :class:`TooLarge` if an array would take more than the limit.

    ``what``: names the array, for the message.
    """
    import numpy as np  # Whoever asks has it loaded; the command line's help has not.

    if math.prod(map(int, shape)) * np.dtype(dtype).itemsize > LIMIT:
        raise TooLarge(what)


@contextmanager
def refused() -> Iterator[None]:
    """Say in words of our own that memory ran out."""
    try:
        yield
    except MemoryError as error:
        raise TooLarge from error


@contextmanager
def bounded() -> Iterator[None]:
    """Let the system refuse this process more than the limit: for programs, and on Linux only.

    What is reserved and never used counts for the system, so what is reserved by now comes on top.
    """
    if not sys.platform.startswith("linux"):
        yield
        return
    import resource

    before, most = resource.getrlimit(resource.RLIMIT_DATA)
    reserved, used = _of_process("VmData"), _of_process("VmRSS")
    limit = max(reserved + LIMIT - used, reserved)
    for bound in (before, most):
        limit = limit if bound == resource.RLIM_INFINITY else min(limit, bound)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, most))


def _of_process(name: str) -> int:
    """Bytes of this process, as the system counts them."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    return 0
