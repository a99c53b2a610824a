"""How many rows an ensemble was trained on, where its draws are hidden or its counts noisy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import gammaln, rel_entr

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.message import MessageTemplate, static_message
from treeleak.release.noise.laws import CountNoise, LabelNoise
from treeleak.release.noise.table import FLOOR, NoiseTable, excess_bound, sum_laws
from treeleak.release.release import Release
from treeleak.release.sampling import Bootstrap, Disjoint, Subsample
from treeleak.release.tree import Tree

NO_COUNTS = MessageTemplate("tree_without_counts", "tree {tree:number} gives no {what}{bare}")
BARE = ": it does not say how many rows its leaves hold"
MAX_ROWS_BEHIND_NOISE = 2_000_000
"""Most rows that noisy counts are taken to hide; no more are ever rebuilt."""

_MOST = 10_000_000
_LOOKED_AT = 20_000
_LEVEL = 0.95
_ONCE_IN_A_MILLION = math.log(1e-6)


@dataclass(frozen=True)
class RowCount:
    """The number of training rows."""

    n: int
    between: tuple[int, int]
    """Where it lies with 95 % probability; both are ``n`` where it is known."""
    origin: str
    """In words."""

    def __str__(self) -> str:
        low, high = self.between
        wide = f" (95 %: {low:,} to {high:,})" if low < high else ""
        rows = "row" if self.n == 1 else "rows"
        return f"{self.n:,} {rows}{wide}, {self.origin}"


def count_rows(
    release: Release,
    n_rows: int | None = None,
    reachable: Sequence[BoolArray] | None = None,
) -> RowCount:
    """Find the number of training rows behind hidden draws or noisy counts.

    Believed in turn: what the user says, what the model says, what noisy counts add up to
    (:func:`rows_behind_noise`), and what the numbers of distinct rows say: of N rows, n draws hit
    exactly d in N! / (N - d)! x surj(n, d) / N^n of all cases. Without them, as many rows as draws,
    which is what libraries do unless told otherwise.

    Behind noise, the number is the median: where the noise hides the rows, the likeliest number is
    often 1, and nobody trains on one row. The interval is the shortest that holds 95 %.

    ``n_rows``: what the user says. ``reachable``: per tree, which of its leaves a row can reach.
    Noisy counts of the others are noise alone, and are left out. Raises BadInput if the user's
    number is too small for some tree, or no number fits the noise. Raises NotCovered if a tree
    counts nothing, or nothing bounds the number.
    """
    least, drawn, hit = 1, [], []
    sampling = release.sampling
    for t, tree in enumerate(release.trees):
        held = _held(release, tree)
        if held is None:
            raise NotCovered(NO_COUNTS(tree=t, what="counts", bare=BARE))
        drawn.append(round(float(held[tree.leaves].sum())))
        distinct = None
        if isinstance(sampling, Subsample):
            distinct = drawn[-1]
        elif tree.distinct is not None:
            distinct = int(tree.distinct[tree.leaves].sum())
        if distinct is not None:
            hit.append((distinct, drawn[-1]))
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
    if isinstance(sampling, (Bootstrap, Subsample)) and sampling.rows_between is not None:
        low, high = max(low, sampling.rows_between[0]), min(high, sampling.rows_between[1])
    if low > high:
        raise BadInput(
            f"the release says that there were at most {high} training rows, but a tree drew {low} "
            "distinct ones"
        )
    if low == high:
        return RowCount(low, (low, low), "as the model's number of draws says")
    if isinstance(sampling, Subsample):
        fit = f": {low:,} to {high:,} fit" if high < _MOST else ""
        raise NotCovered(
            "each tree drew rows without replacement, and the number of training rows is not "
            f"known{fit}; give it (n_rows, --n-rows)"
        )
    if release.counts_are == "labels" or isinstance(release.noise, LabelNoise):
        raise NotCovered(
            static_message(
                "labels of leaves do not show how many training rows there were; give their number "
                "(n_rows, --n-rows)"
            )
        )
    if isinstance(release.noise, CountNoise):
        if low > MAX_ROWS_BEHIND_NOISE:
            raise NotCovered(f"{low:,} rows; at most {MAX_ROWS_BEHIND_NOISE:,} are rebuilt")
        rows, share = rows_behind_noise(release, reachable, (low, min(high, MAX_ROWS_BEHIND_NOISE)))
        median = int(rows[np.searchsorted(share.cumsum(), 0.5)])
        origin = "inferred from the noisy counts"
        if isinstance(sampling, Bootstrap):
            origin += ", as many as the draws of a tree"
        return RowCount(median, _shortest(rows, share), origin)
    if isinstance(sampling, Disjoint):
        n = sum(drawn)
        return RowCount(n, (n, n), "counted by all trees together")
    if not hit:
        n = min(max(drawn[0], low), high)
        return RowCount(n, (n, n), "taken to be the number of draws of a tree")
    rows, share = _posterior(partial(_log_likelihood, hit=hit), low, high)
    n = int(rows[np.argmax(share)])
    ends = np.searchsorted(share.cumsum(), [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    between = int(rows[ends[0]]), int(rows[min(ends[1], len(rows) - 1)])
    if between[1] > 0.9 * _MOST:
        raise NotCovered(
            static_message(
                "the numbers of distinct rows do not show how many training rows there were; give "
                "their number (n_rows, --n-rows)"
            )
        )
    return RowCount(n, between, "the likeliest for the numbers of distinct rows")


def rows_behind_noise(
    release: Release,
    reachable: Sequence[BoolArray] | None = None,
    between: tuple[int, int] = (1, MAX_ROWS_BEHIND_NOISE),
) -> tuple[IntArray, FloatArray]:
    """Say how probable each number of training rows is, given noisy counts.

    The counts of a tree add up to N and the noise of each; those of all trees together do where
    every row reached one tree only. All N are held for equally probable before. Of a bootstrap, N
    is the number of draws.

    Parameters
    ----------
    release : Release
        With noise on its counts.
    reachable : sequence of bool array, optional
        As for :func:`count_rows`.
    between : tuple of two int
        Numbers that are possible, both ends included.

    Returns
    -------
    rows : int array
        Ascending, in equal steps.
    share : float array
        Probability of each; they add up to 1.

    Raises
    ------
    BadInput
        If the sums are too small for the noise.
    NotCovered
        If they are too large, or there is no noise on the counts.
    """
    noise = release.noise
    if not isinstance(noise, CountNoise):
        raise NotCovered(static_message("the release says nothing of noise on its counts"))
    sums, numbers = _noisy_sums(release, reachable)
    reach, step, laws = sum_laws(noise, set(numbers))
    low, high = between
    if max(sums) + reach < low:
        raise BadInput(
            f"the noisy counts of a tree add up to {max(sums):,.0f} at most; behind noise of this "
            f"law there cannot be {low:,} rows or more"
        )
    if min(sums) - reach > high:
        raise NotCovered(
            f"the noisy counts of a tree add up to {min(sums):,.0f} rows or more; at most {high:,} "
            "are looked at"
        )

    def log_likelihood(rows: IntArray) -> FloatArray:
        out = np.zeros(len(rows))
        for total, number in zip(sums, numbers, strict=True):
            law = laws[number]
            off = np.abs(total - rows) / step
            out += np.interp(off, np.arange(len(law)), law, right=math.log(FLOOR))
        return np.asarray(out - out.max())

    return _posterior(
        log_likelihood,
        max(low, math.floor(min(sums) - reach)),
        min(high, math.ceil(max(sums) + reach)),
    )


def check_row_count(
    release: Release,
    n_rows: int,
    reachable: Sequence[BoolArray] | None = None,
    source: str | None = None,
) -> None:
    """Hold a number of training rows against what the trees count.

    Exact counts add up to it. Noisy ones add up to it but for the sum of their noises, and draws
    hit as many distinct rows as that many rows make likely: what chance makes less than once in a
    million times is refused.

    ``reachable``: as for :func:`count_rows`. ``source``: where the number comes from, in words.
    Raises BadInput, saying what the trees count instead.
    """
    statement = source or f"n_rows is {n_rows}"
    sampling, noise = release.sampling, release.noise
    drawn = isinstance(sampling, Bootstrap)
    if isinstance(sampling, Bootstrap) and (ends := sampling.rows_between) is not None:
        low, high = ends
        if not low <= n_rows <= high:
            raise BadInput(f"{statement}, but the model says that there were {low} to {high} rows")
    if isinstance(noise, CountNoise):
        number = sampling.n_draws or n_rows if isinstance(sampling, Bootstrap) else n_rows
        _check_noisy_sums(release, noise, number, reachable, statement)
    elif noise is None and release.counts_are in ("rows", "none") and sampling.kind == "all":
        held = [t.counts if release.counts_are == "rows" else t.totals for t in release.trees]
        totals = {
            round(float(totals_of_tree[tree.leaves].sum()))
            for totals_of_tree, tree in zip(held, release.trees, strict=True)
            if totals_of_tree is not None
        }
        # Trees that count different numbers contradict each other: the attack says where.
        if len(totals) == 1 and totals != {n_rows}:
            raise BadInput(f"{statement}, but the leaves of tree 0 count {totals.pop()} rows")
    elif noise is None and drawn and (release.counts_are == "draws" or not release.classes):
        _check_distinct(release, n_rows, statement)


def _held(release: Release, tree: Tree) -> FloatArray | None:
    """What a tree counts, by class or in a model without classes: only sums of it are used."""
    return tree.counts if release.classes else tree.totals


def _check_noisy_sums(
    release: Release,
    noise: CountNoise,
    number: int,
    reachable: Sequence[BoolArray] | None,
    statement: str,
) -> None:
    """Hold a number against the best estimate of it: the mean of all sums, by how sure each is."""
    sums, numbers = (np.array(x, dtype=float) for x in _noisy_sums(release, reachable))
    if not numbers.all():
        return
    weight = 1 / numbers / (1 / numbers).sum()
    off = float(weight @ (sums - number))
    groups = zip(weight.tolist(), numbers.astype(int).tolist(), strict=True)
    if excess_bound(NoiseTable.of(noise), off, groups) < _ONCE_IN_A_MILLION:
        sd = math.sqrt(noise.variance * float(weight**2 @ numbers))
        raise BadInput(
            f"{statement}, but the noisy counts add up to {number + off:,.0f} ± {sd:,.2g}: noise "
            "of the stated law deviates that far less than once in a million times. Either "
            f"{number:,} is not the number, or the noise is not of that law"
        )


def _check_distinct(release: Release, n_rows: int, statement: str) -> None:
    """Hold a number against the distinct rows that draws hit.

    Whether one row was hit and whether another was are negatively associated, so that Chernoff's
    bound for independent hits holds. Of rows that are not drawn alike, fewer are hit.
    """
    sampling = release.sampling
    assert isinstance(sampling, Bootstrap)  # noqa: S101
    exchangeable = sampling.row_weights is None and not sampling.hidden
    hits, expected, trials = 0, 0.0, 0
    for t, tree in enumerate(release.trees):
        held = _held(release, tree)
        if tree.distinct is None or held is None:
            return
        draws = float(held[tree.leaves].sum())
        hit = int(tree.distinct[tree.leaves].sum())
        if hit > n_rows:
            raise BadInput(f"{statement}, but tree {t} drew {hit} distinct rows")
        hits += hit
        expected -= n_rows * math.expm1(draws * math.log1p(-1 / n_rows)) if n_rows > 1 else -1
        trials += n_rows
    if not trials or (hits < expected and not exchangeable):
        return
    found, usual = hits / trials, min(expected / trials, 1.0)
    # By Hoeffding's inequality trials of different chances bound no worse than their mean.
    apart = float(rel_entr(found, usual) + rel_entr(1 - found, 1 - usual))
    if -trials * apart + math.log(2) < _ONCE_IN_A_MILLION:
        n_trees = len(release.trees)
        raise BadInput(
            f"{statement}, but each tree drew {hits / n_trees:,.0f} distinct rows on average; "
            f"from so many rows it would draw {expected / n_trees:,.0f}, and it deviates "
            "that far less than once in a million times"
        )


def _noisy_sums(
    release: Release, reachable: Sequence[BoolArray] | None
) -> tuple[list[float], list[int]]:
    """Sums that are N plus noise, and how many noises are in each."""
    sums, numbers = [], []
    for t, tree in enumerate(release.trees):
        if tree.counts is None:
            raise NotCovered(NO_COUNTS(tree=t, what="counts", bare=""))
        counts = tree.counts[tree.leaves if reachable is None else tree.leaves[reachable[t]]]
        sums.append(float(counts.sum()))
        numbers.append(counts.size)
    if isinstance(release.sampling, Disjoint):
        return [sum(sums)], [sum(numbers)]
    return sums, numbers


def _posterior(
    log_likelihood: Callable[[IntArray], FloatArray], low: int, high: int
) -> tuple[IntArray, FloatArray]:
    """Probability of each number from low to high, all being equally probable before."""
    rows = np.unique(np.geomspace(low, max(high, low), _LOOKED_AT).astype(np.int64))
    for _ in range(2):
        weight = np.exp(log_likelihood(rows))
        likely = rows[weight > 1e-9 * weight.max()]
        step = max((likely[-1] - likely[0] + 2) // _LOOKED_AT, 1)
        rows = np.arange(max(likely[0] - 1, low), min(likely[-1] + 1, high) + 1, step)
    weight = np.exp(log_likelihood(rows))
    return rows, np.asarray(weight / weight.sum())


def _shortest(rows: IntArray, share: FloatArray) -> tuple[int, int]:
    """Find the shortest interval that holds 95 %; of equally short ones, the most probable."""
    upto = np.concatenate([[0.0], share.cumsum()])
    stop = np.searchsorted(upto, upto + _LEVEL * upto[-1])
    first = np.flatnonzero(stop < len(upto))
    stop = stop[first]
    best = np.lexsort((upto[first] - upto[stop], stop - first))[0]
    return int(rows[first[best]]), int(rows[stop[best] - 1])


def _log_likelihood(rows: IntArray, hit: list[tuple[int, int]]) -> FloatArray:
    """Log likelihood of N rows, less its maximum."""
    out = np.zeros(len(rows))
    for d, n in set(hit):
        times = hit.count((d, n))
        out += times * (gammaln(rows + 1.0) - gammaln(rows - d + 1.0) - n * np.log(rows))
    return np.asarray(out - out.max())
