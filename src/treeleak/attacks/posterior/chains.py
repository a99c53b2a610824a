"""Markov chains over datasets: the posterior of the rows, given how the counts came about.

A chain holds one dataset. Its moves change an attribute or two of a row, let two rows exchange
attributes, or send a row to a place that the counts alone, or the other rows, make likely. A
dataset that could not give the counts is not ruled out but made unlikely (by
``MISSING_ROW_PENALTY`` for each row that a leaf lacks): a chain that may pass through such
datasets gets everywhere.

What rows are like may be given as a prior, or be learned by each chain as it goes: then a chain
holds a dataset and a hierarchy, and its samples are those of both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.answer import ENUMERATED
from treeleak.attacks.posterior.draw_kernels import (
    Ground,
    Moves,
    Prior,
    State,
    believe_all,
    climb,
    drop_all,
    room_for_gibbs,
    walk,
)
from treeleak.attacks.posterior.likelihood import DrawLikelihood, Likelihood
from treeleak.attacks.posterior.prior_kernels import HierarchicalPrior, imagine, relearn
from treeleak.attacks.tree_prior import TreePrior
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.errors import BadInput, BadSchema, NotCovered
from treeleak.core.parallel import run_all
from treeleak.core.private import dataclass
from treeleak.partition import Geometry, rules_hold
from treeleak.partition.values import Values
from treeleak.schema import Rule
from treeleak.side_information.given import KnownParts

__all__ = [
    "MISSING_ROW_PENALTY",
    "Chain",
    "PosteriorTarget",
    "as_kernel_prior",
    "as_prior",
    "start_weights",
]


MISSING_ROW_PENALTY = 10.0
"""Log of the price of each row that a leaf lacks."""
MAX_TABLE = 2**27
"""Entries of the table of leaves of all grid points: 512 MiB."""
MAX_SHARES = 2**27
"""Entries of the tables of how probable each value is in each row: 1 GiB."""
MAX_ATOMS = 8192
"""Atoms of an attribute, that tables of pairs fit."""
_SWAPS, _JUMPS, _FRESH = 0.15, 0.1, 0.1
_GIBBS_SHARE, _SINGLE = 0.6, 0.8
"""Where attributes are long, and the grid is not listed: shares of the moves that weigh all atoms
of an attribute, and of the swaps that exchange one."""
_LIKELY = 1e-6
"""Rows expected at a place from which on it is jumped to."""
_AT_ONCE, _START_SHARE = 5, 0.15
"""Sweeps of EM between two looks at the clock, and the share of the time left that it may take."""
_RELEARN, _IMAGINED = 1.5, 3
"""Sweeps between two redraws of what rows are like; redraws per attribute before the first row."""
_ALPHAS = 2.0 ** np.arange(5)
_KAPPAS = 2.0 ** np.arange(1, 7)
"""How strongly marginals are held to be even, and values to be independent; all equally likely."""
_ONES = np.array([4.0, 2.0])
"""Flags are more often 0 than 1: columns' worth of hierarchy, before anything is counted."""
_MOST_TURNS = 1000
"""Turns in which rows that break rules are sent elsewhere."""
_MOST_PAIRS = 2**16
"""Pairs of atom and bin up to which one attribute may depend on another."""
_SLICE = 200_000
"""Steps between two looks at the clock, about 0.2 s."""


