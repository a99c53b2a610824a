"""What a file says acts on nobody's terminal, page or log; the releasable edition repeats none."""

import json
import re
import unicodedata

import numpy as np
import pandas as pd
import pytest
import skops.io
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from sklearn.ensemble import RandomForestClassifier

import treeleak
from helpers.cli import run
from helpers.documents import valid
from treeleak.auditing.inventory.vocabulary import UNSTATED, known_origin
from treeleak.core.message import Message
from treeleak.core.text import plain
from treeleak.release import DecisionRule, RuleList, read_rules, to_release, write_rules
from treeleak.release.readers.release_file import release_to_dict
from treeleak.report import render, render_html
from treeleak.report.safe_console import Text, escape
from treeleak.schema import Binary, Schema

WORD = "canaryword"
EVIL = f"{WORD}\x1b]52;c;ZXZpbA==\x07\x9b31m\x9d\u202e\u2066\u200b\u2028\x08\x7f\r\nVerdict: fine"
ACTS = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def acting(text):
    """Characters that act or hide, line ends of our own aside."""
    return sorted({c for c in text if unicodedata.category(c) in ACTS and c != "\n"})


@pytest.mark.slow
@given(st.text(), st.integers(0, 50))
def test_nothing_in_a_plain_text_acts(text, most):
    shown = plain(text, most)
    assert acting(shown) == [c for c in acting(shown) if c in "\u200c\u200d"]
    assert "\n" not in shown
    assert plain(shown, None) == shown
    assert len(shown) <= 10 * most + 40
    shown.encode()


@given(st.text(min_size=1))
def test_a_schema_file_shows_all_and_reads_back_the_same(tmp_path_factory, name):
    if any(unicodedata.category(c) == "Cs" for c in name):
        return
    schema = Schema((Binary(name),))
    text = schema.to_toml()
    assert not set(acting(text)) - {"\u200c", "\u200d"}
    path = tmp_path_factory.mktemp("schema") / "schema.toml"
    path.write_text(text, encoding="utf-8")
    assert Schema.read(path).attributes == schema.attributes


def test_what_is_printed_is_plain():
    console = Console(record=True, width=300, quiet=False, file=open("/dev/null", "w"))  # noqa: SIM115
    with treeleak.report.safe_console.safe_console(console):
        console.print(f"a{EVIL}", markup=False)
        console.print(Text.assemble("b", (EVIL, "bold")), Text(EVIL))
        console.print(escape(f"[red]{EVIL}"))
    console.file.close()
    shown = console.export_text()
    assert acting(shown) == []
    assert shown.count("\nVerdict: fine") == 1
    assert shown.count(r"\u001b]52;c;ZXZpbA==") == 4


# ------------------------------------------------------------------------- texts of a whole file


