"""What the counts of a release disclose about its training rows."""

from treeleak.evidence.exact_counts import ExactCounts, ExactTotals
from treeleak.evidence.hidden_draws import HiddenDraws
from treeleak.evidence.known_draws import KnownDraws
from treeleak.evidence.leaf_labels import LeafLabels
from treeleak.evidence.leaf_steps import LeafValueEvidence
from treeleak.evidence.linear_constraints import LinearConstraints
from treeleak.evidence.loss_sums import LossSums
from treeleak.evidence.noisy_counts import NoisyCounts
from treeleak.evidence.protocol import (
    BOOTSTRAP_MODES,
    MAX_ROWS,
    Contradiction,
    Evidence,
    MakeEvidence,
    SamplingAssumptions,
)
from treeleak.evidence.registry import draws_needed, evidence_for, register
from treeleak.evidence.systems import CountSystem, Pairs

__all__ = [
    "BOOTSTRAP_MODES",
    "MAX_ROWS",
    "Contradiction",
    "CountSystem",
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
