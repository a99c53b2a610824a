"""The adapters of what holds several models of one table, and of what wraps a model.

A container is one line of :data:`CONTAINERS`: where its models lie, and which rows and labels each
of them saw. Models that can be joined are read as one release; the others stay beside it, and the
audit attacks each by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from treeleak.core.errors import BadInput, BadModel, NotCovered
from treeleak.core.message import MessageTemplate, static_message
from treeleak.core.private import dataclass
from treeleak.release.adapters.sklearn.attributes import class_labels, fitted, origin_of, whole
from treeleak.release.pipeline.columns import UnknownStep
from treeleak.release.pipeline.inputs import Inputs
from treeleak.release.pipeline.names import input_columns, output_columns
from treeleak.release.pipeline.through import WRAPPERS
from treeleak.release.registry import adapter, to_release
from treeleak.release.release import OtherClasses, Part, Release
from treeleak.release.row_sets import can_join, joined
from treeleak.release.stored import StoredObject, objects_in

Labels = Literal["same", "encoded", "rest", "others"]


@dataclass(frozen=True)
class Container:
    """How a class holds several models.

    Attributes
    ----------
    models : str
        The attribute that lists them.
    labels : {"same", "encoded", "rest", "others"}
        Whether each was fitted to the labels of the whole, to their numbers, to one class against
        the rest, or to other labels or rows.
    """

    models: str = "estimators_"
    labels: Labels = "same"


CONTAINERS = {
    "VotingClassifier": Container(labels="encoded"),
    "VotingRegressor": Container(),
    "StackingClassifier": Container(labels="encoded"),
    "StackingRegressor": Container(),
    "OneVsRestClassifier": Container(labels="rest"),
    "OneVsOneClassifier": Container(labels="others"),
    "OutputCodeClassifier": Container(labels="others"),
    "MultiOutputClassifier": Container(labels="others"),
    "MultiOutputRegressor": Container(labels="others"),
    "ClassifierChain": Container(labels="others"),
    "RegressorChain": Container(labels="others"),
}
"""scikit-learn's containers of models that all saw every row, or have labels of their own."""

ONE_OF_MANY = MessageTemplate(
    "one_of_several_models",
    "The model is a {outer} of {models:number} models; this is about {where:foreign}.",
)


@adapter("sklearn", *CONTAINERS)
def _container(stored: StoredObject) -> Release:
    rule = CONTAINERS[stored.name]
    if rule.labels == "others":
        raise NotCovered(f"{stored.name} holds models, each of other labels or rows")
    models = [m for m in np.ravel(fitted(stored, rule.models)) if isinstance(m, StoredObject)]
    parts = list(_readable(models, rule.models))
    if rule.labels != "same":
        parts = list(_with_labels(parts, stored, rule))
    # Models that were fitted before may be of other rows.
    apart = rule.labels == "rest" or stored.get("cv") == "prefit"
    frozen = {
        f"{rule.models}[{k}]"
        for k, m in enumerate(models)
        if any(inside.name == "FrozenEstimator" for inside in objects_in(m))
    }
    groups: list[list[Part]] = []
    alone: list[list[Part]] = []
    for part in parts:
        if apart or part.place in frozen:
            alone.append([part])
            continue
        group = next((g for g in groups if can_join(g[0].release, part.release)), None)
        if group is None:
            groups.append([part])
        else:
            group.append(part)
    # What counts the rows of each class in most leaves says most.
    best = max(groups + alone, key=_leaves_that_count)
    release = joined(best, origin_of(stored))
    if len(best) < len(models):
        where = ", ".join(part.place for part in best)
        note = ONE_OF_MANY(outer=stored.name, models=len(models), where=where)
        release = replace(release, notes=(note, *release.notes))
    return release


def _with_labels(parts: Sequence[Part], stored: StoredObject, rule: Container) -> Iterator[Part]:
    """Name the classes of models that were fitted to numbers in place of labels."""
    binarizer = stored.get("label_binarizer_")
    labels = class_labels(binarizer if isinstance(binarizer, StoredObject) else stored)
    for part in parts:
        names: tuple[Any, ...] = labels
        if rule.labels == "rest" and len(labels) > 2:
            label = labels[int(part.place.rpartition("[")[2].rstrip("]"))]
            names = (OtherClasses(f"not {label}"), label)
        if [whole(c) for c in part.release.classes] != list(range(len(names))):
            names = part.release.classes
        yield replace(part, release=replace(part.release, classes=names))


def _readable(models: Sequence[StoredObject], attribute: str, below: str = "") -> Iterator[Part]:
    """Read the models that are trees; raises NotCovered, naming the first class, if none is."""
    why: Exception | None = None
    found = False
    for k, model in enumerate(models):
        try:
            release = to_release(model)
        except (BadInput, NotCovered) as error:
            why = why or error
            continue
        found = True
        yield Part(f"{attribute}[{k}]{below}", release)
    if not found:
        raise why or BadModel(f"{attribute} lists no model")


def _leaves_that_count(parts: Sequence[Part]) -> int:
    return sum(
        int(tree.is_leaf.sum())
        for part in parts
        if part.release.not_covered is None and part.release.counts_are in ("rows", "draws")
        for tree in part.release.trees
    )


