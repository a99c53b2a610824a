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
from helpers.releases import counted_as, tree_of
from treeleak.auditing.assessors.uncertainty import left_by_rules, left_by_tree
from treeleak.auditing.findings.finding import LEAK, NO_LEAK, OPEN
from treeleak.cli.tables import Tables
from treeleak.core.errors import BadInput, BadModel, Mismatch, NotCovered, PrivacyWarning
from treeleak.learn import DPForestClassifier
from treeleak.release import Condition, DecisionRule, RuleList, to_release, write_rules
from treeleak.release.infer_schema import infer_rule_schema
from treeleak.release.statistics import ROWS, Statistics
from treeleak.report import render
from treeleak.schema import Binary, Categorical, Numeric, Ordinal, Schema
from treeleak.uncertainty import from_tree
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


def test_the_toy_tree_leaves_what_the_paper_says():
    audit = treeleak.audit(TOY, TOY_X, TOY_Y, schema=TOY_SCHEMA)
    left = audit.uncertainty
    assert left.dist == pytest.approx(0.7356, abs=1e-4)
    row = math.log2(6 * 2 * 3)
    # Leaves allow 12, 8 and 16 points of 36.
    assert left.row_bits == pytest.approx(row)
    assert left.mean_bits == pytest.approx(math.log2(12 * 8 * 16 * 16) / 4)
    assert left.dist_g == pytest.approx(left.mean_bits / row)
    assert 2**left.log2_worlds == pytest.approx(12 * 8 * 16 * 16)
    assert left.contains is True
    assert left.exact
    assert left.schema == "given"
    first, second, third = left.exposed
    assert (first.name, first.where, first.rows) == ("leaf 3", "a1: 10 to 11; a3: 2 to 3", 1)
    assert first.by_class == {"1": 1}
    assert (second.bits, third.bits) == (pytest.approx(math.log2(12)), pytest.approx(4))
    assert left.quantiles[0] == pytest.approx(3 / row)
    assert left.quantiles[25] == pytest.approx(math.log2(12) / row)
    assert left.quantiles[50] == left.quantiles[100] == pytest.approx(4 / row)
    valid(json.loads(audit.to_json()))


def test_rows_that_the_schema_excludes_are_no_world():
    narrow = Schema([Ordinal("a1", 10, 13), Binary("a2"), Ordinal("a3", 1, 3)])
    assert treeleak.audit(TOY, TOY_X, TOY_Y, schema=narrow).uncertainty.contains is False


@pytest.mark.slow
def test_columns_without_bounds_need_a_schema_or_rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=40), "b": rng.integers(0, 2, 40)})
    y = (X["a"] + X["b"] > 0.4).astype(int)
    tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
    alone = treeleak.audit(tree, time_limit=2)
    assert alone.uncertainty is None
    assert "'a'" in dict(alone.not_assessed)["uncertainty"]
    with_rows = treeleak.audit(tree, X, y, time_limit=2).uncertainty
    assert with_rows.schema == "inferred from the model and the training rows"
    assert with_rows.contains is True
    assert any("1,000 steps" in n for n in with_rows.notes)
    endless = Schema([Numeric("a", low=-9), Binary("b")])
    assert treeleak.audit(tree, schema=endless, time_limit=2).uncertainty is None
    filled = treeleak.audit(tree, X, y, schema=endless, time_limit=2).uncertainty
    assert filled.schema == "given; missing bounds are those of the training rows"
    high = float(X["a"].max())
    bounded = Schema([Numeric("a", -9, high), Binary("b")])
    assert filled.dist_g == pytest.approx(left_by_tree(to_release(tree), bounded).dist_g)


@pytest.mark.slow
def test_behind_noise_the_distance_to_the_nearest_world_is_told():
    rng = np.random.default_rng(1)
    schema = Schema([Binary(c) for c in "abcd"])
    X = pd.DataFrame(rng.integers(0, 2, (40, 4)), columns=list("abcd"))
    y = rng.integers(0, 2, 40)
    forest = DPForestClassifier(
        schema=schema, n_estimators=1, max_depth=2, epsilon=1.0, classes=[0, 1], random_state=0
    )
    with pytest.warns(PrivacyWarning):
        release = to_release(forest.fit(X, y))
    audit = treeleak.audit(release, X, y, schema=schema, time_limit=2)
    left = audit.uncertainty
    assert not left.exact
    assert left.nearest == pytest.approx(from_tree(release, schema).distance(X, y))
    assert left.contains is from_tree(release, schema).contains(X, y)
    assert any("rounded" in n for n in left.notes)
    valid(json.loads(audit.to_json()))


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


def test_labels_that_a_tree_without_counts_does_not_know_are_a_mismatch():
    bare = counted_as(replace(TOY, trees=(TOY.trees[0].with_counts(counts=None),)), "none")
    audit = treeleak.audit(bare, TOY_X, [0, 0, 1, 7], schema=TOY_SCHEMA, on_mismatch="report")
    assert audit.uncertainty is None
    assert "row 3 of the training rows has a label" in audit.mismatch
    assert dict(audit.not_assessed)["uncertainty"] == audit.mismatch


def test_what_rows_show_of_untested_columns_goes_before_what_a_tree_suggests():
    X = pd.DataFrame({"a": [0, 0, 1, 1], "n": [1, 2, 3, 4]})
    counts = Statistics.counting(ROWS, np.array([[2.0, 2], [2, 0], [0, 2]]))
    stump = tree_of((0, 0.5), None, None, statistics=counts)
    only_a = replace(TOY, trees=(stump,), feature_names=("a", "n"))
    alone = left_by_tree(only_a)
    assert alone.row_bits == 2
    assert any("never tests" in n and "'n'" in n for n in alone.notes)
    left = left_by_tree(only_a, None, X)
    assert left.row_bits == 3
    assert left.contains is True
    assert not any("never tests" in n for n in left.notes)


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


