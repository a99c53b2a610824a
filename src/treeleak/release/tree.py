"""The release: what an adversary sees of a tree model, whatever library made it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadModel
from treeleak.core.private import dataclass
from treeleak.release.bounds import (
    MOST_CLASSES,
    MOST_COLUMNS,
    MOST_COUNTS,
    MOST_LEVELS,
    MOST_NODES,
    MOST_ROWS,
    MOST_TREES,
    at_most,
)
from treeleak.release.noise.laws import CountNoise, LabelNoise
from treeleak.release.pipeline.inputs import Inputs
from treeleak.release.stored import Leftover

__all__ = [
    "AllRows",
    "Bootstrap",
    "Disjoint",
    "Release",
    "Sampling",
    "ThresholdsAre",
    "Tree",
    "UnknownSampling",
    "class_numbers",
]


LEAF = -1
# How many rows lie in a leaf is known of these as well, see :attr:`Tree.totals`.
REGRESSION = "regression trees hold means of the target, not counts: reconstruction not covered"
NO_COLUMNS = (
    "the model tests no column, and its file names none: what a row could be is not known; for "
    "J48, give an ARFF header in Python (read_j48)"
)


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree as arrays over its nodes; node 0 is the root.

    A row goes left where ``value <= threshold``; a missing value goes left where
    ``missing_left``.

    Attributes
    ----------
    feature : int array, shape (n_nodes,)
        Column tested; -1 at a leaf.
    threshold : float array, shape (n_nodes,)
        NaN at a leaf.
    left, right : int array, shape (n_nodes,)
        Children; -1 at a leaf.
    missing_left : bool array, shape (n_nodes,)
    counts : float array, shape (n_nodes, n_classes), or None
        What the release says of each class in each node, in the unit that
        :attr:`Release.counts_are` names; None where it says nothing.
    totals : float array, shape (n_nodes,), or None
        The same without classes: rows (or draws) that reach the node.
    distinct : int array, shape (n_nodes,), or None
        Distinct rows that reach the node (scikit-learn's ``n_node_samples``).

    Raises
    ------
    BadModel
        On arrays that do not describe a tree.
    """

    feature: IntArray
    threshold: FloatArray
    left: IntArray
    right: IntArray
    missing_left: BoolArray
    counts: FloatArray | None = None
    totals: FloatArray | None = None
    distinct: IntArray | None = None

    def __post_init__(self) -> None:
        n = len(self.feature)
        if n == 0:
            raise BadModel("a tree without nodes")
        for name in ("threshold", "left", "right", "missing_left", "counts", "totals", "distinct"):
            array = getattr(self, name)
            if array is not None and len(array) != n:
                raise BadModel(f"{name} has {len(array)} entries for {n} nodes")
        leaf = self.left == LEAF
        if not np.array_equal(leaf, self.right == LEAF):
            raise BadModel(f"node {_first(leaf != (self.right == LEAF))} has one child only")
        inner = ~leaf
        # Children behind their parent and each node with one parent: no cycle, nothing shared.
        children = np.concatenate([self.left[inner], self.right[inner]])
        if children.size and (children.min() < 1 or children.max() >= n):
            raise BadModel(f"a child index outside 1..{n - 1}")
        if len(np.unique(children)) != len(children) or len(children) != n - 1:
            raise BadModel("the nodes do not form one tree: a node has no parent or two")
        parents = np.tile(np.flatnonzero(inner), 2)
        if np.any(children <= parents):
            raise BadModel("a child stands before its parent: a cycle")
        if np.any(self.feature[inner] < 0):
            raise BadModel(f"node {np.flatnonzero(inner)[0]} tests no column")
        if np.any(np.isnan(self.threshold[inner])):
            raise BadModel(f"node {_first(inner & np.isnan(self.threshold))}: threshold is NaN")
        for name in ("counts", "totals"):
            array = getattr(self, name)
            if array is not None and not (np.isfinite(array).all()):
                raise BadModel(f"{name} hold a number that is not finite")
        for depth, _ in enumerate(self._levels()):
            at_most(MOST_LEVELS, depth, "levels or more below the root")

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.feature)

    @cached_property
    def is_leaf(self) -> BoolArray:
        """Which nodes are leaves, shape (n_nodes,)."""
        leaf: BoolArray = self.left == LEAF
        return leaf

    @cached_property
    def leaves(self) -> IntArray:
        """Node numbers of the leaves, ascending."""
        return np.flatnonzero(self.is_leaf)

    @cached_property
    def depth(self) -> IntArray:
        """Depth of each node, 0 at the root."""
        depth = np.zeros(self.n_nodes, dtype=np.int64)
        for level, nodes in enumerate(self._levels()):
            depth[nodes] = level
        return depth

    def _levels(self) -> Iterator[IntArray]:
        """The nodes of each level, from the root down."""
        nodes = np.zeros(1, dtype=np.int64)
        while nodes.size:
            yield nodes
            inner = nodes[self.left[nodes] != LEAF]
            nodes = np.concatenate([self.left[inner], self.right[inner]])

    def apply(self, X: NDArray[Any]) -> IntArray:
        """Push rows through the tree.

        Parameters
        ----------
        X : array, shape (n_rows, n_columns)
            In the type in which the model compares (float32 for scikit-learn).

        Returns
        -------
        int array, shape (n_rows,)
            The node number of each row's leaf.
        """
        at = np.zeros(len(X), dtype=np.int64)
        active = np.flatnonzero(~self.is_leaf[at])
        while active.size:
            node = at[active]
            x = X[active, self.feature[node]]
            left = np.where(np.isnan(x), self.missing_left[node], x <= self.threshold[node])
            at[active] = np.where(left, self.left[node], self.right[node])
            active = active[~self.is_leaf[at[active]]]
        return at


