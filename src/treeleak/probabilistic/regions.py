"""Where a row may lie: a box, less the boxes of those that were served before."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from treeleak.errors import NotCovered
from treeleak.probabilistic._count_kernels import count_outside

__all__ = ["Region", "Tests"]

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Tests = Mapping[int, Mask]
"""A box by the axes that it restricts, and the atoms that it leaves of each."""

CACHE_SIZE = 1 << 16
# Some minutes of counting.
MOST_STEPS = 300_000_000
# Draw and refuse as long as one of so many points is kept; beyond, split first.
REFUSED = 30


@dataclass(frozen=True, eq=False)
class Region:
    """Points of ``box`` that lie in no box of ``outside``; with ``inside``, in one of these.

    Attributes
    ----------
    sizes : tuple of int array
        Of each axis, how many values its atoms hold.
    box : tuple of bool array
        Of each axis, the atoms that are possible.
    outside : tuple of Tests
    inside : tuple of Tests
        Empty if there is no such condition.
    """

    sizes: tuple[Ints, ...]
    box: tuple[Mask, ...]
    outside: tuple[Tests, ...] = ()
    inside: tuple[Tests, ...] = ()

    @cached_property
    def size(self) -> int:
        """How many points there are."""
        n = _count(self.sizes, self.box, self.outside)
        if self.inside and n:
            n -= _count(self.sizes, self.box, (*self.outside, *self.inside))
        return n

    @property
    def bits(self) -> float:
        """Entropy of a point of which only the region is known; -inf where it is empty."""
        return math.log2(self.size) if self.size else -math.inf

    @property
    def empty(self) -> bool:
        """Whether there is no point at all."""
        if self.inside:
            return self.size == 0
        return not _count(self.sizes, self.box, self.outside, exists=True)

    @property
    def is_box(self) -> bool:
        """Whether the axes are independent."""
        return not (self.inside or _relevant(self.box, self.outside))

    def restricted(self, tests: Tests) -> Region:
        """The part that lies in another box as well."""
        box = tuple(m & tests[k] if k in tests else m for k, m in enumerate(self.box))
        return replace(self, box=box)

    def without(self, boxes: Sequence[Tests]) -> Region:
        """The part that lies outside of further boxes."""
        return replace(self, outside=(*self.outside, *boxes))

    def possible(self) -> tuple[Mask, ...]:
        """Atoms of each axis that some point of the region has."""
        seen = [np.zeros(len(m), dtype=bool) for m in self.box]
        if self.empty:
            return tuple(seen)
        if self.is_box:
            return self.box
        rng = np.random.default_rng(0)
        some = _points(self.sizes, self.box, 500, rng)
        some = some[self.holds(some)]
        for k, mask in enumerate(seen):
            mask[some[:, k]] = True
        tested = {k for t in (*self.outside, *self.inside) for k in t}
        for k, mask in enumerate(seen):
            if k not in tested:
                # Nothing ties it to the others.
                mask[:] = self.box[k]
                continue
            for atoms in self._alike(k):
                if not mask[atoms].any() and not self.restricted({k: atoms}).empty:
                    mask[atoms] = True
                mask[atoms] = mask[atoms].any()
        return tuple(seen)

    def holds(self, atoms: Ints) -> Mask:
        """Say which points, shape (n_points, n_axes) of atoms, lie in the region."""
        held = np.ones(len(atoms), dtype=bool)
        for k, mask in enumerate(self.box):
            if not mask.all():
                held &= mask[atoms[:, k]]
        for tests in self.outside:
            held &= ~_lies_in(tests, atoms)
        if self.inside:
            held &= np.logical_or.reduce([_lies_in(tests, atoms) for tests in self.inside])
        return held & (atoms >= 0).all(axis=1)

    def draw(self, n: int, rng: np.random.Generator) -> Ints:
        """Draw points, all alike; shape (n, n_axes)."""
        whole = math.prod(int(s[m].sum()) for s, m in zip(self.sizes, self.box, strict=True))
        if n and whole > REFUSED * self.size:
            return self._split(n, rng)
        out: list[Ints] = [np.zeros((0, len(self.box)), dtype=np.int64)]
        short = n
        while short:
            share = max(self.size / whole, 1e-3)
            points = _points(self.sizes, self.box, int(short / share * 1.1) + 10, rng)
            out.append(points[self.holds(points)][:short])
            short -= len(out[-1])
        return np.concatenate(out)

    def changes_to(self, atoms: Ints) -> int:
        """Least number of axes that must change to bring a point (atoms) into the region.

        One more than there are, if the region is empty.
        """
        if self.empty:
            return len(self.box) + 1
        must = [k for k, m in enumerate(self.box) if atoms[k] < 0 or not m[atoms[k]]]
        tied = {k for t in (*self.outside, *self.inside) for k in t} - set(must)
        for more in range(len(tied) + 1):
            for also in combinations(sorted(tied), more):
                kept = set(range(len(self.box))) - {*must, *also}
                same = {k: np.arange(len(self.box[k])) == atoms[k] for k in kept}
                if not self.restricted(same).empty:
                    return len(must) + more
        return len(self.box) + 1

    def _split(self, n: int, rng: np.random.Generator) -> Ints:
        """Share ``n`` points among the parts along the axis that most boxes restrict."""
        boxes = _relevant(self.box, self.outside) or list(self.inside)
        load = np.bincount([k for t in boxes for k in t], minlength=len(self.box))
        open_ = np.array([len(self._alike(k)) > 1 for k in range(len(self.box))])
        k = int(np.where(open_, load, -1).argmax())
        parts = [self.restricted({k: atoms}) for atoms in self._alike(k)]
        share = np.array([part.size / self.size for part in parts])
        drawn = rng.multinomial(n, share / share.sum())
        points = np.concatenate(
            [part.draw(int(m), rng) for part, m in zip(parts, drawn, strict=True) if m]
        )
        return points[rng.permutation(n)]

    def _alike(self, k: int) -> list[Mask]:
        """Atoms of an axis that no box tells apart."""
        own = [t[k] for t in (*self.outside, *self.inside) if k in t]
        at = np.flatnonzero(self.box[k])
        if not len(at) or not own:
            return [self.box[k]]
        kind = np.unique(np.array(own)[:, at], axis=1, return_inverse=True)[1].ravel()
        out = []
        for c in range(kind.max() + 1):
            mask = np.zeros(len(self.box[k]), dtype=bool)
            mask[at[kind == c]] = True
            out.append(mask)
        return out


def _lies_in(tests: Tests, atoms: Ints) -> Mask:
    held = np.ones(len(atoms), dtype=bool)
    for k, mask in tests.items():
        held &= mask[atoms[:, k]]
    return held


def _points(sizes: Sequence[Ints], box: Sequence[Mask], n: int, rng: np.random.Generator) -> Ints:
    out = np.empty((n, len(box)), dtype=np.int64)
    for k, (size, mask) in enumerate(zip(sizes, box, strict=True)):
        weight = np.where(mask, size, 0).astype(float)
        ends = np.cumsum(weight)
        out[:, k] = np.searchsorted(ends, rng.random(n) * ends[-1], side="right")
    return out


def _relevant(box: Sequence[Mask], outside: Sequence[Tests]) -> list[Tests]:
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


def _count(
    sizes: Sequence[Ints], box: Sequence[Mask], outside: Sequence[Tests], exists: bool = False
) -> int:
    """Count the points of a box that lie in no other; 1 or 0 where only that is asked."""
    each = [int(s[m].sum()) for s, m in zip(sizes, box, strict=True)]
    whole = math.prod(each)
    boxes = _relevant(box, outside) if whole else []
    if not boxes or not all(boxes):
        return 0 if not all(boxes) else (whole > 0 if exists else whole)
    axes = sorted({k for t in boxes for k in t})
    free = whole // math.prod(each[k] for k in axes)
    n_words, n_parts = -(-len(boxes) // 64), -(-len(axes) // 64)
    tests = np.zeros((len(boxes), len(axes)), dtype=bool)
    start, allow, weight = [0], [], []
    for a, k in enumerate(axes):
        own = [j for j, t in enumerate(boxes) if k in t]
        tests[own, a] = True
        at = np.flatnonzero(box[k] & (sizes[k] > 0))
        masks = np.array([boxes[j][k][at] for j in own])
        kinds, kind = np.unique(masks, axis=1, return_inverse=True)
        for c in range(kinds.shape[1]):
            allowed = np.ones(len(boxes), dtype=bool)
            allowed[own] = kinds[:, c]
            allow.append(allowed)
            weight.append(int(sizes[k][at[kind.ravel() == c]].sum()))
        start.append(len(allow))
    total = [each[k] for k in axes]
    primes = (3,) if exists else _primes(math.prod(total))
    if exists:
        total, weight = [1] * len(total), [1] * len(weight)
    out = np.zeros(len(primes), dtype=np.int64)
    steps = np.array([0, MOST_STEPS])
    n_kept = min(CACHE_SIZE, 1 << min(len(axes) + 4, 40))
    count_outside(
        _bits(np.ones((1, len(boxes)), dtype=bool))[0],
        _bits(np.ones((1, len(axes)), dtype=bool))[0],
        _bits(tests),
        np.array(start),
        _bits(np.array(allow)),
        np.array([[w % p for p in primes] for w in weight]),
        np.array([[w % p for p in primes] for w in total]),
        np.array(primes),
        np.zeros((n_kept, n_words + n_parts), dtype=np.uint64),
        np.zeros((n_kept, len(primes)), dtype=np.int64),
        np.zeros(n_kept, dtype=bool),
        exists,
        steps,
        out,
    )
    if steps[0] > steps[1]:
        raise NotCovered(
            f"{len(boxes)} rules overlap in too many ways to count what they leave "
            f"({MOST_STEPS:,} steps were not enough)"
        )
    return int(out[0]) if exists else free * _joined([int(r) for r in out], primes)


def _bits(rows: Mask) -> NDArray[np.uint64]:
    """Pack rows of truth values into words of 64."""
    wide = np.zeros((len(rows), -(-rows.shape[1] // 64) * 64), dtype=bool)
    wide[:, : rows.shape[1]] = rows
    return np.packbits(wide, axis=1, bitorder="little").view(np.uint64)


def _joined(residues: Sequence[int], primes: Sequence[int]) -> int:
    """The number below the product of the primes that has these residues."""
    x, modulus = 0, 1
    for r, p in zip(residues, primes, strict=True):
        x += modulus * ((r - x) * pow(modulus, -1, p) % p)
        modulus *= p
    return x


@lru_cache(maxsize=64)
def _primes(above: int) -> tuple[int, ...]:
    """As many primes below 2^31 as it takes for their product to exceed a number."""
    out: list[int] = []
    candidates = (n for n in range(2**31 - 1, 2, -2) if _is_prime(n))
    while math.prod(out) <= above:
        out.append(next(candidates))
    return tuple(out)


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
