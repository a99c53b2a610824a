"""The report: what either edition says and does not say, and how hostile texts are shown."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import re
import stat
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import skops.io
from rich.console import Console
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.cli import run
from helpers.examples import spread
from helpers.hurried import walk_little
from helpers.tables import compas_sample
from treeleak.core.text import percent, plain
from treeleak.report import render, render_html
from treeleak.report.sheet import sheet_of

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

LABEL = "outcome"
N_ROWS = 60
RARE = 4
"""Rows of a group that is too small to be told."""


class Page(HTMLParser):
    """The parts of a page that a test asks for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)


# -------------------------------------------------------------------------------------- canaries


def canary_table() -> tuple[pd.DataFrame, pd.Series]:
    """Numbers that occur once, texts that few rows have, and a rare class."""
    rng = np.random.default_rng(7)
    numbers = rng.choice(np.arange(1_000_003, 9_999_999), size=(N_ROWS, 2), replace=False)
    towns = [f"town-{k:02d}-{rng.integers(10**6, 10**7)}" for k in range(N_ROWS // RARE)]
    X = pd.DataFrame(
        {
            "income": numbers[:, 0].astype(float),
            "debt": numbers[:, 1].astype(float),
            "town": np.repeat(towns, RARE),
        }
    )
    labels = np.where(np.arange(N_ROWS) % 2, "granted", "refused").astype(object)
    labels[:RARE] = "fraud-7215934"
    return X, pd.Series(labels, name=LABEL)


def canaries(model, X, y) -> dict[str, set[str]]:
    """Every value of the training rows, and every threshold next to one, as texts."""
    forms = {f"{v:{how}}" for c in ("income", "debt") for v in X[c] for how in (".0f", ",.0f")}
    cuts = {
        f"{cut:{how}}"
        for tree in getattr(model, "estimators_", [model])
        for cut in tree.tree_.threshold
        if cut > 10**6
        for how in (".0f", ".1f", ",.1f", ".6g", "g")
    }
    return {"numbers": forms, "thresholds": cuts, "texts": set(X["town"]), "class": {y.iloc[0]}}


MODELS = {
    "forest": RandomForestClassifier(n_estimators=12, random_state=42),
    "one tree": DecisionTreeClassifier(random_state=0),
}


@pytest.fixture(scope="module", params=spread(reversed(MODELS), fast=1))
def canary(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("somebody")
    X, y = canary_table()
    encoder = ColumnTransformer(
        [("town", OneHotEncoder(sparse_output=False), ["town"])],
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    model = Pipeline([("encode", encoder), ("model", MODELS[request.param])]).fit(X, y)
    skops.io.dump(model, folder / "model.skops")
    encoded = encoder.transform(X)
    encoded.assign(**{LABEL: y}).to_csv(folder / "train.csv", index=False)
    return folder, canaries(model[-1], X, y)


def audited(folder, *more):
    report, document = folder / "report.html", folder / "audit.json"
    result = run(
        "audit", folder / "model.skops", "--train", folder / "train.csv", "--label", LABEL,
        "--time-limit", 20, "--seed", 1, "--report", report, "--json", document, *more,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert f"treeleak: the report, {'internal' if more else 'releasable'} edition" in result.stderr
    return {"report": html.unescape(report.read_text()), "json": document.read_text()}


def found_in(text: str, wanted: set[str]) -> set[str]:
    """Which of these stand in a text, and not as a part of a longer number."""
    return {
        w
        for w in wanted
        # Most are nowhere, which is soon seen without a pattern.
        if (at := text.find(w)) >= 0
        and re.compile(rf"(?<![\w.]){re.escape(w)}(?!\w)").search(text, at)
    }


def test_the_releasable_edition_holds_no_value_of_the_training_rows(canary):
    folder, kinds = canary
    for name, text in audited(folder).items():
        for kind, values in kinds.items():
            assert not found_in(text, values), (name, kind)
        assert str(folder) not in text, name
        # Not cut off or in pieces either.
        assert not re.search(r"town-\d|fraud-\d", text), name


@pytest.mark.slow
def test_what_was_asked_for_names_no_category_that_few_have(canary):
    folder, kinds = canary
    policy, report, document = (folder / name for name in ("policy.toml", "asked.html", "a.json"))
    policy.write_text("[limits]\nleak_shown = false\ninference = 0.0\nsmallest_leaf = 10\n")
    column = f"town_{min(kinds['texts'])}"
    result = run(
        "audit", folder / "model.skops", "--train", folder / "train.csv", "--label", LABEL,
        "--time-limit", 20, "--sensitive", f"income,{column}", f"--groups={column}",
        "--policy", policy, "--report", report, "--json", document,
    )  # fmt: skip
    assert result.exit_code == 4, result.output
    told = json.loads(document.read_text())
    assert {g["column"] for g in told["exposure"]["groups"]} == {"class", "town"}
    assert {i["column"] for i in told["article29"]["inference"]} == {"income", "town"}
    shown = html.unescape(report.read_text())
    assert "--sensitive 'income,…' '--groups=…'" in shown
    for text in (shown, document.read_text()):
        assert not re.search(r"town-\d|fraud-\d", text)


@pytest.mark.slow
def test_the_internal_edition_holds_them(canary):
    folder, kinds = canary
    texts = audited(folder, "--internal")
    assert found_in(texts["report"], kinds["numbers"])
    assert found_in(texts["report"], kinds["thresholds"])
    for text in texts.values():
        assert all(town in text for town in kinds["texts"])
        assert all(label in text for label in kinds["class"])
    for name in ("report.html", "audit.json"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    assert "Internal edition" in texts["report"]
    assert str(folder) in texts["report"]


# ------------------------------------------------------------------------------------ what it says


@pytest.fixture(scope="module")
def found():
    X, y, data = compas_sample(40, seed=0)
    forest = RandomForestClassifier(n_estimators=5, random_state=0).fit(X, y)
    with pytest.MonkeyPatch.context() as patch:
        walk_little(patch)
        return treeleak.audit(forest, X, y, schema=data.schema)


@pytest.mark.slow
def test_rows_are_not_even_built_for_the_releasable_edition(found):
    keys = {e: {s.key for s in sheet_of(found, e).sections} for e in ("releasable", "internal")}
    assert keys["internal"] - keys["releasable"] == {"rows"}
    assert "application/json" not in render_html(found)


def _printed(audit, **options):
    console = Console(file=io.StringIO(), width=80)
    render(audit, console, **options)
    return console.file.getvalue()


def _finer(m):
    return {percent(y.scores.categories, 1) for y in m.judged.yardsticks}


def test_the_terminal_has_scores_in_whole_percents(found):
    finer, near = _finer(found.measurement), found.measurement.judged.yardsticks[0].scores
    assert all(figure in _printed(found, include_rows=True) for figure in finer)
    assert not [figure for figure in finer if figure in _printed(found)]
    assert re.search(rf"A random baseline .* {percent(near.categories)} ", _printed(found))


def test_nothing_is_called_proved_where_proofs_do_not_hold(found):
    recovered = replace(found.exposure.recovered, proved=0.0)
    sheet = sheet_of(replace(found, exposure=replace(found.exposure, recovered=recovered)))
    assert found.reconstruction.share_proved_rows > 0
    (tile,) = [t for t in sheet.tiles if t.label.startswith("of rows proved")]
    assert tile.figure == "0%"


def test_the_page_allows_itself_and_nothing_else(found):
    page = Page(text := render_html(found, "internal"))
    allowed = next(a["content"] for t, a in page.tags if a.get("http-equiv"))
    assert allowed.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in allowed
    # Attributes that run or style would need more than that.
    assert not [a for _, a in page.tags if any(k == "style" or k.startswith("on") for k in a)]
    assert not [a for _, a in page.tags if {"src", "srcset", "action"} & set(a)]
    assert all(a["href"].startswith("#") for _, a in page.tags if "href" in a)
    style = text[text.index("<style>") + 7 : text.index("</style>")]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert digest in allowed
    assert "url(" not in style
    assert "@import" not in style


@pytest.mark.slow
def test_what_was_typed_names_no_folders_in_the_releasable_edition(tmp_path):
    folder = tmp_path / "of-ada"
    folder.mkdir()
    X = pd.DataFrame({"a": [0, 1] * 10, "b": [0, 0, 1, 1] * 5})
    model = DecisionTreeClassifier().fit(X, X["a"])
    skops.io.dump(model, folder / "model.skops")
    X.assign(y=X["a"]).to_csv(folder / "train.csv", index=False)
    given = (f"{folder}/./model.skops", f"--train={folder}//train.csv", "--label", "y")
    report = folder / "report.html"
    assert run("audit", *given, "--report", report, "--seed", 3).exit_code == 0
    text = html.unescape(report.read_text())
    assert "treeleak audit model.skops --train=train.csv --label y --report report.html" in text
    assert "of-ada" not in text
    assert run("audit", *given, "--report", report, "--internal").exit_code == 0
    assert "of-ada" in html.unescape(report.read_text())


# -------------------------------------------------------------------------------- texts and charts


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain: ä, 日本, \u05e9", "plain: ä, 日本, \u05e9"),
        ("a\x00b\x1b[31m", "a\\u0000b\\u001b[31m"),
        ("\u202eevil\u2069", "\\u202eevil\\u2069"),
        ("half \ud83d", "half \\ud83d"),
        ("\U000e0041", "\\U000e0041"),
        ("a\u200db", "a\\u200db"),
        ("\u0915\u200d\u0937", "\u0915\u200d\u0937"),
        ("\U0001f468\u200d\U0001f469", "\U0001f468\u200d\U0001f469"),
        ("a\nb\u2028c\u00ad\u115f", "a\\u000ab\\u2028c\\u00ad\\u115f"),
    ],
)
def test_what_cannot_be_seen_is_shown_by_its_number(text, shown):
    assert plain(text) == shown
    assert plain(text).encode("utf-8")
