"""The attack on sums of the loss where it is known which rows each tree drew.

Rows are numbered by their draws: row k counts in the trees that drew it, and nowhere else. The
likeliest kind of each row, at maximum entropy, meets all sums where these tell the rows apart; what
is nearly right is repaired row by row.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from treeleak.attacks.answer import Answer, Rows, Status
from treeleak.attacks.known_draws.leaf_sums import Singles
from treeleak.attacks.known_draws.particles import by_particles
from treeleak.attacks.known_draws.rows_from_marginals import Marginals, rows_from_marginals
from treeleak.attacks.known_draws.sums_dual import Candidates, Dual, Look
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock, OutOfTime
from treeleak.core.parallel import Pool
from treeleak.core.private import dataclass
from treeleak.core.text import bounded
from treeleak.evidence import DrawnLossSums, Pairs
from treeleak.partition import (
    Geometry,
    GridTooLarge,
    Partition,
    enumerate_cells,
    enumeration_tick,
)
from treeleak.partition.value_index import ValueIndex, values_in
from treeleak.side_information.side_information import NOTHING, SideInformation

_STAGE, _FIRST, _MEMORY = 20, 6, 20
"""Evaluations after which multipliers are measured anew; in the first stage, of all cells for all
rows, which take longest; and steps that L-BFGS remembers."""
_DROPPED, _CHEAP = 0.003, 5e8
"""Rows expected, in all, among the kinds that are left out between two stages: maximum entropy
knows how sure it is, and a row whose kind is lost keeps all others from fitting. No cells go where
a look at those that stay takes fewer products than this, some hundredths of a second. Of .1, .03,
.01 and .003, the first two lose rows of ``randhie`` (statsmodels, 300 rows); .001 takes longer."""
_BROKEN = -1.0
"""Value of the dual that shows, beyond rounding, that no rows of these cells meet the sums."""
_LEVEL, _LEVEL_AMONG = 0.3, 0.1
"""Share of the dual's value by which a stage must lower it, or sums begin to react: where all kinds
are looked at, and where few are, which takes a tenth of the time. With .1 for both, no row more is
in its place, but two to three times as late (``fair`` of statsmodels, 300 and 700 rows)."""
_REACTIONS, _PATIENCE, _DAMPING = 60, 12, 0.5
"""How often the reaction of the sums is worked out, at most, and how often without fewer missed
statements; and the share of the last one that stays."""
_MOST_CANDIDATES = 2**23
"""Most candidates of all rows."""
_TRUSTED = 0.5, 1.0, 1.5
"""Shares of the leaves that the median row meets: rows that meet as many fit."""
_TRIED, _MANY = 256, 0.1
"""Pairs of rows that are tried in each other's place, and by what share of what the trees say that
drew one of them an exchange has to be right: by chance, fewer statements are."""
_DISPLACED = 4.0
"""Trees in which a row is expected to meet what its leaf says, of which it does in none: e**-4 is
how likely that is by chance."""
_MOST_EXCHANGED = 512
"""Rows, those that meet least, any two of which may be exchanged: a second for all pairs."""
_CANDIDATE = 1e-3
"""Least probability of a cell for a row that is written down."""
_MOST_MOVES, _NO_GAIN = 100, 1e-3
"""Rows that are moved, at most, and what is no gain, in usual variances of sums."""
_WORK = 5e8
"""Most products in one evaluation, for each second there is: at 1.5e10 a second, the first stage
then takes a fifth of the time. Where there are more, particles come further."""
_MOST_HELD = 2**27
"""Most numbers that say what rows of cells count: 512 MiB, held up to three times."""
_AT_ONCE = 2**24
"""Pairs of a row and a cell that are looked at together: 64 MiB."""
_TO_WRITE = 0.1
"""Share of the time for writing rows."""


def drawn_sums(
    evidence: DrawnLossSums,
    geometry: Geometry,
    clock: Clock,
    seed: int,
    side_info: SideInformation = NOTHING,
) -> Answer:
    """Rebuild the rows behind sums of the loss whose draws are known, in their order.

    An :data:`~treeleak.attacks.Attack`. Where cells cannot be listed, particles stand for them.

    Returns
    -------
    Answer
        With one :class:`Rows`, whose row k is row k of the training set: "feasible" where every
        statement is met, "infeasible" with the place of the contradiction, "unknown" with the best
        rows so far otherwise.

    Raises
    ------
    GridTooLarge
        Where cells cannot be listed, or are too many to score for all rows, and particles cannot
        follow the model either.
    """
    side_info.refuse("the attack on sums of the loss over drawn rows")
    values = values_in(geometry)
    if (clash := evidence.contradiction()) is not None:
        return Answer("infeasible", values, contradiction=clash)
    try:
        tick = enumeration_tick(geometry, clock)
        partition = enumerate_cells(geometry, evidence.open_leaves(), tick)
    except OutOfTime:
        return Answer("unknown", values)
    except GridTooLarge as why:
        return by_particles(evidence, values, clock, seed, str(why))
    held = partition.n_cells * geometry.release.n_classes * len(evidence.draws)
    work = held * evidence.n_rows
    if work > _WORK * clock.left or held * len(evidence.statements()) > _MOST_HELD:
        too_many = (
            f"{partition.n_cells:,} cells of {evidence.n_rows:,} rows in "
            f"{len(evidence.draws):,} trees: {work:.0e} products for each look at all of them"
        )
        return by_particles(evidence, values, clock, seed, too_many)
    whole, seen = Dual.of(evidence, partition), list[_Fit]()
    part = clock.part((1.0 - _TO_WRITE) * clock.left)
    with clock.cut_short():
        _fitted(whole, part, seen)
    if not seen:
        return Answer("unknown", values)
    with clock.cut_short():
        last = seen[-1]
        if last.missed and not part.stopped and last.value >= _BROKEN:
            dual, x = last.dual, last.multipliers
            likely = dual.likely(x, _DROPPED, _MOST_CANDIDATES)[0]
            _sharpened(replace(last, dual=dual.among(likely)), part, seen)
    found = seen[0]
    with clock.cut_short():
        level = 0
        while found.missed and not part.stopped and level < len(_TRUSTED):
            again = _again(found, whole, _TRUSTED[level], part)
            level = 0 if again.missed < found.missed else level + 1
            found = min(found, again, key=lambda fit: fit.missed)
        found = _repaired(found, part)
    rows = _written(found, evidence, partition, values)
    clock.report_progress("rebuilding the rows", 1.0, rows.misfit)
    numbers = {
        "grid_points": bounded(geometry.n_points),
        "cells": partition.n_cells,
        "statements": sum(len(constraints.right) for constraints in evidence.statements()),
        "rounds": found.evaluations,
        "rows_never_drawn": int((~evidence.draws.any(axis=0)).sum()),
    }
    status: Status = "unknown" if rows.misfit else "feasible"
    return Answer(status, values, (rows,), numbers=numbers, ordered=True)


@dataclass(frozen=True, eq=False)
class _Fit:
    """Where the fit stands."""

    dual: Dual
    value: float
    best: IntArray
    """Shape (n_rows,). Likeliest kind of each row, as in :class:`Look`."""
    missed: int
    """Statements that these miss."""
    multipliers: FloatArray
    evaluations: int


class _Done(Exception):
    pass


def _fitted(
    dual: Dual,
    clock: Clock,
    seen: list[_Fit],
) -> None:
    """Fit in stages; between them, multipliers are measured anew, and what is unlikely goes.

    ``seen``: see :func:`_note`.
    """
    n, values = 0, [np.inf]
    with Pool() as pool:
        x = np.zeros(len(dual.right)) if dual.candidates else _together(dual, clock, pool)
        while True:
            every = dual.candidates is None
            most, least = (_STAGE if n else _FIRST, _LEVEL) if every else (_STAGE, _LEVEL_AMONG)
            x, look, more = _stage(dual, x, clock, pool, most)
            n += more
            missed = _missed(dual, look.best)
            _note(_Fit(dual, look.value, look.best, missed, x, n), seen, clock)
            values.append(look.value)
            left = min(max(look.value, 0.0) / max(values[1], 1.0), 1.0)
            clock.report_progress("fitting the sums of all trees", 0.5 * (1.0 - left), missed)
            # Below 0 there is rounding, or no rows that meet the sums.
            level = look.value > (1.0 - least) * values[-2] or values[-2] <= 0.0
            if not missed or clock.stopped or look.value < _BROKEN or level:
                return
            if every:
                mass = look.mass.reshape(dual.n_classes, -1).sum(axis=0)
                order = np.argsort(mass)
                cheap = int(_CHEAP / (dual.n_classes * dual.draws.size))
                some = order[: max(len(order) - cheap, 0)]
                drop = some[np.cumsum(mass[some]) <= _DROPPED]
                dual = dual.only(np.bincount(drop, minlength=len(mass)) == 0)
            else:
                dual = dual.among(dual.likely(x, _DROPPED, _MOST_CANDIDATES, pool)[0])


def _together(dual: Dual, clock: Clock, pool: Pool) -> FloatArray:
    """Fit one row that stands for all, drawn as often as their mean: multipliers to begin with.

    What leaves say is of the rows that were drawn, and off what is expected of the mean by the
    variance of draws: by this, as a normal law of these sums, multipliers are kept small.
    """
    one = dual.averaged()
    not_drawn = 1.0 - float(one.draws.mean())
    return _stage(one, np.zeros(len(one.right)), clock, pool, _STAGE, not_drawn)[0]


def _stage(
    dual: Dual, x: FloatArray, clock: Clock, pool: Pool, most: int = _STAGE, ridge: float = 0.0
) -> tuple[FloatArray, Look, int]:
    """Go down the dual for some evaluations; where it ends, and how many there were.

    ``ridge``: share of its variance by which what a leaf says is off.
    """
    coordinates, latest, n = dual.coordinates(x, pool), list[tuple[FloatArray, Look]](), 0
    variance = ridge / coordinates.alone**2

    def evaluate(y: FloatArray) -> tuple[float, FloatArray]:
        nonlocal n
        multipliers = coordinates.multipliers(y)
        look = dual.look(multipliers, pool)
        n += 1
        latest[:] = [(multipliers, look)]
        value = look.value + 0.5 * float((variance * multipliers) @ multipliers)
        broken = dual.candidates is None and value < _BROKEN
        if n >= most or clock.stopped or broken:
            raise _Done
        off = look.expected - dual.right + variance * multipliers
        return value, coordinates.gradient(off)

    options: Any = {
        "maxcor": _MEMORY, "maxfun": 10**6, "maxiter": 10**6, "ftol": 0.0, "gtol": 1e-9,
    }  # fmt: skip
    start = coordinates.from_multipliers(x)
    with suppress(_Done):
        minimize(evaluate, start, jac=True, method="L-BFGS-B", options=options)
    return *latest[0], n


def _sharpened(found: _Fit, clock: Clock, seen: list[_Fit]) -> None:
    """Add the reaction of the sums to each row, and fit again, until nothing more is gained."""
    dual, x, n = found.dual, found.multipliers, found.evaluations
    since, least = 0, found.missed
    with Pool() as pool:
        for step in range(_REACTIONS):
            reaction = dual.reaction(x, pool)
            if step:
                reaction = _DAMPING * dual.listed.reaction + (1.0 - _DAMPING) * reaction
            dual = replace(dual, candidates=replace(dual.listed, reaction=reaction))
            x, look, more = _stage(dual, x, clock, pool)
            n += more
            missed = _missed(dual, look.best)
            _note(_Fit(dual, look.value, look.best, missed, x, n), seen, clock)
            done = (step + 1) / _REACTIONS
            clock.report_progress("telling rows apart", 0.5 + 0.4 * done, missed)
            since, least = (0, missed) if missed < least else (since + 1, least)
            if not missed or clock.stopped or look.value < _BROKEN or since >= _PATIENCE:
                return
            dual = dual.among(dual.likely(x, _DROPPED, _MOST_CANDIDATES, pool)[0])


def _note(fit: _Fit, seen: list[_Fit], clock: Clock) -> None:
    """Keep the fit that misses least, first, and the last one: each may hold scores of all rows."""
    clock.record(fit.missed)
    seen[:] = [min([fit, *seen[:1]], key=lambda each: each.missed), fit]


def _missed(dual: Dual, best: IntArray) -> int:
    """How many statements the likeliest kinds miss."""
    leaf, label = dual.places(best)
    return int(sum((~s.constraints.met(leaf, label)).sum() for s in dual.sums))


def _again(
    found: _Fit,
    whole: Dual,
    trusted: float,
    clock: Clock,
) -> _Fit:
    """Hold the rows that fit where they meet what leaves say, and fit all anew."""
    found = _exchanged(found, whole)
    reopened = _reopened(found, whole, trusted)
    if reopened is None:
        return found
    seen = list[_Fit]()
    _fitted(reopened, clock, seen)
    if seen[-1].value < _BROKEN:
        # The kinds that are left contradict the sums: rows that seemed to fit do not.
        return seen[0]
    if seen[-1].missed and not clock.stopped:
        _sharpened(seen[-1], clock, seen)
    return _repaired(seen[0], clock)


def _exchanged(found: _Fit, whole: Dual) -> _Fit:
    """Exchange rows that stand in each other's place, where many more statements are met then."""
    best, missed = found.dual.kinds_at(found.best, whole), found.missed
    rows = _shares_met(whole, best).argsort(kind="stable")[: 2 * _MOST_EXCHANGED]
    with Pool() as pool:
        gain = -whole.exchanges(best, rows, pool)
    most = np.argsort(-gain, axis=None, kind="stable")[:_TRIED]
    for at in zip(*np.unravel_index(most, gain.shape), strict=True):
        pair = rows[list(at)]
        swapped = best.copy()
        swapped[pair] = best[pair[::-1]]
        now = _missed(whole, swapped)
        drew_one = (whole.draws[pair[0]] != whole.draws[pair[1]]).sum()
        if missed - now > _MANY * len(whole.sums) * drew_one:
            best, missed = swapped, now
    return replace(found, dual=whole, best=best, missed=missed)


