"""The middle of several worlds: aligned rows, and how often each value stands in them.

Samples where an attack has none of its own: from worlds of its rows, or their confidences. And how
far rows are from their worlds, as a set: a row may be right in another place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from treeleak.attacks.answer import Rows, most_worlds
from treeleak.attacks.kernels import pair_costs
from treeleak.attacks.samples import Samples
from treeleak.core.arrays import BoolArray, FloatArray, IntArray, equal_entries
from treeleak.core.clock import Clock
from treeleak.core.decisions import on_grid
from treeleak.core.private import dataclass
from treeleak.partition.value_index import ValueIndex

MAX_ALIGNED = 1500
"""Most rows that are aligned: minimum-cost matching takes cubic time."""
ASTRAY, _MANY = (0.15, 0.3), 20
"""How often searches are led astray: of values that exact counts of 150 rows with raw numbers left
open, with a confidence p, 0.85 p were right in columns that are cut at 20 places or fewer, and
0.7 p in others, for walks seldom move there (tables of statsmodels, at results version 54)."""
_LEAST_ALIGNED = 5
"""Samples that are aligned even when the time is up."""
_ALL_AT_ONCE = 200
"""Rows up to which all are aligned at their cost, also those that are equal."""


def aligned_shares(
    values: ValueIndex,
    samples: Sequence[IntArray],
    value_prior: FloatArray,
    group: IntArray | None = None,
    turns: int = 4,
    stopped: Callable[[], bool] = lambda: False,
    start: IntArray | None = None,
    order: Sequence[int] | IntArray | None = None,
) -> tuple[FloatArray, list[IntArray]]:
    """Align samples of a posterior with each other, and count values row by row.

    Each sample is aligned with the shares of the values over all of them, which are then counted
    again: unlike one sample as reference, shares say where they are in doubt.

    Parameters
    ----------
    samples : sequence of int arrays, shape (n_rows, n_attributes + 1)
        Atoms, numbered over all attributes.
    value_prior : float array, shape (n_values,)
        Probability of each value given its atom.
    group : int array, shape (n_rows,), optional
        Rows of different groups are never exchanged.
    stopped : callable
        Asked between turns.
    start : int array, shape (n_rows, n_attributes + 1), optional
        Dataset with which the samples are aligned first; by default the first of them.
    order : sequence of int, optional
        Which samples come first, if time ends before all are aligned: the others are left out.

    Returns
    -------
    share : float array, shape (n_rows, n_values)
        Probability of each value in each row.
    aligned : list of int arrays
        The samples, row k of each standing for the same row.
    """
    groups = _groups(len(samples[0]), group)
    aligned = list(samples)
    share = _counted(values, aligned[:1] if start is None else [start], value_prior)
    for turn in range(turns):
        if turn and stopped():
            break
        cost = _of_atoms(values, values.expected_cost(share), value_prior)
        hard = cheapest(cost, values.atom_start)
        blocks = [_Block.of(rows, cost, hard) for rows in groups]
        done = list(range(len(aligned)) if turn or order is None else order)
        for n, k in enumerate(done):
            if turn == 0 and n >= _LEAST_ALIGNED and stopped():
                aligned = [aligned[k] for k in sorted(done[:n])]
                break
            aligned[k] = _in_line(aligned[k], blocks)
        share = _counted(values, aligned, value_prior)
    return share, aligned


def expected_distance(
    values: ValueIndex,
    chosen: IntArray,
    samples: Sequence[IntArray],
    value_prior: FloatArray,
    group: IntArray | None = None,
    known: BoolArray | None = None,
) -> float:
    """Mean distance of samples from one dataset, per row and without the class.

    ``chosen``, shape (n_rows, n_attributes + 1): values, numbered over all attributes. ``samples``,
    shape (n_rows, n_attributes + 1): atoms, numbered over all attributes; each sample is matched
    with the dataset. ``value_prior``, shape (n_values,): probability of each value given its atom.
    ``group``, shape (n_rows,): rows of different groups are never exchanged. ``known``, shape
    (n_rows, n_attributes): what is held against the samples, but is no error.
    """
    held = np.zeros((len(chosen), values.n_values))
    np.put_along_axis(held, chosen, 1.0, axis=1)
    cost = _of_atoms(values, values.expected_cost(held), value_prior)
    hard = values.atom_of[chosen[:, :-1]]
    blocks = [_Block.of(rows, cost, hard) for rows in _groups(len(chosen), group)]
    counted, total = True if known is None else ~known, 0.0
    for sample in samples:
        atoms = _in_line(sample[:, :-1], blocks)
        total += float(np.take_along_axis(cost, atoms, axis=1).sum(where=counted))
    return total / (len(samples) * len(chosen))


def confidence(
    share: FloatArray, n_samples: int, pseudo_count: float, n_open: IntArray
) -> FloatArray:
    """Turn shares of samples into probabilities: ``pseudo_count`` counts as so many samples more.

    In these, all values that are open are equally frequent: a share of all samples is no proof.
    """
    return np.asarray(
        (n_samples * share + pseudo_count * (1.0 / n_open)) / (n_samples + pseudo_count)
    )


def led_astray(rows: Sequence[Rows], values: ValueIndex) -> tuple[Rows, ...]:
    """Scale confidences of values that are not proved: a search may be led astray as a whole.

    What all its worlds agree on is then right as often as rows of the column hold it.
    """
    # Walks seldom move in columns that are cut at many places; the class is the last one.
    astray = np.where(np.diff(values.atom_start) > _MANY + 1, *ASTRAY[::-1])
    held = np.concatenate([part.values for part in rows]) if rows else np.zeros((0, 1), dtype=int)
    share = np.bincount(held.ravel(), minlength=values.n_values) / max(len(held), 1)
    return tuple(
        replace(
            part,
            confidence=np.where(
                part.confidence == 1.0, 1.0,
                (1.0 - astray) * part.confidence + astray * share[part.values],
            ),
        )
        for part in rows
    )  # fmt: skip


def _groups(n_rows: int, group: IntArray | None) -> list[IntArray]:
    """Rows of each group that has more than one."""
    label = np.zeros(n_rows, dtype=np.int64) if group is None else group
    return [rows for rows in equal_entries(label) if len(rows) > 1]


def cheapest(cost: FloatArray, start: IntArray) -> IntArray:
    """Entry of least cost of every row within each attribute, numbered through.

    ``cost``: shape (n_rows, n_entries). ``start``, shape (n_attributes + 1,): where the entries of
    each attribute begin.
    """
    parts = np.split(cost, start[1:-1], axis=1)
    return np.asarray(start[:-1] + np.column_stack([part.argmin(axis=1) for part in parts]))


def _of_atoms(values: ValueIndex, cost: FloatArray, value_prior: FloatArray) -> FloatArray:
    """Mean cost of the values of each atom, on the grid of the costs: many are equal."""
    return on_grid(np.add.reduceat(cost * value_prior, values.first, axis=1))


def _counted(
    values: ValueIndex, samples: Sequence[IntArray], value_prior: FloatArray
) -> FloatArray:
    out = np.zeros((len(samples[0]), values.n_atoms))
    row = np.arange(len(out))[:, None]
    for sample in samples:
        out[row, sample] += 1.0 / len(samples)
    return np.asarray(out[:, values.atom_of] * value_prior)


@dataclass(frozen=True, eq=False)
class _Block:
    """Rows that may be exchanged."""

    rows: IntArray
    """Shape (n_block,)."""
    cost: FloatArray
    """Shape (n_block, n_entries). Of each entry in each row."""
    hard: IntArray
    """Shape (n_block, n_attributes). The likeliest entries of each row."""
    order: IntArray
    """Shape (n_block,). The rows sorted by these."""

    @classmethod
    def of(cls, rows: IntArray, cost: FloatArray, hard: IntArray) -> _Block:
        """Take these rows of the costs and the likeliest entries of all."""
        return cls(rows, cost[rows], hard[rows], _sorted(hard[rows]))

    def matched(self, sample: IntArray) -> IntArray:
        """Row of the sample for each row, at the least total cost.

        Where there are many rows, those that equal the likeliest ones are matched first: that
        costs little, since the distance of rows is a metric.
        """
        n = len(sample)
        out, free = np.full(n, -1), np.ones(n, dtype=bool)
        if n > _ALL_AT_ONCE:
            _, number = np.unique(np.concatenate([self.hard, sample]), axis=0, return_inverse=True)
            number = number.ravel()
            mine, theirs = (np.argsort(part, kind="stable") for part in (number[:n], number[n:]))
            first, second = number[:n][mine], number[n:][theirs]
            rank = np.arange(n) - np.searchsorted(first, first)
            at = np.searchsorted(second, first) + rank
            found = at < np.searchsorted(second, first, side="right")
            out[mine[found]] = theirs[at[found]]
            free[theirs[at[found]]] = False
        # Sorted alike, parts of too many rows hold rows that are alike.
        order = _sorted(sample)
        left, other = self.order[out[self.order] < 0], order[free[order]]
        for begin in range(0, len(left), MAX_ALIGNED):
            i, j = left[begin : begin + MAX_ALIGNED], other[begin : begin + MAX_ALIGNED]
            x, y = linear_sum_assignment(pair_costs(self.cost, i, sample, j))
            out[i[x]] = j[y]
        return out


def _in_line(sample: IntArray, blocks: Sequence[_Block]) -> IntArray:
    """The rows of a sample in the places that they are matched with."""
    out = sample.copy()
    for block in blocks:
        part = sample[block.rows]
        out[block.rows] = part[block.matched(part)]
    return out


def _sorted(rows: IntArray) -> IntArray:
    """Order of rows by their entries."""
    return np.lexsort(rows.T[::-1])


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
