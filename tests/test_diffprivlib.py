"""Forests of diffprivlib: recorded ones, and live ones where it is installed.

``make test-diffprivlib`` runs this file in an environment with diffprivlib.
"""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import skops.io
from scipy.stats import chi2

from helpers.releases import assert_same
from treeleak.core.errors import BadModel
from treeleak.release import (
    AllRows,
    Disjoint,
    Release,
    StoredObject,
    UnknownSampling,
    read_model,
    to_release,
)
from treeleak.release.adapters.private import MIXED_UP, SEEDED, WARM
from treeleak.release.noise.laws import LabelNoise

MODELS = Path(__file__).parent / "models"
ROWS = json.loads((MODELS / "diffprivlib_0.6.6.json").read_text(encoding="utf-8"))
X, Y = np.array(ROWS["X"]), np.array(ROWS["y"])


def model(name: str) -> StoredObject:
    stored = read_model(MODELS / f"diffprivlib_0.6.6_{name}.skops")
    assert isinstance(stored, StoredObject)
    return stored


def with_state(stored: StoredObject, **state: Any) -> StoredObject:
    return replace(stored, state={**stored.state, **state})


def each_tree(stored: StoredObject, **state: Any) -> StoredObject:
    return with_state(
        stored, estimators_=[with_state(t, **state) for t in stored.state["estimators_"]]
    )


def names_the_majority(release: Release, parts: list[np.ndarray], y: np.ndarray = Y) -> bool:
    """Whether the leaves that hold rows name one of the largest classes among them."""
    for tree, part in zip(release.trees, parts, strict=True):
        counts = np.zeros_like(tree.counts)
        np.add.at(counts, (tree.apply(X[part]), y[part]), 1)
        if (counts[tree.counts == 1] < counts[tree.leaves].max(axis=1)).any():
            return False
    return True


def test_each_leaf_names_the_largest_class_of_the_rows_of_its_tree():
    release = to_release(model("certain"))
    assert release.sampling == Disjoint()
    assert release.counts_are == "labels"
    assert release.noise == LabelNoise("permute-and-flip", 1e6)
    assert (release.n_rows, release.not_covered, release.float_type) == (None, None, "float32")
    assert release.classes == (0, 1, 2)
    assert len(release.trees) == 4
    everybody = np.arange(len(X))
    assert names_the_majority(release, np.split(everybody, 4))
    assert not names_the_majority(release, [everybody] * 4)
    assert not names_the_majority(release, np.split(everybody[::-1], 4))


def test_the_weight_of_a_row_is_the_budget_the_trees_were_grown_with():
    stored = model("private")
    assert to_release(stored).noise == LabelNoise("permute-and-flip", 0.75)
    assert to_release(with_state(stored, epsilon=9.0)).noise == LabelNoise("permute-and-flip", 0.75)
    assert to_release(each_tree(stored, epsilon=math.inf)).noise == LabelNoise("majority")


def test_seeds_in_the_file_are_told():
    stored = model("private")
    assert SEEDED in to_release(stored).notes
    assert SEEDED in to_release(each_tree(stored, random_state=None)).notes
    bare = with_state(each_tree(stored, random_state=None), random_state=None)
    assert SEEDED not in to_release(bare).notes


def test_what_cannot_be_told_is_said():
    stored = model("private")
    warm = to_release(with_state(stored, warm_start=True))
    assert warm.sampling == UnknownSampling(WARM)
    assert warm.not_covered == WARM
    for classes in ([1, 2, 3], ["a", "b", "c"], [2, 1, 0]):
        release = to_release(with_state(stored, classes_=np.array(classes)))
        assert release.not_covered == MIXED_UP


def test_a_single_tree_sees_every_row():
    release = to_release(model("private").state["estimators_"][0])
    assert release.sampling == AllRows()
    assert len(release.trees) == 1


