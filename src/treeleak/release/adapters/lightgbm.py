"""LightGBM's models, from stored data to a release; LightGBM is not imported.

What they do, found out from 3.3.5 and 4.7.0 and checked by training (a test):

- A row goes left where ``value <= threshold``, in double precision. Where a node knows no missing
  values, they count as 0; where it takes zeros for missing, zeros go the way of missing values.
  Of a test for categories the stored ones go left, and missing values right. What lies within 1e-35
  of zero is zero to it before any tree sees it.
- ``leaf_count`` and ``internal_count`` count rows in every tree, whatever their weights: the rows
  that the tree saw. Where several machines train, they are estimates.
- Leaves hold what they add, and those of the first tree the start as well. What is said of inner
  nodes is rounded to six digits.
- All parameters of the training stand behind the trees, with their seeds.
- ``feature_infos`` has the least and the greatest value of each column of numbers, missing ones
  aside: of all rows, unless there are more than ``bin_construct_sample_cnt``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.core.errors import BadInput, BadModel, NotCovered
from treeleak.release.adapters.boosted import (
    DIFFERENT,
    EARLY,
    NUMBERED,
    ON_GPU,
    SUBSAMPLED,
    column_names,
    count_in,
    finite,
    numbers,
    whole_numbers,
)
from treeleak.release.adapters.lightgbm_fitting import (
    AVERAGE,
    COUNTLESS,
    GOSS,
    MISCOUNTED,
    OWN_RATES,
    OWN_START,
    UNTOLD,
    VALUES_ALONE,
    ZEROS,
    dropped_trees,
    exact,
    fitting_of,
    one_rate,
    one_start,
    rate_of,
    with_category_l2,
    with_first_rows,
    without_estimates,
)
from treeleak.release.adapters.lightgbm_untold import saw_all_rows, shown_parameters
from treeleak.release.bounds import MOST_CATEGORY, MOST_CLASSES, MOST_COLUMNS, MOST_NODES, MOST_ROWS
from treeleak.release.checked_json import located
from treeleak.release.draws.boosters import LIGHTGBM_RULE
from treeleak.release.ensemble import Ensemble, as_grown, kept_shares
from treeleak.release.first_tree import with_weights
from treeleak.release.readers.lightgbm_text import LINEAR, booster_from_text
from treeleak.release.registry import adapter
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows, Sampling, Subsample, UnknownSampling
from treeleak.release.statistics import DRAWS, GAIN, HESSIAN, ROWS, VALUE, NodeStatistic, Statistics
from treeleak.release.stored import StoredObject
from treeleak.release.tree import LEAF, CategorySets, Tree

ESTIMATORS = ("LGBMClassifier", "LGBMRegressor", "LGBMRanker", "LGBMModel")
# LightGBM takes numbers up to this for zero.
ZERO = float(np.float32(1e-35))
MOST_JSON = 2**24
_NUMBER = r"-?\d{1,320}(?:\.\d{1,40})?(?:e[-+]?\d{1,4})?"
CATEGORICAL, DEFAULT_LEFT = 1, 2
MISSING = {"none": 0, "zero": 1, "nan": 2}


@adapter("lightgbm", "Booster")
def _booster(stored: StoredObject) -> Release:
    """Read a model, and say where predictions stop before its last round."""
    release = replace(_release(_parsed(stored)), sources=(stored,))
    best = stored.get("best_iteration")
    outputs = 1 if release.ensemble is None else len(release.ensemble.base_scores)
    if isinstance(best, int) and 0 < best < len(release.trees) // outputs:
        return replace(release, notes=(*release.notes, EARLY(round=best)))
    return release


@adapter("lightgbm", *ESTIMATORS)
def _estimator(stored: StoredObject) -> Release:
    inner = stored.get("_Booster")
    if not isinstance(inner, StoredObject):
        raise BadInput(f"this {stored.name} is not fitted")
    release = _booster(inner)
    notes = release.notes
    labels = stored.get("_classes")
    if release.classes and isinstance(labels, np.ndarray) and labels.shape == (release.n_classes,):
        plain = tuple(labels.tolist())
        if all(isinstance(label, (str, int, float, bool)) for label in plain):
            notes = tuple(note for note in notes if note != NUMBERED)
            release = replace(release, classes=plain)
    origin = f"{release.origin.rpartition(',')[0]}, {stored.name}"
    return replace(release, notes=notes, origin=origin)


def _parsed(stored: StoredObject) -> StoredObject:
    """Read the text that an object keeps of itself."""
    if "trees" in stored.state:
        return stored
    text = stored.get("_handle", stored.get("handle"))
    if not isinstance(text, str):
        raise BadInput("this Booster is not fitted")
    return booster_from_text(text)


def _release(stored: StoredObject) -> Release:
    n_columns = 1 + count_in(stored.state, "max_feature_idx", MOST_COLUMNS - 1)
    outputs = count_in(stored.state, "num_tree_per_iteration", MOST_CLASSES)
    if outputs == 0:
        raise BadModel("num_tree_per_iteration is 0")
    raw = stored.get("trees")
    trees = [
        _tree(t, fields, n_columns, t % outputs if outputs > 1 else None)
        for t, fields in enumerate(raw)
    ]
    parameters, infos = stored.get("parameters", {}), stored.get("feature_infos", "")
    infos = infos.split(" ") if isinstance(infos, str) else []
    untold = not parameters
    parameters = parameters or shown_parameters(trees, stored.state, outputs, infos)
    bent = with_category_l2(trees, parameters, infos)
    trees = trees if bent is None else bent
    objective = stored.get("objective", "")
    rate = rate_of(parameters, raw)
    drawn = isinstance(_sampling(parameters, trees), Subsample)
    dart = parameters.get("boosting") == "dart"
    dropped = dropped_trees(parameters, raw, rate) if dart and rate and outputs == 1 else None
    first = trees[0] if dropped is None else as_grown(trees[0], kept_shares(dropped)[0])
    fitting = fitting_of(objective, parameters, [first, *trees[1:]], outputs, rate, drawn=drawn)
    if fitting is not None and dart:
        usable = dropped is not None and fitting.loss == "logistic" and not drawn
        fitting = replace(fitting, dropped=dropped) if usable and dropped is not None else None
    notes: tuple[str, ...] = ()
    if fitting is not None and not exact(parameters):
        fitting, notes = None, (ON_GPU,)
    if fitting is not None and not fitting.dropped and not one_rate(raw, outputs, rate):
        fitting, notes = None, (OWN_RATES,)
    fitting = None if bent is None else fitting
    trees = without_estimates(trees, parameters, fitting)
    sampling = _sampling(parameters, trees)
    if untold and saw_all_rows(trees, outputs, fitting, rate):
        sampling = AllRows()
    n_rows = None
    if isinstance(sampling, AllRows):
        trees = with_first_rows(trees, fitting)
        roots = [t.totals[0] for t in trees if t.totals is not None]
        n_rows = int(max(roots, default=0)) or None
        if fitting is not None and not one_start(trees, fitting, rate):
            fitting = with_weights(first, fitting, rate)
            if fitting is None:
                notes = (OWN_START,)
                trees = without_estimates(trees, parameters, None)
        trees = [_with_all(tree, n_rows) for tree in trees]
    not_covered = None
    if any(tree.statistics.get(ROWS) is None for tree in trees):
        if fitting is not None and fitting.of_classes and untold:
            # What is assumed here, the values of leaves confirm or contradict.
            sampling, notes = AllRows(), (*notes, VALUES_ALONE)
        elif fitting is None or not fitting.of_classes or not isinstance(sampling, AllRows):
            not_covered = COUNTLESS
    elif not all(_adds_up(tree) for tree in trees):
        not_covered = MISCOUNTED
    if isinstance(sampling, Subsample):
        trees = [
            tree.with_counts(DRAWS) if tree.n_nodes > 1 else tree.with_counts(totals=None)
            for tree in trees
        ]
    names, more_notes = column_names(stored.get("feature_names", "").split(), n_columns)
    notes = (*notes, *more_notes)
    kind = objective.split(" ")[0]
    classes: tuple[Any, ...] = ()
    if kind == "binary":
        classes = (0, 1)
    elif kind in ("multiclass", "multiclassova") and outputs > 1:
        classes = tuple(range(outputs))
    if classes:
        notes = (*notes, NUMBERED)
    if "average_output" in stored.state:
        notes = (*notes, AVERAGE)
    return Release(
        trees=tuple(trees),
        feature_names=names,
        classes=classes,
        sampling=sampling,
        n_rows=n_rows,
        not_covered=not_covered,
        maybe_missing=_maybe_missing(raw, names),
        levels=_levels(stored, parameters, names),
        ranges=_ranges(infos, parameters, names, n_rows),
        # Its own bins end between neighbours; but for 1e-35, which parts zero from the rest.
        thresholds_are="unknown" if parameters.get("forcedbins_filename") else "neighbours",
        origin=f"LightGBM (format {stored.get('version', 'unknown')!s:.20}), Booster",
        notes=notes,
        ensemble=Ensemble(f"{objective:.80}", (0.0,) * outputs, rate, fitting),
    )


def _maybe_missing(raw: Sequence[Mapping[str, Any]], names: Sequence[str]) -> frozenset[str]:
    """Name the columns whose tests know missing values: there were some in training.

    Of categories, rare ones may be all that was missing.
    """
    columns: set[int] = set()
    for tree in raw:
        if "decision_type" in tree and tree["num_leaves"][0] > 1:
            decision = tree["decision_type"].astype(np.int64)
            known = decision >> 2 != MISSING["none"]
            columns |= set(tree["split_feature"][known].astype(np.int64).tolist())
    return frozenset(names[column] for column in columns)


def _tree(t: int, raw: Mapping[str, Any], n_columns: int, output: int | None) -> Tree:
    where = f"tree {t}"
    if numbers(raw, "is_linear", 1, where).any() if "is_linear" in raw else False:
        raise NotCovered(LINEAR)
    n_leaves = int(whole_numbers(raw, "num_leaves", 1, (1, MOST_NODES), where)[0])
    n = n_leaves - 1
    values = _pair(raw, "value", n, n_leaves, where)
    if values is None:
        raise BadModel(f"{where}: leaf_value is missing")
    read = {quantity: _pair(raw, key, n, n_leaves, where)
            for quantity, key in ((HESSIAN, "weight"), (ROWS, "count"))}  # fmt: skip
    statistics = [finite(VALUE, *values)]
    for quantity, pair in read.items():
        if pair is not None:
            statistics.append(
                _counted(*pair, where) if quantity == ROWS else finite(quantity, *pair)
            )
    leaf = np.arange(n + n_leaves) >= n
    if n == 0:
        one = np.full(1, LEAF)
        return Tree(one, np.full(1, np.nan), one, one, np.zeros(1, bool),
                    Statistics(tuple(statistics)), output=output)  # fmt: skip
    feature = whole_numbers(raw, "split_feature", n, (0, n_columns), where)
    children = [
        whole_numbers(raw, f"{side}_child", n, (-n_leaves, n), where) for side in ("left", "right")
    ]
    left, right = (np.where(child < 0, n + ~child, child) for child in children)
    threshold = numbers(raw, "threshold", n, where)
    decision = whole_numbers(raw, "decision_type", n, (0, 16), where)
    tested = decision & CATEGORICAL > 0
    sets = _categories(raw, threshold, tested, where)
    # Say where missing values go left, and refuse zeros that go another way than their value.
    kind, default = decision >> 2, decision & DEFAULT_LEFT > 0
    zero_left = threshold >= 0
    zeros = (kind == MISSING["zero"]) & ~tested
    apart = zeros & ((default != zero_left) | ((threshold >= -ZERO) & (threshold < ZERO)))
    if apart.any():
        raise NotCovered(ZEROS.format(t, int(apart.argmax())))
    missing_left = np.where(kind == MISSING["none"], zero_left, default) & ~tested
    if "split_gain" in raw:
        gain = np.append(numbers(raw, "split_gain", n, where), np.zeros(n_leaves))
        statistics.append(finite(GAIN, gain, ~leaf))
    ends = np.full(n_leaves, LEAF)
    with located(f"{where}: "):
        return Tree(
            feature=np.append(feature, ends),
            threshold=np.append(np.where(tested, np.nan, threshold), np.full(n_leaves, np.nan)),
            left=np.append(left, ends),
            right=np.append(right, ends),
            missing_left=np.append(missing_left, np.zeros(n_leaves, dtype=bool)),
            statistics=Statistics(tuple(statistics)),
            categories=sets,
            output=output,
        )


def _pair(
    raw: Mapping[str, Any], key: str, n: int, n_leaves: int, where: str
) -> tuple[FloatArray, BoolArray] | None:
    """Read what is said of leaves and of inner nodes, and which of them it is said of."""
    if f"leaf_{key}" not in raw or (n == 0 and not raw[f"leaf_{key}"].size):
        return None
    leaves = numbers(raw, f"leaf_{key}", n_leaves, where)
    inner, present = np.zeros(n), np.zeros(n, dtype=bool)
    if f"internal_{key}" in raw and n:
        inner, present = numbers(raw, f"internal_{key}", n, where), ~present
    return np.append(inner, leaves), np.append(present, np.ones(n_leaves, dtype=bool))


def _counted(values: FloatArray, present: BoolArray, where: str) -> NodeStatistic:
    bad = ~((values >= 0) & (values <= MOST_ROWS) & (values == np.floor(values)))
    if bad.any():
        at = int(bad.argmax())
        raise BadModel(f"{where}, node {at}: {values[at]:g} is not a number of rows")
    return NodeStatistic(ROWS, values, None if present.all() else present)


def _categories(
    raw: Mapping[str, Any], threshold: FloatArray, tested: BoolArray, where: str
) -> CategorySets | None:
    """Read the tests for categories: words of 32 bits, whose place the threshold names."""
    if not tested.any():
        return None
    words = whole_numbers(raw, "cat_threshold", None, (0, 2**32), where)
    bounds = whole_numbers(raw, "cat_boundaries", None, (0, len(words) + 1), where)
    if 32 * len(words) >= MOST_CATEGORY or (np.diff(bounds) < 0).any():
        raise BadModel(f"{where}: cat_boundaries do not share out the categories")
    node, value = [], []
    for v in np.flatnonzero(tested).tolist():
        place = threshold[v]
        if not (0 <= place < len(bounds) - 1 and place == np.floor(place)):
            raise BadModel(f"{where}, node {v}: no categories at place {place:g}")
        first, last = (int(b) for b in bounds[int(place) : int(place) + 2])
        bits = words[first:last, None] >> np.arange(32) & 1
        members = np.flatnonzero(bits.ravel())
        if not members.size:
            raise BadModel(f"{where}, node {v}: a test for categories without categories")
        node.append(np.full(len(members), v))
        value.append(members)
    return CategorySets(np.concatenate(node), np.concatenate(value))


def _with_all(tree: Tree, n_rows: int | None) -> Tree:
    """Count all rows in a tree that is one leaf: of such a one, files say that, 0, or nothing."""
    if n_rows is None or tree.n_nodes > 1:
        return tree
    others = (entry for entry in tree.statistics if entry.quantity != ROWS)
    rows = NodeStatistic(ROWS, np.full(1, float(n_rows)))
    return tree.with_statistics(Statistics((rows, *others)))


def _adds_up(tree: Tree) -> bool:
    rows, entry = tree.totals, tree.statistics.get(ROWS)
    if rows is None or entry is None:
        return False
    inner = np.flatnonzero(~tree.is_leaf & entry.held)
    return np.array_equal(rows[inner], rows[tree.left[inner]] + rows[tree.right[inner]])


def _sampling(parameters: Mapping[str, str], trees: Sequence[Tree]) -> Sampling:
    """Say which rows each tree saw, by the parameters of the training."""
    if not {"boosting", "bagging_fraction", "bagging_freq"} <= set(parameters):
        return UnknownSampling(UNTOLD)
    if "goss" in (parameters["boosting"], parameters.get("data_sample_strategy")):
        return UnknownSampling(GOSS)
    names = ("bagging_fraction", "pos_bagging_fraction", "neg_bagging_fraction")
    shares = [parameters.get(name, "1") for name in names]
    if parameters["bagging_freq"] != "0" and set(shares) != {"1"}:
        seed, by_query = parameters.get("bagging_seed", ""), parameters.get("bagging_by_query", "0")
        alone = parameters.get("num_machines", "1") == "1" and by_query == "0"
        if shares[1:] == ["1", "1"] and alone and re.fullmatch(r"\d{1,9}", seed):
            rule = LIGHTGBM_RULE.format(shares[0][:20], parameters["bagging_freq"][:6])
            return Subsample(forest_seed=int(seed), rule=rule)
        stored_share = next(share for share in shares if share != "1")
        if not re.fullmatch(_NUMBER, stored_share):
            return UnknownSampling(UNTOLD)
        return UnknownSampling(SUBSAMPLED(setting="bagging_fraction", share=float(stored_share)))
    roots = {float(t.totals[0]) for t in trees if t.totals is not None and t.n_nodes > 1}
    return UnknownSampling(DIFFERENT) if len(roots) > 1 else AllRows()


def _levels(
    stored: StoredObject, parameters: Mapping[str, str], names: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Read the categories of columns that came as texts."""
    text, columns = stored.get("pandas_categorical"), parameters.get("categorical_feature", "")
    if not isinstance(text, str) or len(text) > MOST_JSON or not columns:
        return {}
    try:
        lists = json.loads(text)
        places = [int(column) for column in columns.split(",")]
    except (ValueError, RecursionError):
        return {}
    if not isinstance(lists, list) or len(lists) != len(places):
        return {}
    out = {}
    for place, category_list in zip(places, lists, strict=True):
        texts = tuple(str(x) for x in category_list) if isinstance(category_list, list) else ()
        if texts and len(set(texts)) == len(texts) and 0 <= place < len(names):
            out[names[place]] = texts
    return out


def _ranges(
    words: Sequence[str], parameters: Mapping[str, str], names: Sequence[str], n_rows: int | None
) -> dict[str, tuple[float, float]]:
    """Read the ends of columns of numbers, where they are those of all rows."""
    seen = parameters.get("bin_construct_sample_cnt", "")
    all_seen = n_rows is not None and re.fullmatch(r"\d{1,9}", seen) and n_rows <= int(seen)
    if not all_seen or parameters.get("num_machines") != "1" or len(words) != len(names):
        return {}
    out = {}
    for name, word in zip(names, words, strict=True):
        low, _, high = word[1:-1].partition(":")
        if re.fullmatch(rf"\[{_NUMBER}:{_NUMBER}\]", word) and float(low) <= float(high):
            out[name] = (float(low), float(high))
    return {name: ends for name, ends in out.items() if np.isfinite(ends).all()}
