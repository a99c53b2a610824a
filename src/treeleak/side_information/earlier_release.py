"""Two releases of a growing dataset as one: every row of the earlier training set is in the later.

Where counts are exact, the joint release has one column more, which says whether a row is in the
earlier training set. The later trees ignore it. Each earlier tree gets a root that tests it and
sends what is new to a leaf of its own, so that both kinds of trees count the rows of one dataset.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.message import static_message
from treeleak.core.private import dataclass
from treeleak.evidence import Contradiction
from treeleak.release.out_of_bag import OutOfBag
from treeleak.release.release import Release, ThresholdsAre
from treeleak.release.statistics import DISTINCT, WEIGHTS, NodeStatistic, Statistics
from treeleak.release.tree import LEAF, Tree
from treeleak.schema import Binary, Schema
from treeleak.verification.counts import check_drawable, check_noisy, check_rows

Draws = NDArray[np.unsignedinteger[Any]]

EPOCH = "in the earlier training set"
"""Name of the column that a joint release has more."""


def aligned(earlier: Release, later: Release) -> Release:
    """Order the columns and classes of an earlier release as in a later one.

    Raises BadInput, naming a column or a class that only one of them has. Raises NotCovered if
    their counts are of different kinds.
    """
    for what, ours, theirs in (
        ("column", earlier.feature_names, later.feature_names),
        ("class", earlier.classes, later.classes),
    ):
        for one, other, names in (("earlier", theirs, ours), ("later", ours, theirs)):
            if alone := [n for n in names if n not in set(other)]:
                raise BadInput(f"only the {one} release has the {what} {alone[0]!r}")
    for what in ("counts_are", "float_type"):
        pair = [getattr(r, what) for r in (earlier, later)]
        if pair[0] != pair[1]:
            raise NotCovered(f"{what} differs between the releases: {pair[0]!r} and {pair[1]!r}")
    if earlier.sampling.kind != later.sampling.kind:
        raise NotCovered(
            static_message("one of the releases comes from a bootstrap and the other does not")
        )
    if earlier.not_covered:
        raise NotCovered(f"the earlier release: {earlier.not_covered}")
    before, after = ({} if r.inputs is None else r.inputs.readings for r in (earlier, later))
    if changed := [c for c in before if c in after and before[c] != after[c]]:
        raise NotCovered(f"the earlier release encodes or scales {changed[0]!r} in another way")
    column = np.array([later.feature_names.index(c) for c in earlier.feature_names])
    label = [earlier.classes.index(c) for c in later.classes]
    trees = tuple(
        replace(tree, feature=np.where(tree.is_leaf, LEAF, column[tree.feature])).with_counts(
            counts=None if tree.counts is None or not label else tree.counts[:, label]
        )
        for tree in earlier.trees
    )
    return replace(earlier, trees=trees, feature_names=later.feature_names, classes=later.classes)


def distinguished(later: Release, earlier: Release, *, drawn: bool = False) -> Release:
    """Make one release of a later and an aligned earlier one, with the column :data:`EPOCH`.

    ``drawn``: whether trees drew their rows: those of the earlier release then drew nothing of what
    is new. Else every tree counts every row once. Its last column is 1 for rows of the earlier
    training set. Raises BadInput if the earlier release holds more rows than the later one.
    """
    root, trees = later.trees[0], []
    for t, tree in enumerate(earlier.trees):
        beside = [_beside(e, root.statistics, drawn) for e in tree.statistics]
        for entry in beside:
            if entry.quantity != DISTINCT and (entry.values[1] < 0).any():
                raise BadInput(
                    f"tree {t} of the earlier release counts {-entry.values[1].min():g} rows more "
                    "than the later release (of one class, or of all): a growing dataset does not "
                    "lose any"
                )
        trees.append(
            Tree(
                feature=np.concatenate([[later.n_features, LEAF], tree.feature]),
                threshold=np.concatenate([[0.5, np.nan], tree.cuts(earlier.float_type)]),
                left=np.concatenate([[1, LEAF], np.where(tree.is_leaf, LEAF, tree.left + 2)]),
                right=np.concatenate([[2, LEAF], np.where(tree.is_leaf, LEAF, tree.right + 2)]),
                missing_left=np.concatenate([[False, False], tree.missing_left]),
                statistics=Statistics(tuple(beside)),
                categories=None if tree.categories is None else tree.categories.behind(2),
            )
        )
    return replace(
        later,
        trees=(*later.trees, *trees),
        thresholds_are=_of_both(later, earlier),
        feature_names=(*later.feature_names, _free(EPOCH, later)),
        maybe_missing=later.maybe_missing | earlier.maybe_missing,
    )


def _beside(statistic: NodeStatistic, later: Statistics, drawn: bool) -> NodeStatistic:
    """Put what a tree counts behind its new root and the leaf of what is new."""
    whole = later.get(statistic.quantity, per_class=statistic.per_class)
    values = statistic.values
    if statistic.quantity == WEIGHTS:
        # Weights have no scale in common, and say only which classes there may be.
        more = np.ones_like(values[:1])
    elif drawn or whole is None:
        more = np.zeros_like(values[:1])
    else:
        more = whole.values[:1] - values[:1]
    return NodeStatistic(statistic.quantity, np.concatenate([values[:1] + more, more, values]))


def _of_both(later: Release, earlier: Release) -> ThresholdsAre:
    same = later.thresholds_are == earlier.thresholds_are
    return later.thresholds_are if same else "unknown"


def _free(name: str, release: Release) -> str:
    while name in release.feature_names:
        name += "_"
    return name


@dataclass(frozen=True, eq=False)
class Releases:
    """A release, and maybe an earlier one of the same growing dataset."""

    later: Release
    earlier: Release | None = None
    """:func:`aligned` with it."""
    draws: Draws | None = None
    earlier_draws: Draws | None = None
    """Shape (n_trees, n_rows). How often each tree drew each row. The earlier rows come first in
    the later training set."""
    hidden: tuple[int, int] | None = None
    """Where rows were drawn and the draws are hidden: rows of the later training set, and of the
    earlier one. These come first, which is no restriction: the rows have no order."""

    def __post_init__(self) -> None:
        if self.draws is not None and self.earlier_draws is not None:
            n, n_earlier = self.draws.shape[1], self.earlier_draws.shape[1]
            if n < n_earlier:
                raise BadInput(
                    f"the earlier release was trained on {n_earlier} rows, the later one on {n}: "
                    "a growing dataset does not lose any"
                )

    @cached_property
    def trees_of_both(self) -> Release:
        """The later release, with the earlier trees behind its own."""
        if self.earlier is None:
            return self.later
        return replace(
            self.later,
            trees=self.later.trees + self.earlier.trees,
            thresholds_are=_of_both(self.later, self.earlier),
            maybe_missing=self.later.maybe_missing | self.earlier.maybe_missing,
        )

    @property
    def out_of_bag(self) -> tuple[OutOfBag, ...]:
        """Out-of-bag predictions of rows whose draws are known; none beside an earlier release."""
        if self.earlier is not None or self.draws is None:
            return ()
        return tuple(m for m in self.later.out_of_bag if len(m.mean) == self.draws.shape[1])

    @cached_property
    def whole(self) -> Release:
        """Both in one: with known draws, the draws tell the trees apart, else a column does."""
        if self.earlier is None or self.draws is not None:
            return self.trees_of_both
        return distinguished(self.later, self.earlier, drawn=self.hidden is not None)

    def schema(self, schema: Schema) -> Schema:
        """Extend a schema to the columns of the whole."""
        more = self.whole.feature_names[self.later.n_features :]
        return Schema((*schema.attributes, *map(Binary, more)), schema.rules) if more else schema

    def known_columns(self, table: pd.DataFrame | None) -> pd.DataFrame | None:
        """Add what is known of hidden draws: the first rows are those of the earlier release."""
        if self.earlier is None or self.hidden is None:
            return table
        known = pd.DataFrame(index=range(self.n_rows)) if table is None else table
        old = np.arange(len(known)) < self.hidden[1]
        return known.assign(**{self.whole.feature_names[-1]: old.astype(int)})

    @property
    def shuffled(self) -> bool:
        """Whether the rows that trees drew from were in another order than the training set."""
        every = (self.later, self.earlier)
        return any(r is not None and r.sampling.shuffled for r in every)

    @cached_property
    def all_draws(self) -> Draws | None:
        """The draws of the trees of both; no earlier tree drew what is new."""
        if self.draws is None or self.earlier_draws is None:
            return self.draws
        more = self.draws.shape[1] - self.earlier_draws.shape[1]
        return np.concatenate([self.draws, np.pad(self.earlier_draws, ((0, 0), (0, more)))])

    @property
    def n_rows(self) -> int:
        """N of the later training set."""
        if self.hidden is not None:
            return self.hidden[0]
        if self.draws is not None:
            return int(self.draws.shape[1])
        tree = self.later.trees[0]
        held = tree.counts if tree.totals is None else tree.totals
        return 0 if held is None else int(np.rint(held[tree.leaves].sum()))

    def in_earlier(self, table: FloatArray) -> BoolArray | None:
        """Which rows, in the columns of the whole, are in the earlier training set."""
        if self.earlier is None:
            return None
        if self.earlier_draws is not None:
            return np.asarray(np.arange(len(table)) < self.earlier_draws.shape[1])
        return np.asarray(table[:, self.later.n_features] == 1.0)

    def misfit(self, table: FloatArray, label: IntArray, distinct: bool) -> float:
        """Check rows, in the columns of the whole, against the counts of both releases.

        ``distinct``: against the numbers of distinct rows as well. With hidden draws: how many
        rows are lacking for the counts to be possible. With noise: how much of it the rows leave.
        """
        X, old = table[:, : self.later.n_features], self.in_earlier(table)
        if self.later.noise is not None:
            return check_noisy(self.later, X, label)
        if self.hidden is not None:
            lacking = check_drawable(self.later, X, label, distinct)
            if self.earlier is not None and old is not None:
                lacking += check_drawable(self.earlier, X[old], label[old], distinct)
            return lacking
        misfit = check_rows(self.later, X, label, self.draws, distinct).misfit
        if self.earlier is not None and old is not None:
            earlier_rows = self.earlier, X[old], label[old], self.earlier_draws
            misfit += check_rows(*earlier_rows, distinct).misfit
        return misfit

    def located(self, clash: Contradiction) -> str:
        """Say where a contradiction of the whole shows."""
        tree = clash.tree - len(self.later.trees)
        if tree < 0:
            return str(clash)
        if self.draws is None and clash.node == 1:
            return f"rows that are not in tree {tree} of the earlier release: {clash.why}"
        # The root that tells rows apart stands before the tree's own, with a leaf for what is new.
        node = clash.node if self.draws is not None else max(clash.node - 2, 0)
        return f"earlier release, {replace(clash, tree=tree, node=node)}"
