"""PMML: counts are those of routed rows, tests part rows as they say, and nothing hides beside."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from helpers.cli import run
from helpers.pmml import HEAD, document
from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.inventory.inventory import take_inventory
from treeleak.core.errors import BadModel, NotCovered, TreeleakError
from treeleak.release import read_model
from treeleak.release.readers.pmml import read_pmml
from treeleak.release.statistics import MEAN

IRIS, SICK = load_iris(), load_diabetes()
X, Y = IRIS.data.astype(np.float32).astype(float), IRIS.target
NAMES = ["a", "b & c", "d", "e"]
TREE = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, Y)
SMALL = DecisionTreeRegressor(max_depth=2, random_state=0).fit(SICK.data[:, 2:3], SICK.target)


def routed(found, rows, labels, weights=None):
    """Counts of each class in each leaf, from rows."""
    leaves = found.leaves(rows)
    out = [np.zeros((t.n_nodes, len(found.classes))) for t in found.trees]
    for k, counts in enumerate(out):
        weight = 1 if weights is None else weights[k]
        np.add.at(counts, (leaves[:, k], labels), weight)
    return out


@pytest.mark.parametrize("style", ["jpmml", "rattle"])
def test_counts_are_those_of_routed_rows(style):
    found = read_pmml(document(TREE, NAMES, (0, 1, 2), style))
    assert (found.n_rows, found.sampling.kind, found.counts_are) == (150, "all", "rows")
    assert (found.classes, found.feature_names) == ((0, 1, 2), tuple(NAMES))
    (tree,), (counts,) = found.trees, routed(found, X, Y)
    assert np.array_equal(tree.counts[tree.leaves], counts[tree.leaves])
    assert tree.counts[0].tolist() == [50, 50, 50]
    assert found.leftovers == ()


def test_forests_count_draws_also_where_roots_count_the_same():
    forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, Y)
    found = read_pmml(document(forest, NAMES, (0, 1, 2), kind="float"))
    assert (found.sampling.kind, found.counts_are, found.n_rows) == ("bootstrap", "draws", 150)
    assert found.float_type == "float32"
    draws = [np.bincount(d, minlength=150) for d in forest.estimators_samples_]
    for tree, counts in zip(found.trees, routed(found, X, Y, draws), strict=True):
        assert np.array_equal(tree.counts[tree.leaves], counts[tree.leaves])
    whole = ExtraTreesClassifier(4, max_depth=3, random_state=0).fit(X, Y)
    found = read_pmml(document(whole, NAMES, (0, 1, 2)))
    assert (found.sampling.kind, found.counts_are) == ("bootstrap", "draws")


def test_one_tree_of_a_forest_proves_nothing_of_people_unless_rows_are_said_to_have_no_weights():
    forest = RandomForestClassifier(1, random_state=0).fit(X, Y)
    lone = document(forest, NAMES, (0, 1, 2))
    found = read_pmml(lone)
    assert (found.sampling.kind, found.adds_weights) == ("all", True)
    assert any("drawn twice" in str(note) for note in found.notes)
    model = lone[lone.index(b"<TreeModel") : lone.index(b"</PMML>")]
    schema = model[model.index(b"<MiningSchema>") : model.index(b"<Node")]
    segment = (
        b'<MiningModel functionName="classification">' + schema + b"<Segmentation "
        b'multipleModelMethod="average"><Segment><True/>' + model + b"</Segment></Segmentation>"
        b"</MiningModel>"
    )
    found = read_pmml(lone.replace(model, segment))
    assert (found.sampling.kind, found.counts_are, found.adds_weights) == (
        "bootstrap", "draws", False,
    )  # fmt: skip


def test_a_tree_of_a_forest_is_said_not_to_be_comparable_with_training_rows(tmp_path):
    grown = RandomForestClassifier(1, min_samples_leaf=20, random_state=0).fit(X, Y)
    (tmp_path / "tree.pmml").write_bytes(document(grown, NAMES, (0, 1, 2)))
    pd.DataFrame(X, columns=NAMES).assign(y=Y).to_csv(tmp_path / "rows.csv", index=False)
    rows = ["--train", tmp_path / "rows.csv", "--label", "y", "--time-limit", 2]
    said = " ".join(run("audit", tmp_path / "tree.pmml", *rows).output.split())
    assert "may be a tree of a random forest" in said
    assert "--bootstrap hidden" in said
    assert "not the model's training rows" not in said
    pd.DataFrame(X[:, ::-1], columns=NAMES).assign(y=Y).to_csv(tmp_path / "rows.csv", index=False)
    said = " ".join(run("audit", tmp_path / "tree.pmml", *rows).output.split())
    assert "may be a tree of a random forest" not in said


def test_regressions_count_rows_and_hold_means():
    model = DecisionTreeRegressor(max_depth=3, random_state=0).fit(SICK.data, SICK.target)
    names = [f"x{i}" for i in range(10)]
    found = read_pmml(document(model, names))
    (tree,) = found.trees
    leaves = found.leaves(SICK.data.astype(np.float32).astype(float))[:, 0]
    assert np.array_equal(tree.totals[tree.leaves], np.bincount(leaves)[tree.leaves])
    assert np.allclose(tree.statistics.get(MEAN).values[leaves], model.predict(SICK.data))
    forest = RandomForestRegressor(3, max_depth=2, random_state=0).fit(SICK.data, SICK.target)
    assert read_pmml(document(forest, names)).sampling.n_draws == 442


def test_shares_beside_the_rows_of_a_leaf_are_counts():
    data = document(TREE, NAMES, (0, 1, 2), "rattle")
    counts = read_pmml(data).trees[0].counts
    shares = re.sub(
        rb'recordCount="[\d.]+" (confidence="([\d.e-]+)")', rb'recordCount="\2" \1', data
    )
    assert shares != data
    assert np.array_equal(read_pmml(shares).trees[0].counts, counts)
    # Without any rows, leaves still name the classes that they hold.
    bare = re.sub(rb' recordCount="[\d.]+"', b"", data)
    found = read_pmml(bare)
    assert (found.counts_are, found.n_rows) == ("labels", None)
    named = read_pmml(re.sub(rb"<ScoreDistribution[^>]*>", b"", bare))
    assert (named.counts_are, named.noise.rule) == ("labels", "majority")


def test_probabilities_that_are_no_shares_of_counts_are_left_over():
    data = document(TREE, NAMES, (0, 1, 2), "rattle")
    same = re.sub(rb'confidence="([\d.e-]+)"', rb'confidence="\1" probability="\1"', data)
    assert same != data
    assert read_pmml(same).leftovers == ()
    copied = re.sub(rb'probability="[\d.e-]+"', b'probability="34.9"', same)
    assert read_pmml(copied).leftovers


DIGITS = "".join(str(round(10 * v)) for v in IRIS.data[:8].ravel())


@pytest.mark.parametrize(
    ("found", "more"),
    [
        (r'(<SimplePredicate[^>]* value="[\d.]+)', r"\g<1>" + DIGITS),
        (r'(<SimplePredicate[^>]* value=")', r"\g<1>0"),
        (r'(recordCount="\d+)', r"\g<1>." + "0" * 30),
        (r'(recordCount=")', r"\g<1>00"),
        (r'(<Node id="\d+")', r"\g<1> x-note='" + DIGITS + "'"),
        (r'(confidence="0\.\d{4})\d+', r"\g<1>" + DIGITS[:12]),
        (r'(confidence=")([\d.]+)', r"\g<1>\g<2>" + "0" * 30),
    ],
)
def test_digits_that_no_number_has_are_left_over(found, more):
    clean = document(TREE, NAMES, (0, 1, 2), "rattle").decode()
    data = re.sub(found, more, clean, count=3)
    assert data != clean
    assert read_pmml(data.encode()).leftovers


@pytest.mark.parametrize("digits", [4, 9, 15])
@pytest.mark.parametrize("way", ["{:.{}f}", "{:.{}g}", "{:.{}E}"])
def test_shares_may_be_rounded(digits, way):
    clean = document(TREE, NAMES, (0, 1, 2), "rattle").decode()
    data = re.sub(
        r'confidence="([\d.e-]+)"',
        lambda held: f'confidence="{way.format(float(held[1]), digits)}"',
        clean,
    )
    single = re.sub(
        r'confidence="([\d.e-]+)"', lambda held: f'confidence="{np.float32(held[1])}"', clean
    )
    assert read_pmml(data.encode()).leftovers == read_pmml(single.encode()).leftovers == ()


def tree_of(*nodes, fields="", strategy=""):
    """A model of one numeric and one categorical column, with nodes below a root."""
    schema = "".join(f'<MiningField name="{n}"/>' for n in ("x", "c"))
    return (
        f'{HEAD}<DataDictionary><DataField name="x" optype="continuous" dataType="double"/>'
        '<DataField name="c" optype="categorical" dataType="string"><Value value="red"/>'
        '<Value value="green"/><Value value="dark blue"/></DataField>'
        '<DataField name="y" optype="categorical" dataType="string"><Value value="no"/>'
        f'<Value value="yes"/></DataField>{fields}</DataDictionary><TreeModel '
        f'functionName="classification" {strategy}><MiningSchema>{schema}<MiningField name="y" '
        f'usageType="target"/></MiningSchema><Node id="0" {nodes[0]}><True/>{"".join(nodes[1:])}'
        "</Node></TreeModel></PMML>"
    ).encode()


def node(test, no, yes, name="n"):
    score = f'<ScoreDistribution value="no" recordCount="{no}"/>'
    score += f'<ScoreDistribution value="yes" recordCount="{yes}"/>'
    return f'<Node id="{name}">{test}{score}</Node>'


def simple(operator, value, field="x"):
    return f'<SimplePredicate field="{field}" operator="{operator}" value="{value}"/>'


def both(operator, *tests):
    return f'<CompoundPredicate booleanOperator="{operator}">{"".join(tests)}</CompoundPredicate>'


ROWS = np.array([[x, c] for x in (0.0, 1.0, 1.5, 2.0, 3.0) for c in (0, 1, 2)])


@pytest.mark.parametrize(
    ("tests", "goes"),
    [
        ((simple("lessThan", 1), simple("greaterOrEqual", 1)), lambda x, c: int(x >= 1)),
        ((simple("greaterThan", 1), simple("lessOrEqual", 1)), lambda x, c: int(x <= 1)),
        ((simple("equal", "green", "c"), simple("notEqual", "green", "c")),
         lambda x, c: int(c != 1)),
        ((simple("equal", "red", "c"), simple("equal", "green", "c"),
          simple("equal", "dark blue", "c")), lambda x, c: int(c)),
        ((simple("equal", 1), "<True/>"), lambda x, c: int(x != 1)),
    ],
)  # fmt: skip
def test_rows_go_to_the_first_child_whose_test_holds(tests, goes):
    nodes = [node(test, k + 1, 10 * k) for k, test in enumerate(tests)]
    found = read_pmml(tree_of("", *nodes))
    (tree,) = found.trees
    assert found.levels == {"c": ("red", "green", "dark blue")}
    reached = tree.counts[found.leaves(ROWS)[:, 0]]
    expected = [goes(*row) for row in ROWS]
    assert reached.tolist() == [[k + 1, 10 * k] for k in expected]
    assert found.n_rows == sum(k + 1 + 10 * k for k in range(len(tests)))


def test_missing_values_go_where_the_file_says():
    tests = (simple("lessThan", 1), simple("greaterOrEqual", 1))
    nodes = [node(test, k + 1, 0, f"n{k}") for k, test in enumerate(tests)]
    missing = np.array([[np.nan, 0.0]])
    for child in (0, 1):
        data = tree_of(
            f'defaultChild="n{child}"', *nodes, strategy='missingValueStrategy="defaultChild"'
        )
        found = read_pmml(data)
        assert found.trees[0].counts[found.leaves(missing)[0, 0], 0] == child + 1


def test_intervals_are_the_ends_of_columns():
    data = tree_of("", node(simple("lessThan", 1), 1, 2), node("<True/>", 3, 4)).replace(
        b'<DataField name="x" optype="continuous" dataType="double"/>',
        b'<DataField name="x" optype="continuous" dataType="double"><Interval '
        b'closure="closedClosed" leftMargin="-3" rightMargin="7.5"/></DataField>',
    )
    assert read_pmml(data).ranges == {"x": (-3.0, 7.5)}


@pytest.mark.parametrize(
    ("data", "error", "said"),
    [
        (b'<!DOCTYPE x [<!ENTITY a "b">]><PMML>&a;</PMML>', BadModel, "document type"),
        (b'<!DOCTYPE PMML SYSTEM "file:///etc/passwd"><PMML/>', BadModel, "document type"),
        (b"<PMML><Header></PMML>", BadModel, "no XML"),
        (b"<PMML/>", NotCovered, "without a TreeModel"),
        (b"<PMML><RegressionModel/></PMML>", NotCovered, "without a TreeModel"),
        (b"<a><PMML/></a>", BadModel, "in place of PMML"),
        (b"<PMML>" + b"<Node>" * 20_000, BadModel, "in each other"),
        (tree_of("", node(simple("lessThan", "1e999"), 1, 1), node("<True/>", 1, 1)), BadModel,
         "finite"),
        (tree_of("", node(simple("lessThan", "nan"), 1, 1), node("<True/>", 1, 1)), BadModel,
         "finite"),
        (tree_of("", node(simple("lessThan", 1, "z"), 1, 1)), NotCovered, "computed from columns"),
        (tree_of("", node(simple("equal", "pink", "c"), 1, 1)), NotCovered, "does not list"),
        (tree_of("", node(both("surrogate", simple("lessThan", 1), simple("lessThan", 2)), 1, 1)),
         NotCovered, "release-format.md"),
        (tree_of("", node('<SimpleSetPredicate field="c" booleanOperator="isIn"/>', 1, 1)),
         NotCovered, "release-format.md"),
        (tree_of("", node(simple("isMissing", ""), 1, 1)), NotCovered, "release-format.md"),
        (tree_of("", node(simple("lessThan", 1), 1, 1), node(simple("lessThan", 2), 1, 1)),
         NotCovered, "do not take all rows"),
        (tree_of('recordCount="9"', node(simple("lessThan", 1), 1, 1), node("<True/>", 1, 1)),
         NotCovered, "counts 9 rows"),
        (tree_of("", node("", 1, 1)), BadModel, "0 tests"),
        (tree_of("", simple("lessThan", 1), node("<True/>", 1, 1)), NotCovered, "at the root"),
        (tree_of("", node("<True/>", 1, '1"/><ScoreDistribution value="no" recordCount="5')),
         BadModel, "given twice"),
        (tree_of("", '<ScoreDistribution value="no" recordCount="7"/>',
                 '<ScoreDistribution value="yes" recordCount="8"/>',
                 node(simple("lessThan", 1), 1, 2), node("<True/>", 1, 2)),
         NotCovered, "other classes than its leaves"),
    ],
)  # fmt: skip
def test_what_is_no_tree_is_refused(data, error, said):
    with pytest.raises(error, match=said):
        read_pmml(data)


def test_rows_beside_the_trees_are_found():
    rows = np.unique(X, axis=0)[:60]
    text = "\n".join(",".join(f"{v:.7g}" for v in row) for row in rows)
    cells = "".join(
        "<row>"
        + "".join(f"<{n}>{v:.7g}</{n}>" for n, v in zip("abcd", row, strict=True))
        + "</row>"
        for row in rows
    )
    many = "".join(f'<Extension name="cell" value="{v:.7g}"/>' for v in rows.ravel())
    plants = {
        "verification": f"<ModelVerification>{cells}</ModelVerification>",
        "a text": f"<Header><Annotation>{text}</Annotation></Header>",
        "an attribute": f'<Extension name="x" value="{text}"/>',
        "a comment": f"<!-- {text} -->",
        "an instruction": f"<?rows {text}?>",
        "numbers": many,
        "another namespace": f'<z:PMML xmlns:z="urn:z">{text}</z:PMML>',
        "a name": f"<DataDictionary><DataField name='{text}'/></DataDictionary>",
    }
    for place, more in plants.items():
        found = read_pmml(document(TREE, NAMES, (0, 1, 2), more=more))
        entries = take_inventory(found, Context(n_rows=150))
        assert any(e.unknown for e in entries), place
        entries = take_inventory(found, Context(n_rows=150), rows=X)
        assert any(e.rows for e in entries), place


LINES = [",".join(f"{v:.7g}" for v in row) for row in np.unique(X, axis=0)]
WHOLE = [line.replace(".", "").replace(",", " ") for line in LINES]
WORDS = ["".join(chr(97 + int(c)) for c in line if c.isdigit()) for line in LINES]
HEADER, DICTIONARY, CLASS = "<Header>", "<DataDictionary>", '<Value value="0"/>'


def each(texts, form):
    return "".join(form.format(text, i) for i, text in enumerate(texts))


@pytest.mark.parametrize(
    ("where", "more"),
    [
        ("<Header", "<Header" + each(LINES, ' xmlns:r{1}="{0}"')),
        ("<Header", "<Header" + each(LINES, ' xmlns:r{1}="http://www.dmg.org/{0}"')),
        (HEADER, f'{HEADER}<Array n="600" type="real">{" ".join(LINES)}</Array>'),
        (HEADER, HEADER + each(LINES, '<Node score="{0}"/>')),
        (HEADER, HEADER + each(LINES, '<ScoreDistribution value="{0}"/>')),
        (HEADER, HEADER + each(LINES, '<SimplePredicate field="a" value="{0}"/>')),
        (HEADER, HEADER + each(WHOLE, '<Extension name="v" value="{0}"/>')),
        (HEADER, HEADER + each(LINES, '<Extension value="http://www.dmg.org/{0}"/>')),
        (HEADER, HEADER + each(WORDS, '<Extension value="{0}"/>')),
        (HEADER, HEADER + each(WHOLE, "<Timestamp>{0}</Timestamp>")),
        (CLASS, each(LINES, '<Value value="{0}" property="invalid"/>') + CLASS),
        (DICTIONARY, "<TransformationDictionary>" + each(
            LINES, '<DerivedField name="{0}"><FieldRef field="a"/></DerivedField>')
         + "</TransformationDictionary>" + DICTIONARY),
        (DICTIONARY, DICTIONARY + each(WHOLE, '<DataField name="f{1}" displayName="{0}"/>')),
        ('<Node id="1"', f'<Node id="1" score="{";".join(LINES)}"'),
        ("</Node></TreeModel>", each(
            LINES, '<Node id="9"><SimplePredicate field="a" value="{0}"/></Node>')
         + "</Node></TreeModel>"),
    ],
)  # fmt: skip
def test_what_known_parts_hold_where_nothing_reads_it_is_left_over(where, more):
    clean = document(TREE, ["a", "b", "d", "e"], (0, 1, 2)).decode()
    data = clean.replace(where, more, 1)
    assert read_pmml(clean.encode()).leftovers == ()
    assert read_pmml(data.encode()).leftovers


@pytest.mark.parametrize("names", ['id="{0}"', 'id="n{0}"', 'defaultChild="{0}" id="{1}"'])
def test_names_of_nodes_that_number_none_are_left_over(names):
    digits = iter(each([line.replace(".", "") for line in LINES], "{0} ").replace(",", "").split())
    clean = document(TREE, NAMES, (0, 1, 2)).decode()
    data = re.sub(r'id="(\d+)"', lambda found: names.format(next(digits), found[1]), clean)
    assert read_pmml(data.encode()).leftovers


@pytest.mark.parametrize("first", [1, 7])
def test_nodes_may_be_numbered_one_after_the_other_or_by_halves(first):
    clean = document(SMALL, ["a"], style="rattle").decode()
    after = re.sub(r'id="(\d+)"', lambda found: f'id="n{int(found[1]) + first}"', clean)
    halves = {1: 1, 2: 2, 3: 4, 4: 5, 5: 3, 6: 6, 7: 7}
    by_halves = re.sub(r'id="(\d+)"', lambda found: f'id="{halves[int(found[1])]}"', clean)
    assert read_pmml(after.encode()).leftovers == read_pmml(by_halves.encode()).leftovers == ()


def test_numbers_of_inner_nodes_follow_from_leaves():
    values = iter(X.ravel().tolist())
    clean = document(SMALL, ["a"], style="rattle").decode()
    inner = r'score="[^"]*"(?=[^<]*><(True|Simple)[^<]*><Node)'
    changed = re.sub(inner, lambda _: f'score="{next(values)}"', clean)
    uncounted = re.sub(r'recordCount="[^"]*"(?=[^<]*><[^<]*></Node)', "", clean)
    assert read_pmml(clean.encode()).leftovers == ()
    for data in (changed, uncounted):
        assert data != clean
        assert read_pmml(data.encode()).leftovers


@pytest.mark.parametrize("style", ["jpmml", "rattle"])
def test_every_part_of_a_clean_model_is_known(style):
    forest = RandomForestClassifier(5, random_state=0).fit(X, Y)
    for model in (TREE, forest):
        found = read_pmml(document(model, NAMES, (0, 1, 2), style))
        for rows in (None, X):
            entries = take_inventory(found, Context(n_rows=150), rows=rows)
            assert [e for e in entries if e.unknown or e.rows] == []


def test_files_are_recognised_and_audited(tmp_path):
    path = tmp_path / "tree.pmml"
    path.write_bytes(document(TREE, NAMES, (0, 1, 2)))
    assert read_model(path).origin == "PMML, TreeModel"
    said = run("audit", path, "--time-limit", "1").stdout
    assert "PMML" in said
    assert "150" in said


def test_mutations_of_the_bytes_end_in_an_error_or_a_model():
    data = tree_of("", node(simple("equal", "red", "c"), 1, 2), node(
        simple("notEqual", "red", "c"), 3, 4)) + b"\n"  # fmt: skip
    rng = np.random.default_rng(0)
    read = 0
    for _ in range(3000):
        changed = bytearray(data)
        for at in rng.integers(0, len(data), rng.integers(1, 4)):
            changed[at] = rng.integers(256) if rng.random() < 0.3 else data[rng.integers(len(data))]
        end = len(data) if rng.random() < 0.9 else int(rng.integers(len(data)))
        try:
            take_inventory(read_pmml(bytes(changed[:end])), Context(n_rows=10))
            read += 1
        except TreeleakError:
            continue
    assert 0 < read < 3000
