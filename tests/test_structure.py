"""Parameters and groups of rows, against scikit-learn and by hand."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.documents import valid
from treeleak.auditing.assessors.structure import count_parameters
from treeleak.release import to_release

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


@pytest.mark.slow
def test_the_file_parts_rows_that_its_answers_do_not():
    """Pure leaves answer 0 or 1: two groups by answer, nearly one for each row by leaf."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("abc"))
    y = rng.integers(0, 2, 40)
    model = ExtraTreesClassifier(20, bootstrap=False, random_state=0).fit(X, y)
    found = treeleak.audit(model, X, y, time_limit=5).structure
    assert found.grouped("answer").groups == 2
    assert found.grouped("answer").smallest == min(np.bincount(y))
    leaves = np.unique(model.apply(X), axis=0)
    assert found.grouped("cell").groups == len(leaves) > 30
    assert found.grouped("cell").smallest == 1


@pytest.mark.slow
def test_a_single_tree_needs_no_rows():
    X, y = table()
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y)
    alone = treeleak.audit(model, time_limit=20).structure
    given = treeleak.audit(model, X, y, time_limit=20).structure
    sizes = np.unique(model.apply(X), return_counts=True)[1]
    assert alone.grouped("leaf").smallest == given.grouped("leaf").smallest == sizes.min()
    told = [
        {k: v for k, v in s.to_dict()["groups"][0].items() if k != "of"} for s in (alone, given)
    ]
    assert told[0] == told[1]


@pytest.mark.parametrize(
    "model",
    [
        HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=5),
        GradientBoostingClassifier(n_estimators=2, max_depth=2),
        GradientBoostingClassifier(n_estimators=2, max_depth=2, init=LogisticRegression()),
    ],
)
def test_a_leaf_of_boosted_trees_learnt_the_one_number_that_it_adds(model):
    X, y = table()
    release = to_release(model.fit(X, y + X["c2"]))
    leaves = sum(len(tree.leaves) for tree in release.trees)
    splits = sum(tree.n_nodes for tree in release.trees) - leaves
    weights = len(release.trees) * (release.ensemble is not None)
    assert len(release.trees) == 2 * len(model.classes_) > 4
    assert count_parameters(release) == 2 * splits + leaves + weights


def test_degrees_of_freedom_are_rows_less_parameters():
    X, y = table()
    model = RandomForestClassifier(3, max_depth=2, bootstrap=False, random_state=0).fit(X, y)
    found = treeleak.audit(model, time_limit=10).structure
    trees = [t.tree_ for t in model.estimators_]
    own = sum(2 * (t.node_count - t.n_leaves) + t.n_leaves for t in trees)
    assert (found.parameters, found.n_rows, found.residual_degrees) == (own, 120, 120 - own)


@pytest.mark.slow
@pytest.mark.parametrize("edition", ["internal", "releasable"])
def test_documents_fit_the_format(edition):
    X, y = table()
    model = RandomForestClassifier(4, bootstrap=False, random_state=0).fit(X, y)
    result = treeleak.audit(model, X, y, time_limit=10)
    document = result.to_dict(edition)
    valid(document)
    own = next(g for g in document["structure"]["groups"] if g["by"] == "cell")
    if edition == "releasable":
        assert own["smallest"] is None
    else:
        assert own["smallest"] < 10


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
