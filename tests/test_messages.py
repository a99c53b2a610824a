"""What a sentence may say is decided by the kinds of its values and the people behind them."""

import copy
import json
import pickle
from dataclasses import replace
from importlib import resources
from string import Formatter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.documents import valid
from treeleak.auditing import wording
from treeleak.core import message
from treeleak.core.errors import NotCovered
from treeleak.core.message import (
    ELSEWHERE,
    Audience,
    FigureWithSupport,
    Message,
    MessageTemplate,
    message_of,
)
from treeleak.core.text import hundredths

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

SOME = MessageTemplate(
    "some_rows", "{rows:people} of {all:people} rows have {share:share} in {columns:columns}."
)
READER = Audience(10, frozenset({"age"}))


def test_figures_of_few_people_and_hidden_columns_are_left_out():
    said = SOME(rows=3, all=100, share=FigureWithSupport(0.5, 4), columns=["age", "sex"])
    assert said == "3 of 100 rows have 50% in age, sex."
    told = said.render_for(READER)
    few = "a withheld figure (of fewer than 10 people)"
    assert told == f"Fewer than 10 of 100 rows have {few} in age, 1 more."
    values = said.as_data(READER)["values"]
    assert {k: v["value"] for k, v in values.items()} == {
        "rows": None, "all": 100, "share": None, "columns": ["age"],
    }  # fmt: skip
    assert said.as_data()["values"]["rows"]["value"] == 3


@given(st.floats(0, 1), st.floats(0, 1))
def test_hundredths_keep_order_and_never_claim_all_or_nothing(a, b):
    low, high = sorted((a, b))
    assert hundredths(low) <= hundredths(high)
    assert abs(hundredths(a) - a) <= 0.01
    assert (hundredths(a) == 0, hundredths(a) == 1) == (a == 0, a == 1)
    assert hundredths(a) == round(hundredths(a), 2)


@pytest.mark.parametrize("text", ["only Smith earns that much", "lost: age", "of them, 81% do"])
def test_text_from_outside_never_leaves(text):
    told = message_of(ValueError(text)).render_for(READER)
    assert told == ELSEWHERE


def test_a_message_stays_one_in_an_error_a_copy_and_a_file():
    known = "the counts and the schema"
    said = wording.CONTRADICTION(known=known, why=wording.WHY(why="leaf 7"))
    said = said.with_instead(wording.CONTRADICTION(known=known, why=""))
    error = NotCovered(said)
    assert isinstance(message_of(error), Message)
    for other in (str(error), copy.deepcopy(said), pickle.loads(pickle.dumps(said))):
        assert other == "No rows fit the counts and the schema: leaf 7."
        assert other.render_for(READER) == "No rows fit the counts and the schema."
        assert other.code == "no_rows_fit"


def test_the_document_names_every_kind_of_value():
    text = resources.files("treeleak").joinpath("formats", "audit.schema.json").read_text("utf-8")
    named = json.loads(text)["$defs"]["Value"]["properties"]["kind"]["enum"]
    assert set(named) == set(message._FORMATTERS)


def test_what_a_message_holds_acts_on_no_terminal():
    assert "\x1b" not in wording.WHY(why="\x1b[2J")


def test_every_code_of_a_finding_has_one_meaning():
    kinds = [k for k in vars(wording).values() if isinstance(k, MessageTemplate)] + [
        *wording.RULES.values()
    ]
    places = {}
    for kind in kinds:
        assert kind.code.isidentifier()
        names = {name for _, name, _, _ in Formatter().parse(kind.words) if name}
        if kind.code not in ("error_of_values", "left_to_know", "other_draws"):
            # These are said in several ways.
            assert kind.code not in places or names <= places[kind.code] | names
        places[kind.code] = places.get(kind.code, set()) | names
    assert len(places) > 40


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"flag": rng.integers(2, size=40), "number": rng.normal(size=40).round(2)})
    y = rng.choice(["often", "seldom"], 40)
    tree = DecisionTreeClassifier(random_state=0, max_leaf_nodes=6).fit(X, y)
    return treeleak.audit(tree, X, y, time_limit=20)


def test_reasons_leave_as_codes_and_free_text_does_not(found):
    own = (*found.not_assessed, ("exposure", "only Smith earns that much"))
    out = valid(json.loads(replace(found, not_assessed=own).to_json()))
    assert "Smith" not in json.dumps(out)
    assert out["not_assessed"][-1]["code"] == "said_by_an_error"
    assert out["not_assessed"][-1]["reason"] == ELSEWHERE


def test_few_proved_rows_are_not_counted_in_the_open(found):
    few = wording.ALONE(alone=3, rows=40, under="", in_class="", untested="")
    told = few.render_for(Audience(10))
    assert told.startswith("Fewer than 10 of 40 rows are proved")
