"""DRAFT's tables: read from a copy or downloaded, and sampled as the papers do."""

from __future__ import annotations

import io
import os
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from experiments.data import draft_sample, load_draft
from treeleak.core.errors import BadInput
from treeleak.datasets import Dataset, load_adult, load_compas
from treeleak.schema import Numeric, OneHot, Ordinal

SHARED = Path(
    os.environ.get("TREELEAK_DATA", Path(__file__).parents[2] / "shared" / "data")
).resolve()
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
def offline(instead: Callable[..., None]) -> list[str]:
    tried: list[str] = []

    def refuse(url: str, timeout: float) -> None:
        tried.append(url)
        raise OSError("no network")

    instead("urlopen", refuse, urllib.request)
    return tried


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
def test_a_table_is_downloaded_once_and_held_against_its_checksum(name, tmp_path, instead):
    whole, asked = shared(name), []

    def answer(url, timeout):
        asked.append(url)
        return (SHARED / f"draft_{name}.csv").open("rb")

    instead("urlopen", answer, urllib.request)
    for _ in range(2):
        pd.testing.assert_frame_equal(load_draft(name, tmp_path).X, whole.X)
    assert len(asked) == 1
    assert asked[0].endswith(f"/data/{name}.csv")


def test_another_file_than_the_published_one_is_refused(tmp_path, instead):
    instead("urlopen", lambda url, timeout: io.BytesIO(b"a,b"), urllib.request)
    with pytest.raises(BadInput, match="its SHA-256 is"):
        load_draft("adult", tmp_path)
    assert not list(tmp_path.iterdir())


def test_draft_reads_the_folder_of_the_environment(tiny, offline, monkeypatch):
    monkeypatch.setenv("TREELEAK_DATA", str(tiny))
    assert len(load_draft("compas").X) == 2
    assert not offline


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


def test_without_network_the_error_says_where_to_put_a_copy(tmp_path, offline):
    with pytest.raises(BadInput, match=r"adult\.csv: no network; .*TREELEAK_DATA"):
        load_draft("adult", tmp_path)
    assert len(offline) == 1


@pytest.mark.parametrize("n_rows", [0, 1, 100, 1500, 1600])
def test_draft_sample_is_the_papers(n_rows):
    data = load_compas()
    whole = data.X.assign(**{str(data.y.name): data.y})
    paper = whole.sample(n=max(1500, n_rows), random_state=3, ignore_index=True).head(n_rows)
    X, y = draft_sample(data, n_rows, seed=3)
    pd.testing.assert_frame_equal(X, paper.drop(columns=str(data.y.name)))
    pd.testing.assert_series_equal(y, paper[str(data.y.name)])
