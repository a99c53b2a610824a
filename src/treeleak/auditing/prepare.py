"""The beginning of an audit: the model is read, and what was given is put in its columns."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from treeleak.auditing import wording
from treeleak.auditing.assessors import comparison
from treeleak.auditing.assessors.budget import budget_of
from treeleak.auditing.assessors.counts import THRESHOLD
from treeleak.auditing.assessors.people import check_names, labels_of
from treeleak.auditing.case import AuditRequest, Case
from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.inventory.inventory import take_inventory
from treeleak.auditing.inventory.other_models import OtherModel, other_models
from treeleak.core.arrays import Labels, Rows, rows_at
from treeleak.core.errors import BadInput, BadModel, Mismatch, NotCovered, TimeUp
from treeleak.core.memory import refused
from treeleak.core.message import Message, message_of, static_message
from treeleak.core.private import dataclass
from treeleak.reconstruction.problem import Knowledge, Problem
from treeleak.release import (
    Model,
    Release,
    RuleList,
    StoredObject,
    snapshot,
    to_release,
)
from treeleak.release.adapters.sklearn.counts import rescale_weights_to_counts
from treeleak.release.draws.recompute import fitted_rows
from treeleak.release.noise.goodness_of_fit import Misfit, Scale
from treeleak.release.noise.laws import LabelNoise
from treeleak.release.pipeline.through import put_through
from treeleak.release.registry import ModelFile, with_steps
from treeleak.release.row_sets import without_facts
from treeleak.release.sampling import AllRows, Subsample
from treeleak.release.stated_noise import (
    NoiseLeft,
    as_counted,
    check_counts_agree,
    equal_trees,
    noise_left,
    stated_noise_misfit,
)
from treeleak.verification.columns import in_model_columns
from treeleak.verification.training_rows import check_row_facts

_NOT_THERE = {
    "smaller": "The counts do not carry the stated noise",
    "larger": "The counts do not carry the stated noise, but more",
    "other": "The counts do not carry the stated noise, but another one",
}


@dataclass(frozen=True, eq=False)
class NoiseFound:
    """The noise of a model, held against its counts and the training rows."""

    refuted: str | None
    """Why the counts do not carry the noise that is stated, in words."""
    scale: Scale | None
    """How large it is, by the training rows."""
    release: Release
    """What to attack: where the noise is not there, the counts as they are."""


def find_noise(release: Release, X: Any, y: Any) -> NoiseFound:
    """Hold the noise that a release states against its counts, and against training rows.

    Raises BadModel if counts contradict each other, or numbers stand beside noisy ones that carry
    no noise.
    """
    check_counts_agree(release)
    by_file, left = stated_noise_misfit(release), _left(release, X, y)
    if by_file is not None:
        trees = left.exact or equal_trees(release)
        bare = as_counted(release, trees) if trees else release
        return NoiseFound(_sentence(by_file, "the counts"), left.scale, bare)
    misfit = left.misfit
    if misfit is None or misfit.how == "larger":
        # Rows that differ by more may just not be the training rows.
        return NoiseFound(None, left.scale, release)
    what = "the difference between these counts and those of the training rows"
    if isinstance(release.noise, LabelNoise):
        what = "the leaves of the training rows"
    bare = as_counted(release, left.exact) if left.exact else release
    return NoiseFound(_sentence(misfit, what), left.scale, bare)


def _left(release: Release, X: Any, y: Any) -> NoiseLeft:
    if X is None or release.noise is None:
        return NoiseLeft()
    labels = y if release.classes else None
    try:
        table, label, _ = in_model_columns(release, X, labels)
    except Mismatch:
        return NoiseLeft()
    return noise_left(release, table.to_numpy(), None if labels is None else label)


def _sentence(misfit: Misfit, what: str) -> str:
    return (
        f"{_NOT_THERE[misfit.how]}. By {what}: {misfit.why}; by chance, that happens less than "
        "once in a million times"
    )


_NOT_OF_RULES = (
    "known_rows", "known_columns", "population", "control", "n_rows",
)  # fmt: skip


def open_model(
    model: Model, trust_pickle: bool
) -> tuple[str | None, str | None, StoredObject | Release | RuleList]:
    """Read a model; of a file, give its name and its hash, too."""
    if isinstance(model, (str, os.PathLike)):
        model = ModelFile.read(model, trust_pickle)
    if isinstance(model, ModelFile):
        return model.file, model.sha256, model.content
    if isinstance(model, (StoredObject, Release, RuleList)):
        return None, None, model
    return None, None, snapshot(model)


SEVERAL_COLUMNS = static_message(
    "The labels have several columns, and the model that was attacked knows one of them: the "
    "training rows were compared without labels.",
    "labels_of_several_columns",
)
TARGETS_UNSEEN = static_message(
    "The training rows were given without their targets: those that the file tells, such as event "
    "times, were compared with nothing. Name their column (--label).",
    "targets_of_rows_not_compared",
)
EVENT_TIMES = static_message(
    "The labels say for each training row whether there was an event, and when: the times were "
    "compared.",
    "labels_with_event_times",
)


def _event_times(y: Any) -> Any:
    """Take the times of labels of survival, records of a flag and a number; None of others."""
    fields = getattr(getattr(y, "dtype", None), "fields", None) or {}
    kinds = {name: dtype.kind for name, (dtype, *_) in fields.items()}
    numbers = [name for name, kind in kinds.items() if kind in "iuf"]
    return y[numbers[0]] if sorted(kinds.values()) in (["b", "f"], ["b", "i"]) else None


@contextmanager
def errors_name_file(file: str | None) -> Iterator[None]:
    """Let errors name the file of the model."""
    try:
        yield
    except BadModel as error:
        raise (BadModel(f"{file}: {error}") if file else error) from error


def prepare_case(case: Case) -> Case:
    """Take the inventory, and make ready what the assessors need."""
    least = getattr(case.content, "least_count", None)
    if least is not None and case.request.threshold == THRESHOLD:
        # A folder says itself what it calls small, and the user asked for nothing else.
        smallest = replace(case.request, threshold=least)
        case = replace(case, request=smallest).noting(wording.LEAST_COUNT(least=least))
    content, request = case.content, case.request
    if isinstance(content, RuleList):
        unused = {**request.beside, "control": request.control, "n_rows": request.n_rows}
        for name in _NOT_OF_RULES:
            if unused[name] is not None:
                raise NotCovered(wording.UNUSED(what=name))
        n_rows = None if content.counts is None else sum(map(sum, content.counts))
        inventory = take_inventory(content, Context(n_rows), request.X)
        return case.plus(inventory=inventory, of="rules").noting(*content.notes)
    try:
        with refused():
            release = rescale_weights_to_counts(
                with_steps(to_release(content), case.live), request.stated_rows
            )
    except NotCovered as error:
        others = _others(content, None)
        context = _counted(context_of(content, None), request, others)
        inventory = take_inventory(content, context, request.X)
        case = case.plus(inventory=inventory, others=others, people=context.n_rows)
        why = case.clock.timeout_message if isinstance(error, TimeUp) else error
        return replace(case, not_covered=str(why))
    others = _others(content, release)
    if (times := _event_times(case.request.y)) is not None:
        case = replace(case, request=replace(case.request, y=times)).noting(EVENT_TIMES)
    if np.ndim(case.request.y) == 2 and np.shape(case.request.y)[1] > 1:
        # The model reads as one of its targets.
        case = replace(case, request=replace(case.request, y=None)).noting(SEVERAL_COLUMNS)
    case = _put_through(case, release)
    X, y, note = fitted_part(release, case.request.X, case.request.y)
    if note is not None:
        case = replace(case, request=replace(case.request, X=X, y=y)).noting(note)
    case, release = _facts_held(case, release)
    request = case.request
    noise = find_noise(release, request.X, request.y)
    budget = budget_of(release, noise.refuted, noise.scale)
    release = noise.release
    context = replace(_counted(context_of(content, release), request, others), rows=request.X)
    inventory = take_inventory(content, context, request.X)
    case = case.plus(
        budget=budget, release=release, inventory=inventory, others=others, people=context.n_rows
    )
    case = case.noting(*release.notes)
    columns = {*release.feature_names, *release.one_hot}
    if request.schema is not None:
        columns |= {a.name for a in request.schema.attributes} | set(labels_of(request.schema))
    check_names(request.sensitive, columns, "sensitive")
    check_names(request.groups, columns | set(getattr(request.X, "columns", ())), "groups")
    case = case if request.control is None else _with_control(case, release)
    # Which rows were drawn depends on how many there were, which is no secret of anybody.
    drew = isinstance(release.sampling, Subsample)
    counted = all(tree.totals is not None for tree in release.trees)
    # Labels of leaves do not show it, either.
    follows = (drew and not counted) or (release.n_rows is None and release.counts_are == "labels")
    n_rows = request.stated_rows if follows else request.n_rows
    problem = Problem(
        release=release,
        stated_schema=request.schema,
        bootstrap=request.bootstrap,
        knowledge=Knowledge(n_rows=n_rows, **request.beside),
        seed=request.seed,
    )
    case = replace(case, posed=problem)
    if request.X is not None and request.on_mismatch == "raise":
        case = comparison.check(case)
    return case


def _others(content: StoredObject | Release, release: Release | None) -> tuple[OtherModel, ...]:
    return other_models(content, release) if isinstance(content, StoredObject) else ()


def _counted(context: Context, request: AuditRequest, others: tuple[OtherModel, ...]) -> Context:
    """Add the number of training rows, as far as anything says it."""
    stated = (request.stated_rows, *(o.release.n_rows for o in others if o.release is not None))
    known = [n for n in (context.n_rows, *stated) if n is not None]
    return replace(context, n_rows=context.n_rows or max(known, default=None))


def _put_through(case: Case, release: Release) -> Case:
    """Put training rows in the trees' columns; of the others, groups may speak."""
    request = case.request
    if request.X is None:
        return case
    try:
        rows, notes = put_through(release, request.X, "training rows")
    except Mismatch as error:
        return case.plus(mismatch=request.mismatched(error))
    if not notes:
        return case
    beside = [c for c in request.groups if c in request.X and c not in rows]
    if beside:
        rows = rows.join(request.X[beside])
    return replace(case, request=replace(request, X=rows)).noting(*notes)


