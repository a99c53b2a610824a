"""Fitted models beside the main one: each is audited by itself, and the worst counts.

A step of a pipeline, one class of a one-against-the-rest model or an attribute that someone added
discloses its training rows just as a model in a file of its own does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from treeleak.auditing.inventory.other_models import OtherModel
from treeleak.core.errors import TreeleakError
from treeleak.core.private import dataclass

if TYPE_CHECKING:
    from treeleak.auditing.case import Case
    from treeleak.auditing.result import Audit
    from treeleak.release import Release

_LEAST_SECONDS = 1.0
"""Seconds under which no attack is begun."""
_LEAST_SHARE = 0.4
"""Share of the attack's time that the main model keeps, however many others there are."""


@dataclass(frozen=True, eq=False)
class AttackedPart:
    """A fitted model in the file that was audited by itself."""

    place: str
    """Attributes and items on the way to it from the model as a whole."""
    name: str
    """Its class."""
    audit: Audit


def main_share(case: Case) -> float:
    """Share of the attack's time for the main model."""
    others = sum(other.release is not None for other in case.found.others)
    return max(1 / (1 + others), _LEAST_SHARE)


def assess(case: Case, audit: Callable[..., Audit]) -> Case:
    """Audit each fitted model that no attack looked at yet, as far as the time goes.

    Those of which nothing could be said stay among :attr:`AuditResults.others`.
    """
    request, found, left = case.request, [], list[OtherModel]()
    others, whole = case.found.others, case.found.release
    if whole is not None and case.found.reconstruction is None:
        # Models that could not be attacked together.
        others += tuple(
            OtherModel(part.place, part.release.origin.rpartition(" ")[2], part.release)
            for part in whole.parts
        )
    for k, other in enumerate(others):
        if other.release is None or case.clock.left < _LEAST_SECONDS:
            left.append(other)
            continue
        X, y = _rows_for(other.release, case)
        schema = request.schema
        columns = () if schema is None else {c for a in schema.attributes for c in a.columns}
        if not set(other.release.feature_names) <= set(columns):
            schema = None
        try:
            result = audit(
                other.release, X, y, schema=schema, seed=request.seed,
                time_limit=case.clock.part(case.clock.left / (len(others) - k)),
                bootstrap=request.bootstrap, seed_search=request.seed_search,
                progress=request.progress, threshold=request.threshold, on_mismatch="report",
            )  # fmt: skip
        except TreeleakError:
            left.append(other)
            continue
        found.append(AttackedPart(other.place, other.name, result))
        if result.verdict == "not assessed":
            left.append(other)
    return case.plus(parts=tuple(found), others=tuple(left))


def _rows_for(release: Release, case: Case) -> tuple[Any, Any]:
    """Choose the training rows in the columns of a model, and their labels if it knows these."""
    before = () if release.inputs is None else release.inputs.names
    for X, y in (case.provided, (case.request.X, case.request.y)):
        if X is None:
            continue
        if isinstance(X, pd.DataFrame):
            fits = any(names and set(names) <= set(X) for names in (release.feature_names, before))
        else:
            fits = np.ndim(X) == 2 and np.shape(X)[1] == release.n_features
        if fits:
            known = y is not None and np.ndim(y) == 1
            if known and release.classes:
                known = bool((release.class_numbers(y) >= 0).all())
            return X, y if known else None
    return None, None
