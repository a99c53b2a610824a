"""Leaves as boxes: of each attribute, the atoms that a leaf admits.

What cells are, once the grid is too large to list: a cell is a box that meets one leaf per tree.
Rules between columns are boxes as well: a rule is a tree whose leaves are what it allows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.huge import short
from treeleak.core.memory import require
from treeleak.core.private import dataclass, shows_no_value
from treeleak.partition.atoms import rules_hold
from treeleak.partition.cells import Geometry, GridTooLarge
from treeleak.schema import Rule

MAX_ENTRIES = 2**26
"""Largest number of (leaf, attribute, atom) triples held while leaves are laid out: 64 MiB."""
_MAX_RULE = 2**20
"""Largest number of points of the columns of one rule."""


@shows_no_value
class Layout(NamedTuple):
    """All boxes in flat arrays, for kernels.

    A *factor* is a tree or a rule. Where it tests an attribute, the two have a *block*, in which
    the atoms that it treats alike are a *group*: few, however many atoms there are. Where a leaf
    does not admit all atoms of an attribute, the two have a *part*, which lists the groups that it
    admits. Atoms are numbered through all attributes, groups through all blocks.
    """

    atom_start: NDArray[np.int32]
    """Shape (n_attributes + 1,)."""
    leaf_start: NDArray[np.int32]
    """Shape (n_factors + 1,)."""
    row: NDArray[np.int32]
    """Shape (n_boxes,). Row of A of each leaf; -1 for those of rules. Leaves that no point reaches
    are left out."""
    factor_blocks: NDArray[np.int32]
    """Shape (n_factors + 1,). Where the blocks of each factor begin."""
    factor: NDArray[np.int32]
    attribute: NDArray[np.int32]
    offset: NDArray[np.int32]
    """Shape (n_blocks,). Factor and attribute of each block, and where a number per atom of each
    block is kept."""
    group_start: NDArray[np.int32]
    """Shape (n_blocks + 1,). Where the groups of each block begin."""
    group: NDArray[np.int32]
    """Shape (n_prices,). Group of each atom of each block."""
    part_start: NDArray[np.int32]
    """Shape (n_boxes + 1,)."""
    leaf: NDArray[np.int32]
    block: NDArray[np.int32]
    """Shape (n_parts,). Leaf and block of each part."""
    entry_start: IntArray
    """Shape (n_parts + 1,)."""
    entry: NDArray[np.int32]
    """Shape (n_entries,). The groups of each part."""
    table: IntArray
    """Shape (n_parts,). Where the row of each part in ``admits`` would begin, were it to begin at
    group 0."""
    admits: BoolArray
    """Whether each part admits each group of its block."""
    attribute_blocks: NDArray[np.int32]
    blocks: NDArray[np.int32]
    """Blocks by attribute."""
    block_parts: NDArray[np.int32]
    parts: NDArray[np.int32]
    """Parts by block."""


Sides = dict[int, BoolArray]
"""The atoms that a leaf admits, of the attributes of which it does not admit all."""


@dataclass(frozen=True, eq=False)
class Boxes:
    """The leaves of a geometry, and what its rules allow, as boxes of atoms."""

    geometry: Geometry
    layout: Layout

    @classmethod
    def of(cls, geometry: Geometry) -> Boxes:
        """Lay out the leaves of every tree and the points that every rule allows.

        Raises GridTooLarge if there is more to hold than :data:`MAX_ENTRIES`, or a rule speaks of
        too many points.
        """
        factors: list[list[tuple[int, Sides]]] = []
        held = 0
        for root in geometry.compiled[0]:
            factors.append(list(_leaves(geometry, int(root))))
            held += sum(int(s.sum()) for _, sides in factors[-1] for s in sides.values())
            if held > MAX_ENTRIES:
                raise GridTooLarge(
                    f"the leaves of {len(factors)} of {len(geometry.release.trees)} trees admit "
                    f"{held:,} atoms; treeleak holds at most {MAX_ENTRIES:,}"
                )
        factors += [list(_allowed(geometry, rule)) for rule in geometry.schema.rules]
        return cls(geometry, _laid_out(factors, geometry.radix))

    @cached_property
    def n_atoms(self) -> int:
        """Atoms of all attributes."""
        return int(self.layout.atom_start[-1])

    def weights(self, weight: FloatArray) -> FloatArray:
        """Weight of each box, from one per row of A."""
        # What a rule allows weighs nothing.
        return np.append(np.asarray(weight, dtype=float), 0.0)[self.layout.row]


def reachable_leaves(geometry: Geometry) -> tuple[BoolArray, ...]:
    """Find the leaves that some row of the schema reaches: a path may shut itself.

    Exact where the schema has no rules. Rules between columns are not heeded: a leaf that only a
    rule shuts counts as reachable.

    Returns one array per tree, over its leaves in the order of :attr:`Tree.leaves`.
    """
    reached = np.zeros(int(geometry.leaf_start[-1]), dtype=bool)
    for root in geometry.compiled[0]:
        for row, _ in _leaves(geometry, int(root)):
            reached[row] = True
    return tuple(np.split(reached, geometry.leaf_start[1:-1]))


def leaf_boxes(geometry: Geometry) -> BoolArray:
    """Say which atoms each leaf (row of A) admits, shape (n_leaves, n_atoms).

    Leaves that no point reaches admit none.
    """
    start = np.append(0, np.cumsum(geometry.radix))
    shape = int(geometry.leaf_start[-1]), int(start[-1])
    require("a table of all leaves and values", shape, bool)
    out = np.zeros(shape, dtype=bool)
    for root in geometry.compiled[0]:
        for row, sides in _leaves(geometry, int(root)):
            out[row] = True
            for a, side in sides.items():
                out[row, start[a] : start[a + 1]] = side
    return out


def _leaves(geometry: Geometry, root: int) -> Iterator[tuple[int, Sides]]:
    _, attribute, table, left, right, goes_left = geometry.compiled
    todo: list[tuple[int, Sides]] = [(root, {})]
    while todo:
        node, sides = todo.pop()
        tested = int(attribute[node])
        if tested < 0:
            yield int(left[node]), {a: s for a, s in sides.items() if not s.all()}
            continue
        first, size = int(table[node]), int(geometry.radix[tested])
        goes = goes_left[first : first + size].astype(bool)
        side = sides.get(tested)
        for child, own in ((right[node], ~goes), (left[node], goes)):
            kept = own if side is None else side & own
            if kept.any():
                todo.append((int(child), {**sides, tested: kept}))


def _allowed(geometry: Geometry, rule: Rule) -> Iterator[tuple[int, Sides]]:
    """Boxes of what a rule allows: all atoms of its largest attribute that go with the others'."""
    names = set(rule.columns)
    own = [a for a, p in enumerate(geometry.schema.attributes) if names & set(p.columns)]
    own.sort(key=lambda a: int(geometry.radix[a]))
    radix = [int(geometry.radix[a]) for a in own]
    if math.prod(radix) > _MAX_RULE:
        raise GridTooLarge(
            f"a rule of kind {rule.kind!r} covers {short(math.prod(radix))} points; "
            f"treeleak holds at most {_MAX_RULE:,}"
        )
    atoms = np.zeros((math.prod(radix), len(geometry.radix)), dtype=np.int64)
    atoms[:, own] = np.indices(radix).reshape(len(radix), -1).T
    met = rules_hold([rule], geometry.parts, atoms).reshape(-1, radix[-1])
    for k, last in enumerate(met):
        if last.any():
            point = atoms[k * radix[-1]]
            sides = {a: np.arange(geometry.radix[a]) == point[a] for a in own[:-1]}
            yield -1, {a: s for a, s in (sides | {own[-1]: last}).items() if not s.all()}


