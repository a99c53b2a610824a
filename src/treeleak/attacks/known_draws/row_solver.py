"""Rows told apart by their draws, through CP-SAT: one literal per candidate."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from treeleak.attacks.known_draws.candidates import RowProblem, Unmet
from treeleak.attacks.solvers.cp_sat import LinearExpr, Model, run
from treeleak.core.arrays import BoolArray, FloatArray, IntArray, equal_entries
from treeleak.core.clock import Clock
from treeleak.core.private import dataclass


@dataclass(frozen=True, eq=False)
class RowSolver:
    """A row problem as an integer model."""

    problem: RowProblem

    @cached_property
    def n_terms(self) -> int:
        """Terms of the model, about."""
        drawn = (self.problem.draws > 0).sum(axis=0)
        return int(drawn @ np.diff(self.problem.start)) * (2 if len(self.problem.d) else 1)

    @cached_property
    def _model(self) -> tuple[Model, list[Any]]:
        p = self.problem
        model = Model()
        x = [model.new_bool_var("") for _ in p.column]
        for low, high in zip(p.start[:-1].tolist(), p.start[1:].tolist(), strict=True):
            model.add_exactly_one(x[low:high])
        for t, draws in enumerate(p.draws):
            b = draws[p.owner].astype(np.int64)
            drawn = np.flatnonzero(b)
            equation = p.equation[t, p.column[drawn]]
            _add_sums(model, x, drawn, b[drawn], equation, p.n)
            if len(p.d):
                _add_sums(model, x, drawn, np.ones_like(drawn), equation // p.n_classes, p.d)
        return model, x

    def solve(
        self,
        clock: Clock,
        limit: float,
        seed: int,
        hint: IntArray | None = None,
        score: FloatArray | None = None,
    ) -> IntArray | None:
        """Look for a candidate per open row that meets every count.

        ``limit``: deterministic work, about seconds. ``hint``, shape (n_open,): columns to start
        from. ``score``, shape (n_candidates,): look for the choice of the highest sum, as far as
        the work goes. Returns a column per row, shape (n_open,); None if there was not time enough.
        Raises Unmet if it is proved that there is none.
        """
        model, x = self._model
        if hint is not None:
            model = model.clone()
            chosen = self.problem.column == hint[self.problem.owner]
            for literal, value in zip(x, chosen.astype(int).tolist(), strict=True):
                model.add_hint(literal, value)
        if score is not None:
            model = model.clone()
            model.maximize(LinearExpr.weighted_sum(x, score.tolist()))
        choice, none, _ = self._run(model, clock, limit, seed)
        if none:
            raise Unmet
        return choice

    def always(
        self, choice: IntArray, clock: Clock, limit: float, seed: int
    ) -> tuple[BoolArray, bool]:
        """Find the rows that stand in every solution, given one of them.

        Asks again and again for a solution that differs in some row that all known ones share.

        Returns
        -------
        same : bool array, shape (n_open,)
            Rows that all known solutions share.
        proved : bool
            Whether no solution differs in any of them.
        """
        model, x = self._model
        p = self.problem
        same = np.ones(p.n_open, dtype=bool)
        chosen = np.flatnonzero(p.column == choice[p.owner])
        while same.any() and limit > 0 and not clock.stopped:
            probe = model.clone()
            probe.add_bool_or([x[q].negated() for q in chosen[same].tolist()])
            other, none, work = self._run(probe, clock, limit, seed)
            limit -= work
            if other is None:
                return same, none
            same &= other == choice
        return same, not same.any()

    def _run(
        self, model: Model, clock: Clock, limit: float, seed: int
    ) -> tuple[IntArray | None, bool, float]:
        ended = run(model, clock, seed, limit)
        if not ended.found:
            return None, ended.none, ended.work if ended.none else max(ended.work, 1e-3)
        p = self.problem
        taken = np.array([ended.solver.boolean_value(x) for x in self._model[1]], dtype=bool)
        return p.column[taken].astype(np.int64), False, ended.work


def _add_sums(
    model: Model,
    x: list[Any],
    which: IntArray,
    weight: IntArray,
    equation: IntArray,
    target: IntArray,
) -> None:
    """State sum of weight * x = target for every equation in which some literal stands.

    Narrowing has made sure that nothing is left over where none stands.
    """
    for entries in equal_entries(equation):
        literals = [x[q] for q in which[entries].tolist()]
        total = int(target[equation[entries[0]]])
        model.add(LinearExpr.weighted_sum(literals, weight[entries].tolist()) == total)
