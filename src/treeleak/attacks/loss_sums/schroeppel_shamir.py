"""Whole numbers of items whose sums are known exactly, from four lists instead of two.

Numbers of single precision are multiples of one power of two, and so are their sums: in units of
it, a sum is a whole number. Choices for a quarter of the items are listed, and those for two
quarters are made as they are needed: all whose sums leave the same rest, one rest after the other.
That takes the time of all choices for a half, but only the memory of those for a quarter
(Howgrave-Graham and Joux 2010, section 2, after Schroeppel and Shamir 1981).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from treeleak.attacks.loss_sums.sum_kernels import Quarter, four_way
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.parallel import THREADS, Pool, run_all

_LEAST_BIT, _MOST_BITS = 20, 46
"""Sums are multiples of a power of two between these."""
_MOST_SUMS = 16
"""Whole numbers that a sum may stand for, at most."""
_SLICE = 2**24
"""Choices that a kernel looks at in one go: only between two of these can it be broken off."""


def bits_of(second: FloatArray) -> int | None:
    """Find a power of two, 2^-k, that numbers are multiples of; None if there is none."""
    for k in range(_LEAST_BIT, _MOST_BITS + 1, 2):
        x = second * 2.0**k
        if (x == np.rint(x)).all():
            return k
    return None


def wanted_sums(second: float, off: float, bits: int) -> IntArray | None:
    """List the whole numbers, in units, that a sum may stand for; None if there are too many."""
    low, high = (second - off) * 2.0**bits, (second + off) * 2.0**bits
    if high - low > _MOST_SUMS:
        return None
    return np.arange(int(np.ceil(low)), int(np.floor(high)) + 1)


def quadruples(
    key: list[IntArray],
    first: list[FloatArray],
    wanted: IntArray,
    total: tuple[float, float, float],
    n_most: int,
) -> IntArray | None:
    """Find choices, one of each quarter, that meet both sums.

    Parameters
    ----------
    key, first : lists of four arrays
        What the choices of each quarter add to either sum.
    wanted : int array
        What keys must come to: any of these.
    total : tuple
        What ``first`` must come to, up to a whole number; by how much it may be off; and by how
        much more for each of the whole number.
    n_most : int

    Returns
    -------
    int array, shape (n_found, 4), or None if there are more than ``n_most``.
    """
    if not len(wanted):
        return np.zeros((0, 4), dtype=np.int64)
    sizes = [float(len(x)) for x in key]
    half = max(sizes[0] * sizes[1], sizes[2] * sizes[3])
    modulus = 2 * (int(np.sqrt(half)) // 2) + 1
    a, b, c, d = (_by_rest(k, f, modulus) for k, f in zip(key, first, strict=True))
    step = min(int(_SLICE * modulus / (half * (1 + len(wanted)))), modulus // THREADS) + 1

    def some(rest: int) -> IntArray | None:
        out = np.empty((n_most, 4), dtype=np.int64)
        end = min(rest + step, modulus)
        n = four_way(a, b, c, d, modulus, rest, end, wanted, *total, out)
        return out[:n] if n >= 0 else None

    found, n = [np.zeros((0, 4), dtype=np.int64)], 0
    with Pool() as pool:
        # Not all at once: one that waits for them can be broken off between two.
        for begin in range(0, modulus, THREADS * step):
            rests = range(begin, min(begin + THREADS * step, modulus), step)
            for each in run_all([partial(some, rest) for rest in rests], pool=pool):
                n += n_most + 1 if each is None else len(each)
                if each is None or n > n_most:
                    return None
                found.append(each)
    return np.concatenate(found)


def _by_rest(key: IntArray, first: FloatArray, modulus: int) -> Quarter:
    """Sort choices by the rest that their keys leave; and where each rest begins."""
    rest = key % modulus
    order = np.argsort(rest, kind="stable")
    begin = np.append(0, np.cumsum(np.bincount(rest, minlength=modulus)))
    return key[order], first[order], rest[order], begin, order
