"""The second path finds what is wrong with rows, and the clock obeys."""

from __future__ import annotations

import signal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.cases import some_drawn
from helpers.examples import examples
from helpers.grids import all_points, cuts_for, schemas, some_rows
from helpers.older import needs_counted_gaps
from helpers.releases import counted, leaves_of, random_tree, summed
from treeleak.core.clock import Clock
from treeleak.core.errors import Mismatch
from treeleak.release import to_release
from treeleak.schema import Binary, Ordinal, Schema
from treeleak.verification.counts import check_rows


def example(schema, seed, counts_are="rows"):
    rng = np.random.default_rng(seed)
    names = schema.columns
    X = some_rows(schema, names, int(rng.integers(1, 7)), rng)
    y = rng.integers(2, size=len(X))
    trees = [random_tree(rng, cuts_for(schema, names), 3) for _ in range(2)]
    return counted(trees, names, X, y, 2, counts_are=counts_are), X, y, rng


@given(schemas(), st.integers(0, 2**32), st.sampled_from(["rows", "weights", "none"]))
def test_the_true_rows_pass_and_wrong_ones_fail_where_the_counts_differ(schema, seed, counts_are):
    release, X, y, rng = example(schema, seed, counts_are)
    assert check_rows(release, X, y).ok
    points = all_points(schema, release.feature_names)
    X2, y2 = X.copy(), y.copy()
    k = rng.integers(len(X))
    X2[k] = points[rng.integers(len(points))]
    if counts_are == "rows":
        y2[k] = rng.integers(2)
    # By hand: every tree whose leaf (or class) changes misses one row here and has one too many
    # there.
    before, after = leaves_of(release, X[k : k + 1])[0], leaves_of(release, X2[k : k + 1])[0]
    changed = (before != after) | (y[k] != y2[k])
    check = check_rows(release, X2, y2)
    assert check.ok == (not changed.any())
    assert check.misfit == 2 * changed.sum()
    assert check.misses == 2 * changed.sum()
    if changed.any():
        t = int(np.argmax(changed))
        assert check.first.tree == t
        assert check.first.node in (before[t], after[t])
        assert f"tree {t}, leaf {check.first.node}" in str(check.first)


def misses_of(case, X, y, distinct):
    """What rows miss in each leaf, by following each of them alone."""
    leaves = leaves_of(case.release, X)
    off = []
    for t, tree in enumerate(case.release.trees):
        by_class = case.b[t][:, None] * np.eye(len(case.release.classes))[y]
        off.append(np.abs(summed(tree, leaves[:, t], by_class) - tree.counts)[tree.leaves].ravel())
        if distinct:
            found = summed(tree, leaves[:, t], (case.b[t] > 0).astype(float))
            off.append(np.abs(found - tree.distinct)[tree.leaves])
    return np.concatenate(off)


@examples(60, fast=10)
@given(st.integers(0, 2**32), st.booleans())
def test_rows_that_were_drawn_are_counted_as_often(seed, distinct):
    case = some_drawn(seed)
    check = check_rows(case.release, case.X, case.y, case.b, distinct)
    assert case.tampered or check.ok
    rng = np.random.default_rng(seed)
    points = all_points(case.schema, case.release.feature_names)
    for _ in range(3):
        X, y = case.X.copy(), case.y.copy()
        k = rng.integers(len(X), size=2)
        X[k] = points[rng.integers(len(points), size=2)]
        y[k] = rng.integers(len(case.release.classes), size=2)
        off = misses_of(case, X, y, distinct)
        check = check_rows(case.release, X, y, case.b, distinct)
        assert check.misfit == off.sum()
        assert check.misses == (off > 0).sum()
        assert check.ok == (not off.any())
        assert (check.first is None) == check.ok


def test_an_interrupt_stops_the_clock_and_the_handler_comes_back(request):
    # A process in the background starts with interrupts ignored.
    found = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, found))
    before = signal.getsignal(signal.SIGINT)
    clock = Clock(1000.0)
    part = clock.part(500.0)
    with clock.until_interrupt():
        assert not clock.stopped
        signal.raise_signal(signal.SIGINT)
        assert clock.stopped
        assert clock.interrupted
        assert part.stopped
        # The second one ends it.
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_part_of_a_clock_stops_alone_and_never_outlives_the_whole():
    clock = Clock(1000.0)
    part = clock.part(0.0)
    assert part.stopped
    assert not clock.stopped
    assert not clock.interrupted
    assert clock.part(10_000.0).limit <= clock.limit
    part = clock.part(10.0)
    part.stop()
    assert part.stopped
    assert not clock.stopped


def test_gaps_that_go_the_way_by_default_are_believed_where_the_schema_has_them():
    needs_counted_gaps()
    X = pd.DataFrame({"a": [0.0] * 6 + [1.0, 1.0, np.nan], "b": [0.0, 1.0, 0.0] * 3})
    y = np.array([0] * 6 + [1, 1, 0])
    model = DecisionTreeClassifier(random_state=0).fit(X, y)
    assert not to_release(model).maybe_missing
    # Some were missing, so nothing may say that none was.
    with pytest.raises(Mismatch, match="row 8; the trees show no missing value of it"):
        treeleak.audit(model, X, y, time_limit=20)
    schema = Schema([Ordinal("a", 0, 1, missing=True), Binary("b")])
    found = treeleak.audit(model, X, y, schema=schema, time_limit=20)
    assert found.reconstruction.status in {"feasible", "unique"}
    schema = Schema([Binary("a"), Binary("b")])
    with pytest.raises(Mismatch, match="row 8"):
        treeleak.audit(model, X, y, schema=schema, time_limit=20)