@dataclass(frozen=True, eq=False)
class PosteriorTarget:
    """What all chains share.

    Attributes
    ----------
    geometry : Geometry
    values : Values
    likelihood : Likelihood
    n_rows : int
    ground : Ground
    moves : Moves
    weights : float array, shape (n_points, n_classes), or None
        Rows expected at each grid point, by hidden draws alone or by a population; None if that is
        not known, or the grid too large.
    """

    geometry: Geometry
    values: Values
    likelihood: Likelihood
    n_rows: int
    ground: Ground
    moves: Moves
    weights: FloatArray | None

    @classmethod
    def of(
        cls,
        geometry: Geometry,
        values: Values,
        likelihood: Likelihood,
        n_rows: int,
        parts: KnownParts | None,
        clock: Clock,
    ) -> PosteriorTarget:
        """Lay out the grid and find where the counts alone put the rows.

        Raises
        ------
        BadSchema
            If no row meets the rules of the schema.
        NotCovered
            If a table would not fit, or if a rule of the schema speaks of too many values.
        """
        n_classes = likelihood.n_classes
        radix = np.append(geometry.radix, n_classes)
        _check_size(geometry, radix, n_rows)
        ground = _ground(geometry, radix, values)
        weights = None
        if len(ground.table) and isinstance(likelihood, DrawLikelihood):
            weights = start_weights(ground, likelihood, n_rows, clock)
        if parts is None:
            group, allowed = np.zeros(n_rows, np.int64), np.ones((1, values.n_atoms), bool)
        else:
            group, allowed = parts.group, parts.allowed
        # Where leaves name a class only, what two rows change together is not a sum.
        swaps = 0.0 if len(likelihood.law.named) else _SWAPS
        many = not len(ground.table) and _long(values)
        moves = _moves(group, allowed, values, weights)
        moves = moves._replace(
            swaps=swaps, gibbs_share=_GIBBS_SHARE if many else 0.0, single=_SINGLE if many else 0.0
        )
        return cls(geometry, values, likelihood, n_rows, ground, moves, weights)

    def expecting(self, weights: FloatArray) -> PosteriorTarget:
        """Let rows start where they are expected, and jump there.

        What lies between two likely places may be too unlikely to be passed.
        """
        own = self.moves
        moves = _moves(own.group, own.allowed, self.values, weights)
        moves = moves._replace(swaps=own.swaps, gibbs_share=own.gibbs_share)
        return replace(self, weights=weights, moves=moves)

    @property
    def cells(self) -> str:
        """How the cells were found: see :attr:`Answer.cells`."""
        if len(self.ground.table):
            return ENUMERATED
        return f"generated: the grid of thresholds has {self.geometry.n_points:.3g} points"

    @property
    def radix(self) -> IntArray:
        """Atoms of each attribute, the class last."""
        return np.asarray(self.ground.radix, dtype=np.int64)


def _long(values: Values) -> bool:
    """Whether some ordered attribute has so many atoms that one at random hardly ever fits."""
    return any(own[-1] + 1 < len(own) for own in values.bins)


def _check_size(geometry: Geometry, radix: IntArray, n_rows: int) -> None:
    """Raise NotCovered if a table of the attack would not fit."""
    a = int(radix.argmax())
    if radix[a] > MAX_ATOMS:
        name = "the class" if a == len(geometry.parts) else geometry.parts[a].attribute.name
        raise NotCovered(f"{radix[a]:,} intervals or values of {name!r}; at most {MAX_ATOMS:,}")
    if n_rows * int(radix.sum()) > MAX_SHARES:
        raise NotCovered(
            f"{n_rows:,} rows with {int(radix.sum()):,} values or intervals; at most "
            f"{MAX_SHARES:,} pairs of them"
        )


def _ground(geometry: Geometry, radix: IntArray, values: Values) -> Ground:
    n_trees, rules = len(geometry.release.trees), geometry.schema.rules
    stride = np.zeros(0, dtype=np.int64)
    table = np.zeros((0, n_trees), dtype=np.int32)
    allowed: list[tuple[BoolArray, IntArray]] = []
    # Beside the leaves, there is a weight per class and an atom per attribute.
    listed = geometry.n_points * max(n_trees, int(radix[-1]), 2 * len(radix)) <= MAX_TABLE
    if listed:
        points, stride = np.arange(geometry.n_points), geometry.stride
        table = geometry.trace(points)
        if rules:
            valid = rules_hold(rules, geometry.parts, geometry.atoms(points))
            if not valid.any():
                raise BadSchema("no row meets all rules of the schema")
            allowed.append((valid, stride))
    else:
        allowed += [_of_rule(rule, geometry) for rule in rules]
    return Ground(
        radix.astype(np.int32),
        values.atom_start.astype(np.int32),
        stride,
        table,
        np.cumsum([0, *(len(valid) for valid, _ in allowed)], dtype=np.int64)[:-1],
        np.array([own for _, own in allowed], dtype=np.int64).reshape(-1, len(geometry.parts)),
        np.concatenate([np.zeros(0, dtype=bool), *(valid for valid, _ in allowed)]),
        _until(geometry),
        *geometry.compiled,
    )


def _of_rule(rule: Rule, geometry: Geometry) -> tuple[BoolArray, IntArray]:
    """List what a rule allows, over the attributes of which it speaks, and their strides there."""
    own = [
        a
        for a, part in enumerate(geometry.parts)
        if not set(rule.columns).isdisjoint(part.attribute.columns)
    ]
    radix = geometry.radix[own]
    n = math.prod(int(r) for r in radix)
    if n * len(geometry.radix) > MAX_TABLE:
        raise NotCovered(
            f"a rule of kind {rule.kind!r} on a grid of {geometry.n_points:.3g} points, with "
            f"{n:,} combinations of values of {', '.join(map(repr, rule.columns))}"
        )
    stride = np.zeros(len(geometry.radix), dtype=np.int64)
    stride[own] = np.append(np.cumprod(radix[::-1][:-1])[::-1], 1)
    atoms = np.zeros((n, len(stride)), dtype=np.int64)
    atoms[:, own] = np.arange(n)[:, None] // stride[own] % radix
    valid = rules_hold([rule], geometry.parts, atoms)
    if not valid.any():
        raise BadSchema(f"no row meets the schema's rule of kind {rule.kind!r}")
    return valid, stride


