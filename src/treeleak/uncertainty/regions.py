"""Where a row may lie: a box, less the boxes of those that were served before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.private import dataclass
from treeleak.uncertainty.counting import (
    Search,
    Tests,
    count_outside,
    inhabited,
    relevant,
)


@dataclass(frozen=True, eq=False)
class Region:
    """Points of ``box`` that lie in no box of ``outside``; with ``inside``, in one of these."""

    sizes: tuple[IntArray, ...]
    """Of each axis, how many values its atoms hold."""
    box: tuple[BoolArray, ...]
    """Of each axis, the atoms that are possible."""
    outside: tuple[Tests, ...] = ()
    inside: tuple[Tests, ...] = ()
    """Empty if there is no such condition."""

    @cached_property
    def size(self) -> int:
        """How many points there are."""
        n = count_outside(self.sizes, self.box, self.outside)
        if self.inside and n:
            n -= count_outside(self.sizes, self.box, (*self.outside, *self.inside))
        return n

    @property
    def empty(self) -> bool:
        """Whether there is no point at all."""
        if self.inside:
            return self.size == 0
        return not count_outside(self.sizes, self.box, self.outside, exists=True)

    @property
    def is_box(self) -> bool:
        """Whether the axes are independent."""
        return not (self.inside or relevant(self.box, self.outside))

    def restricted(self, tests: Tests) -> Region:
        """The part that lies in another box as well."""
        box = tuple(m & tests[k] if k in tests else m for k, m in enumerate(self.box))
        return replace(self, box=box)

    def possible(self) -> tuple[BoolArray, ...]:
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
        box = inhabited(self.sizes, self.box)
        boxes = relevant(box, self.outside)
        search = Search(self.sizes, box, boxes, True) if boxes and not self.inside else None
        tested = {k for t in (*boxes, *self.inside) for k in t}
        for k, mask in enumerate(seen):
            if k not in tested:
                # Nothing ties it to the others.
                mask[:] = self.box[k]
                continue
            for atoms in self._alike(k, (*boxes, *self.inside)):
                if mask[atoms].any():
                    mask[atoms] = True
                elif search is None:
                    mask[atoms] = not self.restricted({k: atoms}).empty
                else:
                    mask[atoms] = search.count(len(boxes), {k: atoms}) > 0
        return tuple(seen)

    def holds(self, atoms: IntArray) -> BoolArray:
        """Say which points, shape (n_points, n_axes) of atoms, lie in the region."""
        held = np.ones(len(atoms), dtype=bool)
        for k, mask in enumerate(self.box):
            if not mask.all():
                held &= mask[atoms[:, k]]
        for tests in self.outside:
            held &= ~lies_in(tests, atoms)
        if self.inside:
            held &= np.logical_or.reduce([lies_in(tests, atoms) for tests in self.inside])
        return held & (atoms >= 0).all(axis=1)

    def changes_to(self, atoms: IntArray) -> int:
        """Least number of axes that must change to bring a point (atoms) into the region.

        One more than there are, if the region is empty.
        """
        if self.inside:
            parts = (replace(self.restricted(tests), inside=()) for tests in self.inside)
            return min(part.changes_to(atoms) for part in parts)
        if self.empty:
            return len(self.box) + 1
        must = frozenset(k for k, m in enumerate(self.box) if atoms[k] < 0 or not m[atoms[k]])
        more = 0
        while not self._reached(atoms, must, more):
            more += 1
        return len(must) + more

    def _reached(self, atoms: IntArray, free: frozenset[int], more: int) -> bool:
        """Say whether changes of the axes ``free``, and of so many more, lead into the region."""
        held = []
        for tests in self.outside:
            kept = tests.keys() - free
            if all(tests[k][atoms[k]] for k in kept):
                held.append((kept, len(kept) == len(tests)))
        certain = [kept for kept, whole in held if whole]
        if not certain:
            same = {k: np.arange(len(m)) == atoms[k]
                    for k, m in enumerate(self.box) if k not in free}  # fmt: skip
            if not held or not self.restricted(same).empty:
                return True
        if not more:
            return False
        # A box that holds the point must be left; other changes than these leave none.
        ways = min(certain, key=len) if certain else set().union(*(kept for kept, _ in held))
        return any(self._reached(atoms, free | {k}, more - 1) for k in sorted(ways))

    def _alike(self, k: int, boxes: Sequence[Tests]) -> list[BoolArray]:
        """Atoms of an axis that hold values, and that no box tells apart."""
        own = [t[k] for t in boxes if k in t]
        at = np.flatnonzero(self.box[k] & (self.sizes[k] > 0))
        if not len(at) or not own:
            return [self.box[k]]
        kind = np.unique(np.array(own)[:, at], axis=1, return_inverse=True)[1].ravel()
        out = []
        for c in range(kind.max() + 1):
            mask = np.zeros(len(self.box[k]), dtype=bool)
            mask[at[kind == c]] = True
            out.append(mask)
        return out


def _points(
    sizes: Sequence[IntArray], box: Sequence[BoolArray], n: int, rng: np.random.Generator
) -> IntArray:
    out = np.empty((n, len(box)), dtype=np.int64)
    for k, (size, mask) in enumerate(zip(sizes, box, strict=True)):
        weight = np.where(mask, size, 0).astype(float)
        ends = np.cumsum(weight)
        out[:, k] = np.searchsorted(ends, rng.random(n) * ends[-1], side="right")
    return out


def lies_in(tests: Tests, atoms: IntArray) -> BoolArray:
    """Say which points (atoms) lie in a box."""
    held = np.ones(len(atoms), dtype=bool)
    for k, mask in tests.items():
        held &= mask[atoms[:, k]]
    return held
