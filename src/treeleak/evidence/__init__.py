"""What the counts of a release say of its training rows."""

from treeleak.evidence.kinds import (
    BOOTSTRAP_MODES,
    MAX_ROWS,
    Contradiction,
    CountSystem,
    Evidence,
    EvidenceType,
    ExactCounts,
    ExactTotals,
    HiddenDraws,
    KnownDraws,
    LeafLabels,
    NoisyCounts,
    Pairs,
    draws_needed,
    evidence_for,
    evidence_type,
)

__all__ = [
    "BOOTSTRAP_MODES",
    "MAX_ROWS",
    "Contradiction",
    "CountSystem",
    "Evidence",
    "EvidenceType",
    "ExactCounts",
    "ExactTotals",
    "HiddenDraws",
    "KnownDraws",
    "LeafLabels",
    "NoisyCounts",
    "Pairs",
    "draws_needed",
    "evidence_for",
    "evidence_type",
]
