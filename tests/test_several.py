"""Known draws that leave several datasets: chains over all that meet the counts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

import treeleak
from helpers.brute_force import ordered_datasets
from helpers.cases import Drawn, some_drawn
from helpers.examples import examples, spread
from helpers.in_order import check_form
from helpers.patient import AMPLE
from helpers.tables import compas_sample
from helpers.tables_of import dataset
from treeleak.attacks import attack_for
from treeleak.attacks.answer import Answer
from treeleak.attacks.known_draws import run
from treeleak.core.clock import Clock
from treeleak.evidence import KnownDraws
from treeleak.partition import Geometry
from treeleak.release import to_release
from treeleak.release.draws.seeds import known_draws
from treeleak.side_information.population import Population
from treeleak.side_information.side_information import SideInformation
from treeleak.verification.counts import check_rows

few_are_enough = pytest.mark.usefixtures("few_chains")


def walked(case: Drawn, distinct: bool = True, seed: int = 0) -> Answer | None:
    """What chains answer; None where the search alone proves enough."""
    evidence = case.known(distinct)
    answer = attack_for(evidence)(evidence, evidence.geometry, Clock(60.0), seed)
    return None if answer.samples is None else answer


def standing(table: np.ndarray, case: Drawn) -> bytes:
    """What leaves tell of the rows that some tree drew."""
    return np.ascontiguousarray(case.places(table[case.seen])).tobytes()


@examples(12)
@given(st.integers(0, 10_000))
def test_chains_visit_datasets_that_meet_the_counts_and_all_of_them(seed: int) -> None:
    case = some_drawn(seed, n_trees=2, tamper=False)
    distinct = bool(seed % 2)
    answer = walked(case, distinct, seed)
    assume(answer is not None)
    assert answer is not None
    assert answer.samples is not None
    check_form(answer, case, distinct)
    found = ordered_datasets(
        case.release, case.schema, case.b[:, case.seen], distinct=distinct, most=300
    )
    assume(found is not None)
    assert found is not None
    every = {np.ascontiguousarray(case.places(table)).tobytes() for table in found}
    samples, n = answer.samples, case.release.n_features
    drawn = [dataset(samples.numbered(k), answer, n) for k in range(len(samples))]
    seen = {standing(table, case) for table in drawn}
    assert seen <= every
    assert answer.likeliest is not None
    assert standing(dataset(answer.likeliest, answer, n), case) in every
    # Of few arrangements none is out of reach; but the rarest may not be drawn.
    assert len(every) > 4 or len(seen) > len(every) / 2


def of_binaries(seed: int) -> tuple[RandomForestClassifier, treeleak.Schema]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 2, (6, 3)), columns=list("abc"))
    y = rng.permutation([0, 1, 0, 1, 0, 1])
    forest = RandomForestClassifier(2, max_depth=2, random_state=seed).fit(X, y)
    return forest, treeleak.Schema([treeleak.Binary(c) for c in X])


@pytest.mark.parametrize("seed", spread([2, 5, 11], fast=1))
def test_samples_stand_as_often_as_all_datasets_that_meet_the_counts(seed):
    """Where the population is known, each of these has a probability."""
    forest, schema = of_binaries(seed)
    release = to_release(forest)
    draws = known_draws(release).counts
    ones = {"a": 0.3, "b": 0.6, "c": 0.45, "label": 0.4}
    told = SideInformation(None, Population.of(ones, schema, release))
    evidence = KnownDraws(Geometry.of(release, schema), draws)
    answer = attack_for(evidence)(evidence, evidence.geometry, Clock(60.0), seed, told)
    assert answer.samples is not None
    samples = answer.samples
    drawn = np.array([dataset(samples.numbered(k), answer, 3) for k in range(len(samples))])
    seen = draws.any(axis=0)
    worlds = ordered_datasets(release, schema, draws[:, seen], most=100_000)
    assert worlds is not None
    rows, share = np.array(worlds), np.array(list(ones.values()))
    weight = np.where(rows == 1, share, 1 - share).prod(axis=(1, 2))
    exact = np.tensordot(weight / weight.sum(), rows, 1)
    # An atom that no tree tests stands for both values.
    tested = np.append([c in release.tested for c in "abc"], True)
    off = np.abs(drawn[:, seen].mean(axis=0) - exact)[:, tested]
    assert off.mean() < 0.04
    assert off.max() < 0.15


@pytest.mark.slow
@few_are_enough
def test_a_walk_that_ends_too_soon_leaves_rows_that_meet_all_counts(monkeypatch):
    X, y, compas = compas_sample(20)
    forest = RandomForestClassifier(4, max_depth=3, random_state=0).fit(X, y)
    assert treeleak.reconstruct(forest, compas.schema, time_limit=AMPLE).posterior is not None
    before = run.posterior_of_assignments
    stopped = []

    def interrupted(*given):
        # As a first walk does whose time ends at once.
        stopped.append(True)
        *rest, clock, seed = given
        return before(*rest, clock.part(0.05), seed)

    monkeypatch.setattr(run, "posterior_of_assignments", interrupted)
    found = treeleak.reconstruct(forest, compas.schema, time_limit=10)
    assert stopped
    assert found.status in ("feasible", "likely")


@pytest.mark.slow
@few_are_enough
def test_what_nearly_meets_all_counts_is_called_no_more_than_that():
    X, y, compas = compas_sample(60)
    forest = RandomForestClassifier(10, max_depth=2, random_state=0).fit(X, y)
    found = treeleak.reconstruct(forest, compas.schema, "known", 60.0, 0)
    values, labels = found.most_likely
    codes = np.searchsorted(forest.classes_, labels)
    missed = check_rows(to_release(forest), values.to_numpy(), codes, found.draws.counts).misfit
    assert found.numbers["nearest_misses"] == missed
    assert (found.status == "unknown") == (missed > 0)
    assert ("nearly meet all counts" in found.meaning) == (missed > 0)
    assert found.misfit > missed
