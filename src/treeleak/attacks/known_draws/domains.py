"""Domains: the leaves in which a numbered row may lie, tree by tree, without a list of cells.

Boxes that meet pairwise meet all together (Helly's theorem for boxes), so what pairs of leaves rule
out is nearly all that there is to rule out, and no grid is ever listed. Counts then say which rows
must, and which cannot, lie in a leaf; both take turns until nothing moves. Nothing true is ever
removed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.known_draws import box_kernels
from treeleak.attacks.known_draws import domain_kernels as kernels
from treeleak.attacks.known_draws.leaf_boxes import MAX_WORDS, LeafBoxes
from treeleak.attacks.known_draws.out_of_bag import RowSums, narrow_sums
from treeleak.attacks.known_draws.schedule import SCHEDULE
from treeleak.core.arrays import BoolArray, IntArray, bits_set, packed
from treeleak.core.clock import Clock
from treeleak.core.parallel import THREADS, Pool, run_all
from treeleak.core.private import dataclass
from treeleak.evidence import KnownDraws
from treeleak.partition import GridTooLarge

MOST_BOXES, MORE_BOXES = 20_000, 100_000
"""Boxes into which a row's is cut at most, where leaves are too many to be compared: at first, and
where nothing else moves."""
Note = Callable[[str, NDArray[np.uint64], NDArray[np.uint64]], None]
"""Takes the name of the loop that took a step, and the domains before it and after: what went can
be held against reasons, for each step looks at one row alone, or at one tree alone."""


@dataclass(frozen=True, eq=False)
class Domains:
    """What is left of every row's leaves. Narrowed in place."""

    evidence: KnownDraws
    boxes: LeafBoxes
    bits: NDArray[np.uint64]
    """Shape (n_rows, n_classes, n_words). Of the trees that drew the row, the leaves in which it
    may lie if it is of that class."""
    draws: IntArray
    """Shape (n_trees, n_rows). How often each tree drew each row. The tree of known parts draws
    every row once, and so do trees that did not draw it, once sums over their leaves are used."""
    sums: RowSums | None = None
    """Sums over the trees that did not draw a row. Used where few leaves are left to it."""

    @classmethod
    def of(cls, evidence: KnownDraws, group: IntArray | None = None) -> Domains:
        """Open the leaves that count enough draws of a class and fit the number of their rows.

        ``group`` as for :meth:`KnownDraws.row_sets`.

        Raises GridTooLarge if there are too many leaves or rows.
        """
        boxes = LeafBoxes.of(evidence.geometry)
        n, d, start = evidence.n, evidence.d, evidence.geometry.leaf_start
        shape = evidence.n_rows, n.shape[1], boxes.n_words
        if np.prod(shape, dtype=float) > MAX_WORDS:
            raise GridTooLarge(f"{evidence.n_rows:,} rows in {start[-1]:,} leaves: too many")
        bits = np.zeros(shape, dtype=np.uint64)
        draws = np.zeros((len(start) - 1, evidence.n_rows), dtype=np.int64)
        draws[: len(evidence.draws)] = evidence.draws
        for t, b in enumerate(evidence.draws):
            tree_leaves = slice(start[t], start[t + 1])
            words = slice(boxes.word_start[t], boxes.word_start[t + 1])
            for drawn in np.unique(b[b > 0]).astype(int):
                rows = np.flatnonzero(b == drawn)
                for c in range(n.shape[1]):
                    bits[rows, c, words] = packed(
                        _open(n[tree_leaves], d if d is None else d[tree_leaves], c, drawn)
                    )
        for t, told in enumerate(() if evidence.row_leaves is None else evidence.row_leaves):
            alone = packed(np.eye(int(start[t + 1] - start[t]), dtype=bool))
            words, placed = slice(boxes.word_start[t], boxes.word_start[t + 1]), told >= 0
            bits[placed, :, words] &= alone[told[placed]][:, None, :]
        if group is not None:
            last = evidence.geometry.release.trees[-1]
            draws[-1] = 1
            open_ = np.ones((int(start[-1] - start[-2]), n.shape[1]), dtype=bool)
            if last.counts is not None:
                open_ &= last.counts[last.leaves] > 0
            only = np.eye(len(open_), dtype=bool)
            for c in range(n.shape[1]):
                part_leaf = np.array([packed(one & open_[:, c]) for one in only])
                bits[:, c, boxes.word_start[-2] :] = part_leaf[group]
        return cls(evidence, boxes, bits, draws, RowSums.of(evidence))

    @property
    def drawn(self) -> tuple[IntArray, IntArray]:
        """Where the trees that drew each row begin, and these trees."""
        rows, trees = np.nonzero(self.draws.T)
        start = np.searchsorted(rows, np.arange(self.draws.shape[1] + 1))
        return start.astype(np.int64), trees.astype(np.int64)

    @property
    def open_leaves(self) -> IntArray:
        """Leaves left of each row, over all classes and the trees that drew it, beyond one each."""
        n = bits_set(self.bits).sum(axis=1)
        return np.asarray(np.maximum(n - np.diff(self.drawn[0]), 0))

    @property
    def classes(self) -> BoolArray:
        """Whether each row may be of each class, shape (n_rows, n_classes)."""
        return np.asarray(self.bits.any(axis=2))

    @property
    def leaves_per_column(self) -> float:
        """Leaves of a tree for each attribute with a test."""
        geometry, n_trees = self.evidence.geometry, len(self.evidence.draws)
        n_tested = max(int((geometry.radix > 1).sum()), 1)
        return int(geometry.leaf_start[n_trees]) / max(n_trees, 1) / n_tested

    @property
    def promising(self) -> bool:
        """Whether narrowing will probably leave each row few places."""
        return self.leaves_per_column >= SCHEDULE.promising_leaves

    @property
    def look(self) -> str:
        """What the trees say, before anything is done, of what is to come."""
        likely = "rows will probably walk, which may take all of the time"
        if self.promising:
            likely = "each row will probably have few places left soon"
        return (
            "narrowing the leaves of each row: a tree has "
            f"{self.leaves_per_column:.1f} leaves for each column with tests, so that {likely}"
        )

    def closed(self, label: IntArray, open_label: BoolArray) -> NDArray[np.uint8]:
        """Say in which leaves (rows of A) rows do not lie, given what classes they may have.

        Of trees that did not draw a row, nothing is known.

        Raises
        ------
        GridTooLarge
            If that takes too large a table.
        """
        start = self.evidence.geometry.leaf_start
        if len(label) * int(start[-1]) > SCHEDULE.closed_pairs:
            raise GridTooLarge(f"{len(label):,} rows in {start[-1]:,} leaves: too many")
        tree = np.repeat(np.arange(len(start) - 1), np.diff(start))
        place = 64 * self.boxes.word_start[tree] + np.arange(start[-1]) - start[tree]
        held = self.bits[np.arange(len(label)), label]
        held[open_label] = np.bitwise_or.reduce(self.bits[open_label], axis=1)
        flags = np.unpackbits(held.view(np.uint8), axis=1, bitorder="little")
        return 1 - flags[:, place]

    def narrow(
        self, clock: Clock, changed: BoolArray | None = None, note: Note | None = None
    ) -> int:
        """Let trees and counts take turns until nothing moves or the time is up.

        Where counts alone move nothing more, a stronger look is taken: at what would follow from a
        row's being in a leaf.

        ``changed``, shape (n_rows,): rows of which leaves went since the last time; all of them,
        the first time. ``note`` is told of every step. Returns a leaf (row of A) whose counts no
        rows can meet; -1 if there is none.
        """
        evidence, boxes = self.evidence, self.boxes
        d = np.zeros(0, dtype=np.int64) if evidence.d is None else evidence.d
        where = evidence.geometry.leaf_start, boxes.word_start
        changed = evidence.drawn.copy() if changed is None else changed
        due = changed.copy()
        trees = np.arange(len(evidence.draws))
        with Pool() as pool:

            def each(
                kernel: Callable[..., Any], over: IntArray, at_once: int, *arguments: Any
            ) -> int:
                found, before = -1, None if note is None else self.bits.copy()
                for i in range(0, len(over), at_once):
                    if clock.stopped or found >= 0:
                        break
                    few = over[i : i + at_once]
                    shares = [np.ascontiguousarray(few[j::THREADS]) for j in range(THREADS)]
                    jobs = [partial(kernel, share, *arguments) for share in shares]
                    emptied = [x for x in run_all(jobs, pool=pool) if x is not None]
                    found = max(emptied, default=-1)
                if note is not None and before is not None:
                    note(kernel.__name__, before, self.bits)
                return found

            known = self.bits, evidence.draws.astype(np.int64)
            (join, joined, *fast), (probe, probed, *slow) = self._steps
            while not clock.stopped:
                rows, changed[:], went = np.flatnonzero(changed), False, np.zeros_like(changed)
                leaves = self.bits, *self.drawn, *where
                self._narrow_sums(each, rows, went)
                each(join, rows, joined, *leaves, *fast, went)
                self._narrow_sums(each, rows, changed)
                bad = each(
                    kernels.count_trees,
                    trees,
                    SCHEDULE.counted_trees,
                    *known,
                    evidence.n,
                    d,
                    *where,
                    changed,
                )
                if bad >= 0:
                    return bad
                few = self.open_leaves <= SCHEDULE.out_of_bag_leaves * (evidence.draws > 0).sum(
                    axis=0
                )
                changed |= self._use_sums(few)
                due |= changed | went
                open_leaves = self.open_leaves
                n_open = int((open_leaves > 0).sum())
                n_rows = evidence.n_rows
                clock.report_progress(
                    "narrowing the leaves of each row: "
                    f"{n_rows - n_open:,} of {n_rows:,} rows settled",
                    1.0 - n_open / max(n_rows, 1),
                )
                while not (changed.any() or clock.stopped):
                    ready = np.flatnonzero(due & (open_leaves > 0))
                    if not len(ready):
                        changed |= self._use_sums(evidence.drawn)
                        if changed.any():
                            break
                        return -1
                    rows = ready[
                        np.argsort(open_leaves[ready], kind="stable")[: SCHEDULE.probed_rows]
                    ]
                    due[rows] = False
                    each(probe, rows, probed, *leaves, *slow, changed)
        return -1

    def _narrow_sums(self, each: Callable[..., int], rows: IntArray, changed: BoolArray) -> None:
        if (sums := self.sums) is None:
            return
        rows = rows[(sums.beside[:, rows] & (self.draws[:, rows] > 0)).any(axis=0)]
        where = self.evidence.geometry.leaf_start, self.boxes.word_start
        each(narrow_sums, rows, SCHEDULE.joined_rows, self.bits, sums, *where, changed)

    def _use_sums(self, rows: BoolArray) -> BoolArray:
        """Open the leaves of trees that did not draw rows; say of which rows that is new."""
        if self.sums is None:
            return np.zeros_like(rows)
        beside, start = self.sums.beside & (self.draws == 0) & rows, self.boxes.word_start
        possible = self.classes
        for t in np.flatnonzero(beside.any(axis=1)):
            n_leaves = int(np.diff(self.evidence.geometry.leaf_start)[t])
            every = packed(np.ones(n_leaves, dtype=bool))
            own = np.flatnonzero(beside[t])
            opened = np.where(possible[own][:, :, None], every, np.uint64(0))
            self.bits[own, :, start[t] : start[t + 1]] = opened
        self.draws[beside] = 1
        return np.asarray(beside.any(axis=0))

    @property
    def _steps(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """How leaves of a row are held against each other, at first, and where nothing else moves.

        Each with the rows that are looked at between two looks at the clock, and what it takes.
        """
        boxes = self.boxes
        if boxes.compared:
            return (kernels.join, SCHEDULE.joined_rows, boxes.meets), (
                kernels.probe, SCHEDULE.probed_rows, boxes.meets, SCHEDULE.probed_leaves,
            )  # fmt: skip
        few, many = (
            (box_kernels.refine, SCHEDULE.probed_rows, boxes.forest, boxes.depth, most)
            for most in (MOST_BOXES, MORE_BOXES)
        )
        return few, many

    def chosen(self, label: IntArray) -> NDArray[np.int32]:
        """Choose leaves of rows of some classes so that the row can lie in all of them.

        Returns an array of shape (n_rows, n_trees): leaves (rows of A), -1 where there is none that
        goes with the others, and in trees that did not draw the row.
        """
        boxes, start = self.boxes, self.evidence.geometry.leaf_start
        out = np.full((len(label), len(start) - 1), -1, dtype=np.int32)
        rows = np.flatnonzero(self.evidence.drawn)
        # Trees that did not draw a row leave it in many leaves each.
        drew = self if self.sums is None else replace(self, draws=self.draws * ~self.sums.beside)
        where = self.bits, *drew.drawn, start, boxes.word_start
        jobs = [
            partial(
                box_kernels.choose_leaves,
                np.ascontiguousarray(rows[i::THREADS]),
                label,
                *where,
                boxes.forest,
                boxes.depth,
                out,
            )
            for i in range(THREADS)
        ]
        run_all(jobs)
        return out

    def copied(self) -> Domains:
        """Copy what is narrowed in place."""
        return replace(self, bits=self.bits.copy(), draws=self.draws.copy())

    def assuming(self, leaves: IntArray) -> Domains:
        """Copy these domains, with some rows in some leaves.

        ``leaves``, shape (n_rows, n_trees): rows of A; -1 where nothing is assumed. A leaf in which
        a row is known not to lie is not.
        """
        out = self.copied()
        for k, t in np.argwhere(leaves >= 0):
            slot = int(leaves[k, t] - self.evidence.geometry.leaf_start[t])
            words = out.bits[k, :, self.boxes.word_start[t] : self.boxes.word_start[t + 1]]
            common_bits = words[:, slot >> 6] & (np.uint64(1) << np.uint64(slot & 63))
            if common_bits.any():
                words[:] = 0
                words[:, slot >> 6] = common_bits
        return out

    def meets_sums(self, k: int, leaves: NDArray[np.int32], trees: IntArray) -> BoolArray:
        """Say which choices of leaves of some trees meet the sums of a row; parameters as below.

        All, where these are not all the trees over which the sums go.
        """
        beside = None if self.sums is None else self.sums.beside[:, k]
        if self.sums is None or beside is None or beside[trees].sum() < beside.sum():
            return np.ones(len(leaves), dtype=bool)
        leaf = np.zeros((len(leaves), len(self.draws)), dtype=np.int64)
        leaf[:, trees] = leaves
        return self.sums.met(np.full(len(leaves), k), np.arange(len(leaves)), leaf)

    def keep(self, k: int, label: IntArray, trees: IntArray, leaves: NDArray[np.int32]) -> bool:
        """Keep some leaves of a row only; say whether others went.

        ``label``, shape (n_lines,), and ``leaves``, shape (n_lines, n_own): classes, and leaves
        (rows of A) of the trees ``trees``.
        """
        slot = leaves - self.evidence.geometry.leaf_start[trees]
        words = self.boxes.word_start[trees] + (slot >> 6)
        used = self.bits[k].copy()
        for t in trees:
            used[:, self.boxes.word_start[t] : self.boxes.word_start[t + 1]] = 0
        used[~np.isin(np.arange(len(used)), label)] = 0
        bit = np.uint64(1) << (slot & 63).astype(np.uint64)
        np.bitwise_or.at(used, (np.broadcast_to(label[:, None], words.shape), words), bit)
        went = bool((self.bits[k] & ~used).any())
        self.bits[k] &= used
        return went


def _open(n: IntArray, d: IntArray | None, c: int, b: int) -> BoolArray:
    """Leaves that can hold a row of class c that was drawn b times."""
    left = n.copy()
    left[:, c] -= b
    ok = left[:, c] >= 0
    if d is not None:
        # The other rows of the leaf: one at least for each class that is left, one draw for each.
        ok &= ((left > 0).sum(axis=1) <= d - 1) & (left.sum(axis=1) >= d - 1)
    return np.asarray(ok)
