"""Known draws that leave several datasets: chains over all that meet the counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

import treeleak
from helpers.brute_force import ordered_datasets
from helpers.cases import Drawn, some_drawn
from helpers.examples import examples
from helpers.tables import compas_sample
from test_known import check_form
from treeleak.attacks import attack_for
from treeleak.attacks.answer import Answer
from treeleak.attacks.known_draws import run
from treeleak.core.clock import Clock
from treeleak.evidence import KnownDraws
from treeleak.partition import Geometry


def walked(case: Drawn, distinct: bool = True, seed: int = 0) -> Answer | None:
    """What chains answer; None where the search alone proves enough."""
    evidence = KnownDraws(Geometry.of(case.release, case.schema), case.b, use_distinct=distinct)
    answer = attack_for(evidence)(evidence, evidence.geometry, Clock(60.0), seed)
    return None if answer.samples is None else answer


def tables_of(atoms: np.ndarray, answer: Answer, case: Drawn) -> np.ndarray:
    """Rows of numbered atoms, each with the first value that it stands for; the class last."""
    values = answer.values
    chosen = values.first[atoms]
    X = values.rows(chosen[:, :-1], case.release.n_features)
    return np.column_stack([X, chosen[:, -1] - values.start[-2]])


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
    samples = answer.samples
    drawn = [tables_of(samples.numbered(k), answer, case) for k in range(len(samples))]
    seen = {standing(table, case) for table in drawn}
    assert seen <= every
    assert answer.likeliest is not None
    assert standing(tables_of(answer.likeliest, answer, case), case) in every
    # Of few arrangements none is out of reach; but the rarest may not be drawn.
    assert len(every) > 4 or len(seen) > len(every) / 2


@pytest.fixture(scope="module")
def shallow() -> tuple[RandomForestClassifier, pd.DataFrame, treeleak.Schema]:
    X, y, data = compas_sample(60)
    return RandomForestClassifier(4, max_depth=3, random_state=1).fit(X, y), X, data.schema


def test_the_answer_says_how_far_it_errs(shallow) -> None:
    forest, X, schema = shallow
    result = treeleak.reconstruct(forest, schema, "known", 40.0, 0)
    error = treeleak.metrics.reconstruction_error(result.X, X, schema)
    assert error < 0.8 * treeleak.metrics.random_baseline(X, schema, 20, 0).mean
    assert 0.5 * error < result.expected_error < 2.0 * error


def test_proved_rows_stay_in_their_places(shallow, monkeypatch) -> None:
    forest, X, schema = shallow
    search, several, begun = run.search, run.several_datasets, list[np.ndarray]()

    def some_proved(problem, *told):
        found = search(problem, *told)
        return replace(found, proved=(np.arange(len(X)) < 20) & (found.pair >= 0))

    def noted(evidence, pairs, values, given, found, rows, *told):
        begun.append(np.column_stack([values.rows(rows.values[:, :-1], X.shape[1])]))
        return several(evidence, pairs, values, given, found, rows, *told)

    monkeypatch.setattr(run, "search", some_proved)
    monkeypatch.setattr(run, "several_datasets", noted)
    result = treeleak.reconstruct(forest, schema, "known", 40.0, 0)
    (before,) = begun
    proved = result.proved.to_numpy()
    assert 0 < proved.sum() <= 20
    before = forest.apply(pd.DataFrame(before, columns=X.columns))
    leaves = forest.apply(result.X)
    assert (leaves[proved] == before[proved]).all()
    assert (leaves[~proved] != before[~proved]).any()
