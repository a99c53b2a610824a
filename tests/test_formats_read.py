"""What ``treeleak formats`` lists: every reader, every format to harden, every kind of model."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from helpers.cli import run
from helpers.golden_cases import MODELS
from helpers.pmml import document
from treeleak.hardening.formats import FORMATS, INSTEAD
from treeleak.release import registry
from treeleak.release.unsupported_formats import kind_of_folder, kind_of_members


def test_every_reader_says_what_its_files_are_called_and_disclose():
    described = {known.name: known for known in registry.formats_read()}
    for reads in registry._FORMATS:
        assert described[reads.name].endings, reads.name
        assert described[reads.name].discloses, reads.name
    for mark in registry._OF_FILES:
        assert any(mark in f.endings for f in described.values()), mark
    assert {known.name for known in FORMATS} | INSTEAD.keys() <= described.keys()
    assert len(described) == len(registry.formats_read())


def test_the_list_names_formats_extras_steps_and_models():
    said = run("formats").stdout
    for known in registry.formats_read():
        assert known.name in said
        assert known.needs in said
    for known in FORMATS:
        assert ", ".join(step.name for step in known.steps) in said
    for _, how in INSTEAD.values():
        assert f"not by treeleak; {how}" in said
    for package, names in registry.kinds_read().items():
        assert package in said
        assert set(names) <= set(said.replace(",", " ").split())
    assert "RandomForestClassifier" in said


def test_a_reader_that_says_nothing_is_listed_by_its_name(instead):
    instead("_FORMATS", [*registry._FORMATS], registry)
    registry.reader("new kind", lambda _: False)(lambda *_: None)
    assert "new kind" in run("formats").stdout


def test_models_that_are_not_read_are_named_with_the_way_to_write_them(tmp_path):
    assert "H2OTree" in kind_of_members(["model.ini", "trees/t00.bin"])
    for part in ("metadata", "data", "treesMetadata"):
        (tmp_path / part).mkdir()
    assert "PMML" in kind_of_folder(tmp_path)


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
