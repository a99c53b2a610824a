"""Attack with all that is known, and write the answer in the model's columns."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from treeleak.attacks import Answer, attack_for
from treeleak.attacks.answer import nothing_open
from treeleak.attacks.consensus import fixed_atoms, samples_of
from treeleak.attacks.samples import Samples
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import GRACE, Clock
from treeleak.core.message import MessageTemplate, static_message
from treeleak.core.parallel import one_blas_thread
from treeleak.core.private import dataclass
from treeleak.evidence import Evidence, KnownDraws, LeafValueEvidence
from treeleak.partition import Geometry
from treeleak.reconstruction import Reconstruction
from treeleak.reconstruction.posterior import Posterior
from treeleak.reconstruction.problem import Problem
from treeleak.reconstruction.rows import tidy, unsure, with_rows
from treeleak.reconstruction.schedule import SCHEDULE
from treeleak.reconstruction.targets import by_targets
from treeleak.release.noise.laws import CountNoise
from treeleak.release.release import Release
from treeleak.release.row_facts import USED
from treeleak.release.stated_noise import noise_left
from treeleak.release.statistics import DISTINCT
from treeleak.side_information.known_tables import KnownTables
from treeleak.side_information.population import Population
from treeleak.side_information.side_information import SideInformation

LARGER = MessageTemplate(
    "noise_larger_than_stated",
    "the counts differ from the likeliest rows by more than the stated noise ({why}; by chance, "
    "that happens less than once in a million times): it is larger than stated, or the search "
    "needs more time{scale}",
)

DISAGREE = MessageTemplate(
    "chains_disagree",
    "the chains do not agree{yet} (R-hat = {disagreement}; the samples are worth {worth:number} "
    "independent ones): {told}",
)


def solve(problem: Problem, clock: Clock) -> Reconstruction:
    """Attack; with a population, twice: first without it, each with half of the time."""
    # What does not fit, or is of no use, shows before time is spent on an attack.
    _ = problem.row_count, problem.schema_notes, problem.make_evidence, problem.known
    population = problem.population
    if population is None:
        return _attacked(problem, None, clock)
    without = _attacked(problem, None, clock.part(clock.left / 2))
    if without.status in ("unique", "infeasible"):
        note = static_message(
            "a population cannot change what the counts alone prove", "no_use_of_population"
        )
        return replace(without, without_population=without, notes=(*without.notes, note))
    with_ = _attacked(problem, population, clock.part(clock.left))
    return replace(with_, without_population=without)


def _attacked(problem: Problem, population: Population | None, clock: Clock) -> Reconstruction:
    """Attack, and write the answer."""
    known, hidden, begin = problem.known, problem.hidden, clock.seconds
    left, clash = problem.release, None
    if not hidden:
        left, clash = known.taken_out(problem.release, problem.all_draws)
    # The published programs fix values row by row, as chains do; the others know counts only.
    geometry = known.geometry(left, counted=problem.method == "auto" and not hidden)
    evidence = problem.make_evidence(geometry)
    counted = len(known.others)
    if isinstance(evidence, KnownDraws):
        evidence = replace(
            evidence,
            draws=evidence.draws[:, known.others],
            out_of_bag=tuple(m.of_rows(known.others) for m in problem.out_of_bag),
            row_leaves=None
            if (facts := problem.row_facts) is None
            else facts.places(problem.release.trees)[:, known.others],
        )
        counted = int(evidence.drawn.sum())
    side_info = SideInformation(known.parts(geometry, rows=hidden), population)
    attack = clock.untimed(partial(attack_for, evidence, problem.method))
    open_number = isinstance(evidence, LeafValueEvidence)
    with one_blas_thread():  # of what is loaded by now
        if clash is None and (counted or hidden or open_number):
            answer = attack(evidence, geometry, clock, problem.seed, side_info)
            if population is None and side_info.parts is None:
                with clock.cut_short():
                    answer = by_targets(answer, evidence, problem.draws, clock)
        else:
            whole = not len(known.others)
            answer = nothing_open(geometry, clash or evidence.contradiction(), whole=whole)
        if open_number:
            # How many rows there are is part of the answer.
            found = sum(len(rows.values) for rows in answer.rows)
            known = replace(known, n_rows=found, values=np.zeros((found, 0)))
        clock.extend_grace(SCHEDULE.late_writing)
        written = _written(problem, known, answer, geometry, evidence, clock)
    return replace(written, seconds=clock.seconds - begin)


def _written(
    problem: Problem,
    known: KnownTables,
    answer: Answer,
    geometry: Geometry,
    evidence: Evidence,
    clock: Clock,
) -> Reconstruction:
    """Write an answer in the model's columns, after an independent check of every count."""
    names, tested = problem.release.feature_names, problem.release.tested
    parts = [p for p in answer.values.parts if p.intervals]
    intervals = sorted(int(c) for part in parts for c in part.columns)
    clash, where, far = answer.contradiction, None, answer.expected_distance
    if clash is not None:
        where = known.located(clash) or str(clash)
    if far is not None and not problem.hidden:
        # Rows that were taken out before the attack are right.
        far = far * len(known.others) / known.n_rows
    out = Reconstruction(
        status=answer.status,
        X=None,
        y=None,
        confidence=None,
        label_confidence=None,
        proved=None,
        # What early stopping left of the rows was shuffled.
        ordered=answer.ordered
        and problem.draws is not None
        and not problem.release.sampling.shuffled
        and (problem.row_facts is None or problem.row_facts.in_order),
        draws=problem.draws,
        misfit=0.0,
        contradiction=where,
        evidence=evidence.described,
        free_columns=tuple(n for n in names if n not in tested),
        interval_columns=tuple(names[c] for c in intervals),
        schema=problem.schema,
        seed=problem.seed,
        seconds=clock.seconds,
        interrupted=clock.interrupted,
        timed_out=clock.stopped and not clock.interrupted,
        trace=tuple(clock.trace),
        numbers=answer.numbers,
        cells=answer.cells,
        notes=(
            *problem.release.notes,
            *problem.schema_notes,
            *problem.notes,
            *((USED,) if isinstance(evidence, KnownDraws) and evidence.out_of_bag else ()),
        ),
        expected_distance=far,
        row_count=problem.row_count,
    )
    if answer.rows:
        distinct = any(s.quantity == DISTINCT for s in evidence.statements())
        seconds = max(clock.left, GRACE / 2)
        out = with_rows(out, problem, known, answer, geometry, distinct, seconds)
    samples = answer.samples or samples_of(answer.rows, answer.values)
    if samples is None:
        return out
    return _with_posterior(out, problem, known, answer, samples, geometry)


