"""Least squares over many columns, its loops, and its proofs, against plain algebra."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import cholesky
from scipy.optimize import lsq_linear
from scipy.sparse import csr_array

from helpers.boosted import compositions
from helpers.examples import examples
from treeleak.attacks.loss_sums import least_squares
from treeleak.attacks.loss_sums.certificate import only_one
from treeleak.attacks.loss_sums.columns import Columns, _each_once
from treeleak.attacks.loss_sums.integral import whole_groups, whole_near
from treeleak.attacks.loss_sums.kernels import descend, drop, solve
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


@examples(300, fast=30)
@given(SEEDS)
def test_free_columns_may_fall_below_zero(seed):
    rng = np.random.default_rng(seed)
    A, b = some_matrix(rng)
    free = np.sort(rng.permutation(A.shape[1])[: rng.integers(1, 5)])
    found = fit(Dense(A, b), Clock(60.0), never, free=free)
    np.testing.assert_array_equal(found.chosen[: len(free)], free)
    assert (found.x[len(free) :] >= 0).all()
    least = least_residual(A, b, free)
    assert np.linalg.norm(found.residual) <= least + 1e-7 * np.linalg.norm(b) + 1e-12


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


@examples(200, fast=30)
@given(SEEDS)
def test_both_ways_to_leave_columns_out_end_above_zero_and_not_above_the_start(seed):
    rng = np.random.default_rng(seed)
    A, b = some_matrix(rng)
    gram, right = A.T @ A + 1e-9 * np.eye(A.shape[1]), A.T @ b
    start = rng.exponential(size=len(right)) * (rng.random(len(right)) < 0.7)
    free = int(rng.integers(0, 3))
    at = np.flatnonzero((start > 0) | (np.arange(len(start)) < free))

    def height(x):
        return x @ (gram @ x) / 2 - right @ x

    one = least_squares._all_at_once(gram, right, start, at, free, Clock(60.0))
    for found in (one, least_squares._one_by_one(gram, right, start, at, free, Clock(60.0))):
        if found is None:
            continue
        left, values = found
        assert (values[free:] >= 0).all()
        x = np.zeros(len(start))
        x[left] = values
        assert height(x) <= height(start) + 1e-9 * (1 + abs(height(start)))
        # No other numbers of these columns are better.
        np.testing.assert_allclose(
            (gram @ x - right)[left], 0.0, atol=1e-5 * (1 + abs(right).max())
        )
    stopped = Clock(60.0)
    stopped.stop()
    assert not len(at) or least_squares._all_at_once(gram, right, start, at, free, stopped) is None
    left, values = least_squares._one_by_one(gram, right, start, at, free, stopped)
    assert (left.tolist(), values.tolist()) == (at.tolist(), start[at].tolist())


@examples(300, fast=20)
@given(SEEDS)
def test_a_factor_without_a_column_is_that_of_the_others(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    A = rng.normal(size=(n + 3, n))
    gram, left = A.T @ A, list(range(n))
    factor = np.ascontiguousarray(cholesky(gram))
    for _ in range(int(rng.integers(1, n))):
        i = int(rng.integers(len(left)))
        drop(factor, len(left), i)
        del left[i]
        own, size = gram[np.ix_(left, left)], len(left)
        got = np.triu(factor[:size, :size])
        np.testing.assert_allclose(got.T @ got, own, rtol=1e-9, atol=1e-9)
        right = rng.normal(size=size)
        np.testing.assert_allclose(
            solve(factor, size, right), np.linalg.solve(own, right), rtol=1e-6, atol=1e-8
        )


@examples(200, fast=15)
@given(SEEDS)
def test_descent_never_climbs(seed):
    rng = np.random.default_rng(seed)
    n, free = int(rng.integers(1, 9)), int(rng.integers(0, 3))
    A = rng.normal(size=(n + 2, n))
    gram, c, x = A.T @ A, rng.normal(size=n), rng.random(n)
    value = [x @ gram @ x / 2 - c @ x]
    for _ in range(4):
        descend(gram, c, x, free, 1)
        value.append(x @ gram @ x / 2 - c @ x)
        assert (x[free:] >= 0).all()
    assert (np.diff(value) <= 1e-9 * (1 + np.abs(value[0]))).all()


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


@examples(300, fast=30)
@given(SEEDS)
def test_columns_are_those_of_the_statements(seed):
    rng = np.random.default_rng(seed)
    columns, m = some_columns(rng)
    A = written_out(columns)
    every = np.arange(len(columns))
    np.testing.assert_allclose(columns.take(every).toarray().T, A, atol=1e-12)
    residual = rng.normal(size=len(A))
    np.testing.assert_allclose(columns.worth(residual), A.T @ residual, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(A @ m, columns.right, atol=1e-12)
    assert columns.met(every, m)
    assert columns.missed(every, m) == 0
    other = m.copy()
    other[rng.integers(len(m))] += 1
    off = np.abs(A @ (other - m)) > 1e-9
    assert columns.missed(every, other) == off.sum()
    assert columns.met(every, other) == (not off.any())


@examples(300, fast=20)
@given(SEEDS)
def test_statements_kept_once_have_the_same_solutions(seed):
    rng = np.random.default_rng(seed)
    columns, _ = some_columns(rng, real=False)
    leaf, told = columns.leaf, columns.families[0]
    if rng.random() < 0.4:
        # Statements that nothing meets stay such.
        right = told.right.copy()
        right[rng.integers(len(right))] += 1
        told = replace(told, right=right)
    kept = _each_once(told, leaf, columns.n_leaves)
    assert len(kept.right) <= len(told.right)
    none = np.zeros(len(leaf), dtype=np.int64)
    for other in itertools.product(range(3), repeat=len(leaf)):
        times = np.array(other)
        before = told.met(leaf.astype(np.int64), none, times).all()
        assert kept.met(leaf.astype(np.int64), none, times).all() == before
    assert kept.scale is None or kept.scale.shape == kept.right.shape
    real = replace(told, counts=Numbers(np.ones((2, columns.n_leaves))))
    assert _each_once(real, leaf, columns.n_leaves) is real


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


def test_most_of_what_has_one_answer_is_proved():
    proved = single = 0
    for seed in range(120):
        columns, m = some_columns(np.random.default_rng(seed), blur=1e-9)
        n, used = int(m.sum()), np.flatnonzero(m)
        columns = rows_counted(columns, n)
        if not n or len(solutions(columns, n)) > 1:
            continue
        single += 1
        proved += only_one(columns, used, m[used], Clock(30.0))
    assert single >= 30
    # The others have one answer in whole numbers, and more in real ones.
    assert proved >= 0.5 * single


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


def test_no_proof_where_columns_in_use_are_alike():
    leaf, label = np.array([[0], [0], [1]], dtype=np.int32), np.zeros(3, dtype=np.int64)
    told = LinearConstraints(ROWS, np.array([4.0, 0.0]))
    columns = Columns((told,), leaf, label, 2)
    assert not only_one(columns, np.array([0, 1]), np.array([2, 2]), Clock(9.0))
    assert not only_one(columns, np.array([0]), np.array([4]), Clock(9.0))
    alone = Columns((told,), leaf[1:], label[1:], 2)
    assert only_one(alone, np.array([0]), np.array([4]), Clock(9.0))


@examples(200, fast=20)
@given(SEEDS)
def test_groups_near_a_point_that_meets_all_sums_become_whole(seed):
    rng = np.random.default_rng(seed)
    n_groups, n_sums = int(rng.integers(2, 9)), int(rng.integers(1, 6))
    group = np.tile(np.arange(n_groups), 2)
    A = np.vstack([rng.integers(0, 2, (n_sums, n_groups))[:, group], rng.normal(size=len(group))])
    whole = rng.integers(0, 4, n_groups)
    share = rng.random(n_groups)
    true = np.append(share * whole, (1 - share) * whole)
    # Another point that meets all sums, less than one row away.
    null = np.linalg.svd(A)[2][np.linalg.matrix_rank(A) :]
    step = null.T @ rng.normal(size=len(null))
    room = np.where(step < 0, true / np.maximum(-step, 1e-12), np.inf).min()
    moved = np.abs(np.bincount(group, step)).max()
    start = true + min(0.5 * room, 0.9 / max(moved, 1e-12)) * step
    columns = Dense(A, A @ true)
    columns = SimpleNamespace(take=columns.take, right=columns.right, slack=0.0)
    found = whole_groups(columns, np.arange(len(group)), start, 10 * group, Clock.of(60))
    total = np.bincount(group, found)
    assert np.abs(total - np.rint(total)).max() < 1e-5
    assert np.abs(A @ found - columns.right).max() < 1e-5
    assert found.min() > -1e-6


def counted(A, b):
    """Columns that need no leaves: whole numbers that meet all sums are looked for."""
    dense = Dense(A, b)
    return SimpleNamespace(
        take=dense.take, worth=dense.worth, right=dense.right, length=dense.length,
        slack=np.zeros(len(b)), weight=np.ones(len(b)),
        met=lambda chosen, m: bool((A[:, chosen] @ m == b).all()),
    )  # fmt: skip


@examples(200, fast=20)
@given(SEEDS)
def test_whole_numbers_near_a_point_meet_all_sums(seed):
    rng = np.random.default_rng(seed)
    A = rng.integers(0, 2, (8, 20)).astype(float)
    A[0] = 1.0
    true = rng.integers(0, 4, 20) * (rng.random(20) < 0.3)
    if not true.any():
        return
    columns = counted(A, A @ true)
    ended = fit(columns, Clock(60.0), never)
    found = whole_near(columns, ended.chosen, ended.x, int(true.sum()), Clock(60.0), 0)
    if found is not None:
        chosen, m = found
        assert (m > 0).all()
        np.testing.assert_array_equal(A[:, chosen] @ m, A @ true)
