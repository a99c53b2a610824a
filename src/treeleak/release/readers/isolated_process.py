"""Hostile files, opened in a process of their own, with nothing of this one's environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from treeleak.core.private import dataclass

_BOUNDED = Path(__file__).with_name("bounded.py")
_GROWTH = 100
"""Bytes of memory, and of what is written, for each byte of a file."""


@dataclass(frozen=True)
class Worker:
    """A module, or a package, that reads hostile files, and what it may take."""

    script: Path
    memory: int
    """Bytes, and more for each byte of the file."""
    written: int
    """The same of what it writes."""
    seconds: int
    """Of the processor's time, for a small file."""
    seconds_per_mib: int


def refused_by(worker: Worker, source: Path, out: Path, seconds: int, **environment: str) -> str:
    """Let a script read ``source`` and write ``out``; say why it did not, or nothing.

    Raises TimeoutError if it takes longer than ``seconds``.
    """
    size = source.stat().st_size
    bounds = (
        worker.memory + _GROWTH * size,
        worker.seconds + worker.seconds_per_mib * (size >> 20),
        worker.written + _GROWTH * size,
    )
    try:
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-I", *map(str, (_BOUNDED, *bounds, worker.script, source, out))],
            cwd=out.parent,
            env={k: v for k, v in os.environ.items() if k == "SYSTEMROOT"}
            | {"OPENBLAS_NUM_THREADS": "1"}
            | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError from error
    if done.returncode == 0 and out.is_file():
        return ""
    errors = done.stderr.strip().splitlines()
    # Without a last word, the system ended it.
    return errors[-1] if errors else "it takes more time or memory than its size explains"
