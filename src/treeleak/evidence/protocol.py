"""What all kinds of evidence have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Protocol, Self

from treeleak.core.private import dataclass
from treeleak.evidence.linear_constraints import LinearConstraints
from treeleak.evidence.sampling_assumptions import SamplingAssumptions
from treeleak.partition import Geometry


@dataclass(frozen=True)
class Contradiction:
    """Counts that no dataset meets: where, and what is wrong there."""

    tree: int
    node: int
    why: str

    def __str__(self) -> str:
        return f"tree {self.tree}, node {self.node}: {self.why}"


class Evidence(Protocol):
    """What the leaves say of the rows, given how that came about."""

    kind: ClassVar[str]
    """By which attacks are found."""

    @classmethod
    def fitting(cls, assumed: SamplingAssumptions) -> Callable[[Geometry], Self] | None:
        """Make it of the geometry of a release, or None if the release gives no such evidence.

        Raises NotCovered if it would be of this kind, and cannot be used: with the reason.
        """

    @property
    def geometry(self) -> Geometry:
        """The trees, seen from the atoms of a schema."""

    @property
    def n_rows(self) -> int:
        """N: rows of the training set, or their likeliest number."""

    @property
    def described(self) -> str:
        """What an answer says it was made from."""

    def statements(self) -> tuple[LinearConstraints, ...]:
        """Give what the leaves say, as statements about the rows in them."""

    def contradiction(self) -> Contradiction | None:
        """Find a contradiction that shows before any cell is looked at."""


MakeEvidence = Callable[[Geometry], Evidence]
"""Makes the evidence from the geometry."""
