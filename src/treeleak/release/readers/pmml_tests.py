"""Columns and tests of PMML: what a test of a node asks for, in the terms of binary trees."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from treeleak.core.errors import BadModel, NotCovered
from treeleak.core.private import dataclass
from treeleak.release.bounds import MOST_COLUMNS, at_most
from treeleak.release.readers.bounded_xml import Element

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?")
_ITEM = re.compile(r'"((?:[^"\\]|\\.)*)"|([^\s"]+)')
_SIMPLE = {"lessOrEqual": (False, False), "lessThan": (False, True), "greaterThan": (True, False),
           "greaterOrEqual": (True, True)}  # fmt: skip
"""By operator: whether values that pass go to the right, and whether the test on the left is for
less than the threshold."""
ON_MISSING = ("isMissing", "isNotMissing")


def number(text: str, what: str) -> float:
    """Read a finite number; raises BadModel, saying what it should be."""
    if not NUMBER.fullmatch(text.strip()) or not math.isfinite(float(text)):
        raise BadModel(f"{what} is {text!r:.40}, not a finite number")
    return float(text)


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
        self.surrogates = False
        """Whether a test has surrogates: known once all were read."""
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
    missing: bool = False
    """Whether a missing value passes."""

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


def read_test(predicate: Element, fields: Fields, failed: Sequence[Test]) -> Test | None:
    """Read a test, given those that did not hold before; None: it always holds."""
    tag, operator = predicate.tag, predicate.get("operator", predicate.get("booleanOperator"))
    if tag == "True":
        return None
    if tag == "CompoundPredicate":
        return _compound(predicate, fields, failed)
    if tag not in ("SimplePredicate", "SimpleSetPredicate"):
        raise NotCovered(f"tests by {tag!r:.40}")
    column = fields.column(predicate.get("field"))
    if tag == "SimpleSetPredicate" or operator in ("equal", "notEqual"):
        codes = fields.codes(column, _values(predicate))
        return Test(column, codes=codes, inverted=operator in ("isNotIn", "notEqual"))
    if operator in ON_MISSING:
        asks = operator == "isMissing"
        return Test(column, math.inf, inverted=asks, missing=asks)
    if operator not in _SIMPLE or fields.names[column] in fields.levels:
        raise NotCovered(f"the operator {operator!r:.40}")
    inverted, strict = _SIMPLE[operator]
    return Test(column, number(predicate.get("value"), "a threshold"), strict, inverted=inverted)


def valid_values(field: Element) -> tuple[str, ...]:
    """List the categories of a column, or the classes of a target."""
    return tuple(
        v.get("value") for v in field.all("Value") if v.get("property", "valid") == "valid"
    )


def _values(predicate: Element) -> list[str]:
    """List the values of a test: one, or words and texts in quotation marks."""
    if predicate.tag == "SimplePredicate":
        return [predicate.get("value")]
    texts = " ".join(array.text for array in predicate.all("Array"))
    return [quoted.replace('\\"', '"') or bare for quoted, bare in _ITEM.findall(texts)]


def _compound(predicate: Element, fields: Fields, failed: Sequence[Test]) -> Test | None:
    """Read a test with others that stand in for it, or one that a missing value passes."""
    operator = predicate.get("booleanOperator")
    parts = [c for c in predicate.children if c.tag != "Extension"]
    if operator == "surrogate" and parts:
        fields.surrogates = True
        return read_test(parts[0], fields, failed)
    others = [p for p in parts if p.get("operator") != "isMissing"]
    found = read_test(others[0], fields, failed) if len(others) == 1 < len(parts) else None
    if operator != "or" or found is None:
        raise NotCovered(f"a test made of several ({operator:.40})")
    return replace(found, missing=True)
