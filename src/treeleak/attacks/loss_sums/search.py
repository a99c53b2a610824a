"""Rows of cells from sums in leaves: fit, round, share out the classes, and look whether all fits.

Where nodes say sums that are exact to many digits, rows are found tree by tree. Else, or in vain,
first the sums that do not depend on classes: how many rows a leaf holds, and their second
derivatives. If whole numbers of rows meet them, and leave a whole number of rows of its tree's
class to each leaf, these are the rows; if not, all sums are fitted at once, with a column for each
class of a cell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.loss_sums.columns import Columns
from treeleak.attacks.loss_sums.integral import whole_near, whole_rows
from treeleak.attacks.loss_sums.labels import ClassConstraints, nearest_classes, the_only_classes
from treeleak.attacks.loss_sums.least_squares import Fit, fit
from treeleak.attacks.loss_sums.maxent_rows import maxent_rows
from treeleak.attacks.loss_sums.schedule import SCHEDULE
from treeleak.attacks.loss_sums.tree_by_tree import TreeByTree
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.errors import TimeUp
from treeleak.core.private import dataclass
from treeleak.evidence import LeafValueEvidence, LinearConstraints, LossSums
from treeleak.evidence.class_counts_from_gradients import (
    UNTOLD,
    class_counts_from_gradients,
    digits,
)
from treeleak.evidence.predictions import classes_of_trees
from treeleak.partition import Partition
from treeleak.release.statistics import VARIANCE, WEIGHTS

T = TypeVar("T")

NEAR = 0.45
"""How far from whole numbers a point may be that is worth rounding."""
MOST_SURE = 0.999
"""Probability of a row that meets all statements, and is not proved: of such answers on default
models, none had a row in a wrong cell."""


@dataclass(frozen=True, eq=False)
class ColumnSet:
    """Kinds of rows that a fit tells apart."""

    columns: Columns
    cell: IntArray
    """Shape (n_columns,). Cell of each kind."""
    by_class: bool = False
    """Whether there is one of each class of a cell: those of the first class, then the others."""


@dataclass(frozen=True, eq=False)
class CellFit:
    """Rows of cells, as far as they were found."""

    cells: IntArray
    """Shape (n_found,). Cells that hold rows."""
    constraints: ClassConstraints
    """What is known of their classes."""
    by_class: IntArray | None
    """Shape (n_found, n_classes). How many of a cell's rows are of each class; None where that is
    open."""
    missed: int
    """Statements that are not met."""
    column_set: ColumnSet
    """In which they were found."""
    rounds: int = 0
    whole: float = 1.0
    """Share of the rows whose numbers needed no rounding."""
    sure: float = MOST_SURE
    """How sure rows are at most that meet all statements."""

    def used(self, column_set: ColumnSet | None = None) -> tuple[IntArray, IntArray]:
        """Columns that hold rows, and how many; of other kinds than their own, if given."""
        if not (column_set or self.column_set).by_class or self.by_class is None:
            return self.cells, self.constraints.m
        n_classes = self.constraints.n_classes
        n = len(self.column_set.cell) // n_classes
        chosen = np.concatenate([self.cells + c * n for c in range(n_classes)])
        m = self.by_class.T.ravel()
        return chosen[m > 0], m[m > 0]

    def off(self, column_set: ColumnSet | None = None) -> float:
        """How far a sum is off, as the root of the mean square: some fits have more sums."""
        chosen, m = self.used(column_set)
        columns = (column_set or self.column_set).columns
        over = columns.take(chosen).T @ m.astype(float) - columns.right
        return float(np.sqrt(np.mean(over**2)))


@dataclass(frozen=True, eq=False)
class Search:
    """A search for the rows of cells."""

    evidence: LossSums | LeafValueEvidence
    partition: Partition
    clock: Clock
    seed: int

    @property
    def n_classes(self) -> int:
        """How many classes rows are of."""
        return self.partition.geometry.release.n_classes

    def found(self) -> CellFit:
        """Find the rows that meet all sums, or the best there was time for."""
        statements, best = self.evidence.statements(), None
        if self._rough:
            statements = tuple(s for s in statements if not s.by_label or s.quantity == WEIGHTS)
        if any(s.quantity == VARIANCE for s in statements):
            # Sums of inner nodes are exact to a dozen digits.
            best = self._tree_by_tree(statements)
            if best is not None and (not best.missed or self.clock.stopped):
                return best
        if best is None:
            return self._at_once(statements)
        part = replace(self, clock=self.clock.part(SCHEDULE.second_try_share * self.clock.left))
        other = _in_time(part.clock, lambda: part._at_once(statements))
        # How many sums are missed says less: the first trees may be met, and all others far off.
        best = best if other is None or best.off() < other.off() else other
        if not best.missed or self.clock.stopped:
            return best
        self.clock.report_progress("looking for likely rows", 0.7)
        guess = _in_time(self.clock, lambda: self._likely(statements, best.whole))
        return guess or best

    def _likely(self, statements: Sequence[LinearConstraints], least: float) -> CellFit | None:
        """Find the rows that sums make likely, if more than so many of them should be right."""
        # Squares of first derivatives say little more than these do, and take as long.
        column_set = self.by_class([s for s in statements if s.quantity != VARIANCE])
        size = np.bincount(self.partition.cell).astype(float)
        part = self.clock.part(SCHEDULE.all_sums_share * self.clock.left)
        found = maxent_rows(column_set.columns, size, self.evidence.n_rows, part)
        if found is None or found.share @ found.m <= least * self.evidence.n_rows:
            return None
        return self.classed(column_set, found.chosen, found.m)

    @property
    def _rough(self) -> bool:
        return isinstance(self.evidence, LossSums) and self.evidence.rough

    @property
    def _weighted(self) -> bool:
        return isinstance(self.evidence, LossSums) and self.evidence.weighted

    def by_steps(self, found: CellFit) -> CellFit:
        """Find other rows that meet all counts, where those found do not lead to all leaf values.

        For leaves that took many steps; sums at their end are hints only.
        """
        if not self._rough or self._weighted or not (missed := self._unexplained(found)):
            return found
        column_set, n = self.by_class(self.evidence.statements()), self.partition.n_cells
        best, tried = (missed, found), set[bytes]()

        def accept(chosen: IntArray, x: FloatArray) -> bool:
            nonlocal best
            m = np.rint(np.bincount(chosen % n, x, n)).astype(np.int64)
            cells = np.flatnonzero(m)
            if m.tobytes() in tried or not found.column_set.columns.met(cells, m[cells]):
                return False
            tried.add(m.tobytes())
            other = self.classed(found.column_set, cells, m[cells])
            if (left := self._unexplained(other)) < best[0] and not other.missed:
                best = left, other
            return best[0] == 0

        clock = self.clock.part(SCHEDULE.all_sums_share * self.clock.left)
        _in_time(clock, lambda: fit(column_set.columns, clock, accept))
        return best[1]

    def _unexplained(self, found: CellFit) -> int:
        """How many leaf values follow from no number of rows of a class."""
        assert isinstance(self.evidence, LossSums)  # noqa: S101 (else nothing is rough)
        leaf = self.partition.signature[found.cells]
        return int(
            (
                class_counts_from_gradients(self.evidence, leaf, found.constraints.m).number
                == UNTOLD
            ).sum()
        )

    def _at_once(self, statements: Sequence[LinearConstraints]) -> CellFit:
        """Find rows by least squares over the sums of all trees."""
        if self._weighted:
            return self._fitted(self.by_class(statements), self.clock, last=True)[0]
        n, leaf = self.partition.n_cells, self.partition.signature
        class_free = [s for s in statements if not s.by_label]
        geometry, every = self.partition.geometry, np.arange(n)
        first = ColumnSet(
            Columns.of(geometry, class_free, leaf, np.zeros(n, dtype=np.int64)), every
        )
        last = len(class_free) == len(statements)
        part = self.clock if last else self.clock.part(SCHEDULE.class_free_share * self.clock.left)
        best, ended = self._fitted(first, part, last=last)
        # Where leaves leave classes open, sums over inner nodes may tell them.
        has_variances = best.by_class is None and any(s.quantity == VARIANCE for s in statements)
        if last or self.clock.stopped or not (best.missed or has_variances):
            return best
        clock = self.clock.part(SCHEDULE.all_sums_share * self.clock.left)
        if best.missed and best.by_class is None:
            rows = best
            best = replace(
                rows, by_class=_in_time(clock, lambda: self._shared_out(rows, statements))
            )
        used, k = ended.x > 0, self.n_classes
        cells, x = ended.chosen[used], ended.x[used]
        start = np.concatenate([cells + c * n for c in range(k)]), np.tile(x / k, k)
        second = _in_time(
            clock, lambda: self._fitted(self.by_class(statements), clock, start, last=True)
        )
        if second is None:
            return best
        found, _ = second
        # It has more sums to miss: both are held against those of the first fit.
        if found.missed and not (best.missed and found.off(first) < best.off(first)):
            return best
        # If these are the rows, last digits of sums may say which classes are theirs.
        anew = self.classed(first, found.cells, found.constraints.m)
        return found if anew.missed or anew.by_class is None else anew

    def _shared_out(self, found: CellFit, statements: Sequence[LinearConstraints]) -> IntArray:
        """Share out classes of rows that miss sums."""
        label = np.repeat(np.arange(self.n_classes), len(found.cells))
        leaf = np.tile(found.constraints.leaf, (self.n_classes, 1))
        return nearest_classes(
            Columns.of(self.partition.geometry, statements, leaf, label), found.constraints.m
        )

    def _tree_by_tree(self, statements: Sequence[LinearConstraints]) -> CellFit | None:
        """Find rows tree by tree, as far as there is time; None if there is none for a start."""
        column_set, clock = (
            self.by_class(statements),
            self.clock.part(SCHEDULE.tree_by_tree_share * self.clock.left),
        )
        start = self.partition.geometry.leaf_start
        steps = TreeByTree(column_set.columns, self.n_classes, start, clock)
        if (found := _in_time(clock, steps.found)) is not None:
            return self.classed(column_set, *found)
        if steps.guess is None:
            return None
        return self._rounded(column_set, steps.guess.chosen, steps.guess.x, steps.guess.n_equal)

    def by_class(self, statements: Sequence[LinearConstraints]) -> ColumnSet:
        """Tell the classes of a cell apart."""
        k, n, leaf = self.n_classes, self.partition.n_cells, self.partition.signature
        label = np.repeat(np.arange(k), n)
        columns = Columns.of(self.partition.geometry, statements, np.tile(leaf, (k, 1)), label)
        return ColumnSet(columns, np.tile(np.arange(n), k), by_class=True)

    def _fitted(
        self,
        column_set: ColumnSet,
        clock: Clock,
        start: tuple[IntArray, FloatArray] | None = None,
        *,
        last: bool,
    ) -> tuple[CellFit, Fit]:
        columns, size = column_set.columns, float(np.abs(column_set.columns.right).sum())
        got: list[CellFit] = []

        def report(residual: FloatArray) -> None:
            off = float(np.abs(residual).sum())
            clock.report_progress("fitting the sums of leaves", 0.7 * (1.0 - min(off / size, 1.0)))

        def accept(chosen: IntArray, x: NDArray[Any]) -> bool:
            m = np.rint(x).astype(np.int64)
            if np.abs(x - m).max(initial=0.0) > NEAR or not columns.met(chosen, m):
                return False
            found = self.classed(column_set, chosen, m)
            if found.missed:
                return False
            got.append(found)
            return True

        ended = fit(columns, clock, accept, report, start=start)
        if not got and last:
            clock.report_progress("looking for whole numbers of rows", 0.7)
            budget, n = (clock, self.seed), self.evidence.n_rows
            whole = whole_rows(columns, n, *budget)
            whole = whole or whole_near(columns, ended.chosen, ended.x, n, *budget)
            if whole is not None:
                accept(*whole)
        found = got[0] if got else self._rounded(column_set, ended.chosen, ended.x)
        return replace(found, rounds=ended.rounds), ended

    def _rounded(
        self,
        column_set: ColumnSet,
        chosen: IntArray,
        x: FloatArray,
        n_equal: IntArray | None = None,
    ) -> CellFit:
        """Round what was not accepted, so that there are as many rows as there should be.

        ``n_equal``: how many columns each stands for.
        """
        n = self.evidence.n_rows
        if not x.sum() > 0:
            # There was no time for more: all rows are of the kind that explains most.
            columns = column_set.columns
            best = int((columns.worth(columns.right) / columns.length).argmax())
            chosen, x, n_equal = np.array([best]), np.array([float(n)]), None
        share = x * (n / x.sum())
        m = np.floor(share).astype(np.int64)
        m[np.argsort(m - share, kind="stable")[: n - int(m.sum())]] += 1
        off = np.abs(x - m) * (1 if n_equal is None else n_equal)
        whole = float(m[off < SCHEDULE.columns_off].sum()) / n
        return replace(self.classed(column_set, chosen, m), whole=whole)

    def classed(self, column_set: ColumnSet, chosen: IntArray, m: IntArray) -> CellFit:
        """Share out the classes, and count what is not met."""
        held: BoolArray = m > 0
        chosen, m = chosen[held], m[held]
        cells, at = np.unique(column_set.cell[chosen], return_inverse=True)
        rows = np.bincount(at, m, len(cells)).astype(np.int64)
        missed = column_set.columns.missed(chosen, m)
        leaf, k = self.partition.signature[cells], self.n_classes
        class_of_tree = classes_of_trees(self.partition.geometry.release)
        if column_set.by_class:
            label = chosen // self.partition.n_cells
            each = np.bincount(at * k + label, m, len(cells) * k).reshape(-1, k)
            n_leaves = int(self.partition.geometry.leaf_start[-1])
            number = np.bincount(leaf.ravel(), each[:, class_of_tree].ravel(), n_leaves)
            constraints = ClassConstraints(leaf, rows, number.astype(np.int64), class_of_tree, k)
            return CellFit(cells, constraints, each.astype(np.int64), missed, column_set)
        assert isinstance(self.evidence, LossSums)  # noqa: S101 (else classes are told apart)
        counted = class_counts_from_gradients(self.evidence, leaf, rows)
        constraints = ClassConstraints(leaf, rows, counted.number, class_of_tree, k)
        missed += int(not counted.whole)
        by_class = the_only_classes(constraints)
        if by_class is None and counted.whole:
            by_class = the_only_classes(
                constraints, digits(self.evidence, leaf, rows, counted.number)
            )
        if by_class is not None and not self._rough:  # hints may be wrong
            missed += self._missed(leaf, by_class)
        return CellFit(cells, constraints, by_class, missed, column_set)

    def _missed(self, leaf: NDArray[np.int32], by_class: IntArray) -> int:
        """How many statements that depend on classes these rows miss."""
        cell, label = np.nonzero(by_class)
        rows, times = leaf[cell].astype(np.int64), by_class[cell, label]
        by_label = [family for family in self.evidence.statements() if family.by_label]
        met = [family.met(rows, label.astype(np.int64), times) for family in by_label]
        return sum(int((~each).sum()) for each in met)


def _in_time(clock: Clock, step: Callable[[], T]) -> T | None:
    """Do a step that there is another answer without; None if time ends in its midst."""
    try:
        with clock.enforced(SCHEDULE.step_late):
            return step()
    except TimeUp:
        return None
