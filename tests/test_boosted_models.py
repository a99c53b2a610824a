"""What a run of the benchmark of boosted models measures."""

import json

import pytest

import treeleak
from experiments import boosted_models


@pytest.fixture
def small(instead):
    """COMPAS as the package brings it, which is not downloaded."""
    own = treeleak.datasets.load_compas()
    instead("table", lambda _: own, boosted_models)


@pytest.mark.parametrize("model", ["HistGradientBoosting", "GradientBoosting"])
def test_a_run_is_measured_beside_other_rows_and_random_ones(small, model):
    record = boosted_models.run(boosted_models.Case(model, "compas", 40, 0, 10.0))
    json.dumps(record)
    assert record["right"] == 1.0
    assert record["wrong"] == 0
    assert 0 < record["others"] < 1
    assert 0 <= record["error"] < record["guess"]
    assert record["expected_error"] is not None


def test_a_run_without_an_answer_is_a_record_too(small, instead):
    def refuse(*_, **__):
        raise treeleak.errors.TimeUp("too late")

    instead("reconstruct", refuse)
    record = boosted_models.run(boosted_models.Case("GradientBoosting", "compas", 40, 0, 5.0))
    assert record["status"] == "refused"
    assert record["notes"] == ["too late"]
    assert record["right"] is record["error"] is None
    assert record["guess"] > 0
