"""treeleak: how much of its training data does a tree model give away?"""

from treeleak import datasets, metrics, plots, probabilistic
from treeleak._version import __version__
from treeleak.audit import Audit, Policy, Ruling, audit, judge, read_policy
from treeleak.errors import (
    BadInput,
    BadModel,
    BadSchema,
    Mismatch,
    NotCovered,
    TreeleakError,
)
from treeleak.harden import Hardened, Retraining, harden
from treeleak.harden.retrain import retrain
from treeleak.informed import InformedAudit, InformedGuess, informed, informed_audit
from treeleak.reconstruct import reconstruct
from treeleak.reconstruction import Reconstruction
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
