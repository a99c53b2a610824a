"""Which rows early stopping kept from the trees, given the seed.

scikit-learn's ``train_test_split``, whose rule has not changed since 0.24.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeleak.core.arrays import IntArray
from treeleak.core.errors import BadInput
from treeleak.release.sampling import HeldBack


def fitted_rows(held: HeldBack, n_rows: int, labels: Any) -> IntArray:
    """List the rows that trees were fitted to, in the order in which they were.

    ``labels``: their classes, which are asked for where these were held back in equal shares.

    Raises
    ------
    BadInput
        If the labels are missing, or no row would be left.
    """
    n_test = int(np.ceil(held.share * n_rows)) if held.share < 1 else int(held.share)
    n_train = n_rows - n_test
    if n_train < 1 or n_test < 1:
        raise BadInput(f"of {n_rows:,} rows, {n_test:,} would have been held back")
    rng = np.random.RandomState(held.seed)
    if not held.by_class:
        return np.asarray(rng.permutation(n_rows)[n_test:])
    if labels is None or len(labels) != n_rows:
        raise BadInput("which rows were held back follows from the labels, too: give them")
    _, number = np.unique(np.asarray(labels), return_inverse=True)
    size = np.bincount(number)
    members = np.split(np.argsort(number, kind="stable"), np.cumsum(size)[:-1])
    train = _in_shares(size, n_train, rng)
    _in_shares(size - train, n_test, rng)
    found: list[int] = []
    for of_class, k in zip(members, train, strict=True):
        found += of_class[rng.permutation(len(of_class))][:k].tolist()
    return np.asarray(rng.permutation(found), dtype=np.int64)


def _in_shares(size: IntArray, n: int, rng: np.random.RandomState) -> IntArray:
    """Share n out among classes as evenly as their sizes are, the rest by size of remainder."""
    exact = size / size.sum() * n
    out = np.floor(exact)
    left = int(n - out.sum())
    rest = exact - out
    for value in np.unique(rest)[::-1]:
        if left <= 0:
            break
        candidates = np.flatnonzero(rest == value)
        more = min(len(candidates), left)
        out[rng.choice(candidates, size=more, replace=False)] += 1
        left -= more
    return np.asarray(out, dtype=np.int64)
