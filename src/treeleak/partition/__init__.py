"""Geometry only: a release and a schema become cells and the incidence matrix A."""

from treeleak.partition.atoms import Atom, AttributeAtoms
from treeleak.partition.cells import (
    Geometry,
    GridTooLarge,
    Partition,
    RowSets,
    enumerate_cells,
    enumerate_drawable,
)

__all__ = [
    "Atom",
    "AttributeAtoms",
    "Geometry",
    "GridTooLarge",
    "Partition",
    "RowSets",
    "enumerate_cells",
    "enumerate_drawable",
]
