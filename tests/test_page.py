"""The page of results: what stands on top of it, and the reasons beside what is worse."""

import io
import lzma
from pathlib import Path

import pandas as pd
import pytest

from experiments import STUDIES, Store
from experiments.headline import STORED, TABLES, made_of
from experiments.page import Standing, overview, standing, write_page
from experiments.results_version import RESULTS_VERSION
from experiments.runner import runs_of
from experiments.shown import with_tables
from experiments.studies import gambs
from experiments.studies.reasons import NOT_EXPLAINED, REASONS, Reason, worse_lines
from experiments.study import AHEAD, BEHIND, DIFFERS, Table
from toy_study import study
from treeleak.core.errors import BadInput

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reproduction.md"
MARKED = ("docs/results.md", "README.md", "docs/report.md", "docs/boosted.md")
"""Documents with tables that are made from stored runs."""


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The runs behind the page."""
    store = Store(tmp_path_factory.mktemp("stored") / "runs.sqlite")
    store.read(PAGE.parent / "reproduction" / "runs.jsonl.xz")
    return store


@pytest.mark.slow
def test_the_runs_behind_the_page_have_versions_and_hashes(stored, tmp_path):
    by_experiment = {own.kept_as: own.version for own in STUDIES.values()}
    by_experiment |= dict.fromkeys(STORED, RESULTS_VERSION)
    found = [run for name in by_experiment for run in stored.runs(name)]
    assert len(found) > 6000
    assert all(1 <= run.version <= by_experiment[run.study] for run in found)
    # Runs had a hash of the code before there were versions. Each that is made again has none.
    hashed = [run for run in found if "code" in run.record]
    assert hashed
    assert all(run.record["code"].startswith("0.1.0+") and run.version == 1 for run in hashed)
    # Nothing else stands in the file.
    assert stored.write(tmp_path / "again.xz", by_experiment) == len(found)
    runs = (PAGE.parent / "reproduction" / "runs.jsonl.xz").read_bytes()
    assert lzma.decompress((tmp_path / "again.xz").read_bytes()) == lzma.decompress(runs)


def table(verdicts, name="t"):
    n = len(verdicts)
    return Table(name, "t", pd.DataFrame({"x": range(n), "s": 0.5, "verdict": verdicts}), "Note.")


@pytest.fixture
def reasons(monkeypatch):
    monkeypatch.setattr(
        "experiments.studies.reasons.REASONS",
        (Reason("t", [{"x": 1}, {"x": 3}], "Too odd."), Reason("u", [{"x": 0}], "Of another.")),
    )


def test_the_top_counts_each_paper_and_names_all_that_is_worse(reasons):
    late, drawn, few = (
        study(name=name, paper=paper)
        for name, paper in (("late", "New 2026"), ("drawn", "Old 2012"), ("few", "Old 2012"))
    )
    stand = [
        Standing(late, 20, 20, (table([BEHIND, AHEAD, AHEAD]), table([DIFFERS], "u")), (1,)),
        Standing(drawn, 20, 20, (Table("d", "d", pd.DataFrame({"x": [1]})),), (1,)),
        Standing(few, 10, 20, (table([BEHIND]),), (1,)),
    ]
    text = overview(stand)
    lines = text.splitlines()
    assert lines[2] == "| Old 2012 | 2 | 0 | 0 | 0 | 0 | 1 | 1 |"
    assert lines[3] == "| New 2026 | 1 | 0 | 2 | 1 | 1 | 0 | 0 |"
    assert lines[4] == "| all | 3 | 0 | 2 | 1 | 1 | 1 | 1 |"
    assert "Not run: `few` (10 of 20 runs)." in text
    assert f"- New 2026, BEHIND: [`late`](#late) (1). *Why:* {NOT_EXPLAINED}\n" in text
    assert "- New 2026, DIFFERS: [`late`](#late) (1). *Why:* Of another.\n" in text


def test_a_page_with_nothing_worse_says_no_more(reasons):
    own = Standing(study(), 20, 20, (table([AHEAD]),), (1,))
    assert overview([own]).count("\n|") == 2
    assert "BEHIND or" not in overview([own])


def test_the_page_shows_stored_runs_that_are_not_made_anew():
    without = STUDIES["gambs-figure-1"]
    assert {p["learner"] for p in without.whole} == {gambs.C45, gambs.CART}
    assert {p["learner"] for p in without.grid(quick=False)} == {gambs.CART}


@pytest.mark.slow
def test_every_reason_explains_a_line(stored):
    found = [
        (made.name, line)
        for own in STUDIES.values()
        for made in standing(own, runs_of(own, stored, quick=False, any_version=True)).tables
        for line in worse_lines(made.frame).values()
    ]
    for reason in REASONS:
        for lines in reason.lines:
            own = Reason(reason.table, [lines], reason.why)
            assert any(name == own.table and own.explains(line) for name, line in found), lines


def tables_in(folder):
    return {p.name: p.read_text() for p in folder.glob("*.csv")}


@pytest.mark.slow
def test_the_page_is_what_the_stored_runs_say(stored, tmp_path, monkeypatch):
    """Figures are composed, and not rendered, which takes most of the time and is matplotlib's."""
    monkeypatch.setattr(
        "matplotlib.figure.Figure.savefig", lambda figure, file, **_how: file.write(b"<svg/>")
    )
    write_page(STUDIES.values(), stored, tmp_path / PAGE.name)
    assert (tmp_path / PAGE.name).read_text() == PAGE.read_text(), (
        "docs/reproduction.md is not what `python -m experiments page` makes of the stored runs"
    )
    made, kept = (tables_in(folder / "reproduction") for folder in (tmp_path, PAGE.parent))
    assert made.keys() == kept.keys()
    for name, text in made.items():
        if text != kept[name]:  # Slopes that are fitted end in other digits on other processors.
            one, other = (pd.read_csv(io.StringIO(t)) for t in (text, kept[name]))
            pd.testing.assert_frame_equal(one, other, rtol=1e-9, obj=name)
    assert len(PAGE.read_text().split()) <= 3000


def test_only_marked_tables_are_written_anew(tmp_path):
    store = Store(tmp_path / "runs.sqlite")
    made = made_of(STUDIES, store)
    assert with_tables("| a |\n", "page", made) == "| a |\n"
    for text, why in (
        ("| a |", "no table in it is marked"),
        ("<!-- made by python -m experiments page: none -->\n<!-- end -->", "is called 'none'"),
        (
            "<!-- made by python -m experiments page: private-forests -->\n<!-- end -->",
            "holds no runs of draft-dp-table-1",
        ),
    ):
        with pytest.raises(BadInput, match=why):
            with_tables(text, "page", made, "a.md")


@pytest.mark.slow
def test_marked_tables_are_what_the_stored_runs_say(stored):
    texts = [(ROOT / name).read_text() for name in MARKED]
    assert all(f"experiments page: {name} -->" in "".join(texts) for name in TABLES)
    made = made_of(STUDIES, stored)
    for own, name in zip(texts, MARKED, strict=True):
        assert with_tables(own, "page", made) == own, (
            f"make it anew: python -m experiments page docs/reproduction.md --tables-in {name}"
        )
    assert with_tables(texts[0].replace("0.201", "0.1"), "page", made) == texts[0]
