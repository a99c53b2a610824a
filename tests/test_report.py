"""The report: what either edition says and does not say, and how hostile texts are shown."""

from __future__ import annotations

import html
import re
import stat
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

from treeleak.cli import app

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


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


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


@pytest.fixture(scope="module", params=MODELS)
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
    return {w for w in wanted if re.search(rf"(?<![\w.]){re.escape(w)}(?!\w)", text)}


def test_the_releasable_edition_holds_no_value_of_the_training_rows(canary):
    folder, kinds = canary
    for name, text in audited(folder).items():
        for kind, values in kinds.items():
            assert not found_in(text, values), (name, kind)
        assert str(folder) not in text, name
        # Not cut off or in pieces either.
        assert not re.search(r"town-\d|fraud-\d", text), name


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
