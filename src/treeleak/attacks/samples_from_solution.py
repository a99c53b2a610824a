"""Samples where an attack has none of its own: from worlds of its rows, or their confidences.

And how far rows are from their worlds, as a set: a row may be right in another place.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treeleak.attacks.answer import Rows, most_worlds
from treeleak.attacks.consensus import expected_distance
from treeleak.attacks.samples import Samples
from treeleak.core.arrays import IntArray
from treeleak.core.clock import Clock
from treeleak.partition.value_index import ValueIndex

_WORLDS = 40
"""Datasets drawn from confidences."""
_MOST_MATCHED, _FEW = 24_000, 2
"""Rows in all worlds that are matched with the answer, at most; and worlds, at least, of which
there are no more where the time is up."""
_ROOM = 2**26
"""Most (row, value) pairs: half a GiB for each table of them."""


def samples_of(rows: Sequence[Rows], values: ValueIndex) -> Samples | None:
    """Put worlds of all systems together, each with one of the others; None where no row is."""
    n_rows = sum(len(part.values) for part in rows)
    if not n_rows:
        return None
    most = most_worlds(n_rows)
    each = [_drawn(part, values, most) if part.worlds is None else part.worlds for part in rows]
    most = min(most, max(map(len, each)))
    parts = [worlds[np.arange(most) % len(worlds)] for worlds in each]
    return Samples.of_worlds(values, np.concatenate(parts, axis=1))


def fixed_atoms(rows: Sequence[Rows], values: ValueIndex) -> IntArray:
    """Atoms of rows that are in every dataset, each attribute from 0; the class is the last."""
    fixed = [part.values[part.fixed] for part in rows if part.fixed is not None]
    none = np.zeros((0, len(values.start) - 1), dtype=np.int64)
    return values.places(np.concatenate([none, *fixed]))


def _drawn(part: Rows, values: ValueIndex, most: int) -> IntArray:
    """Keep each value with its confidence; else take that of another row."""
    rng = np.random.default_rng(0)
    atoms = values.atom_of[part.values]
    shape = (min(_WORLDS, most), *atoms.shape)
    other = atoms[rng.integers(len(atoms), size=shape), np.arange(atoms.shape[1])]
    return np.where(rng.random(shape) < part.confidence, atoms, other)


def distance_from_worlds(rows: Rows, values: ValueIndex, clock: Clock, seed: int) -> float | None:
    """Mean distance of worlds from these rows, per row and column, each world matched with them.

    Confidences say how sure a value is in its place. Errors are measured after matching: a row that
    stands in the place of another one is right.

    None where nothing is open, rows have no worlds, or there is no room. Of values in intervals, it
    is that of their points.
    """
    n_rows = len(rows.values)
    if rows.worlds is None or not n_rows or (rows.confidence[:, :-1] == 1.0).all():
        return None
    if n_rows * values.n_values > _ROOM:
        return None
    most = _FEW if clock.stopped else max(_MOST_MATCHED // n_rows, _FEW)
    samples = Samples.of_worlds(values, rows.worlds).thinned(most)
    rng = np.random.default_rng(seed)
    drawn = [samples.drawn(k, rng) for k in range(len(samples))]
    far = expected_distance(values.listed, rows.values, drawn, np.ones(values.n_values))
    return far / values.n_columns
