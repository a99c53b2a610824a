"""What follows from comparing rebuilt rows with yardsticks: the rule behind the verdict."""

from __future__ import annotations

from typing import Literal

from treeleak.auditing.assessors.baselines import BaselineComparison
from treeleak.auditing.assessors.compared import Compared
from treeleak.auditing.assessors.measurement import Measurement
from treeleak.core.private import dataclass
from treeleak.metrics import Significance

LEVEL = 0.005
"""Greatest probability that a margin may have by chance, over people, to count. Rows can be nearer
in three ways (values, whole rows, rows in their places), and what is made with less to go by counts
from a tenth of this on: so chance alone shows a leak in at most 2 % of all audits."""

MATERIAL = 0.25
"""Least part by which the error must lie below that of a yardstick that knows the population."""

SIGNIFICANT = 0.01
"""Greatest rank among other draws of the population at which rows count as those of the model."""

Way = Literal["values", "rows", "places"]


@dataclass(frozen=True)
class Decision:
    """Where rebuilt rows stand."""

    outcome: Literal["people", "perhaps", "nothing"]
    """people: nearer to the training rows than any yardstick, those included that know the
    population. perhaps: nearer than baselines without the counts of leaves, or than to others of
    the population, but no nearer than an adversary who knows the population."""
    ways: tuple[Way, ...] = ()
    """Tuple of {"values", "rows", "places"}. In what they are: in the error of values, in rows that
    are right throughout, or row by row in their places."""


def decide(m: Measurement, level: float = LEVEL) -> Decision:
    """Judge rebuilt rows by the yardsticks that they were held against.

    Where other rows of the population were given, enough of them, rows tell of the people only if
    they are also nearer to them than to other draws of the population. Columns that no tree tests
    do not count.
    """
    test = test_of(m)
    these = test is None or test.rank <= SIGNIFICANT
    judged = m.judged
    sure: list[Way] = []
    if these and any(y.knows == "people" for y in judged.yardsticks):
        if all(_nearer(judged, y, level) for y in judged.yardsticks):
            sure.append("values")
        if all(y.more_rows <= level for y in judged.yardsticks):
            sure.append("rows")
    order = judged.in_order
    in_places = order is not None and order.nearer_than_others <= level
    if (
        order is not None
        and in_places
        and order.nearer_than_usual <= level
        and order.error <= (1 - MATERIAL) * order.usual
    ):
        sure.append("places")
    if sure:
        return Decision("people", tuple(sure))
    strangers = [y for y in judged.yardsticks if y.knows != "people"]
    perhaps: list[Way] = []
    if these and strangers:
        if all(_nearer(judged, y, level) for y in strangers):
            perhaps.append("values")
        if all(y.more_rows <= level for y in strangers):
            perhaps.append("rows")
    if in_places:
        perhaps.append("places")
    return Decision("perhaps", tuple(perhaps)) if perhaps else Decision("nothing")


def test_of(m: Measurement) -> Significance | None:
    """The test against the population, if there were rows enough for it."""
    test = m.judged.significance
    return None if test is None or test.overlapping else test


def strongest(m: Measurement) -> BaselineComparison | None:
    """The yardstick that errs least."""
    return min(m.judged.yardsticks, key=lambda y: y.scores.error, default=None)


def _nearer(m: Measurement | Compared, y: BaselineComparison, level: float) -> bool:
    most = (1 - MATERIAL) * y.scores.error if y.knows == "people" else y.scores.error
    return y.nearer <= level and m.error <= most
