"""What rows have to meet, tree by tree, where they are followed one by one.

The same form serves exact counts, where every tree counts every row once, and known draws,
where it counts row k as often as it drew it. Nothing in it needs a list of cells.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.large_grid.walk_kernels import Counts, LogPriorTables, Trees
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.memory import require
from treeleak.core.private import dataclass
from treeleak.evidence import ExactCounts, ExactTotals, KnownDraws
from treeleak.partition import Geometry
from treeleak.partition.masks import Masks, leaf_boxes
from treeleak.schema import Joint
from treeleak.side_information.side_information import KnownParts


@dataclass(frozen=True, eq=False)
class RowConstraints:
    """What rows have to meet: the sum over rows of draws x [row in leaf, class] = target."""

    geometry: Geometry
    masks: Masks
    equation: IntArray
    """Shape (n_leaves, n_classes). Equation of each leaf (row of A) and class."""
    target: IntArray
    """Shape (n_equations,)."""
    whole: IntArray
    """Shape (n_leaves,). Equation of each leaf that does not count classes apart; -1 for the
    others."""
    distinct: IntArray | None
    """Shape (n_leaves,). Distinct rows in each leaf, where they are counted; 0 in trees that do
    not."""
    draws: NDArray[np.int32]
    """Shape (n_rows, n_trees)."""
    label: IntArray
    """Shape (n_rows,). Class of each row, or a first guess."""
    open_label: BoolArray
    """Shape (n_rows,). Whether it is a guess."""
    held: IntArray
    """Shape (n_rows, n_attributes). Atom of each row where that is known; -1 elsewhere. Of an
    attribute, all are or none."""
    exchangeable: bool
    """Whether rows of one class may change places."""
    closed: NDArray[np.uint8] | None = None
    """Shape (n_rows, n_leaves). In which leaves (rows of A) rows are known not to lie."""
    span: IntArray | None = None
    """Shape (2, n_rows, n_attributes). Lowest and highest atom that rows may have, where that is
    known."""
    decided: BoolArray | None = None
    """Shape (n_rows, n_trees). Trees in which that leaves a row one leaf."""

    @classmethod
    def of_exact(cls, evidence: ExactCounts | ExactTotals, geometry: Geometry) -> RowConstraints:
        """State exact counts: of each class, as many rows walk as the first tree counts."""
        statements, n_classes = evidence.statements(), geometry.release.n_classes
        first = statements[0].right[: geometry.leaf_start[1]]
        # Trees behind the others, of what is known of rows, may count no classes.
        whole = np.concatenate([np.full(len(s.right), not s.by_class) for s in statements])
        target = np.concatenate([s.right.ravel() for s in statements])
        if isinstance(evidence, ExactCounts):
            label = np.repeat(np.arange(n_classes), first.sum(axis=0))
        else:
            label = np.zeros(int(first.sum()), dtype=np.int64)
        width = np.where(whole, 1, n_classes)
        begin = np.append(0, np.cumsum(width)[:-1])
        equation = begin[:, None] + np.where(whole, 0, 1)[:, None] * np.arange(n_classes)
        if isinstance(evidence, ExactTotals):
            # Where a class may not lie, its rows are counted apart, and there may be none.
            closed = ~evidence.open_leaves() & (target > 0)[:, None]
            equation[closed] = len(target) + np.arange(closed.sum())
            target = np.append(target, np.zeros(closed.sum(), dtype=np.int64))
        # Their leaves are held beside it, with eight bytes each.
        shape = len(label), len(geometry.release.trees)
        require("a table of all rows and trees", (3, *shape), np.int32)
        return cls(
            geometry=geometry,
            masks=Masks.of(geometry),
            equation=equation,
            target=target,
            whole=np.where(whole, begin, -1),
            distinct=None,
            draws=np.ones((len(label), len(geometry.release.trees)), dtype=np.int32),
            label=label,
            open_label=np.full(len(label), isinstance(evidence, ExactTotals) and n_classes > 1),
            held=np.full((len(label), len(geometry.parts)), -1),
            exchangeable=True,
        )

    @classmethod
    def of_known(
        cls,
        evidence: KnownDraws,
        geometry: Geometry,
        label: IntArray,
        open_label: BoolArray,
        parts: KnownParts | None,
    ) -> RowConstraints:
        """State counts of known draws; what is known of rows is held fast.

        ``label`` and ``open_label``, shape (n_rows,): as for the constraints.
        """
        n_rows, n_classes = len(label), evidence.n.shape[1]
        n_behind = len(geometry.release.trees) - len(evidence.draws)
        n_leaves, n_more = len(evidence.n), int(geometry.leaf_start[-1]) - len(evidence.n)
        held = np.full((n_rows, len(geometry.parts)), -1)
        if parts is not None:
            edges = np.append(0, np.cumsum(geometry.radix))
            for a, part in enumerate(geometry.parts):
                allowed = parts.allowed[:, edges[a] : edges[a + 1]]
                # Known parts that differ in the class alone have atoms of the same values.
                known = (allowed.sum(axis=1) == 1) | isinstance(part.attribute, Joint)
                held[:, a] = np.where(known, allowed.argmax(axis=1), -1)[parts.group]
        draws = np.pad(evidence.draws.T.astype(np.int32), ((0, 0), (0, n_behind)))
        # Trees behind those that drew count nothing here: what they say is held fast.
        equation = np.arange((n_leaves + n_more) * n_classes).reshape(-1, n_classes)
        distinct = None if evidence.d is None else np.append(evidence.d, np.zeros(n_more, np.int64))
        return cls(
            geometry=geometry,
            masks=Masks.of(geometry),
            equation=equation,
            target=np.append(evidence.n, np.zeros(n_more * n_classes, dtype=np.int64)),
            whole=np.full(n_leaves + n_more, -1),
            distinct=distinct,
            draws=np.ascontiguousarray(draws),
            label=label,
            open_label=open_label,
            held=held,
            exchangeable=False,
        )

    def of_separate_trees(self, seed: int) -> NDArray[np.int32] | None:
        """Rows that meet all counts of trees of which no two test one attribute, a single one say.

        Each lies somewhere in its leaves: these are boxes, and what one tree says leaves the others
        open. Shape (n_rows, n_attributes + 1), the class last. None where trees are not as these,
        where leaves do not count classes apart, or where no value leads to a leaf that has rows.
        """
        geometry, n_classes = self.geometry, self.equation.shape[1]
        apart = n_classes == 1 or (self.whole < 0).all()
        if not (self.exchangeable and apart):
            return None
        tests = self._attributes_of_trees()
        tree_of = {int(a): t for t, tested in enumerate(tests) for a in tested}
        if len(tree_of) < sum(map(len, tests)):
            return None
        count, box = self.target[self.equation].T, leaf_boxes(geometry)
        rng, out = np.random.default_rng(seed), []
        leaf_of = []
        for t, (first, last) in enumerate(pairwise(geometry.leaf_start)):
            by_class = [
                np.repeat(np.arange(first, last), leaf_counts[first:last]) for leaf_counts in count
            ]
            if t:
                # Within a class, nothing says which rows of two trees are the same.
                by_class = [rng.permutation(leaves) for leaves in by_class]
            leaf_of.append(np.concatenate(by_class))
        if len({len(leaf) for leaf in leaf_of}) > 1:
            return None
        for a, (begin, end) in enumerate(pairwise(self.masks.start)):
            leaf = leaf_of[tree_of.get(a, 0)]
            inside, atoms = box[:, begin:end].nonzero()
            n = np.bincount(inside, minlength=len(box))
            if not n[leaf].all():
                return None
            place = (rng.random(len(leaf)) * n[leaf]).astype(np.int64)
            out.append(atoms[(np.cumsum(n) - n)[leaf] + place])
        totals = count[:, : geometry.leaf_start[1]].sum(axis=1)
        label = np.repeat(np.arange(n_classes), totals)
        return np.column_stack([*out, label]).astype(np.int32)

    def _attributes_of_trees(self) -> list[IntArray]:
        """List the attributes that each tree tests."""
        release = self.geometry.release
        attribute = np.full(release.n_features, -1)
        for a, part in enumerate(self.geometry.parts):
            attribute[[release.feature_names.index(c) for c in part.attribute.columns]] = a
        tested = (np.unique(attribute[tree.feature[~tree.is_leaf]]) for tree in release.trees)
        return [found[found >= 0] for found in tested]

    @property
    def n_rows(self) -> int:
        """Rows that walk."""
        return len(self.label)

    @property
    def n_classes(self) -> int:
        """Classes; 1 where there are none."""
        return max(self.geometry.release.n_classes, 1)

    @property
    def n_lively(self) -> int:
        """Attributes that move."""
        return int(self.trees.lively.sum())

    @cached_property
    def trees(self) -> Trees:
        """The trees, laid out for the kernel."""
        m = self.masks
        several = (np.diff(m.start) > 1) & (self.held < 0).any(axis=0)
        bits = np.ascontiguousarray(m.open.reshape(len(m.open), -1))
        inner = np.flatnonzero((m.leaf < 0) & (m.parent >= 0))
        return Trees(
            m.start, bits, m.first, m.change_start, m.change_tree, several, m.open.shape[2],
            m.root, np.where(m.parent < 0, len(m.parent), m.parent).astype(np.int32), m.leaf,
            inner, np.searchsorted(inner, m.root), self._leaf_node,
            m.ways.indptr, m.ways.indices,
        )  # fmt: skip

    @cached_property
    def flat(self) -> LogPriorTables:
        """No preference for any atom, but for those that are known."""
        n_atoms = int(self.masks.start[-1])
        log_share = np.zeros((1, n_atoms), dtype=np.float32)
        return LogPriorTables(
            log_share,
            np.zeros(self.n_rows, dtype=np.int32),
            np.zeros(n_atoms, dtype=np.int32),
            np.full((len(self.masks.start) - 1, 1), -1, dtype=np.int32),
            np.zeros((1, 1, 1, 1), dtype=np.float32),
        )

    def misfit(self, atoms: NDArray[np.int32], label: IntArray) -> int:
        """Sum over all equations of |A m - n|, distinct rows included."""
        return self.missed(self.counted(self.masks.trace(atoms), label))

    def missed(self, counts: Counts) -> int:
        """Sum over all equations of leaves of |A m - n|."""
        return int(np.abs(counts.residual[self.once & (self.masks.leaf >= 0)]).sum())

    def counted(self, leaves: NDArray[np.int32], label: IntArray) -> Counts:
        """Count rows, given their leaves, numbered from the left."""
        ways, n_classes = self.masks.ways, self.equation.shape[1]
        at = (leaves * n_classes + label[:, None]).ravel()
        leaf_counts = np.bincount(at, self.draws.ravel(), ways.shape[0] * n_classes).reshape(
            -1, n_classes
        )
        found = [self._together(ways.T @ leaf_counts)]
        if self.distinct is not None:
            rows = np.bincount(leaves.ravel(), self.draws.ravel() > 0, ways.shape[0])
            found.append(ways.T @ rows[None].T)
        residual = np.rint(np.hstack(found).T - self._target).astype(np.int32, order="C")
        none = np.zeros(residual.shape)
        span = np.zeros((2, 0, 0), dtype=np.int64) if self.span is None else self.span
        open_draws = self.draws
        if self.decided is not None:
            open_draws = np.where(self.decided, 0, self.draws).astype(np.int32)
        return Counts(
            len(self._some_together) > 0, self.distinct is not None, self.closed is not None,
            self.span is not None, self._some_together, self.draws, residual, none, self._walls,
            span, open_draws,
        )  # fmt: skip

    @cached_property
    def _walls(self) -> NDArray[np.uint8]:
        """Leaves closed to rows, numbered from the left; (0, 0) if nothing is known."""
        if self.closed is None:
            return np.zeros((0, 0), dtype=np.uint8)
        return np.ascontiguousarray(self.closed[:, self.masks.row])

    @cached_property
    def once(self) -> BoolArray:
        """Which entries of residuals are to be counted: those of classes counted together, once."""
        once = (self._group == np.arange(self._group.shape[1])).T
        return once if self.distinct is None else np.vstack([once, np.ones_like(once[:1])])

    def _together(self, by_class: FloatArray) -> FloatArray:
        """Add up the classes that a node counts together, for each of them."""
        if not len(self._some_together):
            return by_class
        same = self._group[:, :, None] == self._group[:, None, :]
        return np.asarray(np.einsum("vcd,vd->vc", same, by_class))

    @cached_property
    def _some_together(self) -> NDArray[np.int32]:
        """Classes that nodes count together, without a line where every node counts all apart."""
        apart = (self._group == np.arange(self._group.shape[1])).all()
        return self._group[:0] if apart else self._group

    @cached_property
    def _leaf_node(self) -> NDArray[np.int32]:
        """Node of each leaf, numbered from the left."""
        ways = self.masks.ways
        return np.asarray(ways.indices[ways.indptr[1:] - 1])

    @cached_property
    def _group(self) -> NDArray[np.int32]:
        """First of the classes that each node counts together with a class: (n_nodes, n_classes).

        An inner node does not count apart what some leaf below it does not.
        """
        m = self.masks
        equation = self.equation[m.row[m.leaf]]
        group = (equation[:, :, None] == equation[:, None, :]).argmax(axis=2)
        mixed = m.ways.T @ (self.whole[m.row] >= 0) > 0
        inner = m.leaf < 0
        group[inner] = np.where(mixed[inner, None], 0, np.arange(group.shape[1]))
        return np.asarray(group, dtype=np.int32)

    @cached_property
    def _target(self) -> IntArray:
        """What each node is to count, by class, and of distinct rows: that of the leaves below it.

        Returns
        -------
        int array, shape (n_classes, n_nodes), or one line more
        """
        m = self.masks
        n = self.target[self.equation[m.row]]
        # Classes that are counted together are under the first of them.
        leaf_counts = np.where(self._group[self._leaf_node] == np.arange(n.shape[1]), n, 0)
        target = [self._together(m.ways.T @ leaf_counts)]
        if self.distinct is not None:
            target.append(m.ways.T @ self.distinct[m.row][:, None])
        return np.rint(np.hstack(target).T).astype(np.int64)
