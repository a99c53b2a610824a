"""The probabilistic dataset: what is known about each row, and its residual uncertainty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.private import dataclass
from treeleak.release.release import class_numbers
from treeleak.uncertainty.regions import FirstMatch, Tests
from treeleak.uncertainty.space import Space

Sets = tuple[BoolArray, ...]
Region = tuple[FirstMatch, range]
"""Points that one of some boxes takes; behind the last box, no box."""

# 2^(2^20) has some 300,000 digits.
MOST_BITS = 1 << 20
# Costs are rounded to whole units of this.
UNIT = 1e-9
MOST_PAIRS = 10_000_000


@dataclass(frozen=True, eq=False)
class ProbabilisticDataset:
    """Rows in groups: of each group it is known where its rows may lie, and nothing more.

    Every choice of a point for each row is a world, and all worlds are equally probable
    (Ferry 2024, section IV-A2). Rows are independent of each other; attributes of a row are
    where its region is a box, as in trees (Gambs 2012), and are not in rule lists.

    Made by :func:`treeleak.uncertainty.from_tree` and
    :func:`~treeleak.uncertainty.from_rule_list`; the classes of rows are known beside and count in
    no entropy.

    Attributes
    ----------
    space : Space
        What a row can be.
    classes : tuple
    names : tuple of str
        Of the groups: "leaf 7", "rule 3".
    sets : tuple of bool array, shape (n_sets, n_atoms)
        For each attribute, sets of its atoms; the first is all of them.
    boxes : int array, shape (n_groups, n_attributes)
        Which of these sets is possible in a group.
    outside, inside : tuple of tuple of Tests
        For each group, boxes in which its rows do not lie; boxes in one of which they do.
    counts : int array, shape (n_groups, n_classes + 1)
        Rows of each class in a group; in the last column, rows of which no class is known.
    origin : str
    notes : tuple of str
        What to know of how the dataset came about.
    ordered : bool
        Whether each group holds what those before it leave of its box, as in a rule list.
    """

    space: Space
    classes: tuple[Any, ...]
    names: tuple[str, ...]
    sets: Sets
    boxes: IntArray
    outside: tuple[tuple[Tests, ...], ...]
    inside: tuple[tuple[Tests, ...], ...]
    counts: IntArray
    origin: str = ""
    notes: tuple[str, ...] = ()
    ordered: bool = False

    def __repr__(self) -> str:
        return (
            f"<ProbabilisticDataset of {self.n_rows:,} rows in {len(self.names):,} groups, "
            f"{self.n_attributes} attributes>"
        )

    # What there is.

    @property
    def n_attributes(self) -> int:
        """Number of attributes, d."""
        return len(self.space.axes)

    @cached_property
    def support(self) -> IntArray:
        """Rows of each group, C_j."""
        return np.asarray(self.counts.sum(axis=1), dtype=np.int64)

    @cached_property
    def n_rows(self) -> int:
        """Number of rows, n."""
        return int(self.support.sum())

    def region(self, group: int) -> Region:
        """Where the rows of a group may lie."""
        first = len(self.space.forbidden)
        if self.ordered:
            return self._in_order, range(first + group, first + group + 1)
        box = [s[b] for s, b in zip(self.sets, self.boxes[group], strict=True)]
        outside = (*self.space.forbidden, *self.outside[group])
        matches = FirstMatch(self.space.sizes, box, (*outside, *self.inside[group]))
        return matches, range(len(outside), len(outside) + max(len(self.inside[group]), 1))

    @cached_property
    def boxed(self) -> BoolArray:
        """Groups whose attributes are independent without a further look."""
        tied = [bool(o or i) for o, i in zip(self.outside, self.inside, strict=True)]
        return ~np.array(tied, dtype=bool) & (not self.space.forbidden)

    @cached_property
    def points(self) -> tuple[int, ...]:
        """How many different rows each group allows: num(f_j) of a tree, Capt(f_j) of a list.

        Numeric columns count in steps; where a group is less than one step wide, it is one.
        """
        return tuple(
            max((size + unit // 2) // unit, 1) if size else 0
            for size, unit in zip(self.sizes, self.units, strict=True)
        )

    @cached_property
    def group_bits(self) -> FloatArray:
        """Entropy of a row of each group, log2 of :attr:`points` before they are rounded."""
        bits = np.zeros(len(self.names))
        for k, axis in enumerate(self.space.axes):
            bits += axis.entropy(self.set_sizes[k])[self.boxes[:, k]]
        for g in np.flatnonzero(~self.boxed).tolist():
            size, unit = self.sizes[g], self.units[g]
            bits[g] = max(math.log2(size) - math.log2(unit), 0.0) if size else -math.inf
        return bits

    @cached_property
    def groups(self) -> pd.DataFrame:
        """One line for each group: where its rows lie, how many, and their residual uncertainty."""
        where = [self.say(g) for g in range(len(self.names))]
        by_class = {f"rows of {c}": self.counts[:, i] for i, c in enumerate(self.classes)}
        return pd.DataFrame(
            {
                "group": self.names,
                "where": where,
                "rows": self.support,
                **by_class,
                "bits": self.group_bits,
                "left": self.shares,
            }
        )

    def say(self, group: int) -> str:
        """Tell in words where the rows of a group lie."""
        parts = [
            f"{axis.attribute.name}: {axis.say(self.sets[k][self.boxes[group, k]])}"
            for k, axis in enumerate(self.space.axes)
            if self.boxes[group, k]
        ]
        if self.outside[group]:
            parts.append("meets no rule before")
        return "; ".join(parts) or "anywhere"

    # How much is left.

    def row_shares(self) -> FloatArray:
        """Share that is left of each row's entropy, group by group; shape (n_rows,)."""
        return np.repeat(self.shares, self.support)

    @property
    def shares(self) -> FloatArray:
        """The entropy of a row of each group as a share of that of an unknown row."""
        # Of the only row that there is, nothing was to know.
        return self.group_bits / self.space.bits if self.space.bits else np.zeros(len(self.names))

    def dist(self) -> float:
        """Average uncertainty that is left of a value: Gambs' distance to a table it allows.

        (1 / nd) sum of H(V_k(x_i)) / H(V_k) over rows i and attributes k, where V_k(x_i) are the
        values that row i may have (Gambs 2012, eq. 1). An attribute that has one value only counts
        in no mean.
        """
        sets, boxes = self.narrow
        left = [
            np.maximum(axis.entropy(s @ axis.sizes), 0.0)[boxes[:, k]] / axis.bits
            for k, (axis, s) in enumerate(zip(self.space.axes, sets, strict=True))
            if axis.bits > 0
        ]
        by_group = sum(left, np.zeros(len(self.names))) / max(len(left), 1)
        return float(by_group @ self.support) / self.n_rows if self.n_rows else math.nan

    def dist_g(self) -> float:
        """Share of the joint entropy of all rows that is left: Ferry's Dist_G.

        Sum over groups of C_j log2 Capt(j), over n times the entropy of a row of which nothing is
        known (Ferry 2024, eq. 2, 11 and 16). 1 if nothing is known, 0 if everything is.
        """
        if not self.n_rows:
            return math.nan
        some = self.support > 0
        return float(self.shares[some] @ self.support[some]) / self.n_rows

    # Worlds.

    @cached_property
    def log2_worlds(self) -> float:
        """Logarithm of the number of worlds: of tables, with numbered rows, of known classes."""
        some = self.support > 0
        return float(self.group_bits[some] @ self.support[some])

    @cached_property
    def n_worlds(self) -> int | None:
        """Exact number of worlds; None beyond 2 to the power 2^20, see :attr:`log2_worlds`."""
        if self.log2_worlds > MOST_BITS:
            return None
        powers: list[int] = [p**c for p, c in zip(self.points, self.support.tolist(), strict=True)]
        return math.prod(powers)

    # What the above is made of.

    @cached_property
    def _in_order(self) -> FirstMatch:
        """What each rule of a list takes; what the schema's rules exclude is nobody's."""
        boxes = (*self.space.forbidden, *self.outside[-1])
        return FirstMatch(self.space.sizes, self.space.everything, boxes)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Size of the region of each group, in the axes' units."""
        regions = map(self.region, range(len(self.names)))
        return tuple(sum(matches.counts[j] for j in taking) for matches, taking in regions)

    @cached_property
    def units(self) -> tuple[int, ...]:
        """What counts as one point of each group; less than a step, where its box is no wider."""
        numeric = [k for k, axis in enumerate(self.space.axes) if axis.unit > 1]
        wide = [
            np.clip(self.set_sizes[k], 1, self.space.axes[k].unit)[self.boxes[:, k]]
            for k in numeric
        ]
        return tuple(math.prod(int(w[g]) for w in wide) for g in range(len(self.names)))

    @cached_property
    def set_sizes(self) -> tuple[IntArray, ...]:
        """For each attribute, the sizes of its sets, in the axis's unit."""
        return tuple(s @ axis.sizes for s, axis in zip(self.sets, self.space.axes, strict=True))

    @cached_property
    def narrow(self) -> tuple[Sets, IntArray]:
        """Sets and boxes of the values that each attribute can have by itself."""
        tied = np.flatnonzero(~self.boxed).tolist()
        if not tied:
            return self.sets, self.boxes
        boxes = self.boxes.copy()
        more: list[list[BoolArray]] = [[] for _ in self.sets]
        for g in tied:
            matches, taking = self.region(g)
            for k, mask in enumerate(matches.possible(taking)):
                boxes[g, k] = len(self.sets[k]) + len(more[k])
                more[k].append(mask)
        return tuple(np.vstack([s, *m]) for s, m in zip(self.sets, more, strict=True)), boxes

    def by_class(self) -> Self:
        """The same with groups of one class each, and none that is empty."""
        group, label = np.nonzero(self.counts)
        counts = np.zeros((len(group), self.counts.shape[1]), dtype=np.int64)
        counts[np.arange(len(group)), label] = self.counts[group, label]
        return replace(
            self,
            names=tuple(self.names[g] for g in group),
            boxes=self.boxes[group],
            outside=tuple(self.outside[g] for g in group),
            inside=tuple(self.inside[g] for g in group),
            counts=counts,
            ordered=False,
        )

    # Held against tables.

    def contains(self, X: pd.DataFrame, y: Sequence[Any] | None = None) -> bool:
        """Say whether a table is one of the worlds, in any order of its rows.

        Parameters
        ----------
        X : DataFrame
        y : sequence, optional
            Labels; not looked at, if not given.

        Raises
        ------
        BadInput
            Naming the column that is missing or cannot be read.
        NotCovered
            If there are too many pairs of different rows and groups.
        """
        return len(X) == self.n_rows and self.distance(X, y) == 0

    def distance(self, X: pd.DataFrame, y: Sequence[Any] | None = None) -> float:
        """Distance of a table to the nearest world.

        The least share of values that must change before the table is a world; with labels, these
        are values as well. A row too many or too few counts as one all of whose values change.
        Behind noise, the training rows need not be a world: this says how far they are from one
        (Ferry 2024, appendix C).

        Raises
        ------
        BadInput
            Naming the column that is missing or cannot be read.
        """
        if not (len(X) or self.n_rows):
            return 0.0
        atoms, label, rows = _points_of(self, X, y)
        # A group without rows may have no room for any.
        groups = self.by_class()
        pairs = len(rows) + 1, len(groups.names) + 1
        if math.prod(pairs) > MOST_PAIRS:
            raise NotCovered(
                f"{pairs[0]:,} x {pairs[1]:,} groups of rows are too many to align "
                f"({MOST_PAIRS:,} pairs are covered)"
            )
        d = self.n_attributes + (y is not None)
        changes = np.array(
            [_changes(groups, g, atoms) for g in range(len(groups.names))], dtype=float
        ).reshape(-1, len(atoms)).T  # fmt: skip
        if y is not None:
            majority = groups.counts.argmax(axis=1)
            changes += (label[:, None] != majority) & (majority != len(self.classes))
        short = self.n_rows - len(X)
        cost, theirs = changes, groups.support
        if short > 0:
            cost, rows = np.vstack([cost, np.full((1, len(theirs)), d)]), np.append(rows, short)
        if short < 0:
            cost, theirs = np.hstack([cost, np.full((len(rows), 1), d)]), np.append(theirs, -short)
        i, j, n = align(cost, rows, theirs)
        return float(cost[i, j] @ n) / (d * int(rows.sum()))


