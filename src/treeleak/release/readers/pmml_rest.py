"""Parts of PMML files that no tree is made of, and which of them every program writes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from treeleak.release.readers.bounded_xml import Element
from treeleak.release.readers.pmml_tests import NUMBER, Fields
from treeleak.release.stored import Leftover

_SPACE = "http://www.dmg.org/"
_ATTRIBUTES = """
PMML: version schemaLocation
Header: copyright description modelVersion
Application: name version
Timestamp:
Extension: name value extender
DataDictionary: numberOfFields
DataField: name optype dataType displayName isCyclic
Value: value property displayValue
Interval: closure leftMargin rightMargin
MiningSchema:
MiningField: name usageType optype invalidValueTreatment missingValueTreatment outliers \
importance
Output:
OutputField: name optype dataType feature value targetField isFinalResult rank
Targets:
Target: field optype castInteger rescaleFactor rescaleConstant
TransformationDictionary:
LocalTransformations:
DerivedField: name optype dataType displayName
FieldRef: field
Apply: function
Constant: dataType
MiningModel: modelName functionName algorithmName isScorable x-mathContext
Segmentation: multipleModelMethod missingThreshold missingPredictionTreatment x-missingThreshold
Segment: id weight
TreeModel: modelName functionName algorithmName splitCharacteristic isScorable \
missingValueStrategy missingValuePenalty noTrueChildStrategy x-mathContext
Node: id score recordCount defaultChild
ScoreDistribution: value recordCount confidence probability
True:
False:
SimplePredicate: field operator value
SimpleSetPredicate: field booleanOperator
CompoundPredicate: booleanOperator
Array: n type
RegressionModel: functionName modelName normalizationMethod algorithmName targetFieldName \
x-mathContext
RegressionTable: intercept targetCategory
NumericPredictor: name coefficient exponent
"""
"""Elements that programs write into each file of trees, with their attributes."""
_KNOWN = {
    tag: frozenset(names.split())
    for tag, _, names in (line.partition(":") for line in _ATTRIBUTES.strip().splitlines())
}
_READ = {
    "Node": "score recordCount",
    "ScoreDistribution": "value recordCount",
    "SimplePredicate": "field value",
    "SimpleSetPredicate": "field",
}
"""What trees are made of, and so in the release."""
_NAMED = {
    "MiningBuildTask": "how the model was made: settings, seeds among them",
    "ModelVerification": "rows to verify the model with",
    "ModelStats": "statistics of columns",
    "ModelExplanation": "how good the model is",
}
_TIME = re.compile(r"[\d\-:. TZ+]{0,40}|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8}[\w ]{5,11}")
_SENTENCE, _MOST_DIGITS, _WORD = 120, 2, 64
_ID = re.compile(r"\d{1,10}|[A-Za-z][\w-]{0,15}")
_FIGURES = re.compile(r"\d+")
_BASE, _PER_PART = 32, 6
"""Numbers beside the trees: of a file, and for each column and tree."""


def left_over(root: Element, fields: Fields, n_trees: int) -> Iterator[Leftover]:
    """List what the reader does not use, and what no program writes into every file.

    Numbers outside of the trees are left over if they are many.
    """
    waiting, loose, ids = [(root, "the file")], list[str](), list[str]()
    target = fields.target
    said = {*fields.names, *fields.stands_for, *(x for v in fields.levels.values() for x in v)}
    if target is not None:
        said |= {target.get("name"), *(v.get("value") for v in target.all("Value"))}
    while waiting:
        element, where = waiting.pop()
        known = _KNOWN.get(element.tag)
        if known is None or (element.space and not element.space.startswith(_SPACE)):
            what = _NAMED.get(element.tag, f"{element.tag:.40}, which the reader does not use")
            yield Leftover(where, what, _content(element))
            continue
        odd: dict[str, str] = {}
        for full, value in element.attributes.items():
            name = full.rpartition(" ")[2]
            read = name in _READ.get(element.tag, "").split() or value in said
            if name in known and read:
                continue
            if name in known and NUMBER.fullmatch(value):
                # Shares of classes repeat their counts; each node has a number.
                loose += [value] * (name not in ("id", "defaultChild", "confidence"))
            elif name not in known or not _is_plain(value):
                odd[name] = value
        if element.tag == "Node":
            ids.append(element.get("id"))
            odd |= _other_shares(element)
        if element.tag == "Constant" and NUMBER.fullmatch(element.text):
            loose.append(element.text)
        elif not _is_expected(element):
            odd["text"] = element.text
        if odd:
            yield Leftover(where, f"parts of {element.tag}", odd)
        waiting += [(child, element.tag) for child in reversed(element.children)]
    if len(loose) > _BASE + _PER_PART * (len(said) + n_trees):
        yield Leftover("the file", "more numbers than models have beside their trees", loose)
    if not all(_ID.fullmatch(one) or not one for one in ids):
        yield Leftover("the trees", "names of nodes", ids)


def _is_expected(element: Element) -> bool:
    """Whether the text right in an element is one that belongs there."""
    if element.tag == "Timestamp":
        return _TIME.fullmatch(element.text) is not None
    return not element.text or element.tag == "Array"


def _is_plain(value: str) -> bool:
    """Whether this is a word or a sentence, and no line of a table."""
    if value.startswith(_SPACE) and len(value) < 2 * _SENTENCE:
        return True
    return (
        len(value) <= _SENTENCE
        and value.isprintable()
        and len(list(islice(_FIGURES.finditer(value), 2 * _MOST_DIGITS + 1))) <= 2 * _MOST_DIGITS
        and max(map(len, value.split()), default=0) <= _WORD
    )


def _other_shares(node: Element) -> dict[str, str]:
    """List shares of classes that are not those of their counts."""
    listed = [e for e in node.all("ScoreDistribution") if e.get("confidence")]
    try:
        counts = [float(e.get("recordCount")) for e in listed]
        off = [abs(float(e.get("confidence")) * sum(counts) - count)
               for e, count in zip(listed, counts, strict=True)]  # fmt: skip
    except ValueError:
        return {}  # Without counts, the shares are what is read.
    odd = max(off, default=0.0) > 1e-3 * max(sum(counts), 1.0)
    return {"confidence": " ".join(e.get("confidence") for e in listed)} if odd else {}


def _content(element: Element) -> list[Any]:
    """Give all that stands in an element, in its order."""
    out: list[Any] = []
    waiting = [element]
    while waiting:
        one = waiting.pop()
        out += [*one.attributes.values(), *([one.text] if one.text else [])]
        waiting += reversed(one.children)
    return out
