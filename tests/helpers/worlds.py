"""What exact counts of small models leave open."""

from __future__ import annotations

import numpy as np

from helpers.grids import cuts_for, some_rows
from helpers.releases import counted, random_tree
from treeleak.attacks.exact.worlds import SolutionSampler
from treeleak.attacks.solvers.integer import bounds
from treeleak.evidence import evidence_for
from treeleak.partition import Geometry, enumerate_cells
from treeleak.partition.value_index import values_of
from treeleak.schema import Schema


def opened(schema: Schema, seed: int, n_rows: int, n_trees: int, depth: int):
    """The systems of a small model, with all that they leave open."""
    rng, names = np.random.default_rng(seed), schema.columns
    X = some_rows(schema, names, n_rows, rng)
    y = np.arange(n_rows) % 2
    trees = [random_tree(rng, cuts_for(schema, names), depth) for _ in range(n_trees)]
    geometry = Geometry.of(counted(trees, names, X, y, 2), schema)
    evidence = evidence_for(geometry.release)(geometry)
    values = values_of(geometry.parts, 2)
    partition = enumerate_cells(geometry, evidence.open_leaves())
    searches = [
        SolutionSampler.of(s, bounds(s), geometry, values) for s in evidence.systems(partition)
    ]
    return evidence, geometry, values, searches
