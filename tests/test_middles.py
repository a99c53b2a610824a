"""Rows that walk to where thresholds lie halfway between their values, against counting anew."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

import treeleak
from helpers.examples import examples
from helpers.raw_tables import leaning, schema_of
from treeleak.attacks.answer import Answer
from treeleak.attacks.known_draws import run, walking
from treeleak.attacks.known_draws.atom_intervals import restrict_to_domains
from treeleak.attacks.known_draws.domains import Domains
from treeleak.attacks.known_draws.walking import rows_between
from treeleak.attacks.large_grid.bayes_estimate import estimate_rows
from treeleak.attacks.large_grid.between_thresholds import (
    drawn_between,
    relabel_column_values,
)
from treeleak.attacks.large_grid.midpoint_constraints import MidpointConstraints
from treeleak.attacks.large_grid.midpoint_kernels import Standing, stand, walk_between
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.walkers import Walker, WalkResult
from treeleak.core.clock import Clock
from treeleak.core.errors import TimeUp
from treeleak.evidence import KnownDraws, evidence_for
from treeleak.partition import Geometry
from treeleak.partition.cells import GridTooLarge
from treeleak.partition.value_index import values_of
from treeleak.release import to_release
from treeleak.release.draws.seeds import known_draws
from treeleak.schema import Binary, Categorical, Numeric, OneHot, Ordinal, Schema
from treeleak.verification.counts import check_rows

SCHEMA = Schema(
    [
        Numeric("income", 0.0, 100.0),
        Ordinal("age", 18, 60),
        Categorical("job", tuple(range(6))),
        OneHot("region", ("north", "south", "east")),
        Binary("smoker"),
    ]
)


def people(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    region = rng.integers(3, size=n)
    X = pd.DataFrame(
        {
            "income": rng.gamma(2.0, 10.0, n).clip(0, 100).round(2),
            "age": rng.integers(18, 61, n),
            "job": rng.integers(6, size=n),
            **{name: (region == k) * 1 for k, name in enumerate(("north", "south", "east"))},
            "smoker": rng.integers(2, size=n),
        }
    )
    return X, rng.integers(2, size=n)


class Case:
    """A forest in which every tree saw every row, laid out for the walk."""

    def __init__(self, seed: int, n: int = 30, trees: int = 6) -> None:
        X, y = people(n, seed)
        model = RandomForestClassifier(trees, bootstrap=False, random_state=seed).fit(X, y)
        self.of(model, SCHEMA, X.to_numpy(float), y)

    def of(self, model: RandomForestClassifier, schema: Schema, X: np.ndarray, y: np.ndarray):
        """Lay out a forest and its training set."""
        self.release = treeleak.release.to_release(model)
        self.geometry = Geometry.of(self.release, schema)
        self.constraints = RowConstraints.of_exact(
            evidence_for(self.release)(self.geometry), self.geometry
        )
        by_class = np.argsort(y, kind="stable")
        self.lay_out(X[by_class], y[by_class])

    def lay_out(self, table: np.ndarray, y: np.ndarray) -> None:
        """Lay out the tests, and note the training rows in the order of the constraints."""
        self.values = values_of(self.geometry.parts, 2)
        middles = MidpointConstraints.of(self.constraints, self.values)
        assert middles is not None
        self.middles = middles
        atoms = [
            part.holding(table[:, part.columns], self.release).argmax(axis=1)
            for part in self.geometry.parts
        ]
        self.truth = np.column_stack([*atoms, y]).astype(np.int32)
        self.table = table

    def standing(self, rows: np.ndarray, seed: int = 0) -> Standing:
        return self.middles.standing(Walker.started(self.constraints, seed, rows), seed)

    def anywhere(self, rng: np.random.Generator) -> np.ndarray:
        """Rows anywhere on the grid, in the classes of the training set."""
        atoms = rng.integers(self.geometry.radix, size=self.truth[:, :-1].shape)
        return np.column_stack([atoms, self.truth[:, -1]]).astype(np.int32)

    def true_ranks(self) -> Standing:
        """The training rows, each value at its own rank."""
        s = self.standing(self.truth)
        for a, part in enumerate(self.geometry.parts):
            if len(part.columns) == 1 and len(self.middles.rank[a]) == len(self.values.table(a)):
                listed = self.values.table(a)[:, 0]
                if not part.atoms[0].interval:
                    at = (self.table[:, part.columns] == listed).argmax(axis=1)
                    s.rank[:, a] = self.middles.rank[a][at]
        stand(self.middles.splits, s)
        return s

    def broken(self, s: Standing) -> int:
        """Tests that are broken, by pushing values through the trees themselves."""
        low, high = (np.full((len(s.rank), self.release.n_features), np.nan) for _ in range(2))
        values, finer = self.values, self.middles.places(s) - self.middles.values.atom_start[:-1]
        table = np.zeros((len(s.rank), self.release.n_features))
        for a, part in enumerate(self.geometry.parts):
            first = self.middles.values.first[self.middles.values.atom_start[a] + finer[:, a]]
            table[:, part.columns] = values.table(a)[first - values.start[a]]
            if len(part.columns) == 1:
                ends = np.array([t.interval or (x, x) for t in part.atoms for x in t.values[:, 0]])
                low[:, part.columns[0]], high[:, part.columns[0]] = ends[first - values.start[a]].T
        n, rows = 0, table.astype(self.release.float_type)
        for tree in self.release.trees:
            k, node, right = tree.passed(tree.apply(rows))
            for v in np.flatnonzero(~tree.is_leaf):
                j, twice = tree.feature[v], 2.0 * tree.threshold[v]
                sides = [k[(node == v) & (right == r)] for r in (0, 1)]
                if not all(map(len, sides)):
                    n += 1
                elif not np.isnan(low[0, j]):
                    a = sides[0][np.argmax(low[sides[0], j])]
                    b = sides[1][np.argmin(low[sides[1], j])]
                    off = 1e-6 * abs(twice)
                    least, most = low[a, j] + low[b, j] - off, high[a, j] + high[b, j] + off
                    n += not least <= twice <= most
        return n


def counted_anew(case: Case, s: Standing) -> None:
    """Check what a walk counted as it went."""
    anew = Standing(*map(copy, s))
    stand(case.middles.splits, anew)
    inner = case.middles.splits.left >= 0
    assert (anew.members == s.members).all()
    for name in ("greatest", "least", "broken"):
        assert (getattr(anew, name)[inner] == getattr(s, name)[inner]).all(), name
    assert anew.total.tolist() == s.total.tolist()
    assert case.middles.misfit(case.middles.places(s), case.constraints) == s.total[0]


def stopping(looks: int) -> Clock:
    """A clock that stops after so many looks at it."""
    steps = iter(range(looks))
    clock = Clock(np.inf, lambda _: clock.stop() if next(steps, None) is None else None)
    return clock


@pytest.mark.slow
@examples(25, fast=4)
@given(st.integers(0, 2**31))
def test_no_test_of_the_training_rows_is_broken(seed):
    case = Case(seed)
    s = case.true_ranks()
    assert s.total.tolist() == [0, 0]
    assert case.broken(s) == 0


@examples(25, fast=4)
@given(st.integers(0, 2**31), st.floats(0.0, 3.0), st.floats(0.0, 3.0))
def test_what_a_walk_counts_is_what_is_there(seed, price, breach):
    case = Case(seed, 20, 4)
    s = case.standing(case.anywhere(np.random.default_rng(seed)), seed)
    log_share = case.middles.log_share(s, 2)
    walk_between(case.middles.splits, s, log_share, s.label, 3_000, price, breach)
    counted_anew(case, s)
    assert case.broken(s) == s.total[1]
    assert (s.label == case.truth[:, -1]).all()


@pytest.mark.slow  # Its loops compile for as long as all other tests here run.
@examples(25, fast=4)
@given(st.integers(0, 2**31), st.floats(0.0, 3.0), st.floats(0.0, 3.0))
def test_values_with_other_names_are_counted_anew_and_keep_their_order(seed, price, breach):
    case = Case(seed, 20, 4)
    s = case.standing(case.anywhere(np.random.default_rng(seed)), seed)
    walk_between(case.middles.splits, s, case.middles.log_share(s, 2), s.label, 500, price, breach)
    before, energy = s.rank.copy(), price * s.total[0] + breach * s.total[1]
    relabel_column_values(case.middles.splits, s, case.middles.listed, price, breach)
    counted_anew(case, s)
    assert price * s.total[0] + breach * s.total[1] <= energy + 1e-9
    for a, (old, new) in enumerate(zip(before.T, s.rank.T, strict=True)):
        names = np.unique(np.column_stack([old, new]), axis=0)
        assert (np.diff(names, axis=0) > 0).all(), "one name for each value, in order"
        assert a in case.middles.listed or (old == new).all()


@pytest.mark.slow
@pytest.mark.each
@pytest.mark.parametrize(("seed", "by"), [*product(range(6), (1, -1))])
def test_a_name_that_most_rows_have_is_set_right_and_others_with_it(seed, by):
    """All rows but a few hold one code; thresholds lie halfway between it and theirs."""
    rng = np.random.default_rng(seed)
    n, most = 60, 39
    code = np.where(rng.random(n) < 0.75, most, rng.choice([3, 8, 14, 19, 26, 33], n))
    X = pd.DataFrame({"country": code, "age": rng.integers(18, 61, n)})
    schema = Schema([Categorical("country", tuple(range(42))), Ordinal("age", 18, 60)])
    model = RandomForestClassifier(12, bootstrap=False, max_features=1, random_state=seed)
    model.fit(X, y := rng.integers(2, size=n))
    case = Case.__new__(Case)
    case.of(model, schema, X.to_numpy(float), y)
    a = [part.attribute.name for part in case.geometry.parts].index("country")
    true, rank = case.true_ranks().rank, case.middles.rank[a]
    code = case.table[:, 0].astype(int)
    wrong = rank[np.where(code == most, code + by, code - by)]
    rows = case.truth.copy()
    rows[:, a] = case.middles.atom[a][np.argsort(rank)[wrong]]
    s = case.standing(rows)
    s.rank[:] = true
    s.rank[:, a] = wrong
    stand(case.middles.splits, s)
    begun = int(s.total[1])
    for _ in range(3):
        relabel_column_values(case.middles.splits, s, case.middles.listed, 1.0, 1.0)
    counted_anew(case, s)
    assert s.total[0] == 0
    assert 4 * s.total[1] < begun
    assert (s.rank[code == most, a] == rank[most]).all()


class Known(Case):
    """A forest whose trees drew rows, as is known; and what is left of rows' leaves."""

    def __init__(self, seed: int, n: int = 30, trees: int = 6) -> None:
        X, y = people(n, seed)
        model = RandomForestClassifier(trees, random_state=seed).fit(X, y)
        self.release = treeleak.release.to_release(model)
        self.geometry = Geometry.of(self.release, SCHEMA)
        self.evidence = KnownDraws(self.geometry, known_draws(self.release).counts)
        domains = Domains.of(self.evidence)
        assert domains.narrow(Clock(np.inf)) < 0
        nothing = np.zeros(n, dtype=bool)
        self.constraints = restrict_to_domains(
            RowConstraints.of_known(self.evidence, self.geometry, y, nothing, None), domains
        )
        self.lay_out(X.to_numpy(float), y)

    def anywhere(self, rng: np.random.Generator) -> np.ndarray:
        """Rows somewhere between their bounds."""
        low, high = self.constraints.span
        return np.column_stack([rng.integers(low, high + 1), self.truth[:, -1]]).astype(np.int32)


