"""Audits of forests with noise: what the attack would guess without any count is not counted."""

import io
import json
import sys
from dataclasses import replace

import pandas as pd
import pytest
from rich.console import Console

import treeleak
from helpers.documents import valid
from helpers.tables import compas_sample
from treeleak.attacks.posterior.noisy_counts import most_samples
from treeleak.auditing.assessors.baselines import (
    FEWEST,
    guesses_from_shape,
)
from treeleak.auditing.findings.finding import LEAK, NO_LEAK, OPEN, POSSIBLE
from treeleak.core.errors import BadInput, PrivacyWarning
from treeleak.learn import DPForestClassifier
from treeleak.release import to_release
from treeleak.report import render


@pytest.fixture(scope="module")
def data():
    X, y, compas = compas_sample(60, seed=1)
    return X, y, compas.X.drop(X.index).head(600), compas.schema


def trained(data, epsilon, seed=0):
    X, y, _, schema = data
    forest = DPForestClassifier(10, 4, epsilon, schema=schema, classes=[0, 1], random_state=seed)
    with pytest.warns(PrivacyWarning):
        return forest.fit(X, y)


def fitted(data, epsilon, seed=0):
    return to_release(trained(data, epsilon, seed))


def guessed(release, schema, seed=0, **given):
    return treeleak.reconstruct(
        release, schema, seed=seed, method="without-counts", n_rows=60, **given
    )


# ------------------------------------------------------------------------------- the guess


@pytest.mark.slow
def test_a_guess_from_the_shape_looks_at_no_count(data):
    one, other = fitted(data, 1.0), fitted(data, 100.0)
    a, b = guessed(one, data[3]), guessed(other, data[3])
    assert a.status == "likely"
    assert not a.posterior.by_chains
    # Of as many samples as the attack on the counts: the middle of fewer is no fair guess.
    assert a.numbers["samples"] == most_samples(60)
    pd.testing.assert_frame_equal(a.X, b.X)
    pd.testing.assert_series_equal(a.y, b.y)
    other_seed = guessed(one, data[3], seed=1)
    assert not a.X.equals(other_seed.X)


def test_a_guess_keeps_what_is_known(data):
    known = data[0][["sex:Male"]]
    found = guessed(fitted(data, 5.0), data[3], known_columns=known)
    assert (found.X["sex:Male"].to_numpy() == known["sex:Male"].to_numpy()).all()
    assert found.known["sex:Male"].all()


def test_exact_counts_have_no_guess(data):
    with pytest.raises(BadInput, match="method must be one of"):
        treeleak.reconstruct(
            replace(fitted(data, 5.0), noise=None), data[3], method="without-counts"
        )


# ------------------------------------------------------------------------------- the verdict


def audited(data, epsilon, seed=0, **options):
    X, y, _, schema = data
    return treeleak.audit(fitted(data, epsilon, seed), X, y, schema=schema, n_rows=60, **options)


def shown(found):
    out = io.StringIO()
    render(found, Console(file=out, width=80))
    return " ".join(out.getvalue().split())


@pytest.mark.slow
def test_noise_that_hides_everything_shows_no_leak(data, few_guesses):
    """Neither noise nor a prior that is neutral makes a leak."""
    found = audited(data, 1e-3)
    assert found.verdict == NO_LEAK, found.headline
    assert "This is not clearly better" in found.headline
    assert "Noise between these rows and the counts, in sum" in shown(found)


@pytest.mark.slow
def test_noise_that_hides_nothing_shows_a_leak(data, short_walks):
    found = audited(data, 100.0, control=data[2])
    assert found.verdict == LEAK
    assert found.measurement.significance.rank < 0.05
    shape = found.measurement.shape
    assert shape.n_guesses >= FEWEST
    assert found.measurement.error < shape.error - 3 * shape.sd
    document = valid(json.loads(found.to_json(edition="internal")))
    assert document["measurement"]["shape"]["error"] == shape.error
    text = shown(found)
    assert "shape of the trees" in text
    assert "Training rows 60" in text


@pytest.mark.slow
def test_after_an_interruption_nothing_is_guessed(data, short_walks, monkeypatch):
    release = fitted(data, 5.0)
    rebuilt = guessed(release, data[3])
    stopped = replace(rebuilt, interrupted=True)
    assert guesses_from_shape(release, stopped, 60, 10, 0, None, {}) == ()
    monkeypatch.setattr(
        sys.modules["treeleak.auditing.assessors.baselines"],
        "reconstruct",
        lambda *_args, **_more: stopped,
    )
    told = []
    assert guesses_from_shape(release, rebuilt, 60, 10, 0, told.append, {}) == ()
    assert [p.stage for p in told] == ["computing the baseline from the shape of the trees"]
    # What tells of the people needs no such guess; what does not is left open without it.
    assert audited(data, 100.0).verdict == LEAK
    found = audited(data, 1e-3)
    assert found.verdict in (OPEN, POSSIBLE)
    assert found.measurement.shape is None
    assert "is missing: it was interrupted" in found.headline


@pytest.mark.slow
def test_a_population_is_granted_to_the_guess_too(data, short_walks):
    X, y, others, schema = data
    found = treeleak.audit(
        fitted(data, 1e-3), X, y, schema=schema, n_rows=60, population=others, time_limit=60
    )
    (without,) = found.variants
    assert found.measurement.shape.error < without.measurement.shape.error
    assert found.verdict == NO_LEAK
    valid(json.loads(found.to_json()))
