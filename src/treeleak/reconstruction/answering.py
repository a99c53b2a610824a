"""Attack with all that is known, and write the answer in the model's columns."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.attacks import Answer, attack_for
from treeleak.attacks.answer import nothing_open
from treeleak.attacks.samples import Samples
from treeleak.attacks.samples_from_solution import fixed_atoms, samples_of
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import GRACE, Clock
from treeleak.core.decisions import MOST_SURE
from treeleak.core.message import MessageTemplate, static_message
from treeleak.core.parallel import one_blas_thread
from treeleak.core.private import dataclass
from treeleak.evidence import Evidence, KnownDraws, LeafValueEvidence, LossSums, MakeEvidence
from treeleak.partition import Geometry
from treeleak.reconstruction import Reconstruction
from treeleak.reconstruction.by_targets import by_targets
from treeleak.reconstruction.columns import in_columns, tidy, unsure
from treeleak.reconstruction.interval_imputation import numbers_in
from treeleak.reconstruction.posterior import Posterior
from treeleak.reconstruction.quality_notes import of_midpoints, of_noise
from treeleak.reconstruction.targets import CONTRADICTED, Targets, targets_of
from treeleak.release.draws.recompute import Draws
from treeleak.release.n_rows import RowCount
from treeleak.release.out_of_bag import USED
from treeleak.release.release import Release
from treeleak.release.statistics import DISTINCT
from treeleak.schema import Categorical, Schema
from treeleak.side_information.earlier_release import Releases
from treeleak.side_information.known_tables import Filled, KnownTables
from treeleak.side_information.population import Population
from treeleak.side_information.side_information import SideInformation
from treeleak.verification.counts import leaves_off

OFF = MessageTemplate(
    "sums_of_leaves_missed",
    "a second check of these rows misses the sums of {leaves:number} leaves: do not rely on them",
)
DISAGREE = MessageTemplate(
    "chains_disagree",
    "the chains do not agree{yet} (R-hat = {disagreement}; the samples are worth {worth:number} "
    "independent ones): {told}",
)
COPIES = MessageTemplate(
    "copies_or_weights",
    "the file adds up weights of rows: a row that weighs 2 looks like two. Where no tree "
    "distinguishes rows, one is proved and {copies:number} more are not. Give the number of rows "
    "(n_rows, --n-rows) if none had a weight",
)
NOT_SURE = static_message(
    "these rows miss some of what the model discloses: how sure each value is does not follow "
    "from them",
    "confidence_not_known",
)
_TO_WRITE = 30.0
"""Seconds that writing and checking an answer may take beyond the attack's share of the time."""
_AGREED = 1.2
"""R-hat up to which chains are taken to agree. Of ranks it grows to no more than about 1.25 if one
of eight chains stands apart from all others, however far."""


