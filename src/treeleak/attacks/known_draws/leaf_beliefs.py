"""What is believed of rows by what every leaf counts: where they lie, and of which class they are.

Draws are known. Rows are of kinds, which have in common how attributes go together, and are fitted
to the counts before. What is believed of a row is of which class and kind it is and, for each of
these parts, a distribution over the atoms of each attribute. Every tree is one factor. It hears
from each row how probable each of its leaves is, and says back how much more probable its counts
are with the row in a leaf than without it, given what it heard of all other rows; the row takes
this up part by part (expectation propagation: Minka 2001).

What a tree says to all rows alike, for instance that a leaf holds more than expected, is not said:
a hundred trees would say it a hundred times. Beliefs with the counts are taken by beliefs without,
both scaled so that each leaf expects what it counts. What rows have in common is not learned from
beliefs, which would drift away from the counts.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.known_draws import belief_kernels as kernels
from treeleak.attacks.known_draws.belief_kernels import Beliefs, Messages, TreePieces
from treeleak.attacks.known_draws.latent_classes import LatentClasses, fitted_classes
from treeleak.attacks.known_draws.leaf_boxes import LeafBoxes
from treeleak.attacks.known_draws.midpoint_kernels import (
    TreeTests,
    ends_of,
    laid_out,
    message_from_tests,
)
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.parallel import THREADS, run_all
from treeleak.core.private import dataclass
from treeleak.evidence import KnownDraws
from treeleak.partition import GridTooLarge
from treeleak.side_information.side_information import KnownParts

_MOST = 2**27
"""Most numbers in the table of beliefs (1 GiB), and in all that trees say."""
_PARTS = 4
"""Parts of what is believed of a row, where there is room: each is of a class and of a kind."""
_HALFWAY, _HEEDED = 0.5, 0.3
"""How far what thresholds say moves at once, and the share of it that is heeded: rows that share a
test hear their own beliefs back."""
_LEAST = 1e-300
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class MidpointEvidence:
    """What thresholds need to know, and what they say."""

    ends: FloatArray
    """Shape (2, n_atoms). Lowest and highest value of each."""
    probable: FloatArray
    """Shape (n_rows, n_atoms). How probable atoms are."""
    messages: FloatArray
    """Shape (n_rows, n_atoms). As logs; trees add to it."""


@dataclass(frozen=True, eq=False)
class TreeFactor:
    """A tree, the rows that it drew, and what it said so far. Written in place."""

    pieces: TreePieces
    rows: IntArray
    b: IntArray
    """Shape (n_own_rows,). How often it drew each."""
    messages: Messages
    scales: FloatArray
    """Shape (2, n_places). Scale of each place, for beliefs without its counts and with them."""
    tests: TreeTests | None
    """None where thresholds are no middles."""

    @classmethod
    def of(
        cls, pieces: TreePieces, tests: TreeTests | None, draws: IntArray, n_parts: int
    ) -> TreeFactor:
        """Lay out one tree.

        ``draws``, shape (n_rows,): how often it drew each row.
        """
        rows = np.flatnonzero(draws)
        shape = len(rows), n_parts, int(pieces.first[-1])
        messages = Messages(np.zeros(shape, dtype=np.float32), np.zeros(shape[:2]))
        b = draws[rows].astype(np.int64)
        return cls(pieces, rows, b, messages, np.ones((2, len(pieces.n))), tests)

    def listen(
        self,
        beliefs: Beliefs,
        step: float,
        damping: float,
        midpoint_evidence: MidpointEvidence | None,
    ) -> None:
        """Hear what rows believe, and move what is said to them a step further.

        ``damping``: share of the counts' message that is passed on. ``midpoint_evidence``: where to
        add what thresholds say.
        """
        (without, with_), (n_rows, n_parts) = self.scales, self.messages.parts.shape
        total = np.zeros((n_rows, n_parts, int(self.pieces.first[-1]) + 1))
        part_reach, reach = (
            np.zeros((n_rows, n_parts, len(without))),
            np.zeros((n_rows, len(without))),
        )
        with_counts = np.zeros_like(reach)
        kernels.reach_places(
            self.pieces, self.rows, beliefs, self.messages, total, part_reach, reach
        )
        kernels.scale_places(self.pieces, self.b, without, reach)
        kernels.message_from_counts(self.pieces, self.b, reach, with_counts)
        kernels.scale_places(self.pieces, self.b, with_, with_counts)
        if midpoint_evidence is not None and self.tests is not None:
            message_from_tests(
                self.tests, midpoint_evidence.ends, self.rows, self.pieces.leaf, with_counts,
                midpoint_evidence.probable, midpoint_evidence.messages,
            )  # fmt: skip
        kernels.message_to_rows(
            self.pieces, self.messages, total, part_reach, reach, with_counts, step, damping
        )

    def rest(self, closed: NDArray[np.uint8], label: IntArray) -> IntArray:
        """Draws of each place without those of rows that can lie in one leaf only.

        ``closed``, shape (n_rows, n_leaves): in which leaves rows do not lie; ``label``, shape
        (n_rows,): their classes.
        """
        open_, pieces, n = closed[self.rows] == 0, self.pieces, self.pieces.n.copy()
        place = np.full((closed.shape[1], int(label.max(initial=0)) + 1), -1)
        some = pieces.label < place.shape[1]
        place[pieces.leaf[some], pieces.label[some]] = np.flatnonzero(some)
        one = open_.sum(axis=1) == 1
        at = place[open_[one].argmax(axis=1), label[self.rows[one]]]
        np.subtract.at(n, at[at >= 0], self.b[one][at >= 0])
        return np.asarray(np.maximum(n, 0))


@dataclass(frozen=True, eq=False)
class LeafBeliefs:
    """What is believed of rows, and what trees said of them. Written in place."""

    trees: list[TreeFactor]
    start: IntArray
    """Shape (n_attributes + 1,). First atom of each attribute."""
    n: IntArray
    """Shape (n_classes,). Draws of each class, over all trees."""
    drawn: IntArray
    """Shape (n_rows,). How often all trees drew each row."""
    latent: LatentClasses
    possible: BoolArray
    """Shape (n_rows, n_parts). Of which parts rows may be."""
    allowed: BoolArray
    """Shape (n_groups, n_atoms). Which atoms rows may have, by what is known of them."""
    group: IntArray
    """Shape (n_rows,). Line of each row in ``allowed``."""
    beliefs: Beliefs
    midpoint_messages: FloatArray
    """Shape (n_rows, n_atoms). What thresholds say, as logs."""
    ends: FloatArray
    """Shape (2, n_atoms). Lowest and highest value of each."""

    @classmethod
    def of(
        cls, evidence: KnownDraws, boxes: LeafBoxes, parts: KnownParts | None,
        possible: BoolArray, clock: Clock,
    ) -> LeafBeliefs:  # fmt: skip
        """Lay out all trees.

        ``possible``, shape (n_rows, n_classes): of which classes rows may be; any, if of none.
        Raises GridTooLarge if that takes too much room.
        """
        (n_rows, n_classes), radix = possible.shape, evidence.geometry.radix
        start, drawn = np.append(0, np.cumsum(radix)), np.count_nonzero(evidence.draws, axis=1)
        possible = possible | ~possible.any(axis=1, keepdims=True)
        n_choices = int(possible.sum(axis=1).max(initial=1))
        # A test adds a piece, and each attribute one more and a position behind it.
        n_leaves = np.diff(evidence.geometry.leaf_start)[: len(evidence.draws)]
        n_messages = float(drawn @ (n_leaves + 2 * len(start))) * n_choices
        n_believed = float(n_rows) * n_choices * (int(start[-1]) + 1)
        room = _MOST / max(n_messages, n_believed, 1.0)
        n_latent = int(min(room, max(_PARTS // n_choices, 1)))
        if not n_latent:
            raise GridTooLarge(f"{n_rows:,} rows of {start[-1]:,} intervals and values: too many")
        pieces = [_pieces(evidence, boxes, t) for t in range(len(evidence.draws))]
        latent = fitted_classes(pieces, n_latent, n_classes, start, clock)
        tests = laid_out(evidence.geometry, boxes, len(pieces))
        trees = [
            TreeFactor.of(part, test, draws, n_choices * n_latent)
            for part, test, draws in zip(pieces, tests, evidence.draws, strict=True)
        ]
        group, allowed = np.zeros(n_rows, dtype=np.int64), np.ones((1, start[-1]), dtype=bool)
        if parts is not None:
            allowed, group = np.ascontiguousarray(parts.allowed[:, : start[-1]]), parts.group
        # Possible classes first.
        label = np.argsort(~possible, axis=1, kind="stable")[:, :n_choices]
        part = np.take_along_axis(possible, label, axis=1)
        shape = n_rows, n_choices * n_latent
        beliefs = Beliefs(
            np.zeros((*shape, start[-1] + 1)), np.zeros(shape), label.repeat(n_latent, axis=1),
            np.tile(np.arange(n_latent), n_choices),
        )  # fmt: skip
        return cls(
            trees, start, evidence.n.sum(axis=0), evidence.draws.sum(axis=0, dtype=np.int64),
            latent, part.repeat(n_latent, axis=1), allowed, group, beliefs,
            np.zeros((n_rows, start[-1])), ends_of(evidence.geometry),
        )  # fmt: skip

    def within(
        self, closed: NDArray[np.uint8], span: IntArray, label: IntArray, clock: Clock
    ) -> LeafBeliefs:
        """Hold rows to what is known of them, and fit to the counts what the others are like.

        Nothing is to be heard before.

        Parameters
        ----------
        closed : uint8 array, shape (n_rows, n_leaves)
            In which leaves (rows of A) rows do not lie.
        span : int array, shape (2, n_rows, n_attributes)
            Lowest and highest atom that rows may have.
        label : int array, shape (n_rows,)
            Classes.
        """
        allowed = self.allowed[self.group]
        for (begin, end), low, high in zip(
            pairwise(self.start), *span.transpose(0, 2, 1), strict=True
        ):
            atom, part = np.arange(end - begin), allowed[:, begin:end]
            inside = part & (low[:, None] <= atom) & (atom <= high[:, None])
            # What contradicts itself is not heeded: counts have the last word.
            part[inside.any(axis=1)] = inside[inside.any(axis=1)]
        begin, others = 0, []
        for tree in self.trees:
            end = begin + len(tree.pieces.bound) - 1
            others.append(tree.pieces._replace(n=tree.rest(closed[:, begin:end], label)))
            begin = end
        n_classes, n_latent = self.latent.log_share.shape
        latent = fitted_classes(others, n_latent, n_classes, self.start, clock)
        return replace(self, allowed=allowed, group=np.arange(len(allowed)), latent=latent)

    def believe(self) -> None:
        """Gather what trees said into beliefs."""
        atoms, share, label, kind = self.beliefs
        share[:] = np.where(self.possible, self.latent.log_share[label, kind], -np.inf)

        def some(worker: int) -> None:
            # Each less the one below.
            atoms[worker::THREADS, :, :-1] = np.diff(
                self.midpoint_messages[worker::THREADS], prepend=0.0
            )[:, None]
            atoms[worker::THREADS, :, -1] = 0.0
            for tree in self.trees:
                among = np.flatnonzero(tree.rows % THREADS == worker)
                kernels.gather(tree.pieces, tree.rows, among, tree.messages, self.beliefs)
            rows = np.arange(worker, len(share), THREADS)
            kernels.believe(
                rows, self.start, self.latent.log_atoms, self.allowed, self.group, self.beliefs
            )

        run_all([partial(some, i) for i in range(THREADS)])

    def listen(
        self, step: float, damping: float, clock: Clock, probable: FloatArray | None = None
    ) -> None:
        """Let every tree hear what is believed, and say more; see :meth:`TreeFactor.listen`.

        ``probable``: :attr:`atoms`, if thresholds are to be heard, too.
        """
        sums = (
            []
            if probable is None
            else [np.zeros_like(self.midpoint_messages) for _ in range(THREADS)]
        )

        def some(worker: int) -> None:
            midpoint_evidence = (
                None if probable is None else MidpointEvidence(self.ends, probable, sums[worker])
            )
            for tree in self.trees[worker::THREADS]:
                if not clock.stopped:
                    tree.listen(self.beliefs, step, damping, midpoint_evidence)

        run_all([partial(some, i) for i in range(THREADS)])
        if sums and not clock.stopped:
            self.midpoint_messages[:] += _HALFWAY * (_HEEDED * sum(sums) - self.midpoint_messages)

    @property
    def atoms(self) -> FloatArray:
        """How probable atoms of each row are, of whatever part it is, shape (n_rows, n_atoms)."""
        atoms, share = self.beliefs.atoms, self.beliefs.share
        out = np.zeros((len(share), atoms.shape[2] - 1))
        for s, probable in enumerate(share.T):
            some = np.flatnonzero(probable)
            out[some] += probable[some, None] * np.diff(atoms[some, s], axis=1)
        return out

    @property
    def classes(self) -> FloatArray:
        """How probable classes of each row are, shape (n_rows, n_classes)."""
        out = np.zeros((len(self.drawn), len(self.n)))
        label = self.beliefs.label
        np.add.at(out, (np.arange(len(label))[:, None], label), self.beliefs.share)
        return out

    def weigh(self, classes: FloatArray) -> None:
        """Scale parts so that classes are as probable as that."""
        factor = classes / np.maximum(self.classes, _LEAST)
        self.beliefs.share[:] *= np.take_along_axis(factor, self.beliefs.label, axis=1)


def _pieces(evidence: KnownDraws, boxes: LeafBoxes, tree: int) -> TreePieces:
    """Find what a tree tells apart, and the places that it counts."""
    geometry = evidence.geometry
    leaves = np.arange(*geometry.leaf_start[tree : tree + 2])
    atoms = np.append(0, np.cumsum(geometry.radix))
    first, low, high = [0], [_NONE], [_NONE]
    runs = [np.zeros((0, 4), dtype=np.int64)]
    for a in range(len(geometry.radix)):
        held = boxes.admitted(leaves[:, None].astype(np.int32), a)
        if held.all():
            continue
        cuts = np.append(0, 1 + np.flatnonzero((held[:, 1:] != held[:, :-1]).any(axis=0)))
        held = held[:, cuts]
        low.append(atoms[a] + np.append(cuts, geometry.radix[a]))
        high.append(np.append(low[-1][1:], low[-1][-1]))
        # Where nothing is admitted, an empty run.
        edges = np.diff(np.pad(held, ((0, 0), (1, 1))).astype(np.int8), axis=1)
        (leaf, begin), (_, end) = np.nonzero(edges == 1), np.nonzero(edges == -1)
        empty = np.flatnonzero(~held.any(axis=1))
        leaf, begin, end = (np.append(x, more) for x, more in (
            (leaf, empty), (begin, 0 * empty), (end, 0 * empty)
        ))  # fmt: skip
        runs_of_leaves = np.stack([leaf, np.full(len(leaf), len(first) - 1), begin, end], axis=1)
        runs_of_leaves[:, 2:] += first[-1]
        runs.append(runs_of_leaves[~np.asarray(held.all(axis=1))[leaf]])
        first.append(first[-1] + len(low[-1]))
    run = np.concatenate(runs)
    run = run[np.lexsort(run.T[::-1])]
    new = np.flatnonzero((np.diff(run[:, :2], axis=0, prepend=-1) != 0).any(axis=1))
    per_leaf = np.bincount(run[new, 0], minlength=len(leaves))
    # In the order of memory that all else has: loops are compiled for each order anew.
    leaf, label = map(np.ascontiguousarray, np.nonzero(evidence.n[leaves] > 0))
    d = np.full(len(leaf), -1)
    if evidence.d is not None:
        single = np.count_nonzero(evidence.n[leaves], axis=1) == 1
        d = np.where(single[leaf], evidence.d[leaves][leaf], -1)
    n = evidence.n[leaves][leaf, label]
    return TreePieces(
        np.array(first), np.concatenate(low), np.concatenate(high), run[new, 1],
        np.append(0, np.cumsum(per_leaf)), np.append(new, len(run)), run[:, 2].copy(),
        run[:, 3].copy(), leaf, label, n.astype(np.int64), d.astype(np.int64),
    )  # fmt: skip
