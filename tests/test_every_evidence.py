"""What holds of every answer, whatever a model counts and whichever attack reads it.

Each kind of evidence is asked for by a model whose counts leave several datasets. Whether answers
are right is for tests of each attack; ``test_golden.py`` holds their proofs against the truth.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier

from helpers.golden_cases import private
from treeleak import Reconstruction, Schema, reconstruct
from treeleak.release import to_release
from treeleak.schema import Binary, Numeric
from treeleak.verification.counts import check_rows

N = 24
pytestmark = pytest.mark.usefixtures("short_walks_throughout")


class Asked(NamedTuple):
    """A fitted model, its training set, and how it is attacked."""

    model: Any
    X: pd.DataFrame
    y: pd.Series
    schema: Schema
    options: dict[str, Any]

    def answer(self, **more: Any) -> Reconstruction:
        """Reconstruct, with more than enough time unless there is a limit."""
        return reconstruct(self.model, self.schema, **{"time_limit": 300.0, **self.options, **more})


def bits(seed: int = 0) -> tuple[pd.DataFrame, pd.Series, Schema]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 2, (N, 5)), columns=list("abcde"))
    y = pd.Series(np.where((X.a == X.b) ^ (rng.random(N) < 0.2), "no", "yes"), name="label")
    return X, y, Schema([Binary(c) for c in X])


def numbers(seed: int = 0) -> tuple[pd.DataFrame, pd.Series, Schema]:
    """So many different numbers that the grid of thresholds is too large to list."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(N, 12)).round(2), columns=list("abcdefghijkl"))
    y = pd.Series(rng.choice(["no", "yes"], N), name="label")
    return X, y, Schema([Numeric(c, -5.0, 5.0) for c in X])


def asked(model: Any, data: tuple[pd.DataFrame, pd.Series, Schema], **options: Any) -> Asked:
    X, y, schema = data
    return Asked(model.fit(X, y), X, y, schema, options)


def of_targets() -> Asked:
    X, _, schema = bits(3)
    y = pd.Series(X.to_numpy() @ [1.0, 2.0, 0.5, -1.0, 0.2], name="label")
    model = ExtraTreesRegressor(5, max_depth=3, random_state=0).fit(X, y)
    return Asked(model, X, y, schema, {})


def of_noise() -> Asked:
    data = X, y, schema = bits(4)
    return Asked(private(4, 3, 5.0, data, 0), X, y, schema, {"n_rows": N})


ASKED: dict[str, Callable[[], Asked]] = {
    "counts of all rows": lambda: asked(
        RandomForestClassifier(4, max_depth=2, bootstrap=False, random_state=0), bits()
    ),
    "weights": lambda: asked(
        ExtraTreesClassifier(4, max_depth=3, class_weight="balanced", random_state=0), bits(1)
    ),
    "known draws": lambda: asked(RandomForestClassifier(4, max_depth=2, random_state=0), bits(2)),
    "hidden draws": lambda: asked(
        RandomForestClassifier(4, max_depth=2, random_state=0), bits(2), bootstrap="hidden"
    ),
    "noisy counts": of_noise,
    "counts of all rows, large grid": lambda: asked(
        RandomForestClassifier(6, max_depth=5, bootstrap=False, random_state=0), numbers()
    ),
    "known draws, large grid": lambda: asked(
        RandomForestClassifier(8, max_depth=5, random_state=0), numbers(1)
    ),
    "one tree": lambda: asked(DecisionTreeClassifier(max_depth=3, random_state=0), numbers(2)),
    "sums of a loss": lambda: asked(
        GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0), bits(5)
    ),
    "counts without classes": of_targets,
}
LONG = ("counts of all rows, large grid", "known draws, large grid", "one tree")
"""Of the slow suite; small grids and other trees are asked the same in the fast one."""
KINDS = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.slow, pytest.mark.each] if kind in LONG else ())
        for kind in ASKED
    ],
)


@cache
def of_kind(kind: str) -> Asked:
    return ASKED[kind]()


@cache
def answered(kind: str) -> Reconstruction:
    return of_kind(kind).answer(seed=3)


