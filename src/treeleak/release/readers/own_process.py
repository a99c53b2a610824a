"""Hostile files, opened in a process of their own, with nothing of this one's environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def refused_by(worker: Path, given: Path, out: Path, seconds: int, **environment: str) -> str:
    """Let a script read ``given`` and write ``out``; say why it did not, or nothing.

    The script bounds its own memory and time. Raises TimeoutError if it takes longer than
    ``seconds``.
    """
    try:
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-I", str(worker), str(given), str(out)],
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
    said = done.stderr.strip().splitlines()
    # Without a last word, the system ended it.
    return said[-1] if said else "it takes more time or memory than its size explains"