@dataclass(frozen=True, eq=False)
class AttackJob:
    """Everything that an attack needs but its time and the population."""

    both: Releases
    draws: Draws | None
    counted: RowCount | None
    known: KnownTables
    schema: Schema
    make: MakeEvidence
    method: str
    seed: int
    population: Population | None
    notes: tuple[str, ...]
    guessed: frozenset[str]
    """Columns of whole numbers whose ends were guessed from thresholds, and of categories whose
    last code stands for any that no tree names."""
    n_rows_stated: bool = False
    """Whether the user gave the number of rows: as large as the sum of weights, it excludes them.
    """

    @property
    def hidden(self) -> bool:
        """Whether what became of the rows is hidden: by draws that are not known, or by noise."""
        return self.both.hidden is not None

    @property
    def uses_distinct(self) -> bool:
        """Whether draws are hidden and distinct rows counted."""
        return self.counted is not None and all(
            tree.distinct is not None for tree in self.both.trees_of_both.trees
        )

    def answer(self, clock: Clock) -> Reconstruction:
        """Attack, and where there is a population, first without it in half of the time."""
        if self.population is None:
            return self.done(clock, None)
        without = self.done(clock.part(clock.left / 2), None)
        if without.status in ("unique", "infeasible"):
            note = static_message(
                "a population cannot change what the counts alone prove", "no_use_of_population"
            )
            return replace(without, without_population=without, notes=(*without.notes, note))
        with_ = self.done(clock.part(clock.left), self.population)
        return replace(with_, without_population=without)

    def done(self, clock: Clock, population: Population | None) -> Reconstruction:
        """Attack, and write the answer."""
        both, known, hidden, begin = self.both, self.known, self.hidden, clock.seconds
        left, clash = both.whole, None
        if not hidden:
            left, clash = known.taken_out(both.whole, both.all_draws)
        # The published programs fix values row by row, as chains do; the others know counts only.
        geometry = known.geometry(left, counted=self.method == "auto" and not hidden)
        evidence = self.make(geometry)
        counted = len(known.others)
        if isinstance(evidence, KnownDraws):
            evidence = replace(
                evidence,
                draws=evidence.draws[:, known.others],
                out_of_bag=tuple(m.of_rows(known.others) for m in both.out_of_bag),
            )
            counted = int(evidence.drawn.sum())
        side_info = SideInformation(known.parts(geometry, rows=hidden), population)
        attack = clock.untimed(partial(attack_for, evidence, self.method))
        open_number = isinstance(evidence, LeafValueEvidence)
        with one_blas_thread():  # of what is loaded by now
            if clash is None and (counted or hidden or open_number):
                answer = attack(evidence, geometry, clock, self.seed, side_info)
                if population is None and side_info.parts is None:
                    with clock.cut_short():
                        answer = by_targets(answer, evidence, self.draws, clock)
            else:
                whole = not len(known.others)
                answer = nothing_open(geometry, clash or evidence.contradiction(), whole=whole)
            task = self
            if open_number:
                # How many rows there are is part of the answer.
                found = sum(len(rows.values) for rows in answer.rows)
                task = replace(
                    self, known=replace(known, n_rows=found, values=np.zeros((found, 0)))
                )
            clock.extend_grace(_TO_WRITE)
            written = _written(task, answer, geometry, evidence, clock)
        return replace(written, seconds=clock.seconds - begin)


def _written(
    task: AttackJob, answer: Answer, geometry: Geometry, evidence: Evidence, clock: Clock
) -> Reconstruction:
    """Write an answer in the model's columns, after an independent check of every count."""
    both, release = task.both, task.both.later
    names = release.feature_names
    tested = both.trees_of_both.tested
    parts = [p for p in answer.values.parts if p.intervals]
    intervals = sorted(int(c) for part in parts for c in part.columns)
    clash = answer.contradiction
    out = Reconstruction(
        status=answer.status,
        X=None,
        y=None,
        confidence=None,
        label_confidence=None,
        proved=None,
        # What early stopping left of the rows was shuffled.
        ordered=answer.ordered and task.draws is not None and not both.shuffled,
        draws=task.draws,
        misfit=0.0,
        contradiction=None if clash is None else task.known.located(clash) or both.located(clash),
        evidence=evidence.described,
        free_columns=tuple(n for n in names if n not in tested),
        interval_columns=tuple(names[c] for c in intervals),
        schema=task.schema,
        seed=task.seed,
        seconds=clock.seconds,
        interrupted=clock.interrupted,
        trace=tuple(clock.trace),
        numbers=answer.numbers,
        cells=answer.cells,
        notes=(
            *release.notes,
            *task.notes,
            *((USED,) if isinstance(evidence, KnownDraws) and evidence.out_of_bag else ()),
        ),
        expected_distance=_over_all(answer, task),
        row_count=task.counted,
    )
    if answer.rows:
        distinct = any(s.quantity == DISTINCT for s in evidence.statements())
        seconds = max(clock.left, GRACE / 2)
        out = _with_rows(out, task, answer, geometry, distinct, seconds)
    samples = answer.samples or samples_of(answer.rows, answer.values)
    return out if samples is None else _with_posterior(out, task, answer, samples, geometry)


def _over_all(answer: Answer, task: AttackJob) -> float | None:
    """Mean distance over all rows: rows that were taken out before the attack are right."""
    if answer.expected_distance is None or task.hidden:
        return answer.expected_distance
    return answer.expected_distance * len(task.known.others) / task.known.n_rows


