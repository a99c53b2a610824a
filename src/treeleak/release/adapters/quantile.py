"""The adapters of quantile-forest's regressors: scikit-learn's forests, with the targets beside.

``forest_`` holds the targets of all training rows, ascending (``y_train``), and for every node of
every tree which of them lie there (``y_train_leaves``: places in that list, from 1; 0 stands for
none). ``sorter_`` says which row each target is of. By default a leaf lists one of its rows,
``max_samples_leaf=None`` lists each as often as it was drawn. ``sparse_pickle`` stores the same as
a sparse matrix.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from treeleak.core.arrays import FloatArray
from treeleak.core.errors import BadModel
from treeleak.core.message import MessageTemplate
from treeleak.release.adapters.sklearn.ensembles import forest
from treeleak.release.bounds import MOST_COUNTS, MOST_REAL, at_most
from treeleak.release.registry import adapter
from treeleak.release.release import Release
from treeleak.release.row_facts import NOT_TOLD, RowFacts
from treeleak.release.row_sets import numbered
from treeleak.release.statistics import DISTINCT, MEAN
from treeleak.release.stored import StoredObject

_ROUNDED = 1e-9
"""What rounding makes of a mean, of the largest target."""
LISTED = MessageTemplate(
    "quantile_rows_listed",
    "The file lists the targets of all {rows:people} in their order, and the row numbers in its "
    "leaves: {places:number} places of rows in trees.",
)


@adapter("quantile_forest", "RandomForestQuantileRegressor", "ExtraTreesQuantileRegressor")
def _quantile(stored: StoredObject) -> Release:
    release = forest(stored, "targets")
    release = replace(release, origin=f"quantile-forest, {stored.name}")
    inner = stored.get("forest_")
    if not isinstance(inner, StoredObject):
        raise BadModel(f"{stored.name}: no forest_ with the targets")
    targets, members = _parts(inner)
    n_rows = targets.shape[1]
    if release.not_covered or release.left_out or release.parts or len(targets) != 1:
        return release
    sorter = np.asarray(stored.get("sorter_"))
    fits = sorter.shape == (n_rows, 1) and sorter.dtype.kind in "iu"
    if not fits or not np.array_equal(np.sort(sorter[:, 0]), np.arange(n_rows)):
        return release
    if release.n_rows not in (None, n_rows):
        raise BadModel(f"targets of {n_rows} rows, and a model of {release.n_rows}")
    y = np.empty(n_rows)
    y[sorter[:, 0]] = targets[0]
    leaves = np.full((len(release.trees), n_rows), NOT_TOLD, dtype=np.int32)
    if members.shape[0] != len(release.trees) or members.min() < 0 or members.max() > n_rows:
        raise BadModel(f"{stored.name}: its leaves list rows that there are not")
    for t, tree in enumerate(release.trees):
        node, slot = np.nonzero(members[t, :, 0])
        if node.max(initial=0) >= tree.n_nodes:
            raise BadModel(f"tree {t} lists rows of node {node.max()}, of {tree.n_nodes}")
        row = sorter[members[t, node, 0, slot] - 1, 0]
        leaves[t, row] = node
        if (leaves[t, row] != node).any():
            raise BadModel(f"tree {t} lists a row in two leaves")
    note = LISTED(rows=n_rows, places=int((leaves != NOT_TOLD).sum()))
    # Of rows without weight, leaves may list some that their trees do not count.
    weights = stored.get("_sample_weight")
    weighed = weights is None or np.all(np.asarray(weights) > 0)
    if stored.get("monotonic_cst") is None and weighed:
        _check_means(release, leaves, y)
    return numbered(replace(release, n_rows=n_rows), RowFacts.of(leaves, y), note)


def _check_means(release: Release, leaves: NDArray[np.int32], y: FloatArray) -> None:
    """Refuse targets between which the mean, or median, of a leaf with these rows cannot lie."""
    off = _ROUNDED * np.abs(y).max()
    for t, (tree, leaf) in enumerate(zip(release.trees, leaves, strict=True)):
        mean, counted = (tree.statistics.get(kind) for kind in (MEAN, DISTINCT))
        if mean is None or counted is None:
            continue
        told = np.flatnonzero(leaf != NOT_TOLD)
        low, high = np.full(tree.n_nodes, np.inf), np.full(tree.n_nodes, -np.inf)
        np.minimum.at(low, leaf[told], y[told])
        np.maximum.at(high, leaf[told], y[told])
        # Of leaves that list some of their rows only, the others may have any target.
        some = np.bincount(leaf[told], minlength=tree.n_nodes) < counted.values
        low, high = np.where(some, y.min(), low), np.where(some, y.max(), high)
        bad = tree.is_leaf & ~((low - off <= mean.values) & (mean.values <= high + off))
        if bad.any():
            raise BadModel(
                f"tree {t}, node {bad.argmax()}: a value that is no mean of the targets (y_train) "
                "of its rows"
            )


def _parts(inner: StoredObject) -> tuple[NDArray[Any], NDArray[Any]]:
    """Take the targets, and the rows of nodes, shape (n_trees, n_nodes, n_targets, n_places)."""
    args = [a for a in inner.args if isinstance(a, np.ndarray)]
    if len(args) < 2 or args[0].dtype.kind != "f" or args[0].ndim != 2 or not args[0].size:
        raise BadModel("a quantile forest without targets")
    targets, members = args[0], args[1]
    if not (np.abs(targets) <= MOST_REAL).all():
        raise BadModel("a quantile forest with targets that are no numbers")
    if not members.size and "matrix1" in inner.state:
        members = _dense(inner.get("matrix1"), inner.get("shape1"))
    if members.ndim != 4 or members.dtype.kind not in "iu" or not members.size:
        raise BadModel("a quantile forest without rows of its leaves")
    if members.shape[2] != len(targets):
        raise BadModel(f"{len(targets)} targets, and leaves with {members.shape[2]}")
    return targets, members


def _dense(matrix: Any, shape: Any) -> NDArray[Any]:
    """Lay out scipy's sparse matrix by columns."""
    sizes = tuple(shape) if isinstance(shape, (list, tuple)) else ()
    whole = [isinstance(n, (int, np.integer)) and 0 < n < MOST_COUNTS for n in sizes]
    if not isinstance(matrix, StoredObject) or len(sizes) != 4 or not all(whole):
        raise BadModel("a sparse matrix without its shape")
    at_most(MOST_COUNTS, prod(map(int, sizes)), "places in leaves")
    trees, nodes, outputs, places = map(int, sizes)
    parts = [np.asarray(matrix.get(k)) for k in ("data", "indices", "indptr")]
    if not all(a.ndim == 1 and a.dtype.kind in "iu" for a in parts):
        raise BadModel("a sparse matrix of other than whole numbers")
    try:
        held: Any = tuple(parts)
        found: Any = csc_array(held, shape=(places, trees * nodes * outputs))
        found.check_format(full_check=True)
    except ValueError as error:
        raise BadModel(f"a sparse matrix that does not fit its shape ({error})") from error
    # It was laid out anew before, not turned: so it is laid out back.
    return np.asarray(found.toarray()).astype(np.int64).reshape(sizes)
