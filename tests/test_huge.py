"""Numbers that no float holds are written all the same."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier

from treeleak.core.text import bounded, short
from treeleak.partition import Geometry, GridTooLarge
from treeleak.partition.cells import enumerate_cells
from treeleak.release import to_release
from treeleak.release.infer_schema import infer_schema


def test_numbers_of_any_size_are_written():
    texts = {
        0: "0",
        999_999: "999,999",
        1_234_567: "1.23e+06",
        10**400: "more than 10^399",
        10**9000: "more than 10^8999",
    }
    for number, text in texts.items():
        assert short(number) == text


def test_what_is_bounded_can_be_written_as_json():
    assert json.loads(json.dumps(bounded(10**9000))) == 10**300
    assert bounded(7) == 7


def test_a_grid_of_more_points_than_a_float_holds_is_no_error():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 500)), rng.integers(0, 2, 200)
    release = to_release(ExtraTreesClassifier(100, random_state=0).fit(X, y))
    geometry = Geometry.of(release, infer_schema(release))
    with pytest.raises(OverflowError):
        float(geometry.n_points)
    open_leaves = np.ones((int(geometry.leaf_start[-1]), 2), dtype=bool)
    with pytest.raises(GridTooLarge, match=r"has more than 10\^\d+ points"):
        enumerate_cells(geometry, open_leaves)
