"""Rule lists: what they say of rows, what they refuse, and their files."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.documents import check_damaged, check_unreadable, put
from treeleak.core.errors import BadModel
from treeleak.release import (
    Condition,
    DecisionRule,
    RuleList,
    read_model,
    read_rules,
    write_rules,
)
from treeleak.release.bounds import MOST_ROWS
from treeleak.release.readers.rule_file import rules_from_dict, rules_to_dict

ROOT = Path(__file__).parent.parent
PUBLISHED = json.loads(
    (ROOT / "src/treeleak/formats/rules.schema.json").read_text(encoding="utf-8")
)
GUIDE = (ROOT / "docs/rule-file.md").read_text(encoding="utf-8")

NUMBERS = {"n": [-1.0, 0.0, 0.5, 1.0, 2.0, math.nan], "m": [0, 1, 2, 3]}
TEXTS = ["clerk", "nurse", "3"]


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    column = draw(st.sampled_from(["n", "m", "t"]))
    negated = draw(st.booleans())
    if column == "t" or draw(st.booleans()):
        pool = TEXTS if column == "t" else [0, 1, 2.5, 0.5]
        values = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3, unique=True))
        return Condition(column, tuple(values), negated=negated)
    ends = draw(st.lists(st.sampled_from([-1, 0.25, 1, 2]), min_size=2, max_size=2, unique=True))
    low, high = sorted(ends)
    open_end = draw(st.sampled_from(["none", "low", "high"]))
    return Condition(
        column,
        above=-math.inf if open_end == "low" else low,
        upto=math.inf if open_end == "high" else high,
        negated=negated,
    )


@st.composite
def rule_lists(draw: st.DrawFn, counts: bool = True) -> RuleList:
    classes = draw(st.sampled_from([("no", "yes"), (0, 1, 2.5), (False, True), ("only",)]))
    n = draw(st.integers(0, 4))
    ordered = draw(st.booleans())
    kinds = ["none", "each"] + ([] if ordered else ["covered"])
    kind = draw(st.sampled_from(kinds)) if counts else "none"
    own = st.lists(st.integers(0, MOST_ROWS), min_size=len(classes), max_size=len(classes))

    def counted(*kinds: str) -> tuple[int, ...] | None:
        return tuple(draw(own)) if kind in kinds else None

    rules = []
    for _ in range(n):
        for_rule = tuple(draw(st.lists(conditions(), max_size=3)))
        rules.append(DecisionRule(for_rule, draw(st.sampled_from(classes)), counted("each")))
    default = DecisionRule((), draw(st.sampled_from(classes)), counted("each", "covered"))
    covered = counted("covered")
    total = sum(map(sum, filter(None, [*(r.counts for r in rules), default.counts, covered])))
    made: dict[str, Any] = {
        "columns": ("n", "m", "t", "unused"),
        "classes": classes,
        "default": default,
        "ordered": ordered,
        "covered": covered,
        "n_rows": draw(st.sampled_from([None, total if kind != "none" else 5])),
        "origin": draw(st.text(max_size=5)),
        "notes": tuple(draw(st.lists(st.text(max_size=5), max_size=2))),
    }
    fit = []
    for rule in rules:
        try:
            RuleList(
                ("n", "m", "t"), classes, (DecisionRule(rule.conditions, classes[0]),), DEFAULT
            )
        except BadModel:
            made["n_rows"] = None
        else:
            fit.append(rule)
    return RuleList(rules=tuple(fit), **made)


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    n = draw(st.integers(0, 12))
    data = {
        name: draw(st.lists(st.sampled_from(pool), min_size=n, max_size=n))
        for name, pool in NUMBERS.items()
    }
    data["t"] = draw(st.lists(st.sampled_from([*TEXTS, None]), min_size=n, max_size=n))
    types = {"n": float, "m": int, "t": draw(st.sampled_from(["object", "str", "category"]))}
    return pd.DataFrame(data).astype(types)


def meets(value: Any, condition: Condition) -> bool:
    if value is None or value != value:
        return condition.negated
    if condition.values is not None:
        return any(value == v for v in condition.values) != condition.negated
    return (condition.above < value <= condition.upto) != condition.negated


def first_met(rules: RuleList, row: dict[str, Any]) -> int:
    for j, rule in enumerate(rules.rules):
        if all(meets(row[c.column], c) for c in rule.conditions):
            return j
    return len(rules.rules)


def assert_same(a: RuleList, b: RuleList) -> None:
    # Whose words its texts are is not in a file.
    for name in set(RuleList.__dataclass_fields__):
        assert getattr(a, name) == getattr(b, name), name
    assert [type(c) for c in a.classes] == [type(c) for c in b.classes]


@given(rule_lists(), tables(), st.randoms(use_true_random=False))
def test_rows_are_captured_by_the_first_rule_that_they_meet(rules: RuleList, X, random):
    expected = [first_met(rules, row) for row in X.to_dict("records")]
    assert rules.apply(X).tolist() == expected
    said = [r.prediction for r in (*rules.rules, rules.default)]
    assert rules.predict(X).tolist() == [said[j] for j in expected]
    y = [random.choice(rules.classes) for _ in expected]
    counted = rules.counted(X, y)
    assert counted.n_rows == len(X)
    assert counted.covered is None
    for j, rule in enumerate((*counted.rules, counted.default)):
        own = [label for label, at in zip(y, expected, strict=True) if at == j]
        assert rule.counts == tuple(own.count(c) for c in rules.classes)


def brute_force(conditions: list[Condition]) -> bool:
    """Whether some value of the only column meets all; the cuts are among these or between."""
    values = [*np.arange(-3, 4, 0.125).tolist(), "clerk", "nurse", "3", "else", math.nan]

    def fine(v: Any, c: Condition) -> bool:
        if isinstance(v, str) and c.values is None:
            return c.negated
        return meets(v, c)

    return any(all(fine(v, c) for c in conditions) for v in values)


@given(st.lists(conditions(), max_size=4))
def test_what_no_value_can_meet_is_refused_and_nothing_else(several: list[Condition]):
    on_one = [Condition("a", c.values, c.above, c.upto, c.negated) for c in several]
    rule = DecisionRule(tuple(on_one), "yes")
    if brute_force(on_one):
        made = RuleList(("a",), ("yes",), (rule,), DecisionRule((), "yes"))
        assert made.rules == (rule,)
    else:
        with pytest.raises(BadModel, match="rule 1 contradicts itself: no value of 'a'"):
            RuleList(("a",), ("yes",), (rule,), DecisionRule((), "yes"))


DEFAULT = DecisionRule((), "no")
A1 = Condition("a", (1,))
YES = DecisionRule((A1,), "yes", (0, 2))
NO = DecisionRule((), "no", (3, 0))


def two_classes(rules: tuple, default: DecisionRule, **more: Any) -> RuleList:
    return RuleList(("a", "b"), ("no", "yes"), rules, default, **more)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Condition("a"), "'a' must have either values or bounds"),
        (lambda: Condition("a", (1,), upto=3), "'a' must have either values or bounds"),
        (lambda: Condition("a", ()), "'a' lists no values"),
        (lambda: Condition("a", (math.inf,)), "'a' names inf"),
        (lambda: Condition("a", above=3, upto=3), "no number lies above 3 and up to 3"),
        (lambda: Condition("a", above=math.nan), "no number lies above nan"),
        (lambda: RuleList(("a", "a"), (1,), (), DecisionRule((), 1)), "two columns"),
        (lambda: RuleList(("a",), (1, True), (), DecisionRule((), 1)), "two classes"),
        (lambda: two_classes((), YES), "the default has conditions"),
        (lambda: two_classes((), DecisionRule((), "x")), "default predicts 'x'"),
        (
            lambda: two_classes((YES, DecisionRule((Condition("z", (1,)),), "no")), NO),
            "rule 2 tests 'z'",
        ),
        (lambda: two_classes((YES,), NO, covered=(0, 2), ordered=False), "covered is for rules"),
        (lambda: two_classes((), NO, covered=(2,), ordered=False), "covered counts 1 classes"),
    ],
)
def test_rules_that_contradict_themselves_are_refused(make, says):
    with pytest.raises(BadModel, match=re.escape(says)):
        make()


@given(rule_lists())
@pytest.mark.slow
def test_nothing_is_lost_on_the_way(tmp_path_factory: pytest.TempPathFactory, rules: RuleList):
    path = tmp_path_factory.mktemp("rules", numbered=True) / "rules.json"
    write_rules(rules, path)
    assert_same(read_rules(path), rules)
    assert_same(read_rules(path.read_text(encoding="utf-8")), rules)
    read = read_model(path)
    assert isinstance(read, RuleList)
    assert_same(read, rules)
    jsonschema.validate(rules_to_dict(rules), PUBLISHED)


def example() -> dict:
    (text,) = re.findall(r"```json\n(.*?)```", GUIDE, flags=re.DOTALL)
    return json.loads(text)


def test_the_example_of_the_guide_counts_the_rows_it_shows():
    jsonschema.validate(example(), PUBLISHED)
    rules = rules_from_dict(example())
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (\d) \| (\w+) \|$", GUIDE, flags=re.MULTILINE)
    X = pd.DataFrame(rows, columns=["age", "job", "smoker", "class"])
    X = X.astype({"age": int, "smoker": int})
    assert_same(rules.counted(X, X["class"]), rules)


FIRST = ("rules", 0, "if", 0)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("version",), 2, "version 2"),
        (("columns",), ["age", "job"], "rule 1 tests 'smoker'"),
        (("classes",), ["healthy"], "rule 1 predicts 'ill'"),
        (("classes",), ["healthy", "ill", "x"], "rule 1 counts 2 classes, there are 3"),
        (("n_rows",), 5, "the rules capture 4 rows, n_rows is 5"),
        (("n_rows",), 4.0, "n_rows is 4.0, must be a whole number"),
        (("covered",), [1, 1], "covered is for a rule set"),
        (("rules", 1, "then"), "x", "rule 2 predicts 'x'"),
        (("rules", 1, "counts"), [1, 1e9], "counts[1] is 1000000000.0, must be a whole"),
        (("rules", 1, "counts"), [1, 10**9], "rule 2 counts 1000000000, not a whole number"),
        (("rules", 1, "counts"), None, "some rules have counts"),
        ((*FIRST, "is"), math.nan, "rule 1: condition 1: is is nan, must be text or a number"),
        ((*FIRST, "is"), 10**400, "rule 1: condition 1: is is 1000"),
        (FIRST, {"column": "smoker"}, "rule 1: the condition on 'smoker' needs"),
        (
            FIRST,
            {"column": "smoker", "upto": math.inf},
            "rule 1: condition 1: upto is inf, must be a number",
        ),
        (
            FIRST,
            {"column": "smoker", "above": 3, "upto": 2},
            "rule 1: the condition on 'smoker': no number lies above 3",
        ),
        (
            FIRST,
            {"column": "age", "upto": 30},
            "rule 1 contradicts itself: no value of 'age' meets all its conditions",
        ),
        (("default", "then"), "x", "default predicts 'x'"),
        (("default", "counts"), [1], "default counts 1 classes"),
    ],
)
def test_a_file_that_is_wrong_somewhere_says_where(path: tuple, value: object, says: str):
    with pytest.raises(BadModel, match=re.escape(says)):
        rules_from_dict(put(example(), path, value))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "Expecting value"),
        ("[]", "no rules"),
        ('{"a":' * 100_000, "recursion"),
        ('{"format": "treeleak-rules", "format": "b"}', "appears twice"),
        ('{"format": NaN}', "NaN is not JSON"),
        ('{"format": "treeleak-rules", "version": 1, "columns": ["a"', "delimiter"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, text: str, says: str):
    check_damaged(read_rules, tmp_path, text, says)


def test_files_that_are_absent_binary_or_huge_are_named(tmp_path: Path):
    check_unreadable(read_rules, tmp_path)


def test_many_values_and_bounds_on_one_column_are_checked_in_one_sweep():
    many = range(20_000)
    conditions = [
        Condition("a", tuple(many)),
        *(Condition("a", above=i - 0.5, upto=i + 0.5, negated=True) for i in many),
    ]
    with pytest.raises(BadModel, match="rule 1 contradicts itself"):
        RuleList(("a",), (1,), (DecisionRule(tuple(conditions), 1),), DecisionRule((), 1))
