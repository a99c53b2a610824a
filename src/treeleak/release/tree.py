"""The release: what an adversary sees of a tree model, whatever library made it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadModel, NotCovered
from treeleak.core.private import dataclass
from treeleak.release.bounds import (
    MOST_CATEGORY,
    MOST_CLASSES,
    MOST_COLUMNS,
    MOST_COUNTS,
    MOST_LEVELS,
    MOST_NODES,
    MOST_REAL,
    MOST_TREES,
    at_most,
)
from treeleak.release.noise.laws import CountNoise, LabelNoise
from treeleak.release.pipeline.inputs import Inputs
from treeleak.release.statistics import (
    COUNTS,
    DISTINCT,
    DRAWS,
    LABELS,
    ROWS,
    NodeStatistic,
    Quantity,
    Statistics,
)
from treeleak.release.stored import Leftover

LEAF = -1
_VIEWS = {
    "counts": (COUNTS, True),
    "totals": ((ROWS, DRAWS), False),
    "distinct": ((DISTINCT,), False),
}
# How many rows lie in a leaf is known of these as well, see :attr:`Tree.totals`.
NO_COLUMNS = (
    "the model tests no column, and its file names none: what a row could be is not known; for "
    "J48, give an ARFF header in Python (read_j48)"
)


@dataclass(frozen=True, eq=False)
class CategorySets:
    """Tests for membership: a row goes left where its value is one of a node's.

    Attributes
    ----------
    node, value : int array, shape (n_members,)
        The values of each node that has such a test, by node and then ascending.

    Raises
    ------
    BadModel
        If they are not in this order, or a value is no whole number from 0 to below 2^31.
    """

    node: IntArray
    value: IntArray

    def __post_init__(self) -> None:
        if self.node.shape != self.value.shape or self.node.ndim != 1:
            raise BadModel("a category without a node, or the other way round")
        if self.value.min(initial=0) < 0 or self.value.max(initial=0) >= MOST_CATEGORY:
            raise BadModel(f"a category that is no whole number below {MOST_CATEGORY:,}")
        if self.node.min(initial=0) < 0 or (np.diff(self._members) <= 0).any():
            raise BadModel("categories of nodes that are not in order, or stand twice")

    @cached_property
    def _members(self) -> IntArray:
        return self.node.astype(np.int64) * MOST_CATEGORY + self.value

    def hold(self, node: IntArray, x: NDArray[Any]) -> BoolArray:
        """Say of each value whether it is one of those of its node."""
        known = (x >= 0) & (x < MOST_CATEGORY) & (x == np.floor(x))
        key = node * MOST_CATEGORY + np.where(known, x, 0).astype(np.int64)
        return np.asarray(known & np.isin(key, self._members))


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree as arrays over its nodes; node 0 is the root.

    A row goes left where ``value <= threshold``, or where ``value < threshold`` if the test is
    ``strict``, or where the value is one of the node's ``categories``; a missing value goes left
    where ``missing_left``.

    Attributes
    ----------
    feature : int array, shape (n_nodes,)
        Column tested; -1 at a leaf.
    threshold : float array, shape (n_nodes,)
        NaN at a leaf, and where a node tests for categories.
    left, right : int array, shape (n_nodes,)
        Children; -1 at a leaf.
    missing_left : bool array, shape (n_nodes,)
    statistics : Statistics
        What the release says of the rows that reach each node.
    strict : bool array, shape (n_nodes,), or None
        Which tests ask for less than the threshold; None: none does.
    categories : CategorySets or None
    output : int or None
        Which of the model's outputs (a class, a target) the tree adds to; None: all of them.

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
    statistics: Statistics = Statistics()
    strict: BoolArray | None = None
    categories: CategorySets | None = None
    output: int | None = None

    def __post_init__(self) -> None:
        n = len(self.feature)
        if n == 0:
            raise BadModel("a tree without nodes")
        for name in ("threshold", "left", "right", "missing_left", "strict"):
            array = getattr(self, name)
            if array is not None and len(array) != n:
                raise BadModel(f"{name} has {len(array)} entries for {n} nodes")
        for entry in self.statistics:
            if entry.n_nodes != n:
                raise BadModel(f"{entry.called} has {entry.n_nodes} entries for {n} nodes")
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
        ordered = inner.copy()
        if self.categories is not None and self.categories.node.size:
            tests = self.categories.node
            if tests[-1] >= n or leaf[tests].any() or not np.isnan(self.threshold[tests]).all():
                raise BadModel("categories at a leaf, or beside a threshold")
            ordered[tests] = False
        if np.any(np.isnan(self.threshold[ordered])):
            raise BadModel(f"node {_first(ordered & np.isnan(self.threshold))}: threshold is NaN")
        if self.output is not None and not 0 <= self.output < MOST_CLASSES:
            raise BadModel(f"it adds to output {self.output}")
        for depth, _ in enumerate(self._levels()):
            at_most(MOST_LEVELS, depth, "levels or more below the root")

    def __getstate__(self) -> dict[str, Any]:
        """Give counts of rows as arrays of their own, as learners' files have held them."""
        held = self.__dict__.copy()
        if not all(e.quantity in (ROWS, DISTINCT) and e.present is None for e in self.statistics):
            return held
        del held["statistics"]
        for name in ("strict", "categories", "output"):
            if held[name] is None:
                del held[name]
        return held | {name: getattr(self, name) for name in _VIEWS}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        held: dict[str, Any] = {f.name: f.default for f in fields(self)[5:]} | dict(state)
        views = {name: held.pop(name, None) for name in _VIEWS}
        if "statistics" not in state:
            held["statistics"] = Statistics.counting(ROWS, **views)
        self.__dict__.update(held)

    def with_counts(self, quantity: Quantity | None = None, **given: Any) -> Tree:
        """Count something else at the nodes.

        Parameters
        ----------
        quantity : Quantity, optional
            What is counted by class, and together if these are rows or draws; by default what was,
            or else rows.
        **given : array or None
            New ``counts``, ``totals`` or ``distinct``; None takes them away. What is not given
            stays, and so do statistics that are no counts.
        """
        entries = {n: self.statistics.get(*q, per_class=c) for n, (q, c) in _VIEWS.items()}
        units = {n: entry.quantity for n, entry in entries.items() if entry is not None}
        if quantity is not None:
            units |= {"counts": quantity} | ({"totals": quantity} if quantity.whole else {})
        units.setdefault("counts", units.get("totals", ROWS))
        units.setdefault("totals", DRAWS if units["counts"] == DRAWS else ROWS)
        others = [e for e in self.statistics if e not in entries.values()]
        for name, entry in entries.items():
            if name in given:
                new = given[name]
                entry = None if new is None else NodeStatistic(units.get(name, DISTINCT), new)
            elif entry is not None:
                entry = replace(entry, quantity=units[name])
            if entry is not None:
                others.append(entry)
        return replace(self, statistics=Statistics(tuple(others)))

    @property
    def counts(self) -> FloatArray | None:
        """Counts of each class in each node, shape (n_nodes, n_classes), or None.

        In the unit of :attr:`Release.counts_are`; 0 where a node is not counted.
        """
        return self._values("counts")

    @property
    def totals(self) -> FloatArray | None:
        """Counts without classes, rows or draws, shape (n_nodes,), or None."""
        return self._values("totals")

    @property
    def distinct(self) -> IntArray | None:
        """Distinct rows that reach each node, shape (n_nodes,), or None."""
        return self._values("distinct")

    def _values(self, name: str) -> NDArray[Any] | None:
        quantities, per_class = _VIEWS[name]
        entry = self.statistics.get(*quantities, per_class=per_class)
        if entry is None or (entry.present is not None and not entry.present[self.leaves].all()):
            return None
        return entry.values

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
            left = self.goes_left(node, X[active, self.feature[node]])
            at[active] = np.where(left, self.left[node], self.right[node])
            active = active[~self.is_leaf[at[active]]]
        return at

    def goes_left(self, node: IntArray, x: NDArray[Any]) -> BoolArray:
        """Say of each value, in the type in which the model compares, whether it goes left.

        Parameters
        ----------
        node : int array
            The inner node that tests it, or one for each value.
        x : array
        """
        threshold = self.threshold[node]
        left = x <= threshold
        if self.strict is not None:
            left &= (x < threshold) | ~self.strict[node]
        if self.categories is not None:
            left |= self.categories.hold(node, x)
        return np.asarray(np.where(np.isnan(x), self.missing_left[node], left), dtype=bool)

    def cuts(self, float_type: str) -> FloatArray:
        """Give each test as ``value <= cut``: the greatest value of the type that goes left.

        For values of this type. NaN at leaves, and where a node tests for categories.
        """
        if self.strict is None:
            return self.threshold
        with np.errstate(over="ignore"):
            near = self.threshold.astype(float_type)
        below = np.nextafter(near, np.array(-np.inf, dtype=float_type))
        below = np.where(near < self.threshold, near, below).astype(float)
        return np.where(self.strict, below, self.threshold)


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
class Subsample(Sampling):
    """Every tree drew rows at random, without replacement: it saw each once or not at all.

    Attributes
    ----------
    n_draws : int or None
        Rows per tree, where the release says so.
    tree_seeds, forest_seed, rule, columns_drawn, columns_replaced, rows_between, hidden
        As of :class:`Bootstrap`.
    """

    n_draws: int | None = None
    tree_seeds: tuple[int | None, ...] = ()
    forest_seed: int | None = None
    rule: str = ""
    columns_drawn: int | None = None
    columns_replaced: bool = False
    rows_between: tuple[int, int] | None = None
    hidden: str = ""
    kind: ClassVar[str] = "subsample"


