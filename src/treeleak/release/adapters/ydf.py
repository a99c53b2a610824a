"""Yggdrasil's models (YDF, TensorFlow Decision Forests), from stored data to a release.

What they do, found out from the library's sources and checked by training with ydf 0.16.1 (a test):

- Values and thresholds are in single precision. A row goes to the positive child where ``value >=
  threshold``, where its category is one of the node's, or where it is true. A missing value goes
  where ``na_value`` says, which is where the mean, or the most frequent category, goes.
- Categories are numbered by how frequent they are; 0 stands for all that are too rare.
- Nodes of a forest count draws: a row that was drawn twice counts twice, in the numbers "without
  weight" as well. Nothing counts different rows.
- Nodes of boosted trees hold the sum of ``label - p`` over their rows, with squares or second
  derivatives, in double precision; leaves hold what they add, in single precision.
- A single tree (CART) and boosted trees keep a part of the rows back, by default a tenth.
- The file does not say how fast boosted trees learn, nor l2; the first tree does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import BadModel, NotCovered
from treeleak.core.message import MessageTemplate, static_message
from treeleak.release.adapters.boosted import DIFFERENT, column_names, finite
from treeleak.release.adapters.sklearn.boosting import HELD_BACK
from treeleak.release.checked_json import located
from treeleak.release.draws.recompute import kept_for_training
from treeleak.release.draws.yggdrasil import DEFAULT_SEED, FOREST_RULE
from treeleak.release.ensemble import Ensemble, Fitting, Loss
from treeleak.release.registry import adapter
from treeleak.release.release import Release
from treeleak.release.sampling import (
    YGGDRASIL,
    AllRows,
    Bootstrap,
    HeldBack,
    Sampling,
    UnknownSampling,
)
from treeleak.release.statistics import (
    DRAWS,
    GAIN,
    GRADIENT,
    HESSIAN,
    MEAN,
    ROWS,
    VALUE,
    VARIANCE,
    NodeStatistic,
    Quantity,
    Statistics,
)
from treeleak.release.stored import StoredObject
from treeleak.release.tree import LEAF, CategorySets, Tree

_CLASSIFICATION, _REGRESSION = 1, 2
_TASKS = ("undefined", "classification", "regression", "ranking", "uplift", "uplift of numbers",
          "anomaly detection", "survival analysis")  # fmt: skip
_NUMERICAL, _CATEGORICAL, _BOOLEAN, _DISCRETIZED = 1, 4, 7, 9
_INTEGERS = range(2, 10)
"""Of dtype: whole numbers."""
_LOSSES: dict[int, Loss] = {1: "logistic", 2: "squared", 3: "softmax"}
_LOSS_NAMES = ("default", "binomial", "squared error", "multinomial", "LambdaMART NDCG5", "XE-NDCG",
               "focal", "Poisson", "mean absolute error", "LambdaMART NDCG", "Cox")  # fmt: skip
_OOD = "<OOD>"
_TEST, _DIST = "condition.condition.", "distribution."
_SETS = f"{_TEST}contains_condition.elements"
_HELD_BACK = 0.1
"""Share of rows that single and boosted trees are evaluated on by default (validation_ratio)."""
_MOST_DRAWN = 10**7
"""Rows, of which it is worked out which were held back."""
_HOW_OFF = 2e-6
"""Share by which what leaves add may be off: single precision, with some room."""

NOT_THIS_TASK = MessageTemplate(
    "ydf_task", "YDF models for {task:foreign} are not covered: for classes and targets only"
)
OTHER_TESTS = MessageTemplate(
    "ydf_tests",
    "tree {tree:number}, node {node:number}: tests of several columns (oblique), of sets, texts or "
    "vectors are not covered",
)
WEIGHTED = static_message(
    "rows had weights, and nodes count these: rebuilding rows is not covered", "ydf_weighted"
)
COUNTLESS = static_message(
    "nodes hold no counts, as in a model that was saved for predictions alone "
    "(pure_serving_model): nothing is left to rebuild rows from",
    "ydf_countless",
)
OWN_STEPS = static_message(
    "What leaves of the first tree add does not follow from their sums: only numbers of rows are "
    "used.",
    "ydf_own_steps",
)
PART = static_message("each tree saw a part of the rows, or drew fewer than there are", "ydf_part")


class _Column:
    """A column of the data specification, and how its values are numbered here."""

    def __init__(self, stored: StoredObject) -> None:
        get = stored.state.get
        self.name, self.kind = get("name"), get("type", 0)
        self.n_missing = get("count_nas", 0)
        self.n_values = get("categorical.number_of_unique_values", 0)
        self.whole = get("dtype") in _INTEGERS
        low, high = get("numerical.min_value"), get("numerical.max_value")
        self.ends = (low, high) if low is not None and high is not None else None
        if self.kind == _BOOLEAN:
            self.ends = (0.0, 1.0)
        boundaries = get("discretized_numerical.boundaries", ())
        self.borders = tuple(boundaries)
        items = get("categorical.items")
        self.levels: tuple[str, ...] = ()
        self.first = 0
        """The number in the file of the first level."""
        if isinstance(items, StoredObject) and not get("categorical.is_already_integerized"):
            keys, index = items.get("key", ()), items.get("index", items.get("value.index", ()))
            counts = items.get("value.count", np.zeros(len(keys)))
            order = np.argsort(index, kind="stable")
            if not np.array_equal(index[order], np.arange(len(keys))) or len(counts) != len(keys):
                raise BadModel(f"{self.name!r:.80}: categories are not numbered from 0")
            self.first = int(len(keys) > 1 and keys[order[0]] == _OOD and counts[order[0]] == 0)
            self.levels = tuple(map(str, keys[order[self.first :]]))

    @property
    def classes(self) -> tuple[Any, ...]:
        """The levels as labels: numbers where they were."""
        if self.whole and all(t.removeprefix("-").isdecimal() and len(t) < 19 for t in self.levels):
            return tuple(map(int, self.levels))
        return self.levels


@adapter("ydf", "Model")
def _quiet(stored: StoredObject) -> Release:
    # Numbers that are not finite are refused, or left out, where they come to stand.
    with np.errstate(all="ignore"):
        return _model(stored)


def _model(stored: StoredObject) -> Release:
    header, spec = stored.get("header"), stored.get("data_spec")
    columns = [_Column(column) for column in spec.get("columns", ())]
    task = header.get("task", 0)
    if task not in (_CLASSIFICATION, _REGRESSION):
        named = _TASKS[task] if 0 <= task < len(_TASKS) else "an unknown task"
        raise NotCovered(NOT_THIS_TASK(task=named))
    inputs, target = header.get("input_features", ()), header.get("label_col_idx", -1)
    if not all(0 <= i < len(columns) for i in (*inputs, target)) or len(set(inputs)) < len(inputs):
        raise BadModel("header.pb: input_features or label_col_idx name no column")
    place = np.full(len(columns), LEAF)
    place[list(inputs)] = np.arange(len(inputs))
    of_inputs = [columns[i] for i in inputs]
    boosted = stored.get("gradient_boosted_trees_header")
    shapes = [_shape(t, raw.state, place, columns) for t, raw in enumerate(stored.get("trees"))]
    if not shapes:
        raise BadModel("num_trees is 0: a model without trees")
    names, notes = column_names([column.name for column in of_inputs], len(inputs))
    by_name = dict(zip(names, of_inputs, strict=True))
    base = Release(
        trees=(),
        feature_names=names,
        classes=columns[target].classes if task == _CLASSIFICATION else (),
        sampling=AllRows(),
        n_rows=None,
        maybe_missing=frozenset(name for name, column in by_name.items() if column.n_missing),
        levels={name: column.levels for name, column in by_name.items() if column.levels},
        ranges={name: ends for name, column in by_name.items() if (ends := column.ends)},
        borders={name: column.borders for name, column in by_name.items() if column.borders},
        float_type="float32",
        thresholds_are="unknown" if any(c.borders for c in of_inputs) else "midpoints",
        origin="",
        notes=notes,
    )
    fill = _forest if boosted is None else _boosted
    release = fill(base, shapes, stored, columns[target])
    if header.get("weights") is not None:
        release = replace(release, not_covered=release.not_covered or WEIGHTED)
    kind = str(header.get("name", "")).replace("_", " ").lower()
    return replace(release, origin=f"YDF, {kind:.40}", sources=tuple(stored.get("trees")))


# ---------------------------------------------------------------------------------- trees


def _shape(
    t: int, raw: Any, place: IntArray, columns: Sequence[_Column]
) -> tuple[Tree, dict[str, Any]]:
    """Read the nodes and tests of a tree, and give it with what its nodes hold."""
    n = len(next(iter(raw.values()), ()))
    attribute = raw.get("condition.attribute", np.full(n, LEAF))
    inner = attribute != LEAF
    if n == 0 or ((attribute >= len(columns)) | (attribute < LEAF)).any():
        raise BadModel(f"tree {t}: no nodes, or a test of a column that is not there (attribute)")
    feature = np.where(inner, place[np.where(inner, attribute, 0)], LEAF)
    if (feature[inner] < 0).any():
        raise BadModel(f"tree {t}: a test of a column that is not one of input_features")
    negative, positive = np.full((2, n), LEAF)
    waiting: list[int] = []
    for v in range(1, n):
        if inner[v - 1]:
            negative[v - 1] = v
            waiting.append(v - 1)
        elif waiting:
            positive[waiting.pop()] = v
    threshold = np.where(inner, raw.get(f"{_TEST}higher_condition.threshold", np.nan), np.nan)
    sets, alone = _sets(t, raw, attribute, columns)
    n_tests = (~np.isnan(threshold)).astype(int)
    at = np.zeros(0, dtype=int) if sets is None else np.unique(sets.node)
    n_tests[at] += 1
    # Too rare is nobody there, and that is what missing values are taken for: a test for these.
    threshold[alone] = np.inf
    n_tests[alone] += 1
    flags = (("true_value_condition", 0.5), ("na_condition", np.inf))
    for name, cut in flags:
        tested = np.asarray(raw.get(_TEST + name, np.zeros(n, dtype=bool)), dtype=bool)
        threshold = np.where(tested, cut, threshold)
        n_tests += tested
    step = raw.get(f"{_TEST}discretized_higher_condition.threshold", np.full(n, -1))
    for v in np.flatnonzero(step >= 0).tolist():
        borders = columns[attribute[v]].borders
        if not 1 <= step[v] <= len(borders):
            raise BadModel(f"tree {t}, node {v}: no boundary {step[v]} of its column")
        threshold[v] = borders[step[v] - 1]
        n_tests[v] += 1
    if (n_tests[inner] != 1).any() or n_tests[~inner].any():
        raise NotCovered(OTHER_TESTS(tree=t, node=int(np.flatnonzero(n_tests != inner)[0])))
    by_set = np.zeros(n, dtype=bool)
    by_set[at] = True
    missing = np.asarray(raw.get("condition.na_value", np.zeros(n, dtype=bool)), dtype=bool)
    missing = missing | np.asarray(raw.get(f"{_TEST}na_condition", np.zeros(n)), dtype=bool)
    with located(f"tree {t}: "):
        tree = Tree(
            feature=feature,
            threshold=threshold,
            # Of a test for categories, the stored ones go left; of others, what is less.
            left=np.where(by_set, positive, negative),
            right=np.where(by_set, negative, positive),
            missing_left=inner & (missing == by_set),
            strict=inner & ~by_set & np.isfinite(threshold),
            categories=sets,
        )
    return tree, raw


def _sets(
    t: int, raw: Any, attribute: IntArray, columns: Sequence[_Column]
) -> tuple[CategorySets | None, IntArray]:
    """Read the tests for categories, by the numbers that levels have here.

    Also gives the nodes that test for none of them but what is too rare.
    """
    if _SETS not in raw or not len(raw[_SETS]):
        return None, np.zeros(0, dtype=int)
    node, value = raw[f"{_SETS}.at"], raw[_SETS].astype(np.int64)
    kinds = np.array([c.kind for c in columns])[attribute[node]]
    if (kinds != _CATEGORICAL).any():
        raise NotCovered(OTHER_TESTS(tree=t, node=int(node[(kinds != _CATEGORICAL).argmax()])))
    size = np.array([c.n_values for c in columns])[attribute[node]]
    if ((value < 0) | (value >= size)).any() or (attribute[node] == LEAF).any():
        raise BadModel(f"tree {t}: a test for a category that its column does not have (elements)")
    first = np.array([c.first for c in columns])[attribute[node]]
    keep = value >= first
    alone = np.setdiff1d(node, node[keep])
    order = np.lexsort((value[keep], node[keep]))
    with located(f"tree {t}: "):
        sets = CategorySets(node[keep][order], (value - first)[keep][order])
    return sets if keep.any() else None, alone


def _numbers(raw: Any, name: str) -> FloatArray | None:
    values = raw.get(name)
    return None if values is None else np.asarray(values, dtype=float)


def _rows(raw: Any) -> FloatArray | None:
    """Read how many rows, or draws, reach each node."""
    for name in ("num_pos_training_examples_without_weight",
                 f"regressor.{_DIST}count", "regressor.sum_weights"):  # fmt: skip
        values = _numbers(raw, name)
        if values is not None and (values >= 0).all():
            return values
    return None


def _held_back(
    notes: tuple[str, ...], sampling: Sampling, n_rows: int | None, stored: StoredObject
) -> tuple[tuple[str, ...], Sampling]:
    """Say that rows were held back, and which, where the library's defaults explain how many."""
    in_all = stored.get("data_spec").get("created_num_rows", 0)
    if n_rows is None or n_rows >= in_all:
        return notes, sampling
    usual = in_all <= _MOST_DRAWN and isinstance(sampling, AllRows)
    if usual and kept_for_training(DEFAULT_SEED, _HELD_BACK, in_all).sum() == n_rows:
        sampling = AllRows(HeldBack(DEFAULT_SEED, _HELD_BACK, False, YGGDRASIL))
    return (*notes, HELD_BACK), sampling


