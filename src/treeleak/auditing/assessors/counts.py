"""The tables that output checkers ask for, without a solver; and where the rows of a leaf lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.auditing import wording
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import NotCovered
from treeleak.core.message import message_of, static_message
from treeleak.core.private import dataclass
from treeleak.core.text import listed
from treeleak.release.release import Release
from treeleak.release.rule_list import RuleList
from treeleak.release.tree import Tree
from treeleak.schema import Binary, OneHot, Schema

if TYPE_CHECKING:
    from treeleak.auditing.case import Case
    from treeleak.auditing.inventory.other_models import OtherModel


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


THRESHOLD = 10

UNCOUNTED = static_message("the model does not say how many rows lie in its leaves")
_SUMMED = ("leaves", "small", "single", "excludes_class", "one_class")


@dataclass(frozen=True, eq=False)
class Counts:
    """How few training rows stand behind the leaves, or the rules.

    Attributes
    ----------
    threshold : int
        A leaf with fewer rows is small.
    unit : {"rows", "draws"}
        What is counted: different rows wherever the model tells, else draws (a row may count
        twice).
    trees : DataFrame
        Per tree: ``leaves`` (that hold rows), ``small``, ``single`` (leaves with one row),
        ``smallest`` (rows in the smallest leaf), ``excludes_class`` (leaves that lack a class),
        ``one_class`` (leaves whose rows all have one class). The last two are missing where the
        model counts no classes. Of rules there is one line, in which each rule is a leaf, and the
        default is one.
    of : {"leaves", "rules"}
    """

    threshold: int
    unit: str
    trees: pd.DataFrame
    of: str = "leaves"

    @property
    def total(self) -> Mapping[str, int | None]:
        """The same over all trees: sums, and the smallest leaf."""
        sums: dict[str, int | None] = {
            c: None if self.trees[c].isna().any() else int(self.trees[c].sum()) for c in _SUMMED
        }
        return sums | {"smallest": int(self.trees["smallest"].min())}

    def to_dict(self) -> dict[str, Any]:
        """Describe the tables (formats/audit.schema.json)."""
        columns = self.trees.astype(object).where(self.trees.notna(), None)
        return {
            "threshold": self.threshold,
            "unit": self.unit,
            "of": self.of,
            "total": dict(self.total),
            "trees": {str(c): columns[c].tolist() for c in columns},
        }


def of_trees(case: Case) -> Case:
    """Count leaves, as a part of an audit: those of every fitted model in the file."""
    threshold, others = case.request.threshold, case.found.others
    attacked = [case.release] if case.found.release is not None or not others else []
    found = [count_leaves(release, threshold) for release in attacked]
    found += [count_other(other, threshold) for other in others]
    if len(found) == 1:
        return case.plus(counts=found[0])
    unit = "draws" if any(part.unit == "draws" for part in found) else "rows"
    table = pd.concat([part.trees.astype(object) for part in found], ignore_index=True)
    return case.plus(counts=replace(found[0], unit=unit, trees=table))


def of_rules(case: Case) -> Case:
    """Count rules, as a part of an audit."""
    return case.plus(counts=count_rules(case.rules, case.request.threshold))


def count_leaves(release: Release, threshold: int = THRESHOLD) -> Counts:
    """Count leaves that say something about few rows.

    ``threshold``: a leaf with fewer rows is small. Raises NotCovered if the model does not say how
    many rows lie in its leaves, or says it with noise.
    """
    if release.left_out is not None:
        raise NotCovered(message_of(release.left_out))
    if release.noise is not None:
        noisy = release.counts_are != "labels"
        why = "the counts carry noise" if noisy else "the leaves name a class and count no rows"
        raise NotCovered(wording.MODEL_COUNTS_NO(why=why))
    # Without what was drawn twice, where the model tells.
    in_nodes = [tree.totals if tree.distinct is None else tree.distinct for tree in release.trees]
    each = zip(release.trees, in_nodes, strict=True)
    known = [rows[tree.leaves] for tree, rows in each if rows is not None]
    if not known or len(known) < len(in_nodes):
        raise NotCovered(UNCOUNTED)
    distinct = all(tree.distinct is not None for tree in release.trees)
    table = pd.DataFrame(
        [
            _line(n, None if tree.counts is None else tree.counts[tree.leaves], threshold)
            for tree, n in zip(release.trees, known, strict=True)
        ]
    )
    drawn = release.counts_are == "draws" or release.sampling.kind == "bootstrap"
    return Counts(threshold, "draws" if drawn and not distinct else "rows", table)


def count_other(other: OtherModel, threshold: int = THRESHOLD) -> Counts:
    """Count leaves of a model that no attack looks at.

    Raises NotCovered if it does not say how many rows lie in its leaves.
    """
    if other.release is not None:
        return count_leaves(other.release, threshold)
    if other.leaves is None:
        raise NotCovered(UNCOUNTED)
    return Counts(threshold, "rows", pd.DataFrame([_line(other.leaves, None, threshold)]))


def count_rules(rules: RuleList, threshold: int = THRESHOLD) -> Counts:
    """Count rules that say something about few rows.

    Raises NotCovered if nothing says how many rows the rules capture.
    """
    if rules.counts is None:
        raise NotCovered(static_message("the rules do not say how many rows they capture"))
    table = np.array(rules.counts)
    line = _line(table.sum(axis=1), table, threshold)
    return Counts(threshold, "rows", pd.DataFrame([line]), of="rules")


def _line(n: NDArray[Any], by_class: NDArray[Any] | None, threshold: int) -> dict[str, Any]:
    # A leaf without rows says nothing of anybody.
    used = n > 0
    line: dict[str, Any] = {
        "leaves": int(used.sum()),
        "small": int((used & (n < threshold)).sum()),
        "single": int((n == 1).sum()),
        "smallest": int(n[used].min(initial=n.max())),
        "excludes_class": None,
        "one_class": None,
    }
    if by_class is not None and by_class.shape[1] > 1:
        present = (by_class > 0).sum(axis=1)
        line["excludes_class"] = int((used & (present < by_class.shape[1])).sum())
        line["one_class"] = int((used & (present == 1)).sum())
    return line
