"""An audit whose time is up still answers, whatever part it was in."""

from dataclasses import replace

import pytest
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, VotingClassifier

import treeleak
from treeleak.auditing import run
from treeleak.auditing.assessors import compared
from treeleak.auditing.case import Case
from treeleak.auditing.findings.finding import OPEN
from treeleak.auditing.result import AuditResults
from treeleak.core.clock import Clock
from treeleak.core.errors import TimeUp
from treeleak.core.text import percent


@pytest.fixture(scope="module")
def data():
    found = treeleak.datasets.load_compas()
    X = found.X.sample(60, random_state=0)
    return X, found.y[X.index]


@pytest.mark.parametrize("at", ["open_model", "prepare_case"])
def test_reading_that_takes_too_long_is_not_assessed(data, monkeypatch, at):
    X, y = data
    forest = RandomForestClassifier(3, random_state=0)
    vote = VotingClassifier([("a", forest), ("b", ExtraTreesClassifier(3))]).fit(X, y)

    def late(*_):
        raise TimeUp("late")

    monkeypatch.setattr(run, at, late)
    found = treeleak.audit(vote, X, y, time_limit=5)
    assert found.verdict == OPEN
    assert {"inventory", "counts", "reconstruction"} <= dict(found.not_assessed).keys()
    policy = treeleak.Policy("p", {"stored_rows": 1, "leaking_parts": 99, "unknown_parts": 99})
    ruling = treeleak.judge(found, policy)
    assert {c.state for c in ruling.checks if c.key != "leak_shown"} == {"not assessed"}
    assert "No part comes from single rows" not in found.to_html()


@pytest.mark.parametrize("part", range(len(run.ASSESSORS)))
def test_no_part_ends_the_audit_because_its_time_is_up(part):
    def late(_):
        raise TimeUp("late")

    clock = Clock.of(5)
    own = replace(run.ASSESSORS[part], assess=late, needs=(), of="leaves")
    after = own(Case(None, clock, None, AuditResults()))
    assert after.found.not_assessed == ((own.part, clock.timeout_message),)


def test_a_measured_error_outlives_the_baselines(data, monkeypatch):
    X, y = data

    def late(*_, **__):
        raise TimeUp("late")

    monkeypatch.setattr(compared, "run_baselines", late)
    model = RandomForestClassifier(5, bootstrap=False, max_depth=2, random_state=0).fit(X, y)
    found = treeleak.audit(model, X, y, time_limit=30)
    m = found.measurement
    assert m.error < 0.3
    assert m.yardsticks == ()
    assert "baselines_not_tried" in {w.code for f in found.findings for w in f.messages}
    assert not found.verdict.startswith("no leak")
    policy = treeleak.Policy("p", {"exact_rows": 0.0, "advantage_over_guess": 1.0})
    states = {c.key: c.state for c in treeleak.judge(found, policy).checks}
    assert states["exact_rows"] == ("violated" if m.isolated_rows else "met")
    assert states["advantage_over_guess"] == "not assessed"
    assert percent(m.exact_rows) in found.to_html()
    found.to_json()
