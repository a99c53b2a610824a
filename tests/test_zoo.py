"""A zoo of six models: archives, truth apart from them, attacks, scores and the board."""

from __future__ import annotations

import io
import json
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from experiments.__main__ import app
from experiments.zoo import run as zoo_run
from experiments.zoo.attacks import find_attack
from experiments.zoo.board import board, in_codes, measured, reasons, score
from experiments.zoo.kinds import Kind, kinds
from experiments.zoo.make import MODELS, TRUTH, entries, make, places, truth_of, unpacked
from experiments.zoo.publish import by_attack, publish, with_board
from experiments.zoo.run import attempt, carry_out, cases
from experiments.zoo.tables import CODES, FLAGS, LOADERS, RAW, sample
from treeleak.core.errors import BadInput

for library in ("xgboost", "lightgbm", "statsmodels", "sksurv"):
    pytest.importorskip(library)

DOCS = Path(__file__).parents[1] / "docs"
MARK = "<!-- made by python -m experiments zoo publish: {} -->\n<!-- end -->"
KINDS = ("tree", "xgb-default", "lgbm-default", "raw-one-tree", "regression-tree", "private-1")


def small(**changes):
    """One place of each of these kinds, of few rows."""
    first = {p.kind.name: p for p in reversed(places(kinds()))}
    return [replace(first[name], n_rows=40, **changes) for name in KINDS]


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zoo")
    absent = Kind("absent", "none", lambda *_: pytest.fail("made"), "no_such_library")
    refused = Kind("refused", "none", lambda *_: 1 / 0)
    extra = [replace(small()[0], name=kind.name, kind=kind) for kind in (absent, refused)]
    left_out = make(folder, [*small(), *extra], 0)
    assert left_out == [
        ("absent", "no_such_library is not installed"),
        ("refused", "ZeroDivisionError: division by zero"),
    ]
    return folder


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def leaked(models, truths):
    """Three neighbouring rows of the truth that stand in the other archive, as text or numbers."""
    found = set()
    for name, content in truths.items():
        lines = content.decode().splitlines()[1:60] if name.endswith(".csv") else []
        for three in zip(lines, lines[1:], lines[2:], strict=False):
            forms = ["\n".join(three).encode()]
            try:
                numbers = np.array([line.split(",")[:-1] for line in three], dtype=float)
            except ValueError:  # words
                numbers = np.zeros(1)
            if np.ptp(numbers) > 0:
                forms += [numbers.astype(t).tobytes() for t in (np.float32, np.float64, np.int64)]
            found |= {(name, three) for own in models.values() for form in forms if form in own}
    return found


def unzipped(archive):
    """Members, and the members of those that are archives themselves."""
    out = dict(archive)
    for name, content in archive.items():
        if name.endswith(".skops"):
            out |= {f"{name}/{k}": v for k, v in members(io.BytesIO(content)).items()}
    return out


def test_the_archive_of_models_never_holds_truth(zoo):
    models, truths = members(zoo / MODELS), members(zoo / TRUTH)
    assert not leaked(unzipped(models), truths)
    # The same search finds what was put there.
    name = next(n for n in truths if n.endswith("rows.csv"))
    assert leaked({"x": truths[name]}, truths)
    as_numbers = np.loadtxt(truths[name].decode().splitlines()[1:], delimiter=",")[:, :-1]
    assert leaked({"x": as_numbers.astype(np.float32).tobytes()}, truths)
    text = models["manifest.json"].decode()
    assert not {"seed", "n_rows", "rows", "control"} & set(json.loads(text)["models"][0])
    assert {n.split("/")[0] for n in models} == {"files", "manifest.json"}
    assert len(json.loads(text)["models"]) == len(KINDS)


def test_equal_seeds_give_equal_bytes_and_manifests_say_what_is_left_out(zoo, tmp_path):
    about = json.loads(members(zoo / MODELS)["manifest.json"])
    assert {"numpy", "scikit-learn"} <= set(about["versions"])
    assert set(about["left_out"]) == {"absent", "refused"}
    make(tmp_path / "same", small(), 0)
    make(tmp_path / "other", small(), 1)
    again, other = ({e.name: e for e in entries(tmp_path / n)} for n in ("same", "other"))
    for entry in entries(zoo):
        # skops names its parts by their place in memory.
        equal = again[entry.name].sha256 == entry.sha256
        assert equal or entry.file.endswith(".skops"), entry.file
        assert other[entry.name].sha256 != entry.sha256
    assert members(zoo / TRUTH) == members(tmp_path / "same" / TRUTH)


