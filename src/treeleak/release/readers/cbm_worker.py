"""Turn CatBoost's binary model into its JSON; run as a process of its own.

Usage: ``python -I cbm_worker.py FILE OUT``. The file is opened by CatBoost's own code, which is not
made for hostile files: memory, time and files are bounded, and whatever goes wrong is one line.
"""

from __future__ import annotations

import contextlib
import os
import sys

CPU_SECONDS = 60
CPU_SECONDS_PER_MIB = 4
FREE_BYTES = 8 << 30
GROWTH = 100


def limit(path: str) -> None:
    """Bound memory, time and files, where the system has a way to."""
    try:
        import resource
    except ImportError:
        return
    size = os.path.getsize(path)
    memory = FREE_BYTES + GROWTH * size
    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, CPU_SECONDS + CPU_SECONDS_PER_MIB * (size >> 20)),
        (resource.RLIMIT_FSIZE, (64 << 20) + GROWTH * size),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(what, (most, most))


def main(path: str, out: str) -> None:
    """Read the model at ``path`` and write ``out``."""
    limit(path)
    from catboost import CatBoost

    model = CatBoost()
    model.load_model(path, format="cbm")
    model.save_model(out, format="json")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except BaseException as error:
        # Whatever a hostile file provokes, the answer is one line.
        sys.exit(f"{type(error).__name__}: {error}".replace("\n", " ")[:300])
