"""Rows between the datasets that meet exact counts, and the dataset that comes with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import treeleak as tl
from helpers.tables import compas_sample
from treeleak import metrics
from treeleak.attacks.answer import Rows
from treeleak.attacks.exact.posterior_under_learned_prior import Learned
from treeleak.auditing.case import AuditResults
from treeleak.auditing.findings.rows_finding import of_rows
from treeleak.reconstruction import answering
from treeleak.verification.counts import check_rows


def forest_of(n_trees: int, depth: int, seed: int = 1, n_rows: int = 40):
    X, y, data = compas_sample(n_rows, seed=seed)
    model = RandomForestClassifier(n_trees, max_depth=depth, bootstrap=False, random_state=seed)
    return data, X, y, model.fit(X, y)


@pytest.fixture(scope="module")
def shallow():
    data, X, y, model = forest_of(10, 3)
    return data, X, y, tl.reconstruct(model, data.schema, time_limit=600, seed=0)


def missed(result: tl.Reconstruction, X, y) -> int:
    release = result.posterior.release
    codes = np.array([release.classes.index(label) for label in y])
    return check_rows(release, X.to_numpy(), codes).misfit


def test_the_dataset_that_comes_with_them_meets_every_count_and_they_do_not(shallow):
    *_, result = shallow
    assert result.status == "likely"
    assert result.between_datasets
    assert missed(result, *result.most_likely) == 0
    assert missed(result, result.X, result.y) == result.misfit > 0
    assert result.meaning.endswith("expected to err less than datasets that meet all")


def test_rows_that_are_proved_stand_in_both(shallow):
    *_, result = shallow
    proved = result.proved.to_numpy()
    assert proved.any()
    tested = [c for c in result.X if c not in result.free_columns]
    world = result.most_likely[0][tested].to_numpy().tolist()
    for row in result.X[tested].to_numpy()[proved].tolist():
        world.remove(row)


@pytest.mark.slow
def test_they_err_about_as_often_as_they_expect():
    """And less often than the dataset that meets every count, on average."""
    said, true, world = [], [], []
    for seed in range(6):
        data, X, _, model = forest_of(8, 2, seed, 60)
        result = tl.reconstruct(model, data.schema, time_limit=600, seed=0)
        said.append(result.expected_error)
        true.append(metrics.reconstruction_error(result.X, X, data.schema))
        world.append(metrics.reconstruction_error(result.most_likely[0], X, data.schema))
    assert np.mean(true) < 0.95 * np.mean(world)
    assert 0.7 < np.mean(said) / np.mean(true) < 1.4


def test_membership_and_statistics_follow_from_the_samples(shallow):
    data, X, _, result = shallow
    others = data.X.drop(index=X.index).sample(200, random_state=0)
    inside, outside = result.membership(X, 0.5), result.membership(others, 0.5)
    assert inside.mean() > outside.mean() + 0.05
    column = X.columns[0]
    found = result.expectation(lambda rows, _: rows[column].mean())
    assert abs(found.mean - X[column].mean()) < 0.05


def test_where_chains_disagree_it_is_not_said_that_time_would_help_for_sure(monkeypatch):
    """Their number of steps does not grow with the time."""
    schedule = replace(answering.SCHEDULE, agreed_chains=0.0)
    monkeypatch.setattr(answering, "SCHEDULE", schedule)
    data, _, _, model = forest_of(10, 3, n_rows=20)
    result = tl.reconstruct(model, data.schema, time_limit=600, seed=0)
    (note,) = [str(note) for note in result.notes if "do not agree" in str(note)]
    assert "more time may help" in note


def test_a_dataset_that_meets_every_count_stays_the_answer_where_it_errs_hardly_more():
    own = Rows(np.zeros((2, 2), np.int64), np.ones((2, 2)), np.zeros(2, bool), False, 0)
    between = replace(own, misfit=3)

    class Said(Learned):
        errors: dict[int, float]

        def __init__(self) -> None: ...

        def _between(self, s, world):
            return between

        def error(self, rows, seed):
            return self.errors[id(rows[0])]

    learned = Said()
    for gain, chosen in ((0.0, own), (0.005, own), (0.02, between), (0.5, between)):
        object.__setattr__(learned, "errors", {id(own): 0.1, id(between): 0.1 * (1 - gain)})
        rows, error = learned.nearer((own,), 0)
        assert rows[0] is chosen
        assert error == learned.errors[id(chosen)]


def test_an_audit_without_training_rows_shows_no_leak_either_way(shallow):
    *_, result = shallow
    for rebuilt in (result, replace(result, status="feasible")):
        (found,) = of_rows(AuditResults(reconstruction=rebuilt), rebuilt, False, ())
        assert found.verdict is not None
        assert found.verdict.startswith("no leak shown")
    hidden = replace(result, evidence="hidden draws")
    (found,) = of_rows(AuditResults(reconstruction=hidden), hidden, False, ())
    assert found.verdict == "not assessed"