def test_damaged_forests_say_where():
    stored = model("private")
    first, *others = stored.state["estimators_"]
    inner = first.state["tree_"]
    values = inner.state["values"]
    twice, none, half = values.copy(), np.zeros_like(values), values / 2
    twice[-1] = 1.0

    def broken(**state: Any) -> StoredObject:
        tree = with_state(first, tree_=with_state(inner, **state))
        return with_state(stored, estimators_=[tree, *others])

    for wrong, says in (
        (broken(values=twice), "tree 0, node 6: counts name not exactly one"),
        (broken(values=none), "tree 0, node 2: counts name not exactly one"),
        (broken(values=half), "tree 0, node 2: counts name not exactly one"),
        (broken(values=values[:, :, :2]), "tree 0"),
        (broken(values=np.repeat(values, 2, axis=1)), "tree 0 has 2 targets"),
        (broken(values=None), "tree 0: no values"),
        (broken(nodes=inner.state["nodes"][:-1]), "tree 0: no values"),
        (each_tree(stored, epsilon=0), "noise: scale is 0.0"),
        (each_tree(stored, epsilon=math.nan), "noise: scale is nan"),
        (each_tree(stored, epsilon=None), "stored in an unknown way"),
        (each_tree(stored, epsilon=[1]), "stored in an unknown way"),
        (
            with_state(stored, estimators_=[with_state(first, epsilon=1.0), *others]),
            r"different budgets: \[0\.75, 1\.0\]",
        ),
    ):
        with pytest.raises(BadModel, match=says):
            to_release(wrong)


# ------------------------------------------------------------------- with diffprivlib itself


@pytest.fixture(name="forest")
def _forest() -> Any:
    models = pytest.importorskip("diffprivlib.models")

    def train(X: Any, y: Any, *, max_depth: int = 2, classes: Any = (0, 1, 2), **options: Any):
        made = models.RandomForestClassifier(
            bounds=(0, 1), classes=list(classes), max_depth=max_depth, **options
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return made.fit(X, y)

    return train


def test_live_and_saved_forests_are_one_release(forest: Any, tmp_path: Path):
    fitted = forest(X, Y, n_estimators=3, epsilon=2.0)
    release = to_release(fitted)
    assert release.noise == LabelNoise("permute-and-flip", 2.0)
    assert release.sampling == Disjoint()
    assert release.not_covered is None
    assert SEEDED in release.notes
    skops.io.dump(fitted, tmp_path / "model.skops")
    joblib.dump(fitted, tmp_path / "model.joblib")
    for name in ("model.skops", "model.joblib"):
        assert_same(to_release(tmp_path / name, trust_pickle=True), release)


def test_live_trees_see_parts_of_the_rows(forest: Any):
    parts = np.array_split(np.arange(len(X)), 4)
    for _ in range(20):
        assert names_the_majority(to_release(forest(X, Y, n_estimators=4, epsilon=1e6)), parts)


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_live_labels_follow_permute_and_flip(forest: Any, epsilon: float):
    # Each tree sees three rows of class 0 and one of class 1, all alike.
    n = 3000
    release = to_release(
        forest(
            np.zeros((4 * n, 1)), np.tile([0, 0, 1, 0], n), n_estimators=n, epsilon=epsilon,
            classes=(0, 1), max_depth=1, random_state=5,
        )
    )  # fmt: skip
    named = np.array([t.counts[t.apply(np.zeros((1, 1)))[0]].argmax() for t in release.trees])
    # The smaller class comes first half of the time, and is then kept by its weight.
    less = math.exp(-2 * release.noise.scale) / 2
    expected = n * np.array([1 - less, less])
    statistic = ((np.bincount(named, minlength=2) - expected) ** 2 / expected).sum()
    assert statistic < chi2.ppf(0.999, 1)


def test_live_trees_can_be_grown_again_from_their_seeds(forest: Any):
    fitted = forest(X, Y, n_estimators=3, epsilon=1.0)
    for tree, part in zip(fitted.estimators_, np.array_split(np.arange(len(X)), 3), strict=True):
        again = type(tree)(max_depth=2, epsilon=1.0, random_state=tree.random_state)
        again.set_params(bounds=tree.bounds, classes=[0, 1, 2])
        again.fit(X[part], Y[part])
        assert np.array_equal(again.tree_.feature, tree.tree_.feature)
        assert np.array_equal(again.tree_.value, tree.tree_.value)


def test_live_forests_mix_up_labels_that_are_no_numbers_from_zero(forest: Any):
    label = (X[:, 0] > 0).astype(int)
    parts = np.array_split(np.arange(len(X)), 2)
    for classes, covered in (((0, 1), True), ((1, 2), False), (("a", "b"), False)):
        fitted = [
            forest(X, np.array(classes)[label], n_estimators=2, epsilon=1e6, classes=classes)
            for _ in range(10)
        ]
        releases = [to_release(f) for f in fitted]
        assert all((r.not_covered is None) == covered for r in releases)
        assert all(names_the_majority(r, parts, label) for r in releases) == covered
