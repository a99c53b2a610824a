"""PMML: decision trees, and models of several trees, as JPMML, R, KNIME, SAS and others write them.

What the reader does not use, and what no program writes into every file, is left over: statistics
of columns, rows to verify the model with, how it was made, comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from treeleak.core.arrays import FloatArray
from treeleak.core.errors import BadModel, NotCovered
from treeleak.core.message import static_message
from treeleak.release.bounds import MOST_CLASSES, MOST_COUNTS, MOST_TREES, at_most
from treeleak.release.checked_json import located
from treeleak.release.leaf_classes import classes_in_leaves
from treeleak.release.noise.laws import LabelNoise
from treeleak.release.readers.bounded_xml import MOST_BYTES, Element, parse_xml
from treeleak.release.readers.pmml_trees import (
    NUMBER,
    Fields,
    GrownTree,
    is_plain,
    is_rounded,
    valid_values,
)
from treeleak.release.registry import describe_format, reader
from treeleak.release.release import MAY_BE_DRAWS, Release
from treeleak.release.sampling import AllRows, Bootstrap, UnknownSampling
from treeleak.release.statistics import DRAWS, MEAN, ROWS, VALUE, NodeStatistic, Statistics
from treeleak.release.stored import Leftover

NO_TREES = static_message("a PMML model without a TreeModel", "pmml_no_trees")
SUMMED = static_message(
    "a PMML file of a boosted model holds what each leaf adds, but no sums over rows", "pmml_summed"
)
UNCOUNTED = static_message(
    "the file holds what each leaf predicts, but no numbers of rows", "pmml_uncounted"
)
DRAWN = static_message(
    "The file does not say how trees drew their rows. They are taken to be those of a random "
    "forest, each of which drew as many rows as there are, with replacement. If each saw all rows, "
    "say so (--bootstrap none).",
    "pmml_drawn",
)
LONE = static_message(
    "The file does not say whether rows had weights, or were drawn with replacement, as a tree of "
    "a random forest draws them: a row drawn twice counts as two. Numbers of rows, and of proved "
    "rows, are such numbers. Give the number of rows (--n-rows) only if neither is so.",
    MAY_BE_DRAWS,
)
NAMED = static_message(
    "The file holds no numbers of rows, only the class that each leaf predicts.", "pmml_named"
)
ENDS = static_message(
    "The intervals of columns are taken to be those of the training rows.", "pmml_ends"
)
_VOTES = ("majorityVote", "weightedMajorityVote", "average", "weightedAverage", "median")

describe_format("PMML", ".pmml .xml", "rows of each class in each node, if its program wrote them")


@reader("PMML", lambda head: re.search(rb"<(\w+:)?PMML[\s>]", head) is not None)
def _read_file(path: Path, trust_pickle: bool) -> Release:  # noqa: ARG001
    at_most(MOST_BYTES, path.stat().st_size, "bytes")
    return read_pmml(path.read_bytes())


def read_pmml(data: bytes) -> Release:
    """Read a model of trees.

    Raises
    ------
    BadModel, NotCovered
        If it is no such model, or has tests that no binary tree stands for.
    """
    root, beside = parse_xml(data)
    if root.tag != "PMML":
        raise BadModel(f"{root.tag!r:.40} in place of PMML")
    models = root.all("TreeModel", "MiningModel")
    if len(models) != 1:
        raise NotCovered(NO_TREES if not models else f"{len(models)} models in one PMML file")
    fields = Fields(root, models[0])
    found, methods = _tree_models(models[0])
    at_most(MOST_TREES, len(found), "trees")
    if not found:
        raise NotCovered(NO_TREES)
    grown = []
    for t, model in enumerate(found):
        with located(f"tree {t}: "):
            grown.append(GrownTree(model, fields))
    left = [Leftover("the file", "comments", beside)] if beside else []
    labels = _labels(grown, fields)
    left += left_over(root, fields, grown, labels)
    left += [rest for t, g in enumerate(grown) for rest in unreached(g.unreached, t)]
    at_most(MOST_CLASSES, len(labels), "classes")
    at_most(MOST_COUNTS, sum(len(g.stated) for g in grown) * max(len(labels), 1), "counts")
    whole = fields.numeric and all(re.fullmatch(r"-?\d{1,18}", label) for label in labels)
    read = _read_nodes(grown, labels, bool(methods), summed=not set(methods) <= {*_VOTES})
    notes = [ENDS] * bool(fields.ranges)
    return Release(
        feature_names=fields.names,
        classes=tuple(int(label) if whole else label for label in labels),
        levels=fields.levels,
        ranges=fields.ranges,
        float_type=fields.float_type,
        origin=f"PMML, {'MiningModel' if methods else 'TreeModel'}",
        leftovers=tuple(left),
        **{"n_rows": None, **read, "notes": (*notes, *read.get("notes", ()))},
    )


def _tree_models(model: Element) -> tuple[list[Element], list[str]]:
    """List the trees of a model, and how their answers become one: from the outside inwards."""
    trees, methods, waiting = [], [], [model]
    while waiting:
        one = waiting.pop()
        if one.tag == "TreeModel":
            trees.append(one)
        for segmentation in one.all("Segmentation"):
            methods.append(segmentation.get("multipleModelMethod"))
            for segment in reversed(segmentation.all("Segment")):
                if not segment.all("True"):
                    raise NotCovered("segments of rows, each with a model of its own")
                waiting += segment.all("TreeModel", "MiningModel")
    return trees, methods


def _labels(grown: Sequence[GrownTree], fields: Fields) -> list[str]:
    """List the classes: of the target, or else those that nodes speak of."""
    if not any(g.classifies for g in grown):
        return []
    stated = [s for g in grown for s in g.stated]
    listed = [*valid_values(fields.target)] if fields.target is not None else []
    listed = listed or [d.get("value") for s in stated for d in s.all("ScoreDistribution")]
    listed = listed or [s.get("score") for s in stated if s.get("score")]
    return list(dict.fromkeys(map(fields.label, listed)))


def _read_nodes(
    grown: Sequence[GrownTree], labels: Sequence[str], drawn: bool, summed: bool
) -> dict[str, Any]:
    """Say as much as the file does of nodes: counts, or classes in leaves, or what leaves add."""
    if labels and not summed:
        numbered = {label: i for i, label in enumerate(labels)}
        counted = [g.counts(numbered) for g in grown]
        for g, (counts, _) in zip(grown, counted, strict=True):
            if counts is not None:
                g.check_classes(g.shape.summed(counts), numbered)
        if read := _counted(grown, [counts for counts, _ in counted], drawn):
            return read
        # Leaves name the classes that they hold, or the one that they predict.
        given = [shares for _, shares in counted if shares is not None]
        noise, note = LabelNoise("majority"), NAMED
        if len(given) < len(grown):
            trees = [g.named(numbered) for g in grown]
        else:
            trees, noise, note = classes_in_leaves([g.shape for g in grown], given, drawn=drawn)
        sampling = Bootstrap() if drawn else AllRows()
        return {"trees": tuple(trees), "sampling": sampling, "noise": noise,
                "notes": (note, *(DRAWN,) * drawn)}  # fmt: skip
    if not summed and (read := _counted(grown, [g.totals() for g in grown], drawn)):
        return read
    why = SUMMED if summed else UNCOUNTED
    trees = [g.shape.with_statistics(Statistics(g.scores(VALUE))) for g in grown]
    return {"trees": tuple(trees), "sampling": UnknownSampling(why), "not_covered": why}


def _counted(
    grown: Sequence[GrownTree], leaves: Sequence[FloatArray | None], drawn: bool
) -> dict[str, Any] | None:
    """Count rows, of each class or with the means of their targets.

    None where the file does not, or trees count different numbers. Trees of a forest drew rows,
    also where their roots count the same: draws may be as many of each class.
    """
    whole = [g.shape.summed(c) for g, c in zip(grown, leaves, strict=True) if c is not None]
    roots = {float(counts[0].sum()) for counts in whole}
    if len(whole) < len(grown) or len(roots) != 1 or 0.0 in roots:
        return None
    by_class = whole[0].ndim == 2
    n_rows, unit = int(roots.pop()), DRAWS if drawn else ROWS
    trees = []
    for g, counts in zip(grown, whole, strict=True):
        rows = counts.sum(axis=1) if by_class else counts
        g.check(rows)
        told = Statistics((NodeStatistic(unit, rows), *(() if by_class else g.scores(MEAN))))
        counting = Statistics.counting(unit, counts, rows) if by_class else told
        trees.append(g.shape.with_statistics(counting))
    sampling = Bootstrap(n_draws=n_rows) if drawn else AllRows()
    return {"trees": tuple(trees), "sampling": sampling, "n_rows": n_rows,
            "notes": (DRAWN if drawn else LONE,), "adds_weights": not drawn}  # fmt: skip


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
ScoreDistribution: value! recordCount! confidence~ probability~
True:
False:
SimplePredicate: field! operator value!
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
    "Timestamp": r"[\d\-:. TZ+]{0,40}|([A-Z][a-z]{2} ){2}[ \d]\d [\d:]{8}[\w ]{5,11}",
}
"""Elements in which a text stands."""
_PLACES = {
    "PMML": (),
    "MiningModel": ("PMML", "Segment"),
    "TreeModel": ("PMML", "Segment"),
    "Segmentation": ("MiningModel", "TreeModel"),
    "Segment": ("Segmentation",),
    "Node": ("TreeModel", "Node"),
    "ScoreDistribution": ("Node",),
    **dict.fromkeys(("False", "SimplePredicate"), ("Node",)),
    "True": ("Node", "Segment"),
}
"""Where parts of trees stand: nothing reads those elsewhere."""
_SENTENCE, _MOST_FIGURES, _WORD = 120, 4, 64
_ID = re.compile(r"([A-Za-z_-]{0,16})(\d{1,10})")
_FIGURES = re.compile(r"\d+")
_SCHEMA = re.compile(
    r"(http://www\.dmg\.org/[A-Za-z]{0,4}[\d_.-]{1,6}(/pmml-[\d-]{1,6}\.xsd)?\s*){1,4}"
)
_BASE, _PER_PART = 32, 6
"""Numbers beside the trees: of a file, and for each column and tree."""


def left_over(
    root: Element, fields: Fields, grown: Sequence[GrownTree], classes: Sequence[str]
) -> Iterator[Leftover]:
    """List what the reader does not use, and what no program writes into every file.

    Numbers that make no tree, and do not follow from one, are left over if they are many, also
    those in texts.
    """
    waiting = [(root, root, "the file")]
    texts, dated, most = dict[str, int](), 0, _BASE
    loose, ids = list[str](), list[str]()
    said = {*fields.names, *classes, *(x for v in fields.levels.values() for x in v)}
    if (target := fields.target) is not None:
        said |= {target.get("name"), *valid_values(target)}
    while waiting:
        element, above, where = waiting.pop()
        tag, known, odd = element.tag, _KNOWN.get(element.tag), dict[str, str]()
        misplaced = tag in _PLACES and above.tag not in _PLACES[tag] and element is not root
        if known is None or misplaced or (element.space and not element.space.startswith(_SPACE)):
            yield Leftover(where, f"{tag:.40}, which the reader does not use", _all_of(element))
            continue
        for full, value in element.attributes.items():
            name = full.rpartition(" ")[2]
            mark = known.get(name, "")
            if value in said and mark:
                continue
            if mark and NUMBER.fullmatch(value) and not is_plain(value):
                odd[name] = value
            elif mark == "!":
                if not _is_of_tree(element, name, value, fields, classes):
                    odd[name] = value
            elif mark and NUMBER.fullmatch(value):
                loose += [value] * (mark != "~")
            elif mark and _is_plain(value, name):
                # Words may have a figure, as columns and classes have; those of rows have many.
                figures = len(_FIGURES.findall(value))
                texts[value] = figures * (figures > (tag in ("DataField", "MiningField")))
            else:
                odd[name] = value
        if tag == "Node":
            odd |= _other_shares(element)
        if tag in ("TreeModel", "Segmentation"):
            ids += _unnumbered(element)
        dated += tag == "Timestamp"
        if tag == "Constant" and is_plain(element.text):
            loose.append(element.text)
        elif not re.fullmatch(_TEXTS.get(tag, ""), element.text) or (
            tag == "Timestamp" and dated > 1
        ):
            odd["text"] = element.text
        if odd:
            yield Leftover(where, f"parts of {tag}", odd)
        waiting += [(child, element, tag) for child in reversed(element.children)]
    most += _PER_PART * (len(fields.names) + len(classes) + len(grown))
    if len(loose) > most:
        yield Leftover("the file", "more numbers than models have beside their trees", loose)
    if max(len(texts), sum(texts.values())) > most:
        yield Leftover("the file", "more texts, or numbers in texts, than models have", [*texts])
    if ids:
        yield Leftover("the trees", "names of nodes that do not number them", ids)
    numbered = {c: i for i, c in enumerate(classes)}
    for t, tree in enumerate(grown):
        if odd_numbers := tree.underived(numbered):
            yield Leftover(f"tree {t}", "numbers that do not follow from leaves", odd_numbers)


def _unnumbered(model: Element) -> list[str]:
    """List the names of nodes, or of segments, that do not number them.

    A program counts them, each after its parent, or numbers the children of k as 2k and 2k + 1.
    """
    pairs: list[tuple[Element, Element]] = [(model, c) for c in model.all("Node", "Segment")]
    for _, node in pairs:
        pairs += [(node, child) for child in node.all("Node")]
    odd = [node.get("defaultChild") for _, node in pairs]
    odd = [x for x, (_, node) in zip(odd, pairs, strict=True)
           if x and x not in {c.get("id") for c in node.all("Node")}]  # fmt: skip
    named = [(above, node.get("id")) for above, node in pairs if node.get("id")]
    read = [_ID.fullmatch(name) for _, name in named]
    numbers = [int(found[2]) for found in read if found]
    if not named or len({found and found[1] for found in read}) > 1 or not numbers:
        return [*odd, *(name for _, name in named)]
    of = {id(node): int(_ID.sub(r"\2", node.get("id"))) for _, node in pairs if node.get("id")}
    steps = [(of.get(id(above), -1), n) for (above, _), n in zip(named, numbers, strict=True)]
    each = len({*numbers}) == len(numbers) > max(numbers) - min(numbers)
    counted = each and all(above < n for above, n in steps)
    halved = all(above in (n // 2, (n - 1) // 2) or (above < 0 and n < 2) for above, n in steps)
    return odd if counted or halved else [*odd, *(name for _, name in named)]


def unreached(nodes: Sequence[Element], tree: int) -> Iterator[Leftover]:
    """List nodes that the tree does without: others take all of their rows."""
    if nodes:
        held = [x for node in nodes for x in _all_of(node)]
        yield Leftover(f"tree {tree}", "nodes that the tree does without", held)


def _all_of(element: Element) -> list[str]:
    """List all texts of an element, and of all in it."""
    return [x for e in element.walk() for x in (*e.attributes.values(), e.text) if x]


def _is_of_tree(
    element: Element, name: str, value: str, fields: Fields, classes: Sequence[str]
) -> bool:
    """Whether an attribute of a tree's part, and of no known word, is what the reader checks."""
    if name == "field":
        return value in fields.stands_for
    if (name == "score" and classes) or (element.tag == "ScoreDistribution" and name == "value"):
        return fields.label(value) in classes
    return NUMBER.fullmatch(value) is not None


def _is_plain(value: str, name: str) -> bool:
    """Whether this is a word or a sentence, and no line of a table."""
    if name == "schemaLocation":
        return _SCHEMA.fullmatch(value) is not None
    few = len(value) <= _SENTENCE and len(_FIGURES.findall(value)) <= _MOST_FIGURES
    return few and value.isprintable() and max(map(len, value.split()), default=0) <= _WORD


def _other_shares(node: Element) -> dict[str, str]:
    """List shares of classes that are not those of their counts."""
    out = {}
    for name in ("confidence", "probability"):
        listed = [e for e in node.all("ScoreDistribution") if e.get(name)]
        try:
            counts = [float(e.get("recordCount")) for e in listed]
            shares = [e.get(name) for e in listed if float(e.get(name)) >= 0]
        except ValueError:
            # Without counts, confidences are what is read.
            odd = any(e.get(name) != e.get("confidence") for e in listed)
        else:
            total = sum(counts) or 1.0
            odd = len(shares) < len(counts) or any(
                not is_rounded(share, count / total)
                for share, count in zip(shares, counts, strict=True)
            )
        if odd:
            out[name] = " ".join(e.get(name) for e in listed)
    return out