@dataclass(frozen=True, eq=False)
class _Writer:
    """Writes samples with what was known; no closure, so that results can be pickled."""

    known: KnownTables
    hidden: bool

    def __call__(self, rows: FloatArray, label: IntArray) -> tuple[FloatArray, IntArray]:
        # Walks over hidden draws hold known rows, too, each in its place; others do not.
        found = self.known.filled(unsure(rows, label), ordered=self.hidden, rows=self.hidden)
        return tidy(found.table), found.label


def _with_posterior(
    out: Reconstruction,
    problem: Problem,
    known: KnownTables,
    answer: Answer,
    samples: Samples,
    geometry: Geometry,
) -> Reconstruction:
    """Add the datasets drawn, and say whether the chains that drew them agree."""
    release = problem.release
    known_values = known.rows[:, : len(release.feature_names)]
    members = np.column_stack([known_values, known.row_labels])[known.has_place]
    fixed = fixed_atoms(answer.rows, answer.values)
    write = _Writer(known, problem.hidden)
    posterior = Posterior(
        samples, geometry, release, write, problem.seed, fixed, members, answer.odds
    )
    if answer.likeliest is None:
        return replace(out, posterior=posterior)
    if not posterior.by_chains:
        written = posterior.written(answer.values.first[answer.likeliest])
        return replace(out, posterior=posterior, most_likely=written)
    notes = out.notes
    if samples.disagreement > SCHEDULE.agreed_chains:
        yet, advice = " yet", "more time would make confidences better"
        if release.noise is not None or not problem.hidden:
            # There, only walks that time cut short grow longer with more of it.
            yet, advice = "", "confidences are too high, and more time may help"
        disagreement = f"{samples.disagreement:.2f}"
        worth = int(np.nan_to_num(samples.effective))
        notes = (*notes, DISAGREE(yet=yet, disagreement=disagreement, worth=worth, told=advice))
    written = posterior.written(samples.most_probable(answer.likeliest))
    notes = (*notes, *of_noise(release, *written))
    return replace(out, posterior=posterior, most_likely=written, notes=notes)


def of_noise(release: Release, X: pd.DataFrame, y: pd.Series[Any] | None) -> tuple[str, ...]:
    """Say where counts differ from the likeliest rows by more than noise of the stated law does.

    These rows are nearer to the counts than the training rows: nothing else tells against it.
    """
    if not isinstance(release.noise, CountNoise):
        return ()
    label = None if y is None else release.class_numbers(y)
    left = noise_left(release, X.to_numpy(dtype=float), label)
    if left.misfit is None or left.misfit.how != "larger":
        return ()
    scale = "" if left.scale is None else f". {left.scale}"
    return (LARGER(why=left.misfit.why, scale=scale),)
