"""What the attack on noisy forests answers if the counts say nothing: its assumptions, laid bare.

That attack takes rows to resemble each other, and flags to be 0 more often than 1. So it does
better than rows drawn uniformly even if the model tells nothing. A model discloses what its counts
add to this.
"""

from __future__ import annotations

import numpy as np

from treeleak.attacks.answer import Answer
from treeleak.attacks.posterior.bayes_estimate import bayes_estimate
from treeleak.attacks.posterior.noise_likelihood import CountLikelihood
from treeleak.attacks.posterior.noisy_counts import most_samples
from treeleak.attacks.posterior.target import PosteriorTarget
from treeleak.attacks.posterior.walks import Plan, affordable, population_prior, run_posterior
from treeleak.core.clock import Clock
from treeleak.evidence import LeafLabels, NoisyCounts
from treeleak.partition import Geometry
from treeleak.partition.value_index import values_in
from treeleak.release.noise.laws import Laplace
from treeleak.side_information.side_information import NOTHING, SideInformation

SILENT = Laplace(1e-9)
"""Noise under which a count is as probable for any number of rows as for any other."""
_PLAN = Plan(
    chains=9, cooling=0, fits=1, between=4, samples=20, sweeps=6.0, hot=1.0,
    stage="guessing without the counts",
)  # fmt: skip
"""As many chains and samples as make an answer of the counts: from fewer, the estimate errs more.
They begin with rows as they are imagined, and walk only to where given values lead them."""
_ROWS, _LEAST = 10_000, 20
"""Rows in all samples from which is estimated, and samples: more make no better guess."""


def prior_only(
    evidence: NoisyCounts | LeafLabels,
    geometry: Geometry,
    clock: Clock,
    seed: int,
    side_info: SideInformation = NOTHING,
) -> Answer:
    """Guess rows from the shape of the trees, and from what is given, but from no count.

    An :data:`~treeleak.attacks.Attack`. The evidence is taken for its number of rows.

    Returns "likely", without samples.
    """
    n_classes = geometry.release.n_classes
    values = values_in(geometry)
    counts = np.zeros(geometry.leaf_start[-1] * n_classes)
    likelihood = CountLikelihood(counts, n_classes, SILENT, evidence.n_rows)
    target = PosteriorTarget.of(
        geometry, values, likelihood, evidence.n_rows, side_info.parts, clock
    )
    prior = population_prior(side_info.density(geometry), target)
    plan = affordable(_PLAN, target, prior, clock, seed)
    samples = run_posterior(target, plan, prior, clock, seed).samples()
    most = min(most_samples(evidence.n_rows), max(_ROWS // evidence.n_rows, _LEAST))
    rows, error = bayes_estimate(
        samples.thinned(most), target, clock, samples.thinned(most // 4), seed
    )
    return Answer(
        "likely",
        samples.values,
        (rows,),
        numbers={"chains": plan.chains, "samples": len(samples)},
        ordered=side_info.parts is not None,
        expected_distance=error,
    )
