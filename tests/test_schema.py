"""The schema: what it refuses, what it writes, and which rows it holds possible."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeleak.core.errors import BadSchema
from treeleak.schema import (
    AtMost,
    Attribute,
    Binary,
    Categorical,
    Implies,
    Linear,
    Numeric,
    OneHot,
    Ordinal,
    Rule,
    Schema,
)

ROOT = Path(__file__).parent.parent
PUBLISHED = json.loads(
    (ROOT / "src/treeleak/formats/schema.schema.json").read_text(encoding="utf-8")
)
HOSTILE = ['a"b', "a'b", "a\\b", "a\nb", "a\tb", "\r", "é☃𝄞", "", " ", "a.b", "[x]", "\x00", "\x7f"]

NUMBERS = st.integers(-(10**6), 10**6) | st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.text(max_size=8) | st.sampled_from(HOSTILE)


@st.composite
def intervals(draw: st.DrawFn) -> tuple[float, float]:
    low, high = sorted(draw(st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 2)))
    return draw(st.sampled_from([low, -math.inf])), draw(st.sampled_from([high, math.inf]))


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    names = draw(st.lists(NAMES, min_size=1, max_size=8, unique=True))
    attributes: list[Attribute] = []
    zero_one: list[str] = []
    left = list(names)
    while left:
        name, kind, missing = left[0], draw(st.integers(0, 4)), draw(st.booleans())
        width = draw(st.integers(1, len(left))) if kind == 4 else 1
        match kind:
            case 0:
                attributes.append(Binary(name, missing=missing))
                zero_one.append(name)
            case 1:
                low, high = sorted(draw(st.tuples(*[st.integers(-(2**53), 2**53)] * 2)))
                attributes.append(Ordinal(name, low, high, missing=missing))
            case 2:
                attributes.append(Numeric(name, *draw(intervals()), missing=missing))
            case 3:
                values = draw(st.lists(NUMBERS, min_size=1, max_size=4, unique=True))
                texts = st.lists(NAMES, min_size=len(values), max_size=len(values), unique=True)
                labels = draw(st.none() | texts)
                attributes.append(Categorical(name, tuple(values), labels, missing=missing))
            case _:
                attributes.append(OneHot(name, tuple(left[:width]), draw(st.booleans())))
                zero_one += left[:width]
        left = left[width:]
    weights = st.dictionaries(st.sampled_from(names), NUMBERS, min_size=1)
    kinds: list[st.SearchStrategy[Rule]] = [
        st.builds(Implies, weights, weights),
        st.builds(lambda w, i: Linear(w, *i), weights, intervals()),
    ]
    if zero_one:
        members = st.lists(st.sampled_from(zero_one), min_size=1, unique=True)
        kinds.append(st.builds(lambda m, k: AtMost(tuple(m), k), members, st.integers(0, 5)))
    return Schema(attributes, draw(st.lists(st.one_of(kinds), max_size=3)))


@given(schemas())
def test_a_schema_survives_both_files(tmp_path_factory: pytest.TempPathFactory, schema: Schema):
    folder = tmp_path_factory.mktemp("schema", numbered=True)
    (folder / "a.toml").write_text(schema.to_toml(), encoding="utf-8")
    (folder / "a.JSON").write_text(json.dumps(schema.to_dict()), encoding="utf-8")
    assert Schema.read(folder / "a.toml") == schema
    assert Schema.read(folder / "a.JSON") == schema


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Ordinal("a", 3, 2), "low 3 > high 2"),
        (lambda: Ordinal("a", 0.5, 2), "whole"),
        (lambda: Ordinal("a", 0, math.inf), "finite"),
        (lambda: Ordinal("a", 0, 2**53 + 1), "floats skip whole numbers"),
        (lambda: Numeric("a", 3, 2), "no number"),
        (lambda: Numeric("a", math.inf, math.inf), "no number"),
        (lambda: Numeric("a", 10**400), "finite"),
        (lambda: Categorical("a", ()), "no values"),
        (lambda: Categorical("a", (1, 1.0)), "twice"),
        (lambda: Categorical("a", labels=()), "no values"),
        (lambda: Categorical("a", labels=("x", "x")), "a label appears twice"),
        (lambda: Categorical("a", (1,), ("x", "y")), "2 labels for 1 values"),
        (lambda: OneHot("a", ()), "no columns"),
        (lambda: OneHot("a", ("b", "b")), "twice"),
        (lambda: Implies({}, {"a": 1}), "given"),
        (lambda: Linear({}), "linear"),
        (lambda: Linear({"a": 1}, 2, 1), "no number"),
        (lambda: AtMost(("a",), -1), "k must be"),
        (lambda: Schema([Binary("a"), Binary("a")]), "two attributes are named 'a'"),
        (lambda: Schema([Binary("a"), OneHot("g", ("a", "b"))]), "both 'a' and 'g'"),
        (lambda: Schema([Binary("a")], [Linear({"b": 1})]), "'b'"),
        (lambda: Schema([Numeric("a")], [AtMost(("a",))]), "no 0/1 column"),
        (lambda: Schema.from_columns("ab", [["a", "c"]]), "'c'"),
        (lambda: Schema.from_columns("abc", [["a", "b"], ["b", "c"]]), "'b'"),
    ],
)
def test_a_schema_that_contradicts_itself_is_refused(make, says):
    with pytest.raises(BadSchema, match=re.escape(says)):
        make()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "Expecting"),
        ("[" * 100_000, "recursion"),
        ('{"version": 2}', "version 1"),
        ('{"version": 1, "attributes": []}', "attributes"),
        ('{"version": 1, "attribute": [{"kind": "numeric", "name": "a", "low": NaN}]}', "finite"),
    ],
)
def test_a_bad_file_is_named_with_its_fault(tmp_path: Path, text: str, says: str):
    path = tmp_path / "bad.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadSchema, match=re.escape(says)) as error:
        Schema.read(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("attribute", "good", "bad"),
    [
        (Binary("a"), [[0], [1]], [[0.5], [2], [math.nan]]),
        (Binary("a", missing=True), [[0], [math.nan]], [[3]]),
        (Ordinal("a", 2, 4), [[2], [4]], [[1], [5], [2.5], [math.nan]]),
        (Numeric("a", 0, 1), [[0], [0.3], [1]], [[-0.1], [1.1], [math.nan]]),
        (Numeric("a"), [[-1e300], [0]], [[math.nan]]),
        (Categorical("a", (0, 2)), [[0], [2]], [[1], [math.nan]]),
        (OneHot("g", ("a", "b")), [[0, 1], [1, 0]], [[0, 0], [1, 1], [0.5, 0.5], [math.nan, 1]]),
        (OneHot("g", ("a", "b"), True), [[0, 0], [1, 0]], [[1, 1], [2, -1]]),
    ],
)
def test_rows_inside_and_outside_a_domain(attribute: Attribute, good: list, bad: list):
    schema = Schema([attribute])
    rows = np.array(good + bad, dtype=float)
    assert schema.valid(rows, attribute.columns).tolist() == [True] * len(good) + [False] * len(bad)


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        (Implies({"a": 1}, {"b": 0}), {(0, 0), (0, 1), (1, 0)}),
        (Linear({"a": 1, "b": -1}, low=0), {(0, 0), (1, 0), (1, 1)}),
        (Linear({"a": 1, "b": 1}, high=1), {(0, 0), (0, 1), (1, 0)}),
        (AtMost(("a", "b"), 0), {(0, 0)}),
    ],
)
def test_rules_speak_of_whole_rows_only(rule: Rule, allowed: set):
    schema = Schema([Binary("a", missing=True), Binary("b")], [rule])
    rows = np.array([(0, 0), (0, 1), (1, 0), (1, 1), (math.nan, 1)])
    ok = schema.valid(rows, ("a", "b"))
    assert {tuple(r) for r in rows[:4][ok[:4]].astype(int)} == allowed
    assert ok[4]


def test_every_example_of_the_guide_is_a_schema(tmp_path: Path):
    guide = (ROOT / "docs/schema-file.md").read_text(encoding="utf-8")
    examples = re.findall(r"```(toml|json)\n(.*?)```", guide, flags=re.DOTALL)
    assert {ending for ending, _ in examples} == {"toml", "json"}
    read = []
    for i, (ending, text) in enumerate(examples):
        path = tmp_path / f"{i}.{ending}"
        path.write_text(text, encoding="utf-8")
        read.append(Schema.read(path))
        jsonschema.validate(read[-1].to_dict(), PUBLISHED)
    kinds = {x.kind for schema in read for x in (*schema.attributes, *schema.rules)}
    assert kinds == {
        "binary", "ordinal", "numeric", "categorical", "one-hot", "implies", "linear", "at-most",
    }  # fmt: skip