# --------------------------------------------------------------------------------- forests


def _forest(
    base: Release,
    shapes: Sequence[tuple[Tree, dict[str, Any]]],
    stored: StoredObject,
    target: _Column,
) -> Release:
    """Add what nodes of a forest, or of a single tree, count."""
    n_rows = stored.get("data_spec").get("created_num_rows")
    header = stored.get("random_forest_header")
    found: list[tuple[Tree, FloatArray | None, list[NodeStatistic]]] = []
    weighted = False
    for t, (tree, raw) in enumerate(shapes):
        counts, totals, more = None, _rows(raw), []
        if base.classes:
            counts = _class_counts(t, raw, tree, target)
            if counts is not None:
                added = counts.sum(axis=1)
                weighted |= bool((counts != np.round(counts)).any())
                weighted |= totals is not None and not np.array_equal(added, totals)
                totals = added if totals is None else totals
        else:
            more = _targets(raw)
        found.append((tree, totals, [*more] if counts is None else [NodeStatistic(ROWS, counts)]))
    roots = [None if totals is None else float(totals[0]) for _, totals, _ in found]
    sums = {tuple(np.ravel(entries[0].values[0])) if entries else () for *_, entries in found}
    drawn = len(found) > 1 and len(sums) > 1
    sampling: Sampling = AllRows()
    notes = base.notes
    out_of_bag = header.get("out_of_bag_evaluations", ())
    if len(found) == 1 and out_of_bag:
        # A single tree was evaluated on the rows that were held back, or on those it did not draw.
        drawn = roots[0] == n_rows
    if drawn and len(set(roots)) == 1 and roots[0] == n_rows:
        sampling = Bootstrap(n_draws=n_rows, rule=FOREST_RULE, columns_drawn=0)
    elif drawn:
        sampling = UnknownSampling(PART)
    elif roots[0] is not None:
        n_rows = int(roots[0])
        notes, sampling = _held_back(notes, sampling, n_rows, stored)
    unit = DRAWS if drawn else ROWS
    trees = []
    for tree, totals, entries in found:
        counted = [] if totals is None else [NodeStatistic(unit, totals)]
        entries = [replace(e, quantity=unit) if e.quantity == ROWS else e for e in entries]
        trees.append(tree.with_statistics(Statistics((*entries, *counted))))
    not_covered: str | None = None
    if any(totals is None for _, totals, _ in found):
        not_covered = COUNTLESS
    elif weighted:
        not_covered = WEIGHTED
        trees = [tree.with_statistics(Statistics()) for tree in trees]
    elif isinstance(sampling, UnknownSampling):
        not_covered = sampling.why
    return replace(base, trees=tuple(trees), sampling=sampling, n_rows=n_rows or None, notes=notes,
                   not_covered=not_covered)  # fmt: skip