@pytest.mark.slow
@examples(25, fast=4)
@given(st.integers(0, 2**31))
def test_where_draws_are_known_each_tree_tests_its_own_rows(seed):
    assert Known(seed).true_ranks().total.tolist() == [0, 0]


@examples(25, fast=4)
@given(st.integers(0, 2**31), st.floats(0.1, 3.0), st.floats(0.0, 3.0))
def test_rows_that_were_drawn_are_counted_within_their_walls(seed, price, breach):
    case = Known(seed, 24, 5)
    s = case.standing(case.anywhere(np.random.default_rng(seed)), seed)
    begun = s.rank.copy()
    likes = np.random.default_rng(seed).normal(size=(24, int(case.middles.splits.radix.sum())))
    walk_between(case.middles.splits, s, likes, np.arange(24), 3_000, price, breach)
    counted_anew(case, s)
    moved = (s.rank != begun).any(axis=1)
    assert (s.span[0] <= s.rank).all()
    assert (s.rank <= s.span[1]).all()
    assert not moved[~np.isin(np.arange(24), s.open)].any()
    # Whoever stood behind a wall may stay there; nobody goes there.
    own, before = (
        case.geometry.trace_atoms(
            np.column_stack(
                [
                    atom[np.argsort(rank)[r]]
                    for rank, atom, r in zip(
                        case.middles.rank, case.middles.atom, ranks.T, strict=True
                    )
                ]
            )
        )
        for ranks in (s.rank, begun)
    )
    behind = np.take_along_axis(case.constraints.closed, own.astype(np.int64), axis=1) > 0
    assert (~behind | (own == before) | (case.constraints.draws == 0)).all()


