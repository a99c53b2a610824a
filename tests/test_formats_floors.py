"""The benchmark of other formats: what is right meets its floors, and nothing else does."""

from __future__ import annotations

import json
import re

import numpy as np

from experiments.benchmarks import formats
from experiments.benchmarks.formats import MODELS
from treeleak.release import to_release

OUTCOMES = MODELS / "outcomes"
OLD = MODELS / "printed" / "xgboost-1.7.6"


def test_objects_of_r_meet_their_floors():
    lines = formats.objects()
    assert [line["measured"] for line in lines] == ["12 of 12", "12 of 12", "10 of 10"]
    assert all(line["met"] for line in lines)


def test_an_event_time_that_is_false_misses_the_floor():
    truth = json.loads((OUTCOMES / "truth.json").read_text())
    time, event = np.array(truth["time"]), np.array(truth["event"])
    found = to_release(OUTCOMES / "forest.skops")
    times, _ = formats.outcomes("x", 0, found, event, time)
    assert times["met"]
    times, status = formats.outcomes("x", 0, found, event, np.where(time == time[0], 0.5, time))
    assert not times["met"]
    assert not status["met"]
    (none,) = formats.outcomes(
        "x", 0, to_release(OUTCOMES / "all_rows.joblib", trust_pickle=True), event, time
    )
    assert (none["met"], none["measured"]) == (False, "no answer")


def test_rows_of_an_old_binary_are_held_against_those_of_json(tmp_path):
    assert formats.same_rows(OLD / "logistic.json", OLD / "logistic.model", 60) == 1
    printed = MODELS / "printed" / "xgboost-3.2.0" / "squared.printed.json"
    bare = tmp_path / "bare.json"
    bare.write_text(re.sub(r'\s*, "(gain|cover)": [-\d.e]+', "", printed.read_text()))
    assert formats.same_rows(bare, bare, 20) is None
