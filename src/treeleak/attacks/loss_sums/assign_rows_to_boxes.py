"""Rows of groups shared out over boxes and classes, so that every leaf holds what it counts.

A group may lie in several boxes: no sum of the trees tells them apart. Counts of leaves rule out
some ways to share out rows, and mostly leave others. Of these, the likeliest is the answer; others
by chance say how sure it is.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import block_diag, csr_array, hstack, identity, vstack

from treeleak.attacks.loss_sums.layers import Groups
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.private import dataclass

_SECONDS = 10.0
"""Most time for the likeliest way, and as much again for all others."""
_WAYS = 6
"""Ways to share out rows, where there are several."""
_MISSED = 1e3
"""What a row that a leaf lacks weighs beside how likely boxes are."""


def assign_rows_to_boxes(
    groups: Groups, leaf: IntArray, begin: IntArray, clock: Clock, seed: int
) -> list[tuple[IntArray, IntArray]]:
    """Share out rows over boxes and classes: the likeliest way first, then others by chance.

    Others are the likeliest with Gumbel's noise added: so each alone would be drawn as often as it
    is likely (Papandreou and Yuille 2011). There are none where every group has one box.

    Parameters
    ----------
    groups : Groups
    leaf : int array, shape (n_boxes, n_trees)
        Leaves of each box.
    begin : int array, shape (n_attributes + 1,)
        First atom of each attribute.
    clock : Clock
    seed : int

    Returns
    -------
    list of two int arrays, shape (n_rows,) each
        Of each way the classes of the rows, and their boxes. Rows of a group stand in the same
        places in all.
    """
    program, likely = _Program.of(groups, leaf), _likely(groups, begin)
    first = program.likeliest(likely, min(clock.left, _SECONDS))
    ways = [_in_turns(groups, leaf) if first is None else first]
    rng = np.random.default_rng(seed)
    while len(groups.rows) < len(groups.group) and len(ways) < _WAYS and not clock.stopped:
        by_chance = likely + rng.gumbel(size=len(likely))
        other = program.likeliest(by_chance, min(clock.left, _SECONDS) / _WAYS)
        if other is None:
            break
        ways.append(other)
    return [_listed(way) for way in ways]


def _listed(held: IntArray) -> tuple[IntArray, IntArray]:
    """List rows, those of a group together: their classes, and their boxes."""
    label, box = np.divmod(np.repeat(np.arange(held.size), held.ravel()), held.shape[1])
    order = np.lexsort((label, box))
    return label[order], box[order]


def _likely(groups: Groups, begin: IntArray) -> FloatArray:
    """Say how likely a row is to lie in each box: a logarithm, of shape (n_boxes,).

    Attributes are taken one by one, and each atom for as frequent as it is where groups lie evenly
    in their boxes.
    """
    rows = (groups.rows / np.bincount(groups.group))[groups.group]
    out = np.zeros(len(groups.group))
    for first, end in pairwise(begin.tolist()):
        inside = groups.box[:, first:end]
        usual = rows @ (inside / inside.sum(axis=1, keepdims=True)) + 1.0 / (end - first)
        out += np.log(inside @ usual / usual.sum())
    return out


@dataclass(frozen=True, eq=False)
class _Program:
    """The integer program of all ways in which leaves hold what they count.

    Of each box the rows of either class; then of each count by how much it is missed, either way.
    """

    n_boxes: int
    high: FloatArray
    """Shape (n_variables,). Upper bounds."""
    constraint: LinearConstraint

    @classmethod
    def of(cls, groups: Groups, leaf: IntArray) -> _Program:
        (n, n_trees), (rows, ones) = leaf.shape, groups.held
        counted, classed = ~np.isnan(rows), ~np.isnan(ones)
        box = np.repeat(np.arange(n), n_trees)
        at = csr_array((np.ones(leaf.size), (leaf.ravel(), box)), shape=(len(rows), n))
        of = csr_array((np.ones(n), (groups.group, np.arange(n))), shape=(len(groups.rows), n))
        every = hstack([at[counted], at[counted]])
        sums = vstack([every, block_diag([csr_array((0, n)), at[classed]])])
        target = np.append(rows[counted], ones[classed])
        slack = identity(len(target))
        both = vstack([
            hstack([sums, slack, -slack]),
            hstack([of, of, csr_array((len(groups.rows), 2 * len(target)))]),
        ], format="csr")  # fmt: skip
        most = groups.rows[groups.group]
        high = np.concatenate([most, most, np.full(2 * len(target), groups.rows.sum())])
        wanted = np.append(target, groups.rows)
        return cls(n, high, LinearConstraint(both, wanted, wanted))

    def likeliest(self, likely: FloatArray, seconds: float) -> IntArray | None:
        """Find the way with the greatest sum of ``likely``, of shape (n_boxes,), over rows.

        What cannot be met is missed by as little as can be. Returns how many rows of each class
        boxes hold, shape (2, n_boxes); None if there was too little time.
        """
        n = 2 * self.n_boxes
        whole = (np.arange(len(self.high)) < n).astype(np.int64)
        cost = np.full(len(self.high), _MISSED)
        cost[:n] = np.tile(-likely, 2)
        found = milp(
            cost, integrality=whole, bounds=Bounds(np.zeros(len(cost)), self.high),
            constraints=self.constraint, options={"time_limit": max(seconds, 1.0)},
        )  # fmt: skip
        return None if found.x is None else np.rint(found.x[:n]).astype(np.int64).reshape(2, -1)


def _in_turns(groups: Groups, leaf: IntArray) -> IntArray:
    """Share out rows over boxes evenly, and classes as in the leaves of the first tree."""
    n_boxes = np.bincount(groups.group)[groups.group]
    place = np.arange(len(leaf)) - np.searchsorted(groups.group, groups.group)
    held = (groups.rows[groups.group] + n_boxes - 1 - place) // n_boxes
    rows, ones = groups.held[:, leaf[:, 0]]
    of_class = np.rint(np.nan_to_num(held * ones / np.maximum(rows, 1))).astype(np.int64)
    return np.array([held - of_class, of_class])
