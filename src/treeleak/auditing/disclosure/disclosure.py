"""Which figures of groups can appear together, so that none about few people follows.

A figure that is told of a set of people is a sum over them. Sums can be added and subtracted: North
less its largest city is what is left of North. So a set of figures tells of few people if some
combination of them has all its weight on few people, whatever the groups are called and however
they are nested. That is a question of linear algebra, and is answered here without a guess:
people who belong to the same groups are one *atom*, each figure is a vector over atoms, and what is
looked for is a vector in the span of the figures whose atoms hold fewer people than the threshold.

All is computed modulo a prime: a rank found there is never above the true one, so of what is told
too little may be kept, never too much (:func:`_independent` sees to the one rank for which it is
the other way round).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, IntArray

PRIMES = (2**31 - 1, 2**31 - 19)
"""Products of two residues fit in 64 bits."""

MOST_WORK = 100_000_000
"""Sums and products that a search may take, together with those before it."""

MOST_STEPS = 300
"""Parts that are tried to fill a set."""


class TooHard(Exception):
    """The search did not come to an end: nothing is known, and the answer has to be no."""


def jointly_safe(
    sets: BoolArray, units: Sequence[int | None], threshold: int, counted: BoolArray | None = None
) -> BoolArray:
    """Choose the figures that may be told, so that none of fewer people than the threshold follows.

    Beside them, the figure of all people is told, whatever else is.

    ``sets``, shape (n_people, n_figures): of whom each figure is the sum. ``units``: figures of one
    unit are told together or not at all; None for one that is alone. ``counted``, shape
    (n_people,): people whose figures are in the sums: all, unless given. Returns an array of shape
    (n_figures,): figures of large sets are chosen first. What a search does not settle is left out.
    """
    counted_sets = sets if counted is None else sets[counted]
    size = counted_sets.sum(axis=0)
    unit_of = [-1 - k if u is None else u for k, u in enumerate(units)]
    of = {u: [k for k, v in enumerate(unit_of) if v == u] for u in unit_of}
    published = np.zeros(len(size), dtype=bool)
    reachable, work = np.ones((len(counted_sets), 1), dtype=bool), [MOST_WORK]
    # A set of nobody tells nothing, and is counted with the large ones.
    least = {u: min(int(size[k]) or len(counted_sets) for k in ks) for u, ks in of.items()}
    for unit in sorted(of, key=lambda u: (-least[u], of[u])):
        more = np.hstack([reachable, counted_sets[:, of[unit]]])
        if least[unit] >= threshold and not _few_follow(more, threshold, work):
            published[of[unit]], reachable = True, more
    return published


def _few_follow(sets: BoolArray, threshold: int, work: list[int]) -> bool:
    """Whether a combination of figures tells of few people, or may, as far as is known."""
    atoms, people = np.unique(sets, axis=0, return_counts=True)
    try:
        return few_behind(atoms.T.astype(np.int64), people, threshold, work) is not None
    except TooHard:
        return True


# ------------------------------------------------------------------- few people behind a figure


def few_behind(
    matrix: IntArray, people: IntArray, threshold: int, work: list[int] | None = None
) -> BoolArray | None:
    """Find atoms of fewer people than the threshold to which some combination of figures is bound.

    ``matrix``: shape (n_figures, n_atoms). ``people``: shape (n_atoms,). ``work``: what the search
    may take; what is left of it, afterwards. Returns these atoms, shape (n_atoms,); None if every
    combination that is not zero has weight on enough people. Raises TooHard if the search would
    take too long.
    """
    # Rows that span the same, and no more of them than there must be.
    ranks = {p: _reduced(matrix, range(matrix.shape[1]), p)[1] for p in PRIMES}
    if len({len(pivots) for pivots in ranks.values()}) > 1:
        raise TooHard
    rows = _independent_mod(matrix)
    members = [1 << k for k in range(len(people))]
    left = [MOST_WORK] if work is None else work
    found = _search(rows, people.astype(np.int64), members, threshold - 1, left)
    if found is None:
        return None
    return np.array([bool(found >> k & 1) for k in range(len(people))])


def _search(
    rows: IntArray, weight: IntArray, members: list[int], budget: int, work: list[int]
) -> int | None:
    """Look for a combination of independent rows that is not zero on at most ``budget`` people."""
    rows, weight, members = _simplified(rows, weight, members, budget)
    if not len(rows):
        return None
    for row in rows:
        held = np.flatnonzero(row)
        if weight[held].sum() <= budget:
            return _union(members[k] for k in held)
    work[0] -= rows.size * len(rows) * (len(rows) + budget)
    if work[0] < 0:
        raise TooHard
    if _bases(rows, weight, budget + 1):
        return None
    # What is zero on a basis is zero everywhere: it is not, on the first of these atoms or ...
    basis = _reduced(rows, np.argsort(-weight, kind="stable"))[1]
    for k, atom in enumerate(basis):
        others = np.delete(np.arange(len(weight)), atom)
        before = _vanishing(rows, np.array(basis[:k], dtype=np.int64))
        left = _independent_mod(before[:, others])
        if len(left) < len(before):
            return members[atom]
        rest = [members[j] for j in others]
        found = _search(left, weight[others], rest, budget - int(weight[atom]), work)
        if found is not None:
            return found | members[atom]
    return None


def _simplified(
    rows: IntArray, weight: IntArray, members: list[int], budget: int
) -> tuple[IntArray, IntArray, list[int]]:
    """Leave what can be zero on all atoms of too many people; merge atoms that go together."""
    while len(rows):
        rows = _vanishing(rows, np.flatnonzero(weight > budget))
        live = np.flatnonzero((rows != 0).any(axis=0))
        rows, weight, members = rows[:, live], weight[live], [members[k] for k in live]
        if not len(rows) or not len(live):
            return rows[:0], weight, members
        first = rows[(rows != 0).argmax(axis=0), np.arange(len(live))]
        scaled = rows * np.array([pow(int(x), -1, PRIMES[0]) for x in first]) % PRIMES[0]
        _, at, group = np.unique(scaled, axis=1, return_index=True, return_inverse=True)
        group = group.ravel()
        weight = np.bincount(group, weights=weight).astype(np.int64)
        members = [_union(members[k] for k in np.flatnonzero(group == g)) for g in range(len(at))]
        rows = rows[:, at]
        if not (weight > budget).any():
            break
    return rows, weight, members


def _bases(rows: IntArray, weight: IntArray, n: int) -> bool:
    """Whether people make up ``n`` bases: a combination that is not zero meets each of them."""
    left = weight.copy()
    for _ in range(n):
        there = np.flatnonzero(left)
        basis = _reduced(rows[:, there], np.argsort(-left[there], kind="stable"))[1]
        if len(basis) < len(rows):
            return False
        left[there[basis]] -= 1
    return True


def _union(members: Iterable[int]) -> int:
    out = 0
    for member in members:
        out |= member
    return out


# ----------------------------------------------------------------------------- linear algebra


def _reduced(
    rows: IntArray, order: Sequence[int] | IntArray, p: int = PRIMES[0]
) -> tuple[IntArray, list[int]]:
    """Reduce rows by columns in an order; the rows, pivots first, and the columns of the pivots."""
    out, pivots = rows % p, list[int]()
    for column in order:
        r = len(pivots)
        if r == len(out):
            break
        held = np.flatnonzero(out[r:, column])
        if not len(held):
            continue
        k = r + int(held[0])
        out[[r, k]] = out[[k, r]]
        out[r] = out[r] * pow(int(out[r, column]), -1, p) % p
        factor = out[:, column].copy()
        factor[r] = 0
        out = (out - factor[:, None] * out[r]) % p
        pivots.append(int(column))
    return out, pivots


def _vanishing(rows: IntArray, columns: IntArray) -> IntArray:
    """Independent combinations of rows that are zero in these columns."""
    reduced, pivots = _reduced(rows, columns)
    return _independent_mod(reduced[len(pivots) :])


def _independent_mod(rows: IntArray) -> IntArray:
    reduced, pivots = _reduced(rows, range(rows.shape[1]))
    return reduced[: len(pivots)]


# --------------------------------------------------------------------------- what is left over


def remainders(sets: BoolArray, owners: Sequence[int], threshold: int) -> frozenset[int]:
    """Choose sets that must not be counted, since what is left of another one would be few people.

    Of counts, unlike of errors, only what the names say can be used: that one set lies in another,
    and that some in it have nobody in common.

    ``sets``, shape (n_people, n_sets): sets whose size is told; with each, that of all others is.
    ``owners``: who tells each: below 0 for those that are told in any case. Returns owners to be
    left out, those of small sets first.
    """
    out: set[int] = set()
    everyone = np.ones((len(sets), 1), dtype=bool)
    all_ = np.hstack([everyone, sets, ~sets])
    owner = np.array([-1, *owners, *owners], dtype=np.int64)
    common = all_.T.astype(np.float32) @ all_.astype(np.float32)
    size = np.diag(common)
    smaller_side = np.minimum(size, len(sets) - size)
    for whole in np.argsort(size, kind="stable"):
        while owner[whole] not in out:
            inside = (common[whole] == size) & (size > 0) & (size < size[whole])
            inside &= ~np.isin(owner, list(out))
            parts = np.flatnonzero(inside)
            found = _parts_that_leave_few(common, size, parts, size[whole], threshold)
            blamed = [k for k in (whole, *(found or ())) if owner[k] >= 0]
            if found is None or not blamed:
                break
            out.add(int(owner[min(blamed, key=lambda k: (smaller_side[k], owner[k]))]))
    return frozenset(out)


def _parts_that_leave_few(
    common: NDArray[np.float32],
    size: NDArray[np.float32],
    parts: IntArray,
    whole: float,
    threshold: int,
) -> list[int] | None:
    """Find disjoint parts that leave some of a whole, but few; all of them if that is too hard."""
    order = parts[np.argsort(-size[parts], kind="stable")]
    steps = MOST_STEPS

    def search(left: float, open_: IntArray) -> list[int] | None:
        nonlocal steps
        if 0 < left < threshold:
            return []
        steps -= 1
        for k, part in enumerate(open_):
            if steps < 0:
                return [int(k) for k in order]
            rest = open_[k:]
            if left - size[rest].sum() >= threshold:
                return None
            later = rest[1:][common[part, rest[1:]] == 0]
            found = search(left - size[part], later)
            if found is not None:
                return [int(part), *found]
        return None

    return search(whole, order)
