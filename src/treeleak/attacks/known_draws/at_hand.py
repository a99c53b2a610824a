"""Rows at hand: one for each domain, where time ran out before rows could be rebuilt."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.answer import Rows
from treeleak.attacks.known_draws.domains import Domains
from treeleak.attacks.large_grid.settling import unweighed
from treeleak.core.arrays import IntArray, bits_set
from treeleak.partition.values import Values


def rows_at_hand(domains: Domains, values: Values) -> Rows:
    """Put each row where its leaves allow it, whether the counts are met or not.

    Rows of which one leaf is left in every tree are proved, as far as all that these leaves admit
    lies in one leaf of every other tree.
    """
    evidence, boxes = domains.evidence, domains.boxes
    drawn = evidence.drawn
    rows = np.flatnonzero(drawn)
    label = bits_set(domains.bits).argmax(axis=1)
    own = domains.chosen(label)[rows]
    # A leaf more than once changes nothing of what all of them admit.
    places = boxes.common(np.where(own >= 0, own, own.max(axis=1, keepdims=True)))[1]
    atoms = np.zeros((evidence.n_rows, places.shape[1] + 1), dtype=np.int64)
    atoms[rows] = np.column_stack([places, label[rows]])
    for a, column in enumerate(atoms[rows].T):
        atoms[~drawn, a] = np.bincount(column).argmax()
    leaf = evidence.geometry.trace_atoms(atoms[:, :-1])
    settled = drawn & (domains.open_leaves == 0)
    proved = np.zeros(len(drawn), dtype=bool)
    proved[settled] = boxes.within_one(leaf[settled], domains.draws.T[settled] > 0)
    out = unweighed(atoms + values.atom_start[:-1], _misfit(domains, leaf, atoms[:, -1]), values)
    return replace(out, proved=proved)


def _misfit(domains: Domains, leaf: NDArray[np.int32], label: IntArray) -> int:
    """Sum up by how much the counts of leaves are missed."""
    evidence = domains.evidence
    held = np.zeros_like(evidence.n)
    for t, b in enumerate(evidence.draws):
        np.add.at(held, (leaf[:, t], label), b)
    return int(np.abs(held - evidence.n).sum())