def _class_counts(t: int, raw: Any, tree: Tree, target: _Column) -> FloatArray | None:
    """Read counts of classes; where inner nodes hold none, leaves add up to them."""
    counts = _numbers(raw, f"classifier.{_DIST}counts")
    if counts is None or not counts[tree.leaves].any(axis=1).all():
        return None
    if counts.shape[1] != len(target.levels) + target.first or counts[:, : target.first].any():
        raise BadModel(f"tree {t}: counts of {counts.shape[1]} classes, the label has others")
    counts = counts[:, target.first :].copy()
    for v in np.flatnonzero(~tree.is_leaf & ~counts.any(axis=1))[::-1].tolist():
        counts[v] = counts[tree.left[v]] + counts[tree.right[v]]
    return counts


def _targets(raw: Any) -> list[NodeStatistic]:
    """Read means and variances of the targets."""
    total, squares, n = (raw.get(f"regressor.{_DIST}{k}") for k in ("sum", "sum_squares", "count"))
    if total is None or squares is None or n is None or not (n > 0).all():
        values = raw.get("regressor.top_value")
        return [] if values is None else [finite(MEAN, values)]
    mean = total / n
    return [finite(MEAN, mean), finite(VARIANCE, np.maximum(squares / n - mean**2, 0.0))]


