"""Rows told apart by their draws: which (cell, class) pairs each of them may be.

A row's candidates are the pairs whose leaf in every tree counts at least as many draws of the
class as the tree drew of the row. They are listed from the evidence alone, so that nothing true
is ever missing, and then narrowed by bounds on every equation.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.known_draws import row_kernels as kernels
from treeleak.attacks.known_draws.out_of_bag import RowSums
from treeleak.core.arrays import BoolArray, FloatArray, IntArray, bits_set
from treeleak.core.clock import Clock
from treeleak.core.decisions import rounded
from treeleak.core.errors import NotCovered
from treeleak.core.message import static_message
from treeleak.core.parallel import THREADS, Pool, run_all
from treeleak.core.private import dataclass
from treeleak.evidence import KnownDraws, Pairs
from treeleak.partition import GridTooLarge, Partition

MAX_CANDIDATES = 50_000_000
"""Most (row, candidate) pairs that are held: 2 to 3 GB."""
MAX_TABLE = 2**27
"""Most entries of the table of scores, one for each number of draws and equation: 1 GiB."""


class Unmet(Exception):
    """No rows meet the counts.

    ``equation`` is where that shows, -1 if nowhere in particular; ``whole``: in all classes of its
    leaf together.
    """

    def __init__(self, equation: int = -1, whole: bool = False) -> None:
        super().__init__(equation)
        self.equation, self.whole = equation, whole


@dataclass(frozen=True, eq=False)
class RowProblem:
    """Choose a candidate for every open row so that the counts left over are met."""

    evidence: KnownDraws
    fixed_pair: IntArray
    """Shape (n_rows,). Pair of each row that has one candidate; -1 for the others."""
    rows: IntArray
    """Shape (n_open,). The open rows."""
    start: IntArray
    """Shape (n_open + 1,). Candidates of open row i are ``column[start[i]:start[i + 1]]``."""
    column: NDArray[np.int32]
    """Shape (n_candidates,)."""
    pair: IntArray
    """Shape (n_columns,). Pair of each column; only candidates of some row are columns."""
    equation: NDArray[np.int32]
    """Shape (n_trees, n_columns). leaf * n_classes + class of each column in every tree."""
    first: IntArray
    """Shape (n_trees + 1,). First equation of each tree, and the end."""
    draws: NDArray[np.unsignedinteger[Any]]
    """Shape (n_trees, n_open)."""
    n: IntArray
    """Shape (n_leaves * n_classes,). Draws that the settled rows leave over."""
    d: IntArray
    """Shape (n_leaves,) or (0,). Distinct rows that the settled rows leave over; empty if not
    used."""

    @classmethod
    def of(
        cls,
        evidence: KnownDraws,
        partition: Partition,
        pairs: Pairs,
        group: IntArray | None = None,
    ) -> RowProblem:
        """List the candidates of every row that some tree drew; ``group`` as for the row sets.

        Raises Unmet if a row has none. Raises NotCovered if there are too many.
        """
        if (int(evidence.draws.max(initial=0)) + 1) * evidence.n.size > MAX_TABLE:
            raise NotCovered(f"a tree drew one row {int(evidence.draws.max()):,} times")
        sets = evidence.row_sets(group)
        leaf = partition.signature[pairs.cell]
        n_rows, n_classes = evidence.n_rows, evidence.n.shape[1]
        if sets.sets.shape[1] * len(leaf) > MAX_CANDIDATES:
            raise _too_many(f"{n_rows:,} rows in {len(leaf):,} places")
        bits = sets.sets[sets.set_of[leaf[:, 0], pairs.label_of]]
        for t in range(1, leaf.shape[1]):
            bits &= sets.sets[sets.set_of[leaf[:, t], pairs.label_of]]
        if (total := int(bits_set(bits).sum())) > MAX_CANDIDATES:
            raise _too_many(f"{total:,} candidates for {n_rows:,} rows")
        start, column = _listed(bits, n_rows)
        rows = np.flatnonzero(evidence.drawn)
        drawn, *distinct = evidence.statements()
        if (np.diff(start)[rows] == 0).any():
            raise Unmet
        problem = cls(
            evidence=evidence,
            fixed_pair=np.full(n_rows, -1, dtype=np.int64),
            rows=rows,
            start=np.append(start[rows], start[-1]),
            column=column,
            pair=np.arange(len(leaf)),
            equation=_equations(leaf[:, : len(evidence.draws)], pairs.label_of, n_classes),
            first=_first(evidence),
            draws=evidence.draws[:, rows],
            n=drawn.right.ravel(),
            d=distinct[0].right if distinct else np.zeros(0, dtype=np.int64),
        )
        alive = np.ones(len(column), dtype=bool)
        if (sums := RowSums.of(evidence)) is not None:
            alive = sums.met(rows[problem.owner], column, leaf)
        return problem.only(alive)

    @classmethod
    def of_lists(
        cls, evidence: KnownDraws, row: IntArray, leaf: NDArray[np.int32], label: IntArray
    ) -> RowProblem:
        """Take candidates that are listed, one after the other: their row, leaves and class.

        Raises Unmet if a row that some tree drew has none.
        """
        rows = np.flatnonzero(evidence.drawn)
        start = np.searchsorted(row, np.append(rows, evidence.n_rows))
        if (np.diff(start) == 0).any():
            raise Unmet
        problem = cls(
            evidence=evidence,
            fixed_pair=np.full(evidence.n_rows, -1, dtype=np.int64),
            rows=rows,
            start=start,
            column=np.arange(len(row), dtype=np.int32),
            pair=np.arange(len(row)),
            equation=_equations(leaf[:, : len(evidence.draws)], label, evidence.n.shape[1]),
            first=_first(evidence),
            draws=evidence.draws[:, rows],
            n=evidence.n.ravel(),
            d=np.zeros(0, dtype=np.int64) if evidence.d is None else evidence.d,
        )
        return problem.only(np.ones(len(row), dtype=bool))

    @property
    def n_open(self) -> int:
        """Rows with more than one candidate."""
        return len(self.rows)

    @property
    def n_classes(self) -> int:
        """C."""
        return self.evidence.n.shape[1]  # type: ignore[no-any-return]

    @cached_property
    def candidates(self) -> kernels.Candidates:
        """The open rows and their candidates, for kernels."""
        return kernels.Candidates(
            self.start, self.column, self.equation, self.first, self.draws, self.n_classes
        )

    @cached_property
    def owner(self) -> IntArray:
        """Open row of each candidate."""
        return np.repeat(np.arange(self.n_open), np.diff(self.start))

    def only(self, alive: BoolArray) -> RowProblem:
        """Keep some candidates, settle rows that have one left, and drop unused columns.

        Raises Unmet if a row has none left.
        """
        left = np.bincount(self.owner[alive], minlength=self.n_open)
        if (left == 0).any():
            raise Unmet
        one = left == 1
        last = self.column[alive & one[self.owner]]
        found, found_d = self._counts(last, self.draws[:, one])
        decided = self.fixed_pair.copy()
        decided[self.rows[one]] = self.pair[last]
        keep = alive & ~one[self.owner]
        used = np.zeros(len(self.pair), dtype=bool)
        used[self.column[keep]] = True
        number = np.cumsum(used, dtype=np.int32) - 1
        return replace(
            self,
            fixed_pair=decided,
            rows=self.rows[~one],
            start=np.append(0, np.cumsum(left[~one])),
            column=number[self.column[keep]].astype(np.int32),
            pair=self.pair[used],
            equation=np.ascontiguousarray(self.equation[:, used]),
            draws=np.ascontiguousarray(self.draws[:, ~one]),
            n=self.n - found,
            d=self.d - found_d if len(self.d) else self.d,
        )

    def open_leaves(self) -> tuple[RowProblem, IntArray]:
        """Number anew the leaves in which some candidate stands, and leave the others out.

        Returns the problem, and the leaves in their old numbers.
        """
        c = self.n_classes
        used = np.zeros(len(self.n) // c, dtype=bool)
        used[self.equation // c] = True
        number = np.append(0, np.cumsum(used))
        anew = np.repeat((number[:-1] - np.arange(len(used))) * c, c).astype(np.int32)
        problem = replace(
            self,
            equation=self.equation + anew[self.equation],
            first=number[self.first // c] * c,
            n=self.n[np.repeat(used, c)],
            d=self.d[used] if len(self.d) else self.d,
        )
        return problem, np.flatnonzero(used)

    def narrowed(self, clock: Clock) -> RowProblem:
        """Narrow by bounds on the equations until nothing changes or the time is up.

        Raises Unmet, with the equation that cannot be met.
        """
        problem = self
        n_trees = len(self.draws)
        with Pool() as pool:
            while problem.n_open and not clock.stopped:
                alive = np.ones(len(problem.column), dtype=bool)
                arrays = problem.candidates, alive, problem.n, problem.d
                jobs = [
                    partial(kernels.narrow, np.arange(i, n_trees, THREADS), *arrays)
                    for i in range(THREADS)
                ]
                if broken := [e for e in run_all(jobs, pool=pool) if e >= 0]:
                    raise Unmet(min(broken))
                if alive.all():
                    break
                problem = problem.only(alive)
        if not problem.n_open and (problem.n.any() or problem.d.any()):
            raise Unmet(int(np.flatnonzero(problem.n)[0]) if problem.n.any() else -1)
        return problem

    def misfit(self, choice: NDArray[np.integer[Any]]) -> int:
        """Sum over all equations of |n - counts|, with open row i in column ``choice[i]``."""
        off, off_d = self._left(choice)
        return int(np.abs(off).sum()) + int(np.abs(off_d).sum())

    def suspicion(self, choice: NDArray[np.integer[Any]]) -> FloatArray:
        """Share of each open row's trees whose counts ``choice`` misses where it puts the row."""
        off, off_d = self._left(choice)
        missed = off != 0
        if len(off_d):
            missed |= np.repeat(off_d != 0, self.n_classes)
        drawn = self.draws > 0
        off_here = (missed[self.equation[:, choice]] & drawn).sum(axis=0)
        return np.asarray(off_here / np.maximum(drawn.sum(axis=0), 1))

    def descended(self, choice: NDArray[np.integer[Any]], clock: Clock) -> IntArray:
        """Move single rows to where more counts are met, until no such move is left."""
        off, off_d = self._left(choice)
        out = choice.astype(np.int64)
        moved = True
        while moved and not clock.stopped:
            moved = kernels.descend(self.candidates, off, off_d, out)
        return out

    def complete(self, choice: NDArray[np.integer[Any]]) -> IntArray:
        """Pair of every row, -1 for those that no tree drew."""
        out = self.fixed_pair.copy()
        out[self.rows] = self.pair[choice]
        return out

    def columns_of(self, pair: IntArray) -> IntArray:
        """Column of each open row, given the pair of every row."""
        return np.searchsorted(self.pair, pair[self.rows])

    def carried(self, parent: RowProblem, x: FloatArray) -> FloatArray:
        """Take over numbers per candidate from a problem with more candidates."""
        scale = int(parent.pair[-1]) + 1 if len(parent.pair) else 1
        theirs = parent.rows[parent.owner] * scale + parent.pair[parent.column]
        return x[np.searchsorted(theirs, self.rows[self.owner] * scale + self.pair[self.column])]

    def log_prior(self, u: FloatArray, pseudo_count: float | FloatArray) -> FloatArray:
        """Logarithm of how many rows are in each candidate's pair, u taken for the open ones.

        ``pseudo_count``: how many are expected there beside, in any pair or in each.
        """
        sure = self.fixed_pair[self.fixed_pair >= 0]
        size = max(
            int(max(self.pair.max(initial=0), sure.max(initial=0))) + 1, np.size(pseudo_count)
        )
        held = np.bincount(sure, minlength=size).astype(float)
        held += np.bincount(self.pair[self.column], u, minlength=size)
        return np.log(held + pseudo_count)[self.pair][self.column]

    def likeliest(self, choice: NDArray[np.integer[Any]], expected: FloatArray) -> IntArray:
        """Move each open row to the likeliest of its candidates that leave every count as it is.

        ``choice``: shape (n_open,). ``expected``, shape (n_columns,): how likely each column is,
        for any row.
        """
        out = choice.astype(np.int64)
        for i, chosen in enumerate(out):
            columns = self.column[self.start[i] : self.start[i + 1]]
            counted = self.equation[self.draws[:, i] > 0]
            same = columns[(counted[:, columns] == counted[:, [chosen]]).all(axis=0)]
            out[i] = same[rounded(expected[same]).argmax()]
        return out

    def _left(self, choice: NDArray[np.integer[Any]]) -> tuple[IntArray, IntArray]:
        found, found_d = self._counts(choice, self.draws)
        return self.n - found, self.d - found_d if len(self.d) else self.d

    def _counts(
        self, choice: NDArray[np.integer[Any]], draws: NDArray[np.unsignedinteger[Any]]
    ) -> tuple[IntArray, IntArray]:
        at, size = self.equation[:, choice].ravel(), len(self.n)
        found = np.bincount(at, draws.ravel(), size).astype(np.int64)
        rows = np.bincount(at, draws.ravel() > 0, size).astype(np.int64)
        return found, rows.reshape(-1, self.n_classes).sum(axis=1)


