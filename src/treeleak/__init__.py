"""treeleak: how much of its training data does a tree model disclose?

Nothing is imported before it is asked for: what a program does not use costs it no time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from treeleak._version import __version__

if TYPE_CHECKING:
    from treeleak import datasets, errors, learn, metrics, release, schema, uncertainty
    from treeleak.auditing import Audit, Policy, Ruling, audit, judge, read_policy
    from treeleak.auditing.leave_one_out import InformedAudit, informed_audit
    from treeleak.core.errors import (
        BadInput,
        BadModel,
        BadSchema,
        Mismatch,
        NotCovered,
        TreeleakError,
    )
    from treeleak.hardening import Hardened, harden
    from treeleak.hardening.before_training import check
    from treeleak.reconstruction import Reconstruction
    from treeleak.reconstruction.run import reconstruct
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
    "Linear",
    "Mismatch",
    "NotCovered",
    "Numeric",
    "OneHot",
    "Ordinal",
    "Policy",
    "Reconstruction",
    "Ruling",
    "Schema",
    "TreeleakError",
    "__version__",
    "audit",
    "check",
    "datasets",
    "errors",
    "harden",
    "informed_audit",
    "judge",
    "learn",
    "metrics",
    "read_policy",
    "reconstruct",
    "release",
    "schema",
    "uncertainty",
]

_FROM = {
    "treeleak.auditing": ("Audit", "Policy", "Ruling", "audit", "judge", "read_policy"),
    "treeleak.auditing.leave_one_out": ("InformedAudit", "informed_audit"),
    "treeleak.core.errors": (
        "BadInput", "BadModel", "BadSchema", "Mismatch", "NotCovered", "TreeleakError",
    ),
    "treeleak.hardening": ("Hardened", "harden"),
    "treeleak.hardening.before_training": ("check",),
    "treeleak.reconstruction": ("Reconstruction",),
    "treeleak.reconstruction.run": ("reconstruct",),
    "treeleak.schema": (
        "AtMost", "Binary", "Categorical", "Implies", "Linear", "Numeric", "OneHot", "Ordinal",
        "Schema",
    ),
}  # fmt: skip
_PLACES = {name: place for place, names in _FROM.items() for name in names}
_MODULES = {
    name: f"treeleak.{name}"
    for name in (
        "attacks", "auditing", "batch", "bound", "bridges", "claims", "core", "datasets", "errors",
        "evidence", "formats", "hardening", "learn", "metrics", "partition", "reconstruction",
        "release", "report", "schema", "side_information", "uncertainty", "verification",
    )
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        value = getattr(import_module(_PLACES[name]), name)
    elif name in _MODULES:
        value = import_module(_MODULES[name])
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
