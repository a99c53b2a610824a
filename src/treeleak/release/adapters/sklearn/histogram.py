"""The adapters of scikit-learn's histogram gradient boosting.

What its files hold, found out from the sources and checked against the library's own answers:

- Every node counts the rows that reach it (``count``), whatever their weights. Every row that the
  model was fitted to is in every tree; with early stopping, a part of the rows is held back
  before (by ``_random_seed``), and counts are of the others.
- A row goes left where its value, in double precision, is at most ``num_threshold``, which is the
  middle of two neighbouring values of the whole column: not of the rows of the node. A missing
  value goes where ``missing_go_to_left`` says; where the column had none, to the child with more
  rows.
- A test for categories has a bit for each that goes left. What was never seen goes the way of
  missing values. Since 1.4 categories are numbered before, by an encoder inside the model, and
  columns of categories stand before the others.
- ``value``: of leaves, what they add to the prediction; of inner nodes, what they would, not yet
  multiplied by the learning rate, but for roots, which hold none. ``gain``: of inner nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.errors import BadModel, NotCovered
from treeleak.core.message import static_message
from treeleak.core.private import dataclass
from treeleak.release.adapters.sklearn.attributes import (
    class_labels,
    feature_names,
    fitted,
    held_back,
    is_nonzero,
    origin_of,
)
from treeleak.release.adapters.sklearn.boosting import HELD_BACK
from treeleak.release.adapters.sklearn.ensembles import KINDS
from treeleak.release.adapters.sklearn.nodes import (
    check_children,
    node_records,
    seen_missing,
    with_statistic,
)
from treeleak.release.bounds import MOST_CATEGORY, MOST_REAL
from treeleak.release.checked_json import located
from treeleak.release.ensemble import Ensemble, Fitting, Loss
from treeleak.release.registry import adapter
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows
from treeleak.release.statistics import GAIN, ROWS, STEP, VALUE
from treeleak.release.stored import StoredObject
from treeleak.release.tree import LEAF, CategorySets, Tree

_KINDS = {
    **dict.fromkeys(
        ("count", "feature_idx", "left", "right", "is_leaf", "missing_go_to_left"), "iub"
    ),
    **dict.fromkeys(("num_threshold", "value", "gain"), "f"),
}
_BITS = 256


@dataclass(frozen=True, eq=False)
class _Columns:
    """The columns of a model, as its trees number them."""

    place: IntArray
    """Shape (n_columns,). Column of the model's input behind each column of the trees."""
    categories: dict[int, IntArray] = field(default_factory=dict)
    """By column of the trees: the values, or for want of whole numbers the codes, behind each
    bit."""
    levels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Texts behind codes."""
    encoded: bool = False
    """Whether categories were numbered by an encoder; else a bit stands for the value itself."""


@adapter("sklearn", *("HistGradientBoosting" + kind for kind in KINDS))
def _histogram_boosting(stored: StoredObject) -> Release:
    stages = fitted(stored, "_predictors")
    names, notes = feature_names(stored)
    base = np.ravel(np.asarray(stored.get("_baseline_prediction"), dtype=float))
    columns = _columns(stored, names)
    predictors = [(k, predictor) for stage in stages for k, predictor in enumerate(stage)]
    rate, n_outputs = float(stored.get("learning_rate", 1.0)), max(map(len, stages))
    trees = [
        _tree(t, predictor, columns, k if n_outputs > 1 else None)
        for t, (k, predictor) in enumerate(predictors)
    ]
    if not trees:
        raise BadModel("a model without trees")
    sampling, classed = AllRows(), stored.name.endswith("Classifier")
    if stored.get("do_early_stopping_") and stored.get("_use_validation_data", True):
        notes = (*notes, HELD_BACK)
        sampling = AllRows(held_back(stored, stored.get("_random_seed"), classed))
    ensemble = None
    if base.size == n_outputs and (np.abs(base) <= MOST_REAL).all():
        loss = str(stored.get("loss"))[:40]
        ensemble = Ensemble(loss, tuple(base.tolist()), rate, _fitting(stored, loss, n_outputs))
    counted = [(tree, tree.totals) for tree in trees if tree.totals is not None]
    missing = {c for tree, rows in counted for c in seen_missing(tree, rows)}
    held = {int(rows[0]) for _, rows in counted}
    return Release(
        trees=tuple(trees),
        feature_names=names,
        classes=class_labels(stored) if classed else (),
        sampling=sampling,
        n_rows=held.pop() if len(held) == 1 else None,
        maybe_missing=frozenset(names[c] for c in missing),
        levels=columns.levels,
        borders=_borders(stored, columns, names),
        origin=origin_of(stored),
        notes=notes,
        ensemble=ensemble,
        sources=tuple(predictor for _, predictor in predictors),
    )


def _fitting(stored: StoredObject, loss: str, n_outputs: int) -> Fitting | None:
    """Say how leaves were fitted: to derivatives in single precision, summed up in double."""
    l2 = stored.get("l2_regularization", 0.0)
    known = ("log_loss", "binary_crossentropy", "categorical_crossentropy")
    squared = loss in ("squared_error", "least_squares")
    if not (loss in known or squared):
        return None
    # What bends leaves, or gives rows weights, of which no sum shows.
    if any(is_nonzero(stored.get(k)) for k in ("class_weight", "monotonic_cst", "_fitted_with_sw")):
        return None
    if not isinstance(l2, (int, float)) or not 0 <= l2 <= MOST_REAL:
        return None
    if n_outputs == 1:
        kind: Loss = "squared" if squared else "logistic"
        return Fitting(kind, float(l2), derivatives="float32")
    # Some sums over rows that are all but certain were seen to be off by three times as much.
    return Fitting("softmax", float(l2), derivatives="float32", rough=5.0)


def _columns(stored: StoredObject, names: tuple[str, ...]) -> _Columns:
    """Find where the model's encoder put the columns, and what it numbered."""
    n = len(names)
    flags = stored.get("is_categorical_")
    if flags is None:
        return _Columns(np.arange(n))
    flags = np.asarray(flags)
    if flags.shape != (n,) or flags.dtype.kind != "b":
        raise BadModel("the model does not say for each column whether it holds categories")
    categorical, others = np.flatnonzero(flags), np.flatnonzero(~flags)
    encoder = _encoder(stored.get("_preprocessor"))
    if encoder is None:
        if len(bins := _bins(stored)) != n:
            raise BadModel("the model does not list the categories of its columns")
        return _Columns(np.arange(n), {c: _codes(bins[c]) for c in categorical.tolist()})
    listed = encoder.get("categories_")
    if not isinstance(listed, (list, tuple)) or len(listed) != len(categorical):
        raise BadModel("the model's encoder does not list the categories of its columns")
    categories: dict[int, IntArray] = {}
    levels: dict[str, tuple[str, ...]] = {}
    for k, (column, values) in enumerate(zip(categorical.tolist(), listed, strict=True)):
        known = [v for v in np.ravel(values).tolist() if v is not None and v == v]
        whole = _codes(np.array(known)) if _are_codes(known) else None
        if whole is None:
            whole, levels[names[column]] = np.arange(len(known)), tuple(map(str, known))
        categories[k] = whole
    return _Columns(np.concatenate([categorical, others]), categories, levels, encoded=True)


