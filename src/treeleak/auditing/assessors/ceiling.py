"""What no attack can exceed, as a part of an audit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from treeleak.auditing.serialisable import Serialisable
from treeleak.bound import bound_of
from treeleak.core.errors import NotCovered
from treeleak.core.private import dataclass

if TYPE_CHECKING:
    from treeleak.auditing.case import Case


@dataclass(frozen=True)
class Ceiling(Serialisable):
    """How many rows any attack on the file gets right at most (docs/bound.md).

    Attributes
    ----------
    bits : int
        Description length of what depends on the rows.
    code : {"model code", "compressed"}
    n_rows : int
    rows : int or None
        At most so many rare rows, but with probability ``delta``; None: no such number.
    delta : float
    rare : float
        Share of people whose rows are rare.
    cell : float
        Logarithm to base 2 of the greatest probability of a rare row.
    ratio : float
        Bits of the file for each bit of the table.
    prior : {"control", "schema"}
    """

    bits: int
    code: str
    n_rows: int
    rows: int | None
    delta: float
    rare: float
    cell: float
    ratio: float
    prior: str


def assess(case: Case) -> Case:
    """Bound what attacks get right; only where it is known how rare rows are."""
    request = case.request
    if request.schema is None and case.others is None:
        return case
    n_rows = len(case.found.truth.X) if case.found.truth is not None else request.stated_rows
    try:
        found = bound_of(case.release, request.schema, n_rows, case.others, request.seed)
    except NotCovered:
        return case
    if not (math.isfinite(found.ratio) and math.isfinite(found.log2_q)):
        # Rows that are all alike hold no bits, and nothing is rare among them.
        return case
    return case.plus(
        ceiling=Ceiling(
            bits=math.ceil(found.bits),
            code=found.code,
            n_rows=found.n_rows,
            rows=None if found.rows is None else found.rows - 1,
            delta=found.delta,
            rare=1.0 - found.common,
            cell=found.log2_q,
            ratio=found.ratio,
            prior=found.prior,
        )
    )
