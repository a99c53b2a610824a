"""The first screen tells one story: the greatest harm first, and no relief beside it."""

import io
import itertools
from dataclasses import replace

import pytest
from rich.console import Console
from sklearn.ensemble import RandomForestClassifier

import treeleak
from treeleak.auditing.findings.finding import LEAK, NO_LEAK, OPEN, POSSIBLE
from treeleak.auditing.findings.verdict import find
from treeleak.core.text import percent
from treeleak.report import facts, render
from treeleak.report.sheet import _may_it, sheet_of

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

RELIEF = ("Nothing beyond", "showed no leak. That", "attributable to the model")
LEVELS = (0.0, 0.02, 0.44, 1.0)
VERDICTS = (LEAK, POSSIBLE, NO_LEAK, OPEN)


@pytest.fixture(scope="module")
def audited():
    data = treeleak.datasets.load_compas()
    X = data.X.sample(40, random_state=0)
    model = RandomForestClassifier(4, bootstrap=False, max_depth=4, random_state=0)
    return treeleak.audit(model.fit(X, data.y[X.index]), X, data.y[X.index], schema=data.schema)


def made(audited, exact, located, targets, verdict):
    """The audit with other figures and another verdict, and findings that follow from them."""
    m = replace(audited.measurement, exact_rows=exact, located_rows=located, targets=targets)
    found = replace(audited, measurement=m, alone=3, alone_and_rare=None)
    findings = tuple(replace(f, verdict=verdict if f.verdict else None) for f in find(found))
    return replace(found, findings=findings, verdict=verdict)


@pytest.mark.parametrize("verdict", VERDICTS)
def test_the_greatest_harm_comes_first_and_nothing_belittles_it(audited, verdict):
    rows = list(itertools.combinations_with_replacement(LEVELS, 2))
    shown = (None, *LEVELS)
    # Each pair of figures of rows with two of targets, which go on with each pair and verdict.
    first = VERDICTS.index(verdict)
    for k, (exact, located) in [*enumerate(rows, first), *enumerate(rows, first + 2)]:
        targets = shown[k % len(shown)]
        found = made(audited, exact, located, targets, verdict)
        sheet, worst = sheet_of(found), max(exact, located, targets or 0.0)
        first = sheet.headline.removeprefix(f"{verdict.capitalize()}. ")
        if worst:
            assert percent(worst) in first.split(". ")[0], first
            assert sheet.tiles[0].figure == percent(worst)
        answers = " ".join(t for a in sheet.answers for t in (a.answer, *a.more))
        if verdict in (LEAK, OPEN):
            assert not any(r in answers for r in RELIEF)
        if worst >= facts.SEVERE:
            assert "calm" not in (sheet.tone, *(t.tone for t in sheet.tiles))
            assert not any(r in answers for r in RELIEF)
            assert percent(worst) in answers
        if verdict == NO_LEAK:
            assert "attributable to the model" not in found.to_html()


def test_terminal_page_and_json_begin_alike(audited):
    for edition, internal in (("releasable", False), ("internal", True)):
        told = audited.to_dict(edition)["headline"]
        out = io.StringIO()
        render(audited, Console(file=out, width=5_000), internal)
        assert told in out.getvalue()
        assert sheet_of(audited, edition).headline in told


def test_advice_of_the_first_screen_is_about_the_model_once_there_is_a_verdict(audited):
    audited = replace(audited, verdict=LEAK)
    late = ("Give the attack more time (--time-limit): it ended.", "Then audit again.")
    answer = sheet_of(replace(audited, advice=late)).answers[2]
    assert "time" not in " ".join((answer.answer, *answer.more, *answer.items))
    both = ("Grow larger leaves (min_samples_leaf=10 or more).", *late)
    answer = sheet_of(replace(audited, advice=both)).answers[2]
    assert "Grow larger leaves" in " ".join((answer.answer, *answer.items))
    assert "more time" not in " ".join((answer.answer, *answer.items))
    for verdict in (OPEN, POSSIBLE):
        answer = sheet_of(replace(audited, verdict=verdict, advice=late)).answers[2]
        assert answer.items == ("Give the attack more time.",)


def test_nothing_is_called_compared_without_training_rows():
    found = {"ruling": None, "verdict": NO_LEAK, "exposure": {"recovered": {"proved": 1.0}}}
    for measured in (None, {"exact_rows": 0.5, "located_rows": 0.9}):
        answer, _ = _may_it(found | {"measurement": measured})
        assert ("baselines" in answer) == (measured is not None)
