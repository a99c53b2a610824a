"""Compile the loops that most tests need into numba's cache, before the tests begin.

Workers that start at the same time would each compile the same. Two processes share the work, each
with questions that need other loops: ``python -m tests.compile_kernels``.
"""

from __future__ import annotations

import multiprocessing as mp
from collections.abc import Sequence

HALVES = (
    ("exact_counts", "weights", "known_draws", "found_seed", "raw_numbers"),
    ("hidden_draws", "noisy_counts", "earlier_release", "leaf_labels"),
)
"""Questions of the golden test, by halves that take about as long to compile."""


def answer(names: Sequence[str]) -> None:
    """Answer these questions; what for, the cache remembers."""
    from tests.test_golden import CASES

    for name in names:
        CASES[name]()


def main() -> None:
    with mp.get_context("spawn").Pool(len(HALVES)) as pool:
        pool.map(answer, HALVES)


if __name__ == "__main__":
    main()
