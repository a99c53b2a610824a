"""The main road: a model in, a reconstruction out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import pandas as pd

from treeleak.core.arrays import Place
from treeleak.core.clock import Clock, Progress
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.memory import TooLarge, refused
from treeleak.core.message import MessageTemplate, message_of, static_message
from treeleak.evidence import LeafValueEvidence
from treeleak.partition import GridTooLarge
from treeleak.reconstruction import Reconstruction, Space
from treeleak.reconstruction.folds import with_fold_rows
from treeleak.reconstruction.request import ReconstructionRequest, find_draws
from treeleak.release import Model, to_release
from treeleak.release.adapters.sklearn.counts import rescale_weights_to_counts
from treeleak.release.ensemble import Ensemble
from treeleak.release.out_of_bag import NOT_USED
from treeleak.release.pipeline.inputs import Inputs
from treeleak.release.release import NO_COLUMNS, Part, Release
from treeleak.release.sampling import Subsample, UnknownSampling
from treeleak.release.stated_noise import check_counts_agree
from treeleak.release.statistics import DRAWS
from treeleak.schema import Schema
from treeleak.side_information.earlier_release import aligned

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
_RATES = (0.1, 0.05, 0.2, 0.01, 0.5, 1.0, 0.02, 0.15, 0.25, 0.03)
"""Learning rates that are tried where none is said and the default explains nothing."""
_FIRST_SHARE = 0.5
"""Share of the time for the default."""
_JOINED_SHARE = 0.6
"""Share of the time for several models together; the rest is for each of them alone."""
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
    use_distinct: bool | Literal["both"] = True,
    trust_pickle: bool = False,
    progress: Callable[[Progress], None] | None = None,
    known_rows: pd.DataFrame | None = None,
    known_columns: pd.DataFrame | None = None,
    population: pd.DataFrame | Mapping[str, Any] | None = None,
    earlier: Model | None = None,
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
    use_distinct : bool or "both"
        If trees drew rows: use the numbers of distinct rows (``n_node_samples``) as well. With
        "both" and hidden draws, the answer from the numbers of draws alone comes too, as
        :attr:`Reconstruction.without_distinct`. Each has half of the time.
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
    earlier : fitted estimator, path, StoredObject or Release, optional
        An earlier model of some of the rows. With known draws these must be the first rows.
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
    if seed < 0:
        raise BadInput(f"seed must be 0 or more, not {seed}")
    if use_distinct not in (True, False, "both"):
        raise BadInput(f'use_distinct must be True, False or "both", not {use_distinct!r}')
    if space not in ("model", "input"):
        raise BadInput(f'space must be "model" or "input", not {space!r}')
    schema = Schema.from_argument(schema)
    with clock.enforced(), refused():
        release = rescale_weights_to_counts(to_release(model, trust_pickle), n_rows)
        check_counts_agree(release)
        if not release.n_features:
            raise NotCovered(NO_COLUMNS)
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
        alone = all(extra is None for extra in (known_rows, known_columns, population, earlier))
        release, count_notes = _by_counts(release, alone=False) if not alone else (release, ())
        if bootstrap == "hidden":
            release = _drawn_once(release)
        if isinstance(release.sampling, Subsample) and release.n_rows is None:
            release = replace(release, n_rows=n_rows)
        before = None if earlier is None else aligned(to_release(earlier, trust_pickle), release)
        with clock.until_interrupt():
            fold_notes: tuple[str, ...] = ()
            if any(part.fold is not None for part in release.parts):
                release, fold_notes = with_fold_rows(
                    release,
                    partial(reconstruct, schema=schema, seed=seed, seed_search=seed_search),
                    clock,
                )
            found, notes = find_draws(release, before, bootstrap, seed_search, clock)
            question = ReconstructionRequest(
                release, before, schema, "hidden" if found.hidden else bootstrap, found, method,
                int(seed), n_rows, known_rows, known_columns, population,
                (*count_notes, *fold_notes, *notes),
            )  # fmt: skip
            alone_too = [part for part in release.parts if part.rows is None]
            whole = clock.part(_JOINED_SHARE * clock.left) if alone_too else clock
            answer = _answered(question, use_distinct, whole, alone=alone)
            gaps = release.tested - release.maybe_missing
            if answer.status == "infeasible" and schema is None and gaps and not release.parts:
                # Rows that no tree drew at a test leave no trace of what they lack there.
                wider = replace(release, maybe_missing=release.maybe_missing | gaps)
                asked = replace(question, release=wider, notes=(*question.notes, WITH_GAPS))
                again = _answered(asked, use_distinct, clock, alone=alone)
                answer = answer if again.status == "infeasible" else again
            if answer.status == "infeasible" and release.out_of_bag:
                counts = replace(release, out_of_bag=())
                asked = replace(question, release=counts, notes=(*question.notes, NOT_USED))
                again = _answered(asked, use_distinct, clock, alone=alone)
                answer = answer if again.status == "infeasible" else again
            if alone_too and answer.status in ("unknown", "infeasible"):
                answer = _best_part(answer, alone_too, partial(reconstruct, schema=schema,
                    bootstrap=bootstrap, seed=seed, method=method, seed_search=seed_search,
                    use_distinct=use_distinct, known_rows=known_rows, known_columns=known_columns,
                    population=population), clock)  # fmt: skip
        return answer if inputs is None else _in_input(answer, inputs)


def _best_part(
    joined: Reconstruction,
    parts: Sequence[Part],
    attack: Callable[..., Reconstruction],
    clock: Clock,
) -> Reconstruction:
    """Attack models of one table one by one, where the attack on all of them met no end."""
    for k, part in enumerate(parts):
        if clock.stopped:
            break
        answer = attack(part.release, time_limit=clock.part(clock.left / (len(parts) - k)))
        if answer.status not in ("unknown", "infeasible"):
            notes = (*answer.notes, ALONE(where=part.place))
            return replace(answer, draws=joined.draws, notes=notes)
    return joined


def _answered(
    question: ReconstructionRequest,
    use_distinct: bool | Literal["both"],
    clock: Clock,
    *,
    alone: bool,
) -> Reconstruction:
    """Ask; of a boosted model's sums first, and where these are of no use, of its counts alone."""
    ensemble = question.release.ensemble
    why = ""
    # Sums are used where they are those of all rows.
    drew = question.found.draws or question.found.hidden
    fitting = None if ensemble is None or drew else ensemble.fitting
    if ensemble is not None and fitting is not None and fitting.of_classes:
        try:
            with refused():
                if fitting.assumed:
                    return _assuming(question, ensemble, clock)
                return _with_assumption_note(question.answer(use_distinct, clock), ensemble)
        except (GridTooLarge, TooLarge) as too_large:
            why = str(too_large)
    if alone:
        release, count_notes = _by_counts(question.release, alone=True)
        question = replace(question, release=release, notes=(*question.notes, *count_notes))
    try:
        return question.answer(use_distinct, clock)
    except NotCovered as no_counts:
        if not why:
            raise
        both = NEITHER(counts=message_of(no_counts), sums=message_of(why))
        raise NotCovered(both) from no_counts


