"""All subcubes of a binary table that rules or splits can reach, and the best way through them.

The rows that are left behind some rules, or that reach a node of a tree, are those of a subcube:
a conjunction of literals. Two conjunctions that hold of the same rows are one state. It is known
by its closure, all literals that hold of its rows; so neither the order of the literals matters
nor those that follow from others. States are found level by level, and dynamic programming over
them gives the least error with every number of steps at once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.learners.binary_table import BinaryTable
from experiments.learners.kernels import (
    LITERALS_PER_WORD,
    Points,
    Search,
    States,
    add_state,
    expand,
    insert_all,
    least_errors,
)
from treeleak.core.private import dataclass

FIRST_ROOM = 1 << 14

_BY_STATE = ("keys", "leaf", "best", "more", "start")
_BY_SPLIT = ("literal", "one", "other")


@dataclass(frozen=True, eq=False)
class Subcubes:
    """States, their splits, and the least errors."""

    states: States
    root: int
    """State of all rows, or minus their error, less one."""
    expanded: int
    """States of which all splits were looked for."""
    errors: NDArray[np.int32]
    """Shape (n_states, n_steps + 1). Least error with up to so many rules, or with a tree of that
    depth."""

    @property
    def n_states(self) -> int:
        """Number of states."""
        return int(self.states.used[0])

    def error(self, state: int, steps: int) -> int:
        """Least error of a state, or of what stands for one."""
        return -state - 1 if state < 0 else int(self.errors[state, steps])

    def step(self, state: int, steps: int) -> tuple[int, int, int] | None:
        """Find the first split that leads to the least error: its literal, and both parts.

        None where no split of a split was looked for: the best single one is as good.
        """
        if steps < 2 or not 0 <= state < self.expanded:
            return None
        for e in range(self.states.start[state], self.states.start[state + 1]):
            one, other = int(self.states.one[e]), int(self.states.other[e])
            if self.error(one, steps - 1) + self.error(other, steps - 1) == self.error(
                state, steps
            ):
                return int(self.states.literal[e]), one, other
        return None


def enumerate_subcubes(table: BinaryTable, search: Search, steps: int) -> Subcubes:
    """Find the subcubes that up to ``steps`` rules or splits reach, and the least errors.

    ``steps``: rules, or splits on each path.
    """
    n_columns = table.values.shape[1]
    points = _points(table)
    states = _room(FIRST_ROOM, n_columns, points.keys.shape[1])
    everyone = table.counts(np.ones(table.n_rows, dtype=bool))
    ones = np.array([table.counts(column) for column in table.values.T])
    root = int(add_state(ones, everyone, search, points, states))
    at = 0
    # The best single split of a state is known once it is found: two steps before the end.
    for _ in range(steps - 1):
        last = int(states.used[0])
        while at < last:
            at = expand(at, last, search, table.packed, points, states)
            states = _grown(states, 2 * n_columns)
    n = int(states.used[0])
    errors = np.repeat(states.best[:n, None], steps + 1, axis=1)
    errors[:, 0] = states.leaf[:n]
    least_errors(states, at, errors)
    return Subcubes(states, root, at, errors)


def _points(table: BinaryTable) -> Points:
    found, counts = table.points
    minority = counts.sum(axis=1) - counts.max(axis=1)
    mixed = minority > 0
    literals = np.where(found[mixed], np.uint64(2), np.uint64(1))
    words = -(-found.shape[1] // LITERALS_PER_WORD)
    padded = np.zeros((len(literals), words * LITERALS_PER_WORD), dtype=np.uint64)
    padded[:, : found.shape[1]] = literals
    shifted = padded << (2 * (np.arange(padded.shape[1], dtype=np.uint64) % LITERALS_PER_WORD))
    keys = np.bitwise_or.reduce(shifted.reshape(len(literals), words, LITERALS_PER_WORD), axis=2)
    return Points(keys, minority[mixed])


def _room(room: int, n_columns: int, words: int) -> States:
    room = max(room, 4 * n_columns)
    return States(
        keys=np.zeros((room, words), dtype=np.uint64),
        table=np.full(1 << math.ceil(math.log2(4 * room)), -1, dtype=np.int32),
        leaf=np.zeros(room, dtype=np.int32),
        best=np.zeros(room, dtype=np.int32),
        more=np.zeros(room, dtype=bool),
        start=np.zeros(room + 1, dtype=np.int64),
        literal=np.zeros(4 * room, dtype=np.int32),
        one=np.zeros(4 * room, dtype=np.int32),
        other=np.zeros(4 * room, dtype=np.int32),
        used=np.zeros(2, dtype=np.int64),
    )


def _grown(states: States, needed: int) -> States:
    """Double what has no room left for what one more split state may need."""
    n_states, n_splits = (int(n) for n in states.used)
    if len(states.keys) < n_states + needed:
        table = np.full(2 * len(states.table), -1, dtype=np.int32)
        insert_all(states.keys, n_states, table)
        grown = {name: _double(getattr(states, name)) for name in _BY_STATE}
        states = states._replace(table=table, **grown)
    if len(states.literal) < n_splits + needed:
        states = states._replace(**{n: _double(getattr(states, n)) for n in _BY_SPLIT})
    return states


def _double(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([array, np.zeros_like(array)])
