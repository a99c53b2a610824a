"""From a file to an answer by the command line, for every format.

Files of several versions of each boosting library, see ``test_boosted_files.py``, and forests of
two versions of scikit-learn.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest

from helpers.cli import run
from helpers.documents import valid

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

MODELS = Path(__file__).parent / "models" / "boosted"
TOLD = {path.name: json.loads((path / "truth.json").read_text()) for path in MODELS.iterdir()}
FILES = [(folder, name) for folder in sorted(TOLD) for name in TOLD[folder]]
BY_COUNTS = {(folder, name) for folder, name in FILES if not TOLD[folder][name]}
"""Forests of scikit-learn: all that their leaves say of rows is counts and targets."""
N = 60
NOT_REBUILT = {"subsample.ubj": "different numbers of rows"}
"""Files of which nobody rebuilds rows from counts, and what is said of them."""
QUICK = {
    ("catboost-1.2.2", "lossguide.json"),
    ("lightgbm-3.3.5", "categories.txt"), ("lightgbm-4.7.0", "binary.txt"),
    ("lightgbm-4.7.0", "pickled.pkl"), ("sklearn-1.3.2", "histogram.skops"),
    ("sklearn-1.9.1", "boosting_number.pkl"), ("xgboost-1.7.6", "logistic.ubj"),
    ("xgboost-3.2.0", "subsample.ubj"),
}  # fmt: skip
"""One or more of every library, and of most kinds of file, that take no time."""


def test_each_library_is_there_in_two_versions():
    libraries = [folder.partition("-")[0] for folder in dict(FILES)]
    assert {library: libraries.count(library) >= 2 for library in libraries} == {
        "catboost": True, "lightgbm": True, "sklearn": True, "xgboost": True
    }  # fmt: skip
    assert set(FILES) >= QUICK


@pytest.mark.parametrize(
    ("folder", "name"),
    [pytest.param(*own, marks=[] if own in QUICK else [pytest.mark.slow]) for own in FILES],
)
def test_a_file_is_answered(folder, name, tmp_path):
    if name.endswith("cbm") and find_spec("catboost") is None:
        pytest.skip("needs CatBoost: pip install 'treeleak[catboost]'")
    trust = ["--trust-pickle"] * name.endswith("pkl")
    model, rows, found = MODELS / folder / name, tmp_path / "rows.csv", tmp_path / "audit.json"
    why = NOT_REBUILT.get(name)
    answer = run("reconstruct", model, "--out", rows, "--time-limit", 5, "--quiet", *trust)
    if why is None:
        assert answer.exit_code == 0, answer.output
        assert len(pd.read_csv(rows)) == N
    else:
        assert answer.exit_code == 2
        assert why in " ".join(answer.stderr.split())
    audit = run("audit", model, "--json", found, "--time-limit", 5, "--quiet", *trust)
    told = valid(json.loads(found.read_text()), "audit")
    # Where no attack looked at it, and nothing else decides, nobody may take it for safe.
    unseen = told["verdict"] == "not assessed" and told["reconstruction"] is None
    assert audit.exit_code == (2 if unseen else 0), audit.output
    assert (told["reconstruction"] is None) == (why is not None)
    if (folder, name) not in BY_COUNTS:
        assert told["verdict"] in ("leak shown", "possible leak", "not assessed")
        assert told["not_assessed"]
