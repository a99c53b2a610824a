"""The demonstration."""

import re
import sys
import webbrowser
from io import StringIO
from types import SimpleNamespace

import pandas as pd
import pytest
from rich.console import Console

import treeleak
from helpers.cli import run
from treeleak import demo
from treeleak.core.errors import BadInput
from treeleak.release import to_release
from treeleak.schema import Schema


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return demo.make(tmp_path_factory.mktemp("demo") / "files")


@pytest.mark.slow
def test_the_files_are_what_the_audit_saw(made):
    train = pd.read_csv(made.folder / "train.csv")
    assert len(train) == demo.N_PEOPLE
    assert made.audit.provenance.file == str(made.folder / "model.skops")
    release = to_release(made.folder / "model.skops")
    assert release.sampling.kind == "bootstrap"
    assert (release.sampling.forest_seed, len(release.trees)) == (demo.FOREST_SEED, 100)
    schema = Schema.read(made.folder / "schema.toml")
    assert schema == treeleak.datasets.load_compas().schema
    assert made.audit.mismatch is None


@pytest.mark.slow
def test_people_come_back(made):
    assert made.audit.verdict == "leak shown"
    assert made.audit.measurement.error == 0
    assert made.audit.measurement.exact_in_order == 1
    pd.testing.assert_frame_equal(made.true, made.rebuilt, check_dtype=False)
    assert (made.true != made.guessed).to_numpy().mean() > 0.1


@pytest.mark.slow
def test_the_file_without_seeds_gives_them_back_too(made):
    sampling = to_release(made.folder / "without-seeds.skops").sampling
    assert sampling.forest_seed is None
    assert set(sampling.tree_seeds) <= {None}
    assert f"forest seed {demo.FOREST_SEED}, found by search" in str(made.searched.draws)
    pd.testing.assert_frame_equal(made.searched.X, made.rebuilt)


@pytest.mark.slow
def test_boosting_is_no_shelter(made):
    release = to_release(made.folder / "boosted.skops")
    assert "HistGradientBoostingClassifier" in release.origin
    assert (release.n_rows, release.sampling.kind) == (demo.N_BOOSTED, "all")
    assert made.boosted_exact > 0.95
    assert made.boosted.share_proved_rows > 0.95
    many = treeleak.datasets.load_compas().X.sample(demo.N_BOOSTED, random_state=demo.SEED)
    assert (many.iloc[: demo.N_PEOPLE].to_numpy() == made.true.to_numpy()).all()


@pytest.mark.slow
def test_the_people_shown_are_like_nobody_else(made):
    shown = demo._distinct(made.true)
    assert len(shown) == demo.N_SHOWN
    for row in shown:
        assert (made.true == made.true.iloc[row]).all(axis=1).sum() == 1


@pytest.mark.slow
def test_people_are_told_in_words(made):
    row = demo._distinct(made.true)[0]
    for X in (made.true, made.rebuilt, made.guessed):
        for k in range(len(X)):
            columns = {c for words in demo._WORDS for c in words if c}
            assert columns == set(X.columns)
            assert len(demo.in_words(X.iloc[k])) == len(demo._WORDS)
    person = made.true.iloc[row] * 0
    person[["sex:Male", "age:18-20", "priors:=0"]] = 1
    assert demo.in_words(person)[:3] == ["male", "age 18 to 20", "no priors"]
    console = Console(width=80, record=True, file=StringIO())
    console.print(demo._people(made))
    text = " ".join(console.export_text().split())
    told = ", ".join(w for w in demo.in_words(made.true.iloc[row]) if not w.startswith("no juv"))
    assert f"row {row + 1} true {told} back {told} guess" in text
    assert "!" in text


@pytest.mark.slow
def test_it_is_told_in_80_columns(made):
    console = Console(width=80, record=True, file=StringIO())
    for part in demo._screens(made):
        console.print(part)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    assert "What this means" in text
    assert f"row {demo._distinct(made.true)[0] + 1} " in text
    words = " ".join(text.split())
    assert "and the rows are the same" in words
    assert re.search(r"(9\d|100)% of the 1,000 people came back exactly", words)
    assert "treeleak audit" in text
    assert "…" not in text


@pytest.mark.slow
def test_the_command_and_its_hint_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("demo", "--out", "here")
    assert result.exit_code == 0
    hint = result.stdout.split("Try it yourself")[1].replace("\\\n", " ").splitlines()[1:4]
    for line in hint:
        assert run(*line.split()[1:]).exit_code == 0, line
    folder = tmp_path / "here"
    rows, train = (pd.read_csv(folder / f"{name}.csv") for name in ("rows", "train"))
    assert (rows.to_numpy() == train.to_numpy()).all()
    assert len(pd.read_csv(folder / "boosted-rows.csv")) == demo.N_BOOSTED


@pytest.mark.slow
def test_the_report_is_the_releasable_one(made):
    page = (made.folder / demo.REPORT).read_text(encoding="utf-8")
    assert "Leak shown" in page
    assert made.audit.headline.partition(". ")[2] in page
    assert "Releasable edition" in page
    assert "treeleak audit model.skops --schema schema.toml" in page
    assert str(made.folder) not in page


@pytest.mark.parametrize(
    ("options", "terminal", "display", "opened"),
    [
        ([], True, ":0", True),
        (["--no-open"], True, ":0", False),
        ([], False, ":0", False),
        ([], True, "", False),
    ],
)
def test_the_report_is_opened_where_somebody_can_see_it(
    tmp_path, monkeypatch, instead, options, terminal, display, opened
):
    pages = []

    def browse(address):
        pages.append(address)
        raise webbrowser.Error("no browser")

    instead("open", browse, webbrowser)
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    instead("run", lambda folder, progress: iter(()), demo)
    stdout = SimpleNamespace(isatty=lambda: terminal)
    system = SimpleNamespace(stdout=stdout, stderr=sys.stderr, platform="linux")
    monkeypatch.setattr("treeleak.cli.files.sys", system)
    result = run("demo", "--out", tmp_path, *options)
    assert result.exit_code == 0
    assert pages == [(tmp_path / demo.REPORT).as_uri()] * opened


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="file"):
        demo.make(tmp_path / "file")
