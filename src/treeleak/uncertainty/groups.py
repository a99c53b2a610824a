"""Groups of rows: where the rows of each may lie, their number, their residual uncertainty."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.uncertainty.counting import Tests, captured
from treeleak.uncertainty.regions import Region
from treeleak.uncertainty.space import Space

Sets = tuple[BoolArray, ...]

# 2^(2^20) has some 300,000 digits.
MOST_BITS = 1 << 20


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows in groups: of each group it is known where its rows may lie, and nothing more.

    What each attribute is, :class:`~treeleak.uncertainty.ProbabilisticDataset` says.
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
        box = tuple(s[b] for s, b in zip(self.sets, self.boxes[group], strict=True))
        outside = (*self.outside[group], *self.space.forbidden)
        return Region(self.space.sizes, box, outside, self.inside[group])

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
        said = [
            f"{axis.attribute.name}: {axis.say(self.sets[k][self.boxes[group, k]])}"
            for k, axis in enumerate(self.space.axes)
            if self.boxes[group, k]
        ]
        if self.outside[group]:
            said.append("meets no rule before")
        return "; ".join(said) or "anywhere"

    # How much is left.

    def row_entropies(self) -> FloatArray:
        """Bits that are left of each row, group by group; shape (n_rows,)."""
        return np.repeat(self.group_bits, self.support)

    def row_shares(self) -> FloatArray:
        """The same as shares of what there is to know of a row; shape (n_rows,)."""
        return np.repeat(self.shares, self.support)

    @property
    def shares(self) -> FloatArray:
        """The entropy of a row of each group as a share of that of an unknown row."""
        # Of the only row that there is, nothing was to know.
        return self.group_bits / self.space.bits if self.space.bits else np.zeros(len(self.names))

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
    def sizes(self) -> tuple[int, ...]:
        """Size of the region of each group, in the axes' units."""
        if self.ordered:
            # The schema's rules go first, and what they exclude is nobody's.
            forbidden, box = self.space.forbidden, self.space.everything.box
            every = captured(self.space.sizes, box, (*forbidden, *self.outside[-1]))
            return tuple(every[len(forbidden) :])
        return tuple(self.region(g).size for g in range(len(self.names)))

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
            for k, mask in enumerate(self.region(g).possible()):
                boxes[g, k] = len(self.sets[k]) + len(more[k])
                more[k].append(mask)
        return tuple(np.vstack([s, *m]) for s, m in zip(self.sets, more, strict=True)), boxes

    def filled(self, n: int) -> Self:
        """The dataset with rows of which nothing is known, ``n`` in all."""
        more = np.zeros((1, self.counts.shape[1]), dtype=np.int64)
        more[0, -1] = n - self.n_rows
        if not more.any():
            return self
        return replace(
            self,
            names=(*self.names, "unknown"),
            boxes=np.vstack([self.boxes, np.zeros((1, self.n_attributes), dtype=np.int64)]),
            outside=(*self.outside, ()),
            inside=(*self.inside, ()),
            counts=np.vstack([self.counts, more]),
            ordered=False,
        )

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
