"""The audit of a model: inventory, counts, reconstruction, and a verdict."""

from treeleak.audit.article29 import Article29, Inference
from treeleak.audit.budget import Budget
from treeleak.audit.counts import Counts
from treeleak.audit.exposure import Exposure, NearLeaf, Recovered
from treeleak.audit.finding import Finding, Verdict
from treeleak.audit.inventory import Entry
from treeleak.audit.measurement import Measurement, Variant
from treeleak.audit.policy import Check, Policy, Ruling, judge, read_policy
from treeleak.audit.result import Audit, Edition, Provenance
from treeleak.audit.run import audit
from treeleak.audit.shape import Shape
from treeleak.audit.uncertainty import Exposed, Uncertainty

__all__ = [
    "Article29",
    "Audit",
    "Budget",
    "Check",
    "Counts",
    "Edition",
    "Entry",
    "Exposed",
    "Exposure",
    "Finding",
    "Inference",
    "Measurement",
    "NearLeaf",
    "Policy",
    "Provenance",
    "Recovered",
    "Ruling",
    "Shape",
    "Uncertainty",
    "Variant",
    "Verdict",
    "audit",
    "judge",
    "read_policy",
]
