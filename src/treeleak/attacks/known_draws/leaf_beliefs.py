"""What is believed of rows by what every leaf counts: where they lie, and of which class they are.

Draws are known. What is believed of a row is a product: a class, and for each class a distribution
over the atoms of each attribute. Every tree is one factor. It hears from each row how probable each
of its leaves is, and says back how much more probable its counts are with the row in a leaf than
without it, given what it heard of all other rows; the row takes this up as a product again
(expectation propagation: Minka 2001).

What a tree says to all rows alike, for instance that a leaf holds more than expected, is not said:
a hundred trees would say it a hundred times. Beliefs with the counts are taken by beliefs without,
both scaled so that each leaf expects what it counts. What rows have in common is fitted to the
counts before, once: learned from beliefs, it would drift away from them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.known_draws import belief_kernels as kernels
from treeleak.attacks.known_draws.belief_kernels import Beliefs, Said, TreePieces
from treeleak.attacks.known_draws.leaf_boxes import LeafBoxes
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.parallel import THREADS, run_all
from treeleak.core.private import dataclass
from treeleak.evidence import KnownDraws
from treeleak.partition import GridTooLarge
from treeleak.side_information.given import KnownParts

_MOST = 2**27
"""Most numbers in the table of beliefs (1 GiB), and in all that trees say."""
_FITTED = 20
"""Rounds in which the distribution of all rows is fitted to counts, before rows are parted."""
_ATOM = 1.0
"""Rows that are added to each attribute's distribution, spread over its atoms."""
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class TreeFactor:
    """A tree, the rows that it drew, and what it said so far. Written in place."""

    pieces: TreePieces
    rows: IntArray
    b: IntArray
    """Shape (n_own_rows,). How often it drew each."""
    said: Said
    scales: FloatArray
    """Shape (2, n_places). Scale of each place, for beliefs without its counts and with them."""

    @classmethod
    def of(cls, evidence: KnownDraws, boxes: LeafBoxes, tree: int) -> TreeFactor:
        """Lay out one tree."""
        pieces = _pieces(evidence, boxes, tree)
        rows = np.flatnonzero(evidence.draws[tree])
        shape = len(rows), evidence.n.shape[1], int(pieces.first[-1])
        said = Said(np.zeros(shape, dtype=np.float32), np.zeros(shape[:2]))
        b = evidence.draws[tree, rows].astype(np.int64)
        return cls(pieces, rows, b, said, np.ones((2, len(pieces.n))))

    def listen(self, beliefs: Beliefs, step: float, heeded: float) -> None:
        """Hear what rows believe, and move what is said to them a step further.

        ``heeded``: share of what the counts say that is said.
        """
        own, (without, with_) = (self.pieces, self.rows, beliefs, self.said), self.scales
        reach = np.zeros((len(self.rows), len(without)))
        heard = np.zeros_like(reach)
        kernels.reach_places(*own, reach)
        kernels.scale_places(self.pieces, self.b, without, reach)
        kernels.hear_counts(self.pieces, self.b, reach, heard)
        kernels.scale_places(self.pieces, self.b, with_, heard)
        kernels.hear_trees(*own, reach, heard, step, heeded)

    def rest(self, closed: NDArray[np.uint8], label: IntArray) -> IntArray:
        """Draws of each place without those of rows that can lie in one leaf only.

        ``closed``, shape (n_rows, n_leaves): in which leaves rows do not lie; ``label``, shape
        (n_rows,): their classes.
        """
        open_, own, n = closed[self.rows] == 0, self.pieces, self.pieces.n.copy()
        place = np.full((closed.shape[1], int(label.max(initial=0)) + 1), -1)
        some = own.label < place.shape[1]
        place[own.leaf[some], own.label[some]] = np.flatnonzero(some)
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
    log_prior: FloatArray
    """Shape (n_classes, n_atoms). What rows of each class are like, as logs."""
    allowed: BoolArray
    """Shape (n_groups, n_atoms). Which atoms rows may have, by what is known of them."""
    group: IntArray
    """Shape (n_rows,). Line of each row in ``allowed``."""
    beliefs: Beliefs

    @classmethod
    def of(
        cls, evidence: KnownDraws, boxes: LeafBoxes, parts: KnownParts | None, clock: Clock
    ) -> LeafBeliefs:
        """Lay out all trees.

        Raises GridTooLarge if that takes too much room.
        """
        n_classes, start = evidence.n.shape[1], np.append(0, np.cumsum(evidence.geometry.radix))
        shape = evidence.n_rows, n_classes, int(start[-1]) + 1
        # A test adds a piece, and each attribute one more and a position behind it.
        n_leaves = np.diff(evidence.geometry.leaf_start)[: len(evidence.draws)]
        n_said = np.count_nonzero(evidence.draws, axis=1) @ (n_leaves + 2 * len(start)) * n_classes
        if max(np.prod(shape, dtype=float), n_said) > _MOST:
            raise GridTooLarge(f"{shape[0]:,} rows of {shape[2]:,} intervals and values: too many")
        trees = [TreeFactor.of(evidence, boxes, t) for t in range(len(evidence.draws))]
        n, group = evidence.n.sum(axis=0), np.zeros(shape[0], dtype=np.int64)
        allowed = np.ones((1, int(start[-1])), dtype=bool)
        if parts is not None:
            allowed, group = np.ascontiguousarray(parts.allowed[:, : start[-1]]), parts.group
        beliefs = Beliefs(np.zeros(shape), np.zeros(shape[:2]))
        log_prior = _fitted([tree.pieces for tree in trees], n_classes, start, clock)
        drawn = evidence.draws.sum(axis=0, dtype=np.int64)
        return cls(trees, start, n, drawn, log_prior, allowed, group, beliefs)

    def within(
        self, closed: NDArray[np.uint8], span: IntArray, label: IntArray, clock: Clock
    ) -> LeafBeliefs:
        """Hold rows to what is known of them, and fit to the counts what the others are like.

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
        log_prior = _fitted(others, len(self.n), self.start, clock)
        group = np.arange(len(allowed))
        return replace(self, allowed=allowed, group=group, log_prior=log_prior)

    def believe(self, possible: BoolArray) -> None:
        """Gather what trees said into beliefs.

        ``possible``, shape (n_rows, n_classes): of which classes rows may be; any, if of none.
        """
        label, atoms = self.beliefs.label, self.beliefs.atoms
        with np.errstate(divide="ignore"):
            log_share = np.log(self.n / self.n.sum())
        label[:] = np.where(possible | ~possible.any(axis=1, keepdims=True), log_share, -np.inf)

        def some(own: int) -> None:
            atoms[own::THREADS] = 0.0
            for tree in self.trees:
                among = np.flatnonzero(tree.rows % THREADS == own)
                kernels.gather(tree.pieces, tree.rows, among, tree.said, self.beliefs)
            rows = np.arange(own, len(label), THREADS)
            kernels.believe(
                rows, self.start, self.log_prior, self.allowed, self.group, self.beliefs
            )

        run_all([partial(some, i) for i in range(THREADS)])

    def listen(self, step: float, heeded: float, clock: Clock) -> None:
        """Let every tree hear what is believed, and say more; see :meth:`TreeFactor.listen`."""

        def some(own: list[TreeFactor]) -> None:
            for tree in own:
                if not clock.stopped:
                    tree.listen(self.beliefs, step, heeded)

        run_all([partial(some, self.trees[i::THREADS]) for i in range(THREADS)])

    @property
    def atoms(self) -> FloatArray:
        """How probable atoms of each row are, whatever its class, shape (n_rows, n_atoms)."""
        label, atoms = self.beliefs.label, self.beliefs.atoms
        out = np.zeros((len(label), atoms.shape[2] - 1))
        for c, probable in enumerate(label.T):
            some = np.flatnonzero(probable)
            out[some] += probable[some, None] * np.diff(atoms[some, c], axis=1)
        return out


def _log(mean: FloatArray, start: IntArray) -> FloatArray:
    """Log of the share of each atom in its attribute, of each class."""
    out = mean.copy()
    for begin, end in pairwise(start):
        out[:, begin:end] += _ATOM / (end - begin)
        out[:, begin:end] /= out[:, begin:end].sum(axis=1, keepdims=True)
    return np.asarray(np.log(out))


def _fitted(trees: list[TreePieces], n_classes: int, start: IntArray, clock: Clock) -> FloatArray:
    """Fit one distribution to the counts of all leaves, by expectation and maximisation."""
    out = _log(np.zeros((n_classes, int(start[-1]))), start)
    for _ in range(_FITTED):
        if clock.stopped:
            break
        prior = np.pad(np.exp(out).cumsum(axis=1), ((0, 0), (1, 0)))
        mean = np.zeros_like(out)
        for tree in trees:
            kernels.count_pieces(tree, prior, mean)
        out = _log(mean / len(trees), start)
    return out


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
        own = np.stack([leaf, np.full(len(leaf), len(first) - 1), begin, end], axis=1)
        own[:, 2:] += first[-1]
        runs.append(own[~np.asarray(held.all(axis=1))[leaf]])
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
