"""What rows that walk have to meet, and the walk, against counting and listing everything."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.cases import Stated
from helpers.examples import examples
from helpers.grids import columns_of_any_kind
from helpers.walks import digest
from treeleak.attacks import kernels
from treeleak.attacks.large_grid.learned_prior import learned, near
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.walk_kernels import LogPriorTables, WalkSettings, walk
from treeleak.attacks.large_grid.walkers import Walker
from treeleak.core import compiled
from treeleak.core.compiled import njit
from treeleak.schema import Binary, Ordinal, Schema

KINDS = ["rows", "weights", "none", "draws", "distinct"]


@examples(150, fast=25)
@given(columns_of_any_kind(), st.integers(0, 2**32), st.sampled_from(KINDS))
def test_the_misfit_is_that_of_the_independent_check(schema, seed, kind):
    case = Stated(schema, seed, kind)
    s = case.constraints
    truth = case.truth
    assert s.n_rows == len(truth)
    assert s.misfit(truth[:, :-1], truth[:, -1]) == 0
    rng = np.random.default_rng(seed)
    for _ in range(5):
        atoms = rng.integers(case.geometry.radix, size=truth[:, :-1].shape).astype(np.int32)
        label = rng.integers(case.n_classes, size=len(truth))
        if kind == "weights":
            # Where a class may not lie its rows are counted apart: there they miss two counts.
            assert (s.misfit(atoms, label) == 0) == (case.misfit(atoms, label) == 0)
        else:
            assert s.misfit(atoms, label) == case.misfit(atoms, label)


def _counting(sources):
    """Kept on disk, as the loop of the chains is: what was compiled goes with the kernels' text."""

    @njit()
    def visits(times, sweeps, trees, counts, likes, rows, how_to, radix, classes, out):
        for _ in range(times if len(sources) else 0):
            walk(sweeps, trees, counts, likes, rows, how_to)
            number = 0
            for k in range(len(rows.label)):
                for a in range(len(radix)):
                    number = number * radix[a] + rows.atoms[k, a]
                number = number * classes + rows.label[k]
            out[number] += 1

    return visits


_visits = _counting(digest(sys.modules[walk.__module__], kernels, compiled))


def frequencies(walker: Walker, how_to: WalkSettings, times: int) -> np.ndarray:
    s = walker.constraints
    radix = np.diff(s.masks.start)
    size = (int(radix.prod()) * s.n_classes) ** s.n_rows
    out = np.zeros(size, dtype=np.int64)
    _visits(
        times, 2, s.trees, walker.counts, walker.likes, walker.rows, how_to, radix, s.n_classes, out
    )  # fmt: skip
    return out / times


def log_prior(likes: LogPriorTables, start: np.ndarray, atoms: np.ndarray, line: int) -> float:
    """Log prior of a row, from its description."""
    total = 0.0
    for a, v in enumerate(atoms):
        total += likes.log_share[line, start[a] + v]
        for q, other in enumerate(likes.neighbour[a]):
            if 0 <= other < a:
                bins = likes.bin[start[a] + v], likes.bin[start[other] + atoms[other]]
                total += likes.coupling[a, q][bins]
    return float(total)


def law(walker: Walker, how_to: WalkSettings) -> np.ndarray:
    """What a long walk must see of each table of rows: exp(-price x misfit + log prior)."""
    s, likes = walker.constraints, walker.likes
    radix = np.diff(s.masks.start)
    points = list(itertools.product(*(range(r) for r in radix), range(s.n_classes)))
    out = []
    for table in itertools.product(points, repeat=s.n_rows):
        rows = np.array(table, dtype=np.int32)
        label = rows[:, -1].astype(np.int64)
        if not how_to.classes and (label != s.label).any():
            out.append(-np.inf)
            continue
        atoms = np.ascontiguousarray(rows[:, :-1])
        like = sum(
            log_prior(likes, s.masks.start, a, likes.line[k]) for k, a in enumerate(atoms)
        )  # fmt: skip
        counts = s.counted(s.masks.trace(atoms), label)
        inner = np.abs(counts.residual[s.once & (s.masks.leaf < 0)]).sum()
        out.append(like - how_to.price * (s.misfit(atoms, label) + how_to.inner * inner))
    likely = np.exp(np.array(out) - max(out))
    return likely / likely.sum()


