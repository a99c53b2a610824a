"""The adapters of scikit-survival's trees: those of scikit-learn, with curves in their nodes.

``value`` holds, for every time at which something happened to a training row, the cumulative hazard
and the share that survives, of the rows of the node; with ``low_memory``, one number. Trees have
the seeds of scikit-learn's forests, and draw alike; curves count draws (version 0.28). Gradient
boosting fits scikit-learn's trees to what is left of a loss: all that is read of it are counts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from treeleak.core.errors import BadModel, NotCovered, TreeleakError
from treeleak.core.message import MessageTemplate, static_message
from treeleak.release.adapters.sklearn.attributes import fitted, is_nonzero
from treeleak.release.adapters.sklearn.boosting import boosted_counts
from treeleak.release.adapters.sklearn.counts import Training
from treeleak.release.adapters.sklearn.ensembles import forest, release_of
from treeleak.release.draws.seeds import known_draws
from treeleak.release.event_times import Curves, outcomes_of_rows, told_in_time
from treeleak.release.registry import adapter
from treeleak.release.release import Release
from treeleak.release.row_sets import numbered
from treeleak.release.sampling import AllRows, Bootstrap
from treeleak.release.stored import StoredObject

OUTCOMES = MessageTemplate(
    "survival_outcomes",
    "The curves in the nodes tell the status of {status:people}, and the event times of "
    "{events:people}, exactly; of a row that left without an event, the target is when it left.",
)
NO_CURVES = static_message(
    "Nodes hold one number in place of survival curves (low_memory): event times stand in the list "
    "of all of them only.",
    "survival_no_curves",
)
DROPPED = static_message(
    "trees were dropped at random, with numbers from the generator that also draws rows",
    "survival_dropped",
)
LINEAR = "a sum of functions of one column each, fitted by least squares: no trees"


@adapter("sksurv", "SurvivalTree", "ExtraSurvivalTree")
def _tree(stored: StoredObject) -> Release:
    return _with_outcomes(
        stored, [stored], release_of(stored, [stored], Training(AllRows(), None), "rows")
    )


@adapter("sksurv", "RandomSurvivalForest", "ExtraSurvivalTrees")
def _forest(stored: StoredObject) -> Release:
    return _with_outcomes(stored, fitted(stored, "estimators_"), forest(stored, "rows"))


@adapter("sksurv", "GradientBoostingSurvivalAnalysis")
def _boosting(stored: StoredObject) -> Release:
    # Its own version of early stopping parts rows with an event from the others.
    hidden = DROPPED if is_nonzero(stored.get("dropout_rate")) else ""
    return _named(stored, boosted_counts(stored, True, hidden))


@adapter("sksurv", "ComponentwiseGradientBoostingSurvivalAnalysis")
def _componentwise(stored: StoredObject) -> Release:
    raise NotCovered(f"{stored.name} is {LINEAR}")


def _named(stored: StoredObject, release: Release) -> Release:
    # Leaves hold curves, whose shapes are checked: of one target.
    return replace(release, origin=f"scikit-survival, {stored.name}", n_targets=1)


def _with_outcomes(stored: StoredObject, trees: Any, release: Release) -> Release:
    """Add what curves tell of numbered rows, where trees saw all rows, or draws are known."""
    release = _named(stored, release)
    if release.not_covered or release.left_out or release.parts:
        return release
    values = [tree.get("tree_").get("values") for tree in trees]
    if all(value.shape[1:] == (1, 1) for value in values):
        return replace(release, notes=(*release.notes, NO_CURVES))
    times, is_event = stored.get("unique_times_"), stored.get("is_event_time_")
    flags = isinstance(is_event, np.ndarray) and is_event.dtype.kind == "b"
    if not flags or not isinstance(times, np.ndarray) or times.dtype.kind not in "iuf":
        raise BadModel(f"{stored.name}: no times of events")
    if any(value.shape[1:] != (len(times), 2) for value in values):
        raise BadModel(f"{stored.name}: curves of other than {len(times)} times")
    for t, tree in enumerate(trees):
        for name, whole in (("unique_times_", times), ("is_event_time_", is_event)):
            if (own := tree.get(name)) is not None and not np.array_equal(own, whole):
                raise BadModel(f"tree {t}: {name} other than those of {stored.name}")
    curves = Curves(
        times.astype(float), is_event, tuple(value[:, :, 0].astype(float) for value in values)
    )
    draws = None
    if not told_in_time(curves, len(release.trees), release.n_rows or 0):
        return release
    if isinstance(release.sampling, Bootstrap):
        try:
            draws = known_draws(release, seed_search=0).counts
        except TreeleakError:
            return release
    facts = outcomes_of_rows(curves, release.trees, draws)
    if facts is None:
        return release
    note = OUTCOMES(status=int(facts.told.sum()), events=int(facts.exact.sum()))
    return numbered(release, facts, note)
