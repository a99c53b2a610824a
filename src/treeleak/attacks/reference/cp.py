"""DRAFT's constraint program (Ferry, Fukasawa, Pascal and Vidal 2024, section 6), through CP-SAT.

Every training row k has variables of its own: x_ki, its values; z_kc, its class; and for every
tree t, leaf v and class c, whether the row stands there, y_tvkc. What a leaf's path demands
follows from standing in it, and the released counts are sums over rows.

- *Every row used once per tree* (the paper's model without bagging): the classes of the rows are
  fixed in advance, by the number of rows of each class, and sum_k y_tvkc = n_tvc. As in the
  paper's constraint program, nothing breaks the symmetry between rows.
- *Known draws*: the paper leaves it to the solver how often tree t drew row k, at most seven
  times, and maximises the likelihood of these numbers. Here they are the constants b_tk:
  sum_k b_tk y_tvkc = n_tvc, nothing is left to maximise, and a row that a tree did not draw has
  no variable there. The model knows no distinct counts.

The paper knows binary columns, some of them in one-hot groups. Here x has one variable per atom
of each attribute, exactly one of them true: the same for these columns, and its natural
extension to ordinal, categorical and numeric ones. Variables that a single count makes zero,
because the leaf holds fewer rows of the class than the row alone would bring, are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from ortools.sat.python import cp_model

from treeleak.attacks.answer import Answer, Rows
from treeleak.attacks.integer import interruptible
from treeleak.attacks.space import Values, values_of
from treeleak.clock import Clock, OutOfTime
from treeleak.errors import NotCovered
from treeleak.evidence import Contradiction, ExactCounts, KnownDraws
from treeleak.given import NOTHING, Given
from treeleak.partition import Geometry
from treeleak.release.tree import Tree

__all__ = ["MAX_TERMS", "reference_cp"]

IntArray = NDArray[np.int64]

MAX_TERMS = 4_000_000
"""Most terms (literals in constraints) of a model that is built: the solver takes about 10 GB."""


def reference_cp(
    evidence: ExactCounts | KnownDraws,
    geometry: Geometry,
    clock: Clock,
    seed: int,
    given: Given = NOTHING,
) -> Answer:
    """Rebuild the rows with the published constraint program.

    Parameters
    ----------
    evidence : ExactCounts or KnownDraws
    geometry : Geometry
    clock : Clock
    seed : int
        Equal seeds give equal rows, unless time runs out.
    given : Given

    Returns
    -------
    Answer
        "feasible" where all evidence is met (the program proves no row and never "unique"),
        "infeasible" where the solver proved that no rows meet the counts, and else "unknown":
        time ran out, or the rows miss distinct counts, which the program does not know. With
        known draws, row k of the answer is row k of the training set. Where the trees part no
        values of an attribute, the first listed one stands. The program says nothing of its
        certainty, so each value is given the probability that it has without any knowledge.

    Raises
    ------
    NotCovered
        If the schema has rules, if rows or columns are known, or if the program would be too large.
    """
    given.refuse("the published constraint program")
    if geometry.schema.rules:
        raise NotCovered("the published constraint program knows no rules between columns")
    values = values_of(geometry.parts, max(len(geometry.release.classes), 1))
    if isinstance(evidence, ExactCounts) and (clash := evidence.contradiction()) is not None:
        return Answer("infeasible", values, contradiction=clash)
    try:
        program = _Program.of(evidence, geometry, values, clock)
    except OutOfTime:
        return Answer("unknown", values)
    numbers = {"variables": len(program.model.proto.variables), "terms": program.n_terms}
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 2
    # Workers that take turns in a fixed order: the same rows for the same seed.
    solver.parameters.interleave_search = True
    solver.parameters.catch_sigint_signal = False
    solver.parameters.random_seed = seed % 2**31
    clock.tell("solving the published constraint program", 0.0)
    solver.parameters.max_time_in_seconds = clock.left
    status = interruptible(solver, program.model, clock)
    if status == cp_model.INFEASIBLE:
        why = "the solver proved that no rows meet the counts of all trees"
        return Answer("infeasible", values, contradiction=Contradiction(0, 0, why), numbers=numbers)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Answer("unknown", values, numbers=numbers)
    found = program.rows(solver, values)
    misfit = 0 if isinstance(evidence, ExactCounts) else _missed_distinct(evidence, values, found)
    clock.record(misfit)
    clock.tell("solving the published constraint program", 1.0, misfit)
    ignorance = 1.0 / np.maximum(np.diff(values.start), 2)
    rows = Rows(
        values=found,
        confidence=np.broadcast_to(ignorance, found.shape).copy(),
        proved=np.zeros(len(found), dtype=bool),
        unique=False,
        misfit=misfit,
    )
    outcome: Literal["feasible", "unknown"] = "unknown" if misfit else "feasible"
    ordered = isinstance(evidence, KnownDraws)
    return Answer(outcome, values, (rows,), numbers=numbers, ordered=ordered)


@dataclass(frozen=True, eq=False)
class _Program:
    """The model and those of its variables that make the rows.

    Attributes
    ----------
    model : CpModel
    atoms : list
        x: for each row and attribute, one literal per atom; empty where there is one atom only.
    classes : list
        z: for each row, one literal per class; a single number where the class is fixed.
    n_terms : int
    """

    model: cp_model.CpModel
    atoms: list[list[list[Any]]]
    classes: list[list[Any] | int]
    n_terms: int

    @classmethod
    def of(
        cls, evidence: ExactCounts | KnownDraws, geometry: Geometry, values: Values, clock: Clock
    ) -> _Program:
        """Build the model.

        Raises
        ------
        NotCovered
            If it would be too large.
        OutOfTime
        """
        start, n_classes = geometry.leaf_start, evidence.n.shape[1]
        paths = [p for tree in geometry.release.trees for p in _paths(tree, geometry, values)]
        draws, label = _rows_of(evidence)
        n_terms = _size(evidence, geometry, paths, draws, label)
        if n_terms > MAX_TERMS:
            raise NotCovered(
                f"the published constraint program has about {n_terms:.2g} terms for "
                f"{draws.shape[1]:,} rows and {draws.shape[0]} trees; at most {MAX_TERMS:,} are "
                "built"
            )
        model = cp_model.CpModel()
        n = evidence.n.tolist()
        summands: list[list[list[Any]]] = [[[] for _ in range(n_classes)] for _ in n]
        weights: list[list[list[int]]] = [[[] for _ in range(n_classes)] for _ in n]
        atoms: list[list[list[Any]]] = []
        classes: list[list[Any] | int] = []
        for k in range(draws.shape[1]):
            clock.check()
            clock.tell("building the published constraint program", k / draws.shape[1])
            x = [_one_of(model, len(part)) for part in geometry.parts]
            literals = [lit for own in x for lit in own or [None]]
            literals += [None if lit is None else ~lit for lit in literals]
            z = _one_of(model, n_classes) if label is None else []
            open_classes = [int(label[k])] if label is not None else range(n_classes)
            atoms.append(x)
            classes.append(z or open_classes[0])
            for t, b in enumerate(draws[:, k].tolist()):
                if not b:
                    continue
                here = []
                for v in range(start[t], start[t + 1]):
                    fits = [c for c in open_classes if n[v][c] >= b]
                    path = paths[v]
                    if path is None or not fits:
                        continue
                    w = model.new_bool_var("")
                    here.append(w)
                    if path:
                        model.add_bool_and([literals[i] for i in path]).only_enforce_if(w)
                    y = [w] if len(fits) == 1 else [model.new_bool_var("") for _ in fits]
                    if len(y) > 1:
                        model.add_bool_or(y).only_enforce_if(w)
                    for c, stands in zip(fits, y, strict=True):
                        if len(y) > 1:
                            model.add_implication(stands, w)
                        if z:
                            model.add_implication(stands, z[c])
                        summands[v][c].append(stands)
                        weights[v][c].append(b)
                model.add_exactly_one(here)
        for v, row in enumerate(n):
            for c, count in enumerate(row):
                total = cp_model.LinearExpr.weighted_sum(summands[v][c], weights[v][c])
                model.add(total == count)
        return cls(model, atoms, classes, n_terms)

    def rows(self, solver: cp_model.CpSolver, values: Values) -> IntArray:
        """Read the rows of a solution, in values."""

        def chosen(literals: Sequence[Any]) -> int:
            return next((i for i, lit in enumerate(literals) if solver.boolean_value(lit)), 0)

        atoms = np.array(
            [
                [*(chosen(own) for own in x), z if isinstance(z, int) else chosen(z)]
                for x, z in zip(self.atoms, self.classes, strict=True)
            ],
            dtype=np.int64,
        ).reshape(len(self.atoms), len(values.parts) + 1)
        first: IntArray = np.searchsorted(values.atom_of, np.arange(values.n_atoms))
        return np.asarray(first[atoms + values.atom_start[:-1]])


def _rows_of(
    evidence: ExactCounts | KnownDraws,
) -> tuple[NDArray[np.unsignedinteger[Any]], IntArray | None]:
    """Give the draws, shape (n_trees, n_rows), and the rows' classes where they may be fixed."""
    if isinstance(evidence, KnownDraws):
        return evidence.draws, None
    start = evidence.geometry.leaf_start
    per_class = evidence.n[: start[1]].sum(axis=0)
    label = np.repeat(np.arange(len(per_class)), per_class)
    return np.broadcast_to(np.uint8(1), (len(start) - 1, len(label))), label


