"""Trees that XGBoost printed (dump_model), completed to what its files say of a whole model.

A dump names neither the loss nor where predictions begin. With statistics it has the sums of
hessians in all their digits: if these are whole throughout, each row counts 1. Of other losses,
what rows count follows from where predictions begin: the model's own file says it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from treeleak.core.errors import BadModel
from treeleak.core.message import static_message
from treeleak.release.adapters.boosted import numbers
from treeleak.release.adapters.xgboost.model import Model, object_in
from treeleak.release.release import Release
from treeleak.release.stored import StoredObject

_TELLING = 15
"""Nodes of trees with tests from which a loss follows."""

BARE = static_message(
    "trees that XGBoost printed without statistics: they count no rows. Nothing but the trees "
    'follows from the file. Save the model with save_model("model.json")',
    "xgboost_printed_bare",
)
UNCLEAR = static_message(
    "trees that XGBoost printed (dump_model) do not name their loss, nor where predictions begin, "
    "and their sums of hessians are no numbers of rows. Save the model with "
    'save_model("model.json")',
    "xgboost_printed_unclear",
)
COUNTED = static_message(
    "Printed trees (dump_model) name no loss and no start of predictions: the sums of hessians are "
    "those of a loss of which each row counts 1. Targets stay unknown, as far as they depend on "
    "it.",
    "xgboost_printed",
)


def is_printed(stored: StoredObject) -> bool:
    """Say whether these are trees alone, as a dump has them."""
    learner = stored.get("learner")
    return isinstance(learner, Mapping) and not {"objective", "attributes"} & learner.keys()


def of_printed(stored: StoredObject, release_of: Callable[[Model], Release]) -> Release:
    """Make a release of printed trees; ``release_of`` makes one of a model that is known whole."""
    learner = object_in(stored.state, "learner")
    model = object_in(object_in(learner, "gradient_booster"), "model")
    raw = model.get("trees")
    if not isinstance(raw, list) or not all(isinstance(tree, Mapping) for tree in raw):
        raise BadModel("the model has no list of trees")
    summed = bool(raw) and all("sum_hessian" in tree for tree in raw)
    sums = [numbers(tree, "sum_hessian", None, f"tree {t}") for t, tree in enumerate(raw * summed)]
    telling = sum(len(each) for each in sums if len(each) > 1) >= _TELLING
    counted = telling and all((each == np.rint(each)).all() for each in sums)
    param = {**object_in(learner, "learner_model_param"), "base_score": "0", "num_class": "0"}
    whole = {
        **learner,
        "objective": {"name": "reg:squarederror" if counted else ""},
        "learner_model_param": param,
        "gradient_booster": {
            "name": "gbtree", "model": {"trees": raw, "tree_info": np.zeros(len(raw), dtype=int)},
        },
    }  # fmt: skip
    release = release_of(Model.of(StoredObject(stored.type, {"learner": whole})))
    if not counted:
        return replace(release, not_covered=UNCLEAR if summed else BARE)
    ensemble = release.ensemble and replace(release.ensemble, objective="", fitting=None)
    return replace(release, ensemble=ensemble, notes=(COUNTED, *release.notes))
