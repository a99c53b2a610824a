"""Attacks: from evidence to rows. Found through a table by the kind of evidence and the method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treeleak.attacks.answer import Answer, Rows
from treeleak.attacks.exact.run import exact
from treeleak.attacks.known_draws.run import known_draws
from treeleak.attacks.posterior.hidden_draws import hidden_draws
from treeleak.attacks.posterior.noisy_counts import behind_noise
from treeleak.attacks.posterior.prior_only import prior_only
from treeleak.attacks.reference import reference_cp, reference_milp, reference_noisy
from treeleak.core.clock import Clock
from treeleak.core.errors import BadInput
from treeleak.evidence import (
    Evidence,
    ExactCounts,
    ExactTotals,
    HiddenDraws,
    KnownDraws,
    LeafLabels,
    NoisyCounts,
)
from treeleak.partition import Geometry
from treeleak.side_information.given import Given

__all__ = ["Answer", "Attack", "Rows", "attack", "attack_for"]

Attack = Callable[[Any, Geometry, Clock, int, Given], Answer]
"""A function of evidence (of the kind that it is registered for), geometry, clock, seed, and of
what is known beside the model."""

_ATTACKS: dict[tuple[str, str], Attack] = {}


def attack(kind: str, function: Attack, method: str = "auto") -> None:
    """Register an attack on a kind of evidence; "auto" is the one taken unless another is named."""
    _ATTACKS[kind, method] = function


def attack_for(
    evidence: Evidence | KnownDraws | HiddenDraws | NoisyCounts, method: str = "auto"
) -> Attack:
    """Find the attack on this evidence.

    Raises
    ------
    BadInput
        If there is none of this name; lists those that exist.
    """
    found = _ATTACKS.get((evidence.kind, method))
    if found is None:
        methods = tuple(m for kind, m in _ATTACKS if kind == evidence.kind)
        raise BadInput(f"for {evidence.kind}, method must be one of {methods}, not {method!r}")
    return found


attack(ExactCounts.kind, exact)
attack(ExactTotals.kind, exact)
attack(KnownDraws.kind, known_draws)
attack(HiddenDraws.kind, hidden_draws)
attack(NoisyCounts.kind, behind_noise)
attack(LeafLabels.kind, behind_noise)
attack(NoisyCounts.kind, prior_only, "without-counts")
attack(LeafLabels.kind, prior_only, "without-counts")
attack(ExactCounts.kind, reference_cp, "reference-cp")
attack(KnownDraws.kind, reference_cp, "reference-cp")
attack(HiddenDraws.kind, reference_cp, "reference-cp")
attack(NoisyCounts.kind, reference_noisy, "reference-cp")
attack(ExactCounts.kind, reference_milp, "reference-milp")
