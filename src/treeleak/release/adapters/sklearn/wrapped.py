"""The adapters of what scikit-learn wraps around a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.message import MessageTemplate, static_message
from treeleak.release.adapters.sklearn.containers import calibrated_models
from treeleak.release.pipeline.columns import UnknownStep
from treeleak.release.pipeline.inputs import Inputs
from treeleak.release.pipeline.names import input_columns, output_columns
from treeleak.release.pipeline.through import WRAPPERS
from treeleak.release.registry import adapter, to_release
from treeleak.release.release import Release
from treeleak.release.stored import StoredObject

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
            inner = _only_model(model)
            note = INSIDE(inner=f"the {inner.name}", outer=model.name)
            notes.append(note.with_instead(INSIDE(inner="one", outer=model.name)))
        else:
            break
        model = inner
    release = to_release(model)
    release = replace(release, notes=(*notes, *release.notes))
    return _named(release, steps, model.get("feature_names_in_") is not None) if steps else release


def _only_model(stored: StoredObject) -> StoredObject:
    if models := calibrated_models(stored):
        return models[0]
    inner = stored.get(WRAPPERS[stored.name])
    if not isinstance(inner, StoredObject):
        raise BadInput(f"{stored.name} holds no fitted model ({WRAPPERS[stored.name]})")
    return inner


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
