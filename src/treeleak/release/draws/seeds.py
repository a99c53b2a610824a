"""Which rows each tree of a bootstrapped ensemble drew, recomputed from seeds.

scikit-learn's rule has not changed since 0.24 but for weighted rows, which it draws with unequal
chances in a forest since 1.9 and in a bagging since 1.8 (before, weights multiply the draws). A
forest and a bagging hand their trees the same seeds; a bagging's tree draws its columns first. So
the rule follows from what the release says, and no function of an installed scikit-learn, of
whatever version, is asked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.parallel import THREADS, threads
from treeleak.core.private import dataclass
from treeleak.release.draws import mt19937_kernels as mt
from treeleak.release.tree import Bootstrap, Release

__all__ = ["Draws", "known_draws"]

Tick = Callable[[float], None]

# Draws, or entries of the table of them; beyond, neither time nor memory is reasonable.
MAX_ENTRIES = 2**31
MAX_ROWS = 10_000_000
# Numbers of rows tried where the release does not say it.
MAX_ROWS_TRIED = 2_000_000
SEEDS_END = 2**32
NANOSECONDS_PER_CHUNK = 1e8
# Wrong seeds that are expected to fit; with more, one that fits says little.
TOLERATED = 1e-3


@dataclass(frozen=True, eq=False)
class Draws:
    """How often each tree drew each row.

    Attributes
    ----------
    counts : array of unsigned int, shape (n_trees, n_rows)
    origin : str
        Where the draws come from, in words.
    forest_seed : int or None
        The forest's seed that gave the trees theirs; None where the trees' own were used.
    checked : bool
        Whether the model's numbers of distinct rows confirm the draws; False where it has none.
    """

    counts: NDArray[np.unsignedinteger[Any]]
    origin: str
    forest_seed: int | None
    checked: bool

    def __str__(self) -> str:
        return self.origin


def known_draws(
    release: Release, *, seed_search: int = 1_000_000, tick: Tick = lambda _: None
) -> Draws:
    """Recompute the draws of a bootstrapped ensemble.

    Tried in turn: the trees' seeds in the file, the forest's seed in the file, and every forest
    seed below ``seed_search``. Seeds are accepted if each tree draws as many distinct rows as the
    model says; where it does not say, stored seeds are believed, and nothing can be searched.
    Nor is there a search where so few trees say it that wrong seeds would fit.

    Parameters
    ----------
    release : Release
    seed_search : int
        How many forest seeds to try; 0: none.
    tick : callable
        Gets the share of the search that is done, ten times a second or so. What it raises ends
        the search.

    Raises
    ------
    NotCovered
        If the draws cannot be had: what was tried, and why it failed.
    BadInput
        If ``seed_search`` is negative.
    """
    if seed_search < 0:
        raise BadInput(f"seed_search is {seed_search}, must be 0 or more")
    sampling = release.sampling
    if not isinstance(sampling, Bootstrap):
        raise NotCovered("the model's trees did not draw their rows by a bootstrap")
    if sampling.hidden:
        raise NotCovered(f"the draws cannot be recomputed: {sampling.hidden}")
    target = _distinct(release)
    rules = _rules(release, sampling)
    tried: list[str] = []
    for seeds in _stored(sampling, len(target), tried):
        for rule in rules:
            draws = _draws(seeds, rule, target, sampling, tried, tick)
            if draws is not None:
                return draws
    if seed_search:
        return _searched(rules, target, min(seed_search, SEEDS_END), tried, tick)
    raise _failed([*tried, "no forest seeds were tried"])


# ------------------------------------------------------------------------ what the release says


@dataclass(frozen=True, eq=False)
class _Seeds:
    trees: IntArray
    origin: str
    forest: int | None = None


@dataclass(frozen=True, eq=False)
class _Rule:
    """How a tree's seed becomes draws; see :mod:`treeleak.release.draws.mt19937_kernels`."""

    n_rows: int  # 0: not known
    n_draws: int
    before: IntArray
    apart: bool
    cdf: FloatArray

    @property
    def arguments(self) -> tuple[int, int, IntArray, bool, FloatArray]:
        return self.n_rows, self.n_draws, self.before, self.apart, self.cdf

    @property
    def nanoseconds(self) -> float:
        """What one tree takes, roughly."""
        return 2000 + self.n_draws * (50 if self.cdf.size else 1.5) + 20 * len(self.before)


