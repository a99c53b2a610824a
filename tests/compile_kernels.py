"""Compile the loops that most tests need into numba's cache, before the tests begin.

Workers that start at the same time would each compile the same. Two processes share the work, each
with questions that need other loops: ``python tests/compile_kernels.py``.
"""

from __future__ import annotations

import multiprocessing as mp
from collections.abc import Sequence
from importlib import import_module
from math import inf

from treeleak.attacks.known_draws.listing import compile_loops
from treeleak.core.clock import Clock

HALVES = (
    {
        "test_golden": (
            "hidden_draws",
            "noisy_counts",
            "leaf_labels",
            "audit_of_rules",
            "found_seed",
        ),
    },
    {
        "compile_kernels": ("narrow_leaves",),
        "test_golden": ("exact_counts", "weights", "known_draws", "raw_numbers"),
        "test_pricing": ("test_out_of_time_nothing_is_proved",),
    },
)
"""Functions without arguments, by modules; the halves take about as long to compile."""


def narrow_leaves() -> None:
    """Compile what narrows the leaves of rows where no grid is listed."""
    compile_loops(Clock(inf))


def compile_half(functions: dict[str, Sequence[str]]) -> None:
    """Call these functions; what for, the cache remembers."""
    for module, names in functions.items():
        for name in names:
            getattr(import_module(module), name)()


def main() -> None:
    with mp.get_context("spawn").Pool(len(HALVES)) as pool:
        pool.map(compile_half, HALVES)


if __name__ == "__main__":
    main()
