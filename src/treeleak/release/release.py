"""The release: what an adversary sees of a tree model, whatever library made it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import BadModel, NotCovered
from treeleak.core.message import MessageTemplate, static_message
from treeleak.core.private import dataclass
from treeleak.release.bounds import (
    MOST_CLASSES,
    MOST_COLUMNS,
    MOST_COUNTS,
    MOST_NODES,
    MOST_TREES,
    at_most,
)
from treeleak.release.ensemble import Ensemble
from treeleak.release.noise.laws import CountNoise, LabelNoise
from treeleak.release.pipeline.inputs import Inputs
from treeleak.release.row_facts import OutOfBag, RowFacts
from treeleak.release.sampling import Sampling
from treeleak.release.statistics import COUNTS, LABELS, Statistics
from treeleak.release.stored import Leftover, StoredObject
from treeleak.release.tree import LEAF, Tree

if TYPE_CHECKING:
    import pandas as pd

NO_COLUMNS = static_message(
    "the model tests no column, and its file names none: what a row could be is not known",
    "release_no_columns",
)


SETS = MessageTemplate(
    "tests_for_categories",
    "the tree tests whether {column:column} is one of several categories: such tests are not "
    "covered here",
)
CountsAre = Literal["rows", "draws", "weights", "labels", "none"]
ThresholdsAre = Literal["midpoints", "neighbours", "values", "unknown"]


MAY_BE_DRAWS = "may_be_draws"
"""Code of the note on counts of a lone tree that a forest may have drawn."""
HASH, ANOTHER = "hash ", "another"
"""How :attr:`Release.levels` call a category that is known by CityHash64 of its text, before the
lower 32 bits; and all others."""


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
    left_out : str or None
        What was taken away from the trees, since it says nothing sure, and why; None if nothing.
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
    ranges : mapping of str to tuple of two float
        Of columns of numbers, the least and the greatest value of all training rows, where the file
        holds both.
    inputs : Inputs or None
        The columns that went into the transformers before the model, where the file holds some.
    float_type : str
        numpy type in which the model compares a value with a threshold.
    thresholds_are : {"midpoints", "neighbours", "values", "unknown"}
        Whether every threshold lies in the middle of the two values that it parts: the nearest ones
        of the rows that the node saw, or of all training rows; or right below a value of a training
        row.
    origin : str
        The library, its version and the class that made the model.
    notes : tuple of str
        What the reader of an audit should know of how the release was read.
    leftovers : tuple of Leftover
        What its file holds beside it.
    ensemble : Ensemble or None
        How the outputs of the trees are added up; None for a forest.
    sources : tuple of StoredObject
        The objects of the model's file that were read as these trees. Never in a document.
    parts : tuple of Part
        The models of one table whose trees, one after the other, these are; empty for one model.
    out_of_bag : tuple of OutOfBag
        Predictions for each training row by the trees that did not draw it, where the file holds
        them. Never in a document.
    draws : int array, shape (n_trees, n_rows), or None
        How often each tree drew each row, where the file itself holds that. Never in a document.
    row_facts : RowFacts or None
        What the file says of each training row by its number. Never in a document.
    adds_weights : bool
        Whether a row that weighs 2 may look like two rows: the file counts weights, or draws.
    n_targets : int
        Where it is not 1, rows follow from counts alone: what leaves hold of targets is not read.

    Raises
    ------
    BadModel
        If there is more of something than :mod:`treeleak.release.bounds` allows;
        if a column, a class or the text of a code appears twice, texts belong to no column, a tree
        does not fit the columns or the classes, what should count rows or draws is no whole number
        of them, or a leaf that should name a class names none or several.
    """

    _shown_fields: ClassVar = ("counts_are", "n_rows", "trees", "feature_names", "classes")

    trees: tuple[Tree, ...]
    feature_names: tuple[str, ...]
    classes: tuple[Any, ...]
    sampling: Sampling
    n_rows: int | None
    noise: CountNoise | LabelNoise | None = None
    not_covered: str | None = None
    left_out: str | None = None
    maybe_missing: frozenset[str] = frozenset()
    one_hot: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    borders: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    inputs: Inputs | None = None
    float_type: str = "float64"
    thresholds_are: ThresholdsAre = "unknown"
    origin: str = ""
    notes: tuple[str, ...] = ()
    leftovers: tuple[Leftover, ...] = ()
    ensemble: Ensemble | None = None
    sources: tuple[StoredObject, ...] = ()
    parts: tuple[Part, ...] = ()
    out_of_bag: tuple[OutOfBag, ...] = ()
    draws: NDArray[Any] | None = None
    row_facts: RowFacts | None = None
    adds_weights: bool = False
    n_targets: int = 1

    def __post_init__(self) -> None:
        n_nodes = sum(tree.n_nodes for tree in self.trees)
        at_most(MOST_TREES, len(self.trees), "trees")
        at_most(MOST_COLUMNS, self.n_features, "columns")
        at_most(MOST_CLASSES, len(self.classes), "classes")
        at_most(MOST_NODES, n_nodes, "nodes in all trees")
        at_most(MOST_COUNTS, n_nodes * self.n_classes, "counts in all trees")
        if self.draws is not None and len(self.draws) != len(self.trees):
            raise BadModel(f"draws of {len(self.draws)} trees, the model has {len(self.trees)}")
        if len(set(self.feature_names)) != len(self.feature_names):
            raise BadModel("two columns of the model have one name")
        if len(set(self.classes)) != len(self.classes):
            raise BadModel("two classes of the model have one label")
        for name in ("levels", "borders", "ranges"):
            if strange := set(getattr(self, name)) - set(self.feature_names):
                raise BadModel(f"{name} name {min(strange)!r:.80}: no such column")
        for column, texts in self.levels.items():
            if not texts or len(set(texts)) != len(texts):
                raise BadModel(f"levels of column {column!r:.80}: none, or one appears twice")
        self._check_borders()
        if self.row_facts is not None:
            self.row_facts.check(self.trees)
        fitting = None if self.ensemble is None else self.ensemble.fitting
        if fitting is not None:
            if len(fitting.class_weights) not in (0, len(self.classes)):
                raise BadModel(
                    f"leaves fitted with weights of {len(fitting.class_weights)} classes"
                )
            if 0 < len(fitting.dropped) < len(self.trees):
                raise BadModel(f"trees dropped before {len(fitting.dropped)} trees")
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
                where = f"tree {t}"
                if entry.per_class and entry.values.shape[1] != len(self.classes):
                    says = "counts" if entry.called == "counts" else f"gives {entry.called} of"
                    raise BadModel(
                        f"{where} {says} {entry.values.shape[1]} classes, the model has "
                        f"{len(self.classes)}"
                    )
                try:
                    entry.check_whole(noisy=noisy)
                except BadModel as error:
                    raise BadModel(f"{where}, {error}") from error
            counted = tree.statistics.get(*COUNTS, per_class=True)
            units |= set() if counted is None else {counted.quantity}
            if counted is not None and counted.quantity == LABELS:
                several = isinstance(self.noise, LabelNoise) and self.noise.rule == "present"
                _check_labels(tree, f"tree {t}", several)
        if len(units) > 1:
            raise BadModel(f"trees count in {len(units)} units: {sorted(q.name for q in units)}")

    def _check_borders(self) -> None:
        for column, (low, high) in self.ranges.items():
            if not -np.inf < low <= high < np.inf:
                raise BadModel(f"range of column {column!r:.80}: not two numbers, the least first")
        at_most(MOST_COUNTS, sum(map(len, self.borders.values())), "borders in all columns")
        for column, cuts in self.borders.items():
            values = np.asarray(cuts, dtype=float)
            if not (np.isfinite(values).all() and (values[1:] > values[:-1]).all()):
                raise BadModel(f"borders of column {column!r:.80}: not ascending, or not finite")

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
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.feature_names)

    @property
    def n_classes(self) -> int:
        """Number of classes; 1 where the model has none."""
        return max(len(self.classes), 1)

    def check_no_categories(self) -> None:
        """Refuse tests for categories, which no cut through an order stands for.

        Raises
        ------
        NotCovered
            Naming the column.
        """
        for column, sets in zip(self.feature_names, self.category_sets, strict=True):
            if sets:
                raise NotCovered(SETS(column=column))

    def class_numbers(self, labels: Iterable[Any]) -> IntArray:
        """Position of each label in :attr:`classes`; -1 for one that the model does not know."""
        return class_numbers(self.classes, labels)

    def without_classes(self) -> Release:
        """Forget the classes, and what nodes hold of each."""
        trees = []
        for tree in self.trees:
            statistics = tuple(entry for entry in tree.statistics if not entry.per_class)
            trees.append(tree.with_statistics(Statistics(statistics)))
        return replace(self, trees=tuple(trees), classes=())

    def leaves(self, X: pd.DataFrame | NDArray[Any]) -> IntArray:
        """Push rows through the trees.

        Parameters
        ----------
        X : DataFrame or array, shape (n_rows, n_columns)
            In the model's columns; a table may have others too.

        Returns
        -------
        int array, shape (n_rows, n_trees)
            The node number of each row's leaf in each tree.
        """
        columns: Any = X[list(self.feature_names)] if hasattr(X, "columns") else X
        # What is too large for the type in which the model compares is infinite to it, too.
        with np.errstate(over="ignore"):
            rows = np.ascontiguousarray(columns, dtype=self.float_type)
        found = np.empty((len(rows), len(self.trees)), dtype=np.int64)
        for t, tree in enumerate(self.trees):
            found[:, t] = tree.apply(rows)
        return found

    @cached_property
    def category_sets(self) -> tuple[tuple[IntArray, ...], ...]:
        """The distinct sets of categories for which trees test each column."""
        found: list[dict[bytes, IntArray]] = [{} for _ in self.feature_names]
        for tree in self.trees:
            for node, members in () if tree.categories is None else tree.categories.by_node.items():
                found[tree.feature[node]][members.tobytes()] = members
        return tuple(tuple(sets.values()) for sets in found)

    @cached_property
    def tested(self) -> frozenset[str]:
        """Columns that trees test."""
        columns = np.unique(np.concatenate([t.feature[~t.is_leaf] for t in self.trees]))
        return frozenset(self.feature_names[c] for c in columns)

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


