"""PMML: decision trees, and models of several trees, as JPMML, R, KNIME, SAS and others write them.

What the reader does not use, and what no program writes into every file, is left over: statistics
of columns, rows to verify the model with, how it was made, comments.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
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
from treeleak.release.readers.pmml_rest import left_over, unreached
from treeleak.release.readers.pmml_tests import Fields, valid_values
from treeleak.release.readers.pmml_trees import GrownTree
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
    notes = [SURROGATES] * fields.surrogates + [ENDS] * bool(fields.ranges)
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
                g.check_classes(g.summed(counts), numbered)
        if read := _counted(grown, [counts for counts, _ in counted], drawn):
            return read
        # Leaves name the classes that they hold, or the one that they predict.
        given = [shares for _, shares in counted if shares is not None]
        noise, note = LabelNoise("majority"), NAMED
        if len(given) < len(grown):
            trees = [g.named(numbered) for g in grown]
        else:
            trees, noise, note = classes_in_leaves([g.tree() for g in grown], given, drawn=drawn)
        sampling = Bootstrap() if drawn else AllRows()
        return {"trees": tuple(trees), "sampling": sampling, "noise": noise,
                "notes": (note, *(DRAWN,) * drawn)}  # fmt: skip
    if not summed and (read := _counted(grown, [g.totals() for g in grown], drawn)):
        return read
    why = SUMMED if summed else UNCOUNTED
    trees = [g.tree(Statistics(g.scores(VALUE))) for g in grown]
    return {"trees": tuple(trees), "sampling": UnknownSampling(why), "not_covered": why}


def _counted(
    grown: Sequence[GrownTree], leaves: Sequence[FloatArray | None], drawn: bool
) -> dict[str, Any] | None:
    """Count rows, of each class or with the means of their targets.

    None where the file does not, or trees count different numbers. Trees of a forest drew rows,
    also where their roots count the same: draws may be as many of each class.
    """
    whole = [g.summed(c) for g, c in zip(grown, leaves, strict=True) if c is not None]
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
        trees.append(g.tree(Statistics.counting(unit, counts, rows) if by_class else told))
    sampling = Bootstrap(n_draws=n_rows) if drawn else AllRows()
    return {"trees": tuple(trees), "sampling": sampling, "n_rows": n_rows,
            "notes": (DRAWN if drawn else LONE,)}  # fmt: skip
