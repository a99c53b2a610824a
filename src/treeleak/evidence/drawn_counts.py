"""Counts of drawn rows, where the draws are known and where they are hidden."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, IntArray, packed
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
from treeleak.partition import Geometry, RowSets
from treeleak.release.row_facts import OutOfBag
from treeleak.release.sampling import Subsample
from treeleak.release.statistics import DISTINCT, DRAWS
from treeleak.release.tree import Tree


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
        return partial(cls, n_rows=assumed.n_rows)

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
        return leaf_distinct(self.geometry.release.trees)

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


@dataclass(frozen=True, eq=False)
class KnownDraws:
    """Bootstrap with known draws: sum over rows k of b_tk [row k in leaf v, class c] = n_tvc.

    The rows are not exchangeable: row k of an answer is row k of the training set.
    """

    geometry: Geometry
    draws: NDArray[np.unsignedinteger[Any]]
    """Shape (n_trees, n_rows). b: how often each tree drew each row. Behind these trees, the
    geometry may hold one more, with a leaf for each group of rows whose known parts are equal."""
    out_of_bag: tuple[OutOfBag, ...] = ()
    """What the trees that did not draw a row predict for it, in the mean."""
    row_leaves: NDArray[np.int32] | None = None
    """Shape (n_trees, n_rows). The leaf of each row, as its place among those of the tree, where
    the file says it, else -1."""
    kind: ClassVar[str] = "known bootstrap draws"

    @classmethod
    def fitting(cls, assumed: SamplingAssumptions) -> Callable[[Geometry], KnownDraws] | None:
        """Fit counts of draws that are known."""
        if assumed.release.noise is not None or assumed.draws_hidden or not assumed.draws_needed:
            return None
        assumed.check_drawn()
        if assumed.sampling == "unknown" or assumed.draws is None:
            return None
        check_size(assumed.release, assumed.draws.shape[1])
        assumed.check_counts(assumed.counted)
        return partial(cls, draws=assumed.draws)

    @cached_property
    def n(self) -> IntArray:
        """Draws of each class in each leaf, shape (n_leaves, n_classes)."""
        return leaf_draws(self.geometry.release, self.trees)

    @cached_property
    def d(self) -> IntArray | None:
        """Distinct rows in each leaf, shape (n_leaves,), or None.

        sum over rows k of [b_tk > 0] [row k in leaf v] = d_tv.
        """
        return leaf_distinct(self.trees)

    @property
    def trees(self) -> tuple[Tree, ...]:
        """The trees that drew."""
        return self.geometry.release.trees[: len(self.draws)]

    @property
    def n_rows(self) -> int:
        """N: rows of the training set, drawn or not."""
        return int(self.draws.shape[1])

    @property
    def described(self) -> str:
        """What an answer says it was made from."""
        return self.kind

    def statements(self) -> tuple[LinearConstraints, ...]:
        """Give the draws of each class in each leaf, and the distinct rows where they are used.

        Rows are numbered; those that no tree drew stand in no statement.
        """
        drawn = LinearConstraints(DRAWS, self.n, coefficients=self.draws)
        if self.d is None:
            return (drawn,)
        return drawn, LinearConstraints(DISTINCT, self.d, coefficients=self.draws > 0)

    @cached_property
    def drawn(self) -> BoolArray:
        """Rows that some tree drew. Of the others the counts say nothing."""
        return np.asarray(self.draws.any(axis=0))

    def row_sets(self, group: IntArray | None = None) -> RowSets:
        """Leave a row open for a class where the leaf counts its draws: b_tk <= n_tvc.

        ``group``, shape (n_rows,): the only leaf that each row may be in, of the tree behind those
        that drew.
        """
        start = self.geometry.leaf_start
        set_of = np.empty((start[-1], self.n.shape[1]), dtype=np.int32)
        sets: list[NDArray[np.uint64]] = []
        for t, b in enumerate(self.draws):
            tree_leaves = slice(start[t], start[t + 1])
            most, below = np.unique(b, return_inverse=True)
            rank = np.searchsorted(most, self.n[tree_leaves], side="right")
            set_of[tree_leaves] = len(sets) + rank
            # Set r holds the drawn rows whose draws are among the r smallest numbers.
            own = [(below.ravel() < r) & self.drawn for r in range(len(most) + 1)]
            told = None if self.row_leaves is None else self.row_leaves[t]
            if told is not None and (told >= 0).any():
                # Every leaf has sets of its own: without the rows that are known to be elsewhere.
                every = [(leaf, r) for leaf in range(len(rank)) for r in np.unique(rank[leaf])]
                place = {pair: len(sets) + i for i, pair in enumerate(every)}
                for (leaf, c), r in np.ndenumerate(rank):
                    set_of[start[t] + leaf, c] = place[leaf, r]
                sets += [packed(own[r] & ((told == leaf) | (told < 0))) for leaf, r in every]
                continue
            sets += [packed(one) for one in own]
        if group is not None:
            last, n_groups = self.geometry.release.trees[-1], int(start[-1] - start[-2])
            open_ = np.ones((n_groups, 1)) if last.counts is None else last.counts[last.leaves]
            only = np.where(open_ > 0, np.arange(n_groups)[:, None], n_groups)
            set_of[start[-2] :] = len(sets) + only
            sets += [packed((group == g) & self.drawn) for g in range(n_groups + 1)]
        return RowSets(np.array(sets), set_of)

    def contradiction(self) -> Contradiction | None:
        """Find a tree whose leaves hold another number of draws or distinct rows than it drew."""
        start = self.geometry.leaf_start[: len(self.draws)]
        per_tree = np.add.reduceat(self.n.sum(axis=1), start)
        found = [(per_tree, self.draws.sum(axis=1), "draws")]
        if self.d is not None:
            distinct = np.add.reduceat(self.d, start)
            found.append((distinct, (self.draws > 0).sum(axis=1), "distinct rows"))
        for held, drew, what in found:
            if (held != drew).any():
                t = int((held != drew).argmax())
                return Contradiction(t, 0, f"its leaves hold {held[t]} {what}, it drew {drew[t]}")
        return None
