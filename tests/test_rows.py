"""Rows told apart by their draws: candidates, bounds, fits and proofs against brute force."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.brute_force import equations_of, released_counts
from helpers.cases import Drawn, some_drawn
from helpers.examples import examples
from helpers.grids import all_points
from helpers.releases import drawn
from treeleak.attacks.known_draws import candidates as rows
from treeleak.attacks.known_draws.candidates import RowProblem, Unmet
from treeleak.attacks.known_draws.dual import Coordinates, certain_rows, fit, reaction
from treeleak.attacks.known_draws.row_solver import RowSolver
from treeleak.core.clock import Clock
from treeleak.core.errors import NotCovered
from treeleak.evidence import Pairs
from treeleak.partition import enumerate_drawable

SEEDS = st.integers(0, 2**32)
Place = tuple[int, ...]
"""Rows of A, one per tree, and the class."""


def clock() -> Clock:
    return Clock(60.0)


def listed(case: Drawn, distinct: bool = True) -> tuple[RowProblem, list[Place]]:
    """The problem before any bound, and the place of each of its pairs."""
    evidence = case.known(distinct)
    partition = enumerate_drawable(evidence.geometry, evidence.row_sets())
    pairs = Pairs.of(partition)
    leaf = partition.signature[pairs.cell]
    places = [tuple(p) for p in np.column_stack([leaf, pairs.label_of]).tolist()]
    return RowProblem.of(evidence, partition, pairs), places


def or_none(make):
    try:
        return make()
    except Unmet:
        return None


def held(problem: RowProblem, places: list[Place]) -> list[set[Place]]:
    """Where each row may be; nowhere if no tree drew it."""
    out = [{places[p]} if p >= 0 else set() for p in problem.fixed_pair]
    for i, k in enumerate(problem.rows):
        own = problem.column[problem.start[i] : problem.start[i + 1]]
        assert len(set(own)) == len(own) > 1
        assert (np.diff(own) > 0).all()
        out[k] = {places[p] for p in problem.pair[own]}
    return out


def by_hand(case: Drawn) -> list[set[Place]]:
    """Every place whose leaf counts enough draws of the class in every tree."""
    points = all_points(case.schema, case.release.feature_names)
    n, _ = released_counts(case.release)
    out = []
    for b in case.b.T:
        own = set()
        for at in {tuple(e) for e in equations_of(case.release, points).tolist()}:
            own |= {(*at, c) for c in range(n.shape[1]) if (b <= n[list(at), c]).all()}
        out.append(own if b.any() else set())
    return out


def bounded_by_hand(case: Drawn, may: list[set[Place]], distinct: bool) -> list[set[Place]] | None:
    """Strike out what bounds on single equations rule out; None if one cannot be met."""
    n, start = released_counts(case.release)
    d = np.concatenate([tree.distinct[tree.leaves] for tree in case.release.trees])
    equations = [
        (t, v, c, n[v, c])
        for t in range(len(case.b))
        for v in range(start[t], start[t + 1])
        for c in range(n.shape[1])
    ]
    if distinct:
        equations += [(t, v, None, d[v]) for t, v, c, _ in equations if c == 0]
    may = [set(own) for own in may]
    changed = True
    while changed:
        changed = False
        for t, v, c, target in equations:
            b = case.b[t].astype(int) if c is not None else (case.b[t] > 0).astype(int)
            inside = [{p for p in own if p[t] == v and c in (None, p[-1])} for own in may]
            can = [k for k in np.flatnonzero(b) if inside[k]]
            must = [k for k in can if inside[k] == may[k]]
            low, high = b[must].sum(), b[can].sum()
            if not low <= target <= high:
                return None
            for k in set(can) - set(must):
                if low + b[k] > target:
                    may[k] -= inside[k]
                    changed = True
                elif high - b[k] < target:
                    may[k] = inside[k]
                    changed = True
    return may


def worlds_of(case: Drawn, distinct: bool) -> set[tuple[Place, ...]] | None:
    """Where the rows that some tree drew are, in every table that meets the counts."""
    found = case.arrangements(distinct)
    return None if found is None else {tuple(map(tuple, world.tolist())) for world in found}


def columns_of(problem: RowProblem, places: list[Place], world: tuple[Place, ...]) -> np.ndarray:
    """The column of each open row in a world."""
    seen = np.flatnonzero(problem.evidence.drawn).tolist()
    pair = {places[p]: j for j, p in enumerate(problem.pair)}
    return np.array([pair[world[seen.index(k)]] for k in problem.rows], dtype=np.int64)


def split(problem: RowProblem, x: np.ndarray) -> list[np.ndarray]:
    """Numbers per candidate, row by row."""
    return [x[a:b] for a, b in itertools.pairwise(problem.start)]


def random_choice(problem: RowProblem, rng: np.random.Generator) -> np.ndarray:
    return np.array([rng.choice(own) for own in split(problem, problem.column)], dtype=np.int64)


# --------------------------------------------------------------------------------- candidates


@examples(60, fast=10)
@given(SEEDS)
def test_candidates_are_the_places_that_count_enough_draws(seed):
    case = some_drawn(seed)
    expected = by_hand(case)
    nowhere = [k for k in np.flatnonzero(case.seen) if not expected[k]]
    found = or_none(lambda: listed(case))
    assert (found is None) == bool(nowhere)
    if found is not None:
        assert held(*found) == expected


def test_too_many_candidates_are_refused(monkeypatch):
    case = some_drawn(3, n_rows=65, tamper=False)
    problem, _ = listed(case)
    n_pairs, n_candidates = len(problem.pair), sum(map(len, by_hand(case)))
    for most, why in (
        (n_candidates - 1, f"{n_candidates:,} candidates for 65 rows"),
        (n_pairs, "65 rows in"),
    ):
        monkeypatch.setattr(rows, "MAX_CANDIDATES", most)
        with pytest.raises(NotCovered, match=why):
            listed(case)


# ------------------------------------------------------------------------------------- bounds


@examples(80, fast=13)
@given(SEEDS, st.booleans())
def test_bounds_strike_out_what_they_must_and_nothing_true(seed, distinct):
    case = some_drawn(seed)
    found = or_none(lambda: listed(case, distinct))
    worlds = worlds_of(case, distinct)
    if found is None:
        assert worlds == set()
        return
    problem, places = found
    narrow = or_none(lambda: problem.narrowed(clock()))
    expected = bounded_by_hand(case, by_hand(case), distinct)
    assert (narrow is None) == (expected is None)
    if narrow is None:
        assert worlds == set()
        return
    may = held(narrow, places)
    assert may == expected
    seen = np.flatnonzero(case.seen)
    for world in worlds or ():
        assert all(place in may[k] for k, place in zip(seen, world, strict=True))
    if not case.tampered:
        truth = case.places(np.column_stack([case.X, case.y]))
        assert all(tuple(truth[k].tolist()) in may[k] for k in seen)


def test_distinct_rows_are_bounds_of_their_own():
    left = []
    # Two of the few forests in which draws alone leave more.
    for seed, distinct in itertools.product((85, 144), (False, True)):
        case = some_drawn(seed, n_rows=20, n_trees=10, tamper=False)
        problem, places = listed(case, distinct)
        may = held(problem.narrowed(clock()), places)
        assert may == bounded_by_hand(case, by_hand(case), distinct)
        truth = case.places(np.column_stack([case.X, case.y])).tolist()
        assert all(tuple(truth[k]) in may[k] for k in np.flatnonzero(case.seen))
        left.append(sum(map(len, may)))
    assert left[0] > left[1]
    assert left[2] > left[3]


def moved(case: Drawn, rng: np.random.Generator) -> Drawn:
    """The case with a distinct row of one tree moved to another leaf."""
    trees = list(case.release.trees)
    t = int(rng.integers(len(trees)))
    distinct, leaves = trees[t].distinct.copy(), trees[t].leaves
    distinct[rng.choice(leaves[distinct[leaves] > 0])] -= 1
    distinct[rng.choice(leaves)] += 1
    trees[t] = trees[t].with_counts(distinct=distinct)
    return replace(case, release=replace(case.release, trees=tuple(trees)), tampered=True)


@pytest.mark.parametrize("n_rows", [None, 12])
@pytest.mark.slow
def test_bounds_on_distinct_rows_that_contradict_the_draws(n_rows):
    met = []
    for seed in range(160):
        rng = np.random.default_rng(seed)
        case = moved(some_drawn(seed, n_rows=n_rows, tamper=False), rng)
        problem, places = listed(case)
        narrow = or_none(lambda: problem.narrowed(clock()))  # noqa: B023
        expected = bounded_by_hand(case, by_hand(case), True)
        assert (narrow is None) == (expected is None)
        if narrow is not None:
            assert held(narrow, places) == expected
        met.append(narrow is not None)
    assert met.count(True) > 30
    assert met.count(False) > 30


@pytest.mark.slow
def test_the_equation_that_cannot_be_met_is_named():
    named: list[int] = []
    for seed in range(200):
        case = some_drawn(seed)
        found = or_none(lambda: listed(case))  # noqa: B023
        if found is None:
            continue
        try:
            found[0].narrowed(clock())
        except Unmet as unmet:
            assert worlds_of(case, True) == set()
            named.append(unmet.equation)
            in_range = -1 <= unmet.equation < released_counts(case.release)[0].size
            assert in_range
    assert sum(e >= 0 for e in named) > 10


def test_without_time_nothing_is_struck_out():
    stopped = Clock(60.0)
    stopped.stop()
    problem, _ = listed(some_drawn(5, n_rows=7, tamper=False))
    assert problem.n_open
    assert problem.narrowed(stopped) is problem


# --------------------------------------------------------------------------------------- fits


def scores_by_hand(problem: RowProblem, x: np.ndarray) -> list[np.ndarray]:
    """Score of each candidate of each open row under these multipliers."""
    size = len(problem.n)
    out = []
    for i, b in enumerate(problem.draws.T):
        own = problem.equation[:, problem.column[problem.start[i] : problem.start[i + 1]]]
        score = b.astype(float) @ x[own]
        if len(problem.d):
            score += (b > 0).astype(float) @ x[size + own // problem.n_classes]
        out.append(score)
    return out


def expected_by_hand(problem: RowProblem, u: np.ndarray) -> np.ndarray:
    n, d = np.zeros(len(problem.n)), np.zeros(len(problem.n) // problem.n_classes)
    for q, (i, j) in enumerate(zip(problem.owner, problem.column, strict=True)):
        for t in np.flatnonzero(problem.draws[:, i]):
            e = problem.equation[t, j]
            n[e] += problem.draws[t, i] * u[q]
            d[e // problem.n_classes] += u[q]
    return np.concatenate([n, d]) if len(problem.d) else n


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max())
    return e / e.sum()


def open_cases(n: int, *, tamper=False, distinct=None, narrowed=False):
    """Problems with open rows."""
    seed = 0
    while n:
        case = some_drawn(seed, tamper=tamper)
        seed += 1
        use_d = bool(seed % 2) if distinct is None else distinct
        found = or_none(lambda: listed(case, use_d))  # noqa: B023
        if found is None:
            continue
        problem, places = found
        if narrowed:
            problem = or_none(lambda: problem.narrowed(clock()))  # noqa: B023
        if problem is not None and problem.n_open:
            n -= 1
            yield case, problem, places, use_d


def test_one_evaluation_is_a_softmax_of_scores():
    for case, problem, _, use_d in open_cases(20):
        rng = np.random.default_rng(len(case.X))
        x = rng.normal(size=len(problem.n) + use_d * len(problem.n) // problem.n_classes)
        reference = rng.normal(size=len(problem.column))
        f = fit(problem, clock(), reference=reference, start=x, evaluations=1)
        logits = zip(scores_by_hand(problem, x), split(problem, reference), strict=True)
        expected = [softmax(s + r) for s, r in logits]
        np.testing.assert_allclose(f.u, np.concatenate(expected), atol=1e-9)
        np.testing.assert_array_equal(f.multipliers, x)
        own = zip(split(problem, problem.column), expected, strict=True)
        assert f.choice.tolist() == [columns[u.argmax()] for columns, u in own]
        assert f.misfit == problem.misfit(f.choice)


def twins(seed: int) -> Drawn:
    """Rows that all trees drew alike but that differ: no likeliest assignment meets the counts."""
    case = some_drawn(seed, n_rows=4, tamper=False)
    X, y, b = (np.repeat(a, 2, axis=-1) for a in (case.X.T, case.y, case.b))
    X, y = np.roll(X.T, 1, axis=0), np.roll(y, 1)
    n_classes = len(case.release.classes)
    bare = [t.with_counts(counts=None, totals=None, distinct=None) for t in case.release.trees]
    release = drawn(bare, case.release.feature_names, X, y, n_classes, b)
    return Drawn(release, case.schema, b, X, y, False)


@pytest.mark.slow
def test_where_nothing_is_certain_expected_counts_are_the_released_ones():
    undecided = 0
    for seed in range(40):
        for distinct in (False, True):
            problem, _ = listed(twins(seed), distinct)
            if not problem.n_open:
                continue
            f = fit(problem, clock())
            sums = np.add.reduceat(f.u, problem.start[:-1])
            np.testing.assert_allclose(sums, 1, atol=1e-9)
            if f.misfit:
                undecided += 1
                target = np.concatenate([problem.n, problem.d])
                np.testing.assert_allclose(expected_by_hand(problem, f.u), target, atol=0.05)
    assert undecided > 30


@pytest.mark.parametrize("distinct", [False, True])
def test_a_step_in_scaled_coordinates_changes_the_dual_by_its_gradient(distinct):
    for case, problem, _, _ in open_cases(10, distinct=distinct):
        rng = np.random.default_rng(len(case.X))
        own = Coordinates.of(problem, rng.normal(size=len(problem.n) + len(problem.d)))
        y, g = rng.normal(size=len(own.open_)), rng.normal(size=len(own.origin))
        np.testing.assert_array_equal(own.multipliers(np.zeros(len(y))), own.origin)
        # The chain rule: g' M y = (M' g)' y.
        moved = own.multipliers(y) - own.origin
        assert g @ moved == pytest.approx(own.gradient(g) @ y)
        # Whatever moves candidates can be moved: nothing is lost but equations without any.
        m = np.column_stack([own.multipliers(e) - own.origin for e in np.eye(len(y))])
        assert np.linalg.matrix_rank(m) == len(y)
        used = np.unique(problem.equation)
        assert own.open_[own.open_ < len(problem.n)].tolist() == used.tolist()


@pytest.mark.slow
def test_a_fit_gives_up_only_where_no_table_meets_the_counts():
    given_up = 0
    # Not narrowed: bounds would find most of them first.
    for case, problem, _, distinct in open_cases(150, tamper=True):
        f = or_none(lambda: fit(problem, clock()))  # noqa: B023
        worlds = worlds_of(case, distinct)
        if f is None:
            given_up += 1
            assert worlds == set()
        elif f.misfit == 0:
            assert worlds is None or worlds
    assert given_up > 10


@pytest.mark.slow
def test_a_fit_that_starts_anywhere_gives_up_only_where_no_table_meets_the_counts():
    rng = np.random.default_rng(0)
    for case, problem, _, distinct in open_cases(150, tamper=True):
        size = len(problem.n) + len(problem.d)
        start = rng.normal(scale=10.0 ** rng.integers(0, 6), size=size)
        if or_none(lambda: fit(problem, clock(), start=start, evaluations=3)) is None:  # noqa: B023
            assert worlds_of(case, distinct) == set()


def reaction_by_hand(problem: RowProblem, u: np.ndarray) -> np.ndarray:
    """Half a' S^-1 a (2 p - 1), tree by tree, with the bounds that the fit sets."""
    c = problem.n_classes
    out = np.zeros(len(u))
    for t, draws in enumerate(problem.draws.astype(float)):
        place = problem.equation[t, problem.column]
        p = np.zeros((problem.n_open, len(problem.n)))
        np.add.at(p, (problem.owner, place), u)
        leaf = p.reshape(problem.n_open, -1, c).sum(axis=2)
        var_n = np.maximum((draws[:, None] ** 2 * p * (1 - p)).sum(axis=0), 0.5)
        cov = (draws[:, None] * p * (1 - p)).sum(axis=0)
        var_d = np.maximum((leaf * (1 - leaf))[draws > 0].sum(axis=0), 0.5)
        for q, (k, e) in enumerate(zip(problem.owner, place, strict=True)):
            b = draws[k]
            if not b:
                continue
            gain = 0.5 * b**2 / var_n[e]
            if len(problem.d):
                vd = var_d[e // c]
                det = max(var_n[e] * vd - cov[e] ** 2, 0.05 * var_n[e] * vd)
                gain = 0.5 * (b**2 * vd - 2 * b * cov[e] + var_n[e]) / det
            out[q] += np.clip(gain * (2 * p[k, e] - 1), -3, 3)
    return out


def test_the_reaction_of_the_counts():
    for _, problem, _, _ in open_cases(20):
        u = fit(problem, clock(), evaluations=2).u
        np.testing.assert_allclose(reaction(problem, u), reaction_by_hand(problem, u), atol=1e-6)


# ------------------------------------------------------------------------------------- proofs


@examples(100, fast=16)
@given(SEEDS, st.booleans(), st.booleans(), st.sampled_from([1, 30.0, 1e5]))
def test_what_is_called_the_only_one_is(seed, distinct, narrowed, scale):
    case = some_drawn(seed, tamper=False)
    problem, places = listed(case, distinct)
    if narrowed:
        problem = problem.narrowed(clock())
    worlds = worlds_of(case, distinct)
    truth = case.places(np.column_stack([case.X, case.y])[case.seen]).tolist()
    rng = np.random.default_rng(seed)
    size = len(problem.n) + len(problem.d)
    tried = [rng.normal(size=size) * scale, rng.integers(-3, 4, size) * scale]
    if problem.n_open:
        tried += [np.zeros(size), fit(problem, clock()).multipliers]
    for world in [tuple(map(tuple, truth)), *list(worlds or ())[:10]]:
        choice = columns_of(problem, places, world)
        for x in tried:
            certain, _ = certain_rows(problem, choice, x)
            if certain.all():
                assert worlds is not None
                assert len(worlds) == 1
            for other in list(worlds or ())[:200] if certain.any() else ():
                there = columns_of(problem, places, other)
                assert there[certain].tolist() == choice[certain].tolist()


UNIQUE = [(6, 287), (6, 391), (12, 40), (12, 90), (12, 111), (12, 175), (20, 76), (20, 90)]
"""Trees and seeds with a single table that bounds do not find."""


def test_fits_prove_most_of_what_is_unique():
    proved = 0
    for n_trees, seed in UNIQUE:
        case = some_drawn(seed, n_rows=None if n_trees == 6 else 7 if n_trees == 12 else 6,
                          n_trees=n_trees, tamper=False)  # fmt: skip
        problem, places = listed(case)
        problem = problem.narrowed(clock())
        assert problem.n_open
        (world,) = worlds_of(case, True)
        f = fit(problem, clock())
        assert f.misfit == 0
        assert f.choice.tolist() == columns_of(problem, places, world).tolist()
        proved += certain_rows(problem, f.choice, f.multipliers)[0].all()
    assert proved >= 6


def test_a_tie_proves_nothing():
    for case, problem, places, distinct in open_cases(30):
        worlds = worlds_of(case, distinct)
        size = len(problem.n) + len(problem.d)
        for world in list(worlds or ())[:3]:
            certain, _ = certain_rows(problem, columns_of(problem, places, world), np.zeros(size))
            assert not certain.any()


# ----------------------------------------------------------------------------- whole numbers


@pytest.mark.parametrize("hinted", [False, True])
@pytest.mark.slow
def test_the_solver_finds_rows_exactly_where_there_are_some(hinted):
    found = 0
    for case, problem, _, distinct in open_cases(60, tamper=True, narrowed=True):
        hint = random_choice(problem, np.random.default_rng(0)) if hinted else None
        choice = or_none(lambda: RowSolver(problem).solve(clock(), 10.0, 0, hint))  # noqa: B023
        worlds = worlds_of(case, distinct)
        if choice is None:
            assert worlds == set()
            continue
        found += 1
        assert problem.misfit(choice) == 0
        assert worlds is None or worlds
    assert found > 30


@pytest.mark.slow
def test_rows_that_always_stand_are_those_common_to_all_tables():
    some = 0
    for case, problem, places, distinct in open_cases(60, narrowed=True):
        worlds = worlds_of(case, distinct)
        if worlds is None:
            continue
        columns = np.array([columns_of(problem, places, world) for world in worlds])
        common = (columns == columns[0]).all(axis=0)
        same, proved = RowSolver(problem).always(columns[-1], clock(), 10.0, 1)
        assert proved
        assert same.tolist() == common.tolist()
        some += common.any() and not common.all()
    assert some > 5


def test_without_time_the_solver_proves_nothing():
    stopped = Clock(60.0)
    stopped.stop()
    for case, problem, places, distinct in open_cases(5, narrowed=True, distinct=True):
        world = next(iter(worlds_of(case, distinct) or ()), None)
        if world is not None:
            choice = columns_of(problem, places, world)
            assert not RowSolver(problem).always(choice, stopped, 10.0, 0)[1]
        assert RowSolver(problem).solve(stopped, 10.0, 0) is None
        same, proved = RowSolver(problem).always(
            random_choice(problem, np.random.default_rng(0)), clock(), 0.0, 0
        )
        assert same.all()
        assert not proved
