"""Each part of an audit says what it needs and what it yields, and keeps to that."""

from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import treeleak
from treeleak.auditing import run
from treeleak.auditing.case import Given
from treeleak.auditing.result import Found
from treeleak.learn import GreedyRuleList

ALSO = {"not_assessed", "notes", "mismatch"}
FOUND = {f.name for f in fields(Found)}


@pytest.mark.parametrize("assessor", run.ASSESSORS, ids=lambda a: f"{a.part}-{a.assess.__name__}")
def test_what_a_part_needs_and_yields_has_a_name(assessor):
    assert set(assessor.yields) <= FOUND - ALSO
    assert set(assessor.needs) <= FOUND | {f.name for f in fields(Given)}


@pytest.mark.parametrize("rules", [False, True], ids=["tree", "rules"])
def test_a_part_adds_what_it_yields_and_asks_for_what_it_needs(rules, monkeypatch):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({f"x{k}": rng.integers(0, 2, 60) for k in range(4)})
    y = rng.choice(["no", "yes"], 60)
    schema = treeleak.Schema.from_columns(X.columns)
    model = GreedyRuleList(3) if rules else DecisionTreeClassifier(max_depth=3, random_state=0)
    seen = []

    def watched(assessor):
        def assess(case):
            assert all(map(case.has, assessor.needs))
            after = assessor.assess(case)
            added = {n for n in FOUND if getattr(after.found, n) is not getattr(case.found, n)}
            seen.append(assessor.part)
            assert added <= {*assessor.yields, *ALSO}, assessor.part
            return after

        return replace(assessor, assess=assess)

    monkeypatch.setattr(run, "ASSESSORS", tuple(map(watched, run.ASSESSORS)))
    audit = treeleak.audit(model.fit(X, y), X, y, schema=schema, time_limit=20)
    assert audit.counts is not None
    assert {"counts", "measurement", "uncertainty", "reconstruction"} <= set(seen)
    assert ("exposure" in seen) != rules
    assert "membership" not in seen
