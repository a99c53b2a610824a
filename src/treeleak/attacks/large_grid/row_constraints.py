"""What rows have to meet, tree by tree, where they are followed one by one.

The same form serves exact counts, where every tree counts every row once, and known draws,
where it counts row k as often as it drew it. Nothing in it needs a list of cells.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.large_grid.walk_kernels import Counts, Likes, Trees
from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.private import dataclass
from treeleak.evidence import ExactCounts, ExactTotals, KnownDraws
from treeleak.partition import Geometry
from treeleak.partition.masks import Masks
from treeleak.schema import Joint
from treeleak.side_information.given import KnownParts


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
            equation[closed] = len(target)
            target = np.append(target, 0)
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
                own = parts.allowed[:, edges[a] : edges[a + 1]]
                # Known parts that differ in the class alone have atoms of the same values.
                told = (own.sum(axis=1) == 1) | isinstance(part.attribute, Joint)
                held[:, a] = np.where(told, own.argmax(axis=1), -1)[parts.group]
        draws = np.pad(evidence.draws.T.astype(np.int32), ((0, 0), (0, n_behind)))
        # Trees behind those that drew count nothing here: what they say is held fast.
        equation = np.arange(n_leaves * n_classes).reshape(n_leaves, n_classes)
        distinct = None if evidence.d is None else np.append(evidence.d, np.zeros(n_more, np.int64))
        return cls(
            geometry=geometry,
            masks=Masks.of(geometry),
            equation=np.pad(equation, ((0, n_more), (0, 0))),
            target=evidence.n.ravel(),
            whole=np.full(n_leaves + n_more, -1),
            distinct=distinct,
            draws=np.ascontiguousarray(draws),
            label=label,
            open_label=open_label,
            held=held,
            exchangeable=False,
        )

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
        return Trees(
            m.start, bits, m.first, m.change_start, m.change_tree, several, m.open.shape[2],
            m.root, m.parent, m.leaf, m.ways.indptr, m.ways.indices,
        )  # fmt: skip

    @cached_property
    def flat(self) -> Likes:
        """No preference for any atom, but for those that are known."""
        n_atoms = int(self.masks.start[-1])
        log_share = np.zeros((1, n_atoms), dtype=np.float32)
        return Likes(
            log_share,
            np.zeros(self.n_rows, dtype=np.int32),
            np.zeros(n_atoms, dtype=np.int32),
            np.full((len(self.masks.start) - 1, 1), -1, dtype=np.int32),
            np.zeros((1, 1, 1, 1), dtype=np.float32),
        )

    def misfit(self, atoms: NDArray[np.int32], label: IntArray) -> int:
        """Sum over all equations of |A m - n|, distinct rows included."""
        counts = self.counted(self.masks.trace(atoms), label)
        return int(np.abs(counts.residual[: counts.n_own]).sum())

    def counted(self, leaves: NDArray[np.int32], label: IntArray) -> Counts:
        """Count rows, given their leaves, numbered from the left."""
        ways, n_classes = self.masks.ways, self.equation.shape[1]
        n_leaves = ways.shape[0]
        at = (leaves * n_classes + label[:, None]).ravel()
        own = np.bincount(at, self.draws.ravel(), n_leaves * n_classes).reshape(-1, n_classes)
        equation, distinct, target, n_own = self._at_nodes
        found = np.zeros(len(target))
        np.add.at(found, equation, ways.T @ own)
        if self.distinct is not None:
            rows = np.bincount(leaves.ravel(), self.draws.ravel() > 0, n_leaves)
            found[distinct] = ways.T @ rows
        residual = np.rint(found - target).astype(np.int32)
        return Counts(equation, distinct, self.draws, residual, np.zeros(len(residual)), n_own)

    @cached_property
    def _at_nodes(self) -> tuple[NDArray[np.int32], NDArray[np.int32], IntArray, int]:
        """Equations of all nodes: those of inner ones follow from those of the leaves below.

        Returns
        -------
        equation : int32 array, shape (n_nodes, n_classes)
        distinct : int32 array, shape (n_nodes,)
            -1 for none.
        target : int array, shape (n_equations,)
            Of leaves, of their distinct rows, and of inner nodes.
        n_own : int
            Where those of inner nodes begin.
        """
        m, n_classes = self.masks, self.equation.shape[1]
        row, inner = m.row[m.leaf], m.leaf < 0
        # A leaf that does not tell classes apart says all it counts under the first of them.
        whole = self.whole[m.row]
        n = self.target[self.equation[m.row]]
        n[whole >= 0] = 0
        n[whole >= 0, 0] = self.target[whole[whole >= 0]]
        alike = m.ways.T @ (whole >= 0) > 0
        n_own, n_inner = len(self.target), int(inner.sum())
        target, distinct = [self.target], np.full(len(inner), -1)
        if self.distinct is not None:
            distinct[~inner] = n_own + m.leaf[~inner]
            target.append(self.distinct[m.row])
            n_own += len(m.row)
        first = n_own + n_classes * np.arange(n_inner)[:, None]
        equation = self.equation[row]
        equation[inner] = first + np.where(alike[inner, None], 0, np.arange(n_classes))
        target.append((m.ways.T @ n)[inner].ravel())
        if self.distinct is not None:
            distinct[inner] = n_own + n_classes * n_inner + np.arange(n_inner)
            target.append((m.ways.T @ self.distinct[m.row])[inner])
        return equation.astype(np.int32), distinct.astype(np.int32), np.concatenate(target), n_own
