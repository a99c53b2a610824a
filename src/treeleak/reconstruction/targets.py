"""Targets of regression, for the rows in the leaves that disclose them.

A leaf that holds one row stores this row's target as its mean, and so does a leaf whose variance is
zero for each of its rows. The others say what the targets of their rows add up to, and from many
sums together single targets follow.

Rows that meet all counts, but not the targets of the leaves: two of them change places. A leaf
whose rows have one target says it. Where a row's leaves do not agree on its target, the row stands
in wrong ones, and with it another one that was drawn as often: no count tells them apart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from treeleak.attacks.answer import Answer
from treeleak.attacks.targets import Solved, solve
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.decisions import MOST_SURE
from treeleak.core.message import static_message
from treeleak.core.private import dataclass
from treeleak.evidence import Evidence, KnownDraws
from treeleak.evidence.target_sums import MOST_ENTRIES, TargetSums, target_sums
from treeleak.partition import Geometry
from treeleak.partition.atoms import rules_hold
from treeleak.reconstruction.schedule import SCHEDULE
from treeleak.release.draws.recompute import Draws
from treeleak.release.release import Release
from treeleak.release.row_facts import RowFacts
from treeleak.release.statistics import DISTINCT, DRAWS, MEAN, ROWS, VARIANCE, NodeStatistic
from treeleak.release.tree import Tree

_SAME = 1e-9
"""Difference, as a part of their size, up to which two targets are one."""
_ROUNDED = 1e-14
"""What rounding leaves of a variance of zero, as a part of the mean square of all targets."""
_FINE = 1e-11
"""The same as a part of their variance, from which on it hides how targets differ."""
_LOST = 1e-12
"""What rounding may take from an interval for each row of its group, as a share of all sizes."""
_AT_ONCE = 4_000_000
_TOLD = 1e-4
"""Width of an interval, as a share of how far means of leaves lie apart, up to which it tells a
target."""

CONTRADICTED = static_message(
    "the sums of targets in the leaves do not fit the rebuilt rows: some of these rows "
    "are wrong. The answer has only targets that leaves or proved rows disclose",
    "targets_contradicted",
)


OFFSETS = static_message(
    "Nothing in the file shows whether rows started from scores of their own (base_margin, "
    "baseline): where they did, targets come back minus these",
    "targets_minus_offsets",
)


@dataclass(frozen=True, eq=False)
class Targets:
    """What leaves say of the targets of rows."""

    values: FloatArray
    """Shape (n_rows,). Where the target is not told, what is likeliest; NaN where no leaf says
    anything of it."""
    sure: FloatArray
    """Shape (n_rows,). Of a target that leaves say as it is, the share of the leaves that say this
    value; of others, how sure the rows are; 1 only where they are proved; 0 where it is not
    told."""
    low: FloatArray
    high: FloatArray
    """Shape (n_rows,). Between which ends the target lies if the rows are right; infinite where
    there is none."""
    notes: tuple[str, ...] = ()


def stated_targets(facts: RowFacts | None) -> Targets | None:
    """Take the targets of numbered rows that the file itself says."""
    if facts is None or not facts.told.any():
        return None
    return Targets(facts.targets, facts.sure, facts.low, facts.high)


def targets_of(
    release: Release,
    table: FloatArray,
    proved: BoolArray,
    draws: NDArray[np.unsignedinteger[Any]] | None = None,
) -> Targets | None:
    """Find the targets of rows: parameters as for :func:`disclosed_targets`.

    Returns None where leaves say nothing of them.
    """
    disclosed = disclosed_targets(release, table, proved, draws)
    if release.classes:
        return None
    rows = np.ascontiguousarray(table, dtype=release.float_type)
    if len(rows) * len(release.trees) > MOST_ENTRIES:
        return disclosed
    leaf = _leaves(release, rows)
    sums = target_sums(release, leaf, draws, proved)
    if sums is None:
        return disclosed
    group = _groups(leaf, draws)
    every = np.ones(len(sums.right), dtype=bool)
    solved, notes = _solved(sums, group, disclosed, every), tuple[str, ...]()
    sure = np.full(len(rows), 1.0 if proved.all() else MOST_SURE)
    if solved.met:
        # With an idea of each target, it is clearer how far sums may be off.
        again = target_sums(release, leaf, draws, proved, (solved.low, solved.high))
        if again is not None and (finer := _solved(again, group, disclosed, every)).met:
            solved = finer
    else:
        notes, sure = (CONTRADICTED,), proved.astype(float)
        wide = np.where(proved, 0.0, np.inf)
        sums = replace(sums, low=sums.low - wide, high=sums.high + wide)
        solved = _solved(sums, group, None, sums.full)
        if not solved.met:
            return None if disclosed is None else replace(disclosed, notes=notes)
    fitting = None if release.ensemble is None else release.ensemble.fitting
    if fitting is not None and not fitting.offsets_shown:
        notes, sure = (*notes, OFFSETS), np.minimum(sure, MOST_SURE)
    return _joined(disclosed, solved, sums, sure, notes)


def _joined(
    disclosed: Targets | None,
    solved: Solved,
    sums: TargetSums,
    sure: FloatArray,
    notes: tuple[str, ...],
) -> Targets:
    """Put targets that leaves say as they are before those that follow from sums."""
    near = solved.high - solved.low <= _TOLD * sums.spread
    found = Targets(solved.value, np.where(near, sure, 0.0), solved.low, solved.high, notes)
    if disclosed is None:
        return found
    exact = disclosed.sure > 0
    return Targets(
        np.where(exact, disclosed.values, found.values),
        np.where(exact, disclosed.sure, found.sure),
        np.where(exact, disclosed.low, found.low),
        np.where(exact, disclosed.high, found.high), notes,
    )  # fmt: skip


def _leaves(release: Release, rows: NDArray[Any]) -> IntArray:
    """Leaf (row of A) of each row in each tree."""
    first, leaf = 0, np.empty((len(rows), len(release.trees)), dtype=np.int64)
    for t, tree in enumerate(release.trees):
        leaf[:, t] = first + np.searchsorted(tree.leaves, tree.apply(rows))
        first += len(tree.leaves)
    return leaf


def _groups(leaf: IntArray, draws: NDArray[Any] | None) -> IntArray:
    """Number the groups of rows that no tree tells apart."""
    key = leaf if draws is None else np.column_stack([leaf, draws.T])
    return np.unique(key, axis=0, return_inverse=True)[1].ravel()


def _solved(sums: TargetSums, group: IntArray, disclosed: Targets | None, use: BoolArray) -> Solved:
    """Solve for the means of groups, and say what is left of each row."""
    n_rows, n = len(group), int(group.max()) + 1
    size = np.bincount(group)
    low, high = sums.low.copy(), sums.high.copy()
    if disclosed is not None:
        # Of leaves that do not agree, none is believed.
        exact = disclosed.sure >= MOST_SURE
        low[exact], high[exact] = disclosed.low[exact], disclosed.high[exact]

    def mean(each: FloatArray) -> FloatArray:
        return np.bincount(group, each, n) / size

    ones = csr_array((np.ones(n_rows), (np.arange(n_rows), group)), shape=(n_rows, n))
    found = solve(
        (sums.times[use] @ ones).tocsr(), sums.right[use], sums.off[use], mean(low), mean(high),
        mean(sums.predicted), sums.spread,
    )  # fmt: skip
    # What the others of a group leave to one of it.
    more = (size - 1)[group]
    with np.errstate(invalid="ignore"):
        from_ = np.where(more > 0, size[group] * found.low[group] - more * high, found.low[group])
        to = np.where(more > 0, size[group] * found.high[group] - more * low, found.high[group])
        low, high = np.fmax(low, from_), np.fmin(high, to)
    # The ends themselves are differences, rounded many times over in large groups.
    pad = _LOST * (sums.spread + np.nanmax(np.abs(sums.predicted))) * size[group]
    low, high = low - pad, high + pad
    if sums.rounded:
        low, high = low - sums.rounded * np.abs(low), high + sums.rounded * np.abs(high)
    return Solved(np.clip(found.value[group], low, high), low, high, found.met)


def disclosed_targets(
    release: Release,
    table: FloatArray,
    proved: BoolArray,
    draws: NDArray[np.unsignedinteger[Any]] | None = None,
) -> Targets | None:
    """Read the targets of rows off the leaves in which they lie.

    ``table``: shape (n_rows, n_features). ``proved``, shape (n_rows,): rows whose place in every
    tree is proved. ``draws``, shape (n_trees, n_rows): how often each tree drew each row; without
    it, every tree saw every row. Returns None where no leaf says the target of a row.
    """
    pure = [_pure(tree) for tree in release.trees]
    if release.classes or not any(block is not None for block in pure):
        return None
    rows = np.ascontiguousarray(table, dtype=release.float_type)
    values, share = np.full(len(rows), np.nan), np.zeros(len(rows))
    step = max(1, _AT_ONCE // len(release.trees))
    for begin in range(0, len(rows), step):
        block = slice(begin, begin + step)
        leaf_targets = np.full((len(rows[block]), len(release.trees)), np.nan)
        for t, (tree, targets) in enumerate(zip(release.trees, pure, strict=True)):
            if targets is not None:
                leaf_targets[:, t] = targets[tree.apply(rows[block])]
                if draws is not None:
                    leaf_targets[draws[t, block] == 0, t] = np.nan
        values[block], share[block] = majority_value(leaf_targets)
    if np.isnan(values).all():
        return None
    sure = np.where(proved & (share == 1.0), 1.0, np.minimum(share, MOST_SURE))
    off = np.where(np.isnan(values), np.inf, _SAME * np.abs(values))
    middle = np.nan_to_num(values)
    return Targets(values, sure, middle - off, middle + off)


def targets_of_leaves(release: Release) -> FloatArray | None:
    """Target of all rows of each leaf (row of A), NaN where they differ or are not told."""
    pure = [_pure(tree) for tree in release.trees]
    if all(node_targets is None for node_targets in pure):
        return None
    return np.concatenate([
        np.full(len(tree.leaves), np.nan) if node_targets is None else node_targets[tree.leaves]
        for tree, node_targets in zip(release.trees, pure, strict=True)
    ])  # fmt: skip


def _pure(tree: Tree) -> FloatArray | None:
    """Target of all rows of each leaf, NaN where they differ or are not told; None: of none."""
    mean, variance = tree.statistics.get(MEAN), tree.statistics.get(VARIANCE)
    if mean is None:
        return None
    number = tree.statistics.get(DISTINCT) or tree.statistics.get(ROWS, DRAWS)
    alone = np.zeros(tree.n_nodes, dtype=bool) if number is None else number.values == 1
    if variance is not None:
        alone |= _flat(mean, variance)
    disclosed = alone & tree.is_leaf & (True if mean.present is None else mean.present)
    return np.where(disclosed, mean.values, np.nan) if disclosed.any() else None


def _flat(mean: NodeStatistic, variance: NodeStatistic) -> BoolArray:
    """Say of which nodes all rows have one target."""
    if variance.present is not None:
        return np.asarray(variance.present & (variance.values == 0))
    # Variances are differences of sums over all rows, and as exact as these are.
    spread = float(variance.values[0])
    noise = _ROUNDED * (float(mean.values[0]) ** 2 + spread)
    if noise > _FINE * spread:
        return np.zeros(len(variance.values), dtype=bool)
    return np.asarray(np.abs(variance.values) <= noise)


def majority_value(votes_cast: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Of each row, the value that most trees say, and their share of those that say any."""
    n_rows, n_trees = votes_cast.shape
    ordered = np.sort(votes_cast, axis=1)  # NaN last
    gap = np.abs(np.diff(ordered, axis=1)) > _SAME * np.maximum(1e-300, np.abs(ordered[:, 1:]))
    new = np.column_stack([np.ones(n_rows, dtype=bool), gap | np.isnan(ordered[:, 1:])])
    group = np.cumsum(new, axis=1) - 1 + np.arange(n_rows)[:, None] * n_trees
    valid = ~np.isnan(ordered)
    votes = np.bincount(group[valid], minlength=n_rows * n_trees).reshape(n_rows, n_trees)
    best, number = votes.argmax(axis=1), valid.sum(axis=1)
    start = np.argmax(group == (np.arange(n_rows) * n_trees + best)[:, None], axis=1)
    values = ordered[np.arange(n_rows), start]
    share = votes.max(axis=1) / np.maximum(number, 1)
    return np.where(number > 0, values, np.nan), np.where(number > 0, share, 0.0)


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
    # Where chains walked, the samples are the answer.
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
    if not 1 < len(open_) <= SCHEDULE.exchanged_rows or n_entries > SCHEDULE.exchanged_leaves:
        return answer
    start = np.append(0, np.cumsum(geometry.radix))
    moved = atoms.copy()
    for _ in range(SCHEDULE.exchange_rounds):
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
