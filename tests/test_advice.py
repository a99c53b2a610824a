"""Advice: what each change saves, as it was measured, and in which order."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import skops.io
from sklearn.ensemble import (
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)

import treeleak
from helpers.tables import compas_sample
from treeleak.auditing.assessors.counts import count_leaves
from treeleak.auditing.findings.advice import (
    HARDEN,
    HARDENING,
    LEAF_VALUES,
    OF_HARDENING,
    SAVED,
    advise,
)
from treeleak.auditing.findings.finding import LEAK, NO_LEAK
from treeleak.auditing.result import AuditResults
from treeleak.release import to_release

DOCS = Path(__file__).parent.parent / "docs"


def cells(page, first, least=5):
    """The line of a table that begins so, and has so many cells."""
    for line in (DOCS / page).read_text().splitlines():
        own = [cell.strip() for cell in line.strip("| ").split("|")]
        if own[0] == first and len(own) >= least:
            return own
    raise AssertionError(f"{page} has no line {first!r}")


@pytest.fixture(scope="module")
def data():
    X, y, compas = compas_sample(30)
    return X, y, compas.schema


@pytest.fixture(scope="module")
def forest(data):
    return RandomForestClassifier(20, random_state=0).fit(data[0], data[1])


@pytest.mark.parametrize("key", list(SAVED))
def test_stored_figures_are_those_of_the_docs(key):
    saved = SAVED[key]
    row = cells("defences.md", saved.measure)
    assert (row[2], row[5]) == (f"{saved.few} %", f"{saved.many} %")
    none = cells("defences.md", "none: scikit-learn's defaults")
    assert (none[2], none[5]) == ("100 %", "100 %")


def test_figures_of_hardening_are_those_of_the_docs():
    row = cells("harden.md", "`inner`")
    assert (row[2], row[4]) == tuple(f"{share} %" for share in HARDENING)
    assert cells("harden.md", "as it was")[2] == "100 %"
    assert f"{HARDENING[0]}%" in OF_HARDENING
    assert f"{HARDENING[1]}%" in OF_HARDENING
    text = " ".join((DOCS / "harden.md").read_text().split())
    assert "all rows came back from leaf values alone" in text
    assert "default XGBClassifier" in LEAF_VALUES


@pytest.mark.slow
def test_what_saves_nothing_does_not_come_first(forest, data):
    X, y, schema = data
    told = treeleak.audit(forest, X, y, schema=schema, time_limit=20).advice
    starts = [text.split()[0:2] for text in told]
    assert told[0].startswith(HARDEN)
    assert "treeleak harden MODEL --out FILE" in told[0]
    seeds = starts.index(["Delete", "all"])
    assert seeds == len(told) - 2
    assert "saved nothing, all rows still came back" in told[seeds]
    assert any(text.startswith("Grow larger") and "89% and 97%" in text for text in told)


@pytest.mark.slow
def test_figures_of_forests_are_not_told_of_other_models(data):
    X, y, schema = data
    boosted = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, y)
    told = " ".join(treeleak.audit(boosted, X, y, schema=schema, time_limit=20).advice)
    assert "default forest" not in told
    if "treeleak harden MODEL" in told:
        assert LEAF_VALUES in told


@pytest.mark.parametrize(
    ("origin", "setting"),
    [
        ("XGBoost 3.1", "min_child_weight"),
        ("LightGBM 4.6", "min_child_samples=10"),
        ("CatBoost 1.2", "depth"),
        ("scikit-learn 1.7", "min_samples_leaf=10"),
    ],
)
def test_larger_leaves_are_asked_for_in_the_words_of_the_library(origin, setting, data):
    X, y, _ = data
    boosted = GradientBoostingClassifier(n_estimators=2, random_state=0).fit(X, y)
    release = replace(to_release(boosted), origin=origin)
    told = advise(AuditResults(release=release, counts=count_leaves(release)), NO_LEAK)
    (larger,) = (text for text in told if text.startswith("Grow larger leaves"))
    assert setting in larger
    assert ("min_samples_leaf" in larger) == origin.startswith("scikit-learn")


def test_figures_of_classifiers_are_not_told_of_regressions(data):
    X, y, _ = data
    for kind in (RandomForestClassifier, RandomForestRegressor):
        release = to_release(kind(2, random_state=0).fit(X, y))
        found = AuditResults(release=release, counts=count_leaves(release))
        measured = "default forests" in " ".join(advise(found, LEAK))
        assert measured == (kind is RandomForestClassifier)


@pytest.mark.slow
@pytest.mark.usefixtures("few_guesses")
def test_hardening_tells_what_each_step_saved_of_this_file(forest, data, tmp_path):
    X, y, schema = data
    skops.io.dump(forest, tmp_path / "m.skops")
    done = treeleak.harden(
        tmp_path / "m.skops", tmp_path / "h.skops", X=X, y=y, schema=schema, time_limit=8
    )
    first = done.advice[0]
    assert first.startswith("Measured on this file")
    states = [s for s in done.states if s.attacked]
    assert len(re.findall(r"\d%", first)) == len(states)
    for state in states:
        assert f"{state.step} {round(100 * state.leak.exact_rows)}%" in first
    assert not any(text.startswith(HARDEN) for text in done.advice)
    assert done.to_dict()["advice"] == list(done.advice)
