"""Every output follows one choice of what may be disclosed."""

import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn.tree import DecisionTreeClassifier

import treeleak
from treeleak.core.message import Audience, MessageTemplate
from treeleak.evidence import NO_EVIDENCE
from treeleak.report import render

pytestmark = pytest.mark.usefixtures("short_walks_throughout")


def printed(audit, internal=False):
    out = io.StringIO()
    render(audit, Console(file=out, width=300), internal)
    return out.getvalue()


def outputs(audit):
    return {"terminal": printed(audit), "page": audit.to_html(), "json": audit.to_json()}


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("factor", [1, 100])
def test_columns_of_single_people_are_named_nowhere(given, factor):
    rng = np.random.default_rng(0)
    names = [f"Zeno{k:04d}" for k in range(12)]
    X = pd.get_dummies(pd.DataFrame({"id": names})).astype(float) * factor
    X["age"] = rng.integers(20, 60, 12)
    model = DecisionTreeClassifier(random_state=0).fit(X, rng.integers(0, 2, 12))
    rows = (X, model.predict(X)) if given else ()
    found = treeleak.audit(model, *rows, time_limit=15)
    for what, text in outputs(found).items():
        assert "Zeno" not in text, what


def test_whoever_changes_a_document_changes_no_other():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 2, (40, 3)), columns=["a", "b", "c"])
    model = DecisionTreeClassifier(random_state=0).fit(X, rng.integers(0, 2, 40))
    found = treeleak.audit(model, X, time_limit=10)
    told = found.to_dict()
    told["notes"].append("changed by whoever asked")
    assert found.to_dict() != told
    assert found.to_dict(threshold=3) != found.to_dict()


def test_what_is_for_the_owner_is_printed_for_the_owner_only():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 2, (20, 3)), columns=["a", "b", "c"]).astype(float)
    model = DecisionTreeClassifier(random_state=0).fit(X, rng.integers(0, 2, 20))
    found = treeleak.audit(model, time_limit=10)
    secret = MessageTemplate("x", "{what:foreign}")(what="a secret value")
    open_ = tuple((part, secret) for part in ("inventory", "uncertainty", "exposure"))
    found = replace(found, not_assessed=open_, notes=("a secret value", secret))
    for what, text in outputs(found).items():
        assert "a secret value" not in text, what
    assert "a secret value" in printed(found, internal=True)


def test_of_fewer_rows_than_the_threshold_no_part_has_a_figure():
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.integers(0, 2, (8, 3)), columns=["a", "b", "c"]).astype(float)
    y = rng.integers(0, 2, 8)
    model = DecisionTreeClassifier(random_state=0).fit(X, y)
    document = treeleak.audit(model, X, y, groups=["a"], time_limit=10).to_dict()
    assert document["exposure"]["columns"] == []
    assert all(g["rows"] is None for g in document["exposure"]["groups"])
    assert document["measurement"]["individual"]["outliers"]["n_rows"] == 0


def test_reasons_without_a_value_are_the_same_in_both_editions():
    why = NO_EVIDENCE(counts="none", sampling="bootstrap")
    assert why.render_for(Audience(10)) == why
