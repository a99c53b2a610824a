"""Trees of different row sets in one model: continued training, and sums of models.

Training that goes on with another table adds trees that count other rows. Trees whose roots count
the same belong together; each such group is a part, and is attacked by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from treeleak.core.message import Message, MessageTemplate
from treeleak.release.release import Part, Release
from treeleak.release.sampling import AllRows, UnknownSampling
from treeleak.release.tree import Tree

ROW_SETS = MessageTemplate(
    "trees_of_row_sets",
    "its trees were fitted to {sets:number} different tables, as their numbers of rows say "
    "({rows:foreign}): each is attacked by itself",
)
LEAST_ROUNDS = 3
"""Rounds in a row that count the same rows: single trees may also have drawn so many by chance."""
_MOST_SETS = 20
_UNEQUAL = ("boosted_different", "catboost_unequal")
"""Reasons against a reconstruction that different numbers of rows give."""


def by_row_sets(release: Release, continued: bool) -> Release:
    """Make a part of each run of trees that count the same rows.

    ``continued``: whether the file says that training may have gone on.
    """
    sampling, why = release.sampling, release.not_covered
    stated = continued and isinstance(sampling, AllRows) and why is None
    whys = (why, sampling.why if isinstance(sampling, UnknownSampling) else None)
    guessed = any(w.kind.code in _UNEQUAL for w in whys if isinstance(w, Message))
    if release.parts or release.noise is not None or not (stated or guessed):
        return release
    outputs = 1 + max((tree.output or 0 for tree in release.trees), default=0)
    by_class = release.counts_are in ("rows", "draws")
    keys = [_root(tree, by_class) for tree in release.trees]
    runs = runs_of(keys, outputs if stated else LEAST_ROUNDS * outputs)
    if None in keys or len(runs) < 2:
        return release
    parts = []
    for k, (first, end) in enumerate(runs):
        trees = release.trees[first:end]
        n_rows = int((keys[first] or (0.0,))[0])
        ensemble = release.ensemble
        if k and ensemble is not None:
            # What was left to explain is what the trees before said of rows that they never saw.
            ensemble = replace(ensemble, fitting=None)
        part = replace(
            release, trees=trees, sampling=AllRows(), n_rows=n_rows, not_covered=None,
            ensemble=ensemble, borders={}, ranges={},
            sources=release.sources[first:end] if len(release.sources) == len(release.trees)
            else release.sources,
        )  # fmt: skip
        parts.append(Part(f"trees {first} to {end - 1}", part))
    return of_row_sets(parts)


def of_row_sets(parts: Sequence[Part]) -> Release:
    """Put trees of different tables one after the other; they are not attacked together."""
    releases = [part.release for part in parts]
    first = releases[0]
    sources = [source for r in releases for source in r.sources]
    rows = ", ".join(f"{part.place}: {part.release.n_rows}" for part in parts)
    why = ROW_SETS(sets=len(parts), rows=rows)
    return replace(
        first, trees=tuple(tree for r in releases for tree in r.trees),
        sampling=UnknownSampling(why), n_rows=None, not_covered=why, left_out=None,
        maybe_missing=frozenset().union(*(r.maybe_missing for r in releases)),
        notes=tuple(dict.fromkeys(note for r in releases for note in r.notes)),
        sources=tuple({id(source): source for source in sources}.values()), parts=tuple(parts),
    )  # fmt: skip


def runs_of(keys: Sequence[Any], least: int) -> list[tuple[int, int]]:
    """Where equal keys stand one after the other; none if a run is shorter than ``least``."""
    starts = [0, *(t for t in range(1, len(keys)) if keys[t] != keys[t - 1]), len(keys)]
    runs = list(pairwise(starts))
    short = any(end - first < least for first, end in runs)
    return [] if short or len(runs) > _MOST_SETS else runs


def _root(tree: Tree, by_class: bool) -> tuple[float, ...] | None:
    """What a root counts: all rows, and those of each class; None if nothing."""
    if tree.totals is None:
        return None
    counts = tree.counts if by_class else None
    return (float(tree.totals[0]), *(() if counts is None else counts[0].tolist()))
