"""What an answer says of itself: how right its rows are, as far as the model tells."""

from __future__ import annotations

from typing import Any

import pandas as pd

from treeleak.core.message import MessageTemplate
from treeleak.release.noise.laws import CountNoise
from treeleak.release.release import Release
from treeleak.release.stated_noise import noise_left

MIDPOINTS = MessageTemplate(
    "midpoints_met",
    "every threshold lies midway between two values of the training set; {met} lie midway "
    "between two values of these rows: {sign}",
)
LARGER = MessageTemplate(
    "noise_larger_than_stated",
    "the counts differ from the likeliest rows by more than the stated noise ({why}; by chance, "
    "that happens less than once in a million times): it is larger than stated, or the search "
    "needs more time{scale}",
)

_RIGHT, _WRONG = 0.8, 0.5
"""Shares of midpoints met. On seven raw tables of 100 to 1,000 rows, 0.05 to 0.16 fewer numbers lay
in the right interval: 0.72 to 0.87 of them where 0.83 to 0.95 were met, 0.56 where 0.72 were, and
0.12 where 0.21 were."""


def of_midpoints(met: float | None) -> tuple[str, ...]:
    """Say how right the rows are, as far as thresholds tell."""
    if met is None:
        return ()
    if met >= _RIGHT:
        sign = "so most numbers are those of the training set"
    elif met >= _WRONG:
        sign = "so many numbers are those of the training set, but not all"
    else:
        sign = "so few numbers are those of the training set, even if the rows meet all counts"
    return (MIDPOINTS(met=f"{met:.0%}", sign=sign),)


def of_noise(release: Release, X: pd.DataFrame, y: pd.Series[Any] | None) -> tuple[str, ...]:
    """Say where counts differ from the likeliest rows by more than noise of the stated law does.

    These rows are nearer to the counts than the training rows: nothing else tells against it.
    """
    if not isinstance(release.noise, CountNoise):
        return ()
    label = None if y is None else release.class_numbers(y)
    left = noise_left(release, X.to_numpy(dtype=float), label)
    if left.misfit is None or left.misfit.how != "larger":
        return ()
    scale = "" if left.scale is None else f". {left.scale}"
    return (LARGER(why=left.misfit.why, scale=scale),)