def test_a_sample_is_drawn_apart_from_its_control_rows():
    for name, form in (("wine", CODES), ("heart", RAW), ("votes", FLAGS)):
        X, _ = LOADERS[name]()
        drawn = sample(name, form, "label", 10_000, 3)
        assert len(drawn.X) == len(X) // 2
        assert len(drawn.X) + len(drawn.control) == len(X)
        assert list(drawn.schema.columns) == list(drawn.X.columns)
        both = in_codes(pd.concat([drawn.X, drawn.control]), drawn.schema)
        assert drawn.schema.valid(both.to_numpy(float), list(both.columns)).all()


def plug(path, schema, limit, seed):
    """A stranger's attack: the least value of every column."""
    assert path.exists()
    assert limit > 0
    return pd.DataFrame({c: [0.0] * 7 for c in schema.columns}) if seed == 0 else None


def broken(*_):
    return 1 / 0


@pytest.fixture(scope="module")
def run_zoo(zoo):
    todo = cases(zoo, ["treeleak", "TimberStrike", "audit", f"{__name__}:plug"], 2.0, 0)
    assert carry_out(zoo, todo) == len(todo) == 4 * len(KINDS)
    return zoo


def test_a_run_is_run_once_and_every_file_has_rows_a_verdict_or_a_reason(run_zoo):
    todo = cases(run_zoo, ["treeleak", "TimberStrike", "audit"], 2.0, 0)
    assert carry_out(run_zoo, todo) == 0
    lines = score(run_zoo)
    assert len(lines) == 5 * len(KINDS)  # and the population's
    for line in lines.to_dict("records"):
        assert line["end"] in ("rows", "decided") or line["why"], line
    assert not any(lines[lines.attack == "audit"].wrong.map(len))


def test_what_an_attack_does_is_the_record_of_its_run(zoo):
    (case,) = cases(zoo, [f"{__name__}:broken"], 1.0, 0, ["xgb-default"])
    assert attempt(zoo, case)["end"] == "crash"
    assert "ZeroDivisionError" in attempt(zoo, case)["why"]
    (none,) = cases(zoo, [f"{__name__}:plug"], 1.0, 5, ["xgb-default"])
    assert attempt(zoo, none)["end"] == "no rows"
    (refused,) = cases(zoo, ["TimberStrike"], 1.0, 0, ["tree"])
    with pytest.raises(BadInput, match="no file, kind or family none"):
        cases(zoo, [], 1.0, 0, ["none"])
    assert attempt(zoo, refused)["end"] == "refused"
    for unknown in ("nobody", "experiments.zoo.run:nothing", "no.such.module:f"):
        with pytest.raises(BadInput, match="no attack"):
            find_attack(unknown)
    with pytest.raises(BadInput, match="zoo make"):
        entries(zoo / "elsewhere")


def test_timberstrike_counts_the_rows_of_each_class_from_the_first_tree(zoo, tmp_path):
    (entry,) = (e for e in entries(zoo) if e.kind == "xgb-default")
    path, truth = unpacked(zoo, entry, tmp_path), truth_of(zoo, entry)
    rows = find_attack("TimberStrike")(path, entry.schema, 5.0, 0)
    assert len(rows) == len(truth.rows)
    assert rows.target.sum() == truth.y.target.sum()
    values = rows[list(entry.schema.columns)]
    assert entry.schema.valid(values.to_numpy(float), list(values)).all()


