"""Published formulations, written from their papers: the yardstick for tests and benchmarks.

``treeleak.reconstruct`` takes them by the method's name once this package is imported.
"""

from treeleak.attacks import attack
from treeleak.evidence import ExactCounts, HiddenDraws

_FOLDER = "experiments.published_programs"
for _kind in (ExactCounts, HiddenDraws):
    attack(_kind.kind, f"{_FOLDER}.cp:reference_cp", "reference-cp")
attack(ExactCounts.kind, f"{_FOLDER}.milp:reference_milp", "reference-milp")