def _encoder(preprocessor: Any) -> StoredObject | None:
    if not isinstance(preprocessor, StoredObject):
        return None
    for name, step, *_ in preprocessor.get("transformers_", ()):
        if name == "encoder" and isinstance(step, StoredObject):
            return step
    raise BadModel("the model's encoder is missing")


def _bins(stored: StoredObject) -> Sequence[Any]:
    """List the thresholds between bins of each column, or its categories; empty if not there."""
    mapper = stored.get("_bin_mapper")
    bins = mapper.get("bin_thresholds_") if isinstance(mapper, StoredObject) else None
    return bins if isinstance(bins, (list, tuple)) else ()


def _borders(
    stored: StoredObject, columns: _Columns, names: tuple[str, ...]
) -> dict[str, tuple[float, ...]]:
    """Read between which values of the rows the columns of numbers were cut into bins."""
    found, bins = {}, _bins(stored)
    if len(bins) != len(names):
        return {}
    for k, cuts in enumerate(bins):
        borders = np.asarray(cuts, dtype=float)
        if k in columns.categories or borders.ndim != 1 or not borders.size:
            continue
        if (np.abs(borders) <= MOST_REAL).all() and (np.diff(borders) > 0).all():
            found[names[columns.place[k]]] = tuple(borders.tolist())
    return found


