"""Where modules of treeleak 0.1 are now: their old names warn, and give the same things.

Files that 0.1 pickled name classes by these modules.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED: dict[str, tuple[str, str]] = {
    "treeleak.audit": (
        "treeleak.auditing",
        "Article29 Audit Budget Check Counts Edition Entry Exposed Exposure Finding Inference "
        "Measurement NearLeaf Policy Provenance Recovered Ruling Shape Uncertainty Variant Verdict "
        "audit judge read_policy",
    ),
    "treeleak.clock": ("treeleak.core.clock", "Clock Incumbent Progress"),
    "treeleak.harden": (
        "treeleak.hardening",
        "Alternative Answers DEFAULT Hardened Leak Retraining STEPS State Step harden parse_steps",
    ),
    "treeleak.infer": (
        "treeleak.release.infer_schema",
        "check_schema infer_rule_schema infer_schema match_levels read_columns suggest_rule_schema "
        "suggest_schema",
    ),
    "treeleak.informed": ("treeleak", "InformedAudit InformedGuess informed informed_audit"),
    "treeleak.noise": (
        "treeleak.release.noise.laws",
        "CountNoise DiscreteLaplace Gaussian LabelNoise LabelRule Laplace ROUNDINGS Rounding",
    ),
    "treeleak.plots": (
        "treeleak.report.plots",
        "plot_exposure plot_groups plot_leaf_sizes plot_recovered plot_trace",
    ),
    "treeleak.probabilistic": (
        "treeleak.uncertainty",
        "Expected ProbabilisticDataset from_rows from_rule_list from_tree",
    ),
    "treeleak.reconstruct": ("treeleak", "reconstruct"),
    "treeleak.release.exchange": (
        "treeleak.release.readers.release_file",
        "noise_from_dict read_release release_from_dict release_to_dict write_release",
    ),
    "treeleak.release.j48": (
        "treeleak.release.readers.j48",
        "read_j48",
    ),
}
"""For each old module, the new one, and what is found there."""


class _Moved(ModuleType):
    """A module that is no longer there. Nothing is imported before it is asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None)
        self.__all__ = MOVED[name][1].split()

    def __dir__(self) -> list[str]:
        return sorted(self.__all__)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self.__all__:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        now = MOVED[self.__name__][0]
        warnings.warn(
            f"{self.__name__}.{name} is now {now}.{name}", DeprecationWarning, stacklevel=2
        )
        return getattr(import_module(now), name)


def keep_old_names() -> None:
    """Let old modules be found.

    They stand among the modules from the start, and not as attributes of the package: there,
    functions have names that modules had (``treeleak.audit``).
    """
    for name in MOVED:
        sys.modules.setdefault(name, _Moved(name))
