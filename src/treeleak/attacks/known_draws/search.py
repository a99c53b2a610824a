"""The search for a candidate of every row: fits, ever sharper, and repairs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from treeleak.attacks.known_draws.candidate_pruning import (
    HARDLY,
    entropy_left,
    fewer,
    fit_likely,
    likely_candidates,
)
from treeleak.attacks.known_draws.candidates import RowProblem, Unmet
from treeleak.attacks.known_draws.dual import Fit, certain_rows, fit, reaction
from treeleak.attacks.known_draws.row_solver import RowSolver
from treeleak.attacks.known_draws.rows_from_marginals import Places, typicality
from treeleak.attacks.known_draws.schedule import SCHEDULE
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock, OutOfTime
from treeleak.core.decisions import clearly_less
from treeleak.core.private import dataclass
from treeleak.evidence import Pairs
from treeleak.partition.value_index import ValueIndex

MODEL_TERMS = 400_000
"""Terms up to which the integer model is built."""


@dataclass(frozen=True, eq=False)
class Assignment:
    """The best assignment so far."""

    pair: IntArray
    """Shape (n_rows,). -1 for rows that no tree drew."""
    misfit: int
    proved: BoolArray
    """Shape (n_rows,)."""
    left_open: BoolArray
    """Shape (n_rows,). Rows that another known assignment that meets every count puts elsewhere."""
    marginals: tuple[RowProblem, FloatArray]
    """Candidates and their probabilities: how sure the answer is of what is not proved."""
    several: bool = False
    """Whether the counts leave more than a bit of each row open for sure, on average."""


@dataclass(eq=False)
class _Seen:
    """The best assignment that any fit came by: a fit goes on, and may end with a worse one."""

    clock: Clock
    decided: BoolArray
    """Shape (n_rows,). Rows that are settled before any fit."""
    fits: int = 0
    best: Assignment | None = None
    several: bool = False

    def report(self, problem: RowProblem, fit: Fit) -> None:
        """Take note of an evaluation."""
        self.fits += 1
        if self.best is None or fit.misfit < self.best.misfit:
            pair, none = problem.complete(fit.choice), np.zeros_like(self.decided)
            self.best = Assignment(pair, fit.misfit, self.decided, none, (problem, fit.u))
        self.clock.record(fit.misfit)
        self.clock.report_progress("fitting the rows", min(0.9, self.fits / 1000), self.best.misfit)

    def or_better(self, found: Assignment) -> Assignment:
        """Return what was found, with the rows seen where they miss fewer counts."""
        if self.best is None or self.best.misfit >= found.misfit:
            return found
        return replace(found, misfit=self.best.misfit, pair=self.best.pair)


def search(
    problem: RowProblem,
    expected: FloatArray | None,
    clock: Clock,
    seed: int,
    brief: float | None = None,
) -> Assignment:
    """Choose a candidate for every open row, and say how sure that is.

    ``brief``: seconds after which to leave off where the counts leave several datasets for sure.

    Raises OutOfTime if the time is up before the first evaluation ends.
    """
    decided = problem.fixed_pair >= 0
    if not problem.n_open:
        none = np.zeros_like(decided)
        return Assignment(problem.fixed_pair, 0, decided, none, (problem, np.zeros(0)))
    seen = _Seen(clock, decided)
    # What lies between two looks at the clock may take long.
    found = None
    with clock.cut_short():
        found = _searched(problem, expected, clock, seed, seen, brief)
    found = found or seen.best
    if found is None:
        raise OutOfTime
    return replace(found, several=seen.several)


def _searched(
    problem: RowProblem, expected: FloatArray | None, clock: Clock, seed: int, seen: _Seen,
    brief: float | None,
) -> Assignment:  # fmt: skip
    """Search until every count is met or the clock stops."""
    decided = problem.fixed_pair >= 0
    none = np.zeros_like(decided)
    first = fit(
        problem, clock, evaluations=SCHEDULE.first_evaluations, report=partial(seen.report, problem)
    )
    if brief is not None:
        least = SCHEDULE.open_entropy * problem.n_open
        seen.several = clearly_less(least, entropy_left(problem, first.u, least))
        clock = clock.part(brief) if seen.several else clock
    best = Assignment(
        problem.complete(first.choice), first.misfit, decided, none, (problem, first.u)
    )
    best = seen.or_better(best)
    likely_now = likely_candidates(problem, first.u, HARDLY)
    prove = partial(_proved, problem, likely=likely_now, clock=clock, seed=seed)
    if not best.misfit:
        return prove(best, multipliers=first.multipliers)
    likely, last = fit_likely(problem, first, expected, clock, seen.report)
    if last is None:
        best = Assignment(likely.fixed_pair, 0, decided, none, (likely, np.zeros(0)))
        return prove(best, multipliers=first.multipliers)
    pair = likely.complete(last.choice)
    best = Assignment(pair, last.misfit, decided, none, (likely, last.u))
    best = _solved(problem, best, SCHEDULE.solver_work, clock, seed)
    few, u = fewer(likely, last.u)
    attempt = 0
    with clock.cut_short():
        while best.misfit and not clock.stopped:
            best = _sharpened(few, u, last.multipliers, best, expected, attempt + 1, clock, seen)
            best = _repaired(likely, best, expected, clock, seed + attempt, seen)
            best = _combined(few, best, clock, seed + attempt)
            attempt += 1
            best = _solved(problem, best, 4**attempt * SCHEDULE.solver_work, clock, seed + attempt)
    best = seen.or_better(best)
    return best if best.misfit else prove(best, multipliers=last.multipliers)


def _proved(
    problem: RowProblem,
    found: Assignment,
    likely: BoolArray,
    multipliers: FloatArray,
    clock: Clock,
    seed: int,
) -> Assignment:
    """Say which rows of an assignment that meets every count stand in all that do.

    ``likely`` are the candidates with which the search for a proof begins.
    """
    clock.report_progress("proving the rows", 0.95, 0)
    choice = problem.columns_of(found.pair)
    likely = likely | (problem.column == choice[problem.owner])
    certain, same = np.zeros(problem.n_open, dtype=bool), np.ones(problem.n_open, dtype=bool)
    with clock.cut_short():
        certain = _certain(problem, choice, likely, multipliers, clock)
        solver = RowSolver(problem)
        if not certain.all() and not clock.stopped and solver.n_terms <= MODEL_TERMS:
            same, done = solver.always(choice, clock, SCHEDULE.proof_work, seed)
            if done:
                certain |= same
    proved, left_open = problem.fixed_pair >= 0, np.zeros_like(found.proved)
    proved[problem.rows[certain]] = left_open[problem.rows[~same]] = True
    return replace(found, proved=proved, left_open=left_open)


def _certain(
    problem: RowProblem, choice: IntArray, alive: BoolArray, multipliers: FloatArray, clock: Clock
) -> BoolArray:
    """Look for multipliers that prove rows, pricing in the candidates that stand against it."""
    certain = np.zeros(problem.n_open, dtype=bool)
    for turn in range(SCHEDULE.pricing_rounds):
        more, against = certain_rows(problem, choice, multipliers)
        certain |= more
        if (
            certain.all()
            or clock.stopped
            or (turn >= SCHEDULE.least_pricing_rounds and not more.any())
        ):
            break
        alive = alive | against
        part = problem.only(alive)
        multipliers = fit(
            part,
            clock,
            start=multipliers,
            evaluations=SCHEDULE.repair_evaluations,
            beyond=SCHEDULE.pricing_growth * turn,
        ).multipliers
    return certain


def _sharpened(
    likely: RowProblem,
    u: FloatArray,
    multipliers: FloatArray,
    best: Assignment,
    expected: FloatArray | None,
    effort: int,
    clock: Clock,
    seen: _Seen,
) -> Assignment:
    """Turn the reaction on step by step; each step is a convex fit near the last one.

    The prior of a candidate is how many rows are there by now, as the rows of a table resemble
    each other, and how many the population lets expect.
    """
    marginals, weight = np.zeros(len(u)), 0.0
    for alpha in np.linspace(0.0, 1.0, SCHEDULE.reaction_steps * effort + 1):
        if clock.stopped:
            break
        reference = likely.log_prior(u, SCHEDULE.candidate_doubt if expected is None else expected)
        if alpha:
            reference += alpha * reaction(likely, u)
        f = fit(
            likely, clock, reference=reference, start=multipliers,
            evaluations=SCHEDULE.reaction_evaluations * effort, report=partial(seen.report, likely),
        )  # fmt: skip
        u, multipliers = f.u, f.multipliers
        if f.misfit < best.misfit:
            best = replace(best, pair=likely.complete(f.choice), misfit=f.misfit)
        # Maximum entropy is too unsure of itself, the full reaction too sure: in between, and
        # over several steps, shares come true.
        if alpha >= 0.5:
            marginals, weight = marginals + u, weight + 1.0
            best = replace(best, marginals=(likely, marginals / weight))
        if f.misfit == 0:
            break
    return best


def _repaired(
    problem: RowProblem,
    best: Assignment,
    expected: FloatArray | None,
    clock: Clock,
    seed: int,
    seen: _Seen,
) -> Assignment:
    """Open the rows at which counts are missed, hold the others, and solve for those."""
    stage = "repairing the rows at which counts are missed"
    shares, n_released = iter(SCHEDULE.suspect_shares), 0
    while best.misfit and not clock.stopped:
        choice = problem.descended(problem.columns_of(best.pair), clock)
        if (misfit := problem.misfit(choice)) < best.misfit:
            best = replace(best, pair=problem.complete(choice), misfit=misfit)
            clock.record(misfit)
        share = next(shares, None)
        if share is None or not best.misfit:
            break
        clock.report_progress(stage, 0.9, best.misfit)
        suspect = problem.suspicion(choice) >= share
        if suspect.sum() <= max(n_released, 1):
            continue
        n_released = int(suspect.sum())
        held = problem.column == choice[problem.owner]
        alive = suspect[problem.owner] | held
        pair, misfit = _solved_open_rows(problem, alive, best, expected, clock, seed, seen)
        if misfit < best.misfit:
            best = replace(best, pair=pair, misfit=misfit)
            clock.record(misfit)
            shares, n_released = iter(SCHEDULE.suspect_shares), 0
    return best


def _solved(
    problem: RowProblem, best: Assignment, work: float, clock: Clock, seed: int
) -> Assignment:
    """Ask the integer solver for rows that meet every count, where it can hold the problem."""
    solver = RowSolver(problem)
    if not best.misfit or solver.n_terms > MODEL_TERMS or clock.stopped:
        return best
    clock.report_progress("solving for whole rows", 0.9, best.misfit)
    choice = solver.solve(clock, work, seed, hint=problem.columns_of(best.pair))
    if choice is None:
        return best
    return replace(best, pair=problem.complete(choice), misfit=problem.misfit(choice))


def _combined(likely: RowProblem, best: Assignment, clock: Clock, seed: int) -> Assignment:
    """Look for whole rows among the candidates that stayed believable while sharpening."""
    marginals, u = best.marginals
    if not best.misfit or marginals is not likely:
        return best
    clock.report_progress("solving for whole rows", 0.9, best.misfit)
    for share in SCHEDULE.believable_shares:
        try:
            part = likely.only(likely_candidates(likely, u, share)).narrowed(clock)
            solver = RowSolver(part)
            if solver.n_terms > MODEL_TERMS:
                break
            choice = solver.solve(clock, SCHEDULE.proof_work, seed) if part.n_open else part.rows
        except Unmet:
            continue
        if choice is not None:
            return replace(best, pair=part.complete(choice), misfit=part.misfit(choice))
    return best


def _solved_open_rows(
    problem: RowProblem, alive: BoolArray, best: Assignment, expected: FloatArray | None,
    clock: Clock, seed: int, seen: _Seen,
) -> tuple[IntArray, int]:  # fmt: skip
    """Choose among some candidates: by a fit, the integer solver, or the reaction once more."""
    try:
        part = problem.only(alive).narrowed(clock)
        if not part.n_open:
            return part.fixed_pair, 0
        f = fit(part, clock, evaluations=SCHEDULE.repair_evaluations)
        solver = RowSolver(part)
        if f.misfit and solver.n_terms <= MODEL_TERMS:
            choice = solver.solve(clock, SCHEDULE.solver_work, seed, hint=f.choice)
            if choice is not None:
                return part.complete(choice), part.misfit(choice)
        if f.misfit and not clock.stopped:
            few, u = fewer(part, f.u)
            fitted = replace(best, pair=part.complete(f.choice), misfit=f.misfit)
            sharp = _sharpened(few, u, f.multipliers, fitted, expected, 1, clock, seen)
            return sharp.pair, sharp.misfit
        return part.complete(f.choice), f.misfit
    except Unmet:
        return best.pair, best.misfit


def moved_to_expected(problem: RowProblem, found: Assignment, expected: FloatArray) -> Assignment:
    """Move rows to where the population expects them, as far as that changes no count."""
    rest = _undecided(problem, found)
    choice = rest.likeliest(rest.columns_of(found.pair), expected[rest.pair])
    return replace(found, pair=rest.complete(choice))


def _undecided(problem: RowProblem, found: Assignment) -> RowProblem:
    """What is left with the proved rows in their places."""
    is_chosen = problem.column == problem.columns_of(found.pair)[problem.owner]
    return problem.only(is_chosen | ~found.proved[problem.rows[problem.owner]])


def typical(
    problem: RowProblem,
    found: Assignment,
    expected: FloatArray | None,
    pairs: Pairs,
    places: Places,
    values: ValueIndex,
    clock: Clock,
    seed: int,
) -> Assignment:
    """Where several assignments meet every count: prefer rows that resemble the others.

    Or, where it is known, the population.
    """
    clock.report_progress("weighing what the counts leave open", 0.97, 0)
    rest = _undecided(problem, found)
    if not rest.n_open or clock.stopped:
        return found
    if expected is None:
        log_prior = typicality(found.pair, rest.pair, pairs, places, values)
    else:
        log_prior = np.log(expected[rest.pair])
    f = fit(
        rest, clock, reference=log_prior[rest.column], evaluations=SCHEDULE.first_evaluations,
        beyond=SCHEDULE.first_evaluations,
    )  # fmt: skip
    if not f.misfit:
        return replace(found, pair=rest.complete(f.choice), marginals=(rest, f.u))
    is_chosen = rest.column == rest.columns_of(found.pair)[rest.owner]
    # Few candidates first: what is found there is where the next search begins.
    for share in SCHEDULE.believable_shares:
        part = rest.only(likely_candidates(rest, f.u, share) | is_chosen)
        solver = RowSolver(part)
        if not part.n_open or solver.n_terms > MODEL_TERMS:
            continue
        score = np.log(np.maximum(part.carried(rest, f.u), SCHEDULE.least_candidate))
        choice = solver.solve(clock, SCHEDULE.solver_work, seed, part.columns_of(found.pair), score)
        if choice is not None:
            found = replace(found, pair=part.complete(choice))
    return found
