"""Audits of models whose counts carry noise: what it costs, and what must not be read as exact."""

import io
import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn.ensemble import RandomForestClassifier

import treeleak
from helpers.documents import valid
from helpers.releases import counted_as
from treeleak.auditing.assessors.budget import budget_of
from treeleak.auditing.assessors.counts import count_leaves
from treeleak.auditing.findings.finding import LEAK, NO_LEAK, OPEN, POSSIBLE
from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.inventory.inventory import take_inventory
from treeleak.auditing.prepare import context_of
from treeleak.core.errors import Mismatch, NotCovered, PrivacyWarning
from treeleak.learn import DPForestClassifier
from treeleak.release import AllRows, Bootstrap, StoredObject, read_model, snapshot, to_release
from treeleak.release.n_rows import RowCount
from treeleak.release.noise.goodness_of_fit import noise_misfit
from treeleak.release.noise.laws import DiscreteLaplace, Gaussian, LabelNoise, Laplace
from treeleak.release.sampling import Disjoint, UnknownSampling
from treeleak.report import render
from treeleak.verification.training_rows import match_training

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

MODELS = Path(__file__).parent / "models"


@pytest.fixture(scope="module")
def data():
    compas = treeleak.datasets.load_compas()
    return compas.X[:60], compas.y[:60], compas.X[60:], compas.schema


def fitted(data, epsilon, seed=0, **options):
    X, y, _, schema = data
    forest = DPForestClassifier(
        10, 3, epsilon, schema=schema, classes=[0, 1], random_state=seed, **options
    )
    with pytest.warns(PrivacyWarning):
        forest.fit(X, y)
    return forest


@pytest.fixture(scope="module")
def forest(data):
    return to_release(fitted(data, 30.0))


# ------------------------------------------------------------------------------------ the cost


@pytest.mark.parametrize(
    ("noise", "sampling", "stated", "cost"),
    [
        (DiscreteLaplace(0.5), AllRows(), 5.0, 5.0),
        (Laplace(0.5), AllRows(), 5.0, 5.0),
        # DRAFT-DP's ten trees: epsilon + T ln 2.
        (Laplace(0.5, "towards zero"), AllRows(), 5.0, 5.0 + 10 * math.log(2)),
        (Laplace(0.5, "towards zero"), Disjoint(), 0.5, 0.5 + math.log(2)),
        (DiscreteLaplace(0.5), Disjoint(), 0.5, 0.5),
        (LabelNoise("permute-and-flip", 0.5), Disjoint(), 0.5, 0.5),
        (LabelNoise("exponential", 0.5), AllRows(), 5.0, 5.0),
        (LabelNoise("majority"), AllRows(), None, None),
        (Gaussian(2.0), AllRows(), None, None),
        (DiscreteLaplace(0.5), Bootstrap(), None, None),
        (DiscreteLaplace(0.5), UnknownSampling(), None, None),
    ],
)
def test_what_noise_costs(forest, noise, sampling, stated, cost):
    found = budget_of(replace(forest, noise=noise, sampling=sampling))
    assert found.stated == (None if stated is None else pytest.approx(stated))
    assert found.cost == (None if cost is None else pytest.approx(cost))
    assert found.overspent == (cost is not None and cost > stated + 1e-6)
    assert ("No pure epsilon" in str(found)) == (cost is None and found.noisy)
    assert ("epsilon" in str(found)) == found.noisy


def test_without_noise_there_is_no_budget(forest):
    assert budget_of(replace(forest, noise=None)) is None


@pytest.mark.parametrize(
    "noise", [LabelNoise("permute-and-flip", 0.7), LabelNoise("exponential", 0.7)]
)
def test_the_cost_of_a_label_is_the_greatest_log_ratio(forest, noise):
    """By the law of each rule, over all small counts and all ways to add one row."""

    def law(a):
        weight = np.exp(noise.scale * (np.array(a) - max(a)))
        if noise.rule == "exponential":
            return weight / weight.sum()
        out = np.zeros(len(a))
        for order in itertools.permutations(range(len(a))):
            left = 1 / math.factorial(len(a))
            for c in order:
                out[c] += left * weight[c]
                left *= 1 - weight[c]
        return out

    worst = 0.0
    for a in itertools.product(range(5), repeat=3):
        for c in range(3):
            more = [n + (k == c) for k, n in enumerate(a)]
            worst = max(worst, float(np.abs(np.log(law(a) / law(more))).max()))
    found = budget_of(replace(forest, noise=noise, sampling=Disjoint()))
    assert worst <= found.cost + 1e-9
    assert worst > 0.9 * found.cost


# -------------------------------------------------------------------------- counts and inventory


