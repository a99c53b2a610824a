"""Classes of rows, and where rows lie, from what every leaf counts; draws are known.

Classes come out where whole trees do not suffice. Walks over the grid that begin at the places
believed here come to several times as many right leaves as from anywhere.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logsumexp, softmax

from treeleak.attacks.known_draws.classes import Guess, Mended
from treeleak.attacks.known_draws.leaf_beliefs import LeafBeliefs
from treeleak.attacks.known_draws.leaf_boxes import LeafBoxes
from treeleak.attacks.known_draws.listing import smallest
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import Clock

_BALANCED = 5
"""Rounds in which the shares of classes are fitted."""
_FAR, _HALVED = 700.0, 40
"""Largest log of a scale of a class, and how often the range that it is sought in is halved."""
_STEP, _LEAST_STEP = 0.3, 0.05
"""How far messages move in a round, at most and at least."""
_STEADY, _UNSTEADY, _GROW, _SHRINK, _CAUTION = 0.04, 0.07, 1.1, 0.7, 0.85
"""Steps grow or shrink by this much where classes move less or more in a round, as probabilities,
on average over rows: beyond .1 they swing ever farther. Each time, the largest step shrinks."""
_RECENT = 0.2
"""Weight of a round in what is taken to be probable: where beliefs swing, the mean is better."""
_PATIENCE = 40
"""Rounds without a gain until beliefs are taken to have settled."""
_HEEDED = 0.75
"""Share of what trees say of places that is heeded, for what they say overlaps: with all of it,
beliefs are too sure, and swing. With all of it, classes are found sooner."""
_SWINGING = 1.1
"""How much farther places move than in the round before, where beliefs swing: the step shrinks."""
_COUNTS = 10
"""Rounds in which counts are heard alone, until it is known about where rows lie. Thresholds are
then heard in every other round."""
_ROUNDS, _MOVED = 60, 0.01
"""Rounds at most, and how far attributes move at least in a round of full steps, as probabilities,
on average, until beliefs are taken to have settled."""
_LEAST = 1e-300


def classes_by_leaves(beliefs: LeafBeliefs, mended: Mended, clock: Clock) -> Guess | None:
    """Find classes that meet what whole trees count, by what every leaf counts.

    Returns the best guess when the time was up, or nothing better came for long; None if there was
    no time for one.
    """
    best, before, probable, gainless, step, most = None, None, None, 0, _STEP, _STEP
    while not clock.stopped and gainless < _PATIENCE:
        beliefs.believe()
        label = _balanced(beliefs.classes, beliefs.drawn, beliefs.n)
        beliefs.weigh(label)
        probable = label if probable is None else probable + _RECENT * (label - probable)
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
        clock.report_progress("finding the classes of rows from what leaves count", 0.0, best[1])
        beliefs.listen(step, 1.0, clock)
    return best


def places_by_leaves(beliefs: LeafBeliefs, clock: Clock) -> FloatArray:
    """How probable the atoms of each row's attributes are, by what every leaf counts.

    Goes on from what was heard before. Returns an array of shape (n_rows, n_atoms).
    """
    beliefs.believe()
    atoms, step, last = beliefs.atoms, _STEP, np.inf
    every = 2 * len(atoms) * (len(beliefs.start) - 1)
    for r in range(_ROUNDS):
        if clock.stopped:
            break
        clock.report_progress("finding where rows lie from what leaves count", r / _ROUNDS)
        use_midpoints = r >= _COUNTS and r % 2 == 0
        beliefs.listen(step, _HEEDED, clock, atoms if use_midpoints else None)
        beliefs.believe()
        before, atoms = atoms, beliefs.atoms
        moved = float(np.abs(atoms - before).sum()) / every
        if use_midpoints:
            continue
        if moved < _MOVED * step:
            break
        if moved > _SWINGING * last:
            step = max(_SHRINK * step, _LEAST_STEP)
        last = moved
    return atoms


def compile_beliefs() -> None:
    """Compile what passes messages between rows and trees."""
    evidence, misses = smallest(), iter((1, 0))
    boxes, possible = LeafBoxes.of(evidence.geometry), np.ones((3, 1), dtype=bool)
    beliefs = LeafBeliefs.of(evidence, boxes, None, possible, Clock(np.inf))
    beliefs.listen(0.0, 1.0, Clock(np.inf), beliefs.atoms)
    classes_by_leaves(
        beliefs, lambda probable: (probable.argmax(axis=1), next(misses)), Clock(np.inf)
    )


def _next(step: float, most: float, moved: float) -> tuple[float, float]:
    """Choose the next step, and the largest that there may be."""
    if moved > _UNSTEADY:
        return max(_SHRINK * step, _LEAST_STEP), max(_CAUTION * most, _LEAST_STEP)
    return (min(_GROW * step, most) if moved < _STEADY else step), most


def _balanced(label: FloatArray, drawn: IntArray, n: IntArray) -> FloatArray:
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
    return np.asarray(softmax(log, axis=1))
