"""Classes of rows from what every leaf counts, where whole trees do not suffice.

Draws are known.

What is believed of a row is a product: a class, and for each class a distribution over the atoms of
each attribute. Every tree is one factor. It hears from each row how probable each of its leaves is,
and says back how much more probable its counts are with the row in a leaf than without it, given
what it heard of all other rows; the row takes this up as a product again (expectation propagation:
Minka 2001).

What a tree says to all rows alike, for instance that a leaf holds more than expected, is not said:
a hundred trees would say it a hundred times. Beliefs with the counts are taken by beliefs without,
both scaled so that each leaf expects what it counts. What rows have in common is learned instead:
the distribution that they start from is that of all rows' beliefs.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
from scipy.special import expit, logsumexp, softmax

from treeleak.attacks.known_draws import belief_kernels as kernels
from treeleak.attacks.known_draws.belief_kernels import Beliefs, Said, TreePieces
from treeleak.attacks.known_draws.classes import Guess, Mended
from treeleak.attacks.known_draws.leaf_boxes import LeafBoxes
from treeleak.attacks.known_draws.listing import smallest
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.parallel import THREADS, run_all
from treeleak.core.private import dataclass
from treeleak.evidence import KnownDraws

_MOST = 2**27
"""Most numbers in the table of beliefs (1 GiB), and in all that trees say."""
_FITTED, _BALANCED = 20, 5
"""Rounds in which the distribution of all rows is fitted to counts, before rows are parted, and in
which the shares of classes are."""
_FAR, _HALVED = 700.0, 40
"""Largest log of a scale of a class, and how often the range that it is sought in is halved."""
_ATOM = 1.0
"""Rows that are added to each attribute's distribution, spread over its atoms."""
_STEP, _LEAST_STEP = 0.3, 0.05
"""How far messages move in a round, at most and at least."""
_STEADY, _UNSTEADY, _GROW, _SHRINK, _CAUTION = 0.04, 0.07, 1.1, 0.7, 0.85
"""Steps grow or shrink by this much where classes move less or more in a round, as probabilities,
on average over rows: beyond .1 they swing ever farther. Each time, the largest step shrinks."""
_RECENT = 0.2
"""Weight of a round in what is taken to be probable: where beliefs swing, the mean is better."""
_PATIENCE = 40
"""Rounds without a gain until beliefs are taken to have settled."""
_LEAST = 1e-300
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

    def listen(self, beliefs: Beliefs, step: float) -> None:
        """Hear what rows believe, and move what is said to them a step further."""
        own, (without, with_) = (self.pieces, self.rows, beliefs, self.said), self.scales
        reach = np.zeros((len(self.rows), len(without)))
        heard = np.zeros_like(reach)
        kernels.reach_places(*own, reach)
        kernels.scale_places(self.pieces, self.b, without, reach)
        kernels.hear_counts(self.pieces, self.b, reach, heard)
        kernels.scale_places(self.pieces, self.b, with_, heard)
        kernels.hear_trees(*own, reach, heard, step)


