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
from treeleak.attacks.consensus import finely_cut
from treeleak.attacks.known_draws.atom_intervals import restrict_to_domains
from treeleak.attacks.known_draws.classes import Classes, find_classes
from treeleak.attacks.known_draws.domains import Domains
from treeleak.attacks.large_grid.bayes_estimate import estimate_between_thresholds
from treeleak.attacks.large_grid.midpoint_constraints import say_more
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.run import Narrow, by_walking, unchanged
from treeleak.attacks.large_grid.walkers import Walker, WalkResult
from treeleak.core.arrays import IntArray
from treeleak.core.clock import Clock
from treeleak.core.decisions import MOST_SURE
from treeleak.evidence import KnownDraws
from treeleak.partition import GridTooLarge
from treeleak.partition.value_index import ValueIndex
from treeleak.schema import Numeric, Ordinal
from treeleak.side_information.side_information import KnownParts, SideInformation

_WALKERS = 2
"""Walks between thresholds, side by side."""
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


def rows_between(
    answer: Answer, evidence: KnownDraws, domains: Domains, side_info: SideInformation, clock: Clock
) -> Answer:
    """Let rows that meet every count walk on to where thresholds lie halfway between values.

    Rows that are proved stay in their leaves. Walks know of no rules between columns and of no
    population: there, rows stay, and where no column holds numbers.
    """
    if answer.status != "feasible" or domains.rules or side_info.population is not None:
        return answer
    parts = evidence.geometry.parts
    if not any(isinstance(part.attribute, (Numeric, Ordinal)) for part in parts):
        return answer
    with suppress(GridTooLarge), clock.cut_short():
        return _between(answer, evidence, domains, side_info.parts, clock)
    return answer


def _between(
    answer: Answer, evidence: KnownDraws, domains: Domains, parts: KnownParts | None, clock: Clock
) -> Answer:
    values, (rows,), far = answer.values, answer.rows, answer.expected_distance
    places = values.places(rows.values).astype(np.int32)
    label, known = places[:, -1].astype(np.int64), np.zeros(len(places), dtype=bool)
    constraints = RowConstraints.of_known(evidence, evidence.geometry, label, known, parts)
    if not say_more(constraints):
        return answer
    constraints = restrict_to_domains(constraints, domains, rows.proved, places[:, :-1])
    walkers = [Walker.started(constraints, k, places) for k in range(_WALKERS)]
    found = WalkResult.of(walkers, walkers[0], 0)
    moved = estimate_between_thresholds(found, values, constraints, clock, "rebuilding the rows")
    if moved is not None:
        nearer, far = moved
        nearer = _in_proved_places(nearer, rows, values, domains)
        # Cold walks are surer than they may be. By the counts alone, another value has at most
        # what the value before leaves.
        same = values.atom_of[nearer.values] == values.atom_of[rows.values]
        left = 1.0 - np.minimum(rows.confidence, MOST_SURE)
        sure = np.where(same, rows.confidence, left * nearer.confidence)
        fixed = None if rows.fixed is None else rows.fixed & same.all(axis=1)
        # In finely cut columns, from four to nine in ten of such values were right where 9.5 in ten
        # should have been: nothing is said of them (tables of statsmodels).
        sure = np.where(finely_cut(values) & (sure < 1.0), np.nan, sure)
        rows = replace(rows, values=nearer.values, confidence=sure, fixed=fixed)
    rows = _within_leaves(rows, values, constraints)
    return replace(answer, rows=(rows,), expected_distance=far)


def _in_proved_places(nearer: Rows, rows: Rows, values: ValueIndex, domains: Domains) -> Rows:
    """Leave proved rows where they are, if a tree that did not draw them would see them move."""
    if domains.sums is None:
        return nearer
    geometry = domains.evidence.geometry
    before, after = (
        geometry.trace_atoms(values.places(own.values)[:, :-1]) for own in (rows, nearer)
    )
    stays = rows.proved & (before != after).any(axis=1)
    return replace(nearer, values=np.where(stays[:, None], rows.values, nearer.values))


def _within_leaves(rows: Rows, values: ValueIndex, constraints: RowConstraints) -> Rows:
    """Say how often other datasets that meet the counts have a value where a row's leaves leave it.

    Rows stay as they are if no other datasets are known.
    """
    if rows.worlds is None:
        return rows
    atoms = np.ascontiguousarray(values.places(rows.values)[:, :-1], dtype=np.int32)
    low, high = constraints.masks.around(atoms, constraints.draws > 0)
    others = rows.worlds[..., :-1] - values.atom_start[:-2]
    there = ((others >= low) & (others <= high)).sum(axis=0)
    within = np.column_stack([(there + 1) / (len(others) + 1), rows.confidence[:, -1]])
    return replace(rows, within=np.where(rows.proved[:, None], 1.0, within))


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
