"""Where the rows of a leaf lie, in words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.text import listed
from treeleak.release.release import Release
from treeleak.release.tree import Tree
from treeleak.schema import Binary, OneHot, Schema


def rows_in_nodes(tree: Tree) -> FloatArray | None:
    """How many rows reach each node; different ones where the tree tells, else draws."""
    found = tree.distinct if tree.distinct is not None else tree.totals
    if found is None and tree.counts is not None:
        found = tree.counts.sum(axis=1)
    return None if found is None else found.astype(float)


class LeafWords:
    """Says where the rows of leaves lie.

    ``schema``: columns that it has for 0 and 1 are said so.
    """

    def __init__(self, release: Release, schema: Schema) -> None:
        self._release = release
        flags = (a for a in schema.attributes if isinstance(a, (Binary, OneHot)))
        self._flags = frozenset(c for a in flags for c in a.columns)
        self._parents = [_parents(tree) for tree in release.trees]

    def say(self, tree: int, leaf: int) -> str:
        """Say what all rows of a leaf have in common.

        ``tree`` and ``leaf``: numbers of the tree and of the node.
        """
        low: dict[str, float] = {}
        high: dict[str, float] = {}
        missing: dict[str, bool] = {}
        among: dict[str, list[str]] = {}
        structure = self._release.trees[tree]
        sets = {} if structure.categories is None else structure.categories.by_node
        for node, went_left in self._path(tree, leaf):
            column = self._release.feature_names[structure.feature[node]]
            cut = float(structure.threshold[node])
            if node in sets:
                word = f"{'one' if went_left else 'none'} of {self._named(column, sets[node])}"
                among.setdefault(column, []).append(word)
            elif went_left:
                high[column] = min(high.get(column, np.inf), cut)
            else:
                low[column] = max(low.get(column, -np.inf), cut)
            passes = bool(structure.missing_left[node]) == went_left
            missing[column] = missing.get(column, True) and passes
        maybe = self._release.maybe_missing
        conditions = (
            self._between(c, low.get(c, -np.inf), high.get(c, np.inf), among.get(c, []))
            + " or missing" * (c in maybe and through)
            for c, through in missing.items()
        )
        return "; ".join(conditions) or "anywhere"

    def _named(self, column: str, codes: IntArray) -> str:
        texts = dict(enumerate(self._release.levels.get(column, ())))
        return listed([texts.get(code, str(code)) for code in codes.tolist()])

    def _between(self, column: str, low: float, high: float, among: list[str]) -> str:
        if among:
            among = [f"{column} is {word}" for word in among]
            ordered = bool(np.isfinite(low) or np.isfinite(high))
            return ", ".join(among + [self._between(column, low, high, [])] * ordered)
        if column in self._flags:
            return f"{column} = {int(low >= 0)}"
        if np.isinf(low):
            return f"{column} ≤ {high:g}"
        if np.isinf(high):
            return f"{column} > {low:g}"
        return f"{low:g} < {column} ≤ {high:g}"

    def _path(self, tree: int, leaf: int) -> Iterator[tuple[int, bool]]:
        """Nodes above a leaf, the root last, and whether the way to it goes left there."""
        left, parents = self._release.trees[tree].left, self._parents[tree]
        at = leaf
        while at:
            above = int(parents[at])
            yield above, bool(left[above] == at)
            at = above


def _parents(tree: Tree) -> IntArray:
    parents = np.zeros(tree.n_nodes, dtype=np.int64)
    inner = np.flatnonzero(~tree.is_leaf)
    parents[tree.left[inner]] = inner
    parents[tree.right[inner]] = inner
    return parents
