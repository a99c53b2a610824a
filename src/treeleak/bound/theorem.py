"""How many rows any attack on a file can get right, from the bits of the file (docs/bound.md)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree
from scipy.special import gammaln

from treeleak.bound.description import Labelled, description_length
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import NotCovered
from treeleak.core.message import static_message
from treeleak.core.private import dataclass
from treeleak.release.release import Release
from treeleak.schema import Numeric, OneHot, Schema

DELTA = 1e-6
"""Probability with which an attack may exceed the bound."""
ROWS_UNKNOWN = static_message("how many training rows there are is not known", "bound_n_rows")
ENDLESS = static_message(
    "nothing says how rare a row is: give control rows (--control), or a schema in which every "
    "column has ends",
    "bound_endless",
)
_SHARES = (0.0, *np.geomspace(0.001, 0.5, 40))
"""Shares of people in common cells that are tried."""
_DRAWN = 20_000
_MOST_BINS = 32
"""Values of a column, or quantiles, by which dependence is measured."""


@dataclass(frozen=True, eq=False)
class Bound:
    """How many rows in rare cells no attack on the file gets right.

    Attributes
    ----------
    bits : float
        Length of what depends on the rows.
    code : {"model code", "model code given control rows", "compressed"}
        The shortest one.
    n_rows : int
    rows : int or None
        With probability 1 - delta, any attack gets fewer than ``rows`` rare rows right; None if
        there is no such number.
    delta : float
    log2_q : float
        Of the probability q of the likeliest rare cell.
    common : float
        Expected share of rows in other cells, of which the bound says nothing.
    table_bits : float
        Entropy of the rows under the prior.
    prior : {"control", "schema"}
        From control rows, with dependence between pairs of columns; or all values of the schema
        equally likely, and columns independent.
    """

    bits: float
    code: str
    n_rows: int
    rows: int | None
    delta: float
    log2_q: float
    common: float
    table_bits: float
    prior: str

    @property
    def at_most(self) -> float | None:
        """Share of the rows: those that an attack may get right, and the common ones."""
        return None if self.rows is None else (self.rows - 1) / self.n_rows + self.common

    @property
    def ratio(self) -> float:
        """Bits of the file for each bit of the table."""
        return self.bits / self.table_bits if self.table_bits > 0 else math.inf


def smallest_excess(bits: float, n_rows: int, log2_hit: float, delta: float = DELTA) -> int | None:
    """Give the fewest rows that no attack gets right but with probability ``delta``.

    The smallest r for which r hits or more, in N trials of probability s, have probability
    ``delta`` 2^-bits at most. That of r hits, over 1 - ρ, bounds it: each further hit has at most ρ
    times the probability of the one before.

    Parameters
    ----------
    bits : float
        Length of the file under a prefix code.
    n_rows : int
        N, of training rows and of guesses.
    log2_hit : float
        Logarithm of s: the most that N rare cells have of the probability of a row.
    delta : float

    Returns
    -------
    int or None
        None if there is no such number up to N.
    """
    r = np.arange(1, n_rows + 1)
    log_s = log2_hit * math.log(2)
    if log_s >= 0:
        return None
    miss = math.log1p(-math.exp(log_s))
    exactly = gammaln(n_rows + 1) - gammaln(r + 1) - gammaln(n_rows - r + 1)
    exactly += r * log_s + (n_rows - r) * miss
    ratio = (n_rows - r) / (r + 1) * math.exp(log_s - miss)
    with np.errstate(invalid="ignore", divide="ignore"):
        tail = np.where(ratio < 1, exactly - np.log1p(-ratio), 0.0)
    enough = tail <= math.log(delta) - bits * math.log(2)
    return int(r[enough.argmax()]) if enough.any() else None


def _most_hit(log2_p: FloatArray, log2_q: float, n_guesses: int) -> float:
    """Give log2 s: the share of people in the N likeliest cells of probability q at most.

    People of a share m whose cells have the probability p are in m / p cells.
    """
    rare = np.sort(log2_p[log2_p <= log2_q])[::-1]
    if not len(rare):
        return -math.inf
    cells = np.cumsum(np.exp2(-rare)) / len(log2_p)
    share = (int(np.searchsorted(cells, n_guesses)) + 1) / len(log2_p)
    # Behind so many cells, none is likelier than the last.
    share = min(share, len(rare) / len(log2_p))
    return min(math.log2(share), log2_q + math.log2(n_guesses), 0.0)


def bound_of(
    release: Release,
    schema: Schema | None = None,
    n_rows: int | None = None,
    control: pd.DataFrame | None = None,
    seed: int = 0,
    delta: float = DELTA,
    labels: IntArray | None = None,
) -> Bound:
    """Bound the rows that any attack on a release gets right.

    A row is right if every column has its exact value. Which share of the people counts as common
    is chosen so that the bound and they are fewest together, by the bits alone.

    Parameters
    ----------
    release : Release
    schema : Schema, optional
        Domains, as they were given: what is inferred from the file is not public before.
    n_rows : int, optional
        Training rows, where the release does not say.
    control : DataFrame, optional
        Rows of the population in the model's columns, for the prior.
    seed : int
    delta : float
    labels : int array, optional
        Numbers of the control rows' classes, by which a shorter code expects tests and counts; rows
        with a negative number are not used for it.

    Raises
    ------
    NotCovered
        If the number of rows is not known, or nothing says how rare rows are.
    """
    n = n_rows or release.n_rows
    if not n:
        raise NotCovered(ROWS_UNKNOWN)
    columns = list(release.feature_names)
    ends = {c: a.bounds for a in (schema.attributes if schema else ()) for c in a.columns}
    if control is not None:
        log2_p = _by_rows(control[columns], seed)
        ends = {c: (float(control[c].min()), float(control[c].max())) for c in columns} | ends
    elif schema is not None:
        log2_p = _by_schema(schema)
    else:
        raise NotCovered(ENDLESS)
    labelled = None
    if control is not None and labels is not None:
        values = control[columns].to_numpy(dtype=float)
        usable = (labels >= 0) & ~np.isnan(values).any(axis=1)
        labelled = Labelled(values[usable], labels[usable])
    bits, code = description_length(release, ends, n, labelled)
    best: tuple[float, int | None, float, float] = (math.inf, None, float(log2_p.max()), 0.0)
    for share in _SHARES:
        # More than this share of people is common only where they are as likely as the last.
        log2_q = float(np.quantile(log2_p, 1.0 - share, method="higher"))
        common = float((log2_p > log2_q).mean())
        rows = smallest_excess(bits, n, _most_hit(log2_p, log2_q, n), delta)
        if rows is not None and (rows - 1) / n + common < best[0]:
            best = (rows - 1) / n + common, rows, log2_q, common
    return Bound(
        bits, code, n, best[1], delta, best[2], best[3], float(-log2_p.mean()) * n,
        "schema" if control is None else "control",
    )  # fmt: skip


def _by_schema(schema: Schema) -> FloatArray:
    """Logarithm of the probability of every row, where all are equally likely."""
    sizes = []
    for attribute in schema.attributes:
        if isinstance(attribute, Numeric):
            raise NotCovered(ENDLESS)
        low, high = attribute.bounds
        values = getattr(attribute, "values", None)
        size = len(values) if values else high - low + 1
        if isinstance(attribute, OneHot):
            size = len(attribute.members) + attribute.at_most_one
        sizes.append(size + bool(getattr(attribute, "missing", False)))
    return np.array([-np.log2(sizes).sum()])


def _by_rows(control: pd.DataFrame, seed: int) -> FloatArray:
    """Logarithm of the probability of each control row, under a prior from half of the others.

    Columns depend on each other along a tree (Chow and Liu 1968). Probabilities are from one half
    of the rows, and the rows that stand for the population from the other.
    """
    codes = np.column_stack(
        [np.unique(x, return_inverse=True)[1].ravel() for x in control.to_numpy(float).T]
    )
    codes = codes[np.random.default_rng(seed).permutation(len(codes))]
    half = max(len(codes) // 2, 1)
    fit, rows = codes[:half], codes[half:][:_DRAWN]
    if not len(rows):
        rows = fit
    order, parent = _tree(fit)
    total = np.zeros(len(rows))
    for c in order:
        total += np.log2(_given(fit, rows, int(c), int(parent[c])))
    return total


def _tree(codes: IntArray) -> tuple[IntArray, IntArray]:
    """Find the tree of columns with the greatest mutual information, and the order of fitting."""
    m = codes.shape[1]
    binned = np.column_stack([_binned(x) for x in codes.T])
    weight = np.zeros((m, m))
    for a in range(m):
        for b in range(a):
            table = np.bincount(binned[:, a] * _MOST_BINS + binned[:, b], minlength=_MOST_BINS**2)
            p = table.reshape(_MOST_BINS, _MOST_BINS) / len(codes)
            alone = p.sum(axis=1, keepdims=True) * p.sum(axis=0, keepdims=True)
            there = p > 0
            # Every tree needs an edge to each column, however little it says.
            weight[a, b] = -1e-12 - max((p[there] * np.log(p[there] / alone[there])).sum(), 0.0)
    spanning = minimum_spanning_tree(weight)
    order, parent = breadth_first_order(spanning, 0, directed=False)
    return order.astype(np.int64), np.where(parent < 0, -1, parent).astype(np.int64)


def _binned(x: IntArray) -> IntArray:
    if x.max(initial=0) < _MOST_BINS:
        return x
    rank = np.searchsorted(np.sort(x), x, side="left")
    return np.asarray(rank * _MOST_BINS // len(x))


def _given(fit: IntArray, rows: IntArray, c: int, parent: int) -> Any:
    """Probability of a value of a column given that of another, each with one row's weight more.

    Beside what was seen, the value's own share; beside that, all values equally.
    """
    n_values = int(max(fit[:, c].max(), rows[:, c].max())) + 1
    count = np.bincount(fit[:, c], minlength=n_values)
    own = (count[rows[:, c]] + 1.0 / n_values) / (len(fit) + 1.0)
    if parent < 0:
        return own
    both, of_rows = (x[:, parent] * n_values + x[:, c] for x in (fit, rows))
    pairs, times = np.unique(both, return_counts=True)
    at = np.minimum(np.searchsorted(pairs, of_rows), len(pairs) - 1)
    together = np.where(pairs[at] == of_rows, times[at], 0)
    n_parent = int(max(fit[:, parent].max(), rows[:, parent].max())) + 1
    of_parent = np.bincount(fit[:, parent], minlength=n_parent)[rows[:, parent]]
    return (together + own) / (of_parent + 1.0)
