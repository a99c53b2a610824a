"""The report in a real browser: what it looks like, what runs in it, who can use it.

These tests need the extra ``browser`` and Chromium: ``make test-browser``.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import treeleak
from helpers.tables import compas_sample
from treeleak.report import render_html

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
# The target that is named for it must not pass for want of a browser.
if os.environ.get("TREELEAK_BROWSER") != "needed":
    pytest.importorskip("axe_playwright_python", reason="needs `make test-browser`")
    if CHROMIUM is None:
        pytest.skip("no chromium on the path: `make test-browser`", allow_module_level=True)

pytestmark = pytest.mark.browser

WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 400, "height": 800}
OPTIONS = [
    "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--disable-quic",
]  # fmt: skip
WCAG = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
# What a narrow screen and a dark one change; contrasts, in one pass over all texts, take longest.
LAYOUT = {"runOnly": ["scrollable-region-focusable", "target-size", "css-orientation-lock"]}
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}

HOSTILE = {
    "markup": "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>",
    "attribute": "\" onmouseover='document.title=1' x=\"",
    "template": "{{ 7 * 7 }}{% raw %}&amp;",
    "long": "x" * 3000,
    "right-to-left": "שלום עולם 123",
    "override": "safe\u202egnp.exe",
    "control": "bell\x07null\x00end",
    "separator": "a\u2028b",
}


def options() -> dict[str, Any]:
    """How to start the browser: from Debian, and without a word to anybody."""
    assert CHROMIUM is not None, "no chromium on the path, nor named by the variable CHROMIUM"
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    return {"executable_path": CHROMIUM, "args": OPTIONS + as_root}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(**options())
        yield started
        started.close()


class Opened:
    """A page, and what went wrong in it."""

    def __init__(self, browser: Browser, path: Path, **how: Any) -> None:
        self.wrong: list[str] = []
        self.asked: list[str] = []
        self.page: Page = browser.new_page(**{"viewport": WIDE, **how})
        self.page.on("console", lambda m: self.wrong.append(m.text))
        self.page.on("pageerror", lambda e: self.wrong.append(str(e)))
        self.page.on("dialog", lambda d: (self.wrong.append(d.message), d.dismiss()))
        self.page.on("request", lambda r: self.asked.append(r.url))
        self.page.goto(path.as_uri())


@pytest.fixture
def opened(browser):
    pages: list[Page] = []

    def open_(path: Path, **how: Any) -> Opened:
        shown = Opened(browser, path, **how)
        pages.append(shown.page)
        return shown

    yield open_
    for page in pages:
        page.close()


def hostile_audit() -> treeleak.Audit:
    """An audit of a model whose columns and classes are called what they should not be."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 2, size=(60, len(HOSTILE))), columns=list(HOSTILE.values()))
    classes = np.array([HOSTILE["markup"], HOSTILE["override"]], dtype=object)
    y = classes[rng.integers(0, 2, size=60)]
    forest = RandomForestClassifier(n_estimators=10, random_state=1).fit(X, y)
    return treeleak.audit(forest, X, y, time_limit=10)


def plain_audit() -> treeleak.Audit:
    X, y, data = compas_sample(60, seed=0)
    forest = RandomForestClassifier(n_estimators=10, random_state=42).fit(X, y)
    control = data.X.drop(X.index).sample(200, random_state=1)
    found = treeleak.audit(forest, X, y, schema=data.schema, control=control)
    limits = {"exact_rows": 0.1, "small_leaves": 0.2, "epsilon": 1.0}
    return replace(found, ruling=treeleak.judge(found, treeleak.Policy("house rules", limits)))


def tree_audit() -> treeleak.Audit:
    """An audit without training rows, of one tree."""
    from sklearn.tree import DecisionTreeClassifier

    X, y, data = compas_sample(80)
    tree = DecisionTreeClassifier(min_samples_leaf=10, random_state=0).fit(X, y)
    return treeleak.audit(tree, schema=data.schema)


