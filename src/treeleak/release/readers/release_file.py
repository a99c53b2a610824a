"""The release file: trees and counts as JSON, for models of any library.

docs/release-format.md explains the format to those who write it. What a file says is taken for
hostile until checked: nothing in it is run, every array is as long as the text that holds it, and
every index is checked before it is used.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np

from treeleak.core.arrays import BoolArray
from treeleak.core.errors import BadInput, BadModel
from treeleak.core.output import write_file
from treeleak.core.private import dataclass
from treeleak.release.bounds import MOST_CATEGORY, MOST_CLASSES, MOST_COLUMNS, MOST_TREES, at_most
from treeleak.release.checked_json import (
    EXACT_WHOLE,
    REQUIRED,
    choice,
    is_finite,
    is_whole,
    label,
    read_json,
    take,
    texts,
)
from treeleak.release.noise.laws import (
    ROUNDINGS,
    CountNoise,
    DiscreteLaplace,
    Gaussian,
    LabelNoise,
    LabelRule,
    Laplace,
)
from treeleak.release.readers.release_nodes import (
    categories_from_list,
    check_sums,
    output_from,
    statistics_from_dict,
    statistics_to_dict,
    tests_to_dict,
    totals_are,
)
from treeleak.release.statistics import (
    DISTINCT,
    QUANTITIES,
    NodeStatistic,
    Quantity,
    Statistics,
)
from treeleak.release.tree import (
    LEAF,
    AllRows,
    Bootstrap,
    CountsAre,
    Disjoint,
    Ensemble,
    Release,
    Sampling,
    Subsample,
    ThresholdsAre,
    Tree,
    UnknownSampling,
)

FORMAT = "treeleak-release"
FORMAT_VERSION = 1
FLOAT_TYPES = ("float32", "float64")
# Beyond these, noise hides everything or nothing, and its moments leave the range of the floats.
NOISE_BETWEEN = (1e-9, 1e9)
# What is rounded is summed over every value.
MAX_SIGMA = 1e5


def write_release(release: Release, path: str | Path, *, overwrite: bool = True) -> None:
    """Write a release as a JSON file, see :func:`release_to_dict`."""
    text = json.dumps(release_to_dict(release), allow_nan=False, separators=(",", ":"))
    write_file(path, text + "\n", overwrite=overwrite)


def read_release(source: str | Path) -> Release:
    """Read a release file.

    Parameters
    ----------
    source : str or Path
        The file, or its text (a ``str`` that starts with a brace).

    Raises
    ------
    BadModel
        If it is no release, naming the file and, where there is one, the tree and the node.
    """
    return read_json(source, release_from_dict)


def release_to_dict(release: Release) -> dict[str, Any]:
    """Describe a release in plain lists, texts and numbers that JSON can hold.

    Nothing is added to what the release says, and nothing left out: the seeds of trees
    and the weights of rows are there if the model holds them: an adversary has them too.

    Raises
    ------
    BadInput
        If a class label is neither text nor a finite number nor a truth value, or the rows were
        drawn in a way, or noise added, that the format does not know.
    """
    noise = {} if release.noise is None else {"noise": _noise_to_dict(release.noise)}
    levels = {name: list(texts) for name, texts in release.levels.items()}
    borders = {name: list(cuts) for name, cuts in release.borders.items()}
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "origin": release.origin,
        "columns": list(release.feature_names),
        "classes": [label(c) for c in release.classes],
        "n_rows": _plain(release.n_rows),
        "counts_are": release.counts_are,
        **({} if release.ensemble is None else {"ensemble": _ensemble_to_dict(release.ensemble)}),
        "sampling": _sampling_to_dict(release.sampling),
        **noise,
        **({} if release.thresholds_are == "unknown" else {"thresholds_are": "midpoints"}),
        "float_type": release.float_type,
        "maybe_missing": sorted(release.maybe_missing),
        "one_hot": {name: list(columns) for name, columns in release.one_hot.items()},
        **({"levels": levels} if levels else {}),
        **({"borders": borders} if borders else {}),
        "not_covered": release.not_covered,
        "notes": list(release.notes),
        "trees": [_tree_to_dict(tree, release) for tree in release.trees],
    }


def release_from_dict(data: Any) -> Release:
    """Read what :func:`release_to_dict` wrote.

    Raises
    ------
    BadModel
        Naming the key, and the tree and the node where there is one.
    """
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        raise BadModel(f'no release: "format" is not "{FORMAT}"')
    if data.get("version") != FORMAT_VERSION:
        raise BadModel(
            f"release format version {data.get('version')!r:.40}; "
            f"this program reads version {FORMAT_VERSION}"
        )
    if unknown := set(data) - _KEYS:
        raise BadModel(f"unknown keys {sorted(map(str, unknown))[:5]}")
    columns = texts(data, "columns")
    trees = take(data, "trees", list)
    at_most(MOST_COLUMNS, len(columns), "columns")
    at_most(MOST_TREES, len(trees), "trees")
    if not trees:
        raise BadModel("trees is empty: a model has one or more")
    at_most(MOST_CLASSES, len(take(data, "classes", list)), "classes")
    classes = tuple(label(c) for c in data["classes"])
    one_hot = {
        name: tuple(texts({name: group}, name, "one_hot: "))
        for name, group in take(data, "one_hot", dict, {}).items()
    }
    levels = {
        name: tuple(texts({name: own}, name, "levels: "))
        for name, own in take(data, "levels", dict, {}).items()
    }
    maybe_missing = texts(data, "maybe_missing", default=[])
    if strange := {*maybe_missing, *(c for g in one_hot.values() for c in g)} - set(columns):
        raise BadModel(f"column {min(strange)!r:.80} is not listed under columns")
    noise = take(data, "noise", dict, None)
    n_rows = take(data, "n_rows", int, None)
    if n_rows is not None and not 0 <= n_rows < EXACT_WHOLE:
        raise BadModel(f"n_rows is {n_rows!r:.40}")
    counts_are = choice(data, "counts_are", get_args(CountsAre))
    sampling = _sampling(take(data, "sampling", dict), len(trees))
    counted = _Counted(
        len(columns), len(classes), QUANTITIES[counts_are], totals_are(counts_are, sampling),
        noise is not None,
    )  # fmt: skip
    release = Release(
        trees=tuple(_tree(tree, t, counted) for t, tree in enumerate(trees)),
        feature_names=tuple(columns),
        classes=classes,
        sampling=sampling,
        n_rows=n_rows,
        noise=None if noise is None else noise_from_dict(noise),
        not_covered=take(data, "not_covered", str, None),
        maybe_missing=frozenset(maybe_missing),
        one_hot=one_hot,
        levels=levels,
        borders=_borders(take(data, "borders", dict, {})),
        float_type=choice(data, "float_type", FLOAT_TYPES, "float64"),
        thresholds_are=choice(data, "thresholds_are", get_args(ThresholdsAre), "unknown"),
        origin=take(data, "origin", str, ""),
        notes=tuple(texts(data, "notes", default=[])),
        of_file=True,
        ensemble=_ensemble(take(data, "ensemble", dict, None)),
    )
    for t, tree in enumerate(release.trees if noise is None else ()):
        check_sums(tree, f"tree {t}")
    return release


_KEYS = {
    "format", "version", "origin", "columns", "classes", "n_rows", "counts_are", "sampling",
    "noise", "thresholds_are", "float_type", "maybe_missing", "one_hot", "levels", "not_covered",
    "notes", "trees", "ensemble", "borders",
}  # fmt: skip
_TREE_KEYS = {
    "feature", "threshold", "left", "right", "missing_left", "counts", "totals", "distinct",
    "statistics", "strict", "categories", "output",
}  # fmt: skip
_SAMPLING_KEYS = {
    "all": set(),
    "disjoint": set(),
    "bootstrap": {
        "n_draws", "tree_seeds", "forest_seed", "rule", "row_weights", "columns_drawn",
        "columns_replaced", "rows_between", "hidden",
    },
    "subsample": {
        "n_draws", "tree_seeds", "forest_seed", "rule", "columns_drawn", "columns_replaced",
        "rows_between", "hidden",
    },
    "unknown": {"why"},
}  # fmt: skip


def _borders(data: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    for column, cuts in data.items():
        if not isinstance(cuts, list) or not all(map(is_finite, cuts)):
            raise BadModel(f"borders of column {column!r:.80}: no list of numbers")
    return {column: tuple(map(float, cuts)) for column, cuts in data.items()}


def _sampling_to_dict(sampling: Sampling) -> dict[str, Any]:
    match sampling:
        case AllRows():
            return {"kind": "all"}
        case Disjoint():
            return {"kind": "disjoint"}
        case Bootstrap(rows_between=ends) | Subsample(rows_between=ends):
            weights = getattr(sampling, "row_weights", None)
            own = {"row_weights": None if weights is None else [float(w) for w in weights]}
            drawn = own if isinstance(sampling, Bootstrap) else {}
            return {
                "kind": sampling.kind,
                "n_draws": _plain(sampling.n_draws),
                "tree_seeds": [_plain(s) for s in sampling.tree_seeds],
                "forest_seed": _plain(sampling.forest_seed),
                "rule": sampling.rule,
                **drawn,
                "columns_drawn": _plain(sampling.columns_drawn),
                "columns_replaced": bool(sampling.columns_replaced),
                "rows_between": None if ends is None else [int(end) for end in ends],
                "hidden": sampling.hidden,
            }
        case UnknownSampling(why=why):
            return {"kind": "unknown", "why": why}
    raise BadInput(f"sampling of kind {sampling.kind!r} has no place in a release file")


def _sampling(data: Mapping[str, Any], n_trees: int) -> Sampling:
    kind = choice(data, "kind", tuple(_SAMPLING_KEYS), where="sampling: ")
    if unknown := set(data) - _SAMPLING_KEYS[kind] - {"kind"}:
        raise BadModel(f"sampling: unknown keys {sorted(unknown)[:5]}")
    if kind == "all":
        return AllRows()
    if kind == "disjoint":
        return Disjoint()
    if kind == "unknown":
        return UnknownSampling(take(data, "why", str, "", "sampling: "))
    seeds = take(data, "tree_seeds", list, [], "sampling: ")
    n_draws, forest_seed, columns_drawn = (
        take(data, key, int, None, "sampling: ")
        for key in ("n_draws", "forest_seed", "columns_drawn")
    )
    ends = take(data, "rows_between", list, None, "sampling: ")
    whole = ends is None or (len(ends) == 2 and all(is_whole(e, 0, EXACT_WHOLE) for e in ends))
    if not whole or (ends is not None and ends[0] > ends[1]):
        raise BadModel(
            f"sampling: rows_between is {ends!r:.40}, must be two whole numbers, the least first"
        )
    if len(seeds) not in (0, n_trees):
        raise BadModel(f"sampling: {len(seeds)} tree_seeds for {n_trees} trees")
    for number in (n_draws, forest_seed, columns_drawn, *seeds):
        if number is not None and not is_whole(number, 0, EXACT_WHOLE):
            raise BadModel(f"sampling: {number!r:.40} is no whole number of 0 or more")
    weights = take(data, "row_weights", list, None, "sampling: ")
    for row, weight in enumerate(weights or ()):
        if not (is_finite(weight) and weight >= 0):
            raise BadModel(f"sampling: row {row} has weight {weight!r:.40}")
    told: dict[str, Any] = {
        "n_draws": n_draws,
        "tree_seeds": tuple(seeds),
        "forest_seed": forest_seed,
        "rule": take(data, "rule", str, "", "sampling: "),
        "columns_drawn": columns_drawn,
        "columns_replaced": take(data, "columns_replaced", bool, False, "sampling: "),
        "rows_between": None if ends is None else (ends[0], ends[1]),
        "hidden": take(data, "hidden", str, "", "sampling: "),
    }
    if kind == "subsample":
        return Subsample(**told)
    return Bootstrap(**told, row_weights=None if weights is None else tuple(map(float, weights)))


_LAWS: dict[str, Callable[..., CountNoise | LabelNoise]] = {
    DiscreteLaplace.law: DiscreteLaplace,
    Laplace.law: Laplace,
    Gaussian.law: Gaussian,
    "label": LabelNoise,
}
_NOISE_KEYS = {
    DiscreteLaplace.law: ("epsilon",),
    Laplace.law: ("epsilon", "rounding"),
    Gaussian.law: ("sigma", "rounding"),
    "label": ("rule", "scale"),
}


def _noise_to_dict(noise: CountNoise | LabelNoise) -> dict[str, Any]:
    law = "label" if isinstance(noise, LabelNoise) else noise.law
    if law not in _LAWS:
        raise BadInput(f"noise of law {law!r} has no place in a release file")
    return {"law": law, **{key: getattr(noise, key) for key in _NOISE_KEYS[law]}}


def noise_from_dict(data: Mapping[str, Any]) -> CountNoise | LabelNoise:
    """Read a law of noise as it stands in a release file.

    Raises
    ------
    BadModel
        Naming the key.
    """
    where = "noise: "
    law = choice(data, "law", tuple(_LAWS), where=where)
    if unknown := set(data) - {"law", *_NOISE_KEYS[law]}:
        raise BadModel(f"{where}unknown keys {sorted(map(str, unknown))[:5]}")
    values: dict[str, Any] = {}
    for key in _NOISE_KEYS[law]:
        if key == "rounding":
            values[key] = choice(data, key, ROUNDINGS, "none", where)
        elif key == "rule":
            values[key] = choice(data, key, get_args(LabelRule), where=where)
        else:
            values[key] = _size_of_noise(data, key, values.get("rule"), where)
    return _LAWS[law](**values)


def _size_of_noise(data: Mapping[str, Any], key: str, rule: str | None, where: str) -> float:
    value = data.get(key, 0.0 if rule == "majority" else None)
    least, most = NOISE_BETWEEN
    if rule == "majority":
        least = 0.0
    if key == "sigma":
        most = MAX_SIGMA
    if not (is_finite(value) and least <= value <= most):
        raise BadModel(f"{where}{key} is {value!r:.40}, must be from {least:g} to {most:g}")
    return float(value)


def _tree_to_dict(tree: Tree, release: Release) -> dict[str, Any]:
    out: dict[str, Any] = {
        "feature": np.where(tree.is_leaf, LEAF, tree.feature).tolist(),
        "threshold": [
            None if leaf or math.isnan(t) else t if math.isfinite(t) else str(t)
            for leaf, t in zip(tree.is_leaf.tolist(), tree.threshold.tolist(), strict=True)
        ],
        "left": tree.left.tolist(),
        "right": tree.right.tolist(),
    }
    missing_left = tree.missing_left & ~tree.is_leaf
    if missing_left.any():
        out["missing_left"] = missing_left.tolist()
    noisy = release.noise is not None
    counted = statistics_to_dict(
        tree, totals_are(release.counts_are, release.sampling), noisy=noisy
    )
    return out | tests_to_dict(tree) | counted


@dataclass(frozen=True)
class _Counted:
    """What a file says of all its trees."""

    n_columns: int
    n_classes: int
    counts: Quantity
    totals: Quantity
    noisy: bool


def _tree(data: Any, t: int, of: _Counted) -> Tree:
    where, n_columns, n_classes = f"tree {t}", of.n_columns, of.n_classes
    if not isinstance(data, Mapping):
        raise BadModel(f"{where} is no object")
    if unknown := set(data) - _TREE_KEYS:
        raise BadModel(f"{where}: unknown keys {sorted(map(str, unknown))[:5]}")
    n = len(take(data, "feature", list, where=f"{where}: "))

    def nodes(key: str, valid: Callable[[Any], bool], must_be: str) -> Any:
        values = take(data, key, list, None if key in _OPTIONAL else REQUIRED, f"{where}: ")
        if values is None:
            return None
        if len(values) != n:
            raise BadModel(f"{where}: {key} has {len(values)} entries for {n} nodes")
        for node, value in enumerate(values):
            if not valid(value):
                raise BadModel(f"{where}, node {node}: {key} is {value!r:.40}, must be {must_be}")
        return values

    def is_count(value: Any) -> bool:
        return isinstance(value, list) and len(value) == n_classes and all(map(is_finite, value))

    def is_set(value: Any) -> bool:
        return value is None or (
            isinstance(value, list)
            and len(value) > 0
            and all(is_whole(v, 0, MOST_CATEGORY) for v in value)
        )

    child = f"a node from 1 to {n - 1}, or {LEAF} at a leaf"
    feature = nodes(
        "feature", lambda v: is_whole(v, LEAF, n_columns), f"a column below {n_columns}, or {LEAF}"
    )
    left = nodes("left", lambda v: v == LEAF or is_whole(v, 1, n), child)
    right = nodes("right", lambda v: v == LEAF or is_whole(v, 1, n), child)
    threshold = nodes(
        "threshold",
        lambda v: v is None or is_finite(v) or v in ("inf", "-inf"),
        'a number, "inf" or "-inf", or null at a leaf',
    )
    missing_left = nodes("missing_left", lambda v: isinstance(v, bool), "true or false")
    counts = nodes("counts", is_count, f"a list of {n_classes} numbers")
    totals = nodes("totals", is_finite, "a number")
    distinct = nodes("distinct", lambda v: is_whole(v, 0, EXACT_WHOLE), "a whole number")
    strict = nodes("strict", lambda v: isinstance(v, bool), "true or false")
    sets = nodes("categories", is_set, f"whole numbers below {MOST_CATEGORY:,}, or null") or n * [
        None
    ]
    tests = [cut if own is None else own for cut, own in zip(threshold, sets, strict=True)]
    for node, marks in enumerate(zip(feature, left, right, tests, strict=True)):
        if len({marks[0] == LEAF, marks[1] == LEAF, marks[2] == LEAF, marks[3] is None}) > 1:
            raise BadModel(f"{where}, node {node}: half a leaf, half a test")
    more = take(data, "statistics", dict, {}, f"{where}: ")
    leaf = np.array(feature) == LEAF
    try:
        return Tree(
            feature=np.array(feature, dtype=np.int64),
            threshold=np.array([math.nan if v is None else float(v) for v in threshold]),
            left=np.array(left, dtype=np.int64),
            right=np.array(right, dtype=np.int64),
            missing_left=np.array(missing_left or [False] * n, dtype=bool),
            statistics=_statistics(more, counts, totals, distinct, leaf, of),
            strict=None if strict is None else np.array(strict, dtype=bool),
            categories=categories_from_list(sets),
            output=output_from(data, where),
        )
    except BadModel as error:
        raise BadModel(f"{where}: {error}") from error


def _statistics(
    data: Mapping[str, Any], counts: Any, totals: Any, distinct: Any, leaf: BoolArray, of: _Counted
) -> Statistics:
    """Make a table of what stands under keys of its own, and of what stands below statistics."""
    n, n_classes = len(leaf), of.n_classes
    entries = []
    if counts is not None:
        table = np.array(counts, float).reshape(n, n_classes)
        # Behind noise, a 0 beside nodes that are no leaves says nothing.
        leaves_only = of.noisy and not table[~leaf].any()
        entries.append(NodeStatistic(of.counts, table, leaf if leaves_only else None))
    if totals is not None:
        entries.append(NodeStatistic(of.totals, np.array(totals, dtype=float)))
    if distinct is not None:
        entries.append(NodeStatistic(DISTINCT, np.array(distinct, dtype=np.int64)))
    more = statistics_from_dict(data, n, n_classes)
    return Statistics((*entries, *more))


def _ensemble_to_dict(ensemble: Ensemble) -> dict[str, Any]:
    rate = ensemble.learning_rate
    return {
        "objective": ensemble.objective,
        "base_scores": [float(score) for score in ensemble.base_scores],
        "learning_rate": None if rate is None else float(rate),
    }


def _ensemble(data: Mapping[str, Any] | None) -> Ensemble | None:
    if data is None:
        return None
    where = "ensemble: "
    if unknown := set(data) - {"objective", "base_scores", "learning_rate"}:
        raise BadModel(f"{where}unknown keys {sorted(map(str, unknown))[:5]}")
    scores = take(data, "base_scores", list, where=where)
    rate = data.get("learning_rate")
    for number in (*scores, *(() if rate is None else (rate,))):
        if not is_finite(number):
            raise BadModel(f"{where}{number!r:.40} is no number")
    try:
        return Ensemble(
            take(data, "objective", str, where=where),
            tuple(map(float, scores)),
            None if rate is None else float(rate),
        )
    except BadModel as error:
        raise BadModel(f"{where}{error}") from error


_OPTIONAL = {"missing_left", "counts", "totals", "distinct", "strict", "categories"}


def _plain(value: int | None) -> int | None:
    return None if value is None else int(value)
