"""Trees of PMML as binary trees, their columns and tests, and what the file says of their nodes.

A node has children, each with a test; a row goes to the first child whose test holds. Here such a
node is a chain of tests, for one child after the other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from treeleak.core.arrays import FloatArray
from treeleak.core.errors import BadModel, NotCovered
from treeleak.core.message import static_message
from treeleak.core.private import dataclass
from treeleak.release.bounds import MOST_COLUMNS, MOST_ROWS, at_most
from treeleak.release.growing import GrowingTree
from treeleak.release.readers.bounded_xml import Element
from treeleak.release.statistics import LABELS, NodeStatistic, Quantity, Statistics
from treeleak.release.tree import LEAF, Tree

_ROUNDING = 1e-6
"""How far counts that follow from shares are off whole numbers, as a share of the rows."""

_EXACT, _SINGLE = 1e-12, 16
"""Roundings of a share in double precision, and letters of one in single precision."""

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
        grown = GrowingTree()
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
                test = read_test(tests[0], fields)
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
                above = grown.add(
                    test.column, test.cut, above, side, passes != test.inverted,
                    np.array(test.codes) if test.codes else None, test.strict,
                )  # fmt: skip
                stated = Element("", "", {})
                waiting.append((child, above, int(test.inverted)))
                side = int(not test.inverted)
                failed.append(test)
            else:
                # Where no test holds, the node itself answers, or nobody.
                self.stated.append(_remainder(node, inner, last) if inner else node)
                grown.add(parent=above, side=side)
        self.shape = grown.tree(Statistics())
        self.leaf = self.shape.is_leaf

    def named(self, classes: Mapping[str, int]) -> Tree:
        """Give the tree whose leaves name the class that they predict."""
        counts = np.zeros((len(self.stated), len(classes)))
        for v in np.flatnonzero(self.leaf):
            score = self.fields.label(self.stated[v].get("score"))
            if score not in classes:
                raise BadModel(f"a leaf that predicts {score!r:.40}, which is no class")
            counts[v, classes[score]] = 1.0
        return self.shape.with_statistics(Statistics.counting(LABELS, counts, present=self.leaf))

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
        whole = self.shape.summed(np.where(self.leaf, rows, 0.0))
        texts = [stated.get("score") for stated in self.stated]
        numeric = np.array([NUMBER.fullmatch(text) is not None for text in texts])
        scores = np.array([float(x) if k else np.nan for x, k in zip(texts, numeric, strict=True)])
        with np.errstate(all="ignore"):
            means = self.shape.summed(np.where(self.leaf, scores * rows, 0.0)) / whole
        pairs = [("recordCount", rows, whole)]
        pairs += [] if self.classifies else [("score", scores, means)]
        out = []
        for name, held, follows in pairs:
            spread = np.ptp(held[self.leaf]) if np.isfinite(held[self.leaf]).all() else 0.0
            near = np.abs(held - follows) <= _SHARES_OFF * max(spread, 1e-300)
            for v in np.flatnonzero(~self.leaf & ~np.isnan(held) & ~near):
                # A node that answers where no test holds says what its last child does.
                said = self.stated[v].get(name)
                if all(
                    self.stated[c].get(name) != said
                    for c in (self.shape.left[v], self.shape.right[v])
                ):
                    out.append(said)
        for name in ("recordCount", "confidence"):
            held = self.distributions(classes, name)
            follows = self.shape.summed(np.where(self.leaf[:, None], held, 0.0))
            if name == "confidence":
                weighted = np.where(self.leaf[:, None], held * rows[:, None], 0.0)
                follows = self.shape.summed(weighted) / np.maximum(whole, 1e-300)[:, None]
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


NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?")
_WRITTEN = re.compile(r"[-+]?(0|[1-9]\d*)?(?:\.(\d*))?(?:[eE]([-+]?\d{1,3}))?")
_DIGITS, _WIDE = 17, 25
"""Digits that tell any number in double precision from its neighbours; the same with zeros."""
_SIMPLE = {"lessOrEqual": (False, False), "lessThan": (False, True), "greaterThan": (True, False),
           "greaterOrEqual": (True, True)}  # fmt: skip
"""By operator: whether values that pass go to the right, and whether the test on the left is for
less than the threshold."""
OTHER_TESTS = static_message(
    "a test that is not of one column and one value (a list of categories, several tests in one, "
    "surrogates, or a question for missing values): write the trees as docs/release-format.md says",
    "pmml_other_tests",
)


def number(text: str, what: str) -> float:
    """Read a finite number; raises BadModel, saying what it should be."""
    if not NUMBER.fullmatch(text.strip()) or not math.isfinite(float(text)):
        raise BadModel(f"{what} is {text!r:.40}, not a finite number")
    return float(text)


def is_plain(text: str) -> bool:
    """Say whether a number is written as programs do: with no digits that no double has."""
    found = _WRITTEN.fullmatch(text) if NUMBER.fullmatch(text) else None
    digits = (found[1] or "") + (found[2] or "") if found else "0" * _WIDE
    return len(digits) < _WIDE and len(digits.strip("0")) <= _DIGITS


def is_rounded(text: str, share: float) -> bool:
    """Say whether a text is what a share is in so many digits, in double or single precision."""
    found = _WRITTEN.fullmatch(text)
    last = 10.0 ** (int(found[3] or 0) - len(found[2] or "")) if found else 0.0
    near, stated = np.float32(share), float(text)
    single = stated == float(near) or (len(text) <= _SINGLE and np.float32(stated) == near)
    return bool(abs(stated - share) <= 0.51 * last + _EXACT or single)


class Fields:
    """The columns of the model, its target, and names that stand for columns."""

    def __init__(self, root: Element, model: Element) -> None:
        listed = [f for d in root.all("DataDictionary") for f in d.all("DataField")]
        by_name = {f.get("name"): f for f in listed}
        used = [f for s in model.all("MiningSchema") for f in s.all("MiningField")]
        kinds = {f.get("name"): f.get("usageType", "active") for f in used}
        targets = [name for name, kind in kinds.items() if kind in ("target", "predicted")]
        if len(by_name) < len(listed) or len(kinds) < len(used) or len(targets) > 1:
            raise BadModel("two columns have one name, or there are several targets")
        self.target = by_name.get(targets[0]) if targets else None
        kind = "" if self.target is None else self.target.get("dataType")
        self.numeric = kind in ("integer", "float", "double")
        """Whether classes are numbers."""
        self.names = tuple(n for n, k in kinds.items() if k == "active" and n in by_name)
        at_most(MOST_COLUMNS, len(self.names), "columns")
        self.levels: dict[str, tuple[str, ...]] = {}
        self.ranges: dict[str, tuple[float, float]] = {}
        for name in self.names:
            field = by_name[name]
            if field.get("dataType") in ("string", ""):
                levels = () if field.get("optype") == "continuous" else valid_values(field)
                self.levels |= {name: levels} if levels else {}
            ends = [(i.get("leftMargin"), i.get("rightMargin")) for i in field.all("Interval")
                    if i.get("closure") == "closedClosed"]  # fmt: skip
            if len(ends) == 1 and all(ends[0]):
                self.ranges[name] = (number(ends[0][0], name), number(ends[0][1], name))
        self.stands_for = {name: name for name in self.names}
        for held in (*root.children, *model.children):
            if held.tag not in ("TransformationDictionary", "LocalTransformations"):
                continue
            for derived in held.all("DerivedField"):
                ref = [c for c in derived.children if c.tag != "Extension"]
                if len(ref) == 1 and ref[0].tag == "FieldRef":
                    inner = self.stands_for.get(ref[0].get("field"))
                    self.stands_for |= {derived.get("name"): inner} if inner else {}
        types = {by_name[n].get("dataType") for n in self.names if n not in self.levels}
        self.float_type = "float32" if types == {"float"} else "float64"

    def label(self, text: str) -> str:
        """Give a class as its target writes it: numbers may come with a point, and without."""
        return f"{float(text):.17g}" if self.numeric and NUMBER.fullmatch(text) else text

    def column(self, name: str) -> int:
        """Find a column by its own name, or one that stands for it."""
        if name not in self.stands_for:
            raise NotCovered(f"a test of {name!r:.80}, which is computed from columns")
        return self.names.index(self.stands_for[name])

    def codes(self, column: int, values: Sequence[str]) -> tuple[int, ...]:
        """Number the categories of a column; whole numbers stand for themselves."""
        levels = self.levels.get(self.names[column])
        if levels is None and all(NUMBER.fullmatch(v) for v in values):
            numbers = [float(v) for v in values]
            if all(n == int(n) >= 0 for n in numbers):
                return tuple(sorted({int(n) for n in numbers}))
        if levels is None or not set(values) <= set(levels):
            raise NotCovered(
                f"categories of {self.names[column]!r:.80} that the file does not list"
            )
        return tuple(sorted({levels.index(v) for v in values}))


@dataclass(frozen=True)
class Test:
    """A test of one column: ``value <= cut`` (``<`` if strict), or one of some codes."""

    column: int
    cut: float = math.nan
    strict: bool = False
    codes: tuple[int, ...] = ()
    inverted: bool = False
    """Whether the test holds for what goes to the right."""

    def negates(self, other: Test) -> bool:
        """Whether one holds where the other does not."""
        same = (self.column, self.strict, self.codes) == (other.column, other.strict, other.codes)
        cuts = self.cut == other.cut or (self.codes and other.codes)
        return bool(same and cuts and self.inverted != other.inverted)

    def must_hold(self, failed: Sequence[Test], is_last: bool, fields: Fields) -> bool:
        """Whether it holds where others failed: of one column, it asks for all that is left."""
        if is_last and any(self.negates(one) for one in failed):
            return True
        levels = fields.levels.get(fields.names[self.column], ())
        seen = {c for f in failed if f.column == self.column and not f.inverted for c in f.codes}
        all_seen = len(seen | set(self.codes)) == len(levels)
        return all_seen and bool(self.codes) and not self.inverted


def read_test(predicate: Element, fields: Fields) -> Test | None:
    """Read a test; None: it always holds."""
    operator = predicate.get("operator")
    if predicate.tag == "True":
        return None
    if predicate.tag != "SimplePredicate" or operator in ("isMissing", "isNotMissing"):
        raise NotCovered(OTHER_TESTS)
    column = fields.column(predicate.get("field"))
    if operator in ("equal", "notEqual"):
        codes = fields.codes(column, [predicate.get("value")])
        return Test(column, codes=codes, inverted=operator == "notEqual")
    if operator not in _SIMPLE or fields.names[column] in fields.levels:
        raise NotCovered(f"the operator {operator!r:.40}")
    inverted, strict = _SIMPLE[operator]
    return Test(column, number(predicate.get("value"), "a threshold"), strict, inverted=inverted)


def valid_values(field: Element) -> tuple[str, ...]:
    """List the categories of a column, or the classes of a target."""
    return tuple(
        v.get("value") for v in field.all("Value") if v.get("property", "valid") == "valid"
    )