def _with_rows(
    out: Reconstruction,
    task: AttackJob,
    answer: Answer,
    geometry: Geometry,
    distinct: bool,
    seconds: float,
) -> Reconstruction:
    """Add the rows, with what was known and with the likeliest values of intervals.

    ``seconds``: for the values; an answer is not lost because they take longer than is left.
    """
    both, known, classes = task.both, task.known, task.both.later.classes
    whole = known.filled(in_columns(answer), ordered=answer.ordered, rows=task.hidden)
    misfit = both.misfit(whole.table, whole.label, distinct)
    if answer.status in ("unique", "feasible") and misfit:
        raise RuntimeError(
            f"a reconstruction called {answer.status!r} misses counts by {misfit:g}: this is a "
            "bug in treeleak, please report it"
        )
    summed = out.evidence.startswith((LossSums.kind, LeafValueEvidence.kind))
    if summed and answer.status in ("unique", "feasible"):
        later_table = whole.table[:, : both.later.n_features]
        if off := leaves_off(both.later, later_table, whole.label):
            # Real numbers that a file may have made up so that they hardly tell anything apart.
            whole = replace(whole, proved=np.zeros_like(whole.proved))
            note = OFF(leaves=int(off))
            out = replace(out, status="unknown", notes=(*out.notes, note))
    if both.later.adds_weights and not both.hidden and not task.n_rows_stated:
        whole, copies = _once_each(whole, both.later, np.asarray(known.known.all(axis=1)))
        if copies:
            status = "feasible" if out.status == "unique" else out.status
            out = replace(out, status=status, notes=(*out.notes, COPIES(copies=copies)))
    numbers = numbers_in(whole, geometry, both, known, seconds)
    if both.misfit(numbers.table, whole.label, distinct) != misfit:
        raise RuntimeError(
            "a value chosen between thresholds changes a count: this is a bug in treeleak, "
            "please report it"
        )
    whole = replace(whole, table=numbers.table, sure=numbers.sure)
    if not out.sureness_known:
        # What walks and leaves say is no posterior where rows miss what the model tells of them.
        whole = replace(
            whole,
            sure=np.where(whole.sure == 1, 1.0, np.nan),
            label_sure=np.where(whole.label_sure == 1, 1.0, np.nan),
        )
        out = replace(out, notes=(*out.notes, NOT_SURE))
    names = list(both.later.feature_names)

    def framed(table: NDArray[Any]) -> pd.DataFrame:
        return pd.DataFrame(table[:, : len(names)], columns=names)

    ends = numbers.table, numbers.low, numbers.high
    X, lower, upper = (framed(tidy(table[:, : len(names)])) for table in ends)
    known_cells = framed(known.known)
    for attribute in (a for a in out.schema.attributes if a.name in task.guessed):
        # Nothing says that values end there, or that there is no other category.
        name = attribute.name
        if isinstance(attribute, Categorical):
            other = (X[name] == attribute.values[-1]) & ~known_cells[name]
            lower[name] = lower[name].astype(float).mask(other, -np.inf)
            upper[name] = upper[name].astype(float).mask(other, np.inf)
            continue
        for bounds, end, beyond_it in zip(
            (lower, upper), attribute.bounds, (-np.inf, np.inf), strict=True
        ):
            at_end = (bounds[name] == end) & ~known_cells[name]
            bounds[name] = bounds[name].astype(float).mask(at_end, beyond_it)
    confidence = framed(whole.sure)
    y, sure, targets = _outcomes(both, whole, classes)
    if targets is not None and CONTRADICTED in targets.notes and both.later.adds_weights:
        # Some rows are not there, as weights make them: what is sure is that of proved rows.
        unsure = np.minimum(whole.sure, MOST_SURE)
        confidence = framed(np.where(whole.proved[:, None], whole.sure, unsure))
    old = both.in_earlier(whole.table)
    return replace(
        out,
        X=X,
        y=y,
        lower=lower,
        upper=upper,
        y_lower=None if targets is None else pd.Series(targets.low, name="target"),
        y_upper=None if targets is None else pd.Series(targets.high, name="target"),
        midpoints_met=numbers.midpoints_met,
        confidence=confidence,
        expected_distance=None
        if out.status == "unknown"
        else numbers.far(out.expected_distance, confidence, out.schema),
        label_confidence=sure,
        proved=pd.Series(whole.proved, name="proved"),
        misfit=misfit,
        notes=(
            *out.notes,
            *known.quality_notes(whole),
            *of_midpoints(numbers.midpoints_met if numbers.midpoints_fit else None),
            *(() if targets is None else targets.notes),
        ),
        known=known_cells if known.known.any() else None,
        in_earlier=None if old is None else pd.Series(old, name="in_earlier"),
    )


