"""Sums of the loss in leaves: the rows of real models meet them, and hardly any others do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier

from helpers.boosted import (
    LIBRARIES,
    evidence_of,
    masked,
    needs,
    rows_of_A,
    some_release,
    table,
)
from helpers.examples import examples, spread
from treeleak.attacks.loss_sums.search import Search
from treeleak.core.clock import Clock
from treeleak.core.errors import BadModel
from treeleak.evidence import LossSums
from treeleak.evidence.class_counts_from_gradients import (
    UNTOLD,
    class_counts_from_gradients,
)
from treeleak.evidence.derived_hessians import leaf_hessians
from treeleak.evidence.predictions import at_leaves, steps
from treeleak.partition import enumerate_cells
from treeleak.release import to_release
from treeleak.release.adapters.xgboost.gain_equations import FEWEST_NODES
from treeleak.release.ensemble import Fitting
from treeleak.release.sampling import AllRows
from treeleak.release.statistics import (
    HESSIAN,
    L2,
    VALUE,
    NodeStatistic,
    Statistics,
)
from treeleak.verification.counts import leaves_off

SEEDS = st.integers(0, 2**32 - 1)
pytestmark = pytest.mark.filterwarnings("ignore")


def evidence_if_any(library, seed):
    """Evidence of a model, its release, leaves and classes; None where it is of another kind."""
    needs(library)
    case = some_release(library, seed)
    if case is None or case[0].not_covered:
        # XGBoost: of few rounds, the learning rate does not follow from the leaves.
        return None
    release, X, y = case
    evidence = evidence_of(release)
    if not isinstance(evidence, LossSums):
        return None
    return evidence, release, X, rows_of_A(release, X), y


@pytest.mark.parametrize("library", LIBRARIES)
@examples(150, fast=6)
@given(SEEDS)
def test_true_rows_meet_all_sums_and_give_every_class(library, seed):
    case = evidence_if_any(library, seed)
    if case is None:
        return
    evidence, release, X, leaf, y = case
    assert evidence.n_rows == len(X)
    assert evidence.contradiction() is None
    for told in evidence.statements():
        assert told.met(leaf, y).all(), told.quantity
    assert leaves_off(release, X, y) == 0
    found = class_counts_from_gradients(evidence, leaf, np.ones(len(X), dtype=np.int64))
    true = np.bincount(leaf.ravel(), np.repeat(y, leaf.shape[1]), len(found.number))
    told = found.number != UNTOLD
    assert found.whole
    np.testing.assert_array_equal(found.number[told], true[told])
    # CatBoost goes back on a step that makes the loss worse, and a tree that is one leaf may take
    # none, nor a leaf of rows that are all but certain: such leaves say nothing.
    size = np.array([len(tree.leaves) for tree in release.trees])
    far = np.abs(at_leaves(release, VALUE)).sum() > 100
    silent = (np.repeat(size, size) == 1) | ((at_leaves(release, VALUE) == 0) & far)
    if evidence.weighted:
        assert not told.any()
        return
    silent |= np.isnan(release.ensemble.fitting.pulled(steps(evidence.geometry)[0]))
    assert (told | silent).all() or library in ("xgboost", "catboost")
    bent = not release.ensemble.fitting.plain
    assert told.mean() > 0.3 or (size == 1).any() or library == "catboost" or bent


@pytest.mark.parametrize("library", LIBRARIES)
@examples(150, fast=6)
@given(SEEDS)
def test_rows_changed_by_one_do_not(library, seed):
    case = evidence_if_any(library, seed)
    if case is None:
        return
    evidence, release, X, leaf, y = case
    if release.ensemble.fitting.l1 or release.ensemble.fitting.longest:
        return  # Leaves that take no step, or the longest, say nothing of their rows.
    rng = np.random.default_rng(seed)
    k = int(rng.integers(len(X)))
    moved = X.copy()
    moved[k] = 1 - moved[k] if rng.random() < 0.5 else X[int(rng.integers(len(X)))]
    other = rows_of_A(release, moved)
    if (other[k] != leaf[k]).any():
        assert not all(told.met(other, y).all() for told in evidence.statements())
        # Where leaves count rows, a step may be as long as before: that count tells.
        counts = library != "xgboost"
        assert leaves_off(release, moved, y) > 0 or counts
    flipped = y.copy()
    flipped[k] = 1 - y[k]
    if library == "catboost":
        return
    if any(told.by_label for told in evidence.statements()):
        assert not all(told.met(leaf, flipped).all() for told in evidence.statements())
        assert leaves_off(release, X, flipped) > 0


@pytest.mark.parametrize("library", LIBRARIES)
def test_most_models_give_sums(library):
    """So that the tests above do not look at nothing."""
    given_sums = [evidence_if_any(library, seed) is not None for seed in range(12)]
    assert sum(given_sums) >= 7


@pytest.mark.parametrize("seed", spread(range(40), fast=4))
def test_weights_of_classes_follow_from_sums_that_count_no_rows(seed):
    needs("xgboost")
    from xgboost import XGBClassifier

    rng = np.random.default_rng(seed)
    X, y = table(rng, int(rng.integers(80, 400)), 10)
    weights = len(y) / (2 * np.bincount(y)) if seed % 2 else rng.uniform(0.3, 5.0, 2)
    model = XGBClassifier(n_estimators=4, max_depth=6, n_jobs=1, min_child_weight=0.01)
    release = to_release(model.fit(X, y, sample_weight=weights[y]))
    leaf = rows_of_A(release, X)[:, 0]
    in_leaves = [len(np.unique(leaf[y == c])) for c in range(2)]
    if abs(weights[0] - weights[1]) < 1e-3 or min(in_leaves) < 10:
        return
    assert release.not_covered is None
    np.testing.assert_allclose(release.ensemble.fitting.class_weights, weights, rtol=1e-6)
    assert release.trees[0].totals[0] == len(X)
    evidence, leaf = evidence_of(release), rows_of_A(release, X)
    assert all(statement.met(leaf, y).all() for statement in evidence.statements())
    # Of rows that have weights of their own, or one that is not 1, nothing of the kind is said.
    for own in (rng.uniform(0.5, 2.0, len(y)), np.full(len(y), 1.7)):
        release = to_release(model.fit(X, y, sample_weight=own))
        assert "not whole numbers of rows" in release.not_covered


@pytest.mark.parametrize("seed", spread(range(40), fast=4))
def test_what_was_masked_follows_from_gains(seed):
    """NVFlare sends XGBoost's trees with every sum of hessians set to 1."""
    needs("xgboost")
    from xgboost import XGBClassifier

    rng = np.random.default_rng(seed)
    X, y = table(rng, int(rng.integers(80, 300)), 10)
    model = XGBClassifier(
        n_estimators=6, max_depth=int(rng.integers(3, 6)), n_jobs=1,
        learning_rate=float(rng.choice([0.05, 0.1, 0.3])),
        reg_lambda=float(rng.choice([0.0, 1.0, 3.5])),
    ).fit(X, y)  # fmt: skip
    true = to_release(model)
    # Nothing in such a file says that all trees saw all rows.
    release = replace(to_release(masked(model)), sampling=AllRows())
    assert not any(tree.statistics.get(HESSIAN) for tree in release.trees)
    before, fitting = true.ensemble, release.ensemble.fitting
    if fitting.assumed:
        # Of trees that are too small, or too many of whose leaves step alike.
        assert min(tree.n_nodes for tree in true.trees) < 2 * FEWEST_NODES
        return
    assert release.ensemble.learning_rate == pytest.approx(before.learning_rate, rel=1e-6)
    assert fitting.l2 == pytest.approx(before.fitting.l2, abs=1e-3)
    if release.not_covered:
        # Without lambda, how the rows of two pure leaves part follows from nothing.
        assert not before.fitting.l2
        assert "all but" in release.not_covered
        return
    assert release.trees[0].totals[0] == len(X)
    found, off = leaf_hessians(release, before.learning_rate, before.fitting.l2)
    derived = ~np.isnan(found)
    assert derived.mean() > (0.8 if before.fitting.l2 else 0.5)
    assert (np.abs(found - at_leaves(true, HESSIAN)) <= off * found)[derived].all()
    evidence, leaf = evidence_of(release), rows_of_A(release, X)
    for statement in evidence.statements():
        assert statement.met(leaf, y).all()
    flipped = y.copy()
    flipped[seed % len(y)] ^= 1
    assert not all(statement.met(leaf, flipped).all() for statement in evidence.statements())


