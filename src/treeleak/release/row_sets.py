"""Trees of different row sets in one model: continued training, and sums of models.

Training that goes on with another table adds trees that count other rows. Trees whose roots count
the same belong together; each such group is a part, and is attacked by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from treeleak.core.errors import BadInput
from treeleak.core.message import Message, MessageTemplate
from treeleak.release.pipeline.inputs import Inputs
from treeleak.release.release import Part, Release
from treeleak.release.row_facts import NOT_TOLD, OutOfBag, RowFacts
from treeleak.release.sampling import AllRows, Joined, UnknownSampling
from treeleak.release.statistics import DRAWS
from treeleak.release.tree import Tree

JOINED = MessageTemplate(
    "models_joined",
    "{models:number} models of one table are attacked together: {where:foreign}.",
)


def can_join(one: Release, other: Release) -> bool:
    """Whether the trees of two models count the rows of one table in the same terms.

    They have the same columns, read from the input in the same way, and the same classes; they
    compare values in the same type, count rows or draws without noise, and were fitted to equally
    many rows.
    """
    same = all(
        getattr(one, name) == getattr(other, name)
        for name in ("feature_names", "classes", "float_type", "n_rows", "one_hot", "levels")
    )
    if (first := one.inputs) is None or (second := other.inputs) is None:
        same = same and first is other.inputs
    else:
        # Transformers may scale or fill a column in two ways; of an unknown step, two may differ.
        same = same and first == second and not first.why_not and _fills(first) == _fills(second)
    return same and _counts_rows(one) and _counts_rows(other)


def _fills(inputs: Inputs) -> dict[str, tuple[object, bool]]:
    """Find what stands for a missing value in each column of the model."""
    return {column: (r.fills, r.one_way) for column, r in inputs.readings.items()}


def _counts_rows(release: Release) -> bool:
    known = release.sampling.kind in ("all", "bootstrap", "subsample")
    counted = (
        release.counts_are in ("rows", "draws")
        if release.classes
        else all(tree.totals is not None for tree in release.trees)
    )
    whole = release.noise is None and release.not_covered is None and release.ensemble is None
    # Folds are known as parts of the whole alone: a part of a part would lose them.
    folds = any(part.rows is not None or part.fold is not None for part in release.parts)
    whole = whole and not folds
    return known and counted and whole and release.n_rows is not None


def joined(parts: Sequence[Part], origin: str) -> Release:
    """Make one release of models for which :func:`can_join` holds.

    Where some trees drew their rows, a tree that saw every row drew each once: with the draws of
    the others known, rows have numbers, and its leaves speak of numbered rows, too.

    Parameters
    ----------
    parts : sequence of Part
        One or more.
    origin : str
        The library, its version and the class that holds them.
    """
    if len(parts) == 1 and parts[0].rows is None:
        return parts[0].release
    releases = [part.release for part in parts]
    first = releases[0]
    exact = all(
        isinstance(p.release.sampling, AllRows) and p.rows is None and p.fold is None for p in parts
    )
    trees = [tree for r in releases for tree in r.trees]
    same = len({r.thresholds_are for r in releases}) == 1
    return replace(
        first,
        trees=tuple(trees if exact else map(_as_draws, trees)),
        sampling=AllRows() if exact else Joined(),
        maybe_missing=frozenset().union(*(r.maybe_missing for r in releases)),
        thresholds_are=first.thresholds_are if same else "unknown",
        origin=origin,
        notes=(
            JOINED(models=len(parts), where=", ".join(part.place for part in parts)),
            *dict.fromkeys(note for r in releases for note in r.notes),
        ),
        sources=tuple(source for r in releases for source in r.sources),
        parts=tuple(parts),
        out_of_bag=_out_of_bag(parts),
        row_facts=_row_facts(parts),
    )


_COUNTS = "the counts"


def numbered(release: Release, facts: RowFacts, note: str) -> Release:
    """Number the rows of a model by what its file says of each, and note that.

    Trees that saw every row drew each once, as in :func:`joined`.
    """
    facts = replace(facts, notes=(note,))
    release = replace(release, notes=(*release.notes, note))
    if not isinstance(release.sampling, AllRows):
        return replace(release, row_facts=facts)
    return replace(
        release,
        trees=tuple(map(_as_draws, release.trees)),
        sampling=Joined(),
        parts=(Part(_COUNTS, release),),
        row_facts=facts,
    )


def without_facts(release: Release) -> Release:
    """Take back what :func:`numbered` added."""
    if (facts := release.row_facts) is None:
        return release
    if len(release.parts) == 1 and release.parts[0].place == _COUNTS:
        release = release.parts[0].release
    notes = tuple(note for note in release.notes if note not in facts.notes)
    return replace(release, row_facts=None, notes=notes)


def _row_facts(parts: Sequence[Part]) -> RowFacts | None:
    """Join what files say of rows, where all that is said is about rows in one order."""
    told = [part.release.row_facts for part in parts if part.rows is None and part.fold is None]
    found = [facts for facts in told if facts is not None and facts.in_order]
    if not found or len({facts.n_rows for facts in found}) > 1:
        return None
    leaves = [
        np.full((len(p.release.trees), found[0].n_rows), NOT_TOLD, dtype=np.int32)
        if facts is None or not facts.in_order or p.rows is not None or p.fold is not None
        else facts.leaves
        for p in parts
        for facts in (p.release.row_facts,)
    ]
    notes = tuple(note for facts in found for note in facts.notes)
    return replace(found[0], leaves=np.concatenate(leaves), notes=notes)


def _out_of_bag(parts: Sequence[Part]) -> tuple[OutOfBag, ...]:
    found: list[OutOfBag] = []
    n_trees = 0
    for part in parts:
        if part.rows is None and part.fold is None:
            found += [means.after(n_trees) for means in part.release.out_of_bag]
        n_trees += len(part.release.trees)
    return tuple(found)


def _as_draws(tree: Tree) -> Tree:
    """Count the rows of a tree that drew none as drawn once."""
    if tree.statistics.get(DRAWS) or tree.statistics.get(DRAWS, per_class=True):
        return tree
    if tree.totals is None:
        raise BadInput("a tree that counts no rows cannot be joined with others")
    return tree.with_counts(
        DRAWS, totals=tree.totals, distinct=np.rint(tree.totals).astype(np.int64)
    )


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
            ensemble=ensemble, borders={}, ranges={}, row_facts=None,
            sources=release.sources[first:end] if len(release.sources) == len(release.trees)
            else release.sources,
        )  # fmt: skip
        parts.append(Part(f"trees {first} to {end - 1}", part))
    return of_row_sets(parts)


def of_row_sets(parts: Sequence[Part], template: MessageTemplate = ROW_SETS) -> Release:
    """Put trees of different tables one after the other; they are not attacked together.

    ``template``: says so, given how many tables there are (sets), and their sizes (rows).
    """
    releases = [part.release for part in parts]
    first = releases[0]
    sources = [source for r in releases for source in r.sources]
    rows = ", ".join(f"{part.place}: {part.release.n_rows}" for part in parts)
    why = template(sets=len(parts), rows=rows)
    return replace(
        first, trees=tuple(tree for r in releases for tree in r.trees),
        sampling=UnknownSampling(why), n_rows=None, not_covered=why, left_out=None,
        maybe_missing=frozenset().union(*(r.maybe_missing for r in releases)),
        notes=tuple(dict.fromkeys(note for r in releases for note in r.notes)), row_facts=None,
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
