"""Seeds of a bootstrapped ensemble, in its file or found by search, and the draws they give.

Which rows each tree saw that drew some of them without replacement, given seeds.

scikit-learn's rules, which have not changed since 0.24: a bagging (an isolation forest is one)
draws the columns of a tree, and then its rows, from the tree's own seed; gradient boosting draws a
mask of the rows before each round, and each tree takes one number more, all from one generator.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import IntArray
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.message import static_message
from treeleak.core.parallel import THREADS, Pool
from treeleak.release.draws import mt19937_kernels as mt
from treeleak.release.draws.boosters import lightgbm_draws, xgboost_draws
from treeleak.release.draws.recompute import (
    NOT_RECOMPUTED,
    Draws,
    Rule,
    Seeds,
    check_size,
    drawn_table,
    rules_of,
)
from treeleak.release.draws.yggdrasil import FOREST_RULE, yggdrasil_draws
from treeleak.release.release import Part, Release
from treeleak.release.sampling import AllRows, Bootstrap, Subsample

Tick = Callable[[float], None]
# Numbers of rows tried where the release does not say it.
MAX_ROWS_TRIED = 2_000_000
SEEDS_END = 2**32
NANOSECONDS_PER_CHUNK = 1e8
# Wrong seeds that are expected to fit; with more, one that fits says little.
TOLERATED = 1e-3
_NO_SEEDS = np.zeros(0, dtype=np.int64)


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
    if release.parts:
        return _of_parts(release.parts, seed_search, tick)
    if release.draws is not None:
        return kept_draws(release.draws)
    if isinstance(sampling, Subsample):
        return subsampled(release, sampling)
    if not isinstance(sampling, Bootstrap):
        raise NotCovered(static_message("the model's trees did not draw their rows by a bootstrap"))
    if sampling.hidden:
        raise NotCovered(NOT_RECOMPUTED(why=sampling.hidden))
    if sampling.rule == FOREST_RULE:
        return yggdrasil_draws(release, sampling, seed_search, tick)
    # Each tree's number of distinct rows, -1 where the model does not say.
    distinct = [-1 if t.distinct is None else int(t.distinct[0]) for t in release.trees]
    target = np.array(distinct, dtype=np.int64)
    rules = rules_of(release, sampling)
    tried: list[str] = []
    for seeds in _stored(sampling, len(target), tried):
        for rule in rules:
            draws = _draws(seeds, rule, target, sampling, tried, tick)
            if draws is not None:
                return draws
    if seed_search:
        return _searched(rules, target, min(seed_search, SEEDS_END), tried, tick)
    raise _failed([*tried, "no forest seeds were tried"])


def kept_draws(counts: NDArray[Any]) -> Draws:
    """Take draws that a file holds as they are; raises NotCovered beyond what is worked with."""
    check_size(counts.size, counts.shape[1])
    kind = np.min_scalar_type(int(counts.max(initial=0)))
    return Draws(counts.astype(kind), "the draws in the file", None, checked=True)


def _of_parts(parts: Sequence[Part], seed_search: int, tick: Tick) -> Draws:
    """Put the draws of several models of one table together, each in the rows that it saw."""
    if any(part.fold is not None for part in parts):
        raise NotCovered(static_message("which rows each model saw follows from their labels"))
    found: list[Draws | None] = [
        None
        if isinstance(part.release.sampling, AllRows)
        else known_draws(part.release, seed_search=seed_search, tick=tick)
        for part in parts
    ]
    numbers = [
        np.ones((len(part.release.trees), _seen(part)), dtype=np.uint8)
        if draws is None
        else draws.counts
        for part, draws in zip(parts, found, strict=True)
    ]
    n_rows = max(
        counts.shape[1] if part.rows is None else int(part.rows.max()) + 1
        for part, counts in zip(parts, numbers, strict=True)
    )
    whole = np.zeros((sum(map(len, numbers)), n_rows), dtype=np.result_type(*numbers))
    first = 0
    for part, counts in zip(parts, numbers, strict=True):
        rows = np.arange(n_rows) if part.rows is None else part.rows
        if counts.shape[1] != len(rows):
            raise NotCovered(f"{part.place} draws from {counts.shape[1]} rows, not {len(rows)}")
        whole[first : first + len(counts), rows] = counts
        first += len(counts)
    drawn = [draws for draws in found if draws is not None]
    origins = dict.fromkeys(draws.origin for draws in drawn) or ["the rows that each model saw"]
    return Draws(whole, "; ".join(origins), None, all(draws.checked for draws in drawn))


def _seen(part: Part) -> int:
    return len(part.rows) if part.rows is not None else int(part.release.n_rows or 0)


def tree_seeds(forest_seed: int, n_trees: int) -> IntArray:
    """Give the seeds that a forest, or a bagging, draws for its trees."""
    return np.random.RandomState(forest_seed).randint(0, mt.SEED_END, n_trees, dtype=np.int64)


def _stored(sampling: Bootstrap, n_trees: int, tried: list[str]) -> Iterator[Seeds]:
    """Every set of seeds in the file, the surest first."""
    seeds = [s for s in sampling.tree_seeds if s is not None and s < SEEDS_END]
    if len(seeds) == n_trees:
        yield Seeds(np.array(seeds, dtype=np.int64), "the trees' seeds in the file")
    else:
        tried.append(f"the file holds the seeds of {len(seeds)} of {n_trees} trees")
    forest = sampling.forest_seed
    if forest is not None and forest < SEEDS_END:
        yield Seeds(tree_seeds(forest, n_trees), "the forest's seed in the file", forest)
    else:
        tried.append("the file does not hold the forest's seed")


# --------------------------------------------------------------------------- seeds against counts


def _draws(
    seeds: Seeds,
    rule: Rule,
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
    return Draws(drawn_table(seeds.trees, rule), origin, seeds.forest, checked)


def _fitting_rows(
    seeds: Seeds, rule: Rule, target: IntArray, between: tuple[int, int] | None, tick: Tick
) -> list[int]:
    """At most two numbers of rows, of those that each tree can have drawn from."""
    counts = target[target >= 0]
    if not counts.size:
        raise NotCovered(
            static_message("the model does not say how many rows there were, or what trees drew")
        )
    low, high = _likely_rows(counts, rule.n_draws)
    if between is not None:
        low, high = max(low, between[0]), min(high, between[1])

    def look(start: int, stop: int) -> IntArray:
        found: IntArray = mt.matching(start, stop, seeds.trees, target, *rule.arguments)
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
    rules: list[Rule], target: IntArray, n_seeds: int, tried: list[str], tick: Tick
) -> Draws:
    """Search for the forest's seed, where a wrong one has no chance to fit."""
    if not (target >= 0).any():
        raise _failed([*tried, "a search for a seed needs numbers of distinct rows"])
    if not rules[0].n_rows:
        raise _failed([*tried, "a search for a seed needs the number of training rows"])
    among = f"the first {n_seeds:,} forest seeds"
    wrong = sum(n_seeds * _chance(rule, target) for rule in rules)
    if wrong > TOLERATED:
        n_trees = int((target >= 0).sum())
        raise _failed([
            *tried,
            f"{among} cannot be distinguished: {n_trees} trees count distinct rows, and about "
            f"{wrong:.2g} wrong seeds would fit",
        ])  # fmt: skip
    for i, rule in enumerate(rules):

        def look(start: int, stop: int, rule: Rule = rule) -> IntArray:
            seeds: IntArray = mt.matching(start, stop, _NO_SEEDS, target, *rule.arguments)
            return seeds

        def share(done: float, i: int = i) -> None:
            tick((i + done) / len(rules))

        for seed in _scanned(0, n_seeds, look, rule.nanoseconds, 1, share):
            origin = f"forest seed {seed}, found by search among the first {n_seeds:,}"
            trees = tree_seeds(seed, len(target))
            return Draws(drawn_table(trees, rule), origin, seed, True)
    raise _failed([*tried, f"none of {among} fits the model's numbers of distinct rows"])


