"""Two releases of a growing dataset as one: every row of the earlier training set is in the later.

Where counts are exact, the joint release has one column more, which says whether a row is in the
earlier training set. The later trees ignore it. Each earlier tree gets a root that tests it and
sends what is new to a leaf of its own, so that both kinds of trees count the rows of one dataset.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.message import static_message
from treeleak.evidence import Contradiction
from treeleak.release.release import Release, ThresholdsAre
from treeleak.release.statistics import DISTINCT, WEIGHTS, NodeStatistic, Statistics
from treeleak.release.tree import LEAF, Tree

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


def with_trees_of(later: Release, earlier: Release) -> Release:
    """Put the trees of an aligned earlier release behind those of a later one."""
    return replace(
        later,
        trees=later.trees + earlier.trees,
        thresholds_are=_of_both(later, earlier),
        maybe_missing=later.maybe_missing | earlier.maybe_missing,
    )


def _of_both(later: Release, earlier: Release) -> ThresholdsAre:
    same = later.thresholds_are == earlier.thresholds_are
    return later.thresholds_are if same else "unknown"


def _free(name: str, release: Release) -> str:
    while name in release.feature_names:
        name += "_"
    return name


def located(clash: Contradiction, later: Release, *, rooted: bool) -> str:
    """Say where a contradiction of two releases in one shows.

    ``rooted``: whether they were joined by :func:`distinguished`, which puts a root before
    each earlier tree's own, with a leaf for what is new.
    """
    tree = clash.tree - len(later.trees)
    if tree < 0:
        return str(clash)
    if rooted and clash.node == 1:
        return f"rows that are not in tree {tree} of the earlier release: {clash.why}"
    node = max(clash.node - 2, 0) if rooted else clash.node
    return f"earlier release, {replace(clash, tree=tree, node=node)}"
