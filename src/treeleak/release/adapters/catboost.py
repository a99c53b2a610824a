"""CatBoost's models, from stored data to a release; CatBoost is asked for its JSON only.

What they do, found out from 1.2.2 and 1.2.10 and checked by training (a test):

- A tree asks all rows the same questions, one after the other: ``value > border``, in single
  precision. The answers are the bits of the number of a row's leaf. Missing values are less than
  all others, or greater. With another ``grow_policy``, trees are like those of other libraries.
- ``leaf_weights`` are the numbers of rows in all leaves, of the whole training set, however rows
  were sampled for the splits; with weights of rows or classes, they are sums of these.
- Zeros throughout stand for what was taken out.
- Leaves hold what they add, for each class where the loss has several.
- A category is known by a hash of its text.
- Where trees test statistics of the target, these stand first, as trees of their own: see
  :mod:`.catboost_ctr`. Of other trees, their other tests are kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from treeleak.core.arrays import FloatArray
from treeleak.core.declared import Declared, read
from treeleak.core.errors import BadInput, BadModel
from treeleak.core.message import MessageTemplate, static_message
from treeleak.core.signals import private_folder
from treeleak.release.adapters.boosted import BY_WEIGHT, ON_GPU, column_names
from treeleak.release.adapters.catboost_ctr import read_tables, with_known_categories
from treeleak.release.adapters.catboost_ctr_trees import with_tables
from treeleak.release.adapters.catboost_trees import Columns, Grown, grown, oblivious
from treeleak.release.bounds import MOST_CLASSES, MOST_COLUMNS, MOST_ROWS, MOST_TREES, at_most
from treeleak.release.checked_json import is_finite, is_whole, read_json
from treeleak.release.ensemble import Ensemble, Fitting
from treeleak.release.first_tree import rows_behind_weights, rows_of_both_classes
from treeleak.release.live import describes
from treeleak.release.readers.catboost_json import (
    is_catboost,
    is_sum,
    model_from_cbm,
    model_from_dict,
    trainings,
)
from treeleak.release.registry import adapter
from treeleak.release.release import ANOTHER, HASH, Part, Release
from treeleak.release.row_sets import of_row_sets
from treeleak.release.sampling import AllRows
from treeleak.release.statistics import (
    ROWS,
    VALUE,
    WEIGHTS,
    NodeStatistic,
    Quantity,
    Statistics,
)
from treeleak.release.stored import StoredObject
from treeleak.release.tree import Tree

NAMES = ("CatBoost", "CatBoostClassifier", "CatBoostRegressor", "CatBoostRanker")
WITH_CLASSES = ("Logloss", "MultiClass", "MultiClassOneVsAll", "Focal")
MOST_TEXT = 2**24
_SAME_SUM = 1e-4
"""By which share sums of weights of all rows, in single precision, may differ between trees."""

WEIGHTED = static_message(
    "the CatBoost model was trained with weights of rows or classes: its leaves hold sums of "
    "weights, not numbers of rows",
    "catboost_weighted",
)
COUNTLESS = static_message(
    "the CatBoost file holds no numbers of rows (leaf_weights)", "catboost_countless"
)
UNEQUAL = static_message(
    "the trees of the CatBoost model count different numbers of rows", "catboost_unequal"
)
TRAININGS = MessageTemplate(
    "catboost_trainings",
    "its trees come from {sets:number} trainings, as the file says (rows: {rows:foreign}): each is "
    "attacked by itself",
)
OPEN = MessageTemplate(
    "catboost_trainings_open",
    "the CatBoost model comes from {sets:number} trainings (sum_models, init_model), and the file "
    "does not say which trees belong to which: audit the models that it was made from",
)
HASHED = MessageTemplate(
    "categories_hashed",
    "Categories are known by hashes of their texts, in {columns:all_quoted}: whoever guesses a "
    "text can check it.",
)


@describes("catboost", *NAMES)
def _live(model: Any) -> Mapping[str, Any]:
    """Ask a live model for its JSON."""
    if not model.is_fitted():
        return {}
    with private_folder() as folder:
        path = folder / "model.json"
        model.save_model(str(path), format="json")
        return read_json(path, model_from_dict).state


@adapter("catboost", *NAMES)
def _model(stored: StoredObject) -> Release:
    name = stored.name
    if not is_catboost(stored.state):
        data = stored.get("__model")
        if not isinstance(data, bytes):
            raise BadInput(f"this {name} is not fitted")
        stored = model_from_cbm(data)
    return _of_trainings(stored.state, name)


def _of_trainings(data: Mapping[str, Any], name: str) -> Release:
    """Read a model; of a sum, or one that went on from another, the trees of each training."""
    info, kind = data.get("model_info"), _kind_of_trees(data)
    every = trainings(info) if isinstance(info, Mapping) else []
    listed = [own for own in every if "params" in own]
    trees = data.get(kind)
    if len(listed) < 2 or not isinstance(trees, list):
        return _release(data, name)
    ends = np.cumsum([0, *(_rounds(own) for own in listed)]).tolist()
    if ends[-1] != len(trees) or 0 in np.diff(ends):
        release = _release(data, name)
        ensemble = release.ensemble and replace(release.ensemble, fitting=None)
        return replace(
            release, ensemble=ensemble, not_covered=release.not_covered or OPEN(sets=len(listed))
        )
    parts = []
    for own, (first, end) in zip(listed, pairwise(ends), strict=True):
        part = _release({**data, kind: trees[first:end], "model_info": own}, name)
        if part.ensemble is not None and (first or is_sum(info or {})):
            # Weights of a sum are in no file; nor is what trees before said of these rows.
            part = replace(part, ensemble=replace(part.ensemble, fitting=None))
        parts.append(Part(f"trees {first} to {end - 1}", part))
    return of_row_sets(parts, TRAININGS)


def _rounds(info: Mapping[str, Any]) -> int:
    """Count the rounds of a training: its scores after each, or else those that it was to have."""
    listed = _inside(_params(info.get("training")), "metrics", "learn_metrics_history")
    rounds = _inside(_params(info.get("params")), "boosting_options", "iterations")
    if isinstance(listed, list) and listed:
        return len(listed)
    return rounds if is_whole(rounds, 0, MOST_TREES + 1) else 0


def _kind_of_trees(data: Mapping[str, Any]) -> str:
    return "oblivious_trees" if "oblivious_trees" in data else "trees"


def _scale_and_bias(data: Mapping[str, Any]) -> tuple[float, tuple[float, ...]]:
    """Read how sums over trees are scaled, and what each output starts from."""
    pair = data.get("scale_and_bias", [1, [0]])
    if not isinstance(pair, list) or len(pair) != 2:
        raise BadModel("scale_and_bias is not a pair")
    scale, bias = pair[0], pair[1] if isinstance(pair[1], list) else pair[1:]
    if not is_finite(scale) or not bias or not all(map(is_finite, bias)):
        raise BadModel("scale_and_bias holds something other than numbers")
    at_most(MOST_CLASSES, len(bias), "outputs")
    return float(scale), tuple(map(float, bias))


def _release(data: Mapping[str, Any], name: str) -> Release:
    columns, texts, notes = _columns(data["features_info"])
    tables = read_tables(data.get("ctr_data") or {}, columns)
    if tables:
        columns = with_known_categories(columns, tables, texts)
    scale, bias = _scale_and_bias(data)
    info = data.get("model_info")
    info = info if isinstance(info, Mapping) else {}
    params = _params(info.get("params"))
    trees = _trees(data, columns, len(bias))
    loss = _inside(params, "loss_function", "type")
    classes = _classes(info.get("class_params"), len(bias)) if loss in WITH_CLASSES else ()
    weights = _inside(params, "data_processing_options", "class_weights")
    balanced = _inside(params, "data_processing_options", "auto_class_weights")
    quantity, not_covered = _unit(trees, bool(weights) or balanced not in (None, "None"))
    rate = _inside(params, "boosting_options", "learning_rate")
    fitting = _fitting(params, str(loss), quantity == ROWS or bool(weights))
    if any(tree.values is None for tree in trees) or not (quantity == ROWS or _same_sums(trees)):
        fitting = None
    if fitting is None or not is_finite(rate) or scale != 1 or len(bias) > 1:
        counted, fitting = None, fitting if quantity == ROWS else None
    else:
        counted, fitting = _of_first_tree(
            trees[0], weights, quantity, fitting, float(rate), bias[0]
        )
    if quantity == WEIGHTS:
        not_covered = WEIGHTED if counted is None else None
    if fitting is not None and _inside(params, "task_type") not in (None, "CPU"):
        fitting, notes = None, (*notes, ON_GPU)
    n_rows = None
    if quantity == ROWS and trees[0].weights is not None and not_covered is None:
        n_rows = int(trees[0].weights.sum())
    if quantity == ROWS:
        notes = (*notes, BY_WEIGHT)
    if columns.levels:
        notes = (*notes, HASHED(columns=sorted(columns.levels)[:5]))
    version = str(info.get("catboost_version_info", ""))
    read = [_with_leaf_values(tree, quantity, scale, len(classes)) for tree in trees]
    if counted is not None:
        read[0] = read[0].with_statistics(Statistics((counted, *read[0].statistics)))
        n_rows = int(counted.values[0])
    release = Release(
        trees=tuple(read),
        feature_names=columns.names,
        classes=classes,
        sampling=AllRows(),
        n_rows=n_rows,
        not_covered=not_covered,
        maybe_missing=columns.maybe_missing,
        levels=columns.levels,
        float_type="float32",
        origin=f"CatBoost{_version(version)}, {name}",
        adds_weights=True,
        n_targets=1 if len(bias) == len(classes) else len(bias),
        notes=notes,
        ensemble=Ensemble(
            f"{loss or ''!s:.80}",
            bias,
            float(rate) if is_finite(rate) else None,
            fitting,
        ),
    )
    parted = any(tree.values is None for tree in trees)
    return with_tables(release, tables, columns) if parted else release


def _same_sums(trees: Sequence[Grown]) -> bool:
    """Say whether all trees have the same sum of weights, none of which is negative."""
    held = [tree.weights for tree in trees if tree.weights is not None]
    sums = [float(weights.sum()) for weights in held]
    return all((w >= 0).all() for w in held) and np.allclose(sums, sums[0], rtol=_SAME_SUM)


def _of_first_tree(
    tree: Grown, weights: Any, quantity: Quantity, fitting: Fitting, rate: float, start: float
) -> tuple[NodeStatistic | None, Fitting | None]:
    """Learn from a first tree, before which all rows are alike, what they weigh.

    Of weights of two classes, the rows in its nodes; of whole weights that look like numbers of
    rows, their mean, by which l2 was multiplied.
    """
    if tree.weights is None or tree.values is None or tree.values.shape[1] > 1:
        return None, fitting if quantity == ROWS else None
    if quantity == ROWS:
        rows = rows_behind_weights(tree.weights, tree.values[:, 0], fitting, rate, start)
        mean = 1.0 if rows is None else float(tree.weights.sum()) / rows
        return None, replace(fitting, l2=fitting.l2 * mean)
    listed = isinstance(weights, list) and len(weights) == 2 and all(map(is_finite, weights))
    if not listed or fitting.loss != "logistic":
        return None, None
    fitting = replace(fitting, class_weights=tuple(map(float, weights)))
    found = rows_of_both_classes(tree.weights, tree.values[:, 0], fitting, rate, start)
    if found is None:
        return None, None
    rows_of_leaves = _at_leaves(tree.shape, found[0].sum(axis=0))
    return NodeStatistic(ROWS, tree.shape.summed(rows_of_leaves)), found[1]


def _at_leaves(shape: Tree, numbers: FloatArray) -> FloatArray:
    """Put numbers of leaves at their nodes, 0 at others."""
    out = np.zeros((shape.n_nodes, *numbers.shape[1:]))
    out[shape.leaves] = numbers
    return out


def _fitting(params: Any, loss: str, counted: bool) -> Fitting | None:
    """Say how leaves were fitted: by steps of Newton's method, one of them for squares."""
    method = _inside(params, "tree_learner_options", "leaf_estimation_method")
    steps = _inside(params, "tree_learner_options", "leaf_estimation_iterations")
    l2 = _inside(params, "tree_learner_options", "l2_leaf_reg")
    shrunk = _inside(params, "boosting_options", "model_shrink_rate")
    plain = method == "Newton" and counted and shrunk in (None, 0)
    if not plain or not is_finite(l2) or not is_whole(steps, 1, 1000):
        return None
    if loss == "RMSE" and steps == 1:
        # Where rows have scores of their own (baseline), CatBoost does not start from the mean.
        at_mean = _inside(params, "boosting_options", "boost_from_average") is True
        l2 = max(float(l2), 0.0)
        return Fitting("squared", l2, targets="float32", offsets_shown=at_mean)
    return Fitting("logistic", max(float(l2), 0.0), steps) if loss == "Logloss" else None


