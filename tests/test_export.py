"""Whatever an adapter makes of a model goes through a release file unharmed."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from sklearn import ensemble
from sklearn.datasets import make_classification
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from helpers.examples import spread
from helpers.releases import assert_same
from treeleak.release import to_release
from treeleak.release.readers.release_file import read_release, release_to_dict, write_release

ROOT = Path(__file__).parent.parent
MODELS = ROOT / "tests/models"
PUBLISHED = json.loads((ROOT / "src/treeleak/formats/release.schema.json").read_text())
BOOSTED = sorted(p for p in MODELS.glob("boosted/*/*") if p.suffix in (".json", ".ubj", ".txt"))
BOOSTED = [p for p in BOOSTED if p.name != "truth.json"]
VERSIONS = sorted(p for p in MODELS.glob("[0-9]*/*") if p.suffix == ".skops")


def survives(model, path):
    """Write the release of a model, read it, and compare."""
    release = to_release(model)
    # What lies before or beside a model is not in a release file.
    release = replace(release, inputs=None, leftovers=())
    jsonschema.validate(release_to_dict(release), PUBLISHED)
    write_release(release, path)
    assert_same(read_release(path), release)


def ids(path):
    return f"{path.parent.name}-{path.name}"


@pytest.mark.parametrize("path", spread(BOOSTED, fast=10), ids=ids)
def test_files_of_boosting_libraries(path, tmp_path):
    survives(path, tmp_path / "release.json")


@pytest.mark.parametrize(
    "path", [pytest.param(p, marks=[pytest.mark.slow] * (i % 15 > 0)) for i, p in
             enumerate(VERSIONS)], ids=ids,
)  # fmt: skip
def test_files_of_scikit_learn(path, tmp_path):
    survives(path, tmp_path / "release.json")


SMALL = {"random_state": 0, "max_depth": 3}
MODELS_OF_SKLEARN = [
    ensemble.HistGradientBoostingClassifier(max_iter=3, categorical_features=[0], random_state=0),
    ensemble.HistGradientBoostingRegressor(max_iter=3, early_stopping=True, random_state=0),
    ensemble.GradientBoostingClassifier(n_estimators=3, subsample=0.5, **SMALL),
    ensemble.GradientBoostingRegressor(n_estimators=3, **SMALL),
    ensemble.AdaBoostClassifier(n_estimators=3, random_state=0),
    ensemble.AdaBoostRegressor(n_estimators=3, random_state=0),
    ensemble.RandomForestClassifier(3, **SMALL),
    ensemble.RandomForestRegressor(3, **SMALL),
    ensemble.ExtraTreesRegressor(3, **SMALL),
    ensemble.BaggingRegressor(n_estimators=3, max_features=0.5, random_state=0),
    ensemble.IsolationForest(n_estimators=3, random_state=0),
    make_pipeline(StandardScaler(), ensemble.RandomForestClassifier(3, **SMALL)),
]


@pytest.mark.parametrize(
    "model", spread(MODELS_OF_SKLEARN, fast=5), ids=lambda m: re.sub(r"\W.*", "", str(m))
)
def test_live_models(model, tmp_path):
    X, y = make_classification(60, 4, random_state=0)
    X[:, 0] = np.arange(60) % 5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        survives(model.fit(X.round(1), y), tmp_path / "release.json")