def test_noisy_counts_are_not_taken_for_rows(forest):
    with pytest.raises(NotCovered, match="the counts carry noise"):
        count_leaves(forest)
    trees = tuple(t.with_counts(counts=np.eye(2)[np.zeros(t.n_nodes, int)]) for t in forest.trees)
    labels = counted_as(replace(forest, trees=trees, noise=LabelNoise()), "labels")
    with pytest.raises(NotCovered, match="the leaves name a class"):
        count_leaves(labels)


def marks(stored):
    entries = take_inventory(stored, context_of(stored, to_release(stored)))
    return {name: entry for entry in entries for name in entry.names}


def test_the_inventory_of_a_private_forest_leaves_nothing_but_noisy_counts(data, forest):
    for stored in (snapshot(fitted(data, 5.0)), forest):
        found = marks(stored)
        assert {n for n, e in found.items() if e.mark == "leaks"} == {"counts"}
        assert "with noise" in found["counts"].what
        # Advice is about the noise, not about releasing fewer counts.
        assert found["counts"].change is None
        unknown = {n for n, e in found.items() if e.mark == "not assessed"}
        assert unknown <= {"feature", "left", "right", "is_leaf", "leaves", "depth"}


def test_a_seed_takes_the_noise_off():
    found = marks(read_model(MODELS / "diffprivlib_0.6.6_private.skops"))
    assert found["random_state"].mark == "leaks"
    assert found["random_state"].change == "noise seeds"
    assert found["epsilon"].mark == found["n_node_samples"].mark == "harmless"
    assert found["threshold"].mark == "not assessed"
    assert found["n_estimators"].what == "settings"


def test_counts_that_are_not_empty_are_no_empty_ones():
    X, y = np.eye(4).repeat(5, axis=0), np.arange(20) % 2
    model = snapshot(RandomForestClassifier(3, bootstrap=False, random_state=0).fit(X, y))
    for noise in (False, True):
        entries = take_inventory(model, Context(20, noise=noise))
        (counts,) = (e for e in entries if "n_node_samples" in e.names)
        assert counts.mark == "leaks"


def test_a_scale_elsewhere_is_no_law_of_noise():
    other = StoredObject("elsewhere.Model", {"noise": 3.0, "epsilon": 1.0})
    (entry,) = take_inventory(other, Context(noise=True))
    assert entry.mark == "not assessed"


# ------------------------------------------------------------------------- the training rows


@pytest.mark.parametrize("noise", [DiscreteLaplace(1.0), Laplace(0.7, "towards zero")])
def test_what_is_rejected_is_rarer_than_once_in_a_million(noise):
    y = np.arange(-60, 61)
    p = np.exp(noise.log_prob(y))
    surprise = -noise.log_prob(y)
    sums = surprise[:, None] + surprise[None]
    weight = p[:, None] * p[None]
    first = next(k for k in range(60) if noise_misfit(noise, [np.array([k, 0.0])]))
    seen = float(-noise.log_prob([first, 0]).sum())
    chance = weight[sums >= seen - 1e-9].sum()
    assert 1e-12 < chance < 1e-6


def test_rows_are_held_against_noisy_counts(data, forest):
    X, y, others, _ = data
    truth = match_training(forest, X, y)
    assert "the noise explains" in truth.checked
    assert list(truth.X.columns) == list(forest.feature_names)
    wrong = others[:60]
    with pytest.raises(Mismatch, match="more than its noise explains"):
        match_training(forest, wrong, y.to_numpy())
    with pytest.raises(Mismatch, match="trained on 61 rows"):
        match_training(replace(forest, n_rows=61), X, y)
    loud = to_release(fitted(data, 0.1))
    assert match_training(loud, wrong, y.to_numpy())


def test_without_labels_the_sums_of_classes_are_compared(data, forest):
    X, _, others, _ = data
    assert "the noise explains" in match_training(forest, X).checked
    with pytest.raises(Mismatch, match="more than its noise explains"):
        match_training(forest, others[:60])


def test_where_nothing_can_be_compared_that_is_said(data, forest):
    X, y, _, _ = data
    first = replace(forest, trees=forest.trees[:1], sampling=Disjoint())
    assert match_training(first, X, y).checked.startswith("not compared")
    # Of trees that each saw their own rows, all counts together add up to the number of rows.
    with pytest.raises(Mismatch, match="these are 60 rows, but the noisy counts add up to"):
        match_training(replace(forest, sampling=Disjoint()), X, y)


# -------------------------------------------------------------------------------- the audit


@pytest.fixture(scope="module")
def plain(data):
    """Some answer, to be dressed up as one from noisy counts."""
    X, y, _, schema = data
    model = RandomForestClassifier(40, bootstrap=False, random_state=0).fit(X, y)
    return treeleak.reconstruct(model, schema)