def _until(geometry: Geometry) -> NDArray[np.int32]:
    """Per test and atom, the next atom of the attribute that goes another way, or their number."""
    _, attribute, test, _, _, goes_left = geometry.compiled
    tests, example = np.unique(test[attribute >= 0], return_index=True)
    radix = geometry.radix[attribute[attribute >= 0][example]]
    first = np.repeat(tests, radix)
    # Tests follow each other without a break.
    turns = np.flatnonzero(
        np.diff(goes_left[: len(first)], prepend=2) | (np.arange(len(first)) == first)
    )
    after = np.append(turns, len(first))[
        np.searchsorted(turns, np.arange(len(first)), side="right")
    ]
    return np.asarray(after - first, dtype=np.int32)


def start_weights(
    ground: Ground, likelihood: DrawLikelihood, n_rows: int, clock: Clock, sweeps: int = 60
) -> FloatArray:
    """Rows expected at each grid point if draws were shares: EM, class by class.

    Returns
    -------
    float array, shape (n_points, n_classes)
    """
    n_points = len(ground.table)
    draws = likelihood.draws.reshape(-1, likelihood.n_classes)
    valid = ground.valid if len(ground.valid) else np.ones(n_points, dtype=bool)
    out = np.zeros((n_points, likelihood.n_classes))
    part = clock.part(_START_SHARE * clock.left)

    def fit(c: int) -> None:
        own = draws[:, c].astype(float)
        if not own.any():
            return
        weight, own_rows = valid / valid.sum(), n_rows * own.sum() / likelihood.draws.sum()
        for k in range(sweeps // _AT_ONCE):
            if k and part.stopped:
                break
            climb(ground.table, own, weight, _AT_ONCE)
            # What has become as good as empty stays so, and need not be looked at again.
            weight[weight * own_rows < _LIKELY] = 0.0
        out[:, c] = weight * own.sum()

    run_all([partial(fit, c) for c in range(likelihood.n_classes)])
    if not out.any():  # all draws are counted where no row can go
        out[valid] = 1.0
    out *= n_rows / out.sum()
    return out


def _moves(
    group: IntArray, allowed: BoolArray, values: Values, weights: FloatArray | None
) -> Moves:
    start = values.atom_start
    n_open = np.add.reduceat(allowed, start[:-1], axis=1, dtype=np.int64)
    open_group, open_attribute = np.nonzero(n_open > 1)
    open_start = np.searchsorted(open_group, np.arange(len(allowed) + 1))
    open_rows = np.flatnonzero(np.diff(open_start)[group] > 0)
    jump_start, jump_pair = np.zeros(len(allowed) + 1, np.int64), np.zeros(0, np.int64)
    jump_sum, jump_log = np.zeros(0), np.zeros(0, np.float32)
    if weights is not None:
        weight = weights.ravel()
        likely = np.flatnonzero(weight > _LIKELY)
        with np.errstate(divide="ignore"):
            jump_log = np.log(np.where(weight > _LIKELY, weight, 0.0)).astype(np.float32)
        pools = _pools(likely, allowed, values, weights.shape[1])
        jump_start = np.cumsum([0, *(len(pool) for pool in pools)])
        jump_pair = np.concatenate(pools)
        jump_sum = np.concatenate([np.cumsum(weight[pool]) for pool in pools])
    return Moves(
        open_rows.astype(np.int32),
        group.astype(np.int32),
        np.ascontiguousarray(allowed),
        open_start.astype(np.int32),
        open_attribute.astype(np.int32),
        _SWAPS,
        0.0 if weights is None else _JUMPS,
        0.0,
        0.0,
        0.0,
        jump_start,
        jump_sum,
        jump_pair,
        jump_log,
    )


def _pools(pairs: IntArray, allowed: BoolArray, values: Values, n_classes: int) -> list[IntArray]:
    """For each group, the pairs (point * n_classes + class) that its rows may take."""
    if len(allowed) * len(pairs) > MAX_TABLE:
        return [pairs[:0] for _ in allowed]
    point, label = np.divmod(pairs, n_classes)
    radix = np.diff(values.atom_start)[:-1]
    legal = allowed[:, values.atom_start[-2] + label]
    for a in reversed(range(len(radix))):
        point, atom = np.divmod(point, radix[a])
        own = allowed[:, values.atom_start[a] : values.atom_start[a + 1]]
        if not own.all():
            legal &= own[:, atom]
    return [pairs[own] for own in legal]


def as_kernel_prior(prior: TreePrior | FloatArray) -> Prior:
    """Lay a prior out for the kernels: a tree, or a table over all grid points and classes."""
    none = np.zeros(0, dtype=np.int32)
    if not isinstance(prior, TreePrior):
        grid = prior.ravel().astype(np.float32)
        bins = np.zeros((0, 0), dtype=np.int32)
        return Prior(none, bins, none.astype(np.int64), np.zeros(0), grid, none)
    offset = np.cumsum([0, *(table.size for table in prior.log_share)])[:-1]
    flat = np.concatenate([table.ravel() for table in prior.log_share])
    parent, grid = prior.parent.astype(np.int32), none.astype(np.float32)
    return Prior(parent, _padded(prior.bins), offset, flat, grid, none)


def _padded(bins: Sequence[IntArray]) -> NDArray[np.int32]:
    """Lay the bins of the atoms of each attribute in a line of their own."""
    out = np.zeros((len(bins), max(map(len, bins))), dtype=np.int32)
    for own, line in zip(bins, out, strict=True):
        line[: len(own)] = own
    return out


def as_prior(hierarchy: HierarchicalPrior) -> Prior:
    """See what a chain takes rows to be like as a prior, which changes with it."""
    none = np.zeros(0, dtype=np.float32)
    tree = hierarchy.parent, hierarchy.bin, hierarchy.offset, hierarchy.log_share
    return Prior(*tree, none, hierarchy.order)


def _hierarchy(target: PosteriorTarget, every: int) -> HierarchicalPrior:
    """Lay out what a chain is to learn."""
    radix, values = target.radix, target.values
    n_bins = np.array([own[-1] + 1 for own in values.bins], dtype=np.int32)
    room = [r * max((q for q in n_bins if r * q <= _MOST_PAIRS), default=1) for r in radix]
    offset = np.cumsum([0, *room])
    flat = TreePrior.flat(radix, values.atom_weights)
    share = np.exp(np.concatenate([own[0] for own in flat.log_share]))
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
        _ONES,
        every,
    )


