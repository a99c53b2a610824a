"""The attack on known draws against brute force over all tables, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.brute_force import ordered_datasets
from helpers.cases import Drawn, some_drawn
from helpers.examples import examples, seeds, spread
from helpers.grids import cuts_for, schemas, shuffled, some_rows
from helpers.hurried import few_chains
from helpers.in_order import check_form, misfit_of, table_of
from helpers.releases import bootstrap_draws, drawn, random_tree, tampered
from helpers.tables_of import dataset
from treeleak.attacks import attack_for
from treeleak.attacks.answer import Answer
from treeleak.attacks.known_draws import run as known
from treeleak.attacks.known_draws.row_solver import RowSolver
from treeleak.core.clock import Clock
from treeleak.partition import GridTooLarge
from treeleak.release.release import Release
from treeleak.schema import Binary, Numeric, Ordinal, Schema


@pytest.fixture(scope="module", autouse=True)
def short_walks() -> Iterator[None]:
    """How well walks do is in test_several."""
    with pytest.MonkeyPatch.context() as patched:
        few_chains(patched)
        yield


def attacked(case: Drawn, distinct: bool = True, seed: int = 0, clock: Clock | None = None):
    evidence = case.known(distinct)
    attack = attack_for(evidence)
    return attack(evidence, evidence.geometry, clock or Clock(60.0), seed)


def columns_of(answer: Answer, release: Release) -> list[list[int]]:
    """Columns of each value of a row, the class last."""
    return [*(list(part.columns) for part in answer.values.parts), [release.n_features]]


def same(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return (one == other) | (np.isnan(one) & np.isnan(other))


def check_claims(answer: Answer, case: Drawn, worlds, *, complete: bool = True) -> None:
    """What is proved or certain is the same in every table; with ``complete``, and only that."""
    (rows,) = answer.rows
    seen = case.seen
    table, proved, sure = (
        x[seen] for x in (table_of(answer, case.release), rows.proved, rows.confidence == 1)
    )
    every = np.stack(worlds)
    places = np.stack([case.places(world) for world in worlds])
    always = (places == places[0]).all(axis=(0, 2))
    assert (proved <= always).all()
    assert (case.places(table)[proved] == places[0][proved]).all()
    fixed = same(every, every[:1]).all(axis=0)
    for i, columns in enumerate(columns_of(answer, case.release)):
        own = fixed[:, columns].all(axis=1)
        assert (sure[:, i] <= own).all()
        right = same(table[:, columns], every[0][:, columns]).all(axis=1)
        assert right[sure[:, i]].all()
        if complete:
            assert (sure[:, i] >= (own & proved)).all()
    if complete:
        assert proved.tolist() == always.tolist()


def check_against_brute_force(answer: Answer, case: Drawn, distinct: bool) -> str:
    worlds = case.worlds(distinct)
    if worlds == []:
        assert answer.status == "infeasible"
        assert answer.rows == ()
        clash = answer.contradiction
        assert 0 <= clash.tree < len(case.release.trees)
        assert clash.node == 0 or case.release.trees[clash.tree].is_leaf[clash.node]
        return "infeasible"
    assert answer.contradiction is None
    unique = worlds is not None and len(worlds) == 1 and case.seen.all()
    table = check_form(answer, case, distinct)
    if answer.status == "likely":
        # Between datasets that meet all counts.
        likeliest = dataset(answer.likeliest, answer, case.release.n_features)
        assert misfit_of(case, likeliest, distinct) == 0
    assert answer.status in (("unique",) if unique else ("feasible", "likely"))
    if worlds is not None:
        check_claims(answer, case, worlds)
    if unique and not case.tampered:
        assert same(table, np.column_stack([case.X, case.y])).all()
    return "unique" if unique else "feasible"


def check_small_forests(distinct, seeds):
    seen = []
    for seed in seeds:
        case = some_drawn(seed)
        seen.append(check_against_brute_force(attacked(case, distinct, seed), case, distinct))
    assert all(
        seen.count(status) >= len(seeds) / 10 for status in ("unique", "feasible", "infeasible")
    )


@pytest.mark.parametrize("distinct", [False, True])
@seeds(150, fast=10)
def test_small_forests(distinct, seeds):
    check_small_forests(distinct, seeds)


def unlisted(*_):
    raise GridTooLarge("not listed")


@pytest.mark.slow
@pytest.mark.parametrize("distinct", [False, True])
@seeds(150, fast=6)
def test_small_forests_on_a_grid_that_is_not_listed(monkeypatch, distinct, seeds):
    """Candidates from the leaves of rows alone: all that there are, and nothing else."""
    monkeypatch.setattr(known, "enumerate_drawable", unlisted)
    check_small_forests(distinct, seeds)


@pytest.mark.slow
@examples(60, fast=10)
@given(schemas(), st.integers(0, 2**32), st.booleans())
def test_every_kind_of_column(schema, seed, distinct):
    rng = np.random.default_rng(seed)
    names = shuffled(schema.columns, rng)
    n_rows, n_classes = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    X, y = some_rows(schema, names, n_rows, rng), rng.integers(n_classes, size=n_rows)
    trees = [random_tree(rng, cuts_for(schema, names), 4) for _ in range(rng.integers(1, 5))]
    b = bootstrap_draws(len(trees), n_rows, rng)
    release = drawn(trees, names, X, y, n_classes, b)
    wrong = bool(rng.random() < 0.3)
    release = tampered(release, rng) if wrong else release
    case = Drawn(release, schema, b, X, y, wrong)
    check_against_brute_force(attacked(case, distinct, seed), case, distinct)


# ------------------------------------------------------------------------------- special cases


def test_a_column_of_numbers_is_never_certain():
    schema = Schema([Numeric("x", 0, 9), Binary("a"), Ordinal("o", 0, 5)])
    X = np.array([[0.5, 0, 1], [2.0, 1, 4], [2.5, 0, 5], [7.0, 1, 0]])
    rng = np.random.default_rng(3)
    trees = [random_tree(rng, [[1.0, 2.25, 5.0], [0.5], [2.5]], 6) for _ in range(40)]
    b = bootstrap_draws(40, 4, rng)
    release = drawn(trees, schema.columns, X, np.array([0, 1, 0, 1]), 2, b)
    answer = attacked(Drawn(release, schema, b, X, np.array([0, 1, 0, 1]), False))
    assert answer.status == "feasible"
    (rows,) = answer.rows
    assert rows.proved.all()
    assert (rows.confidence[:, [0, 2]] < 1).all()
    assert (rows.confidence[:, [1, 3]] == 1).all()
    cut = np.searchsorted([1.0, 2.25, 5.0], table_of(answer, release)[:, 0])
    assert cut.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("what", ["draws", "distinct rows"])
def test_a_tree_that_counts_more_than_it_drew_is_named(what):
    case = some_drawn(1, n_rows=6, n_trees=4, tamper=False)
    tree = case.release.trees[2]
    v = tree.leaves[0]
    if what == "draws":
        counts = tree.counts.copy()
        counts[v, 0] += 1
        wrong = tree.with_counts(counts=counts)
    else:
        distinct = tree.distinct.copy()
        distinct[v] += 1
        wrong = tree.with_counts(distinct=distinct)
    trees = (*case.release.trees[:2], wrong, case.release.trees[3])
    answer = attacked(replace(case, release=replace(case.release, trees=trees)))
    assert answer.status == "infeasible"
    assert answer.contradiction.tree == 2
    assert what in answer.contradiction.why


# ------------------------------------------------------------------- time, seeds, interruption


def undecided(seed=0, n_rows=40, n_trees=5) -> Drawn:
    """Shallow trees over more rows than one can place."""
    rng = np.random.default_rng(seed)
    schema = Schema.from_columns(list("abcdef"))
    X, y = some_rows(schema, schema.columns, n_rows, rng), rng.integers(3, size=n_rows)
    trees = [random_tree(rng, cuts_for(schema, schema.columns), 3) for _ in range(n_trees)]
    b = bootstrap_draws(n_trees, n_rows, rng)
    return Drawn(drawn(trees, schema.columns, X, y, 3, b), schema, b, X, y, False)


def test_what_the_report_raises_comes_through():
    class Enough(Exception):
        pass

    def report(progress):
        if "fitting" in progress.stage:
            raise Enough

    with pytest.raises(Enough):
        attacked(undecided(), clock=Clock(60.0, report))


@pytest.mark.parametrize("seed", spread(range(6), fast=2))
def test_an_unfinished_proof_proves_nothing(seed, monkeypatch):
    def unfinished(self, choice, *rest):
        return np.ones(self.problem.n_open, dtype=bool), False

    monkeypatch.setattr(RowSolver, "always", unfinished)
    case = some_drawn(seed, n_rows=6, n_trees=2, tamper=False)
    answer = attacked(case)
    worlds = ordered_datasets(case.release, case.schema, case.b[:, case.seen], most=2000)
    check_form(answer, case, True)
    if worlds is not None:
        check_claims(answer, case, worlds, complete=False)
