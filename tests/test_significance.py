"""Whether a reconstruction is nearer to the training rows than to others of their population."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from experiments.data import load_draft
from helpers.chance import TAIL
from treeleak.core.errors import BadInput
from treeleak.metrics import Significance, significance
from treeleak.metrics.matching import part_errors
from treeleak.schema import Binary, Numeric, Schema

BITS = Schema([Binary(c) for c in "abcdef"])
SHARED = Path(os.environ.get("TREELEAK_DATA", Path(__file__).parents[2] / "shared" / "data"))


def bits(n, seed, share=0.4):
    rng = np.random.default_rng(seed)
    # Columns that hang together, as people's do.
    first = rng.random(n) < share
    rest = rng.random((n, 5)) < np.where(first, 0.7, 0.2)[:, None]
    return pd.DataFrame(np.column_stack([first, rest]).astype(int), columns=list("abcdef"))


# ----------------------------------------------------------------------------------- its parts


@st.composite
def parted(draw):
    """A small table, a pool, and positions of parts of the pool, at least as large."""
    row = st.tuples(st.integers(0, 1), st.integers(0, 1), st.sampled_from([0.0, 0.3, 1.0]))
    n = draw(st.integers(1, 4))
    m = draw(st.integers(n, 6))
    X, pool = (
        pd.DataFrame(draw(st.lists(row, min_size=k, max_size=k)), columns=list("abx"))
        for k in (n, m)
    )
    sizes = draw(st.lists(st.integers(n, m), min_size=1, max_size=3))
    order = st.permutations(range(m))
    return X, pool, [np.array(draw(order)[:size]) for size in sizes]


@given(parted())
def test_parts_are_measured_as_the_best_choice_of_their_rows_is(case):
    X, pool, parts = case
    schema = Schema([Binary("a"), Binary("b"), Numeric("x", 0, 1)])
    a, b = X.to_numpy(float), pool.to_numpy(float)
    found = part_errors(X, pool, parts, schema)
    for part, error in zip(parts, found, strict=True):
        costs = np.abs(a[:, None] - b[part][None]).sum(axis=2)
        best = min(
            costs[np.arange(len(a)), list(p)].sum()
            for p in itertools.permutations(range(len(part)), len(a))
        )
        assert error == pytest.approx(best / X.size)


# ------------------------------------------------------------------------------------ the test


def check_uniform(values: list[float]) -> None:
    """Check what uniform values leave once in some thousand times: their mean, and their tail."""
    n = len(values)
    assert abs(np.mean(values) - 0.5) < norm.isf(TAIL) / np.sqrt(12 * n)
    assert np.less_equal(values, 0.05).sum() <= binom.ppf(1 - TAIL, n, 0.05)


def test_rank_and_tail_are_those_of_the_formulas():
    errors = np.array([0.3, 0.2, 0.25, 0.1, 0.4])
    found = Significance(0.2, errors, np.array([0.1, 0.3]), 10, 10, 100)
    assert found.rank == (1 + 2) / 6
    assert found.tail == pytest.approx(norm.cdf(0.2, errors.mean(), errors.std()))
    assert found.train_vs_other_draws == pytest.approx(0.2)
    told = found.to_dict()
    assert told["others_mean"] == pytest.approx(0.25)
    assert told["draws"] == 5


@pytest.mark.parametrize(("error", "tail"), [(0.2, 1.0), (0.1, 0.0), (0.3, 1.0)])
def test_draws_that_are_all_alike_have_no_law_to_fit(error, tail):
    found = Significance(error, np.full(100, 0.2), np.zeros(1), 10, 10, 100)
    assert found.tail == tail
    assert found.rank == (1 if error >= 0.2 else 1 / 101)


@pytest.mark.slow
def test_knowing_the_population_alone_is_not_significant():
    """Over many training sets, the rank of what is independent of them is uniform."""
    control = bits(600, 2)
    ranks, tails = [], []
    for seed in range(40):
        found = significance(bits(12, 500 + seed), bits(12, 900 + seed), control, BITS, seed=seed)
        ranks.append(found.rank)
        tails.append(found.tail)
    for values in (ranks, tails):
        check_uniform(values)


@pytest.mark.slow
def test_few_control_rows_make_no_false_alarms():
    schema = Schema([Numeric("x", -4, 4)])
    times, false = 100, 0
    for seed in range(times):
        x = np.random.default_rng(seed).normal(size=40)
        rec, true, control = (pd.DataFrame({"x": part}) for part in np.split(x, [10, 20]))
        false += significance(rec, true, control, schema, seed=seed).rank <= 0.05
    assert false <= binom.ppf(1 - TAIL, times, 0.05)


@pytest.mark.parametrize(
    ("rec", "control", "n_draws", "said"),
    [
        (9, 100, 100, "9 reconstructed rows against 10"),
        (10, 0, 100, "control table has no rows"),
        (10, 100, 99, "at least 100"),
    ],
)
def test_what_cannot_be_tested_is_refused(rec, control, n_draws, said):
    with pytest.raises(BadInput, match=said):
        significance(bits(rec, 0), bits(10, 1), bits(100, 2)[:control], BITS, n_draws)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "published"), [("compas", 0.065), ("adult", 0.087), ("default_credit", 0.115)]
)
def test_knowing_the_population_alone_gives_what_was_published(name, published):
    if not (SHARED / f"draft_{name}.csv").is_file():
        pytest.skip(f"{SHARED} has no draft_{name}.csv (TREELEAK_DATA)")
    data = load_draft(name, SHARED)
    X = data.X.reset_index(drop=True)
    found = significance(X[100:200].reset_index(drop=True), X[:100], X[200:], data.schema)
    assert found.train_vs_other_draws == pytest.approx(published, abs=0.004)
    # Other rows as the reconstruction: the errors are of the same kind.
    assert found.errors.mean() == pytest.approx(published, abs=0.006)
