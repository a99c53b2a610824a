"""The attack on known draws: every row comes back in its place.

Bounds on the equations leave each row few candidates, and often one. Maximum entropy over those
left over is smooth and convex; as soon as its likeliest assignment meets every count, its
multipliers prove that there is no other. Where it stays undecided, the reaction of the counts to
each row is turned on step by step, each step a convex fit again; what is nearly right is then
repaired: the rows at which counts are missed are opened, the others held, and the small problem
that is left goes through the same mill.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.answer import Answer, Rows, status_of
from treeleak.attacks.consensus import distance_from_worlds
from treeleak.attacks.known_draws.candidates import RowProblem, Unmet
from treeleak.attacks.known_draws.domains import Domains
from treeleak.attacks.known_draws.listing import Listing, compile_loops, listed
from treeleak.attacks.known_draws.posterior_of_assignments import (
    posterior_of_assignments,
    seconds_needed,
)
from treeleak.attacks.known_draws.rows_from_marginals import Places, rows_from_marginals, sampled
from treeleak.attacks.known_draws.schedule import SCHEDULE
from treeleak.attacks.known_draws.search import moved_to_expected, search, typical
from treeleak.attacks.known_draws.walking import rows_walked, weighed_within_leaves
from treeleak.attacks.large_grid.bayes_estimate import unweighed
from treeleak.attacks.large_grid.run import refuse_rules, refuse_unlisted
from treeleak.core.arrays import BoolArray, FloatArray, IntArray, bits_set
from treeleak.core.clock import Clock, OutOfTime
from treeleak.core.decisions import TINY
from treeleak.core.errors import NotCovered, TimeUp
from treeleak.core.text import bounded
from treeleak.evidence import Contradiction, KnownDraws, Pairs
from treeleak.partition import Geometry, GridTooLarge, enumerate_drawable, enumeration_tick
from treeleak.partition.value_index import ValueIndex, values_in
from treeleak.side_information.density import Density
from treeleak.side_information.side_information import NOTHING, SideInformation


def known_draws(
    evidence: KnownDraws,
    geometry: Geometry,
    clock: Clock,
    seed: int,
    side_info: SideInformation = NOTHING,
) -> Answer:
    """Rebuild the rows behind counts whose draws are known, in their order.

    An :data:`~treeleak.attacks.Attack`. Of known parts, it takes only those that stand in the
    geometry as a tree of their own.

    Returns
    -------
    Answer
        With one :class:`Rows`, whose row k is row k of the training set: "unique" where proved,
        "feasible" where every count is met, "likely" with rows between datasets of which one does,
        "infeasible" with the place of the contradiction, "unknown" with the best rows so far when
        the time was up, none if there were none yet.
    """
    side_info.check(geometry)
    values = values_in(geometry)
    if (clash := evidence.contradiction()) is not None:
        return Answer("infeasible", values, contradiction=clash)

    numbers: dict[str, Any] = {"grid_points": bounded(geometry.n_points)}
    try:
        try:
            return _listed(evidence, geometry, values, side_info, numbers, clock, seed)
        except GridTooLarge as why:
            return _unlisted(evidence, geometry, values, side_info, numbers, str(why), clock, seed)
    except OutOfTime:
        return Answer("unknown", values, numbers=numbers)
    except Unmet as unmet:
        clash = _located(evidence, geometry, unmet)
        return Answer("infeasible", values, contradiction=clash, numbers=numbers)


def _listed(
    evidence: KnownDraws, geometry: Geometry, values: ValueIndex,
    side_info: SideInformation, numbers: dict[str, Any], clock: Clock, seed: int,
) -> Answer:  # fmt: skip
    """Rebuild the rows where all cells can be listed."""
    group = None if side_info.parts is None else side_info.parts.group
    tick = enumeration_tick(geometry, clock)
    partition = enumerate_drawable(geometry, evidence.row_sets(group), tick)
    pairs = Pairs.of(partition)
    numbers |= {"live_points": len(partition.points), "cells": partition.n_cells}
    clock.report_progress("narrowing the candidates of each row", 0.0)
    problem = RowProblem.of(evidence, partition, pairs, group).narrowed(clock)
    numbers |= {
        "equations": int((evidence.n > 0).sum()),
        "open_candidates": len(problem.column),
        "open_rows": problem.n_open,
        "rows_never_drawn": int((~evidence.drawn).sum()),
    }
    return _answer(problem, pairs, geometry, values, side_info, numbers, clock, seed)


def _answer(
    problem: RowProblem, pairs: Pairs, places: Places, values: ValueIndex,
    side_info: SideInformation, numbers: dict[str, Any], clock: Clock, seed: int,
) -> Answer:  # fmt: skip
    """Choose a candidate of every row, and write the rows."""
    prior = side_info.density(problem.evidence.geometry, seed)
    n_rows = problem.evidence.n_rows
    expected = None if prior is None else _expected(prior, pairs, places, n_rows)
    last = SCHEDULE.chains_share * clock.left
    # Walks know nothing of sums over the trees that did not draw a row, nor of leaves of rows.
    walks = (
        isinstance(places, Geometry)
        and side_info.parts is None
        and not problem.evidence.out_of_bag
        and problem.evidence.row_leaves is None
        and seconds_needed(n_rows) <= last
    )
    brief = SCHEDULE.brief_share * clock.left if walks else None
    part = clock.part(SCHEDULE.search_share * clock.left) if walks else clock
    found = search(problem, expected, part, seed, brief)
    if walks and not clock.interrupted and found.proved.mean() < SCHEDULE.proved_enough:
        rows = rows_from_marginals(
            found.pair, found.proved, *found.marginals, pairs, places, values, prior
        )
        sub_clock = clock.part(min(last, clock.left))
        several = None
        with suppress(NotCovered), sub_clock.cut_short():
            several = posterior_of_assignments(
                problem.evidence, pairs, values, side_info, found, rows, sub_clock, seed
            )
        if several is not None:
            return replace(several, numbers=numbers | several.numbers)
    with clock.cut_short():
        if not found.misfit and not found.proved.all():
            found = typical(problem, found, expected, pairs, places, values, clock, seed)
        if expected is not None:
            found = moved_to_expected(problem, found, expected)
    clock.extend_grace(SCHEDULE.late_writing)
    numbers["rows_left_open"] = int(found.left_open.sum())
    if isinstance(places, Listing):
        proved = places.proved(found.pair, found.proved)
        numbers["rows_left_open"] += int((found.proved & ~proved).sum())
        found = replace(found, proved=proved)
    marginals = sampled(*found.marginals) if clock.stopped else found.marginals
    rows = rows_from_marginals(found.pair, found.proved, *marginals, pairs, places, values, prior)
    rows = replace(rows, misfit=found.misfit)
    # Worlds do not know of a population which of the values that no tree tells apart are likely.
    far = distance_from_worlds(rows, values, clock, seed) if prior is None else None
    return Answer(
        status_of([rows]), values, (rows,), numbers=numbers, ordered=True, expected_distance=far
    )


def _unlisted(
    evidence: KnownDraws, geometry: Geometry, values: ValueIndex,
    side_info: SideInformation, numbers: dict[str, Any], why: str, clock: Clock, seed: int,
) -> Answer:  # fmt: skip
    """Rebuild the rows where the grid is too large to list.

    Where the leaves of all rows can be narrowed down to few candidates, these are all that there
    are, and everything else is as on a grid that is listed. Else the rows walk.
    """
    refuse_rules(geometry)
    try:
        clock.untimed(compile_loops)
        domains = Domains.of(evidence, None if side_info.parts is None else side_info.parts.group)
    except GridTooLarge:
        refuse_unlisted(geometry, side_info)
        walked = rows_walked(evidence, values, side_info, None, why, clock, seed)
        return replace(walked, numbers={**numbers, **walked.numbers})
    cells, best, far = f"generated: {why}", None, None
    clock.report_progress(domains.look, 0.0)
    with suppress(OutOfTime, TimeUp):
        listing = _candidates(domains, numbers, clock)
        if listing.complete.all():
            problem = listing.problem.narrowed(clock)
            numbers |= {"open_candidates": len(problem.column), "open_rows": problem.n_open}
            answer = _answer(
                problem, listing.pairs, listing, values, side_info, numbers, clock, seed
            )
            answer = weighed_within_leaves(answer, evidence, side_info, clock)
            return replace(answer, cells=cells)
        refuse_unlisted(geometry, side_info)
        # Where rows cannot begin to walk in what is left of the time, those at hand are the answer.
        to_begin = SCHEDULE.walk_seconds * evidence.n_rows * len(evidence.n)
        if domains.boxes.compared and clock.left > to_begin:
            walked = rows_walked(evidence, values, side_info, domains, why, clock, seed)
            walked = weighed_within_leaves(walked, evidence, side_info, clock)
            numbers |= walked.numbers
            best, far = walked.rows[0], walked.expected_distance
            with suppress(GridTooLarge):
                best = proved_of(best, domains, values)
    clock.extend_grace(SCHEDULE.late_writing)
    if best is None or best.misfit:
        at_hand = fallback_rows(domains, values)
        if best is None or at_hand.misfit < best.misfit:
            best, far = at_hand, None
    return Answer(
        status_of([best]), values, (best,), numbers=numbers, ordered=True, expected_distance=far,
        cells=cells,
    )  # fmt: skip


def _candidates(domains: Domains, numbers: dict[str, Any], clock: Clock) -> Listing:
    """Narrow the leaves of rows, and list the candidates of those that have few."""
    share = SCHEDULE.promising_share if domains.promising else SCHEDULE.domains_share
    share = share if domains.boxes.compared else SCHEDULE.uncompared_share
    n_places = domains.evidence.n_rows * len(domains.evidence.draws)
    last = clock.left - min(SCHEDULE.fallback_seconds * n_places, clock.left / 2)
    listing = listed(domains, clock.part(min(share * clock.left, last)))
    drawn = domains.evidence.drawn
    numbers |= {
        "settled_rows": int((drawn & (domains.open_leaves == 0)).sum()),
        "listed_rows": int((listing.complete & drawn).sum()),
        "rows_never_drawn": int((~drawn).sum()),
    }
    return listing


def _expected(prior: Density, pairs: Pairs, places: Places, n_rows: int) -> FloatArray:
    """Rows to expect in each pair, going by the population alone."""
    if isinstance(places, Listing):
        ends = places.places.min(axis=0), places.places.max(axis=0)
        share = np.exp(prior.log_boxes(*ends, places.label))
    else:
        points = np.exp(prior.log_prior(pairs.points, pairs.label))
        share = np.bincount(pairs.pair, points, minlength=len(pairs.cell))
    return np.asarray(np.maximum(n_rows * share, TINY))


def _located(evidence: KnownDraws, geometry: Geometry, unmet: Unmet) -> Contradiction:
    if unmet.equation < 0:
        why = "no rows under this schema meet the counts of all trees, given these draws"
        return Contradiction(0, 0, why)
    row, label = divmod(unmet.equation, evidence.n.shape[1])
    names = geometry.release.classes
    n, what = evidence.n[row, label], f"draws of class {names[label]!r}" if names else "draws"
    if unmet.whole:
        n, what = evidence.n[row].sum(), "draws"
    if evidence.d is not None:
        what += f" and {evidence.d[row]} distinct rows"
    why = (
        f"no rows under this schema put {n} {what} there, given the draws, "
        "and meet the counts of the other trees"
    )
    return Contradiction(*geometry.leaf_of_row(row), why)


def fallback_rows(domains: Domains, values: ValueIndex) -> Rows:
    """Put each row where its leaves allow it, whether the counts are met or not.

    Rows of which one leaf is left in every tree are proved, as far as all that these leaves admit
    lies in one leaf of every other tree.
    """
    evidence, boxes = domains.evidence, domains.boxes
    drawn = evidence.drawn
    rows = np.flatnonzero(drawn)
    label = bits_set(domains.bits).argmax(axis=1)
    chosen_leaf = domains.chosen(label)[rows]
    # A leaf more than once changes nothing of what all of them admit.
    places = boxes.common(
        np.where(chosen_leaf >= 0, chosen_leaf, chosen_leaf.max(axis=1, keepdims=True))
    )[1]
    atoms = np.zeros((evidence.n_rows, places.shape[1] + 1), dtype=np.int64)
    atoms[rows] = np.column_stack([places, label[rows]])
    for a, column in enumerate(atoms[rows].T):
        atoms[~drawn, a] = np.bincount(column).argmax()
    leaf = evidence.geometry.trace_atoms(atoms[:, :-1])
    out = unweighed(atoms + values.atom_start[:-1], _misfit(domains, leaf, atoms[:, -1]), values)
    return replace(out, proved=_proved(domains, leaf))


def proved_of(walked: Rows, domains: Domains, values: ValueIndex) -> Rows:
    """Say which rows that walked are proved: those that stand where one leaf was left of all trees.

    Raises GridTooLarge if that takes too large a table.
    """
    atoms = values.places(walked.values)
    label = atoms[:, -1]
    leaf = domains.evidence.geometry.trace_atoms(atoms[:, :-1])
    closed = domains.closed(label, np.zeros(len(label), dtype=bool))
    outside = np.take_along_axis(closed, leaf.astype(np.int64), axis=1) & (domains.draws.T > 0)
    return replace(walked, proved=_proved(domains, leaf) & ~outside.any(axis=1))


def _proved(domains: Domains, leaf: NDArray[np.int32]) -> BoolArray:
    """Which rows, in some leaves, are proved if these are the ones that are left."""
    decided = domains.evidence.drawn & (domains.open_leaves == 0) & domains.classes.any(axis=1)
    out = np.zeros(len(decided), dtype=bool)
    drew = domains.draws.T[decided] > 0
    if domains.sums is not None:
        # The leaves of the others are not what rows were placed by.
        drew &= ~domains.sums.beside.T[decided]
    out[decided] = domains.boxes.within_one(leaf[decided], drew)
    return out


def _misfit(domains: Domains, leaf: NDArray[np.int32], label: IntArray) -> int:
    """Sum up by how much leaves miss their draws, and their distinct rows if these are counted."""
    evidence = domains.evidence
    n, d = np.zeros_like(evidence.n), np.zeros(len(evidence.n), dtype=np.int64)
    for t, b in enumerate(evidence.draws):
        np.add.at(n, (leaf[:, t], label), b)
        np.add.at(d, leaf[:, t], b > 0)
    missed = np.abs(n - evidence.n).sum()
    return int(missed if evidence.d is None else missed + np.abs(d - evidence.d).sum())
