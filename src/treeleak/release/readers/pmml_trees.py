"""Trees of PMML as binary trees, and what the file says of their nodes.

A node has children, each with a test; a row goes to the first child whose test holds. Here such a
node is a chain of tests, for one child after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.core.errors import BadModel, NotCovered
from treeleak.release.bounds import MOST_ROWS
from treeleak.release.growing import GrowingTree
from treeleak.release.readers.bounded_xml import Element
from treeleak.release.readers.pmml_tests import NUMBER, Fields, Test, number, read_test
from treeleak.release.statistics import LABELS, NodeStatistic, Quantity, Statistics
from treeleak.release.tree import LEAF, Tree

_ROUNDING = 1e-6
"""How far counts that follow from shares are off whole numbers, as a share of the rows."""

_SHARES_OFF = 1e-3
"""How far shares of classes in inner nodes may be off those of their leaves."""


class GrownTree:
    """A tree: its tests, and what the file says of its nodes."""

    def __init__(self, model: Element, fields: Fields) -> None:
        roots = model.all("Node")
        if len(roots) != 1:
            raise BadModel(f"{len(roots)} nodes at the root")
        if [c.tag for c in roots[0].children if _is_test(c)] not in ([], ["True"]):
            raise NotCovered("a test at the root of a tree")
        self.fields, self.classifies = fields, model.get("functionName") == "classification"
        by_default = model.get("missingValueStrategy") == "defaultChild"
        last = model.get("noTrueChildStrategy") == "returnLastPrediction"
        self._grown = GrowingTree()
        self.stated: list[Element] = []
        """By node: what the file says of it; nothing at tests between a node and its children."""
        self.unreached: list[Element] = []
        """Nodes after one that takes all rows, or whose first child does."""
        waiting: list[tuple[Element, int, int]] = [(roots[0], LEAF, 0)]
        while waiting:
            node, above, side = waiting.pop()
            inner, stated = node.all("Node"), node
            failed: list[Test] = []
            for k, child in enumerate(inner):
                tests = [c for c in child.children if _is_test(c)]
                if len(tests) != 1:
                    raise BadModel(f"a node with {len(tests)} tests")
                test = read_test(tests[0], fields, failed)
                is_last = k == len(inner) - 1
                if test is None or test.must_hold(failed, is_last, fields):
                    waiting.append((child, above, side))
                    self.unreached += inner[k + 1 :]
                    if k == 0 and (node.get("score") or node.all("ScoreDistribution")):
                        # Its child stands in its place.
                        own = [c for c in node.children if c.tag != "Node"]
                        self.unreached.append(Element("Node", "", node.attributes, own))
                    break
                passes = by_default and node.get("defaultChild") == child.get("id") != ""
                self.stated.append(stated)
                above = self._grown.add(
                    test.column, test.cut, above, side, (passes or test.missing) != test.inverted,
                    np.array(test.codes) if test.codes else None, test.strict,
                )  # fmt: skip
                stated = Element("", "", {})
                waiting.append((child, above, int(test.inverted)))
                side = int(not test.inverted)
                failed.append(test)
            else:
                # Where no test holds, the node itself answers, or nobody.
                self.stated.append(_remainder(node, inner, last) if inner else node)
                self._grown.add(parent=above, side=side)
        self.leaf: BoolArray = np.array([left == LEAF for left, _ in self._grown.children])

    def tree(self, statistics: Statistics | None = None) -> Tree:
        """Lay out the tree."""
        return self._grown.tree(statistics or Statistics())

    def named(self, classes: Mapping[str, int]) -> Tree:
        """Give the tree whose leaves name the class that they predict."""
        counts = np.zeros((len(self.stated), len(classes)))
        for v in np.flatnonzero(self.leaf):
            score = self.fields.label(self.stated[v].get("score"))
            if score not in classes:
                raise BadModel(f"a leaf that predicts {score!r:.40}, which is no class")
            counts[v, classes[score]] = 1.0
        return self.tree(Statistics.counting(LABELS, counts, present=self.leaf))

    def summed(self, leaves: FloatArray) -> FloatArray:
        """Add what leaves count up to the root; it must be what the file says of inner nodes."""
        out = leaves.copy()
        for v in np.flatnonzero(~self.leaf)[::-1]:
            out[v] = out[self._grown.children[v]].sum(axis=0)
        return out

    def check(self, rows: FloatArray) -> None:
        """Refuse counts of inner nodes that are not those of their leaves."""
        stated = self.numbers("recordCount")
        wrong = np.isfinite(stated) & (stated != rows)
        if wrong.any():
            v = int(wrong.argmax())
            raise NotCovered(f"a node counts {stated[v]:g} rows, and its leaves {rows[v]:g}")

    def check_classes(self, counts: FloatArray, classes: Mapping[str, int]) -> None:
        """Refuse classes of inner nodes whose shares are not those of their leaves."""
        held = self.distributions(classes, "recordCount")
        held, counted = (x / np.maximum(x.sum(axis=1), 1e-300)[:, None] for x in (held, counts))
        if (np.abs(held - counted) > _SHARES_OFF).any():
            raise NotCovered("a node counts other classes than its leaves")

    def underived(self, classes: Mapping[str, int]) -> list[str]:
        """List numbers of inner nodes that do not follow from those of their leaves."""
        rows = self.numbers("recordCount")
        whole = self.summed(np.where(self.leaf, rows, 0.0))
        texts = [stated.get("score") for stated in self.stated]
        numeric = np.array([NUMBER.fullmatch(text) is not None for text in texts])
        scores = np.array([float(x) if k else np.nan for x, k in zip(texts, numeric, strict=True)])
        with np.errstate(all="ignore"):
            means = self.summed(np.where(self.leaf, scores * rows, 0.0)) / whole
        pairs = [("recordCount", rows, whole)]
        pairs += [] if self.classifies else [("score", scores, means)]
        out = []
        for name, held, follows in pairs:
            spread = np.ptp(held[self.leaf]) if np.isfinite(held[self.leaf]).all() else 0.0
            near = np.abs(held - follows) <= _SHARES_OFF * max(spread, 1e-300)
            for v in np.flatnonzero(~self.leaf & ~np.isnan(held) & ~near):
                # A node that answers where no test holds says what its last child does.
                said = self.stated[v].get(name)
                if all(self.stated[c].get(name) != said for c in self._grown.children[v]):
                    out.append(said)
        for name in ("recordCount", "confidence"):
            held = self.distributions(classes, name)
            follows = self.summed(np.where(self.leaf[:, None], held, 0.0))
            if name == "confidence":
                weighted = np.where(self.leaf[:, None], held * rows[:, None], 0.0)
                follows = self.summed(weighted) / np.maximum(whole, 1e-300)[:, None]
            off = ~(np.abs(held - follows) <= _SHARES_OFF * np.maximum(follows.max(initial=1), 1))
            for v, c in zip(*np.nonzero(off & ~np.isnan(held) & ~self.leaf[:, None]), strict=True):
                out.append(repr(held[v, c]))
        return out

    def numbers(self, name: str) -> FloatArray:
        """Give an attribute of all nodes; NaN where the file does not say it."""
        texts = [stated.get(name) for stated in self.stated]
        return np.array([number(x, name) if x else np.nan for x in texts])

    def scores(self, quantity: Quantity) -> tuple[NodeStatistic, ...]:
        """Give what leaves predict, where these are numbers."""
        texts = [stated.get("score") for stated in self.stated]
        held = self.leaf & np.array([NUMBER.fullmatch(text) is not None for text in texts])
        values = [number(x, "score") if h else 0.0 for x, h in zip(texts, held, strict=True)]
        return (NodeStatistic(quantity, np.array(values), held),) if held.any() else ()

    def totals(self) -> FloatArray | None:
        """Give the rows of leaves, where the file counts whole ones in all of them."""
        rows = self.numbers("recordCount")
        held = rows[self.leaf]
        whole = (held == np.round(held)) & (held >= 0) & (held <= MOST_ROWS)
        return np.where(self.leaf, rows, 0.0) if whole.all() else None

    def distributions(self, classes: Mapping[str, int], name: str) -> FloatArray:
        """Give an attribute of each class at all nodes; NaN where a node says it of none."""
        out = np.full((len(self.stated), len(classes)), np.nan)
        for v, stated in enumerate(self.stated):
            seen = set()
            for entry in stated.all("ScoreDistribution"):
                label = self.fields.label(entry.get("value"))
                if label not in classes or label in seen:
                    why = "is given twice" if label in seen else "is no class"
                    raise BadModel(f"a distribution over {label!r:.40}, which {why}")
                seen.add(label)
                if not entry.get(name):
                    continue
                out[v] = np.nan_to_num(out[v])
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
        held[leaf & (rows == 0)] = 0.0
        if np.isnan(held[leaf]).any() or (held[leaf] < 0).any():
            return None, None
        sums = held.sum(axis=1)
        shares = held / np.where(sums > 0, sums, 1.0)[:, None]
        total = np.where(np.isnan(rows), sums, rows)
        counts = np.where(leaf[:, None], shares * total[:, None], 0.0)
        near = np.floor(counts + 0.5)
        off = np.abs(counts - near) > _ROUNDING * np.maximum(total, 1.0)[:, None]
        follow = not off[leaf].any() and (near[leaf].sum(axis=1) == total[leaf]).all()
        return near if follow else None, shares


def _is_test(part: Element) -> bool:
    return part.tag.endswith("Predicate") or part.tag in ("True", "False")


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
