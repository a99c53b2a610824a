"""Where known draws leave several datasets: the posterior of the rows, under the counts.

Few or shallow trees leave many assignments of rows that meet every count, and any one of them is a
poor guess. Chains come from anywhere, and cool down to them; each learns what rows are like, as
behind noise. The answer is the Bayes estimate: of all datasets the one that errs least on average.
Rows are estimated as a set, and then stand where they are most probable.

Chains may come to rest at datasets that miss a few counts. Many such chains, each at another one,
say of the rows about as much as if they met all: counts that are nearly met tell little less.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from treeleak.attacks.answer import Answer, Rows, Status, status_of
from treeleak.attacks.consensus import MAX_ALIGNED
from treeleak.attacks.known_draws.schedule import SCHEDULE
from treeleak.attacks.known_draws.search import Assignment
from treeleak.attacks.posterior.bayes_estimate import BayesEstimate, middle, weighed
from treeleak.attacks.posterior.chains import Chain
from treeleak.attacks.posterior.draw_kernels import KNOWN, KNOWN_DISTINCT, LikelihoodArrays
from treeleak.attacks.posterior.likelihood import Likelihood, nothing
from treeleak.attacks.posterior.noisy_counts import most_samples
from treeleak.attacks.posterior.target import PosteriorTarget
from treeleak.attacks.posterior.walks import (
    ChainRun,
    Drawn,
    Plan,
    affordable,
    population_prior,
    run_posterior,
)
from treeleak.attacks.samples import JUDGES, Samples
from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.decisions import MOST_SURE, on_grid
from treeleak.core.errors import NotCovered
from treeleak.core.private import dataclass
from treeleak.evidence import KnownDraws, Pairs
from treeleak.partition import Geometry
from treeleak.partition.value_index import ValueIndex
from treeleak.side_information.side_information import KnownParts, SideInformation

_PLAN = Plan(
    chains=24, cooling=50, fits=1, between=5, samples=5, sweeps=30.0, hot=100.0, share=0.75,
    by_factors=True,
)  # fmt: skip
"""Datasets that meet counts lie apart, and a walk comes to rest near some of them: many walks from
anywhere say more than long ones."""
_NEAR = replace(_PLAN, cooling=0, between=35, hot=1.0)
"""From rows that meet all counts, where these may leave little else."""
_LEAST_CHAINS = 8
"""With fewer, or with shorter walks, little is learned."""


def seconds_needed(n_rows: int) -> float:
    """About how long walks take; infinite for more rows than a posterior is estimated for."""
    if n_rows > MAX_ALIGNED:
        return np.inf
    return _LEAST_CHAINS * _PLAN.stages * _PLAN.sweeps * n_rows / SCHEDULE.steps_per_second


def posterior_of_assignments(
    evidence: KnownDraws, pairs: Pairs, values: ValueIndex, side_info: SideInformation,
    found: Assignment, rows: Rows, clock: Clock, seed: int,
) -> Answer | None:  # fmt: skip
    """Estimate the rows from datasets that meet the counts, of which there are several.

    Parameters
    ----------
    found : Found
        Where the search has come to: proved rows stay in their places.
    rows : Rows
        The same, written.
    clock : Clock
        How long walks may take.

    Returns
    -------
    Answer or None
        "feasible" if its rows meet all counts; "likely" if some dataset is known that does; else
        "unknown". None if walks did not come far enough.

    Raises
    ------
    NotCovered
        If there is a population, and the grid is too large to list; or if nothing is known of where
        rows may begin.
    """
    geometry = evidence.geometry
    parts = _held(found, pairs, geometry, values)
    likelihood = KnownLikelihood.of(evidence)
    target = PosteriorTarget.of(geometry, values, likelihood, evidence.n_rows, parts, clock)
    density = side_info.density(geometry)
    prior = population_prior(density, target)
    at = values.places(rows.values)

    def walk(start: IntArray | None, wanted: Plan) -> list[ChainRun]:
        plan = affordable(wanted, target, prior, clock, seed)
        if clock.stopped or plan.sweeps < plan.least_sweeps:
            return []
        return [run_posterior(target, plan, prior, clock, seed, at=start)]

    walked = walk(at, _NEAR) if not (found.misfit or found.several) else []
    with suppress(NotCovered) if walked else nullcontext():
        walked += walk(None, _PLAN)
    missed = _all_missed(target, walked)
    far = not walked or float(np.median(missed)) > SCHEDULE.near_counts * int(evidence.draws.sum())
    if far and found.several and not found.misfit:
        # Most came to rest at rows unlike those that meet the counts.
        walked = walk(at, _NEAR)
        missed = _all_missed(target, walked)
    if not walked:
        return None
    joined = _joined(walked)
    samples = joined.samples(density)
    if prior is None:
        samples = samples.weighed()
    # Of the datasets that miss fewest counts, the likeliest.
    height = np.where(missed == missed.min(), samples.log_posterior, -np.inf)
    nearest = samples.numbered(int(on_grid(height).argmax()))
    samples = samples.only(_usable_datasets(missed, samples.chain))
    judging = samples.chain % JUDGES == 0
    judges, makers = samples.only(judging), samples.only(~judging)
    most = most_samples(evidence.n_rows)
    makers = makers.thinned(most)
    estimate = middle(makers, target, clock, judges.thinned(most // 4), seed)
    estimate = _in_order(estimate, samples, target)
    out = weighed(estimate.chosen, estimate.share, estimate.n_samples, values, target)
    sure = np.where(found.proved[:, None], out.confidence, np.minimum(out.confidence, MOST_SURE))
    out = replace(out, proved=found.proved, confidence=sure)
    least = min(found.misfit, int(missed.min()))
    status: Status = "likely" if not least and joined.converged else "unknown"
    if out.misfit and not found.misfit and status == "unknown":
        return None
    return Answer(
        status if out.misfit else status_of([out]),
        values,
        (out,),
        numbers=joined.numbers | {"samples": len(samples), "nearest_misses": least},
        ordered=True,
        samples=samples,
        likeliest=nearest if missed.min() <= found.misfit else values.atom_of[rows.values],
        expected_distance=estimate.error,
    )


def _held(
    found: Assignment, pairs: Pairs, geometry: Geometry, values: ValueIndex
) -> KnownParts | None:
    """Hold proved rows to their cells."""
    if not found.proved.any():
        return None
    cells, cell_number = np.unique(found.pair[found.proved], return_inverse=True)
    group = np.zeros(len(found.pair), dtype=np.int64)
    group[found.proved] = 1 + cell_number.ravel()
    allowed = np.zeros((1 + len(cells), values.n_atoms), dtype=bool)
    allowed[0] = True
    inside = np.flatnonzero(np.isin(pairs.pair, cells))
    at = 1 + np.searchsorted(cells, pairs.pair[inside])
    atoms = geometry.atoms(pairs.points[inside]) + values.atom_start[:-2]
    allowed[at[:, None], atoms] = True
    allowed[at, values.atom_start[-2] + pairs.label[inside]] = True
    return KnownParts(group, allowed)


def _joined(walked: Sequence[ChainRun]) -> ChainRun:
    """Put walks together, as one of more chains."""
    drawn, chains = list[Drawn](), list[Chain]()
    for one in walked:
        drawn += [(atoms, len(chains) + c, height) for atoms, c, height in one.drawn]
        chains += one.chains
    converged = all(one.converged for one in walked)
    return replace(walked[0], drawn=drawn, chains=chains, converged=converged)


def _usable_datasets(missed: IntArray, chain: IntArray) -> BoolArray:
    """Keep the datasets that meet all counts, if most chains have come to some; else all.

    A few chains alone would say too little: those of the others are about as near to the truth.
    """
    met = missed == 0
    enough = 2 * len(np.unique(chain[met])) >= len(np.unique(chain))
    return met if enough else np.ones_like(met)


def _all_missed(target: PosteriorTarget, walked: Sequence[ChainRun]) -> IntArray:
    """What each dataset of all walks misses."""
    drawn = (atoms for one in walked for atoms, _, _ in one.drawn)
    return np.array([_missed(target, atoms) for atoms in drawn], dtype=np.int64)


def _missed(target: PosteriorTarget, atoms: NDArray[np.int16]) -> int:
    """Draws and distinct rows that a dataset misses."""
    rows = atoms.astype(np.int64)
    leaves = target.geometry.trace_atoms(rows[:, :-1])
    return target.likelihood.missing(target.likelihood.held(leaves, rows[:, -1]))


def _in_order(found: BayesEstimate, samples: Samples, target: PosteriorTarget) -> BayesEstimate:
    """Put rows where they are most probable: at the least expected distance from the samples.

    Shares are those of samples in the same place.
    """
    values, group = target.values, target.moves.group
    n_rows = len(found.chosen)
    stands = np.zeros((n_rows, values.n_atoms))
    row = np.arange(n_rows)[:, None]
    for k in range(len(samples)):
        np.add.at(stands, (row, samples.numbered(k)), 1.0 / len(samples))
    share = stands[:, values.atom_of] * samples.value_prior
    cost = values.expected_cost(share)
    order = np.arange(n_rows)
    for g in np.unique(group):
        members = np.flatnonzero(group == g)
        far = np.zeros((len(members), len(members)))
        for a in range(found.chosen.shape[1]):
            far += cost[np.ix_(members, found.chosen[members, a])]
        order[members] = members[linear_sum_assignment(far)[1]]
    return replace(found, chosen=found.chosen[order], share=share)


@dataclass(frozen=True, eq=False)
class KnownLikelihood(Likelihood):
    """Whether rows meet :class:`KnownDraws`: each draw and distinct row missed has a price.

    Behind the classes of each leaf stands an equation more, of its distinct rows.
    """

    counted: IntArray
    """Shape (n_leaves, n_classes + 1). n_tvc, and last d_tv; 0 where it is not used."""
    draws: NDArray[np.int32]
    """Shape (n_rows, n_trees). b."""
    use_distinct: bool
    n_classes: int

    @classmethod
    def of(cls, evidence: KnownDraws) -> KnownLikelihood:
        """Take the counts of the evidence."""
        drawn, *distinct = evidence.statements()
        last = distinct[0].right if distinct else np.zeros(len(drawn.right), dtype=np.int64)
        draws = np.ascontiguousarray(evidence.draws.T, dtype=np.int32)
        counted = np.column_stack([drawn.right, last])
        return cls(counted, draws, bool(distinct), drawn.right.shape[1])

    @property
    def n_equations(self) -> int:
        """Leaves times classes and one."""
        return self.counted.size

    @property
    def row_draws(self) -> NDArray[np.int32]:
        """How often each tree drew each row."""
        return self.draws

    @cached_property
    def law(self) -> LikelihoodArrays:
        """The same for the kernels."""
        return nothing()._replace(evidence=KNOWN_DISTINCT if self.use_distinct else KNOWN)

    def held(self, leaves: NDArray[np.int32], label: NDArray[Any]) -> NDArray[np.int32]:
        """By how much each equation counts too many draws or distinct rows: A m - n.

        Row k is row k of the training set.
        """
        width = self.n_classes + 1
        first = leaves.astype(np.int64) * width
        drawn = np.bincount((first + label[:, None]).ravel(), self.draws.ravel(), self.counted.size)
        if self.use_distinct:
            seen = (self.draws > 0).ravel()
            drawn += np.bincount((first + self.n_classes).ravel(), seen, self.counted.size)
        return (drawn - self.counted.ravel()).astype(np.int32)

    def missing(self, rows: NDArray[np.int32]) -> int:
        """Sum of |A m - n|."""
        return int(np.abs(rows).sum())

    def log_complete(
        self,
        rows: NDArray[np.int32],
        seen: NDArray[np.int32],  # noqa: ARG002
        missing_row_penalty: float = np.inf,
    ) -> float:
        """Zero where all counts are met; else what the misses cost."""
        missed = self.missing(rows)
        return -missing_row_penalty * missed if missed else 0.0
