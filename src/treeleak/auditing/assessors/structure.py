"""Rows that a model treats alike, and how many numbers it learned from them.

These are the figures by which disclosure control judges tables and regressions, taken from the
trees: residual degrees of freedom, the smallest group (k of k-anonymity), groups that lack a class,
and groups with few rows of one. SACRO-ML groups rows by what the model answers
for them. Who holds the file sees more: in which leaf of each tree a row lies. Both are told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from treeleak.auditing.record import Serialisable
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.formats.literals import By
from treeleak.release.release import Release
from treeleak.release.statistics import VALUE
from treeleak.release.tree import Tree

if TYPE_CHECKING:
    import pandas as pd

    from treeleak.auditing.case import Case

FEWEST_DEGREES = 10
"""Residual degrees of freedom below which checkers of regressions ask questions."""

_DIGITS = 12
"""To which answers count as equal: trees are added up in any order."""

_CELLS = 200_000_000
"""Rows times trees, above which rows are not sent through the trees."""


@dataclass(frozen=True)
class Groups(Serialisable):
    """Groups of training rows.

    Attributes
    ----------
    by : {"leaf", "answer", "cell"}
        What the rows of a group share: the leaf of the only tree; what the model answers for them,
        as class shares; or the leaf of every tree.
    of : {"training rows", "rebuilt rows", "counts"}
        What was grouped. Rebuilt rows only where no others are possible.
    groups : int
    smallest : int
        Rows of the smallest group.
    small : int
        Groups with fewer rows than the threshold.
    rows_in_small : int
    lack_a_class : int or None
        Groups in which some class has no row; by answer, those of which the model rules a class
        out. None where no labels are known.
    few_of_a_class : int or None
        Groups in which some class has rows, but fewer than the threshold; by answer, as many as
        its share makes of the rows.
    """

    by: By
    of: str
    groups: int
    smallest: int
    small: int
    rows_in_small: int
    lack_a_class: int | None
    few_of_a_class: int | None


@dataclass(frozen=True)
class Structure(Serialisable):
    """What the size of a model and of its groups of rows says.

    Attributes
    ----------
    parameters : int
        Numbers that were learnt: two for each test, those of each leaf that do not follow from its
        others, and, of boosted models, one for each tree.
    n_rows : int or None
    residual_degrees : int or None
        Rows less parameters.
    fewest_degrees : int
        Fewer than these are a risk.
    threshold : int
        A group with fewer rows is small.
    groups : tuple of Groups
        None where rows are neither given nor the only ones possible, unless there is one tree.
    """

    parameters: int
    n_rows: int | None
    residual_degrees: int | None
    fewest_degrees: int
    threshold: int
    groups: tuple[Groups, ...] = ()

    def grouped(self, *by: By) -> Groups | None:
        """Find groups of the first of these kinds that there is."""
        return next((g for kind in by for g in self.groups if g.by == kind), None)


def assess(case: Case) -> Case:
    """Count parameters and groups, as a part of an audit."""
    release, found = case.release, case.found
    n_rows = release.n_rows if found.truth is None else len(found.truth.X)
    parameters = count_parameters(release)
    structure = Structure(
        parameters,
        n_rows,
        None if n_rows is None else n_rows - parameters,
        FEWEST_DEGREES,
        case.request.threshold,
        _groups(case),
    )
    return case.plus(structure=structure)


def count_parameters(release: Release) -> int:
    """Count the numbers that a model learnt."""
    held = sum(
        2 * (t.n_nodes - len(t.leaves)) + _of_leaf(release, t) * len(t.leaves)
        for t in release.trees
    )
    return held + (0 if release.ensemble is None else len(release.trees))


def _of_leaf(release: Release, tree: Tree) -> int:
    """Count the numbers that each leaf of a tree learnt: what it adds, or shares of classes."""
    each = tree.statistics.get(VALUE, per_class=True)
    if each is not None:
        return int(each.values.shape[1])
    if tree.statistics.get(VALUE) is not None:
        return 1
    if release.ensemble is not None:
        # Several numbers in each leaf are not read.
        return len(release.ensemble.base_scores) if tree.output is None else 1
    return max(release.n_classes - 1, 1)


def _groups(case: Case) -> tuple[Groups, ...]:
    release, threshold = case.release, case.request.threshold
    rows = _rows(case)
    if rows is None:
        counted = _of_leaf_counts(release, threshold)
        return () if counted is None else (counted,)
    of, X, labels = rows
    if len(X) * max(len(release.trees), 1) > _CELLS:
        return ()
    leaves = release.leaves(X)
    cells = np.unique(leaves, axis=0, return_inverse=True)[1].reshape(-1)
    sizes, by_class = np.bincount(cells), None
    if labels is not None:
        by_class = np.zeros((len(sizes), release.n_classes))
        np.add.at(by_class, (cells, labels), 1)
    if len(release.trees) == 1:
        return (_line("leaf", of, sizes, by_class, threshold),)
    by_leaf = _line("cell", of, sizes, by_class, threshold)
    answers = answers_of(release, leaves)
    if answers is None:
        return (by_leaf,)
    shares, group = np.unique(np.round(answers, _DIGITS), axis=0, return_inverse=True)
    sizes = np.bincount(group.reshape(-1))
    # What the model answers need not be what the rows are: that is what others see.
    expected = np.where(np.isclose(shares, 0.0), 0.0, shares) * sizes[:, None]
    return (_line("answer", of, sizes, expected, threshold), by_leaf)


def _rows(case: Case) -> tuple[str, pd.DataFrame, IntArray | None] | None:
    """Take the training rows where they are known, and their labels."""
    release, truth, rebuilt = case.release, case.found.truth, case.found.reconstruction
    if truth is not None:
        of, X, y = "training rows", truth.X, case.request.y
    elif rebuilt is not None and rebuilt.X is not None and rebuilt.status == "unique":
        of, X, y = "rebuilt rows", rebuilt.X, rebuilt.y
        if not set(release.feature_names) <= set(X.columns):
            # Rows as they were before transformers.
            return None
    else:
        return None
    labelled = y is not None and len(release.classes) > 1
    # Labels may be a table of one column.
    labels = release.class_numbers(np.ravel(np.asarray(y, dtype=object))) if labelled else None
    return of, X, None if labels is None or (labels < 0).any() else labels


def _of_leaf_counts(release: Release, threshold: int) -> Groups | None:
    """Group the rows of a single tree by its leaves, which count them."""
    if len(release.trees) != 1 or release.noise is not None or release.sampling.kind != "all":
        return None
    tree = release.trees[0]
    totals = tree.totals
    if totals is None or release.counts_are not in ("rows", "none"):
        return None
    counted = totals[tree.leaves] > 0
    leaves = tree.leaves[counted]
    by_class = None if tree.counts is None or len(release.classes) < 2 else tree.counts[leaves]
    return _line("leaf", "counts", totals[leaves].astype(np.int64), by_class, threshold)


def answers_of(release: Release, leaves: IntArray) -> FloatArray | None:
    """Give the class shares that a tree or forest answers to rows, or None where it does not.

    ``leaves``, shape (n_rows, n_trees): node numbers. Returns shape (n_rows, n_classes).
    """
    if release.ensemble is not None or release.noise is not None or len(release.classes) < 2:
        return None
    total = np.zeros((len(leaves), release.n_classes))
    for tree, leaf in zip(release.trees, leaves.T, strict=True):
        if tree.counts is None or release.counts_are not in ("rows", "draws", "weights"):
            return None
        counts = tree.counts[leaf].astype(float)
        total += counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)
    return total / len(release.trees)


def _line(by: By, of: str, sizes: IntArray, by_class: Any, threshold: int) -> Groups:
    small = sizes < threshold
    lack = few = None
    if by_class is not None:
        lack = int((by_class == 0).any(axis=1).sum())
        few = int(((by_class > 0) & (by_class < threshold)).any(axis=1).sum())
    return Groups(
        by,
        of,
        len(sizes),
        int(sizes.min(initial=sizes.max(initial=0))),
        int(small.sum()),
        int(sizes[small].sum()),
        lack,
        few,
    )
