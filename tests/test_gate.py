"""The gate stays shut: no lie about a model that leaks, nor several at once, makes it pass."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import treeleak
from helpers.examples import spread
from helpers.gate import LABEL, WAYS, Lab, shallow, tried
from treeleak.auditing.assessors.comparison import check_provided_rows, too_like
from treeleak.core.errors import Mismatch

# Ways that must stay closed; a clean model is attacked for as long as those of users.
walks_are_short = pytest.mark.usefixtures("short_walks")


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return Lab(tmp_path_factory.mktemp("gate"), n_rows=30, n_trees=8)


@walks_are_short
@pytest.mark.parametrize("name", WAYS)
@pytest.mark.slow
@pytest.mark.each
def test_a_way_is_closed(lab, name):
    found = tried(name, WAYS[name], lab, time_limit=3)
    assert found.status in (2, 3, 4), found
    assert not found.verdict.startswith("no leak") or found.status == 4


@pytest.mark.slow
def test_a_clean_model_passes(lab):
    found = tried("clean", shallow, lab, time_limit=10)
    assert (found.status, found.verdict) == (0, "no leak shown"), found


# --------------------------------------------------------------------------- several at once

_NOISE = [
    None,
    {"law": "gaussian", "sigma": 50.0},
    {"law": "gaussian", "sigma": 2.0, "rounding": "nearest"},
    {"law": "discrete-laplace", "epsilon": 1e-4},
    {"law": "discrete-laplace", "epsilon": 1.0},
    {"law": "laplace", "epsilon": 0.2, "rounding": "towards zero"},
]
_SAMPLING = [
    {"kind": "all"},
    {"kind": "disjoint"},
    {"kind": "unknown"},
    {"kind": "bootstrap"},
    {"kind": "bootstrap", "n_draws": 10},
    {"kind": "bootstrap", "rows_between": [5, 12]},
    {"kind": "bootstrap", "forest_seed": 3, "rule": "scikit-learn 1.5.2 forest"},
]


def lied(lab, rng):
    """An attempt with lies in any of the fields that a file or an option states."""
    kind = rng.choice(["exact", "exact", "seeded", "hidden"])
    document = lab.release(kind) if rng.random() < 0.3 else lab.bare(kind)
    lies = {
        "n_rows": lambda: rng.choice([None, 1, 12, 30, 31, 400]),
        "noise": lambda: rng.choice(_NOISE),
        "sampling": lambda: rng.choice(_SAMPLING),
        "counts_are": lambda: rng.choice(["rows", "draws", "weights", "none"]),
        "classes": lambda: document["classes"][::-1],
        "maybe_missing": lambda: document["columns"][:3],
        "thresholds_are": lambda: "midpoints",
        "not_covered": lambda: "regression",
    }
    for key in rng.choice(list(lies), rng.integers(1, 4), replace=False):
        document[key] = lies[key]()
    tree = document["trees"][0]
    if rng.random() < 0.15:
        tree["distinct"] = [int(x) for x in rng.integers(1, 30, len(tree["left"]))]
    if rng.random() < 0.15:
        tree["totals"] = [int(x) for x in rng.integers(1, 30, len(tree["left"]))]
    trains = [lab.train] * 4 + [lab.others[:30], lab.train[:20], lab.train[::-1]]
    train = trains[rng.integers(len(trains))]
    options = [
        ("--n-rows", str(rng.choice([1, 12, 30, 300]))),
        ("--bootstrap", str(rng.choice(["none", "known", "hidden"]))),
        ("--seed-search", "0"),
        ("--known-rows", lab.csv(lab.others[:5], "known.csv")),
    ]
    chosen = [o for o in options if rng.random() < 0.2]
    plain = json.loads(json.dumps(document, default=lambda x: x.item()))
    return lab.attempt(plain, *(word for option in chosen for word in option), train=train)


@walks_are_short
@pytest.mark.parametrize("seed", spread(range(40), fast=5))
def test_several_lies_at_once_do_not_open_the_gate(lab, seed):
    rng = np.random.default_rng(seed)
    found = tried(f"lies {seed}", lambda lab: lied(lab, rng), lab, time_limit=1)
    assert not found.crashed, found
    assert not found.open, found


# -------------------------------------------------------------------- what is given and control


@walks_are_short
def test_control_rows_that_are_the_training_rows_are_found_out(lab):
    X = lab.X.reset_index(drop=True)
    others = lab.others.drop(columns=LABEL)
    assert too_like(X, pd.concat([X] * 10))
    assert too_like(X, X)
    assert not any(too_like(X, others.sample(300, random_state=k), k) for k in range(20))
    few = others.sample(30, random_state=0)
    assert not too_like(few, others.drop(few.index))


@walks_are_short
def test_what_was_given_must_be_true_of_the_training_rows(lab):
    model = treeleak.release.to_release(lab.forest(bootstrap=False))
    truth = lab.X.reset_index(drop=True)
    known = lab.X[["sex:Male"]]
    rebuilt = treeleak.reconstruct(model, lab.data.schema, known_columns=known)
    check_provided_rows(rebuilt, truth)
    check_provided_rows(replace(rebuilt, known=None), 1 - truth)
    with pytest.raises(
        Mismatch, match=r"\d+ of the rows given as known are not among the training rows"
    ):
        check_provided_rows(rebuilt, truth.assign(**{"sex:Male": 0}))
