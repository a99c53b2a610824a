"""Values of a column: their steps, all of them, and how common each is, as splits tell it.

All distinct values of a column, where a file lists the middles between all neighbours: histogram
methods cut a column with few distinct values halfway between each two of them, and keep all cuts.
Then the next value is twice a cut less the value before: one number is left open for the whole
column. Each value lies between its two cuts, and mostly on a grid: that leaves little.

How common the values of a column are, learned from intervals that its rows lie in: thresholds leave
one value of most numbers, and an interval of others. Real columns are not even: half of the people
work 40 hours, and limits are multiples of 10,000. So an interval is filled as the values of other
rows of the same class are (the self-consistent estimate of Turnbull 1976, "The empirical
distribution function with arbitrarily grouped, censored and truncated data").
"""

from __future__ import annotations

import math

import numpy as np

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.reconstruction.schedule import SCHEDULE

CHANCE = 1e-3
"""A step is believed if thresholds would fit it by chance with at most this probability."""
_ODD = 3.5
"""Standard deviations beyond which thresholds are not as often on the grid as between."""
ROUNDED = 0.05
"""Part of a step by which an end may miss the value that it stands for."""
_FINEST = 0.25
"""Share of all numbers that may count as multiples of a step."""


@dataclass(frozen=True)
class Grid:
    """Evenly spaced values: ``offset + k * step``."""

    step: float
    offset: float = 0.0
    """0, or half a step."""
    decimals: int = 0
    """Digits behind the point that a value on the grid has."""

    def around(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The values on the grid next to each of ``x``: the farther one, and the nearest."""
        place = (x - self.offset) / self.step
        near = np.round(place)
        return self._at(near + np.where(place < near, -1, 1)), self._at(near)

    def within(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The least and the greatest value on the grid between ends, which count if they are on it.

        NaN where there is none. Ends without bounds stay as they are.
        """
        first = np.ceil((low - self.offset) / self.step - ROUNDED)
        last = np.floor((high - self.offset) / self.step + ROUNDED)
        none = first > last
        return np.where(none, np.nan, self._at(first)), np.where(none, np.nan, self._at(last))

    def between(self, low: float, high: float, most: int) -> FloatArray | None:
        """All values on the grid between two ends; None where they are more than ``most``."""
        first, last = (np.round((x - self.offset) / self.step) for x in (low, high))
        return self._at(np.arange(first, last + 1)) if last - first < most else None

    def sums(self, x: FloatArray) -> FloatArray:
        """Round sums of two values to what they were before the model rounded them."""
        return np.round(np.round(x / self.step) * self.step, self.decimals)

    def _at(self, k: FloatArray) -> FloatArray:
        # A product such as 1799 * 0.01 is off in the last digit.
        return np.round(self.offset + k * self.step, self.decimals)


def grid_behind(
    thresholds: FloatArray, float_type: str, *, another_digit: bool = False
) -> Grid | None:
    """Infer the grid of a column whose thresholds are midpoints of two values.

    Twice a threshold is the sum of two values, so a multiple of whatever step the values take. The
    step that is looked for is the largest power of ten of which all sums are multiples, times the
    factor that they have in common beyond that. A power of ten is believed over the next lower one,
    and a prime of the factor over its absence, if that many sums would not be multiples by chance.
    Values may also lie halfway between the multiples (odd numbers do): then most thresholds, being
    in the middle of neighbours, fall on multiples themselves.

    ``float_type``: numpy type to which values were rounded before their midpoints were taken.
    ``another_digit``: believe that values lie halfway even if they have a digit more than their
    sums then. Such thresholds mostly have another reason: most values are even.
    Returns None if the thresholds look as those of a continuous column do, or are too few to tell.
    """
    with np.errstate(over="ignore"):
        sums = 2.0 * thresholds
    sums = sums[np.isfinite(sums)]
    eps = float(np.finfo(np.dtype(float_type)).eps)
    size = float(np.abs(sums).max(initial=0.0))
    # Sums that differ by rounding only are one, and zero is a multiple of everything.
    sums = np.sort(sums)
    sums = sums[np.diff(sums, prepend=-math.inf) > 2 * eps * size]
    sums = sums[np.abs(sums) > eps * size]
    if 10.0 ** -len(sums) > CHANCE * (1 + 1e-9):
        return None
    highest = math.floor(math.log10(size))
    for power in range(highest, highest - 16, -1):
        unit = 10.0**power
        # Whole numbers of this size are not rounded at all.
        whole = power >= 0 and size * eps < 2
        off = 1e-9 * unit if whole else eps * size
        chance = max(2 * off, eps * size / 2) / unit
        if chance > _FINEST or chance ** len(sums) > CHANCE:
            return None
        times = np.round(sums / unit)
        if (np.abs(sums - times * unit) <= off).all():
            break
    else:
        return None
    factor = _believed(math.gcd(*(int(k) for k in times)), len(times))
    step, decimals = factor * unit, max(0, -power)
    offset, on_grid = 0.0, (np.round(times / factor) % 2 == 0).sum()
    even = factor % 2 == 0
    if (even or another_digit) and on_grid - len(times) / 2 > _ODD * math.sqrt(len(times)) / 2:
        offset, decimals = step / 2, decimals + 1
    return Grid(step, offset, decimals)


def _believed(factor: int, n_sums: int) -> int:
    """Leave those primes out of a common factor that so many sums may have in common by chance."""
    out, prime = 1, 2
    while factor > 1:
        if prime * prime > factor:
            prime = factor
        if factor % prime:
            prime += 1
            continue
        factor //= prime
        if float(prime) ** -n_sums <= CHANCE:
            out *= prime
    return out


_ROUNDED = 4.0
"""Units of rounding by which each border may be off."""


def distinct_values(
    borders: FloatArray, ends: tuple[float, float] | None = None
) -> FloatArray | None:
    """Work out the values whose neighbours' middles are the borders, all of them and in order.

    ``ends``: the least and the greatest value, where these are known: if the first leads to the
    last along the borders, nothing is left open. Returns one value more than there are borders,
    each between two of them; or None where no values have these middles, as where a column has more
    values than bins, or too few borders tell. Where several lists of values have these middles, it
    is one on the grid that the borders lie on, with as few digits as can be; else the one in the
    middle of what keeps each value between its borders.
    """
    n = len(borders)
    if n < (SCHEDULE.telling_borders if ends is None else 1):
        return None
    sign = np.where(np.arange(n + 1) % 2 == 0, 1.0, -1.0)
    # Value i is rest[i] + sign[i] * (the first value).
    rest = sign * np.append(0.0, np.cumsum(2.0 * sign[1:] * borders))
    low = np.append(-math.inf, borders) - rest
    high = np.append(borders, math.inf) - rest
    off = _ROUNDED * n * float(np.finfo(float).eps) * float(np.abs(borders).max())
    if ends is not None:
        values = rest + sign * ends[0]
        between = (values[:-1] < borders) & (borders <= values[1:])
        if between.all() and abs(values[-1] - ends[1]) <= off:
            for digits in range(SCHEDULE.most_digits):
                rounded = np.round(values, digits)
                if (np.abs(rounded - values) <= off).all():
                    return np.asarray(rounded)
            return np.asarray(values)
    if n < SCHEDULE.telling_borders:
        return None
    begin = float(np.where(sign > 0, low, -high).max()) + off
    end = float(np.where(sign > 0, high, -low).min()) - off
    if not begin < end:
        return None
    grid = grid_behind(borders, "float64", another_digit=True)
    found = None if grid is None else _on_grid(grid, rest, sign, begin, end)
    return rest + sign * (begin + end) / 2 if found is None else found


def _on_grid(
    grid: Grid, rest: FloatArray, sign: FloatArray, begin: float, end: float
) -> FloatArray | None:
    """Choose the list whose first value is a point of the grid between two ends."""
    if end - begin > SCHEDULE.tried_values * grid.step:
        return None

    def lists(offset: float) -> FloatArray:
        low, high = ((x - offset) / grid.step for x in (begin, end))
        first = offset + np.arange(math.ceil(low), math.floor(high) + 1) * grid.step
        # The nearest to the middle is the first of those that are equally good.
        first = first[np.argsort(np.abs(first - (begin + end) / 2), kind="stable")]
        return np.asarray(np.round(rest + sign * first[:, None], grid.decimals))

    shifted, plain = lists(grid.offset), lists(0.0)
    if len(plain):
        # Values mostly have a digit less than the few with the most digits. Then neighbours add up
        # to an even last digit, as they do where all values lie halfway.
        fewer = grid.decimals - (grid.offset > 0) - 1
        short = (np.abs(plain - np.round(plain, fewer)) < grid.step / 4).mean(axis=1)
        if not grid.offset or short.max() > SCHEDULE.short_values:
            return np.asarray(plain[int(short.argmax())])
    return np.asarray(shifted[0]) if len(shifted) else None


def nearest(x: FloatArray, side: IntArray, values: FloatArray, of: IntArray) -> FloatArray:
    """Move each row to the value of its side that is nearest to where it stands.

    ``side`` and ``of``: between which thresholds rows and values lie. Rows of a side without values
    stay.
    """
    out = x.copy()
    for side_number in np.unique(side).tolist():
        listed, row = values[of == side_number], np.flatnonzero(side == side_number)
        if len(listed):
            out[row] = listed[np.abs(x[row, None] - listed).argmin(axis=1)]
    return out


@dataclass(frozen=True, eq=False)
class CommonValues:
    """How common values of a column are among the rows of each class.

    Values are in cells, in order: single values, and what lies between two ends of intervals.
    """

    left: FloatArray
    right: FloatArray
    """Shape (n_cells,). Ends of each cell; equal for a single value."""
    below: FloatArray
    """Shape (n_classes, n_cells + 1). Share of the rows of a class in all cells before each."""
    within: IntArray
    """Shape (n_rows,). Class of each row."""

    @classmethod
    def of(
        cls, low: FloatArray, high: FloatArray, within: IntArray, grid: Grid | None
    ) -> CommonValues:
        """Learn them from the intervals of all rows, ``low`` to ``high``, shape (n_rows,).

        ``within``: class of each row, from 0. ``grid``: values that the column can have.
        """
        left, right = _cells(low, high, grid)
        slack = 0.0 if grid is None else ROUNDED * grid.step
        first = np.searchsorted(left, low - slack)
        last = np.searchsorted(right, high + slack, side="right")
        there = first < last
        of_all = _learned(first[there], last[there], _even(left, right), SCHEDULE.even_rows)
        shares = []
        for c in range(int(within.max(initial=-1)) + 1):
            in_class = there & (within == c)
            shares.append(_learned(first[in_class], last[in_class], of_all, SCHEDULE.shared_rows))
        return cls(left, right, _summed(np.array(shares)), within)

    def middle(self, low: FloatArray, high: FloatArray, now: FloatArray) -> FloatArray:
        """Median of what each row may be between two ends; or ``now``, if that is as common.

        Rows between whose ends no value is common stay where they are.
        """
        begin, end = self._until(low, below=True), self._until(high)
        half, cell = (begin + end) / 2, np.zeros(len(low), dtype=np.int64)
        for c, below in enumerate(self.below):
            in_class = self.within == c
            cell[in_class] = np.searchsorted(below, half[in_class]) - 1
        cell = np.clip(cell, 0, len(self.left) - 1)
        here = np.searchsorted(self.left, now, side="right") - 1
        here = np.clip(here, 0, len(self.left) - 1)
        stays = (now >= low) & (now <= high) & (self._share(here) >= self._share(cell))
        part = (half - self.below[self.within, cell]) / np.maximum(self._share(cell), 1e-300)
        found = self.left[cell] + (self.right - self.left)[cell] * np.clip(part, 0.0, 1.0)
        return np.where(stays | (begin >= end), now, np.clip(found, low, high))

    def chance(
        self, low: FloatArray, high: FloatArray, least: FloatArray, most: FloatArray
    ) -> FloatArray:
        """Probability that a row between ``low`` and ``high`` is between ``least`` and ``most``."""
        low_, high_ = np.maximum(low, least), np.minimum(high, most)
        part = self._until(high_) - self._until(low_, below=True)
        whole = self._until(high) - self._until(low, below=True)
        return np.asarray(np.clip(part / np.maximum(whole, 1e-300), 0.0, 1.0))

    def _share(self, cell: IntArray) -> FloatArray:
        return self.below[self.within, cell + 1] - self.below[self.within, cell]

    def _until(self, x: FloatArray, *, below: bool = False) -> FloatArray:
        """Share of the rows of a row's class up to a value, or ``below`` it."""
        cell = np.searchsorted(self.left, x, side="left" if below else "right") - 1
        none, cell = cell < 0, np.maximum(cell, 0)
        width = (self.right - self.left)[cell]
        part = np.where(width > 0, (x - self.left[cell]) / np.where(width > 0, width, 1.0), 1.0)
        until = self.below[self.within, cell] + self._share(cell) * np.clip(part, 0.0, 1.0)
        return np.asarray(np.where(none, 0.0, until))


def _cells(low: FloatArray, high: FloatArray, grid: Grid | None) -> tuple[FloatArray, FloatArray]:
    if grid is not None:
        values = grid.between(float(low.min()), float(high.max()), SCHEDULE.grid_values)
        if values is not None:
            return values, values
    ends, known = np.unique(np.append(low, high)), np.unique(low[low == high])
    left, right = np.append(ends[:-1], known), np.append(ends[1:], known)
    # A single value comes before what begins there.
    order = np.lexsort((right, left))
    return left[order], right[order]


def _even(left: FloatArray, right: FloatArray) -> FloatArray:
    width: FloatArray = right - left
    single: BoolArray = np.asarray(width == 0.0)
    if single.all():
        return np.full(len(left), 1.0 / len(left))
    on_values = SCHEDULE.known_values_share if single.any() else 0.0
    even = (1.0 - on_values) * width / width.sum() + on_values * single / max(single.sum(), 1)
    return np.asarray(even)


def _learned(first: IntArray, last: IntArray, before: FloatArray, trust: float) -> FloatArray:
    """Share of rows in each cell, if row i is in one of the cells ``first[i]`` to ``last[i] - 1``.

    ``before``: what is believed without rows, and ``trust`` how many rows' worth.
    """
    share, ends = before, len(before) + 1
    for _ in range(SCHEDULE.common_rounds):
        until = _summed(share)
        weight = 1.0 / np.maximum(until[last] - until[first], 1e-300)
        starting, over = (np.bincount(k, weight, minlength=ends) for k in (first, last))
        share = (share * np.cumsum(starting - over)[:-1] + trust * before) / (len(first) + trust)
    return share


def _summed(share: FloatArray) -> FloatArray:
    below = np.zeros((*share.shape[:-1], share.shape[-1] + 1))
    below[..., 1:] = np.cumsum(share, axis=-1)
    return below
