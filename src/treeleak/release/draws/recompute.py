"""Which rows each tree of a bootstrapped ensemble draws, given its seed.

scikit-learn's rule has not changed since 0.24 but for weighted rows, which it draws with unequal
chances in a forest since 1.9 and in a bagging since 1.8 (before, weights multiply the draws). A
forest and a bagging hand their trees the same seeds; a bagging's tree draws its columns first. So
the rule follows from what the release says, and no function of an installed scikit-learn, of
whatever version, is asked.

Also, which rows early stopping kept from the trees, given the seed: by scikit-learn's
``train_test_split``, whose rule has not changed since 0.24, or by Yggdrasil's rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.message import MessageTemplate, static_message
from treeleak.core.private import dataclass
from treeleak.release.draws import mt19937_kernels as mt
from treeleak.release.release import Release
from treeleak.release.sampling import YGGDRASIL, Bootstrap, HeldBack


def fitted_rows(held: HeldBack, n_rows: int, labels: Any) -> IntArray:
    """List the rows that trees were fitted to, in the order in which they were.

    ``labels``: their classes, which are asked for where these were held back in equal shares.

    Raises
    ------
    BadInput
        If the labels are missing, or no row would be left.
    """
    if held.rule == YGGDRASIL:
        return np.flatnonzero(kept_for_training(held.seed, held.share, n_rows))
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


def kept_for_training(seed: int, share: float, n_rows: int) -> BoolArray:
    """Say which rows Yggdrasil fits trees to: each is held back by itself, by chance."""
    unit = stream(np.random.RandomState(), seed, n_rows).astype(np.float32) / np.float32(2**32)
    return np.asarray(unit > np.float32(share))


def stream(random: np.random.RandomState, seed: int, n: int) -> NDArray[np.uint64]:
    """Give the first numbers of 32 bits; to set a seed is far faster than to make a generator."""
    random.seed(seed)
    return np.frombuffer(random.bytes(4 * n), "<u4").astype(np.uint64)


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


# Draws, or entries of the table of them; beyond, neither time nor memory is reasonable.
MAX_ENTRIES = 2**31
MAX_ROWS = 10_000_000


NOT_RECOMPUTED = MessageTemplate(
    "draws_not_recomputed", "the draws cannot be recomputed: {why:foreign}"
)


@dataclass(frozen=True, eq=False)
class Draws:
    """How often each tree drew each row."""

    counts: NDArray[np.unsignedinteger[Any]]
    """Shape (n_trees, n_rows)."""
    origin: str
    """Where the draws come from, in words."""
    forest_seed: int | None
    """The forest's seed that gave the trees theirs; None where the trees' own were used."""
    checked: bool
    """Whether the model's numbers of distinct rows confirm the draws; False where it has none."""

    def __str__(self) -> str:
        return self.origin


# ------------------------------------------------------------------------ what the release says


@dataclass(frozen=True, eq=False)
class Seeds:
    """Seeds of the trees, and where they come from."""

    trees: IntArray
    origin: str
    forest: int | None = None


@dataclass(frozen=True, eq=False)
class Rule:
    """How a tree's seed becomes draws; see :mod:`treeleak.release.draws.mt19937_kernels`."""

    n_rows: int  # 0: not known
    n_draws: int
    before: IntArray
    apart: bool
    cdf: FloatArray

    @property
    def arguments(self) -> tuple[int, int, IntArray, bool, FloatArray]:
        """What the compiled loops take."""
        return self.n_rows, self.n_draws, self.before, self.apart, self.cdf

    @property
    def nanoseconds(self) -> float:
        """What one tree takes, roughly."""
        return 2000 + self.n_draws * (50 if self.cdf.size else 1.5) + 20 * len(self.before)


def rules_of(release: Release, sampling: Bootstrap) -> list[Rule]:
    """Every way to draw that the release leaves open, the likeliest first."""
    if not release.trees:
        raise NotCovered(static_message("a model without trees"))
    known = re.fullmatch(r"scikit-learn .* (forest|bagging)", sampling.rule)
    if sampling.rule and not known:
        raise NotCovered(f"the draws follow the rule {sampling.rule!r:.80}, which is not known")
    # Find the number of draws per tree, on which all that the release says must agree.
    sources = {} if sampling.n_draws is None else {sampling.n_draws: "the model"}
    for t, tree in enumerate(release.trees):
        total = None
        if release.counts_are == "draws" and tree.counts is not None:
            total = tree.counts[0].sum()
        elif release.counts_are in ("draws", "none") and tree.totals is not None:
            total = tree.totals[0]
        if total is not None:
            sources.setdefault(int(total), f"tree {t}")
    if not sources:
        raise NotCovered(static_message("the model does not say how many rows each tree drew"))
    if len(sources) > 1:
        first, second, *_ = (f"{n} in {where}" for n, where in sources.items())
        raise NotCovered(f"the numbers of draws differ: {first}, {second}")
    n_draws, n_rows, weights = next(iter(sources)), release.n_rows, sampling.row_weights
    if n_rows is None and weights is not None:
        n_rows = len(weights)
    elif n_rows is None and sampling.rows_between is not None:
        low, high = sampling.rows_between
        n_rows = low if low == high else None
    if n_rows == 0 or n_draws == 0:
        raise NotCovered(static_message("the model says that no rows were drawn"))
    if weights is not None and len(weights) != n_rows:
        raise NotCovered(f"the model has {n_rows} rows, and weights of {len(weights)}")

    m = release.n_features
    columns = [(0, False)]
    if sampling.columns_drawn is not None:
        columns = [(sampling.columns_drawn, sampling.columns_replaced)]
    elif known is None or known[1] == "bagging":
        # Half of the columns stands for any number of them that needs a shuffle.
        columns += [((m + 1) // 2, False), (m, True)]
    out: dict[Any, Rule] = {}
    for n_drawn, replaced in columns:
        before, apart = _columns(m, n_drawn, replaced)
        most = max(n_rows or 1, n_draws)
        check_size(len(release.trees) * max(most, len(before)), most)
        for cdf in _cumulated(weights):
            key = before.tobytes(), apart, cdf.tobytes()
            out.setdefault(key, Rule(n_rows or 0, n_draws, before, apart, cdf))
    return list(out.values())


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


def check_size(in_all: int, per_tree: int) -> None:
    """Refuse more draws than can be worked with."""
    if in_all > MAX_ENTRIES or per_tree > MAX_ROWS:
        raise NotCovered(f"{per_tree:g} rows or draws per tree, {in_all:g} in all, are too many")


def drawn_table(seeds: IntArray, rule: Rule) -> NDArray[np.unsignedinteger[Any]]:
    """Count how often each tree drew each row."""
    check_size(len(seeds) * rule.n_rows, rule.n_rows)
    counts: NDArray[np.unsignedinteger[Any]] = np.zeros((len(seeds), rule.n_rows), dtype="u1")
    while not mt.tally(seeds, *rule.arguments, counts):
        counts = np.zeros_like(counts, dtype=f"u{2 * counts.itemsize}")
    return counts