@dataclass(frozen=True)
class UnknownSampling(Sampling):
    """The release does not say how rows were drawn."""

    why: str = ""
    kind: ClassVar[str] = "unknown"


@dataclass(frozen=True)
class Ensemble:
    """How the outputs of trees become a prediction, where they are added up.

    Attributes
    ----------
    objective : str
        The loss that was minimised, as the library calls it.
    base_scores : tuple of float
        What each output is before the first tree, in the scale in which trees add to it.
    learning_rate : float or None
        By which each tree's values were multiplied, where the release says so.

    Raises
    ------
    BadModel
        On numbers that are not finite, on no output, or on too many.
    """

    objective: str
    base_scores: tuple[float, ...]
    learning_rate: float | None = None

    def __post_init__(self) -> None:
        at_most(MOST_CLASSES, len(self.base_scores), "outputs")
        if not self.base_scores:
            raise BadModel("an ensemble without outputs")
        rate = () if self.learning_rate is None else (self.learning_rate,)
        for number in (*self.base_scores, *rate):
            if not abs(number) <= MOST_REAL:
                raise BadModel(f"an ensemble with the number {number!r:.40}")


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
    borders : mapping of str to tuple of float
        Of columns of numbers, the borders between values of the training rows that the file holds,
        ascending, whether a tree tests them or not.
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
    ensemble : Ensemble or None
        How the outputs of the trees are added up; None for a forest.

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
    n_rows: int | None
    noise: CountNoise | LabelNoise | None = None
    not_covered: str | None = None
    maybe_missing: frozenset[str] = frozenset()
    one_hot: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    borders: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    inputs: Inputs | None = None
    float_type: str = "float64"
    thresholds_are: ThresholdsAre = "unknown"
    origin: str = ""
    notes: tuple[str, ...] = ()
    leftovers: tuple[Leftover, ...] = ()
    of_file: bool = False
    ensemble: Ensemble | None = None

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
        self._check_borders()
        noisy = isinstance(self.noise, CountNoise) and not self.noise.whole
        units = set()
        for t, tree in enumerate(self.trees):
            if tree.feature.max(initial=LEAF) >= len(self.feature_names):
                raise BadModel(
                    f"tree {t} tests column {tree.feature.max()}, "
                    f"the model has {len(self.feature_names)}"
                )
            if self.ensemble is not None and (tree.output or 0) >= len(self.ensemble.base_scores):
                raise BadModel(
                    f"tree {t} adds to output {tree.output}, the model has "
                    f"{len(self.ensemble.base_scores)}"
                )
            for entry in tree.statistics:
                self._check_statistic(entry, f"tree {t}", noisy)
            counted = tree.statistics.get(*COUNTS, per_class=True)
            units |= set() if counted is None else {counted.quantity}
            if counted is not None and counted.quantity == LABELS:
                several = isinstance(self.noise, LabelNoise) and self.noise.rule == "present"
                _check_labels(tree, f"tree {t}", several)
        if len(units) > 1:
            raise BadModel(f"trees count in {len(units)} units: {sorted(q.name for q in units)}")

    def _check_borders(self) -> None:
        if strange := set(self.borders) - set(self.feature_names):
            raise BadModel(f"borders name {min(strange)!r:.80}: no such column")
        at_most(MOST_COUNTS, sum(map(len, self.borders.values())), "borders in all columns")
        for column, cuts in self.borders.items():
            own = np.asarray(cuts, dtype=float)
            if not (np.isfinite(own).all() and (np.diff(own) > 0).all()):
                raise BadModel(f"borders of column {column!r:.80}: not ascending, or not finite")

    def _check_statistic(self, entry: NodeStatistic, where: str, noisy: bool) -> None:
        if entry.per_class and entry.values.shape[1] != len(self.classes):
            raise BadModel(
                f"{where} {'counts' if entry.called == 'counts' else f'gives {entry.called} of'} "
                f"{entry.values.shape[1]} classes, the model has {len(self.classes)}"
            )
        try:
            entry.check_whole(noisy=noisy)
        except BadModel as error:
            raise BadModel(f"{where}, {error}") from error

    @cached_property
    def counts_are(self) -> CountsAre:
        """What trees count by class: ``"none"`` if nothing, or they do not say what.

        Rows of the training set, draws of a bootstrap, sums of sample weights, or labels: 1 for
        a class that a leaf names.
        """
        for tree in self.trees:
            if (entry := tree.statistics.get(*COUNTS, per_class=True)) is not None:
                return entry.quantity.name  # type: ignore[return-value]
        return "none"

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

    def check_ordered(self) -> None:
        """Refuse tests for categories, which no cut through an order stands for.

        Raises
        ------
        NotCovered
            Naming the tree and the column.
        """
        for t, tree in enumerate(self.trees):
            if tree.categories is not None and tree.categories.node.size:
                column = self.feature_names[tree.feature[tree.categories.node[0]]]
                raise NotCovered(
                    f"tree {t} tests whether {column!r} is one of several categories: "
                    "such tests are not covered yet"
                )

    def class_numbers(self, labels: Iterable[Any]) -> IntArray:
        """Position of each label in :attr:`classes`; -1 for one that the model does not know."""
        return class_numbers(self.classes, labels)

    @cached_property
    def thresholds(self) -> tuple[FloatArray, ...]:
        """The distinct thresholds of each column, ascending; empty for an unused column."""
        feature = np.concatenate([np.zeros(0, int), *(t.feature[~t.is_leaf] for t in self.trees)])
        cuts = [t.cuts(self.float_type)[~t.is_leaf] for t in self.trees]
        threshold = np.concatenate([np.zeros(0), *cuts])
        feature, threshold = (a[~np.isnan(threshold)] for a in (feature, threshold))
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
