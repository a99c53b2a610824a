"""What a program that imports treeleak meets: paths, editions, and the types of what it gives."""

import inspect
import json
import stat

import pandas as pd
import pytest
import skops.io
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.cli import run
from treeleak.core.errors import BadInput, BadSchema

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

X = pd.DataFrame({"a": [0, 1] * 10, "b": [0, 0, 1, 1] * 5})
Y = pd.Series([0, 1, 1, 0] * 5)
SCHEMA = treeleak.Schema([treeleak.Binary("a"), treeleak.Binary("b")])


@pytest.fixture
def audited():
    model = DecisionTreeClassifier(random_state=0).fit(X, Y)
    return treeleak.audit(model, X, Y, schema=SCHEMA)


@pytest.mark.parametrize("edition", ["releasable", "internal"])
def test_an_audit_writes_itself_to_files(audited, tmp_path, edition):
    document, page = tmp_path / "a.json", tmp_path / "a.html"
    text = audited.to_json(document, edition)
    assert json.loads(text) == json.loads(document.read_text())
    assert json.loads(text)["edition"] == edition
    assert audited.to_html(page, edition) == page.read_text()
    for path in (document, page):
        private = not stat.S_IMODE(path.stat().st_mode) & 0o077
        assert private is (edition == "internal")


def test_the_page_is_that_of_the_command_line(audited, tmp_path):
    assert "rebuilt rows" in audited.to_html()
    assert len(audited.to_html(edition="internal")) > len(audited.to_html())
    assert json.loads(audited.to_json(edition="internal"))["edition"] == "internal"
    with pytest.raises(BadInput, match="edition must be one of releasable, internal"):
        audited.to_html(tmp_path / "a.html", "secret")
    assert not list(tmp_path.iterdir())


def test_other_results_write_themselves_too(tmp_path):
    forest = RandomForestClassifier(5, bootstrap=False, random_state=0).fit(X, Y)
    rebuilt = treeleak.reconstruct(forest, SCHEMA)
    told = treeleak.informed_audit(forest, X, Y, SCHEMA, 3)
    for k, result in enumerate((rebuilt, told)):
        path = tmp_path / f"{k}.json"
        assert path.write_text("") == 0
        without = result.to_json(path)
        assert json.loads(path.read_text()) == json.loads(without)
        with_rows = result.to_json(path, include_rows=True)
        assert len(with_rows) > len(without)
        assert result.to_json(include_rows=True) == with_rows
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077
    skops.io.dump(forest, tmp_path / "m.skops")
    hardened = treeleak.harden(tmp_path / "m.skops", tmp_path / "h.skops", "seeds", time_limit=2)
    assert hardened.to_json(tmp_path / "h.json") + "\n" == (tmp_path / "h.json").read_text()


def test_schema_and_policy_may_be_paths(audited, tmp_path):
    schema, policy = tmp_path / "s.toml", tmp_path / "p.toml"
    schema.write_text(SCHEMA.to_toml())
    policy.write_text("[limits]\nexact_rows = 0.5")
    tree = DecisionTreeClassifier(random_state=0).fit(X, Y)
    assert treeleak.reconstruct(tree, schema).schema == SCHEMA
    assert treeleak.audit(tree, schema=str(schema)).reconstruction.schema == SCHEMA
    assert len(treeleak.informed_audit(tree, X, Y, schema, 2).targets) == 2
    assert treeleak.uncertainty.from_tree(tree, schema).n_rows == len(X)
    assert treeleak.judge(audited, str(policy)).policy == treeleak.read_policy(policy)
    with pytest.raises(BadSchema, match=r"absent\.toml"):
        treeleak.audit(tree, schema=tmp_path / "absent.toml")


@pytest.mark.parametrize("function", ["audit", "reconstruct", "informed_audit", "harden"])
def test_what_is_given_has_types(function):
    given = inspect.signature(getattr(treeleak, function)).parameters
    loose = [name for name, p in given.items() if p.annotation in ("Any", "Any | None")]
    assert not loose


def test_a_report_of_another_ending_is_refused(tmp_path):
    skops.io.dump(DecisionTreeClassifier().fit(X, Y), tmp_path / "m.skops")
    report = tmp_path / "r.txt"
    result = run("audit", tmp_path / "m.skops", "--report", report)
    assert result.exit_code == 2
    assert "name it r.html" in result.stderr
    assert not report.exists()