def audited(attack_is, plain, data, rows, *, control=True, train=True, epsilon=5.0, **options):
    X, y, others, schema = data
    rebuilt = replace(
        plain, status="likely", evidence="noisy counts", misfit=123.0, X=rows,
        proved=plain.proved[: len(rows)] & False, confidence=plain.confidence[: len(rows)] * 0.9,
        y=plain.y[: len(rows)],
        row_count=RowCount(len(rows), (50, 70), "inferred from the noisy counts"),
    )  # fmt: skip
    attack_is(lambda *_args, **_more: rebuilt)
    given = (X, y) if train else ()
    model = fitted(data, epsilon, **options)
    return treeleak.audit(
        model, *given, schema=schema, control=others if control else None, time_limit=120
    )


def shown(audit):
    out = io.StringIO()
    render(audit, Console(file=out, width=80))
    return " ".join(out.getvalue().replace("│", " ").split())


@pytest.mark.slow
@pytest.mark.usefixtures("few_guesses")
def test_an_audit_of_noisy_counts(attack_is, plain, data):
    X, _, _, _ = data
    rows = X.sample(frac=1, random_state=0).reset_index(drop=True)
    found = audited(attack_is, plain, data, rows)
    assert found.verdict == LEAK
    assert found.counts is None
    assert dict(found.not_assessed) == {
        "counts": "the counts carry noise",
        "shadows": "shadow models need 80 training rows or more, not 60",
    }
    assert found.budget.cost == pytest.approx(5.0)
    assert found.measurement.significance.rank == 1 / 101
    document = valid(json.loads(found.to_json()))
    assert document["budget"]["stated"] == pytest.approx(5.0)
    (remark,) = (f for f in found.findings if f.part == "noise")
    assert remark.verdict is None
    text = shown(found)
    for said in (
        "Not assessed: the counts carry noise.",
        "Stated: epsilon = 5. It costs 5",
        "Noise between these rows and the counts, in sum 123",
        "Training rows 60 (95 %: 50 to 70)",
        "by no more than the noise explains",
        "Spend a smaller epsilon",
        "Grow fewer and shallower trees",
    ):
        assert said in text
    for unsaid in ("tree drew", "the same as the model's", "proved, as", "Train with differential"):
        assert unsaid not in text
    assert not any("discrete Laplace noise, as" in a for a in found.advice)


@pytest.mark.slow
@pytest.mark.usefixtures("few_guesses")
def test_noise_that_costs_more_than_stated_is_named(attack_is, plain, data):
    found = audited(attack_is, plain, data, data[0], mechanism="draft-dp")
    assert found.budget.overspent
    assert found.budget.cost == pytest.approx(5 + 10 * math.log(2))
    assert any(a.startswith("Use discrete Laplace noise") for a in found.advice)
    assert "Stated: epsilon = 5. It costs 11.93, 239% of that" in shown(found)


@pytest.mark.slow
@pytest.mark.usefixtures("few_guesses")
def test_what_is_likely_of_the_population_only_is_no_leak(attack_is, plain, data):
    _, _, others, _ = data
    rows = others.sample(60, random_state=1).reset_index(drop=True)
    found = audited(attack_is, plain, data, rows)
    assert found.measurement.error < found.measurement.guess_mean - 3 * found.measurement.guess_sd
    assert found.verdict == NO_LEAK
    assert "attributable to the model" not in found.headline
    assert "control s" in found.headline
    # Without rows of the population the two cannot be told apart for sure.
    without = audited(attack_is, plain, data, rows, control=False)
    assert without.verdict in (POSSIBLE, NO_LEAK)
    assert ("(--control) can decide this" in without.headline) == (without.verdict == POSSIBLE)
    assert dict(without.not_assessed)["population"].startswith("no rows of the population")


def test_likely_rows_without_training_rows_prove_nothing(attack_is, plain, data):
    found = audited(attack_is, plain, data, data[0], control=False, train=False)
    assert found.verdict == OPEN
    assert "60 rows. They are probabilistic: it proves none" in found.headline
    valid(json.loads(found.to_json()))


@pytest.mark.slow
@pytest.mark.usefixtures("few_guesses")
def test_a_wrong_number_of_rows_is_measured(attack_is, plain, data):
    found = audited(attack_is, plain, data, data[0][:52], train=True)
    assert found.measurement.individual.all.n_rows == 60
    assert 0.6 < found.measurement.exact_rows < 1
    assert any("The attack rebuilt 52 rows; there are 60 training rows" in n for n in found.notes)


@pytest.mark.slow
def test_pandas_keeps_its_columns_in_part_of_a_control():
    """A control with the label in it is taken without a word about the columns it shares."""
    compas = treeleak.datasets.load_compas()
    X, y = compas.X[:40], compas.y[:40]
    forest = RandomForestClassifier(20, bootstrap=False, random_state=0).fit(X, y)
    other = pd.concat([compas.X[40:], compas.y[40:].rename("label")], axis=1)
    found = treeleak.audit(forest, X, y, schema=compas.schema, control=other)
    assert found.measurement.significance is not None
    assert any("the control rows" in n and "'label'" in n for n in found.notes)