def test_rows_without_labels_leave_rules_without_counts_open(tmp_path):
    bare = RuleList(LIST.columns, (0, 1), (DecisionRule((is_("a1"),), 1),), DecisionRule((), 0))
    write_rules(bare, tmp_path / "rules.json")
    LIST_X.to_csv(tmp_path / "train.csv", index=False)
    result = run("audit", tmp_path / "rules.json", "--train", tmp_path / "train.csv")
    assert result.exit_code == 0, result.output
    assert "--label" in result.output


@pytest.mark.parametrize("given", ["rules", "schema"])
def test_texts_that_look_missing_are_texts_where_they_are_named(tmp_path, given):
    X = pd.DataFrame({"job": ["None", "NA", "null", ""], "n": ["1", "NA", "3", ""]})
    y = ["None", "None", "x", "x"]
    X.assign(label=y).to_csv(tmp_path / "train.csv", index=False)
    jobs = ("None", "null") if given == "rules" else ("None",)
    rule = DecisionRule((Condition("job", jobs),), "x")
    rules = RuleList(("job", "n"), ("None", "x"), (rule,), DecisionRule((), "x"))
    write_rules(rules, tmp_path / "rules.json")
    schema = None
    if given == "schema":
        schema = Schema([Categorical("job", labels=("None", "null"), missing=True), Numeric("n")])
    table = Tables(tmp_path / "rules.json", schema, "label", False).read(tmp_path / "train.csv")
    assert table["job"].fillna("missing").tolist() == ["None", "missing", "null", "missing"]
    assert table["n"].fillna(-1).tolist() == [1, -1, 3, -1]
    assert table["n"].dtype == float
    assert table["label"].tolist() == y


def test_a_schema_is_written_for_rules(tmp_path):
    write_rules(LIST, tmp_path / "rules.json")
    result = run("schema", tmp_path / "rules.json", "--out", tmp_path / "schema.toml")
    assert result.exit_code == 0, result.output
    assert Schema.read(tmp_path / "schema.toml") == Schema.from_columns(LIST.columns)
    one = replace(LIST, rules=LIST.rules[1:])
    write_rules(one, tmp_path / "one.json")
    assert "'a1', 'a2'" in run("schema", tmp_path / "one.json").output
    rules, X, _ = mixed()
    write_rules(rules, tmp_path / "mixed.json")
    alone = run("schema", tmp_path / "mixed.json")
    assert alone.exit_code == 2
    assert "column 'job'" in alone.output
    X.to_csv(tmp_path / "train.csv", index=False)
    result = run("schema", tmp_path / "mixed.json", "--train", tmp_path / "train.csv")
    assert '"pilot"' in result.stdout


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda X, y: (X.drop(columns="a2"), y), "lack 1 columns of the model: 'a2'"),
        (lambda X, y: (X.to_numpy()[:, :2], y), "the model has 3 columns"),
        (lambda X, y: (X[:4], y[:4]), "the default counts"),
        (lambda X, y: (X, [*y[:4], False]), r"the default counts \[0, 1\] .* captures \[1, 0\]"),
        (lambda X, y: (X, [*y[:4], "maybe"]), "'maybe' is not a class"),
        (lambda X, y: (X, y[:4]), "5 rows with 4 labels"),
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


@pytest.mark.parametrize("rules_name", [float, str])
@pytest.mark.parametrize("rows_hold", [float, str])
def test_rules_and_rows_may_say_codes_or_texts(rules_name, rows_hold):
    schema = Schema([Categorical("job", labels=("clerk", "pilot")), Binary("b")])
    value = "pilot" if rules_name is str else 1.0
    rule = DecisionRule((is_("job", value),), 1, (1, 2))
    rules = RuleList(("job", "b"), (0, 1), (rule,), DecisionRule((), 0, (1, 0)))
    jobs = ["clerk", "pilot", "pilot", "pilot"]
    X = pd.DataFrame({"job": jobs if rows_hold is str else [0, 1, 1, 1], "b": 0})
    audit = treeleak.audit(rules, X, [0, 0, 1, 1], schema=schema)
    assert audit.mismatch is None
    assert audit.uncertainty.contains is True


def test_a_mismatch_is_bad_input_on_the_command_line(tmp_path):
    write_rules(LIST, tmp_path / "rules.json")
    LIST_X[:4].assign(again=LIST_Y[:4]).to_csv(tmp_path / "train.csv", index=False)
    result = run(
        "audit", tmp_path / "rules.json", "--train", tmp_path / "train.csv", "--label", "again"
    )
    assert result.exit_code == 2
    assert "do not fit the model" in result.output


def test_files_beside_rules_are_refused_by_name(tmp_path):
    write_rules(LIST, tmp_path / "rules.json")
    LIST_X.to_csv(tmp_path / "known.csv", index=False)
    result = run("audit", tmp_path / "rules.json", "--known-columns", tmp_path / "known.csv")
    assert result.exit_code == 2
    assert "does not use" in result.output
    assert "known.csv" in result.output


def test_infeasible_rules_are_named_with_their_file(tmp_path):
    rules = (DecisionRule((is_("a1"),), True, (0, 2)), DecisionRule((is_("a1"),), True, (0, 1)))
    write_rules(replace(LIST, rules=rules), tmp_path / "rules.json")
    with pytest.raises(BadModel, match=r"rules\.json: infeasible: rule 2"):
        treeleak.audit(tmp_path / "rules.json")


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
