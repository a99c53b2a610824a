"""How many rows a bootstrapped ensemble was trained on, where its draws are hidden."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from treeleak.errors import BadInput, NotCovered
from treeleak.release.tree import Bootstrap, Release

__all__ = ["RowCount", "count_rows"]

FloatArray = NDArray[np.float64]

_MOST = 10_000_000
_LOOKED_AT = 20_000
_LEVEL = 0.95


@dataclass(frozen=True)
class RowCount:
    """The number of training rows.

    Attributes
    ----------
    n : int
    between : tuple of two int
        Where it lies with 95 % probability; both are ``n`` where it is known.
    origin : str
        In words.
    """

    n: int
    between: tuple[int, int]
    origin: str

    def __str__(self) -> str:
        low, high = self.between
        wide = f" (95 %: {low:,} to {high:,})" if low < high else ""
        return f"{self.n:,}{wide}, {self.origin}"


def count_rows(release: Release, n_rows: int | None = None, use_distinct: bool = True) -> RowCount:
    """Find the number of training rows behind hidden draws.

    Believed in turn: what the user says, what the model says, and what the numbers of distinct
    rows say: of N rows, n draws hit exactly d in N! / (N - d)! x surj(n, d) / N^n of all cases.
    Without them, as many rows as draws, which is what libraries do unless told otherwise.

    Parameters
    ----------
    release : Release
    n_rows : int, optional
        What the user says.
    use_distinct : bool
        Heed the numbers of distinct rows.

    Raises
    ------
    BadInput
        If the user's number is too small for some tree.
    NotCovered
        If a tree counts nothing, or nothing bounds the number.
    """
    least, drawn, hit = 1, [], []
    for t, tree in enumerate(release.trees):
        if tree.counts is None:
            raise NotCovered(f"tree {t} gives no counts")
        drawn.append(round(float(tree.counts[tree.leaves].sum())))
        if use_distinct and tree.distinct is not None:
            hit.append((int(tree.distinct[tree.leaves].sum()), drawn[-1]))
            if n_rows is not None and hit[-1][0] > n_rows:
                raise BadInput(f"n_rows is {n_rows}, but tree {t} drew {hit[-1][0]} distinct rows")
            least = max(least, hit[-1][0])
    if n_rows is not None:
        if n_rows < 1:
            raise BadInput(f"n_rows must be 1 or more, not {n_rows}")
        return RowCount(n_rows, (n_rows, n_rows), "as given")
    if release.n_rows is not None:
        return RowCount(release.n_rows, (release.n_rows, release.n_rows), "as the model says")
    low, high = least, _MOST
    sampling = release.sampling
    if isinstance(sampling, Bootstrap) and sampling.rows_between is not None:
        low, high = max(low, sampling.rows_between[0]), min(high, sampling.rows_between[1])
    if low > high:
        raise BadInput(
            f"the release says that there were at most {high} training rows, but a tree drew {low} "
            "distinct ones"
        )
    if low == high:
        return RowCount(low, (low, low), "as the model's number of draws says")
    if not hit:
        n = min(max(drawn[0], low), high)
        return RowCount(n, (n, n), "taken to be the number of draws of a tree")
    rows = np.unique(np.geomspace(low, max(high, low), _LOOKED_AT).astype(np.int64))
    for _ in range(2):
        weight = np.exp(_log_likelihood(rows, hit))
        likely = rows[weight > 1e-9 * weight.max()]
        step = max((likely[-1] - likely[0] + 2) // _LOOKED_AT, 1)
        rows = np.arange(max(likely[0] - 1, low), min(likely[-1] + 1, high) + 1, step)
    share = np.exp(_log_likelihood(rows, hit)).cumsum()
    n = int(rows[np.argmax(np.diff(share, prepend=0.0))])
    ends = np.searchsorted(share, share[-1] * np.array([(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]))
    between = int(rows[ends[0]]), int(rows[min(ends[1], len(rows) - 1)])
    if between[1] > 0.9 * _MOST:
        raise NotCovered(
            "the numbers of distinct rows do not tell how many training rows there were; give "
            "their number (n_rows, --n-rows)"
        )
    return RowCount(n, between, "the likeliest for the numbers of distinct rows")


def _log_likelihood(rows: NDArray[np.int64], hit: list[tuple[int, int]]) -> FloatArray:
    """Log likelihood of N rows, less its maximum."""
    out = np.zeros(len(rows))
    for d, n in set(hit):
        times = hit.count((d, n))
        out += times * (gammaln(rows + 1.0) - gammaln(rows - d + 1.0) - n * np.log(rows))
    return np.asarray(out - out.max())
