"""The release file: trees and counts as JSON, for models of any library.

docs/release-format.md explains the format to those who write it. What a file says is taken for
hostile until checked: nothing in it is run, every array is as long as the text that holds it, and
every index is checked before it is used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import numpy as np

from treeleak.core.errors import BadInput, BadModel
from treeleak.core.output import write_file
from treeleak.release.bounds import MOST_CLASSES, MOST_COLUMNS, MOST_TREES, at_most
from treeleak.release.checked_json import (
    EXACT_WHOLE,
    choice,
    is_finite,
    is_whole,
    label,
    n_rows_of,
    only,
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
from treeleak.release.readers.release_ensemble import ensemble_from_dict, ensemble_to_dict
from treeleak.release.readers.release_nodes import (
    Counted,
    check_sums,
    totals_are,
    tree_from_dict,
    tree_to_dict,
)
from treeleak.release.release import CountsAre, Release, ThresholdsAre
from treeleak.release.sampling import (
    AllRows,
    Bootstrap,
    Disjoint,
    HeldBack,
    Sampling,
    Subsample,
    UnknownSampling,
)
from treeleak.release.statistics import COUNTS, DRAWS, QUANTITIES, ROWS

FORMAT = "treeleak-release"
FORMAT_VERSION = 2
READ_VERSIONS = (1, 2)
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
    noisy = release.noise is not None
    noise = {} if release.noise is None else {"noise": _noise_to_dict(release.noise)}
    levels = {name: list(texts) for name, texts in release.levels.items()}
    borders = {name: list(cuts) for name, cuts in release.borders.items()}
    ranges = {name: list(ends) for name, ends in release.ranges.items()}
    counts_are = _counts_are(release)
    totals = totals_are(counts_are, release.sampling)
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "origin": release.origin,
        "columns": list(release.feature_names),
        "classes": [label(c) for c in release.classes],
        "n_rows": _plain(release.n_rows),
        "counts_are": counts_are,
        **({} if release.ensemble is None else {"ensemble": ensemble_to_dict(release.ensemble)}),
        "sampling": _sampling_to_dict(release.sampling),
        **noise,
        **({} if release.thresholds_are == "unknown" else {"thresholds_are": "midpoints"}),
        "float_type": release.float_type,
        "maybe_missing": sorted(release.maybe_missing),
        "one_hot": {name: list(columns) for name, columns in release.one_hot.items()},
        **({"levels": levels} if levels else {}),
        **({"borders": borders} if borders else {}),
        **({"ranges": ranges} if ranges else {}),
        "not_covered": release.not_covered,
        "notes": list(release.notes),
        "trees": [tree_to_dict(tree, totals, noisy=noisy) for tree in release.trees],
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
    version = data.get("version")
    if type(version) is not int or version not in READ_VERSIONS:
        raise BadModel(
            f"release format version {version!r:.40}; this program reads versions 1 and 2"
        )
    only(data, _KEYS)
    columns = texts(data, "columns")
    trees = take(data, "trees", list)
    at_most(MOST_COLUMNS, len(columns), "columns")
    at_most(MOST_TREES, len(trees), "trees")
    if not trees:
        raise BadModel("trees is empty: a model has one or more")
    at_most(MOST_CLASSES, len(take(data, "classes", list)), "classes")
    classes = tuple(label(c) for c in data["classes"])
    one_hot = _lists(data, "one_hot")
    maybe_missing = texts(data, "maybe_missing", default=[])
    if strange := {*maybe_missing, *(c for g in one_hot.values() for c in g)} - set(columns):
        raise BadModel(f"column {min(strange)!r:.80} is not listed under columns")
    noise = take(data, "noise", dict, None)
    counts_are = choice(data, "counts_are", get_args(CountsAre))
    sampling = _sampling(take(data, "sampling", dict), len(trees))
    counted = Counted(
        len(columns), len(classes), QUANTITIES[counts_are], totals_are(counts_are, sampling),
        noise is not None,
    )  # fmt: skip
    release = Release(
        trees=tuple(tree_from_dict(tree, t, counted) for t, tree in enumerate(trees)),
        feature_names=tuple(columns),
        classes=classes,
        sampling=sampling,
        n_rows=n_rows_of(data),
        noise=None if noise is None else noise_from_dict(noise),
        not_covered=take(data, "not_covered", str, None),
        maybe_missing=frozenset(maybe_missing),
        one_hot=one_hot,
        levels=_lists(data, "levels"),
        borders=_numbers(data, "borders"),
        ranges=_ranges(data),
        float_type=choice(data, "float_type", FLOAT_TYPES, "float64"),
        thresholds_are=choice(data, "thresholds_are", get_args(ThresholdsAre), "unknown"),
        origin=take(data, "origin", str, ""),
        notes=tuple(texts(data, "notes", default=[])),
        of_file=True,
        ensemble=ensemble_from_dict(take(data, "ensemble", dict, None)),
    )
    for t, tree in enumerate(release.trees if noise is None else ()):
        check_sums(tree, f"tree {t}")
    return release


_KEYS = {
    "format", "version", "origin", "columns", "classes", "n_rows", "counts_are", "sampling",
    "noise", "thresholds_are", "float_type", "maybe_missing", "one_hot", "levels", "not_covered",
    "notes", "trees", "ensemble", "borders", "ranges",
}  # fmt: skip
_SAMPLINGS: dict[str, type[Sampling]] = {
    own.kind: own for own in (AllRows, Disjoint, Bootstrap, Subsample, UnknownSampling)
}


def _counts_are(release: Release) -> str:
    """Say what nodes count; of a release without counts by class, what they count together."""
    if all(tree.statistics.get(*COUNTS, per_class=True) is None for tree in release.trees):
        for tree in release.trees:
            if (entry := tree.statistics.get(ROWS, DRAWS)) is not None:
                return entry.quantity.name
    return release.counts_are


def _lists(data: Mapping[str, Any], key: str) -> dict[str, tuple[str, ...]]:
    """Take lists of texts by their names."""
    own = take(data, key, dict, {})
    return {name: tuple(texts({name: listed}, name, f"{key}: ")) for name, listed in own.items()}


def _numbers(data: Mapping[str, Any], key: str) -> dict[str, tuple[float, ...]]:
    """Take lists of numbers by the names of columns."""
    own = take(data, key, dict, {})
    for column, listed in own.items():
        if not isinstance(listed, list) or not all(map(is_finite, listed)):
            raise BadModel(f"{key} of column {column!r:.80}: no list of numbers")
    return {column: tuple(map(float, listed)) for column, listed in own.items()}


def _ranges(data: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    own = _numbers(data, "ranges")
    if bad := [column for column, ends in own.items() if len(ends) != 2]:
        raise BadModel(f"ranges of column {bad[0]!r:.80}: not two numbers")
    return {column: (low, high) for column, (low, high) in own.items()}


def _sampling_to_dict(sampling: Sampling) -> dict[str, Any]:
    if not isinstance(sampling, _SAMPLINGS.get(sampling.kind, ())):
        raise BadInput(f"sampling of kind {sampling.kind!r} has no place in a release file")
    if isinstance(sampling, AllRows):
        held = sampling.held_back
        return {"kind": sampling.kind} | ({} if held is None else {"held_back": _fields(held)})
    return {"kind": sampling.kind, **_fields(sampling)}


def _fields(part: Sampling | HeldBack) -> dict[str, Any]:
    return {f.name: _plain(getattr(part, f.name)) for f in fields(part)}


def _held_back(data: Mapping[str, Any] | None) -> HeldBack | None:
    if data is None:
        return None
    where = "held_back: "
    only(data, [f.name for f in fields(HeldBack)], where)
    share: Any = data.get("share")
    if not is_finite(share):
        raise BadModel(f"{where}share must be a number, not {share!r:.40}")
    seed, by_class = take(data, "seed", int, where=where), take(data, "by_class", bool, where=where)
    return HeldBack(seed, float(share), by_class)


def _sampling(data: Mapping[str, Any], n_trees: int) -> Sampling:
    found = _SAMPLINGS[choice(data, "kind", tuple(_SAMPLINGS), where="sampling: ")]
    only(data, ("kind", *(f.name for f in fields(found))), "sampling: ")
    if found is UnknownSampling:
        return UnknownSampling(take(data, "why", str, "", "sampling: "))
    if found is AllRows:
        return AllRows(_held_back(take(data, "held_back", dict, None, "sampling: ")))
    if found not in (Bootstrap, Subsample):
        return found()
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
    if found is Subsample:
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
    only(data, ("law", *_NOISE_KEYS[law]), where)
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


def _plain(value: Any) -> Any:
    """What JSON can hold of a number, a text, or several."""
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value
