"""What attacks expect to be wrong, beside what is, by kind of evidence, over stored runs.

An attack states the share of values that it expects to be wrong without the training rows. Over
many runs, the sum of these must be near that of the true errors. Runs of older results versions
say what attacks stated then, so each version has a line of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pandas as pd

from experiments.store import Run, Store

NEAR = 0.15
"""How far the ratio may be from 1."""

_DRAWS = {"none": "exact counts", "known": "known draws", "hidden": "hidden draws"}
_DP = ("draft-dp-table-1", "draft-dp-table-4", "draft-dp-table-7")
_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "hidden": "hidden draws",
        **dict.fromkeys(_DP, "noise"),
        "draft-dp-figure-13": "noise, all rows known but one",
        "boosted": "boosted",
        "boosted-models": "boosted",
        "raw_boosted": "boosted, raw numbers",
    }
)
"""By study or benchmark; of "draft", the parameters say it."""
STUDIES = ("draft", *_KINDS)
_PUBLISHED = "reference-"
"""How methods begin that repeat the papers' formulations: these expect nothing of their answer."""


def kind_of(study: str, parameters: Mapping[str, Any]) -> str:
    """Name the kind of evidence behind a run."""
    kind = _KINDS[study] if study != "draft" else _DRAWS[parameters["bootstrap"]]
    beside = [
        words
        for name, words in (("known", "known columns"), ("population", "a population"))
        if parameters.get(name)
    ]
    return ", ".join([kind, *beside])


def _figures(run: Run) -> tuple[float, float] | None:
    """Expected and true error of a run; None if it has not both."""
    expected = run.record.get("expected_error", run.record.get("expected"))
    error = run.record.get("error")
    return None if expected is None or error is None else (float(expected), float(error))


def expected_and_true(store: Store) -> pd.DataFrame:
    """Hold expected errors against true ones: a line for each kind of evidence and version.

    ``runs`` counts those that have both, ``open`` those of them where either is above zero;
    ``expected`` and ``error`` are means over the latter.
    """
    lines = [
        (kind_of(study, run.parameters), run.version, *found)
        for study in STUDIES
        for run in store.runs(study)
        if not str(run.parameters.get("method")).startswith(_PUBLISHED)
        and (found := _figures(run)) is not None
    ]
    table = pd.DataFrame(lines, columns=["evidence", "version", "expected", "error"])
    table["open"] = (table.expected > 0) | (table.error > 0)
    groups = table.groupby(["evidence", "version"], as_index=False)
    out = groups.agg(runs=("open", "size"), open=("open", "sum"))
    sums = groups[["expected", "error"]].sum()
    out["ratio"] = sums.expected / sums.error.where(sums.error > 0)
    return out.assign(expected=sums.expected / out.open, error=sums.error / out.open)
