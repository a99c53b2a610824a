"""A search for the points of rows that fit the order in which trees looked at columns.

A chain draws where one group of rows lies after the other, first hot, then as probable as it is. Of
two columns that never decide anything, rows of several groups may have each other's values, and no
node is less probable: such groups move together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import cached_property

import numpy as np

from treeleak.attacks.known_draws.column_order import Group
from treeleak.attacks.tree_prior import TreePrior
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.decisions import clearly_less, falling, first_least
from treeleak.core.private import dataclass
from treeleak.partition.values import Values
from treeleak.release.draws.column_order_kernels import (
    Costs,
    Paths,
    Splits,
    all_costs,
    costs_of_candidates,
    enter,
    move,
    touched,
)

TARGETS = Costs(beaten=12.0, later=6.0, other_later=1.9, other_first=0.16)
CLASSES = Costs(beaten=12.0, later=12.0, other_later=3.0, other_first=0.05)
"""Of targets, sums are rounded in an order that is not followed; of classes, they are whole, and
only columns that part other rows may gain the same but for rounding."""
_HOT = 8.0
_COOLING, _SAMPLES = 8, 32
"""Sweeps in which costs count ever more, and afterwards."""
_AGAIN = 8
"""Sweeps after which groups that had one place left are looked at again."""
_SETTLED = 1e-6
"""Chance of all other places up to which a group counts as one that has one place left."""
_TOGETHER = 32
"""Most groups that move together."""
_TREES = 8
"""Trees that say which group comes next."""
_FREE = 5.0
"""What groups that move together may cost."""


@dataclass(frozen=True, eq=False)
class Fitting:
    """Where groups of rows lie, going by the order of columns."""

    share: tuple[FloatArray, ...]
    """For each group, the probability of each candidate."""
    worlds: IntArray
    """Shape (n_samples, n_groups). Candidates drawn."""
    cost: float
    """Of the likeliest candidates ..."""
    otherwise: float
    """... and the same if trees had looked at columns in another order."""


@dataclass(frozen=True, eq=False)
class Exchange:
    """Groups that take the other one of two atoms of an attribute, all at once."""

    attribute: int
    atoms: tuple[int, int]
    groups: tuple[int, ...]


@dataclass(eq=False)
class Chain:
    """A walk over the places of groups."""

    groups: Sequence[Group]
    splits: Splits
    paths: Paths
    y: FloatArray
    """Shape (n_rows, n_targets)."""
    values: Values
    costs: Costs
    atoms: IntArray
    """Shape (n_rows, n_attributes + 1). Where rows lie, from 0 in each attribute; the last is the
    class."""
    rng: np.random.Generator
    now: IntArray = field(init=False)
    """Shape (n_groups,). Candidate of each group; at first, the nearest to where rows lie."""

    def __post_init__(self) -> None:
        self.now = np.array([_nearest(group, self.atoms) for group in self.groups])

    @cached_property
    def open(self) -> IntArray:
        """Groups with several candidates."""
        return np.flatnonzero([len(group.atoms) > 1 for group in self.groups])

    @cached_property
    def saw(self) -> list[BoolArray]:
        """Trees that looked at each group."""
        n_trees = len(self.splits.stream)
        return [touched(group.rows, self.paths, n_trees) for group in self.groups]

    @cached_property
    def _drawn(self) -> IntArray:
        return np.concatenate([group.rows for group in self.groups])

    @cached_property
    def _place(self) -> list[dict[tuple[int, ...], int]]:
        """For each group, the candidate of each point."""
        return [
            {tuple(own): c for c, own in enumerate(group.atoms.tolist())} for group in self.groups
        ]

    def begin(self, now: IntArray) -> None:
        """Enter all rows anew: rounding adds up otherwise."""
        self.now = now.copy()
        self.splits.ones[:] = 0.0
        self.splits.sums[:] = 0.0
        for g, group in enumerate(self.groups):
            enter(group.rows, group.ones[now[g]], 1.0, self.y, self.splits, self.paths)
            self.atoms[group.rows, :-1] = group.atoms[now[g]]

    def cost(self) -> FloatArray:
        """What each tree costs."""
        return np.asarray(all_costs(self.splits, self.costs))

    def prior(self) -> TreePrior:
        """Learn what rows are like from where they are."""
        radix, rows = np.diff(self.values.atom_start), self.atoms[self._drawn]
        return TreePrior.fitted(rows, len(rows), radix, self.values.atom_weights, self.values.bins)

    def log_prior(self) -> float:
        """How likely all rows are, if other rows are like them."""
        return float(self.prior().log_prior(self.atoms[self._drawn]).sum())

    def put(self, g: int, candidate: int) -> None:
        """Move a group."""
        group, old = self.groups[g], self.now[g]
        move(group.rows, group.ones[old], group.ones[candidate], self.y, self.splits, self.paths)
        self.now[g] = candidate
        self.atoms[group.rows, :-1] = group.atoms[candidate]

    def drawn_again(self, g: int, prior: TreePrior, heat: float) -> FloatArray:
        """Draw the place of a group, given all others; returns the chances of its candidates."""
        group = self.groups[g]
        each = costs_of_candidates(
            group.rows, group.ones[self.now[g]], group.ones, self.saw[g], self.y, self.splits,
            self.paths, self.costs,
        )  # fmt: skip
        label, times = np.unique(self.atoms[group.rows, -1], return_counts=True)
        log_p = -each.sum(axis=1) / heat
        for own, n in zip(label, times, strict=True):
            whole = np.column_stack([group.atoms, np.full(len(group.atoms), own)])
            log_p += n * prior.log_prior(whole)
        p = np.exp(log_p - log_p.max())
        p /= p.sum()
        new = int(self.rng.choice(len(p), p=p))
        if new != self.now[g]:
            self.put(g, new)
        return np.asarray(p)

    def other(self, g: int, attribute: int, pair: tuple[int, int]) -> int | None:
        """Find the candidate of a group with the other one of two atoms."""
        own = self.groups[g].atoms[self.now[g]].tolist()
        if own[attribute] not in pair:
            return None
        own[attribute] = pair[1] if own[attribute] == pair[0] else pair[0]
        return self._place[g].get(tuple(own))

    def exchanged(self, exchange: Exchange) -> bool:
        """Exchange atoms of some groups, with the chance that this has; whether it was done."""
        old = self.now.copy()
        before, likely = self.cost().sum(), self.log_prior()
        for g in exchange.groups:
            new = self.other(g, exchange.attribute, exchange.atoms)
            if new is None:
                break
            self.put(g, new)
        else:
            gain = before - self.cost().sum() + self.log_prior() - likely
            if np.log(self.rng.random()) < gain:
                return True
        for g in np.flatnonzero(self.now != old).tolist():
            self.put(g, int(old[g]))
        return False

    def exchanges(self, clock: Clock) -> list[Exchange]:
        """Find groups that can only move together."""
        out: list[Exchange] = []
        seen: set[tuple[int, int, tuple[int, int]]] = set()
        for g in self.open.tolist():
            own = self.groups[g].atoms
            for c in range(len(own)):
                apart = np.flatnonzero(own[c] != own[self.now[g]])
                if clock.stopped:
                    return out
                if len(apart) != 1:
                    continue
                a = int(apart[0])
                first, second = sorted((int(own[c, a]), int(own[self.now[g], a])))
                if (g, a, (first, second)) in seen:
                    continue
                found = self._grown(g, a, (first, second))
                seen |= {(h, a, (first, second)) for h in found.groups} if found else set()
                out += [found] if found else []
        return out

    def _grown(self, g: int, attribute: int, pair: tuple[int, int]) -> Exchange | None:
        """Let group after group exchange two atoms until that costs next to nothing."""
        old, before, moved = self.now.copy(), self.cost(), [g]
        able = [h for h in self.open.tolist() if self.other(h, attribute, pair) is not None]
        self.put(g, self.other(g, attribute, pair) or 0)
        free, last = False, np.inf
        while len(moved) <= _TOGETHER:
            more = self.cost() - before
            free = bool(more.sum() <= _FREE)
            if free or not clearly_less(float(more.sum()), last):
                break
            last = float(more.sum())
            worst = np.zeros(len(more), dtype=bool)
            worst[falling(more)[:_TREES]] = True
            best, least = -1, float((more + before)[worst].sum())
            for h in able:
                new = self.other(h, attribute, pair)
                if h in moved or new is None:
                    continue
                group = self.groups[h]
                each = costs_of_candidates(
                    group.rows, group.ones[self.now[h]], group.ones[new : new + 1], worst, self.y,
                    self.splits, self.paths, self.costs,
                )  # fmt: skip
                if each.sum() < least - 1e-6:
                    best, least = h, float(each.sum())
            if best < 0:
                break
            self.put(best, self.other(best, attribute, pair) or 0)
            moved.append(best)
        for h in moved:
            self.put(h, int(old[h]))
        return Exchange(attribute, pair, tuple(moved)) if free and len(moved) > 1 else None


def fitted(chain: Chain, clock: Clock) -> Fitting | None:
    """Draw the places of groups by what they cost, and by how likely such rows are.

    Returns None if time was up before anything was drawn.
    """
    for sweep in range(_COOLING):
        chain.begin(chain.now)
        prior, heat = chain.prior(), _HOT ** (1.0 - sweep / _COOLING)
        for g in chain.rng.permutation(chain.open).tolist():
            if clock.stopped:
                return None
            chain.drawn_again(g, prior, heat)
    shares, worlds = _sampled(chain, clock)
    chain.begin(np.array([int(first_least(-own)) for own in shares]))
    cost = float(chain.cost().sum())
    chain.splits = chain.splits._replace(stream=chain.splits.stream ^ 0x5555)
    return Fitting(tuple(shares), worlds, cost, float(chain.cost().sum()))


def _sampled(chain: Chain, clock: Clock) -> tuple[list[FloatArray], IntArray]:
    """Draw places as probable as they are; returns the shares of candidates, and all draws."""
    last = [np.ones(1)] * len(chain.groups)
    sums = [np.zeros(len(group.atoms)) for group in chain.groups]
    worlds: list[IntArray] = []
    exchanges: list[Exchange] = []
    look = True
    while len(worlds) < _SAMPLES and not (worlds and clock.stopped):
        again = len(worlds) % _AGAIN == 0
        chain.begin(chain.now)
        prior = chain.prior()
        for g in chain.rng.permutation(chain.open).tolist():
            if (again or last[g].max() < 1.0 - _SETTLED) and not (worlds and clock.stopped):
                last[g] = chain.drawn_again(g, prior, 1.0)
        if again and look:
            exchanges, look = chain.exchanges(clock), False
        for exchange in exchanges:
            if chain.exchanged(exchange):
                look = True
                for g in exchange.groups:
                    last[g] = np.eye(len(sums[g]))[chain.now[g]]
        for own, p in zip(sums, last, strict=True):
            own += p
        worlds.append(chain.now.copy())
    return [own / own.sum() for own in sums], np.array(worlds)


def compile_loops() -> None:
    """Compile what replays trees."""
    one, rows, bits = np.ones(1), np.zeros(1, dtype=np.int64), np.ones((1, 1), dtype=bool)
    splits = Splits(
        np.arange(2), rows, rows - 1, rows, 1, one, np.ones((1, 1)), np.ones((1, 1)),
        np.ones((1, 1, 1)),
    )  # fmt: skip
    paths = Paths(np.arange(2), rows, rows, one)
    y, among = np.ones((1, 1)), touched(rows, paths, 1)
    enter(rows, bits[0], 1.0, y, splits, paths)
    move(rows, bits[0], bits[0], y, splits, paths)
    costs_of_candidates(rows, bits[0], bits, among, y, splits, paths, TARGETS)
    all_costs(splits, TARGETS)


def _nearest(group: Group, atoms: IntArray) -> int:
    """Find the candidate nearest to where rows are."""
    apart = (group.atoms[:, None, :] != atoms[group.rows, :-1]).sum(axis=(1, 2))
    return int(apart.argmin())
