"""Columns that no tree tests: the model holds nothing of them, so no comparison counts them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesClassifier

import treeleak
from treeleak import AtMost, Binary, Numeric, Schema
from treeleak.auditing.assessors.decision_rule import decide
from treeleak.auditing.findings.finding import LEAK


def _people(seed: int, free: int, n: int = 50) -> tuple[pd.DataFrame, np.ndarray, Schema]:
    """Make people with two numbers, and flags that are half ones."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({f"x{k}": rng.normal(50.0, 15.0, n).round(1) for k in range(2)})
    y = ((X["x0"] + X["x1"] > 100) ^ (rng.random(n) < 0.1)).to_numpy(dtype=int)
    flags = [f"b{k}" for k in range(free)]
    X[flags] = (rng.random((n, free)) < 0.5).astype(float)
    attributes = [Numeric(c, 0.0, 110.0) for c in ("x0", "x1")]
    return X, y, Schema([*attributes, *map(Binary, flags)])


def _audit(X: pd.DataFrame, y: np.ndarray, schema: Schema, **settings: object) -> treeleak.Audit:
    """Audit trees that looked at the numbers alone."""
    seen = X.assign(**{c: 0.0 for c in X if c.startswith("b")})
    trees = ExtraTreesClassifier(20, random_state=0, **settings).fit(seen, y)
    return treeleak.audit(trees, X, y, schema=schema, time_limit=10.0)


@pytest.fixture(scope="module")
def leaking() -> treeleak.Audit:
    return _audit(*_people(0, free=12))


def test_columns_that_no_tree_tests_hide_no_leak(leaking):
    m = leaking.measurement
    assert decide(m).outcome == "people"
    assert decide(replace(m, on_tested=None)).outcome != "people"
    assert m.on_tested.left_out == 12
    assert m.on_tested.pairs.columns == ("x0", "x1")
    # Over all columns, half of the flags are wrong, and the usual values of like people are nearer.
    assert m.error > min(y.scores.error for y in m.yardsticks) > 0.05 > m.on_tested.error
    said = [str(text) for f in leaking.findings if f.verdict == LEAK for text in f.messages]
    assert sum("holds nothing of 12 of the 14 columns" in text for text in said) == 1


@pytest.mark.parametrize("edition", ["internal", "releasable"])
def test_the_document_says_on_what_the_verdict_rests(leaking, edition):
    told = json.loads(json.dumps(leaking.to_dict(edition)))
    schema = Path(treeleak.formats.__file__).parent / "audit.schema.json"
    jsonschema.validate(told, json.loads(schema.read_text(encoding="utf-8")))
    part = told["measurement"]["on_tested"]
    assert part["left_out"] == 12
    assert {y["name"] for y in part["yardsticks"]} >= {"random", "mixed", "middle"}
    if edition == "releasable":
        assert part["error"] == round(part["error"], 2)


@pytest.mark.slow
def test_large_leaves_on_few_columns_show_no_leak():
    X, y, schema = _people(1, free=12)
    audited = _audit(X, y, schema, min_samples_leaf=20, max_depth=2)
    assert audited.measurement.on_tested.left_out >= 12
    assert audited.verdict != LEAK


@pytest.mark.slow
def test_where_trees_test_all_columns_there_is_one_comparison():
    X, y, schema = _people(2, free=0)
    m = _audit(X, y, schema).measurement
    assert m.on_tested is None
    assert m.judged is m
    assert "on_tested" not in m.to_dict()


def test_a_part_of_a_schema_keeps_the_rules_among_its_columns():
    rules = [AtMost(("a", "b"), 1), AtMost(("b", "c"), 1)]
    schema = Schema([Binary("a"), Binary("b"), Binary("c")], rules)
    part = schema.within(lambda attribute: attribute.name != "c")
    assert part == Schema([Binary("a"), Binary("b")], rules[:1])
