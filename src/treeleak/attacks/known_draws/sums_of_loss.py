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
from treeleak.attacks.known_draws.rows_from_marginals import Marginals, rows_from_marginals
from treeleak.attacks.known_draws.sums_dual import Dual, Look
from treeleak.core.arrays import FloatArray, IntArray
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

_STAGE, _MEMORY = 20, 20
"""Evaluations after which multipliers are measured anew, and steps that L-BFGS remembers."""
_DROPPED = 1e-5
"""Rows expected in a cell below which it is left out."""
_BROKEN = -1.0
"""Value of the dual that shows, beyond rounding, that no rows of these cells meet the sums."""
_LEVEL = 1e-2
"""Share of the dual's value by which a stage must lower it, or little more is to be had."""
_STEPS, _MOST_MORE, _PATIENCE, _DAMPING = 24, 24, 6, 0.5
"""Steps in which the reaction is turned on; how many may follow, and how many of them without
fewer missed statements; and the share of the last reaction in each."""
_MOST_SHARPENED = 2**26
"""Most pairs of rows and kinds to which the sums react."""
_CANDIDATE = 1e-3
"""Least probability of a cell for a row that is written down, unless none has as much."""
_MOST_MOVES, _NO_GAIN = 100, 1e-3
"""Rows that are moved, at most, and what is no gain, in usual variances of sums."""
_MOST_WORK = 3e11
"""Most products in one evaluation: a few seconds."""
_MOST_HELD = 2**27
"""Most numbers that say what rows of cells count: 512 MiB, held up to three times."""
_TO_WRITE = 0.1
"""Share of the time for writing rows."""


