"""What a row can be, attribute by attribute, and what the schema's rules exclude."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadInput, BadSchema, NotCovered
from treeleak.core.private import dataclass
from treeleak.core.text import short
from treeleak.partition.atoms import listable, listed_values, rule_holds
from treeleak.release.release import NO_COLUMNS
from treeleak.release.rule_list import Condition
from treeleak.schema import Attribute, Categorical, Numeric, OneHot, Ordinal, Rule, Schema
from treeleak.uncertainty.regions import FirstMatch, Tests
from treeleak.verification.columns import columns_by_name

NUMERIC_STEPS = 1000
"""How many values a numeric column counts as: what is told of it is told in steps of its range."""

# Intervals are measured in parts of a step, so that their sizes add up wherever they are cut.
TICKS = 1 << 20

# Values that a message or a table lists before it says how many more there are.
MOST_SAID = 6

# A rule of the schema is written out as the points that it excludes; of more it is refused.
MOST_POINTS = 1 << 16


@dataclass(frozen=True, eq=False)
class Axis:
    """One attribute as a list of atoms: single values, or intervals of a column of numbers."""

    attribute: Attribute
    values: FloatArray | None
    """Shape (n_atoms, n_columns). Where values are listed, each is an atom."""
    cuts: FloatArray
    """Otherwise atom i holds what lies above ``cuts[i - 1]`` and not above ``cuts[i]``."""
    sizes: IntArray
    """Shape (n_atoms,). How many values each atom holds, times :attr:`unit`. The last atom is the
    missing value, where there may be one."""
    float_type: str
    """In which values are compared with cuts."""

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the model that hold the attribute."""
        return self.attribute.columns

    @property
    def missing(self) -> bool:
        """Whether the last atom is the missing value."""
        return bool(getattr(self.attribute, "missing", False))

    @property
    def unit(self) -> int:
        """Size of one value: of one step, in a numeric column."""
        return _unit(self.attribute)

    def entropy(self, sizes: IntArray) -> FloatArray:
        """Entropy of a value of sets of these sizes; 0 within one step, -inf of nothing."""
        with np.errstate(divide="ignore"):
            bits = np.log2(np.asarray(sizes) / self.unit)
        return np.where(np.asarray(sizes) > 0, np.maximum(bits, 0.0), -math.inf)

    @cached_property
    def bits(self) -> float:
        """Entropy of a value of which nothing is known, H(V_k)."""
        return float(self.entropy(self.sizes.sum()))

    def locate(self, block: FloatArray) -> IntArray:
        """Atom of each row of ``block`` (rows x columns of the attribute); -1 outside."""
        if self.values is None:
            x = block[:, 0]
            with np.errstate(over="ignore"):
                at = np.searchsorted(self.cuts, x.astype(self.float_type), side="left")
            at = np.where(np.isnan(x), len(self) - 1, at)
            return np.where(self.attribute.holds(block), at, -1).astype(np.int64)
        if isinstance(self.attribute, OneHot):
            # A one-hot group: the place of the only 1, or the last atom if there is none.
            at = np.where(block.any(axis=1), block.argmax(axis=1), len(self) - 1)
            return np.where(self.attribute.holds(block), at, -1).astype(np.int64)
        known, x = self.values[:, 0], block[:, 0]
        at = np.minimum(np.searchsorted(known, x), len(known) - 1)  # NaN is sorted last.
        same = (known[at] == x) | (np.isnan(known[at]) & np.isnan(x))
        return np.where(same, at, -1).astype(np.int64)

    def read(self, rows: pd.DataFrame, what: str = "rows") -> FloatArray:
        """Read the attribute's columns of a table as numbers; labels become codes.

        Raises BadInput, naming the column.
        """
        out = np.empty((len(rows), len(self.columns)))
        for i, column in enumerate(self.columns):
            if column not in rows:
                raise BadInput(f"the {what} lack column {column!r}")
            out[:, i] = self._codes(rows[column], what)
        return out

    def upto(self, column: str, threshold: float, missing_left: bool) -> BoolArray:
        """Atoms whose value of the column goes left at ``value <= threshold``."""
        if self.values is None:
            ends = np.append(self.cuts, self.attribute.bounds[1])
            left = np.append(ends, [math.nan] * self.missing) <= threshold
            if self.missing:
                left[-1] = missing_left
            return np.asarray(left, dtype=bool)
        x = self.values[:, self.columns.index(column)]
        with np.errstate(over="ignore"):
            # A plain float would be rounded to the values' type first, by NumPy 1 any scalar.
            left = x.astype(self.float_type) <= np.array([threshold], dtype=float)
        return np.asarray(np.where(np.isnan(x), missing_left, left), dtype=bool)

    def meeting(self, condition: Condition) -> BoolArray:
        """Atoms whose values meet a condition of a rule.

        Raises BadSchema if the condition names a value that the domain excludes.
        """
        if condition.values is not None:
            met = self._among(condition)
        else:
            met = self.upto(condition.column, condition.upto, missing_left=False)
            met &= ~self.upto(condition.column, condition.above, missing_left=True)
        return ~met if condition.negated else met

    def say(self, mask: BoolArray) -> str:
        """Name a set of atoms; ``*`` if it is all of them."""
        if mask.all():
            return "*"
        known = mask[: len(mask) - self.missing]
        parts = self._ranges(known)
        parts += ["missing"] if self.missing and mask[-1] else []
        more = len(parts) - MOST_SAID
        return ", ".join([*parts[:MOST_SAID], *([f"{more} more"] if more > 0 else [])]) or "none"

    def _ranges(self, known: BoolArray) -> list[str]:
        attribute = self.attribute
        if isinstance(attribute, OneHot):
            names = [*attribute.members, "none of them"]
            return [names[k] for k in np.flatnonzero(known)]
        if isinstance(attribute, Categorical):
            names = list(attribute.labels or (f"{v:g}" for v in attribute.values))
            return [names[k] for k in np.flatnonzero(known)]
        edge = np.flatnonzero(np.diff(np.concatenate([[False], known, [False]]).astype(int)))
        out = []
        for start, end in zip(edge[::2], edge[1::2], strict=True):
            if self.values is not None:
                low, high = self.values[start, 0], self.values[end - 1, 0]
            elif isinstance(attribute, Ordinal):
                before = np.concatenate([[0], np.cumsum(self.sizes)])
                low, high = attribute.low + before[start], attribute.low + before[end] - 1
            else:
                ends = [attribute.bounds[0], *self.cuts, attribute.bounds[1]]
                low, high = ends[start], ends[end]
                out.append(f"above {low:g} to {high:g}" if start else f"{low:g} to {high:g}")
                continue
            if low <= high:
                out.append(f"{low:g}" if low == high else f"{low:g} to {high:g}")
        return out

    def _codes(self, values: pd.Series[Any], what: str) -> FloatArray:
        if pd.api.types.is_numeric_dtype(values):
            return values.to_numpy(dtype=float, na_value=np.nan)
        known = self._label_codes()
        try:
            return np.array(
                [math.nan if pd.isna(v) else float(known.get(v, v)) for v in values], dtype=float
            )
        except (TypeError, ValueError):
            row = next(k for k, v in enumerate(values) if not _is_readable(v, known))
            raise BadInput(
                f"row {row} of the {what}: column {values.name!r} holds a value that the schema "
                "does not allow"
            ) from None

    def _label_codes(self) -> dict[Any, float]:
        if isinstance(self.attribute, Categorical) and self.attribute.labels is not None:
            return dict(zip(self.attribute.labels, self.attribute.values, strict=True))
        return {}

    def _among(self, condition: Condition) -> BoolArray:
        if isinstance(self.attribute, Numeric):
            raise BadSchema(
                f"column {condition.column!r} is numeric: a rule can test intervals of it (above, "
                f"upto), not single values ({condition})"
            )
        known = self._label_codes()
        met = np.zeros(len(self), dtype=bool)
        for value in condition.values or ():
            same = self._holding(condition.column, known.get(value, value))
            if not same.any():
                raise BadSchema(
                    f"a rule tests whether {condition.column!r} is {value!r}, which the schema "
                    "excludes"
                )
            met |= same
        return met

    def _holding(self, column: str, value: float | str) -> BoolArray:
        """Atoms of a single value, where axes are cut on either side of it."""
        if isinstance(value, str):
            return np.zeros(len(self), dtype=bool)
        if self.values is None:
            (at,) = self.locate(np.array([[value]], dtype=float))
            return np.asarray(np.arange(len(self)) == at, dtype=bool)
        return np.asarray(self.values[:, self.columns.index(column)] == value, dtype=bool)


