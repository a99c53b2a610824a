"""Rows that walk, where leaves cannot be narrowed down to few candidates.

Classes come first, for walks cannot meet the counts with wrong ones. Rows then walk within what is
left of their leaves.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np

from treeleak.attacks.answer import Answer, Rows
from treeleak.attacks.known_draws.atom_intervals import restrict_to_domains
from treeleak.attacks.known_draws.classes import Classes, find_classes
from treeleak.attacks.known_draws.domains import Domains
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.run import Narrow, by_walking, unchanged
from treeleak.core.arrays import IntArray
from treeleak.core.clock import Clock
from treeleak.core.decisions import MOST_SURE
from treeleak.evidence import KnownDraws
from treeleak.partition import GridTooLarge
from treeleak.partition.value_index import ValueIndex
from treeleak.side_information.side_information import KnownParts, SideInformation

_FEWER, _KEPT = 6, 0.7
"""How often fewer leaves are assumed where they contradict each other, and which share is kept."""
_LABELS = 0.2
"""Share of the time for classes alone, where the grid is too large to list, and for what follows
from them."""


def rows_walked(
    evidence: KnownDraws, values: ValueIndex, side_info: SideInformation,
    domains: Domains | None, why: str, clock: Clock, seed: int,
) -> Answer:  # fmt: skip
    """Let rows walk, where they may lie."""
    classes = classes_of(evidence, side_info.parts, domains, clock, seed)
    # What walks come to is worse than a guess, where only one choice of classes meets all.
    open_label = ~classes.sure & evidence.drawn & (not classes.guessed)
    constraints = RowConstraints.of_known(
        evidence, evidence.geometry, classes.label, open_label, side_info.parts
    )
    narrow: Narrow = unchanged
    if domains is not None:
        with suppress(GridTooLarge):
            domains = _of_classes(domains, classes, clock.part(_LABELS * clock.left))
            constraints = restrict_to_domains(constraints, domains)
            narrow = partial(_assumed, domains)
    answer = by_walking(constraints, values, clock, seed, why, narrow=narrow)
    return replace(answer, rows=tuple(_with_classes(rows, classes) for rows in answer.rows))


def _with_classes(rows: Rows, classes: Classes) -> Rows:
    """Say that classes are certain which no other choice of classes can be, whatever rows miss.

    Other values of rows that walked are not, whatever is believed of them.
    """
    confidence = np.minimum(rows.confidence, MOST_SURE)
    confidence[classes.sure, -1] = MOST_SURE
    return replace(rows, confidence=confidence)


def _of_classes(domains: Domains, classes: Classes, clock: Clock) -> Domains:
    """Narrow the leaves of rows whose class is as good as certain."""
    other = domains.classes & classes.sure[:, None]
    other[np.arange(len(other)), classes.label] = False
    if not other.any():
        return domains
    narrowed = domains.copied()
    narrowed.bits[other] = 0
    return domains if narrowed.narrow(clock, np.asarray(other.any(axis=1))) >= 0 else narrowed


def _assumed(
    domains: Domains, constraints: RowConstraints, leaves: IntArray, clock: Clock
) -> RowConstraints | None:
    """Hold rows to what follows if they lie in some leaves; if these contradict each other, fewer.

    ``leaves``, shape (n_rows, n_trees): rows of A; -1 where nothing is assumed.
    """
    rng = np.random.default_rng(0)
    for _ in range(_FEWER):
        assumed = domains.assuming(leaves)
        some = np.asarray((leaves >= 0).any(axis=1))
        if (
            assumed.narrow(clock, some) < 0
            and assumed.classes[assumed.evidence.drawn].any(axis=1).all()
        ):
            return restrict_to_domains(constraints, assumed)
        leaves = np.where(rng.random(leaves.shape) < _KEPT, leaves, -1)
    return None


def classes_of(
    evidence: KnownDraws, parts: KnownParts | None, domains: Domains | None, clock: Clock, seed: int
) -> Classes:
    """Find the classes of the rows: known, proved, or from what whole trees count."""
    drawn, n_classes = evidence.drawn, evidence.n.shape[1]
    possible = np.ones((len(drawn), n_classes), dtype=bool)
    if domains is not None:
        possible = domains.classes | ~drawn[:, None]
    if parts is not None:
        possible &= parts.allowed[:, -n_classes:][parts.group]
    if (possible.sum(axis=1) == 1)[drawn].all():
        return Classes(possible.argmax(axis=1), drawn)
    return find_classes(evidence, possible, clock.part(_LABELS * clock.left), seed)
