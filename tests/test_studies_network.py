"""The reconstructor network: its gradients, its optimizer, what it learns, what is said of it."""

import numpy as np
import pytest

from experiments.studies import network, reconstructor
from experiments.studies.dp_runs import informed_forest
from experiments.studies.network import Network, Training, train
from helpers.tables import shared_file

pytestmark = pytest.mark.slow


def loss(own, inputs, outputs):
    logits = own.logits(inputs).astype(float)
    return float((np.logaddexp(0, logits) - outputs * logits).mean())


def test_gradients_are_those_of_the_loss():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(6, 5))
    outputs = (rng.random((6, 3)) < 0.5).astype(float)
    own = Network.start((5, 8, 7, 3), rng)
    own.weights = [w.astype(float) + 0.1 * rng.normal(size=w.shape) for w in own.weights]
    found = own.gradients(inputs, outputs)
    assert len(found) == len(own.weights) == 10
    for weight, slope in zip(own.weights, found, strict=True):
        assert slope.shape == weight.shape
        for at in [tuple(rng.integers(weight.shape)) for _ in range(4)]:
            before, step, sides = weight[at], 1e-5, []
            for moved in (before + step, before - step):
                weight[at] = moved
                sides.append(loss(own, inputs, outputs))
            weight[at] = before
            assert slope[at] == pytest.approx((sides[0] - sides[1]) / (2 * step), abs=1e-6)


def test_steps_are_those_of_adamw():
    """By hand: each step goes by the rate where the slope stays, and the weight itself shrinks."""
    how = Training(rate=0.1, decay=0.5)
    weight, mean, square = np.ones(2), np.zeros(2), np.zeros(2)
    slope = np.array([3.0, -0.5])
    for step in (1, 2):
        network._step([weight], [slope], [mean], [square], step, how)
    first = 1 * (1 - 0.05) - 0.1 * np.sign(slope)
    assert weight == pytest.approx(first * (1 - 0.05) - 0.1 * np.sign(slope), abs=1e-6)


def test_a_network_learns_what_inputs_say_and_draws_nothing_else():
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(800, 6)).astype(np.float32)
    outputs = np.column_stack([inputs[:, 0] > 0, inputs[:, 1] * inputs[:, 2] > 0])
    fitted = [train(inputs[:600], outputs[:600], np.random.default_rng(3), (64, 32), Training(40))
              for _ in range(2)]  # fmt: skip
    right = ((fitted[0].logits(inputs[600:]) > 0) == outputs[600:]).mean(axis=0)
    assert (right > 0.9).all()
    assert all(map(np.array_equal, fitted[0].weights, fitted[1].weights))


@pytest.fixture
def small(monkeypatch, instead):
    monkeypatch.setenv("TREELEAK_DATA", str(shared_file("draft_compas.csv").parent))
    instead("train", lambda x, y, rng: train(x, y, rng, (128, 64)), reconstructor)
    return {"dataset": "compas", "seed": 0, "mechanism": "draft-dp", "n_targets": 30, "n_trees": 10,
            "depth": 5}  # fmt: skip


def test_a_shadow_forest_is_the_forest_with_another_row(small):
    """What is drawn is what a forest with these trees would state, trained on that row."""
    data, chosen, forest = informed_forest(small | {"epsilon": 1e4})
    places = reconstructor._places(forest, data.X[list(forest.feature_names_in_)], data.y)
    stated = reconstructor._released(forest)
    counted = np.bincount(places[chosen].ravel(), minlength=len(stated))
    # Noise of this budget is cut off to nothing.
    assert np.array_equal(counted, stated)
    lacking = stated - counted
    seen = reconstructor._added(np.tile(lacking, (2, 1)), places[chosen[:2]])
    assert seen.sum(axis=1).tolist() == [10, 10]
    assert np.array_equal(np.flatnonzero(seen[0]), np.sort(places[chosen[0]]))


def test_the_network_does_no_better_than_the_posterior_and_tells_rows_without_noise(small):
    records = {e: reconstructor.against_network(small | {"epsilon": e}) for e in (10.0, 1000.0)}
    for record in records.values():
        assert record["exact"] <= record["error"] + 0.02
    assert records[1000.0]["error"] < 0.5 * records[10.0]["error"]
    assert records[1000.0]["error"] < records[1000.0]["majority"]
