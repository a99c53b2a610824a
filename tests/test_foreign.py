"""Files of other programs are named, and so is what was meant by a misspelt word."""

import gzip
import json
import zipfile

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import treeleak
from helpers.cli import run
from treeleak.core.errors import BadInput, BadModel, BadSchema, Mismatch
from treeleak.release import read_model

X = pd.DataFrame({"priors": [0, 1] * 10, "sex": [0, 0, 1, 1] * 5})
Y = [0, 1] * 10


def zipped(path, *members):
    with zipfile.ZipFile(path, "w") as archive:
        for name in members:
            archive.writestr(name, b"")


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"\x89HDF\r\n\x1a\n\0\0", "an HDF5 file"),
        (b"\x08\x08\x12\x07skl2onnx\x1a\x061.14.0", "an ONNX model"),
        (b'<?xml version="1.0"?>\n<PMML version="4.4"/>', "a PMML model"),
        ((60).to_bytes(8, "little") + b'{"w":{"dtype":"F32"}}', "a file of tensors"),
        (b'[\n  { "nodeid": 0, "depth": 0 }]', "XGBoost printed"),
        (b"booster[0]:\n0:[f0<1] yes=1", "XGBoost printed"),
        (b"binf\0\0", "XGBoost before 1.0"),
        (b"age,sex\n18,0\n", "a table, it seems"),
        (json.dumps({"tree_info": [], "feature_names": []}).encode(), "LightGBM printed"),
        (json.dumps({"class_name": "Sequential", "config": {}}).encode(), "a Keras model"),
        (json.dumps({"a": 1}).encode(), "JSON of an unknown kind"),
        (gzip.compress(b"X\n\0\0\0\x03", mtime=0), "an R object"),
        (b"plain words", "not a model file"),
    ],
)
def test_a_file_of_another_program_is_named(tmp_path, content, name):
    path = tmp_path / "model"
    path.write_bytes(content)
    with pytest.raises(BadModel, match=name):
        read_model(path)


@pytest.mark.parametrize(
    ("members", "name"),
    [
        (("archive/data.pkl", "archive/version"), "a PyTorch model"),
        (("config.json", "model.weights.h5"), "a Keras model"),
        (("a.txt",), "without schema.json"),
    ],
)
def test_a_zip_file_of_another_program_is_named(tmp_path, members, name):
    zipped(tmp_path / "model", *members)
    with pytest.raises(BadModel, match=name):
        read_model(tmp_path / "model")


def test_an_archive_that_was_cut_short_is_said_to_be(tmp_path):
    data = skops.io.dumps(DecisionTreeClassifier().fit(X, Y))
    (tmp_path / "m.skops").write_bytes(data[: len(data) // 2])
    with pytest.raises(BadModel, match="cut short or changed on its way"):
        read_model(tmp_path / "m.skops")


def test_a_model_without_trees_is_bad_input_on_the_command_line(tmp_path):
    skops.io.dump(LogisticRegression().fit(X, Y), tmp_path / "m.skops")
    result = run("audit", tmp_path / "m.skops")
    assert result.exit_code == 2
    assert "LogisticRegression is not a tree model" in result.stderr


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


def test_a_misspelt_column_of_the_training_rows_is_found():
    tree = DecisionTreeClassifier().fit(X, Y)
    with pytest.raises(Mismatch, match=r"did you mean 'priors' by 'prior'\?"):
        treeleak.audit(tree, X.rename(columns={"priors": "prior"}), Y)


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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("treshold = 5", "did you mean 'threshold'?"),
        ("[limits]\nexact_row = 0.1", "did you mean 'exact_rows'?"),
    ],
)
def test_a_misspelt_key_of_a_policy_is_found(tmp_path, text, said):
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(BadInput) as error:
        treeleak.read_policy(tmp_path / "p.toml")
    assert said in str(error.value)


def test_misspelt_keys_of_files_of_models_are_found(tmp_path):
    release = {"format": "treeleak-release", "version": 2, "tree": []}
    rules = {"format": "treeleak-rules", "version": 1, "clases": [0, 1]}
    for name, content, meant in (("r", release, "trees"), ("l", rules, "classes")):
        (tmp_path / name).write_text(json.dumps(content))
        with pytest.raises(BadModel) as error:
            read_model(tmp_path / name)
        assert f"did you mean {meant!r}?" in str(error.value)


def test_an_empty_cell_of_the_training_rows_is_named_by_its_place(tmp_path):
    file, train = model(tmp_path)
    train.write_text(train.read_text().replace("0,0,0", ",0,0", 1))
    result = run("audit", file, "--train", train, "--label", "again")
    assert result.exit_code == 2
    assert "column 'priors' of the training rows is empty in row 0" in result.stderr
    assert np.isnan(pd.read_csv(train)["priors"][0])
