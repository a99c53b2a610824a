"""DRAFT-DP's constraint program for noisy counts (section III, appendices A and B), by CP-SAT.

For every tree t, leaf v, class c and row k, y_tvkc says whether row k stands there as class c.
What the leaf's path demands follows from it, the sums over rows are the true counts n_tvc, and
Delta_tvc = n*_tvc - n_tvc is the noise. The objective is the log-probability of all noise together.
As in the paper, nothing breaks the symmetry between rows. Where the number of rows is not known,
there are variables for as many as there can be, and the solver chooses how many count.

The paper's noise is int(Y), towards zero: ``Laplace(epsilon, "towards zero")``. Any other law of
whole noise is weighed in the same way.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from experiments.published_programs.literals import RowVariables, encodings_of, paths_of
from experiments.published_programs.program import (
    STAGE,
    Program,
    built_rows,
    check_parts,
    check_size,
    refuse,
    unproved,
    whole_logs,
    widened,
)
from treeleak.attacks.answer import Answer
from treeleak.attacks.solvers.cp_sat import LinearExpr, Model, Run
from treeleak.core.clock import Clock, OutOfTime
from treeleak.core.errors import NotCovered
from treeleak.core.message import static_message
from treeleak.evidence import NoisyCounts
from treeleak.partition import Geometry
from treeleak.partition.value_index import ValueIndex, values_in
from treeleak.release.noise.laws import CountNoise
from treeleak.release.sampling import AllRows
from treeleak.side_information.side_information import NOTHING, KnownParts, SideInformation


def reference_noisy(
    evidence: NoisyCounts,
    geometry: Geometry,
    clock: Clock,
    seed: int,
    given: SideInformation = NOTHING,
) -> Answer:
    """Rebuild the rows with the published constraint program for noisy counts.

    The number of rows is left to the solver where the ends of ``rows_between`` differ. The solver's
    workers run side by side, so that equal
    seeds need not give equal rows. What is known of the rows' values is fixed; row k of the answer
    has the known part k.

    The answer is "likely" where rows were found (``numbers["optimal"]`` says whether they are
    proved to be the likeliest), else "unknown". The misfit is the sum of all noise, in rows. The
    program proves no row and says nothing of its certainty, as the other published ones.

    Raises
    ------
    BadInput
        If parts are known of another number of rows than there are.
    NotCovered
        If the noise is not whole, if a tree did not see every row, if the schema has rules, if a
        population is given, if parts are known of rows whose number is not, or if the program would
        be too large.
    """
    refuse("constraint program", geometry, given)
    if not evidence.noise.whole:
        raise NotCovered(
            static_message("the published constraint program covers only noise in whole numbers")
        )
    if evidence.sampling != AllRows.kind:
        raise NotCovered(
            static_message("the published constraint program covers only trees that saw every row")
        )
    least_rows, most_rows = evidence.rows_between
    if given.parts is not None and least_rows != most_rows:
        raise NotCovered(
            static_message(
                "the published constraint program does not cover known parts of an unknown number"
            )
        )
    check_parts(given.parts, most_rows)
    values = values_in(geometry)
    try:
        ended, program = _solved(evidence, geometry, values, clock, seed, given.parts)
    except OutOfTime:
        return Answer("unknown", values)
    numbers = program.numbers
    if not ended.found:
        return Answer("unknown", values, numbers=numbers)
    numbers["optimal"] = int(ended.optimal)
    misfit = program.misfit(ended.solver)
    clock.report_progress(STAGE, 1.0, misfit)
    found = program.solution(ended.solver, values)
    return unproved("likely", values, found, misfit, numbers, given.parts)


def noise_bound(noise: CountNoise) -> int:
    """Gamma of appendix B: the solver looks for noise from -gamma to gamma only.

    It is the least whole number that noise reaches with a probability of at most e^-12: for the
    paper's noise 12 / epsilon, rounded up, as there; and the same for other laws.
    """
    y = np.arange(int(15 * np.sqrt(noise.variance)) + 3)
    p = np.exp(noise.log_prob(y)) * np.where(y == 0, 1, 2)
    reached = 1.0 - np.concatenate([[0.0], np.cumsum(p)])
    # Where epsilon divides 12, both sides are equal but for rounding.
    return int((reached <= np.exp(-12.0) * (1 + 1e-6)).argmax())


def noisy_program(
    evidence: NoisyCounts,
    geometry: Geometry,
    values: ValueIndex,
    parts: KnownParts | None,
    most: int,
    clock: Clock,
) -> Program:
    """Build the model, with noise from -``most`` to ``most`` in each count.

    Raises
    ------
    NotCovered
        If it would be too large.
    OutOfTime
    """
    trees = [range(a, b) for a, b in pairwise(geometry.leaf_start.tolist())]
    least_rows, most_rows = evidence.rows_between
    # Section III: n_tvc lies within ``most`` of n*_tvc.
    noisy = np.rint(evidence.n).astype(np.int64)
    low, high = np.maximum(noisy - most, 0), np.minimum(noisy + most, most_rows)
    encodings = encodings_of(values)
    paths = paths_of(geometry, encodings)
    n_terms = _size(evidence, paths, int((high - low + 1).sum()))
    n_terms += most_rows * sum(e.n_terms for e in encodings)
    check_size("constraint program for noise", n_terms, most_rows, len(trees))
    model = Model()
    n = [
        [model.new_int_var(a, b, "") for a, b in zip(*ends, strict=True)]
        for ends in zip(low.tolist(), high.tolist(), strict=True)
    ]
    fixed = least_rows == most_rows
    n_rows = most_rows if fixed else model.new_int_var(least_rows, most_rows, "")
    for leaves in trees:
        total = LinearExpr.sum([x for v in leaves for x in n[v]])
        model.add(total == n_rows)  # DRAFT-DP eq. 1, 10
    summands: list[list[list[Any]]] = [[[] for _ in own] for own in n]
    rows: list[RowVariables] = []
    for row in built_rows(model, values, encodings, parts, [None] * most_rows, clock):
        k = len(rows)
        rows.append(row)  # DRAFT-DP eq. 2, 11
        counts = _counts(model, k, n_rows) if k >= least_rows else None
        for leaves in trees:
            of_class: dict[int, list[Any]] = {c: [] for c in row.open_classes}
            for v in leaves:
                path = paths[v]
                if path is None:
                    continue
                demands = row.demanded(path)
                for c, of_tree in of_class.items():
                    y = model.new_bool_var("")
                    if demands:
                        model.add_bool_and(demands).only_enforce_if(y)  # DRAFT-DP eq. 5, 15
                    of_tree.append(y)
                    summands[v][c].append(y)
            for c, of_tree in of_class.items():
                total = LinearExpr.sum(of_tree)
                if fixed:
                    model.add(total == (row.classes[c] if row.classes else 1))  # DRAFT-DP eq. 3
                    continue
                if row.classes:
                    model.add(total == 0).only_enforce_if(~row.classes[c])  # DRAFT-DP eq. 12
                if counts is not None:
                    model.add(total == 0).only_enforce_if(~counts)  # DRAFT-DP eq. 13
    noise: list[Any] = []
    likelihood: list[Any] = []
    for (v, c), observed in np.ndenumerate(noisy):
        model.add(LinearExpr.sum(summands[v][c]) == n[v][c])  # DRAFT-DP eq. 4, 14
        first, last = int(observed - high[v, c]), int(observed - low[v, c])
        delta = model.new_int_var(first, last, "")
        model.add(delta == int(observed) - n[v][c])  # DRAFT-DP eq. 6
        is_l = [model.new_bool_var("") for _ in range(first, last + 1)]
        model.add_map_domain(delta, is_l, first)
        log_p = evidence.noise.log_prob(np.arange(first, last + 1))
        likelihood.append(LinearExpr.weighted_sum(is_l, whole_logs(log_p)))
        noise.append(delta)
    model.maximize(LinearExpr.sum(likelihood))  # DRAFT-DP eq. 9, 16
    return Program(model, rows, n_terms, noise, None if fixed else n_rows)


def _solved(
    evidence: NoisyCounts,
    geometry: Geometry,
    values: ValueIndex,
    clock: Clock,
    seed: int,
    parts: KnownParts | None,
) -> tuple[Run, Program]:
    noisy, most_rows = np.rint(evidence.n), evidence.rows_between[1]
    forced = max(-noisy.min(), noisy.max() - most_rows)
    limit = int(max(noisy.max(), most_rows - noisy.min()))

    def build(most: int) -> Program:
        return noisy_program(evidence, geometry, values, parts, most, clock)

    # Beyond the bound lies unlikely noise, or a wrong number of rows: then any noise at all.
    return widened(build, max(noise_bound(evidence.noise), int(forced)), limit, clock, seed)


def _counts(model: Model, k: int, n_rows: Any) -> Any:
    """Make a literal that says whether row k is one of the first ``n_rows``."""
    counts = model.new_bool_var("")
    model.add(n_rows > k).only_enforce_if(counts)
    model.add(n_rows <= k).only_enforce_if(~counts)
    return counts


def _size(evidence: NoisyCounts, paths: list[list[int] | None], n_noise: int) -> int:
    """Bound the terms of all leaves and counts from above; ``n_noise``: values of all noise."""
    least, most = evidence.rows_between
    # Each y stands in its path's demands, in a count, and among its tree's leaves.
    links = 3 if least == most else 5
    per_class = sum(len(path) + links for path in paths if path is not None)
    n_classes = int(evidence.n.shape[1])
    return most * per_class * n_classes + 3 * n_noise
