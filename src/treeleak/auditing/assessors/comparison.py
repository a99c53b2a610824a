"""The rebuilt rows against the training rows: step by step, as parts of an audit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from treeleak.auditing import wording
from treeleak.auditing.assessors.baselines import BaselineComparison, guesses_from_shape
from treeleak.auditing.assessors.compared import Compared
from treeleak.auditing.assessors.measurement import (
    Measurement,
    Side,
    Variant,
    errors_of,
    measure,
    nothing_to_compare,
    with_baselines,
    with_shape,
)
from treeleak.core.clock import Progress
from treeleak.core.errors import Mismatch, NotCovered, TimeUp
from treeleak.core.message import Message, MessageTemplate, static_message
from treeleak.core.private import dataclass
from treeleak.evidence import draws_needed
from treeleak.metrics import Significance
from treeleak.reconstruction import Reconstruction
from treeleak.release.draws.seeds import known_draws
from treeleak.verification.columns import check_gaps, in_model_columns
from treeleak.verification.training_rows import (
    N_ROWS_HINT,
    TrainingRows,
    match_rules,
    match_training,
)

if TYPE_CHECKING:
    from treeleak.auditing.case import AuditResults, Case


LEVEL = 0.005
"""Greatest probability that a margin may have by chance, over people, to count. Rows can be nearer
in three ways (values, whole rows, rows in their places), and what is made with less to go by counts
from a tenth of this on: so chance alone shows a leak in at most 2 % of all audits."""

MATERIAL = 0.25
"""Least part by which the error must lie below that of a yardstick that knows the population."""

SIGNIFICANT = 0.01
"""Greatest rank among other draws of the population at which rows count as those of the model."""

Way = Literal["values", "rows", "places"]


@dataclass(frozen=True)
class Decision:
    """Where rebuilt rows stand."""

    outcome: Literal["people", "perhaps", "nothing"]
    """people: nearer to the training rows than any yardstick, those included that know the
    population. perhaps: nearer than baselines without the counts of leaves, or than to others of
    the population, but no nearer than an adversary who knows the population."""
    ways: tuple[Way, ...] = ()
    """Tuple of {"values", "rows", "places"}. In what they are: in the error of values, in rows that
    are right throughout, or row by row in their places."""


def decide(m: Measurement, level: float = LEVEL) -> Decision:
    """Judge rebuilt rows by the yardsticks that they were held against.

    Where other rows of the population were given, enough of them, rows tell of the people only if
    they are also nearer to them than to other draws of the population. Columns that no tree tests
    do not count.
    """
    test = test_of(m)
    these = test is None or test.rank <= SIGNIFICANT
    judged = m.judged
    sure: list[Way] = []
    if these and any(y.knows == "people" for y in judged.yardsticks):
        if all(_nearer(judged, y, level) for y in judged.yardsticks):
            sure.append("values")
        if all(y.more_rows <= level for y in judged.yardsticks):
            sure.append("rows")
    order = judged.in_order
    in_places = order is not None and order.nearer_than_others <= level
    if (
        order is not None
        and in_places
        and order.nearer_than_usual <= level
        and order.error <= (1 - MATERIAL) * order.usual
    ):
        sure.append("places")
    if sure:
        return Decision("people", tuple(sure))
    strangers = [y for y in judged.yardsticks if y.knows != "people"]
    perhaps: list[Way] = []
    if these and strangers:
        if all(_nearer(judged, y, level) for y in strangers):
            perhaps.append("values")
        if all(y.more_rows <= level for y in strangers):
            perhaps.append("rows")
    if in_places:
        perhaps.append("places")
    return Decision("perhaps", tuple(perhaps)) if perhaps else Decision("nothing")


def test_of(m: Measurement) -> Significance | None:
    """The test against the population, if there were rows enough for it."""
    test = m.judged.significance
    return None if test is None or test.overlapping else test


def strongest(m: Measurement) -> BaselineComparison | None:
    """The yardstick that errs least."""
    return min(m.judged.yardsticks, key=lambda y: y.scores.error, default=None)


def _nearer(m: Measurement | Compared, y: BaselineComparison, level: float) -> bool:
    most = (1 - MATERIAL) * y.scores.error if y.knows == "people" else y.scores.error
    return y.nearer <= level and m.error <= most


THE_SAME = static_message(
    "the control rows are too similar to the training rows to be other samples of the "
    "population (by chance less than once in a thousand times): do they contain training "
    "rows?",
    "rows_given_the_same",
)
_DRAWS = 999
_MISSING = -3e38


def check_provided_rows(rebuilt: Reconstruction, truth: pd.DataFrame) -> None:
    """Check that what was given is true of the training rows.

    Rows of which the same columns were given must be among the training rows, as often as they
    were given, as far as these columns tell.

    Raises Mismatch, saying how many are not.
    """
    if rebuilt.X is None or not rebuilt.given.any():
        return
    names = list(rebuilt.X.columns)
    true, reconstructed = (
        np.nan_to_num(table[names].to_numpy(dtype=np.float32), nan=_MISSING)
        for table in (truth, rebuilt.X)
    )
    provided = rebuilt.given
    for known in np.unique(provided[provided.any(axis=1)], axis=0):
        provided_rows = reconstructed[(provided == known).all(axis=1)][:, known]
        both = np.concatenate([provided_rows, true[:, known]])
        _, group = np.unique(both, axis=0, return_inverse=True)
        group = group.ravel()
        n_groups = group.max() + 1
        many = np.bincount(group[: len(provided_rows)], minlength=n_groups)
        wrong = int(
            np.maximum(many - np.bincount(group[len(provided_rows) :], minlength=n_groups), 0).sum()
        )
        if wrong:
            columns = [name for name, is_known in zip(names, known, strict=True) if is_known]
            where = "" if len(columns) == len(names) else f" in column {columns[0]!r} and others"
            raise Mismatch(
                f"{wrong} of the rows given as known are not among the training rows{where}"
            )


def too_like(train: pd.DataFrame, control: pd.DataFrame, seed: int = 0) -> bool:
    """Say whether control rows agree with the training rows better than chance allows.

    Were both drawn from one population, any rows of the two tables together might as well have been
    the training set. So the two shares of each row differ as much as for training sets drawn from
    all: that they differ less than for each of 999 has a probability of one in a thousand.
    """
    rows = pd.concat([train, control[train.columns]], ignore_index=True)
    group = rows.groupby(list(rows.columns), dropna=False, sort=False).ngroup().to_numpy()
    total, n = np.bincount(group), len(train)
    rng = np.random.default_rng(seed)

    def apart(chosen: np.ndarray) -> float:
        counts = np.bincount(group[chosen], minlength=len(total))
        return float(((counts / n - (total - counts) / len(control)) ** 2).sum())

    real = apart(np.arange(n))
    return all(apart(rng.choice(len(rows), n, replace=False)) > real for _ in range(_DRAWS))


_GUESS = 0.25
"""Share of the time left that guesses plan with: twelve, a quarter of it each, take up to 3/4."""
IMPOSSIBLE_ROWS = MessageTemplate(
    "rows_not_possible",
    "The schema excludes {rows:people} of the training rows, so no proof under it holds.",
)
NOT_GUESSED_ROWS = MessageTemplate(
    "rows_not_among_guessed",
    "No schema was given, and {rows:people} training rows have values that the thresholds do not "
    "suggest. {but}Give a schema: treeleak schema MODEL --train FILE writes one.",
)
REASONS = (wording.NO_CONTROL, THE_SAME, wording.VALUES_GIVEN, wording.NOTHING_COMPARED)
"""Why the end of a comparison may leave something open."""


def check(case: Case) -> Case:
    """Hold the training rows against the model before the attack, as far as they can be by then.

    Columns and labels always; counts unless it takes a search or an attack to know the draws.
    Raises Mismatch.
    """
    request, release = case.request, case.release
    table = in_model_columns(release, request.X, request.y if release.classes else None)[0]
    check_gaps(release, table, request.schema)
    if release.noise is not None or request.bootstrap == "hidden":
        return case
    try:
        needed = draws_needed(release, request.bootstrap)
        draws = known_draws(release, seed_search=0) if needed else None
        posed = replace(case.problem, draws=draws)
        return replace(case, posed=posed, matched=posed.match(request.X, request.y))
    except NotCovered:
        return case


def match(case: Case) -> Case:
    """Hold the training rows against the model, if it is known how they reached the trees."""
    request, rebuilt = case.request, case.found.reconstruction
    try:
        truth = _matched(case)
        if rebuilt is not None:
            check_provided_rows(rebuilt, truth.X)
    except NotCovered as error:
        if isinstance(error, TimeUp):
            raise
        return case  # Said of the reconstruction already.
    if case.others is not None and too_like(truth.X, case.others, request.seed):
        case = replace(case, control_is_training=True, others=None)
    return case.plus(truth=truth).noting(*truth.notes)


def _matched(case: Case) -> TrainingRows:
    request, release, rebuilt = case.request, case.release, case.found.reconstruction
    draws = None if rebuilt is None else rebuilt.draws
    if rebuilt is not None and draws is None and rebuilt.draws_hidden:
        return match_training(release, request.X, request.y, hidden=rebuilt.row_count)
    if case.matched is not None and draws is case.problem.draws:
        return case.matched
    if draws is None and release.noise is not None:
        return match_training(release, request.X, request.y)
    return replace(case.problem, draws=draws).match(request.X, request.y)


def of_rules(case: Case) -> Case:
    """Hold the training rows against rules."""
    request = case.request
    truth = match_rules(case.rules, request.X, request.y, request.schema)
    return case.plus(truth=truth).noting(*truth.notes)


def compare(case: Case) -> Case:
    """Measure how close the rebuilt rows are to the training rows."""
    if case.request.progress is not None:
        case.request.progress(Progress("comparing with the training rows", 0.0))
    if nothing_to_compare(case.rebuilt):
        return case
    found, request = case.found, case.request
    side = Side.of(
        found.written(case.rebuilt), case.truth, case.release, request.seed, case.others, request.y,
        found.domains,
    )  # fmt: skip
    m = errors_of(side, case.truth, case.release, request.seed, request.y)
    return replace(case, put=side).plus(measurement=m)


def add_baselines(case: Case) -> Case:
    """Hold the measured rows against baselines: if time is up before, the errors stay."""
    if case.request.progress is not None:
        case.request.progress(Progress("comparing with baselines", 0.0))
    m = with_baselines(case.measured, case.side, case.release, case.request.seed)
    return case.plus(measurement=m)


def guess(case: Case) -> Case:
    """Guess from the shape of the trees alone, where the verdict rests on that."""
    request = case.request
    if not _shape_decides(case, case.measured):
        return case
    guesses = guesses_from_shape(
        case.release, case.rebuilt, len(case.truth.X), case.seconds(_GUESS), request.seed,
        request.progress, request.beside,
    )  # fmt: skip
    return replace(case, guesses=guesses)


def _shape_decides(case: Case, m: Measurement) -> bool:
    """Whether the verdict rests on what the attack would guess without any count.

    Where counts carry no noise, it can only show that a possible leak is none: not if time is up.
    """
    if case.release.noise is not None:
        return True
    standing = decide(m)
    return case.clock.left > 1 and standing.outcome == "perhaps" and "values" in standing.ways


def add_shape(case: Case) -> Case:
    """Add the guesses from the shape to the measurement."""
    guesses = [case.found.written(guess) for guess in case.guesses]
    schema = case.side.tables.schema
    m = with_shape(case.measured, guesses, case.truth, schema, case.request.seed)
    return case.plus(measurement=m)


def variants(case: Case) -> Case:
    """Measure the answer without a population, where one was given and there are training rows."""
    found, request = case.found, case.request
    variant, truth = case.rebuilt.without_population, found.truth
    if variant is None:
        return case
    m = None
    if truth is not None:
        bare = [g.without_population for g in case.guesses if g.without_population is not None]
        written, shapes = found.written(variant), [found.written(shape) for shape in bare]
        m = measure(
            written, truth, case.release, request.seed, case.others, labels=request.y,
            before=None if written.given.any() else found.measurement, domains=found.domains,
        )  # fmt: skip
        if m is not None:
            m = with_shape(m, shapes, truth, written.schema, request.seed)
    return case.plus(variants=(Variant("without the population", variant, m),))


def close(case: Case) -> Case:
    """Say what was compared, what was broken off, and why nothing was compared."""
    case = case.noting(*_of_sizes(case))
    found, open_ = case.found, dict(case.found.not_assessed)
    if found.measurement is not None and found.measurement.significance is None:
        why = wording.NO_CONTROL()
        if case.control_is_training:
            why = THE_SAME
        elif case.others is not None:
            if "measurement" in open_:
                return case  # What broke off the comparison is listed.
            why = wording.VALUES_GIVEN()
        return case.without("population", why)
    if case.request.X is not None and found.measurement is None and "measurement" not in open_:
        rows = found.reconstruction is not None and found.reconstruction.n_rows > 0
        cause = "all rows were given" if rows else "no rows were rebuilt"
        return case.without("measurement", wording.NOTHING_COMPARED(why=cause))
    return case


def _of_sizes(case: Case) -> list[Message]:
    """Say where the numbers of rows that were compared do not fit, or the schema does not."""
    found, messages = case.found, list[Message]()
    if found.truth is None or found.reconstruction is None:
        return messages
    n, rebuilt = len(found.truth.X), found.reconstruction.n_rows
    if found.measurement is not None and rebuilt != n:
        done = "left out" if rebuilt > n else "repeated"
        messages.append(wording.OTHER_NUMBER(rebuilt=rebuilt, rows=n, done=done, hint=N_ROWS_HINT))
    test = None if found.measurement is None else found.measurement.significance
    if test is not None and test.overlapping:
        enough = {"needed": test.needed, "better": test.better}
        messages.append(wording.CONTROL_TOO_FEW(control=test.n_control, rows=n, **enough))
    if found.impossible:
        messages.append(_of_impossible(found))
    return messages


def _of_impossible(found: AuditResults) -> Message:
    if found.schema_provided:
        return IMPOSSIBLE_ROWS(rows=found.impossible)
    but = "Such values cannot come back, though all that splits distinguish can. "
    if not found.proofs_hold:
        but = "So nothing is proved. "
    return NOT_GUESSED_ROWS(rows=found.impossible, but=but)
