"""What ``treeleak formats`` lists: every reader, every format to harden, every kind of model."""

import bz2
import gzip
import json
import lzma
import pickle
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

from helpers.cli import run
from helpers.golden_cases import MODELS
from helpers.pmml import document
from treeleak.core.errors import BadInput
from treeleak.hardening.formats import format_of
from treeleak.release import registry

R_MODELS = Path(__file__).parent / "models" / "r"


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_an_object_of_r_is_known_however_it_is_packed(tmp_path, pack):
    written = (R_MODELS / "rpart_classification.rds").read_bytes()
    (path := tmp_path / "model").write_bytes(pack(lzma.decompress(written)))
    with pytest.raises(BadInput, match="this is an R object"):
        format_of(path)
    path.write_bytes(pack(pickle.dumps({"not": "of R"})))
    with pytest.raises(BadInput, match="this is a pickle"):
        format_of(path)


def test_a_reader_that_says_nothing_is_listed_by_its_name(instead):
    instead("_FORMATS", [*registry._FORMATS], registry)
    registry.reader("new kind", lambda _: False)(lambda *_: None)
    assert "new kind" in run("formats").stdout


@pytest.mark.parametrize(
    ("file", "home"),
    [
        ("r/ranger_classification.rds", "in R, delete"),
        ("ydf/forest", "min_examples"),
        ("exchange/forest.onnx", "convert again"),
        ("ebm/0.7.8.json", 'detail="minimal"'),
        ("j48/loans.txt", "in brackets"),
        ("tree.pmml", "ScoreDistribution"),
        ("ebm/0.7.8.pkl", "skops.io.dump"),
    ],
)
def test_what_is_not_hardened_says_what_to_do_where_it_was_made(file, home, tmp_path):
    path = MODELS / file
    if file == "tree.pmml":
        path, X = tmp_path / file, np.array([[0.0], [1.0], [2.0]])
        tree = DecisionTreeClassifier(random_state=0).fit(X, [0, 1, 1])
        path.write_bytes(document(tree, ["a"], [0, 1]))
    refused = run("harden", path, "--out", tmp_path / "out")
    assert refused.exit_code == 2
    assert home in refused.stderr
    assert ("skops.io.dump" in refused.stderr) is file.endswith(".pkl")
    assert not (tmp_path / "out").exists()


def rows_of(folder: str) -> pd.DataFrame:
    held = json.loads((MODELS / folder / "truth.json").read_text())["rows"]
    return pd.DataFrame(**held) if "columns" in held else pd.DataFrame(held)


@pytest.mark.parametrize(
    ("file", "rows", "column", "labels"),
    [
        ("r/rpart_classification.rds", "r/rpart_classification.rows.csv", "ploidy",
         {"aneuploid", "diploid", "tetraploid"}),
        ("r/randomforest_classification.rds", "r/randomforest_classification.rows.csv",
         "education", {"0-5yrs", "6-11yrs", "12+ yrs"}),
        ("ydf/forest", "ydf", "colour", None),
        ("catboost-ctr/texts.json", "catboost-ctr", "city", None),
    ],
)  # fmt: skip
def test_a_schema_from_rows_with_texts_has_their_categories(file, rows, column, labels, tmp_path):
    table = pd.read_csv(MODELS / rows) if rows.endswith(".csv") else rows_of(rows)
    table.to_csv(tmp_path / "rows.csv", index=False)
    said = run("schema", MODELS / file, "--train", tmp_path / "rows.csv").stdout
    found = {a["name"]: a for a in tomllib.loads(said)["attribute"]}[column]
    assert found["kind"] == "categorical"
    assert set(table[column].dropna()) <= {*found["labels"], "another"}
    assert labels is None or set(found["labels"]) == labels


@pytest.mark.parametrize("command", ["schema", "audit"])
def test_of_factors_of_ranger_r_makes_the_codes(command):
    rows = MODELS / "r" / "ranger_classification.rows.csv"
    refused = run(command, MODELS / "r" / "ranger_classification.rds", "--train", rows)
    assert refused.exit_code == 2
    assert "d[v] <- data.matrix(d[v])" in refused.stderr
