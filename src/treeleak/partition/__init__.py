"""Geometry only: a release and a schema become cells and the incidence matrix A."""

from treeleak.partition.atoms import Atom, AttributeAtoms, rules_hold
from treeleak.partition.boxes import reachable_leaves
from treeleak.partition.cells import (
    Geometry,
    GridTooLarge,
    Partition,
    RowSets,
    enumerate_cells,
    enumerate_drawable,
    enumeration_tick,
    equal_rows,
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
    "enumeration_tick",
    "equal_rows",
    "reachable_leaves",
    "rules_hold",
]
