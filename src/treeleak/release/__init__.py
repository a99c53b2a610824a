"""What was released: trees and counts, read from files and live models of any origin."""

from __future__ import annotations

# Imported for what they register: formats of files, kinds of models.
from treeleak.release.adapters import (  # noqa: F401
    catboost,
    lightgbm,
    private,
    r,
    sklearn,
    xgboost,
)
from treeleak.release.containers import source as _source  # noqa: F401
from treeleak.release.live import snapshot
from treeleak.release.readers import (  # noqa: F401
    json_files,
    pickled,
    r_serialized,
    skops_archive,
)
from treeleak.release.readers.j48 import read_j48
from treeleak.release.readers.rule_file import read_rules, write_rules
from treeleak.release.registry import Model, adapter, read_model, reader, to_release
from treeleak.release.release import Release
from treeleak.release.rule_list import Condition, DecisionRule, RuleList
from treeleak.release.sampling import (
    AllRows,
    Bootstrap,
    Disjoint,
    Sampling,
    Subsample,
    UnknownSampling,
)
from treeleak.release.stored import Opaque, StoredObject
from treeleak.release.tree import Tree

__all__ = [
    "AllRows",
    "Bootstrap",
    "Condition",
    "DecisionRule",
    "Disjoint",
    "Model",
    "Opaque",
    "Release",
    "RuleList",
    "Sampling",
    "StoredObject",
    "Subsample",
    "Tree",
    "UnknownSampling",
    "adapter",
    "read_j48",
    "read_model",
    "read_rules",
    "reader",
    "snapshot",
    "to_release",
    "write_rules",
]
