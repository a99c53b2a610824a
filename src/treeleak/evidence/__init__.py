"""What the counts of a release disclose about its training rows.

Every kind of evidence is asked in turn which one a release gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.errors import NotCovered
from treeleak.core.message import MessageTemplate, static_message
from treeleak.evidence.drawn_counts import HiddenDraws, KnownDraws
from treeleak.evidence.leaf_steps import LeafValueEvidence
from treeleak.evidence.linear_constraints import LinearConstraints
from treeleak.evidence.loss_sums import DrawnLossSums, LossSums
from treeleak.evidence.protocol import (
    BOOTSTRAP_MODES,
    MAX_ROWS,
    Contradiction,
    Evidence,
    MakeEvidence,
    SamplingAssumptions,
)
from treeleak.evidence.row_counts import ExactCounts, ExactTotals, LeafLabels, NoisyCounts
from treeleak.evidence.systems import CountSystem, Pairs
from treeleak.release.release import Release

__all__ = [
    "BOOTSTRAP_MODES",
    "MAX_ROWS",
    "Contradiction",
    "CountSystem",
    "DrawnLossSums",
    "Evidence",
    "ExactCounts",
    "ExactTotals",
    "HiddenDraws",
    "KnownDraws",
    "LeafLabels",
    "LeafValueEvidence",
    "LinearConstraints",
    "LossSums",
    "MakeEvidence",
    "NoisyCounts",
    "Pairs",
    "SamplingAssumptions",
    "draws_needed",
    "evidence_for",
    "register",
]

_KINDS: list[type[Evidence]] = []


def register(kind: type[Evidence]) -> None:
    """Register a kind of evidence; the first that fits a release is taken."""
    _KINDS.append(kind)


register(ExactCounts)
register(LossSums)
register(DrawnLossSums)
register(LeafValueEvidence)
register(ExactTotals)
register(KnownDraws)
register(HiddenDraws)
register(NoisyCounts)
register(LeafLabels)


_SAY = 'bootstrap="{0}" (--bootstrap {0})'
DRAWS_UNKNOWN = MessageTemplate(
    "evidence_draws_unknown", "how rows reached the trees is not known ({why:foreign}){ways}"
)
NO_EVIDENCE = MessageTemplate(
    "evidence_not_covered", "counts given as '{counts}' with sampling '{sampling}'"
)


def draws_needed(release: Release, bootstrap: str = "auto") -> bool:
    """Whether the evidence of this release rests on knowing the draws.

    Raises BadInput if there is no such assumption.
    """
    return SamplingAssumptions(release, bootstrap).draws_needed


def evidence_for(
    release: Release,
    bootstrap: str = "auto",
    draws: NDArray[np.unsignedinteger[Any]] | None = None,
    n_rows: int | None = None,
    rows_between: tuple[int, int] | None = None,
) -> MakeEvidence:
    """Choose the kind of evidence of a release.

    The parameters are the fields of
    :class:`~treeleak.evidence.protocol.SamplingAssumptions`.

    Raises
    ------
    BadInput
        If there is no such assumption.
    NotCovered
        With the reason.
    """
    assumed = SamplingAssumptions(release, bootstrap, draws, n_rows, rows_between)
    if release.not_covered:
        raise NotCovered(release.not_covered)
    if not release.trees:
        raise NotCovered(static_message("the release holds no tree"))
    for kind in _KINDS:
        if (make := kind.fitting(assumed)) is not None:
            return make
    if assumed.sampling == "unknown":
        why = getattr(release.sampling, "why", "") or "the release does not say"
        drawn = getattr(release.sampling, "drawn", False)
        ways = "" if drawn else "; if every tree saw every row once, say " + _SAY.format("none")
        if assumed.may_be_drawn:
            drew = "try" if drawn else "if each drew rows at random,"
            ways += f"; {drew} {_SAY.format('hidden')}"
        raise NotCovered(DRAWS_UNKNOWN(why=why, ways=ways))
    raise NotCovered(NO_EVIDENCE(counts=assumed.counts_are, sampling=assumed.sampling))
