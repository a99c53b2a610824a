"""Attacks: from evidence to rows. Found through a table by the kind of evidence and the method."""

from __future__ import annotations

from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any

from treeleak.attacks.answer import Answer, Rows
from treeleak.core.clock import Clock
from treeleak.core.errors import BadInput
from treeleak.evidence import (
    DrawnLossSums,
    Evidence,
    ExactCounts,
    ExactTotals,
    HiddenDraws,
    KnownDraws,
    LeafLabels,
    LeafValueEvidence,
    LossSums,
    NoisyCounts,
)
from treeleak.partition import Geometry
from treeleak.side_information.side_information import SideInformation

__all__ = ["Answer", "Attack", "Rows", "attack", "attack_for"]

Attack = Callable[[Any, Geometry, Clock, int, SideInformation], Answer]
"""A function of evidence (of the kind that it is registered for), geometry, clock, seed, and of
what is known beside the model."""

_ATTACKS: dict[tuple[str, str], Attack | str] = {
    (kind.kind, method): f"treeleak.attacks.{place}"
    for place, method, kinds in (
        ("exact.run:exact", "auto", (ExactCounts,)),
        ("loss_sums.regression:regression", "auto", (ExactTotals,)),
        ("loss_sums.run:loss_sums", "auto", (LossSums, LeafValueEvidence)),
        ("known_draws.sums_of_loss:drawn_sums", "auto", (DrawnLossSums,)),
        ("known_draws.run:known_draws", "auto", (KnownDraws,)),
        ("posterior.hidden_draws:hidden_draws", "auto", (HiddenDraws,)),
        ("posterior.noisy_counts:behind_noise", "auto", (NoisyCounts, LeafLabels)),
        ("posterior.noisy_counts:prior_only", "without-counts", (NoisyCounts, LeafLabels)),
    )
    for kind in kinds
}
"""By kind of evidence and method; by name ("module:function") until it is asked for."""


def attack(kind: str, function: Attack | str, method: str = "auto") -> None:
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
    return resolve_name(found) if isinstance(found, str) else found
