"""What no attack can exceed, beside what attacks reach.

``tiny``: universes in which the best attack is found by trying all guesses for each file: it must
not exceed the bound but with probability delta. ``listed``: files that list some rows as they are,
which an attack reads: the bound must not be below them. ``adult``: a tree of depth 4 on raw Adult.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from experiments.benchmarks.claims import raw_adult
from experiments.benchmarks.frame import CONSOLE, floor, options
from treeleak.bound import bound_of, smallest_excess
from treeleak.release import to_release

DELTAS = (0.3, 0.1, 0.02)
FLOOR = 0.02


def main(argv: Sequence[str] = ()) -> int:
    given = options("bound", __doc__, argv, parts=("tiny", "listed", "adult"), seeds=range(500))
    met = True
    if "tiny" in given.parts:
        reached = [tiny(seed) for seed in given.seeds]
        tight, says = max(share for share, _ in reached), sum(said for _, said in reached)
        met &= floor(
            f"{len(reached)} tiny universes: the bound says something of some file in {says}; the "
            f"best attack exceeds it with at most {tight:.2f} times the probability allowed",
            tight <= 1 and says,
        )
    if "listed" in given.parts:
        gaps = [listed(seed) for seed in given.seeds]
        below = sum(gap < 0 for gap in gaps)
        met &= floor(
            f"{len(gaps)} files that list rows: the bound is above them by {np.median(gaps):.0f} "
            f"rows in the median, and below them in {below}",
            not below,
        )
    if "adult" in given.parts:
        met &= adult()
    return int(not met)


def tiny(seed: int) -> tuple[float, bool]:
    """Give the best attack's chance to exceed the bound over the one allowed, and if it says more.

    Rows are drawn from cells of random probabilities; a file is any function of the table. Its code
    has the length that suits the file's probability, or that of another random law.
    """
    rng = np.random.default_rng(seed)
    n, cells = (int(rng.integers(2, 4)), int(rng.integers(4, 11)))
    p = rng.dirichlet(np.full(cells, rng.choice([0.5, 2.0, 50.0])))
    tables = np.array(list(itertools.product(range(cells), repeat=n)))
    weight = p[tables].prod(axis=1)
    n_files = int(rng.integers(1, 9))
    kind = rng.integers(3)
    if kind == 0:  # Any function of the table.
        file = rng.integers(n_files, size=len(tables))
    elif kind == 1:  # How many rows lie in some of the cells, as in the counts of a tree.
        file = (tables < rng.integers(1, cells)).sum(axis=1)
    else:  # The first row, sometimes.
        file = np.where(rng.random(len(tables)) < 0.5, tables[:, 0], cells)
    file = np.unique(file, return_inverse=True)[1].ravel()
    n_files = int(file.max()) + 1
    law = np.bincount(file, weight, n_files)
    if rng.random() < 0.3:
        law = rng.dirichlet(np.ones(n_files))
    bits = -np.log2(np.maximum(law, 1e-300))
    rare = p <= np.quantile(p, rng.choice([0.5, 0.8, 1.0]))
    hit = min(float(np.sort(p[rare])[::-1][:n].sum()), 1.0)
    guesses = [Counter(g) for g in itertools.combinations_with_replacement(np.flatnonzero(rare), n)]
    rights = np.array([
        [sum(min(k, held[c]) for c, k in guess.items()) for held in map(Counter, tables.tolist())]
        for guess in guesses
    ])  # fmt: skip
    worst, says = 0.0, False
    for delta in DELTAS:
        chance = 0.0
        for f in range(n_files):
            r = smallest_excess(float(bits[f]), n, math.log2(hit), delta)
            if r is not None:
                says = True
                here = file == f
                chance += max((weight * here * (right >= r)).sum() for right in rights)
        worst = max(worst, chance / delta)
    return worst, says


def listed(seed: int) -> int:
    """Give by how many rows the bound exceeds what a file discloses as it is."""
    rng = np.random.default_rng(seed)
    n, each = int(rng.integers(10, 2_000)), float(rng.uniform(2, 60))
    held = int(rng.integers(0, n + 1))
    # A row of uniform cells takes as many bits as it has; the rest can only be guessed.
    r = smallest_excess(held * each, n, min(math.log2(n) - each, 0.0), 1e-6)
    return (n if r is None else r - 1) - held


def adult(n: int = 10_000) -> bool:
    """Bound attacks on a tree of depth 4."""
    from sklearn.tree import DecisionTreeClassifier

    X, y, others, labels = raw_adult(n)
    met = True
    for depth in (2, 4, 6, None):
        model = DecisionTreeClassifier(max_depth=depth, random_state=0).fit(X, y)
        found = bound_of(to_release(model), n_rows=n, control=others, labels=labels)
        if found.rows is None:
            CONSOLE.print(f"depth {depth}: {found.ratio:.2g} times the bits of the table")
            continue
        share = (found.rows - 1) / n
        said = (
            f"depth {depth}: {found.bits:,.0f} bits ({found.code}), {found.ratio:.2g} of the "
            f"table's; at most {found.rows - 1:,} of {n:,} rows ({share:.2%}), of the "
            f"{1 - found.common:.1%} of people in cells of probability 2^{found.log2_q:.1f} or less"
        )
        if depth == 4:
            met = floor(said, share < FLOOR)
        else:
            CONSOLE.print(said)
    return met
