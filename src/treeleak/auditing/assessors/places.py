"""Places of rows: what all trees admit, as boxes, and how likely it is that a person lies there.

Between two neighbouring thresholds of a column, all values go the same way in all trees. They are
one *atom*. Boxes are written in atoms, so that comparing them is exact.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.private import dataclass, shows_no_value
from treeleak.release.bounds import MOST_CATEGORY
from treeleak.release.release import Release
from treeleak.release.statistics import DRAWS, ROWS
from treeleak.release.tree import Tree
from treeleak.schema import Categorical, Numeric, Schema

NARROW = 0.05
"""Share of the range of a column that a pinned column may keep."""
MOST_ATOMS = 62
"""Of a column that is tested for categories: a bit each, in a whole number of 64 bits."""
MISSING = np.int64(1) << MOST_ATOMS
"""The bit of a missing value."""
_ROUNDS, _LEAST = 30, 1e-12
_MOST_LEAVES = 50_000


@shows_no_value
class Boxes(NamedTuple):
    """Boxes: of each column the atoms from ``low`` to ``high``, and ``bits``."""

    low: NDArray[np.int32]
    """Shape (n_boxes, n_columns)."""
    high: NDArray[np.int32]
    bits: NDArray[np.int64]
    """Shape (n_boxes, n_special)."""


@shows_no_value
class _Tests(NamedTuple):
    """The tests of a tree: a row goes left where its atom of ``feature`` is at most ``code``.

    Or where it is one of the bits of ``members``, if these are not negative.
    """

    feature: IntArray
    code: IntArray
    members: IntArray
    left: IntArray
    parent: IntArray
    missing_left: BoolArray


@dataclass(frozen=True, eq=False)
class Places:
    """A release in atoms.

    Attributes
    ----------
    release : Release
        With the trees that are used.
    tests : tuple of tuple
        Of each tree.
    cuts : tuple of float array
        Thresholds of each column.
    groups : mapping of int to tuple of array
        For columns that are tested for categories: the categories of each atom from 1 on. Atom 0
        is any other.
    special : int array, shape (n_columns,)
        Place of a column among those that may be missing or are tested for categories; else -1.
    whole : Boxes
        What a root admits: of columns tested for categories, bits only.
    """

    release: Release
    tests: tuple[_Tests, ...]
    cuts: tuple[FloatArray, ...]
    groups: dict[int, tuple[IntArray, ...]]
    special: NDArray[np.int32]
    whole: Boxes

    def boxes(self, t: int, nodes: IntArray) -> Boxes:
        """Write what nodes of a tree admit."""
        tests, found = self.tests[t], Boxes(*(np.repeat(x, len(nodes), axis=0) for x in self.whole))
        v = np.array(nodes)
        while len(at := np.flatnonzero(tests.parent[v] >= 0)):
            above = tests.parent[v[at]]
            c, code, members = tests.feature[above], tests.code[above], tests.members[above]
            goes_left, number = tests.left[above] == v[at], members < 0
            for i, end in ((number & goes_left, found.high), (number & ~goes_left, found.low)):
                now = end[at[i], c[i]]
                least = end is found.high
                end[at[i], c[i]] = (
                    np.minimum(now, code[i]) if least else np.maximum(now, code[i] + 1)
                )
            kept = np.where(tests.missing_left[above] == goes_left, MISSING, 0)
            kept |= np.where(number, 0, np.where(goes_left, members, ~members & ~MISSING))
            i = self.special[c] >= 0
            found.bits[at[i], self.special[c[i]]] &= kept[i]
            v[at] = above
        return found

    def of_rows(self, X: pd.DataFrame) -> Boxes:
        """Write what all trees together admit where each row lies."""
        low, high, bits = (np.repeat(x, len(X), axis=0) for x in self.whole)
        for t, leaves in enumerate(self.release.leaves(X).T):
            box = self.boxes(t, leaves)
            low, high = np.maximum(low, box.low), np.minimum(high, box.high)
            bits &= box.bits
        return Boxes(low, high, bits)

    def encode(self, x: FloatArray, c: int) -> IntArray:
        """Write the values of a column in atoms; -1 where one is missing."""
        with np.errstate(over="ignore"):
            x = x.astype(self.release.float_type).astype(float)
        if c in self.groups:
            known = (x >= 0) & (x < MOST_CATEGORY) & (x == np.floor(x))
            value = np.where(known, x, -1).astype(np.int64)
            out = np.zeros(len(x), dtype=np.int64)
            for atom, members in enumerate(self.groups[c], start=1):
                out[np.isin(value, members)] = atom
        else:
            out = np.searchsorted(self.cuts[c], x, side="left").astype(np.int64)
        return np.where(np.isnan(x), -1, out)

    def n_atoms(self, c: int) -> int:
        """Atoms of a column."""
        return len(self.groups[c] if c in self.groups else self.cuts[c]) + 1

    def may_miss(self, c: int) -> bool:
        """Whether values of a column may be missing."""
        s = self.special[c]
        return bool(s >= 0 and self.whole.bits[0, s] & MISSING)

    def weight(self, shares: tuple[FloatArray, ...], boxes: Boxes) -> FloatArray:
        """Probability that a person lies in each box, if columns are independent."""
        total = np.ones(len(boxes.low))
        for c, share in enumerate(shares):
            total *= self.within(share, c, boxes)
        return total

    def within(self, share: FloatArray, c: int, boxes: Boxes) -> FloatArray:
        """Share of people whose value of one column lies in each box."""
        below = np.append(0.0, np.cumsum(share[:-1]))
        here = np.zeros(len(boxes.low))
        if c not in self.groups:
            high = np.maximum(boxes.high[:, c] + 1, boxes.low[:, c])
            here = below[high] - below[boxes.low[:, c]]
        if (s := self.special[c]) >= 0:
            bits = boxes.bits[:, s]
            here = here + np.where(bits & MISSING, share[-1], 0.0)
            for atom, p in enumerate(share[:-1] if c in self.groups else ()):
                here += np.where((bits >> atom) & 1, p, 0.0)
        return here


def count_people(
    release: Release, missing: Collection[str] = ()
) -> tuple[Places, list[IntArray]] | None:
    """Write a release in atoms, with the people in each node of each tree.

    None where there is noise, no tree counts rows, counts contradict each other, or no leaf holds
    one person, or one of a class. Trees that test a column for too many different sets of
    categories are left out. ``missing``: columns in which values may be missing, beside those that
    the release names.
    """
    if release.noise is not None:
        return None
    groups, refused = dict[int, tuple[IntArray, ...]](), set[int]()
    cuts = tuple(np.unique(x) for x in release.thresholds)
    for c, sets in enumerate(release.category_sets):
        if sets and ((atoms := _atoms(sets)) is None or len(cuts[c])):
            refused.add(c)
        elif sets and atoms is not None:
            groups[c] = atoms
    trees, people, lone = list[Tree](), list[IntArray](), False
    for tree in release.trees:
        counts = tree.counts if release.counts_are in ("rows", "draws") else None
        totals = tree.totals if tree.statistics.get(ROWS, DRAWS) is not None else None
        if totals is None and counts is not None:
            totals = counts.sum(axis=1)
        if totals is None or refused & set(tree.feature.tolist()):
            continue
        n = np.round(totals if tree.distinct is None else tree.distinct).astype(np.int64)
        inner = np.flatnonzero(~tree.is_leaf)
        for held in (n, np.round(totals), *(() if counts is None else np.round(counts).T)):
            below = held[tree.left[inner]] + held[tree.right[inner]]
            if (held < 0).any() or (held[inner] != below).any():
                return None
        lone |= bool((n[tree.leaves] == 1).any())
        lone |= counts is not None and bool((np.round(counts[tree.leaves]) == 1).any())
        trees.append(tree)
        people.append(n)
    if not lone:
        return None
    special = np.full(release.n_features, -1, dtype=np.int32)
    top, bits = [len(x) for x in cuts], list[int]()
    for c, name in enumerate(release.feature_names):
        may_miss = name in release.maybe_missing or name in missing
        if c in groups or may_miss:
            special[c] = len(bits)
            of_groups = (1 << (len(groups[c]) + 1)) - 1 if c in groups else 0
            bits.append(of_groups | (int(MISSING) if may_miss else 0))
        if c in groups:
            top[c] = -1
    whole = Boxes(
        np.zeros((1, len(top)), dtype=np.int32), np.array([top], dtype=np.int32),
        np.array([bits], dtype=np.int64).reshape(1, len(bits)),
    )  # fmt: skip
    tests = tuple(_of_tree(release, tree, cuts, groups) for tree in trees)
    release = replace(release, trees=tuple(trees))
    return Places(release, tests, cuts, groups, special, whole), people


def _atoms(sets: tuple[IntArray, ...]) -> tuple[IntArray, ...] | None:
    """Group categories that no set tells apart; None if there are too many groups."""
    named = np.unique(np.concatenate(sets))
    within = np.array([np.isin(named, members) for members in sets]).T
    _, group = np.unique(within, axis=0, return_inverse=True)
    n = int(group.max()) + 1
    if n + 1 > MOST_ATOMS:
        return None
    return tuple(named[group.ravel() == g] for g in range(n))


def _of_tree(
    release: Release,
    tree: Tree,
    cuts: tuple[FloatArray, ...],
    groups: dict[int, tuple[IntArray, ...]],
) -> _Tests:
    at = tree.cuts(release.float_type)
    code = np.zeros(tree.n_nodes, dtype=np.int64)
    members = np.full(tree.n_nodes, -1, dtype=np.int64)
    for c in np.unique(tree.feature[~tree.is_leaf]):
        if c not in groups:
            tests = tree.feature == c
            code[tests] = np.searchsorted(cuts[c], at[tests])
    for node, held in {} if tree.categories is None else tree.categories.by_node.items():
        atoms = groups[int(tree.feature[node])]
        members[node] = sum(
            1 << atom for atom, group in enumerate(atoms, start=1) if np.isin(group[0], held)
        )
    return _Tests(tree.feature, code, members, tree.left, tree.parent, tree.missing_left)


def shares_of(
    places: Places, people: list[IntArray], others: NDArray[Any] | None, seed: int
) -> tuple[FloatArray, ...]:
    """Estimate the share of people in each atom of each column; the last is that of missing values.

    From ``others``, rows of the population: each atom gets a part of one row more. Without them,
    from the counts of leaves. A leaf says of each person in it between which ends a column lies: an
    interval-censored observation. Of each column, this is the self-consistent estimate (Turnbull
    1976) from all of them, which is right if columns are independent; a part of the leaves, drawn
    at random, stands for more than 50,000. It starts from equal shares of the atoms.
    """
    shares, columns = [], range(places.release.n_features)
    if others is not None:
        for c in columns:
            n = places.n_atoms(c)
            # A missing value, -1, is the last.
            count = np.bincount(places.encode(others[:, c], c) % (n + 1), minlength=n + 1)
            count = count + 1 / (n + 1)
            count[-1] *= places.may_miss(c)
            shares.append(count / count.sum())
        return tuple(shares)
    leaves = [
        tree.leaves[n[tree.leaves] > 0]
        for tree, n in zip(places.release.trees, people, strict=True)
    ]
    chosen = np.arange(sum(map(len, leaves)))
    if len(chosen) > _MOST_LEAVES:
        chosen = np.random.default_rng(seed).choice(chosen, _MOST_LEAVES, replace=False)
    starts = np.cumsum([0, *map(len, leaves)])
    held = [
        at[np.sort(chosen[(chosen >= first) & (chosen < first + len(at))]) - first]
        for at, first in zip(leaves, starts[:-1], strict=True)
    ]
    of_trees = [places.boxes(t, at) for t, at in enumerate(held)]
    boxes = Boxes(*map(np.concatenate, zip(*of_trees, strict=True)))
    number = np.concatenate([n[at] for n, at in zip(people, held, strict=True)]).astype(float)
    for c in columns:
        n, may_miss = places.n_atoms(c), places.may_miss(c)
        share = np.full(n + 1, 1.0 / (n + may_miss))
        share[-1] *= may_miss
        for _ in range(_ROUNDS if len(number) and n > 1 else 0):
            each = number / np.maximum(places.within(share, c, boxes), _LEAST)
            expected = share * _spread(each, c, n, places, boxes)
            share = expected / expected.sum()
        shares.append(share)
    return tuple(shares)


def _spread(each: FloatArray, c: int, n: int, places: Places, boxes: Boxes) -> FloatArray:
    """Add up, for each atom, what the boxes that hold it have of each."""
    out = np.zeros(n + 1)
    if c not in places.groups:
        some = boxes.low[:, c] <= boxes.high[:, c]
        out += np.bincount(boxes.low[some, c], each[some], n + 1)
        out -= np.bincount(boxes.high[some, c] + 1, each[some], n + 1)
        out = np.maximum(np.cumsum(out), 0.0)
        out[-1] = 0.0
    if (s := places.special[c]) >= 0:
        bits = boxes.bits[:, s]
        out[-1] = each[(bits & MISSING) != 0].sum()
        for atom in range(n if c in places.groups else 0):
            out[atom] = each[((bits >> atom) & 1) != 0].sum()
    return out


def pinned(places: Places, region: Boxes, schema: Schema) -> IntArray:
    """Count the columns that each place pins: to one value, or to 5 % of their range.

    The range is that of the schema; where it has no ends, from the lowest to the highest threshold.
    A column that may also be missing is not pinned.
    """
    owner = {c: a for a in schema.attributes for c in a.columns}
    total = np.zeros(len(region.low), dtype=np.int64)
    for c, name in enumerate(places.release.feature_names):
        cuts, special = places.cuts[c], int(places.special[c])
        if c in places.groups:
            sizes = [0, *(len(g) == 1 for g in places.groups[c])]
            single = [1 << atom for atom, one in enumerate(sizes) if one]
            total += np.isin(region.bits[:, special], single)
            continue
        if not len(cuts):
            continue
        attribute = owner[name]
        low, high = attribute.bounds
        ends = np.concatenate([[low], cuts, [high]])
        down, up = ends[region.low[:, c]], ends[np.maximum(region.high[:, c], -1) + 1]
        open_ = region.bits[:, special] != 0 if special >= 0 else np.zeros(len(up), dtype=bool)
        there = region.low[:, c] <= region.high[:, c]
        total += there & ~open_ & _narrow(attribute, cuts, down, up, region.low[:, c] == 0)
    return total


def _narrow(
    attribute: Any, cuts: FloatArray, down: FloatArray, up: FloatArray, first: BoolArray
) -> BoolArray:
    """Say which intervals above ``down``, up to ``up``, are one value or a small part of all."""
    low, high = attribute.bounds
    if isinstance(attribute, Categorical):
        values = np.asarray(attribute.values)
        below = np.where(first, 0, np.searchsorted(values, down, side="right"))
        return np.asarray(np.searchsorted(values, up, side="right") - below <= 1)
    if isinstance(attribute, Numeric):
        low = low if np.isfinite(low) else cuts[0]
        high = high if np.isfinite(high) else cuts[-1]
        return np.asarray((up - down) <= NARROW * (high - low))
    least = np.where(first, low, np.floor(down) + 1)
    return np.asarray(np.floor(up) - least <= NARROW * (high - low))