def _reopened(found: _Fit, whole: Dual, trusted: float) -> Dual | None:
    """Let rows be of any kind that agrees with the leaves that are settled.

    Real numbers that fit are no chance: where rows that fit meet all statements of a leaf, these
    rows lie there, and no others. ``trusted``: share of the leaves that the median row meets, of
    which rows that fit meet as many. Returns None if rows may be of too many kinds.
    """
    best = found.dual.kinds_at(found.best, whole)
    leaf, label = whole.places(best)
    met = (whole.draws > 0) & _met_leaves(whole, leaf, label, None)[leaf]
    share = met.sum(axis=1) / np.maximum(whole.draws.sum(axis=1), 1)
    fits = (share > 0) & (share >= trusted * np.median(share))
    fits &= ~_displaced(whole.draws, met, fits)
    settled = _met_leaves(whole, leaf, label, fits.astype(float))
    there = np.where(fits[:, None] & (whole.draws > 0) & settled[leaf], leaf, -1)
    closed = settled[whole.leaf].T.astype(np.float32)
    by_tree = np.ascontiguousarray(whole.leaf.T)
    kinds, n, at_once = list[IntArray](), 0, max(_AT_ONCE // len(whole.cell), 1)
    for first in range(0, len(best), at_once):
        entered = whole.draws[first : first + at_once] @ closed
        for k, each in enumerate(entered, first):
            trees = np.flatnonzero(there[k] >= 0)
            cell = np.flatnonzero(each == len(trees))
            for t in trees:
                cell = cell[by_tree[t, cell] == there[k, t]]
            # What a row was it may be again.
            cell = np.union1d(cell, best[k] % len(whole.cell))
            kinds.append((cell + len(whole.cell) * np.arange(whole.n_classes)[:, None]).ravel())
            n += len(kinds[-1])
            if n > _MOST_CANDIDATES:
                return None
    row = np.repeat(np.arange(len(best)), [len(k) for k in kinds])
    return whole.among(Candidates.of(row, np.concatenate(kinds), len(best)))


def _displaced(draws: Singles, met: BoolArray, fits: BoolArray) -> BoolArray:
    """Say which rows stand in the place of another one that fits nowhere.

    They meet what leaves say in trees that drew that one, too, and in no others. ``met``, shape
    (n_rows, n_trees): in which trees that drew them rows meet what their leaves say.
    """
    others = 1.0 - draws[~fits]
    apart = met.astype(np.float32) @ others.T
    expected = np.outer(met.sum(axis=1), others.mean(axis=1))
    return np.asarray(((apart == 0) & (expected >= _DISPLACED)).any(axis=1))


def _shares_met(dual: Dual, best: IntArray) -> FloatArray:
    """Share of the leaves of each row, in trees that drew it, in which all statements are met."""
    (leaf, label), drew = dual.places(best), dual.draws > 0
    met = drew & _met_leaves(dual, leaf, label, None)[leaf]
    return np.asarray(met.sum(axis=1) / np.maximum(drew.sum(axis=1), 1))


def _met_leaves(dual: Dual, leaf: IntArray, label: IntArray, times: FloatArray | None) -> BoolArray:
    """Say in which leaves all statements are met; parameters as of ``LinearConstraints.met``."""
    out = np.ones(dual.n_leaves, dtype=np.bool_)
    for sums in dual.sums:
        there = sums.place >= 0
        out[there] &= sums.constraints.met(leaf, label, times)[sums.place[there]]
    return out


def _repaired(found: _Fit, clock: Clock) -> _Fit:
    """Move rows to other candidates, one or two of them, while sums come nearer to the leaves'."""
    dual, best = found.dual, found.best.copy()
    if dual.candidates is None:
        return found
    held = dual.candidates
    with Pool() as pool:
        for _ in range(_MOST_MOVES):
            if clock.stopped:
                break
            cost = dual.costs(best, pool)
            gain = np.repeat(cost[held.at(best)], np.diff(held.start)) - cost
            move = int(gain.argmax())
            if gain[move] > _NO_GAIN:
                best[held.row[move]] = held.kind[move]
                continue
            # Rows that stand in each other's place meet what leaves say in trees that drew both.
            rows = _shares_met(dual, best).argsort(kind="stable")
            rows = rows[:_MOST_EXCHANGED]
            gain = -dual.exchanges(best, rows, pool)
            one, other = divmod(int(gain.argmax()), len(rows))
            if gain[one, other] <= _NO_GAIN:
                break
            both, kinds = rows[[one, other]], best[rows[[other, one]]]
            best[both] = kinds
            held = held.also(both, kinds)
            dual = replace(dual, candidates=held)
    missed = _missed(dual, best)
    repaired = replace(found, dual=dual, best=best, missed=missed)
    return repaired if missed < found.missed else found


def _written(
    found: _Fit, evidence: DrawnLossSums, partition: Partition, values: ValueIndex
) -> Rows:
    """Write rows in their places; how sure they are follows from the fit."""
    dual, pairs = found.dual, Pairs.of(partition)
    drawn = np.asarray(evidence.draws.any(axis=0), dtype=bool)
    key = pairs.cell * dual.n_classes + pairs.label_of
    label, at = np.divmod(np.arange(dual.n_kinds), len(dual.cell))
    pair_of = np.searchsorted(key, dual.cell[at] * dual.n_classes + label)
    # Real numbers that all fit are no chance.
    row, kind, u = np.arange(len(drawn)), found.best, np.ones(len(drawn))
    if found.missed:
        likely, share = dual.likely(found.multipliers, _DROPPED, _MOST_CANDIDATES)
        some = (share >= _CANDIDATE) | (likely.kind == found.best[likely.row])
        row, kind = likely.row[some], likely.kind[some].astype(np.int64)
        u = share[some].astype(float)
    some = drawn[row]
    open_, owner = np.unique(row[some], return_inverse=True)
    pair = np.where(drawn, pair_of[found.best], -1)
    # Of a row that may be any of very many kinds, no kind is likely.
    marginals = Marginals(pair, open_, kind[some], pair_of, owner.ravel())
    proved = np.zeros(len(drawn), dtype=np.bool_)
    rows = rows_from_marginals(pair, proved, marginals, u[some], pairs, partition.geometry, values)
    return replace(rows, misfit=found.missed)