def _trees(data: Mapping[str, Any], columns: Columns, outputs: int) -> list[Grown]:
    kind = _kind_of_trees(data)
    raw = data.get(kind)
    if not isinstance(raw, list) or not raw or not all(isinstance(t, Mapping) for t in raw):
        raise BadModel("the model has no list of trees")
    at_most(MOST_TREES, len(raw), "trees")
    read = oblivious if kind == "oblivious_trees" else grown
    return [read(tree, columns, outputs, f"tree {t}") for t, tree in enumerate(raw)]


def _unit(trees: Sequence[Grown], weighted: bool) -> tuple[Any, str | None]:
    """Say what leaves count, and what keeps it from being rows."""
    sums = [tree.weights for tree in trees if tree.weights is not None and tree.weights.any()]
    if len(sums) < len(trees):
        return ROWS, COUNTLESS
    whole = all(((w >= 0) & (w <= MOST_ROWS) & (w == np.floor(w))).all() for w in sums)
    if weighted or not whole:
        return WEIGHTS, WEIGHTED
    return ROWS, UNEQUAL if len({float(w.sum()) for w in sums}) > 1 else None


def _with_leaf_values(tree: Grown, quantity: Any, scale: float, n_classes: int) -> Tree:
    """Put the numbers of a tree's leaves at its nodes."""
    statistics = []
    shape = tree.shape
    if tree.weights is not None and tree.weights.any():
        weights = shape.summed(_at_leaves(shape, tree.weights))
        statistics.append(NodeStatistic(quantity, weights))
    outputs = 0 if tree.values is None else tree.values.shape[1]
    if tree.values is not None and outputs in (1, n_classes):
        value = (tree.values[:, 0] if outputs == 1 else tree.values) * scale
        statistics.append(NodeStatistic(VALUE, _at_leaves(shape, value), shape.is_leaf.copy()))
    return shape.with_statistics(Statistics(tuple(statistics)))