def test_rows_that_came_nearer_are_written_as_atoms_of_the_geometry():
    case = Known(5, 60, 60)
    n_finer, n_atoms = (len(v.first) for v in (case.middles.values, case.values))
    assert n_finer > n_atoms
    astray = case.anywhere(np.random.default_rng(0))
    walkers = [Walker.started(case.constraints, k, astray) for k in range(2)]
    assert walkers[0].misfit
    found = WalkResult.of(walkers, walkers[0], 0)
    clock = stopping(60)
    rows, far = estimate_rows(found, case.values, case.constraints, clock, "")
    own = case.values.atom_of[rows.values] - case.values.atom_start[:-1]
    assert case.constraints.misfit(own[:, :-1].astype(np.int32), own[:, -1]) == rows.misfit
    assert rows.misfit < walkers[0].misfit
    assert (own == case.truth).mean() > (astray == case.truth).mean() + 0.05
    assert far is not None
    assert far > 0


@pytest.mark.parametrize("are", ["unknown", "values"])
def test_thresholds_that_are_no_middles_say_nothing(are):
    case = Case(3)
    release = replace(case.release, thresholds_are=are)
    geometry = Geometry.of(release, SCHEMA)
    constraints = RowConstraints.of_exact(evidence_for(release)(geometry), geometry)
    assert MidpointConstraints.of(constraints, case.values) is None


