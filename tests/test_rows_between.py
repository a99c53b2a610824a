"""Rows whose draws are known, which walk on between thresholds once every count is met."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import treeleak
from helpers.raw_tables import leaning, schema_of
from treeleak.attacks.answer import Answer
from treeleak.attacks.known_draws import run, walking
from treeleak.attacks.known_draws.walking import rows_between
from treeleak.core.errors import TimeUp
from treeleak.partition.cells import GridTooLarge
from treeleak.release import to_release
from treeleak.verification.counts import check_rows


def six_columns(seed, n=40):
    X, y = leaning(seed, n)
    rng = np.random.default_rng(100 + seed)
    X = X.assign(**{c: rng.integers(0, 200, n).astype(float) for c in "pqr"})
    return X, y, RandomForestClassifier(60, random_state=seed).fit(X, y)


@pytest.fixture(scope="module")
def rebuilt():
    """Of two forests: the rows, the answer, and what it would be without walks."""
    out = []
    with pytest.MonkeyPatch.context() as patch:
        for seed in range(2):
            X, y, model = six_columns(seed)
            both = []
            for step in (rows_between, lambda answer, *_: answer):
                patch.setattr(run, "rows_between", step)
                both.append(treeleak.reconstruct(model, schema_of(X), seed=0, time_limit=20))
            out.append((X, y, model, *both))
    return out


@pytest.mark.slow
def test_every_count_is_still_met(rebuilt):
    for *_, model, found, _ in rebuilt:
        assert found.status == "feasible"
        rows, label = found.X.to_numpy(), found.y.to_numpy()
        assert check_rows(to_release(model), rows, label, found.draws.counts).misfit == 0


@pytest.mark.slow
def test_rows_come_nearer_to_the_training_rows(rebuilt):
    def far(found, X):
        return (np.abs(found.X - X) / np.ptp(X.to_numpy(), axis=0)).to_numpy().mean()

    error = np.array([[far(f, X) for f in found] for X, _, _, *found in rebuilt])
    assert error[:, 0].sum() < 0.9 * error[:, 1].sum()
    for *_, found, without in rebuilt:
        assert found.midpoints_met > without.midpoints_met


@pytest.mark.slow
def test_what_is_proved_stays_so(rebuilt):
    for X, *_, found, without in rebuilt:
        np.testing.assert_array_equal(found.proved, without.proved)
        sure = without.confidence.to_numpy() == 1.0
        assert (np.abs(found.X - X).to_numpy()[sure & found.proved.to_numpy()[:, None]] == 0).all()


@pytest.mark.slow
def test_values_are_right_as_often_as_is_said(rebuilt):
    right, said = [], []
    for X, *_, found, _ in rebuilt:
        right.append(((found.lower <= X) & (found.upper >= X)).to_numpy().mean())
        said.append(found.confidence.to_numpy().mean())
    assert abs(np.mean(right) - np.mean(said)) < 0.12


@pytest.mark.slow
@pytest.mark.parametrize("name", ["RowConstraints", "_within_leaves"])
@pytest.mark.parametrize("error", [GridTooLarge("too many masks"), TimeUp("the time is up")])
def test_where_rows_cannot_walk_they_stay(name, error, monkeypatch):
    def fails(*_):
        raise error

    X, _, model = six_columns(0)
    broken = SimpleNamespace(of_known=fails) if name == "RowConstraints" else fails
    monkeypatch.setattr(walking, name, broken)
    found = treeleak.reconstruct(model, schema_of(X), seed=0, time_limit=20)
    assert found.status == "feasible"
    assert found.misfit == 0


@pytest.mark.parametrize(
    ("status", "rules", "population"),
    [("unknown", (), None), ("feasible", ("one",), None), ("feasible", (), "rows")],
)
def test_walks_that_know_too_little_are_not_begun(status, rules, population):
    answer = Answer(status, None)
    domains, given = SimpleNamespace(rules=rules), SimpleNamespace(population=population)
    assert rows_between(answer, None, domains, given, None) is answer
