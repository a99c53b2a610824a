"""The audit of a model: inventory, counts, reconstruction, and a verdict."""

from treeleak.auditing.assessors.article29 import Article29, Inference
from treeleak.auditing.assessors.baselines import Shape
from treeleak.auditing.assessors.budget import Budget, Ceiling
from treeleak.auditing.assessors.counts import Counts
from treeleak.auditing.assessors.exposure import Exposure, NearLeaf, Recovered
from treeleak.auditing.assessors.isolation import Isolation
from treeleak.auditing.assessors.measurement import Measurement, Variant
from treeleak.auditing.assessors.membership import Membership
from treeleak.auditing.assessors.structure import Groups, Structure
from treeleak.auditing.assessors.uncertainty import Exposed, Uncertainty
from treeleak.auditing.findings.finding import Finding
from treeleak.auditing.inventory.inventory import Entry
from treeleak.auditing.judging import Check, Ruling, judge
from treeleak.auditing.policy import Policy, read_policy
from treeleak.auditing.record import Provenance
from treeleak.auditing.result import Audit
from treeleak.auditing.run import audit
from treeleak.formats.literals import Edition, Verdict

__all__ = [
    "Article29",
    "Audit",
    "Budget",
    "Ceiling",
    "Check",
    "Counts",
    "Edition",
    "Entry",
    "Exposed",
    "Exposure",
    "Finding",
    "Groups",
    "Inference",
    "Isolation",
    "Measurement",
    "Membership",
    "NearLeaf",
    "Policy",
    "Provenance",
    "Recovered",
    "Ruling",
    "Shape",
    "Structure",
    "Uncertainty",
    "Variant",
    "Verdict",
    "audit",
    "judge",
    "read_policy",
]
