"""Expected and true errors of stored runs, by kind of evidence."""

import pytest

from experiments.__main__ import expected_
from experiments.catalogue import BENCHMARKS, STUDIES
from experiments.expected import STUDIES as READ
from experiments.expected import expected_and_true
from experiments.store import Run, Store
from treeleak.core.errors import BadInput


def test_every_source_is_a_study_or_a_benchmark():
    kept = {study.kept_as for study in STUDIES.values()}
    assert set(READ) <= kept | set(BENCHMARKS)


def test_sums_are_compared_and_runs_without_both_errors_left_out(tmp_path, capsys):
    store = Store(tmp_path / "runs.sqlite")
    with pytest.raises(BadInput, match="no run has an expected"):
        expected_(tmp_path)
    figures = [(0.0, 0.0), (0.1, 0.2), (0.3, 0.1), (None, 0.5), (0.5, None)]
    for seed, (expected, error) in enumerate(figures):
        record = {"expected_error": expected, "error": error}
        store.add(Run("draft", {"seed": seed, "bootstrap": "none"}, 4, record))
    store.add(Run("raw_boosted", {"seed": 0}, 2, {"expected": 0.2, "error": 0.1}))
    later = {"seed": 9, "bootstrap": "none"}
    store.add(Run("draft", later, 5, {"expected_error": 0.2, "error": 0.2}))
    published = {"seed": 0, "bootstrap": "none", "method": "reference-cp"}
    store.add(Run("draft", published, 4, {"expected_error": 0.4, "error": 0.0}))
    table = expected_and_true(store)
    assert table.evidence.tolist() == ["boosted, raw numbers", "exact counts", "exact counts"]
    assert table.version.tolist() == [2, 4, 5]
    assert table.runs.tolist() == [1, 3, 1]
    assert table.open.tolist() == [1, 2, 1]
    assert table.expected.tolist() == pytest.approx([0.2, 0.2, 0.2])
    assert table.error.tolist() == pytest.approx([0.1, 0.15, 0.2])
    assert table.ratio.tolist() == pytest.approx([2.0, 4 / 3, 1.0])
    expected_(tmp_path)
    assert capsys.readouterr().out.count("NOT met") == 2
