"""Compile the loops that most tests need into numba's cache, before the tests begin.

Workers that start at the same time would each compile the same. Two processes share the work, each
with questions that need other loops: ``python tests/compile_kernels.py``.
"""

from __future__ import annotations

import gc
import multiprocessing as mp
from collections.abc import Sequence
from importlib import import_module

from treeleak.warm_up import QUESTIONS

HALVES = (
    {
        "helpers.golden_cases": (
            "hidden_draws",
            "noisy_counts",
            "leaf_labels",
            "audit_of_rules",
            "found_seed",
            "raw_numbers",
        ),
    },
    {
        "helpers.golden_cases": ("known_draws", "exact_counts", "weights"),
        "compile_kernels": ("asked_by_users",),
    },
)
"""Functions without arguments, by modules; the halves take about as long to compile.

What both halves need stands first in one, and last in the other, which finds it compiled.
"""


def asked_by_users() -> None:
    """Compile what ``treeleak warm-up`` does, as far as it is left."""
    for ask in QUESTIONS.values():
        ask()


def compile_half(functions: dict[str, Sequence[str]]) -> None:
    """Call these functions; what for, the cache remembers."""
    gc.disable()  # Compilers make many objects and few circles.
    for module, names in functions.items():
        for name in names:
            getattr(import_module(module), name)()


def main() -> None:
    with mp.get_context("spawn").Pool(len(HALVES)) as pool:
        pool.map(compile_half, HALVES)


if __name__ == "__main__":
    main()