@dataclass(frozen=True)
class Sampling:
    """How the training rows reached the trees."""

    kind: ClassVar[str] = ""


@dataclass(frozen=True)
class AllRows(Sampling):
    """Every tree saw every row exactly once."""

    kind: ClassVar[str] = "all"


@dataclass(frozen=True)
class Disjoint(Sampling):
    """Every row reached one tree only, any of them with the same probability."""

    kind: ClassVar[str] = "disjoint"


@dataclass(frozen=True)
class Bootstrap(Sampling):
    """Every tree drew rows at random, with replacement.

    Attributes
    ----------
    n_draws : int or None
        Draws per tree, where the release says so.
    tree_seeds : tuple of int or None
        Each tree's seed, where the file holds it.
    forest_seed : int or None
        The forest's own seed, where the file holds an integer.
    rule : str
        The procedure that turns a tree's seed into draws (library, version, kind), where known.
    row_weights : tuple of float or None
        Each training row's weight in the draw, where the file holds it; None means equal.
    columns_drawn : int or None
        How many columns each tree drew before its rows, from the same random numbers (a bagging
        does); 0 if none, None where the release does not say.
    columns_replaced : bool
        Whether it drew them with replacement.
    rows_between : tuple of two int or None
        The least and the greatest number of training rows that fit :attr:`n_draws`, where the
        file says more of it than that.
    hidden : str
        Why the draws do not follow from a seed and what else is in the file; empty if they do.
    """

    n_draws: int | None = None
    tree_seeds: tuple[int | None, ...] = ()
    forest_seed: int | None = None
    rule: str = ""
    row_weights: tuple[float, ...] | None = None
    columns_drawn: int | None = None
    columns_replaced: bool = False
    rows_between: tuple[int, int] | None = None
    hidden: str = ""
    kind: ClassVar[str] = "bootstrap"


@dataclass(frozen=True)
class UnknownSampling(Sampling):
    """The release does not say how rows were drawn."""

    why: str = ""
    kind: ClassVar[str] = "unknown"


CountsAre = Literal["rows", "draws", "weights", "labels", "none"]
ThresholdsAre = Literal["midpoints", "unknown"]


