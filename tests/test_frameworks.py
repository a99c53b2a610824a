"""Which figure speaks to which question of those who judge anonymity."""

import json
from pathlib import Path

import pytest
from sklearn.ensemble import RandomForestClassifier

import treeleak
from helpers.documents import valid
from helpers.tables import compas_sample
from treeleak.auditing.frameworks import EDPB, ICO, ISO, OF_FEW, QUESTIONS, WP216
from treeleak.auditing.limits import LIMITS
from treeleak.report import render_html

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture(scope="module")
def audited():
    X, y, compas = compas_sample(60)
    forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    return treeleak.audit(forest, X, y, schema=compas.schema, time_limit=30)


def test_each_question_names_figures_that_there_are():
    assert {q.source for q in QUESTIONS} == {EDPB, ICO, WP216, ISO}
    assert {key for q in QUESTIONS for key in q.figures} <= set(LIMITS)
    assert all(q.asks.endswith("?") and q.beyond.endswith(".") for q in QUESTIONS)


@pytest.mark.slow
def test_figures_are_those_of_the_audit(audited):
    told = valid(json.loads(audited.to_json(edition="internal")))["frameworks"]
    assert len(told) == len(QUESTIONS)
    found = {f["key"]: f for q in told for f in q["figures"]}
    assert found["exact_rows"]["found"] == LIMITS["exact_rows"].display(
        audited.measurement.exact_rows
    )
    assert found["worst_person"]["found"] is not None
    # What was not given is said to be not assessed, never left out.
    for key, needs in (("inference", "--sensitive"), ("membership_auc", "--control")):
        assert found[key]["found"] is None
        assert needs in found[key]["reason"]


def test_figures_of_few_people_stay_in_the_house(audited):
    told = valid(json.loads(audited.to_json()))["frameworks"]
    few = [f for q in told for f in q["figures"] if f["key"] in OF_FEW]
    assert few
    assert all(f["found"] is None and "internal edition" in f["reason"] for f in few)


def test_the_report_and_the_docs_have_every_question(audited):
    page = render_html(audited)
    text = (DOCS / "frameworks.md").read_text()
    flat = " ".join(text.split())
    for question in QUESTIONS:
        assert question.asks in page
        assert question.asks in flat
        for key in question.figures:
            assert f"`{key}`" in text
    for said in (page, flat):
        assert "not legal advice" in said
