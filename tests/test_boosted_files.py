"""Files of boosting libraries, written by several versions, against what these say of them.

``tools/make_boosted_models.py`` writes the files. No library is needed to read them.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from treeleak.core.errors import NotCovered
from treeleak.evidence import LossSums, evidence_for
from treeleak.release import to_release
from treeleak.release.draws.seeds import known_draws
from treeleak.release.statistics import HESSIAN

MODELS = Path(__file__).parent / "models" / "boosted"
FILES = [
    (folder, name)
    for folder in sorted(path.name for path in MODELS.iterdir())
    for name, told in json.loads((MODELS / folder / "truth.json").read_text()).items()
    if told
]
N = 60
NUMBERED_AS_NODES = ("sklearn", "xgboost")
"""Libraries that number leaves as they number nodes."""
COUNTED_FIRST = {"logistic.ubj": 1, "softprob.json": 3, "forest.json": 3, "categories.json": 1}
"""Trees of the first round, of XGBoost's models that count rows in these only."""


@cache
def read(path):
    return to_release(path, trust_pickle=True)


def opened(folder, name):
    if name.endswith("cbm") and find_spec("catboost") is None:
        pytest.skip("needs CatBoost: pip install 'treeleak[catboost]'")
    truth = json.loads((MODELS / folder / "truth.json").read_text())[name]
    return read(MODELS / folder / name), truth


def test_files_of_each_library_are_of_two_versions_at_least():
    versions = Counter(folder.split("-")[0] for folder in {folder for folder, _ in FILES})
    assert set(versions) == {"catboost", "lightgbm", "sklearn", "xgboost"}
    assert min(versions.values()) >= 2


@pytest.mark.parametrize(("folder", "name"), FILES)
def test_rows_are_counted_where_the_file_counts_them(folder, name):
    release, truth = opened(folder, name)
    library = folder.partition("-")[0]
    drawn = name in ("subsample.ubj", "bagged.txt")
    for t, (tree, counts) in enumerate(zip(release.trees, truth["counts"], strict=True)):
        if library == "xgboost" and t >= COUNTED_FIRST.get(name, len(release.trees)):
            assert tree.totals is None
            assert tree.statistics.get(HESSIAN) is not None
            continue
        if drawn or name == "lossguide.json":
            assert tree.totals[0] <= N
            continue
        own = np.zeros(tree.n_nodes)
        leaves = np.arange(tree.n_nodes) if library in NUMBERED_AS_NODES else tree.leaves
        own[leaves[: len(counts)]] = counts
        np.testing.assert_array_equal(tree.totals[tree.leaves], own[tree.leaves])
    if name == "bagged.txt":
        assert release.sampling.rule == "LightGBM bagging of 0.5 every 1"
        whole = replace(release, n_rows=N)
        assert known_draws(whole).counts.sum(axis=1).tolist() == [t.totals[0] for t in whole.trees]
    elif drawn:
        assert release.sampling.kind == "unknown"
        assert release.n_rows is None
        with pytest.raises(NotCovered, match=r"saw|different"):
            evidence_for(release)
    elif name in ("logistic.ubj", "categories.json"):
        # The first tree counts rows, and the hessians of the second one are of the same rows.
        assert (release.sampling.kind, release.n_rows) == ("all", N)
        # Later trees say of rows what their derivatives add up to.
        assert release.not_covered is None
        assert release.trees[1].totals is None
        assert evidence_for(release) == LossSums
    else:
        assert (release.sampling.kind, release.n_rows) == ("all", N)
        if name not in COUNTED_FIRST:
            assert release.not_covered is None


def test_models_in_binary_form_name_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "catboost", None)  # As where it is not installed.
    with pytest.raises(NotCovered, match=r"treeleak\[catboost\]"):
        to_release(MODELS / "catboost-1.2.10" / "logloss.cbm")
