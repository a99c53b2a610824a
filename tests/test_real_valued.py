"""Rows, classes and proofs from sums in leaves, against every table that meets them.

For 2,000 models, 500 of each library, with what came out of them:

    TREELEAK_BOOSTED=500 python -m pytest -m slow -k every_table --log-cli-level=info \
        tests/test_real_valued.py
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier

import treeleak
from helpers.boosted import bits, cells_of, histogram, needs, rows_of_A, some_release, worlds
from helpers.examples import shared
from helpers.patient import AMPLE
from treeleak.reconstruction import answering
from treeleak.release import to_release
from treeleak.verification.counts import leaves_off

ALL = 200
MODELS = shared(int(os.environ.get("TREELEAK_BOOSTED", str(ALL))), 64)
"""Models of each library in the slow suite; all that were tried: ``TREELEAK_BOOSTED=500``, of which
``EXAMPLES`` takes a share."""
LOG = logging.getLogger(__name__)
FAST = 8
BRUTE = ("boosting", "histogram", "xgboost", "lightgbm")
pytestmark = pytest.mark.filterwarnings("ignore")


def checked(library, seed):
    """Attack a tiny model, hold the answer against all tables, and say what came out."""
    case = some_release(library, seed, 7, 3)
    if case is None or case[0].not_covered or case[0].ensemble.fitting is None:
        return "no sums"
    release, X, y = case
    schema = bits(release)
    evidence, partition = cells_of(release, schema)
    every = worlds(evidence, partition)
    if every is None:
        return "too many"
    true = histogram(partition, rows_of_A(release, X), y)
    assert (every == true).all(axis=(1, 2)).any(), "brute force lost the truth"
    found = treeleak.reconstruct(release, schema, time_limit=AMPLE)
    assert found.evidence.startswith("sums of the loss")
    if found.status == "unknown":
        # Least squares end at a point of real numbers, of which rounding made no table.
        assert not found.proved.any()
        return "not found"
    assert found.status in ("unique", "feasible")
    leaf = rows_of_A(release, found.X.to_numpy())
    label = found.y.to_numpy()
    mine = histogram(partition, leaf, label)
    assert (every == mine).all(axis=(1, 2)).any(), "the answer meets not all sums"
    # What is proved is in every table.
    proved = found.proved.to_numpy()
    sure = histogram(partition, leaf[proved], label[proved])
    assert (sure[None] <= every).all(), "a row was proved that need not be there"
    if proved.all() or found.status == "unique":
        assert len(every) == 1
    if found.status == "unique":
        table = found.X.to_numpy()
        np.testing.assert_array_equal(
            np.unique(np.column_stack([table, label]), axis=0, return_counts=True)[0],
            np.unique(np.column_stack([X, y]), axis=0),
        )
    if len(every) > 1:
        return "several"
    # Where a row may have a whole number as its weight, its copies are not proved.
    rows = pd.DataFrame(np.column_stack([leaf, label])).assign(proved=proved)
    once = rows.groupby(list(rows.columns[:-1]))["proved"]
    all_proved = once.any().all() if release.adds_weights else proved.all()
    return "proved" if all_proved else "one, not proved"


@pytest.mark.parametrize("library", BRUTE)
@pytest.mark.parametrize(
    "n", [FAST, pytest.param(MODELS, marks=pytest.mark.slow)], ids=["few", "all"]
)
def test_answers_and_proofs_hold_in_every_table(library, n):
    needs(library)
    met = Counter(checked(library, seed) for seed in range(n))
    LOG.info("%s, %d models: %s", library, n, dict(met))
    assert met["proved"] + met["several"] >= n / 8, met
    assert met["not found"] <= 0.2 * n, met
    if n > FAST:
        # What one table alone meets in whole numbers, several may meet in real ones.
        assert met["proved"] >= 0.5 * (met["proved"] + met["one, not proved"]), met
    if n >= ALL:
        # Few models leave several tables: among a share of them there may be none.
        assert met["several"] >= 1, met


def model_of(name, n=24, seed=0, columns=4):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 2, (n, columns)), columns=list("abcdef")[:columns])
    y = (X["a"] + X["b"] + rng.random(n) > 1.4).astype(int)
    if name == "boosting":
        return GradientBoostingClassifier(n_estimators=8, random_state=0).fit(X, y), X, y
    return HistGradientBoostingClassifier(max_iter=8, min_samples_leaf=2).fit(X, y), X, y


@pytest.mark.parametrize("name", ["boosting", "histogram"])
def test_the_second_path_sees_each_row_and_each_class(name):
    model, X, y = model_of(name)
    release, rows, label = to_release(model), X.to_numpy(float), y.to_numpy()
    assert leaves_off(release, rows, label) == 0
    for k in range(len(rows)):
        flipped = label.copy()
        flipped[k] = 1 - label[k]
        assert leaves_off(release, rows, flipped) > 0
        moved = rows.copy()
        moved[k] = 1 - rows[k]
        assert leaves_off(release, moved, label) > 0
    bare = replace(release, ensemble=replace(release.ensemble, fitting=None))
    assert leaves_off(bare, rows, label) is None


@pytest.mark.parametrize("what", ["label", "row"])
def test_an_answer_that_was_tampered_with_is_not_handed_over(what, monkeypatch):
    model, _, _ = model_of("histogram")
    real = answering.attack_for

    def attack_for(evidence, method):
        inner = real(evidence, method)

        def wrong(*given):
            answer = inner(*given)
            rows = answer.rows[0]
            values = rows.values.copy()
            at = slice(-1, None) if what == "label" else slice(0, -1)
            first = answer.values.start[: values.shape[1]]
            values[0, at] = (2 * first + 1 - values[0])[at]
            return replace(answer, rows=(replace(rows, values=values),))

        return wrong

    monkeypatch.setattr(answering, "attack_for", attack_for)
    if what == "row":
        with pytest.raises(RuntimeError, match="bug in treeleak"):
            treeleak.reconstruct(model, bits(to_release(model)), time_limit=AMPLE)
        return
    # Sums are real numbers, which a file may have made up: no fault of ours, but no answer either.
    found = treeleak.reconstruct(model, bits(to_release(model)), time_limit=AMPLE)
    assert found.status == "unknown"
    assert any("a second check" in note for note in found.notes)
    assert not found.proved.any()


def test_where_grids_cannot_be_listed_rows_are_followed_through_the_trees(unlisted):
    model, _, y = model_of("histogram")
    found = treeleak.reconstruct(model, bits(to_release(model)), time_limit=AMPLE)
    assert found.numbers["trees_settled"] == 8
    assert sorted(found.y) == sorted(y)
    assert found.misfit == 0


@pytest.mark.parametrize(
    ("first", "second"), [([12, 0], [0, 12]), ([7, 5], [12, 0])], ids=["none", "some"]
)
def test_leaves_that_hold_rows_in_no_cell_contradict_each_other(first, second):
    X = pd.DataFrame({"a": [0, 1] * 6, "b": [0, 0, 1] * 4})
    model = HistGradientBoostingClassifier(max_iter=2, max_leaf_nodes=2, min_samples_leaf=2)
    release = to_release(model.fit(X, X.a))
    one, _ = release.trees
    trees = tuple(one.with_counts(totals=np.array([12, *own])) for own in (first, second))
    found = treeleak.reconstruct(replace(release, trees=trees), bits(release), time_limit=AMPLE)
    assert found.status == "infeasible"
    assert "leave no place for them" in str(found.contradiction)
