"""Maximum entropy over the candidates of rows, through its smooth dual; and proofs from it.

Let u_kj be the probability that row k is column j. Among the u whose expected counts are the
released ones, that nearest to a reference r is u_kj ~ r_kj exp(sum over t of b_tk lambda_te +
[b_tk > 0] nu_tv), where e and v are the equation and the leaf of column j in tree t. The dual, the
sum of the log-normalisers minus lambda n minus nu d, is convex and smooth.

Any lambda, nu give every assignment of candidates that meets the counts the same total score,
lambda n + nu d. So if an assignment meets the counts and gives every row its best score, strictly,
it is the only one; a row that another assignment could move only at a loss that all others cannot
make up for stays in place; and if even the best scores of all rows add up to less, there is none.

Coordinates in which the dual is about as steep in every direction.

The dual's curvature along a multiplier is the variance of what it counts, at most about the count
itself, and counts of a forest differ by orders of magnitude. Draws and distinct rows of a leaf,
besides, say nearly the same. So each multiplier is measured in units of its count's root, and a
step of lambda leaves the leaf's distinct rows, as far as they go with its draws, where they are:
with w = n_e / d_v it is a step of lambda_e by s and of nu_v by -w s. That is a preconditioner of
blocks of one leaf each (Nocedal and Wright, Numerical Optimization, 2006, section 5.1).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize

from treeleak.attacks.known_draws import row_kernels as kernels
from treeleak.attacks.known_draws.candidates import RowProblem, Unmet
from treeleak.attacks.known_draws.schedule import SCHEDULE
from treeleak.attacks.known_draws.softmax import Softmax, even, scores
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.parallel import THREADS, Pool, run_all
from treeleak.core.private import dataclass

_BITS, _LARGEST, _MOST = 2.0**20, 2**36, 2**62


@dataclass(frozen=True, eq=False)
class Fit:
    """Where the fit stands."""

    u: FloatArray
    """Shape (n_candidates,). Probability of each candidate."""
    multipliers: FloatArray
    """Shape (n_equations [+ n_leaves],). lambda, then nu where distinct counts are used."""
    choice: IntArray
    """Shape (n_open,). Likeliest column of each row."""
    misfit: int
    """Of ``choice``."""
    levelled: bool = False
    """Whether little was gained in the last evaluations."""


class _Done(Exception):
    pass


def fit(
    problem: RowProblem,
    clock: Clock,
    *,
    reference: FloatArray | None = None,
    start: FloatArray | None = None,
    evaluations: int = 1000,
    beyond: int = 0,
    report: Callable[[Fit], None] = lambda _: None,
) -> Fit:
    """Fit u until its likeliest assignment meets every count, or nothing more is gained.

    Parameters
    ----------
    reference : float array, shape (n_candidates,), optional
        log r; flat if not given.
    start : float array, optional
        Multipliers to start from.
    evaluations : int
        At most this many.
    beyond : int
        Evaluations more once every count is met: they widen the gap to the other candidates.
    report : callable
        Gets every evaluation.

    Raises
    ------
    Unmet
        If it comes upon a proof that no candidates meet the counts (with a flat reference).
    """
    part, leaves = problem.open_leaves()
    target = np.concatenate([part.n, part.d]).astype(float)
    where = (leaves[:, None] * problem.n_classes + np.arange(problem.n_classes)).ravel()
    if len(problem.d):
        where = np.append(where, len(problem.n) + leaves)
    origin = np.zeros(len(problem.n) + len(problem.d)) if start is None else start
    closed = _total(problem) - _total(part)
    base = np.zeros(len(problem.column)) if reference is None else reference
    softmax = Softmax.of(part, base)
    coordinates = Coordinates.of(part, origin[where])
    seen: list[float] = []
    met = 0
    latest: list[Fit] = []

    def evaluate(y: FloatArray) -> tuple[float, FloatArray]:
        nonlocal met
        multipliers = coordinates.multipliers(y)
        value, expected = softmax.evaluate(multipliers, pool)
        value -= float(multipliers @ target)
        choice = part.column[softmax.best].astype(np.int64)
        x = origin.copy()
        x[where] = multipliers
        seen.append(min([value, *seen[-1:]]))
        stuck = len(seen) > SCHEDULE.dual_patience and (
            seen[-SCHEDULE.dual_patience] - seen[-1]
            < SCHEDULE.dual_progress * abs(seen[-SCHEDULE.dual_patience])
        )
        now = Fit(softmax.u, x, choice, part.misfit(choice) + closed, stuck)
        latest[:] = [now]
        report(now)
        if reference is None and value < 0 and _is_unmet(problem, x):
            raise Unmet
        met += now.misfit == 0
        if met > beyond or stuck or len(seen) >= evaluations or clock.stopped:
            raise _Done
        return value, coordinates.gradient(expected - target)

    options: Any = {
        "maxcor": SCHEDULE.dual_memory, "maxfun": 10**6, "maxiter": 10**6, "ftol": 0.0,
        "gtol": SCHEDULE.dual_gradient,
    }  # fmt: skip
    first = np.zeros(len(coordinates.open_))
    with Pool() as pool, suppress(_Done):
        minimize(evaluate, first, jac=True, method="L-BFGS-B", options=options)
    return latest[-1]


def _total(problem: RowProblem) -> int:
    return int(np.abs(problem.n).sum() + np.abs(problem.d).sum())


def certain_rows(
    problem: RowProblem, choice: IntArray, multipliers: FloatArray
) -> tuple[BoolArray, BoolArray]:
    """Prove, in whole numbers, which rows no assignment that meets the counts can move.

    Against ``choice``, any other assignment that meets the counts loses in some rows what it gains
    in others. So a row that would lose more than all others together could gain stays where it is.

    Parameters
    ----------
    choice : int array, shape (n_open,)
        Column of each open row; must meet every count.
    multipliers : float array
        Any; those of a fit whose likeliest candidates are ``choice`` will do.

    Returns
    -------
    certain : bool array, shape (n_open,)
    against : bool array, shape (n_candidates,)
        Candidates that score no less than their row's own column.
    """
    mine, other, against = _exact_scores(problem, choice, _whole(problem, multipliers))
    loss = mine - other
    # Python's integers do not overflow.
    gain = -sum(np.minimum(loss, 0).tolist())
    certain = loss > gain if gain < _MOST else np.zeros(len(loss), dtype=bool)
    return certain, against


def _is_unmet(problem: RowProblem, multipliers: FloatArray) -> bool:
    whole = _whole(problem, multipliers)
    some = problem.column[problem.start[:-1]].astype(np.int64)
    mine, other, _ = _exact_scores(problem, some, whole)
    target = np.concatenate([problem.n, problem.d])
    # Python's integers do not overflow.
    needed = sum(int(x) * int(n) for x, n in zip(whole, target, strict=True))
    return int(np.maximum(mine, other).astype(object).sum()) < needed


def _whole(problem: RowProblem, multipliers: FloatArray) -> IntArray:
    """Multipliers as whole numbers, small enough that no row's score overflows."""
    terms = int(problem.draws.sum(axis=0, dtype=np.int64).max(initial=0)) + len(problem.draws)
    most = min(_LARGEST, 2**60 // max(terms, 1))
    return np.clip(np.rint(multipliers * _BITS), -most, most).astype(np.int64)


def _exact_scores(
    problem: RowProblem, choice: IntArray, whole: IntArray
) -> tuple[IntArray, IntArray, BoolArray]:
    """Score of each row's column ``choice``, the best of its other candidates, and its rivals."""
    score = scores(problem, whole)
    mine, other = np.zeros((2, problem.n_open), dtype=np.int64)
    rival = np.zeros(len(problem.column), dtype=bool)
    kernels.best_scores(problem.candidates, score, choice, mine, other, rival)
    return mine, other, rival


def reaction(problem: RowProblem, u: FloatArray) -> FloatArray:
    """What the counts say of each candidate once a row's own share in them is taken out.

    Maximum entropy asks that expected counts match, and forgets that a row is in one place only:
    whether row k is in equation e changes what the others have to make up by b. With a normal
    law for the others, of covariance S, the log-odds that it adds are 1/2 a' S^-1 a (2 p_ke - 1),
    a = (b, 1) for draws and distinct rows: the reaction term of the mean-field theory of Thouless,
    Anderson and Palmer (and of approximate message passing).

    Returns an array of shape (n_candidates,).
    """
    n_classes, n_equations = problem.n_classes, len(problem.n)
    rows = problem.candidates
    var_n, cov = np.zeros(n_equations), np.zeros(n_equations)
    var_d = np.zeros(n_equations // n_classes)
    spread = var_n, cov, var_d
    out = np.empty(len(u))
    shares = even(np.arange(problem.n_open), np.diff(problem.start))
    b = np.arange(int(problem.draws.max(initial=0)) + 1, dtype=float)[:, None]
    with Pool() as pool:
        jobs = [
            partial(kernels.spread, np.arange(i, len(problem.draws), THREADS), rows, u, *spread)
            for i in range(THREADS)
        ]
        run_all(jobs, pool=pool)
        var_n = np.maximum(var_n, SCHEDULE.count_variance)
        if len(problem.d):
            both = np.repeat(np.maximum(var_d, SCHEDULE.count_variance), n_classes)
            determinant = np.maximum(var_n * both - cov**2, 0.05 * var_n * both)
            gain = 0.5 * (b**2 * both - 2 * b * cov + var_n) / determinant
        else:
            gain = 0.5 * b**2 / var_n
        jobs = [
            partial(kernels.reaction, share, rows, u, gain, SCHEDULE.most_reaction, out)
            for share in shares
        ]
        run_all(jobs, pool=pool)
    return out


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Multipliers x = ``origin`` + M y; y has only equations in which some candidate stands."""

    origin: FloatArray
    """Shape (n_multipliers,)."""
    open_: IntArray
    """Shape (n_coordinates,). Multipliers that y moves."""
    scale: FloatArray
    """Shape (n_coordinates,)."""
    along: FloatArray
    """Shape (n_leaves, n_classes), or (0, n_classes) without distinct counts. By how much nu_v
    falls as lambda_e rises: the draws of class c in the leaf for each distinct row."""

    @classmethod
    def of(cls, problem: RowProblem, origin: FloatArray) -> Coordinates:
        """Scale the equations of a problem; y = 0 is ``origin``."""
        n, d, n_classes = problem.n.astype(float), problem.d.astype(float), problem.n_classes
        used = np.zeros(len(n), dtype=bool)
        used[problem.equation.ravel()] = True
        if not len(d):
            open_ = np.flatnonzero(used)
            return cls(origin, open_, _units(n[open_]), np.zeros((0, n_classes)))
        along = n.reshape(-1, n_classes) / np.maximum(d, 1.0)[:, None]
        # Of how many draws a draw is one, on average; less by what goes with the distinct rows.
        b = problem.draws.astype(float)
        mean = (b**2).sum(axis=1) / np.maximum(b.sum(axis=1), 1.0)
        again = np.repeat(mean, np.diff(problem.first))
        left = n * np.maximum(again - along.ravel(), SCHEDULE.least_curvature)
        open_ = np.flatnonzero(np.append(used, used.reshape(-1, n_classes).any(axis=1)))
        return cls(origin, open_, _units(np.append(left, d)[open_]), along)

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Compute x."""
        move = np.zeros(len(self.origin))
        move[self.open_] = y * self.scale
        if (size := self.along.size) > 0:
            move[size:] -= (move[:size].reshape(self.along.shape) * self.along).sum(axis=1)
        return self.origin + move

    def gradient(self, g: FloatArray) -> FloatArray:
        """Compute the gradient in y from that in x."""
        if (size := self.along.size) > 0:
            g = np.append(g[:size] - (g[size:, None] * self.along).ravel(), g[size:])
        return g[self.open_] * self.scale


def _units(curvature: FloatArray) -> FloatArray:
    return np.asarray(1.0 / np.sqrt(np.maximum(curvature, SCHEDULE.least_curvature)))
