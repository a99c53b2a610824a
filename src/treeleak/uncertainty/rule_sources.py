"""Probabilistic datasets from rule lists and rule sets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.core.errors import BadInput, BadModel, BadSchema, NotCovered
from treeleak.core.given import Place
from treeleak.core.message import own_words
from treeleak.release import RuleList, read_model
from treeleak.schema import Schema
from treeleak.uncertainty.counting import Tests
from treeleak.uncertainty.dataset import ProbabilisticDataset
from treeleak.uncertainty.regions import lies_in
from treeleak.uncertainty.sources import boxes_of, check_room, checked_schema
from treeleak.uncertainty.space import Space, space_of

# What a rule leaves depends on all before it.
MOST_RULES = 2000


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
            own_words("the rules do not say how many training rows they capture; give X and y")
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
        own: list[Tests] = [{}, {}]
        # Without rules there is nothing that one of them could cover.
        outside: tuple[tuple[Tests, ...], ...] = (() if tests else ({},), tuple(tests))
        inside: tuple[tuple[Tests, ...], ...] = (tuple(tests), ())
        rows = [found.covered, found.default.counts]
    else:
        if not found.ordered:
            _check_apart(tests, space)
        names = (*(f"rule {j + 1}" for j in range(len(found.rules))), "default")
        own = [*tests, {}]
        before = [tuple(tests[:j]) if found.ordered else () for j in range(len(tests))]
        outside, inside = (*before, tuple(tests)), ((),) * len(names)
        rows = [rule.counts for rule in every]
    counts = np.array([(*(r or ()), 0) for r in rows], dtype=np.int64)
    sets, boxes = boxes_of(own, space)
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
            own = ends.setdefault(condition.column, [])
            own += [condition.above, condition.upto]
            # A whole number by itself lies above the one before it.
            numbers = [v for v in condition.values or () if not isinstance(v, str)]
            own += [end for v in numbers for end in (v - 1, v)]
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
    atoms = space.locate_all(X)
    at = np.full(len(atoms), len(tests), dtype=np.int64)
    for j in reversed(range(len(tests))):
        at[lies_in(tests[j], atoms)] = j
    found = rules.counted(X, y, at)
    if found.ordered:
        return found
    own = np.array([rule.counts for rule in found.rules], dtype=np.int64)
    covered = tuple(own.reshape(-1, len(found.classes)).sum(axis=0).tolist())
    bare = tuple(replace(rule, counts=None) for rule in found.rules)
    return replace(found, rules=bare, covered=covered)


def _check_apart(tests: Sequence[Tests], space: Space) -> None:
    meet = np.triu(np.ones((len(tests), len(tests)), dtype=bool), 1)
    for k, axis in enumerate(space.axes):
        everything = np.ones(len(axis), dtype=bool)
        masks = np.array([t.get(k, everything) for t in tests], dtype=np.float32)
        meet &= masks @ masks.T > 0
    for i, j in np.argwhere(meet).tolist():
        one, two = tests[i], tests[j]
        both = space.everything.restricted(one).restricted(two)
        if not both.empty:
            rows = space.write(both.draw(1, np.random.default_rng(0)), np.random.default_rng(0))
            raise BadModel(
                f"rules {i + 1} and {j + 1} of a set overlap, and both count their rows: "
                f"{rows.iloc[0].to_dict()} would count twice"
            )
