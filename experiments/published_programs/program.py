"""What the published formulations share.

What is known beside a model (rows, columns, a population) is refused, as are rules of the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from experiments.published_programs.literals import RowVariables
from treeleak.attacks.answer import NOT_NEEDED, Answer, Rows, Status
from treeleak.attacks.solvers.cp_sat import Model, Run, SolutionCallback, run
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.errors import NotCovered
from treeleak.core.private import dataclass
from treeleak.evidence import Contradiction
from treeleak.partition import Geometry
from treeleak.partition.value_index import ValueIndex
from treeleak.side_information.side_information import SideInformation

MAX_TERMS = 4_000_000
"""Most terms (literals in constraints) of a model that is built: the solver takes about 10 GB."""

SCALE = 10_000
"""Log-probabilities are rounded to whole multiples of 1 / SCALE."""

STAGE = "solving the published constraint program"


def refuse(formulation: str, geometry: Geometry, given: SideInformation) -> None:
    """Raise NotCovered for what no published formulation takes into account."""
    if geometry.schema.rules:
        raise NotCovered(f"the published {formulation} does not cover rules between columns")
    given.refuse(f"the published {formulation}")


def check_size(formulation: str, n_terms: int, n_rows: int, n_trees: int) -> None:
    """Refuse a formulation that would be too large to build.

    Raises
    ------
    NotCovered
    """
    if n_terms > MAX_TERMS:
        raise NotCovered(
            f"the published {formulation} has about {n_terms:.2g} terms for {n_rows:,} rows and "
            f"{n_trees} trees; at most {MAX_TERMS:,} are built"
        )


def built_rows(
    model: Model,
    values: ValueIndex,
    label: Sequence[int | None],
    clock: Clock,
) -> Iterator[RowVariables]:
    """Make the variables of one row after the other; ``label``: their classes, where fixed.

    Raises
    ------
    OutOfTime
    """
    for k, fixed in enumerate(label):
        clock.check()
        clock.report_progress("building the published constraint program", k / len(label))
        yield RowVariables.of(model, values, fixed)


@dataclass(frozen=True, eq=False)
class Program:
    """A constraint program, and those of its variables that make the rows."""

    model: Model
    """CpModel."""
    rows: list[RowVariables]
    n_terms: int
    """Literals in its constraints, about."""

    @property
    def numbers(self) -> dict[str, int]:
        """Sizes, for the record."""
        return {"variables": len(self.model.proto.variables), "terms": self.n_terms}

    def solution(self, solver: Any, values: ValueIndex) -> IntArray:
        """Read the rows of a solution, in values."""
        atoms = np.array([row.chosen(solver) for row in self.rows], dtype=np.int64)
        return values_at(atoms.reshape(len(self.rows), len(values.parts) + 1), values)


def solve(program: Program, clock: Clock, seed: int) -> Run:
    """Run the solver until it is done or the clock stops."""
    clock.report_progress(STAGE, 0.0)
    # Equal seeds give equal rows: one worker, or several that take turns in a fixed order. To meet
    # all counts one without linear relaxations is the fastest, on columns of 0 and 1 as on numbers.
    # Where there is something to maximise, two strategies at a time often find no rows at all; four
    # do.
    if not program.model.has_objective():
        return run(program.model, clock, seed, linearization=0)
    return run(program.model, clock, seed, workers=4, interleaved=True, noted=_Noted(clock))


def widened(
    build: Callable[[int], Program], most: int, limit: int, clock: Clock, seed: int
) -> tuple[Run, Program]:
    """Solve a program built for numbers up to ``most``; where it has no solution, up to ``limit``.

    It was no proof while numbers could be larger.
    """
    program = build(most)
    ended = solve(program, clock, seed)
    if not ended.none or most >= limit:
        return ended, program
    return widened(build, limit, limit, clock, seed)


class _Noted(SolutionCallback):  # type: ignore[misc]
    """Notes when rows were found: the first come long before the likeliest."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def on_solution_callback(self) -> None:
        self._clock.record(0)
        self._clock.report_progress(STAGE, 0.0, 0)


def whole_logs(log_p: FloatArray) -> list[int]:
    """Scale log-probabilities to the whole numbers that the solver asks for."""
    whole: list[int] = np.rint(SCALE * np.maximum(log_p, -1e4)).astype(np.int64).tolist()
    return whole


def values_at(atoms: IntArray, values: ValueIndex) -> IntArray:
    """Write rows of atoms, counted within each attribute, as the first listed value of each."""
    return np.asarray(values.first[atoms + values.atom_start[:-1]])


def contradicted(values: ValueIndex, numbers: dict[str, int]) -> Answer:
    """Answer that there are no rows, where the solver proved it."""
    why = "the solver proved that no rows meet the counts of all trees"
    return Answer("infeasible", values, contradiction=Contradiction(0, 0, why), numbers=numbers)


def unproved(
    status: Status, values: ValueIndex, found: IntArray, numbers: dict[str, int]
) -> Answer:
    """Answer with rows of a formulation that says nothing of its certainty.

    Each value has the probability that it has without the counts: all that the schema allows are
    equally likely.
    """
    n_open = np.maximum(np.diff(values.start), 2)[None, :]
    confidence = np.broadcast_to(1.0 / n_open, found.shape).copy()
    rows = Rows(found, confidence, np.zeros(len(found), dtype=bool), False, 0)
    return Answer(status, values, (rows,), numbers=numbers, cells=NOT_NEEDED)