def boosted():
    """A release of two trees whose fitting is known."""
    X, y = table(np.random.default_rng(1), 40, 3)
    return to_release(GradientBoostingClassifier(n_estimators=2, random_state=0).fit(X, y))


@pytest.mark.parametrize(
    "wrong",
    [{"l2": -1.0}, {"l2": np.nan}, {"steps": 0}, {"steps": 10**9}, {"start": (np.inf,)},
     {"l1": -1.0}, {"longest": np.nan}, {"class_weights": (1.0, np.inf)}, {"parallel": 0},
     {"dropped": ((0,),)}, {"dropped": ((), (-1,))}, {"dropped": ((), *[(0,)] * 4_000)},
     {"l1": 0.1, "steps": 2}],
)  # fmt: skip
def test_fittings_that_cannot_be_are_refused(wrong):
    with pytest.raises(BadModel):
        Fitting("logistic", **wrong)


@pytest.mark.parametrize("wrong", [{"class_weights": (1.0, 2.0, 3.0)}, {"dropped": ((),)}])
def test_fittings_of_other_classes_or_trees_are_refused(wrong):
    release = boosted()
    fitting = replace(release.ensemble.fitting, **wrong)
    with pytest.raises(BadModel):
        replace(release, ensemble=replace(release.ensemble, fitting=fitting))


