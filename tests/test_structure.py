"""Parameters and groups of rows, against scikit-learn and by hand."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier

import treeleak

pytestmark = pytest.mark.usefixtures("short_walks_throughout")


def table(n=120, columns=5, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 2, (n, columns)), columns=[f"c{i}" for i in range(columns)])
    y = (X["c0"] + X["c1"] + rng.integers(0, 2, n) > 1).astype(int)
    return X, y


def by_answer(model, X):
    """Rows that get the same shares, as another tool would group them."""
    shares, sizes = np.unique(np.round(model.predict_proba(X), 12), axis=0, return_counts=True)
    return shares, sizes


@pytest.mark.slow
def test_groups_by_answer_are_those_of_predict_proba():
    X, y = table()
    model = RandomForestClassifier(4, max_depth=2, bootstrap=False, random_state=0).fit(X, y)
    found = treeleak.audit(model, X, y, time_limit=20).structure
    own, (shares, sizes) = found.grouped("answer"), by_answer(model, X)
    assert own.of == "training rows"
    assert (own.groups, own.smallest) == (len(sizes), sizes.min())
    assert own.small == (sizes < 10).sum()
    assert own.rows_in_small == sizes[sizes < 10].sum()
    assert own.lack_a_class == np.isclose(shares, 0).any(axis=1).sum()
    rows = shares * sizes[:, None]
    assert own.few_of_a_class == ((rows > 1e-9) & (rows < 10)).any(axis=1).sum()


def test_degrees_of_freedom_are_rows_less_parameters():
    X, y = table()
    model = RandomForestClassifier(3, max_depth=2, bootstrap=False, random_state=0).fit(X, y)
    found = treeleak.audit(model, time_limit=10).structure
    trees = [t.tree_ for t in model.estimators_]
    own = sum(2 * (t.node_count - t.n_leaves) + t.n_leaves for t in trees)
    assert (found.parameters, found.n_rows, found.residual_degrees) == (own, 120, 120 - own)


def test_few_rows_are_not_told_to_others():
    """One small group: how many rows small groups hold would be its size."""
    X = pd.DataFrame({"a": [0] * 40 + [1] * 4})
    y = [0, 1] * 20 + [1] * 4
    model = DecisionTreeClassifier(random_state=0).fit(X, y)
    result = treeleak.audit(model, X, y, time_limit=10)
    own = result.to_dict()["structure"]["groups"][0]
    assert own["small"] == 1
    assert own["smallest"] is None
    assert own["rows_in_small"] is None
    assert result.to_dict("internal")["structure"]["groups"][0]["rows_in_small"] == 4