def _one_of(model: cp_model.CpModel, n: int) -> list[Any]:
    """Make n literals of which exactly one is true; none for n = 1, where nothing is open."""
    if n <= 2:
        one = [model.new_bool_var("")] if n == 2 else []
        return [lit for x in one for lit in (~x, x)]
    literals = [model.new_bool_var("") for _ in range(n)]
    model.add_exactly_one(literals)
    return literals


def _paths(tree: Tree, geometry: Geometry, values: Values) -> list[list[int] | None]:
    """What the path to each leaf demands of a row; None where no row of the schema can go.

    A demand is the number of an atom that must be true, or the number of one that must not be,
    plus the number of all atoms of all attributes.
    """
    owner = {int(f): (a, i) for a, p in enumerate(geometry.parts) for i, f in enumerate(p.columns)}
    left_open: list[dict[int, NDArray[np.bool_]]] = [{} for _ in range(tree.n_nodes)]
    for v in np.flatnonzero(~tree.is_leaf):
        a, i = owner[int(tree.feature[v])]
        x = geometry.parts[a].representatives[:, i].astype(geometry.release.float_type)
        left = np.where(np.isnan(x), tree.missing_left[v], x <= tree.threshold[v])
        before = left_open[v].get(a, np.ones(len(x), dtype=bool))
        left_open[tree.left[v]] = left_open[v] | {a: before & left}
        left_open[tree.right[v]] = left_open[v] | {a: before & ~left}
    n_atoms = int(values.atom_start[-2])
    out: list[list[int] | None] = []
    for v in tree.leaves:
        demands: list[int] = []
        for a, allowed in left_open[v].items():
            number = values.atom_start[a] + np.arange(len(allowed))
            if allowed.sum() > 1:
                demands += (n_atoms + number[~allowed]).tolist()
            elif len(allowed) > 1:
                demands += number[allowed].tolist()
        dead = any(not allowed.any() for allowed in left_open[v].values())
        out.append(None if dead else demands)
    return out


