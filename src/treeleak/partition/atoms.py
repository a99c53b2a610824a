"""Atoms: the values of one attribute that no tree of a release distinguishes."""

from __future__ import annotations

import bisect
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadSchema, NotCovered
from treeleak.core.private import dataclass
from treeleak.partition.untested_priors import outer_sides
from treeleak.release.release import Release
from treeleak.schema import (
    Attribute,
    Binary,
    Categorical,
    Joint,
    Numeric,
    OneHot,
    Ordinal,
    Rule,
    Schema,
)

MAX_LISTED = 2048
"""Most values of an ordinal column that are listed one by one; beyond, its atoms are intervals."""

MOST_PLACES = 2**28
"""Most pairs of a value and a set of categories that are looked at, of one column."""

_NEAR = 5
"""Gaps between thresholds that tell how far values go beyond the outermost one."""


@dataclass(frozen=True, eq=False)
class Atom:
    """A set of values of one attribute that every tree treats alike."""

    values: FloatArray
    """Shape (n_values, n_columns). All of them where they can be listed, else one point inside an
    interval."""
    size: float
    """How many points of the schema the atom holds (a length, for a numeric column)."""
    interval: tuple[float, float] | None = None
    """Lowest and highest value, where they are not listed."""

    @property
    def fixed(self) -> bool:
        """Whether the atom is a single value."""
        return len(self.values) == 1 and self.interval is None


