"""Several models of one table as one release: their trees are statements about the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from treeleak.core.errors import BadInput
from treeleak.core.message import MessageTemplate
from treeleak.release.out_of_bag import OutOfBag
from treeleak.release.pipeline.inputs import Inputs
from treeleak.release.release import Part, Release
from treeleak.release.sampling import AllRows, Joined
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
    same = same and _same_inputs(one.inputs, other.inputs)
    return same and _counts_rows(one) and _counts_rows(other)


def _same_inputs(one: Inputs | None, other: Inputs | None) -> bool:
    """Whether equal names are equal values: transformers may scale or fill a column in two ways."""
    if one is None or other is None:
        return one is other
    # Of a step that nothing is known of, two may differ.
    return one == other and not one.why_not and _fills(one) == _fills(other)


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
    )


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