def calibrated_models(stored: StoredObject) -> list[StoredObject]:
    """List the models inside a CalibratedClassifierCV; none for any other class."""
    if stored.name != "CalibratedClassifierCV":
        return []
    models = [c.get("estimator") for c in fitted(stored, "calibrated_classifiers_")]
    return [model for model in models if isinstance(model, StoredObject)]


@adapter("sklearn", "CalibratedClassifierCV")
def _calibrated(stored: StoredObject) -> Release:
    """Read a model for each fold, or the only one."""
    models = calibrated_models(stored)
    if len(models) == 1:
        return to_release(models[0])
    parts = list(_readable(models, "calibrated_classifiers_", ".estimator"))
    k, releases = len(models), [part.release for part in parts]
    sizes = [r.n_rows or 0 for r in releases]
    n_rows, left = divmod(sum(sizes), k - 1)
    first = replace(releases[0], n_rows=n_rows)
    same = all(can_join(first, replace(r, n_rows=n_rows)) for r in releases)
    # Rows that were not drawn have no numbers: each model is attacked by itself.
    drawn = all(r.sampling.kind in ("bootstrap", "subsample") for r in releases)
    if len(parts) < k or left or min(sizes) == 0 or not same or not drawn:
        raise NotCovered(f"{stored.type} of {k} models that count no rows in common")
    by_class = _splits(stored.get("cv"), k)
    # scikit-learn's KFold without shuffling cuts the rows into parts of one size, the first larger.
    folds = np.repeat(np.arange(k), [n_rows // k + (f < n_rows % k) for f in range(k)])
    parts = [
        replace(part, fold=(f, k)) if by_class else replace(part, rows=np.flatnonzero(folds != f))
        for f, part in enumerate(parts)
    ]
    return replace(joined(parts, origin_of(stored)), n_rows=n_rows)


def _splits(cv: Any, k: int) -> bool:
    """Whether folds are made by class; raises NotCovered if it is not known how they are made."""
    if cv is None or whole(cv) == k:
        return True
    name = cv.name if isinstance(cv, StoredObject) else ""
    if name in ("KFold", "StratifiedKFold") and not cv.get("shuffle"):
        return name == "StratifiedKFold"
    raise NotCovered(f"{k} models of folds that do not follow from the order of the rows")


LAST_STEP = static_message(
    "The model is the last step of a Pipeline; its columns are that step's input.",
    "last_step_of_pipeline",
)
INSIDE = MessageTemplate("model_inside_another", "The model is {inner} inside a {outer}.")
NOT_NAMED = MessageTemplate(
    "columns_not_named", "Columns are not named after the input{why:message}."
)
WHY = MessageTemplate("why", ": {why:foreign}")


AROUND = ("Pipeline", *WRAPPERS)
"""Classes that hold a model and have no trees of their own."""


@adapter("sklearn", *AROUND)
def _wrapped(stored: StoredObject) -> Release:
    """Find the model inside others; the steps on the way to it name its columns."""
    steps: list[Any] = []
    notes: list[str] = []
    model = stored
    while model.type.startswith("sklearn."):
        if model.name == "Pipeline":
            *before, inner = [step for _, step in model.get("steps", ())] or [None]
            if not isinstance(inner, StoredObject):
                raise NotCovered(static_message("a Pipeline that does not end in a model"))
            steps += before
            if before:
                notes.append(LAST_STEP)
        elif model.name in WRAPPERS or len(calibrated_models(model)) == 1:
            inner = next(iter(calibrated_models(model)), model.get(WRAPPERS.get(model.name, "")))
            if not isinstance(inner, StoredObject):
                raise BadInput(f"{model.name} holds no fitted model ({WRAPPERS[model.name]})")
            note = INSIDE(inner=f"the {inner.name}", outer=model.name)
            notes.append(note.with_instead(INSIDE(inner="one", outer=model.name)))
        else:
            break
        model = inner
    release = to_release(model)
    release = replace(release, notes=(*notes, *release.notes))
    return _named(release, steps, model.get("feature_names_in_") is not None) if steps else release


def _named(release: Release, steps: Sequence[Any], named: bool) -> Release:
    """Name the columns after what goes into the steps; ``named``: the model knows its own."""
    came_in: Sequence[str] = ()
    try:
        first = input_columns(steps)
        came_in = first.names
        columns = output_columns(steps, first)
    except UnknownStep as error:
        return _not_named(release, named, str(error), came_in)
    names = tuple(columns.names)
    usable = len(names) == release.n_features and len(set(names)) == len(names)
    if not usable or (named and names != release.feature_names):
        return _not_named(release, named, "", came_in)
    new = dict(zip(release.feature_names, names, strict=True))
    return replace(
        release,
        feature_names=names,
        maybe_missing=frozenset(new[c] for c in release.maybe_missing),
        one_hot=dict(columns.one_hot),
        levels={new[c]: texts for c, texts in release.levels.items()},
        borders={new[c]: cuts for c, cuts in release.borders.items()},
        ranges={new[c]: ends for c, ends in release.ranges.items()},
        inputs=Inputs.of(came_in, names, columns.readings),
    )


def _not_named(release: Release, named: bool, why: str, came_in: Sequence[str]) -> Release:
    note = () if named else (NOT_NAMED(why=why and WHY(why=why)),)
    why = why or "the model's columns are not those that its steps produce"
    inputs = Inputs(tuple(came_in), {}, why)
    return replace(release, notes=(*release.notes, *note), inputs=inputs)