def test_without_time_there_are_no_datasets():
    case = Case(4)
    walkers = [Walker.started(case.constraints, k, case.truth) for k in range(2)]
    assert drawn_between(case.middles, walkers, case.constraints, Clock(0.0), "") == []


@pytest.mark.slow
def test_rows_of_a_raw_forest_come_nearer_to_those_of_the_training_set():
    rng = np.random.default_rng(0)
    n = 40
    age, job = rng.integers(18, 90, n), rng.integers(0, 30, n)
    X = pd.DataFrame(
        {"age": age, "income": np.round(rng.gamma(2.0, 1e4, n)), "job": job,
         **{f"visits {k}": rng.poisson(8, n) for k in range(4)}}
    )  # fmt: skip
    y = (rng.random(n) < 1 / (1 + np.exp((age - 50) / 10))).astype(int)
    schema = Schema(
        [Ordinal("age", 18, 90), Numeric("income", 0.0, 2e5), Categorical("job", tuple(range(30))),
         *(Ordinal(f"visits {k}", 0, 40) for k in range(4))]
    )  # fmt: skip
    model = RandomForestClassifier(20, bootstrap=False, random_state=0).fit(X, y)
    unknown = replace(treeleak.release.to_release(model), thresholds_are="unknown")
    error = {}
    for name, asked in (("middles", model), ("counts", unknown)):
        found = treeleak.reconstruct(asked, schema, "none", 60.0, 0)
        assert found.status in ("feasible", "likely")
        error[name] = treeleak.metrics.reconstruction_error(found.X, X, schema)
        if found.status == "likely":
            assert found.most_likely is not None
            assert found.misfit > 0
            release = treeleak.release.to_release(model)
            rows, labels = found.most_likely
            assert (
                treeleak.verification.counts.check_rows(
                    release, rows.to_numpy(float), labels.to_numpy()
                ).misfit
                == 0
            )
    assert error["middles"] < error["counts"]


