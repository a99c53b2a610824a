"""Rows at hand: one for each domain, where time ran out before rows could be rebuilt."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.answer import Rows
from treeleak.attacks.known_draws.domains import Domains
from treeleak.attacks.large_grid.bayes_estimate import unweighed
from treeleak.core.arrays import BoolArray, IntArray, bits_set
from treeleak.partition.value_index import ValueIndex


def fallback_rows(domains: Domains, values: ValueIndex) -> Rows:
    """Put each row where its leaves allow it, whether the counts are met or not.

    Rows of which one leaf is left in every tree are proved, as far as all that these leaves admit
    lies in one leaf of every other tree.
    """
    evidence, boxes = domains.evidence, domains.boxes
    drawn = evidence.drawn
    rows = np.flatnonzero(drawn)
    label = bits_set(domains.bits).argmax(axis=1)
    chosen_leaf = domains.chosen(label)[rows]
    # A leaf more than once changes nothing of what all of them admit.
    places = boxes.common(
        np.where(chosen_leaf >= 0, chosen_leaf, chosen_leaf.max(axis=1, keepdims=True))
    )[1]
    atoms = np.zeros((evidence.n_rows, places.shape[1] + 1), dtype=np.int64)
    atoms[rows] = np.column_stack([places, label[rows]])
    for a, column in enumerate(atoms[rows].T):
        atoms[~drawn, a] = np.bincount(column).argmax()
    leaf = evidence.geometry.trace_atoms(atoms[:, :-1])
    out = unweighed(atoms + values.atom_start[:-1], _misfit(domains, leaf, atoms[:, -1]), values)
    return replace(out, proved=_proved(domains, leaf))


def proved_of(walked: Rows, domains: Domains, values: ValueIndex) -> Rows:
    """Say which rows that walked are proved: those that stand where one leaf was left of all trees.

    Raises GridTooLarge if that takes too large a table.
    """
    atoms = values.places(walked.values)
    label = atoms[:, -1]
    leaf = domains.evidence.geometry.trace_atoms(atoms[:, :-1])
    closed = domains.closed(label, np.zeros(len(label), dtype=bool))
    outside = np.take_along_axis(closed, leaf.astype(np.int64), axis=1) & (domains.draws.T > 0)
    return replace(walked, proved=_proved(domains, leaf) & ~outside.any(axis=1))


def _proved(domains: Domains, leaf: NDArray[np.int32]) -> BoolArray:
    """Which rows, in some leaves, are proved if these are the ones that are left."""
    decided = domains.evidence.drawn & (domains.open_leaves == 0) & domains.classes.any(axis=1)
    out = np.zeros(len(decided), dtype=bool)
    out[decided] = domains.boxes.within_one(leaf[decided], domains.draws.T[decided] > 0)
    return out


def _misfit(domains: Domains, leaf: NDArray[np.int32], label: IntArray) -> int:
    """Sum up by how much leaves miss their draws, and their distinct rows if these are counted."""
    evidence = domains.evidence
    n, d = np.zeros_like(evidence.n), np.zeros(len(evidence.n), dtype=np.int64)
    for t, b in enumerate(evidence.draws):
        np.add.at(n, (leaf[:, t], label), b)
        np.add.at(d, leaf[:, t], b > 0)
    missed = np.abs(n - evidence.n).sum()
    return int(missed if evidence.d is None else missed + np.abs(d - evidence.d).sum())
