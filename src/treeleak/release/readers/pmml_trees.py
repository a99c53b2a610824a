"""Trees of PMML as binary trees, and what the file says of their nodes.

A node has children, each with a test; a row goes to the first child whose test holds. Here such a
node is a chain of tests, for one child after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.core.errors import BadModel, NotCovered
from treeleak.release.bounds import MOST_NODES, MOST_ROWS, at_most
from treeleak.release.readers.bounded_xml import Element
from treeleak.release.readers.pmml_tests import NUMBER, Fields, Test, number, read_test
from treeleak.release.statistics import LABELS, NodeStatistic, Quantity, Statistics
from treeleak.release.tree import LEAF, CategorySets, Tree

_ROUNDING = 1e-6
"""How far counts that follow from shares are off whole numbers, as a share of the rows."""


class GrownTree:
    """A tree: its tests, and what the file says of its nodes."""

    def __init__(self, model: Element, fields: Fields) -> None:
        roots = model.all("Node")
        if len(roots) != 1:
            raise BadModel(f"{len(roots)} nodes at the root")
        self.fields, self.surrogates = fields, False
        self._function = model.get("functionName")
        by_default = model.get("missingValueStrategy") == "defaultChild"
        last = model.get("noTrueChildStrategy") == "returnLastPrediction"
        self.tests: list[Test | None] = []
        self.missing_left: list[bool] = []
        self.children: list[list[int]] = []
        self.stated: list[Element | None] = []
        """By node: what the file says of it; None at tests between a node and its children."""
        waiting: list[tuple[Element, int, int]] = [(roots[0], LEAF, 0)]
        while waiting:
            node, above, side = waiting.pop()
            inner = node.all("Node")
            if not inner:
                self._add(node, above, side)
                continue
            stated: Element | None = node
            failed: list[Test] = []
            for k, child in enumerate(inner):
                test, surrogate = self._of(child, failed)
                self.surrogates |= surrogate
                negated = k == len(inner) - 1 and test is not None and (
                    any(test.negates(one) for one in failed))  # fmt: skip
                if test is None or negated or self._exhausts(test, failed):
                    waiting.append((child, above, side))
                    break
                passes = by_default and node.get("defaultChild") == child.get("id") != ""
                at = self._add(stated, above, side, test, passes or test.missing)
                stated = None
                waiting.append((child, at, int(test.inverted)))
                above, side = at, int(not test.inverted)
                failed.append(test)
            else:
                # Where no test holds, the node itself answers, or nobody.
                self._add(_remainder(node, inner, last), above, side)
        at_most(MOST_NODES, len(self.tests), "nodes")

    def _of(self, child: Element, failed: Sequence[Test]) -> tuple[Test | None, bool]:
        tests = [c for c in child.children if c.tag.endswith("Predicate") or c.tag == "True"]
        if len(tests) != 1:
            raise BadModel(f"a node with {len(tests)} tests")
        return read_test(tests[0], self.fields, failed)

    def _exhausts(self, test: Test, failed: Sequence[Test]) -> bool:
        """Whether some test of all categories of a column must hold, and only this one is left."""
        if not test.codes or test.inverted:
            return False
        levels = self.fields.levels.get(self.fields.names[test.column], ())
        seen = {c for f in failed if f.column == test.column and not f.inverted for c in f.codes}
        return len(levels) > 0 and len(seen | set(test.codes)) == len(levels)

    def _add(
        self, stated: Element | None, above: int, side: int, test: Test | None = None,
        missing: bool = False,
    ) -> int:  # fmt: skip
        node = len(self.tests)
        self.tests.append(test)
        self.stated.append(stated)
        self.missing_left.append(test is not None and missing != test.inverted)
        self.children.append([LEAF, LEAF])
        if above != LEAF:
            self.children[above][side] = node
        return node

    @property
    def classifies(self) -> bool:
        """Whether the tree names classes."""
        return self._function == "classification"

    def check(self, rows: FloatArray) -> None:
        """Refuse counts of inner nodes that are not those of their leaves."""
        stated = self.numbers("recordCount")
        wrong = np.isfinite(stated) & (stated != rows)
        if wrong.any():
            v = int(wrong.argmax())
            raise NotCovered(f"a node counts {stated[v]:g} rows, and its leaves {rows[v]:g}")

    def named(self, classes: Mapping[str, int]) -> Tree:
        """Give the tree whose leaves name the class that they predict."""
        counts = np.zeros((len(self.tests), len(classes)))
        for v in np.flatnonzero(self.leaf):
            stated = self.stated[v]
            score = "" if stated is None else self.fields.label(stated.get("score"))
            if score not in classes:
                raise BadModel(f"a leaf that predicts {score!r:.40}, which is no class")
            counts[v, classes[score]] = 1.0
        return self.tree(Statistics.counting(LABELS, counts, present=self.leaf))

    def tree(self, statistics: Statistics | None = None) -> Tree:
        """Lay out the tree."""
        inner = [v for v, test in enumerate(self.tests) if test is not None]
        feature, cut = np.full(len(self.tests), LEAF), np.full(len(self.tests), np.nan)
        strict = np.zeros(len(self.tests), dtype=bool)
        codes: list[tuple[int, int]] = []
        for v in inner:
            test = self.tests[v]
            assert test is not None  # noqa: S101
            feature[v], cut[v], strict[v] = test.column, test.cut, test.strict
            codes += [(v, code) for code in test.codes]
        node, value = np.array(codes, dtype=np.int64).reshape(-1, 2).T
        left, right = np.array(self.children, dtype=np.int64).reshape(-1, 2).T
        return Tree(feature, cut, left.copy(), right.copy(), np.array(self.missing_left),
                    statistics or Statistics(), strict if strict.any() else None,
                    CategorySets(node, value) if codes else None)  # fmt: skip

    def summed(self, leaves: FloatArray) -> FloatArray:
        """Add what leaves count up to the root; it must be what the file says of inner nodes."""
        out = leaves.copy()
        for v in range(len(out) - 1, -1, -1):
            if self.children[v][0] != LEAF:
                out[v] = out[self.children[v]].sum(axis=0)
        return out

    def numbers(self, name: str) -> FloatArray:
        """Give an attribute of all nodes; NaN where the file does not say it."""
        texts = ["" if s is None else s.get(name) for s in self.stated]
        return np.array([number(x, name) if x else np.nan for x in texts])

    def scores(self, quantity: Quantity) -> tuple[NodeStatistic, ...]:
        """Give what leaves predict, where these are numbers."""
        texts = ["" if s is None else s.get("score") for s in self.stated]
        held = self.leaf & np.array([NUMBER.fullmatch(text) is not None for text in texts])
        values = np.zeros(len(texts))
        values[held] = [number(texts[v], "score") for v in np.flatnonzero(held)]
        return (NodeStatistic(quantity, values, held),) if held.any() else ()

    @property
    def leaf(self) -> BoolArray:
        """Which nodes are leaves."""
        return np.array([test is None for test in self.tests])

    def distributions(self, classes: Mapping[str, int], name: str) -> FloatArray:
        """Give an attribute of each class at all nodes; NaN where a node says it of none."""
        out = np.full((len(self.stated), len(classes)), np.nan)
        for v, stated in enumerate(self.stated):
            held = [] if stated is None else stated.all("ScoreDistribution")
            held = [entry for entry in held if entry.get(name)]
            if held:
                out[v] = 0.0
            for entry in held:
                label = self.fields.label(entry.get("value"))
                if label not in classes:
                    raise BadModel(f"a distribution over {label!r:.40}, which is no class")
                out[v, classes[label]] = number(entry.get(name), name)
        return out

    def counts(self, classes: Mapping[str, int]) -> tuple[FloatArray | None, FloatArray | None]:
        """Work out counts and shares of classes in leaves; None where they do not follow.

        Some programs write shares of classes in place of counts: with the rows of a leaf, these
        follow.
        """
        leaf, rows = self.leaf, self.numbers("recordCount")
        held = self.distributions(classes, "recordCount")
        if np.isnan(held[leaf]).any():
            held = self.distributions(classes, "confidence")
        empty = leaf & (rows == 0)
        held[empty] = 0.0
        if np.isnan(held[leaf]).any() or (held[leaf] < 0).any():
            return None, None
        sums = held.sum(axis=1)
        shares = held / np.where(sums > 0, sums, 1.0)[:, None]
        total = np.where(np.isnan(rows), sums, rows)
        counts = np.where(leaf[:, None], shares * total[:, None], 0.0)
        near = np.floor(counts + 0.5)
        off = np.abs(counts - near) > _ROUNDING * np.maximum(total, 1.0)[:, None]
        if off[leaf].any() or (near[leaf].sum(axis=1) != total[leaf]).any():
            return None, shares
        return near, shares


def _remainder(node: Element, inner: Sequence[Element], last: bool) -> Element:
    """Give the leaf of rows that pass no test of a node's children."""
    attributes = {"score": node.get("score")} if last else {}
    counts = [part.get("recordCount") for part in (node, *inner)]
    if all(counts):
        whole, *parts = (number(text, "recordCount") for text in counts)
        attributes["recordCount"] = repr(max(whole - sum(parts), 0.0))
    elif not last:
        raise NotCovered("a node whose children do not take all rows")
    if attributes.get("recordCount", "0.0") != "0.0":
        raise NotCovered("rows that end at a node with children, and are not counted apart")
    return Element("Node", "", attributes)


def totals_of(grown: GrownTree) -> FloatArray | None:
    """Give the rows of leaves, where the file counts whole ones in all of them."""
    rows = grown.numbers("recordCount")
    held = rows[grown.leaf]
    whole = bool((np.isfinite(held) & (held == np.round(held)) & (held >= 0)).all())
    return np.where(grown.leaf, rows, 0.0) if whole and (held <= MOST_ROWS).all() else None
