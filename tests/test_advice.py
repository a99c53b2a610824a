"""Advice: what each change saves, as it was measured, and in which order."""

from pathlib import Path

import pytest
from sklearn.ensemble import RandomForestClassifier as Forest
from sklearn.linear_model import LogisticRegression

import treeleak
from helpers.cli import run
from treeleak.auditing.findings.advice import (
    ACCURACY,
    GUESSED,
    HARDENING,
    LEAF_VALUES,
    OF_HARDENING,
    SAVED,
)
from treeleak.core.errors import BadInput, NotCovered

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

DOCS = Path(__file__).parent.parent / "docs"


def cells(page, first, least=5):
    """The line of a table that begins so, and has so many cells."""
    for line in (DOCS / page).read_text().splitlines():
        own = [cell.strip() for cell in line.strip("| ").split("|")]
        if own[0] == first and len(own) >= least:
            return own
    raise AssertionError(f"{page} has no line {first!r}")


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


# -------------------------------------------------------------------------------- before training


def marked(found):
    return {p.setting for p in found.points if p.leaks}


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


@pytest.mark.parametrize("kind", ["XGBClassifier", "LGBMRegressor", "GradientBoostingClassifier"])
@pytest.mark.parametrize("share", [0.8, 1.0, None])
def test_trees_that_draw_rows_are_marked(kind, share):
    found = marked(treeleak.check(kind, params={"subsample": share}))
    assert any(setting.startswith("subsample") for setting in found) == (share == 0.8)


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
