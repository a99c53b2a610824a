"""What answers must be on every processor: statuses, proofs, and errors within a band.

Each case is tried on several seeds. ``golden.json`` states the statuses and verdicts that it may
have, how many rows it rebuilds, and between which ends the share of proved rows, the expected and
the measured error lie, in the mean over the seeds. Bands leave room for other libraries and
processors; what is claimed to be proved is compared with the truth, seed by seed.

``python tests/test_golden.py NAME ...`` prints what cases answer today.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

import treeleak as tl
from helpers.golden_cases import CASES

GOLDEN = Path(__file__).parent / "golden.json"


def check_claims(found: Any, X: pd.DataFrame | None, y: pd.Series | None) -> None:
    """Compare what is said to be proved with the truth, and claims with each other."""
    claims_all = found.status in ("unique", "feasible")
    assert not claims_all or found.misfit == 0
    assert (found.status == "infeasible") == (found.contradiction is not None)
    if X is None or found.proved is None:
        return
    assert found.status != "unique" or found.proved.all()
    # Intervals are proved, not the numbers in them.
    columns = [c for c in found.X if c not in found.interval_columns]
    proved = found.proved.to_numpy(bool)
    sure = (found.confidence[columns].to_numpy() == 1.0)[proved]
    same = found.X[columns].to_numpy()[proved, None] == X[columns].to_numpy()
    fits = (same | ~sure[:, None]).all(axis=2)
    fits &= found.y.to_numpy()[proved, None] == y.to_numpy()
    if found.ordered:
        assert fits[np.arange(len(fits)), np.flatnonzero(proved)].all()
    else:
        assert (maximum_bipartite_matching(csr_array(fits), "column") >= 0).sum() == len(fits)


def answered(name: str, n_seeds: int) -> dict[str, Any]:
    """Try a case on some seeds, and check what it claims."""
    out: dict[str, Any] = {"status": set(), "verdict": set(), "rows": set()}
    shares: dict[str, list[float]] = {"proved": [], "expected": [], "error": []}
    for k in range(n_seeds):
        found, X, y = CASES[name](k)
        if isinstance(found, tl.Audit):
            out["verdict"].add(found.verdict.split(" (")[0])
            found = found.reconstruction
            if found is None:
                continue
        out["status"].add(found.status)
        check_claims(found, X, y)
        out["rows"].add(found.n_rows)
        if found.n_rows:
            shares["proved"].append(found.share_proved_rows)
            if found.expected_error is not None:
                shares["expected"].append(found.expected_error)
            if X is not None and len(X) == found.n_rows and found.space == "model":
                error = tl.metrics.reconstruction_error(found.X, X, found.schema)
                shares["error"].append(error)
    means = {name: round(float(np.mean(own)), 4) for name, own in shares.items() if own}
    return {key: sorted(own) for key, own in out.items() if own} | means


def golden() -> dict[str, Any]:
    return json.loads(GOLDEN.read_text(encoding="utf-8"))


def test_every_case_is_written_down():
    assert sorted(golden()) == sorted(CASES)


@pytest.mark.parametrize("more", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", sorted(CASES))
def test_answers_are_as_stated(name, more):
    stated = golden()[name]
    found = answered(name, stated.pop("seeds") + more)
    assert stated.keys() == found.keys()
    for key, may in stated.items():
        if isinstance(found[key], list):
            assert set(found[key]) <= set(may), f"{key}: {found[key]}"
        else:
            assert may[0] <= found[key] <= may[1], f"{key}: {found[key]}"


if __name__ == "__main__":
    for asked in sys.argv[1:] or sorted(CASES):
        print(json.dumps({asked: answered(asked, 3)}), flush=True)  # noqa: T201
