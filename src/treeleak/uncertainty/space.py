"""What a row can be, attribute by attribute, and what the schema's rules exclude."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.huge import short
from treeleak.core.private import dataclass
from treeleak.partition.atoms import rule_holds
from treeleak.release.release import NO_COLUMNS
from treeleak.schema import Rule, Schema
from treeleak.uncertainty.axes import Axis, axis_of
from treeleak.uncertainty.counting import Tests
from treeleak.uncertainty.regions import Region
from treeleak.verification.columns import columns_by_name

# A rule of the schema is written out as the points that it excludes; of more it is refused.
MOST_POINTS = 1 << 16


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

    @cached_property
    def everything(self) -> Region:
        """Where a row of which nothing is known may lie."""
        box = tuple(np.ones(len(axis), dtype=bool) for axis in self.axes)
        return Region(self.sizes, box, self.forbidden)

    @cached_property
    def bits(self) -> float:
        """Entropy of a row without the model."""
        if not self.forbidden:
            return sum(axis.bits for axis in self.axes)
        size = self.everything.size
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

    def locate_all(self, rows: pd.DataFrame | NDArray[Any]) -> IntArray:
        """Atoms of rows, all of whose values must lie in their domains.

        Raises
        ------
        BadInput
            Naming the column, and the row whose value does not.
        """
        atoms = self.locate(rows)
        if (atoms < 0).any():
            row, k = np.argwhere(atoms < 0)[0]
            name = self.axes[k].attribute.name
            raise BadInput(f"row {row}: the value of {name!r} lies outside of the domain")
        return atoms


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
        own = sorted({owner[c] for c in rule.columns}, key=lambda k: len(axes[k]))
        listed = [axes[k].values for k in own]
        n = math.prod(len(axes[k]) for k in own)
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
                    own,
                    [*(v[j : j + 1] for v, j in zip(tables, chosen, strict=False)), tables[-1]],
                    strict=True,
                )
                for i, c in enumerate(axes[k].columns)
            }
            broken = ~rule_holds(rule, values)
            if broken.any():
                tests = {
                    k: np.arange(len(v)) == j for k, v, j in zip(own, tables, chosen, strict=False)
                }
                out.append(tests | {own[-1]: broken})
    return tuple(out)