def test_scores_are_those_of_matched_rows(zoo):
    for entry in entries(zoo):
        truth, n = truth_of(zoo, entry), len(truth_of(zoo, entry).rows)
        rows = truth.rows.assign(target=truth.y.target)
        perfect = measured(rows, truth, entry.schema)
        ones = dict.fromkeys(("rows right", "rows exact", "in order"), 1.0)
        assert perfect == {"error": 0.0, **ones}
        turned = measured(rows.iloc[::-1].reset_index(drop=True), truth, entry.schema)
        assert turned["error"] == 0.0
        assert turned["in order"] < 1.0
        half = measured(rows.iloc[: n // 2], truth, entry.schema)
        assert 0 < half["error"] < 1
        assert half["rows right"] < 1.0
        assert half["in order"] == 0.0


def test_the_board_sums_up_and_names_what_is_odd(run_zoo):
    lines = score(run_zoo)
    shown = board(lines)
    assert set(shown.attack) == {"treeleak", "TimberStrike", f"{__name__}:plug", "population"}
    assert (shown[shown.attack == "population"].ratio == 1).all()
    plugged, of = (
        shown[shown.attack == name].set_index("family") for name in (f"{__name__}:plug", "treeleak")
    )
    trees = lines[(lines.family == "single trees") & (lines.attack == f"{__name__}:plug")]
    assert len(trees) == plugged.loc["single trees", "files"] == 2
    assert plugged.loc["single trees", "error"] == pytest.approx(trees.error.mean())
    assert of.decided.sum() == (lines[lines.attack == "audit"].end == "decided").sum()
    odd = lines.assign(end=lines.end.where(lines.kind != "tree", zoo_run.CRASH))
    assert set(reasons(odd).file) >= {e.name for e in entries(run_zoo) if e.kind == "tree"}


def test_the_command_makes_runs_and_shows(tmp_path):
    def command(name, *more):
        done = CliRunner().invoke(app, ["zoo", name, str(tmp_path / "zoo"), *more])
        assert done.exit_code == 0, done.output
        return done.output

    command("make", "--only", "xgb-default")
    command("run", "--attack", "TimberStrike", "--limit", "2")
    command("score")
    assert "XGBoost" in command("board", "--csv", str(tmp_path / "board.csv"))
    assert len(pd.read_csv(tmp_path / "board.csv")) == 2
    assert len(pd.read_csv(tmp_path / "zoo" / "scores.csv")) == 4


@pytest.mark.parametrize("name", ["zoo.md", "report.md"])
def test_documents_say_what_the_stored_board_says(name):
    text = (DOCS / name).read_text(encoding="utf-8")
    stored = pd.read_csv(DOCS / "reproduction" / "zoo" / "board.csv")
    assert with_board(text, stored) == text, "make it anew: docs/zoo.md says how"
    assert with_board(text, stored.assign(files=stored.files + 1)) != text


def test_the_picture_of_the_board_is_the_stored_one(tmp_path):
    kept = DOCS / "reproduction" / "zoo" / "board.svg"
    own = tmp_path / "board.csv"
    own.write_bytes(kept.with_suffix(".csv").read_bytes())
    document = tmp_path / "a.md"
    document.write_text(
        "<!-- made by python -m experiments zoo publish: zoo-attacks -->\n<!-- end -->"
    )
    publish(own, [document])
    assert document.read_text() == with_board(document.read_text(), pd.read_csv(own))
    texts = [
        re.findall(r"<text[^>]*>([^<]*)<", p.read_text()) for p in (kept, own.with_suffix(".svg"))
    ]
    assert texts[0] == texts[1]
    assert "XGBoost" in texts[0]


def test_sums_over_families_count_each_file_once():
    stored = pd.read_csv(DOCS / "reproduction" / "zoo" / "board.csv")
    own, whole = stored[stored.attack == "treeleak"], by_attack(stored).set_index("attack")
    line = whole.loc["treeleak"]
    assert (line["files"], line["decided"]) == (own.files.sum(), own.decided.sum())
    assert own.error.min() < line["error"] < own.error.max()
    assert whole.loc["DRAFT", "decided"] is None


def test_only_known_marks_and_boards_are_written(tmp_path):
    with pytest.raises(BadInput, match="no such file"):
        publish(tmp_path / "none.csv", [])
    with pytest.raises(BadInput, match="is called 'none'"):
        with_board(MARK.format("none"), pd.DataFrame())
    plain = tmp_path / "a.md"
    plain.write_text("| a |")
    with pytest.raises(BadInput, match="no table in it is marked"):
        publish(DOCS / "reproduction" / "zoo" / "board.csv", [plain])