def classes_by_leaves(
    evidence: KnownDraws, boxes: LeafBoxes, possible: BoolArray, mended: Mended, clock: Clock
) -> Guess | None:
    """Find classes that meet what whole trees count, by what every leaf counts.

    ``possible``, shape (n_rows, n_classes): of which classes rows may be. Returns the best guess
    when the time was up, or nothing better came for long; None if there was no time or no room for
    one.
    """
    n_classes, start = evidence.n.shape[1], np.append(0, np.cumsum(evidence.geometry.radix))
    shape = evidence.n_rows, n_classes, int(start[-1]) + 1
    # A test adds a piece, and each attribute one more and a position behind it.
    n_leaves = np.diff(evidence.geometry.leaf_start)[: len(evidence.draws)]
    n_said = np.count_nonzero(evidence.draws, axis=1) @ (n_leaves + 2 * len(start)) * n_classes
    if max(np.prod(shape, dtype=float), n_said) > _MOST:
        return None
    trees = [TreeFactor.of(evidence, boxes, t) for t in range(len(evidence.draws))]
    n, drawn = evidence.n.sum(axis=0), evidence.draws.sum(axis=0, dtype=np.int64)
    log_prior, atoms = _fitted(trees, n_classes, start, clock), np.zeros(shape)
    possible = possible | ~possible.any(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        prior = np.where(possible, np.log(n / n.sum()), -np.inf)
    best, before, probable, gainless, step, most = None, None, None, 0, _STEP, _STEP
    while not clock.stopped and gainless < _PATIENCE:
        label = prior.copy()
        beliefs = Beliefs(atoms, label)
        log_prior = _believe(trees, start, log_prior, beliefs)
        _balance(label, drawn, n)
        probable = label.copy() if probable is None else probable + _RECENT * (label - probable)
        guess = mended(probable)
        gainless += 1
        if best is None or guess[1] < best[1]:
            best, gainless = guess, 0
        if not best[1]:
            break
        if before is not None:
            moved = float(np.abs(label - before).max(axis=1).mean())
            step, most = _next(step, most, moved)
        before = label
        clock.tell("finding the classes of rows from what leaves count", 0.0, best[1])
        _listen(trees, beliefs, step, clock)
    return best


def compile_beliefs() -> None:
    """Compile what passes messages between rows and trees."""
    evidence, misses = smallest(), iter((1, 0))
    boxes, possible = LeafBoxes.of(evidence.geometry), np.ones((3, 1), dtype=bool)
    classes_by_leaves(
        evidence,
        boxes,
        possible,
        lambda probable: (probable.argmax(axis=1), next(misses)),
        Clock(np.inf),
    )


def _next(step: float, most: float, moved: float) -> tuple[float, float]:
    """Choose the next step, and the largest that there may be."""
    if moved > _UNSTEADY:
        return max(_SHRINK * step, _LEAST_STEP), max(_CAUTION * most, _LEAST_STEP)
    return (min(_GROW * step, most) if moved < _STEADY else step), most


def _balance(label: FloatArray, drawn: IntArray, n: IntArray) -> None:
    """Scale classes, one after the other, until they expect the draws that all trees count of them.

    ``drawn``, shape (n_rows,): how often all trees drew each row.
    """
    log = np.log(np.maximum(label, _LEAST))
    for _ in range(1 if len(n) == 2 else _BALANCED):
        for c in range(1, len(n)):
            others = logsumexp(np.delete(log, c, axis=1), axis=1)
            low, high = -_FAR, _FAR
            for _ in range(_HALVED):
                middle = (low + high) / 2
                few = drawn @ expit(log[:, c] + middle - others) < n[c]
                low, high = (middle, high) if few else (low, middle)
            log[:, c] += (low + high) / 2
    label[:] = softmax(log, axis=1)


def _listen(trees: list[TreeFactor], beliefs: Beliefs, step: float, clock: Clock) -> None:
    def some(own: list[TreeFactor]) -> None:
        for tree in own:
            if not clock.stopped:
                tree.listen(beliefs, step)

    run_all([partial(some, trees[i::THREADS]) for i in range(THREADS)])


def _believe(
    trees: list[TreeFactor], start: IntArray, log_prior: FloatArray, beliefs: Beliefs
) -> FloatArray:  # fmt: skip
    """Gather what trees said into beliefs; learn the distribution of all rows from these."""

    def some(own: int) -> FloatArray:
        mean = np.zeros_like(log_prior)
        beliefs.atoms[own::THREADS] = 0.0
        for tree in trees:
            among = np.flatnonzero(tree.rows % THREADS == own)
            kernels.gather(tree.pieces, tree.rows, among, tree.said, beliefs)
        rows = np.arange(own, len(beliefs.label), THREADS)
        kernels.believe(rows, start, log_prior, beliefs, mean)
        return mean

    mean = sum(run_all([partial(some, i) for i in range(THREADS)]))
    return _log(np.asarray(mean), start)


def _log(mean: FloatArray, start: IntArray) -> FloatArray:
    """Log of the share of each atom in its attribute, of each class."""
    out = mean.copy()
    for begin, end in pairwise(start):
        out[:, begin:end] += _ATOM / (end - begin)
        out[:, begin:end] /= out[:, begin:end].sum(axis=1, keepdims=True)
    return np.asarray(np.log(out))


def _fitted(trees: list[TreeFactor], n_classes: int, start: IntArray, clock: Clock) -> FloatArray:
    """Fit one distribution to the counts of all leaves, by expectation and maximisation."""
    out = _log(np.zeros((n_classes, int(start[-1]))), start)
    for _ in range(_FITTED):
        if clock.stopped:
            break
        prior = np.pad(np.exp(out).cumsum(axis=1), ((0, 0), (1, 0)))
        mean = np.zeros_like(out)
        for tree in trees:
            kernels.count_pieces(tree.pieces, prior, mean)
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
