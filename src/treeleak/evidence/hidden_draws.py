"""Counts of drawn rows where the draws are hidden."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import ClassVar

import numpy as np

from treeleak.core.arrays import IntArray
from treeleak.core.errors import NotCovered
from treeleak.core.message import static_message
from treeleak.core.private import dataclass
from treeleak.evidence.linear_constraints import AtMost, LinearConstraints, OnlyIfHeld
from treeleak.evidence.protocol import (
    Contradiction,
    SamplingAssumptions,
    check_size,
    leaf_distinct,
    leaf_draws,
)
from treeleak.partition import Geometry
from treeleak.release.sampling import Subsample
from treeleak.release.statistics import DISTINCT, DRAWS


@dataclass(frozen=True, eq=False)
class HiddenDraws:
    """Draws that are not known: each tree drew n_t times among N rows.

    Given the histogram m over cells and classes, the draws of tree t are multinomial,
    P(n_t | m) = N_t! / prod n_tvc! x prod ((A m)_tvc / N)^n_tvc, and together with the numbers of
    distinct rows, P(n_t, d_t | m) is the sum, over the ways to split each d_tv among the classes of
    the leaf, of N_t! / prod n_tvc! x N^-N_t x prod C((A m)_tvc, d_tvc) x surj(n_tvc, d_tvc), where
    surj(n, d) counts the maps of n draws onto d rows.

    Without replacement every draw is a row of its own, d_tvc = n_tvc. What is left of that sum, but
    for factors that m does not change, is prod C((A m)_tvc, n_tvc): the hypergeometric law.
    """

    geometry: Geometry
    n_rows: int
    """N."""
    use_distinct: bool = True
    """Also use the distinct rows of each leaf, where the release gives them."""
    kind: ClassVar[str] = "hidden bootstrap draws"

    @classmethod
    def fitting(cls, assumed: SamplingAssumptions) -> Callable[[Geometry], HiddenDraws] | None:
        """Fit counts of draws that are not known."""
        if assumed.release.noise is not None or not assumed.draws_hidden:
            return None
        assumed.check_drawn()
        if assumed.n_rows is None:
            raise NotCovered(static_message("hidden draws of an unknown number of rows"))
        check_size(assumed.release, assumed.n_rows)
        assumed.check_counts(assumed.counted)
        return partial(cls, n_rows=assumed.n_rows, use_distinct=assumed.use_distinct)

    @property
    def described(self) -> str:
        """What an answer says it was made from."""
        if self.each_once:
            return "hidden draws without replacement"
        return f"{self.kind}, " + ("drawn counts only" if self.d is None else "distinct counts")

    @property
    def each_once(self) -> bool:
        """Whether each tree drew a row once at most."""
        return isinstance(self.geometry.release.sampling, Subsample)

    @cached_property
    def n(self) -> IntArray:
        """Draws of each class in each leaf, shape (n_leaves, n_classes)."""
        release = self.geometry.release
        return leaf_draws(release, release.trees)

    @cached_property
    def d(self) -> IntArray | None:
        """Distinct rows in each leaf, shape (n_leaves,), or None."""
        if self.each_once:
            return np.asarray(self.n.sum(axis=1))
        return leaf_distinct(self.geometry.release.trees) if self.use_distinct else None

    def statements(self) -> tuple[LinearConstraints, ...]:
        """Give the draws of each class in each leaf, and the distinct rows where they are used."""
        drawn = LinearConstraints(DRAWS, self.n, OnlyIfHeld())
        return (
            (drawn,) if self.d is None else (drawn, LinearConstraints(DISTINCT, self.d, AtMost()))
        )

    def contradiction(self) -> Contradiction | None:
        """Find a leaf or a tree whose numbers no draws give."""
        most, least = self.n.sum(axis=1), (self.n > 0).sum(axis=1)
        start = self.geometry.leaf_start[:-1]
        if self.d is None:
            per_tree, what = np.add.reduceat(least, start), "leaves and classes that count draws"
        else:
            for wrong, why in (
                (self.d > most, "holds {d} distinct rows and {n} draws"),
                (self.d < least, "holds {d} distinct rows of {least} classes"),
            ):
                if wrong.any():
                    v = int(wrong.argmax())
                    text = why.format(d=self.d[v], n=most[v], least=least[v])
                    return Contradiction(*self.geometry.leaf_of_row(v), text)
            per_tree, what = np.add.reduceat(self.d, start), "distinct rows"
        if (per_tree > self.n_rows).any():
            t = int((per_tree > self.n_rows).argmax())
            return Contradiction(t, 0, f"it has {per_tree[t]} {what}, of {self.n_rows} rows")
        return None