def _distinct(release: Release) -> IntArray:
    """Each tree's number of distinct rows, -1 where the model does not say."""
    known = [-1 if t.distinct is None else int(t.distinct[0]) for t in release.trees]
    return np.array(known, dtype=np.int64)


def _stored(sampling: Bootstrap, n_trees: int, tried: list[str]) -> Iterator[_Seeds]:
    """Every set of seeds in the file, the surest first."""
    seeds = [s for s in sampling.tree_seeds if s is not None and s < SEEDS_END]
    if len(seeds) == n_trees:
        yield _Seeds(np.array(seeds, dtype=np.int64), "the trees' seeds in the file")
    else:
        tried.append(f"the file holds the seeds of {len(seeds)} of {n_trees} trees")
    forest = sampling.forest_seed
    if forest is not None and forest < SEEDS_END:
        yield _Seeds(mt.tree_seeds(forest, n_trees), "the forest's seed in the file", forest)
    else:
        tried.append("the file does not hold the forest's seed")


def _rules(release: Release, sampling: Bootstrap) -> list[_Rule]:
    """Every way to draw that the release leaves open, the likeliest first."""
    if not release.trees:
        raise NotCovered("a model without trees")
    known = re.fullmatch(r"scikit-learn .* (forest|bagging)", sampling.rule)
    if sampling.rule and not known:
        raise NotCovered(f"the draws follow the rule {sampling.rule!r:.80}, which is not known")
    n_draws, n_rows, weights = _n_draws(release, sampling), release.n_rows, sampling.row_weights
    if n_rows is None and weights is not None:
        n_rows = len(weights)
    elif n_rows is None and sampling.rows_between is not None:
        low, high = sampling.rows_between
        n_rows = low if low == high else None
    if n_rows == 0 or n_draws == 0:
        raise NotCovered("the model says that no rows were drawn")
    if weights is not None and len(weights) != n_rows:
        raise NotCovered(f"the model has {n_rows} rows, and weights of {len(weights)}")

    m = release.n_features
    columns = [(0, False)]
    if sampling.columns_drawn is not None:
        columns = [(sampling.columns_drawn, sampling.columns_replaced)]
    elif known is None or known[1] == "bagging":
        # Half of the columns stands for any number of them that needs a shuffle.
        columns += [((m + 1) // 2, False), (m, True)]
    out: dict[Any, _Rule] = {}
    for n_drawn, replaced in columns:
        before, apart = _columns(m, n_drawn, replaced)
        most = max(n_rows or 1, n_draws)
        _bound(len(release.trees) * max(most, len(before)), most)
        for cdf in _cumulated(weights):
            key = before.tobytes(), apart, cdf.tobytes()
            out.setdefault(key, _Rule(n_rows or 0, n_draws, before, apart, cdf))
    return list(out.values())


def _n_draws(release: Release, sampling: Bootstrap) -> int:
    """Find the number of draws per tree, on which all that the release says must agree."""
    said = {} if sampling.n_draws is None else {sampling.n_draws: "the model"}
    for t, tree in enumerate(release.trees):
        total = None
        if release.counts_are == "draws" and tree.counts is not None:
            total = tree.counts[0].sum()
        elif release.counts_are in ("draws", "none") and tree.totals is not None:
            total = tree.totals[0]
        if total is not None:
            said.setdefault(int(total), f"tree {t}")
    if not said:
        raise NotCovered("the model does not say how many rows each tree drew")
    if len(said) > 1:
        first, second, *_ = (f"{n} in {where}" for n, where in said.items())
        raise NotCovered(f"the numbers of draws differ: {first}, {second}")
    return next(iter(said))


def _columns(n_columns: int, n_drawn: int, replaced: bool) -> tuple[IntArray, bool]:
    """What a bagging's tree draws before its rows: the greatest of each number, and if all differ.

    Without replacement, this is ``sklearn.utils.random.sample_without_replacement``.
    """
    if n_drawn > n_columns:
        raise NotCovered(f"trees that draw {n_drawn} of {n_columns} columns")
    share = n_drawn / n_columns if n_columns else 1.0
    apart = not replaced and 0 < share <= 0.01
    if replaced or apart:
        before = np.full(n_drawn, n_columns - 1)
    elif 0.01 < share < 0.99:  # a shuffle of all
        before = np.arange(n_columns - 1, 0, -1)
    else:  # reservoir sampling: nothing is drawn if all are taken
        before = np.arange(n_drawn if n_drawn else n_columns, n_columns)
    # To choose from one, nothing is drawn.
    return before[before > 0].astype(np.int64), apart


def _cumulated(weights: tuple[float, ...] | None) -> Iterator[FloatArray]:
    """Cumulative chances of the rows; empty if equal."""
    if weights is None:
        yield np.zeros(0)
        return
    exact = np.array(weights, dtype=float)
    with np.errstate(over="ignore"):
        total, single = exact.sum(), exact.astype(np.float32)
    if not (np.isfinite(total) and total > 0):
        raise NotCovered(f"weights of rows that add up to {total:g}")
    yield _normed(exact / total)
    # Weights given in single precision are divided in it.
    if np.array_equal(single, exact) and np.isfinite(single.sum()):
        yield _normed((single / single.sum()).astype(float))


def _normed(chances: FloatArray) -> FloatArray:
    cdf: FloatArray = chances.cumsum()
    cdf /= cdf[-1]
    return cdf


def _bound(in_all: int, per_tree: int) -> None:
    if in_all > MAX_ENTRIES or per_tree > MAX_ROWS:
        raise NotCovered(f"{per_tree:g} rows or draws per tree, {in_all:g} in all, are too many")


# --------------------------------------------------------------------------- seeds against counts


def _draws(
    seeds: _Seeds,
    rule: _Rule,
    target: IntArray,
    sampling: Bootstrap,
    tried: list[str],
    tick: Tick,
) -> Draws | None:
    """Draws from stored seeds if they fit; else None, and why is noted."""
    origin = seeds.origin
    if not rule.n_rows:
        fit = _fitting_rows(seeds, rule, target, sampling.rows_between, tick)
        if len(fit) != 1:
            which = f"both {fit[0]} and {fit[1]} training rows fit" if fit else "no number fits"
            tried.append(f"the number of training rows is not known, and with {origin} {which}")
            return None
        origin = f"{origin}; {fit[0]} training rows, the only number that fits"
        rule = replace(rule, n_rows=fit[0])
    found = mt.distinct_rows(seeds.trees, *rule.arguments)
    known = target >= 0
    wrong = np.flatnonzero(known & (found != target))
    if wrong.size:
        t = wrong[0]
        tried.append(
            f"with {origin}, tree {t} would have drawn {found[t]} different rows, and the model "
            f"counts {target[t]}"
        )
        return None
    # One forest seed stands for all trees, so that one tree is enough to speak for it.
    checked = bool(known.any() if seeds.forest is not None else known.all())
    return Draws(_table(seeds.trees, rule), origin, seeds.forest, checked)


def _fitting_rows(
    seeds: _Seeds, rule: _Rule, target: IntArray, between: tuple[int, int] | None, tick: Tick
) -> list[int]:
    """At most two numbers of rows, of those that each tree can have drawn from."""
    counts = target[target >= 0]
    if not counts.size:
        raise NotCovered("the model does not say how many rows there were, nor what trees drew")
    low, high = _likely_rows(counts, rule.n_draws)
    if between is not None:
        low, high = max(low, between[0]), min(high, between[1])

    def look(start: int, stop: int) -> IntArray:
        found: IntArray = mt.matching_rows(
            start, stop, seeds.trees, target, rule.n_draws, rule.before, rule.apart
        )
        return found

    return _scanned(low, high + 1, look, rule.nanoseconds, 2, tick)[:2]


def _likely_rows(counts: IntArray, n_draws: int) -> tuple[int, int]:
    """Bounds on the number of rows of which trees drew these numbers of distinct ones."""
    rows = np.arange(1, MAX_ROWS_TRIED + 1, dtype=float)
    with np.errstate(divide="ignore"):
        # Chances that a tree misses one row, and two.
        one, two = (np.exp(n_draws * np.log1p(-np.minimum(k / rows, 1))) for k in (1, 2))
    variance = np.maximum(rows**2 * (two - one**2) + rows * (one - two), 0)
    slack = (5 * np.sqrt(variance * counts.size) + 3) / counts.size
    likely = rows[np.abs(counts.mean() - rows * (1 - one)) <= slack]
    return (int(likely[0]), int(likely[-1])) if likely.size else (1, 0)


def _searched(
    rules: list[_Rule], target: IntArray, n_seeds: int, tried: list[str], tick: Tick
) -> Draws:
    """Search for the forest's seed, where a wrong one has no chance to fit."""
    if not (target >= 0).any():
        raise _failed([*tried, "without numbers of distinct rows no seed can be searched for"])
    if not rules[0].n_rows:
        raise _failed([*tried, "without the number of training rows no seed can be searched for"])
    among = f"the first {n_seeds:,} forest seeds"
    wrong = sum(n_seeds * _chance(rule, target) for rule in rules)
    if wrong > TOLERATED:
        n_trees = int((target >= 0).sum())
        raise _failed([
            *tried,
            f"{among} cannot be told apart: {n_trees} trees count distinct rows, and about "
            f"{wrong:.2g} wrong seeds would fit",
        ])  # fmt: skip
    for i, rule in enumerate(rules):

        def look(start: int, stop: int, rule: _Rule = rule) -> IntArray:
            seeds: IntArray = mt.matching_seeds(start, stop, target, *rule.arguments)
            return seeds

        def share(done: float, i: int = i) -> None:
            tick((i + done) / len(rules))

        for seed in _scanned(0, n_seeds, look, rule.nanoseconds, 1, share):
            origin = f"forest seed {seed}, found by search among the first {n_seeds:,}"
            return Draws(_table(mt.tree_seeds(seed, len(target)), rule), origin, seed, True)
    raise _failed([*tried, f"none of {among} fits the model's numbers of distinct rows"])


def _chance(rule: _Rule, target: IntArray) -> float:
    """Chance that a wrong seed fits all trees, rather too large than too small."""
    n = int(np.clip(NANOSECONDS_PER_CHUNK / rule.nanoseconds, 64, 4096))
    seen = Counter(mt.distinct_rows(np.arange(n), *rule.arguments).tolist())
    often = np.array([seen[d] for d in target[target >= 0].tolist()])
    return float(np.minimum(1.0, (often + 3 * np.sqrt(often) + 3) / n).prod())


def _scanned(
    low: int,
    high: int,
    look: Callable[[int, int], IntArray],
    nanoseconds: float,
    enough: int,
    tick: Tick,
) -> list[int]:
    """What ``look`` finds in a range of whole numbers, ascending; stops when it is enough."""
    step = max(1, int(NANOSECONDS_PER_CHUNK / nanoseconds))
    found: list[int] = []
    at = low
    with threads() as pool:
        while at < high and len(found) < enough:
            ends = [min(at + i * step, high) for i in range(THREADS + 1)]
            for part in pool.map(look, ends[:-1], ends[1:]):
                found += part.tolist()
            at = ends[-1]
            tick((at - low) / (high - low))
    return found


def _table(seeds: IntArray, rule: _Rule) -> NDArray[np.unsignedinteger[Any]]:
    _bound(len(seeds) * rule.n_rows, rule.n_rows)
    counts: NDArray[np.unsignedinteger[Any]] = np.zeros((len(seeds), rule.n_rows), dtype="u1")
    while not mt.tally(seeds, *rule.arguments, counts):
        counts = np.zeros_like(counts, dtype=f"u{2 * counts.itemsize}")
    return counts


def _failed(tried: list[str]) -> NotCovered:
    return NotCovered("the trees' draws are not known: " + "; ".join(tried))
