"""Whether rows are nearer to people than a yardstick is, tested over people."""

from __future__ import annotations

import numpy as np
from scipy.special import stdtr

from treeleak.core.arrays import FloatArray
from treeleak.core.decisions import on_grid

FEWEST_PEOPLE = 8
"""People without whom no test reaches a level of half a percent: that their signs agree has a
probability of one in 256."""


def paired_t_test(
    errors: FloatArray, other: FloatArray, spread: float = 0.0, n_draws: int = 1
) -> float:
    """Probability of so large a margin over a yardstick, were there none.

    A one-sided paired t-test whose unit is a person: the mean of ``other - own``, against its
    standard error over people, with the spread of the yardstick from draw to draw added (degrees of
    freedom after Welch and Satterthwaite). So a margin counts neither where few people carry it,
    nor where another draw of the yardstick has it.

    ``errors`` and ``other``, shape (n_people,): error of each person's values in the rows that are
    tested, and in the yardstick; people for whom either is NaN are left out. ``spread``: standard
    error of the mean of ``other`` from draw to draw. ``n_draws``: draws from which that is known.
    Returns 1 where there are fewer than :data:`FEWEST_PEOPLE`.
    """
    gain = (other - errors)[~np.isnan(errors) & ~np.isnan(other)]
    if len(gain) < FEWEST_PEOPLE:
        return 1.0
    people, draws = float(gain.var(ddof=1)) / len(gain), spread**2
    mean, total = float(gain.mean()), people + draws
    if on_grid(np.sqrt(total)) == 0:
        return 0.0 if on_grid(mean) > 0 else 1.0
    freedom = total**2 / (people**2 / (len(gain) - 1) + draws**2 / max(n_draws - 1, 1))
    return float(stdtr(freedom, -mean / np.sqrt(total)))
