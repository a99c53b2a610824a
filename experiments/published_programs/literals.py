"""The literals that say which atom of each attribute a row has.

The papers know binary columns, some of them in one-hot groups: one literal per atom, exactly one
of them true. On a column of numbers a path would then demand one literal for each of hundreds of
atoms that it rules out. Such a column has interval literals instead, "the atom is at most i": a
path demands two at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np

from treeleak.attacks.solvers.cp_sat import Model
from treeleak.core.arrays import BoolArray
from treeleak.core.private import dataclass
from treeleak.partition import AttributeAtoms, Geometry
from treeleak.partition.value_index import ValueIndex
from treeleak.release.tree import Tree


@dataclass(frozen=True)
class Apart:
    """One literal per atom, exactly one of them true; none where there is one atom only."""

    first: int
    """Number of the first literal among all of a row."""
    n_atoms: int

    @property
    def n_literals(self) -> int:
        """Literals of one row."""
        return self.n_atoms if self.n_atoms > 1 else 0

    @property
    def n_terms(self) -> int:
        """Literals in the constraints that tie them."""
        return self.n_literals

    def made(self, model: Model, needed: BoolArray | None = None) -> list[Any]:
        """Make the literals of one row; None for each if none of them is ``needed``."""
        if needed is not None and not needed.any():
            return [None] * self.n_literals
        return one_of(model, self.n_atoms)

    def demands(self, allowed: BoolArray) -> list[int]:
        """Literals that keep a row to some atoms: i, or ~i for one that must not be true."""
        if allowed.all():
            return []
        if allowed.sum() == 1:
            return [self.first + int(allowed.argmax())]
        return [~(self.first + i) for i in np.flatnonzero(~allowed).tolist()]

    def keep(self, model: Model, literals: Sequence[Any], allowed: BoolArray) -> None:
        """Keep a row to ``allowed`` atoms, whichever these are."""
        model.add_bool_and([~literals[i] for i in np.flatnonzero(~allowed).tolist()])

    def chosen(self, solver: Any, literals: Sequence[Any]) -> int:
        """Read the atom of a row in a solution."""
        made = (i for i, lit in enumerate(literals) if lit is not None)
        return next((i for i in made if solver.boolean_value(literals[i])), 0)


@dataclass(frozen=True)
class Ascending:
    """Interval literals of a single column, whose atoms ascend; a missing value comes last.

    With ``n`` atoms of numbers, literals 0 to n - 2 are "a number, of atom i at most". Where values
    can be missing, as many more are "missing, or of atom i at most", and the last is "missing":
    tests send missing values to either side.
    """

    first: int
    """Number of the first literal among all of a row."""
    n_numbers: int
    """Atoms of numbers."""
    missing: bool
    """Whether there is an atom of missing values."""

    @property
    def n_literals(self) -> int:
        """Literals of one row."""
        return 2 * self.n_numbers - 1 if self.missing else self.n_numbers - 1

    @property
    def n_terms(self) -> int:
        """Literals in the constraints that tie them, about."""
        return (11 if self.missing else 2) * self.n_numbers

    def made(self, model: Model, needed: BoolArray | None = None) -> list[Any]:
        """Make the literals of one row; None where those of an atom are not ``needed``."""
        n = self.n_numbers - 1
        if needed is None:
            atoms = list(range(n))
        else:
            atoms = np.flatnonzero(
                needed[: n * (1 + self.missing)].reshape(-1, n).any(axis=0)
            ).tolist()
        most = _ascending(model, n, atoms)
        if not self.missing:
            return most
        gone = model.new_bool_var("")
        either = _ascending(model, n, atoms)
        for i, j in ((most[k], either[k]) for k in atoms):
            model.add_implication(gone, ~i)
            model.add_implication(gone, j)
            model.add_implication(i, j)
            model.add_bool_or([~j, i, gone])
        return [*most, *either, gone]

    def demands(self, allowed: BoolArray) -> list[int]:
        """Literals that keep a row to an interval of atoms: i, or ~i for one that must not be."""
        gone = self.first + self.n_literals - 1
        with_missing = self.missing and bool(allowed[-1])
        numbers = np.flatnonzero(allowed[: self.n_numbers]).tolist()
        if not numbers:
            return [gone]
        at_most, at_least = (
            self.first + (self.n_numbers - 1) * (self.missing and over)
            for over in (with_missing, not with_missing)
        )
        out = []
        if numbers[-1] < self.n_numbers - 1:
            out.append(at_most + numbers[-1])
        if numbers[0] > 0:
            out.append(~(at_least + numbers[0] - 1))
        if not out and self.missing and not with_missing:
            out.append(~gone)
        return out

    def keep(self, model: Model, literals: Sequence[Any], allowed: BoolArray) -> None:
        """Keep a row to ``allowed`` atoms, whichever these are."""
        inside = np.concatenate([[True], allowed[: self.n_numbers], [True]])
        first = np.flatnonzero(inside[:-1] & ~inside[1:]).tolist()
        after = np.flatnonzero(~inside[:-1] & inside[1:]).tolist()
        for i, j in zip(first, after, strict=True):
            # Below atom i, or above atom j - 1, or missing.
            ways = [literals[i - 1]] if i else []
            if j < self.n_numbers:
                ways.append(~literals[j - 1])
            elif self.missing:
                ways.append(literals[-1])
            model.add_bool_or(ways)
        if self.missing and not allowed[-1]:
            model.add_bool_and([~literals[-1]])

    def chosen(self, solver: Any, literals: Sequence[Any]) -> int:
        """Read the atom of a row in a solution: the middle one, where literals leave several."""
        if self.missing and solver.boolean_value(literals[-1]):
            return self.n_numbers
        low, high = 0, self.n_numbers - 1
        for i, literal in enumerate(literals[:high]):
            if literal is not None and solver.boolean_value(literal):
                high = i
                break
            low = low if literal is None else i + 1
        return (low + high) // 2


Encoding = Apart | Ascending


def encodings_of(values: ValueIndex) -> tuple[Encoding, ...]:
    """Choose the literals of each attribute."""
    out: list[Encoding] = []
    first = 0
    for part in values.parts:
        out.append(_encoding(part, first))
        first += out[-1].n_literals
    return tuple(out)


def one_of(model: Model, n: int) -> list[Any]:
    """Make n literals of which exactly one is true; none for n = 1, where nothing is open."""
    if n <= 2:
        one = [model.new_bool_var("")] if n == 2 else []
        return [lit for x in one for lit in (~x, x)]
    literals = [model.new_bool_var("") for _ in range(n)]
    model.add_exactly_one(literals)
    return literals


def _ascending(model: Model, n: int, atoms: Sequence[int]) -> list[Any]:
    """Make some of n literals, each of which implies those behind it."""
    out: list[Any] = [None] * n
    for i in atoms:
        out[i] = model.new_bool_var("")
    for i, j in pairwise(atoms):
        model.add_implication(out[i], out[j])
    return out


def _encoding(part: AttributeAtoms, first: int) -> Encoding:
    if len(part.columns) == 1 and len(part) > 2:
        x = part.representatives[:, 0]
        missing = bool(np.isnan(x[-1]))
        if (np.diff(x[: len(x) - missing]) > 0).all():
            return Ascending(first, len(x) - missing, missing)
    return Apart(first, len(part))


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
