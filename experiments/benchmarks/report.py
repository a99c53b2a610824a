"""How large the report of many rows is, and how long a browser takes to open it.

``make bench-report``: it needs Chromium.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from experiments.benchmarks.frame import floor, options
from treeleak.report import render_html

MEGABYTES, SECONDS = 10.0, 3.0


def main(args: Sequence[str]) -> int:
    asked = options("report", __doc__, args, rows=40_000, times=5)
    from playwright.sync_api import sync_playwright

    from tests.test_browser import WIDE, large_audit
    from tests.test_browser import options as browser_options

    audit = large_audit(asked.rows)
    started = time.perf_counter()
    text = render_html(audit, "internal")
    written = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "report.html"
        path.write_text(text, encoding="utf-8")
        browser = playwright.chromium.launch(**browser_options())
        seconds = []
        for _ in range(asked.times):
            page = browser.new_page(viewport=WIDE)
            started = time.perf_counter()
            page.goto(path.as_uri())
            page.locator(".pages tbody tr").nth(24).wait_for()
            seconds.append(time.perf_counter() - started)
            page.close()
        browser.close()
        size = path.stat().st_size / 1e6
    wrote = f"{asked.rows:,} rows, written in {written:.1f} s: {size:.1f} MB (floor: {MEGABYTES:g})"
    opened = f"opened in {max(seconds):.2f} s, the slowest of {asked.times} (floor: {SECONDS:g})"
    return int(not floor(wrote, size < MEGABYTES) & floor(opened, max(seconds) < SECONDS))
