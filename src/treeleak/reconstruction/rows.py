"""The rows of an answer in the model's columns, after an independent check of every count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.attacks import Answer
from treeleak.attacks.answer import Rows
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.decisions import MOST_SURE
from treeleak.core.message import MessageTemplate, static_message
from treeleak.evidence import LeafValueEvidence, LossSums
from treeleak.partition import Geometry
from treeleak.partition.value_index import ValueIndex
from treeleak.reconstruction import Reconstruction
from treeleak.reconstruction.interval_imputation import numbers_in
from treeleak.reconstruction.problem import Problem
from treeleak.reconstruction.targets import CONTRADICTED, Targets, stated_targets, targets_of
from treeleak.release import Release
from treeleak.schema import Categorical
from treeleak.side_information.known_tables import Filled, KnownTables
from treeleak.verification.counts import leaves_off

OFF = MessageTemplate(
    "sums_of_leaves_missed",
    "a second check of these rows misses the sums of {leaves:number} leaves: do not rely on them",
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
MIDPOINTS = MessageTemplate(
    "midpoints_met",
    "every threshold lies midway between two values of the training set; {met} lie midway "
    "between two values of these rows: {sign}",
)
_RIGHT, _WRONG = 0.8, 0.5
"""Shares of midpoints met. On seven raw tables of 100 to 1,000 rows, 0.05 to 0.16 fewer numbers lay
in the right interval: 0.72 to 0.87 of them where 0.83 to 0.95 were met, 0.56 where 0.72 were, and
0.12 where 0.21 were."""


def with_rows(
    out: Reconstruction,
    problem: Problem,
    known: KnownTables,
    answer: Answer,
    geometry: Geometry,
    distinct: bool,
    seconds: float,
) -> Reconstruction:
    """Add the rows, with what was known and with the likeliest values of intervals.

    ``seconds``: for the values; an answer is not lost because they take longer than is left.
    """
    release = problem.release
    whole = known.filled(in_columns(answer), ordered=answer.ordered, rows=problem.hidden)
    misfit = problem.misfit(whole.table, whole.label, distinct)
    out, whole = _checked(out, whole, problem, known, misfit)
    numbers = numbers_in(whole, geometry, problem, known, seconds)
    moved = not np.array_equal(numbers.table, whole.table, equal_nan=True)
    if moved and problem.misfit(numbers.table, whole.label, distinct) != misfit:
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
    names = list(release.feature_names)

    def framed(table: NDArray[Any]) -> pd.DataFrame:
        return pd.DataFrame(table[:, : len(names)], columns=names)

    ends = numbers.table, numbers.low, numbers.high
    X, lower, upper = (framed(tidy(table[:, : len(names)])) for table in ends)
    known_cells = framed(known.known)
    if problem.guessed:
        _open_ends(X, lower, upper, known_cells, problem)
    confidence = framed(whole.sure)
    y, sure, targets = _outcomes(problem, whole)
    if targets is not None and CONTRADICTED in targets.notes and release.adds_weights:
        # Some rows are not there, as weights make them: what is sure is that of proved rows.
        unsure = np.minimum(whole.sure, MOST_SURE)
        confidence = framed(np.where(whole.proved[:, None], whole.sure, unsure))
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
    )


def _checked(
    out: Reconstruction, whole: Filled, problem: Problem, known: KnownTables, misfit: float
) -> tuple[Reconstruction, Filled]:
    """Check rows that are called possible a second time, and take back proofs that do not hold."""
    release = problem.release
    if out.status in ("unique", "feasible") and misfit:
        raise RuntimeError(
            f"a reconstruction called {out.status!r} misses counts by {misfit:g}: this is a "
            "bug in treeleak, please report it"
        )
    summed = out.evidence.startswith((LossSums.kind, LeafValueEvidence.kind))
    if summed and out.status in ("unique", "feasible"):
        off = leaves_off(release, whole.table[:, : release.n_features], whole.label)
        if off:
            # Real numbers that a file may have made up so that they hardly tell anything apart.
            whole = replace(whole, proved=np.zeros_like(whole.proved))
            out = replace(out, status="unknown", notes=(*out.notes, OFF(leaves=int(off))))
    if release.adds_weights and not problem.hidden and problem.knowledge.n_rows is None:
        whole, copies = _once_each(whole, release, np.asarray(known.known.all(axis=1)))
        out = replace(out, weights_open=True)
        if copies:
            status = "feasible" if out.status == "unique" else out.status
            out = replace(out, status=status, notes=(*out.notes, COPIES(copies=copies)))
    return out, whole


def _open_ends(
    X: pd.DataFrame,
    lower: pd.DataFrame,
    upper: pd.DataFrame,
    known: pd.DataFrame,
    problem: Problem,
) -> None:
    """Widen intervals that end where a schema was guessed, other than in known cells."""
    for attribute in (a for a in problem.schema.attributes if a.name in problem.guessed):
        # Nothing says that values end there, or that there is no other category.
        name = attribute.name
        if isinstance(attribute, Categorical):
            other = (X[name] == attribute.values[-1]) & ~known[name]
            lower[name] = lower[name].astype(float).mask(other, -np.inf)
            upper[name] = upper[name].astype(float).mask(other, np.inf)
            continue
        for bounds, end, beyond_it in zip(
            (lower, upper), attribute.bounds, (-np.inf, np.inf), strict=True
        ):
            at_end = (bounds[name] == end) & ~known[name]
            bounds[name] = bounds[name].astype(float).mask(at_end, beyond_it)


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
    problem: Problem, whole: Filled
) -> tuple[pd.Series[Any] | None, pd.Series[float] | None, Targets | None]:
    """Labels of rows, or targets as far as leaves say them, and how sure they are."""
    release = problem.release
    if release.classes:
        labels = pd.Series([release.classes[c] for c in whole.label], name="label")
        return labels, pd.Series(whole.label_sure, name="label"), None
    if problem.hidden:
        return None, None, None
    draws = None if problem.draws is None else problem.draws.counts
    found = stated_targets(problem.row_facts)
    if found is None:
        found = targets_of(release, whole.table[:, : release.n_features], whole.proved, draws)
    if found is None:
        return None, None, None
    values, sure = (pd.Series(column, name="target") for column in (found.values, found.sure))
    return values, sure, found


def of_midpoints(met: float | None) -> tuple[str, ...]:
    """Say how right the rows are, as far as thresholds tell."""
    if met is None:
        return ()
    if met >= _RIGHT:
        sign = "so most numbers are those of the training set"
    elif met >= _WRONG:
        sign = "so many numbers are those of the training set, but not all"
    else:
        sign = "so few numbers are those of the training set, even if the rows meet all counts"
    return (MIDPOINTS(met=f"{met:.0%}", sign=sign),)


def unsure(table: FloatArray, label: IntArray) -> Filled:
    """Rows as they are, of which nothing is proved."""
    none = np.zeros(len(table))
    nowhere = np.zeros(table.shape)
    return Filled(table, label, nowhere, nowhere, none, none.astype(bool))


def in_columns(answer: Answer) -> Filled:
    """The rows of an answer in the columns that were attacked."""
    values = np.concatenate([r.values for r in answer.rows])
    sure = np.concatenate([r.confidence for r in answer.rows])
    proved = np.concatenate([r.proved for r in answer.rows])
    table = answer.values.rows(values[:, :-1], answer.values.n_columns)
    label = values[:, -1] - answer.values.start[-2]
    order = np.arange(len(table))
    if not answer.ordered:
        order = np.lexsort((*table.T[::-1], label))
    within = np.concatenate([_within(r) for r in answer.rows])
    return Filled(
        table[order],
        label[order],
        _by_column(sure, answer.values)[order],
        _by_column(within, answer.values)[order],
        sure[order, -1],
        proved[order],
    )


def _by_column(shares: FloatArray, values: ValueIndex) -> FloatArray:
    """What is said of attributes, said of their columns."""
    out = np.empty((len(shares), values.n_columns))
    for a, part in enumerate(values.parts):
        out[:, part.columns] = shares[:, a, None]
    return out


def _within(rows: Rows) -> FloatArray:
    if rows.within is not None:
        return rows.within
    # From leaves that rows need not be in, nothing follows.
    return np.full(rows.confidence.shape, float(not rows.misfit))


def tidy(table: FloatArray) -> NDArray[Any]:
    """Whole numbers as integers, so that a binary column reads 0 and 1."""
    # From 2^53 on, floats skip whole numbers.
    whole = bool(((np.abs(table) < 2.0**53) & (table == np.round(table))).all())
    return table.astype(np.int64) if whole else table