def axis_of(attribute: Attribute, cuts: Sequence[float] | FloatArray, float_type: str) -> Axis:
    """Cut the domain of an attribute.

    Raises BadSchema if the domain has no bounds: its residual uncertainty has no measure.
    """
    missing = [np.full((1, 1), np.nan)] if getattr(attribute, "missing", False) else []
    if listable(attribute):
        values = np.concatenate([listed_values(attribute), *missing])
        ones = np.ones(len(values), dtype=np.int64)
        return Axis(attribute, values, np.zeros(0), ones, float_type)
    low, high = attribute.bounds
    if not (math.isfinite(low) and math.isfinite(high)):
        raise BadSchema(
            f"column {attribute.name!r} has no bounds: give the lowest and highest value "
            "that it can hold, or the residual uncertainty of its range has no measure"
        )
    inner = np.unique([float(c) for c in cuts if low <= c < high])
    if isinstance(attribute, Ordinal):
        domain = range(attribute.low, attribute.high + 1)
        kind = np.dtype(float_type).type
        ends = [bisect.bisect_right(domain, c, key=lambda v: float(kind(v))) for c in inner]
        sizes = np.diff([0, *ends, len(domain)])
    else:
        whole = TICKS * (NUMERIC_STEPS if low < high else 1)
        ends = [round(whole * (c / 2 - low / 2) / (high / 2 - low / 2)) for c in inner]
        sizes = np.maximum(np.diff([0, *ends, whole]), 1)
    sizes = np.append(sizes, np.full(len(missing), _unit(attribute)))
    return Axis(attribute, None, inner, sizes.astype(np.int64), float_type)


