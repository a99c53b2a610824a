"""DRAFT's mixed-integer linear program (Ferry et al. 2024, appendix A), through HiGHS.

For forests that used every row once per tree. The classes of the rows are fixed in advance; every
row k sends one unit of flow down every tree: y_tvk in [0, 1] is what reaches node v, and the
binary lambda_tdk says whether the row goes left at depth d. x_ki are the row's values: a unit that
goes to a child needs an atom that the parent's test sends there. Rows of one class stand in
ascending order of their values, read as a number. The paper's equations are numbered where they
are built.

HiGHS is reached through scipy, which treeleak needs anyway. Its interface can neither be
interrupted nor seeded: after Ctrl-C the answer stands at once, while the solver's thread works on
unheard until its time is over. The order of the rows, the only thing that the solver's path may
depend on, is fixed, so equal counts give equal rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize, sparse

from experiments.published_programs.literals import node_tests
from experiments.published_programs.program import (
    check_size,
    contradicted,
    refuse,
    unproved,
    values_at,
)
from treeleak.attacks.answer import Answer
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.parallel import run_watched
from treeleak.core.private import dataclass
from treeleak.evidence import ExactCounts
from treeleak.partition import Geometry
from treeleak.partition.value_index import ValueIndex, values_in
from treeleak.release.tree import Tree
from treeleak.side_information.side_information import NOTHING, SideInformation

_ORDER_BITS = 20
"""Digits that order the rows: beyond, the digits outgrow the tolerance of the solver."""

_STAGE = "solving the published integer program"
_INFEASIBLE = 2


def reference_milp(
    evidence: ExactCounts,
    geometry: Geometry,
    clock: Clock,
    seed: int,  # noqa: ARG001 - every attack has one
    given: SideInformation = NOTHING,
) -> Answer:
    """Rebuild the rows with the published mixed-integer linear program.

    An :data:`~treeleak.attacks.Attack`. The seed has no effect: the program has nothing random.

    Returns "feasible", "infeasible" where the solver proved that no rows meet the counts, or
    "unknown" where time ran out. Nothing is proved of any row; confidences and untested columns are
    as in :func:`reference_cp`. Raises NotCovered if the schema has rules, if rows, columns or a
    population are given, or if the program would be too large.
    """
    refuse("integer program", geometry, given)
    values = values_in(geometry)
    if (clash := evidence.contradiction()) is not None:
        return Answer("infeasible", values, contradiction=clash)
    if clock.stopped:
        return Answer("unknown", values)
    block = _Block.of(geometry, values, evidence.n)
    label = np.repeat(np.arange(block.n.shape[1]), block.n[0])
    n_terms = len(label) * block.n_terms
    check_size("integer program", n_terms, len(label), len(geometry.release.trees))
    numbers = {"variables": len(label) * block.width, "terms": n_terms}
    clock.report_progress(_STAGE, 0.0)
    result = _solved(_problem(block, label), clock)
    if result is not None and result.status == _INFEASIBLE:
        return contradicted(values, numbers)
    if result is None or result.x is None:
        return Answer("unknown", values, numbers=numbers)
    x = np.asarray(result.x)[: len(label) * block.width].reshape(len(label), block.width)
    atoms = np.column_stack([*(block.chosen(x, a) for a in range(len(geometry.parts))), label])
    clock.record(0)
    clock.report_progress(_STAGE, 1.0, 0)
    return unproved("feasible", values, values_at(atoms, values), numbers)


@dataclass(frozen=True, eq=False)
class _Block:
    """The variables and constraints of one row, which are the same for all rows."""

    width: int
    """Variables: first x, then for each tree lambda by depth and y by node."""
    at: list[int]
    """Where the variables of each attribute begin, and where the last ones end."""
    matrix: sparse.csr_array[Any]
    """Shape (n_constraints, width)."""
    lower: FloatArray
    upper: FloatArray
    """Shape (n_constraints,)."""
    integral: BoolArray
    """Shape (width,)."""
    nodes: IntArray
    """Shape (n_nodes,). Variables y of all nodes of all trees."""
    n: IntArray
    """Shape (n_nodes, n_classes). Rows of each class in each of these nodes."""

    @classmethod
    def of(cls, geometry: Geometry, values: ValueIndex, n: IntArray) -> _Block:
        sizes = [len(part) for part in values.parts]
        # As in the paper, a column of two values is one variable.
        at = np.cumsum([0, *(s if s > 2 else s - 1 for s in sizes)]).tolist()
        made = _Constraints()
        for a, size in enumerate(sizes):
            if size > 2:
                made.add(dict.fromkeys(range(at[a], at[a + 1]), 1.0), 1, 1)
        width = at[-1]
        nodes, counts = [], []
        integral = [True] * width
        for t, tree in enumerate(geometry.release.trees):
            depth = int(tree.depth.max())
            y = width + depth + np.arange(tree.n_nodes)
            _flow(made, tree, width, y)
            for v, a, left in node_tests(tree, geometry):
                _follow(made, int(y[tree.left[v]]), at[a], left)
                _follow(made, int(y[tree.right[v]]), at[a], ~left)
            width += depth + tree.n_nodes
            integral += [True] * depth + [False] * tree.n_nodes
            nodes.append(y)
            counts.append(
                _node_counts(tree, n[geometry.leaf_start[t] : geometry.leaf_start[t + 1]])
            )
        matrix, lower, upper = made.built(width)
        return cls(
            width, at, matrix, lower, upper, np.array(integral),
            np.concatenate(nodes), np.concatenate(counts),
        )  # fmt: skip

    @property
    def n_terms(self) -> int:
        """Terms of all constraints in which a row stands."""
        return int(self.matrix.nnz) + len(self.nodes) + 2 * min(self.at[-1], _ORDER_BITS)

    def chosen(self, x: FloatArray, a: int) -> IntArray:
        """Atom of one attribute, counted within it, of each row of a solution."""
        own = x[:, self.at[a] : self.at[a + 1]]
        if own.shape[1] > 1:
            return np.asarray(own.argmax(axis=1))
        return np.asarray((own > 0.5).sum(axis=1))


class _Constraints:
    """Linear constraints of one row, as they come."""

    def __init__(self) -> None:
        self._terms: list[dict[int, float]] = []
        self._bounds: list[tuple[float, float]] = []

    def add(self, terms: dict[int, float], lower: float, upper: float) -> None:
        self._terms.append(terms)
        self._bounds.append((lower, upper))

    def built(self, width: int) -> tuple[sparse.csr_array[Any], FloatArray, FloatArray]:
        row = np.repeat(np.arange(len(self._terms)), [len(terms) for terms in self._terms])
        column = np.array([i for terms in self._terms for i in terms], dtype=np.int64)
        data = np.array([w for terms in self._terms for w in terms.values()], dtype=float)
        matrix = sparse.csr_array((data, (row, column)), shape=(len(self._terms), width))
        lower, upper = np.array(self._bounds, dtype=float).reshape(-1, 2).T
        return matrix, lower, upper


def _flow(made: _Constraints, tree: Tree, first: int, y: IntArray) -> None:
    """Send one unit through a tree; lambda stands at ``first`` and behind, by depth."""
    made.add({int(y[0]): 1.0}, 1, 1)  # (1)
    inner = np.flatnonzero(~tree.is_leaf)
    for v in inner:
        flow = {int(y[v]): 1.0, int(y[tree.left[v]]): -1.0, int(y[tree.right[v]]): -1.0}
        made.add(flow, 0, 0)  # (2)
    for d in range(int(tree.depth.max())):
        at = inner[tree.depth[inner] == d]
        made.add({first + d: -1.0} | {int(i): 1.0 for i in y[tree.left[at]]}, -np.inf, 0)  # (3)
        made.add({first + d: 1.0} | {int(i): 1.0 for i in y[tree.right[at]]}, -np.inf, 1)  # (4)


def _follow(made: _Constraints, y: int, first: int, goes: BoolArray) -> None:
    """Let flow into a child only with an atom that goes there: (5) and (6)."""
    if goes.all():
        return
    terms, constant = {y: 1.0}, 0.0
    if len(goes) > 2:
        terms |= {first + int(i): -1.0 for i in np.flatnonzero(goes)}
    elif goes.any():
        # One variable for both atoms: true for the second.
        constant = float(goes[0])
        terms[first] = 1.0 if goes[0] else -1.0
    made.add(terms, -np.inf, constant)


def _node_counts(tree: Tree, at_leaves: IntArray) -> IntArray:
    """Rows of each class in every node, from those in the leaves."""
    out = np.zeros((tree.n_nodes, at_leaves.shape[1]), dtype=np.int64)
    out[tree.leaves] = at_leaves
    for v in np.flatnonzero(~tree.is_leaf)[::-1]:
        out[v] = out[tree.left[v]] + out[tree.right[v]]
    return out


def _problem(block: _Block, label: IntArray) -> dict[str, Any]:
    """Write the program of all rows for scipy: every row its block, and what ties them."""
    n_rows = len(label)
    if not n_rows:
        # Nothing to choose; scipy wants a variable all the same.
        return {"c": np.zeros(1)}
    shape = (len(block.nodes), block.width)
    pick = sparse.csr_array((np.ones(len(block.nodes)), (range(shape[0]), block.nodes)), shape)
    of_class = sparse.csr_array(np.equal.outer(np.arange(block.n.shape[1]), label).astype(float))
    target = block.n.T.ravel().astype(float)
    alike = np.flatnonzero(label[1:] == label[:-1])
    # Row k minus row k + 1 of its class.
    both = sparse.eye_array(n_rows, format="csr")
    step = both[alike] - both[alike + 1]
    digits = min(block.at[-1], _ORDER_BITS)
    worth = sparse.csr_array(
        (2.0 ** np.arange(digits), ([0] * digits, range(digits))), shape=(1, block.width)
    )
    constraints = [
        optimize.LinearConstraint(
            sparse.kron(sparse.eye_array(n_rows), block.matrix, format="csr"),
            np.tile(block.lower, n_rows),
            np.tile(block.upper, n_rows),
        ),
        optimize.LinearConstraint(sparse.kron(of_class, pick, format="csr"), target, target),  # (7)
        optimize.LinearConstraint(sparse.kron(step, worth, format="csr"), -np.inf, 0),  # (8)
    ]
    return {
        "c": np.zeros(n_rows * block.width),
        "constraints": constraints,
        "integrality": np.tile(block.integral, n_rows),
        "bounds": optimize.Bounds(0, 1),
    }


def _solved(problem: dict[str, Any], clock: Clock) -> Any:
    """Solve in a thread, so that Ctrl-C is heard; None if it was."""
    options: Any = {"time_limit": clock.left}
    return run_watched(lambda: optimize.milp(**problem, options=options), lambda: clock.interrupted)
