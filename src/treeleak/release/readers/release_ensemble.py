"""How trees become a prediction, to and from the JSON of a release file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args

from treeleak.core.errors import BadModel
from treeleak.release.checked_json import is_finite, is_whole, located, only, take
from treeleak.release.ensemble import MOST_STEPS, Ensemble, Fitting, Loss, Precision

_CHOICES = {
    "loss": get_args(Loss),
    **dict.fromkeys(("margins", "derivatives", "targets"), get_args(Precision)),
}
_NUMBERS = ("l2", "curvature", "rough")


def ensemble_to_dict(ensemble: Ensemble) -> dict[str, Any]:
    """Write an ensemble; what is as it is by default is left out of how leaves were fitted."""
    out: dict[str, Any] = {
        "objective": ensemble.objective,
        "base_scores": list(ensemble.base_scores),
        "learning_rate": ensemble.learning_rate,
    }
    if (fitting := ensemble.fitting) is not None:
        own = {f.name: getattr(fitting, f.name) for f in fields(fitting)}
        kept = {f.name: own[f.name] for f in fields(fitting) if own[f.name] != f.default}
        out["fitting"] = kept | ({"start": list(fitting.start)} if fitting.start else {})
    return out


def ensemble_from_dict(data: Mapping[str, Any] | None) -> Ensemble | None:
    """Read an ensemble.

    Raises
    ------
    BadModel
    """
    if data is None:
        return None
    where = "ensemble: "
    only(data, (f.name for f in fields(Ensemble)), where)
    rate = data.get("learning_rate")
    scores = _numbers(data, "base_scores", where)
    if rate is not None and not is_finite(rate):
        raise BadModel(f"{where}{rate!r:.40} is no number")
    with located(where):
        return Ensemble(
            take(data, "objective", str, where=where),
            scores,
            None if rate is None else float(rate),
            _fitting(take(data, "fitting", dict, None, where=where)),
        )


def _fitting(data: Mapping[str, Any] | None) -> Fitting | None:
    """Read how leaves were fitted."""
    if data is None:
        return None
    where = "fitting: "
    only(data, (f.name for f in fields(Fitting)), where)
    given: dict[str, Any] = {}
    for name, choices in _CHOICES.items():
        if name in data:
            given[name] = take(data, name, str, where=where)
            if given[name] not in choices:
                raise BadModel(f"{where}{name} is {given[name]!r:.40}, must be one of {choices}")
    for name in _NUMBERS:
        if name in data:
            if not is_finite(data[name]):
                raise BadModel(f"{where}{name} is {data[name]!r:.40}, no number")
            given[name] = float(data[name])
    if "steps" in data:
        if not is_whole(data["steps"], 1, MOST_STEPS):
            raise BadModel(f"{where}steps is {data['steps']!r:.40}, no number of steps")
        given["steps"] = data["steps"]
    for name in ("started", "assumed"):
        if name in data:
            given[name] = take(data, name, bool, where=where)
    if "start" in data:
        given["start"] = _numbers(data, "start", where)
    if "loss" not in given:
        raise BadModel(f"{where}loss is missing")
    return Fitting(**given)


def _numbers(data: Mapping[str, Any], name: str, where: str) -> tuple[float, ...]:
    listed = take(data, name, list, where=where)
    for number in listed:
        if not is_finite(number):
            raise BadModel(f"{where}{number!r:.40} is no number")
    return tuple(map(float, listed))
