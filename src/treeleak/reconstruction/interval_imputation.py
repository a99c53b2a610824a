"""Values of numbers inside the intervals in which rows lie, and how far off they are there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.core.decisions import MOST_SURE
from treeleak.core.private import dataclass
from treeleak.partition import Geometry
from treeleak.partition.atoms import AttributeAtoms
from treeleak.reconstruction.expected import far_by_confidence, inside_intervals, ranges_of
from treeleak.reconstruction.narrowing import Movable, Narrowed, narrowed
from treeleak.reconstruction.point_values import on_grids, point_values
from treeleak.reconstruction.problem import Problem
from treeleak.release.release import Release
from treeleak.schema import Numeric, Ordinal, Schema
from treeleak.side_information.known_tables import Filled, KnownTables


def in_tails(
    parts: Sequence[AttributeAtoms], release: Release, table: FloatArray, open_: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Move values beyond the outermost thresholds to where half of so many rows lie.

    Parameters
    ----------
    parts : sequence of AttributeAtoms
        Columns of which values are moved.
    release : Release
    table : float array, shape (n_rows, n_columns)
        Rows, with values somewhere in their intervals.
    open_ : bool array, shape (n_rows, n_columns)
        Values that may be moved.

    Returns
    -------
    table : float array, shape (n_rows, n_columns)
    typical : float array, shape (n_rows, n_columns)
        How far values are from those moved, on average; NaN where nothing was.
    """
    out, typical = table.copy(), np.full(table.shape, np.nan)
    for part in parts:
        j = part.columns[0]
        side = part.side_of(table[:, j], release)
        own = part.side_of(part.representatives[:, 0], release)
        # Values that are missing lie on no side: -1.
        rows = np.bincount(side + 1, minlength=int(own.max()) + 2)[own + 1].astype(float)
        for k, places in part.beyond(release, rows):
            middle = np.median(places)
            # Rounded to the model's type, a value may be the threshold.
            if part.side_of(np.array([middle]), release)[0] == own[k]:
                moved = open_[:, j] & (side == own[k])
                out[moved, j], typical[moved, j] = middle, np.abs(places - middle).mean()
    return out, typical


@dataclass(frozen=True, eq=False)
class Numbers:
    """Rows with the likeliest values of intervals."""

    table: FloatArray
    low: FloatArray
    high: FloatArray
    """Shape (n_rows, n_features). The values, and the ends of their intervals."""
    sure: FloatArray
    """Shape (n_rows, n_features). Probability of each value, of a number that of its interval."""
    off: FloatArray
    """Shape (n_rows, n_features). How far values typically are from others of their interval, as a
    share of the range."""
    ranges: FloatArray
    """Shape (n_features,). Those ranges; NaN in columns that have no interval."""
    midpoints_met: float | None
    midpoints_fit: bool
    """As :class:`~treeleak.reconstruction.point_values.PointValues` has them."""

    def far(self, expected: float | None, confidence: pd.DataFrame, schema: Schema) -> float | None:
        """Mean distance per value from the training set; None where confidences say all of it.

        ``expected``: by the attack, of the points of intervals. ``confidence``: of the columns
        counted.
        """
        n = confidence.shape[1]
        if not len(self.table) or np.isnan(self.ranges[:n]).all():
            return expected
        if expected is not None:
            return expected + float(self.off[:, :n].mean())
        return far_by_confidence(confidence, schema, self.table, self.off, self.ranges[:n])


