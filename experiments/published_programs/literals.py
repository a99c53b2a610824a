"""The literals that say which atom of each attribute a row has: one per atom, exactly one true.

The papers know binary columns, some of them in one-hot groups. Columns of other kinds are written
in the same way, which makes programs of columns with many thresholds large.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from treeleak.attacks.solvers.cp_sat import Model
from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.private import dataclass
from treeleak.partition import Geometry
from treeleak.partition.value_index import ValueIndex
from treeleak.release.tree import Tree


def firsts_of(values: ValueIndex) -> IntArray:
    """Number of each attribute's first literal among all of a row; last, how many there are.

    An attribute of one atom has none.
    """
    return np.cumsum([0, *(len(part) if len(part) > 1 else 0 for part in values.parts)])


def one_of(model: Model, n: int) -> list[Any]:
    """Make n literals of which exactly one is true; none for n = 1, where nothing is open."""
    if n <= 2:
        one = [model.new_bool_var("")] if n == 2 else []
        return [lit for x in one for lit in (~x, x)]
    literals = [model.new_bool_var("") for _ in range(n)]
    model.add_exactly_one(literals)
    return literals


def node_tests(tree: Tree, geometry: Geometry) -> Iterator[tuple[int, int, BoolArray]]:
    """Give each inner node, parents first, its attribute, and which of its atoms go left."""
    owner = {int(f): (a, i) for a, p in enumerate(geometry.parts) for i, f in enumerate(p.columns)}
    for v in np.flatnonzero(~tree.is_leaf).tolist():
        a, i = owner[int(tree.feature[v])]
        x = geometry.parts[a].representatives[:, i].astype(geometry.release.float_type)
        yield v, a, tree.goes_left(np.full(len(x), v), x)


def paths_of(geometry: Geometry, first: IntArray) -> list[list[int] | None]:
    """What the path to each leaf demands of a row; None where no row of the schema can go.

    A demand is the number of a literal of the row, or ~number where it must not be true.
    """
    out: list[list[int] | None] = []
    for tree in geometry.release.trees:
        left_open: list[dict[int, BoolArray]] = [{} for _ in range(tree.n_nodes)]
        for v, a, left in node_tests(tree, geometry):
            before = left_open[v].get(a, np.ones(len(left), dtype=bool))
            left_open[tree.left[v]] = left_open[v] | {a: before & left}
            left_open[tree.right[v]] = left_open[v] | {a: before & ~left}
        for v in tree.leaves:
            on_path = left_open[v]
            dead = any(not allowed.any() for allowed in on_path.values())
            demands = [] if dead else [_demands(int(first[a]), on_path[a]) for a in on_path]
            out.append(None if dead else list(chain.from_iterable(demands)))
    return out


def _demands(first: int, allowed: BoolArray) -> list[int]:
    """Literals that keep a row to some atoms: i, or ~i for one that must not be true."""
    if allowed.all():
        return []
    if allowed.sum() == 1:
        return [first + int(allowed.argmax())]
    return [~(first + i) for i in np.flatnonzero(~allowed).tolist()]


@dataclass(frozen=True, eq=False)
class RowVariables:
    """The variables of one row in a constraint program."""

    atoms: list[list[Any]]
    """x: for each attribute, its literals."""
    classes: list[Any]
    """z: one literal per class; empty where the class is fixed."""
    open_classes: list[int]
    """Classes that the row may have."""

    @classmethod
    def of(cls, model: Model, values: ValueIndex, label: int | None) -> RowVariables:
        """Make the variables, for a row of class ``label``, or of any."""
        n_classes = int(values.atom_start[-1] - values.atom_start[-2])
        x = [one_of(model, len(part)) for part in values.parts]
        if label is not None:
            return cls(x, [], [label])
        return cls(x, one_of(model, n_classes), list(range(n_classes)))

    def demanded(self, path: Sequence[int]) -> list[Any]:
        """The literals of what a path demands."""
        return [self._literals[i] if i >= 0 else ~self._literals[~i] for i in path]

    def chosen(self, solver: Any) -> list[int]:
        """Atom of each attribute in a solution, and the class."""
        label = _true(solver, self.classes) if self.classes else self.open_classes[0]
        return [*(_true(solver, literals) for literals in self.atoms), label]

    @cached_property
    def _literals(self) -> list[Any]:
        return [lit for literals in self.atoms for lit in literals]


def _true(solver: Any, literals: Sequence[Any]) -> int:
    return next((i for i, lit in enumerate(literals) if solver.boolean_value(lit)), 0)
