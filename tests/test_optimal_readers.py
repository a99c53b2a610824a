"""Trees of pystreed and pydl8.5: stored ones, and live ones where the packages are installed.

``make test-optimal`` runs this file in an environment with both.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import treeleak
from treeleak.core.errors import BadInput, BadModel, Mismatch, NotCovered
from treeleak.release import AllRows, Release, StoredObject, snapshot, to_release
from treeleak.release.adapters.optimal import UNCOUNTED, UNNAMED
from treeleak.verification.training_rows import counted, match_training

RNG = np.random.default_rng(6)
BITS = RNG.integers(0, 2, (120, 5))
LABEL = np.where(BITS[:, 2], BITS[:, 0], BITS[:, 1]) ^ (RNG.random(120) < 0.1)
MIXED = pd.DataFrame(
    {
        "age": RNG.integers(18, 70, 120),
        "owner": RNG.integers(0, 2, 120),
        "job": RNG.choice(["clerk", "driver", "nurse"], 120),
        "income": RNG.random(120).round(3),
    }
)
AGED = (
    ((MIXED["age"] > 40) & (MIXED["owner"] == 1) | (MIXED["income"] > 0.7)).astype(int).to_numpy()
)
TASKS = ["accuracy", "cost-complex-accuracy", "balanced-accuracy", "f1-score", "accuracy-flex"]


def streed(X: Any, y: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = pytest.importorskip("pystreed")
        return package.STreeDClassifier(**{"max_depth": 3} | options).fit(X, y)


def dl85(X: Any, y: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = pytest.importorskip("pydl85")
        return package.DL85Classifier(**{"max_depth": 3} | options).fit(X, y)


def leaf_says(release: Release, X: Any, y: Any, predicted: Any) -> None:
    """Every leaf predicts one thing, and mostly the class that most of its rows have."""
    (tree,) = counted(release, X, y).trees
    columns = (
        [X.columns.get_loc(c) for c in release.feature_names] if hasattr(X, "columns") else ...
    )
    rows = X.to_numpy()[:, columns].astype(float) if hasattr(X, "columns") else X
    at = tree.apply(rows)
    said = np.array([release.classes.index(v) for v in predicted])
    for leaf in np.unique(at):
        assert len(set(said[at == leaf])) == 1
        assert tree.counts[leaf][said[at == leaf][0]] == tree.counts[leaf].max()
    assert len(set(zip(at, said, strict=True))) > 2


@pytest.mark.parametrize("task", ["accuracy", "cost-complex-accuracy", "accuracy-flex"])
@pytest.mark.parametrize("labels", [(0, 1), (3, 7)])
def test_live_streed(task: str, labels: tuple[int, int]) -> None:
    y = np.array(labels)[LABEL]
    model = streed(BITS, y, optimization_task=task)
    release = to_release(model)
    assert release.feature_names == ("x0", "x1", "x2", "x3", "x4")
    assert release.classes == labels
    assert release.n_rows == 120
    assert release.sampling == AllRows()
    leaf_says(release, BITS, y, model.predict(BITS))
    again = counted(release, BITS, y)
    assert np.array_equal(release.trees[0].counts, again.trees[0].counts)
    assert np.array_equal(release.trees[0].distinct, again.trees[0].distinct)
    match_training(release, BITS, y)


@pytest.mark.parametrize("task", TASKS)
def test_every_task_of_streed_is_read(task: str) -> None:
    release = to_release(streed(BITS, LABEL, optimization_task=task))
    assert release.trees[0].counts[0].tolist() == np.bincount(LABEL).tolist()


@pytest.mark.parametrize("strategy", ["quantile", "uniform", "tree"])
def test_streed_makes_tests_of_numbers(strategy: str) -> None:
    X = MIXED.drop(columns="job")
    model = streed(X, AGED, continuous_binarize_strategy=strategy)
    release = to_release(model)
    assert set(release.feature_names) == set(X)
    assert len({f for f in release.trees[0].feature if f >= 0}) >= 2
    leaf_says(release, X, AGED, model.predict(X))
    match_training(release, X, AGED)
    array = streed(X.to_numpy(), AGED, continuous_binarize_strategy=strategy)
    assert to_release(array).feature_names == ("x0", "x1", "x2")
    match_training(to_release(array), X.to_numpy(), AGED)


def test_streed_leaves_texts_out_unless_it_tests_them() -> None:
    X = MIXED[["age", "owner", "job", "income"]]
    release = to_release(streed(X, (MIXED["age"] > 40).astype(int), max_depth=1))
    assert set(release.feature_names) == {"age", "owner", "income"}
    assert "'job'" in release.notes[0]
    match_training(release, X, (MIXED["age"] > 40).astype(int))
    with pytest.raises(NotCovered, match="column 'job'"):
        to_release(streed(X, (MIXED["job"] == "nurse").astype(int)))
    with pytest.raises(NotCovered, match="max_num_binary_features"):
        to_release(streed(X, AGED, max_num_binary_features=3))


def test_streed_keeps_its_training_rows_and_the_audit_says_so() -> None:
    result = treeleak.audit(streed(BITS, LABEL), time_limit=5)
    entries = [e for e in result.inventory if "train_X_" in e.names]
    assert [e.mark for e in entries] == ["leaks"]
    assert entries[0].rows


def test_live_dl85() -> None:
    model = dl85(BITS, LABEL)
    release = to_release(model)
    assert release.trees[0].counts is None
    assert release.counts_are == "none"
    assert release.notes == (UNCOUNTED, UNNAMED)
    frame = pd.DataFrame(BITS, columns=list("abcde"))
    named = replace(release, feature_names=tuple(frame))
    leaf_says(named, frame, LABEL, model.predict(BITS))
    full = counted(named, frame[list("edcba")], LABEL)
    assert full.counts_are == "rows"
    assert full.n_rows == 120
    wrong = sum(c.sum() - c.max() for c in full.trees[0].counts[full.trees[0].leaves])
    assert wrong == model.error_
    with pytest.raises(Mismatch):
        counted(named, frame.drop(columns="a"), LABEL)


@pytest.mark.parametrize(("make", "name"), [(streed, "STreeD"), (dl85, "DL85")])
def test_not_fitted(make: Any, name: str) -> None:
    model = type(make(BITS, LABEL))()
    with pytest.raises(BadInput, match=f"{name}Classifier is not fitted"):
        to_release(model)


def stored_dl85(tree: Any, **more: Any) -> StoredObject:
    state = {"tree_": tree, "classes_": np.array([0, 1])} | more
    return StoredObject("pydl85.supervised.classifiers.classifier.DL85Classifier", state)


def test_stored_dl85() -> None:
    leaf = {"value": 0, "error": 1}
    release = to_release(stored_dl85({"feat": 1, "left": leaf, "right": {"value": 1, "error": 0}}))
    assert release.feature_names == ("x0", "x1")
    assert release.classes == (0, 1)
    full = counted(release, np.array([[0, 1], [0, 1], [1, 0]]), [0, 0, 1])
    assert full.trees[0].counts.tolist() == [[2, 1], [0, 1], [2, 0]]
    assert full.trees[0].distinct.tolist() == [3, 1, 2]
    unlabelled = counted(release, np.array([[0, 1], [0, 1], [1, 0]]))
    assert unlabelled.counts_are == "none"
    assert unlabelled.trees[0].totals.tolist() == [3, 1, 2]
    assert to_release(stored_dl85(leaf)).feature_names == ()


def test_damaged_dl85() -> None:
    leaf = {"value": 0, "error": 1}
    with pytest.raises(BadInput, match="found no tree"):
        to_release(stored_dl85(None))
    for tree in (
        {"feat": 1, "left": leaf},
        {"feat": "a", "left": leaf, "right": leaf},
        {"feat": -5, "left": leaf, "right": leaf},
        {"feat": 10**12, "left": leaf, "right": leaf},
        {"feat": float("nan"), "left": leaf, "right": leaf},
        {"feat": 1, "left": leaf, "right": 7},
    ):
        with pytest.raises(BadModel):
            to_release(stored_dl85(tree))
    many: Any = leaf
    for _ in range(40):
        many = {"feat": 0, "left": many, "right": many}
    with pytest.raises(BadModel, match="more than"):
        to_release(stored_dl85(many))


class AccuracyTree:
    """Like pystreed's own: what it holds, pickle does not see."""

    __slots__ = ("_below",)

    def __init__(self, *below: Any) -> None:
        self._below = below

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("cannot pickle")

    @property
    def num_instances_per_class(self) -> list[int]:
        if self._below:
            return [
                sum(n) for n in zip(*(c.num_instances_per_class for c in self._below), strict=True)
            ]
        return [1, 2]

    feature = 0
    label = 1

    def is_leaf_node(self) -> bool:
        return not self._below

    @property
    def left_child(self) -> Any:
        return self._below[0]

    @property
    def right_child(self) -> Any:
        return self._below[1]


def test_objects_that_cannot_be_pickled_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    root = AccuracyTree(AccuracyTree(), AccuracyTree())
    monkeypatch.setattr(AccuracyTree, "__module__", "pystreed.cstreed")
    binarizer = {"binary_columns": ["a"], "categorical_columns": [], "continuous_columns": []}
    release = to_release(
        StoredObject(
            "pystreed.classification.STreeDClassifier",
            {
                "tree_": snapshot(root),
                "classes_": [0, 1],
                "binarizer_": StoredObject("pystreed.binarizer.Binarizer", binarizer),
            },
        )
    )
    assert release.feature_names == ("a",)
    assert release.trees[0].counts.tolist() == [[2, 4], [1, 2], [1, 2]]
    assert release.trees[0].threshold[0] == 0.5
