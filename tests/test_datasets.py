from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from importlib import resources
from pathlib import Path

import pandas as pd
import pooch
import pytest

from experiments.draft_tables import draft_sample, load_draft
from treeleak.core.errors import BadInput
from treeleak.datasets import (
    Dataset,
    load_adult,
    load_compas,
    load_german_credit,
)
from treeleak.datasets.recipes import ADULT, COMPAS, GERMAN_CREDIT
from treeleak.schema import Numeric, OneHot, Ordinal

SHARED = Path(
    os.environ.get("TREELEAK_DATA", Path(__file__).parents[2] / "shared" / "data")
).resolve()
BUNDLED = {"compas": load_compas, "adult": load_adult, "german_credit": load_german_credit}
DRAFT = {
    "compas": (7206, 14, "recidivate-within-two-years:1", [(1, 6), (9, 13)]),
    "adult": (48842, 19, "income", [(3, 9)]),
    "default_credit": (29986, 21, "DEFAULT_PAYEMENT", [(0, 4), (5, 8)]),
    "default_credit_numerical": (29986, 28, "DEFAULT_PAYEMENT", [(15, 19), (19, 22)]),
}
TINY = """sex:Male,age:18-20,age:21-22,age:23-25,age:26-45,age:>45,juvenile-felonies:>0,\
juvenile-misdemeanors:>0,juvenile-crimes:>0,priors:2-3,priors:=0,priors:=1,priors:>3,\
current-charge-degree:Misdemeanor,recidivate-within-two-years:1
1,0,0,0,1,0,0,0,0,0,0,0,1,0,1
0,0,0,1,0,0,0,0,0,1,0,0,0,0,0
"""


def shared(name: str) -> Dataset:
    if not (SHARED / f"draft_{name}.csv").is_file():
        pytest.skip(f"{SHARED} has no draft_{name}.csv")
    return load_draft(name, SHARED)


def rows(dataset: Dataset) -> Counter[tuple[int, ...]]:
    return Counter(dataset.X.assign(label=dataset.y).itertuples(index=False, name=None))


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    (tmp_path / "compas.csv").write_text(TINY)
    return tmp_path


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    tried: list[str] = []

    def refuse(url: str, **_: object) -> str:
        tried.append(url)
        raise OSError("no network")

    monkeypatch.setattr(pooch, "retrieve", refuse)
    return tried


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


def test_adult_recipe_at_its_cut_points():
    raw = pd.DataFrame(
        {
            "age": [36, 37],
            "workclass": ["?", "State-gov"],
            "education": ["Prof-school", "Doctorate"],
            "occupation": ["Armed-Forces", "Tech-support"],
            "sex": ["Male", "Female"],
            "capital_gain": [0, 1],
            "capital_loss": [1, 0],
            "hours_per_week": [39, 40],
        }
    )
    first, second = (
        {column for column in row.index if row[column]} for _, row in ADULT.binarise(raw).iterrows()
    )
    assert first == {"capital_loss_>0", "education_School_Prof-School"}
    assert second == {
        *("age_high", "capital_gain_>0", "education_Masters_Doctorate", "gender_Female"),
        *("hours_per_week_high", "occupation_Service", "workclass_Government"),
    }


def test_german_credit_recipe_on_the_first_published_row():
    raw = load_german_credit().raw
    assert raw is not None
    first = GERMAN_CREDIT.binarise(raw.head(1)).iloc[0]
    assert {column for column in first.index if first[column]} == {
        *("checking:<0", "history:delayed-or-critical", "purpose:household"),
        *("employed:>=4-years", "real-estate", "age_high", "housing:own", "skilled"),
    }


@pytest.mark.shared
def test_adult_recipe_gives_the_rows_of_the_paper():
    ours, theirs = load_adult(), shared("adult")
    assert list(ours.X) == list(theirs.X)
    assert rows(ours) == rows(theirs)


@pytest.mark.shared
def test_compas_recipe_gives_the_rows_of_the_paper_and_eight_more():
    ours, theirs = load_compas(), shared("compas")
    assert list(ours.X) == list(theirs.X)
    assert (rows(theirs) - rows(ours)).total() == 0
    assert (rows(ours) - rows(theirs)).total() == 8


@pytest.mark.shared
@pytest.mark.parametrize("name", DRAFT)
def test_draft_table_as_the_papers_use_it(name):
    n_rows, n_columns, label, groups = DRAFT[name]
    data = shared(name)
    assert data.X.shape == (n_rows, n_columns)
    assert data.y.name == label
    assert data.schema.columns == tuple(data.X)
    found = [a.members for a in data.schema.attributes if isinstance(a, OneHot)]
    assert found == [tuple(data.X.columns[low:high]) for low, high in groups]
    assert not any(a.at_most_one for a in data.schema.attributes if isinstance(a, OneHot))
    ranged = [a for a in data.schema.attributes if isinstance(a, (Numeric, Ordinal))]
    assert len(ranged) == (14 if name == "default_credit_numerical" else 0)
    for attribute in ranged:
        column = data.X[attribute.name]
        assert (attribute.low, attribute.high) == (column.min(), column.max())
    assert [a.name for a in ranged if isinstance(a, Ordinal)] == ["AGE"] * bool(ranged)


