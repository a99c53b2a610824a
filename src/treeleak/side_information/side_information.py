"""What an adversary knows beside the model: parts of the rows, and the population they come from.

Both arrive as tables in the model's columns and are turned, once, into statements about the atoms
of a geometry. Attacks see only those.
"""

from __future__ import annotations

from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.errors import NotCovered
from treeleak.core.message import static_message
from treeleak.core.private import dataclass
from treeleak.partition import Geometry
from treeleak.schema import Joint
from treeleak.side_information.density import Density
from treeleak.side_information.population import Population


@dataclass(frozen=True, eq=False)
class KnownParts:
    """What is known of each row of the answer."""

    group: IntArray
    """Shape (n_rows,). Which known part each row of the answer has; rows of a group are
    exchangeable."""
    allowed: BoolArray
    """Shape (n_groups, n_atoms). Atoms that a row of the group may take, numbered over all
    attributes as in :attr:`Values.atom_start`; the last attribute is the class."""


@dataclass(frozen=True, eq=False)
class SideInformation:
    """All that is known beside the model."""

    parts: KnownParts | None = None
    """None: no value of any row."""
    population: Population | None = None
    """Where the rows come from, as a prior."""

    @property
    def nothing(self) -> bool:
        """Whether nothing is known."""
        return self.parts is None and self.population is None

    def density(self, geometry: Geometry, seed: int = 0) -> Density | None:
        """Fit what the population says to a geometry; None where it is not known."""
        return None if self.population is None else self.population.fitted(geometry, seed)

    def refuse(self, attack: str) -> None:
        """Raise NotCovered if anything is given: for attacks that use none of it."""
        if self.parts is not None:
            raise NotCovered(f"{attack} does not use known rows or columns")
        if self.population is not None:
            raise NotCovered(f"{attack} does not use a population")

    def check(self, geometry: Geometry) -> None:
        """Raise NotCovered if parts are known that the geometry does not count in a tree."""
        if self.parts is not None and not any(
            isinstance(part.attribute, Joint) for part in geometry.parts
        ):
            raise NotCovered(
                static_message("this attack sees known parts only where a tree counts them")
            )


NOTHING = SideInformation()
