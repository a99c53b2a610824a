"""Atoms: the values of one attribute that no tree of a release can tell apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from treeleak.errors import BadSchema
from treeleak.release.tree import Release
from treeleak.schema import Attribute, Binary, Categorical, Numeric, OneHot, Ordinal, Rule, Schema

__all__ = ["Atom", "AttributeAtoms", "atoms_of"]


@dataclass(frozen=True, eq=False)
class Atom:
    """A set of values of one attribute that every tree treats alike.

    Attributes
    ----------
    values : float array, shape (n_values, n_columns)
        All of them where they can be listed, else one point inside an interval.
    size : float
        How many points of the schema the atom holds (a length, for a numeric column).
    interval : tuple of float or None
        Bounds of a numeric interval.
    """

    values: NDArray[np.float64]
    size: float
    interval: tuple[float, float] | None = None

    @property
    def fixed(self) -> bool:
        """Whether the atom is a single value."""
        return len(self.values) == 1 and self.interval is None


@dataclass(frozen=True, eq=False)
class AttributeAtoms:
    """The atoms of one attribute.

    Attributes
    ----------
    attribute : Attribute
    columns : int array
        Positions of the attribute's columns in the model.
    atoms : tuple of Atom
    used : bool
        Whether any tree tests one of its columns.
    """

    attribute: Attribute
    columns: NDArray[np.int64]
    atoms: tuple[Atom, ...]
    used: bool

    def __len__(self) -> int:
        return len(self.atoms)

    @cached_property
    def representatives(self) -> NDArray[np.float64]:
        """One value per atom, shape (n_atoms, n_columns)."""
        return np.array([a.values[len(a.values) // 2] for a in self.atoms])


def atoms_of(schema: Schema, release: Release) -> tuple[AttributeAtoms, ...]:
    """Split every attribute at the thresholds of the release.

    Raises
    ------
    BadSchema
        If a rule speaks of a column whose values cannot be listed.
    """
    position = {name: i for i, name in enumerate(release.feature_names)}
    ruled = {c for rule in schema.rules for c in rule.columns}
    out = []
    for attribute in schema.attributes:
        columns = np.array([position[c] for c in attribute.columns], dtype=np.int64)
        cuts = [release.thresholds[f] for f in columns]
        in_rule = any(c in ruled for c in attribute.columns)
        if in_rule and isinstance(attribute, Numeric):
            rule = next(r for r in schema.rules if set(r.columns) & set(attribute.columns))
            raise BadSchema(
                f"a rule of kind {rule.kind!r} speaks of the numeric column {attribute.name!r}; "
                "rules need columns whose values can be listed"
            )
        atoms = _split(attribute, cuts, release.float_type, apart=in_rule)
        out.append(AttributeAtoms(attribute, columns, atoms, any(len(c) for c in cuts)))
    return tuple(out)


def _split(
    attribute: Attribute, cuts: Sequence[NDArray[np.float64]], float_type: str, *, apart: bool
) -> tuple[Atom, ...]:
    if isinstance(attribute, Numeric):
        atoms = _intervals(attribute, cuts[0], float_type)
    else:
        values = _listed(attribute)
        if apart:
            labels = np.arange(len(values))
        else:
            # Values that fall between the same thresholds in every column are one atom.
            bins = [
                np.searchsorted(cut, values[:, i].astype(float_type), side="left")
                for i, cut in enumerate(cuts)
            ]
            labels = np.unique(np.stack(bins, axis=1), axis=0, return_inverse=True)[1].ravel()
        atoms = [
            Atom(values[labels == k], float((labels == k).sum())) for k in range(labels.max() + 1)
        ]
    if getattr(attribute, "missing", False):
        atoms.append(Atom(np.full((1, 1), np.nan), 1.0))
    return tuple(atoms)


def _listed(attribute: Attribute) -> NDArray[np.float64]:
    if isinstance(attribute, Binary):
        return np.array([[0.0], [1.0]])
    if isinstance(attribute, OneHot):
        one = np.eye(len(attribute.members))
        return np.vstack([one, np.zeros((1, len(one)))]) if attribute.at_most_one else one
    if isinstance(attribute, Categorical):
        return np.array(attribute.values, dtype=float)[:, None]
    if isinstance(attribute, Ordinal):
        return np.arange(attribute.low, attribute.high + 1, dtype=float)[:, None]
    raise BadSchema(f"attribute {attribute.name!r} of unknown kind {attribute.kind!r}")


def _intervals(attribute: Numeric, cuts: NDArray[np.float64], float_type: str) -> list[Atom]:
    inside = [float(c) for c in cuts if attribute.low <= c < attribute.high]
    edges = [attribute.low, *inside, attribute.high]
    span = attribute.high - attribute.low
    atoms = []
    for low, high in zip(edges[:-1], edges[1:], strict=True):
        length = high - low
        size = length / span if math.isfinite(span) and span > 0 else 1.0
        point = _point_between(low, high, float_type)
        atoms.append(Atom(np.array([[point]]), max(size, 1e-12), (low, high)))
    return atoms


def _point_between(low: float, high: float, float_type: str) -> float:
    """Choose a point of (low, high] that stays there after rounding to ``float_type``."""
    if math.isinf(low) and math.isinf(high):
        return 0.0
    if math.isinf(low):
        middle = high - max(1.0, abs(high) * 1e-3)
    elif math.isinf(high):
        middle = low + max(1.0, abs(low) * 1e-3)
    else:
        middle = low + (high - low) / 2
    kind = np.dtype(float_type).type
    point = float(kind(middle))
    if not low < point <= high:
        # Neighbouring floats around the threshold: step to the nearest one inside.
        point = float(np.nextafter(kind(low), kind(math.inf)))
    return point


def rules_hold(
    rules: Sequence[Rule], attributes: Sequence[AttributeAtoms], atoms: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Say which points meet every rule.

    Parameters
    ----------
    rules : sequence of Rule
    attributes : sequence of AttributeAtoms
    atoms : int array, shape (n_points, n_attributes)
    """
    if not rules:
        return np.ones(len(atoms), dtype=bool)
    values = {
        column: part.representatives[atoms[:, a], i]
        for a, part in enumerate(attributes)
        for i, column in enumerate(part.attribute.columns)
    }
    return np.logical_and.reduce([rule.holds(values) for rule in rules])
