"""Which rows each tree of XGBoost drew (``hist``), and how, where the file does not say.

Found out from its source, and checked by training: before each tree, the next number of the
Mersenne Twister that the model's seed starts (the first one is for columns) starts another
generator, x -> 16807 x modulo 2^63; row k is in if number k of it, as a fraction, is less than the
share. So a row is in or not whatever the other rows are, and how many there are.

Files that ``save_model`` writes hold neither seed nor share. But the sum of hessians at a root is
the number of rows that its tree drew times their mean, which changes little from tree to tree. So
the log of one over the other is smooth for the right seed and share, and jumps for others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray
from treeleak.core.errors import NotCovered
from treeleak.core.message import static_message

_FACTOR, _MASK = 16807, 2**63 - 1
_COARSE, _FINE = (tuple(round(0.01 * k, 2) for k in range(30, 100, by)) for by in (5, 1))
"""Shares that are tried with every seed, and where the seed or the number of rows is known."""
_SEEDS, _WORK = 1000, 3e8
"""Seeds from 0 that are tried, fewer where there are many rows; rows times trees looked at."""
_TREES, _FEWEST, _CUBIC = 30, 12, 4
"""First trees by which seeds are chosen, least trees, and coefficients of what is smooth."""
_KEPT = 60
"""Of the smoothest, how many all trees judge."""
_CLEAR = 12.0
"""By how much the log likelihood of the best seed must exceed that of others. Where no seed was
right, the best was ahead by 9 at most in 60 models; where one was, by 17 at least in 24."""
MOST_NUMBERS = 4
"""Numbers of rows that are told apart later, at most, by the rows that meet all sums."""
NOT_FOUND = static_message(
    "the XGBoost file does not hold which rows each tree saw, and no seed from 0 to 999 with a "
    "share of rows (subsample) of 0.3 to 0.99 explains its sums of hessians"
)


class Guess(NamedTuple):
    """How trees drew."""

    seed: int
    share: float
    n_rows: int


@lru_cache(maxsize=1)
def generator_powers(
    n: int, factor: int, step: int, mask: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Factors and steps of a generator x -> factor x + step taken 1 to n times, by doubling.

    ``mask``: one less than its modulus, a power of two. The seed has no part in them: for many
    seeds, they are worked out once.
    """
    factors, steps = np.array([factor], np.uint64), np.array([step], np.uint64)
    bits = np.uint64(mask)
    while len(factors) < n:
        last = factors[-1]
        steps = np.concatenate([steps, (factors * steps[-1] + steps) & bits])
        factors = np.concatenate([factors, (factors * last) & bits])
    return factors[:n], steps[:n]


def fractions(seed: int, n_rows: int, n_trees: int) -> FloatArray:
    """Give what is held against the share, shape (n_trees, n_rows)."""
    twister = np.random.RandomState(seed).randint(0, 2**32, n_trees + 1, dtype=np.uint32)
    start = np.maximum(twister[1:].astype(np.uint64), 1)
    factors, _ = generator_powers(n_rows, _FACTOR, 0, _MASK)
    number = (factors * start[:, None]) & np.uint64(_MASK)
    return np.asarray((number - np.uint64(1)) / float(2**63 - 2))


def rows_drawn(seed: int, share: float, n_rows: int, n_trees: int) -> NDArray[np.uint8]:
    """Say which rows each tree drew, shape (n_trees, n_rows)."""
    drawn = fractions(seed, n_rows, n_trees) < float(np.float32(share))
    return drawn.astype(np.uint8)


def likeliest(roots: FloatArray, n_first: int, n_rows: int | None) -> list[Guess]:
    """Find seed, share and number of rows.

    Of one seed, several numbers of rows may fit: the likeliest comes first.

    Parameters
    ----------
    roots : float array, shape (n_trees,)
        Sums of hessians at the roots.
    n_first : int
        How many rows the first tree drew.
    n_rows : int or None
        How many there were, if that is known.

    Raises
    ------
    NotCovered
        If no seed is far ahead of others.
    """
    if len(roots) < _FEWEST or not (roots > 0).all():
        raise NotCovered(NOT_FOUND)
    logs, n_trees = np.log(roots), min(_TREES, len(roots))
    smooth, _ = np.linalg.qr(np.vander(np.linspace(-1, 1, n_trees), _CUBIC))
    most = int(1.3 * n_first / _COARSE[0]) + 60
    shares = _COARSE if n_rows is None else _FINE
    found: list[tuple[float, Guess]] = []
    for seed in range(min(_SEEDS, max(int(_WORK / (most * n_trees)), 1))):
        fraction = fractions(seed, most, n_trees)
        for guess in _of_count(seed, shares, fraction[0], n_first, n_rows):
            off = logs[:n_trees] - np.log(_counts(fraction, guess))
            off -= smooth @ (smooth.T @ off)
            found.append((float(off @ off), guess))
    weighed = sorted(((_likelihood(logs, guess), guess) for _, guess in sorted(found)[:_KEPT]))
    if not weighed:
        raise NotCovered(NOT_FOUND)
    best, chosen = weighed[-1]
    others = [weight for weight, guess in weighed if guess.seed != chosen.seed]
    if not others or best - max(others) < _CLEAR:
        raise NotCovered(NOT_FOUND)
    first = fractions(chosen.seed, most, 1)[0]
    finer = _of_count(chosen.seed, _FINE, first, n_first, n_rows)
    of_number = dict[int, Guess]()
    for guess in sorted(finer, key=lambda each: _likelihood(logs, each), reverse=True):
        of_number.setdefault(guess.n_rows, guess)
    return list(of_number.values())[:MOST_NUMBERS]


def _of_count(
    seed: int, shares: Sequence[float], first: FloatArray, n_first: int, n_rows: int | None
) -> Iterator[Guess]:
    """List shares and numbers of rows of which the first tree draws so many."""
    for share in shares:
        count = np.cumsum(first < float(np.float32(share)))
        low, high = np.searchsorted(count, [n_first, n_first + 1]) + 1
        for n in range(int(low), int(high)) if n_rows is None else (n_rows,):
            if low <= n < high:
                yield Guess(seed, share, n)


def _counts(fraction: FloatArray, guess: Guess) -> FloatArray:
    drawn = fraction[:, : guess.n_rows] < float(np.float32(guess.share))
    return np.asarray(np.maximum(drawn.sum(axis=1), 0.5))


def _likelihood(logs: FloatArray, guess: Guess) -> float:
    """Weigh a guess by all trees: later ones are rougher, for rows differ more by then."""
    n_trees = len(logs)
    off = logs - np.log(_counts(fractions(guess.seed, guess.n_rows, n_trees), guess))
    smooth = np.vander(np.linspace(-1, 1, n_trees), 7)
    later = np.vander(np.log(np.arange(n_trees) / n_trees + 0.02), 2)
    log_variance = np.zeros(n_trees)
    for _ in range(4):
        weight = np.exp(-0.5 * (log_variance - log_variance.mean()))[:, None]
        slope = np.linalg.lstsq(smooth * weight, off * weight[:, 0], rcond=None)[0]
        left = off - smooth @ slope
        log_variance = later @ np.linalg.lstsq(later, np.log(left**2 + 1e-12), rcond=None)[0]
    log_variance += np.log(np.mean(left**2 / np.exp(log_variance)))
    return float(-0.5 * (log_variance + left**2 / np.exp(log_variance)).sum())
