"""PMML: decision trees, and models of several trees, as JPMML, R, KNIME, SAS and others write them.

What the reader does not use, and what no program writes into every file, is left over: statistics
of columns, rows to verify the model with, how it was made, comments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from treeleak.core.arrays import FloatArray
from treeleak.core.errors import BadModel, NotCovered
from treeleak.core.message import Message, static_message
from treeleak.core.private import dataclass
from treeleak.release.bounds import MOST_CLASSES, MOST_COUNTS, MOST_TREES, at_most
from treeleak.release.checked_json import located
from treeleak.release.leaf_classes import classes_in_leaves
from treeleak.release.noise.laws import LabelNoise
from treeleak.release.readers.bounded_xml import MOST_BYTES, Element, parse_xml
from treeleak.release.readers.pmml_rest import left_over
from treeleak.release.readers.pmml_tests import Fields
from treeleak.release.readers.pmml_trees import GrownTree, totals_of
from treeleak.release.registry import describe_format, reader
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows, Bootstrap, Sampling, UnknownSampling
from treeleak.release.statistics import DRAWS, MEAN, ROWS, VALUE, NodeStatistic, Statistics
from treeleak.release.stored import Leftover
from treeleak.release.tree import Tree

NO_TREES = static_message("a PMML model without a TreeModel", "pmml_no_trees")
SUMMED = static_message(
    "a PMML file of a boosted model holds what each leaf adds, but no sums over rows", "pmml_summed"
)
UNCOUNTED = static_message(
    "the file holds what each leaf predicts, but no numbers of rows", "pmml_uncounted"
)
DRAWN = static_message(
    "The file does not say how trees drew their rows. They are taken to be those of a random "
    "forest, each of which drew as many rows as there are, with replacement.",
    "pmml_drawn",
)
NAMED = static_message(
    "The file holds no numbers of rows, only the class that each leaf predicts.", "pmml_named"
)
ENDS = static_message(
    "The intervals of columns are taken to be those of the training rows.", "pmml_ends"
)
SURROGATES = static_message(
    "Of tests with surrogates, only the first is used: rows with missing values may go elsewhere.",
    "pmml_surrogates",
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
    summed = not set(methods) <= {*_VOTES}
    grown = []
    for t, model in enumerate(found):
        with located(f"tree {t}: "):
            grown.append(GrownTree(model, fields))
    left = [Leftover("the file", "comments", beside)] if beside else []
    left += left_over(root, fields, len(grown))
    return _release(grown, fields, len(methods) > 0, summed, tuple(left))


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


def _release(
    grown: Sequence[GrownTree],
    fields: Fields,
    several: bool,
    summed: bool,
    left: tuple[Leftover, ...],
) -> Release:
    labels = _labels(grown, fields)
    at_most(MOST_CLASSES, len(labels), "classes")
    at_most(MOST_COUNTS, sum(len(g.tests) for g in grown) * max(len(labels), 1), "counts")
    read = None
    if labels and not summed:
        numbered = {label: i for i, label in enumerate(labels)}
        counted = [g.counts(numbered) for g in grown]
        read = _by_counts(grown, [counts for counts, _ in counted])
        read = read or _by_labels(grown, [shares for _, shares in counted], numbered)
    elif not summed:
        read = _by_rows(grown)
    read = read or _by_values(grown, SUMMED if summed else UNCOUNTED)
    notes = [SURROGATES] * any(g.surrogates for g in grown) + [ENDS] * bool(fields.ranges)
    kind = "" if fields.target is None else fields.target.get("dataType")
    whole = kind in ("integer", "float", "double") and all(
        re.fullmatch(r"-?\d{1,18}", label) for label in labels
    )
    return Release(
        trees=tuple(read.trees),
        feature_names=fields.names,
        classes=tuple(int(label) if whole else label for label in labels),
        sampling=read.sampling,
        n_rows=read.n_rows,
        noise=read.noise,
        not_covered=read.not_covered,
        levels=fields.levels,
        ranges=fields.ranges,
        float_type="float32" if fields.single else "float64",
        origin=f"PMML, {'MiningModel' if several else 'TreeModel'}",
        notes=(*notes, *read.notes),
        leftovers=left,
    )


@dataclass(frozen=True, eq=False)
class _Read:
    """Trees with what their nodes say, and what that is."""

    trees: list[Tree]
    sampling: Sampling
    n_rows: int | None = None
    noise: LabelNoise | None = None
    not_covered: str | None = None
    notes: tuple[Message, ...] = ()


def _by_counts(grown: Sequence[GrownTree], leaves: Sequence[FloatArray | None]) -> _Read | None:
    """Count the rows of each class; None where the file does not, or trees count different numbers.

    Trees that count the same classes at their roots saw all rows, others drew as many.
    """
    whole = [g.summed(c) for g, c in zip(grown, leaves, strict=True) if c is not None]
    roots = {float(counts[0].sum()) for counts in whole}
    if len(whole) < len(grown) or len(roots) != 1 or 0.0 in roots:
        return None
    drawn = any((counts[0] != whole[0][0]).any() for counts in whole)
    n_rows, unit = int(roots.pop()), DRAWS if drawn else ROWS
    trees = []
    for g, counts in zip(grown, whole, strict=True):
        g.check(counts.sum(axis=1))
        trees.append(g.tree(Statistics.counting(unit, counts, counts.sum(axis=1))))
    if drawn:
        return _Read(trees, Bootstrap(n_draws=n_rows), n_rows, notes=(DRAWN,))
    return _Read(trees, AllRows(), n_rows)


def _by_labels(
    grown: Sequence[GrownTree], shares: Sequence[FloatArray | None], classes: Mapping[str, int]
) -> _Read:
    """Let leaves name the classes that they hold, or the one that they predict."""
    several = len(grown) > 1
    sampling: Sampling = Bootstrap() if several else AllRows()
    notes = (DRAWN,) * several
    given = [each for each in shares if each is not None]
    if len(given) < len(grown):
        trees = [g.named(classes) for g in grown]
        return _Read(trees, sampling, noise=LabelNoise("majority"), notes=(NAMED, *notes))
    trees, noise, note = classes_in_leaves([g.tree() for g in grown], given, drawn=several)
    return _Read(trees, sampling, noise=noise, notes=(note, *notes))


def _by_rows(grown: Sequence[GrownTree]) -> _Read | None:
    """Count the rows of a regression, with the means of their targets; None if nobody does."""
    leaves = [totals_of(g) for g in grown]
    rows = [g.summed(each) for g, each in zip(grown, leaves, strict=True) if each is not None]
    if len(rows) < len(grown) or len({float(each[0]) for each in rows}) != 1 or not rows[0][0]:
        return None
    n_rows, trees = int(rows[0][0]), []
    drawn = len(grown) > 1
    for g, each in zip(grown, rows, strict=True):
        g.check(each)
        counted = NodeStatistic(DRAWS if drawn else ROWS, each)
        trees.append(g.tree(Statistics((counted, *g.scores(MEAN)))))
    if drawn:
        return _Read(trees, Bootstrap(n_draws=n_rows), n_rows, notes=(DRAWN,))
    return _Read(trees, AllRows(), n_rows)


def _by_values(grown: Sequence[GrownTree], why: Message) -> _Read:
    """Keep what each leaf adds or predicts."""
    trees = [g.tree(Statistics(g.scores(VALUE))) for g in grown]
    return _Read(trees, UnknownSampling(why), not_covered=why)


def _labels(grown: Sequence[GrownTree], fields: Fields) -> list[str]:
    """List the classes: of the target, or else those that nodes speak of."""
    target = fields.target
    if not any(g.classifies for g in grown):
        return []
    stated = [s for g in grown for s in g.stated if s is not None]
    listed = [] if target is None else [v.get("value") for v in target.all("Value")
                                        if v.get("property", "valid") == "valid"]  # fmt: skip
    listed = listed or [d.get("value") for s in stated for d in s.all("ScoreDistribution")]
    listed = listed or [s.get("score") for s in stated if s.get("score")]
    return list(dict.fromkeys(map(fields.label, listed)))
