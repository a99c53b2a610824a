"""Published formulations, written from their papers: the yardstick for tests and benchmarks.

They are chosen by name and are never the default.
"""

from treeleak.attacks.reference.cp import reference_cp
from treeleak.attacks.reference.milp import reference_milp
from treeleak.attacks.reference.noisy import reference_noisy
from treeleak.attacks.solvers.program import MAX_TERMS

__all__ = ["MAX_TERMS", "reference_cp", "reference_milp", "reference_noisy"]
