"""Policies: what is read, what is checked, and that what was not assessed never passes."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import skops.io
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import AdaBoostRegressor, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.cli import keep, run
from helpers.documents import valid
from helpers.examples import examples
from helpers.tables import compas_sample
from treeleak.auditing import Policy, judge, read_policy
from treeleak.auditing.assessors.isolation import proved_alone
from treeleak.auditing.disclosure.releasable import Suppression, releasable
from treeleak.auditing.findings.verdict import LEAK, NO_LEAK, OPEN
from treeleak.auditing.limits import LIMITS
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.message import Audience
from treeleak.core.text import percent
from treeleak.report import render_html

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

LOOSE = {key: 1.0 for key, limit in LIMITS.items() if limit.kind == "share" and not limit.least}


@pytest.fixture(scope="module")
def data():
    return compas_sample(60)


@pytest.fixture(scope="module")
def forest(data):
    X, y, _ = data
    return RandomForestClassifier(30, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def audited(forest, data):
    X, y, compas = data
    others = compas.X.drop(X.index)
    sensitive = ["sex:Male", "priors"]
    return treeleak.audit(forest, X, y, schema=compas.schema, control=others, sensitive=sensitive)


@pytest.fixture(scope="module")
def alone(forest, data):
    """Without control rows and sensitive columns."""
    X, y, compas = data
    return treeleak.audit(forest, X, y, schema=compas.schema)


@pytest.fixture(scope="module")
def bare(forest, data):
    """Without training rows."""
    return treeleak.audit(forest, schema=data[2].schema)


def states(audit, **limits):
    ruling = judge(audit, Policy("p", limits))
    return {check.key: check.state for check in ruling.checks}


# ------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the policy checks nothing"),
        ("[limits]\nproved_row = 0\n", "did you mean 'proved_rows'?"),
        ("[limits]\nproved_rows = 'no'\n", "limits.proved_rows: must be a number"),
        ("[limits]\nproved_rows = -1\n", "limits.proved_rows: must be a number from 0 on"),
        (f"[limits]\nepsilon = 1{'0' * 400}\n", "limits.epsilon: must be a number from 0 on"),
        (f"[limits]\nepsilon = 0x{'f' * 5000}\n", "no TOML: Exceeds the limit"),
        (f"[limits]\nepsilon = {'[' * 5000}\n", "no TOML: maximum recursion"),
        ("[limits]\nproved_rows = 10\n", "a share is 1 at most"),
        ("[limits]\nleak_shown = true\n", "limits.leak_shown: must be false"),
        ("threshold = 0\n[limits]\nproved_rows = 0\n", "threshold: must be a whole number"),
        ("forbidden_parts = ['seeds']\n", "nothing is called 'forbidden_parts'"),
        ("review = 2027\n[limits]\nproved_rows = 0\n", "review: must be a day"),
        ("[attacker]\nknowlege = 'all'\n", "attacker: nothing is called 'knowlege'; did you mean"),
        ("[attacker]\nwho = 3\n[limits]\nproved_rows = 0\n", "attacker.who: must be a text"),
        ("[limits.inference]\npriors = 2\n", "limits.inference.priors: a share is 1 at most"),
        ("[limits\n", "no TOML"),
        ("\udcff", "not text in UTF-8"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(tmp_path, text, said):
    file = tmp_path / "p.toml"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(BadInput) as refused:
        read_policy(file)
    assert str(file) in str(refused.value)
    assert said in str(refused.value)


STATED = """
recipient = "The registry"
purpose = "Triage"
review = 2027-05-01
[attacker]
who = "A colleague"
knowledge = "two rows"
access = "holds the file"
[limits]
forbidden_parts = ["per-row arrays", "minima and maxima"]
[limits.inference]
priors = 0.1
"*" = 0.2
"""


def test_what_a_policy_states_is_read(tmp_path):
    file = tmp_path / "house.toml"
    file.write_text(STATED)
    policy = read_policy(file)
    assert dict(policy.limits) == {"inference": 0.2}
    assert dict(policy.inference_of) == {"priors": 0.1}
    assert policy.forbidden_parts == ("per-row arrays", "minima and maxima")
    assert policy.stated == {
        "attacker": "A colleague; knows two rows; holds the file",
        "recipient": "The registry",
        "purpose": "Triage",
        "review": "2027-05-01",
    }
    file.write_text("attacker = 'A colleague'\nreview = 2027-05-01\n[limits]\nproved_rows = 0\n")
    assert read_policy(file).stated == {"attacker": "A colleague", "review": "2027-05-01"}
    file.write_text("[limits]\nforbidden_parts = ['thresholds']\n")
    assert read_policy(file).forbidden_parts == ("thresholds",)


# ------------------------------------------------------------------------------------- judging


@pytest.mark.slow
def test_figures_are_those_of_the_audit(audited):
    m, total = audited.measurement, audited.counts.total
    figures = {
        "leak_shown": 1.0,
        "stored_rows": 0,
        "small_leaves": total["small"] / total["leaves"],
        "single_leaves": total["single"] / total["leaves"],
        "one_class_leaves": total["one_class"] / total["leaves"],
        "smallest_leaf": 1,
        "proved_rows": float(audited.reconstruction.proved.mean()),
        "proved_alone": proved_alone(audited.reconstruction, audited.release).sum() / 60,
        "recovered_rows": 1 - audited.exposure.recovered.open,
        "singling_out": audited.article29.singling_out.value,
        "linkability": audited.article29.linkability.value,
        "inference": max(i.risk.value for i in audited.article29.inference),
        "worst_group": audited.exposure.groups["exact"].max(),
        "worst_group_over_guess": (
            1 - audited.exposure.groups["error"] / audited.exposure.groups["guess"]
        ).max(),
        "exact_rows": m.exact_rows,
        "located_rows": m.located_rows,
        "advantage_over_guess": 1 - m.error / m.guess_mean,
        "advantage_over_population": 1 - m.error / np.mean(m.significance.errors),
    }
    assert {k: LIMITS[k].figure(audited) for k in figures} == pytest.approx(figures)
    assert LIMITS["leaking_parts"].figure(audited) == len(
        {e.what for e in audited.inventory if e.mark == "leaks"}
    )


def test_what_rests_on_errors_is_released_in_whole_percents(audited):
    ruled = replace(audited, ruling=judge(audited, Policy("p", {"advantage_over_guess": 0.123})))
    told = {e: ruled.to_dict(e)["ruling"]["checks"][-1] for e in ("internal", "releasable")}
    figure = LIMITS["advantage_over_guess"].figure(audited)
    assert told["internal"]["found"] == percent(figure, 1)
    assert told["releasable"]["found"] == percent(figure)
    assert told["internal"]["bound"] == told["releasable"]["bound"] == "at most 12.3%"


@examples(200, fast=25)
@given(key=st.sampled_from(sorted(set(LIMITS) - {"leak_shown"})), bound=st.floats(0, 1, width=32))
def test_a_limit_is_met_up_to_its_bound(audited, key, bound):
    state = states(audited, **{key: bound})[key]
    limit = LIMITS[key]
    try:
        figure = limit.figure(audited)
    except treeleak.NotCovered:
        assert state == "not assessed"
        return
    met = figure >= bound if limit.least else figure <= bound
    assert state == ("met" if met else "violated")


def test_one_column_is_bounded_by_itself(audited):
    risks = {i.column: i.risk.value for i in audited.article29.inference}
    assert set(risks) == {"sex:Male", "priors"}
    for column, risk in risks.items():
        below = max(risk - 0.01, 0.0)
        policy = Policy("p", {}, inference_of={column: below, "age": 1.0})
        checks = {c.key: c for c in judge(audited, policy).checks}
        assert checks[f"inference.{column}"].state == ("violated" if risk else "met")
        assert checks["inference.age"].state == "not assessed"
        met = judge(audited, replace(policy, inference_of={column: risk}))
        assert met.checks[-1].state == "met"
    assert states(audited, proved_rows=1.0)["leak_shown"] == "violated"
    bounded = judge(audited, Policy("p", {}, inference_of={"priors": 0.5}))
    assert "leak_shown" not in {c.key for c in bounded.checks}


def test_kinds_of_parts_may_be_forbidden(audited):
    def state(*kinds):
        ruling = judge(audited, Policy("p", {"exact_rows": 0.9}, forbidden_parts=kinds))
        return [c.state for c in ruling.checks if c.key == "forbidden_parts"]

    assert state("seeds", "per-row arrays", "minima and maxima") == ["violated", "met", "met"]
    assert state("rows in each node") == ["violated"]
    what = next(e for e in audited.inventory if e.what == "seeds")
    entry = replace(what, what="smallest and largest value of each column")
    ruling = judge(
        replace(audited, inventory=(entry,)),
        Policy("p", {}, forbidden_parts=("minima and maxima",)),
    )
    assert ruling.checks[-1].state == "violated"
    assert ruling.checks[-1].found == "1"


def test_the_worst_person_is_bounded_and_not_told(audited):
    pairs = audited.measurement.pairs
    best = np.min([t.guesses.row_errors for t in pairs.tried], axis=0)
    worst = np.max(best - pairs.errors)
    assert LIMITS["worst_person"].figure(audited) == pytest.approx(worst)
    ruling = judge(audited, Policy("p", {"worst_person": 0.0, "worst_group": 1.0}))
    assert [c.state for c in ruling.checks[-2:]] == ["violated", "met"]
    told = valid(replace(audited, ruling=ruling).to_dict())["ruling"]["checks"]
    assert [c["found"] for c in told[-2:]] == ["above this", "within this"]
    own = replace(audited, ruling=ruling).to_dict("internal")["ruling"]["checks"]
    assert own[-2]["found"] == f"{100 * worst:.1f}%"


def test_nobody_is_passed_over_who_was_in_no_baseline(audited):
    pairs = audited.measurement.pairs

    def without(*people):
        tried = [replace(t, guesses=replace(t.guesses, row_errors=t.guesses.row_errors.copy()))
                 for t in pairs.tried]  # fmt: skip
        for k, t in enumerate(tried):
            t.guesses.row_errors[people[k]] = np.nan
        own = replace(pairs, tried=tuple(tried))
        return replace(audited, measurement=replace(audited.measurement, pairs=own))

    nobody = [[] for _ in pairs.tried]
    assert LIMITS["worst_person"].figure(without(*nobody)) == LIMITS["worst_person"].figure(audited)
    # Known to one baseline, all are held against that one.
    some = LIMITS["worst_person"].figure(without(slice(None), *nobody[1:]))
    rest = np.min([t.guesses.row_errors for t in pairs.tried[1:]], axis=0)
    assert some == pytest.approx(np.max(rest - pairs.errors))
    with pytest.raises(NotCovered, match="no baseline held some person"):
        LIMITS["worst_person"].figure(without(*([0] for _ in pairs.tried)))
    groups = audited.exposure.groups.assign(guess=np.nan)
    lost = replace(audited, exposure=replace(audited.exposure, groups=groups))
    with pytest.raises(NotCovered, match="no random table held some group"):
        LIMITS["worst_group_over_guess"].figure(lost)


def test_what_the_policy_states_stands_in_every_edition(audited, tmp_path):
    file = tmp_path / "house.toml"
    file.write_text(STATED)
    told = replace(audited, ruling=judge(audited, read_policy(file)))
    for edition in ("releasable", "internal"):
        ruled = valid(told.to_dict(edition))["ruling"]
        assert ruled["review"] == "2027-05-01"
        assert ruled["recipient"] == "The registry"
    page = render_html(told)
    for text in ("A colleague; knows two rows", "The registry", "Triage", "2027-05-01"):
        assert text in page


def test_a_column_that_may_not_be_named_is_not_in_a_ruling(audited):
    told = replace(
        audited, ruling=judge(audited, Policy("p", {}, inference_of={"priors": 0.0}))
    ).to_dict("internal")
    kept = Suppression((False,) * len(told["exposure"]["groups"]), hidden=frozenset({"priors"}))
    shown = releasable(told, kept, Audience(10))["ruling"]
    assert "priors" not in str(shown)
    assert shown["checks"][-1]["found"] in ("above this", "within this")


@pytest.mark.parametrize(
    "limits",
    [{"unknown_parts": 99}, {"epsilon": 1e9}, {"exact_rows": 1.0, "small_leaves": 1.0},
     {"left_to_know": 0.0}, {"small_leaves": 0.5}],
)  # fmt: skip
def test_a_policy_that_bounds_no_leak_asks_that_none_is_shown(audited, limits):
    assert states(audited, **limits)["leak_shown"] == "violated"
    assert states(replace(audited, verdict=NO_LEAK), **limits)["leak_shown"] == "met"
    assert states(replace(audited, verdict=OPEN), **limits)["leak_shown"] == "not assessed"
    assert "leak_shown" not in states(audited, **(limits | {"exact_rows": 0.99}))


def test_a_walk_that_time_cut_short_does_not_show_that_nothing_leaks(audited):
    rebuilt = replace(
        audited.reconstruction, status="likely", evidence="noisy counts",
        numbers={"chains": 12, "sweeps": 9},
    )  # fmt: skip
    quiet = replace(audited, verdict=NO_LEAK, reconstruction=rebuilt)
    assert states(quiet, leak_shown=False)["ended"] == "met"
    short = replace(rebuilt, numbers={"chains": 12, "sweeps": 3})
    cut = replace(quiet, reconstruction=short)
    assert states(cut, leak_shown=False)["ended"] == "not assessed"
    assert states(replace(cut, verdict=LEAK), leak_shown=False)["ended"] == "met"


def test_where_parts_were_given_no_leak_is_none(audited):
    X = audited.reconstruction.X
    known = pd.DataFrame(False, X.index, X.columns)
    known.iloc[0] = True
    given = replace(audited, reconstruction=replace(audited.reconstruction, known=known))
    assert states(given, leak_shown=False)["ended"] == "met"
    quiet = replace(given, verdict=NO_LEAK)
    ruling = judge(quiet, Policy("p", {"leak_shown": False}))
    assert not ruling.passed
    assert "parts of the rows were given" in ruling.checks[0].found


@pytest.mark.parametrize(
    "key",
    ["exact_rows", "located_rows", "advantage_over_guess", "singling_out", "inference",
     "linkability", "worst_group", "worst_group_over_guess", "worst_person"],
)  # fmt: skip
def test_without_training_rows_what_needs_them_does_not_pass(bare, key):
    ruling = judge(bare, Policy("p", {key: 0.9}))
    assert not ruling.passed
    assert [c.state for c in ruling.checks] == ["met", "met", "not assessed"]
    assert "--train" in ruling.checks[2].found


@pytest.mark.slow
def test_without_control_rows_the_population_does_not_pass(forest, data, alone):
    X, y, compas = data
    assert states(alone, advantage_over_population=1.0)["advantage_over_population"] == (
        "not assessed"
    )
    few = treeleak.audit(forest, X, y, schema=compas.schema, control=compas.X.drop(X.index)[:70])
    assert states(few, advantage_over_population=1.0)["advantage_over_population"] == (
        "not assessed"
    )


@pytest.mark.parametrize(
    "end", [{"status": "unknown"}, {"status": "infeasible"}, {"interrupted": True}]
)
def test_an_attack_that_did_not_end_does_not_pass(audited, end):
    rebuilt = replace(audited.reconstruction, **end)
    found = states(replace(audited, reconstruction=rebuilt), **LOOSE)
    assert found["ended"] == "not assessed"
    if end == {"status": "unknown"}:
        assert found["proved_rows"] == found["exact_rows"] == "not assessed"


@pytest.mark.parametrize("key", ["exact_rows", "located_rows", "worst_group", "proved_rows"])
def test_what_exceeds_its_limit_already_is_violated_whatever_else_is_open(audited, key):
    rebuilt = replace(audited.reconstruction, status="unknown")
    for found in (audited, replace(audited, reconstruction=rebuilt)):
        assert LIMITS[key].figure(found) > 0.02
        assert states(found, **{key: 0.02})[key] == "violated"
    assert states(replace(audited, reconstruction=rebuilt), **{key: 1.0})[key] == "not assessed"


@pytest.mark.parametrize(("key", "bound"), [("small_leaves", 0.0), ("smallest_leaf", 10)])
def test_few_draws_are_few_rows(audited, key, bound):
    drawn = replace(audited, counts=replace(audited.counts, unit="draws"))
    assert states(drawn, **{key: bound})[key] == "violated"


def test_other_rows_do_not_pass(forest, data):
    X, y, compas = data
    audit = treeleak.audit(forest, X[::-1], y[::-1], schema=compas.schema, on_mismatch="report")
    assert audit.mismatch is not None
    found = judge(audit, Policy("p", {"exact_rows": 0.9}))
    assert [c.state for c in found.checks] == ["not assessed", "met", "not assessed"]
    # A mismatch names trees and leaves: a ruling goes into reports that others see.
    assert not any("leaf" in c.found for c in found.checks)


def test_a_model_without_attack_does_not_pass(data):
    X, y, _ = data
    model = AdaBoostRegressor(n_estimators=3, random_state=0).fit(X, y)
    ruling = judge(treeleak.audit(model), Policy("p", {"leak_shown": False}))
    assert not ruling.passed
    assert [c.state for c in ruling.checks] == ["not assessed", "met", "not assessed"]


@pytest.mark.slow
def test_likely_rows_that_nothing_was_compared_with_do_not_pass(forest, data):
    X, y, compas = data
    hidden = {"schema": compas.schema, "bootstrap": "hidden", "time_limit": 20}
    forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y)
    bare = treeleak.audit(forest, **hidden)
    assert (bare.reconstruction.status, bare.verdict) == ("likely", "not assessed")
    for limits in ({"leak_shown": False}, {"proved_alone": 0.0}, {"single_leaves": 1.0}):
        ruling = judge(bare, Policy("p", limits))
        assert not ruling.passed
        assert "--train" in ruling.checks[0].found
    assert states(bare, leak_shown=False)["leak_shown"] == "not assessed"
    # The reason names nobody, so it stands in the edition for others, too.
    told = replace(bare, ruling=ruling).to_dict()["ruling"]["checks"][0]["found"]
    assert "--train" in told


def test_what_counts_draws_says_nothing_of_few_rows(audited):
    assert audited.counts.unit == "rows"
    drawn = replace(audited, counts=replace(audited.counts, unit="draws"))
    for key in ("small_leaves", "single_leaves"):
        assert states(audited, **{key: 1.0})[key] == "met"
        assert states(drawn, **{key: 1.0})[key] == "not assessed"
    assert states(drawn, smallest_leaf=0)["smallest_leaf"] == "not assessed"
    assert states(drawn, one_class_leaves=1.0)["one_class_leaves"] == "met"


def test_under_a_schema_that_is_not_true_no_proof_passes(audited):
    wrong = audited.truth.X.copy()
    wrong.iloc[0] = 1.0
    schema = audited.reconstruction.schema
    assert not schema.valid(wrong.to_numpy(), list(wrong)).all()
    false = replace(audited, truth=replace(audited.truth, X=wrong))
    for key in ("proved_rows", "proved_alone"):
        assert states(audited, **{key: 1.0})[key] == "met"
        assert states(false, **{key: 1.0})[key] == "not assessed"


def test_where_all_rows_were_given_nothing_passes(audited):
    X = audited.reconstruction.X
    known = pd.DataFrame(True, index=X.index, columns=X.columns)
    given = replace(audited, reconstruction=replace(audited.reconstruction, known=known))
    found = states(given, recovered_rows=1.0, proved_rows=1.0)
    assert found["recovered_rows"] == found["proved_rows"] == "not assessed"


# -------------------------------------------------------------------------------- command line


@pytest.fixture(scope="module")
def files(tmp_path_factory, forest, data):
    X, y, compas = data
    folder = tmp_path_factory.mktemp("policy")
    keep(folder, forest, X, y, compas.schema)
    stump = DecisionTreeClassifier(max_depth=1, min_samples_leaf=20).fit(X, y)
    skops.io.dump(stump, folder / "stump.skops")
    return folder


def gate(files, limits, *more, train=True, model="model.skops"):
    policy = files / "policy.toml"
    policy.write_text(f'name = "Gate"\n[limits]\n{limits}\n')
    rows = ["--train", files / "train.csv", "--label", "label"] if train else []
    arguments = ["audit", files / model, "--schema", files / "schema.toml", *rows]
    return run(*arguments, "--policy", policy, *more)


def test_the_gate_on_the_command_line(files):
    passed = gate(files, "leak_shown = false", "--json", files / "a.json", model="stump.skops")
    assert passed.exit_code == 0
    assert "Meets the policy 'Gate'" in passed.stdout
    assert json.loads((files / "a.json").read_text())["ruling"]["passed"] is True
    violated = gate(files, "proved_rows = 0")
    assert violated.exit_code == 4
    assert "Does not meet the policy 'Gate': 1 of 3 checks" in " ".join(violated.stdout.split())
    assert max(map(len, violated.stdout.splitlines())) <= 80


@pytest.mark.slow
def test_the_gate_fails_closed(files):
    assert gate(files, "exact_rows = 1", train=False).exit_code == 4
    assert gate(files, "proved_rows = 1", "--time-limit", "1e-9").exit_code == 4
    missing = gate(files, "proved_rows = 1", "--policy", files / "none.toml")
    assert missing.exit_code == 2


def test_a_bad_policy_is_refused_before_any_work(files, no_audit):
    refused = gate(files, "proved = 1")
    assert refused.exit_code == 2
    assert "policy.toml: limits: nothing is called 'proved'; did you mean" in refused.stderr


@pytest.mark.slow
def test_rows_of_which_nothing_can_be_proved_do_not_pass_unmeasured():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:30], y[:30]
    forest = RandomForestClassifier(30, bootstrap=False, random_state=0).fit(X, y)
    alone = treeleak.audit(forest)
    assert alone.reconstruction.status == "feasible"
    assert alone.reconstruction.cells.startswith("generated")
    assert alone.verdict == "not assessed"
    assert "Only a comparison with the training rows" in alone.headline
    assert states(alone, leak_shown=False)["leak_shown"] == "not assessed"
    assert treeleak.audit(forest, X, y).verdict != "not assessed"