def _chance(rule: Rule, target: IntArray) -> float:
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
    with Pool() as pool:
        while at < high and len(found) < enough:
            ends = [min(at + i * step, high) for i in range(THREADS + 1)]
            for part in pool.map(look, ends[:-1], ends[1:]):
                found += part.tolist()
            at = ends[-1]
            tick((at - low) / (high - low))
    return found


def _failed(tried: list[str]) -> NotCovered:
    return NotCovered("the trees' draws are not known: " + "; ".join(tried))


def subsampled(release: Release, sampling: Subsample) -> Draws:
    """Recompute which rows each tree saw: 1 for each of them, else 0.

    Raises
    ------
    NotCovered
        Saying what is missing.
    """
    if sampling.hidden:
        raise NotCovered(NOT_RECOMPUTED(why=sampling.hidden))
    if sampling.rule.startswith("LightGBM"):
        return lightgbm_draws(release, sampling)
    if sampling.rule.startswith("XGBoost"):
        return xgboost_draws(release, sampling)
    known = re.fullmatch(r"scikit-learn .* (boosting|bagging)", sampling.rule)
    if known is None:
        raise NotCovered(f"the draws follow the rule {sampling.rule!r:.80}, which is not known")
    n_draws, n_rows = sampling.n_draws, _n_rows(release, sampling)
    if n_draws is None or not 0 < n_draws <= n_rows:
        raise NotCovered(static_message("how many rows each tree drew is not known"))
    check_size(len(release.trees) * n_rows, n_rows)
    if known[1] == "boosting":
        if sampling.forest_seed is None:
            raise NotCovered(static_message("the seed of the model is not in the file"))
        counts = _masks(release, sampling.forest_seed, n_rows, n_draws)
        return Draws(counts, "the model's seed in the file", sampling.forest_seed, checked=False)
    seeds, origin = sampling.tree_seeds, "the trees' seeds in the file"
    if len(seeds) != len(release.trees) or None in seeds:
        if sampling.forest_seed is None:
            raise NotCovered(static_message("the seeds of the trees are not in the file"))
        seeds = tuple(tree_seeds(sampling.forest_seed, len(release.trees)).tolist())
        origin = "the model's seed in the file"
    counts = np.zeros((len(seeds), n_rows), dtype=np.uint8)
    for t, seed in enumerate(seeds):
        rng = np.random.RandomState(seed)
        n_columns = release.n_features
        drawn = n_columns if sampling.columns_drawn is None else sampling.columns_drawn
        if sampling.columns_replaced:
            rng.randint(0, n_columns, drawn)
        else:
            _without_replacement(rng, n_columns, drawn)
        counts[t, _without_replacement(rng, n_rows, n_draws)] = 1
    return Draws(counts, origin, sampling.forest_seed, checked=False)


