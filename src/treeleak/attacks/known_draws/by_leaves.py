"""Rows whose candidates are listed, solved for leaf by leaf.

A row to which several trees leave a choice has the product of these as candidates: thousands, where
a few literals for each tree say the same.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from treeleak.attacks.known_draws.atom_intervals import restrict_to_domains
from treeleak.attacks.known_draws.listing import Listing
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.row_program import RowProgram
from treeleak.core.arrays import IntArray, bits_set
from treeleak.core.clock import Clock, OutOfTime
from treeleak.partition import GridTooLarge
from treeleak.partition.value_index import ValueIndex
from treeleak.side_information.side_information import KnownParts


def solved_by_leaves(
    listing: Listing,
    values: ValueIndex,
    parts: KnownParts | None,
    work: float,
    clock: Clock,
    seed: int,
) -> IntArray | None:
    """Look for rows that meet every count, where the class of each is known.

    ``work`` for the integer solver, about seconds. Returns the candidate of each row, shape
    (n_rows,), -1 where no tree drew it; None if none were found, or rules forbid those found.
    """
    domains = listing.domains
    evidence = domains.evidence
    if (domains.classes.sum(axis=1) > 1)[evidence.drawn].any():
        return None
    label, none = bits_set(domains.bits).argmax(axis=1), np.zeros(evidence.n_rows, dtype=bool)
    nowhere = np.zeros((0, *domains.draws.T.shape), dtype=np.int32)
    clock.report_progress("solving for all rows at once", 0.5)
    places = None
    with suppress(GridTooLarge, OutOfTime):
        constraints = RowConstraints.of_known(evidence, evidence.geometry, label, none, parts)
        program = RowProgram(restrict_to_domains(constraints, domains), values)
        places = program.solve(label, nowhere, ~none, work, clock, seed)[0]
    return None if places is None else _candidates(listing, places.astype(np.int64))


def _candidates(listing: Listing, places: IntArray) -> IntArray | None:
    """Find the candidates with the leaves of some places; None if a row has none."""
    domains, row = listing.domains, listing.row
    leaf = domains.evidence.geometry.trace_atoms(places[:, :-1])
    same = (listing.leaf(slice(None)) == leaf[row]) | (domains.draws.T[row] == 0)
    matches = np.flatnonzero(same.all(axis=1) & (listing.label == places[row, -1]))
    rows, first = np.unique(row[matches], return_index=True)
    if len(rows) < domains.evidence.drawn.sum():
        return None
    out = np.full(len(places), -1, dtype=np.int64)
    out[rows] = matches[first]
    return out
