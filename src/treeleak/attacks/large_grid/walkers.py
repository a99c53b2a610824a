"""Rows that walk over a grid too large to list, until they meet the counts.

Each row is a vector of atoms; cells come into being as rows step into them. The same walk serves
exact counts, where every tree counts every row once and rows are exchangeable, and known draws,
where row k counts as often as each tree drew it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.walk_kernels import (
    Counts,
    LogPriorTables,
    Rows,
    WalkSettings,
    walk,
)
from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.compiled import copied
from treeleak.core.parallel import run_all
from treeleak.core.private import dataclass


@dataclass(frozen=True, eq=False)
class Walker:
    """One dataset on its walk. Made by :meth:`started`; :meth:`walked` gives the next one."""

    constraints: RowConstraints
    rows: Rows
    counts: Counts
    likes: LogPriorTables

    @classmethod
    def started(
        cls,
        constraints: RowConstraints,
        seed: int,
        begin: NDArray[np.int32] | None = None,
        fixed: BoolArray | None = None,
    ) -> Walker:
        """Start somewhere.

        ``begin``, shape (n_rows, n_attributes + 1): where to start, the class last; anywhere if not
        given. ``fixed``, shape (n_rows,): which of the rows stay there; the others start anywhere.
        """
        rng = np.random.default_rng(seed)
        radix = np.diff(constraints.masks.start)
        low, high = 0, radix
        if constraints.span is not None:
            low, high = constraints.span[0], constraints.span[1] + 1
        anywhere = rng.integers(low, high, size=(constraints.n_rows, len(radix)))
        anywhere = np.where(constraints.held < 0, anywhere, constraints.held)
        fresh = np.column_stack([anywhere, constraints.label]).astype(np.int32)
        begin = fresh if begin is None else begin
        open_rows = np.arange(constraints.n_rows, dtype=np.int32)
        if fixed is not None:
            begin = np.where(fixed[:, None], begin, fresh)
            open_rows = open_rows[~fixed]
        atoms, label = np.ascontiguousarray(begin[:, :-1]), begin[:, -1].copy()
        state = rng.integers(1, 2**63, size=1, dtype=np.uint64)
        leaves = constraints.masks.trace(atoms)
        counts = constraints.counted(leaves, label.astype(np.int64))
        misfit = constraints.missed(counts)
        open_label = open_rows[constraints.open_label[open_rows]]
        both = np.array([misfit, misfit])
        rows = Rows(atoms, label, open_rows, open_label, leaves, begin.copy(), both, state)
        return cls(constraints, rows, counts, constraints.flat)

    @property
    def misfit(self) -> int:
        """Least misfit so far."""
        return int(self.rows.misfit[1])

    @property
    def atoms(self) -> NDArray[np.int32]:
        """The rows as they are."""
        return self.rows.atoms  # type: ignore[no-any-return]

    @property
    def places(self) -> NDArray[np.int32]:
        """The rows as they are, the class last."""
        return np.column_stack([self.rows.atoms, self.rows.label])

    def forgetful(self) -> Walker:
        """Begin anew to look for the least misfit, with no multipliers and no preference."""
        rows = self.rows._replace(best=self.places, misfit=self.rows.misfit[[0, 0]])
        none = np.zeros_like(self.counts.multiplier)
        counts = self.counts._replace(multiplier=none)
        return replace(self, rows=rows, counts=counts, likes=self.constraints.flat)

    def walked(self, sweeps: int, settings: WalkSettings) -> tuple[Walker, int]:
        """Move on; say how many sweeps it took."""
        s, current = self.constraints, self.counts
        # Of what is counted, the rest does not change, and may be large.
        residual, multiplier = current.residual.copy(), current.multiplier.copy()
        counts = current._replace(residual=residual, multiplier=multiplier)
        out = replace(self, rows=copied(self.rows), counts=counts)
        return out, int(walk(sweeps, s.trees, counts, self.likes, out.rows, settings))


@dataclass(frozen=True, eq=False)
class WalkResult:
    """Rows that a walk ended with."""

    walkers: list[Walker]
    atoms: NDArray[np.int32]
    """Shape (n_rows, n_attributes)."""
    label: IntArray
    """Shape (n_rows,)."""
    misfit: int
    sweeps: int
    """Sweeps of each walker."""

    @classmethod
    def of(cls, walkers: list[Walker], best: Walker, sweeps: int) -> WalkResult:
        """Note the best rows so far of one of the walkers."""
        rows = best.rows.best
        atoms = np.ascontiguousarray(rows[:, :-1])
        return cls(walkers, atoms, rows[:, -1].astype(np.int64), best.misfit, sweeps)


def all_walked(walkers: list[Walker], sweeps: int, settings: WalkSettings) -> list[Walker]:
    """Move all walkers on together, so that no answer depends on which is faster."""
    return [w for w, _ in run_all([partial(w.walked, sweeps, settings) for w in walkers])]


def taught(walkers: list[Walker], likes: LogPriorTables) -> list[Walker]:
    """Let all walkers go on under what rows of each class are like."""
    return [replace(w, likes=likes._replace(line=w.rows.label)) for w in walkers]
