"""Rows told apart by their draws, through CP-SAT, with no list of cells.

Each row has literals for the atoms of its columns, and one for each leaf of each tree that drew it;
a leaf demands what its path does. Rows that are held to be settled are taken out of the counts.
"""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.solvers.cp_sat import LinearExpr, Model, run
from treeleak.attacks.solvers.literals import Encoding, RowVariables, encodings_of, paths_of
from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.private import dataclass
from treeleak.partition.value_index import ValueIndex

_SMALL = 80_000
"""Pairs of row and leaf up to which the solver is asked for all rows at once."""
_MOST = 400_000
"""Most pairs of row and leaf, and literals of rows: the solver takes about 3 kB for each."""


@dataclass(frozen=True, eq=False)
class RowProgram:
    """Constraints on rows as an integer model; classes are as the constraints have them."""

    constraints: RowConstraints
    values: ValueIndex

    @cached_property
    def _encodings(self) -> tuple[Encoding, ...]:
        return encodings_of(self.values)

    @cached_property
    def _paths(self) -> list[list[int] | None]:
        return paths_of(self.constraints.geometry, self._encodings)

    @cached_property
    def small(self) -> bool:
        """Whether to ask for all rows at once, by the leaves that they may be in.

        Where it is known in which leaves they are not, walks are faster.
        """
        s, start = self.constraints, self.constraints.geometry.leaf_start
        if s.closed is not None:
            return False
        per_tree = np.add.reduceat(self._fits, start[:-1], axis=0)
        open_leaves = per_tree[np.arange(len(per_tree)), s.label[:, None], s.draws]
        return bool(open_leaves[s.draws > 0].sum() <= _SMALL)

    def solve(
        self,
        label: IntArray,
        visited: NDArray[np.int32],
        free: BoolArray,
        limit: float,
        clock: Clock,
        seed: int,
    ) -> tuple[NDArray[np.int32] | None, bool]:
        """Look for places of all rows that meet every count.

        Parameters
        ----------
        label : int array, shape (n_rows,)
        visited : int32 array, shape (n_visits, n_rows, n_trees)
            Leaves (rows of A) in which rows were seen: ...
        free : bool array, shape (n_rows,)
            ... these rows may be anywhere, all others only there.
        limit : float
            Deterministic work, about seconds.

        Returns
        -------
        places : int32 array, shape (n_rows, n_attributes + 1), or None
            Atoms of each row, and its class; None if none were found.
        none : bool
            Whether it is proved that there are none.
        """
        s = self.constraints
        open_leaves = self._open_leaves(label, visited, free)
        if open_leaves is None:
            return None, False
        model = Model()
        counted: list[list[tuple[int, Any]]] = [[] for _ in range(len(s.target))]
        distinct: list[list[Any]] = [[] for _ in range(s.geometry.leaf_start[-1])]
        rows = []
        for k, (c, leaves_by_tree, needed) in enumerate(
            zip(label.tolist(), *open_leaves, strict=True)
        ):
            clock.check()
            row = RowVariables.of(model, self.values, self._encodings, c, self._allowed(k), needed)
            rows.append(row)
            for t, leaves in leaves_by_tree.items():
                b, here = int(s.draws[k, t]), []
                for v in leaves:
                    stands = model.new_bool_var("")
                    here.append(stands)
                    if path := self._paths[v]:
                        model.add_bool_and(row.demanded(path)).only_enforce_if(stands)
                    counted[s.equation[v, c]].append((b, stands))
                    distinct[v].append(stands)
                model.add_exactly_one(here)
        for total, terms in zip(s.target.tolist(), counted, strict=True):
            if total or terms:
                literals, weights = [z for _, z in terms], [b for b, _ in terms]
                model.add(LinearExpr.weighted_sum(literals, weights) == total)
        if s.distinct is not None:
            for total, literals in zip(s.distinct.tolist(), distinct, strict=True):
                if total or literals:
                    model.add(LinearExpr.sum(literals) == total)
        ended = run(model, clock, seed, limit, linearization=0)
        if not ended.found:
            return None, ended.none
        return np.array([row.chosen(ended.solver) for row in rows], dtype=np.int32), False

    def _open_leaves(
        self, label: IntArray, visited: NDArray[np.int32], free: BoolArray
    ) -> tuple[list[dict[int, list[int]]], list[BoolArray]] | None:
        """Leaves (rows of A) in which each row may be, for each tree that drew it.

        With them, the literals that they need; None if these are too many for the solver.
        """
        s, fits, closed = self.constraints, self._fits, self.constraints.closed
        start, size = s.geometry.leaf_start.tolist(), 0
        out, needed = list[dict[int, list[int]]](), list[BoolArray]()
        for k, c in enumerate(label.tolist()):
            leaves_by_tree = {}
            for t in np.flatnonzero(s.draws[k]).tolist():
                where = range(start[t], start[t + 1])
                leaves_by_tree[t] = [
                    v
                    for v in (where if free[k] else np.unique(visited[:, k, t]).tolist())
                    if self._paths[v] is not None and fits[v, c, s.draws[k, t]]
                    and (closed is None or not closed[k, v])
                ]  # fmt: skip
            out.append(leaves_by_tree)
            needed.append(self._needed(leaves_by_tree))
            size += sum(map(len, leaves_by_tree.values())) + int(needed[-1].sum())
            if size > _MOST:
                return None
        return out, needed

    def _needed(self, leaves: dict[int, list[int]]) -> BoolArray:
        """Which literals of a row say whether it is in some leaves, or has what is known of it."""
        out = np.zeros(sum(encoding.n_literals for encoding in self._encodings), dtype=bool)
        paths = [self._paths[v] or [] for v in chain.from_iterable(leaves.values())]
        demands = np.array([*chain.from_iterable(paths)], dtype=np.int64)
        out[np.where(demands < 0, ~demands, demands)] = True
        for a in np.flatnonzero((self.constraints.held >= 0).any(axis=0)):
            encoding = self._encodings[a]
            out[encoding.first : encoding.first + encoding.n_literals] = True
        return out

    def _allowed(self, k: int) -> BoolArray | None:
        """Atoms that row k may take, where something is known of it."""
        s, first = self.constraints, self.values.atom_start
        known = np.flatnonzero(s.held[k] >= 0)
        if not len(known):
            return None
        allowed = np.ones(self.values.n_atoms, dtype=bool)
        for a in known:
            allowed[first[a] : first[a + 1]] = False
            allowed[first[a] + s.held[k, a]] = True
        return allowed

    @cached_property
    def _fits(self) -> BoolArray:
        """Whether a row of a class that was drawn b times may lie in a leaf, by (leaf, class, b).

        d different rows are drawn n times together: none of them more than n - d + 1 times, and a
        single one n times.
        """
        s = self.constraints
        b = np.arange(int(s.draws.max(initial=1)) + 1)
        counts = s.target[s.equation]
        fits = counts[:, :, None] >= b
        if s.distinct is not None:
            n, d = counts.sum(axis=1)[:, None], s.distinct[:, None]
            fits &= ~((b > n - d + 1) | ((d == 1) & (b != n)))[:, None, :]
        return np.asarray(fits)
