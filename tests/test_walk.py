"""What rows that walk have to meet, and the walk, against counting and listing everything."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.cases import Stated
from helpers.examples import examples
from helpers.grids import columns_of_any_kind
from helpers.releases import rows_at
from helpers.walks import digest
from treeleak.attacks import kernels
from treeleak.attacks.large_grid.learned_prior import learned, near
from treeleak.attacks.large_grid.restarts import _STAYED, WalkHistory
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.walk_kernels import LogPriorTables, WalkSettings, walk
from treeleak.attacks.large_grid.walkers import Walker
from treeleak.core import compiled
from treeleak.core.compiled import njit
from treeleak.evidence import evidence_for
from treeleak.schema import Binary, Numeric, Ordinal, Schema
from treeleak.side_information.known_tables import KnownTables
from treeleak.verification.counts import check_rows

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


@examples(40, fast=5)
@given(st.integers(0, 2**32), st.booleans(), st.sampled_from(["rows", "none"]))
def test_known_parts_are_counted_as_any_tree(seed, labelled, kind):
    schema = Schema([Ordinal("a", 0, 3), Binary("b"), Numeric("n", -4.0, 8.0)])
    case = Stated(schema, seed, kind)
    names, truth = list(case.release.feature_names), case.truth
    X, y = rows_at(case.geometry, truth[:, :-1]), truth[:, -1]
    columns = pd.DataFrame({"a": X[:, names.index("a")]})
    columns = columns.assign(label=y) if labelled else columns
    known = KnownTables.of(case.release, schema, len(X), None, columns, ordered=False)
    geometry = known.geometry(case.release, counted=True)
    s = RowConstraints.of_exact(evidence_for(case.release)(geometry), geometry)
    part, rng = geometry.release.trees[-1], np.random.default_rng(seed)
    for _ in range(5):
        atoms = rng.integers(geometry.radix, size=(len(X), len(geometry.radix))).astype(np.int32)
        label = rng.integers(case.n_classes, size=len(X))
        rows = rows_at(geometry, atoms)
        misfit = check_rows(geometry.release, rows, label).misfit
        leaf = part.apply(rows.astype(geometry.release.float_type))
        if kind == "none" and part.counts is not None:
            misfit += int((part.counts[leaf, label] <= 0).sum())
            assert (s.misfit(atoms, label) == 0) == (misfit == 0)
        else:
            assert s.misfit(atoms, label) == misfit


@examples(100, fast=16)
@given(columns_of_any_kind(), st.integers(0, 2**32), st.sampled_from(KINDS))
def test_what_is_missed_at_inner_nodes_is_what_rows_give_there(schema, seed, kind):
    case, rng = Stated(schema, seed, kind), np.random.default_rng(seed)
    s, truth = case.constraints, case.truth
    atoms = rng.integers(case.geometry.radix, size=truth[:, :-1].shape).astype(np.int32)
    label = truth[:, -1] if kind != "none" else rng.integers(case.n_classes, size=len(truth))
    counts = s.counted(s.masks.trace(atoms), label.astype(np.int64))
    there = [
        (rows_at(case.geometry, a).astype(case.release.float_type), c)
        for a, c in [(truth[:, :-1], truth[:, -1]), (atoms, label)]
    ]
    for t, tree in enumerate(case.release.trees):
        true, found = (passing(tree, x, c, s.draws[:, t], case.n_classes) for x, c in there)
        for v in np.flatnonzero(~tree.is_leaf):
            node = s.masks.root[t] + v
            missed = counts.residual[: case.n_classes, node]
            if kind in ("weights", "none"):
                assert (missed == (found - true)[v].sum()).all()
            else:
                assert (missed == (found - true)[v]).all()
            if kind == "distinct":
                true_d, found_d = (passing(tree, x, c, s.draws[:, t] > 0, case.n_classes)
                                   for x, c in there)  # fmt: skip
                assert counts.residual[-1, node] == (found_d - true_d)[v].sum()


def passing(tree, x, label, draws, n_classes):
    """Draws of each class that pass each node of a tree."""
    out = np.zeros((tree.n_nodes, n_classes), dtype=np.int64)
    np.add.at(out, (tree.apply(x), label.astype(np.int64)), draws.astype(np.int64))
    for v in np.flatnonzero(~tree.is_leaf)[::-1]:
        out[v] = out[tree.left[v]] + out[tree.right[v]]
    return out


def some_settings(rng: np.random.Generator, constraints: RowConstraints) -> WalkSettings:
    return WalkSettings(
        price=float(rng.choice([0.0, 0.3, 2.0])),
        inner=float(rng.choice([0.0, 0.2])),
        pull=float(rng.choice([0.0, 0.2])),
        swaps=int(rng.choice([0, 2])),
        trades=bool(rng.integers(2)) and not constraints.exchangeable,
        classes=bool(rng.integers(2)),
        until_met=bool(rng.integers(2)),
    )


def check_kept(walker: Walker) -> None:
    """What a walker keeps is what its rows give."""
    s, rows = walker.constraints, walker.rows
    label = rows.label.astype(np.int64)
    assert (rows.leaves == s.masks.trace(rows.atoms)).all()
    assert (walker.counts.residual == s.counted(rows.leaves, label).residual).all()
    assert rows.misfit[0] == s.misfit(rows.atoms, label)
    best = np.ascontiguousarray(rows.best[:, :-1])
    assert rows.misfit[1] == s.misfit(best, rows.best[:, -1].astype(np.int64))
    assert rows.misfit[1] <= rows.misfit[0]
    assert walker.misfit == rows.misfit[1]


@examples(150, fast=25)
@given(columns_of_any_kind(), st.integers(0, 2**32), st.sampled_from(KINDS))
def test_a_walk_keeps_what_its_rows_give(schema, seed, kind):
    case, rng = Stated(schema, seed, kind), np.random.default_rng(seed)
    s, n = case.constraints, case.constraints.n_rows
    fixed = rng.random(n) < 0.3
    walker = Walker.started(s, seed % 1000, case.truth, fixed)
    baths = [some_settings(rng, s) for _ in range(4)]
    for how_to in baths:
        before = walker.misfit
        walker, sweeps = walker.walked(5, how_to)
        assert 1 <= sweeps <= 5
        check_kept(walker)
        assert walker.misfit <= before
        assert (walker.places[fixed] == case.truth[fixed]).all()
        assert not s.open_label.all() or (walker.places[~s.open_label, -1] == 0).all()
    again = Walker.started(s, seed % 1000, case.truth, fixed)
    for how_to in baths:
        again, _ = again.walked(5, how_to)
    assert (again.places == walker.places).all()
    walker = walker.forgetful()
    check_kept(walker)
    assert walker.misfit == walker.rows.misfit[0]
    assert not walker.counts.multiplier.any()
    walker, _ = walker.walked(5, baths[0])
    check_kept(walker)


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


@pytest.mark.parametrize("seed", range(4))
def test_rows_stay_out_of_leaves_that_are_closed_to_them(seed):
    schema = Schema([Ordinal("a", 0, 5), Binary("b"), Numeric("n", -4.0, 8.0)])
    case = Stated(schema, seed, "distinct", 8)
    s, truth = case.constraints, case.truth
    home = s.masks.row[s.masks.trace(truth[:, :-1].astype(np.int32))]
    closed = np.ones((s.n_rows, s.geometry.leaf_start[-1]), dtype=np.uint8)
    np.put_along_axis(closed, home, 0, axis=1)
    drawn = s.draws > 0
    how_to = WalkSettings(0.0, 0.0, 0.0, 0, False, False, False)
    free, walled = (
        Walker.started(c, seed).walked(200, how_to)[0] for c in (s, replace(s, closed=closed))
    )
    assert (s.masks.row[walled.rows.leaves] == home)[drawn].all()
    assert not (s.masks.row[free.rows.leaves] == home)[drawn].all()


# ---------------------------------------------------------- which leaves rows are taken to lie in


COLUMNS = Schema([Ordinal("a", 0, 5), Binary("b"), Numeric("n", -4.0, 8.0)])
CHEAP, DEAR = 0.9 * _STAYED, 1.1 * _STAYED


def _never_left(s: RowConstraints, *noted: tuple[float, list[Walker]]) -> np.ndarray:
    recent = WalkHistory(False, [], [])
    for price, walkers in noted:
        recent.note(walkers, s, price)
    return recent.never_left(s)


@pytest.mark.parametrize("seed", range(4))
def test_rows_never_left_a_leaf_if_all_walkers_were_there_whenever_missed_counts_were_dear(seed):
    s = Stated(COLUMNS, seed, "distinct", 8).constraints
    one, other = (Walker.started(s, seed + i) for i in (0, 100))
    a, b = (s.masks.row[w.rows.leaves] for w in (one, other))
    drawn = s.draws > 0
    alone = _never_left(s, (DEAR, [one]))
    assert (alone[drawn] == a[drawn]).all()
    assert (alone[~drawn] == -1).all()
    assert ((a != b) & drawn).any()
    both = np.where((a == b) & drawn, a, -1)
    assert (_never_left(s, (DEAR, [one, other])) == both).all()
    # Coming back does not help, and where rows were while nothing had a price is not asked.
    assert (_never_left(s, (DEAR, [one]), (DEAR, [other]), (DEAR, [one])) == both).all()
    assert (_never_left(s, (CHEAP, [other]), (DEAR, [one])) == alone).all()
    assert (_never_left(s, (CHEAP, [one])) == -1).all()
