"""DRAFT's constraint program (Ferry, Fukasawa, Pascal and Vidal 2024, section 6), through CP-SAT.

Every training row k has variables of its own: x_ki, its values; z_kc, its class; and for every
tree the leaf where it stands. As in the paper, nothing breaks the symmetry between rows. Where
each tree used every row once, nothing is left to maximise; where draws are hidden, the solver
guesses them, as likely as it can.
"""

from __future__ import annotations

from experiments.published_programs.bootstrap import bootstrap_program, most_draws
from experiments.published_programs.placed import placed_program
from experiments.published_programs.program import (
    STAGE,
    Program,
    contradicted,
    refuse,
    solve,
    unproved,
    widened,
)
from treeleak.attacks.answer import Answer, Status
from treeleak.attacks.solvers.cp_sat import Run
from treeleak.core.clock import Clock, OutOfTime
from treeleak.evidence import ExactCounts, HiddenDraws
from treeleak.partition import Geometry
from treeleak.partition.value_index import ValueIndex, values_in
from treeleak.side_information.side_information import NOTHING, SideInformation


def reference_cp(
    evidence: ExactCounts | HiddenDraws,
    geometry: Geometry,
    clock: Clock,
    seed: int,
    given: SideInformation = NOTHING,
) -> Answer:
    """Rebuild the rows with the published constraint program.

    The published program knows no distinct counts. With hidden draws they are demanded too if the
    evidence has them (``evidence.d``): leave them out to have the program as it was published.
    Equal seeds give equal rows, unless time runs out.

    The answer is "feasible" where all evidence is met, "likely" where the draws are hidden and some
    were found that give the counts (``numbers["optimal"]`` says whether they are proved to be the
    likeliest), "infeasible" where the solver proved that no rows meet the counts, and
    "unknown" where time ran out. The program proves no row, and the answer is never "unique". Where
    the trees part no values of an attribute, the first listed one stands. The
    program says nothing of its certainty, so each value is given the probability that it has
    without the counts.

    Raises
    ------
    NotCovered
        If the schema has rules, if anything is given beside the model, or if the program would be
        too large.
    """
    refuse("constraint program", geometry, given)
    values = values_in(geometry)
    if isinstance(evidence, ExactCounts) and (clash := evidence.contradiction()) is not None:
        return Answer("infeasible", values, contradiction=clash)
    try:
        ended, program = _solved(evidence, geometry, values, clock, seed)
    except OutOfTime:
        return Answer("unknown", values)
    numbers = program.numbers
    if ended.none:
        return contradicted(values, numbers)
    if not ended.found:
        return Answer("unknown", values, numbers=numbers)
    found = program.solution(ended.solver, values)
    clock.record(0)
    clock.report_progress(STAGE, 1.0, 0)
    status: Status = "feasible"
    if isinstance(evidence, HiddenDraws):
        status = "likely"
        numbers["optimal"] = int(ended.optimal)
    return unproved(status, values, found, numbers)


def _solved(
    evidence: ExactCounts | HiddenDraws,
    geometry: Geometry,
    values: ValueIndex,
    clock: Clock,
    seed: int,
) -> tuple[Run, Program]:
    if not isinstance(evidence, HiddenDraws):
        program = placed_program(evidence, geometry, values, clock)
        return solve(program, clock, seed), program

    def build(most: int) -> Program:
        return bootstrap_program(evidence, geometry, values, most, clock)

    return widened(build, most_draws(evidence), int(evidence.n.max(initial=0)), clock, seed)
