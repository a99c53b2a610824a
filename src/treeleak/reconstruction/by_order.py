"""Rows of a forest whose seeds are known: what the order of columns tells beyond the counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treeleak.attacks.answer import Answer, Rows, most_worlds
from treeleak.attacks.known_draws.column_order import Group, groups_of, looked
from treeleak.attacks.known_draws.order_search import (
    CLASSES,
    TARGETS,
    Chain,
    Fitting,
    compile_loops,
    fitted,
)
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.decisions import first_least
from treeleak.core.sure import MOST_SURE
from treeleak.evidence import Evidence, KnownDraws
from treeleak.partition import Geometry
from treeleak.partition.values import Values
from treeleak.reconstruction.by_targets import by_targets
from treeleak.reconstruction.targets import targets_of
from treeleak.release.draws.recompute import Draws

_LIKELIER = 0.5
"""Share of the cost of another order that the trees' own may have: else it explains nothing."""


def by_order(
    answer: Answer, evidence: Evidence, draws: Draws | None, clock: Clock, seed: int
) -> Answer:
    """Choose between points of rows that meet the same counts by the order of columns.

    Whatever a row may be without leaving a leaf of a tree that drew it meets the same counts, and
    the same sums of targets. ``answer`` comes back as it is where it meets not all of them, or the
    order is not known, or does not fit, or parts of rows were given.
    """
    if not isinstance(evidence, KnownDraws) or draws is None or len(answer.rows) != 1:
        return answer
    geometry = evidence.geometry
    release, splitting = geometry.release, geometry.release.splitting
    # With an earlier release, its trees stand behind those whose seeds are known; and where chains
    # walked, the samples are the answer.
    own = draws.counts.shape == (len(release.trees), evidence.n_rows)
    if not own or answer.samples is not None or clock.stopped:
        return answer
    answer = by_targets(answer, evidence)
    rows, values = answer.rows[0], answer.values
    if splitting is None or rows.misfit or rows.unique or clock.stopped:
        return answer
    atoms = values.places(rows.values)
    table = values.rows(rows.values[:, :-1], release.n_features)
    y = _targets(geometry, table, rows, draws, atoms[:, -1])
    leaf = geometry.trace_atoms(atoms[:, :-1]).astype(np.int64)
    found = (
        None if y is None else looked(release, splitting, draws, leaf - geometry.leaf_start[:-1], y)
    )
    if y is None or found is None:
        return answer
    splits, paths, alike = found
    groups = groups_of(geometry, leaf, draws.counts, alike)
    if groups is None or any(not len(group.atoms) for group in groups):
        return answer
    clock.once(compile_loops)
    costs = CLASSES if release.classes else TARGETS
    clock.tell("replaying the order of columns", 0.0)
    rng = np.random.default_rng(seed)
    fit = fitted(Chain(groups, splits, paths, y, values, costs, atoms.copy(), rng), clock)
    if fit is None or fit.cost >= _LIKELIER * fit.otherwise:
        return answer
    placed = _placed(rows, groups, fit, atoms, values, sure_of_cells=not release.classes)
    numbers = {**answer.numbers, "rows_alike": len(atoms) - len(groups)}
    # What was expected of other rows says nothing of these.
    return replace(answer, rows=(placed,), numbers=numbers, expected_distance=None)


def _targets(
    geometry: Geometry, table: FloatArray, rows: Rows, draws: Draws, label: IntArray
) -> FloatArray | None:
    """Targets of rows, or classes, a column for each; None where some are not told."""
    release = geometry.release
    if release.classes:
        return np.eye(release.n_classes)[label]
    found = targets_of(release, table, rows.proved, draws.counts)
    if found is None:
        return None
    drawn = draws.counts.any(axis=0)
    if not (found.sure[drawn] > 0).all():
        return None
    return np.where(drawn, found.values, 0.0)[:, None]


def _placed(
    rows: Rows, groups: list[Group], fit: Fitting, atoms: IntArray, values: Values, *,
    sure_of_cells: bool,
) -> Rows:  # fmt: skip
    """Write the likeliest places of groups, how sure they are, and the draws.

    ``sure_of_cells``: leaves agree on the targets of rows, as they hardly would in other cells.
    """
    chosen, sure = rows.values.copy(), rows.confidence.copy()
    n_worlds = min(len(fit.worlds), most_worlds(len(atoms)))
    worlds = np.repeat(atoms[None], n_worlds, axis=0)
    for g, (group, share) in enumerate(zip(groups, fit.share, strict=True)):
        best = group.atoms[first_least(-share)]
        same = (group.atoms == best).astype(float)
        # What was proved of a row stays so, and doubt about its cell.
        changed = atoms[group.rows, :-1] != best
        settled = (group.atoms == best).all(axis=0) & (not sure_of_cells)
        own = sure[group.rows, :-1]
        cell = np.where(settled, own, 1.0).min(axis=1, keepdims=True)
        now = np.clip(cell * (share @ same), None, MOST_SURE)
        sure[group.rows, :-1] = np.where(settled | ((own == 1.0) & ~changed), own, now)
        first = values.first[best + values.atom_start[: len(best)]]
        chosen[group.rows, :-1] = np.where(changed, first, chosen[group.rows, :-1])
        worlds[:, group.rows, :-1] = group.atoms[fit.worlds[:n_worlds, g]][:, None, :]
    return replace(rows, values=chosen, confidence=sure, worlds=worlds + values.atom_start[:-1])
