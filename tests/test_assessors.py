"""Each part of an audit says what it needs and what it yields, and keeps to that."""

import re
from dataclasses import fields, replace
from pathlib import Path

import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import treeleak
from treeleak.auditing import run
from treeleak.auditing.case import Assessor, AuditRequest, AuditResults
from treeleak.core.errors import NotCovered
from treeleak.core.message import MessageTemplate, message_of, static_message

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

GUIDE = Path(__file__).parent.parent / "docs/how-to-read-an-audit.md"
ALSO = {"not_assessed", "notes", "mismatch"}
FOUND = {f.name for f in fields(AuditResults)}


@pytest.mark.parametrize("assessor", run.ASSESSORS, ids=lambda a: f"{a.part}-{a.assess.__name__}")
def test_what_a_part_needs_and_yields_has_a_name(assessor):
    assert set(assessor.yields) <= FOUND - ALSO
    given = {name for name, own in vars(AuditRequest).items() if isinstance(own, property)}
    assert set(assessor.needs) <= FOUND | given | {f.name for f in fields(AuditRequest)}


REASONS = {
    why.code: why
    for assessor in run.ASSESSORS
    for why in (*assessor.reasons, *assessor.lacking.values())
}


@pytest.mark.parametrize("code", list(REASONS))
def test_the_docs_say_what_to_do_about_each_declared_reason(code):
    """In the words of its longest part."""
    why = REASONS[code]
    said = why.words if isinstance(why, MessageTemplate) else str(why)
    longest = max(re.split(r"\{.*?\}|[,;:(]", said), key=len).strip()
    text = " ".join(GUIDE.read_text(encoding="utf-8").split())
    assert longest in text


def test_every_part_that_lists_reasons_itself_declares_some():
    """No part may list one that nobody can look up."""
    assert len(REASONS) >= 10
    assert {"membership", "exposure", "reconstruction", "measurement"} <= {
        a.part for a in run.ASSESSORS if a.reasons
    }


@pytest.mark.parametrize("why", [static_message("because", "not_declared"), "because"])
def test_a_reason_that_is_not_declared_is_an_error(why, instead):
    X, y = pd.DataFrame({"a": [0, 1, 0, 1]}), [0, 1, 0, 1]
    model = DecisionTreeClassifier().fit(X, y)
    part = Assessor("membership", lambda case: case.without("membership", why))
    instead("ASSESSORS", (*run.ASSESSORS, part), run)
    with pytest.raises(RuntimeError, match="does not declare"):
        treeleak.audit(model)
    instead("ASSESSORS", (replace(part, reasons=(message_of(why),)),), run)
    assert treeleak.audit(model).not_assessed == (("membership", why),)


def test_what_a_part_lacks_is_said_where_it_was_asked_for(instead):
    lacking = static_message("there is no measurement", "lacking")
    X, y = pd.DataFrame({"a": [0, 1, 0, 1]}), [0, 1, 0, 1]
    model = DecisionTreeClassifier().fit(X, y)
    part = Assessor(
        "inference",
        assess=lambda _: pytest.fail("it lacks what it needs"),
        needs=("measurement",),
        lacking={"measurement": lacking},
        wish="sensitive",
    )
    instead("ASSESSORS", (part,), run)
    assert treeleak.audit(model).not_assessed == ()
    asked = treeleak.audit(model, X, y, sensitive=["a"])
    assert asked.not_assessed == (("inference", lacking),)


def test_slow_parts_leave_time_to_the_quick_ones_after_them(instead):
    ends = {}

    def noted(name, slow):
        def assess(case):
            ends[name] = case.clock.limit
            return case

        return Assessor(name, assess, slow=slow)

    parts = noted("slow", True), noted("quick", False)
    instead("ASSESSORS", parts, run)
    X, y = pd.DataFrame({"a": [0, 1, 0, 1]}), [0, 1, 0, 1]
    for limit, kept in ((20, 2), (2000, 3)):
        treeleak.audit(DecisionTreeClassifier().fit(X, y), time_limit=limit)
        assert ends["quick"] == limit
        assert 0 < limit - ends["slow"] <= kept


@pytest.mark.parametrize(("limit", "most"), [(20, 11), (60, 40), (1000, 800)])
def test_the_attack_leaves_time_to_compare_rows_that_were_given(limit, most, attack_is):
    given = []

    def attack(*arguments, **options):
        given.append(arguments[2].left)
        raise NotCovered("not this one")

    attack_is(attack)
    X, y = pd.DataFrame({"a": [0, 1, 0, 1]}), [0, 1, 0, 1]
    treeleak.audit(DecisionTreeClassifier().fit(X, y), X, y, time_limit=limit)
    assert 0 < given[0] <= most


def test_a_part_cannot_use_what_it_does_not_need(instead):
    X, y = pd.DataFrame({"a": [0, 1, 0, 1]}), [0, 1, 0, 1]
    part = Assessor("structure", lambda case: case.noting(str(case.truth)))
    instead("ASSESSORS", (part,), run)
    with pytest.raises(LookupError, match="does not need"):
        treeleak.audit(DecisionTreeClassifier().fit(X, y))