@dataclass(eq=False)
class Chain:
    """One dataset on its walk. Made by :meth:`started`; :meth:`walked` moves it on, in place.

    Attributes
    ----------
    target : PosteriorTarget
    state : State
    prior : Prior
    hierarchy : HierarchicalPrior
        What the prior is learned with; its ``every`` is 0 where the prior is given.
    """

    target: PosteriorTarget
    state: State
    prior: Prior
    hierarchy: HierarchicalPrior

    @classmethod
    def started(cls, target: PosteriorTarget, prior: Prior | None, seed: int) -> Chain:
        """Start where the counts alone put the rows, or anywhere if that is not known.

        Parameters
        ----------
        target : PosteriorTarget
        prior : Prior or None
            None: it is learned, and the rows begin as they are imagined before anything is counted.
        seed : int
        """
        rng = np.random.default_rng(seed)
        moves, start = target.moves, target.values.atom_start
        state_rng = rng.integers(1, 2**63, size=1, dtype=np.uint64)
        atoms = np.empty((target.n_rows, len(target.radix)), dtype=np.int16)
        hierarchy = _hierarchy(
            target, 0 if prior is not None else max(int(_RELEARN * target.n_rows), 1)
        )
        if prior is None:
            imagine(state_rng, atoms, target.ground, hierarchy, _IMAGINED * len(target.radix))
        if target.weights is not None:
            atoms[:] = _spread(target, target.weights, rng)
        elif prior is not None:
            for a, r in enumerate(target.radix):
                atoms[:, a] = rng.integers(r, size=target.n_rows)
        for a in range(len(target.radix)):
            own = moves.allowed[:, start[a] : start[a + 1]]
            wrong = ~own[moves.group, atoms[:, a]]
            pick = rng.random((int(wrong.sum()), own.shape[1])) * own[moves.group[wrong]]
            atoms[wrong, a] = pick.argmax(axis=1)
        _obey_rules(target, atoms, rng)
        leaves = np.empty((target.n_rows, len(target.ground.root)), dtype=np.int32)
        drop_all(atoms, target.ground, leaves)
        held, seen = target.likelihood.held(leaves, atoms[:, -1]), target.likelihood.seen()
        state = State(atoms, leaves, held, seen, np.zeros(target.n_rows), state_rng)
        if prior is None:
            relearn(state_rng, atoms, target.ground, hierarchy)
            prior = as_prior(hierarchy)
        chain = cls(target, state, prior, hierarchy)
        chain.believe(prior)
        return chain

    def believe(self, prior: Prior) -> None:
        """Go on under another prior."""
        self.prior = prior
        believe_all(self.state, self.target.ground, prior)

    def walked(
        self,
        sweeps: float,
        clock: Clock,
        temperature: float = 1.0,
        missing_row_penalty: float = MISSING_ROW_PENALTY,
        learns: bool = True,
    ) -> Chain:
        """Move on by so many steps per row, or until the clock stops.

        Parameters
        ----------
        sweeps : float
        clock : Clock
        temperature : float
            Divides the log posterior; only the log likelihood while the prior is learned.
        missing_row_penalty : float
            See :data:`MISSING_ROW_PENALTY`.
        learns : bool
            Whether a prior that is learned is redrawn on the way.
        """
        target, left = self.target, max(int(sweeps * self.target.n_rows), 1)
        learns = learns and self.hierarchy.every > 0
        moves = target.moves._replace(fresh=_FRESH if learns else 0.0)
        hierarchy = self.hierarchy if learns else self.hierarchy._replace(every=0)
        room = room_for_gibbs(target.radix) if moves.gibbs_share else None
        while left > 0 and not clock.stopped:
            steps = min(_SLICE, left)
            law, ground = target.likelihood.law, target.ground
            walk(
                steps,
                temperature,
                missing_row_penalty,
                self.state,
                law,
                ground,
                moves,
                self.prior,
                hierarchy,
                room,
            )
            left -= steps
        return self

    @property
    def log_likelihood(self) -> float:
        """Log likelihood of the rows and splits, up to a constant, with the full penalty."""
        return self.target.likelihood.log_complete(
            self.state.rows, self.state.seen, MISSING_ROW_PENALTY
        )

    @property
    def log_posterior(self) -> float:
        """The same with the log prior of the rows."""
        return self.log_likelihood + float(self.state.log_prior.sum())


