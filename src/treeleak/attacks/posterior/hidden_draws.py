"""The attack on hidden draws: the posterior of the rows, with the draws summed out.

Several chains walk over datasets, first at high temperatures, then at 1. The prior is a tree
over the attributes, fitted to what the chains themselves find: what the counts say of most rows
speaks for those of which they say little. The answer is their Bayes estimate, which errs
least on average; the likeliest dataset and the samples themselves come with it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treeleak.attacks.answer import Answer
from treeleak.attacks.posterior.bayes_estimate import bayes_estimate
from treeleak.attacks.posterior.chains import MISSING_ROW_PENALTY
from treeleak.attacks.posterior.likelihood import DrawLikelihood
from treeleak.attacks.posterior.schedule import SCHEDULE
from treeleak.attacks.posterior.target import PosteriorTarget
from treeleak.attacks.posterior.walks import Plan, affordable, population_prior, run_posterior
from treeleak.attacks.tree_prior import TreePrior
from treeleak.core.arrays import FloatArray
from treeleak.core.clock import Clock
from treeleak.core.text import bounded
from treeleak.evidence import Contradiction, HiddenDraws
from treeleak.partition import Geometry
from treeleak.partition.value_index import values_in
from treeleak.side_information.side_information import NOTHING, SideInformation

_PLAN = Plan(
    chains=8, cooling=20, fits=6, between=3, samples=22, sweeps=200.0, hot=10.0, low_penalty=2.0
)
_LONG = replace(
    _PLAN,
    chains=6,
    cooling=60,
    fits=4,
    hot=7.0,
    low_penalty=MISSING_ROW_PENALTY,
    share=0.65,
    by_factors=True,
)
"""Where attributes have many atoms: rows come to rest slowly, and only when it is cold."""


def hidden_draws(
    evidence: HiddenDraws,
    geometry: Geometry,
    clock: Clock,
    seed: int,
    side_info: SideInformation = NOTHING,
) -> Answer:
    """Rebuild the rows behind counts of hidden draws.

    An :data:`~treeleak.attacks.Attack`. Rows keep their places where parts of them are known.

    Returns "likely", with the samples and the likeliest dataset; "infeasible" where no draws give
    the counts; "unknown" if the time was too short for the chains to settle.
    """
    values = values_in(geometry)
    if (clash := evidence.contradiction()) is not None:
        return Answer("infeasible", values, contradiction=clash)
    numeric = any(part.intervals for part in values.parts)
    likelihood = DrawLikelihood.of(evidence, SCHEDULE.number_doubt if numeric else 1.0)
    numbers = {
        "grid_points": bounded(geometry.n_points),
        "equations": int((likelihood.draws > 0).sum()),
        "mixed_leaves": len(likelihood.mixed_start) - 1,
    }
    clock.report_progress("fitting the counts", 0.0)
    target = PosteriorTarget.of(
        geometry, values, likelihood, evidence.n_rows, side_info.parts, clock
    )
    if (clash := _out_of_reach(target, likelihood)) is not None:
        return Answer("infeasible", values, contradiction=clash, numbers=numbers)
    plan = _LONG if target.moves.gibbs_share else _PLAN
    if evidence.n_rows >= SCHEDULE.many_rows and not target.moves.gibbs_share:
        plan = replace(plan, hot=1.0)
    flat = TreePrior.flat(target.radix, values.atom_weights)
    density = side_info.density(geometry)
    prior: TreePrior | FloatArray = flat
    if (over_all := population_prior(density, target)) is not None:
        prior, plan = over_all, replace(plan, fits=0)
    plan = affordable(plan, target, flat, clock, seed)
    brief = replace(plan, sweeps=plan.sweeps / SCHEDULE.brief_factor)
    found = None
    if plan.hot > 1 and not target.moves.gibbs_share and brief.sweeps >= plan.least_sweeps:
        found = run_posterior(target, brief, prior, clock, seed, (0.0, 1 / SCHEDULE.brief_factor))
    if found is None:
        found = run_posterior(target, plan, prior, clock, seed)
    elif not (clock.stopped or found.samples(density).disagreement <= SCHEDULE.brief_agreement):
        # What the brief walk took is taken off each chain, not off their number.
        cut = affordable(plan, target, flat, clock, seed)
        plan = replace(plan, sweeps=cut.sweeps * cut.chains / plan.chains)
        longer = run_posterior(target, plan, prior, clock, seed, (1 / SCHEDULE.brief_factor, 1.0))
        found = longer if longer.converged else found
    samples = found.samples(density)
    likeliest = replace(found, plan=plan).likeliest() + values.atom_start[:-1]
    numbers |= found.numbers | {"agreed": int(samples.disagreement <= SCHEDULE.brief_agreement)}
    rows, error = bayes_estimate(samples, target, clock, samples, seed)
    return Answer(
        "likely" if found.converged else "unknown",
        samples.values,
        (rows,),
        numbers=numbers,
        ordered=side_info.parts is not None,
        samples=samples,
        likeliest=likeliest,
        expected_distance=error,
        cells=target.cells,
    )


def _out_of_reach(target: PosteriorTarget, likelihood: DrawLikelihood) -> Contradiction | None:
    """Find a leaf that counts draws where no point of a listed grid goes."""
    table, valid = target.grid.table, target.grid.valid
    if not target.grid.listed:
        return None
    draws = likelihood.draws.reshape(-1, likelihood.n_classes).sum(axis=1)
    reached = np.zeros(len(draws), dtype=bool)
    reached[table[valid] if len(valid) else table] = True
    lost = (draws > 0) & ~reached
    if not lost.any():
        return None
    v = int(lost.argmax())
    why = f"counts {draws[v]} draws where no row under this schema goes"
    return Contradiction(*target.geometry.leaf_of_row(v), why)
