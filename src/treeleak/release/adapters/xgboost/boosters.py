"""From a model of XGBoost to a release: which rows its trees count, and which they saw."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import expit

from treeleak.core.arrays import IntArray
from treeleak.core.errors import BadInput, BadModel
from treeleak.core.message import MessageTemplate, static_message
from treeleak.release.adapters.boosted import (
    BY_WEIGHT,
    DIFFERENT,
    EARLY,
    EXACT_FLOAT32,
    NUMBERED,
    SUBSAMPLED,
    column_names,
    count_in,
    whole_numbers,
    whole_sums,
)
from treeleak.release.adapters.xgboost.gain_equations import (
    restored_rows,
    root_hessian,
    settings_from_gains,
)
from treeleak.release.adapters.xgboost.model import (
    EACH_ROW_ONE,
    LOGISTIC,
    Model,
    fitting_of,
    found_in,
    number_of,
    one_start,
)
from treeleak.release.adapters.xgboost.nodes import read_tree
from treeleak.release.adapters.xgboost.printed import is_printed, of_printed
from treeleak.release.bounds import MOST_TREES, at_most
from treeleak.release.draws.boosters import METHODS, XGBOOST_OPEN, XGBOOST_RULE
from treeleak.release.ensemble import Ensemble, Fitting
from treeleak.release.first_tree import WHOLE, rows_by_class, sum_after, with_common_weights
from treeleak.release.live import describes
from treeleak.release.registry import adapter
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows, Sampling, Subsample, UnknownSampling
from treeleak.release.statistics import DRAWS, HESSIAN, ROWS, NodeStatistic, Statistics
from treeleak.release.stored import StoredObject
from treeleak.release.tree import Tree

# Single precision keeps 6e-8 of a sum, and as much of what each row counts.
RELATIVE = 1e-6
# As much of each prediction as well.
SAME, DRAWN = 5e-6, 2e-5
TELLING = 4
HISTOGRAMS_SINCE = 2
_AT_VALUES = ("hist", "approx")
"""Ways to grow trees that cut columns at their values."""
ESTIMATORS = ("XGBClassifier", "XGBRegressor", "XGBRFClassifier", "XGBRFRegressor", "XGBRanker")

FIRST_ONLY = static_message(
    "the sums of hessians in an XGBoost model count rows in the first trees only, where all rows "
    "have one prediction; how leaves of later trees were fitted, on which their sums depend, is "
    "not known (trees that were dropped for a time, unknown penalties, or other)",
    "xgboost_first_only",
)
OTHER_LOSS = (
    "the sums of hessians in this XGBoost model (objective {}) do not count rows: what a row adds "
    "depends on its target. The file holds no other counts; what else it holds, the inventory says"
)
COUNTLESS = static_message(
    "the XGBoost file no longer holds the sums of hessians, which count rows, and "
    "rebuilding rows from the rest is not covered yet",
    "xgboost_countless",
)
VALUES_ALONE = static_message(
    "The file holds no sums of hessians. treeleak assumes that every tree saw all rows, and "
    "XGBoost's default learning rate and regularisation unless the file states them.",
    "xgboost_values_alone",
)
RESTORED = static_message(
    "The file no longer holds the sums of hessians, which count rows. The numbers of rows "
    "follow from gains and values.",
    "xgboost_restored",
)
PARTLY = (
    "the XGBoost file no longer holds the sums of hessians, which count rows. Gains and "
    "values give the numbers of rows of all but {:,} of {:,} nodes, and rebuilding rows "
    "from a part of them is not covered yet"
)
WEIGHTED = static_message(
    "the sums of hessians in this XGBoost model are not whole numbers of rows: rows or classes "
    "were weighted when it was trained, rows had scores of their own to start from (base_margin), "
    "or there are more than single precision can count",
    "xgboost_weighted",
)
OWN_START = static_message(
    "The first tree does not start from the mean of the targets: rows had scores of their own to "
    "start from (base_margin), which the file does not hold. Only numbers of rows are used.",
    "xgboost_own_start",
)
SCALED = MessageTemplate(
    "xgboost_scaled",
    "rows of one class were weighted (scale_pos_weight {weight:number}): the sums of hessians in "
    "this XGBoost model are not numbers of rows",
)
UNTOLD = static_message(
    "XGBoost's file does not say whether each tree saw all rows (subsample); by default, it did",
    "xgboost_untold",
)
DART = static_message(
    "Values of leaves are given times the weights of their trees (dart).", "xgboost_dart"
)
CLASSES_WEIGHTED = static_message(
    "Both classes had weights of their own, by which sums of hessians in the first tree are whole "
    "numbers of rows. If single rows had weights that are multiples of these, rebuilt rows stand "
    "there as often; if every row of a class stands there twice, rebuilt rows stand there once.",
    "xgboost_classes_weighted",
)
MISSING = MessageTemplate("value_for_missing", "The model treats the value {value} as missing.")


@describes("xgboost", "Booster")
def _live(model: Any) -> Mapping[str, Any]:
    """Ask a live model for what its pickle would hold; all else in it is made of that."""
    try:
        handle = model.__getstate__().get("handle")
    except ValueError:  # it holds nothing yet
        handle = None
    return {"handle": None if handle is None else bytes(handle)}


@adapter("xgboost", "Booster")
def _booster(stored: StoredObject) -> Release:
    if is_printed(stored):
        return replace(of_printed(stored, _release), sources=(stored,))
    return replace(_release(Model.of(stored)), sources=(stored,))


@adapter("xgboost", *ESTIMATORS)
def _estimator(stored: StoredObject) -> Release:
    inner = stored.get("_Booster")
    if not isinstance(inner, StoredObject):
        raise BadInput(f"this {stored.name} is not fitted")
    model = Model.of(inner)
    release = _release(model)
    missing = stored.get("missing")
    if isinstance(missing, (int, float)) and not np.isnan(missing):
        release = replace(release, notes=(*release.notes, MISSING(value=missing)))
    origin = f"XGBoost {model.version}, {stored.name}"
    return replace(release, origin=origin, sources=(inner,))


def _release(model: Model) -> Release:
    raw, info = _trees_of(model)
    trees = [read_tree(t, tree, model, int(info[t])) for t, tree in enumerate(raw)]
    summed = [tree.statistics.get(HESSIAN) is not None for tree in trees if tree.n_nodes > 1]
    if summed and not any(summed):
        # Of a tree that is one leaf, a sum that was masked looks like any other.
        trees = [
            tree.with_statistics(
                Statistics(tuple(e for e in tree.statistics if e.quantity != HESSIAN))
            )
            for tree in trees
        ]
    rounds = _rounds(model, info)
    fitting, rate = fitting_of(model, trees, rounds)
    unweighted, fitting = fitting, _with_weights(model, trees, fitting, rate)
    trees, not_covered, restored = _with_rows(model, trees, rounds, fitting, rate)
    if fitting is not unweighted:
        restored = (*restored, CLASSES_WEIGHTED)
    if fitting is not None and not_covered == FIRST_ONLY:
        not_covered = None
    sampling = _sampling(model, trees, fitting, rate)
    if fitting is not None and fitting.assumed:
        # What is assumed here, the values of leaves confirm or contradict.
        not_covered, sampling = None, AllRows()
        restored = (*restored, VALUES_ALONE)
    elif (
        fitting is not None
        and isinstance(sampling, AllRows)
        and not one_start(model, trees[0], fitting)
    ):
        fitting, restored = None, (*restored, OWN_START)
    if isinstance(sampling, Subsample):
        trees = [tree.with_counts(DRAWS) for tree in trees]
    names, notes = column_names(model.learner.get("feature_names"), model.n_columns)
    notes = (*notes, *restored)
    if any(tree.totals is not None for tree in trees):
        notes = (*notes, BY_WEIGHT)
    classes: tuple[Any, ...] = ()
    if model.num_class > 1 and model.num_target <= 1:
        classes = tuple(range(model.num_class))
    elif model.objective.startswith("binary:") and model.num_target <= 1:
        classes = (0, 1)
    if classes:
        notes = (*notes, NUMBERED)
    if model.weight_drop is not None:
        notes = (*notes, DART)
    best = number_of(found_in(model.learner.get("attributes"), "best_iteration"))
    if best is not None and 0 <= best < rounds.max(initial=0):
        notes = (*notes, EARLY(round=int(best) + 1))
    n_rows = None
    if isinstance(sampling, AllRows) and trees and trees[0].totals is not None:
        n_rows = int(trees[0].totals[0])
    return Release(
        trees=tuple(trees),
        feature_names=names,
        classes=classes,
        sampling=sampling,
        n_rows=n_rows,
        not_covered=not_covered,
        maybe_missing=frozenset(names[c] for c in _with_missing(trees)),
        levels=levels(model, names),
        float_type="float32",
        # By default so from version 2 on.
        thresholds_are="values" if _method(model, by_default=True) in _AT_VALUES else "unknown",
        origin=f"XGBoost {model.version}, Booster",
        adds_weights=True,
        n_targets=max(model.num_target, 1),
        notes=notes,
        ensemble=Ensemble(model.objective, model.base_scores, rate, fitting),
    )


def _with_missing(trees: Sequence[Tree]) -> set[int]:
    """Find the columns with missing values in training, as far as that makes a difference.

    XGBoost tries both ways for them. Where it met none, all tests of a column send them one way:
    that of the categories that no test names.
    """
    ways: dict[int, set[bool]] = defaultdict(set)
    for tree in trees:
        for node in np.flatnonzero(~tree.is_leaf).tolist():
            ways[int(tree.feature[node])].add(bool(tree.missing_left[node]))
        for node in () if tree.categories is None else tree.categories.by_node:
            ways[int(tree.feature[node])].add(False)
    return {column for column, seen in ways.items() if len(seen) > 1}


def _trees_of(model: Model) -> tuple[Sequence[Mapping[str, Any]], IntArray]:
    """Find the trees, and to which output each adds."""
    raw = model.booster.get("trees")
    if not isinstance(raw, list) or not all(isinstance(tree, Mapping) for tree in raw):
        raise BadModel("the model has no list of trees")
    at_most(MOST_TREES, len(raw), "trees")
    info = whole_numbers(model.booster, "tree_info", None, (0, model.n_outputs), "the model")
    weights = model.weight_drop
    if len(info) != len(raw) or (weights is not None and len(weights) != len(raw)):
        raise BadModel(f"the model describes {len(info)} trees, but has {len(raw)}")
    return raw, info


def _rounds(model: Model, info: IntArray) -> IntArray:
    """Number the rounds of boosting: all trees of one saw the same predictions."""
    bounds = model.booster.get("iteration_indptr")
    if isinstance(bounds, np.ndarray):
        ends = whole_numbers(
            model.booster, "iteration_indptr", None, (0, len(info) + 1), "the model"
        )
        if len(ends) and ends[0] == 0 and ends[-1] == len(info) and (np.diff(ends) >= 0).all():
            return np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        raise BadModel("iteration_indptr does not share the trees out to rounds")
    param = model.booster.get("gbtree_model_param")
    held = param if isinstance(param, Mapping) else {}
    parallel = count_in(held, "num_parallel_tree", MOST_TREES, "1")
    return np.arange(len(info)) // (max(parallel, 1) * model.n_outputs)


def _with_rows(
    model: Model,
    trees: list[Tree],
    rounds: IntArray,
    fitting: Fitting | None,
    rate: float | None,
) -> tuple[list[Tree], str | None, tuple[str, ...]]:
    """Count rows where the sums of hessians do, and say what keeps them from counting.

    Also notes how they were found out where these sums were taken out.
    """
    units = model.first_hessians
    if rate and fitting is not None and fitting.class_weights:
        out = list(trees)
        for t in np.flatnonzero(rounds == 0).tolist():
            if (entry := _of_classes(model, trees[t], fitting, rate)) is None:
                return trees, WEIGHTED, ()
            out[t] = trees[t].with_statistics(Statistics((entry, *trees[t].statistics)))
        return out, FIRST_ONLY if rounds.any() else None, ()
    if units is None:
        weight = model.class_weight
        scaled = weight not in (None, 1.0)
        why = SCALED(weight=weight) if scaled else OTHER_LOSS.format(f"{model.objective:.40}")
        return trees, why, ()
    every = model.objective in EACH_ROW_ONE
    counted_trees = [t for t in range(len(trees)) if every or rounds[t] == 0]
    each = [units[trees[t].output or 0] for t in counted_trees]
    sums = [trees[t].statistics.get(HESSIAN) for t in counted_trees]
    notes: tuple[str, ...] = ()
    counts: Sequence[NodeStatistic | None]
    covered: str | None = None if every or not rounds.any() else FIRST_ONLY
    if any(entry is None for entry in sums):
        chosen = [trees[t] for t in counted_trees]
        settings = None if fitting is None or fitting.assumed or not rate else (rate, fitting.l2)
        settings = settings or settings_from_gains(chosen)
        restored = None if settings is None else restored_rows(chosen, each, *settings)
        if restored is None:
            return trees, COUNTLESS, ()
        counts, notes = restored, (RESTORED,)
        if open_ := sum(0 if r.present is None else int((~r.present).sum()) for r in restored):
            covered = PARTLY.format(open_, sum(len(r.values) for r in restored))
    else:
        exact = 0.0 if every else RELATIVE
        counts = [
            _counted(entry, unit, exact, trees[t])
            for entry, unit, t in zip(sums, each, counted_trees, strict=True)
        ]
    out = list(trees)
    for t, rows in zip(counted_trees, counts, strict=True):
        if rows is None:
            return trees, WEIGHTED, ()
        out[t] = trees[t].with_statistics(Statistics((rows, *trees[t].statistics)))
    return out, covered, notes


def _with_weights(
    model: Model, trees: Sequence[Tree], fitting: Fitting | None, rate: float | None
) -> Fitting | None:
    """Find weights of two classes that no parameter says, where hessians count no rows."""
    units = model.first_hessians
    if fitting is None or fitting.assumed or fitting.loss != "logistic" or not rate or not units:
        return fitting
    sums = trees[0].statistics.get(HESSIAN)
    if fitting.class_weights or _counted(sums, units[0], RELATIVE, trees[0]) is not None:
        return fitting
    return with_common_weights(trees[0], fitting, rate, float(model.base_scores[0])) or fitting


def _of_classes(model: Model, tree: Tree, fitting: Fitting, rate: float) -> NodeStatistic | None:
    """Count the rows of a first tree whose classes have weights."""
    p = np.full((1, 1), expit(model.base_scores[0]))
    weights = np.array(fitting.class_weights)[:, None, None]
    found = rows_by_class(tree, fitting, rate, p, weights, 0.0)
    if found is None or not (np.abs(found - np.rint(found)) < WHOLE).all():
        return None
    n = np.zeros(tree.n_nodes)
    n[tree.leaves] = np.rint(found[:, 0]).sum(axis=0)
    if n[tree.leaves].min() < 1 or n.sum() >= EXACT_FLOAT32:
        return None
    return NodeStatistic(ROWS, tree.summed(n))


def _counted(
    sums: NodeStatistic | None, unit: float, exact: float, tree: Tree
) -> NodeStatistic | None:
    if sums is None or sums.present is not None:
        return None
    rows = whole_sums(sums.values, unit, exact, tree.left, tree.right)
    return None if rows is None else NodeStatistic(ROWS, rows)


def _sampling(
    model: Model, trees: Sequence[Tree], fitting: Fitting | None, rate: float | None
) -> Sampling:
    """Say which rows each tree saw, as far as the counts and the parameters show it."""
    # Whether it is known what rows add to the sums of trees that do not count them.
    summed = fitting is not None and fitting.of_classes
    roots = [float(tree.totals[0]) for tree in trees if tree.totals is not None]
    share = model.trained_with("subsample")
    follows = len(roots) == len(trees) or (summed and roots and model.n_outputs == 1)
    if share is not None and share < 1 and follows:
        # Say how a model drew rows if all its trees count or sum them.
        method, seed = _method(model), model.trained_with("seed")
        uniform = found_in(model.config, "sampling_method") in (None, "uniform")
        # By "approx", trees of one round draw in another way.
        alone = method != "approx" or model.trained_with("num_parallel_tree") == 1
        if method is None or seed is None or not 0 <= seed < 2**31 or not uniform or not alone:
            return UnknownSampling(SUBSAMPLED(setting="subsample", share=share))
        return Subsample(forest_seed=int(seed), rule=XGBOOST_RULE.format(method, f"{share:g}"))
    if len(set(roots)) > 1:
        return UnknownSampling(DIFFERENT)
    if share is not None and share != 1:
        return UnknownSampling(SUBSAMPLED(setting="subsample", share=share))
    seen = share == 1 or len(roots) > 1 or (len(roots) == 1 and len(trees) == 1)
    off = 0.0 if seen else _off_of_same_rows(model, trees, fitting, rate)
    if off is not None and off <= SAME:
        return AllRows()
    # A file that says nothing of its training comes from one by default.
    plain = share is None and fitting is not None and fitting.plain and not model.config
    with_hessians = all(tree.statistics.get(HESSIAN) is not None for tree in trees)
    hist = _method(model, by_default=True) == "hist"
    if off is not None and off > DRAWN and plain and with_hessians and hist:
        return Subsample(rule=XGBOOST_OPEN)
    return UnknownSampling(UNTOLD)


def _method(model: Model, *, by_default: bool = False) -> str | None:
    """Say how trees were grown; None where the file does not, unless by default it is so."""
    updater, major = found_in(model.config, "updater_seq"), model.version.split(".")[0]
    if updater is None and by_default and major.isdigit() and int(major) >= HISTOGRAMS_SINCE:
        return "hist"
    return METHODS.get(updater.split(",")[0]) if isinstance(updater, str) else None


def _off_of_same_rows(
    model: Model, trees: Sequence[Tree], fitting: Fitting | None, rate: float | None
) -> float | None:
    """Say how far the second tree of a logistic loss is from having seen the rows of the first one.

    Rows of one leaf of the first tree have one prediction, so that its counts, or its sums of
    hessians where classes have weights, tell what the hessians at the root of the second one add up
    to. Gives the share by which they differ; None where that cannot be said.
    """
    one_by_one = len(trees) > 1 and model.n_outputs == 1 and model.weight_drop is None
    if model.objective not in LOGISTIC or not one_by_one:
        return None
    first, sums = trees[0], trees[0].statistics.get(HESSIAN)
    if (after := trees[1].statistics.get(HESSIAN)) is not None:
        there = float(after.values[0])
    elif fitting is not None and rate and not fitting.assumed:
        there = root_hessian(trees[1], rate, fitting.l2)
    else:
        return None
    rows = first.totals
    if fitting is not None and fitting.class_weights and sums is not None:
        chance = expit(model.base_scores[0])
        rows = sums.values / (chance * (1 - chance))
    if rows is None:
        return None
    due, different = sum_after(first, rows, float(model.base_scores[0]))
    # Another sample may lie alike in two or three leaves.
    known = different >= TELLING and due > 0 and np.isfinite(there)
    return abs(there - due) / due if known else None


def levels(model: Model, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Read the categories of columns that came as texts (3.1 on)."""
    cats = model.booster.get("cats")
    columns = cats.get("enc") if isinstance(cats, Mapping) else None
    out = {}
    for name, column in zip(names, columns if isinstance(columns, list) else (), strict=False):
        if not isinstance(column, Mapping) or "values" not in column:
            continue
        values, offsets = column["values"], column.get("offsets")
        texts: Sequence[str] | None = None
        if not isinstance(values, np.ndarray) or values.ndim != 1:
            continue
        if isinstance(offsets, np.ndarray):
            texts = _split(values, offsets)
        elif offsets is None and values.dtype.kind in "iuf":
            texts = [f"{x}" for x in values.tolist()]
        if texts and len(set(texts)) == len(texts):
            out[name] = tuple(texts)
    return out


def _split(values: Any, offsets: Any) -> list[str] | None:
    """Cut the bytes of all texts into texts."""
    if values.dtype.kind not in "iu" or offsets.dtype.kind not in "iu" or not offsets.size:
        return None
    inside = offsets[0] == 0 and offsets[-1] == len(values) and (np.diff(offsets) >= 0).all()
    if not inside or (values < -128).any() or (values > 255).any():
        return None
    raw = values.astype(np.uint8).tobytes()
    ends = offsets.tolist()
    parts = [raw[a:b] for a, b in pairwise(ends)]
    return [part.decode("utf-8", "replace") for part in parts]
