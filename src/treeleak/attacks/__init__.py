"""Attacks: from evidence to rows. One function per kind of evidence, found through a table."""

from __future__ import annotations

from collections.abc import Callable

from treeleak.attacks.answer import Answer, Rows
from treeleak.attacks.exact import exact
from treeleak.clock import Clock
from treeleak.evidence import Evidence, ExactCounts, ExactTotals
from treeleak.partition import Geometry

__all__ = ["Answer", "Attack", "Rows", "attack", "attack_for"]

Attack = Callable[[Evidence, Geometry, Clock, int], Answer]
_ATTACKS: dict[str, Attack] = {}


def attack(kind: str, function: Attack) -> None:
    """Register the attack on a kind of evidence."""
    _ATTACKS[kind] = function


def attack_for(evidence: Evidence) -> Attack:
    """Find the attack on this evidence."""
    return _ATTACKS[evidence.kind]


attack(ExactCounts.kind, exact)
attack(ExactTotals.kind, exact)