# ----------------------------------------------------------------------------- beside the trees


_Number = Annotated[int, Meta(ge=0, lt=MOST_COLUMNS)]


class _Column(Declared, frozen=True, forbid_unknown_fields=False):
    """A column; what else stands there is no matter."""

    flat_feature_index: _Number
    feature_index: _Number
    feature_id: str = ""
    has_nans: bool = False
    nan_value_treatment: str = ""
    values: list[int] | None = None


class _Hashed(Declared, frozen=True, forbid_unknown_fields=False):
    """A hash of a category, and its text, which a file holds that was saved with a pool of rows."""

    hash: Annotated[int, Meta(ge=-(2**31), lt=2**32)]
    value: str


def _columns(info: Mapping[str, Any]) -> tuple[Columns, dict[int, str], tuple[str, ...]]:
    """Read the columns of every kind, which have one numbering in common, and texts of hashes."""
    held = {
        k: info.get(f"{k}_features") or [] for k in ("float", "categorical", "text", "embedding")
    }
    of_kind = read(dict[str, list[_Column]], held, BadModel)
    hashes = read(list[_Hashed], info.get("cat_features_hash") or [], BadModel)
    every = [column for listed in of_kind.values() for column in listed]
    named = {column.flat_feature_index: column.feature_id for column in every}
    if len(named) < len(every):
        raise BadModel("features_info: a column appears twice")
    n = max(named, default=-1) + 1
    texts = [named.get(i) or None for i in range(n)]
    numbered = texts == list(map(str, range(n))) or not any(texts)
    names, notes = column_names(None if numbered else texts, n)
    numeric, categorical = (
        {c.feature_index: c.flat_feature_index for c in of_kind[k]}
        for k in ("float", "categorical")
    )
    listed = {c.flat_feature_index: c.values for c in of_kind["categorical"]}
    values = {flat: tuple(codes) for flat, codes in listed.items() if codes is not None}
    levels = {
        names[flat]: (*(f"{HASH}{x}" for x in codes), ANOTHER)
        for flat, codes in values.items()
        if codes
    }
    as_true = frozenset(c.flat_feature_index for c in every if c.nan_value_treatment == "AsTrue")
    missing = frozenset(names[c.flat_feature_index] for c in every if c.has_nans)
    columns = Columns(names, numeric, categorical, as_true, values, levels, missing)
    return columns, {(h.hash + 2**31) % 2**32 - 2**31: h.value for h in hashes}, notes