def numbers_in(
    whole: Filled, geometry: Geometry, problem: Problem, known: KnownTables, seconds: float
) -> Numbers:
    """Choose values inside the intervals of rows.

    Where other rows bound them, there; beyond the outermost thresholds, where so many rows reach;
    else in the middle. Then to where equations of thresholds hold.
    """
    found = _narrowed(whole, geometry, problem, known, seconds / 2)
    table = whole.table
    if found is not None:
        table = _kept_where_proved(whole, found.table, geometry, problem.release)
    low, high, typical = table.copy(), table.copy(), np.full(table.shape, np.nan)
    numbers, integers, interval = np.zeros((3, table.shape[1]), dtype=bool)
    for part in geometry.parts:
        if isinstance(part.attribute, (Numeric, Ordinal)):
            column = part.columns[0]
            low[:, column], high[:, column] = part.ends(table[:, column], geometry.release)
            numbers[column], integers[column] = True, isinstance(part.attribute, Ordinal)
            interval[column] = part.intervals
    low[known.known], high[known.known] = table[known.known], table[known.known]
    if found is None:
        in_rules = _in_rules(geometry.schema)
        parts = [p for p in geometry.parts if p.intervals and p.attribute.name not in in_rules]
        table, typical = in_tails(parts, problem.release, table, low < high)
    chosen = point_values(
        problem.release, table, low, high, numbers, whole=integers, draws=problem.all_draws,
        rows_separated=not problem.hidden, seconds=seconds,
    )  # fmt: skip
    sure, met = whole.sure, chosen.midpoints_met
    if found is not None and met is not None:
        # As far as other thresholds are met, so are those that the intervals follow from, if the
        # row is in these leaves.
        sure = np.maximum(sure, np.minimum(met * found.chance * whole.within, MOST_SURE))
    ranges = ranges_of(geometry.parts, chosen.table, interval)
    inside = inside_intervals(
        chosen.table, *on_grids(problem.release, chosen.table, low, high, chosen.grids)
    )
    there = np.abs(chosen.table - table) <= typical
    off = np.nan_to_num(np.where(there, typical, inside) / ranges)
    # Of a column that nothing bounds, a guess is off as in the middle of any range: by a quarter.
    off[np.isinf(low) & np.isinf(high)] = 0.25
    return Numbers(chosen.table, low, high, sure, off, ranges, met, chosen.midpoints_fit)


def _kept_where_proved(
    whole: Filled, table: FloatArray, geometry: Geometry, release: Release
) -> FloatArray:
    """Put values back that were moved out of where they certainly lie, and rows out of their cell.

    Where other rows are wrong, what bounds them bounds the right ones wrongly; and trees that did
    not draw a row do not hold it back.
    """
    out = table.copy()
    for part in geometry.parts:
        if isinstance(part.attribute, (Numeric, Ordinal)):
            column = part.columns[0]
            before, now = whole.table[:, column], table[:, column]
            ends = [np.stack(part.ends(x, geometry.release)) for x in (before, now)]
            left = (ends[0] != ends[1]).any(axis=0) & ~np.isnan(before)
            out[:, column] = np.where((whole.sure[:, column] == 1) & left, before, now)
    proved, n = np.flatnonzero(whole.proved), release.n_features
    was, is_ = (release.leaves(rows[proved, :n]) for rows in (whole.table, out))
    left = proved[(was != is_).any(axis=1)]
    out[left] = whole.table[left]
    return out


def _in_rules(schema: Schema) -> list[str]:
    """Columns that rules hold together: a value that is moved may break one."""
    return [name for rule in schema.rules for name in rule.columns]


def _narrowed(
    whole: Filled, geometry: Geometry, problem: Problem, known: KnownTables, seconds: float
) -> Narrowed | None:
    """Move numbers to the intervals that thresholds leave of them, where draws are known.

    Without draws, every tree saw every row.
    """
    release, draws, table = problem.release, problem.all_draws, whole.table
    if problem.hidden or release.thresholds_are != "midpoints":
        return None
    if draws is None:
        draws = np.ones((len(release.trees), len(table)), dtype=np.uint8)
    elif len(draws) != len(release.trees):
        return None
    low, high = np.full(table.shape[1], -np.inf), np.full(table.shape[1], np.inf)
    open_, integers = np.zeros(table.shape, dtype=bool), np.zeros(table.shape[1], dtype=bool)
    in_rules = _in_rules(geometry.schema)
    for part in geometry.parts:
        attribute = part.attribute
        if isinstance(attribute, (Numeric, Ordinal)) and attribute.name not in in_rules:
            column = part.columns[0]
            open_[:, column] = ~np.isnan(table[:, column])
            low[column], high[column] = attribute.low, attribute.high
            integers[column] = isinstance(attribute, Ordinal)
    open_ &= ~known.known
    if not open_.any():
        return None
    numbers = Movable(open_, low, high, integers)
    found = narrowed(release, table, whole.label, numbers, draws, seconds)
    if found is None:
        return None
    before, after = (
        np.ascontiguousarray(rows, dtype=release.float_type) for rows in (table, found.table)
    )
    if problem.out_of_bag:
        # They may have proved more than the leaves of the trees that drew a row.
        moved = (release.leaves(before) != release.leaves(after)).any(axis=1)
        left = whole.proved & moved
        found.table[left], found.chance[left] = table[left], 0.0
        after[left] = before[left]
    for means in problem.out_of_bag:
        # Thresholds say nothing of the trees that did not draw a row; its own predictions do.
        left = means.met(release.trees, before, draws) & ~means.met(release.trees, after, draws)
        found.table[left], found.chance[left] = table[left], 0.0
    return found
