"""Published formulations, written from their papers: the yardstick for tests and benchmarks.

They are chosen by name and are never the default.
"""

from treeleak.attacks.reference.cp import MAX_TERMS, reference_cp

__all__ = ["MAX_TERMS", "reference_cp"]
