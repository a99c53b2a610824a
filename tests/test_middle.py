"""The one dataset in the middle of samples, where leaves do not tell values apart."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import treeleak
from helpers.patient import AMPLE
from treeleak.core.errors import PrivacyWarning
from treeleak.learn import DPForestClassifier
from treeleak.metrics import random_baseline, reconstruction_error
from treeleak.schema import AtMost, Binary, Schema

WIDTH = 10
SCHEMA = Schema([Binary(f"x{a}") for a in range(WIDTH)])


def table(n, seed):
    """Columns of all skews, of which a shallow tree tests a few."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        (rng.random((n, WIDTH)) < np.linspace(0.1, 0.9, WIDTH)).astype(int), columns=SCHEMA.columns
    )
    y = (X.x2 + X.x4 + rng.random(n) > 1.2).astype(int)
    return X, y


def shallow(X, y, seed, depth=2):
    return RandomForestClassifier(1, max_depth=depth, random_state=seed).fit(X, y)


@pytest.mark.parametrize("bootstrap", ["hidden", pytest.param("noise", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_one_shallow_tree_is_no_worse_than_a_random_guess(bootstrap):
    errors, guesses = [], []
    for seed in range(4):
        X, y = table(60, seed)
        if bootstrap == "hidden":
            forest = shallow(X, y, seed)
            result = treeleak.reconstruct(forest, SCHEMA, "hidden", AMPLE, seed)
        else:
            with pytest.warns(PrivacyWarning):
                forest = DPForestClassifier(
                    1, 2, 50.0, schema=SCHEMA, classes=[0, 1], random_state=seed
                ).fit(X, y)
            result = treeleak.reconstruct(forest, SCHEMA, n_rows=60, time_limit=AMPLE, seed=seed)
        errors.append(reconstruction_error(result.X, X, SCHEMA))
        guesses.append(random_baseline(X, SCHEMA, 10, seed).mean)
        # One value for all rows, in every column that is not tested, would leave eight at most.
        assert len(result.X.drop_duplicates()) > 8
        assert 0 < result.expected_error < 0.5
    # A constant in eight columns of ten, of mean skew one half, errs by about .4.
    # A neutral prior does not know that ones are rare in columns that no tree tests.
    assert np.mean(errors) < np.mean(guesses) + 0.05 < 0.35


@pytest.mark.slow
def test_rows_keep_to_rules_where_values_are_drawn():
    X, y = table(40, 5)
    members = ("x5", "x6", "x7")
    X.loc[X[list(members)].sum(axis=1) > 1, list(members)] = 0
    schema = Schema(SCHEMA.attributes, rules=[AtMost(members)])
    result = treeleak.reconstruct(shallow(X, y, 0), schema, "hidden", AMPLE, 0)
    assert schema.valid(result.X.to_numpy(float), list(X)).all()
    assert result.X.drop(columns=list(members)).drop_duplicates().shape[0] > 8
