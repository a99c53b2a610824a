"""Attacks: from evidence to rows. Found through a table by the kind of evidence and the method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treeleak.attacks.answer import Answer, Rows
from treeleak.core.clock import Clock
from treeleak.core.errors import BadInput
from treeleak.core.on_demand import load
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

_EXACT = "treeleak.attacks.exact.run:exact"
_KNOWN_DRAWS = "treeleak.attacks.known_draws.run:known_draws"
_HIDDEN_DRAWS = "treeleak.attacks.posterior.hidden_draws:hidden_draws"
_BEHIND_NOISE = "treeleak.attacks.posterior.noisy_counts:behind_noise"
_PRIOR_ONLY = "treeleak.attacks.posterior.prior_only:prior_only"
_REFERENCE_CP = "treeleak.attacks.reference.cp:reference_cp"
_REFERENCE_MILP = "treeleak.attacks.reference.milp:reference_milp"
_REFERENCE_NOISY = "treeleak.attacks.reference.noisy:reference_noisy"

_ATTACKS: dict[tuple[str, str], Attack | str] = {
    (ExactCounts.kind, "auto"): _EXACT,
    (ExactTotals.kind, "auto"): _EXACT,
    (KnownDraws.kind, "auto"): _KNOWN_DRAWS,
    (HiddenDraws.kind, "auto"): _HIDDEN_DRAWS,
    (NoisyCounts.kind, "auto"): _BEHIND_NOISE,
    (LeafLabels.kind, "auto"): _BEHIND_NOISE,
    (NoisyCounts.kind, "without-counts"): _PRIOR_ONLY,
    (LeafLabels.kind, "without-counts"): _PRIOR_ONLY,
    (ExactCounts.kind, "reference-cp"): _REFERENCE_CP,
    (KnownDraws.kind, "reference-cp"): _REFERENCE_CP,
    (HiddenDraws.kind, "reference-cp"): _REFERENCE_CP,
    (NoisyCounts.kind, "reference-cp"): _REFERENCE_NOISY,
    (ExactCounts.kind, "reference-milp"): _REFERENCE_MILP,
}
"""By kind of evidence and method; by name ("module:function") until it is asked for."""


def attack(kind: str, function: Attack, method: str = "auto") -> None:
    """Register an attack on a kind of evidence; "auto" is the one taken unless another is named."""
    _ATTACKS[kind, method] = function


def attack_for(evidence: Evidence, method: str = "auto") -> Attack:
    """Find the attack on this evidence.

    Raises BadInput if there is none of this name; lists those that exist.
    """
    found = _ATTACKS.get((evidence.kind, method))
    if found is None:
        methods = tuple(m for kind, m in _ATTACKS if kind == evidence.kind)
        raise BadInput(f"for {evidence.kind}, method must be one of {methods}, not {method!r}")
    return load(found) if isinstance(found, str) else found
