"""The attack on sums of the loss over drawn rows, where cells cannot be listed.

As where they are listed, a row is what maximum entropy makes of it, and multipliers of all sums
rise and fall until expected sums are those of the leaves; then the reaction of the sums to each row
is turned on, step by step. But what a row is expected to count comes from particles: points that
walk over the grid as the multipliers pull them (persistent contrastive divergence, Tieleman 2008).
A class that a walk would not find back to is weighed: as the pull changes, particles that it suits
are doubled (population annealing, Hukushima and Iba 2003).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from treeleak.attacks.answer import Answer, Rows, Status
from treeleak.attacks.consensus import cheapest
from treeleak.attacks.known_draws import particle_kernels as kernels
from treeleak.attacks.known_draws.particle_kernels import Model, Particles, Pull
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.decisions import MOST_SURE
from treeleak.core.parallel import THREADS, Pool, run_all
from treeleak.core.private import dataclass
from treeleak.core.text import bounded
from treeleak.evidence import DrawnLossSums
from treeleak.evidence.loss_sums import FIRST, SECOND, STEP, Derivative
from treeleak.evidence.predictions import at_leaves, fitted
from treeleak.partition import GridTooLarge
from treeleak.partition.masks import Masks
from treeleak.partition.value_index import ValueIndex
from treeleak.release.statistics import VALUE

_PARTICLES = 8
"""Of each row: what they make of a sum of many rows is as exact as these rows are open."""
_ROUNDS, _ALONE = 360, 0.3
"""Rounds in which all particles walk, and share of them before the sums react to single rows."""
_PACE = 3.0
"""How far multipliers move in a round: all trees move at once, so that each moves by a share."""
_SHARE = 0.5
"""Share of what rows are expected to count that a round replaces."""
_EVERY, _DAMPING = 10, 0.5
"""Rounds after which the reaction is worked out anew, and the share of the last one that stays."""
_LEAST = 0.5
"""As in the listed attack: variance of a leaf's sum beside what is open, in squares of what a row
counts."""
_LAST = 40
"""Last rounds of which particles say how probable values are."""
_MOST = 2**25
"""Most pairs of a row and a sum of a leaf: 256 MiB, held twice."""
_UNKNOWN = 1e12
"""Variance of sums that are not known."""


def by_particles(
    evidence: DrawnLossSums,
    values: ValueIndex,
    clock: Clock,
    seed: int,
    why: str,
) -> Answer:
    """Rebuild rows without a list of the cells; ``why``: why these are not listed.

    "feasible" where every statement is met; else "unknown", with the rows that err least as far as
    particles tell. No row is proved.

    Raises
    ------
    GridTooLarge
        With ``why``, where particles cannot follow the model.
    """
    fit = Fit.started(Known.of(evidence, why), evidence, seed)
    n_rounds, shares = _ROUNDS, np.zeros((evidence.n_rows, values.n_atoms))
    n, begin = 0, clock.left
    with Pool() as pool:
        while n < n_rounds and not clock.stopped:
            fit.round(n, n_rounds, pool)
            n += 1
            if n % _EVERY == 0:
                # With less time than all rounds take, there are fewer.
                each = (begin - clock.left) / n
                n_rounds = min(n_rounds, max(n + int(clock.left / max(each, 1e-9)), 1))
                missed = fit.missed(evidence)
                clock.report_progress("pulling rows by sums", 0.9 * n / n_rounds, missed)
                if not missed:
                    break
            if n >= n_rounds - _LAST:
                fit.add_to(shares, values)
    if not shares.any():
        fit.add_to(shares, values)
    missed = fit.missed(evidence)
    rows = _written(fit, shares, missed, values)
    status: Status = "unknown" if missed else "feasible"
    return Answer(
        status, values, (rows,), ordered=True, cells=f"generated: {why}",
        numbers={"grid_points": bounded(evidence.geometry.n_points), "rounds": n},
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Known:
    """The model, and the sums of its leaves, these numbered from the left."""

    model: Model
    masks: Masks
    right: FloatArray
    """Shape (n_leaves, n_sums)."""
    present: BoolArray
    """Shape (n_leaves, n_sums)."""

    @classmethod
    def of(cls, evidence: DrawnLossSums, why: str) -> Known:
        """Lay it out; raises GridTooLarge with ``why`` where particles cannot follow the model."""
        geometry, release = evidence.geometry, evidence.geometry.release
        ensemble, fitting = fitted(release)
        one = fitting.loss == "logistic" and fitting.parallel == 1 and not fitting.dropped
        masks = Masks.of(geometry)
        if not one or geometry.schema.rules or masks.open.shape[2] > 1:
            raise GridTooLarge(why)
        counts, right, present = [], [], []
        for constraints in evidence.statements():
            place = np.arange(len(masks.row)) if constraints.place is None else constraints.place
            there = (place >= 0) & (place < len(constraints.right))
            derivative = constraints.counts
            if derivative is not None and not isinstance(derivative, Derivative):
                continue
            which = None if derivative is None else derivative.which
            if which not in (None, SECOND, FIRST, STEP) or np.bincount(place[there]).max() > 1:
                continue
            each = np.zeros((len(place), 3))
            each[:, {None: 0, SECOND: 1}.get(which, 2)] = 1.0
            if derivative is not None and derivative.step is not None:
                each[:, 1] = derivative.step
            counts.append(each[masks.row])
            right.append(np.where(there, constraints.right[np.where(there, place, 0)], 0.0))
            present.append(there)
        if not counts or evidence.n_rows * len(masks.row) * len(counts) > _MOST:
            raise GridTooLarge(why)
        base = ensemble.base_scores[0]
        parts = np.split(masks.open[:, :, 0], masks.start[1:-1])
        tests = [np.flatnonzero((part != part[:1]).any(axis=0)) for part in parts]
        model = Model(
            np.ascontiguousarray(masks.open[:, :, 0]), masks.start,
            np.cumsum([0, *map(len, tests)]), np.concatenate(tests), masks.first,
            (evidence.draws > 0).astype(np.uint8), np.array(counts),
            at_leaves(release, VALUE)[masks.row],
            np.array([base if fitting.start is None else fitting.start[0], base]),
            np.array(fitting.class_weights or (1.0, 1.0)),
        )  # fmt: skip
        return cls(model, masks, np.array(right).T[masks.row], np.array(present).T[masks.row])


@dataclass(eq=False)
class Fit:
    """Particles and multipliers on their way; changed in place."""

    known: Known
    particles: Particles
    pull: Pull
    by_row: FloatArray
    mean: FloatArray
    spread: FloatArray
    floor: FloatArray
    """Shape (n_sums,)."""
    reaction: tuple[FloatArray, FloatArray] | None = None
    """P, and what rows count themselves, both damped."""

    @classmethod
    def started(cls, known: Known, evidence: DrawnLossSums, seed: int) -> Fit:
        """Spread particles evenly over the grid, with nothing that pulls."""
        model, n_rows, n = known.model, evidence.n_rows, _PARTICLES
        n_trees, (n_leaves, n_sums) = len(model.first), known.right.shape
        size = np.diff(model.start)
        share = np.repeat(1.0 / size, size)
        shape = n_rows, n, n_trees
        rng = np.random.default_rng(seed).integers(1, 2**63, (n_rows, 1), dtype=np.uint64)
        particles = Particles(
            np.zeros((n_rows, n, len(size)), dtype=np.int32),
            np.zeros((n_rows, n), dtype=np.int64),
            np.zeros(shape, dtype=np.int32), np.zeros(shape), np.zeros(shape),
            np.zeros((n_rows, n)), np.zeros((n_rows, n)), rng,
        )  # fmt: skip
        by_row = np.zeros((n_rows, n_leaves, n_sums))
        mean, spread = np.zeros((n_leaves, n_sums)), np.zeros((n_leaves, n_sums, n_sums))
        pull = Pull(
            mean.copy(),
            spread.copy(),
            by_row.copy(),
            _upto(share, model),
            np.log(share),
            reacts=False,
        )
        kernels.begin(model, particles, pull.upto)
        kernels.expect(model, particles, 1.0, by_row, mean, spread)
        squares = spread[:, range(n_sums), range(n_sums)] + (by_row**2).sum(axis=0)
        floor = _LEAST * squares.sum(axis=0) / model.draws.sum()
        return cls(known, particles, pull, by_row, mean, spread, floor)

    def round(self, n: int, n_rounds: int, pool: Pool | None = None) -> None:
        """Move multipliers, and let all particles walk."""
        present, n_sums = self.known.present, self.known.right.shape[1]
        covariance = self.spread + np.eye(n_sums) * self.floor
        for a in range(n_sums):
            no = ~present[:, a]
            covariance[no, a, :] = covariance[no, :, a] = 0.0
            covariance[no, a, a] = _UNKNOWN
        precision: FloatArray = np.asarray(np.linalg.inv(covariance), dtype=float)
        missed = np.where(present, self.known.right - self.mean, 0.0)
        pace = _PACE / len(self.known.model.first)
        pulled = self.pull.multiplier + pace * np.einsum("vab,vb->va", precision, missed)
        self.pull = self.pull._replace(multiplier=pulled)
        if n % _EVERY == 0:
            self._react(precision, n / n_rounds)
        model, particles = self.known.model, self.particles
        n_rows = len(particles.label)
        jobs = [
            partial(kernels.walk, model, self.pull, particles, np.arange(j, n_rows, THREADS))
            for j in range(THREADS)
        ]
        run_all(jobs, pool=pool)
        kernels.expect(model, particles, _SHARE if n else 1.0, self.by_row, self.mean, self.spread)

    def _react(self, precision: FloatArray, done: float) -> None:
        """Work out what the sums say to single rows, and what rows are like."""
        model, (n_rows, n) = self.known.model, self.particles.label.shape
        before = (precision, self.by_row) if self.reaction is None else self.reaction
        P, by_row = (
            _DAMPING * old + (1.0 - _DAMPING) * new
            for old, new in zip(before, (precision, self.by_row), strict=True)
        )
        self.reaction = P, by_row
        turned = min(max((done - _ALONE) / (1.0 - _ALONE), 0.0), 1.0)
        size = np.diff(model.start)
        atoms = (self.particles.atoms + model.start[:-1]).ravel()
        seen = np.bincount(atoms, minlength=int(model.start[-1])) / n
        share = (seen + 1.0) / np.repeat(n_rows + size, size)
        self.pull = self.pull._replace(
            precision=turned * P,
            by_row=by_row,
            upto=_upto(share, model),
            log_share=np.log(share),
            reacts=turned > 0,
        )

    @property
    def weight(self) -> FloatArray:
        """Probability of each particle of a row."""
        weight = np.exp(self.particles.log_weight)
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    def add_to(self, shares: FloatArray, values: ValueIndex) -> None:
        """Add the particles of rows, at their atoms and classes, shape (n_rows, n_atoms)."""
        held = np.concatenate([self.particles.atoms, self.particles.label[:, :, None]], axis=2)
        row = np.arange(len(shares))[:, None, None]
        np.add.at(shares, (row, held + values.atom_start[:-1]), self.weight[:, :, None])

    def likeliest(self) -> tuple[IntArray, IntArray]:
        """Atoms and class of the particle of each row that weighs most."""
        at = np.arange(len(self.weight)), self.weight.argmax(axis=1)
        return self.particles.atoms[at].astype(np.int64), self.particles.label[at]

    def missed(self, evidence: DrawnLossSums) -> int:
        """How many statements the likeliest particles miss."""
        atoms, label = self.likeliest()
        leaf = evidence.geometry.trace_atoms(atoms).astype(np.int64)
        met = [s.met(leaf, label) for s in evidence.statements()]
        return int((~np.concatenate(met)).sum())


def _upto(share: FloatArray, model: Model) -> FloatArray:
    parts = np.split(share, model.start[1:-1])
    return np.concatenate([np.cumsum(part) for part in parts])


def _written(fit: Fit, shares: FloatArray, missed: int, values: ValueIndex) -> Rows:
    """Write rows of values: where all sums are met, the likeliest; else those that err least."""
    if not missed:
        shares = np.zeros_like(shares)
        atoms, label = fit.likeliest()
        places = np.column_stack([atoms, label]) + values.atom_start[:-1]
        np.put_along_axis(shares, places, 1.0, axis=1)
    share = shares / shares[:, : int(values.atom_start[1])].sum(axis=1, keepdims=True)
    share = share[:, values.atom_of] * values.prior(share.sum(axis=0))
    chosen = cheapest(values.expected_cost(share), values.start)
    sure = np.minimum(np.take_along_axis(share, chosen, axis=1), MOST_SURE)
    return Rows(chosen, sure, np.zeros(len(chosen), dtype=bool), False, missed)
