"""How often something succeeds, with intervals, as parts of documents."""

from __future__ import annotations

from typing import Annotated

from treeleak.core.declared import Declared, Share, Whole, says


class Interval(Declared, frozen=True):
    """A figure from 0 to 1, and its interval at 95 %."""

    value: Share
    low: Share
    high: Share


class Rate(Declared, frozen=True):
    """Successes per try, with an interval at 95 %: Wilson's where nothing else is said."""

    share: Share
    n: Whole
    low: Share
    high: Share


class Risk(Declared, frozen=True):
    """How often something succeeds, and how much oftener than without the model."""

    success: Rate
    baseline: Rate
    control: Rate | None
    risk: Annotated[
        Interval,
        says(
            "(success - other) / (1 - other), other being the greater of baseline and control; 0 "
            "where negative."
        ),
    ]