@dataclass(frozen=True, eq=False)
class Release:
    """What the adversary sees: trees, counts, and what is known of the training.

    Attributes
    ----------
    trees : tuple of Tree
    feature_names : tuple of str
        The model's columns, in order.
    classes : tuple
        Class labels in the order of the counts' columns; empty without classes.
    sampling : Sampling
    counts_are : {"rows", "draws", "weights", "labels", "none"}
        Unit of :attr:`Tree.counts`: rows of the training set, draws of a bootstrap (a row may
        count twice), sums of sample weights, 1 for the only class that a leaf names (and 0 for
        the others), or not given.
    n_rows : int or None
        Rows of the training set, where known.
    noise : CountNoise, LabelNoise or None
        What was done to the counts of the leaves before they were released; only leaves count
        anything then.
    not_covered : str or None
        Why rows cannot be reconstructed from this kind of model; None where they can.
    maybe_missing : frozenset of str
        Columns in which the trees saw missing values; of trees grown from a schema, those in which
        it allows them.
    one_hot : mapping of str to tuple of str
        Groups of 0/1 columns that the file itself declares (a fitted encoder): name to columns.
    levels : mapping of str to tuple of str
        Texts that the codes 0, 1, 2 and so on of a column stand for.
    inputs : Inputs or None
        The columns that went into the transformers before the model, where the file holds some.
    float_type : str
        numpy type in which the model compares a value with a threshold.
    thresholds_are : {"midpoints", "unknown"}
        Whether every threshold lies in the middle of the two values that it parts: the nearest ones
        of the rows that the node saw.
    origin : str
        The library, its version and the class that made the model.
    notes : tuple of str
        What the reader of an audit should know of how the release was read.
    leftovers : tuple of Leftover
        What its file holds beside it.
    of_file : bool
        Whether ``origin``, ``notes`` and reasons are what a release file says, whoever wrote it.

    Raises
    ------
    BadModel
        If there is more of something than :mod:`treeleak.release.bounds` allows;
        if a column, a class or the text of a code stands twice, texts belong to no column, a tree
        does not fit the columns or the classes, what should count rows or draws is no whole number
        of them, or a leaf that should name a class names none or several.
    """

    _said: ClassVar = ("counts_are", "n_rows", "trees", "feature_names", "classes")

    trees: tuple[Tree, ...]
    feature_names: tuple[str, ...]
    classes: tuple[Any, ...]
    sampling: Sampling
    counts_are: CountsAre
    n_rows: int | None
    noise: CountNoise | LabelNoise | None = None
    not_covered: str | None = None
    maybe_missing: frozenset[str] = frozenset()
    one_hot: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    inputs: Inputs | None = None
    float_type: str = "float64"
    thresholds_are: ThresholdsAre = "unknown"
    origin: str = ""
    notes: tuple[str, ...] = ()
    leftovers: tuple[Leftover, ...] = ()
    of_file: bool = False

    def __post_init__(self) -> None:
        n_nodes = sum(tree.n_nodes for tree in self.trees)
        at_most(MOST_TREES, len(self.trees), "trees")
        at_most(MOST_COLUMNS, self.n_features, "columns")
        at_most(MOST_CLASSES, len(self.classes), "classes")
        at_most(MOST_NODES, n_nodes, "nodes in all trees")
        at_most(MOST_COUNTS, n_nodes * self.n_classes, "counts in all trees")
        if len(set(self.feature_names)) != len(self.feature_names):
            raise BadModel("two columns of the model have one name")
        if len(set(self.classes)) != len(self.classes):
            raise BadModel("two classes of the model have one label")
        if strange := set(self.levels) - set(self.feature_names):
            raise BadModel(f"levels name {min(strange)!r:.80}: no such column")
        for column, texts in self.levels.items():
            if not texts or len(set(texts)) != len(texts):
                raise BadModel(f"levels of column {column!r:.80}: none, or one stands twice")
        whole: tuple[str, ...] = ("totals",)
        if self.counts_are in ("rows", "draws"):
            whole = ("counts", "totals")
        if isinstance(self.noise, CountNoise) and not self.noise.whole:
            whole = ()
        for t, tree in enumerate(self.trees):
            if tree.feature.max(initial=LEAF) >= len(self.feature_names):
                raise BadModel(
                    f"tree {t} tests column {tree.feature.max()}, "
                    f"the model has {len(self.feature_names)}"
                )
            if tree.counts is not None and tree.counts.shape[1] != len(self.classes):
                raise BadModel(
                    f"tree {t} counts {tree.counts.shape[1]} classes, "
                    f"the model has {len(self.classes)}"
                )
            for name in whole:
                _check_whole(getattr(tree, name), f"tree {t}", name)
            if not whole:
                _check_size(tree.counts, f"tree {t}", "counts")
            if self.counts_are == "labels":
                several = isinstance(self.noise, LabelNoise) and self.noise.rule == "present"
                _check_labels(tree, f"tree {t}", several)

    @property
    def foreign(self) -> tuple[str, ...]:
        """Texts that are a file's own words, for which nobody answers."""
        sampling = (getattr(self.sampling, name, "") for name in ("why", "hidden", "rule"))
        told = (self.origin, self.not_covered or "", *sampling, *self.notes)
        return tuple(text for text in told if text) if self.of_file else ()

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.feature_names)

    @property
    def n_classes(self) -> int:
        """Number of classes; 1 where the model has none."""
        return max(len(self.classes), 1)

    def class_numbers(self, labels: Iterable[Any]) -> IntArray:
        """Position of each label in :attr:`classes`; -1 for one that the model does not know."""
        return class_numbers(self.classes, labels)

    @cached_property
    def thresholds(self) -> tuple[FloatArray, ...]:
        """The distinct thresholds of each column, ascending; empty for an unused column."""
        feature = np.concatenate([np.zeros(0, int), *(t.feature[~t.is_leaf] for t in self.trees)])
        threshold = np.concatenate([np.zeros(0), *(t.threshold[~t.is_leaf] for t in self.trees)])
        # One sort for all columns: there may be many more of them than tests.
        order = np.lexsort((threshold, feature))
        feature, threshold = feature[order], threshold[order]
        new = np.ones(len(order), dtype=bool)
        new[1:] = (np.diff(feature) > 0) | (threshold[1:] != threshold[:-1])
        ends = np.searchsorted(feature[new], np.arange(1, self.n_features))
        return tuple(np.split(threshold[new], ends))[: self.n_features]