@pytest.mark.shared
@pytest.mark.parametrize("name", DRAFT)
def test_pinned_checksum_is_that_of_the_published_file(name, tmp_path, monkeypatch):
    path = SHARED / f"draft_{name}.csv"
    whole = shared(name)
    asked = {}

    def retrieve(url, *, known_hash, fname, path):
        asked.update(url=url, known_hash=known_hash, target=Path(path) / fname)
        return str(SHARED / fname)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    data = load_draft(name, tmp_path)
    assert asked["known_hash"] == f"sha256:{pooch.file_hash(str(path))}"
    assert asked["url"].endswith(f"/data/{name}.csv")
    assert asked["target"] == tmp_path / f"draft_{name}.csv"
    pd.testing.assert_frame_equal(data.X, whole.X)


@pytest.mark.parametrize("file", ["compas.csv", "draft_compas.csv"])
def test_draft_reads_a_copy_under_either_name(file, tiny, offline):
    (tiny / "compas.csv").rename(tiny / file)
    data = load_draft("compas", tiny)
    assert data.X.shape == (2, 14)
    assert data.y.tolist() == [1, 0]
    assert not offline


def test_draft_reads_the_folder_of_the_environment(tiny, offline, monkeypatch):
    monkeypatch.setenv("TREELEAK_DATA", str(tiny))
    assert len(load_draft("compas").X) == 2
    assert not offline


def test_columns_come_in_the_papers_order(tiny):
    table = pd.read_csv(tiny / "compas.csv")
    table[table.columns[::-1]].to_csv(tiny / "compas.csv", index=False)
    assert tuple(load_draft("compas", tiny).X) == load_compas().schema.columns


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("priors:=0", "priors=0", "no column 'priors:=0'"),
        ("two-years:1", "two-years", "no column 'recidivate-within-two-years:1'"),
        ("\n0,0,0,1,0,0", "\n0,0,0,1,1,0", "row 2 is outside the schema"),
        ("1,0,0,0,0,0\n", "1,0,0,0,0,2\n", "row 2 is outside the schema"),
        ("\n1,0", "\nyes,0", "'sex:Male' holds other things than whole numbers"),
        ("\n1,0", "\n,0", "'sex:Male' holds other things than whole numbers"),
        (TINY, "", "No columns"),
    ],
)
def test_damaged_copy_is_refused_by_name(old, new, says, tiny):
    assert old in TINY
    (tiny / "compas.csv").write_text(TINY.replace(old, new))
    with pytest.raises(BadInput, match=r"compas\.csv: ") as error:
        load_draft("compas", tiny)
    assert says in str(error.value)


def test_unknown_draft_table():
    with pytest.raises(BadInput, match="'iris'; known: compas, adult, default_credit,"):
        load_draft("iris")


def test_without_network_the_error_says_where_to_put_a_copy(tmp_path, offline):
    with pytest.raises(BadInput, match=r"adult\.csv: no network; .*TREELEAK_DATA"):
        load_draft("adult", tmp_path)
    assert len(offline) == 1


@pytest.mark.slow
def test_only_a_missing_draft_table_opens_a_socket(tiny, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    script = f"""
import sys
events = []
def watch(event, args):
    if event.startswith("socket."):
        events.append(event)
        raise OSError("no sockets here")
sys.addaudithook(watch)
from experiments.draft_tables import load_draft
from treeleak.datasets import load_adult, load_compas, load_german_credit
from treeleak.errors import BadInput
for load in (load_adult, load_compas, load_german_credit):
    load()
load_draft("compas", {str(tiny)!r})
assert not events, events
try:
    load_draft("compas", {str(empty)!r})
except BadInput:
    assert events
else:
    raise AssertionError("loaded from nowhere")
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


@pytest.mark.parametrize("n_rows", [0, 1, 100, 1500, 1600])
def test_draft_sample_is_the_papers(n_rows):
    data = load_compas()
    whole = data.X.assign(**{str(data.y.name): data.y})
    paper = whole.sample(n=max(1500, n_rows), random_state=3, ignore_index=True).head(n_rows)
    X, y = draft_sample(data, n_rows, seed=3)
    pd.testing.assert_frame_equal(X, paper.drop(columns=str(data.y.name)))
    pd.testing.assert_series_equal(y, paper[str(data.y.name)])


def test_draft_sample_of_a_table_below_1500_rows():
    data = load_german_credit()
    X, _ = draft_sample(data, 1000, seed=0)
    assert Counter(X.itertuples(index=False)) == Counter(data.X.itertuples(index=False))
    assert not draft_sample(data, 50, seed=0)[0].equals(draft_sample(data, 50, seed=1)[0])
    with pytest.raises(BadInput, match="1001 rows of the 1000 of 'german_credit'"):
        draft_sample(data, 1001, seed=0)