# --------------------------------------------------------------------------- boosted trees


def _boosted(
    base: Release,
    shapes: Sequence[tuple[Tree, dict[str, Any]]],
    stored: StoredObject,
    target: _Column,  # noqa: ARG001
) -> Release:
    """Add what nodes of boosted trees sum up, and how leaves follow from it."""
    header = stored.get("gradient_boosted_trees_header")
    starts = tuple(header.get("initial_predictions", ()))
    per_round, number = header.get("num_trees_per_iter", 1), header.get("loss", 0)
    if per_round != len(starts) or len(shapes) % max(per_round, 1):
        raise BadModel(f"num_trees_per_iter is {per_round}, with {len(starts)} initial predictions")
    trees, weighted = [], False
    for t, (tree, raw) in enumerate(shapes):
        rows = _rows(raw)
        entries = [] if rows is None else [NodeStatistic(ROWS, rows)]
        value = raw.get("regressor.top_value", np.full(tree.n_nodes, np.nan))
        entries.append(finite(VALUE, value, tree.is_leaf))
        n = raw.get(f"regressor.{_DIST}count", raw.get("regressor.sum_weights"))
        weighted |= n is not None and rows is not None and not np.array_equal(n, rows)
        for quantity, values in _sums(raw):
            entries.append(finite(quantity, values))
        if (gain := raw.get("condition.split_score")) is not None:
            entries.append(finite(GAIN, gain, ~tree.is_leaf))
        tree = replace(tree, output=t % per_round if per_round > 1 else None)
        trees.append(tree.with_statistics(Statistics(tuple(entries))))
    roots = [None if tree.totals is None else float(tree.totals[0]) for tree in trees]
    n_rows = None if roots[0] is None else int(roots[0])
    sampling: Sampling = AllRows()
    if len(set(roots)) > 1:
        sampling = UnknownSampling(DIFFERENT)
    loss = _LOSSES.get(number)
    fitted = None if loss is None else _fitting(loss, starts, trees)
    notes = base.notes if fitted or loss is None else (*base.notes, OWN_STEPS)
    rate, fitting = fitted or (None, None)
    notes, sampling = _held_back(notes, sampling, n_rows, stored)
    not_covered: str | None = sampling.why if isinstance(sampling, UnknownSampling) else None
    if n_rows is None:
        not_covered = COUNTLESS
    elif weighted:
        not_covered = WEIGHTED
    called = _LOSS_NAMES[number] if 0 <= number < len(_LOSS_NAMES) else "unknown"
    return replace(
        base, trees=tuple(trees), sampling=sampling, n_rows=n_rows, notes=notes,
        not_covered=not_covered, ensemble=Ensemble(called, starts, rate, fitting),
    )  # fmt: skip


