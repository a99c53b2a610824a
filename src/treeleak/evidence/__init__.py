"""What the counts of a release say of its training rows."""

from treeleak.evidence.exact_counts import ExactCounts
from treeleak.evidence.exact_totals import ExactTotals
from treeleak.evidence.hidden_draws import HiddenDraws
from treeleak.evidence.known_draws import KnownDraws
from treeleak.evidence.leaf_labels import LeafLabels
from treeleak.evidence.noisy_counts import NoisyCounts
from treeleak.evidence.protocol import Contradiction, Evidence, EvidenceType
from treeleak.evidence.registry import (
    BOOTSTRAP_MODES,
    MAX_ROWS,
    draws_needed,
    evidence_for,
    evidence_type,
)
from treeleak.evidence.systems import CountSystem, Pairs

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
