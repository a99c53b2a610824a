"""Advice: what each change saves, as it was measured, and in which order."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import skops.io
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.ensemble import RandomForestClassifier as Forest
from sklearn.linear_model import LogisticRegression

import treeleak
from helpers.cli import run
from helpers.tables import compas_sample
from treeleak.auditing.assessors.counts import count_leaves
from treeleak.auditing.case import AuditResults
from treeleak.auditing.findings.advice import (
    ACCURACY,
    GUESSED,
    HARDEN,
    HARDENING,
    LEAF_VALUES,
    OF_HARDENING,
    SAVED,
    advise,
)
from treeleak.auditing.findings.finding import NO_LEAK
from treeleak.core.errors import BadInput, NotCovered
from treeleak.release import to_release

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

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
    assert (row[1], row[4]) == tuple(f"{share:.1f} %" for share in saved.accuracy)
    guess = cells("defences.md", "*the same attack without any count: a guess*")
    assert (guess[2], guess[5]) == (f"*{GUESSED} %*",) * 2
    none = cells("defences.md", "none: scikit-learn's defaults")
    assert (none[1], none[4]) == tuple(f"{share:.1f} %" for share in ACCURACY)
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
        ("LightGBM 4.6", "a larger min_child_samples"),
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


# -------------------------------------------------------------------------------- before training


def marked(found):
    return {p.setting for p in found.points if p.leaks}


def test_what_is_not_named_is_as_the_library_has_it():
    assert treeleak.check("RandomForestClassifier") == treeleak.check(Forest())
    assert "bootstrap=True" in marked(treeleak.check("RandomForestClassifier"))
    assert "bootstrap=False" in marked(treeleak.check("ExtraTreesClassifier"))
    assert marked(treeleak.check(ExtraTreesClassifier())) == marked(
        treeleak.check("ExtraTreesClassifier")
    )


def test_settings_that_protect_are_not_marked():
    found = treeleak.check(
        Forest(n_estimators=10, max_depth=3, min_samples_leaf=20), n_rows=1000, n_columns=5
    )
    assert marked(found) == {"bootstrap=True"}
    assert [p.change for p in found.points if not p.leaks] == [""] * 3


def test_a_share_of_rows_needs_the_number_of_rows():
    share = {"params": {"min_samples_leaf": 0.05}}
    assert not any(
        "min_samples_leaf" in p.setting
        for p in treeleak.check("DecisionTreeClassifier", **share).points
    )
    found = treeleak.check("DecisionTreeClassifier", n_rows=100, **share)
    assert "min_samples_leaf=0.05" in marked(found)
    more = treeleak.check("DecisionTreeClassifier", n_rows=1000, **share)
    assert "min_samples_leaf=0.05" not in marked(more)


def test_many_leaves_for_few_rows_are_marked():
    assert "max_depth=8" in marked(treeleak.check(Forest(max_depth=8), n_rows=1000))
    assert "max_depth=8" not in marked(treeleak.check(Forest(max_depth=8), n_rows=100_000))


def test_a_number_for_a_seed_is_marked_where_rows_are_drawn():
    assert "random_state=1" in marked(treeleak.check(Forest(random_state=1)))
    assert "random_state=1" not in marked(treeleak.check(Forest(random_state=1, bootstrap=False)))


@pytest.mark.parametrize("kind", ["XGBClassifier", "LGBMRegressor", "GradientBoostingClassifier"])
@pytest.mark.parametrize("share", [0.8, 1.0, None])
def test_trees_that_draw_rows_are_marked(kind, share):
    found = marked(treeleak.check(kind, params={"subsample": share}))
    assert any(setting.startswith("subsample") for setting in found) == (share == 0.8)


@pytest.mark.parametrize(
    "kind",
    ["GradientBoostingRegressor", "XGBClassifier", "XGBRegressor", "CatBoost"],
)
def test_boosted_models_are_known_by_name(kind):
    found = treeleak.check(kind)
    assert found.points[0].setting == "the file itself"
    assert all(p.leaks for p in found.points)


@pytest.mark.parametrize(
    ("kind", "setting"),
    [
        ("LGBMClassifier", "min_child_samples=20"),
        ("HistGradientBoostingRegressor", "min_samples_leaf=20"),
    ],
)
def test_leaves_that_are_large_by_default_are_not_marked(kind, setting):
    found = {p.setting: p.leaks for p in treeleak.check(kind).points}
    assert found == {"the file itself": True, setting: False}
    assert setting.replace("20", "5") in marked(
        treeleak.check(kind, params={setting.partition("=")[0]: 5})
    )


@pytest.mark.parametrize(
    "model",
    [
        GradientBoostingClassifier(), GradientBoostingRegressor(),
        HistGradientBoostingClassifier(), HistGradientBoostingRegressor(),
    ],
)  # fmt: skip
def test_names_of_boosted_models_have_the_defaults_of_the_library(model):
    assert treeleak.check(type(model).__name__) == treeleak.check(model)


def test_other_models_and_numbers_are_refused():
    with pytest.raises(NotCovered, match="LogisticRegression"):
        treeleak.check(LogisticRegression())
    for name, value in {"n_estimators": "many", "max_depth": -3, "min_samples_leaf": True}.items():
        with pytest.raises(BadInput, match=name):
            treeleak.check("RandomForestClassifier", params={name: value})
    with pytest.raises(BadInput, match="n_rows"):
        treeleak.check("DecisionTreeClassifier", n_rows=0)


def test_the_command_says_the_same():
    done = run(
        "check", "--model", "RandomForestClassifier", "--param", "bootstrap=false", "--rows", 100
    )
    assert done.exit_code == 0
    assert "! bootstrap=False" in done.stdout
    assert run("check", "--model", "SVC").exit_code == 2
    assert run("check", "--model", "SVC", "--param", "x").exit_code == 2
