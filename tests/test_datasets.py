from __future__ import annotations

from importlib import resources

import pytest

from treeleak.datasets import load_adult, load_compas, load_german_credit

BUNDLED = {"compas": load_compas, "adult": load_adult, "german_credit": load_german_credit}


@pytest.mark.parametrize(
    ("name", "shape", "raw_columns", "positives"),
    [
        ("compas", (7214, 14), 7, 3251),
        ("adult", (48842, 19), 14, 11687),
        ("german_credit", (1000, 23), 20, 300),
    ],
)
def test_bundled_table(name, shape, raw_columns, positives):
    data = BUNDLED[name]()
    assert data.name == name
    assert data.X.shape == shape
    assert data.raw is not None
    assert data.raw.shape == (shape[0], raw_columns)
    assert int(data.y.sum()) == positives
    assert set(data.y) == {0, 1}
    assert set(data.X.dtypes.astype(str)) == {"int64"}
    assert data.schema.columns == tuple(data.X)
    assert data.schema.valid(data.X.to_numpy(), list(data.X)).all()
    assert data.X.nunique().eq(2).all(), "a constant column would teach nothing"
    assert not data.raw.isna().any(axis=None)


def test_loading_twice_gives_tables_of_ones_own():
    first = load_german_credit()
    first.X.iloc[:] = 7
    assert set(load_german_credit().X["skilled"]) == {0, 1}


def test_compas_carries_nothing_that_names_a_person():
    data = load_compas()
    assert data.raw is not None
    assert list(data.raw) == [
        *("sex", "age", "juv_fel_count", "juv_misd_count", "juv_other_count"),
        *("priors_count", "c_charge_degree"),
    ]
    assert set(data.raw["sex"]) == {"Male", "Female"}
    assert set(data.raw["c_charge_degree"]) == {"F", "M"}


def test_tables_are_small_and_come_with_their_licences():
    folder = resources.files("treeleak.datasets") / "data"
    notes = (folder / "LICENCES.md").read_text(encoding="utf-8")
    for name in BUNDLED:
        assert len((folder / f"{name}.csv.xz").read_bytes()) < 500_000
        assert f"## {name}.csv.xz" in notes