# --------------------------------------------------- known draws: rows walk on between thresholds


def six_columns(seed, n=40, n_trees=60):
    X, y = leaning(seed, n)
    rng = np.random.default_rng(100 + seed)
    X = X.assign(**{c: rng.integers(0, 200, n).astype(float) for c in "pqr"})
    return X, y, RandomForestClassifier(n_trees, random_state=seed).fit(X, y)


@pytest.fixture(scope="module")
def rebuilt():
    """Of two forests: the rows, the answer, and what it would be without walks."""
    out = []
    with pytest.MonkeyPatch.context() as patch:
        for seed in range(2):
            X, y, model = six_columns(seed)
            both = []
            for step in (rows_between, lambda answer, *_: answer):
                patch.setattr(run, "rows_between", step)
                both.append(treeleak.reconstruct(model, schema_of(X), seed=0, time_limit=20))
            out.append((X, y, model, *both))
    return out


@pytest.mark.slow
def test_every_count_is_still_met(rebuilt):
    for *_, model, found, _ in rebuilt:
        assert found.status == "feasible"
        rows, label = found.X.to_numpy(), found.y.to_numpy()
        assert check_rows(to_release(model), rows, label, found.draws.counts).misfit == 0


@pytest.mark.slow
def test_rows_come_nearer_to_the_training_rows(rebuilt):
    def far(found, X):
        return (np.abs(found.X - X) / np.ptp(X.to_numpy(), axis=0)).to_numpy().mean()

    error = np.array([[far(f, X) for f in found] for X, _, _, *found in rebuilt])
    assert error[:, 0].sum() < 0.9 * error[:, 1].sum()
    for *_, found, without in rebuilt:
        assert found.midpoints_met > without.midpoints_met


@pytest.mark.slow
def test_what_is_proved_stays_so(rebuilt):
    for X, *_, found, without in rebuilt:
        np.testing.assert_array_equal(found.proved, without.proved)
        sure = without.confidence.to_numpy() == 1.0
        assert (np.abs(found.X - X).to_numpy()[sure & found.proved.to_numpy()[:, None]] == 0).all()


@pytest.mark.slow
def test_values_are_right_as_often_as_is_said(rebuilt):
    right, said = [], []
    for X, *_, found, _ in rebuilt:
        right += ((found.lower <= X) & (found.upper >= X)).to_numpy().ravel().tolist()
        said += found.confidence.to_numpy().ravel().tolist()
    # Of columns that are cut at many places, nothing is said.
    known = ~np.isnan(said)
    assert not known.all()
    assert known.sum() < 30 or abs(np.mean(np.array(right)[known] - np.array(said)[known])) < 0.12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name"), [(RowConstraints, "of_known"), (walking, "_within_leaves")]
)
@pytest.mark.parametrize("error", [GridTooLarge("too many masks"), TimeUp("the time is up")])
def test_where_rows_cannot_walk_they_stay(module, name, error, breaks):
    X, _, model = six_columns(0, 25, 30)
    breaks(module, name, error)
    found = treeleak.reconstruct(model, schema_of(X), seed=0, time_limit=20)
    assert found.status == "feasible"
    assert found.misfit == 0


@pytest.mark.parametrize(
    ("status", "rules", "population"),
    [("unknown", (), None), ("feasible", ("one",), None), ("feasible", (), "rows")],
)
def test_walks_that_know_too_little_are_not_begun(status, rules, population):
    answer = Answer(status, None)
    domains, given = SimpleNamespace(rules=rules), SimpleNamespace(population=population)
    assert rows_between(answer, None, domains, given, None) is answer
