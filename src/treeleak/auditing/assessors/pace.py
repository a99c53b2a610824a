"""How much longer an attack would need that ran out of time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treeleak.core.clock import Incumbent
from treeleak.reconstruction import Reconstruction

_FEWEST = 3
_FLAT = 0.1
"""Least power of the time by which the misfit must fall to speak of a pace."""
_MOST = 100.0
"""Factor over the time that was spent, beyond which nothing is foretold."""
_LEFT = 0.5
"""Misfit at which every count is met."""


def time_needed(trace: Sequence[Incumbent]) -> float | None:
    """Estimate the seconds after which every count would be met, at the pace so far.

    The misfit is taken to fall as a power of the time, fitted to the later half of the trace: a
    rough guess that is out by a factor of a few.

    Returns None where too few steps show a pace, and infinity where the misfit hardly falls, or it
    would take a hundred times as long.
    """
    seconds = np.array([max(i.seconds, 1e-3) for i in trace])
    misfit = np.array([float(i.misfit) for i in trace])
    late = (seconds >= seconds.max(initial=0.0) / 4) & (misfit > 0)
    if late.sum() < _FEWEST or np.ptp(np.log(seconds[late])) == 0:
        return None
    slope, _ = np.polyfit(np.log(seconds[late]), np.log(misfit[late]), 1)
    if slope > -_FLAT:
        return np.inf
    factor = (misfit[late][-1] / _LEFT) ** (-1 / slope)
    return float(seconds[late][-1] * factor) if factor <= _MOST else np.inf


def more_time_helps(rebuilt: Reconstruction) -> bool:
    """Whether an attack that found no fitting rows may find them in more time."""
    return rebuilt.status == "unknown" and time_needed(rebuilt.trace) != np.inf


def time_words(seconds: float) -> str:
    """Say a time in the unit that fits."""
    for unit, size in (("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} seconds"