def _are_codes(values: list[Any]) -> bool:
    numbers = all(isinstance(v, (int, float)) for v in values)
    return numbers and all(v == int(v) and 0 <= v < MOST_CATEGORY for v in values)


def _codes(values: Any) -> IntArray:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iuf" or not _are_codes(array.tolist()):
        raise NotCovered(static_message("categories that are not whole numbers from 0 on"))
    return array.astype(np.int64)


def _tree(t: int, predictor: Any, columns: _Columns, output: int | None) -> Tree:
    nodes = _checked(t, predictor)
    n = len(nodes)
    leaf = nodes["is_leaf"].astype(bool)
    categorical = np.zeros(n, dtype=bool)
    if "is_categorical" in (nodes.dtype.names or ()):
        categorical = nodes["is_categorical"].astype(bool) & ~leaf
    tested = nodes["feature_idx"].astype(np.int64)
    if ((tested < 0) | (tested >= len(columns.place)))[~leaf].any():
        raise BadModel(f"tree {t} tests a column beyond {len(columns.place)}")
    missing_left = nodes["missing_go_to_left"].astype(bool) & ~leaf
    sets = _sets(t, predictor, nodes, np.flatnonzero(categorical), missing_left, columns)
    threshold = np.where(leaf | categorical, np.nan, nodes["num_threshold"])
    if (bad := np.isneginf(threshold)).any():
        raise BadModel(f"tree {t}, node {bad.argmax()}: threshold -inf")
    with located(f"tree {t}: "):
        tree = Tree(
            feature=np.where(leaf, LEAF, columns.place[np.where(leaf, 0, tested)]),
            threshold=threshold,
            left=np.where(leaf, LEAF, nodes["left"].astype(np.int64)),
            right=np.where(leaf, LEAF, nodes["right"].astype(np.int64)),
            missing_left=missing_left,
            categories=sets,
            output=output,
        )
    count = nodes["count"].astype(float)
    if count.any():
        check_children(tree, count[:, None], f"tree {t}", "number of rows")
        tree = tree.with_counts(ROWS, totals=count)
    inner = ~leaf
    inner[0] = False
    tree = with_statistic(tree, VALUE, nodes["value"], leaf)
    if (nodes["value"][inner] != 0).any():
        tree = with_statistic(tree, STEP, nodes["value"], inner)
    gain = nodes["gain"]
    return with_statistic(tree, GAIN, gain, ~leaf) if (gain[~leaf] > 0).all() else tree


def _checked(t: int, predictor: Any) -> NDArray[Any]:
    nodes = node_records(t, predictor, _KINDS)
    if (bad := ~(np.abs(nodes["value"][nodes["is_leaf"] != 0]) <= MOST_REAL)).any():
        raise BadModel(f"tree {t}: leaf {bad.argmax()} adds no finite number")
    return nodes


def _sets(
    t: int,
    predictor: StoredObject,
    nodes: NDArray[Any],
    tests: IntArray,
    missing_left: BoolArray,
    columns: _Columns,
) -> CategorySets | None:
    """List the categories that go left at each node that tests for some."""
    if not len(tests):
        return None
    bits = predictor.get("raw_left_cat_bitsets")
    at = nodes["bitset_idx"][tests].astype(np.int64)
    sound = isinstance(bits, np.ndarray) and bits.ndim == 2 and bits.dtype == np.uint32
    if not sound or bits.shape[1] * 32 != _BITS or at.max(initial=0) >= len(bits):
        raise BadModel(f"tree {t}: no bits for its tests of categories")
    node, value = [], []
    for v, bitset in zip(tests.tolist(), bits[at], strict=True):
        known = columns.categories.get(int(nodes["feature_idx"][v]))
        if known is None:
            raise BadModel(f"tree {t}, node {v} tests for categories of a column without any")
        left = ((bitset[:, None] >> np.arange(32, dtype=np.uint32)) & 1).astype(bool).ravel()
        if columns.encoded:
            members = np.sort(known[left[: len(known)]])
        else:
            # What was never seen goes the way of missing values.
            seen = np.isin(np.arange(_BITS), known)
            members = np.flatnonzero(left | (missing_left[v] & ~seen))
        node += [v] * len(members)
        value += members.tolist()
    return CategorySets(np.array(node, dtype=np.int64), np.array(value, dtype=np.int64))
