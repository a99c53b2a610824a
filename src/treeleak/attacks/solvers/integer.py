"""Whole-number solutions of A m = n, and proofs about all of them, through CP-SAT."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf
from scipy.sparse import csr_matrix

from treeleak.attacks.kernels import propagate
from treeleak.attacks.solvers.cp_sat import LinearExpr, Model, Run, run
from treeleak.core.arrays import IntArray, equal_entries
from treeleak.core.clock import Clock
from treeleak.core.decisions import GRID, RANK
from treeleak.core.private import dataclass
from treeleak.evidence import CountSystem

_MOST_TERMS = 2_000_000
"""Terms up to which a model is built."""
_MOST_COMPARED = 5000
"""Equations up to which it is worked out which follow from others: some seconds, and 0.2 GB."""
_FOLLOWS = 1e-3
"""By how much a sum may differ from what the sums of other equations make of it; they are whole."""


class NoSolution(Exception):
    """No whole numbers meet all equations: proved."""


@dataclass(frozen=True, eq=False)
class Bounds:
    """What propagation alone proves of a system: lower <= m <= upper in every solution."""

    lower: IntArray
    upper: IntArray
    """Shape (n_cells,)."""
    broken: int
    """An equation that cannot be met, or -1."""

    @property
    def determined(self) -> bool:
        """Whether one histogram is left."""
        return self.broken < 0 and bool(np.array_equal(self.lower, self.upper))


def bounds(system: CountSystem) -> Bounds:
    """Propagate the bounds of every cell through all equations until nothing moves."""
    upper = system.target[system.signature].min(axis=1, initial=system.n_rows)
    lower = np.zeros_like(upper)
    # A sweep touches every incidence once; twenty settle all but long chains.
    target = np.ascontiguousarray(system.target)
    broken = int(propagate(system.signature, target, lower, upper, 200))
    return Bounds(lower, upper, broken)


@dataclass(frozen=True, eq=False)
class IntegerProblem:
    """The cells that propagation leaves open, as an integer problem."""

    system: CountSystem
    bounds: Bounds

    @cached_property
    def free(self) -> IntArray:
        """Cells whose number is not settled."""
        return np.flatnonzero(self.bounds.lower < self.bounds.upper)

    @cached_property
    def equations(self) -> list[tuple[IntArray, int]]:
        """Distinct equations over the free cells: positions in :attr:`free`, and their sum."""
        fixed = np.where(self.bounds.lower == self.bounds.upper, self.bounds.lower, 0)
        left = -self.system.residual(fixed)
        seen: set[tuple[bytes, int]] = set()
        out: list[tuple[IntArray, int]] = []
        for t in range(self.system.signature.shape[1]):
            row = self.system.signature[self.free, t]
            for members in equal_entries(row):
                total = int(left[row[members[0]]])
                # Equal cells with another sum are another equation: the counts contradict.
                key = (members.astype(np.int32).tobytes(), total)
                if key not in seen:
                    seen.add(key)
                    out.append((members, total))
        return out

    @cached_property
    def independent(self) -> list[tuple[IntArray, int]]:
        """Those of the equations that say all; the solver is several times faster without others.

        Of equations that contradict each other as they stand, both are there.
        """
        if not 0 < len(self.equations) <= _MOST_COMPARED:
            return self.equations
        sizes = np.array([len(members) for members, _ in self.equations])
        begin = np.append(0, np.cumsum(sizes))
        entry = np.concatenate([members for members, _ in self.equations])
        a = csr_matrix((np.ones(len(entry)), entry, begin))
        # Of lines of equal length, a Cholesky factor with pivots keeps those that are most apart.
        # The first of those that are equally far apart, whatever rounding makes of them.
        scale = (1.0 - GRID * np.arange(len(sizes))) / np.sqrt(sizes)
        factor, pivot, rank, _ = dpstrf((a @ a.T).toarray() * np.outer(scale, scale), RANK, 1)
        order, total = pivot - 1, np.array([total for _, total in self.equations])
        scaled = (total * scale)[order]
        follows = factor[rank:, :rank] @ solve_triangular(
            factor[:rank, :rank], scaled[:rank], lower=True
        )
        off = np.abs(follows - scaled[rank:]) > _FOLLOWS * scale[order[rank:]]
        selected = np.append(order[:rank], order[rank:][off])
        return [self.equations[i] for i in np.sort(selected)]

    @property
    def n_terms(self) -> int:
        """Upper bound of the terms of all equations."""
        return int(len(self.free) * self.system.signature.shape[1])

    @property
    def tractable(self) -> bool:
        """Whether the solver can be asked for a solution."""
        return self.n_terms <= _MOST_TERMS

    def within(self, cells: IntArray) -> IntegerProblem:
        """The same problem with rows in these cells, and elsewhere only where they must stand."""
        upper = self.bounds.lower.copy()
        upper[cells] = self.bounds.upper[cells]
        return IntegerProblem(self.system, Bounds(self.bounds.lower, upper, -1))

    def _model(self) -> tuple[Model, list[Any]]:
        model = Model()
        low, high = self.bounds.lower[self.free], self.bounds.upper[self.free]
        m = [model.new_int_var(int(a), int(b), "") for a, b in zip(low, high, strict=True)]
        for members, total in self.independent:
            model.add(LinearExpr.sum([m[i] for i in members]) == total)
        return model, m

    def _solution(self, ended: Run, m: list[Any]) -> IntArray | None:
        if not ended.found:
            return None
        full = self.bounds.lower.copy()
        full[self.free] = [ended.solver.value(x) for x in m]
        # Rank is found in rounded numbers.
        return None if self.system.residual(full).any() else full

    def solutions(self, clock: Clock, limit: float, seed: int) -> list[IntArray]:
        """Find a solution, or none in time; ``limit`` is in units of work.

        Raises NoSolution if it is proved that there is none.
        """
        if clock.stopped:
            return []
        model, m = self._model()
        ended = run(model, clock, seed, limit, probing=0)
        if ended.none:
            raise NoSolution
        found = self._solution(ended, m)
        return [] if found is None else [found]

    def always(
        self, known: Iterable[IntArray], clock: Clock, limit: float, seed: int
    ) -> tuple[IntArray, bool, list[IntArray]]:
        """Find the rows that stand in every solution.

        Asks for a solution with fewer rows than all known ones have, in as many cells as can be;
        each answer lowers the common part, and a proof that there is none ends it.

        Parameters
        ----------
        known : iterable of int array
            Solutions, at least one.
        clock, limit, seed
            The search stops after ``limit`` units of work.

        Returns
        -------
        common : int array, shape (n_cells,)
            Rows per cell that all known solutions share.
        proved : bool
            Whether ``common`` is the common part of *all* solutions.
        found : list of int array
            The further solutions met on the way.
        """
        found: list[IntArray] = []
        common = np.minimum.reduce([np.asarray(m) for m in known])
        if clock.stopped:
            return common, False, found
        model, m = self._model()
        above = common[self.free] > self.bounds.lower[self.free]
        fewer = {i: model.new_bool_var("") for i in np.flatnonzero(above).tolist()}
        while limit > 0:
            above = common[self.free] > self.bounds.lower[self.free]
            candidates = [i for i in fewer if above[i]]
            if not candidates:
                return common, True, found
            probe = model.clone()
            for i in candidates:
                probe.add(m[i] <= int(common[self.free[i]]) - 1).only_enforce_if(fewer[i])
            probe.add_bool_or([fewer[i] for i in candidates])
            probe.maximize(LinearExpr.sum([fewer[i] for i in candidates]))
            if clock.stopped:
                break
            ended = run(probe, clock, seed, limit, probing=0)
            limit -= ended.work
            other = self._solution(ended, m)
            if other is None:
                return common, ended.none, found
            found.append(other)
            common = np.minimum(common, other)
        return common, False, found
