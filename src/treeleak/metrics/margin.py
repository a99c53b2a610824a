"""Whether rows are nearer to people than a yardstick is, tested over people."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

__all__ = ["margin"]

Floats = NDArray[np.float64]


def margin(own: Floats, other: Floats, spread: float = 0.0) -> float:
    """Probability of so large a margin over a yardstick, were there none.

    A one-sided paired t-test whose unit is a person: the mean of ``other - own``, against its
    standard error over people, with the spread of the yardstick from draw to draw added. So a
    margin counts neither where few people carry it, nor where another draw of the yardstick has it.

    Parameters
    ----------
    own, other : float array, shape (n_people,)
        Error of each person's values in the rows that are tested, and in the yardstick; people for
        whom either is NaN are left out.
    spread : float
        Standard deviation of the mean of ``other`` from draw to draw.

    Returns
    -------
    float
        1 where there are fewer than two people.
    """
    gain = (other - own)[~np.isnan(own) & ~np.isnan(other)]
    if len(gain) < 2:
        return 1.0
    error = float(np.hypot(gain.std(ddof=1) / np.sqrt(len(gain)), spread))
    mean = float(gain.mean())
    if error == 0:
        return 0.0 if mean > 0 else 1.0
    return float(stdtr(len(gain) - 1, -mean / error))
