"""Bound what this process may take, then run a module or a package in it.

Usage: ``python -I bounded.py MEMORY SECONDS WRITTEN PATH ARGUMENT...``. It stands alone (standard
library), as what it runs does: an isolated interpreter need not find the package they belong to.
"""

from __future__ import annotations

import contextlib
import runpy
import sys
from pathlib import Path


def bound(memory: int, seconds: int, written: int) -> None:
    """Bound bytes of memory, seconds and bytes of each file, where the system has a way to."""
    try:
        import resource
    except ImportError:
        return
    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, written),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(what, (most, most))


if __name__ == "__main__":
    bound(*map(int, sys.argv[1:4]))
    del sys.argv[:4]
    script = Path(sys.argv[0])
    # After all other folders, so that nothing beside it hides a library.
    sys.path.append(str(script.parent))
    runpy.run_module(script.stem, run_name="__main__", alter_sys=True)