def check_form(found: Reconstruction, own: Asked) -> None:
    """Rows are possible, and the status says what they miss."""
    assert found.status in ("unique", "feasible", "likely", "unknown")
    assert len(found.X) == N
    assert own.schema.valid(found.X.to_numpy(dtype=float), found.X.columns).all()
    if found.status in ("unique", "feasible"):
        assert found.misfit == 0
    if found.status == "unknown":
        assert not found.share_proved_rows or found.misfit > 0
    sure = found.confidence.to_numpy()
    assert ((sure >= 0) & (sure <= 1) | np.isnan(sure)).all()


@KINDS
def test_rows_meet_all_counts_where_it_is_said(kind):
    own, found = of_kind(kind), answered(kind)
    check_form(found, own)
    if kind.endswith("large grid"):
        assert found.cells.startswith("generated: the grid of thresholds has")
        assert not found.proved.any()
        assert (found.confidence.to_numpy() < 1).all()
    if found.status in ("unique", "feasible") and found.y is not None and kind != "weights":
        draws = None if found.draws is None else found.draws.counts
        release = to_release(own.model)
        codes = np.zeros(N, dtype=int)
        if hasattr(own.model, "classes_"):
            codes = np.searchsorted(own.model.classes_, found.y)
        rows = found.X.to_numpy(dtype=float)
        assert check_rows(release, rows, codes, draws).ok


@KINDS
def test_the_same_seed_gives_the_same_rows_whoever_watches_and_draws_on_nothing_global(kind):
    seen = []
    np.random.seed(5)  # noqa: NPY002
    expected = np.random.random(3)  # noqa: NPY002
    np.random.seed(5)  # noqa: NPY002
    one, again = answered(kind), of_kind(kind).answer(seed=3, progress=seen.append)
    assert np.array_equal(np.random.random(3), expected)  # noqa: NPY002
    pd.testing.assert_frame_equal(one.X, again.X)
    pd.testing.assert_frame_equal(one.confidence, again.confidence)
    assert (one.y is None) == (again.y is None)
    assert one.y is None or one.y.equals(again.y)
    assert one.expected_error == again.expected_error
    assert one.status == again.status
    assert (one.proved is None) == (again.proved is None)
    assert one.proved is None or one.proved.equals(again.proved)
    assert seen
    assert all(0 <= p.done <= 1 and p.stage for p in seen)
    misfits = [entry.misfit for entry in again.trace]
    assert misfits == sorted(set(misfits), reverse=True)


def interrupted(kind, stage):
    """The answer to an interrupt at the first report of a stage, or of any."""
    sent = []

    def interrupt(progress):
        if not sent and stage in (None, progress.stage):
            sent.append(progress)
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    found = of_kind(kind).answer(progress=interrupt)
    assert sent
    assert found.interrupted
    assert signal.getsignal(signal.SIGINT) is before
    if found.X is None:
        assert found.status == "unknown"
    else:
        check_form(found, of_kind(kind))
        misses = [p.misfit for p in sent if p.misfit is not None]
        assert found.misfit is None or found.misfit <= min(misses, default=np.inf)
    return found


@KINDS
def test_an_interrupt_keeps_the_best_rows_so_far(kind):
    interrupted(kind, None)


@pytest.mark.slow
@pytest.mark.each
@pytest.mark.parametrize("kind", ASKED)
def test_an_interrupt_in_any_stage_keeps_the_best_rows_so_far(kind):
    reports = []
    of_kind(kind).answer(progress=reports.append)
    for stage in dict.fromkeys(p.stage for p in reports):
        interrupted(kind, stage)


@pytest.mark.parametrize("limit", [1e-9, 1e-3, 0.05])
@KINDS
def test_hardly_any_time_gives_an_honest_status(kind, limit):
    found = of_kind(kind).answer(time_limit=limit)
    if found.X is None:
        assert found.status == "unknown"
    else:
        check_form(found, of_kind(kind))


@KINDS
def test_what_is_known_stands_in_the_answer(kind):
    own = of_kind(kind)
    rows = own.X.iloc[[1, 4]].rename_axis("row")
    if hasattr(own.model, "classes_"):
        rows["label"] = own.y
    found = own.answer(known_columns=own.X[["b"]], known_rows=rows)
    check_form(found, own)
    given = found.X.to_numpy(dtype=float)
    if found.known is not None and found.ordered:
        assert (given[:, 1] == own.X.b).all()
    assert sorted(given[:, 1]) == sorted(own.X.b)
    have = {tuple(row) for row in given}
    assert {tuple(row) for row in own.X.iloc[[1, 4]].to_numpy(dtype=float)} <= have
