from __future__ import annotations

from importlib import resources

import pandas as pd
import pytest

from treeleak.datasets import load_adult, load_compas, load_german_credit
from treeleak.datasets.bundled import COMPAS, GERMAN_CREDIT

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


def test_compas_recipe_at_its_cut_points():
    raw = pd.DataFrame(
        {
            "sex": ["Male", "Female", "Male", "Male", "Male", "Male", "Male", "Male"],
            "age": [18, 20, 21, 22, 25, 26, 45, 46],
            "juv_fel_count": [0, 2, 0, 0, 0, 0, 0, 0],
            "juv_misd_count": [0, 0, 1, 0, 0, 0, 0, 0],
            "juv_other_count": [0, 0, 0, 3, 0, 0, 0, 0],
            "priors_count": [0, 1, 2, 3, 4, 38, 0, 0],
            "c_charge_degree": ["F", "M", "F", "F", "F", "F", "F", "F"],
        }
    )
    X = COMPAS.binarise(raw)
    ages = ["age:18-20", "age:21-22", "age:23-25", "age:26-45", "age:>45"]
    priors = ["priors:=0", "priors:=1", "priors:2-3", "priors:>3"]
    assert X[ages].to_numpy().argmax(axis=1).tolist() == [0, 0, 1, 1, 2, 3, 3, 4]
    assert X[priors].to_numpy().argmax(axis=1).tolist() == [0, 1, 2, 2, 3, 3, 0, 0]
    assert X["juvenile-felonies:>0"].tolist() == [0, 1, 0, 0, 0, 0, 0, 0]
    assert X["juvenile-misdemeanors:>0"].tolist() == [0, 0, 1, 0, 0, 0, 0, 0]
    assert X["juvenile-crimes:>0"].tolist() == [0, 1, 1, 1, 0, 0, 0, 0]
    assert X["sex:Male"].tolist() == [1, 0, 1, 1, 1, 1, 1, 1]
    assert X["current-charge-degree:Misdemeanor"].tolist() == [0, 1, 0, 0, 0, 0, 0, 0]


def test_german_credit_recipe_on_the_first_published_row():
    raw = load_german_credit().raw
    assert raw is not None
    first = GERMAN_CREDIT.binarise(raw.head(1)).iloc[0]
    assert {column for column in first.index if first[column]} == {
        *("checking:<0", "history:delayed-or-critical", "purpose:household"),
        *("employed:>=4-years", "real-estate", "age_high", "housing:own", "skilled"),
    }
