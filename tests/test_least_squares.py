"""Least squares over many columns, its loops, and its proofs, against plain algebra."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import lsq_linear
from scipy.sparse import csr_array

from helpers.boosted import compositions
from helpers.examples import examples
from treeleak.attacks.loss_sums.certificate import only_one
from treeleak.attacks.loss_sums.columns import Columns
from treeleak.attacks.loss_sums.least_squares import fit
from treeleak.core.clock import Clock
from treeleak.evidence import LinearConstraints
from treeleak.evidence.linear_constraints import EXACT, Equal
from treeleak.release.statistics import HESSIAN, ROWS

SEEDS = st.integers(0, 2**32 - 1)


@dataclass(frozen=True)
class Dense:
    """A matrix that is written out."""

    A: np.ndarray
    right: np.ndarray

    @property
    def length(self):
        return np.maximum(np.linalg.norm(self.A, axis=0), 1e-12)

    def worth(self, residual):
        return self.A.T @ residual

    def take(self, chosen):
        return csr_array(self.A[:, chosen].T)


def some_matrix(rng):
    """Few rows and many columns or the other way round, some all but parallel, of any rank."""
    n, k = int(rng.integers(1, 25)), int(rng.integers(1, 40))
    rank = int(rng.integers(1, min(n, k) + 1))
    A = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, k))
    if rng.random() < 0.5:
        A = rng.integers(0, 2, (n, k)).astype(float) * rng.choice([1.0, 0.3, 0.25], (n, 1))
    twin = rng.integers(k, size=k)
    A = np.where(rng.random(k) < 0.3, A[:, twin] * rng.choice([1.0, 1 + 1e-9, 2.0], k), A)
    x = rng.integers(0, 3, k) * (rng.random(k) < 0.4)
    return A, A @ x + (rng.normal(size=n) if rng.random() < 0.5 else 0.0)


def least_residual(A, b, free=()):
    """Not by nnls: that of SciPy 1.12 fails where columns are nearly alike."""
    least = np.zeros(A.shape[1])
    least[list(free)] = -np.inf
    found = lsq_linear(A, b, bounds=(least, np.inf), method="bvls")
    return np.linalg.norm(A @ found.x - b)


def never(chosen, x):
    return False


@examples(600, fast=60)
@given(SEEDS)
def test_a_fit_is_as_good_as_any(seed):
    A, b = some_matrix(np.random.default_rng(seed))
    found = fit(Dense(A, b), Clock(60.0), never)
    assert found.ended
    assert (found.x >= 0).all()
    assert len(set(found.chosen.tolist())) == len(found.chosen)
    np.testing.assert_allclose(A[:, found.chosen] @ found.x + found.residual, b, atol=1e-9)
    least = least_residual(A, b)
    size = np.linalg.norm(b)
    assert np.linalg.norm(found.residual) <= least + 1e-7 * size + 1e-12


def test_a_point_that_is_accepted_or_a_clock_that_stops_ends_the_fit():
    rng = np.random.default_rng(0)
    A, x = rng.random((20, 60)), (np.arange(60) < 5) * 2.0
    clock = Clock(60.0)
    seen = []
    found = fit(Dense(A, A @ x), clock, lambda chosen, y: len(y) > 0, seen.append)
    assert found.accepted
    assert found.rounds == 1
    assert len(seen) == 2
    clock.stop()
    stopped = fit(Dense(A, A @ x), clock, never)
    assert (stopped.rounds, stopped.accepted, len(stopped.x)) == (0, False, 0)
    nothing = fit(Dense(np.zeros((3, 0)), np.ones(3)), Clock(9.0), never)
    assert len(nothing.chosen) == 0


@dataclass(frozen=True)
class Numbers:
    """What each leaf of each tree, with a class, counts."""

    of_leaf: np.ndarray

    def __call__(self, leaf, label):
        return self.of_leaf[label[:, None], leaf]


def some_columns(rng, *, real=True, blur=0.0):
    """Columns of a few trees, with and without coefficients, places and weights."""
    n_trees, n = int(rng.integers(1, 4)), int(rng.integers(1, 7))
    sizes = rng.integers(1, 4, n_trees)
    start = np.cumsum([0, *sizes])
    n_leaves = int(start[-1])
    leaf = np.column_stack([start[t] + rng.integers(sizes[t], size=n) for t in range(n_trees)])
    label = rng.integers(0, 2, n)
    m = rng.integers(0, 3, n) * (rng.random(n) < 0.7)
    families = []
    for f in range(int(rng.integers(1, 4))):
        counts = None
        if f and real:
            counts = Numbers(rng.choice([0.25, 0.21, -0.5, 1.0, 0.1875], (2, n_leaves)))
        place, length = None, n_leaves
        if rng.random() < 0.5:
            place, length = rng.integers(-1, 3, n_leaves), 3
        told = LinearConstraints(
            ROWS if counts is None else HESSIAN, np.zeros(length), place=place, counts=counts,
            by_label=counts is not None,
            scale=rng.random(length) + 0.2 if rng.random() < 0.7 else None,
        )  # fmt: skip
        right = told.left(leaf, label, m)
        law = EXACT if counts is None else Equal(blur * rng.random(length))
        families.append(replace(told, right=right + law.tolerance * rng.uniform(-1, 1, length)
                                if counts is not None else right, law=law))  # fmt: skip
    own = Columns(tuple(families), leaf.astype(np.int32), label, n_leaves)
    return own, m.astype(np.int64)


def written_out(columns):
    """The matrix, weighed, one statement of one column at a time."""
    A = np.zeros((len(columns.weight), len(columns)))
    for j in range(len(columns)):
        parts = [
            told.left(columns.leaf[[j]].astype(np.int64), columns.label[[j]])
            / (1.0 if told.scale is None else told.scale)
            for told in columns.families
        ]
        A[:, j] = np.concatenate(parts)
    return A


def solutions(columns, n_rows):
    """Every histogram of so many rows that meets all statements."""
    A, m = written_out(columns), compositions(n_rows, len(columns))
    return m[(np.abs(m @ A.T - columns.right) <= columns.slack + 1e-9).all(axis=1)]


def rows_counted(columns, n_rows):
    """The columns, with one statement more: how many rows there are."""
    told = LinearConstraints(ROWS, np.array([float(n_rows)]), place=_first_tree(columns))
    return replace(columns, families=(told, *columns.families))


def _first_tree(columns):
    place = np.full(columns.n_leaves, -1)
    place[np.unique(columns.leaf[:, 0])] = 0
    return place


@examples(600, fast=60)
@given(SEEDS, st.sampled_from([0.0, 1e-9, 1e-3, 0.05, 0.3]))
def test_what_is_proved_is_the_only_answer(seed, blur):
    columns, m = some_columns(np.random.default_rng(seed), blur=blur)
    n = int(m.sum())
    columns = rows_counted(columns, n)
    found = solutions(columns, n)
    assert (found == m).all(axis=1).any()
    used = np.flatnonzero(m)
    if n and only_one(columns, used, m[used], Clock(30.0)):
        assert len(found) == 1


def test_no_proof_where_rounding_hides_another_answer():
    """Two kinds of rows that differ by little: told apart, or not, by how exact sums are."""
    weights = Numbers(np.array([[0.25, 0.2501], [0.25, 0.2501]]))
    leaf, label = np.array([[0], [1]], dtype=np.int32), np.zeros(2, dtype=np.int64)
    m = np.array([3, 0])
    for tolerance, sure in ((1e-6, True), (1e-3, False)):
        told = LinearConstraints(
            HESSIAN, np.array([0.75]), Equal(np.array([tolerance])), place=np.zeros(2, dtype=int),
            counts=weights,
        )  # fmt: skip
        columns = rows_counted(Columns((told,), leaf, label, 2), 3)
        assert (len(solutions(columns, 3)) == 1) == sure
        assert only_one(columns, np.array([0]), m[:1], Clock(9.0)) == sure
