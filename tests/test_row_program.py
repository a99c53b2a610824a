"""The integer program over numbered rows, against every table of rows."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from helpers.cases import Stated
from helpers.examples import examples
from helpers.grids import columns_of_any_kind
from helpers.releases import tampered
from treeleak.attacks.large_grid import row_program
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.row_program import RowProgram
from treeleak.core.clock import Clock
from treeleak.partition.value_index import values_of
from treeleak.schema import Binary, Numeric, Ordinal, Schema

MOST = 30_000
"""Tables up to which all are tried."""


def program_of(constraints: RowConstraints) -> RowProgram:
    geometry = constraints.geometry
    return RowProgram(constraints, values_of(geometry.parts, geometry.release.n_classes))


def tables(constraints: RowConstraints, allowed: list[np.ndarray]) -> list[np.ndarray]:
    """Every table of grid points, one for each row out of those allowed, that meets the counts."""
    radix = constraints.geometry.radix
    points = np.array(list(itertools.product(*map(range, radix))), dtype=np.int32)
    out = []
    for chosen in itertools.product(*allowed):
        atoms = points[list(chosen)]
        if constraints.misfit(atoms, constraints.label) == 0:
            out.append(atoms)
    return out


def everywhere(constraints: RowConstraints) -> list[np.ndarray]:
    n_points = constraints.geometry.n_points
    return [np.arange(n_points)] * constraints.n_rows


def solved(
    constraints: RowConstraints, visited: np.ndarray | None = None, free: np.ndarray | None = None
):
    n = constraints.n_rows
    if visited is None:
        visited = np.zeros((1, n, constraints.draws.shape[1]), dtype=np.int32)
    free = np.ones(n, dtype=bool) if free is None else free
    return program_of(constraints).solve(constraints.label, visited, free, 30.0, Clock(60.0), 0)


def check(constraints: RowConstraints, found: np.ndarray | None, none: bool, every: list) -> None:
    """A table is found, and meets every count, wherever there is one; and only then."""
    assert none == (not every)
    assert (found is None) == none
    if found is not None:
        atoms = np.ascontiguousarray(found[:, :-1])
        assert (found[:, -1] == constraints.label).all()
        assert constraints.misfit(atoms, constraints.label) == 0
        assert ((constraints.held < 0) | (atoms == constraints.held)).all()


def test_too_many_literals_are_not_solved_and_prove_nothing(monkeypatch):
    s = Stated(Schema([Binary("a"), Ordinal("b", 0, 9)]), 3, "draws", 4).constraints
    assert solved(s)[0] is not None
    monkeypatch.setattr(row_program, "_MOST", 1)
    assert solved(s) == (None, False)


@st.composite
def few(draw) -> Stated:
    schema = draw(columns_of_any_kind())
    kind = draw(st.sampled_from(["draws", "distinct"]))
    case = Stated(schema, draw(st.integers(0, 2**32)), kind, draw(st.integers(1, 4)))
    assume(case.geometry.n_points ** len(case.truth) <= MOST)
    return case


@pytest.mark.slow
@examples(80, fast=5)
@given(few(), st.integers(0, 2**32), st.booleans())
def test_a_table_is_found_wherever_one_meets_the_counts(case, seed, moved):
    if moved:
        case.count(tampered(case.release, np.random.default_rng(seed)))
    s = case.constraints
    check(s, *solved(s), tables(s, everywhere(s)))


@examples(60, fast=10)
@given(few(), st.integers(0, 2**32))
@pytest.mark.slow
def test_rows_that_are_not_free_stay_where_they_were_seen(case, seed):
    s, rng = case.constraints, np.random.default_rng(seed)
    n, radix = s.n_rows, case.geometry.radix
    seen = [rng.integers(radix, size=(n, len(radix))) for _ in range(2)]
    if rng.random() < 0.7:
        seen.append(case.truth[:, :-1])
    visited = np.stack([case.geometry.trace_atoms(own) for own in seen])
    free = rng.random(n) < 0.4
    points = np.array(list(itertools.product(*map(range, radix))))
    leaves = case.geometry.trace_atoms(points)
    allowed = []
    for k in range(n):
        known = [
            free[k] | ~(s.draws[k, t] > 0) | np.isin(leaves[:, t], visited[:, k, t])
            for t in range(leaves.shape[1])
        ]
        allowed.append(np.flatnonzero(np.logical_and.reduce(known)))
    found, none = solved(s, visited, free)
    check(s, found, none, tables(s, allowed))
    if found is not None:
        own = case.geometry.trace_atoms(found[:, :-1])
        for k in np.flatnonzero(~free):
            drawn = s.draws[k] > 0
            assert (own[k] == visited[:, k]).any(axis=0)[drawn].all()


@examples(40, fast=5)
@given(few(), st.integers(0, 2**32), st.booleans())
def test_held_atoms_are_held(case, seed, true):
    rng, s = np.random.default_rng(seed), case.constraints
    held = np.full(s.held.shape, -1)
    a = int(rng.integers(held.shape[1]))
    held[:, a] = case.truth[:, a] if true else rng.integers(case.geometry.radix[a], size=len(held))
    s = replace(s, held=held)
    points = np.array(list(itertools.product(*map(range, case.geometry.radix))))
    allowed = [np.flatnonzero(points[:, a] == v) for v in held[:, a]]
    check(s, *solved(s), tables(s, allowed))


def some_size() -> Stated:
    schema = Schema([Ordinal("a", 0, 9), Numeric("n", -4.0, 8.0, missing=True), Binary("b")])
    return Stated(schema, 1, "distinct", 20)


@pytest.mark.parametrize("limit", [0.0, 1e-9])
def test_no_work_proves_nothing_false(limit):
    case = some_size()
    s = case.constraints
    everyone = np.ones(s.n_rows, dtype=bool)
    visited = np.zeros((1, s.n_rows, s.draws.shape[1]), dtype=np.int32)
    found, none = program_of(s).solve(s.label, visited, everyone, limit, Clock(60.0), 0)
    assert not none
    assert found is None or s.misfit(np.ascontiguousarray(found[:, :-1]), s.label) == 0
