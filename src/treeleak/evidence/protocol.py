"""What all kinds of evidence have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Protocol

from treeleak.core.arrays import BoolArray
from treeleak.core.private import dataclass
from treeleak.evidence.systems import CountSystem
from treeleak.partition import Geometry, Partition

__all__ = ["Contradiction", "Evidence", "EvidenceType"]


@dataclass(frozen=True)
class Contradiction:
    """Counts that no dataset meets: where, and what is wrong there."""

    tree: int
    node: int
    why: str

    def __str__(self) -> str:
        return f"tree {self.tree}, node {self.node}: {self.why}"


class Evidence(Protocol):
    """What the counts say, given how they came about."""

    kind: ClassVar[str]

    def open_leaves(self) -> BoolArray:
        """Whether a row of a class may lie in a leaf, shape (n_leaves, n_classes)."""

    def contradiction(self) -> Contradiction | None:
        """A contradiction that shows before any cell is looked at."""

    def systems(self, partition: Partition) -> Iterator[CountSystem]:
        """The independent sets of equations over the live cells."""


EvidenceType = Callable[[Geometry], Any]
"""Makes the evidence from the geometry."""