def class_numbers(classes: Sequence[Any], labels: Iterable[Any]) -> IntArray:
    """Position of each label among the classes; -1 for one that is none of them."""
    number = {_canonical(c): i for i, c in enumerate(classes)}
    return np.array([number.get(_canonical(v), -1) for v in labels], dtype=np.int64)


def _check_whole(array: FloatArray | None, where: str, name: str) -> None:
    if array is None:
        return
    bad = (array != np.round(array)) | (np.abs(array) > MOST_ROWS)
    if bad.any():
        node = int(np.argwhere(bad)[0, 0])
        raise BadModel(
            f"{where}, node {node}: {name} hold {array[bad][0]:g}, "
            f"no whole number of up to {MOST_ROWS:g} rows"
        )


def _check_size(array: FloatArray | None, where: str, name: str) -> None:
    if array is not None and (bad := np.abs(array) > MOST_ROWS).any():
        node = int(np.argwhere(bad)[0, 0])
        raise BadModel(
            f"{where}, node {node}: {name} hold {array[bad][0]:g}, no number of up to "
            f"{MOST_ROWS:g} rows"
        )


def _check_labels(tree: Tree, where: str, several: bool) -> None:
    if tree.counts is None:
        return
    named = tree.counts[tree.leaves]
    bad = ((named != 0) & (named != 1)).any(axis=1) | (named.sum(axis=1) < 1)
    told = "no class"
    if not several:
        bad |= named.sum(axis=1) > 1
        told = "not exactly one class"
    if bad.any():
        leaf = tree.leaves[bad.argmax()]
        raise BadModel(f"{where}, node {leaf}: counts name {told}")


def _first(mask: BoolArray) -> int:
    return int(np.flatnonzero(mask)[0])


def _canonical(label: Any) -> str:
    """1, 1.0, True and "1" are one label: files change the type on the way."""
    plain = label.item() if isinstance(label, np.generic) else label
    if isinstance(plain, bool):
        return str(int(plain))
    try:
        return f"{float(plain):.17g}"
    except (TypeError, ValueError):
        return {"true": "1", "false": "0"}.get(str(plain).lower(), str(plain))
