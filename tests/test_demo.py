"""The demonstration."""

import pandas as pd
import pytest

import treeleak
from helpers.cli import run
from treeleak import demo
from treeleak.release import to_release


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return demo.make(tmp_path_factory.mktemp("demo") / "files")


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
