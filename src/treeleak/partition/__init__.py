"""Geometry only: a release and a schema become cells and the incidence matrix A."""

from treeleak.partition.atoms import Atom, AttributeAtoms, rules_hold
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
from treeleak.partition.masks import reachable_leaves

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