def _listed(bits: NDArray[np.uint64], n_rows: int) -> tuple[IntArray, NDArray[np.int32]]:
    """Columns of each row, one row after the other, and where each row's begin, and the end.

    ``bits``, shape (n_columns, n_words): the rows of each column.
    """
    sizes, columns = [np.zeros(1, dtype=np.int64)], [np.zeros(0, dtype=np.int32)]
    for words in bits.T.copy():
        flags = np.unpackbits(words[:, None].view(np.uint8), axis=1, bitorder="little").T
        sizes.append(flags.sum(axis=1, dtype=np.int64))
        columns.append(np.nonzero(flags)[1].astype(np.int32))
    return np.concatenate(sizes)[: n_rows + 1].cumsum(), np.concatenate(columns)


def _first(evidence: KnownDraws) -> IntArray:
    start = evidence.geometry.leaf_start[: len(evidence.draws) + 1]
    return np.asarray(start * evidence.n.shape[1])


def _equations(leaf: NDArray[np.int32], label: IntArray, n_classes: int) -> NDArray[np.int32]:
    if (int(leaf.max(initial=0)) + 1) * n_classes >= 2**31:
        raise NotCovered(static_message("the leaves times the classes are over 2^31"))
    return np.ascontiguousarray((leaf * n_classes + label[:, None].astype(np.int32)).T)


def _too_many(what: str) -> GridTooLarge:
    most = f"treeleak holds at most {MAX_CANDIDATES:,}"
    return GridTooLarge(f"{what} stay possible given the draws; {most}")
