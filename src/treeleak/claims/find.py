"""From the counts of a model to predicates that exactly one training row meets."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.claims import kernels
from treeleak.claims.boxes import (
    Boxes,
    Partition,
    Prior,
    partition_of,
    prior_of_counts,
    prior_of_rows,
)
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.errors import NotCovered
from treeleak.core.message import static_message
from treeleak.core.parallel import THREADS, run_all
from treeleak.core.private import dataclass
from treeleak.release.release import Release
from treeleak.release.statistics import DRAWS, ROWS
from treeleak.release.tree import Tree

UNCOUNTED = static_message("no tree counts the rows in its leaves", "claims_uncounted")
NOISY = static_message("the counts carry noise, so they prove nothing", "claims_noisy")
CONTRADICTORY = static_message(
    "the counts of nodes are not the sums of those below them", "claims_contradictory"
)

LUCK = 0.05
"""Probability of luck, up to which a claim is beyond it."""
MOST_CLAIMS = 4_000
"""Predicates that are narrowed and described: those that fewest people meet."""
MOST_APART = 2_000
VISITS = 120_000_000
"""Nodes that are visited to compare nodes of different trees, and again to narrow regions."""
_SHARE_TRIED, _VISITS_EACH = 5, 1_000_000
"""After this part of the visits, fewer differences than one for so many are not worth the rest."""
_STEP = 500
"""Nodes, or claims, until the next look at the clock."""
_PASSES, _FEW = 2, 0.05
_WORTH = 0.9
"""Share of its weight that a region, in the middle, may keep for another pass to be worth it."""
_ROOM = 50_000
"""Claims that one chunk of pairs may give."""


@dataclass(frozen=True, eq=False)
class Counted:
    """What nodes count.

    Attributes
    ----------
    people : int array, shape (n_nodes,)
        Different rows that the tree saw, where the model tells; else rows, or draws.
    amounts : int array, shape (n_nodes, n_classes + 1)
        Rows or draws of each class, where they are counted, and of all together.
    all_rows : bool
        Whether each tree saw every training row exactly once.
    """

    people: IntArray
    amounts: IntArray
    all_rows: bool


@dataclass(frozen=True, eq=False)
class Claims:
    """Predicates that exactly one person meets, of those that a tree saw.

    Attributes
    ----------
    partition : Partition
    counted : Counted
    prior : Prior
    node : int array, shape (n_claims,)
        The leaf, or the larger of two nested nodes.
    other : int array
        Tree whose leaves inside that node hold all of its people but one; -1 where the node is a
        leaf of one person.
    label : int array
        The person's class; -1 where the counts do not say it.
    of_class : bool array
        Whether others of other classes may meet it: the claim is of one person of this class.
    region : Boxes
        Where the person lies; what leaves inside the node of ``other`` hold is left out of it.
    at_first : float array
        Weight of the predicate before other trees narrowed it.
    weight : float array
        Probability, under the prior, that a person meets it.
    places : int array, shape (n_trees,)
        Of the trees that were used, in the release.
    found : int
        All claims, before the lightest were chosen.
    complete : bool
        Whether all pairs were looked at, and all regions narrowed.
    """

    partition: Partition
    counted: Counted
    prior: Prior
    node: IntArray
    other: IntArray
    label: IntArray
    of_class: BoolArray
    region: Boxes
    at_first: FloatArray
    weight: FloatArray
    places: IntArray
    found: int
    complete: bool

    def taken(self, chosen: IntArray) -> Claims:
        """Keep some claims."""
        fields = ("node", "other", "label", "of_class", "at_first", "weight")
        return replace(
            self,
            region=self.region.take(chosen),
            **{name: getattr(self, name)[chosen] for name in fields},
        )

    @property
    def n_seen(self) -> IntArray:
        """People that the tree of each claim saw."""
        nodes = self.partition.nodes
        return self.counted.people[nodes.root[nodes.tree[self.node]]]

    @property
    def chance(self) -> FloatArray:
        """Probability that a predicate of this weight isolates one of so many people by luck."""
        return chance_of_one(self.n_seen, self.weight)

    @property
    def beyond_luck(self) -> BoolArray:
        """Which claims are so light that luck isolates a person in 5 % of cases at most."""
        return is_beyond_luck(self.n_seen, self.weight)

    @property
    def different(self) -> int:
        """People that are different for sure: of leaves of one tree, or of regions apart."""
        alone = self.counted.people[self.partition.leaves] == 1
        trees = self.partition.nodes.tree[self.partition.leaves[alone]]
        order = np.argsort(self.weight, kind="stable")
        chosen = kernels.apart(self.partition.nodes, tuple(self.region.take(order)), MOST_APART)
        return max(len(chosen), int(np.bincount(trees, minlength=1).max()))

    def fits(self, rows: NDArray[np.int32], most: int = 2**62) -> tuple[IntArray, IntArray]:
        """Count encoded rows that meet each predicate, whatever their class, and give the last."""
        boxes = _all_boxes(self.partition, bool((self.other >= 0).any()))
        n, last = kernels.fitting(
            self.partition.nodes, tuple(boxes), self.node, self.other, tuple(self.region), rows,
            most,
        )  # fmt: skip
        return n, last


def chance_of_one(n: IntArray | int, weight: FloatArray) -> FloatArray:
    """Probability that exactly one of n people meets a predicate of this weight."""
    w = np.clip(weight, 0.0, 1.0)
    return np.asarray(n * w * (1.0 - w) ** (n - 1.0))


def is_beyond_luck(n: IntArray | int, weight: FloatArray) -> BoolArray:
    """Whether luck isolates one of n people by so light a predicate in 5 % of cases at most."""
    return np.asarray((chance_of_one(n, weight) <= LUCK) & (n * weight <= 1.0))


def count(release: Release, tree: Tree) -> tuple[IntArray, IntArray] | None:
    """Give the different people in each node, and the rows or draws by class and in all."""
    counts = tree.counts if release.counts_are in ("rows", "draws") else None
    whole = tree.statistics.get(ROWS, DRAWS)
    totals = tree.totals if whole is not None else None
    if totals is None and counts is not None:
        totals = counts.sum(axis=1)
    if totals is None:
        return None
    people = totals if tree.distinct is None else tree.distinct
    amounts = totals[:, None] if counts is None else np.column_stack([counts, counts.sum(axis=1)])
    return people.astype(np.int64), np.round(amounts).astype(np.int64)


def find_claims(
    release: Release,
    control: NDArray[Any] | None = None,
    missing: frozenset[str] = frozenset(),
    clock: Clock | None = None,
    seed: int = 0,
    visits: int = VISITS,
) -> Claims:
    """Find predicates that exactly one training row meets in every table that meets the counts.

    - A leaf of one person, or with one person of a class.
    - Where every tree saw every row: node A, and leaves of another tree inside it that hold all of
      its people but one (or all but one of a class). That one is in A and in none of them.

    Where every tree saw every row, the person of a claim also lies in some leaf of every other
    tree, so its region narrows to what the leaves hold that can be theirs.

    Where trees drew rows, a claim is about the rows that its tree drew. It says nothing of others,
    and no other tree narrows it: it may not have drawn the same person.

    All rests on the counts being those of rows without weights.

    Parameters
    ----------
    release : Release
    control : array, optional
        Rows of the population in the columns of the model, for the prior.
    missing : frozenset of str
        Columns in which values may be missing, beside those that the release names.
    clock : Clock, optional
    seed : int
    visits : int
        Bound on the work.

    Raises
    ------
    NotCovered
        If the counts carry noise, contradict each other, or there are none.
    """
    clock = clock or Clock(1e9)
    if release.noise is not None:
        raise NotCovered(NOISY)
    counted_trees = [
        (t, tree, found)
        for t, tree in enumerate(release.trees)
        if (found := count(release, tree)) is not None
    ]
    if not counted_trees:
        raise NotCovered(UNCOUNTED)
    release = replace(release, trees=tuple(tree for _, tree, _ in counted_trees))
    partition = partition_of(release, missing)
    used = [counted_trees[t][2] for t in partition.trees]
    places = np.array([counted_trees[t][0] for t in partition.trees], dtype=np.int64)
    if not used:
        raise NotCovered(UNCOUNTED)
    widest = min(found[1].shape[1] for found in used)
    counted = _checked(partition, used, widest)
    prior = (
        prior_of_counts(partition, counted.people, seed)
        if control is None
        else prior_of_rows(partition, partition.encode(control))
    )
    claims = _of_leaves(partition, counted)
    complete = True
    can_compare = counted.all_rows and partition.fits(len(counted.people))
    if can_compare:
        more, complete = _differences(partition, counted, clock, visits)
        claims = np.vstack([claims, more])
    n_found = len(claims)
    boxes = partition.boxes(claims[:, 0])
    weight = prior.weight(partition, boxes)
    if n_found > MOST_CLAIMS:
        lightest = np.sort(np.argsort(weight, kind="stable")[:MOST_CLAIMS])
        claims, boxes = claims[lightest], boxes.take(lightest)
    node, other, label = claims[:, :3].T.copy()
    result = Claims(
        partition, counted, prior, node, other, label, claims[:, 3] == 1, boxes,
        np.zeros(0), np.zeros(0), places, n_found,
        complete and (can_compare or not counted.all_rows),
    )  # fmt: skip
    result = replace(result, at_first=_weights(result))
    if can_compare and len(node):
        result = _narrowed(result, clock, visits)
    return replace(result, weight=_weights(result))


def _checked(partition: Partition, used: Any, widest: int) -> Counted:
    """Put counts of all trees together, and hold those of nodes against those below them."""
    people = np.concatenate([found[0] for found in used])
    amounts = np.concatenate([found[1][:, found[1].shape[1] - widest :] for found in used])
    nodes = partition.nodes
    inner = np.flatnonzero(nodes.feature >= 0)
    for held in (people, amounts):
        if (held < 0).any() or (
            held[inner] != held[nodes.left[inner]] + held[nodes.right[inner]]
        ).any():
            raise NotCovered(CONTRADICTORY)
    roots = people[nodes.root[:-1]]
    all_rows = partition.release.sampling.kind == "all" and len(np.unique(roots)) == 1
    return Counted(people, amounts, all_rows)


def _of_leaves(partition: Partition, counted: Counted) -> IntArray:
    """List leaves of one person, and of one person of a class: node, -1, class, whether of it."""
    leaves, people, by_class = partition.leaves, counted.people, counted.amounts[:, :-1]
    one = leaves[people[leaves] == 1]
    label = by_class[one].argmax(axis=1) if by_class.shape[1] > 1 else np.full(len(one), -1)
    found = [np.column_stack([one, np.full(len(one), -1), label, np.zeros(len(one))])]
    for y in range(by_class.shape[1]):
        lone = leaves[(people[leaves] > 1) & (by_class[leaves, y] == 1)]
        found.append(np.column_stack([lone, np.full(len(lone), -1), np.full(len(lone), y),
                                      np.ones(len(lone))]))  # fmt: skip
    return np.vstack(found).astype(np.int64)


def _leaves_of_trees(partition: Partition) -> tuple[IntArray, IntArray]:
    leaves = partition.leaves
    return np.searchsorted(leaves, partition.nodes.root), leaves


def _all_boxes(partition: Partition, needed: bool) -> Boxes:
    n = len(partition.nodes.feature) if needed else 0
    return partition.boxes(np.arange(n))


def _differences(
    partition: Partition, counted: Counted, clock: Clock, visits: int
) -> tuple[IntArray, bool]:
    """Find nodes whose people but one lie in leaves of another tree inside them.

    From the smallest node on, until the visits or the time are used up.
    """
    nodes, people = partition.nodes, counted.people
    boxes = _all_boxes(partition, True)
    whole_box = partition.boxes(nodes.root[:1].astype(np.int64))
    sides = np.zeros(len(people), dtype=np.int64)
    for c in range(len(nodes.top)):
        sides |= (boxes.low[:, c] > whole_box.low[0, c]).astype(np.int64) << (2 * c % 62)
        sides |= (boxes.high[:, c] < whole_box.high[0, c]).astype(np.int64) << ((2 * c + 1) % 62)
    below = sides.copy()
    for v in range(len(below) - 1, -1, -1):
        if nodes.parent[v] >= 0:
            below[nodes.parent[v]] |= below[v]
    order = np.argsort(people, kind="stable")
    order = order[(people[order] > 1) & (people[order] < people[nodes.root[0]])]
    found, done, spent = [np.zeros((0, 4), dtype=np.int64)], 0, 0
    room = np.empty((_ROOM, 4), dtype=np.int64)
    whole, n_found = True, 0
    while done < len(order) and spent < visits and not clock.stopped:
        chosen = order[done : done + _STEP]
        n, visited = kernels.differences(
            nodes, tuple(boxes), counted.amounts, sides, below, chosen, room
        )
        whole &= n + counted.amounts.shape[1] < _ROOM
        found.append(room[:n].copy())
        done, spent, n_found = done + len(chosen), spent + visited, n_found + n
        if spent > visits // _SHARE_TRIED and n_found * _VISITS_EACH < spent:
            break
    return np.vstack(found), whole and done >= len(order)


def _narrowed(claims: Claims, clock: Clock, visits: int) -> Claims:
    """Narrow regions by what leaves of other trees hold; twice, for leaves are narrower then."""
    partition, counted, nodes = claims.partition, claims.counted, claims.partition.nodes
    boxes = _all_boxes(partition, True)
    tight, region = (held.copy() for held in (boxes, claims.region))
    sure = (claims.other < 0) & ~claims.of_class
    order = np.argsort(claims.at_first, kind="stable")
    # Some from all over come first: they say whether the rest is worth it.
    tried = order[:: max(len(order) // _STEP, 1)]
    order = np.concatenate([tried, order[~np.isin(order, tried)]])
    complete, spent, weight = claims.complete, 0, claims.at_first
    parts = np.split(order, range(_STEP, len(order), _STEP))
    for _ in range(_PASSES):
        for part in parts:
            if clock.stopped or spent > visits:
                complete = False
                break
            halves = [h for h in np.array_split(part, THREADS) if len(h)]
            mine = [region.take(half) for half in halves]
            spent += sum(
                run_all([
                    partial(
                        kernels.narrow, nodes, tuple(boxes), tuple(tight), counted.people,
                        counted.amounts, claims.node[half], claims.other[half],
                        claims.label[half], tuple(own),
                    )
                    for half, own in zip(halves, mine, strict=True)
                ])
            )  # fmt: skip
            for half, own in zip(halves, mine, strict=True):
                region.put(half, own)
            known = part[sure[part]]
            tight.put(claims.node[known], region.take(known))
            left = claims.prior.weight(partition, region.take(part)) / np.maximum(
                claims.at_first[part], 1e-300
            )
            if part is parts[0] and (left < _WORTH).mean() < _FEW:
                return replace(claims, region=region)
        before, weight = weight, claims.prior.weight(partition, region)
        if np.median(weight / np.maximum(before, 1e-300)) > _WORTH:
            break
    return replace(claims, region=region, complete=complete)


def _weights(claims: Claims) -> FloatArray:
    """Weigh the predicates: the region without what leaves inside the node have of it."""
    partition, prior, counted = claims.partition, claims.prior, claims.counted
    weight = prior.weight(partition, claims.region)
    if (claims.other >= 0).any():
        owner, *parts = kernels.parts_within(
            partition.nodes, tuple(_all_boxes(partition, True)), _leaves_of_trees(partition),
            claims.node, claims.other, tuple(claims.region),
        )  # fmt: skip
        taken = np.bincount(owner, prior.weight(partition, Boxes(*parts)), len(weight))
        # Less than rounding leaves of a difference is nothing.
        weight = np.maximum(weight - taken, weight * 1e-12)
    if claims.of_class.any():
        root = counted.amounts[partition.nodes.root[partition.nodes.tree[claims.node]]]
        own = root[np.arange(len(root)), claims.label] / np.maximum(root[:, -1], 1)
        weight = np.where(claims.of_class, weight * own, weight)
    return np.asarray(weight)