def _once_each(whole: Filled, release: Release, known: BoolArray) -> tuple[Filled, int]:
    """Call one row proved of those that no tree tells apart: a row that weighs 2 looks like two.

    ``known``, shape (n_rows,): rows that were given. Returns how many are not proved because of
    that, too.
    """
    leaf = np.unique(
        release.leaves(whole.table[:, : release.n_features]), axis=0, return_inverse=True
    )[1].ravel()
    # Only a class that is certain tells a row from another one of its leaves.
    certain = whole.label_sure == 1
    label = np.where(certain, whole.label, -1)
    # Proved rows first: a row that is not may be a copy, one that is must not.
    order = np.lexsort((~certain, ~whole.proved, ~known))
    copy = np.ones(len(leaf), dtype=bool)
    copy[order[np.unique(np.column_stack([leaf, label])[order], axis=0, return_index=True)[1]]] = 0
    copy |= ~certain & np.isin(leaf, leaf[certain | known])
    copy &= ~known
    copies = copy & (whole.proved | (whole.sure == 1).any(axis=1) | (whole.label_sure == 1))
    sure, label_sure = (
        np.where(
            copy.reshape(-1, *[1] * (confidence.ndim - 1)),
            np.minimum(confidence, MOST_SURE),
            confidence,
        )
        for confidence in (whole.sure, whole.label_sure)
    )
    proved = whole.proved & ~copy
    return replace(whole, sure=sure, label_sure=label_sure, proved=proved), int(copies.sum())


def _outcomes(
    both: Releases, whole: Filled, classes: tuple[Any, ...]
) -> tuple[pd.Series[Any] | None, pd.Series[float] | None, Targets | None]:
    """Labels of rows, or targets as far as leaves say them, and how sure they are."""
    if classes:
        labels = pd.Series([classes[c] for c in whole.label], name="label")
        return labels, pd.Series(whole.label_sure, name="label"), None
    if both.hidden is not None:
        return None, None, None
    column = whole.table[:, : both.later.n_features]
    found = targets_of(both.later, column, whole.proved, both.draws)
    if found is None:
        return None, None, None
    values, sure = (pd.Series(column, name="target") for column in (found.values, found.sure))
    return values, sure, found


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
    out: Reconstruction, task: AttackJob, answer: Answer, samples: Samples, geometry: Geometry
) -> Reconstruction:
    """Add the datasets drawn, and say whether the chains that drew them agree."""
    release, known = task.both.later, task.known
    known_values = known.rows[:, : len(release.feature_names)]
    members = np.column_stack([known_values, known.row_labels])[known.has_place]
    fixed = fixed_atoms(answer.rows, answer.values)
    write = _Writer(known, task.hidden)
    posterior = Posterior(samples, geometry, release, write, task.seed, fixed, members, answer.odds)
    if answer.likeliest is None:
        return replace(out, posterior=posterior)
    if not posterior.by_chains:
        written = posterior.written(answer.values.first[answer.likeliest])
        return replace(out, posterior=posterior, most_likely=written)
    notes = out.notes
    if samples.disagreement > _AGREED:
        yet, advice = " yet", "more time would make confidences better"
        if release.noise is not None or not task.hidden:
            # There, only walks that time cut short grow longer with more of it.
            yet, advice = "", "confidences are too high, and more time may help"
        disagreement = f"{samples.disagreement:.2f}"
        worth = int(np.nan_to_num(samples.effective))
        notes = (*notes, DISAGREE(yet=yet, disagreement=disagreement, worth=worth, told=advice))
    written = posterior.written(samples.most_probable(answer.likeliest))
    notes = (*notes, *of_noise(release, *written))
    return replace(out, posterior=posterior, most_likely=written, notes=notes)
