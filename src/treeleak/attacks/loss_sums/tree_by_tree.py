"""Rows tree by tree, where sums are exact to many digits.

Rows that no tree so far tells apart are a group. A tree splits groups, and its sums say how; the
sums of later trees say so too, since what they predicted before follows from how groups were split.
So a few trees at a time are looked at: columns are the parts of groups that hold rows, few of all
cells. How many rows each part has is the middle of what the sums allow. The first trees in which
all of it is whole, and meets all sums, are settled: their parts are the next groups. If no tree is,
more trees ahead are looked at.

The middle of all x >= 0 with A x = b, by an interior-point method.

Where more than one x will do, least squares and linear programs end at one or other of them. The
middle shows which numbers all of them agree on, as far as it is far from zero elsewhere: the method
of Mehrotra (1992) for a linear program without an objective ends near the analytic centre.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array, vstack

from treeleak.attacks.loss_sums.columns import ROUNDED, Columns
from treeleak.attacks.loss_sums.integral import whole_numbers
from treeleak.attacks.loss_sums.schedule import SCHEDULE
from treeleak.attacks.loss_sums.tolerances import TOLERANCES
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.private import dataclass


@dataclass(frozen=True, eq=False)
class SolvedTrees:
    """Groups of cells with as many rows of each class as the first trees leave no doubt of."""

    n_trees: int
    cell: IntArray
    """Shape (n_live,). Cells of groups that hold rows."""
    group: IntArray
    """Shape (n_live,). Group of each."""
    rows: IntArray
    """Shape (n_groups, n_classes). -1 while they are not known."""


@dataclass(frozen=True, eq=False)
class _Ahead:
    """Groups as some trees more split them, for each number of trees."""

    part: list[IntArray]
    """Shape (n_live,) each. Part of each cell."""
    first: list[IntArray]
    """Shape (n_parts,) each. One of the cells (of those that are live) of each part."""


@dataclass(frozen=True, eq=False)
class Guess:
    """How many rows columns have, and how many columns no tree looked at tells apart from each."""

    chosen: IntArray
    x: FloatArray
    n_equal: IntArray


class TreeByTree:
    """A search for rows, tree by tree, in columns of all classes of all cells."""

    guess: Guess | None = None
    """The last that was looked at, whole or not."""

    def __init__(self, columns: Columns, n_classes: int, leaf_start: IntArray, clock: Clock):
        self.columns, self.n_classes, self.clock = columns, n_classes, clock
        self.n_cells = len(columns) // n_classes
        self.leaf = columns.leaf[: self.n_cells]
        self.tree = self._tree_of_statements(leaf_start)

    def found(self) -> tuple[IntArray, IntArray] | None:
        """Find columns, and how many rows they have; None if some trees stay open."""
        n, n_trees = self.n_cells, self.leaf.shape[1]
        unknown = np.full((1, self.n_classes), -1)
        now, most = (
            SolvedTrees(0, np.arange(n), np.zeros(n, dtype=np.int64), unknown),
            SCHEDULE.first_columns,
        )
        while now.n_trees < n_trees:
            self.clock.report_progress(
                "fitting the sums of leaves, tree by tree", 0.7 * now.n_trees / n_trees
            )
            ahead = self._ahead(now, most)
            end = now.n_trees + len(ahead.part) == n_trees
            last = end or 2 * most > SCHEDULE.most_columns
            solved = self._solved(now, ahead, SCHEDULE.corners if end else 1)
            if self.clock.stopped or (solved is None and last):
                return None
            most = 2 * most if solved is None else max(SCHEDULE.first_columns, most // 2)
            now = solved or now
        _, first = np.unique(now.group, return_index=True)
        group, label = np.nonzero(now.rows)
        return label * n + now.cell[first[group]], now.rows[group, label]

    def _tree_of_statements(self, leaf_start: IntArray) -> IntArray:
        """Tree of each statement."""
        of_leaf = np.repeat(np.arange(len(leaf_start) - 1), np.diff(leaf_start))
        out = np.full(len(self.columns.right), -1)
        for begin, family in zip(self.columns.begin, self.columns.families, strict=False):
            place = np.arange(len(of_leaf)) if family.place is None else family.place
            out[begin + place[place >= 0]] = of_leaf[place >= 0]
        return out

    def _ahead(self, now: SolvedTrees, most: int) -> _Ahead:
        """Split groups by the trees ahead: one at least, more up to so many columns."""
        held = (now.rows != 0).sum(axis=1)
        part, ahead = now.group, _Ahead([], [])
        for t in range(now.n_trees, self.leaf.shape[1]):
            key = part * (int(self.leaf[:, t].max()) + 1) + self.leaf[now.cell, t]
            _, first, part = np.unique(key, return_index=True, return_inverse=True)
            if ahead.part and held[now.group[first]].sum() > most:
                break
            if len(ahead.part) * SCHEDULE.columns_per_tree > most:
                break
            ahead.part.append(part.ravel())
            ahead.first.append(first)
        return ahead

    def _solved(self, now: SolvedTrees, ahead: _Ahead, n_most: int) -> SolvedTrees | None:
        """Find how many rows parts have; None if not even the next tree is settled."""
        first = ahead.first[-1]
        part, label = np.nonzero(now.rows[now.group[first]])
        if len(part) > SCHEDULE.most_columns:
            return None
        group, cell = now.group[first[part]], now.cell[first[part]]
        chosen, n_equal = label * self.n_cells + cell, np.bincount(ahead.part[-1])[part]
        for k, x in enumerate(self._points(now, group, label, cell, len(ahead.part), n_most)):
            if k == 0:
                self.guess = Guess(chosen, x, n_equal)
            if (solved := self._whole(now, ahead, first[part], label, x)) is not None:
                return solved
        if n_most == 1 or not now.n_trees:
            return None
        # No more trees can tell.
        m = self._in_whole_numbers(now, group, label, cell, len(ahead.part))
        return None if m is None else self._whole(now, ahead, first[part], label, m.astype(float))

    def _in_whole_numbers(
        self, now: SolvedTrees, group: IntArray, label: IntArray, cell: IntArray, more: int
    ) -> IntArray | None:
        """Ask the integer solver for numbers of rows that so many more trees allow."""
        A, b, slack = self._equations(label * self.n_cells + cell, now.n_trees, more)
        pairs, at = np.unique(group * self.n_classes + label, return_inverse=True)
        held, at = now.rows.ravel()[pairs], at.ravel()
        # All parts of a group come to what is known of it.
        every = vstack([A, csr_array((np.ones(len(at)), (at, np.arange(len(at)))))], format="csr")
        right, off = np.append(b, held.astype(float)), np.append(slack, np.zeros(len(held)))
        return whole_numbers(every, right, off, held[at], int(now.rows.sum()), self.clock)

    def _whole(
        self, now: SolvedTrees, ahead: _Ahead, at_cell: IntArray, label: IntArray, x: FloatArray
    ) -> SolvedTrees | None:
        """Settle as many trees as leave whole numbers that meet their sums."""
        for more in range(len(ahead.part), 0, -1):
            pair = ahead.part[more - 1][at_cell] * self.n_classes + label
            used, at = np.unique(pair, return_inverse=True)
            real = np.bincount(at.ravel(), x)
            m = np.rint(real).astype(np.int64)
            if np.abs(real - m).max() > SCHEDULE.try_off:
                continue
            parts, labels = np.divmod(used, self.n_classes)
            one = now.cell[ahead.first[more - 1][parts]]
            A, b, slack = self._equations(labels * self.n_cells + one, now.n_trees, more)
            if bool((np.abs(A @ m - b) <= slack).all()):
                rows = np.zeros((len(ahead.first[more - 1]), self.n_classes), dtype=np.int64)
                rows[parts, labels] = m
                return _live(now.n_trees + more, now.cell, ahead.part[more - 1], rows)
        return None

    def _points(
        self,
        now: SolvedTrees,
        group: IntArray,
        label: IntArray,
        cell: IntArray,
        more: int,
        n_most: int,
    ) -> Iterator[FloatArray]:
        """Give numbers of rows that sums of so many more trees allow: the middle first."""
        A, b, _ = self._equations(label * self.n_cells + cell, now.n_trees, more)
        dense = A.toarray()
        if now.n_trees == 0:
            yield from midpoints(
                *orthonormal(dense, b, TOLERANCES.cut_singular),
                np.ones(len(label)),
                self.clock,
                n_most,
            )
            return
        whole, at, parts = np.unique(
            group * self.n_classes + label, return_inverse=True, return_counts=True
        )
        mean = np.asarray((now.rows.ravel()[whole] / parts)[at.ravel()])
        split = parts[at.ravel()] > 1
        if not split.any():
            yield mean
            return
        # What all parts of a group come to is known: the rest of each sum says how they share it.
        b = b - dense @ mean
        dense, at = dense[:, split], np.unique(at.ravel()[split], return_inverse=True)[1].ravel()
        each = np.zeros((int(at.max()) + 1, len(at)))
        each[at, np.arange(len(at))] = 1.0 / np.sqrt(np.bincount(at))[at]
        dense -= (dense @ each.T) @ each
        informative = np.abs(dense).max(axis=1, initial=0.0) > TOLERANCES.telling_part
        apart, right = orthonormal(dense[informative], b[informative], TOLERANCES.cut_singular)
        every, right = np.vstack([each, apart]), np.append(each @ mean[split], right)
        for x in midpoints(every, right, mean[split] + 0.1, self.clock, n_most):
            out = mean.copy()
            out[split] = x
            yield out

    def _equations(
        self, columns: IntArray, n_trees: int, more: int
    ) -> tuple[csr_array, FloatArray, FloatArray]:
        """Write statements of some trees: left sides, right ones, and how near these are."""
        statements = np.flatnonzero((self.tree >= n_trees) & (self.tree < n_trees + more))
        A = csr_array(self.columns.take(columns).T)[statements]
        return A, self.columns.right[statements], self.columns.slack[statements] + ROUNDED


def _live(n_trees: int, cell: IntArray, part: IntArray, rows: IntArray) -> SolvedTrees:
    """Make parts the groups, without those that hold no rows."""
    some = rows.sum(axis=1) > 0
    live = some[part]
    number = np.cumsum(some) - 1
    return SolvedTrees(n_trees, cell[live], number[part[live]], rows[some])


def orthonormal(A: FloatArray, b: FloatArray, cut: float) -> tuple[FloatArray, FloatArray]:
    """Write equations A x = b with orthonormal rows; without what rounding blurs.

    ``cut``: least share of the greatest singular value that counts.
    """
    U, size, rows = np.linalg.svd(A, full_matrices=False)
    independent = size > cut * size.max(initial=0.0)
    return rows[independent], (U[:, independent].T @ b) / size[independent]


def midpoints(
    A: FloatArray, b: FloatArray, start: FloatArray, clock: Clock, n_most: int
) -> Iterator[FloatArray]:
    """Give the middle; then the middles where one number after the other is made whole.

    Rows of A are orthonormal, ``start`` is above 0, ``n_most``: points that are looked for at most.
    The number that is least whole is rounded, the nearer way first, the other way if that does not
    end well.
    """
    fixed: list[dict[int, float]] = [{}]
    for _ in range(n_most):
        if not fixed or clock.stopped:
            return
        now = fixed.pop()
        x = start.copy()
        x[list(now)] = list(now.values())
        free = np.setdiff1d(np.arange(len(x)), list(now))
        rest = b - A @ np.where(np.isin(np.arange(len(x)), free), 0.0, x)
        x[free] = middle(A[:, free], rest, start[free], clock)
        if now and np.abs(A @ x - b).max() > TOLERANCES.missed_equation:
            continue  # There is nothing in this corner.
        yield x
        off = np.abs(x - np.rint(x))
        worst = int(off.argmax())
        if off[worst] > TOLERANCES.whole_row_off:
            near = np.rint(x[worst])
            other = near + (1 if x[worst] > near else -1)
            fixed += [now | {worst: other}, now | {worst: near}]


def middle(A: FloatArray, b: FloatArray, start: FloatArray, clock: Clock) -> FloatArray:
    """Find the middle: rows of A are nearly orthonormal, ``start`` is above 0."""
    x, price = start.copy(), start.mean() / np.maximum(start, 1e-3 * start.mean())
    y = np.zeros(len(b))
    for _ in range(SCHEDULE.interior_rounds):
        gap = float(x @ price) / len(x)
        missed, unpriced = b - A @ x - TOLERANCES.softness * y, -(A.T @ y + price)
        done = (
            gap < TOLERANCES.met_product
            and np.abs(missed).max(initial=0.0) < TOLERANCES.equation_off
        )
        if done or gap < TOLERANCES.missed_product or clock.stopped:
            break
        wide = A * np.sqrt(x / price)
        gram = wide @ wide.T
        gram[np.diag_indices(len(b))] += (
            TOLERANCES.softness + TOLERANCES.added_diagonal * gram.diagonal().max(initial=0.0)
        )
        factor = cho_factor(gram, overwrite_a=True, check_finite=False)

        def step(
            aim: FloatArray,
            x: FloatArray = x,
            price: FloatArray = price,
            missed: FloatArray = missed,
            unpriced: FloatArray = unpriced,
            factor: tuple[FloatArray, bool] = factor,
        ) -> tuple[FloatArray, FloatArray, FloatArray]:
            """Newton's step towards products ``aim`` of x and prices."""
            dy = cho_solve(factor, missed - A @ ((aim - x * unpriced) / price))
            dprice = unpriced - A.T @ dy
            return (aim - x * dprice) / price, dy, dprice

        dx, dy, dprice = step(-x * price)
        ahead = (x + _most(x, dx) * dx) @ (price + _most(price, dprice) * dprice) / len(x)
        keep = min(max((float(ahead) / gap) ** 3, 1e-3), 0.9)
        dx, dy, dprice = step(keep * gap - x * price - dx * dprice)
        far, far_price = (
            TOLERANCES.step_inside * _most(x, dx),
            TOLERANCES.step_inside * _most(price, dprice),
        )
        x, y, price = x + far * dx, y + far_price * dy, price + far_price * dprice
    return x


def _most(x: FloatArray, dx: FloatArray) -> float:
    """How far x may go in a direction, and stay above 0: 1 at most."""
    down = dx < 0
    return min(1.0, float((-x[down] / dx[down]).min(initial=np.inf)))