def _params(params: Any) -> Mapping[str, Any]:
    """Take the parameters of the training: an object, or the text of one."""
    if isinstance(params, str) and len(params) < MOST_TEXT:
        try:
            params = json.loads(params)
        except (ValueError, RecursionError):
            return {}
    return params if isinstance(params, Mapping) else {}


def _inside(data: Any, *keys: str) -> Any:
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def _classes(params: Any, outputs: int) -> tuple[Any, ...]:
    parsed = _params(params)
    names = parsed.get("class_names") or parsed.get("class_to_label") or ()
    plain = isinstance(names, list) and all(
        isinstance(x, (str, bool)) or is_finite(x) for x in names
    )
    labels = tuple(names) if plain else ()
    at_most(MOST_CLASSES, len(labels), "classes")
    if len(labels) == outputs > 1 or (outputs == 1 and len(labels) == 2):
        return labels
    return (0, 1) if outputs == 1 else tuple(range(outputs))


def _version(text: str) -> str:
    """Find the version in what CatBoost says of how it was built."""
    word = text.partition("release ")[2].partition(".")
    rest = word[2].partition(" ")[0]
    version = f"{word[0]}.{rest}".rstrip(".").replace("\n", "")
    return f" {version:.20}" if version[:1].isdigit() else ""