def _facts_held(case: Case, release: Release) -> tuple[Case, Release]:
    """Hold what the file says of each row against the training rows.

    What they contradict is not used, and nothing else is compared with them.
    """
    request = case.request
    if request.X is None or release.row_facts is None or case.found.mismatch is not None:
        return case, release
    if request.y is None and not release.classes and release.row_facts.told.any():
        case = case.noting(TARGETS_UNSEEN)
    try:
        table = in_model_columns(release, request.X, None)[0]
    except Mismatch:
        return case, release  # Said when counts are compared.
    try:
        check_row_facts(release, table, request.y, by_number=request.bootstrap != "hidden")
    except Mismatch as error:
        case = case.plus(mismatch=request.mismatched(error))
        case = case.without("measurement", message_of(error))
        case = replace(case, request=replace(request, X=None, y=None))
        return case, without_facts(release)
    return case, release


def fitted_part(
    release: Release, X: Rows | None, y: Labels | None
) -> tuple[Any, Any, Message | None]:
    """Leave out of the training rows those that early stopping kept from the trees.

    Returns the rows and labels that are left, and what is to be said of it; None where they stay as
    they are, and nothing is to be said.
    """
    held = getattr(release.sampling, "held_back", None)
    if X is None or held is None or len(X) == release.n_rows:
        return X, y, None
    n = len(X)
    labels = None if y is None else np.ravel(np.asarray(y, dtype=object))
    try:
        numbers = None if labels is None else release.class_numbers(labels)
        numbers_fitted = fitted_rows(held, n, numbers)
    except BadInput as error:
        return X, y, wording.HELD_BACK_FITTED(why=message_of(error))
    if len(numbers_fitted) != release.n_rows:
        return X, y, None
    if isinstance(release.sampling, AllRows):
        # Trees that drew rows drew them by their number in the order in which they were shuffled.
        numbers_fitted = np.sort(numbers_fitted)
    rows = rows_at(X, numbers_fitted)
    if isinstance(rows, pd.DataFrame):
        rows = rows.reset_index(drop=True)
    left = None if labels is None else labels[numbers_fitted]
    return rows, left, wording.HELD_BACK(held=n - len(numbers_fitted), rows=n)


def _with_control(case: Case, release: Release) -> Case:
    others, _, notes = in_model_columns(
        release, case.request.control, what="control rows", unseen=True
    )
    if others.empty:
        raise BadInput("the table of control rows is empty")
    return replace(case, others=others).noting(*notes)


def context_of(content: StoredObject | Release, release: Release | None) -> Context:
    """Gather what the inventory goes by."""
    least = getattr(content, "least_count", None)
    if release is None:
        n = content.get("_n_samples") if isinstance(content, StoredObject) else None
        return Context(
            n if isinstance(n, int) else None, drawn=None, missing=None, least_count=least
        )
    drawn = release.sampling.kind != "all"
    noise = release.noise
    # Of leaves that name their largest class as it is, nothing was hidden by chance.
    noisy = noise is not None and getattr(noise, "rule", "") not in ("majority", "present")
    return Context(
        release.n_rows, drawn, bool(release.maybe_missing), noisy, release, least_count=least
    )