def _sums(raw: Any) -> list[tuple[Quantity, FloatArray]]:
    """Read sums of derivatives. The library's gradients point the other way."""
    total, squares, n = (raw.get(f"regressor.{_DIST}{k}") for k in ("sum", "sum_squares", "count"))
    if total is not None and squares is not None and n is not None and (n > 0).all():
        variance = np.maximum(squares / n - (total / n) ** 2, 0.0)
        return [(GRADIENT, -total), (VARIANCE, variance)]
    pair = (GRADIENT, "sum_gradients", -1.0), (HESSIAN, "sum_hessians", 1.0)
    return [(q, sign * raw[f"regressor.{k}"]) for q, k, sign in pair if f"regressor.{k}" in raw]


def _fitting(
    loss: Loss, starts: tuple[float, ...], trees: Sequence[Tree]
) -> tuple[float, Fitting] | None:
    """Find the learning rate and l2 by the first tree, where each row has one second derivative.

    Each leaf adds rate G / (n h + l2): two unknowns, in which it is linear.
    """
    first = next((tree for tree in trees[: len(starts)] if tree.n_nodes > 1), None)
    if first is None or first.totals is None:
        return None
    gradient, value = (first.statistics.get(q) for q in (GRADIENT, VALUE))
    if gradient is None or value is None:
        return None
    p = 1.0 / len(starts) if loss == "softmax" else expit(starts[0])
    if loss == "softmax" and any(starts):
        return None
    h = 1.0 if loss == "squared" else p * (1.0 - p)
    at = first.leaves
    G, v, n = -gradient.values[at], value.values[at], first.totals[at]
    strong = int(np.abs(G).argmax())
    if not np.abs(G[strong]) > 0 or not n.min() > 0:
        return None
    rate, l2 = v[strong] * n[strong] * h / G[strong], 0.0

    def off() -> Any:
        return np.abs(v * (n * h + l2) - rate * G).max()

    if not off() <= _HOW_OFF * np.abs(rate * G).max() and len(at) > 1:
        (rate, l2), *_ = np.linalg.lstsq(np.column_stack([G, -v]), v * n * h, rcond=None)
    named = float(np.float32(round(float(rate), 4)))
    rate = named if abs(named - rate) <= _HOW_OFF * abs(rate) else float(rate)
    l2 = max(round(float(l2), 4), 0.0)
    if not off() <= 10 * _HOW_OFF * np.abs(rate * G).max() or not rate > 0:
        return None
    single: Any = {"margins": "float32", "derivatives": "float32", "targets": "float32"}
    return rate, Fitting(loss, l2, **single)