def _laid_out(factors: list[list[tuple[int, Sides]]], radix: IntArray) -> Layout:
    row = [r for leaves in factors for r, _ in leaves]
    # By block: the leaves that have a part in it, and the atoms that they admit.
    blocks: dict[tuple[int, int], list[tuple[int, BoolArray]]] = {}
    leaf_start = np.append(0, np.cumsum([len(leaves) for leaves in factors])).astype(np.int64)
    for f, leaves in enumerate(factors):
        for j, (_, sides) in enumerate(leaves, int(leaf_start[f])):
            for a, side in sides.items():
                blocks.setdefault((f, a), []).append((j, side))
    keys = sorted(blocks)
    factor, attribute = (np.array([k[i] for k in keys], dtype=np.int64) for i in (0, 1))
    nothing = np.zeros(0, dtype=np.int64)
    leaf, group = [nothing], [nothing]
    admitted: list[BoolArray] = []
    ends = [0]
    for key in keys:
        admits = np.array([side for _, side in blocks[key]])
        packed = np.ascontiguousarray(np.packbits(admits, axis=0).T)
        _, first, own = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        leaf.append(np.array([j for j, _ in blocks[key]]))
        group.append(own.ravel() + ends[-1])
        admitted.append(admits[:, first])
        ends.append(ends[-1] + len(first))
    group_start = np.array(ends, dtype=np.int64)
    block = np.repeat(np.arange(len(keys)), [len(x) for x in admitted]).astype(np.int64)
    leaves_of_parts = np.concatenate(leaf)
    order = np.argsort(leaves_of_parts, kind="stable")
    width = np.diff(group_start)[block]
    table = np.append(0, np.cumsum(width))[:-1]
    admits = np.concatenate([np.zeros(0, dtype=bool), *(x.ravel() for x in admitted)])
    entries = [np.flatnonzero(x) for m in admitted for x in m]
    entry = [entries[p] + group_start[block[p]] for p in order]

    def ints(x: Any) -> NDArray[np.int32]:
        return np.asarray(x, dtype=np.int32)

    def starts(of: Any, n: int) -> NDArray[np.int32]:
        return ints(np.append(0, np.cumsum(np.bincount(of, minlength=n))))

    return Layout(
        atom_start=ints(np.append(0, np.cumsum(radix))),
        leaf_start=ints(leaf_start),
        row=ints(row),
        factor_blocks=starts(factor, len(factors)),
        factor=ints(factor),
        attribute=ints(attribute),
        offset=ints(np.append(0, np.cumsum(radix[attribute]))),
        group_start=ints(group_start),
        group=ints(np.concatenate(group)),
        part_start=starts(leaves_of_parts, len(row)),
        leaf=ints(leaves_of_parts[order]),
        block=ints(block[order]),
        entry_start=np.append(0, np.cumsum([len(x) for x in entry])).astype(np.int64),
        entry=ints(np.concatenate([nothing, *entry])),
        table=(table - group_start[block])[order],
        admits=admits,
        attribute_blocks=starts(attribute, len(radix)),
        blocks=ints(np.argsort(attribute, kind="stable")),
        block_parts=starts(block, len(keys)),
        parts=ints(np.argsort(block[order], kind="stable")),
    )
