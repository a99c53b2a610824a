"""The audit of a model: inventory, counts, reconstruction, and a verdict."""

from treeleak.audit.budget import Budget
from treeleak.audit.counts import Counts
from treeleak.audit.inventory import Entry
from treeleak.audit.measurement import Measurement, Variant
from treeleak.audit.policy import Check, Policy, Ruling, judge, read_policy
from treeleak.audit.result import Audit, Provenance
from treeleak.audit.run import audit
from treeleak.audit.shape import Shape
from treeleak.audit.uncertainty import Exposed, Uncertainty
from treeleak.audit.verdict import Finding, Verdict

__all__ = [
    "Audit",
    "Budget",
    "Check",
    "Counts",
    "Entry",
    "Exposed",
    "Finding",
    "Measurement",
    "Policy",
    "Provenance",
    "Ruling",
    "Shape",
    "Uncertainty",
    "Variant",
    "Verdict",
    "audit",
    "judge",
    "read_policy",
]
