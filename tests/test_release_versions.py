"""Model files written by several scikit-learn versions, against what their nodes really saw.

``tools/make_fixture_models.py`` writes the files.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from helpers.examples import spread
from treeleak.release import AllRows, Bootstrap, StoredObject, read_model, to_release

MODELS = Path(__file__).parent / "models"
FILES = sorted(p for p in MODELS.glob("[0-9]*/*") if p.suffix != ".json")
VERSIONS = {"1.3.2", "1.5.2", "1.7.2", "1.8.0", "1.9.1"}

# Where counts cannot be told from sums of weights.
WEIGHTS = {
    *((v, "row_weight") for v in ("1.3.2", "1.5.2", "1.7.2", "1.8.0")),
    *((v, "bagging_row_weight") for v in ("1.3.2", "1.5.2", "1.7.2")),
    # Before 1.4 a forest does not store how many rows it was given.
    ("1.3.2", "balanced"),
}
DRAWN = {
    *("drawn", "drawn_extra", "balanced", "balanced_subsample", "row_weight"),
    *("bagging", "bagging_rows", "bagging_columns", "bagging_row_weight"),
}


def ids(path):
    return f"{path.parent.name}-{path.stem}"


def test_every_version_is_there():
    assert {p.parent.name for p in FILES} == VERSIONS
    assert len(FILES) == len(VERSIONS) * 15


@pytest.mark.versions
@pytest.mark.parametrize("path", spread(FILES, fast=20), ids=ids)
def test_a_file_of_any_version_gives_what_its_nodes_saw(path):
    known = json.loads(path.with_suffix(".json").read_text())
    version, name = path.parent.name, path.stem
    release = to_release(path, trust_pickle=True)

    unit = "draws" if name in DRAWN else "rows"
    assert release.counts_are == ("weights" if (version, name) in WEIGHTS else unit)
    assert release.classes == tuple(known["classes"])
    assert release.feature_names == tuple(known["columns"])
    assert release.maybe_missing == set(known["missing"])
    miscounted = name == "missing" and version != "1.9.1"
    assert ("miscounts" in (release.not_covered or "")) == miscounted
    assert miscounted or release.not_covered is None
    assert version in release.origin
    assert isinstance(release.sampling, Bootstrap if name in DRAWN else AllRows)
    assert release.float_type == "float32"

    counts = known["weights" if release.counts_are == "weights" else "counts"]
    assert len(release.trees) == len(counts)
    for tree, count, distinct in zip(release.trees, counts, known["distinct"], strict=True):
        if release.counts_are == "weights":
            np.testing.assert_allclose(tree.counts, count, atol=1e-9)
        else:
            np.testing.assert_array_equal(tree.counts, count)
            np.testing.assert_array_equal(tree.totals, np.sum(count, axis=1))
        np.testing.assert_array_equal(tree.distinct, distinct)


@pytest.mark.versions
@pytest.mark.parametrize("version", sorted(VERSIONS))
def test_draws_and_rows(version):
    drawn = to_release(MODELS / version / "drawn.pkl", trust_pickle=True)
    assert drawn.sampling.n_draws == 21
    assert drawn.n_rows == (None if version == "1.3.2" else 30)
    assert drawn.sampling.forest_seed == 0
    assert len(drawn.sampling.tree_seeds) == 3
    assert None not in drawn.sampling.tree_seeds
    assert to_release(MODELS / version / "all_rows.skops").n_rows == 30

    weighted = to_release(MODELS / version / "row_weight.skops").sampling.row_weights
    assert (weighted is not None) == (version == "1.9.1")
    bagging = to_release(MODELS / version / "bagging_row_weight.skops").sampling.row_weights
    assert (bagging is not None) == (version in {"1.8.0", "1.9.1"})
    if bagging is not None:
        assert set(bagging) == {0.5, 1.0, 2.5}


@pytest.mark.versions
def test_a_threshold_that_is_nan_sends_no_value_left():
    """Such nodes come from 1.8 and before, in trees that saw missing values."""
    stored = read_model(MODELS / "1.8.0" / "missing.skops")
    nodes = stored.get("tree_").get("nodes").copy()
    nodes["threshold"][0] = np.nan
    inner = StoredObject("sklearn.tree._tree.Tree", {**stored.get("tree_").state, "nodes": nodes})
    tree = to_release(StoredObject(stored.type, {**stored.state, "tree_": inner})).trees[0]
    rows = np.array([[1.0, -1e30, 1.0, 1.0], [1.0, 1e30, 1.0, 1.0]], dtype=np.float32)
    right = tree.apply(rows) >= tree.right[0]
    assert right.all()


@pytest.mark.versions
@pytest.mark.parametrize("version", sorted(VERSIONS))
def test_a_pipeline_declares_its_one_hot_group(version):
    release = to_release(MODELS / version / "pipeline.skops")
    group = tuple(f"job__job_{job}" for job in ("cook", "judge", "smith"))
    assert release.one_hot == {"job__job": group}
    release.inputs.check()
    assert release.inputs.read_from == {
        "age": ("rest__age",),
        "size": ("rest__size",),
        "job": group,
    }
    assert "last step of a Pipeline" in release.notes[0]