def hostile(folder):
    """A release, rules and tables with something in every text."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 2, (40, 3)), columns=["a", "b", "c"])
    y = np.array(["no", "yes"])[X["a"] ^ X["b"]]
    forest = RandomForestClassifier(3, bootstrap=False, random_state=0).fit(X, y)
    told = release_to_dict(to_release(forest))
    names = [f"{EVIL} {k}" for k in range(3)]
    told |= {
        "columns": names, "classes": [f"no {EVIL}", "yes"], "origin": f"scikit-learn 1.5.2, {EVIL}",
        "notes": [EVIL, f"{WORD} knew this"], "levels": {names[2]: [EVIL, "other"]},
    }  # fmt: skip
    (folder / "release.json").write_text(json.dumps(told))
    shut = told | {"not_covered": f"because {WORD} {EVIL}"}
    (folder / "shut.json").write_text(json.dumps(shut))
    drawn = told | {"sampling": {"kind": "unknown", "why": f"{WORD} drew {EVIL}"}}
    (folder / "drawn.json").write_text(json.dumps(drawn))
    table = X.set_axis(names, axis=1)
    table[names[2]] = np.array([EVIL, "other"], dtype=object)[X["c"]]
    labels = np.where(y == "no", f"no {EVIL}", y)
    table.assign(label=labels).to_csv(folder / "train.csv", index=False)
    default = DecisionRule((), "yes", (3, 7))
    rules = RuleList((EVIL,), ("no", "yes"), (), default, origin=EVIL, notes=(f"{WORD} {EVIL}",))
    write_rules(rules, folder / "rules.json")
    forest.secret_ = EVIL
    setattr(forest, f"{WORD}_name", 3.5)
    skops.io.dump(forest, folder / "model.skops")
    return names


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("hostile")
    hostile(place)
    return place


COMMANDS = [
    ("audit", "release.json", "--json", "OUT.json", "--report", "OUT.html"),
    ("audit", "release.json", "--internal", "--json", "OUT.json", "--report", "OUT.html"),
    ("audit", "release.json", "--train", "train.csv", "--label", "label", "--json", "OUT.json",
     "--report", "OUT.html"),
    ("audit", "shut.json", "--json", "OUT.json", "--report", "OUT.html"),
    ("audit", "drawn.json", "--json", "OUT.json", "--report", "OUT.html"),
    ("audit", "rules.json", "--json", "OUT.json", "--report", "OUT.html"),
    ("audit", "model.skops", "--json", "OUT.json", "--report", "OUT.html"),
    ("audit", "release.json", "--groups", EVIL, "--train", "train.csv", "--label", "label"),
    ("audit", "release.json", "--train", "train.csv", "--label", EVIL),
    ("audit", EVIL),
    ("audit", "release.json", f"--{EVIL}"),
    (EVIL,),
    ("reconstruct", "release.json", "--out", "OUT.csv"),
    ("reconstruct", "shut.json", "--out", "OUT.csv"),
    ("reconstruct", "drawn.json", "--out", "OUT.csv"),
    ("schema", "release.json"),
    ("schema", "release.json", "--out", "OUT.toml"),
    ("schema", "rules.json"),
    ("export", "release.json", "OUT.json"),
    ("harden", "release.json", "--out", "OUT.skops"),
    ("harden", "model.skops", "--steps", EVIL, "--out", "OUT.skops"),
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: plain(" ".join(c))[:60])
def test_no_command_lets_a_file_act(folder, tmp_path, command):
    known = {p.name: p for p in folder.iterdir()}
    words = [known.get(w, tmp_path / w if w.startswith("OUT.") else w) for w in command]
    result = run(*words)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    assert acting(result.stdout) == []
    assert acting(result.stderr) == []
    assert "\nVerdict: fine" not in result.output
    for path in tmp_path.iterdir():
        if path.suffix != ".csv":
            assert acting(path.read_text(encoding="utf-8")) == [], path
    if command[0] == "audit" and result.exit_code == 0:
        assert (tmp_path / "OUT.json").exists() or "OUT.json" not in command


@pytest.mark.parametrize("name", ["release", "shut", "drawn", "rules"])
def test_the_releasable_edition_repeats_no_text_of_a_file(folder, name):
    audit = treeleak.audit(folder / f"{name}.json", time_limit=5)
    document = valid(json.loads(audit.to_json()))
    assert document["provenance"]["origin"] in (UNSTATED, "scikit-learn 1.5.2")
    columns = (document.pop("exposure") or {}).get("columns", ())
    for part in (document["reconstruction"] or {}, *columns):
        # The names of columns are those of the data, and no free text.
        for key in ("free_columns", "interval_columns", "column"):
            part.pop(key, None)
    assert WORD not in json.dumps(document)
    assert "Left out of this edition" in json.dumps(document["notes"])
    internal = json.dumps(audit.to_dict("internal"), default=str)
    assert f"{WORD} knew this" in internal or name == "rules"
    page = re.sub(r"(?s)<section id=\"(columns|groups)\".*?</section>", "", render_html(audit))
    assert WORD not in page
    assert acting(page) == []


def test_names_of_attributes_are_repeated_only_if_libraries_have_them(folder):
    audit = treeleak.audit(folder / "model.skops")
    document = json.loads(audit.to_json())
    assert WORD not in json.dumps(document)
    names = {n for e in document["inventory"] for n in e["names"]}
    assert {"n_node_samples", "values", "criterion", "n_estimators"} <= names
    assert any(n.endswith("of the file's own") for n in names)
    assert WORD in json.dumps(audit.to_dict("internal"), default=str)


def test_reports_for_other_consoles_are_plain(folder):
    audit = treeleak.audit(folder / "release.json", time_limit=5)
    console = Console(record=True, width=100, file=open("/dev/null", "w"))  # noqa: SIM115
    render(audit, console, include_rows=True)
    console.file.close()
    assert acting(console.export_text()) == []
    assert not audit._repr_html_().count("\x1b")


@pytest.mark.parametrize(
    ("origin", "told"),
    [
        (
            "scikit-learn 1.5.2, RandomForestClassifier",
            "scikit-learn 1.5.2, RandomForestClassifier",
        ),
        ("scikit-learn of unknown version, Pipeline", "scikit-learn of unknown version, Pipeline"),
        ("scikit-learn Hans, RandomForestClassifier", "scikit-learn, RandomForestClassifier"),
        ("LightGBM (format v4), Booster", "LightGBM, Booster"),
        ("LightGBM (format Hans-has-it), Booster", UNSTATED),
        ("sklearn.svm._classes.LogisticRegression", "scikit-learn, LogisticRegression"),
        ("hans.has.It", UNSTATED),
        ("", UNSTATED),
        (EVIL, UNSTATED),
    ],
)
def test_origins_are_known_or_unstated(origin, told):
    assert known_origin(origin) == told


def test_texts_of_a_file_are_no_messages_of_the_package(folder):
    rules, release = read_rules(folder / "rules.json"), to_release(folder / "release.json")
    assert rules.notes
    assert release.notes
    assert not any(isinstance(note, Message) for note in (*rules.notes, *release.notes))