@pytest.fixture(scope="module")
def reports(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    audits = {"forest": plain_audit(), "tree": tree_audit(), "hostile": hostile_audit()}
    paths = {}
    for name, found in audits.items():
        for edition in ("releasable", "internal"):
            path = folder / f"{name}-{edition}.html"
            text = render_html(found, edition, command="treeleak audit model.skops")
            path.write_text(text, encoding="utf-8")
            paths[f"{name}-{edition}"] = path
    return paths


EVERY = [
    f"{name}-{e}" for name in ("forest", "tree", "hostile") for e in ("releasable", "internal")
]


LABELS = """() => [...document.querySelectorAll(".chart text.label")].map(label => {
    const chart = label.closest(".chart"), own = label.getBoundingClientRect();
    const beside = [...chart.querySelectorAll("text.figure")].map(f => f.getBoundingClientRect());
    const level = f => Math.min(f.bottom, own.bottom) - Math.max(f.top, own.top) > 3;
    const svg = label.ownerSVGElement, clipped = svg.getAttribute("overflow") !== "visible";
    const room = svg.width.baseVal.value;
    return {
        text: label.textContent,
        cut: clipped && label.getComputedTextLength() > room,
        over: beside.some(f => level(f) && f.left < own.right),
    };
})"""


@pytest.mark.parametrize("name", ["forest-internal", "hostile-internal"])
@pytest.mark.parametrize("on", ["wide", "narrow", "paper"])
def test_labels_of_bars_are_neither_cut_nor_over_figures(reports, opened, on, name):
    """On A4 there are 680 pixels between the margins."""
    views = {"wide": WIDE, "narrow": NARROW, "paper": {"width": 680, "height": 900}}
    page = opened(reports[name], viewport=views[on]).page
    if on == "paper":
        page.emulate_media(media="print")
    labels = page.evaluate(LABELS)
    assert len(labels) > 10
    assert [own for own in labels if own["cut"] or own["over"]] == []


@pytest.mark.parametrize("name", EVERY)
def test_nothing_goes_wrong_and_nothing_is_asked_for(reports, opened, name):
    shown = opened(reports[name])
    assert shown.wrong == []
    assert shown.asked == [reports[name].as_uri()]
    assert shown.page.title().endswith("treeleak")


@pytest.mark.parametrize("name", EVERY)
def test_every_chart_is_drawn(reports, opened, name):
    page = opened(reports[name]).page
    charts = page.locator("figure > svg")
    assert charts.count() >= (2 if name.startswith("tree") else 3)
    for k in range(charts.count()):
        box = charts.nth(k).bounding_box()
        assert box["width"] > 200
        assert box["height"] > 20
        drawn = (
            charts.nth(k)
            .locator("rect")
            .evaluate_all("all => all.map(r => [r.getBBox().width, getComputedStyle(r).fill])")
        )
        assert any(width > 1 for width, _ in drawn)
        # Colours come from classes: one that no style knows would be black.
        assert "rgb(0, 0, 0)" not in {colour for _, colour in drawn}


def violations(page: Page, rules: dict[str, Any]) -> list[tuple[str, str]]:
    from axe_playwright_python.sync_playwright import Axe

    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    # Of what is in order one place is told: to name them all takes most of the time.
    found = Axe().run(page, options={**rules, "resultTypes": ["violations"]}).response
    assert found["passes"]
    return [(v["id"], v["nodes"][0]["html"][:200]) for v in found["violations"]]


@pytest.mark.parametrize("name", EVERY)
def test_whoever_sees_or_steers_otherwise_can_use_it(reports, opened, name):
    assert violations(opened(reports[name]).page, WCAG) == []


@pytest.mark.parametrize("name", EVERY)
def test_a_narrow_screen_keeps_everything_within_reach(reports, opened, name):
    assert violations(opened(reports[name], viewport=NARROW).page, LAYOUT) == []


# The releasable edition shows less of the same.
@pytest.mark.parametrize("name", [name for name in EVERY if name.endswith("internal")])
def test_a_dark_screen_shows_texts_and_links(reports, opened, name):
    assert violations(opened(reports[name], color_scheme="dark").page, COLOURS) == []


@pytest.mark.parametrize("name", EVERY)
def test_nothing_sticks_out_of_a_narrow_screen(reports, opened, name):
    page = opened(reports[name], viewport=NARROW).page
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= NARROW["width"]


def test_the_keyboard_reaches_everything(reports, opened):
    page = opened(reports["forest-internal"]).page
    wanted = page.evaluate(
        """[...document.querySelectorAll('a, button, input, summary, [tabindex="0"]')]
          .filter(e => e.checkVisibility()).length"""
    )
    reached, outlines = set(), set()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.evaluate("document.activeElement.getBoundingClientRect().top") >= 0
    for _ in range(wanted + 5):
        told = page.evaluate(
            """(() => { const e = document.activeElement; e.dataset.reached = 1;
              return [e === document.body, getComputedStyle(e).outlineStyle]; })()"""
        )
        if not told[0]:
            outlines.add(told[1])
        page.keyboard.press("Tab")
    reached = page.locator("[data-reached]:not(body)").count()
    assert reached == wanted
    assert outlines == {"solid"}


def test_pages_of_rows_turn_with_the_keyboard(reports, opened):
    page = opened(reports["forest-internal"]).page
    status, rows = page.locator("[role=status]"), page.locator(".pages tbody tr")
    assert status.inner_text() == "Rows 1 to 25 of 60, page 1 of 3"
    page.get_by_role("button", name="Next").focus()
    page.keyboard.press("Enter")
    assert status.inner_text() == "Rows 26 to 50 of 60, page 2 of 3"
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert status.inner_text() == "Rows 51 to 60 of 60, page 3 of 3"
    assert rows.count() == 10
    page.get_by_label("Page").fill("2")
    page.keyboard.press("Enter")
    assert "page 2 of 3" in status.inner_text()
    page.get_by_role("button", name="First").click()
    assert rows.first.locator("th").inner_text() == "1"


def test_the_rows_shown_are_those_rebuilt(opened, tmp_path):
    X, y, data = compas_sample(12, seed=5)
    forest = RandomForestClassifier(n_estimators=3, random_state=1).fit(X, y)
    found = treeleak.audit(forest, X, y, schema=data.schema, bootstrap="hidden")
    path = tmp_path / "report.html"
    path.write_text(render_html(found, "internal"), encoding="utf-8")
    page = opened(path).page
    heads = page.locator(".pages thead th").all_inner_texts()
    first = heads.index(X.columns[0])
    rebuilt = found.reconstruction
    for line in page.locator(".pages tbody tr").all():
        cells = line.locator("th, td").all_inner_texts()
        row = int(cells[0]) - 1
        own = [re.split(r" true: ", c)[0] for c in cells[first:]]
        true = [c.rpartition(" true: ")[2] for c in cells[first:-2]]
        assert own[:-1] == [*(f"{v:g}" for v in rebuilt.X.iloc[row]), str(rebuilt.y.iloc[row])]
        assert re.fullmatch(r"tree \d+, leaf \d+: [\d,]+ rows?( and \d more)?", own[-1])
        if cells[1] != "–":
            matched = X[rebuilt.X.columns].iloc[int(cells[1]) - 1]
            assert true == [f"{v:g}" for v in matched]


@pytest.mark.parametrize("edition", ["releasable", "internal"])
def test_hostile_texts_are_shown_and_do_nothing(reports, opened, edition):
    shown = opened(reports[f"hostile-{edition}"])
    page = shown.page
    for region in page.locator("button:not([aria-disabled=true]), summary").all():
        if region.is_visible():
            region.click(force=True)
    page.mouse.move(300, 300)
    assert shown.wrong == []
    assert "taken" not in page.title()
    assert page.locator("img, iframe, object, embed, base, form").count() == 0
    assert page.locator("script").count() == (3 if edition == "internal" else 1) - (
        page.locator(".pages").count() == 1
    )
    text = page.locator("body").inner_text()
    # The overriding character is shown by its number, and turns nothing.
    assert "\u202e" not in text
    if edition == "internal":
        assert "</script><script>document.title='taken'</script>" in text
        assert "safe\\u202egnp.exe" in text
        assert "bell\\u0007null\\u0000end" in text
        assert "a\\u2028b" in text
        assert "שלום עולם" in text
        assert "{{ 7 * 7 }}{% raw %}&amp;" in text


def large_audit(n_rows: int) -> treeleak.Audit:
    """An audit as of many rows: rebuilt rows of numbers and codes beside true ones."""
    small = plain_audit()
    rng = np.random.default_rng(1)
    columns = list(small.reconstruction.X.columns)
    true = pd.DataFrame(rng.integers(0, 40, size=(n_rows, len(columns))), columns=columns)
    true[columns[0]] = rng.normal(50_000, 20_000, size=n_rows).round(2)
    rebuilt = true.where(rng.random(true.shape) < 0.9, rng.integers(0, 40, size=true.shape))
    sure = pd.DataFrame(rng.random(true.shape), columns=columns)
    reconstruction = replace(
        small.reconstruction, X=rebuilt, y=pd.Series(rng.integers(0, 2, n_rows)),
        confidence=sure, proved=pd.Series(rng.random(n_rows) < 0.1), ordered=True, draws=None,
        lower=None, upper=None, label_confidence=None, known=None,
        schema=treeleak.Schema([treeleak.Numeric(name) for name in columns]),
    )  # fmt: skip
    order = rng.permutation(n_rows)
    rows = pd.DataFrame({"row": order, "matched": order, "wrong": 1, "sure": 0.5, "proved": False})
    exposure = replace(small.exposure, rows=rows, leaves=small.exposure.leaves[:1] * n_rows)
    truth = replace(small.truth, X=true)
    return replace(small, reconstruction=reconstruction, exposure=exposure, truth=truth)


def test_40_000_rows_stay_small_and_only_one_page_is_drawn(opened, tmp_path):
    text = render_html(large_audit(40_000), "internal")
    path = tmp_path / "large.html"
    path.write_text(text, encoding="utf-8")
    assert path.stat().st_size < 10_000_000
    shown = opened(path)
    assert shown.wrong == []
    assert "of 40,000" in shown.page.locator("[role=status]").inner_text()
    assert shown.page.locator(".pages tbody tr").count() == 25
    # Counted in the page: handing 40,000 rows over takes ten times as long as drawing them.
    counted = "e => JSON.parse(e.textContent).rows.length"
    assert shown.page.locator(".pages script").evaluate(counted) == 40_000


def test_on_paper_every_page_says_that_it_is_internal(reports, opened):
    page = opened(reports["forest-internal"]).page
    page.emulate_media(media="print")
    edge = page.locator(".edge")
    assert edge.is_visible()
    assert edge.evaluate("e => getComputedStyle(e).position") == "fixed"
    main = page.locator("main").evaluate("e => parseFloat(getComputedStyle(e).paddingLeft)")
    assert main >= edge.bounding_box()["width"]
    assert not page.locator("nav").is_visible()
    other = opened(reports["forest-releasable"]).page
    assert other.locator(".edge, .banner").count() == 0


def test_without_its_program_the_page_says_what_is_missing(browser, reports):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(reports["forest-internal"].as_uri())
    assert "did not run" in page.locator("[role=status]").inner_text()
    assert page.locator("figure > svg").first.is_visible()
    assert not page.locator(".turn").is_visible()
    context.close()
