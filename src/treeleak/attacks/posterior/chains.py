"""Markov chains over datasets: the posterior of the rows, given how the counts came about.

A chain holds one dataset. Its moves change an attribute or two of a row, let two rows exchange
attributes, or send a row to a place that the counts alone, or the other rows, make likely. A
dataset that could not give the counts is not ruled out but made unlikely (by
``MISSING_ROW_PENALTY`` for each row that a leaf lacks): a chain that may pass through such
datasets gets everywhere.

What rows are like may be given as a prior, or be learned by each chain as it goes: then a chain
holds a dataset and a hierarchy, and its samples are those of both. A chain never changes: what
walks on is another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.posterior.draw_kernels import Prior, State, room_for_gibbs, walk
from treeleak.attacks.posterior.grid_kernels import drop_all, set_log_priors
from treeleak.attacks.posterior.prior_kernels import HierarchicalPrior, imagine, relearn
from treeleak.attacks.posterior.schedule import SCHEDULE
from treeleak.attacks.posterior.target import PosteriorTarget
from treeleak.attacks.samples import Info
from treeleak.attacks.tree_prior import TreePrior
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.compiled import copied
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.private import dataclass
from treeleak.core.text import short
from treeleak.partition.untested_priors import JEFFREYS
from treeleak.partition.value_index import ValueIndex

MISSING_ROW_PENALTY = 10.0
"""Log of the price of each row that a leaf lacks."""
_ALPHAS = 2.0 ** np.arange(5)
_KAPPAS = 2.0 ** np.arange(1, 7)
"""How strongly marginals are held to be even, and values to be independent; all equally likely."""


def as_kernel_prior(prior: TreePrior | FloatArray) -> Prior:
    """Lay a prior out for the kernels: a tree, or a table over all grid points and classes."""
    none = np.zeros(0, dtype=np.int32)
    if not isinstance(prior, TreePrior):
        grid = prior.ravel().astype(np.float32)
        bins = np.zeros((0, 0), dtype=np.int32)
        return Prior(none, bins, none.astype(np.int64), np.zeros(0), True, grid, none)
    offset = np.cumsum([0, *(table.size for table in prior.log_share)])[:-1]
    flat = np.concatenate([table.ravel() for table in prior.log_share])
    parent, grid = prior.parent.astype(np.int32), none.astype(np.float32)
    return Prior(parent, _padded(prior.bins), offset, flat, False, grid, none)


def _padded(bins: Sequence[IntArray]) -> NDArray[np.int32]:
    """Lay the bins of the atoms of each attribute in a line of their own."""
    out = np.zeros((len(bins), max(map(len, bins))), dtype=np.int32)
    for row_bins, line in zip(bins, out, strict=True):
        line[: len(row_bins)] = row_bins
    return out


def as_prior(hierarchy: HierarchicalPrior) -> Prior:
    """See what a chain takes rows to be like as a prior, which changes with it."""
    none = np.zeros(0, dtype=np.float32)
    tree = hierarchy.parent, hierarchy.bin, hierarchy.offset, hierarchy.log_share
    return Prior(*tree, False, none, hierarchy.order)


def hierarchy_of(values: ValueIndex, every: int) -> HierarchicalPrior:
    """Lay out what a chain is to learn; ``every`` as in :class:`HierarchicalPrior`."""
    radix = np.diff(values.atom_start)
    n_bins = np.array([entry[-1] + 1 for entry in values.bins], dtype=np.int32)
    room = [
        r * max((q for q in n_bins if r * q <= SCHEDULE.dependent_pairs), default=1) for r in radix
    ]
    offset = np.cumsum([0, *room])
    flat = TreePrior.flat(radix, values.atom_weights)
    share = np.exp(np.concatenate([entry[0] for entry in flat.log_share]))
    flag = np.isin(values.atom_start[:-1], values.binaries[:, 0])
    return HierarchicalPrior(
        np.full(len(radix), -1, dtype=np.int32),
        offset.astype(np.int64),
        np.zeros(offset[-1]),
        _padded(values.bins),
        n_bins,
        np.arange(len(radix), dtype=np.int32),
        share.copy(),
        share * np.repeat(radix, radix),
        np.array([1.0, 1.0]),
        _ALPHAS,
        _KAPPAS,
        flag,
        np.array([JEFFREYS, JEFFREYS]),
        every,
    )


@dataclass(frozen=True, eq=False)
class Chain:
    """One dataset on its walk. Made by :meth:`started`; :meth:`walked` gives the next one."""

    target: PosteriorTarget
    state: State
    hierarchy: HierarchicalPrior
    """What the prior is learned with."""
    fixed_prior: Prior | None
    """The prior, where it is not learned; its logarithm times the doubt in the likelihood."""

    @classmethod
    def started(
        cls, target: PosteriorTarget, prior: Prior | None, seed: int, at: IntArray | None = None
    ) -> Chain:
        """Start where the counts alone put the rows, or anywhere if that is not known.

        Without ``prior`` it is learned, and the rows begin as they are imagined before anything is
        counted. ``at``: atoms of rows to start from, each attribute from 0.
        """
        rng = np.random.default_rng(seed)
        moves, start = target.moves, target.values.atom_start
        state_rng = rng.integers(1, 2**63, size=1, dtype=np.uint64)
        atoms = np.empty((target.n_rows, len(target.radix)), dtype=np.int16)
        hierarchy = hierarchy_of(
            target.values, max(int(SCHEDULE.learning_sweeps * target.n_rows), 1)
        )
        if prior is None:
            imagine(
                state_rng, atoms, target.grid, hierarchy, SCHEDULE.first_redraws * len(target.radix)
            )
        if at is not None:
            atoms[:] = at
        elif target.weights is not None:
            atoms[:] = _spread(target, target.weights, rng)
        elif prior is not None:
            for a, r in enumerate(target.radix):
                atoms[:, a] = rng.integers(r, size=target.n_rows)
        for a in range(len(target.radix)):
            allowed = moves.allowed[:, start[a] : start[a + 1]]
            wrong = ~allowed[moves.group, atoms[:, a]]
            pick = rng.random((int(wrong.sum()), allowed.shape[1])) * allowed[moves.group[wrong]]
            atoms[wrong, a] = pick.argmax(axis=1)
        _obey_rules(target, atoms, rng)
        leaves = np.empty((target.n_rows, len(target.grid.root)), dtype=np.int32)
        drop_all(atoms, target.grid, leaves)
        held, seen = target.likelihood.held(leaves, atoms[:, -1]), target.likelihood.seen()
        state = State(atoms, leaves, held, seen, np.zeros(target.n_rows), state_rng)
        if prior is None:
            relearn(state_rng, atoms, target.grid, hierarchy)
        return cls(target, state, hierarchy, prior).under(prior)

    @property
    def prior(self) -> Prior:
        """What rows are taken to be like."""
        return as_prior(self.hierarchy) if self.fixed_prior is None else self.fixed_prior

    def under(self, prior: Prior | None) -> Chain:
        """Go on under another prior, or learn it."""
        if prior is not None:
            # Kernels temper both alike: what is believed less of one counts more in the other.
            power = self.target.likelihood.power
            prior = prior._replace(log_share=prior.log_share * power, grid=prior.grid * power)
        out = replace(self, state=copied(self.state), fixed_prior=prior)
        set_log_priors(out.state, self.target.grid, out.prior)
        return out

    def walked(
        self,
        sweeps: float,
        clock: Clock,
        temperature: float = 1.0,
        missing_row_penalty: float = MISSING_ROW_PENALTY,
    ) -> tuple[Chain, Info]:
        """Move on by so many steps per row, or until the clock stops.

        ``temperature``: divides the log posterior; only the log likelihood while the prior is
        learned. ``missing_row_penalty``: see :data:`MISSING_ROW_PENALTY`.
        """
        target, steps, done, taken = self.target, max(int(sweeps * self.target.n_rows), 1), 0, 0
        out = replace(self, state=copied(self.state), hierarchy=copied(self.hierarchy))
        learns = self.fixed_prior is None
        power = target.likelihood.power
        moves = target.moves._replace(fresh=SCHEDULE.fresh_rows if learns else 0.0)
        hierarchy = out.hierarchy if learns else out.hierarchy._replace(every=0)
        room = room_for_gibbs(target.radix) if moves.gibbs_share else None
        while done < steps and not clock.stopped:
            law, grid, now = (
                target.likelihood.law,
                target.grid,
                min(SCHEDULE.steps_at_once, steps - done),
            )
            taken += walk(
                now,
                temperature * power,
                missing_row_penalty * power,
                out.state,
                law,
                grid,
                moves,
                out.prior,
                hierarchy,
                room,
                target.likelihood.row_draws,
            )
            done += now
        return out, Info(done, taken)

    @property
    def atoms(self) -> NDArray[np.int16]:
        """The rows: atoms, counted from 0 in each attribute; the class is the last."""
        return self.state.atoms  # type: ignore[no-any-return]

    @property
    def height(self) -> float:
        """Log posterior of the rows and splits, up to a constant, with the full penalty.

        What is learned is no part of it; the log likelihood counts as far as it is believed.
        """
        likelihood = self.target.likelihood
        log = likelihood.log_complete(self.state.rows, self.state.seen, MISSING_ROW_PENALTY)
        if self.fixed_prior is None:
            return log
        return (log + float(self.state.log_prior.sum())) / likelihood.power


def _obey_rules(
    target: PosteriorTarget, atoms: NDArray[np.int16], rng: np.random.Generator
) -> None:
    """Send rows that break a rule, in place, to points that rules and known parts allow.

    Where points are listed, all rules are one; else they are met in turn.
    """
    grid, moves, n_rules = target.grid, target.moves, len(target.grid.rule_start)
    ends = np.append(grid.rule_start[1:], len(grid.valid))
    for _ in range(SCHEDULE.rule_turns if n_rules else 0):
        places = grid.rule_start + atoms[:, :-1].astype(np.int64) @ grid.rule_stride.T
        broken = ~grid.valid[places]
        if not broken.any():
            return
        for k in rng.permutation(n_rules):
            attributes = np.flatnonzero(grid.rule_stride[k])
            stride, radix = grid.rule_stride[k, attributes], target.radix[attributes]
            met = np.flatnonzero(grid.valid[grid.rule_start[k] : ends[k]])
            met = met[:, None] // stride % radix
            for g in np.unique(moves.group[broken[:, k]]):
                legal = met[moves.allowed[g, met + grid.start[attributes]].all(axis=1)]
                rows = np.flatnonzero(broken[:, k] & (moves.group == g))
                if not len(legal):
                    raise BadInput(f"row {rows[0]}: what is known of it breaks the schema's rules")
                atoms[np.ix_(rows, attributes)] = rng.choice(legal, len(rows))
    if n_rules:
        raise NotCovered(
            f"rules between columns on a grid of {short(target.geometry.n_points)} points: no rows "
            "are found that meet them all"
        )


def _spread(target: PosteriorTarget, weights: FloatArray, rng: np.random.Generator) -> IntArray:
    """Whole rows by the weights: their integer parts, and the rest by systematic sampling."""
    weight = weights.ravel()
    whole = np.floor(weight).astype(np.int64)
    rest = np.cumsum(weight - whole)
    short = target.n_rows - int(whole.sum())
    marks = np.floor(np.append(0.0, rest * (short / max(rest[-1], 1e-300))) + rng.random())
    pair = np.repeat(np.arange(len(weight)), whole + np.diff(marks).astype(np.int64))
    # Rounding may leave one row too many or too few.
    pair = rng.permutation(np.resize(pair, target.n_rows)) if len(pair) else pair
    point, label = np.divmod(pair, target.likelihood.n_classes)
    return np.column_stack([target.geometry.atoms(point), label])