def _unit(attribute: Attribute) -> int:
    return TICKS if isinstance(attribute, Numeric) else 1


def _is_readable(value: Any, known: Mapping[Any, float]) -> bool:
    if isinstance(value, str) and value in known:
        return True
    return _is_number(value) or bool(pd.api.types.is_scalar(value) and pd.isna(value))


def _is_number(value: Any) -> bool:
    try:
        return not math.isnan(float(value))
    except (TypeError, ValueError):
        return False


@dataclass(frozen=True, eq=False)
class Space:
    """All rows that the schema allows."""

    schema: Schema
    columns: tuple[str, ...]
    """In the order in which rows are written."""
    axes: tuple[Axis, ...]
    """One for each attribute of the schema."""
    forbidden: tuple[Tests, ...]
    """Boxes that the schema's rules exclude."""

    @cached_property
    def sizes(self) -> tuple[IntArray, ...]:
        """Of each axis, how many values its atoms hold."""
        return tuple(axis.sizes for axis in self.axes)

    @property
    def everything(self) -> tuple[BoolArray, ...]:
        """The box of all rows, also of those that rules exclude."""
        return tuple(np.ones(len(axis), dtype=bool) for axis in self.axes)

    @cached_property
    def bits(self) -> float:
        """Entropy of a row without the model."""
        if not self.forbidden:
            return sum(axis.bits for axis in self.axes)
        size = FirstMatch(self.sizes, self.everything, self.forbidden).counts[-1]
        units = math.prod(axis.unit for axis in self.axes)
        return max(math.log2(size) - math.log2(units), 0.0) if size else -math.inf

    @cached_property
    def owner(self) -> dict[str, int]:
        """The axis of each column."""
        return {c: k for k, axis in enumerate(self.axes) for c in axis.columns}

    def locate(self, rows: pd.DataFrame | NDArray[Any], what: str = "rows") -> IntArray:
        """Atoms of rows, shape (n_rows, n_axes); -1 where a value lies outside of the domain.

        Raises
        ------
        BadInput
            Naming the column that is missing or cannot be read.
        """
        table, _ = columns_by_name(self.columns, rows, what)
        return np.column_stack([axis.locate(axis.read(table, what)) for axis in self.axes])


def space_of(
    schema: Schema, columns: Sequence[str], cuts: Mapping[str, FloatArray], float_type: str
) -> Space:
    """Cut the attributes of a schema where a model does.

    Raises BadSchema if a column has no bounds. Raises NotCovered if there is no column, or a rule
    of the schema excludes too many combinations to list them.
    """
    if not columns:
        raise NotCovered(NO_COLUMNS)
    axes = tuple(
        axis_of(a, cuts.get(a.columns[0], np.zeros(0)), float_type) for a in schema.attributes
    )
    return Space(schema, tuple(columns), axes, _forbidden(axes, schema.rules))


def _forbidden(axes: Sequence[Axis], rules: Sequence[Rule]) -> tuple[Tests, ...]:
    owner = {c: k for k, axis in enumerate(axes) for c in axis.columns}
    out: list[Tests] = []
    for rule in rules:
        rule_axes = sorted({owner[c] for c in rule.columns}, key=lambda k: len(axes[k]))
        listed = [axes[k].values for k in rule_axes]
        n = math.prod(len(axes[k]) for k in rule_axes)
        if n > MOST_POINTS or any(v is None for v in listed):
            raise NotCovered(
                f"the rule of kind {rule.kind!r} over {', '.join(map(repr, rule.columns[:5]))} "
                f"links too many values ({short(n)} combinations; {MOST_POINTS:,} are covered)"
            )
        tables = [v for v in listed if v is not None]
        *first, last = (range(len(v)) for v in tables)
        for chosen in product(*first):
            values = {
                c: np.broadcast_to(block[:, i], len(last))
                for k, block in zip(
                    rule_axes,
                    [*(v[j : j + 1] for v, j in zip(tables, chosen, strict=False)), tables[-1]],
                    strict=True,
                )
                for i, c in enumerate(axes[k].columns)
            }
            broken = ~rule_holds(rule, values)
            if broken.any():
                tests = {
                    k: np.arange(len(v)) == j
                    for k, v, j in zip(rule_axes, tables, chosen, strict=False)
                }
                out.append(tests | {rule_axes[-1]: broken})
    return tuple(out)
