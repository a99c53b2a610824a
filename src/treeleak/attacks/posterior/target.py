"""What chains walk towards, laid out for the kernels: a likelihood, the grid, and moves over it."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.answer import ENUMERATED
from treeleak.attacks.posterior.draw_kernels import NAMES, GridArrays, Moves
from treeleak.attacks.posterior.hidden_kernels import climb
from treeleak.attacks.posterior.likelihood import DrawLikelihood, Likelihood
from treeleak.attacks.posterior.schedule import SCHEDULE
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.errors import BadSchema, NotCovered
from treeleak.core.parallel import run_all
from treeleak.core.private import dataclass
from treeleak.core.text import short
from treeleak.partition import Geometry, rules_hold
from treeleak.partition.value_index import ValueIndex
from treeleak.schema import Rule
from treeleak.side_information.side_information import KnownParts

MAX_TABLE = 2**27
"""Entries of the table of leaves of all grid points: 512 MiB."""
MAX_SHARES = 2**27
"""Entries of the tables of how probable each value is in each row: 1 GiB."""
MAX_ATOMS = 8192
"""Atoms of an attribute, that tables of pairs fit."""


@dataclass(frozen=True, eq=False)
class PosteriorTarget:
    """What all chains share."""

    geometry: Geometry
    values: ValueIndex
    likelihood: Likelihood
    n_rows: int
    grid: GridArrays
    moves: Moves
    weights: FloatArray | None
    """Shape (n_points, n_classes). Rows expected at each grid point, by hidden draws alone or by a
    population; None if that is not known, or the grid too large."""

    @classmethod
    def of(
        cls,
        geometry: Geometry,
        values: ValueIndex,
        likelihood: Likelihood,
        n_rows: int,
        parts: KnownParts | None,
        clock: Clock,
    ) -> PosteriorTarget:
        """Lay out the grid and find where the counts alone put the rows.

        Raises BadSchema if no row meets the rules of the schema. Raises NotCovered if a table would
        not fit, or if a rule of the schema speaks of too many values.
        """
        n_classes = likelihood.n_classes
        radix = np.append(geometry.radix, n_classes)
        _check_size(geometry, radix, n_rows)
        grid = _grid_arrays(geometry, radix, values)
        weights = None
        if grid.listed and isinstance(likelihood, DrawLikelihood):
            weights = start_weights(grid, likelihood, n_rows, clock)
        if parts is None:
            group, allowed = np.zeros(n_rows, np.int64), np.ones((1, values.n_atoms), bool)
        else:
            group, allowed = parts.group, parts.allowed
        # Where leaves name a class only, what two rows change together is not a sum.
        swaps = 0.0 if likelihood.law.evidence == NAMES else SCHEDULE.swaps
        # Draws of rows are judged where they go, not where they may go.
        many = not grid.listed and _long(values) and likelihood.row_draws is None
        moves = _moves(group, allowed, values, weights)
        moves = moves._replace(
            swaps=swaps,
            gibbs_share=SCHEDULE.long_gibbs if many else 0.0,
            single=SCHEDULE.single_swaps if many else 0.0,
        )
        return cls(geometry, values, likelihood, n_rows, grid, moves, weights)

    @classmethod
    def without_walk(
        cls, geometry: Geometry, values: ValueIndex, likelihood: Likelihood, parts: KnownParts
    ) -> PosteriorTarget:
        """Lay out only what is asked of samples that are drawn elsewhere: no table is made."""
        radix = np.append(geometry.radix, likelihood.n_classes)
        grid = grid_without_table(geometry, radix, values)
        moves = _moves(parts.group, parts.allowed, values, None)
        return cls(geometry, values, likelihood, len(parts.group), grid, moves, None)

    def expecting(self, weights: FloatArray) -> PosteriorTarget:
        """Let rows start where they are expected, and jump there.

        What lies between two likely places may be too unlikely to be passed.
        """
        before = self.moves
        moves = _moves(before.group, before.allowed, self.values, weights)
        moves = moves._replace(swaps=before.swaps, gibbs_share=before.gibbs_share)
        return replace(self, weights=weights, moves=moves)

    @property
    def cells(self) -> str:
        """How the cells were found: see :attr:`Answer.cells`."""
        if self.grid.listed:
            return ENUMERATED
        return f"generated: the grid of thresholds has {short(self.geometry.n_points)} points"

    @property
    def radix(self) -> IntArray:
        """Atoms of each attribute, the class last."""
        return np.asarray(self.grid.radix, dtype=np.int64)


def _long(values: ValueIndex) -> bool:
    """Whether some ordered attribute has so many atoms that one at random hardly ever fits."""
    return any(bins[-1] + 1 < len(bins) for bins in values.bins)


def _check_size(geometry: Geometry, radix: IntArray, n_rows: int) -> None:
    """Raise NotCovered if a table of the attack would not fit."""
    a = int(radix.argmax())
    if radix[a] > MAX_ATOMS:
        name = "the class" if a == len(geometry.parts) else geometry.parts[a].attribute.name
        raise NotCovered(f"{radix[a]:,} intervals or values of {name!r}; at most {MAX_ATOMS:,}")
    if n_rows * int(radix.sum()) > MAX_SHARES:
        raise NotCovered(
            f"{n_rows:,} rows with {int(radix.sum()):,} values or intervals; at most "
            f"{MAX_SHARES:,} pairs of them"
        )


def _grid_arrays(geometry: Geometry, radix: IntArray, values: ValueIndex) -> GridArrays:
    n_trees, rules = len(geometry.release.trees), geometry.schema.rules
    stride = np.zeros(0, dtype=np.int64)
    table = np.zeros((0, n_trees), dtype=np.int32)
    allowed: list[tuple[BoolArray, IntArray]] = []
    # Beside the leaves, there is a weight per class and an atom per attribute.
    listed = geometry.n_points * max(n_trees, int(radix[-1]), 2 * len(radix)) <= MAX_TABLE
    if listed:
        points, stride = np.arange(geometry.n_points), geometry.stride
        table = geometry.trace(points)
        if rules:
            valid = rules_hold(rules, geometry.parts, geometry.atoms(points))
            if not valid.any():
                raise BadSchema("no row meets all rules of the schema")
            allowed.append((valid, stride))
    else:
        allowed += [_of_rule(rule, geometry) for rule in rules]
    return grid_without_table(geometry, radix, values)._replace(
        listed=listed,
        stride=stride,
        table=table,
        rule_start=np.cumsum([0, *(len(valid) for valid, _ in allowed)], dtype=np.int64)[:-1],
        rule_stride=np.array([rule_strides for _, rule_strides in allowed], dtype=np.int64).reshape(
            -1, len(geometry.parts)
        ),
        valid=np.concatenate([np.zeros(0, dtype=bool), *(valid for valid, _ in allowed)]),
    )


def grid_without_table(geometry: Geometry, radix: IntArray, values: ValueIndex) -> GridArrays:
    """Lay out what a row can be, with no table of leaves and no rules."""
    none = np.zeros(0, dtype=np.int64)
    return GridArrays(
        radix.astype(np.int32),
        values.atom_start.astype(np.int32),
        False,
        none,
        np.zeros((0, len(geometry.release.trees)), dtype=np.int32),
        none,
        np.zeros((0, len(geometry.parts)), dtype=np.int64),
        np.zeros(0, dtype=bool),
        _until(geometry),
        *geometry.compiled,
    )


def _of_rule(rule: Rule, geometry: Geometry) -> tuple[BoolArray, IntArray]:
    """List what a rule allows, over the attributes of which it speaks, and their strides there."""
    attributes = [
        a
        for a, part in enumerate(geometry.parts)
        if not set(rule.columns).isdisjoint(part.attribute.columns)
    ]
    radix = geometry.radix[attributes]
    n = math.prod(int(r) for r in radix)
    if n * len(geometry.radix) > MAX_TABLE:
        raise NotCovered(
            f"a rule of kind {rule.kind!r} on a grid of {short(geometry.n_points)} points, with "
            f"{short(n)} combinations of values of {', '.join(map(repr, rule.columns))}"
        )
    stride = np.zeros(len(geometry.radix), dtype=np.int64)
    stride[attributes] = np.append(np.cumprod(radix[::-1][:-1])[::-1], 1)
    atoms = np.zeros((n, len(stride)), dtype=np.int64)
    atoms[:, attributes] = np.arange(n)[:, None] // stride[attributes] % radix
    valid = rules_hold([rule], geometry.parts, atoms)
    if not valid.any():
        raise BadSchema(f"no row meets the schema's rule of kind {rule.kind!r}")
    return valid, stride


def _until(geometry: Geometry) -> NDArray[np.int32]:
    """Per test and atom, how many atoms on the next one goes another way; maybe past the last."""
    goes_left = geometry.compiled[-1]
    at = np.arange(len(goes_left))
    turns = np.append(1 + np.flatnonzero(np.diff(goes_left)), len(goes_left))
    return np.asarray(turns[np.searchsorted(turns, at, side="right")] - at, dtype=np.int32)


def start_weights(
    grid: GridArrays, likelihood: DrawLikelihood, n_rows: int, clock: Clock
) -> FloatArray:
    """Rows expected at each grid point if draws were shares: EM, class by class.

    Returns an array of shape (n_points, n_classes).
    """
    n_points = len(grid.table)
    draws = likelihood.draws.reshape(-1, likelihood.n_classes)
    valid = grid.valid if len(grid.valid) else np.ones(n_points, dtype=bool)
    out = np.zeros((n_points, likelihood.n_classes))
    part = clock.part(SCHEDULE.start_share * clock.left)

    def fit(c: int) -> None:
        class_draws = draws[:, c].astype(float)
        if not class_draws.any():
            return
        weight, class_rows = (
            valid / valid.sum(),
            n_rows * class_draws.sum() / likelihood.draws.sum(),
        )
        for k in range(SCHEDULE.em_looks):
            if k and part.stopped:
                break
            climb(grid.table, class_draws, weight, SCHEDULE.em_at_once)
            # What has become as good as empty stays so, and need not be looked at again.
            weight[weight * class_rows < SCHEDULE.likely_rows] = 0.0
        out[:, c] = weight * class_draws.sum()

    run_all([partial(fit, c) for c in range(likelihood.n_classes)])
    if not out.any():  # all draws are counted where no row can go
        out[valid] = 1.0
    out *= n_rows / out.sum()
    return out


def _moves(
    group: IntArray, allowed: BoolArray, values: ValueIndex, weights: FloatArray | None
) -> Moves:
    start = values.atom_start
    n_open = np.add.reduceat(allowed, start[:-1], axis=1, dtype=np.int64)
    open_group, open_attribute = np.nonzero(n_open > 1)
    open_start = np.searchsorted(open_group, np.arange(len(allowed) + 1))
    open_rows = np.flatnonzero(np.diff(open_start)[group] > 0)
    jump_start, jump_pair = np.zeros(len(allowed) + 1, np.int64), np.zeros(0, np.int64)
    jump_sum, jump_log = np.zeros(0), np.zeros(0, np.float32)
    if weights is not None:
        weight = weights.ravel()
        likely = np.flatnonzero(weight > SCHEDULE.likely_rows)
        with np.errstate(divide="ignore"):
            jump_log = np.log(np.where(weight > SCHEDULE.likely_rows, weight, 0.0)).astype(
                np.float32
            )
        pools = _pools(likely, allowed, values, weights.shape[1])
        jump_start = np.cumsum([0, *(len(pool) for pool in pools)])
        jump_pair = np.concatenate(pools)
        jump_sum = np.concatenate([np.cumsum(weight[pool]) for pool in pools])
    return Moves(
        open_rows.astype(np.int32),
        group.astype(np.int32),
        np.ascontiguousarray(allowed),
        open_start.astype(np.int32),
        open_attribute.astype(np.int32),
        SCHEDULE.swaps,
        0.0 if weights is None else SCHEDULE.jumps,
        0.0,
        0.0,
        0.0,
        jump_start,
        jump_sum,
        jump_pair,
        jump_log,
    )


def _pools(
    pairs: IntArray, allowed: BoolArray, values: ValueIndex, n_classes: int
) -> list[IntArray]:
    """For each group, the pairs (point * n_classes + class) that its rows may take."""
    if len(allowed) * len(pairs) > MAX_TABLE:
        return [pairs[:0] for _ in allowed]
    point, label = np.divmod(pairs, n_classes)
    radix = np.diff(values.atom_start)[:-1]
    legal = allowed[:, values.atom_start[-2] + label]
    for a in reversed(range(len(radix))):
        point, atom = np.divmod(point, radix[a])
        mask = allowed[:, values.atom_start[a] : values.atom_start[a + 1]]
        if not mask.all():
            legal &= mask[:, atom]
    return [pairs[mask] for mask in legal]
