"""treeleak: how much of its training data does a tree model give away?"""

from treeleak import datasets, metrics
from treeleak import uncertainty as probabilistic
from treeleak._version import __version__
from treeleak.auditing import Audit, Policy, Ruling, audit, judge, read_policy
from treeleak.auditing.leave_one_out import InformedAudit, informed_audit
from treeleak.core.errors import BadInput, BadModel, BadSchema, Mismatch, NotCovered, TreeleakError
from treeleak.hardening import Hardened, Retraining, harden
from treeleak.hardening.retrain import retrain
from treeleak.reconstruction import Reconstruction
from treeleak.reconstruction.leave_one_out import InformedGuess, informed
from treeleak.reconstruction.run import reconstruct
from treeleak.report import plots
from treeleak.schema import (
    AtMost,
    Binary,
    Categorical,
    Implies,
    Linear,
    Numeric,
    OneHot,
    Ordinal,
    Schema,
)

__all__ = [
    "AtMost",
    "Audit",
    "BadInput",
    "BadModel",
    "BadSchema",
    "Binary",
    "Categorical",
    "Hardened",
    "Implies",
    "InformedAudit",
    "InformedGuess",
    "Linear",
    "Mismatch",
    "NotCovered",
    "Numeric",
    "OneHot",
    "Ordinal",
    "Policy",
    "Reconstruction",
    "Retraining",
    "Ruling",
    "Schema",
    "TreeleakError",
    "__version__",
    "audit",
    "datasets",
    "harden",
    "informed",
    "informed_audit",
    "judge",
    "metrics",
    "plots",
    "probabilistic",
    "read_policy",
    "reconstruct",
    "retrain",
]
