"""Rows that walk, where leaves cannot be narrowed down to few candidates.

Classes come first, for walks cannot meet the counts with wrong ones. Rows then walk within what is
left of their leaves.

Classes follow from what whole trees count. Every tree says how many draws of each class it made,
and where each leaf holds one class, how many rows of each class it drew at all: linear equations in
the classes of the rows, with nothing in them of where the rows lie.

Message passing (vector AMP: Rangan, Schniter and Fletcher 2019) finds all classes in some
hundredths of a second, as long as there are enough equations for each row: .46 where 37 % of the
rows are of a class, .39 for 22 %. Half as many have one solution only, to which whole trees alone
lead on no known way.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.special import expit, logit, xlogy

from treeleak.attacks.answer import Answer, Rows
from treeleak.attacks.known_draws.atom_intervals import restrict_to_domains
from treeleak.attacks.known_draws.domains import Domains
from treeleak.attacks.known_draws.schedule import SCHEDULE
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.run import Narrow, by_walking, unchanged
from treeleak.attacks.solvers.cp_sat import LinearExpr, Model, run
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.decisions import MOST_SURE, RANK, first_least, on_grid
from treeleak.core.private import dataclass
from treeleak.evidence import KnownDraws
from treeleak.partition import GridTooLarge
from treeleak.partition.value_index import ValueIndex
from treeleak.schema import Joint, Numeric, Ordinal
from treeleak.side_information.side_information import KnownParts, SideInformation


@dataclass(frozen=True, eq=False)
class Classes:
    """Classes that meet what whole trees count, or the best guess."""

    label: IntArray
    """Shape (n_rows,)."""
    sure: BoolArray
    """Shape (n_rows,). Whether no other classes meet it: proved, or as good as certain by the
    number of equations. False for rows that no tree drew."""
    guessed: bool = False
    """Whether no others meet it than some that were not found."""


def find_classes(evidence: KnownDraws, possible: BoolArray, clock: Clock, seed: int) -> Classes:
    """Find classes that meet what whole trees count.

    ``possible``, shape (n_rows, n_classes): of which classes rows may be.
    """
    weight, target = _equations(evidence)
    n_classes = target.shape[1]
    label, open_ = possible.argmax(axis=1), possible.sum(axis=1) != 1
    target = target - (weight[:, ~open_] @ np.eye(n_classes)[label[~open_]]).astype(np.int64)
    weight, possible = weight[:, open_], possible[open_]
    of_class = target[: len(evidence.draws)].clip(0).sum(axis=0)
    shares = of_class / max(of_class.sum(), 1)
    spectrum = _Spectrum(weight)
    alone = spectrum.log_others(shares) < -SCHEDULE.classes_alone

    label[open_] = spectrum.classes(target, np.where(possible, shares, 0.0))
    missed = (weight @ np.eye(n_classes)[label[open_]] != target).any()
    if not missed and alone:
        return Classes(label, evidence.drawn)
    none = np.zeros(len(label), dtype=bool)
    if clock.stopped:
        return Classes(label, none, guessed=alone)
    solved, proved = _solved(weight, target, possible, label[open_], clock, seed)
    if solved is None:
        return Classes(label, none, guessed=alone)
    label[open_] = solved
    return Classes(label, evidence.drawn if proved or alone else none)


def _solved(
    weight: FloatArray, target: IntArray, possible: BoolArray, hint: IntArray, clock: Clock,
    seed: int,
) -> tuple[IntArray | None, bool]:  # fmt: skip
    """Look for classes by the integer solver; say whether there are no others."""
    model = Model()
    z = [[model.new_bool_var("") for _ in row_literals] for row_literals in possible]
    for row_literals, allowed, first in zip(z, possible, hint, strict=True):
        model.add_exactly_one([row_literals[c] for c in np.flatnonzero(allowed)])
        for c, literal in enumerate(row_literals):
            model.add_hint(literal, int(first == c))
            if not allowed[c]:
                model.add(literal == 0)
    for weights, totals in zip(weight.astype(np.int64), target.tolist(), strict=True):
        drawn = np.flatnonzero(weights).tolist()
        for c, count in enumerate(totals):
            literals = [z[k][c] for k in drawn]
            model.add(LinearExpr.weighted_sum(literals, weights[drawn].tolist()) == count)
    ended = run(model, clock, seed, SCHEDULE.class_work)
    if not ended.found:
        return None, False
    label = [[ended.solver.boolean_value(v) for v in row_literals] for row_literals in z]
    label = np.array(label, dtype=bool).reshape(possible.shape).argmax(axis=1)
    model.clear_hints()
    drawn = np.flatnonzero(weight.any(axis=0)).tolist()
    model.add_bool_or([~z[k][label[k]] for k in drawn])
    return label, run(model, clock, seed, SCHEDULE.class_proof_work).none


class _Spectrum:
    """The equations, each independent of the others."""

    def __init__(self, weight: FloatArray) -> None:
        self.weight = weight
        square, left = np.linalg.eigh(weight @ weight.T)
        independent = square > RANK * square.max(initial=0.0)
        self.left, self.size = left[:, independent], np.sqrt(square[independent])
        self.right = (self.left / self.size).T @ weight

    def classes(self, target: IntArray, prior: FloatArray) -> IntArray:
        """Guess classes, from how probable they are, by message passing.

        ``prior``, shape (n_rows, n_classes): of each row; 0 for classes that it cannot be of.
        """
        pairs = zip(target.T, prior.T, strict=True)
        probable = np.column_stack([self.believed(column, p) for column, p in pairs])
        return np.asarray(first_least(np.where(prior > 0.0, -probable, 1.0)))

    def believed(self, target: IntArray, p: FloatArray) -> FloatArray:
        """How probable it is of each row that it is of a class; ``p``: before anything is heard."""
        n_rows, seen = self.weight.shape[1], (self.left.T @ target) / self.size
        share = len(self.size) / max(n_rows, 1)
        if share >= 1.0 or not share:
            return np.asarray(np.clip(self.right.T @ seen, 0.0, 1.0))
        # What a row's class looks like through the others' noise, and the variance of that noise.
        x = u = p
        through, variance = x, np.inf
        for _ in range(SCHEDULE.message_rounds):
            missed = self.right.T @ (seen - self.right @ x)
            noise = max(
                (1.0 - share) / share * float(missed @ missed) / (share * n_rows),
                SCHEDULE.message_variance,
            )
            step = 1.0 if variance == np.inf else SCHEDULE.message_step
            through = (1.0 - step) * through + step * (x + missed / share)
            variance = noise if variance == np.inf else (1.0 - step) * variance + step * noise
            u = expit(logit(p) + (through - 0.5) / variance)
            if (self.weight @ (on_grid(u) > 0.5) == target).all():
                break
            # Less what the row was told itself.
            left = min(
                max(float((u * (1.0 - u)).mean()), SCHEDULE.message_variance), 0.999 * variance
            )
            x = (u / left - through / variance) / (1.0 / left - 1.0 / variance)
        return np.asarray(u)

    def log_others(self, shares: FloatArray) -> float:
        """Log of how many classes drawn by their shares would meet all equations by chance.

        Sums are taken to be normal: whole numbers are as dense.
        """
        p = shares[shares > 0]
        entropy = -self.weight.shape[1] * float(xlogy(p, p).sum())
        spread = (len(p) - 1) * (np.log(2 * np.pi) + 2 * np.log(self.size)) + np.log(p).sum()
        return float(entropy - spread.sum() / 2)


def _equations(evidence: KnownDraws) -> tuple[FloatArray, IntArray]:
    """Weight of each row and total of each class, equation by equation."""
    start = evidence.geometry.leaf_start[: len(evidence.draws)]
    weight = evidence.draws.astype(float)
    target = np.add.reduceat(evidence.n, start, axis=0)
    if evidence.d is not None:
        # Of a leaf of several classes it is not told how many rows of each it holds.
        pure = (evidence.n > 0).sum(axis=1) <= 1
        single_class = np.logical_and.reduceat(pure, start)
        rows = np.add.reduceat(np.where(evidence.n > 0, evidence.d[:, None], 0), start, axis=0)
        weight = np.concatenate([weight, weight[single_class] > 0])
        target = np.concatenate([target, rows[single_class]])
    return weight, target


def rows_walked(
    evidence: KnownDraws, values: ValueIndex, side_info: SideInformation,
    domains: Domains | None, why: str, clock: Clock, seed: int,
) -> Answer:  # fmt: skip
    """Let rows walk, where they may lie."""
    classes = classes_of(evidence, side_info.parts, domains, clock, seed)
    # What walks come to is worse than a guess, where only one choice of classes meets all.
    open_label = ~classes.sure & evidence.drawn & (not classes.guessed)
    constraints = RowConstraints.of_known(
        evidence, evidence.geometry, classes.label, open_label, side_info.parts
    )
    narrow: Narrow = unchanged
    if domains is not None:
        with suppress(GridTooLarge):
            domains = _of_classes(domains, classes, clock.part(SCHEDULE.classes_share * clock.left))
            constraints = restrict_to_domains(constraints, domains)
            narrow = partial(_assumed, domains)
    answer = by_walking(constraints, values, clock, seed, why, narrow=narrow)
    return replace(answer, rows=tuple(_with_classes(rows, classes) for rows in answer.rows))


def weighed_within_leaves(
    answer: Answer, evidence: KnownDraws, side_info: SideInformation, clock: Clock
) -> Answer:
    """Say of rows that meet every count how probable values are where their leaves leave them.

    Other datasets know of no population: nothing is said there, nor where no column holds numbers.
    """
    if answer.status != "feasible" or side_info.population is not None:
        return answer
    parts, (rows,) = evidence.geometry.parts, answer.rows
    if not any(isinstance(part.attribute, (Numeric, Ordinal)) for part in parts):
        return answer
    label, known = answer.values.places(rows.values)[:, -1], np.zeros(len(rows.values), dtype=bool)
    # A value of several columns has no order.
    if any(isinstance(part.attribute, Joint) for part in parts):
        return answer
    with suppress(GridTooLarge), clock.cut_short():
        constraints = RowConstraints.of_known(
            evidence, evidence.geometry, label, known, side_info.parts
        )
        return replace(answer, rows=(_within_leaves(rows, answer.values, constraints),))
    return answer


def _within_leaves(rows: Rows, values: ValueIndex, constraints: RowConstraints) -> Rows:
    """Say how often other datasets that meet the counts have a value where a row's leaves leave it.

    Rows stay as they are if no other datasets are known.
    """
    if rows.worlds is None:
        return rows
    atoms = np.ascontiguousarray(values.places(rows.values)[:, :-1], dtype=np.int32)
    low, high = constraints.masks.around(atoms, constraints.draws > 0)
    others = rows.worlds[..., :-1] - values.atom_start[:-2]
    there = ((others >= low) & (others <= high)).sum(axis=0)
    within = np.column_stack([(there + 1) / (len(others) + 1), rows.confidence[:, -1]])
    return replace(rows, within=np.where(rows.proved[:, None], 1.0, within))


def _with_classes(rows: Rows, classes: Classes) -> Rows:
    """Say that classes are certain which no other choice of classes can be, whatever rows miss.

    Other values of rows that walked are not, whatever is believed of them.
    """
    confidence = np.minimum(rows.confidence, MOST_SURE)
    confidence[classes.sure, -1] = MOST_SURE
    return replace(rows, confidence=confidence)


def _of_classes(domains: Domains, classes: Classes, clock: Clock) -> Domains:
    """Narrow the leaves of rows whose class is as good as certain."""
    other = domains.classes & classes.sure[:, None]
    other[np.arange(len(other)), classes.label] = False
    if not other.any():
        return domains
    narrowed = domains.copied()
    narrowed.bits[other] = 0
    return domains if narrowed.narrow(clock, np.asarray(other.any(axis=1))) >= 0 else narrowed


def _assumed(
    domains: Domains, constraints: RowConstraints, leaves: IntArray, clock: Clock
) -> RowConstraints | None:
    """Hold rows to what follows if they lie in some leaves; if these contradict each other, fewer.

    ``leaves``, shape (n_rows, n_trees): rows of A; -1 where nothing is assumed.
    """
    rng = np.random.default_rng(0)
    for _ in range(SCHEDULE.fewer_leaves):
        assumed = domains.assuming(leaves)
        some = np.asarray((leaves >= 0).any(axis=1))
        if (
            assumed.narrow(clock, some) < 0
            and assumed.classes[assumed.evidence.drawn].any(axis=1).all()
        ):
            return restrict_to_domains(constraints, assumed)
        leaves = np.where(rng.random(leaves.shape) < SCHEDULE.kept_leaves, leaves, -1)
    return None


def classes_of(
    evidence: KnownDraws, parts: KnownParts | None, domains: Domains | None, clock: Clock, seed: int
) -> Classes:
    """Find the classes of the rows: known, proved, or from what whole trees count."""
    drawn, n_classes = evidence.drawn, evidence.n.shape[1]
    possible = np.ones((len(drawn), n_classes), dtype=bool)
    if domains is not None:
        possible = domains.classes | ~drawn[:, None]
    if parts is not None:
        possible &= parts.allowed[:, -n_classes:][parts.group]
    if (possible.sum(axis=1) == 1)[drawn].all():
        return Classes(possible.argmax(axis=1), drawn)
    return find_classes(evidence, possible, clock.part(SCHEDULE.classes_share * clock.left), seed)