@dataclass(frozen=True, eq=False)
class AttributeAtoms:
    """The atoms of one attribute."""

    attribute: Attribute
    columns: IntArray
    """Positions of the attribute's columns in the model."""
    atoms: tuple[Atom, ...]

    def __len__(self) -> int:
        return len(self.atoms)

    @property
    def intervals(self) -> bool:
        """Whether some atoms are intervals, of which one point is listed."""
        return any(atom.interval for atom in self.atoms)

    @cached_property
    def representatives(self) -> FloatArray:
        """One value per atom, shape (n_atoms, n_columns)."""
        return np.array([a.values[len(a.values) // 2] for a in self.atoms])

    @cached_property
    def spans(self) -> FloatArray:
        """Lowest and highest value of each atom, shape (n_atoms, 2); NaN if it is missing."""
        return np.array([atom.interval or _range(atom.values) for atom in self.atoms])

    def holding(
        self,
        block: FloatArray,
        release: Release,
        columns: IntArray | None = None,
    ) -> BoolArray:
        """Say which atoms hold the values of each row of ``block``.

        ``block``: shape (n_rows, n_own). ``columns``, shape (n_own,): which of the attribute's
        columns these are; all of them if not given. Returns an array of shape (n_rows, n_atoms).
        """
        if len(self) == 1:
            return np.ones((len(block), 1), dtype=bool)
        if self.intervals:
            return np.equal.outer(self.side_of(block[:, 0], release), self._side(release))
        out = np.zeros((len(block), len(self)), dtype=bool)
        for k, atom in enumerate(self.atoms):
            for value in atom.values if columns is None else atom.values[:, columns]:
                out[:, k] |= ((block == value) | (np.isnan(block) & np.isnan(value))).all(axis=1)
        return out

    def ends(self, x: FloatArray, release: Release) -> tuple[FloatArray, FloatArray]:
        """Lowest and highest value of the atom of each value of a single column.

        An interval begins right above a threshold, and ends with the next; where it begins with
        the domain, it holds that value, too. NaN for a missing value.
        """
        if self.intervals:
            # There may be as many atoms as rows: no table of both.
            value_side, theirs = self.side_of(x, release), self._side(release)
            order = np.argsort(theirs, kind="stable")
            place = np.minimum(np.searchsorted(theirs, value_side, sorter=order), len(order) - 1)
            atom = order[place]
        else:
            atom = self.holding(x[:, None], release).argmax(axis=1)
        ends = self.spans[atom]
        ends[np.isnan(x)] = np.nan
        return ends[:, 0], ends[:, 1]

    def beyond(self, release: Release, rows: FloatArray) -> tuple[tuple[int, FloatArray], ...]:
        """Say where rows beyond the outermost thresholds of a single column lie.

        ``rows``: shape (n_atoms,), those in each. Returns the outermost atoms of which something
        is said, each with values as
        :meth:`~treeleak.partition.untested_priors.Outer.places` has them.
        """
        cuts, side = release.thresholds[self.columns[0]], self._side(release)
        in_gap = np.bincount(side[side >= 0], rows[side >= 0], len(cuts) + 1).astype(float)
        name = release.feature_names[self.columns[0]]
        first, last = release.ranges.get(name, (-math.inf, math.inf))
        ends = max(np.nanmin(self.spans), first), min(np.nanmax(self.spans), last)
        outer = outer_sides(cuts, in_gap, ends)
        atom = [int((side == (len(cuts) if o.sign > 0 else 0)).argmax()) for o in outer]
        return tuple(
            (k, o.places(np.array(o.odds)))
            for k, o in zip(atom, outer, strict=True)
            if self.atoms[k].interval
        )

    def with_tails(self, release: Release, rows: FloatArray) -> AttributeAtoms:
        """The same, but with points beyond the outermost thresholds where half of the rows are.

        ``rows``: shape (n_atoms,), those in each.
        """
        atoms, side = list(self.atoms), self._side(release)
        for k, found in self.beyond(release, rows):
            middle = float(np.median(found))
            x = np.array([round(middle) if isinstance(self.attribute, Ordinal) else middle])
            if self.side_of(x, release)[0] == side[k]:
                atoms[k] = replace(atoms[k], values=x[:, None])
        return replace(self, atoms=tuple(atoms))

    def side_of(self, x: FloatArray, release: Release) -> IntArray:
        """Count the thresholds below each value of a single column; -1 for a missing value."""
        cuts = release.thresholds[self.columns[0]]
        return np.where(np.isnan(x), -1, np.searchsorted(cuts, x.astype(release.float_type)))

    def _side(self, release: Release) -> IntArray:
        """Thresholds below each atom: the same as below the values that it holds."""
        return self.side_of(self.representatives[:, 0], release)


def _range(values: FloatArray) -> tuple[float, float]:
    known = values[~np.isnan(values)]
    return (float(known.min()), float(known.max())) if known.size else (math.nan, math.nan)


def atoms_of(
    schema: Schema, release: Release, known: Collection[str] = ()
) -> tuple[AttributeAtoms, ...]:
    """Split every attribute at the thresholds of the release, and by its sets of categories.

    Of ``known`` columns that hold few values, every value is told apart.

    Raises BadSchema if a rule or a test for categories speaks of a column whose values cannot be
    listed; NotCovered if there are too many.
    """
    position = {name: i for i, name in enumerate(release.feature_names)}
    in_rules = {c for rule in schema.rules for c in rule.columns}
    out = []
    for attribute in schema.attributes:
        columns = np.array([position[c] for c in attribute.columns], dtype=np.int64)
        cuts = [release.thresholds[f] for f in columns]
        sets = [release.category_sets[f] for f in columns]
        in_rule = any(c in in_rules for c in attribute.columns)
        if in_rule and not listable(attribute):
            rule = next(r for r in schema.rules if set(r.columns) & set(attribute.columns))
            raise BadSchema(
                f"a rule of kind {rule.kind!r} names the {attribute.kind} column "
                f"{attribute.name!r}; rules need columns whose values can be listed"
            )
        if any(sets) and not listable(attribute):
            raise BadSchema(
                f"trees test whether the {attribute.kind} column {attribute.name!r} is one of "
                "several categories: the schema must list its values (categorical, ordinal, binary)"
            )
        few = isinstance(attribute, (Binary, Categorical, OneHot))
        is_known = few and any(c in known for c in attribute.columns)
        apart = in_rule or is_known or isinstance(attribute, Joint)
        atoms = _split(attribute, cuts, sets, release.float_type, apart=apart)
        out.append(AttributeAtoms(attribute, columns, atoms))
    return tuple(out)


def _split(
    attribute: Attribute,
    cuts: Sequence[FloatArray],
    sets: Sequence[Sequence[IntArray]],
    float_type: str,
    *,
    apart: bool,
) -> tuple[Atom, ...]:
    if isinstance(attribute, Numeric):
        atoms = _intervals(attribute, cuts[0], float_type)
    elif isinstance(attribute, Ordinal) and not listable(attribute):
        atoms = _whole_intervals(attribute, cuts[0], float_type)
    else:
        values = listed_values(attribute)
        if apart:
            labels = np.arange(len(values))
        else:
            n_sets = sum(map(len, sets))
            if len(values) * n_sets > MOST_PLACES:
                raise NotCovered(
                    f"{len(values):,} values of {attribute.name!r}, and {n_sets:,} sets of them "
                    "for which trees ask: too many"
                )
            # Between the same thresholds, and in the same sets, of every column: one atom.
            bins = []
            for x, cut, column_sets in zip(values.T.astype(float_type), cuts, sets, strict=True):
                bins.append(np.searchsorted(cut, x, side="left"))
                if column_sets:
                    inside = np.array([np.isin(x, members) for members in column_sets])
                    bins += list(np.packbits(inside, axis=0))
            labels = np.unique(np.stack(bins, axis=1), axis=0, return_inverse=True)[1].ravel()
        atoms = [
            Atom(values[labels == k], float((labels == k).sum())) for k in range(labels.max() + 1)
        ]
    if getattr(attribute, "missing", False):
        missing = np.full((1, 1), np.nan)
        if apart or any(map(len, cuts)) or any(sets):
            return (*atoms, Atom(missing, 1.0))
        # No tree tests the column: a second atom would double the grid for nothing.
        (whole,) = atoms
        return (replace(whole, values=np.append(whole.values, missing, axis=0)),)
    return tuple(atoms)


def listable(attribute: Attribute) -> bool:
    """Say whether the values of an attribute are listed one by one."""
    if isinstance(attribute, Ordinal):
        return attribute.high - attribute.low < MAX_LISTED
    return not isinstance(attribute, Numeric)


def listed_values(attribute: Attribute) -> FloatArray:
    """List the known values of an attribute, shape (n_values, n_columns)."""
    if isinstance(attribute, Binary):
        return np.array([[0.0], [1.0]])
    if isinstance(attribute, OneHot):
        one = np.eye(len(attribute.members))
        return np.vstack([one, np.zeros((1, len(one)))]) if attribute.at_most_one else one
    if isinstance(attribute, Categorical):
        return np.array(attribute.values, dtype=float)[:, None]
    if isinstance(attribute, Ordinal):
        return np.arange(attribute.low, attribute.high + 1, dtype=float)[:, None]
    if isinstance(attribute, Joint):
        return attribute.values
    raise BadSchema(f"attribute {attribute.name!r} of unknown kind {attribute.kind!r}")


def _whole_intervals(attribute: Ordinal, cuts: FloatArray, float_type: str) -> list[Atom]:
    domain = range(attribute.low, attribute.high + 1)
    kind = np.dtype(float_type).type
    ends = [bisect.bisect_right(domain, cut, key=lambda v: float(kind(v))) for cut in cuts]
    edges = sorted({0, *ends, len(domain)})
    first, last = (math.ceil(min(gap, len(domain))) for gap in _outer_gaps(edges[1:-1]))
    atoms = []
    for i, j in pairwise(edges):
        interval = (float(domain[i]), float(domain[j - 1])) if j - i > 1 else None
        low = max(i, j - 2 * first) if i == 0 else i
        high = min(j, i + 2 * last) if j == len(domain) else j
        at = (low + high) // 2
        atoms.append(Atom(np.array([[float(domain[at])]]), float(j - i), interval))
    return atoms


def _intervals(attribute: Numeric, cuts: FloatArray, float_type: str) -> list[Atom]:
    kind = np.dtype(float_type).type
    most = float(np.finfo(kind).max)
    inside = [float(c) for c in cuts if attribute.low <= c < attribute.high and abs(c) < most]
    edges = [attribute.low, *inside, attribute.high]
    span = attribute.high - attribute.low
    likely = edges
    if inside:
        # A single threshold shows the size of values, if nothing else bounds them.
        size = abs(inside[0]) / 4 or 1.0
        first, last = (
            size if math.isinf(gap) and math.isinf(end) else gap
            for gap, end in zip(_outer_gaps(inside), (attribute.low, attribute.high), strict=True)
        )
        ends = max(attribute.low, inside[0] - 2 * first), min(attribute.high, inside[-1] + 2 * last)
        likely = [ends[0], *inside, ends[1]]
    atoms = []
    for k, (low, high) in enumerate(pairwise(edges)):
        nearer = _candidates(likely[k], likely[k + 1], kind)
        for point in (*nearer, *_candidates(low, high, kind)):
            with np.errstate(over="ignore"):
                seen = float(kind(point))
            above, upto = k == 0 or low < seen, k == len(inside) or seen <= high
            if above and upto and attribute.low <= point <= attribute.high:
                break
        else:
            continue  # No float of the model's type lies between these thresholds.
        length = high - low
        size = length / span if math.isfinite(span) and span > 0 else 1.0
        interval = (low, high) if low < high else None
        atoms.append(Atom(np.array([[point]]), max(size, 1e-12), interval))
    return atoms


def _outer_gaps(cuts: Sequence[float]) -> tuple[float, float]:
    """How far beyond the first and the last threshold values may be expected.

    A domain may go on for much longer than values do, so as far as thresholds near there are from
    each other. Infinite where there is but one.
    """
    gaps = np.diff(cuts)
    if not len(gaps):
        return math.inf, math.inf
    return float(np.median(gaps[:_NEAR])), float(np.median(gaps[-_NEAR:]))


def _candidates(low: float, high: float, kind: type[np.floating[Any]]) -> list[float]:
    """Points that may stand for (low, high]: the middle, or else the outermost ones."""
    if math.isinf(low) and math.isinf(high):
        middle = 0.0
    elif math.isinf(low):
        middle = high - max(1.0, abs(high) * 1e-3)
    elif math.isinf(high):
        middle = low + max(1.0, abs(low) * 1e-3)
    else:
        middle = low / 2 + high / 2
    # A value is rounded to the model's type before it is compared with a threshold.
    with np.errstate(over="ignore"):
        lowest = kind(low)
        rounded = kind(middle)
        above = np.nextafter(lowest, kind(math.inf))
    return [float(rounded), middle, float(lowest), float(above), low, high]


def rules_hold(
    rules: Sequence[Rule], attributes: Sequence[AttributeAtoms], atoms: IntArray
) -> BoolArray:
    """Say which points meet every rule.

    ``atoms``: shape (n_points, n_attributes).
    """
    if not rules:
        return np.ones(len(atoms), dtype=bool)
    values = {
        column: part.representatives[atoms[:, a], i]
        for a, part in enumerate(attributes)
        for i, column in enumerate(part.attribute.columns)
    }
    return np.asarray(np.logical_and.reduce([rule_holds(rule, values) for rule in rules]))


def rule_holds(rule: Rule, values: Mapping[str, FloatArray]) -> BoolArray:
    """Say which rows meet a rule, or lack a value of which it speaks; by the values of columns."""
    silent = np.logical_or.reduce([np.isnan(values[c]) for c in rule.columns])
    return np.asarray(silent | rule.holds(values))