def _points_of(
    data: ProbabilisticDataset, X: pd.DataFrame, y: Sequence[Any] | None
) -> tuple[IntArray, IntArray, IntArray]:
    """Different rows of a table as atoms, their class numbers, and how often each stands."""
    label = np.zeros(len(X), dtype=np.int64) if y is None else class_numbers(data.classes, y)
    if len(label) != len(X):
        raise BadInput(f"{len(X)} rows have {len(label)} labels")
    rows = np.column_stack([data.space.locate(X), label])
    different, n = np.unique(rows, axis=0, return_counts=True)
    return different[:, :-1], different[:, -1], n


def _changes(data: ProbabilisticDataset, group: int, atoms: IntArray) -> IntArray:
    """How many attributes of each row (atoms) must change to be one of a group."""
    if not data.boxed[group]:
        matches, taking = data.region(group)
        return np.array([matches.changes_to(row, taking) for row in atoms], dtype=np.int64)
    unchanged = np.zeros(len(atoms), dtype=np.int64)
    for k, (sets, at) in enumerate(zip(data.sets, data.boxes[group], strict=True)):
        unchanged += sets[at][atoms[:, k]] & (atoms[:, k] >= 0)
    return data.n_attributes - unchanged


def align(
    cost: FloatArray, mine: IntArray, theirs: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Pair the rows of two datasets at the least total cost.

    Rows of a group are alike, so this is the Hungarian method on groups.

    Parameters
    ----------
    cost : float array, shape (n_mine, n_theirs)
        Of pairing a row of one group with a row of the other.
    mine, theirs : int array
        Rows in each group; both have the same sum.

    Returns
    -------
    i, j, n : int array
        Pairs of groups, and how many rows they share.
    """
    from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

    tails, heads = (x.ravel() for x in np.indices(cost.shape))
    whole = np.rint((cost - cost.min(initial=0.0)) / UNIT).astype(np.int64).ravel()
    flow = SimpleMinCostFlow()
    most = np.minimum.outer(mine, theirs).ravel()
    arcs = flow.add_arcs_with_capacity_and_unit_cost(tails, len(mine) + heads, most, whole)
    flow.set_nodes_supplies(np.arange(len(mine) + len(theirs)), np.concatenate([mine, -theirs]))
    status = flow.solve()
    if status != flow.OPTIMAL:
        raise AssertionError(f"no alignment of {mine.sum()} with {theirs.sum()} rows: {status}")
    n = np.asarray(flow.flows(arcs), dtype=np.int64)
    used = np.flatnonzero(n)
    return used // cost.shape[1], used % cost.shape[1], n[used]