def _size(
    evidence: ExactCounts | KnownDraws,
    geometry: Geometry,
    paths: Sequence[list[int] | None],
    draws: NDArray[np.unsignedinteger[Any]],
    label: IntArray | None,
) -> int:
    """Bound the terms of the model from above."""
    # Each variable of a leaf stands in its path's demands, in a count and among its tree's leaves.
    cost = np.array([0 if p is None else len(p) + 3 for p in paths])
    per_leaf = (evidence.n > 0) * cost[:, None]
    per_tree = np.add.reduceat(per_leaf, geometry.leaf_start[:-1], axis=0)
    if label is None:
        n_rows = np.count_nonzero(draws, axis=1)[:, None]
    else:
        n_rows = np.bincount(label, minlength=per_tree.shape[1])[None, :]
    total = int((per_tree * n_rows).sum())
    return total + int(draws.shape[1] * geometry.radix.sum())


def _missed_distinct(evidence: KnownDraws, values: Values, rows: IntArray) -> int:
    """Sum over all leaves of the distinct rows by which the answer misses the released number."""
    if evidence.d is None:
        return 0
    release, start = evidence.geometry.release, evidence.geometry.leaf_start
    table = values.rows(rows[:, :-1], release.n_features).astype(release.float_type)
    missed = 0
    for t, tree in enumerate(release.trees):
        leaf = np.searchsorted(tree.leaves, tree.apply(table[evidence.draws[t] > 0]))
        found = np.bincount(leaf, minlength=len(tree.leaves))
        missed += int(np.abs(found - evidence.d[start[t] : start[t + 1]]).sum())
    return missed
