"""The trees of CatBoost's JSON: oblivious ones, which ask all rows the same, and others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import BadModel, NotCovered
from treeleak.core.private import dataclass
from treeleak.release.adapters.boosted import numbers
from treeleak.release.bounds import MOST_LEVELS, MOST_NODES, at_most
from treeleak.release.checked_json import is_finite, is_whole, located
from treeleak.release.tree import LEAF, CategorySets, Tree

# 2^24 leaves are more than any file holds.
MOST_QUESTIONS = 24

ON_STATISTICS = "OnlineCtr"
"""Tests of a statistic of the target, as it was before each row came: where training rows went, the
file does not say."""
OTHER = "CatBoost tests of kind {!r:.40} are not covered"


@dataclass(frozen=True, eq=False)
class Columns:
    """What a model says of its columns.

    Attributes
    ----------
    names : tuple of str
    numeric, categorical : mapping of int to int
        Column of each number that tests give it.
    missing_right : frozenset of int
        Columns whose missing values are greater than all others.
    values : mapping of int to tuple of int
        Hashes of the categories of a column, as far as tests know them.
    levels : mapping of str to tuple of str
        Texts for their codes.
    maybe_missing : frozenset of str
        Columns with missing values among the training rows.
    """

    names: tuple[str, ...]
    numeric: Mapping[int, int]
    categorical: Mapping[int, int]
    missing_right: frozenset[int]
    values: Mapping[int, tuple[int, ...]]
    levels: Mapping[str, tuple[str, ...]]
    maybe_missing: frozenset[str]


@dataclass(frozen=True, eq=False)
class Grown:
    """A tree, and the numbers of its leaves.

    Attributes
    ----------
    shape : Tree
        Without statistics.
    values : float array, shape (n_leaves, n_outputs), or None
        In CatBoost's order, which is that of the shape's leaves. None where leaves stand for
        several, since statistics of the target part them.
    weights : float array, shape (n_leaves,), or None
    """

    shape: Tree
    values: FloatArray | None
    weights: FloatArray | None


@dataclass(frozen=True)
class _Question:
    """A test: ``value > border``, or whether a value is one category."""

    column: int
    border: float
    code: int | None
    missing_left: bool


def oblivious(raw: Mapping[str, Any], columns: Columns, outputs: int, where: str) -> Grown:
    """Read a tree that asks all rows the same questions.

    Raises
    ------
    BadModel
        Naming the tree.
    NotCovered
        If it asks what cannot be read.
    """
    splits = raw.get("splits") or []
    if not isinstance(splits, list):
        raise BadModel(f"{where}: splits is not a list")
    at_most(MOST_QUESTIONS, len(splits), f"questions in {where}")
    asked = [_on_statistics(split) for split in splits]
    plain = [split for split, on in zip(splits, asked, strict=True) if not on]
    questions = [_question(split, columns, where) for split in plain]
    n_leaves = 1 << len(splits)
    held = numbers(raw, "leaf_values", None, where)
    if held.size != n_leaves * outputs:
        raise BadModel(f"{where}: {held.size} values for {n_leaves} leaves")
    weights = None
    if raw.get("leaf_weights"):
        weights = numbers(raw, "leaf_weights", None, where)
        if len(weights) != n_leaves:
            raise BadModel(f"{where}: {len(weights)} leaf_weights for {n_leaves} leaves")
    values = None if any(asked) else held.reshape(n_leaves, outputs)
    if any(asked) and weights is not None:
        # The answer to the first question is the lowest bit of a leaf's number.
        along = tuple(k for k, on in enumerate(reversed(asked)) if on)
        weights = weights.reshape((2,) * len(splits)).sum(axis=along).reshape(-1)
    level = np.repeat(np.arange(len(questions) + 1), 1 << np.arange(len(questions) + 1))
    first = (1 << level) - 1
    place = np.arange(len(level)) - first
    # The answers so far are the low bits of a node's place; the next one is the bit above.
    below = (1 << (level + 1)) - 1 + place
    met = below + (1 << level)
    shape = _shape(
        [questions[i] if i < len(questions) else None for i in level.tolist()], below, met, where
    )
    return Grown(shape, values, weights)


def grown(raw: Mapping[str, Any], columns: Columns, outputs: int, where: str) -> Grown:
    """Read a tree whose nodes hold each other: as for :func:`oblivious`."""
    questions: list[_Question | None] = []
    children: list[list[int]] = []
    values: list[Any] = []
    weights: list[Any] = []
    whole = True
    todo: list[tuple[Any, int, int, int]] = [(raw, LEAF, 0, 0)]
    while todo:
        node, parent, side, depth = todo.pop()
        at = len(questions)
        at_most(MOST_NODES, at, f"nodes in {where}")
        at_most(MOST_LEVELS, depth, "levels or more below the root")
        if not isinstance(node, Mapping):
            raise BadModel(f"{where}, node {at}: no object")
        if parent != LEAF:
            children[parent][side] = at
        children.append([LEAF, LEAF])
        if "split" in node and _on_statistics(node["split"]):
            node, whole = {"value": [0.0] * outputs, "weight": _weight_below(node, where)}, False
        if "split" in node:
            questions.append(_question(node["split"], columns, where))
            todo += [(node.get("right"), at, 1, depth + 1), (node.get("left"), at, 0, depth + 1)]
            continue
        questions.append(None)
        leaf_value = node.get("value")
        values.append(leaf_value if isinstance(leaf_value, list) else [leaf_value])
        weights.append(node.get("weight"))
    if any(
        len(leaf_value) != outputs or not all(is_finite(x) for x in leaf_value)
        for leaf_value in values
    ):
        raise BadModel(f"{where}: a leaf that does not hold {outputs} numbers")
    links = np.array(children)
    shape = _shape(questions, links[:, 0], links[:, 1], where)
    known = all(is_finite(weight) for weight in weights)
    return Grown(
        shape, np.array(values, dtype=float) if whole else None,
        np.array(weights, dtype=float) if known else None,
    )  # fmt: skip


def _on_statistics(split: Any) -> bool:
    return isinstance(split, Mapping) and split.get("split_type") == ON_STATISTICS


def _weight_below(node: Mapping[str, Any], where: str) -> float | None:
    """Add up what the leaves below a node count; None where one counts nothing."""
    total, waiting = 0.0, list[Any]([node])
    while waiting:
        below = waiting.pop()
        if not isinstance(below, Mapping):
            raise BadModel(f"{where}: no object below a node")
        if "split" in below:
            waiting += [below.get("left"), below.get("right")]
        elif not is_finite(below.get("weight")):
            return None
        else:
            total += below["weight"]
    return total


def _question(split: Any, columns: Columns, where: str) -> _Question:
    kind = split.get("split_type") if isinstance(split, Mapping) else None
    if kind == "FloatFeature":
        border, column = split.get("border"), _column(split, "float", columns.numeric)
        if column is None or not is_finite(border):
            raise BadModel(f"{where}: a test of no column, or against no number")
        with np.errstate(over="ignore"):
            cut = float(np.float32(border))
        return _Question(column, cut, None, column not in columns.missing_right)
    if kind == "OneHotFeature":
        column = _column(split, "cat", columns.categorical)
        value = split.get("value")
        known = columns.values.get(column, ()) if column is not None else ()
        if column is None or not is_whole(value, -(2**63), 2**63) or value not in known:
            raise BadModel(f"{where}: a test for a category that no column has")
        return _Question(column, np.nan, known.index(value), False)
    if isinstance(kind, str):
        raise NotCovered(OTHER.format(kind))
    raise BadModel(f"{where}: a test of an unknown kind")


def _column(split: Mapping[str, Any], kind: str, places: Mapping[int, int]) -> int | None:
    index = split.get(f"{kind}_feature_index")
    return places.get(index) if type(index) is int else None


def _shape(questions: list[_Question | None], below: IntArray, met: IntArray, where: str) -> Tree:
    """Make a tree of questions, and of the nodes for those who do not meet them, and who do."""
    leaf = np.array([q is None for q in questions])
    sets = np.array([q is not None and q.code is not None for q in questions])
    # Rows that are of a category go left.
    left, right = np.where(sets, met, below), np.where(sets, below, met)
    nodes = np.flatnonzero(sets)
    codes = [q.code for q in questions if q is not None and q.code is not None]
    with located(f"{where}: "):
        return Tree(
            feature=np.array([LEAF if q is None else q.column for q in questions]),
            threshold=np.array([np.nan if q is None else q.border for q in questions]),
            left=np.where(leaf, LEAF, left),
            right=np.where(leaf, LEAF, right),
            missing_left=np.array([q is not None and q.missing_left for q in questions]),
            categories=CategorySets(nodes, np.array(codes)) if codes else None,
        )
