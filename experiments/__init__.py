"""The papers' experiments: one study for each table or figure, by one command, resumable."""

from experiments import published_programs  # noqa: F401 (registers its methods)
from experiments.catalogue import STUDIES, find_study
from experiments.runner import Outcome, Plan, as_frame, carry_out, plan
from experiments.store import Run, Store
from experiments.study import Study, Table

__all__ = [
    "STUDIES",
    "Outcome",
    "Plan",
    "Run",
    "Store",
    "Study",
    "Table",
    "as_frame",
    "carry_out",
    "find_study",
    "plan",
]