def _obey_rules(
    target: PosteriorTarget, atoms: NDArray[np.int16], rng: np.random.Generator
) -> None:
    """Send rows that break a rule, in place, to points that rules and known parts allow."""
    ground, moves = target.ground, target.moves
    if not len(ground.valid):
        return
    if not len(ground.table):
        _mend(target, atoms, rng)
        return
    broken = ~ground.valid[atoms[:, :-1].astype(np.int64) @ ground.stride]
    if not broken.any():
        return
    places = target.geometry.atoms(np.flatnonzero(ground.valid))
    for g in np.unique(moves.group[broken]):
        legal = moves.allowed[g, places + ground.start[:-2]].all(axis=1)
        rows = np.flatnonzero(broken & (moves.group == g))
        if not legal.any():
            raise BadInput(f"row {rows[0]}: what is known of it breaks the schema's rules")
        atoms[rows, :-1] = rng.choice(places[legal], len(rows))


def _mend(target: PosteriorTarget, atoms: NDArray[np.int16], rng: np.random.Generator) -> None:
    """The same rule by rule, where points are not listed."""
    ground, moves, n_rules = target.ground, target.moves, len(target.ground.rule_start)
    ends = np.append(ground.rule_start[1:], len(ground.valid))
    for _ in range(_MOST_TURNS):
        places = ground.rule_start + atoms[:, :-1].astype(np.int64) @ ground.rule_stride.T
        broken = ~ground.valid[places]
        if not broken.any():
            return
        for k in rng.permutation(n_rules):
            own = np.flatnonzero(ground.rule_stride[k])
            stride, radix = ground.rule_stride[k, own], target.radix[own]
            met = np.flatnonzero(ground.valid[ground.rule_start[k] : ends[k]])
            met = met[:, None] // stride % radix
            for g in np.unique(moves.group[broken[:, k]]):
                legal = met[moves.allowed[g, met + ground.start[own]].all(axis=1)]
                rows = np.flatnonzero(broken[:, k] & (moves.group == g))
                if not len(legal):
                    raise BadInput(f"row {rows[0]}: what is known of it breaks the schema's rules")
                atoms[np.ix_(rows, own)] = rng.choice(legal, len(rows))
    raise NotCovered(
        f"rules between columns on a grid of {target.geometry.n_points:.3g} points: no rows are "
        "found that meet them all"
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
