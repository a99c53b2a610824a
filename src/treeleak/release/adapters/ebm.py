"""The adapter of explainable boosting machines (interpret-core), whose terms count all rows.

What their files hold, found out from the sources of 0.7 and checked against the library's bins:

- ``bin_weights_``: for each term, the rows in each bin of its column, or in each field of a grid
  of several columns: of all rows, whatever each bag left out. A row counts by its weight.
- ``bins_``: for each column, its bins in terms of one column, of two, and so on; the last ones
  serve all terms beyond. Bin 0 is of missing values, the last of what cannot be read. Between
  them, numbers lie in the bin behind all cuts that are not above them, in double precision;
  categories have the numbers of their bins, from 1.
- A cut is the middle of two neighbouring values of its column, unless ``feature_types`` says
  otherwise; with fewer values than bins there is one between each two.
- ``histogram_weights_`` counts the rows once more, between evenly spaced edges.

A term becomes a tree that halves its bins until it comes to one, or to a box without rows. What
cannot be read is taken to be missing. The scores of terms are means over bags of early-stopped
boosting, of rows that no file names: they are not covered, and so rows are rebuilt without labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from treeleak.core.arrays import FloatArray
from treeleak.core.errors import BadInput, BadModel, NotCovered
from treeleak.core.message import static_message
from treeleak.release.adapters.boosted import BY_WEIGHT, column_names
from treeleak.release.adapters.sklearn import class_labels
from treeleak.release.bounds import MOST_NODES, MOST_REAL, at_most
from treeleak.release.growing import GrowingTree
from treeleak.release.registry import adapter
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows
from treeleak.release.statistics import ROWS, Statistics
from treeleak.release.stored import StoredObject
from treeleak.release.tree import Tree

__all__: list[str] = []

NOISY = static_message(
    "the counts of a differentially private explainable boosting machine carry noise, and have no "
    "class",
    "ebm_noisy",
)
EMPTY = static_message(
    "the file counts no rows: bin_weights are empty, or not there (to_json, detail='minimal')",
    "ebm_empty",
)
WEIGHTED = static_message(
    "rows had weights, or models were merged: bin_weights_ holds fractions, not numbers of rows",
    "ebm_weighted",
)
UNREAD = static_message(
    "Values that the model could not read are taken to be missing.", "ebm_unread"
)
AS_TREES = static_message(
    "Each term of the model is taken as a tree, and each of its bins as a leaf.", "ebm_as_trees"
)
_CUT_AT_MIDDLES = {"auto", "continuous", "quantile", "nominal", "ordinal"}
_KINDS = "ExplainableBoostingClassifier", "ExplainableBoostingRegressor"

Axis = tuple[int, FloatArray]
"""A column, and the greatest value in each of its bins but the last."""
Term = tuple[list[Axis], FloatArray]
"""Columns, and the rows in each field of their grid."""


@adapter("interpret", *(f"DP{kind}" for kind in _KINDS))
def _private(stored: StoredObject) -> Release:  # noqa: ARG001
    raise NotCovered(NOISY)


@adapter("interpret", *_KINDS)
def _machine(stored: StoredObject) -> Release:
    if stored.get("bins_") is None:
        raise BadInput(f"this {stored.name} is not fitted")
    if stored.get("bin_weights_") is None:
        raise NotCovered(EMPTY)
    columns = [_column(j, levels) for j, levels in enumerate(stored.get("bins_"))]
    names, notes = column_names(stored.get("feature_names_in_"), len(columns))
    features, weights = stored.get("term_features_"), stored.get("bin_weights_")
    terms = [
        _term(t, [int(j) for j in of_term], counts, columns)
        for t, (of_term, counts) in enumerate(zip(features, weights, strict=True))
    ]
    middles = all(
        kind is None or (isinstance(kind, str) and kind in _CUT_AT_MIDDLES)
        for kind in stored.get("feature_types") or ()
    )
    alone = {axes[0][0]: axes[0][1] for axes, _ in terms if len(axes) == 1}
    terms += _histograms(stored, alone)
    at_most(MOST_NODES, 2 * sum(counts.size for _, counts in terms), "bins in all terms")
    if not any(counts.any() for _, counts in terms):
        raise NotCovered(EMPTY)
    if any((counts != np.round(counts)).any() for _, counts in terms):
        raise NotCovered(WEIGHTED)
    if weighted := _may_be_weighted(stored, terms):
        notes = (*notes, BY_WEIGHT)
    ends = {(j, k) for axes, n in terms for d, (j, _) in enumerate(axes) for k in (0, -1)
            if n.take(k, d).any()}  # fmt: skip
    if any(k for _, k in ends):
        notes = (*notes, UNREAD)
    gaps = frozenset(j for j, _ in ends)
    trees = tuple(_tree(axes, counts, gaps) for axes, counts in terms)
    totals = trees[0].totals if trees else None
    levels = {names[j]: texts for j, (_, texts) in enumerate(columns) if texts}
    borders = {names[j]: stored.get("bins_")[j][0] for j in alone if middles}
    return Release(
        trees=trees,
        feature_names=names,
        classes=class_labels(stored) if stored.name.endswith("Classifier") else (),
        sampling=AllRows(),
        n_rows=None if totals is None else int(totals[0]),
        maybe_missing=frozenset(names[j] for j in gaps),
        levels=levels,
        borders={c: tuple(cuts.tolist()) for c, cuts in borders.items() if c not in levels},
        ranges=dict(_ranges(stored, names)),
        thresholds_are="neighbours" if middles else "unknown",
        origin=f"interpret, {stored.name}",
        adds_weights=weighted,
        notes=(AS_TREES, *notes),
    )


def _numbers(value: Any, where: str) -> FloatArray:
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iuf":
        raise BadModel(f"{where}: not an array of numbers")
    if not (np.abs(value) <= MOST_REAL).all():
        raise BadModel(f"{where}: a number that is not finite, or beyond {MOST_REAL:g}")
    return value.astype(np.float64)


def _column(j: int, bins: Sequence[Any]) -> tuple[list[Any], tuple[str, ...]]:
    """Read the cuts of a column in terms of one column, of two, and so on, and its categories."""
    where = f"bins_ of column {j}"
    if not bins or not isinstance(bins[0], Mapping):
        levels = [_numbers(cuts, where) for cuts in bins]
        if any(cuts.ndim != 1 or (np.diff(cuts) <= 0).any() for cuts in levels):
            raise BadModel(f"{where}: cuts that do not ascend")
        return [np.asarray(np.nextafter(cuts, -np.inf)) for cuts in levels], ()
    # Each bin is to hold neighbours, in the coarsest of the lists first.
    texts = sorted(bins[0], key=lambda text: [level[text] for level in reversed(bins)])
    out = []
    for level in bins:
        number = np.array([level[text] for text in texts])
        step = np.diff(number, prepend=0)
        named = set(level) == set(texts) and all(isinstance(text, str) for text in texts)
        if not named or (texts and number.dtype.kind not in "iu"):
            raise BadModel(f"{where}: categories that are no texts, or not the same in each list")
        if not np.isin(step, (0, 1)).all() or step[:1].any() != bool(texts):
            raise BadModel(f"{where}: bins that are not numbered from 1, or cross each other")
        out.append(np.flatnonzero(step[1:]) + 0.5)
    return out, tuple(texts)


def _term(t: int, features: list[int], counts: Any, columns: Sequence[Any]) -> Term:
    if not features or not all(0 <= j < len(columns) and columns[j][0] for j in features):
        raise BadModel(f"term_features_ of term {t}: no column, or one without bins")
    axes: list[Axis] = []
    for j in features:
        levels, _ = columns[j]
        axes.append((j, levels[min(len(features), len(levels)) - 1]))
    return axes, _counts(f"bin_weights_ of term {t}", axes, counts)


def _counts(where: str, axes: Sequence[Axis], counts: Any) -> FloatArray:
    checked = _numbers(counts, where)
    # A column without any category has no bin beside those of missing and unread values.
    fits = checked.ndim == len(axes) and all(
        n == len(cuts) + 3 or (n == 2 and not len(cuts))
        for (_, cuts), n in zip(axes, checked.shape, strict=True)
    )
    if not fits or (checked < 0).any():
        raise BadModel(f"{where}: not a number of rows for each of its bins")
    return checked


def _histograms(stored: StoredObject, alone: Mapping[int, FloatArray]) -> Iterator[Term]:
    """List histograms of columns of more values than bins, or of no term of their own."""
    edges, weights = stored.get("histogram_edges_"), stored.get("histogram_weights_")
    n_values, kinds = stored.get("unique_val_counts_"), stored.get("feature_types_in_")
    if edges is None or weights is None or n_values is None:
        return
    for j, (ends, counts) in enumerate(zip(edges, weights, strict=True)):
        n_bins = len(alone[j]) + 1 if j in alone else 0
        if kinds[j] == "continuous" and ends is not None and int(n_values[j]) > n_bins:
            axis = j, np.nextafter(_numbers(ends, f"histogram_edges_ of column {j}"), -np.inf)[1:-1]
            yield [axis], _counts(f"histogram_weights_ of column {j}", [axis], counts)


def _ranges(stored: StoredObject, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    ends = stored.get("feature_bounds_")
    if isinstance(ends, np.ndarray) and ends.dtype.kind == "f" and ends.shape == (len(names), 2):
        for name, (low, high) in zip(names, ends.tolist(), strict=True):
            if low <= high and max(-low, high) <= MOST_REAL:
                yield name, (low, high)


def _may_be_weighted(stored: StoredObject, terms: Sequence[Term]) -> bool:
    """Say whether rows may have weights, beside the same for all.

    Bags leave different rows out, as many each: with weights, those left would not weigh the same.
    """
    bags = stored.get("bag_weights_")
    if not isinstance(bags, np.ndarray) or bags.size < 2 or not terms:
        return True
    counts = np.concatenate([counts.ravel() for _, counts in terms]).astype(np.int64)
    first = bags.flat[0]
    same = bool((bags == first).all()) and first < terms[0][1].sum()
    return not same or bool(np.gcd.reduce(counts) > 1)


def _tree(axes: Sequence[Axis], counts: FloatArray, gaps: frozenset[int]) -> Tree:
    """Lay out a term; ``gaps`` are columns in which values are missing."""
    cuts = []
    for d, (j, of_column) in enumerate(axes):
        # What is missing goes right everywhere, and so does what is not read.
        known = counts.take(range(1, counts.shape[d] - 1), d)
        odd = counts.take([0], d) + counts.take([-1], d)
        counts = np.concatenate([known, odd], d) if j in gaps else known
        cuts.append([*of_column, np.inf][: counts.shape[d] - 1])
    tree, totals = GrowingTree(), []
    stack = [(tuple((0, n) for n in counts.shape), -1, 0)]
    while stack:
        box, parent, side = stack.pop()
        rows = float(counts[tuple(slice(*ends) for ends in box)].sum())
        d = int(np.argmax([last - first for first, last in box]))
        first, last = box[d]
        totals.append(rows)
        if not rows or last - first == 1:
            tree.add(parent=parent, side=side)
            continue
        middle = (first + last) // 2
        node = tree.add(axes[d][0], float(cuts[d][middle - 1]), parent, side)
        for k, half in enumerate(((first, middle), (middle, last))):
            stack.append(((*box[:d], half, *box[d + 1 :]), node, k))
    return tree.tree(Statistics.counting(ROWS, totals=np.array(totals)))
