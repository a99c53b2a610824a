"""The literals that say which atom of each attribute a row has.

The papers know binary columns, some of them in one-hot groups: one literal per atom, exactly one
of them true. On a column of numbers a path would then demand one literal for each of hundreds of
atoms that it rules out. Such a column has interval literals instead, "the atom is at most i": a
path demands two at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from treeleak.attacks.solvers.cp_sat import Model
from treeleak.core.arrays import BoolArray
from treeleak.core.private import dataclass
from treeleak.partition import AttributeAtoms
from treeleak.partition.value_index import ValueIndex


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
