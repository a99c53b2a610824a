"""What another training would save: the same kind of model, judged by use and by leak."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
import skops.io
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.cli import keep, run
from helpers.documents import valid
from helpers.hurried import walk_little
from helpers.patient import AMPLE
from helpers.tables import compas_sample
from treeleak.core.clock import Clock
from treeleak.core.errors import BadInput, NotCovered
from treeleak.hardening import retrain as module
from treeleak.hardening import ways
from treeleak.hardening.retrain import retrain


@pytest.fixture(scope="module")
def data():
    X, y, compas = compas_sample(16, seed=2)
    return X, y, compas.schema


@pytest.fixture(scope="module", autouse=True)
def few_ways():
    """Each way to train takes seconds: two of a kind are enough, and a few guesses."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ways, "EPSILONS", (0.3, 3.0))
        patched.setattr(ways, "LEAVES", (5, 10))
        walk_little(patched)
        yield


FOREST = {"n_estimators": 4, "criterion": "entropy", "bootstrap": False}


@pytest.fixture(scope="module")
def compared(data):
    X, y, schema = data
    model = RandomForestClassifier(**FOREST, random_state=1).fit(X, y)
    return retrain(model, X, y, schema=schema, time_limit=AMPLE)


@pytest.mark.slow
def test_accuracies_are_those_of_cross_validation(compared, data):
    X, y, _ = data
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    for way in compared.alternatives:
        if way.epsilon is None:
            model = RandomForestClassifier(**{**FOREST, **way.settings}, random_state=0)
            own = cross_val_score(model, X, y, cv=folds)
            assert way.accuracy == pytest.approx(own.mean()), way.what
    now, *others = compared.alternatives
    assert now.lost == now.lost_se == 0
    assert all(o.lost == pytest.approx(now.accuracy - o.accuracy) for o in others)
    assert compared.most_common == y.value_counts(normalize=True).max()


@pytest.mark.slow
def test_leaks_are_those_of_an_audit(compared, data):
    X, y, schema = data
    now = compared.alternatives[0]
    model = RandomForestClassifier(**FOREST, random_state=0).fit(X, y)
    audit = treeleak.audit(model, X, y, schema=schema, time_limit=AMPLE)
    assert (now.verdict, now.status) == (audit.verdict, audit.reconstruction.status)
    assert now.error == audit.measurement.error
    assert now.exact_rows == audit.measurement.exact_rows
    assert {a.epsilon for a in compared.alternatives} == {None, *ways.EPSILONS}


@pytest.mark.slow
def test_advice_names_what_saves_most_without_a_loss(compared):
    now, *others = compared.alternatives
    ended = ("unique", "feasible", "likely")
    fit = [
        a for a in others
        if a.epsilon is None and a.lost <= a.lost_se and a.error > now.error and a.status in ended
    ]  # fmt: skip
    told = [a for a in compared.advice if not a.startswith("Not recommended")]
    if fit:
        best = max(fit, key=lambda a: a.error / a.guess)
        assert told[0].lower().startswith(best.what.lower())
    private = [a for a in others if a.epsilon is not None]
    most = max(a.accuracy for a in private)
    least = min(a.epsilon for a in private if a.accuracy >= most - a.lost_se)
    assert f"epsilon {least:g} " in told[1]


@pytest.mark.slow
def test_an_attack_without_an_answer_recommends_nothing(compared):
    now, other = compared.alternatives[:2]
    useful = replace(other, lost=-1.0, error=other.guess, status="unknown")
    said = module._advice([now, useful])
    assert said[0].startswith("Not recommended")
    assert useful.what in said[0]
    assert "showed no saving" in said[1]
    assert "None of these brings" in said[2]
    assert "None of these" not in " ".join(module._advice([now, replace(useful, status="likely")]))


@pytest.mark.slow
def test_without_a_schema_noise_is_not_assessed(data):
    X, y, _ = data
    result = retrain(DecisionTreeClassifier(max_depth=3).fit(X, y), X, y, time_limit=AMPLE)
    assert all(a.epsilon is None for a in result.alternatives)
    assert "--schema" in result.not_assessed[0]
    assert not any("trees" in a.what for a in result.alternatives)
    assert not any("tests on a path" in a.what for a in result.alternatives)


