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
from treeleak.core.errors import BadModel, BadSchema, NotCovered
from treeleak.release import read_model, to_release

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


def test_each_kind_of_file_gets_a_sentence_of_its_own(tmp_path):
    said = {}
    for name, (_, make) in OTHER_FILES.items():
        (tmp_path / name).write_bytes(make())
        with pytest.raises((BadModel, NotCovered)) as error:
            to_release(tmp_path / name)
        text = str(error.value).replace(str(tmp_path / name), "")
        if "--trust-pickle" not in text:
            said[name] = text
    alike = [sorted(own) for own in ({n for n in said if said[n] == t} for t in said.values())]
    assert len(said) > 30
    # Ways to pack a folder, to save weights, and a picture in two formats.
    pairs = (
        ["other.zip", "packed.tar", "packed.tar.gz"],
        ["keras.json", "model.keras"],
        ["model.pt", "old.pt"],
        ["paper.pdf", "picture.png"],
    )
    assert [own for own in alike if len(own) > 1 and own not in pairs] == []


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


def test_a_pickle_that_python_2_wrote_is_read(tmp_path):
    """Its bytes stand as text, which is not ASCII."""
    raw = np.array([1.5, -2.25]).tobytes()
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
        b"(K\x01(K\x02tcnumpy\ndtype\n(U\x02f8K\x00K\x01tR(K\x03U\x01<NNNJ\xff\xff\xff\xff"
        b"J\xff\xff\xff\xffK\x00tb\x89U" + bytes([len(raw)]) + raw + b"tb"
    )
    model = b"\x80\x02csklearn.tree.tree\nTree\n)\x81}U\x06valuesq\x00" + array + b"sb."
    (tmp_path / "old.pkl").write_bytes(model)
    stored = read_model(tmp_path / "old.pkl", trust_pickle=True)
    assert stored.get("values").tolist() == [1.5, -2.25]


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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--label", "agian"), "did you mean 'again'?"),
        (("--label", "again", "--sensitive", "prior"), "did you mean 'priors'?"),
        (("--label", "again", "--groups", "sexx"), "did you mean 'sex'?"),
    ],
)
def test_a_misspelt_column_is_answered_by_the_one_that_is_meant(tmp_path, options, said):
    file, train = model(tmp_path)
    result = run("audit", file, "--train", train, *options)
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version = 1\n[[attribut]]\n", "did you mean 'attribute'?"),
        ('version = 1\n[[attribute]]\nkind = "binray"\nname = "a"', "did you mean 'binary'?"),
        ('version = 1\n[[attribute]]\nkind="ordinal"\nname="a"\nlwo=1', "did you mean 'low'?"),
    ],
)
def test_a_misspelt_key_of_a_schema_is_found(tmp_path, text, said):
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(BadSchema) as error:
        treeleak.Schema.read(tmp_path / "s.toml")
    assert said in str(error.value)


def test_an_empty_cell_of_the_training_rows_is_named_by_its_place(tmp_path):
    file, train = model(tmp_path)
    train.write_text(train.read_text().replace("0,0,0", ",0,0", 1))
    result = run("audit", file, "--train", train, "--label", "again")
    assert result.exit_code == 2
    assert "column 'priors' of the training rows is empty in row 0" in result.stderr
    assert np.isnan(pd.read_csv(train)["priors"][0])