@dataclass(frozen=True, eq=False)
class Part:
    """One of several models of the same table."""

    place: str
    """Attributes and items on the way to it from the model as a whole."""
    release: Release
    """The model by itself, in the columns and classes of the whole."""
    rows: IntArray | None = None
    """Which rows of the table it was fitted to, in this order; None: all of them."""
    fold: tuple[int, int] | None = None
    """f and k, where it was fitted to all rows but those of fold f of k, which scikit-learn's
    ``StratifiedKFold`` makes from the labels in order."""


class OtherClasses(str):
    """The class of all labels but those that a model tells from the rest."""

    __slots__ = ()


def class_numbers(classes: Sequence[Any], labels: Iterable[Any]) -> IntArray:
    """Position of each label among the classes; -1 for one that is none of them."""
    number = {_canonical(c): i for i, c in enumerate(classes)}
    rest = next((i for i, c in enumerate(classes) if isinstance(c, OtherClasses)), -1)
    return np.array([number.get(_canonical(v), rest) for v in labels], dtype=np.int64)


def _check_labels(tree: Tree, where: str, several: bool) -> None:
    if tree.counts is None:
        return
    named = tree.counts[tree.leaves]
    bad = ((named != 0) & (named != 1)).any(axis=1) | (named.sum(axis=1) < 1)
    problem = "no class"
    if not several:
        bad |= named.sum(axis=1) > 1
        problem = "not exactly one class"
    if bad.any():
        leaf = tree.leaves[bad.argmax()]
        raise BadModel(f"{where}, node {leaf}: counts name {problem}")


def _canonical(label: Any) -> str:
    """1, 1.0, True and "1" are one label: files change the type on the way."""
    plain = label.item() if isinstance(label, np.generic) else label
    if isinstance(plain, bool):
        return str(int(plain))
    try:
        return f"{float(plain):.17g}"
    except (TypeError, ValueError):
        return {"true": "1", "false": "0"}.get(str(plain).lower(), str(plain))