def _n_rows(release: Release, sampling: Subsample) -> int:
    low, high = sampling.rows_between or (0, 0)
    if release.n_rows is not None:
        if high and not low <= release.n_rows <= high:
            raise BadInput(
                f"the model says that there were {low:,} to {high:,} training rows, not "
                f"{release.n_rows:,}"
            )
        return release.n_rows
    if low == high > 0:
        return low
    between = f": {low:,} to {high:,} fit" if sampling.rows_between else ""
    raise NotCovered(
        f"the number of training rows is not known{between}; give it (n_rows, --n-rows)"
    )


def _masks(release: Release, seed: int, n_rows: int, n_draws: int) -> NDArray[np.uint8]:
    """Rows of each round, for each of its trees."""
    rng = np.random.RandomState(seed)
    outputs = max((tree.output or 0) for tree in release.trees) + 1
    counts = np.zeros((len(release.trees), n_rows), dtype=np.uint8)
    for first in range(0, len(release.trees), outputs):
        # Row i is taken with the probability that one of those still to be taken has.
        chance, taken = rng.uniform(size=n_rows), 0
        for i, threshold in enumerate(chance * (n_rows - np.arange(n_rows))):
            if threshold < n_draws - taken:
                counts[first : first + outputs, i] = 1
                taken += 1
        for _ in range(outputs):
            rng.randint(0, mt.SEED_END)
    return counts


def _without_replacement(rng: np.random.RandomState, n: int, k: int) -> IntArray:
    """Draw as ``sklearn.utils.random.sample_without_replacement`` does."""
    share = k / n if n else 1.0
    if 0.01 < share < 0.99:
        return np.asarray(rng.permutation(n)[:k])
    if share < 0.2:
        taken: list[int] = []
        seen: set[int] = set()
        while len(taken) < k:
            j = int(rng.randint(n))
            if j not in seen:
                seen.add(j)
                taken.append(j)
        return np.array(taken, dtype=np.int64)
    out = np.arange(k)
    for i in range(k, n):
        j = int(rng.randint(0, i + 1))
        if j < k:
            out[j] = i
    return out
