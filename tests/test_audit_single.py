"""Audits of one tree and of rules: what they leave to know of each row."""

import io
import json
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers import cli
from helpers.documents import valid
from helpers.ferry import LIST_X, TOY, TOY_SCHEMA, TOY_X, TOY_Y
from helpers.releases import counted_as
from treeleak.auditing.assessors.uncertainty import left_by_rules
from treeleak.auditing.findings.finding import LEAK, NO_LEAK, OPEN
from treeleak.core.errors import BadInput, Mismatch, NotCovered
from treeleak.release import Condition, DecisionRule, RuleList, to_release, write_rules
from treeleak.release.infer_schema import infer_rule_schema
from treeleak.release.statistics import ROWS, Statistics
from treeleak.report import render
from treeleak.schema import Binary, Numeric, Ordinal, Schema
from treeleak.verification.training_rows import match_rules


def is_(column, value=1, negated=False):
    return Condition(column, (value,), negated=negated)


LIST = RuleList(
    ("a1", "a2", "a3"),
    (False, True),
    (DecisionRule((is_("a1"), is_("a2")), True, (0, 2)), DecisionRule((is_("a3"),), False, (2, 0))),
    DecisionRule((), True, (0, 1)),
)
LIST_Y = [True, True, False, False, True]


def mixed(rows=50, seed=0):
    """Rows with a column of numbers and one of texts, and rules about them without counts."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=rows), "job": rng.choice(["clerk", "pilot"], rows)})
    rule = DecisionRule((is_("job", "clerk"), Condition("a", upto=0)), "x")
    rules = RuleList(("a", "job"), ("x", "y"), (rule,), DecisionRule((), "y"))
    return rules, X, list(rng.choice(["x", "y"], rows))


def printed(audit):
    console = Console(width=80, record=True, file=io.StringIO())
    render(audit, console, include_rows=True)
    return " ".join(console.export_text().split())


run = partial(cli.run, env={"COLUMNS": "80"})


# ---------------------------------------------------------------------------------------- trees


def test_rows_that_the_schema_excludes_are_no_world():
    narrow = Schema([Ordinal("a1", 10, 13), Binary("a2"), Ordinal("a3", 1, 3)])
    assert treeleak.audit(TOY, TOY_X, TOY_Y, schema=narrow).uncertainty.contains is False


def test_trees_without_counts_take_them_from_the_rows():
    bare = counted_as(replace(TOY, trees=(TOY.trees[0].with_counts(counts=None),)), "none")
    alone = treeleak.audit(bare, schema=TOY_SCHEMA)
    assert "--train and --label" in dict(alone.not_assessed)["uncertainty"]
    audit = treeleak.audit(bare, TOY_X, TOY_Y, schema=TOY_SCHEMA)
    assert audit.counts is None
    assert audit.verdict == OPEN
    assert audit.uncertainty.dist == pytest.approx(0.7356, abs=1e-4)
    assert not audit.uncertainty.exact
    assert any("counts no rows" in n for n in audit.uncertainty.notes)


# ---------------------------------------------------------------------------------------- rules


def test_the_toy_rule_list_leaves_what_the_paper_says():
    audit = treeleak.audit(LIST, LIST_X, LIST_Y)
    left = audit.uncertainty
    # Capt: 2, 3 and 3 of 8 points (Ferry 2024, Table IV).
    assert left.mean_bits == pytest.approx((2 * 1 + 3 * math.log2(3)) / 5)
    assert left.dist_g == pytest.approx(left.mean_bits / 3)
    assert 2**left.log2_worlds == pytest.approx(2**2 * 3**3)
    assert [e.name for e in left.exposed] == ["rule 1", "default", "rule 2"]
    assert left.contains is True
    assert audit.verdict == NO_LEAK
    assert audit.counts.of == "rules"
    assert audit.counts.total == {
        "leaves": 3, "small": 3, "single": 1, "excludes_class": 3, "one_class": 3, "smallest": 1,
    }  # fmt: skip
    assert {e.names[0]: e.mark for e in audit.inventory}["counts"] == "leaks"
    assert any("without counts" in text for text in audit.advice)
    assert any("shorter rules" in text for text in audit.advice)
    assert not any("min_samples_leaf" in text for text in audit.advice)
    valid(json.loads(audit.to_json()))


def test_rules_from_file_to_report_and_json(tmp_path):
    write_rules(LIST, tmp_path / "rules.json")
    LIST_X.assign(again=LIST_Y).to_csv(tmp_path / "train.csv", index=False)
    result = run(
        "audit", tmp_path / "rules.json", "--train", tmp_path / "train.csv", "--label", "again",
        "--json", tmp_path / "audit.json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "Rules, the default included" in text
    assert "treeleak rebuilds no single rows from them" in text
    # What is printed goes into logs: rules with few rows are named in the internal edition only.
    least = "33% for 2 of 5 rows: rule 1 (a1: 1; a2: 1)"
    assert least not in text
    assert "Rule with fewest rows fewer" in text
    again = run("audit", tmp_path / "rules.json", "--internal")
    assert "rule 1 33% 2 a1: 1; a2: 1" in " ".join(again.output.split())
    assert "The training rows are one of them yes" in text
    told = valid(json.loads((tmp_path / "audit.json").read_text()))
    assert told["uncertainty"]["of"] == "rules"
    assert told["provenance"]["file"] == "rules.json"
    assert {"part": "reconstruction"}.items() <= told["not_assessed"][0].items()


def test_rows_told_entirely_are_a_leak_if_few_are_alike():
    columns = ("a", "b")

    def rules(first, rest):
        one = DecisionRule((is_("a"), is_("b")), 0, (first, 0))
        return RuleList(columns, (0, 1), (one,), DecisionRule((), 1, (0, rest)))

    few = treeleak.audit(rules(2, 50))
    assert few.verdict == LEAK
    assert (few.uncertainty.told, few.uncertainty.told_in_small) == (2, 2)
    assert "discloses every value of 2 rows" in few.headline
    many = treeleak.audit(rules(20, 50))
    assert many.verdict == NO_LEAK
    assert (many.uncertainty.told, many.uncertainty.told_in_small) == (20, 0)
    assert treeleak.audit(rules(0, 50)).verdict == NO_LEAK
    everything = treeleak.audit(rules(20, 0))
    assert everything.verdict == LEAK
    assert "all 20 training rows" in everything.headline


def test_nothing_is_told_for_sure_under_a_schema_that_excludes_the_rows():
    schema = Schema([Binary("a"), Ordinal("b", 0, 1)])
    rule = DecisionRule((is_("a"),), 0, (1, 0))
    rules = RuleList(("a", "b"), (0, 1), (rule,), DecisionRule((), 1, (0, 1)))
    X = pd.DataFrame({"a": [1, 0], "b": [0, 5]})
    audit = treeleak.audit(rules, X, [0, 1], schema=schema)
    assert audit.uncertainty.contains is False
    assert audit.verdict == OPEN
    assert "does not allow" in audit.findings[-1].text


def test_a_rule_set_counts_its_cover():
    rules = (DecisionRule((is_("a1"),), True), DecisionRule((is_("a2"),), True))
    cover = RuleList(
        LIST.columns, (False, True), rules, DecisionRule((), False, (2, 0)), False, (1, 3)
    )
    audit = treeleak.audit(cover)
    assert [e.name for e in audit.uncertainty.exposed] == ["default", "covered"]
    assert audit.counts.total["leaves"] == 2
    X = pd.DataFrame([[1, 0, 0], [0, 1, 0], [1, 1, 0], [1, 1, 1], [0, 0, 0], [0, 0, 1]])
    X.columns = list(LIST.columns)
    y = [False, True, True, True, False, False]
    assert treeleak.audit(cover, X, y).uncertainty.contains is True
    with pytest.raises(Mismatch, match="the set of rules counts"):
        match_rules(cover, X, y[::-1])


def test_rules_without_counts():
    rules, X, y = mixed()
    alone = treeleak.audit(rules)
    assert alone.verdict == OPEN
    assert "--label" in dict(alone.not_assessed)["uncertainty"]
    with pytest.raises(NotCovered, match="'job'"):
        left_by_rules(rules.counted(X, y))
    audit = treeleak.audit(rules, X, y)
    assert audit.verdict == OPEN
    assert not audit.uncertainty.exact
    told = treeleak.audit(rules.counted(X, y), X, y)
    assert told.verdict == NO_LEAK
    assert told.uncertainty.exact
    assert told.uncertainty.dist_g == audit.uncertainty.dist_g
    assert told.uncertainty.exposed[0].name == "rule 1"
    binary = RuleList(LIST.columns, (0, 1), (DecisionRule((is_("a1"),), 1),), DecisionRule((), 0))
    audit = treeleak.audit(binary)
    assert "--train and --label" in dict(audit.not_assessed)["uncertainty"]
    assert "Small leaves Not assessed" in printed(audit)
    assert "do not say" in dict(audit.not_assessed)["counts"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda X, y: (X.drop(columns="a2"), y), "lack 1 columns of the model: 'a2'"),
        (lambda X, y: (X.to_numpy()[:, :2], y), "the model has 3 columns"),
        (lambda X, y: (X, [*y[:4], False]), r"the default counts \[0, 1\] .* captures \[1, 0\]"),
        (lambda X, y: (X, [*y[:4], "maybe"]), "'maybe' is not a class"),
    ],
)
def test_other_rows_than_the_rules_counted(change, said):
    X, y = change(LIST_X, LIST_Y)
    with pytest.raises(Mismatch, match=said):
        match_rules(LIST, X, y)
    with pytest.raises(Mismatch, match=said):
        treeleak.audit(LIST, X, y)
    audit = treeleak.audit(LIST, X, y, on_mismatch="report")
    assert audit.mismatch is not None
    assert audit.uncertainty.contains is None
    valid(json.loads(audit.to_json()))


# --------------------------------------------------------------------------------------- schema


def test_schemas_of_rules():
    rules, X, _ = mixed()
    assert infer_rule_schema(LIST) == Schema.from_columns(LIST.columns)
    with pytest.raises(NotCovered, match="'job'"):
        infer_rule_schema(rules)
    numeric, job = infer_rule_schema(rules, X.assign(job=["nurse"] * 49 + [None])).attributes
    assert (job.labels, job.missing) == (("clerk", "nurse"), True)
    assert numeric.bounds == (X["a"].min(), X["a"].max())
    with pytest.raises(BadInput, match="lack column 'job'"):
        infer_rule_schema(rules, X[["a"]])
    one = DecisionRule((Condition("n", above=2),), 1)
    age = RuleList(("n", "other"), (0, 1), (one,), DecisionRule((), 0))
    assert all(isinstance(a, Numeric) for a in infer_rule_schema(age).attributes)
    seen = pd.DataFrame({"n": [1, 2, 4], "other": [np.nan] * 3})
    assert infer_rule_schema(age, seen).attributes[0] == Ordinal("n", 1, 4)


def test_a_table_without_rows_is_no_answer():
    """Counts that were emptied are those of no rows, whose only table is unique."""
    release = to_release(DecisionTreeClassifier(random_state=0).fit([[0], [1], [2]], [0, 1, 0]))
    trees = tuple(
        replace(tree, statistics=Statistics.counting(ROWS, counts=np.zeros_like(tree.counts)))
        for tree in release.trees
    )
    emptied = replace(release, trees=trees, n_rows=None, ensemble=None)
    found = treeleak.audit(emptied, time_limit=5)
    assert found.verdict == OPEN
    assert "emptied" in found.headline
