"""The release file: trees and counts as JSON, for models of any library.

docs/release-format.md explains the format to those who write it. What a file says is taken for
hostile until checked: nothing in it is run, every array is as long as the text that holds it, and
every index is checked before it is used. :mod:`treeleak.formats.release` says what must be in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treeleak.core.declared import Place, in_words, plain, read, set_fields
from treeleak.core.errors import BadInput, BadModel
from treeleak.core.output import write_file
from treeleak.formats import release as declared
from treeleak.release.bounds import MOST_CLASSES, MOST_COLUMNS, MOST_TREES, at_most
from treeleak.release.checked_json import label, located, read_json
from treeleak.release.ensemble import Ensemble, Fitting
from treeleak.release.noise.laws import CountNoise, DiscreteLaplace, Gaussian, LabelNoise, Laplace
from treeleak.release.readers.release_nodes import (
    Counted,
    check_sums,
    made_of,
    totals_are,
    tree_to_dict,
)
from treeleak.release.release import Release
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
from treeleak.release.unsupported_formats import HOW_TO_SAVE, kind_of_json

FORMAT = "treeleak-release"
FORMAT_VERSION = 2


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
    mappings = {name: plain(getattr(release, name)) for name in ("levels", "borders", "ranges")}
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
        **({} if (are := release.thresholds_are) == "unknown" else {"thresholds_are": are}),
        "float_type": release.float_type,
        **({"adds_weights": True} if release.adds_weights else {}),
        **({"n_targets": release.n_targets} if release.n_targets > 1 else {}),
        "maybe_missing": plain(release.maybe_missing),
        "one_hot": plain(release.one_hot),
        **{name: mapping for name, mapping in mappings.items() if mapping},
        # Whoever reads the file has no other part of the model to look at.
        "not_covered": release.left_out if release.not_covered is None else release.not_covered,
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
        if kind := kind_of_json(data):
            raise BadModel(f"this is {kind}")
        raise BadModel(
            'JSON of an unknown kind: not a model of XGBoost or CatBoost, and its "format" is '
            f'neither "{FORMAT}" nor "treeleak-rules": {HOW_TO_SAVE}'
        )
    version = data.get("version")
    if type(version) is not int or version != FORMAT_VERSION:
        raise BadModel(
            f"release format version {version!r:.40}; this program reads version {FORMAT_VERSION}"
        )
    for key, most in (("columns", MOST_COLUMNS), ("trees", MOST_TREES), ("classes", MOST_CLASSES)):
        if isinstance(data.get(key), list):
            at_most(most, len(data[key]), key)
    found = read(declared.Release, data, BadModel, _in_words)
    grouped = (c for group in found.one_hot.values() for c in group)
    if strange := {*found.maybe_missing, *grouped} - set(found.columns):
        raise BadModel(f"column {min(strange)!r:.80} is not listed under columns")
    sampling, ensemble = _sampling(found.sampling, len(found.trees)), None
    if (stated := found.ensemble) is not None:
        fitting = None if stated.fitting is None else Fitting(**set_fields(stated.fitting))
        with located("ensemble: "):
            ensemble = Ensemble(stated.objective, stated.base_scores, stated.learning_rate, fitting)
    counted = Counted(
        len(found.columns), len(found.classes), QUANTITIES[found.counts_are],
        totals_are(found.counts_are, sampling), found.noise is not None,
    )  # fmt: skip
    release = Release(
        trees=tuple(made_of(tree, t, counted) for t, tree in enumerate(found.trees)),
        feature_names=found.columns,
        classes=tuple(map(label, found.classes)),
        sampling=sampling,
        noise=None if found.noise is None else _noise(found.noise),
        ensemble=ensemble,
        **{name: getattr(found, name) for name in _TOLD},
    )
    for t, tree in enumerate(release.trees if found.noise is None else ()):
        check_sums(tree, f"tree {t}")
    return release


_TOLD = (
    "n_rows", "not_covered", "maybe_missing", "one_hot", "levels", "borders", "ranges",
    "float_type", "thresholds_are", "origin", "notes", "adds_weights",
    "n_targets",
)  # fmt: skip
"""What a file says as a release has it, under the same name."""


def _in_words(place: Place) -> str:
    """Name the tree and the node."""
    match place:
        case "trees", int(t), "statistics", str(key), int(node), *more:
            return f"tree {t}, node {node}: {key}{in_words(more)}"
        case "trees", int(t), str(key), int(node), *more:
            return f"tree {t}, node {node}: {key}{in_words(more)}"
        case "trees", int(t), *more:
            return f"tree {t}: {in_words(more)}" if more else f"tree {t}"
    return in_words(place)


_SAMPLINGS: dict[str, type[Sampling]] = {
    sampling.kind: sampling
    for sampling in (AllRows, Disjoint, Bootstrap, Subsample, UnknownSampling)
}


def _ensemble_to_dict(ensemble: Ensemble) -> dict[str, Any]:
    """Write an ensemble; what is as it is by default is left out of how leaves were fitted."""
    out: dict[str, Any] = plain(ensemble)
    fitting = out.pop("fitting")
    if ensemble.fitting is not None:
        default = plain(Fitting(ensemble.fitting.loss))
        entries = {k: v for k, v in fitting.items() if k == "loss" or v != default[k]}
        out["fitting"] = entries
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
    document = {"kind": sampling.kind, **plain(sampling)}
    if document.get("held_back", ...) is None:
        del document["held_back"]
    return document


def _sampling(found: declared.Sampling, n_trees: int) -> Sampling:
    where, fields = "sampling: ", set_fields(found)
    held_back = getattr(found, "held_back", None)
    if held_back is not None:
        fields["held_back"] = HeldBack(**set_fields(held_back))
    sampling = _SAMPLINGS[str(found.__struct_config__.tag)](**fields)
    if isinstance(sampling, (Bootstrap, Subsample)):
        ends, seeds = sampling.rows_between, sampling.tree_seeds
        if ends is not None and ends[0] > ends[1]:
            raise BadModel(f"{where}rows_between is {list(ends)}, must begin with the least")
        if len(seeds) not in (0, n_trees):
            raise BadModel(f"{where}{len(seeds)} tree_seeds for {n_trees} trees")
    return sampling


_LAWS: dict[str, type[CountNoise | LabelNoise]] = {
    "discrete-laplace": DiscreteLaplace, "laplace": Laplace, "gaussian": Gaussian,
    "label": LabelNoise,
}  # fmt: skip


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
    kind: Any = declared.Noise
    return _noise(read(kind, data, BadModel, lambda place: in_words(("noise", *place))))


def _noise(found: declared.Noise) -> CountNoise | LabelNoise:
    if isinstance(found, declared.LabelNoise) and found.rule != "majority" and found.scale < 1e-9:
        raise BadModel(f"noise: scale is {found.scale!r:.40}, must be from 1e-09 to 1e+09")
    return _LAWS[str(found.__struct_config__.tag)](**set_fields(found))
