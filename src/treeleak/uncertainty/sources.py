"""Probabilistic datasets of one tree, one rule list or one rule set."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from treeleak.core.arrays import BoolArray, FloatArray, IntArray, Place
from treeleak.core.errors import BadInput, BadModel, BadSchema, NotCovered
from treeleak.core.message import static_message
from treeleak.release import Model, Release, RuleList, Tree, read_model, to_release
from treeleak.release.bounds import MOST_ROWS
from treeleak.release.check_schema import check_schema, match_levels
from treeleak.release.infer_schema import infer_schema
from treeleak.schema import Schema
from treeleak.uncertainty.dataset import ProbabilisticDataset
from treeleak.uncertainty.regions import FirstMatch, Tests, is_in
from treeleak.uncertainty.space import Space, space_of
from treeleak.verification.training_rows import counted

MOST_ENTRIES = 2**26
"""Of a table that says of each node which set of values it leaves of each attribute, or of each set
which values are in it; 0.5 GB."""
MOST_RULES = 2000
"""What a rule leaves depends on all before it."""


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
    release.check_no_categories()
    schema = infer_schema(release) if schema is None else checked_schema(schema)
    release = match_levels(release, schema)
    notes = (*release.notes, *check_schema(schema, release))
    tree = release.trees[0]
    counts, count_notes = _counts_of(tree, release)
    cuts = dict(zip(release.feature_names, release.thresholds, strict=True))
    space = space_of(schema, release.feature_names, cuts, release.float_type)
    sets, boxes = _leaf_boxes(tree, release, space)
    names = tuple(f"leaf {node}" for node in tree.leaves)
    none = ((),) * len(names)
    dataset = ProbabilisticDataset(
        space, release.classes, names, sets, boxes, none, none, counts, release.origin,
        (*notes, *count_notes),
    )  # fmt: skip
    if release.noise is not None:
        return _reachable(dataset)
    check_room(dataset, "the tests on the way to it contradict each other or the schema")
    return dataset


def checked_schema(schema: Any) -> Schema:
    """Give the schema back, or read its file; raise BadInput if it is neither."""
    schema = Schema.from_argument(schema)
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
        left, node_set = left_of[test], sets[k][at[node, k]]
        for child, mask in (
            (tree.left[node], node_set & left),
            (tree.right[node], node_set & ~left),
        ):
            number = numbers[k].setdefault(mask.tobytes(), len(sets[k]))
            if number == len(sets[k]):
                sets[k].append(mask)
                if (entries := entries + len(mask)) > MOST_ENTRIES:
                    raise too_many
            at[child] = at[node]
            at[child, k] = number
    return tuple(np.array(s) for s in sets), at[tree.leaves]


def boxes_of(
    tests_of_group: Sequence[Tests], space: Space
) -> tuple[tuple[BoolArray, ...], IntArray]:
    """Sets of atoms and boxes, from one box for each group."""
    boxes = np.zeros((len(tests_of_group), len(space.axes)), dtype=np.int64)
    sets = []
    for k, axis in enumerate(space.axes):
        full = np.ones(len(axis), dtype=bool)
        number = {full.tobytes(): 0}
        for g, tests in enumerate(tests_of_group):
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
    for g in np.flatnonzero(dataset.support).tolist():
        if dataset.group_bits[g] == -np.inf:
            raise BadModel(
                f"infeasible: {dataset.names[g]} holds {dataset.support[g]} rows, but {why}"
            )


def from_rule_list(
    rules: Any,
    schema: Schema | Place | None = None,
    X: pd.DataFrame | None = None,
    y: Sequence[Any] | None = None,
) -> ProbabilisticDataset:
    """All datasets that one rule list, or one rule set, allows.

    Each rule is a group: its rows meet its conditions, and those of no rule before it (Ferry 2024,
    section IV-C). In a rule set, rules with counts of their own must not overlap; without, the
    rows that any rule covers are one group.

    Parameters
    ----------
    rules : RuleList or path of a rule file
    schema : Schema or path, optional
        What a row can be; every column is 0 or 1, unless given.
    X, y : optional
        Rows and labels to count instead of what the rules say: for rules without counts.

    Raises
    ------
    BadModel
        If rules of a set overlap, or a rule captures rows though nothing is left for it.
    BadSchema
        If the schema does not fit the rules, or a column has no bounds.
    NotCovered
        If there are no counts.
    """
    found = read_model(rules) if isinstance(rules, (str, os.PathLike)) else rules
    if not isinstance(found, RuleList):
        raise NotCovered(f"{type(found).__name__} is not a rule list that treeleak knows")
    if len(found.rules) > MOST_RULES:
        raise NotCovered(f"{len(found.rules):,} rules; up to {MOST_RULES:,} are covered")
    if (X is None) != (y is None):
        raise BadInput("rows without labels" if y is None else "labels without rows: give X with y")
    if found.default.counts is None and X is None:
        raise NotCovered(
            static_message("the rules do not say how many training rows they capture; give X and y")
        )
    schema = Schema.from_columns(found.columns) if schema is None else checked_schema(schema)
    schema.for_model(found.columns)
    space = space_of(schema, found.columns, _cuts_of(found), "float64")
    tests = [_tests_of(rule.conditions, space, j) for j, rule in enumerate(found.rules)]
    if X is not None and y is not None:
        found = _counted(found, tests, space, X, y)
    every = (*found.rules, found.default)
    joint = not found.ordered and found.covered is not None
    if joint:
        names: tuple[str, ...] = ("covered", "default")
        group_tests: list[Tests] = [{}, {}]
        # Without rules there is nothing that one of them could cover.
        outside: tuple[tuple[Tests, ...], ...] = (() if tests else ({},), tuple(tests))
        inside: tuple[tuple[Tests, ...], ...] = (tuple(tests), ())
        rows = [found.covered, found.default.counts]
    else:
        if not found.ordered:
            _check_apart(tests, space)
        names = (*(f"rule {j + 1}" for j in range(len(found.rules))), "default")
        group_tests = [*tests, {}]
        before = [tuple(tests[:j]) if found.ordered else () for j in range(len(tests))]
        outside, inside = (*before, tuple(tests)), ((),) * len(names)
        rows = [rule.counts for rule in every]
    counts = np.array([(*(r or ()), 0) for r in rows], dtype=np.int64)
    sets, boxes = boxes_of(group_tests, space)
    dataset = ProbabilisticDataset(
        space, found.classes, names, sets, boxes, outside, inside, counts, found.origin,
        found.notes, found.ordered,
    )  # fmt: skip
    check_room(dataset, "earlier rules and the schema exclude it")
    return dataset


def _cuts_of(rules: RuleList) -> dict[str, FloatArray]:
    ends: dict[str, list[float]] = {}
    for rule in rules.rules:
        for condition in rule.conditions:
            column_ends = ends.setdefault(condition.column, [])
            column_ends += [condition.above, condition.upto]
            # A whole number by itself lies above the one before it.
            numbers = [v for v in condition.values or () if not isinstance(v, str)]
            column_ends += [end for v in numbers for end in (v - 1, v)]
    known = {c: np.array(e, dtype=float) for c, e in ends.items()}
    return {c: np.unique(e[np.isfinite(e)]) for c, e in known.items()}


def _tests_of(conditions: Sequence[Any], space: Space, j: int) -> dict[int, BoolArray]:
    """The box of a rule, as the atoms that it leaves of the axes that it tests."""
    tests: dict[int, BoolArray] = {}
    for condition in conditions:
        k = space.owner[condition.column]
        met = space.axes[k].meeting(condition)
        if met.all() or not met.any():
            raise BadSchema(
                f"rule {j + 1}: {condition} is met by {'every' if met.all() else 'no'} value that "
                f"the schema allows of {condition.column!r}"
            )
        tests[k] = tests[k] & met if k in tests else met
        if not tests[k].any():
            raise BadModel(f"rule {j + 1} contradicts itself in {condition.column!r}")
    return tests


def _counted(
    rules: RuleList, tests: Sequence[Tests], space: Space, X: pd.DataFrame, y: Sequence[Any]
) -> RuleList:
    """The rules with the counts of rows; those of a set together, for they may overlap.

    By the schema, in which codes and the texts that they stand for are one.
    """
    atoms = space.locate(X)
    if (atoms < 0).any():
        row, k = np.argwhere(atoms < 0)[0]
        name = space.axes[k].attribute.name
        raise BadInput(f"row {row}: the value of {name!r} lies outside of the domain")
    at = np.full(len(atoms), len(tests), dtype=np.int64)
    for j in reversed(range(len(tests))):
        at[is_in(tests[j], atoms)] = j
    found = rules.counted(X, y, at)
    if found.ordered:
        return found
    rule_counts = np.array([rule.counts for rule in found.rules], dtype=np.int64)
    covered = tuple(rule_counts.reshape(-1, len(found.classes)).sum(axis=0).tolist())
    bare = tuple(replace(rule, counts=None) for rule in found.rules)
    return replace(found, rules=bare, covered=covered)


def _check_apart(tests: Sequence[Tests], space: Space) -> None:
    meet = np.triu(np.ones((len(tests), len(tests)), dtype=bool), 1)
    for k, axis in enumerate(space.axes):
        everything = np.ones(len(axis), dtype=bool)
        masks = np.array([t.get(k, everything) for t in tests], dtype=np.float32)
        meet &= masks @ masks.T > 0
    for i, j in np.argwhere(meet).tolist():
        both = [tests[i].get(k, m) & tests[j].get(k, m) for k, m in enumerate(space.everything)]
        if FirstMatch(space.sizes, both, space.forbidden).counts[-1]:
            raise BadModel(
                f"rules {i + 1} and {j + 1} of a set overlap, and both count their rows: some "
                "would count twice"
            )
