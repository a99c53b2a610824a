"""How much the counts leave open of the rows: a bound, held against all assignments."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

from helpers.cases import some_drawn
from helpers.examples import examples
from helpers.tables import compas_sample
from treeleak.attacks.known_draws.candidate_pruning import entropy_left
from treeleak.attacks.known_draws.candidates import RowProblem
from treeleak.attacks.known_draws.dual import fit
from treeleak.core.clock import Clock
from treeleak.evidence import KnownDraws, Pairs
from treeleak.partition import Geometry, enumerate_drawable, enumeration_tick
from treeleak.release import to_release
from treeleak.release.draws.seeds import known_draws


def problem_of(evidence: KnownDraws) -> RowProblem:
    tick = enumeration_tick(evidence.geometry, Clock(60.0))
    partition = enumerate_drawable(evidence.geometry, evidence.row_sets(None), tick)
    return RowProblem.of(evidence, partition, Pairs.of(partition), None)


def entropy_given_counts(problem: RowProblem, u: np.ndarray) -> float:
    """Over all assignments: entropy of the rows, on average over what the counts may turn out."""
    own = [range(a, b) for a, b in itertools.pairwise(problem.start)]
    chance = defaultdict(list)
    for chosen in itertools.product(*own):
        counts = problem._counts(problem.column[list(chosen)], problem.draws)
        key = tuple(part.tobytes() for part in counts[: 1 + bool(len(problem.d))])
        chance[key].append(np.prod(u[list(chosen)]))
    out = 0.0
    for p in map(np.array, chance.values()):
        out -= (p * np.log(np.maximum(p, 1e-300) / p.sum())).sum()
    return out


@examples(40)
@given(st.integers(0, 10_000))
def test_no_less_is_left_than_the_bound(seed):
    rng = np.random.default_rng(seed)
    case = some_drawn(seed, n_rows=int(rng.integers(2, 5)), tamper=False)
    problem = problem_of(case.known(bool(seed % 2)))
    assume(problem.n_open and np.diff(problem.start).astype(float).prod() <= 5000)
    u = rng.gamma(0.5, size=len(problem.column)) + 1e-9
    u /= np.bincount(problem.owner, u)[problem.owner]
    left = entropy_left(problem, u)
    assert left <= entropy_given_counts(problem, u) + 1e-9
    for least in (left - 1e-6, left + 1e-6, 0.0, np.inf):
        # Each tree takes away, so that an early end does not change which is more.
        assert (entropy_left(problem, u, least) > least) == (left > least)


@pytest.mark.parametrize(("n_trees", "depth", "several"), [(5, 2, True), (100, None, False)])
def test_it_tells_a_few_shallow_trees_from_many_deep_ones(n_trees, depth, several):
    X, y, data = compas_sample(50)
    model = RandomForestClassifier(n_trees, max_depth=depth, random_state=0).fit(X, y)
    release = to_release(model)
    evidence = KnownDraws(Geometry.of(release, data.schema), known_draws(release).counts)
    problem = problem_of(evidence)
    u = fit(problem, Clock(60.0), evaluations=60).u
    assert (entropy_left(problem, u) > np.log(2.0) * problem.n_open) == several