@pytest.mark.parametrize("l2", [-1.0, 1e30])
def test_what_cannot_be_added_to_sums_of_a_node_is_refused(l2):
    release = boosted()
    tree = release.trees[0]
    bent = NodeStatistic(L2, np.full(tree.n_nodes, l2))
    tree = replace(tree, statistics=Statistics((*tree.statistics, bent)))
    with pytest.raises(BadModel, match="l2 from"):
        release.ensemble.fitting.l2_at(tree)


@example(369)  # one tree, of which another rate and alpha make the same
@example(6364)  # stumps that single precision leaves several rates
@example(30622)  # a rate near one of few digits
@example(16422)
@example(626)
@examples(200, fast=8)
@given(SEEDS)
def test_learning_rate_and_regularisation_of_xgboost_are_found(seed):
    xgboost = pytest.importorskip("xgboost", reason="needs XGBoost")
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (int(rng.integers(30, 200)), 4)).astype(float)
    y = (X[:, 0] + X[:, 1] + rng.normal(size=len(X)) > 2).astype(int)
    y[:2] = 0, 1
    eta = float(rng.choice([0.3, 0.05, 1.0, 0.123, rng.uniform(0.02, 1)]))
    l2 = float(rng.choice([0.0, 1.0, 2.5, 100.0, rng.uniform(0, 9)]))
    alpha = float(rng.choice([0.0, 0.0, 0.5]))
    params = {
        "eta": eta, "lambda": l2, "alpha": alpha, "max_depth": int(rng.integers(1, 6)),
        "objective": "binary:logistic", "nthread": 1,
        "max_delta_step": float(rng.choice([0, 0, 0, 0.3])),
    }  # fmt: skip
    rounds = int(rng.integers(1, 8))
    model = xgboost.train(params, xgboost.DMatrix(X, y), rounds)
    # As the file has it: without the parameters of the training.
    model = xgboost.Booster(model_file=model.save_raw("json"))
    release = to_release(model)
    fitting = release.ensemble.fitting
    if fitting is None:
        few = all(tree.n_nodes <= 3 for tree in release.trees)
        few |= sum(int((~tree.is_leaf).sum()) for tree in release.trees) < 4
        assert few or alpha or params["max_delta_step"] or rounds == 1 or l2 == 100
        return
    # Whoever is told a rate is told one with which all leaves are what their rows make them.
    assert leaves_off(release, X, y) == 0
    if not alpha and not params["max_delta_step"]:
        assert release.ensemble.learning_rate == pytest.approx(eta, rel=1e-3)
        assert fitting.l2 == pytest.approx(l2, rel=1e-2, abs=1e-3)


def test_leaf_values_after_many_steps_tell_that_a_row_is_another_one():
    needs("catboost")
    from catboost import CatBoostClassifier

    rng = np.random.default_rng(1)
    X = (rng.random((400, 8)) < 0.5 * rng.random(8)).astype(int)
    y = (X @ rng.normal(size=8) + rng.normal(size=400) > 0).astype(int)
    model = CatBoostClassifier(
        iterations=60, learning_rate=0.05, leaf_estimation_iterations=10, verbose=0,
        thread_count=1, allow_writing_files=False,
    )  # fmt: skip
    evidence = evidence_of(to_release(model.fit(X, y)))
    partition = enumerate_cells(evidence.geometry, evidence.open_leaves())
    search = Search(evidence, partition, Clock(60.0), 0)
    found = search.found()
    assert found.missed == 0
    assert search.by_steps(found) is found
    chosen, m = found.used()
    m = m.copy()
    m[np.argsort(m)[-2:]] += [1, -1]
    moved = search.classed(found.column_set, chosen, m)
    again = search.by_steps(moved)
    np.testing.assert_array_equal(again.cells, found.cells)
    np.testing.assert_array_equal(again.constraints.m, found.constraints.m)
