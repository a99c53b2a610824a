"""Decisions that the rounding of a processor must not change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.golden_cases import CASES
from treeleak.core import decisions
from treeleak.core.decisions import (
    clearly_less,
    falling,
    first_least,
    greatest,
    on_grid,
    rounded,
)

TESTS = Path(__file__).parent
OFF = 1e-14
"""More than sums of a few hundred terms differ by between processors."""
NAMES = ("exact_counts_of_few_trees", "known_draws_of_one_table", "hidden_draws", "weights")
finite = st.floats(-1e3, 1e3)


@given(st.lists(finite, min_size=1, max_size=20), st.integers(0, 2**32 - 1))
def test_sums_on_the_grid_are_exact_in_any_order(x, seed):
    grid = on_grid(x)
    assert np.abs(grid - x).max() <= decisions.GRID / 2
    shuffled = np.random.default_rng(seed).permutation(grid)
    assert shuffled.sum() == grid.sum() == sum(shuffled.tolist())


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=12), st.integers(0, 2**32 - 1))
def test_ties_are_settled_by_place_and_not_by_rounding(whole, seed):
    exact = np.array(whole) / 7
    off = exact * (1 + OFF * np.random.default_rng(seed).uniform(-1, 1, len(exact)))
    assert first_least(off) == exact.argmin()
    np.testing.assert_array_equal(falling(off), np.argsort(-exact, kind="stable"))
    first = np.argsort(-exact, kind="stable")[: len(exact) // 2]
    np.testing.assert_array_equal(greatest(off, len(exact) // 2), np.sort(first))
    np.testing.assert_array_equal(rounded(off), rounded(exact))
    for a, b in zip(off, exact, strict=True):
        assert not clearly_less(a, b)
        assert clearly_less(a, b + 1e-3)


@pytest.mark.parametrize(
    ("a", "b", "less"),
    [(1.0, np.inf, True), (np.inf, np.inf, False), (-1e-17, 0.0, False), (-1e-3, 0.0, True),
     (1e-300, 2e-300, False), (1e9, 1e9 + 0.5, False), (np.nan, 1.0, False)],
)  # fmt: skip
def test_what_is_clearly_less(a, b, less):
    assert clearly_less(a, b) is less


def jittered(monkeypatch, seed):
    """Let all that a decision rests on be off by chance, as if other sums had been rounded."""
    rng = np.random.default_rng(seed)

    def off(x):
        x = np.asarray(x, dtype=float)
        return x * (1 + OFF * rng.uniform(-1, 1, x.shape))

    jitter = {
        clearly_less: lambda a, b: clearly_less(float(off(a)), float(off(b))),
        on_grid: lambda x, *step: on_grid(off(x), *step),
        rounded: lambda x: rounded(off(x)),
        first_least: lambda x, axis=-1: first_least(off(x), axis),
        falling: lambda x: falling(off(x)),
        greatest: lambda x, n: greatest(off(x), n),
    }
    for name, module in list(sys.modules.items()):
        if name.startswith("treeleak.") and module is not decisions:
            for key, value in list(vars(module).items()):
                if callable(value) and (
                    own := next((j for f, j in jitter.items() if f is value), 0)
                ):
                    monkeypatch.setattr(module, key, own)


def told(name):
    """What a case answers, as plain values."""
    found = CASES[name](0).found
    return {
        "status": found.status, "proved": found.proved.tolist(),
        "X": found.X.to_numpy(float).tolist(), "y": found.y.astype(str).tolist(),
    }  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(c, marks=[pytest.mark.slow] * (c not in NAMES[1:3])) for c in NAMES]
)
def test_last_digits_change_no_status_and_no_row(name, monkeypatch):
    before = told(name)
    for seed in range(2):
        with monkeypatch.context() as patch:
            jittered(patch, seed)
            assert told(name) == before


@pytest.mark.slow
def test_other_kernels_of_the_library_change_no_status_and_no_row():
    """OpenBLAS sums as it did on processors of 2004, and NumPy as it does on the oldest."""
    code = "import json, test_decisions as t; print(json.dumps([t.told(n) for n in t.NAMES[:2]]))"
    old = {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX2 FMA3"}
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=TESTS, env=os.environ | old,
        capture_output=True, check=True, text=True,
    )  # fmt: skip
    assert json.loads(ended.stdout) == [told(name) for name in NAMES[:2]]
