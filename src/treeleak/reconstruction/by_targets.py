"""Rows that meet all counts, but not the targets of the leaves: two of them change places.

A leaf whose rows have one target says it. Where a row's leaves do not agree on its target, the row
stands in wrong ones, and with it another one that was drawn as often: no count tells them apart.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.answer import Answer
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.decisions import MOST_SURE
from treeleak.core.private import dataclass
from treeleak.evidence import Evidence, KnownDraws
from treeleak.partition import Geometry
from treeleak.partition.atoms import rules_hold
from treeleak.reconstruction.targets import majority_value, targets_of_leaves
from treeleak.release.draws.recompute import Draws

_MOST_ROWS = 400
"""Rows that may change places, at most: each is held against each ..."""
_MOST_ENTRIES = 2**25
"""... and leaves in which they are looked at."""
_MOST_TIMES = 20


@dataclass(frozen=True, eq=False)
class _Variants:
    """Rows as they are, and with another atom of one attribute."""

    leaf: NDArray[np.int32]
    """Shape (n_rows, n_others, n_trees). Leaves (rows of A); the first ones as they are."""
    agreed: FloatArray
    """Shape (n_rows, n_others). Share of leaves that agree on the target; 1 if none says it."""
    valid: NDArray[np.bool_]
    """Shape (n_rows, n_others). Whether the rules of the schema allow it."""


def by_targets(answer: Answer, evidence: Evidence, known: Draws | None, clock: Clock) -> Answer:
    """Let rows exchange a value where all counts stay met, and leaves agree better on targets.

    ``known``: draws of all rows. ``answer`` comes back as it is where draws are not known, parts of
    rows were given, it misses counts, or leaves agree.
    """
    if not isinstance(evidence, KnownDraws) or known is None or len(answer.rows) != 1:
        return answer
    geometry, draws = evidence.geometry, evidence.draws
    # With an earlier release, its trees stand behind those whose draws are known; and where chains
    # walked, the samples are the answer.
    whole = known.counts.shape == (len(geometry.release.trees), evidence.n_rows)
    if not whole or answer.samples is not None or clock.stopped:
        return answer
    rows, values = answer.rows[0], answer.values
    leaf_targets = targets_of_leaves(geometry.release)
    if rows.misfit or geometry.release.classes or leaf_targets is None:
        return answer
    atoms = values.atom_of[rows.values[:, :-1]] - values.atom_start[:-2]
    open_ = np.flatnonzero(~rows.proved & evidence.drawn)
    n_entries = len(open_) * int(geometry.radix.sum() + 1) * len(draws)
    if not 1 < len(open_) <= _MOST_ROWS or n_entries > _MOST_ENTRIES:
        return answer
    start = np.append(0, np.cumsum(geometry.radix))
    moved = atoms.copy()
    for _ in range(_MOST_TIMES):
        variants = _variants(geometry, moved[open_], draws[:, open_], leaf_targets)
        if (variants.agreed[:, 0] == 1.0).all():
            break
        pair = _best(moved[open_], draws[:, open_], variants, start)
        if pair is None:
            break
        i, j, a = pair
        moved[open_[[i, j]], a] = moved[open_[[j, i]], a]
    if (moved == atoms).all():
        return answer
    changed = moved != atoms
    first = values.first[moved + values.atom_start[:-2]]
    chosen, sure = rows.values.copy(), rows.confidence.copy()
    chosen[:, :-1] = np.where(changed, first, chosen[:, :-1])
    sure[:, :-1] = np.where(changed, MOST_SURE, sure[:, :-1])
    # Other datasets were those of the rows as they stood before.
    return replace(answer, rows=(replace(rows, values=chosen, confidence=sure, worlds=None),))


def _variants(
    geometry: Geometry,
    atoms: IntArray,
    draws: NDArray[np.unsignedinteger],
    leaf_targets: FloatArray,
) -> _Variants:
    """List all that each row may be.

    ``leaf_targets``: target that each leaf (row of A) discloses, or NaN.
    """
    others = [(0, -1), *((a, k) for a, n in enumerate(geometry.radix) for k in range(n))]
    each = np.repeat(atoms[:, None, :], len(others), axis=1)
    for o, (a, k) in enumerate(others[1:], 1):
        each[:, o, a] = k
    flat = each.reshape(-1, atoms.shape[1])
    leaf = geometry.trace_atoms(flat).reshape(len(atoms), len(others), -1)
    row_targets = np.where(draws.T[:, None, :] > 0, leaf_targets[leaf], np.nan)
    agreed = majority_value(row_targets.reshape(len(flat), -1))[1]
    silent = np.isnan(row_targets).all(axis=2).ravel()
    valid = rules_hold(geometry.schema.rules, geometry.parts, flat)
    shape = leaf.shape[:2]
    agreed = np.where(silent, 1.0, agreed)
    return _Variants(leaf, agreed.reshape(shape), valid.reshape(shape))


def _best(
    atoms: IntArray, draws: NDArray[np.unsignedinteger], variants: _Variants, start: IntArray
) -> tuple[int, int, int] | None:
    """Find the two rows and the attribute whose exchange makes leaves agree most."""
    best, most = None, 1e-9
    for i in np.flatnonzero(variants.agreed[:, 0] < 1.0).tolist():
        for a in range(atoms.shape[1]):
            j = np.flatnonzero(atoms[:, a] != atoms[i, a])
            here, there = 1 + start[a] + atoms[j, a], int(1 + start[a] + atoms[i, a])
            ok = variants.valid[i, here] & variants.valid[j, there]
            gain = variants.agreed[i, here] + variants.agreed[j, there]
            gain -= variants.agreed[i, 0] + variants.agreed[j, 0]
            for k in np.flatnonzero(ok & (gain > most)).tolist():
                r = int(j[k])
                leaves = (
                    variants.leaf[i, 0],
                    variants.leaf[r, 0],
                    variants.leaf[i, here[k]],
                    variants.leaf[r, there],
                )
                if gain[k] > most and _counts_stay(*leaves, draws[:, i], draws[:, r]):
                    best, most = (i, r, a), float(gain[k])
    return best


def _counts_stay(
    i: NDArray[np.int32], j: NDArray[np.int32], new_i: NDArray[np.int32], new_j: NDArray[np.int32],
    times_i: NDArray[np.unsignedinteger], times_j: NDArray[np.unsignedinteger],
) -> bool:  # fmt: skip
    """Whether all leaves count as much when two rows go to other ones."""
    still = ((new_i == i) | (times_i == 0)) & ((new_j == j) | (times_j == 0))
    return bool((still | ((times_i == times_j) & (new_i == j) & (new_j == i))).all())
