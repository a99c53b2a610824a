"""The release file: trees and counts as JSON, for models of any library.

docs/release-format.md explains the format to those who write it. What a file says is taken for
hostile until checked: nothing in it is run, every array is as long as the text that holds it, and
every index is checked before it is used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

from treeleak.core.errors import BadInput, BadModel
from treeleak.core.output import write_file
from treeleak.release.bounds import MOST_CLASSES, MOST_COLUMNS, MOST_TREES, at_most
from treeleak.release.checked_json import (
    choice,
    declared,
    is_finite,
    label,
    only,
    plain,
    read_json,
    record,
    take,
)
from treeleak.release.ensemble import Ensemble, Fitting
from treeleak.release.foreign import name_of_json, no_model
from treeleak.release.noise.laws import (
    CountNoise,
    DiscreteLaplace,
    Gaussian,
    LabelNoise,
    LabelRule,
    Laplace,
)
from treeleak.release.readers.release_nodes import (
    Counted,
    check_sums,
    totals_are,
    tree_from_dict,
    tree_to_dict,
)
from treeleak.release.release import CountsAre, Release
from treeleak.release.sampling import (
    AllRows,
    Bootstrap,
    Disjoint,
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
    told = {name: plain(getattr(release, name)) for name in ("levels", "borders", "ranges")}
    counts_are = _counts_are(release)
    totals = totals_are(counts_are, release.sampling)
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "origin": release.origin,
        "columns": list(release.feature_names),
        "classes": [label(c) for c in release.classes],
        "n_rows": plain(release.n_rows),
        "counts_are": counts_are,
        **({} if release.ensemble is None else {"ensemble": _ensemble_to_dict(release.ensemble)}),
        "sampling": _sampling_to_dict(release.sampling),
        **noise,
        **({} if release.thresholds_are == "unknown" else {"thresholds_are": "midpoints"}),
        "float_type": release.float_type,
        "maybe_missing": plain(release.maybe_missing),
        "one_hot": plain(release.one_hot),
        **{name: own for name, own in told.items() if own},
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
        if name := name_of_json(data):
            raise BadModel(no_model(name))
        raise BadModel(
            'JSON of an unknown kind: no model of XGBoost or CatBoost, and its "format" is neither '
            f'"{FORMAT}" nor "treeleak-rules"'
        )
    version = data.get("version")
    if type(version) is not int or version not in READ_VERSIONS:
        raise BadModel(
            f"release format version {version!r:.40}; this program reads versions 1 and 2"
        )
    only(data, _KEYS)
    columns = declared(tuple[str, ...], take(data, "columns", list), "columns")
    trees = take(data, "trees", list)
    at_most(MOST_COLUMNS, len(columns), "columns")
    at_most(MOST_TREES, len(trees), "trees")
    if not trees:
        raise BadModel("trees is empty: a model has one or more")
    at_most(MOST_CLASSES, len(take(data, "classes", list)), "classes")
    classes = tuple(label(c) for c in data["classes"])
    hints = get_type_hints(Release)
    told = {name: declared(hints[name], data[name], name) for name in _TOLD if name in data}
    grouped = (c for group in told.get("one_hot", {}).values() for c in group)
    if strange := {*told.get("maybe_missing", ()), *grouped} - set(columns):
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
        feature_names=columns,
        classes=classes,
        sampling=sampling,
        noise=None if noise is None else noise_from_dict(noise),
        float_type=choice(data, "float_type", FLOAT_TYPES, "float64"),
        **({"n_rows": None} | told),
    )
    for t, tree in enumerate(release.trees if noise is None else ()):
        check_sums(tree, f"tree {t}")
    return release


_TOLD = (
    "n_rows", "not_covered", "maybe_missing", "one_hot", "levels", "borders", "ranges",
    "thresholds_are", "origin", "notes", "ensemble",
)  # fmt: skip
"""What a file says as a release has it, under the same name."""
_KEYS = {
    "format", "version", "columns", "classes", "counts_are", "sampling", "noise", "float_type",
    "trees", *_TOLD,
}  # fmt: skip
_SAMPLINGS: dict[str, type[Sampling]] = {
    own.kind: own for own in (AllRows, Disjoint, Bootstrap, Subsample, UnknownSampling)
}


def _ensemble_to_dict(ensemble: Ensemble) -> dict[str, Any]:
    """Write an ensemble; what is as it is by default is left out of how leaves were fitted."""
    out: dict[str, Any] = plain(ensemble)
    fitting = out.pop("fitting")
    if ensemble.fitting is not None:
        default = plain(Fitting(ensemble.fitting.loss))
        kept = {k: v for k, v in fitting.items() if k == "loss" or v != default[k]}
        out["fitting"] = kept
    return out


def _counts_are(release: Release) -> str:
    """Say what nodes count; of a release without counts by class, what they count together."""
    if all(tree.statistics.get(*COUNTS, per_class=True) is None for tree in release.trees):
        for tree in release.trees:
            if (entry := tree.statistics.get(ROWS, DRAWS)) is not None:
                return entry.quantity.name
    return release.counts_are


def _sampling_to_dict(sampling: Sampling) -> dict[str, Any]:
    if not isinstance(sampling, _SAMPLINGS.get(sampling.kind, ())):
        raise BadInput(f"sampling of kind {sampling.kind!r} has no place in a release file")
    told = {"kind": sampling.kind, **plain(sampling)}
    return told if told.get("held_back", ...) is not None else {"kind": sampling.kind}


def _sampling(data: Mapping[str, Any], n_trees: int) -> Sampling:
    where = "sampling: "
    found = _SAMPLINGS[choice(data, "kind", tuple(_SAMPLINGS), where=where)]
    sampling = record(found, {k: v for k, v in data.items() if k != "kind"}, where)
    if isinstance(sampling, (Bootstrap, Subsample)):
        ends, seeds = sampling.rows_between, sampling.tree_seeds
        if ends is not None and ends[0] > ends[1]:
            raise BadModel(f"{where}rows_between is {list(ends)}, must begin with the least")
        if len(seeds) not in (0, n_trees):
            raise BadModel(f"{where}{len(seeds)} tree_seeds for {n_trees} trees")
    for row, weight in enumerate(getattr(sampling, "row_weights", None) or ()):
        if weight < 0:
            raise BadModel(f"{where}row {row} has weight {weight:g}")
    return sampling


_LAWS: dict[str, tuple[type[CountNoise | LabelNoise], str]] = {
    DiscreteLaplace.law: (DiscreteLaplace, "epsilon"),
    Laplace.law: (Laplace, "epsilon"),
    Gaussian.law: (Gaussian, "sigma"),
    "label": (LabelNoise, "scale"),
}
"""With the name of its size."""


def _noise_to_dict(noise: CountNoise | LabelNoise) -> dict[str, Any]:
    law = "label" if isinstance(noise, LabelNoise) else noise.law
    if law not in _LAWS:
        raise BadInput(f"noise of law {law!r} has no place in a release file")
    return {"law": law, **plain(noise)}


def noise_from_dict(data: Mapping[str, Any]) -> CountNoise | LabelNoise:
    """Read a law of noise as it stands in a release file.

    Raises
    ------
    BadModel
        Naming the key.
    """
    where = "noise: "
    kind, size = _LAWS[choice(data, "law", tuple(_LAWS), where=where)]
    rule = choice(data, "rule", get_args(LabelRule), where=where) if kind is LabelNoise else None
    value = data.get(size, 0.0 if rule == "majority" else None)
    least = 0.0 if rule == "majority" else NOISE_BETWEEN[0]
    most = MAX_SIGMA if size == "sigma" else NOISE_BETWEEN[1]
    if not (is_finite(value) and least <= value <= most):
        raise BadModel(f"{where}{size} is {value!r:.40}, must be from {least:g} to {most:g}")
    return record(kind, {k: v for k, v in data.items() if k != "law"}, where)
