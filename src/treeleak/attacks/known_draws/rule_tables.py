"""Rules between columns where the grid is too large to list: which boxes hold a row at all.

Rules that share columns are tabled together, over the atoms of all attributes of which they speak.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.known_draws.leaf_boxes import LeafBoxes
from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.errors import NotCovered
from treeleak.core.private import dataclass
from treeleak.core.text import short
from treeleak.partition import Geometry, rules_hold
from treeleak.schema import Rule

_MOST = 2**22
"""Most combinations of atoms in a table."""


@dataclass(frozen=True, eq=False)
class RuleTable:
    """What some rules allow."""

    attributes: IntArray
    """The attributes of which they speak."""
    allowed: BoolArray
    """An axis for each of these attributes: which of their atoms go together."""

    @classmethod
    def of(cls, geometry: Geometry) -> tuple[RuleTable, ...]:
        """Table the rules of a schema.

        Raises NotCovered if they speak of too many combinations.
        """
        groups: list[tuple[set[int], list[Rule]]] = []
        for rule in geometry.schema.rules:
            names, rules = set(rule.columns), [rule]
            parts = enumerate(geometry.parts)
            attributes = {a for a, p in parts if names & set(p.attribute.columns)}
            for group in [g for g in groups if g[0] & attributes]:
                groups.remove(group)
                attributes, rules = attributes | group[0], rules + group[1]
            groups.append((attributes, rules))
        return tuple(
            cls._tabled(geometry, np.array(sorted(attributes)), rules)
            for attributes, rules in groups
        )

    @classmethod
    def _tabled(cls, geometry: Geometry, attributes: IntArray, rules: list[Rule]) -> RuleTable:
        radix = [int(n) for n in geometry.radix[attributes]]
        if (n := math.prod(radix)) > _MOST:
            raise NotCovered(
                f"rules between columns on a grid of {short(geometry.n_points)} points, with "
                f"{short(n)} combinations of values of {', '.join(map(repr, rules[0].columns))}; "
                f"at most {_MOST:,}"
            )
        atoms = np.zeros((n, len(geometry.radix)), dtype=np.int64)
        atoms[:, attributes] = np.indices(radix).reshape(len(radix), -1).T
        return cls(attributes, rules_hold(rules, geometry.parts, atoms).reshape(radix))

    def points(self, admitted: list[BoolArray]) -> IntArray:
        """Choose points of a box that the rules allow; none if they allow none.

        ``admitted``: for each attribute, which atoms the box admits. The second point is in the
        middle of those allowed; for each attribute one has its lowest atom, and one its highest.

        Returns an array of shape (3 + 2 * n_attributes, n_attributes), or (0, n_attributes).
        """
        inside = [np.flatnonzero(one) for one in admitted]
        held = np.argwhere(self.allowed[np.ix_(*inside)])
        if not len(held):
            return held
        some = np.array([0, len(held) // 2, len(held) - 1])
        chosen = held[np.concatenate([some, held.argmin(axis=0), held.argmax(axis=0)])]
        return np.column_stack([one[chosen[:, i]] for i, one in enumerate(inside)])


def places_of(
    boxes: LeafBoxes, leaves: NDArray[np.int32], rules: tuple[RuleTable, ...]
) -> tuple[IntArray, BoolArray]:
    """Choose points that all leaves of a line admit, and rules allow.

    Parameters
    ----------
    boxes : LeafBoxes
    leaves : int32 array, shape (n_lines, n_leaves)
        Leaves (rows of A) that have a point in common.
    rules : tuple of Ruled

    Returns
    -------
    places : int array, shape (n_places, n_kept, n_attributes)
        Atoms, of lines that rules allow at all. What no rule speaks of is lowest in the first
        place, highest in the third, in the middle elsewhere.
    kept : bool array, shape (n_lines,)
        Which lines these are.
    """
    places, allowed = boxes.common(leaves), np.ones(len(leaves), dtype=bool)
    if not rules:
        return places, allowed
    most = 2 * max(len(table.attributes) for table in rules)
    places = np.concatenate([places, np.repeat(places[1:2], most, axis=0)])
    for table in rules:
        admitted = [boxes.admitted(leaves, a) for a in table.attributes.tolist()]
        different, line = np.unique(np.hstack(admitted), axis=0, return_inverse=True)
        parts = np.cumsum([part.shape[1] for part in admitted])[:-1]
        for i, box in enumerate(different):
            points, same = table.points(np.split(box, parts)), np.flatnonzero(line.ravel() == i)
            if len(points):
                at = np.arange(len(places)), same, table.attributes
                padded = np.vstack([points, np.repeat(points[1:2], len(places) - len(points), 0)])
                places[np.ix_(*at)] = padded[:, None, :]
            else:
                allowed[same] = False
    return places[:, allowed], allowed


def reached(boxes: LeafBoxes, rules: tuple[RuleTable, ...]) -> BoolArray:
    """Say which leaves (rows of A) hold a row that rules allow."""
    leaves = np.arange(int(boxes.geometry.leaf_start[-1]), dtype=np.int32)[:, None]
    return places_of(boxes, leaves, rules)[1]
