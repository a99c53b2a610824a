"""Probabilistic datasets from what was released: a tree, a rule list, rows themselves."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadInput, BadModel, NotCovered
from treeleak.core.given import Place
from treeleak.release import Model, Release, Tree, to_release
from treeleak.release.bounds import MOST_ROWS
from treeleak.release.check_schema import check_schema, match_levels
from treeleak.release.infer_schema import infer_schema
from treeleak.schema import Schema
from treeleak.uncertainty.axes import NUMERIC_STEPS
from treeleak.uncertainty.counting import Tests
from treeleak.uncertainty.dataset import ProbabilisticDataset
from treeleak.uncertainty.space import Space, space_of
from treeleak.verification.columns import columns_by_name
from treeleak.verification.training_rows import counted

MOST_ENTRIES = 2**26
"""Of a table that says of each node which set of values it leaves of each attribute, or of each set
which values are in it; 0.5 GB."""


def from_tree(
    model: Model,
    schema: Schema | Place | None = None,
    X: pd.DataFrame | None = None,
    y: Sequence[Any] | None = None,
    trust_pickle: bool = False,
) -> ProbabilisticDataset:
    """All datasets that one decision tree allows.

    Each leaf is a group: its rows may hold what the tests on the way to it leave of each domain
    (Gambs 2012, section 4; Ferry 2024, eq. 11).

    Parameters
    ----------
    model : fitted tree, path, StoredObject or Release
        Of scikit-learn (regression trees as well), the text of a J48 tree, a release file, a forest
        of one tree that was trained on every row once.
    schema : Schema or path, optional
        What a row can be; what the model says itself, unless given. Numeric columns need bounds.
    X, y : optional
        Rows and labels to count instead of what the tree says: for trees without counts.
    trust_pickle : bool
        Also open pickle and joblib files, should ``model`` be a path.

    Raises
    ------
    BadModel
        If counts do not add up, or a leaf holds rows though nothing can reach it.
    BadSchema
        If the schema does not fit the model, or a column has no bounds.
    NotCovered
        If this is no single tree, or it does not count rows.
    """
    if y is not None and X is None:
        raise BadInput("labels without rows: give X with y")
    release = to_release(model, trust_pickle)
    if len(release.trees) != 1:
        raise NotCovered(
            f"{len(release.trees)} trees: the residual uncertainty is for one tree; "
            "treeleak.reconstruct rebuilds rows from several"
        )
    if X is not None:
        release = counted(release, X, y)
    totals_only = release.counts_are == "none" and release.trees[0].totals is not None
    if release.not_covered is not None:
        raise NotCovered(release.not_covered)
    if release.sampling.kind != "all":
        raise NotCovered(
            getattr(release.sampling, "why", "")
            or "the tree was trained on rows drawn at random: its counts are not those of the rows"
        )
    if release.counts_are != "rows" and not totals_only:
        raise NotCovered(
            "the tree does not say how many training rows its leaves hold; give X and y"
            if release.counts_are == "none"
            else f"the tree's counts are {release.counts_are}, not rows"
        )
    release.check_no_categories("for the residual uncertainty of one tree")
    schema = infer_schema(release) if schema is None else checked_schema(schema)
    release = match_levels(release, schema)
    notes = (*release.notes, *check_schema(schema, release))
    tree = release.trees[0]
    counts, said = _counts_of(tree, release)
    cuts = dict(zip(release.feature_names, release.thresholds, strict=True))
    space = space_of(schema, release.feature_names, cuts, release.float_type)
    sets, boxes = _leaf_boxes(tree, release, space)
    names = tuple(f"leaf {node}" for node in tree.leaves)
    none = ((),) * len(names)
    dataset = ProbabilisticDataset(
        space, release.classes, names, sets, boxes, none, none, counts, release.origin,
        (*notes, *said),
    )  # fmt: skip
    if release.noise is not None:
        return _reachable(dataset)
    check_room(dataset, "the tests on the way to it contradict each other or the schema")
    return dataset


def from_rows(
    X: pd.DataFrame | NDArray[Any], schema: Schema, y: Sequence[Any] | None = None
) -> ProbabilisticDataset:
    """The dataset of which everything is known: these rows, one group each.

    Numeric columns are cut beside each value, so that it is known to one step. An array has the
    schema's columns.

    Raises
    ------
    BadInput
        If a value lies outside of its domain, naming row and attribute; if a column appears twice.
    BadSchema
        If a column has no bounds.
    """
    schema = checked_schema(schema)
    columns = tuple(map(str, X.columns)) if isinstance(X, pd.DataFrame) else schema.columns
    table, _ = columns_by_name(columns, X)
    schema.for_model(columns)
    cuts = {}
    for attribute in schema.attributes:
        if attribute.kind in ("numeric", "ordinal"):
            own = np.unique(pd.to_numeric(table[attribute.name], errors="coerce").dropna())
            low, high = attribute.bounds
            if attribute.kind == "ordinal":
                cuts[attribute.name] = np.union1d(own - 0.5, own + 0.5)
            elif 0 < high - low < np.inf:
                # Ends of whole steps: on either side of the one that is nearest.
                step = (high - low) / NUMERIC_STEPS
                near = np.clip(np.rint((own - low) / step), 1, NUMERIC_STEPS - 1)
                ends = np.unique(np.add.outer(near, [-1, 0, 1]))
                inner = ends[(ends > 0) & (ends < NUMERIC_STEPS)]
                cuts[attribute.name] = low + step * inner
    space = space_of(schema, columns, cuts, "float64")
    atoms = space.locate_all(table)
    if y is not None and len(y) != len(table):
        raise BadInput(f"{len(table)} rows have {len(y)} labels")
    label, classes = pd.factorize(pd.Series([None] * len(table) if y is None else y), sort=True)
    counts = np.zeros((len(table), len(classes) + 1), dtype=np.int64)
    counts[np.arange(len(table)), label] = 1  # The last column is that of unknown classes.
    own_tests = [
        {k: np.arange(len(axis)) == a[k] for k, axis in enumerate(space.axes)} for a in atoms
    ]
    sets, boxes = boxes_of(own_tests, space)
    none = ((),) * len(table)
    names = tuple(f"row {i}" for i in range(len(table)))
    return ProbabilisticDataset(
        space, tuple(classes.tolist()), names, sets, boxes, none, none, counts
    )


def checked_schema(schema: Any) -> Schema:
    """Give the schema back, or read its file; raise BadInput if it is neither."""
    schema = Schema.given(schema)
    if not isinstance(schema, Schema):
        raise BadInput(f"the schema must be a treeleak.Schema, not {type(schema).__name__}")
    return schema


def _counts_of(tree: Tree, release: Release) -> tuple[IntArray, list[str]]:
    """Rows of each class in the leaves, and last those of no known class.

    Counts behind noise are rounded, and never negative.
    """
    n_classes = len(release.classes)
    if tree.counts is not None and release.counts_are == "rows":
        table = np.asarray(tree.counts, dtype=float)
        known = np.column_stack([table, np.zeros(len(table))])
    else:
        table = np.asarray(tree.totals, dtype=float)[:, None]
        known = np.column_stack([np.zeros((len(table), n_classes)), table])
    if release.noise is not None:
        leaves = np.clip(np.rint(known[tree.leaves]), 0, MOST_ROWS).astype(np.int64)
        return leaves, [
            "The counts carry noise: each was rounded to a whole number of 0 or more, and the true "
            "rows may be outside of these worlds."
        ]
    inner = ~tree.is_leaf
    sums = known[tree.left[inner]] + known[tree.right[inner]]
    if (odd := (sums != known[inner]).any(axis=1)).any():
        node = int(np.flatnonzero(inner)[odd.argmax()])
        raise BadModel(
            f"node {node} counts {_plain(known[node])} rows, its children together "
            f"{_plain(sums[odd.argmax()])}: the supports do not add up"
        )
    if (known < 0).any():
        raise BadModel(f"node {int((known < 0).any(axis=1).argmax())} counts fewer than 0 rows")
    if release.n_rows is not None and known[0].sum() != release.n_rows:
        raise BadModel(
            f"the root counts {known[0].sum():g} rows, the model says {release.n_rows}: the "
            "supports do not add up"
        )
    return known[tree.leaves].astype(np.int64), []


def _plain(counts: FloatArray) -> str:
    return f"{[int(c) for c in counts[:-1]] or int(counts[-1])}"


def _leaf_boxes(
    tree: Tree, release: Release, space: Space
) -> tuple[tuple[BoolArray, ...], IntArray]:
    """Sets of atoms of each attribute, and which of them each leaf leaves."""
    numbers: list[dict[bytes, int]] = []
    sets: list[list[BoolArray]] = []
    entries = 0
    too_many = NotCovered(
        f"the residual uncertainty of this tree needs tables of more than {MOST_ENTRIES:,} "
        f"entries: it has {len(tree.leaves):,} leaves, of {len(space.axes):,} attributes"
    )
    if tree.n_nodes * len(space.axes) > MOST_ENTRIES:
        raise too_many
    for axis in space.axes:
        full = np.ones(len(axis), dtype=bool)
        numbers.append({full.tobytes(): 0})
        sets.append([full])
    left_of: dict[tuple[int, float, bool], BoolArray] = {}
    cuts = tree.cuts(release.float_type)
    at = np.zeros((tree.n_nodes, len(space.axes)), dtype=np.int64)
    for node in np.flatnonzero(~tree.is_leaf):
        column = release.feature_names[tree.feature[node]]
        k = space.owner[column]
        test = int(tree.feature[node]), float(cuts[node]), bool(tree.missing_left[node])
        if test not in left_of:
            left_of[test] = space.axes[k].upto(column, *test[1:])
        left, own = left_of[test], sets[k][at[node, k]]
        for child, mask in ((tree.left[node], own & left), (tree.right[node], own & ~left)):
            number = numbers[k].setdefault(mask.tobytes(), len(sets[k]))
            if number == len(sets[k]):
                sets[k].append(mask)
                if (entries := entries + len(mask)) > MOST_ENTRIES:
                    raise too_many
            at[child] = at[node]
            at[child, k] = number
    return tuple(np.array(s) for s in sets), at[tree.leaves]


def boxes_of(own: Sequence[Tests], space: Space) -> tuple[tuple[BoolArray, ...], IntArray]:
    """Sets of atoms and boxes, from one box for each group."""
    boxes = np.zeros((len(own), len(space.axes)), dtype=np.int64)
    sets = []
    for k, axis in enumerate(space.axes):
        full = np.ones(len(axis), dtype=bool)
        number = {full.tobytes(): 0}
        for g, tests in enumerate(own):
            if k in tests:
                boxes[g, k] = number.setdefault(tests[k].tobytes(), len(number))
        sets.append(np.array([np.frombuffer(b, dtype=bool) for b in number]))
    return tuple(sets), boxes


def _reachable(dataset: ProbabilisticDataset) -> ProbabilisticDataset:
    """Leave out the rows that noise has put into leaves that no row reaches."""
    empty = dataset.group_bits == -np.inf
    lost = int(dataset.support[empty].sum())
    if not lost:
        return dataset
    note = f"Left out: {lost} rows that the noise put into leaves that no row can reach."
    counts = np.where(empty[:, None], 0, dataset.counts)
    return replace(dataset, counts=counts, notes=(*dataset.notes, note))


def check_room(dataset: ProbabilisticDataset, why: str) -> None:
    """Raise an error for rows that have nowhere to lie."""
    bits = None
    if dataset.ordered or dataset.boxed.all():
        # What cannot be counted may still be found to be possible.
        with suppress(NotCovered):
            bits = dataset.group_bits
    for g in np.flatnonzero(dataset.support).tolist():
        if dataset.region(g).empty if bits is None else bits[g] == -np.inf:
            raise BadModel(
                f"infeasible: {dataset.names[g]} holds {dataset.support[g]} rows, but {why}"
            )
