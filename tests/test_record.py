"""A report is a record: when, from what, against whom, for whom, until when."""

import datetime
import hashlib
import json
from dataclasses import replace

import pytest
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.cli import keep, run
from helpers.documents import valid
from helpers.tables import compas_sample
from treeleak.auditing import Policy, judge

pytestmark = pytest.mark.usefixtures("short_walks_throughout")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    X, y, compas = compas_sample(60)
    folder = tmp_path_factory.mktemp("record of Ann Smith")
    keep(folder, DecisionTreeClassifier(max_depth=2).fit(X, y), X, y, compas.schema)
    compas.X.drop(X.index)[:200].to_csv(folder / "others.csv", index=False)
    (folder / "policy.toml").write_text("review = 2999-01-02\n[limits]\nstored_rows = 0\n")
    return folder


@pytest.fixture(scope="module")
def told(files):
    """Both editions, the page of the releasable one, and the terminal."""
    found = {}
    for edition in ("internal", "releasable"):
        out, page = files / f"{edition}.json", files / f"{edition}.html"
        arguments = [
            "audit", files / "model.skops", "--train", files / "train.csv", "--label", "label",
            "--control", files / "others.csv", "--schema", files / "schema.toml",
            "--policy", files / "policy.toml", "--json", out, "--report", page, f"--{edition}",
            "--time-limit", "30",
        ]  # fmt: skip
        shown = run(*arguments)
        assert shown.exit_code in (0, 4), shown.output
        found[edition] = valid(json.loads(out.read_text()))
    return found | {"page": page.read_text(), "terminal": shown.stdout}


@pytest.mark.slow
def test_every_input_is_named_and_hashed(files, told):
    own = told["internal"]["provenance"]["inputs"]
    assert set(own) == {"train", "control", "schema", "policy"}
    for entry in own.values():
        with open(entry["file"], "rb") as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == entry["sha256"]


def test_hashes_of_data_do_not_leave_the_house(told):
    shown, own = (told[e]["provenance"]["inputs"] for e in ("releasable", "internal"))
    assert shown["policy"]["sha256"] == own["policy"]["sha256"]
    for what in ("train", "control", "schema"):
        assert shown[what]["sha256"] is None
        assert own[what]["sha256"] not in told["page"]
    assert "Ann Smith" not in json.dumps(told["releasable"]) + told["page"]
    assert {entry["file"] for entry in shown.values()} == {
        "train.csv", "others.csv", "schema.toml", "policy.toml",
    }  # fmt: skip


@pytest.mark.slow
def test_what_somebody_knows_is_in_the_sentence():
    X, y, compas = compas_sample(40, seed=0)
    tree = DecisionTreeClassifier(max_depth=2).fit(X, y)
    plain = treeleak.audit(tree).provenance.threat_model
    assert plain == "An adversary who holds the model (white box), and knows nothing else."
    more = treeleak.audit(
        tree, known_rows=X.assign(label=y)[:5], population=compas.X, n_rows=40, bootstrap="none"
    ).provenance.threat_model
    assert "some of the training rows" in more
    assert "the population" in more
    assert "the number of training rows" in more


def test_a_policy_out_of_date_is_not_met():
    compas = treeleak.datasets.load_compas()
    tree = DecisionTreeClassifier(max_depth=1).fit(compas.X[:200], compas.y[:200])
    audit = treeleak.audit(tree)
    policy = Policy("p", {"stored_rows": 0}, review=datetime.date(2030, 5, 1))

    def state(time):
        dated = replace(audit, provenance=replace(audit.provenance, time=time))
        return {c.key: c.state for c in judge(dated, policy).checks}["review"]

    assert state("2030-05-01T23:59:59Z") == "met"
    assert state("2030-05-02T00:00:00Z") == "violated"
    assert "review" not in {c.key for c in judge(audit, replace(policy, review=None)).checks}
