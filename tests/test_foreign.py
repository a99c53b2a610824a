"""Files of other programs are named, and so is what was meant by a misspelt word."""

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import treeleak
from helpers.cli import run
from helpers.examples import spread
from helpers.other_files import FOLDERS, OTHER_FILES
from treeleak.core.errors import BadModel
from treeleak.release import read_model

X = pd.DataFrame({"priors": [0, 1] * 10, "sex": [0, 0, 1, 1] * 5})
Y = [0, 1] * 10


@pytest.mark.parametrize("name", spread(OTHER_FILES, fast=12, each=True))
def test_what_is_no_tree_model_is_named_with_what_to_do(tmp_path, name):
    words, make = OTHER_FILES[name]
    (tmp_path / name).write_bytes(make())
    result = run("audit", tmp_path / name, "--trust-pickle")
    # What stores training rows is no tree model either, and leaks: that is an answer.
    assert result.exit_code == (0 if "training rows themselves" in result.stderr else 2)
    said = result.stderr.splitlines()[-1]
    assert words in said
    assert name in said
    assert "known formats" not in said
    # Nothing of a pickle is opened before it is trusted; what is no pickle needs no trust.
    assert run("audit", tmp_path / name).exit_code == 2


@pytest.mark.parametrize("name", FOLDERS)
def test_of_a_folder_the_model_in_it_is_named(tmp_path, name):
    words, files = FOLDERS[name]
    for own, data in files.items():
        (tmp_path / own).write_bytes(data)
    assert words in run("audit", tmp_path).stderr
    with pytest.raises(BadModel, match=words):
        read_model(tmp_path)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"0:[f0<1] yes=1,no=2,missing=1\n\t1:leaf=1\n\t2:leaf=2\n", "XGBoost printed"),
        (b'{"nodeid": 0, "split": "a", "children": []}', "XGBoost printed"),
        (b"binf\0\0", "XGBoost before 1.0"),
        (
            b"\0" * 144 + b"binary:logistic\6" + b"\0" * 7 + b"gbtree",
            "binary format of old XGBoost",
        ),
        (b"tree\nnum_class=1\nnum_tree_per_iteration=1\n", "LightGBM before 2.0"),
    ],
)
def test_a_file_of_a_boosting_library_that_is_not_read_is_named(tmp_path, content, name):
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(BadModel, match=name):
        read_model(tmp_path / "model")


def test_an_object_that_cython_pickled_is_one_of_its_class(tmp_path):
    """As scikit-learn 1.1 pickled the losses of histogram boosting."""
    name = b"csklearn._loss._loss\n"
    loss = name + b"__pyx_unpickle_CyPinballLoss\n(" + name + b"CyPinballLoss\nJ\x1e\xb6\x49\x02"
    (tmp_path / "m.pkl").write_bytes(b"\x80\x02" + loss + b"G\x3f\xe0\0\0\0\0\0\0\x85tR.")
    stored = read_model(tmp_path / "m.pkl", trust_pickle=True)
    assert (stored.type, stored.args) == ("sklearn._loss._loss.CyPinballLoss", (0.5,))
    assert not stored.leftovers


def test_of_a_model_of_several_targets_it_is_said_whose_are_told():
    rng = np.random.default_rng(0)
    rows, targets = rng.normal(size=(40, 3)), rng.normal(size=(40, 2))
    tree = DecisionTreeRegressor(max_leaf_nodes=20, random_state=0).fit(rows, targets)
    audit = treeleak.audit(tree)
    sizes, own = np.unique(tree.apply(rows), return_counts=True)[1], tree.predict(rows)
    exact = (own == targets).all(axis=1).sum()
    assert 0 < exact == (sizes == 1).sum() < 20
    said = f"{exact} of 20 leaves hold a single training row. They predict the exact target of that"
    assert said in " ".join(str(f.text) for f in audit.findings)


@pytest.mark.parametrize("kind", [RandomForestClassifier, RandomForestRegressor])
def test_rows_of_a_forest_of_several_targets_are_rebuilt_from_its_counts(kind):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.integers(0, 2, (30, 5)), columns=list("abcde"))
    targets = np.column_stack([rows["a"] ^ rows["b"], rng.integers(0, 3, 30)])
    forest = kind(25, bootstrap=True, random_state=0).fit(rows, targets)
    found = treeleak.reconstruct(forest, time_limit=20)
    assert found.ordered
    assert (found.X.to_numpy() == rows.to_numpy()).mean() > 0.95


@pytest.mark.parametrize("stated", [2, 1])
def test_what_a_model_of_several_targets_says_of_them_is_not_assessed(stated):
    rng = np.random.default_rng(0)
    rows, targets = rng.normal(size=(60, 3)), rng.normal(size=(60, 2))
    tree = DecisionTreeRegressor(max_depth=1).fit(rows, targets)
    tree.n_outputs_ = stated
    audit = treeleak.audit(tree, X=rows, time_limit=20)
    assert audit.verdict != "no leak shown"
    assert "disclose of the targets is not assessed" in " ".join(
        str(f.text) for f in audit.findings
    )


def model(tmp_path):
    skops.io.dump(DecisionTreeClassifier().fit(X, Y), tmp_path / "m.skops")
    X.assign(again=Y).to_csv(tmp_path / "train.csv", index=False)
    return tmp_path / "m.skops", tmp_path / "train.csv"


def test_an_option_of_another_command_is_said_to_be(tmp_path):
    said = " ".join(run("audit", model(tmp_path)[0], "--space", "input").stderr.split())
    assert "it is an option of treeleak reconstruct" in said
    assert "--schema" in run("audit", "m", "--shema", "s").stderr


def test_an_empty_cell_of_the_training_rows_is_named_by_its_place(tmp_path):
    file, train = model(tmp_path)
    train.write_text(train.read_text().replace("0,0,0", ",0,0", 1))
    result = run("audit", file, "--train", train, "--label", "again")
    assert result.exit_code == 2
    assert "column 'priors' of the training rows is empty in row 0" in result.stderr
    assert np.isnan(pd.read_csv(train)["priors"][0])