def drawn_sums(
    evidence: DrawnLossSums,
    geometry: Geometry,
    clock: Clock,
    _seed: int,
    side_info: SideInformation = NOTHING,
) -> Answer:
    """Rebuild the rows behind sums of the loss whose draws are known, in their order.

    An :data:`~treeleak.attacks.Attack` that draws nothing.

    Returns
    -------
    Answer
        With one :class:`Rows`, whose row k is row k of the training set: "feasible" where every
        statement is met, "infeasible" with the place of the contradiction, "unknown" with the best
        rows so far otherwise.

    Raises
    ------
    GridTooLarge
        Where cells cannot be listed, or are too many to score for all rows.
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
    held = partition.n_cells * geometry.release.n_classes * len(evidence.draws)
    work = held * evidence.n_rows
    if work > _MOST_WORK or held * len(evidence.statements()) > _MOST_HELD:
        raise GridTooLarge(
            f"{partition.n_cells:,} cells of {evidence.n_rows:,} rows in "
            f"{len(evidence.draws):,} trees: {work:.0e} products for each look at all of them"
        )
    whole, seen = Dual.of(evidence, partition), list[_Fit]()
    part = clock.part((1.0 - _TO_WRITE) * clock.left)
    with clock.cut_short():
        _fitted(whole, evidence, partition, part, _DROPPED, seen)
        if seen[-1].value < _BROKEN and not part.stopped:
            _fitted(whole, evidence, partition, part, 0.0, seen)
    if not seen:
        return Answer("unknown", values)
    with clock.cut_short():
        if seen[-1].missed and not part.stopped:
            _sharpened(seen[-1], evidence, partition, part, seen)
    found = seen[0]
    with clock.cut_short():
        # A row may be of a cell that was left out.
        for dual in (replace(found.dual, reference=None), whole):
            if found.missed and dual.n_kinds * evidence.n_rows <= _MOST_SHARPENED:
                repaired = _repaired(found, dual, evidence, partition, clock)
                found = min(found, repaired, key=lambda fit: fit.missed)
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
    evidence: DrawnLossSums,
    partition: Partition,
    clock: Clock,
    dropped: float,
    seen: list[_Fit],
) -> None:
    """Fit in stages; between them, multipliers are measured anew, and cells nobody is in go.

    ``dropped``: see :data:`_DROPPED`. ``seen``: see :func:`_note`.
    """
    x, n, values = np.zeros(len(dual.right)), 0, [np.inf]
    with Pool() as pool:
        while True:
            x, look, more = _stage(dual, x, clock, pool)
            n += more
            missed = _missed(dual, look.best, evidence, partition)
            _note(_Fit(dual, look.value, look.best, missed, x, n), seen, clock)
            values.append(look.value)
            left = min(max(look.value, 0.0) / max(values[1], 1.0), 1.0)
            clock.report_progress("fitting the sums of all trees", 0.5 * (1.0 - left), missed)
            level = look.value > (1.0 - _LEVEL) * values[-2]
            if not missed or clock.stopped or look.value < _BROKEN or level:
                return
            dual = dual.only(look.mass.reshape(dual.n_classes, -1).sum(axis=0) > dropped)


def _stage(dual: Dual, x: FloatArray, clock: Clock, pool: Pool) -> tuple[FloatArray, Look, int]:
    """Go down the dual for some evaluations; where it ends, and how many there were."""
    coordinates, latest, n = dual.coordinates(x, pool), list[tuple[FloatArray, Look]](), 0

    def evaluate(y: FloatArray) -> tuple[float, FloatArray]:
        nonlocal n
        multipliers = coordinates.multipliers(y)
        look = dual.look(multipliers, pool)
        n += 1
        latest[:] = [(multipliers, look)]
        broken = dual.reference is None and look.value < _BROKEN
        if n >= _STAGE or clock.stopped or broken:
            raise _Done
        return look.value, coordinates.gradient(look.expected - dual.right)

    options: Any = {
        "maxcor": _MEMORY, "maxfun": 10**6, "maxiter": 10**6, "ftol": 0.0, "gtol": 1e-9,
    }  # fmt: skip
    start = coordinates.from_multipliers(x)
    with suppress(_Done):
        minimize(evaluate, start, jac=True, method="L-BFGS-B", options=options)
    return *latest[0], n


def _sharpened(
    found: _Fit, evidence: DrawnLossSums, partition: Partition, clock: Clock, seen: list[_Fit]
) -> None:
    """Turn on the reaction of the sums to each row, step by step, and fit again in each."""
    dual, x, n = found.dual, found.multipliers, found.evaluations
    if dual.n_kinds * evidence.n_rows > _MOST_SHARPENED:
        return
    reaction, since, least = None, 0, found.missed
    with Pool() as pool:
        for step in range(_STEPS + _MOST_MORE):
            new = dual.reaction(x, pool)
            reaction = new if reaction is None else _DAMPING * reaction + (1.0 - _DAMPING) * new
            share = np.float32(min(1.0, (step + 1) / _STEPS))
            dual = replace(dual, reference=share * reaction)
            x, look, more = _stage(dual, x, clock, pool)
            n += more
            missed = _missed(dual, look.best, evidence, partition)
            _note(_Fit(dual, look.value, look.best, missed, x, n), seen, clock)
            done = (step + 1) / (_STEPS + _MOST_MORE)
            clock.report_progress("telling rows apart", 0.5 + 0.4 * done, missed)
            since, least = (0, missed) if missed < least else (since + 1, least)
            if not missed or clock.stopped or (share == 1 and since >= _PATIENCE):
                return


def _note(fit: _Fit, seen: list[_Fit], clock: Clock) -> None:
    """Keep the fit that misses least, first, and the last one: each may hold scores of all rows."""
    clock.record(fit.missed)
    seen[:] = [min([fit, *seen[:1]], key=lambda each: each.missed), fit]


def _missed(dual: Dual, best: IntArray, evidence: DrawnLossSums, partition: Partition) -> int:
    """How many statements the likeliest kinds miss."""
    label, at = np.divmod(best, len(dual.cell))
    leaf = partition.signature[dual.cell[at]].astype(np.int64)
    met = [s.met(leaf, label) for s in evidence.statements()]
    return int((~np.concatenate(met)).sum())


def _repaired(
    found: _Fit, dual: Dual, evidence: DrawnLossSums, partition: Partition, clock: Clock
) -> _Fit:
    """Move single rows to other kinds of ``dual``, while sums come nearer to what leaves say."""
    label, at = np.divmod(found.best, len(found.dual.cell))
    place = np.searchsorted(dual.cell, found.dual.cell[at])
    best, every = label * len(dual.cell) + place, np.arange(len(label))
    with Pool() as pool:
        for _ in range(_MOST_MOVES):
            cost = dual.costs(best, pool)
            gain = cost[every, best][:, None] - cost
            k, kind = np.unravel_index(int(gain.argmax()), gain.shape)
            if gain[k, kind] <= _NO_GAIN or clock.stopped:
                break
            best[k] = kind
    missed = _missed(dual, best, evidence, partition)
    return replace(found, dual=dual, best=best, missed=missed)


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
        likely = list[tuple[IntArray, IntArray, FloatArray]]()
        score = dual.scores(found.multipliers)
        for block in dual.blocks():
            share, _ = dual.probabilities(score, block)
            least = np.minimum(_CANDIDATE, share.max(axis=1, keepdims=True))
            k, each = np.nonzero(share >= least)
            likely.append((k + block.start, each, share[k, each].astype(float)))
        row, kind, u = (np.concatenate(part) for part in zip(*likely, strict=True))
    some = drawn[row]
    open_, owner = np.unique(row[some], return_inverse=True)
    settled = np.full(len(drawn), -1, dtype=np.int64)
    marginals = Marginals(settled, open_, kind[some], pair_of, owner.ravel())
    pair = np.where(drawn, pair_of[found.best], -1)
    proved = np.zeros(len(drawn), dtype=np.bool_)
    rows = rows_from_marginals(pair, proved, marginals, u[some], pairs, partition.geometry, values)
    return replace(rows, misfit=found.missed)
