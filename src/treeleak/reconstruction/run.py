"""The main road: a model in, a reconstruction out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pandas as pd

from treeleak.attacks.answer import ENUMERATED
from treeleak.core.arrays import Place
from treeleak.core.clock import Clock, Progress
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.memory import TooLarge, refused
from treeleak.core.message import MessageTemplate, message_of, static_message
from treeleak.evidence import DrawnLossSums, LeafValueEvidence
from treeleak.partition import GridTooLarge
from treeleak.reconstruction import Reconstruction, Space
from treeleak.reconstruction.answering import solve
from treeleak.reconstruction.folds import with_fold_rows
from treeleak.reconstruction.problem import Knowledge, Problem, find_draws
from treeleak.reconstruction.schedule import SCHEDULE
from treeleak.release import Model, to_release
from treeleak.release.adapters.sklearn.counts import rescale_weights_to_counts
from treeleak.release.draws.boosters import SeveralNumbers
from treeleak.release.ensemble import Ensemble
from treeleak.release.pipeline.inputs import Inputs
from treeleak.release.release import NO_COLUMNS, Release
from treeleak.release.row_facts import NOT_USED
from treeleak.release.sampling import Subsample, UnknownSampling
from treeleak.release.stated_noise import check_counts_agree
from treeleak.release.statistics import DRAWS
from treeleak.schema import Schema

COUNTS_ALONE = static_message(
    "the attack used only the numbers of rows, and no other sums of the loss", "run_counts_alone"
)
FROM_STEPS = static_message(
    "the file counts no rows: the attack used the values of its leaves", "run_from_steps"
)
ASSUMED = MessageTemplate(
    "fitting_assumed",
    "these rows explain the values of all leaves, with a learning rate of {rate} and a "
    "regularisation of {l2}, which are not in the file",
)
NEITHER = MessageTemplate(
    "neither_counts_nor_sums", "{counts:foreign}; and of the sums in its leaves, {sums:foreign}"
)
WITH_GAPS = static_message(
    "no rows without missing values meet the counts: any column may have some", "with_gaps"
)
ALONE = MessageTemplate(
    "one_model_alone",
    "together the models gave no rows that meet all counts; these rows are those of "
    "{where:foreign} alone",
)
SHARES = static_message(
    "leaf values disclose only shares of rows: their number is the least that makes all of "
    "them whole",
    "run_shares",
)
NUMBER_TRIED = static_message(
    "several numbers of rows fit the draws: this is the one whose rows meet all sums, or else the "
    "likeliest",
    "number_of_rows_tried",
)
UNLABELLED = static_message(
    "neither the model's counts nor the known parts distinguish classes: rows are rebuilt "
    "without labels",
    "run_unlabelled",
)


def reconstruct(
    model: Model,
    schema: Schema | Place | None = None,
    bootstrap: str = "auto",
    time_limit: float | Clock = 60,
    seed: int = 0,
    *,
    method: str = "auto",
    seed_search: int = 1_000_000,
    trust_pickle: bool = False,
    progress: Callable[[Progress], None] | None = None,
    known_rows: pd.DataFrame | None = None,
    known_columns: pd.DataFrame | None = None,
    population: pd.DataFrame | Mapping[str, Any] | None = None,
    n_rows: int | None = None,
    space: Space = "model",
) -> Reconstruction:
    """Rebuild the training set of a tree model from the model alone.

    Parameters
    ----------
    model : fitted estimator, path, StoredObject or Release
    schema : Schema or path, optional
        What a row can be. Without one, the limits of the model itself: columns whose only threshold
        is 0.5 are binary, and only fitted encoders make groups.
    bootstrap : {"auto", "none", "known", "hidden"}
        What to assume about the draws. "auto" trusts the model. If its trees drew rows, treeleak
        recomputes the draws from the seeds in the file, or from a forest seed that a search finds.
        If neither works, it treats them as hidden, and a note says so.
    time_limit : float or Clock
        Seconds, or a running clock. When they are over, the function returns the best rows so far,
        with status "unknown" if they miss a count. Ctrl-C does the same.
    seed : int
        The same model, schema, limits and seed give the same rows, unless time ran out. With hidden
        draws or noise, this needs time for the whole walk. ``numbers["chains"]`` and
        ``numbers["sweeps"]`` are then 8 and 200, with noise 12 and 9.
    method : str
        "auto" for treeleak's own attack, or the name under which another one is registered.
    seed_search : int
        Forest seeds to try, from 0, if the file has no seeds; 0 for none.
    trust_pickle : bool
        Also open pickle and joblib files, if ``model`` is a path.
    progress : callable, optional
        Receives :class:`~treeleak.core.clock.Progress`.
    known_rows : DataFrame, optional
        Known rows of the training set: the model's columns and one more, the label. If the index is
        named "row", it holds their positions in the training set, from 0. Known draws use only rows
        with a known position, or one that follows from ``known_columns``. For other rows, a note
        says how many are in the answer.
    known_columns : DataFrame, optional
        One row for each row of the training set: some of the model's columns, and maybe one more,
        the label. The answer keeps this order. With known draws it must be the order of training.
    population : DataFrame or mapping, optional
        The population that the rows come from, as a prior: other rows of it in the model's columns
        (and maybe one more, the label), or marginals, column -> {value: share}. The answer without
        it comes too, as :attr:`Reconstruction.without_population`; each has half of the time.
    n_rows : int, optional
        Number of training rows, for hidden draws or counts with noise. Without it, treeleak uses
        the model's own number, or infers it from numbers of distinct rows or noisy counts. For
        XGBoost and CatBoost, whose files add up weights, it also says that no row had a weight.
    space : {"model", "input"}
        Columns of the answer: those that enter the trees, or those that enter the model's pipeline,
        with its transformers undone. The schema, known rows and columns, and the population are in
        the model's columns either way.

    Returns
    -------
    Reconstruction

    Raises
    ------
    BadInput
        If the model, the file or the schema cannot be used.
    NotCovered
        If treeleak cannot rebuild rows from this kind of model (yet), or cannot undo a transformer.
        The message gives the reason.
    TimeUp
        If the model is so large that no answer was ready in time.
    """
    clock = Clock.of(time_limit, progress)
    if space not in ("model", "input"):
        raise BadInput(f'space must be "model" or "input", not {space!r}')
    schema = Schema.from_argument(schema)
    with clock.enforced(), refused():
        release = rescale_weights_to_counts(to_release(model, trust_pickle), n_rows)
        inputs = None
        if space == "input":
            if release.inputs is None:
                raise NotCovered(
                    static_message(
                        "the file holds no transformers: no columns are known but the model's"
                    )
                )
            release.inputs.check()
            inputs = release.inputs
        problem = Problem(
            release=release,
            stated_schema=schema,
            bootstrap=bootstrap,
            knowledge=Knowledge(
                known_rows=known_rows, known_columns=known_columns, population=population,
                n_rows=n_rows,
            ),
            method=method,
            seed=int(seed),
        )  # fmt: skip
        answer = rebuild(problem, seed_search, clock)
        return answer if inputs is None else _in_input(answer, inputs)


def rebuild(problem: Problem, seed_search: int, clock: Clock) -> Reconstruction:
    """Find the draws of a problem, and solve it, or another that stands for it.

    ``seed_search``: as for :func:`reconstruct`.
    """
    if problem.seed < 0:
        raise BadInput(f"seed must be 0 or more, not {problem.seed}")
    with clock.enforced(), refused():
        check_counts_agree(problem.release)
        if not problem.release.n_features:
            raise NotCovered(NO_COLUMNS)
        extra = problem.knowledge
        beside = extra.known_rows, extra.known_columns, extra.population
        alone = all(known is None for known in beside)
        if not alone:
            problem = _by_counts(problem, alone=False)
        release = problem.release
        if problem.bootstrap == "hidden":
            release = _drawn_once(release)
        if isinstance(release.sampling, Subsample) and release.n_rows is None:
            release = replace(release, n_rows=extra.n_rows)
        with clock.until_interrupt():
            notes = problem.notes
            if any(part.fold is not None for part in release.parts):
                one = Problem(
                    release=release, stated_schema=problem.stated_schema, seed=problem.seed
                )
                release, fold_notes = with_fold_rows(
                    release,
                    lambda fold, time_limit: rebuild(
                        replace(one, release=fold), seed_search, time_limit
                    ),
                    clock,
                )
                notes = (*notes, *fold_notes)
            problem = replace(problem, release=release, notes=notes)
            try:
                problem = find_draws(problem, seed_search, clock)
            except SeveralNumbers as numbers:
                return _of_one_number(problem, numbers, seed_search, clock)
            several = any(part.rows is None for part in release.parts)
            joined = clock.part(SCHEDULE.joined_share * clock.left) if several else clock
            answer = _solved(problem, joined, alone=alone)
            others = _stand_ins(problem) if answer.status in ("unknown", "infeasible") else []
            for k, (other, instead_of, place) in enumerate(others):
                if place and clock.stopped:
                    break
                if answer.status not in instead_of:
                    continue
                part = clock.part(clock.left / (len(others) - k))
                if place:
                    found = rebuild(other, seed_search, part)
                else:
                    found = _solved(other, part, alone=alone)
                if found.status not in instead_of:
                    more = (ALONE(where=place),) if place else ()
                    answer = replace(found, draws=answer.draws, notes=(*found.notes, *more))
        return answer


def _of_one_number(
    problem: Problem, several: SeveralNumbers, seed_search: int, clock: Clock
) -> Reconstruction:
    """Try the numbers of rows that fit, until rows meet all sums; else take the likeliest.

    With another number, some row would be missing in many sums, or too many be in them. Raises
    ``several`` where no sums of the loss are known.
    """
    found = list[Reconstruction]()
    for n_rows in several.numbers:
        one = replace(problem, release=replace(problem.release, n_rows=n_rows))
        with suppress(NotCovered):
            answer = rebuild(one, seed_search, clock.part(clock.left / 2))
            if answer.evidence.startswith(DrawnLossSums.kind) and answer.X is not None:
                found.append(answer)
        # Of cells that are not listed, what is found is too rough to tell numbers apart.
        told = [answer.status == "feasible" or answer.cells != ENUMERATED for answer in found]
        if clock.stopped or any(told):
            break
    if not found:
        raise several
    # Those that meet all come last, the likeliest number first.
    best = found[-1] if found[-1].status == "feasible" else found[0]
    return replace(best, notes=(*best.notes, NUMBER_TRIED))


def _stand_ins(problem: Problem) -> list[tuple[Problem, tuple[str, ...], str]]:
    """Problems to solve where the answer to one has no rows that are proved to be possible.

    Each comes with the statuses of answers in whose stead it is solved, and with the place of the
    model that it is of, where it is of one of several.
    """
    release, out = problem.release, list[tuple[Problem, tuple[str, ...], str]]()
    gaps = release.tested - release.maybe_missing
    if problem.stated_schema is None and gaps and not release.parts:
        # Rows that no tree drew at a test leave no trace of what they lack there.
        wider = replace(release, maybe_missing=release.maybe_missing | gaps)
        notes = (*problem.notes, WITH_GAPS)
        out.append((replace(problem, release=wider, notes=notes), ("infeasible",), ""))
    if release.out_of_bag:
        counts = replace(release, out_of_bag=())
        notes = (*problem.notes, NOT_USED)
        out.append((replace(problem, release=counts, notes=notes), ("infeasible",), ""))
    single = replace(
        problem, draws=None, hidden=False, notes=(),
        knowledge=replace(problem.knowledge, n_rows=None),
    )  # fmt: skip
    out += [
        (replace(single, release=part.release), ("unknown", "infeasible"), part.place)
        for part in release.parts
        if part.rows is None
    ]
    return out


def _solved(problem: Problem, clock: Clock, *, alone: bool) -> Reconstruction:
    """Solve by a boosted model's sums, and where these are too large or of no use, by counts.

    ``alone``: whether nothing is known beside the model.
    """
    ensemble, too_large = problem.release.ensemble, ""
    fitting = None if ensemble is None else ensemble.fitting
    # Sums are used where it is known whose they are.
    if ensemble is not None and fitting is not None and fitting.of_classes and not problem.hidden:
        # Counts alone may say which rows there are where sums take too long.
        counted = all(tree.totals is not None for tree in problem.release.trees)
        share = SCHEDULE.drawn_sums_share if counted and problem.draws is not None else 1.0
        try:
            with refused():
                part = clock if share == 1.0 else clock.part(share * clock.left)
                by_sums = _by_sums(problem, ensemble, part)
        except (GridTooLarge, TooLarge) as error:
            too_large = str(error)
        else:
            # Where cells cannot be listed, rows that meet counts alone say next to nothing.
            unlisted = by_sums.X is not None and by_sums.cells != ENUMERATED
            if share == 1.0 or by_sums.status != "unknown" or clock.stopped or unlisted:
                return by_sums
            by_counts = solve(_by_counts(problem, alone=alone), clock)
            return by_sums if by_counts.status == "unknown" else by_counts
    if alone:
        problem = _by_counts(problem, alone=True)
    try:
        return solve(problem, clock)
    except NotCovered as no_counts:
        if not too_large:
            raise
        both = NEITHER(counts=message_of(no_counts), sums=message_of(too_large))
        raise NotCovered(both) from no_counts


def _by_sums(problem: Problem, ensemble: Ensemble, clock: Clock) -> Reconstruction:
    """Solve with the learning rate of the model; if that is assumed, with others, too.

    A wrong rate may take all its time, and end without rows.
    """
    assumed = ensemble.fitting is not None and ensemble.fitting.assumed
    rates = dict.fromkeys((ensemble.learning_rate, *(SCHEDULE.learning_rates if assumed else ())))
    late: Reconstruction | None = None
    for left, rate in zip(range(len(rates), 0, -1), rates, strict=True):
        with_rate = replace(ensemble, learning_rate=rate)
        candidate = replace(problem, release=replace(problem.release, ensemble=with_rate))
        share = SCHEDULE.default_rate_share if left == len(rates) > 1 else 1.0 / left
        try:
            answer = solve(candidate, clock.part(share * clock.left))
        except NotCovered:
            if late is None and (left == 1 or clock.stopped):
                raise
        else:
            if answer.X is not None:
                return _with_assumption_note(answer, with_rate)
            late = answer
        if late is not None and clock.stopped:
            break
    assert late is not None  # noqa: S101 (the last one either answers or raises)
    return late


def _with_assumption_note(answer: Reconstruction, ensemble: Ensemble) -> Reconstruction:
    """Note what was taken for granted where rows are not counted."""
    fitting = ensemble.fitting
    if (
        fitting is None
        or answer.X is None
        or not answer.evidence.startswith(LeafValueEvidence.kind)
    ):
        return answer
    notes = [FROM_STEPS]
    if fitting.assumed:
        notes.append(ASSUMED(rate=f"{ensemble.learning_rate:g}", l2=f"{fitting.l2:g}"))
    if not fitting.l2:
        notes.append(SHARES)
    return replace(answer, notes=(*answer.notes, *notes))


def _by_counts(problem: Problem, *, alone: bool) -> Problem:
    """Leave the counts of a model alone, and note what is lost.

    ``alone``: nothing else tells its classes apart.
    """
    release, notes = problem.release, []
    ensemble = release.ensemble
    if ensemble is not None and ensemble.fitting is not None and ensemble.fitting.of_classes:
        release = replace(release, ensemble=replace(ensemble, fitting=None))
        notes.append(COUNTS_ALONE)
    by_class = any(tree.counts is not None for tree in release.trees)
    if alone and len(release.classes) > 1 and not release.not_covered and not by_class:
        # The rows have classes, and no tree tells them apart.
        release = release.without_classes()
        notes.append(UNLABELLED)
    return replace(problem, release=release, notes=(*problem.notes, *notes))


def _drawn_once(release: Release) -> Release:
    """Take a boosted model that says nothing of draws to draw without replacement: all do."""
    boosted = release.ensemble is not None and not release.not_covered
    if not boosted or not isinstance(release.sampling, UnknownSampling):
        return release
    trees = tuple(tree.with_counts(DRAWS) for tree in release.trees)
    return replace(release, sampling=Subsample(), trees=trees)


def _in_input(answer: Reconstruction, inputs: Inputs) -> Reconstruction:
    """Write what an answer says of rows in the columns of the input."""
    likeliest, lower, upper = answer.most_likely, answer.lower, answer.upper
    if lower is not None and upper is not None:
        lower, upper = inputs.bounds(lower, upper)
    return replace(
        answer,
        space="input",
        X=None if answer.X is None else inputs.table(answer.X),
        lower=lower,
        upper=upper,
        confidence=None if answer.confidence is None else inputs.least(answer.confidence),
        known=None if answer.known is None else inputs.least(answer.known),
        most_likely=None if likeliest is None else (inputs.table(likeliest[0]), likeliest[1]),
        free_columns=inputs.holding(answer.free_columns),
        interval_columns=inputs.holding(answer.interval_columns),
        notes=(*answer.notes, *inputs.notes()),
        without_population=_other_in_input(answer.without_population, inputs),
    )


def _other_in_input(other: Reconstruction | None, inputs: Inputs) -> Reconstruction | None:
    return None if other is None else _in_input(other, inputs)
