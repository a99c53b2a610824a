"""The variables of a row in a constraint program, and what trees ask of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from treeleak.attacks.solvers.cp_sat import Model
from treeleak.attacks.solvers.literals import Encoding, one_of
from treeleak.core.arrays import BoolArray
from treeleak.core.private import dataclass
from treeleak.partition import Geometry
from treeleak.partition.value_index import ValueIndex
from treeleak.release.tree import Tree


def node_tests(tree: Tree, geometry: Geometry) -> Iterator[tuple[int, int, BoolArray]]:
    """Give each inner node, parents first, its attribute, and which of its atoms go left."""
    owner = {int(f): (a, i) for a, p in enumerate(geometry.parts) for i, f in enumerate(p.columns)}
    for v in np.flatnonzero(~tree.is_leaf).tolist():
        a, i = owner[int(tree.feature[v])]
        x = geometry.parts[a].representatives[:, i].astype(geometry.release.float_type)
        yield v, a, tree.goes_left(np.full(len(x), v), x)


def paths_of(geometry: Geometry, encodings: Sequence[Encoding]) -> list[list[int] | None]:
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
            demands = [] if dead else [encodings[a].demands(on_path[a]) for a in on_path]
            out.append(None if dead else list(chain.from_iterable(demands)))
    return out


@dataclass(frozen=True, eq=False)
class RowVariables:
    """The variables of one row in a constraint program."""

    atoms: list[tuple[Encoding, list[Any]]]
    """x: for each attribute, its literals."""
    classes: list[Any]
    """z: one literal per class; empty where the class is fixed."""
    open_classes: list[int]
    """Classes that the row may have."""

    @classmethod
    def of(
        cls,
        model: Model,
        values: ValueIndex,
        encodings: Sequence[Encoding],
        label: int | None = None,
        allowed: BoolArray | None = None,
        needed: BoolArray | None = None,
    ) -> RowVariables:
        """Make the variables, for a row of class ``label``, or of the atoms in ``allowed``.

        ``needed``: which literals of the row are; all if not given.
        """
        start = values.atom_start
        ends = [(e.first, e.first + e.n_literals) for e in encodings]
        some = [None if needed is None else needed[begin:end] for begin, end in ends]
        x = [
            (e, e.made(model, atom_needed)) for e, atom_needed in zip(encodings, some, strict=True)
        ]
        z = one_of(model, int(start[-1] - start[-2])) if label is None else []
        open_classes = list(range(int(start[-1] - start[-2]))) if label is None else [label]
        if allowed is not None:
            for (encoding, atom_needed), low, high in zip(x, start[:-2], start[1:-1], strict=True):
                encoding.keep(model, atom_needed, allowed[low:high])
            if z:
                model.add_bool_and([~z[c] for c in open_classes if not allowed[start[-2] + c]])
            open_classes = [c for c in open_classes if allowed[start[-2] + c]]
        return cls(x, z, open_classes)

    def demanded(self, path: Sequence[int]) -> list[Any]:
        """The literals of what a path demands."""
        return [self._literals[i] if i >= 0 else ~self._literals[~i] for i in path]

    def chosen(self, solver: Any) -> list[int]:
        """Atom of each attribute in a solution, and the class."""
        fixed = self.open_classes[0] if self.open_classes else 0
        label = (i for i, lit in enumerate(self.classes) if solver.boolean_value(lit))
        return [
            *(encoding.chosen(solver, literals) for encoding, literals in self.atoms),
            next(label, fixed),
        ]

    @cached_property
    def _literals(self) -> list[Any]:
        return [lit for _, literals in self.atoms for lit in literals]