def _assuming(question: ReconstructionRequest, ensemble: Ensemble, clock: Clock) -> Reconstruction:
    """Ask, with the learning rate of the release and then with others, until rows explain it.

    A wrong rate may take all its time, and end without rows.
    """
    rates = dict.fromkeys((ensemble.learning_rate, *_RATES))
    late: Reconstruction | None = None
    for left, rate in zip(range(len(rates), 0, -1), rates, strict=True):
        with_rate = replace(ensemble, learning_rate=rate)
        assumed = replace(question, release=replace(question.release, ensemble=with_rate))
        share = _FIRST_SHARE if left == len(rates) else 1.0 / left
        try:
            answer = assumed.answer(False, clock.part(share * clock.left))
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


def _by_counts(release: Release, *, alone: bool) -> tuple[Release, tuple[str, ...]]:
    """Leave the counts of a model alone, and say what is lost.

    ``alone``: nothing else tells its classes apart.
    """
    ensemble, notes = release.ensemble, []
    if ensemble is not None and _sums_of_classes(release):
        release = replace(release, ensemble=replace(ensemble, fitting=None))
        notes.append(COUNTS_ALONE)
    if alone and _labels_open(release):
        release = release.without_classes()
        notes.append(UNLABELLED)
    return release, tuple(notes)


def _drawn_once(release: Release) -> Release:
    """Take a boosted model that says nothing of draws to draw without replacement: all do."""
    boosted = release.ensemble is not None and not release.not_covered
    if not boosted or not isinstance(release.sampling, UnknownSampling):
        return release
    trees = tuple(tree.with_counts(DRAWS) for tree in release.trees)
    return replace(release, sampling=Subsample(), trees=trees)


def _sums_of_classes(release: Release) -> bool:
    """Whether it is known how a boosted model of classes was fitted."""
    fitting = None if release.ensemble is None else release.ensemble.fitting
    return fitting is not None and fitting.of_classes


def _labels_open(release: Release) -> bool:
    """Whether the rows of a model have classes, and no tree tells them apart."""
    counts = any(tree.counts is not None for tree in release.trees)
    return len(release.classes) > 1 and not release.not_covered and not counts


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
        without_distinct=_other_in_input(answer.without_distinct, inputs),
    )


def _other_in_input(other: Reconstruction | None, inputs: Inputs) -> Reconstruction | None:
    return None if other is None else _in_input(other, inputs)
