"""Parts of PMML files that no tree is made of, and which of them every program writes."""

from __future__ import annotations

import re
from collections.abc import Iterator

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
Segment: id~ weight
TreeModel: modelName functionName algorithmName splitCharacteristic isScorable \
missingValueStrategy missingValuePenalty noTrueChildStrategy x-mathContext
Node: id~ score! recordCount! defaultChild~
ScoreDistribution: value! recordCount! confidence~ probability
True:
False:
SimplePredicate: field! operator value!
SimpleSetPredicate: field! booleanOperator
CompoundPredicate: booleanOperator
Array: n type
RegressionModel: functionName modelName normalizationMethod algorithmName targetFieldName \
x-mathContext
RegressionTable: intercept targetCategory
NumericPredictor: name coefficient exponent
"""
"""Elements that programs write into each file of trees, with their attributes: those with ! make
the trees, and so are in the release; numbers with ~ repeat counts, or number nodes."""
_KNOWN = {
    tag: {name.rstrip("!~"): name[-1] for name in names.split()}
    for tag, _, names in (line.partition(":") for line in _ATTRIBUTES.strip().splitlines())
}
_TEXTS = {
    "Array": r"(?s).*",
    "Timestamp": r"[\d\-:. TZ+]{0,40}|([A-Z][a-z]{2} ){2}[ \d]\d [\d:]{8}[\w ]{5,11}",
}
"""Elements in which a text stands."""
_SENTENCE, _MOST_FIGURES, _WORD = 120, 4, 64
_ID = re.compile(r"\d{1,10}|[A-Za-z][\w-]{0,15}")
_FIGURES = re.compile(r"\d+")
_BASE, _PER_PART = 32, 6
"""Numbers beside the trees: of a file, and for each column and tree."""


def left_over(root: Element, fields: Fields, n_trees: int) -> Iterator[Leftover]:
    """List what the reader does not use, and what no program writes into every file.

    Numbers outside of the trees are left over if they are many.
    """
    waiting, loose, ids = [(root, "the file")], list[str](), list[str]()
    said = {*fields.names, *fields.stands_for, *(x for v in fields.levels.values() for x in v)}
    if (target := fields.target) is not None:
        said |= {target.get("name"), *(v.get("value") for v in target.all("Value"))}
    while waiting:
        element, where = waiting.pop()
        tag, known, odd = element.tag, _KNOWN.get(element.tag), dict[str, str]()
        if known is None or (element.space and not element.space.startswith(_SPACE)):
            held = [x for e in element.walk() for x in (*e.attributes.values(), e.text) if x]
            yield Leftover(where, f"{tag:.40}, which the reader does not use", held)
            continue
        for full, value in element.attributes.items():
            name = full.rpartition(" ")[2]
            mark = known.get(name, "")
            if mark == "!" or (mark and value in said):
                continue
            if mark and NUMBER.fullmatch(value):
                loose += [value] * (mark != "~")
            elif not mark or not _is_plain(value):
                odd[name] = value
        if tag == "Node":
            ids.append(element.get("id"))
            odd |= _other_shares(element)
        if tag == "Constant" and NUMBER.fullmatch(element.text):
            loose.append(element.text)
        elif not re.fullmatch(_TEXTS.get(tag, ""), element.text):
            odd["text"] = element.text
        if odd:
            yield Leftover(where, f"parts of {tag}", odd)
        waiting += [(child, tag) for child in reversed(element.children)]
    if len(loose) > _BASE + _PER_PART * (len(said) + n_trees):
        yield Leftover("the file", "more numbers than models have beside their trees", loose)
    if not all(_ID.fullmatch(one) or not one for one in ids):
        yield Leftover("the trees", "names of nodes", ids)


def _is_plain(value: str) -> bool:
    """Whether this is a word or a sentence, and no line of a table."""
    if len(value) > _SENTENCE:
        return value.startswith(_SPACE) and len(value) < 2 * _SENTENCE
    few = len(_FIGURES.findall(value)) <= _MOST_FIGURES
    plain = few and value.isprintable() and max(map(len, value.split()), default=0) <= _WORD
    return plain or value.startswith(_SPACE)


def _other_shares(node: Element) -> dict[str, str]:
    """List shares of classes that are not those of their counts."""
    listed = [e for e in node.all("ScoreDistribution") if e.get("confidence")]
    try:
        counts = [float(e.get("recordCount")) for e in listed]
        shares = [float(e.get("confidence")) for e in listed]
    except ValueError:
        return {}  # Without counts, the shares are what is read.
    most = 1e-3 * max(sum(counts), 1.0)
    if all(abs(s * sum(counts) - c) <= most for s, c in zip(shares, counts, strict=True)):
        return {}
    return {"confidence": " ".join(e.get("confidence") for e in listed)}
