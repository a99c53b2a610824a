"""Membership: how well training rows are told from others, and when nothing is said of it."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

import treeleak
from helpers.documents import valid
from helpers.hurried import walk_little
from helpers.tables import compas_sample
from treeleak.auditing import Policy, judge
from treeleak.auditing.assessors.membership import CONTROL, SAMPLE, membership_of
from treeleak.metrics.membership import (
    auc,
    calibration,
    caught,
)
from treeleak.report import render_html

walks_are_short = pytest.mark.usefixtures("short_walks")

# ------------------------------------------------------------------------------------- figures


@pytest.mark.parametrize("ties", [False, True])
def test_the_area_is_that_of_scikit_learn(ties):
    rng = np.random.default_rng(0)
    members, others = rng.normal(0.7, size=60), rng.normal(size=200)
    if ties:
        members, others = members.round(), others.round()
    truth = np.repeat([1, 0], [60, 200])
    found = auc(members, others)
    assert found.value == pytest.approx(roc_auc_score(truth, np.concatenate([members, others])))
    assert found.interval.low < found.value < found.interval.high


def test_the_interval_of_the_area_covers_as_often_as_it_says():
    rng, hits = np.random.default_rng(1), 0
    for _ in range(400):
        found = auc(rng.normal(size=80), rng.normal(size=150))
        hits += found.interval.low <= 0.5 <= found.interval.high
    assert 360 <= hits <= 396


def test_where_all_are_told_apart_the_area_is_not_said_to_be_sure():
    members = np.arange(20) + 100.0
    best, worst = auc(members, np.arange(50.0)), auc(-members, np.arange(50.0))
    assert (best.value, worst.value) == (1.0, 0.0)
    assert best.interval.low == pytest.approx(0.8316, abs=1e-4)
    assert worst.interval.high == pytest.approx(0.1684, abs=1e-4)
    with pytest.raises(treeleak.BadInput, match="two of each"):
        auc(members[:1], members)


def test_people_too_few_are_said_to_be_too_few():
    scores = np.arange(999.0)
    few, enough = (caught(scores, np.arange(n) * 1.0, 0.001) for n in (999, 1000))
    assert not few.assessed
    assert few.to_dict()["true_positives"] is None
    assert few.why_not == (
        "a share of 0.1% of false positives needs 1,000 control rows or more, not 999"
    )
    assert enough.assessed
    assert enough.why_not == ""
    assert enough.to_dict()["true_positives"]["n"] == 999


def drawn(said, n, wrong, rng):
    """Members and others as probabilities say, and what is said of them."""
    weights = [said, 1 - said]
    return [rng.choice(said, n, p=own / own.sum()) ** wrong for own in weights]


@pytest.mark.parametrize("n", [50, 400])
def test_of_right_probabilities_the_error_is_what_it_is_by_chance(n):
    rng = np.random.default_rng(4)
    said = rng.beta(0.8, 0.8, size=2000)
    said = np.concatenate([said, 1 - said])
    found = [calibration(*drawn(said, n, 1, rng)) for _ in range(60)]
    error, chance = (np.mean([getattr(f, k) for f in found]) for k in ("error", "by_chance"))
    assert error == pytest.approx(chance, rel=0.12)
    wrong = np.mean([calibration(*drawn(said, n, 3, rng)).error for _ in range(20)])
    assert wrong > 2 * error


# --------------------------------------------------------------------------------------- audits


@pytest.fixture(scope="module")
def data():
    return compas_sample(100)


@pytest.fixture(scope="module")
def audited(data):
    X, y, compas = data
    forest = RandomForestClassifier(30, random_state=0).fit(X, y)
    others = compas.X.drop(X.index).sample(1500, random_state=0)
    return treeleak.audit(
        forest, X, y, schema=compas.schema, control=others, time_limit=30, threshold=10
    )


def test_rows_of_others_tell_nobody(audited, data):
    X, _, compas = data
    rest = compas.X.drop(X.index)
    columns = list(audited.truth.X.columns)
    tables = [rest.sample(100, random_state=s)[columns].reset_index(drop=True) for s in range(12)]
    areas = []
    for seed, own in enumerate(tables):
        others = rest.drop(rest.sample(100, random_state=seed).index)
        others = others.sample(1500, random_state=seed)[columns]
        blind = replace(audited.reconstruction, X=own, confidence=None, posterior=None)
        areas.append(membership_of(blind, own, audited.release, audited.truth.X, others, seed).auc)
    inside = sum(a.interval.low <= 0.5 <= a.interval.high for a in areas)
    assert inside >= 9
    assert np.mean([a.value for a in areas]) == pytest.approx(0.5, abs=0.03)


def test_a_policy_bounds_it_and_fails_closed(audited):
    def states(audit, **limits):
        checks = judge(audit, Policy("p", limits)).checks
        return {c.key: (c.state, c.found) for c in checks if c.key.startswith("membership")}

    loose = states(audited, membership_auc=1.0, membership_tpr=1.0)
    assert [state for state, _ in loose.values()] == ["met", "met"]
    tight = states(audited, membership_auc=0.5, membership_tpr=0.0)
    assert tight["membership_auc"][0] == "violated"
    few = replace(
        audited.membership, at=tuple(replace(c, n_others=999) for c in audited.membership.at)
    )
    state, found = states(replace(audited, membership=few), membership_tpr=1.0)["membership_tpr"]
    assert state == "not assessed"
    assert "1,000 control rows or more" in found
    without = replace(audited, membership=None, shadows=None)
    assert states(without, membership_auc=1.0)["membership_auc"][0] == "not assessed"
    assert "--control" in states(without, membership_auc=1.0)["membership_auc"][1]


@pytest.fixture(scope="module")
def beside(data):
    """An audit with rows of the population, and one with the same rows for a control."""
    X, y, compas = data
    forest = RandomForestClassifier(5, max_depth=2, bootstrap=False, random_state=0).fit(X, y)
    others = compas.X.drop(X.index).sample(200, random_state=0)
    told = {"schema": compas.schema, "time_limit": 20}
    with pytest.MonkeyPatch.context() as patch:
        walk_little(patch)
        own = treeleak.audit(forest, X, y, population=others, **told)
        control = treeleak.audit(forest, X, y, control=others, **told)
    return own, control, lambda given: treeleak.audit(forest, X, y, population=given, **told)


@pytest.mark.slow
def test_rows_of_the_population_are_other_people_for_an_attack_without_them(beside):
    own, control, _ = (a if callable(a) else a.membership for a in beside)
    assert (own.against, control.against) == (SAMPLE, CONTROL)
    assert (own.n_members, own.n_others) == (100, 200)
    assert own.calibration.error < 0.2
    # The attack without the population never saw them, so the figures are those of a control.
    assert own.auc.value == pytest.approx(control.auc.value, abs=0.03)
    assert "Calibration error of probabilities" in render_html(beside[0])
    valid(json.loads(beside[0].to_json()))


@pytest.mark.slow
@walks_are_short
def test_a_population_that_holds_the_training_rows_is_no_control(beside, data):
    X = data[0]
    found = beside[2](pd.concat([X, X]))
    assert found.membership is None
    assert "rows of the population are too similar" in dict(found.not_assessed)["membership"]
    shares = beside[2]({X.columns[0]: 0.5})
    assert shares.membership is None
    assert "membership" not in dict(shares.not_assessed)
