"""The forest keeps its budget, learns, and leaves nothing of the rows but noisy counts."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import random
import re
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import treeleak.learn.forest as module
from helpers.examples import examples
from helpers.noise import fits
from helpers.releases import assert_same
from treeleak.core.errors import BadInput, BadSchema, PrivacyWarning
from treeleak.learn import DPForestClassifier
from treeleak.learn.random_trees import columns_of, random_tree
from treeleak.release import StoredObject, snapshot, to_release
from treeleak.release.noise.laws import DiscreteLaplace, Laplace
from treeleak.release.sampling import AllRows
from treeleak.schema import AtMost, Attribute, Binary, Categorical, Numeric, OneHot, Ordinal, Schema

SCHEMA = Schema(
    [Ordinal("age", 18, 99), Binary("smoker"), OneHot("job", ("cook", "judge", "other"))]
)
N = 977


def table(n: int = N, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.integers(18, 100, n), "smoker": rng.integers(0, 2, n)})
    X[["cook", "judge", "other"]] = np.eye(3, dtype=int)[rng.integers(0, 3, n)]
    return X, np.array(["ill", "well"])[(X.smoker == 0).astype(int)]


def seeded(seed: int = 0, **options: Any) -> DPForestClassifier:
    return DPForestClassifier(
        **({"schema": SCHEMA, "classes": ["ill", "well"], "random_state": seed} | options)
    )


def fitted(X: Any, y: Any, **options: Any) -> DPForestClassifier:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return seeded(**options).fit(X, y)


def true_counts(forest: DPForestClassifier, X: Any, y: Any) -> list[np.ndarray]:
    out = []
    for tree in forest.trees_:
        counts = np.zeros_like(tree.counts)
        leaf = tree.apply(np.asarray(X, dtype=float))
        np.add.at(counts, (leaf, np.searchsorted(forest.classes_, y)), 1)
        out.append(counts)
    return out


# ------------------------------------------------------------------------------ the mechanism


@examples(25, fast=4)
@given(n=st.integers(1, 30), gone=st.integers(0, 29), seed=st.integers(0, 99))
def test_one_row_more_changes_one_count_of_each_tree_by_one(n: int, gone: int, seed: int):
    X, y = table(n, seed)
    keep = np.arange(n) != gone % n
    both = [fitted(*data, seed=seed) for data in ((X, y), (X[keep], y[keep]))]
    for mine, other in zip(*(f.trees_ for f in both), strict=True):
        assert np.array_equal(mine.feature, other.feature)
        assert np.array_equal(mine.threshold, other.threshold, equal_nan=True)
        change = mine.counts - other.counts
        assert sorted(change[change != 0]) == [1.0]


@pytest.mark.parametrize("mechanism", ["discrete-laplace", "draft-dp"])
@pytest.mark.parametrize("epsilon", [0.1, 1, Fraction(7, 3), 30.0])
def test_the_whole_forest_loses_what_it_says_and_no_more(mechanism: str, epsilon: float):
    X, y = table(50)
    forest = fitted(X, y, epsilon=epsilon, n_estimators=7, mechanism=mechanism)
    with_row, without = true_counts(forest, X, y), true_counts(forest, X[1:], y[1:])
    greatest = 0.0
    # Noise is independent, so the loss of an output is a sum; each count may take its worst value.
    for a, b in zip(with_row, without, strict=True):
        leaves = np.flatnonzero((a != b).any(axis=1))
        assert len(leaves) == 1
        seen = np.arange(-60, 120)[:, None]
        p, q = (forest.noise_.log_prob(seen - n[leaves]).sum(axis=1) for n in (a, b))
        greatest += np.abs(p - q).max()
    assert greatest == pytest.approx(forest.epsilon_spent_)
    extra = 7 * math.log(2) if mechanism == "draft-dp" else 0.0
    assert forest.epsilon_spent_ == pytest.approx(float(epsilon) + extra)


def test_the_budget_is_split_exactly():
    assert fitted(*table(9), epsilon=0.1, n_estimators=3).noise_ == DiscreteLaplace(
        float(Fraction(0.1) / 3)
    )
    assert fitted(*table(9), epsilon=0.1, mechanism="draft-dp").noise_ == Laplace(
        float(Fraction(0.1) / 10), "towards zero"
    )
    assert fitted(*table(9), epsilon=0.1).epsilon_spent_ == 0.1


@pytest.mark.parametrize("mechanism", ["discrete-laplace", "draft-dp"])
def test_counts_without_rows_are_noise_of_the_stated_law(instead, mechanism: str):
    # The secure source, replaced by one that gives the same numbers each time.
    instead("SystemRandom", lambda: random.Random(11), module.secrets)
    X, y = table(0)
    forest = DPForestClassifier(
        200, 4, 100, schema=SCHEMA, classes=["ill", "well"], mechanism=mechanism
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        forest.fit(X, y)
    draws = np.concatenate([t.counts[t.leaves].ravel() for t in forest.trees_])
    assert len(draws) > 2000
    fits(draws.astype(int).tolist(), forest.noise_)


def test_without_a_seed_the_secure_source_is_the_only_one(instead):
    made = []

    class Source(random.SystemRandom):
        def __init__(self) -> None:
            made.append(self)

    instead("SystemRandom", Source, module.secrets)
    np.random.seed(0)  # noqa: NPY002
    random.seed(0)
    before = pickle.dumps((np.random.get_state(), random.getstate()))  # noqa: NPY002
    X, y = table(5)
    forests = [DPForestClassifier(schema=SCHEMA, classes=["ill", "well"]).fit(X, y) for _ in "ab"]
    assert len(made) == 2
    assert pickle.dumps((np.random.get_state(), random.getstate())) == before  # noqa: NPY002
    first, second = (np.concatenate([t.feature for t in f.trees_]) for f in forests)
    assert not np.array_equal(first, second)


# ---------------------------------------------------------------------------------- the trees


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    attributes: list[Attribute] = []
    for i in range(draw(st.integers(1, 4))):
        members = tuple(f"c{i}_{k}" for k in range(draw(st.integers(1, 3))))
        kinds = [
            Binary(f"c{i}"),
            Ordinal(f"c{i}", -1, draw(st.integers(-1, 2))),
            Categorical(f"c{i}", tuple(draw(st.sets(st.floats(-9, 9), min_size=1, max_size=3)))),
            OneHot(f"g{i}", members, draw(st.booleans())),
        ]
        attributes.append(draw(st.sampled_from(kinds)))
    return Schema(attributes)


def domain(attribute: Attribute) -> list[tuple[float, ...]]:
    match attribute:
        case Categorical(values=values):
            return [(v,) for v in values]
        case OneHot(members=members, at_most_one=at_most_one):
            none = [(0.0,) * len(members)] if at_most_one else []
            return none + [tuple(row) for row in np.eye(len(members))]
    low, high = map(int, attribute.bounds)
    return [(float(v),) for v in range(low, high + 1)]


@examples(60, fast=8)
@given(schemas(), st.integers(1, 5), st.integers(0, 999))
def test_every_leaf_can_be_reached_and_is_deep_or_settled(schema: Schema, depth: int, seed: int):
    # A test of what is settled already would leave a leaf that no row reaches.
    tree = random_tree(columns_of(schema), depth, 2, random.Random(seed))
    rows = np.array([sum(r, ()) for r in itertools.product(*map(domain, schema.attributes))])
    reached = np.bincount(tree.apply(rows), minlength=tree.n_nodes)[tree.leaves]
    assert (reached > 0).all()
    assert tree.depth.max() <= depth
    assert (reached[tree.depth[tree.leaves] < depth] == 1).all()
    assert not tree.counts.any()


# -------------------------------------------------------------------------------- prediction


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"n_estimators": 0}, "n_estimators must be at least 1"),
        ({"max_depth": 0}, "max_depth must be from 1 to 20"),
        ({"epsilon": 0}, "epsilon must be greater than 0"),
        ({"epsilon": 9e-6}, "epsilon / n_estimators is 9e-07"),
        ({"mechanism": "gaussian"}, "mechanism is 'gaussian'"),
        ({"schema": None}, "schema must be"),
        ({"schema": Schema([])}, "at least one attribute"),
        ({"classes": ["ill"]}, "two or more"),
        ({"classes": ["ill", "ill"]}, "two or more different labels"),
        ({"classes": ["ill", "dead"]}, "row 0 has a label that is not one of the classes"),
    ],
)
def test_wrong_parameters_are_named(options: dict, says: str):
    X, _ = table(5)
    with pytest.raises(BadInput, match=re.escape(says)):
        fitted(X, ["well"] * 5, **options)


def test_bounds_are_never_taken_from_the_rows():
    for low, high in ((-math.inf, 3.0), (0.0, math.inf)):
        with pytest.raises(BadSchema, match="'height' needs two finite bounds"):
            fitted([[1.0]], [0], schema=Schema([Numeric("height", low, high)]), classes=[0, 1])


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ([17, 0, 1, 0, 0], "row 1: ordinal 'age' is outside"),
        ([20.5, 0, 1, 0, 0], "row 1: ordinal 'age' is outside"),
        ([20, 2, 1, 0, 0], "row 1: binary 'smoker' is outside"),
        ([20, np.nan, 1, 0, 0], "row 1: binary 'smoker' is outside"),
        ([20, np.inf, 1, 0, 0], "row 1: binary 'smoker' is outside"),
        ([20, 0, 1, 1, 0], "row 1: one-hot 'job' is outside"),
        ([20, 0, 0, 0, 0], "row 1: one-hot 'job' is outside"),
        ([20, 1, 0, 1, 0], "row 1: a rule is broken"),
    ],
)
def test_rows_outside_the_schema_are_named(row: list, says: str):
    schema = Schema(SCHEMA.attributes, [AtMost(("smoker", "judge"))])
    X = np.array([[20, 0, 1, 0, 0], row])
    with pytest.raises(BadInput, match=says):
        fitted(X, ["ill", "ill"], schema=schema)
    with pytest.raises(BadInput, match=says):
        fitted(X[:1], ["ill"], schema=schema).predict(X)


# ------------------------------------------------------------------- as scikit-learn expects


def test_it_is_an_estimator():
    X, y = table(80)
    forest = seeded(3, epsilon=5.0)
    copied = clone(forest)
    mine, other = (f.get_params() for f in (forest, copied))
    assert mine.pop("schema").columns == other.pop("schema").columns
    assert mine == other
    with pytest.raises(NotFittedError):
        forest.predict(X)
    assert copied.set_params(max_depth=2).max_depth == 2
    before = forest.get_params()
    with pytest.warns(PrivacyWarning):
        assert forest.fit(X, y) is forest
    assert forest.get_params() == before
    assert forest.n_features_in_ == 5
    assert forest.feature_names_in_.tolist() == list(X.columns)
    assert forest.predict_proba(X).shape == (80, 2)
    np.testing.assert_allclose(forest.predict_proba(X).sum(axis=1), 1)
    assert clone(forest).random_state == 3


# ---------------------------------------------------------------------------- what is left of it


def parts(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, StoredObject):
        for part in (*value.state.values(), *value.args):
            yield from parts(part)
    elif isinstance(value, dict):
        for part in itertools.chain(value, value.values()):
            yield from parts(part)
    elif isinstance(value, (list, tuple, frozenset)):
        for part in value:
            yield from parts(part)


SEED = 1_618_033_988


@pytest.mark.parametrize("used", [False, True])
def test_a_fitted_forest_holds_no_count_no_seed_and_no_number_of_rows(tmp_path: Path, used: bool):
    X, y = table()
    forest = fitted(X, y, seed=SEED, epsilon=0.01)
    truth = true_counts(forest, X, y)
    if used:
        forest.predict(X)
    held = list(parts(snapshot(forest)))
    arrays = [v for v in held if isinstance(v, np.ndarray)]
    assert len(arrays) > 60
    for counts in truth:
        leaves = counts[counts.sum(axis=1) > 0]
        for array in arrays:
            assert not np.array_equal(array, counts)
            assert not np.array_equal(array, leaves)
    numbers = {v for v in held if isinstance(v, (int, float, np.integer))}
    assert not numbers & {SEED, N}
    assert not any(isinstance(v, StoredObject) and "random" in v.type.lower() for v in held)
    assert not any("RandomState" in type(v).__name__ for v in held)

    packed = pickle.dumps(forest, protocol=2)
    assert SEED.to_bytes(4, "little") not in packed
    skops.io.dump(forest, tmp_path / "forest.skops")
    with zipfile.ZipFile(tmp_path / "forest.skops") as archive:
        assert str(SEED).encode() not in archive.read("schema.json")
    for copied in (pickle.loads(packed), copy.deepcopy(forest)):
        assert copied.random_state is None
        assert np.array_equal(copied.predict_proba(X), forest.predict_proba(X))
    assert forest.random_state == SEED


def saved(forest: DPForestClassifier, folder: Path) -> Iterator[Path]:
    for name in ("skops", "pkl", "joblib"):
        path = folder / f"forest.{name}"
        if name == "skops":
            skops.io.dump(forest, path)
        elif name == "pkl":
            path.write_bytes(pickle.dumps(forest))
        else:
            joblib.dump(forest, path)
        yield path


@pytest.mark.parametrize("mechanism", ["discrete-laplace", "draft-dp"])
@pytest.mark.slow
def test_the_release_is_the_same_live_and_from_every_kind_of_file(tmp_path: Path, mechanism: str):
    X, y = table(60)
    forest = fitted(X, y, mechanism=mechanism, n_estimators=3, epsilon=0.7)
    release = to_release(forest)
    assert release.noise == forest.noise_
    assert (release.n_rows, release.counts_are, release.sampling) == (None, "rows", AllRows())
    assert release.classes == ("ill", "well")
    assert release.feature_names == SCHEMA.columns
    assert release.one_hot == {"job": ("cook", "judge", "other")}
    assert release.not_covered is None
    for tree, own in zip(release.trees, forest.trees_, strict=True):
        assert np.array_equal(tree.counts, own.counts)
        assert not tree.counts[~tree.is_leaf].any()
        assert tree.totals is None
    for path in saved(forest, tmp_path):
        assert_same(to_release(path, trust_pickle=True), release)


def changed(stored: StoredObject, *path: Any, value: Any) -> StoredObject:
    """The same object with one thing deep inside replaced."""
    name, *rest = path
    inner = stored.state[name]
    if rest and isinstance(inner, list):
        at, *rest = rest
        new = list(inner)
        new[at] = changed(inner[at], *rest, value=value) if rest else value
    else:
        new = changed(inner, *rest, value=value) if rest else value
    return replace(stored, state={**stored.state, name: new})


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("trees_",), [], "has no trees_"),
        (("trees_", 1, "counts"), np.zeros((2, 2)), "tree 1: counts has 2 entries"),
        (("trees_", 1, "counts"), np.zeros((3, 3)), "tree 1 counts 3 classes"),
        (
            ("trees_", 1, "counts"),
            np.ones((3, 2)),
            "tree 1, node 0: counts rows, and is not a leaf",
        ),
        (("trees_", 1, "counts"), np.eye(3)[:, 1:] / 2, "tree 1, node 1: counts hold 0.5"),
        (("trees_", 1, "counts"), np.eye(3)[:, 1:] * 1e9, "tree 1, node 1: counts hold 1e+09"),
        (("trees_", 1, "counts"), np.full((3, 2), np.nan), "tree 1: counts hold a number"),
        (("trees_", 1, "feature"), np.array([9, -1, -1]), "tree 1 tests column 9"),
        (("trees_", 1, "left"), np.array([0, -1, -1]), "tree 1: a child index"),
        (("trees_", 1, "left"), np.array([2**63, 1, 1], dtype=np.uint64), "tree 1: left is no"),
        (("trees_", 1, "threshold"), np.full(3, np.nan), "tree 1: node 0: threshold is NaN"),
        (
            ("noise_",),
            StoredObject("treeleak.release.noise.laws.Gaussian", {"sigma": 1.0}),
            "noise_ is not a law",
        ),
        (("noise_", "epsilon"), -1.0, "noise: epsilon is -1.0"),
        (("noise_", "more"), 1, "noise: unknown keys"),
        (("classes_",), None, "no class labels"),
        (("schema", "attributes"), [StoredObject("x.OneHot", {})], "stored in an unknown way"),
        (
            ("schema", "attributes"),
            [StoredObject("x.OneHot", {"name": "g", "members": ["z"]})],
            "one-hot group 'g' names an unknown column",
        ),
    ],
)
def test_a_damaged_forest_says_where(path: tuple, value: Any, says: str):
    stored = snapshot(fitted(*table(5), n_estimators=2, max_depth=1))
    if path[-1] == "more":
        stored.state["noise_"].state["more"] = None
    with pytest.raises(BadInput, match=re.escape(says)):
        to_release(changed(stored, *path, value=value))