def test_settings_are_read_from_a_file_and_from_inside_others(data, tmp_path):
    X, y, _ = data
    forest = RandomForestClassifier(7, min_samples_leaf=6, max_depth=3, random_state=5)
    pipeline = make_pipeline(MinMaxScaler(), forest).fit(X, y)
    skops.io.dump(pipeline, tmp_path / "model.skops")
    searched = GridSearchCV(forest, {"min_samples_leaf": [6]}, cv=2).fit(X, y)
    for model in (tmp_path / "model.skops", pipeline, searched):
        kind, settings = ways.settings_of(model, trust_pickle=False)
        assert kind is RandomForestClassifier
        assert {k: settings[k] for k in ("n_estimators", "min_samples_leaf", "max_depth")} == {
            "n_estimators": 7, "min_samples_leaf": 6, "max_depth": 3,
        }  # fmt: skip
        found = [way.settings for way in ways.ways_of(kind, settings, 0)]
        assert found == [{}, {"min_samples_leaf": 10}]


@pytest.mark.slow
def test_an_interrupt_keeps_what_was_done(data, instead):
    X, y, schema = data
    model = RandomForestClassifier(**FOREST, random_state=1).fit(X, y)
    calls = []

    def audit(*arguments, **options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return treeleak.audit(*arguments, **options)

    instead("audit", audit, module)
    result = retrain(model, X, y, schema=schema, time_limit=AMPLE)
    assert len(result.alternatives) == 2
    assert "interrupted" in result.not_assessed[-1]


@pytest.mark.slow
def test_ways_to_train_share_the_time_and_say_where_it_ended(data, instead):
    X, y, _ = data
    model = DecisionTreeClassifier(max_depth=3).fit(X, y)
    clock, told = Clock(10_000.0), []

    def audit(*arguments, **options):
        told.append(options["time_limit"].left)
        clock.started -= (0, 20_000)[len(told) - 1]
        return treeleak.audit(*arguments, **options | {"time_limit": 0.2})

    instead("audit", audit, module)
    result = retrain(model, X, y, time_limit=clock)
    assert told == pytest.approx([10_000 / 3, 10_000 / 2], rel=0.01)
    assert len(result.alternatives) == 2
    assert result.not_assessed[-1] == (
        "the rest was not tried: the time limit of 10000 s was reached"
    )


@pytest.mark.slow
def test_what_cannot_be_trained_again_is_refused(data):
    X, y, _ = data
    with pytest.raises(NotCovered, match="GradientBoostingClassifier"):
        retrain(GradientBoostingClassifier(n_estimators=2).fit(X, y), X, y)
    tree = DecisionTreeClassifier().fit(X, y)
    with pytest.raises(BadInput, match="16 rows, 15 labels"):
        retrain(tree, X, y[:-1])
    with pytest.raises(NotCovered, match="too few rows, or only one class"):
        retrain(tree, X, np.zeros(len(X)))


@pytest.mark.slow
def test_the_command_line_tells_it_beside_hardening(data, tmp_path, monkeypatch, instead):
    X, y, schema = data
    keep(tmp_path, DecisionTreeClassifier(max_depth=4).fit(X, y), X, y, schema)
    instead("EPSILONS", (1.0,), ways)
    monkeypatch.chdir(tmp_path)
    rows = ["--train", "train.csv", "--label", "label", "--schema", "schema.toml"]
    command = ["harden", "model.skops", "--out", "hard.skops", "--force", "--json", "h.json"]
    told = run(*command, *rows, "--time-limit", "60")
    assert "What another training would save" in told.stdout
    assert max(map(len, told.stdout.splitlines())) <= 80
    document = valid(json.loads((tmp_path / "h.json").read_text()), "hardened")
    whats = [a["what"] for a in document["retraining"]["alternatives"]]
    assert whats[0] == "as it is"
    assert whats[-1] == "differential privacy, epsilon 1"
    for more in ([*rows, "--no-retrain"], []):
        few = ["--steps", "sizes", "--time-limit", "60"]
        without = run(*command, *more, *few)
        assert "another training" not in without.stdout
        document = valid(json.loads((tmp_path / "h.json").read_text()), "hardened")
        assert document["retraining"] is None


def test_a_pickle_is_no_file_to_harden_with_training_rows_either(data, tmp_path):
    X, y, _ = data
    keep(tmp_path, DecisionTreeClassifier().fit(X, y), X, y, None)
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(DecisionTreeClassifier().fit(X, y)))
    rows = ["--train", tmp_path / "train.csv", "--label", "label"]
    told = run("harden", tmp_path / "m.pkl", "--out", tmp_path / "o", *rows).stderr
    assert "changes only files that it reads as data" in told