TINY = Schema([Ordinal("a", 0, 2), Binary("b")])
MIXES = {
    "baths": WalkSettings(0.8, 0.0, 0.0, 0, False, False, False),
    "inner": WalkSettings(0.6, 0.4, 0.0, 0, False, False, False),
    "swaps": WalkSettings(0.8, 0.0, 0.0, 3, False, False, False),
    "classes": WalkSettings(0.6, 0.3, 0.0, 1, False, True, False),
}


def biased(constraints: RowConstraints, how: str) -> LogPriorTables:
    """Likes that are flat, or differ by row, or couple attributes by class."""
    rng = np.random.default_rng(5)
    if how == "flat":
        return constraints.flat
    if how == "near":
        cost = rng.random((constraints.n_rows, int(constraints.masks.start[-1])))
        return near(constraints, cost, 1.5)
    a = rng.integers(3, size=200)
    b, label = ((a > 0) ^ (rng.random(200) < 0.1)), (a > 1) ^ (rng.random(200) < 0.2)
    samples = [np.column_stack([a, b]).astype(np.int32)]
    return learned(constraints, samples, [label.astype(np.int64) % constraints.n_classes])


WALKS = [
    ("rows", "baths"),
    ("rows", "inner"),
    ("rows", "swaps"),
    ("none", "swaps"),
    ("none", "classes"),
    ("draws", "inner"),
    ("draws", "classes"),
    ("distinct", "inner"),
    ("distinct", "swaps"),
    ("distinct", "classes"),
]

SOME_WALKS = [("none", "classes"), ("draws", "inner"), ("distinct", "swaps")]
"""Walked each time."""


@pytest.mark.parametrize(
    ("kind", "mix", "likes"),
    # What is learned is told the classes: they do not change then.
    [
        pytest.param(
            *how, likes, marks=pytest.mark.each if likes == "near" and how in SOME_WALKS else ()
        )
        for how in WALKS
        for likes in ("flat", "near", "learned")
        if "classes" not in how or likes != "learned"
    ],
)
@pytest.mark.slow
def test_a_long_walk_sees_every_table_as_often_as_it_is_likely(kind, mix, likes):
    how_to = MIXES[mix]
    case = two_classes(kind)
    s = case.constraints
    walker = Walker.started(s, 1)
    walker = replace(walker, likes=biased(s, likes))
    if likes == "learned":
        walker = replace(walker, likes=walker.likes._replace(line=walker.rows.label))
    wanted = law(walker, how_to)
    possible = (wanted > 0).sum()
    assert 2 / possible < wanted.max() < 0.6
    times = 60_000
    found = frequencies(walker, how_to, times)
    # The sum of the absolute errors of so many independent draws, and room for dependence.
    noise = np.sqrt(wanted * (1 - wanted) / times).sum()
    assert np.abs(found - wanted).sum() / 2 < 1.2 * noise + 0.004


def two_classes(kind: str) -> Stated:
    """Three rows of two classes on a grid of six points, in which trees part all values."""
    for seed in itertools.count():
        case = Stated(TINY, seed, kind, 2 if kind == "none" else 3)
        several = case.n_classes == 2 and case.constraints.masks.start.tolist() == [0, 3, 5]
        both = kind == "none" or len(set(case.truth[:, -1].tolist())) == 2
        if several and both and len(case.release.trees) > 1:
            return case
    raise AssertionError


# ---------------------------------------------------------- which leaves rows are taken to lie in
