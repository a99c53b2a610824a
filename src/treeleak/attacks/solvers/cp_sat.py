"""CP-SAT: how every model is made and run, repeatably, and so that a clock can stop it."""

from __future__ import annotations

from typing import Any, TypeAlias

from ortools.sat.python import cp_model

from treeleak.core.clock import Clock
from treeleak.core.parallel import run_watched
from treeleak.core.private import dataclass

Model: TypeAlias = cp_model.CpModel
LinearExpr: TypeAlias = cp_model.LinearExpr
SolutionCallback: TypeAlias = cp_model.CpSolverSolutionCallback


@dataclass(frozen=True, eq=False)
class Run:
    """What the solver says of a model."""

    solver: Any
    """CpSolver. Has the values of the variables, where a solution was found."""
    status: Any
    """Int."""

    @property
    def found(self) -> bool:
        """Whether there is a solution."""
        return self.status in (cp_model.OPTIMAL, cp_model.FEASIBLE)

    @property
    def optimal(self) -> bool:
        """Whether it is proved to be the best; any is, where nothing is to be maximised."""
        return bool(self.status == cp_model.OPTIMAL)

    @property
    def none(self) -> bool:
        """Whether it is proved that there is no solution."""
        return bool(self.status == cp_model.INFEASIBLE)

    @property
    def work(self) -> float:
        """What it took, in the solver's units of work: about seconds."""
        return float(self.solver.response_proto.deterministic_time)


def run(
    model: Model,
    clock: Clock,
    seed: int,
    limit: float | None = None,
    *,
    workers: int = 1,
    interleaved: bool = False,
    linearization: int = 1,
    probing: int = 2,
    noted: SolutionCallback | None = None,
) -> Run:
    """Solve until it is done, the work is up or the clock stops.

    Parameters
    ----------
    limit : float, optional
        Units of work, which is counted instead of seconds so that answers can be repeated.
    workers : int
        Strategies at a time. More than one can be repeated only if they take turns ...
    interleaved : bool
        ... and whether they do, in a fixed order.
    linearization : int
        How much of the model is relaxed to a linear program: 0 for nothing.
    probing : int
        How thoroughly values are tried out before the search: 0 for not at all.
    noted : SolutionCallback, optional
        Hears of every solution.
    """
    solver = cp_model.CpSolver()
    # The clock hears Ctrl-C; the solver's own handler would end the process.
    solver.parameters.catch_sigint_signal = False
    solver.parameters.random_seed = seed % 2**31
    solver.parameters.num_workers = workers
    solver.parameters.interleave_search = interleaved
    solver.parameters.linearization_level = linearization
    solver.parameters.cp_model_probing_level = probing
    solver.parameters.max_time_in_seconds = clock.left
    if limit is not None:
        solver.parameters.max_deterministic_time = limit

    def stop() -> bool:
        if clock.stopped:
            solver.stop_search()
        return False

    return Run(solver, run_watched(lambda: solver.solve(model, noted), stop))
