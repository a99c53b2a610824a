"""How many points of a box lie in none of some others, counted exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, IntArray, packed
from treeleak.core.errors import NotCovered
from treeleak.uncertainty.count_kernels import Boxes, Cache, Frames, Tables, count_on

Bits = NDArray[np.uint64]


# Entries of the cache of parts, and the bytes that they may take.
CACHE_SIZE, CACHE_BYTES = 1 << 18, 1 << 27
# Of the tables of one part together: they stay in the fast memory of the processor.
MOST_ENTRIES = 1 << 14
# Some minutes of counting.
MOST_STEPS = 100_000_000
# So many take seconds at most.
SLICE = 1 << 18


class Search:
    """What counting outside of boxes needs, whichever of them: all numbered, room to work in.

    ``sizes`` and ``box``: as of a region. ``boxes`` (sequence of Tests): those to stay out of; each
    restricts some axis of the box, and meets it. These and the box are of atoms that hold values.
    ``exists`` (bool): only say whether there is any point.
    """

    def __init__(
        self,
        sizes: Sequence[IntArray],
        box: Sequence[BoolArray],
        boxes: Sequence[Tests],
        exists: bool = False,
    ) -> None:
        self.exists = exists
        self.taken = 0
        self.n_boxes = n = len(boxes)
        self.axes = {k: a for a, k in enumerate(sorted({k for t in boxes for k in t}))}
        self.tests = np.zeros((n, len(self.axes)), dtype=bool)
        # Of each branch: its atoms, the boxes that hold them, how many values they have.
        self.atoms: list[list[int]] = []
        allow: list[BoolArray] = []
        values: list[int] = []
        start = [0]
        for a, k in enumerate(self.axes):
            on = np.array([j for j, t in enumerate(boxes) if k in t])
            self.tests[on, a] = True
            masks = np.array([boxes[j][k] for j in on])
            kinds: dict[bytes, list[int]] = {}
            for atom in np.flatnonzero(box[k]):
                kinds.setdefault(masks[:, atom].tobytes(), []).append(int(atom))
            for atoms in kinds.values():
                allowed = np.ones(n, dtype=bool)
                allowed[on] = masks[:, atoms[0]]
                allow.append(allowed)
                values.append(1 if exists else int(sizes[k][atoms].sum()))
                self.atoms.append(atoms)
            start.append(len(allow))
        self.allow = np.array(allow)
        self.values = np.array(values, dtype=object)
        self.start = np.array(start)
        total = [1 if exists else sum(values[i:j]) for i, j in pairwise(start)]
        self.total = np.array(total, dtype=object)
        tested = math.prod(int(sizes[k][box[k]].sum()) for k in self.axes)
        self.free = 1 if exists else whole_of(sizes, box) // tested
        moduli = (0,) if exists else _moduli(math.prod(total))
        self.moduli = [p or 2**64 for p in moduli]
        self.fixed = Boxes(
            tests=packed(self.tests),
            occurs=packed(self.tests.T),
            start=self.start,
            allow=packed(self.allow),
            weight=self._residues(self.values),
            total=self._residues(self.total),
            moduli=np.array(moduli, dtype=np.uint64),
        )
        self._room()

    def count(self, n: int, tests: Tests) -> int:
        """Count the points of a box that lie outside of the first ``n``.

        It is the next of them, or the whole (no tests).
        """
        b = self.fixed
        alive = np.arange(self.n_boxes) < n
        keep = np.ones(len(self.allow), dtype=bool)
        held = self.tests
        free = self.free
        if tests:
            held, total = held.copy(), self.total.copy()
            for k, mask in tests.items():
                a = self.axes[k]
                begin, end = self.start[a], self.start[a + 1]
                keep[begin:end] = [mask[atoms[0]] for atoms in self.atoms[begin:end]]
                own = np.flatnonzero(keep[begin:end]) + begin
                alive &= self.allow[own].any(axis=0)
                held[:, a] &= ~self.allow[own].all(axis=0)
                total[a] = 1 if self.exists else sum(self.values[own])
            kept = np.concatenate([[0], keep.cumsum()])
            b = b._replace(
                tests=packed(held),
                occurs=packed(held.T),
                start=kept[self.start],
                allow=b.allow[keep],
                weight=b.weight[keep],
                total=self._residues(total),
            )
        else:
            total = self.total
        if not held[alive].any(axis=1).all():
            return 0
        still: BoolArray = np.any(held[alive], axis=0)
        if not self.exists:
            free *= math.prod(total[~still])
        if not alive.any():
            return min(free, 1) if self.exists else free
        f = self.frames
        f.rest[0], f.open[0] = packed(alive.reshape(1, -1))[0], packed(still.reshape(1, -1))[0]
        f.weight[0] = f.product[0] = 1
        f.sum[0] = 0
        self.cache.used[:] = False
        depth = 0
        while depth >= 0:
            if self.taken >= MOST_STEPS:
                raise NotCovered(
                    f"{self.n_boxes} rules overlap in too many ways to count the rest "
                    f"({MOST_STEPS:,} steps were not enough)"
                )
            # Back here now and then, where the search can be interrupted.
            depth, more = count_on(
                b, f, self.cache, self.tables, depth, self.exists, SLICE, float(MOST_ENTRIES)
            )
            self.taken += more
        found = _joined([int(r) for r in f.sum[0]], self.moduli)
        return found if self.exists else free * found

    def _residues(self, values: Any) -> Bits:
        # In one layout whatever their number, so that the loop is compiled for one.
        return np.array([values % p for p in self.moduli]).T.astype(np.uint64, order="C")

    def _room(self) -> None:
        b = self.fixed
        n, n_words, n_parts = len(self.axes), b.allow.shape[1], b.tests.shape[1]
        n_mod, most = len(b.moduli), int(np.diff(self.start).max())
        n_rows = n + 2
        self.frames = Frames(
            alive=np.zeros((n_rows, n_words), dtype=np.uint64),
            still=np.zeros((n_rows, n_parts), dtype=np.uint64),
            rest=np.zeros((n_rows, n_words), dtype=np.uint64),
            open=np.zeros((n_rows, n_parts), dtype=np.uint64),
            axis=np.zeros(n_rows, dtype=np.int64),
            branch=np.zeros(n_rows, dtype=np.int64),
            slot=np.zeros(n_rows, dtype=np.int64),
            weight=np.zeros((n_rows, n_mod), dtype=np.uint64),
            product=np.zeros((n_rows, n_mod), dtype=np.uint64),
            sum=np.zeros((n_rows, n_mod), dtype=np.uint64),
        )
        most_kept = CACHE_BYTES // (8 * (n_words + n_parts + n_mod))
        n_kept = 1 << int(math.log2(min(CACHE_SIZE, most_kept, 1 << min(n, 40))))
        self.cache = Cache(
            np.zeros((n_kept, n_words + n_parts), dtype=np.uint64),
            np.zeros((n_kept, n_mod), dtype=np.uint64),
            np.zeros(n_kept, dtype=bool),
        )
        self.tables = Tables(
            near=np.zeros((n, n_parts), dtype=np.uint64),
            n_kinds=np.zeros(n, dtype=np.int64),
            kind=np.zeros((n, most), dtype=np.int64),
            many=np.zeros(n_parts, dtype=np.uint64),
            size=np.zeros(n),
            order=np.zeros(n, dtype=np.int64),
            turn=np.zeros(n, dtype=np.int64),
            bag=np.zeros((n, n_parts), dtype=np.uint64),
            table=np.zeros(n, dtype=np.int64),
            next_table=np.zeros(n, dtype=np.int64),
            box=np.zeros(n, dtype=np.int64),
            next_box=np.zeros(self.n_boxes, dtype=np.int64),
            begin=np.zeros(n, dtype=np.int64),
            entries=np.zeros(MOST_ENTRIES, dtype=np.uint64),
            work=np.zeros(MOST_ENTRIES, dtype=np.uint64),
            scale=np.zeros(most, dtype=np.uint64),
            offset=np.zeros(MOST_ENTRIES, dtype=np.int32),
        )


def _joined(residues: Sequence[int], primes: Sequence[int]) -> int:
    """The number below the product of the primes that has these residues."""
    x, modulus = 0, 1
    for r, p in zip(residues, primes, strict=True):
        x += modulus * ((r - x) * pow(modulus, -1, p) % p)
        modulus *= p
    return x


@lru_cache(maxsize=64)
def _moduli(above: int) -> tuple[int, ...]:
    """What tells numbers up to one apart by residues: 2^64 (as 0), and primes below 2^31."""
    out: list[int] = []
    candidates = (n for n in range(2**31 - 1, 2, -2) if _is_prime(n))
    while 2**64 * math.prod(out) <= above:
        out.append(next(candidates))
    return (0, *out)


def _is_prime(n: int) -> bool:
    """Miller and Rabin's test, certain below 3.4e14 with these bases."""
    d, r = n - 1, 0
    while d % 2 == 0:
        d, r = d // 2, r + 1
    for base in (2, 3, 5, 7, 11, 13, 17):
        x = pow(base, d, n)
        if x in (1, n - 1):
            continue
        for _ in range(r - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


Tests = Mapping[int, BoolArray]
"""A box by the axes that it restricts, and the atoms that it leaves of each."""


def relevant(box: Sequence[BoolArray], outside: Sequence[Tests]) -> list[Tests]:
    """What the boxes take from ``box``: those that meet it, with the tests that say something."""
    found: dict[bytes, Tests] = {}
    for tests in outside:
        own = {}
        for k, mask in tests.items():
            left = mask & box[k]
            if not left.any():
                break
            if (left != box[k]).any():
                own[k] = left
        else:
            own = dict(sorted(own.items()))
            key = b"".join(k.to_bytes(4, "big") + m.tobytes() for k, m in own.items())
            found.setdefault(key, own)
    return list(found.values())


def captured(
    sizes: Sequence[IntArray], box: Sequence[BoolArray], rules: Sequence[Tests]
) -> list[int]:
    """Count the points that each rule of an ordered list takes.

    ``sizes``: of each axis, how many values its atoms hold. ``box``: of each axis, the atoms that
    are possible. ``rules``: in the order of the list: a point goes to the first that holds it.
    Returns a number for each rule, and last that of the points which no rule takes; together all
    points of the box. Raises NotCovered if the rules overlap in too many ways.
    """
    out = [0] * (len(rules) + 1)
    whole = whole_of(sizes, box)
    if not whole:
        return out
    box = inhabited(sizes, box)
    # Rules that meet the box, down to one that takes all that is left: the default at last.
    met: list[tuple[int, Tests]] = []
    for j, rule in enumerate((*rules, {})):
        met += [(j, tests) for tests in relevant(box, [rule])]
        if met and not met[-1][1]:
            break
    boxes = [tests for _, tests in met[:-1]]
    if not boxes:
        out[met[0][0]] = whole
        return out
    search = Search(sizes, box, boxes)
    for n, (j, tests) in enumerate(met):
        out[j] = search.count(n, tests)
    return out


def whole_of(sizes: Sequence[IntArray], box: Sequence[BoolArray]) -> int:
    """Count the points of a box."""
    return math.prod(int(s[m].sum()) for s, m in zip(sizes, box, strict=True))


def inhabited(sizes: Sequence[IntArray], box: Sequence[BoolArray]) -> tuple[BoolArray, ...]:
    """Leave the atoms out that hold no value."""
    return tuple(m & (s > 0) for s, m in zip(sizes, box, strict=True))


def count_outside(
    sizes: Sequence[IntArray],
    box: Sequence[BoolArray],
    outside: Sequence[Tests],
    exists: bool = False,
) -> int:
    """Count the points of a box that lie in no other; 1 or 0 where only that is asked."""
    whole = whole_of(sizes, box)
    box = inhabited(sizes, box)
    boxes = relevant(box, outside) if whole else []
    if not boxes or not all(boxes):
        return 0 if not all(boxes) else (min(whole, 1) if exists else whole)
    return Search(sizes, box, boxes, exists).count(len(boxes), {})
