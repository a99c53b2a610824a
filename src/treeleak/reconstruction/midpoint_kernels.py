"""The loop behind :mod:`treeleak.reconstruction.point_values`, compiled."""

from __future__ import annotations

import math

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.compiled import njit

_NEAR, _ALMOST = 1.5, 1e-6
"""Steps that an equation may be off to move a value by one, and part of a step that rounding costs.
"""


@njit()
def meet_midpoints(
    value: FloatArray,
    low: FloatArray,
    high: FloatArray,
    sums: FloatArray,
    width: FloatArray,
    start: IntArray,
    members: IntArray,
    n_sweeps: int,
    stepping: bool,
) -> None:
    """Move values, in place, towards ``max(left members) + min(right members) = sum``.

    Projects on one equation after another, inside ``low`` to ``high``. Equation q has the members
    ``start[2q]`` to ``start[2q + 1]`` on the left, those up to ``start[2q + 2]`` on the right. An
    equation that is far from met, measured by a width that shrinks from sweep to sweep, moves its
    values less: where rows are wrong, equations contradict each other, and a compromise between
    all would meet none. ``stepping``: widths are steps of values, which move by one if that meets
    an equation, and stay where there are none (0).
    """
    for sweep in range(n_sweeps):
        # The first third treats all alike, the last one is left with those that can be met.
        phase = max(0.0, sweep / n_sweeps - 1 / 3)
        shrunk = 10.0 ** (-6.0 * phase)
        for q in range(len(sums)):
            left, middle, right = start[2 * q], start[2 * q + 1], start[2 * q + 2]
            a, b = members[left], members[middle]
            for i in range(left + 1, middle):
                if value[members[i]] > value[a]:
                    a = members[i]
            for i in range(middle + 1, right):
                if value[members[i]] < value[b]:
                    b = members[i]
            gap = sums[q] - value[a] - value[b]
            if gap == 0.0 or (stepping and abs(gap) > _NEAR * width[q]):
                continue
            if stepping:
                gap = round(gap / width[q]) * width[q]
                half = math.floor(gap / 2 / width[q] + _ALMOST) * width[q]
            else:
                if phase > 0.0:
                    scaled_width = width[q] * shrunk
                    gap *= scaled_width * scaled_width / (scaled_width * scaled_width + gap * gap)
                half = gap / 2
            # What one of them cannot move because of its interval, the other does.
            up = min(max(value[a] + half, low[a]), high[a])
            down = min(max(value[b] + gap - (up - value[a]), low[b]), high[b])
            up = min(max(value[a] + gap - (down - value[b]), low[a]), high[a])
            if gap > 0.0:
                value[a] = up
                for i in range(middle, right):
                    j = members[i]
                    value[j] = max(value[j], min(down, high[j]))
            else:
                value[b] = down
                for i in range(left, middle):
                    j = members[i]
                    value[j] = min(value[j], max(up, low[j]))
