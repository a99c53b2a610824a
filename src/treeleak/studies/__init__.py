"""The papers' experiments: one study for each table or figure, by one command, resumable."""

from treeleak.studies.catalogue import STUDIES, find_study
from treeleak.studies.runner import Outcome, Plan, as_frame, carry_out, plan
from treeleak.studies.store import Run, Store
from treeleak.studies.study import Study, Table

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
