"""The attack on forests with noise: the posterior of the rows, given what their leaves say.

Several chains walk over datasets. Each begins with rows as they might be before anything is
counted, lets the counts in little by little, and learns on the way what rows are like: how far to
believe the noise is then not a matter of choice. The answer is their Bayes estimate, which
errs least on average; the likeliest dataset and the samples themselves come with it.

Trees that saw different rows ask a row one question more: which tree it went to. It is answered
like any other, as an attribute that is taken out of the answer.

What the attack answers if the counts say nothing shows its assumptions: it takes rows to resemble
each other, and flags to be 0 more often than 1, and so does better than rows drawn uniformly even
if the model tells nothing. A model discloses what its counts add to this.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from treeleak.attacks.answer import Answer
from treeleak.attacks.membership_odds import RowOdds
from treeleak.attacks.posterior.bayes_estimate import bayes_estimate
from treeleak.attacks.posterior.draw_kernels import GAINS
from treeleak.attacks.posterior.likelihood import Likelihood
from treeleak.attacks.posterior.noise_likelihood import (
    CountLikelihood,
    LabelLikelihood,
    PresenceLikelihood,
)
from treeleak.attacks.posterior.schedule import SCHEDULE
from treeleak.attacks.posterior.target import PosteriorTarget
from treeleak.attacks.posterior.walks import Plan, affordable, population_prior, run_posterior
from treeleak.attacks.samples import Samples
from treeleak.core.arrays import IntArray
from treeleak.core.clock import Clock
from treeleak.core.text import bounded
from treeleak.evidence import LeafLabels, NoisyCounts
from treeleak.partition import Geometry
from treeleak.partition.value_index import values_in
from treeleak.release.noise.laws import Laplace
from treeleak.release.release import Release
from treeleak.release.sampling import Disjoint
from treeleak.release.tree import LEAF, CategorySets, Tree
from treeleak.schema import Ordinal, Schema
from treeleak.side_information.side_information import NOTHING, KnownParts, SideInformation

AnyInt = TypeVar("AnyInt", np.int16, np.int64)

_PLAN = Plan(
    chains=12,
    cooling=30,
    fits=1,
    between=50,
    samples=30,
    sweeps=9.0,
    hot=20.0,
    share=0.65,
    least_sweeps=2.0,
)
_LEAST_CHAINS = 2
"""So many judge each other."""
_TREE = "the tree that a row went to"


def behind_noise(
    evidence: NoisyCounts | LeafLabels,
    geometry: Geometry,
    clock: Clock,
    seed: int,
    side_info: SideInformation = NOTHING,
) -> Answer:
    """Rebuild the rows behind noisy counts, or behind leaves that name a class.

    An :data:`~treeleak.attacks.Attack`. Rows keep their places where parts of them are known.

    Returns "likely", with the samples and the likeliest dataset; "unknown" if the time was too
    short for the chains to settle.
    """
    values = values_in(geometry)
    apart = evidence.sampling == Disjoint.kind
    target_geometry = _split_up(geometry) if apart else geometry
    likelihood = _likelihood(evidence, target_geometry)
    (constraints,) = evidence.statements()
    equations = (
        len(constraints.right) if isinstance(evidence, LeafLabels) else constraints.right.size
    )
    numbers = {"grid_points": bounded(target_geometry.n_points), "equations": equations}
    clock.report_progress("laying out the grid", 0.0)
    parts = side_info.parts
    if parts is not None and apart:
        parts = _with_trees(parts, len(geometry.release.trees), geometry.release.n_classes)
    target_values = values_in(target_geometry)
    target = PosteriorTarget.of(
        target_geometry, target_values, likelihood, evidence.n_rows, parts, clock
    )
    density = side_info.density(geometry)
    prior = population_prior(density, target)
    # The tree that a row went to is the last attribute, whose atoms are neighbours on the grid.
    over_all = prior
    if prior is not None and apart:
        over_all = np.repeat(prior, len(geometry.release.trees), axis=0)
    if over_all is not None:
        target = target.expecting(evidence.n_rows * softmax(over_all))
    plan = affordable(_PLAN, target, over_all, clock, seed)
    found = run_posterior(target, plan, over_all, clock, seed)
    likeliest = found.likeliest()
    if apart:
        target = _together(target, evidence, geometry, side_info)
        drawn = [(_without_tree(a), c, height) for a, c, height in found.drawn]
        found = replace(found, target=target, drawn=drawn, prior=prior)
        likeliest = _without_tree(likeliest)
    samples = found.samples(density)
    most = most_samples(evidence.n_rows)
    rows, error = bayes_estimate(
        samples.makers.thinned(most), target, clock, samples.judges.thinned(most // 4), seed
    )
    return Answer(
        "likely" if found.converged else "unknown",
        samples.values,
        (rows,),
        numbers=numbers | found.numbers,
        ordered=parts is not None,
        samples=samples,
        likeliest=likeliest + values.atom_start[:-1],
        odds=None if apart or parts is not None else _odds(samples, target, seed),
        expected_distance=error,
        cells=target.cells,
    )


def _odds(samples: Samples, target: PosteriorTarget, seed: int) -> RowOdds | None:
    """Ask the leaves of single rows, where what one is worth follows from the others in its leaves.

    What is known of rows, and the trees that they went to, would be lost.
    """
    law = target.likelihood.law
    if law.evidence != GAINS or len(np.unique(samples.chain)) < _LEAST_CHAINS:
        return None
    return RowOdds(samples, target.geometry, law.offset, law.gain, seed)


def most_samples(n_rows: int) -> int:
    """Samples from which is estimated."""
    return int(
        np.clip(
            SCHEDULE.most_noise_rows // n_rows,
            SCHEDULE.least_noise_samples,
            SCHEDULE.most_noise_samples,
        )
    )


def _likelihood(evidence: NoisyCounts | LeafLabels, target_geometry: Geometry) -> Likelihood:
    """Lay out what the leaves say, in the order of the geometry that is asked."""
    # Leaves of trees that were split up stand behind the old ones.
    pairs = zip(target_geometry.release.trees, evidence.geometry.release.trees, strict=True)
    is_original = np.concatenate([t.leaves >= t.n_nodes - old.n_nodes for t, old in pairs])
    (constraints,), n_classes = evidence.statements(), target_geometry.release.n_classes
    if isinstance(evidence, LeafLabels) and evidence.noise.rule == "present":
        present = np.zeros((len(is_original), n_classes), dtype=bool)
        present[is_original] = constraints.right > 0
        return PresenceLikelihood(present, is_original, evidence.noise, evidence.n_rows)
    if isinstance(evidence, LeafLabels):
        named = np.full(len(is_original), -1, dtype=np.int32)
        named[is_original] = constraints.right.argmax(axis=1)
        return LabelLikelihood(named, n_classes, evidence.noise)
    counts = np.full((len(is_original), n_classes), np.nan)
    counts[is_original] = constraints.right
    draws = evidence.n_draws
    return CountLikelihood(counts.ravel(), n_classes, evidence.noise, evidence.n_rows, draws)


def _split_up(geometry: Geometry) -> Geometry:
    """Let every tree ask first whether a row went to it: a column more, with a value per tree."""
    release, schema = geometry.release, geometry.schema
    n_trees = len(release.trees)
    trees = tuple(_behind(tree, t, release) for t, tree in enumerate(release.trees))
    column = _TREE
    while column in release.feature_names or column in schema.columns:
        column += "'"
    split = replace(
        release, trees=trees, feature_names=(*release.feature_names, column), noise=None,
        maybe_missing=frozenset(), one_hot={},
    )  # fmt: skip
    attribute = Ordinal(column, 0, n_trees - 1)
    return Geometry.of(split, Schema([*schema.attributes, attribute], rules=schema.rules))


def _behind(tree: Tree, t: int, release: Release) -> Tree:
    """Put a tree behind the question whether a row went to it; who did not, is not counted."""
    # Each question stands before its own way out and the next question.
    n_trees = len(release.trees)
    tests = [(t - 0.5, True)] * (t > 0) + [(t + 0.5, False)] * (t < n_trees - 1)
    n, first = 2 * len(tests), np.full(2 * len(tests), LEAF, dtype=np.int64)
    feature, left, right, threshold = first.copy(), first.copy(), first.copy(), np.full(n, np.nan)
    for k, (cut, out_left) in enumerate(tests):
        at, out, on = 2 * k, 2 * k + 1, 2 * k + 2
        feature[at], threshold[at] = release.n_features, cut
        left[at], right[at] = (out, on) if out_left else (on, out)

    def moved(child: IntArray) -> IntArray:
        return np.where(child == LEAF, LEAF, child + n)

    sets = tree.categories
    sets = None if sets is None else CategorySets(sets.node + n, sets.value)
    return Tree(
        np.concatenate([feature, tree.feature]),
        np.concatenate([threshold, tree.cuts(release.float_type)]),
        np.concatenate([left, moved(tree.left)]),
        np.concatenate([right, moved(tree.right)]),
        np.concatenate([np.zeros(n, dtype=bool), tree.missing_left]),
        categories=sets,
    )


def _together(
    target: PosteriorTarget,
    evidence: NoisyCounts | LeafLabels,
    geometry: Geometry,
    side_info: SideInformation,
) -> PosteriorTarget:
    """See rows again without the tree that each went to."""
    values = values_in(geometry)
    allowed = np.ones((1, values.n_atoms), dtype=bool)
    if side_info.parts is not None:
        allowed = side_info.parts.allowed
    moves = target.moves._replace(allowed=allowed)
    likelihood = _likelihood(evidence, geometry)
    return replace(target, geometry=geometry, values=values, likelihood=likelihood, moves=moves)


def _with_trees(parts: KnownParts, n_trees: int, n_classes: int) -> KnownParts:
    """Leave open which tree a row went to."""
    last = parts.allowed.shape[1] - n_classes
    return replace(parts, allowed=np.insert(parts.allowed, [last] * n_trees, True, axis=1))


def _without_tree(atoms: NDArray[AnyInt]) -> NDArray[AnyInt]:
    """Take out which tree a row went to: the attribute before the class."""
    return np.delete(atoms, -2, axis=1)


SILENT = Laplace(1e-9)
"""Noise under which a count is as probable for any number of rows as for any other."""
_GUESSING = Plan(
    chains=9, cooling=0, fits=1, between=4, samples=20, sweeps=6.0, hot=1.0,
    stage="guessing without the counts",
)  # fmt: skip
"""As many chains and samples as make an answer of the counts: from fewer, the estimate errs more.
They begin with rows as they are imagined, and walk only to where given values lead them."""


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
    plan = affordable(_GUESSING, target, prior, clock, seed)
    samples = run_posterior(target, plan, prior, clock, seed).samples()
    most = min(
        most_samples(evidence.n_rows),
        max(SCHEDULE.guess_rows // evidence.n_rows, SCHEDULE.guess_samples),
    )
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
