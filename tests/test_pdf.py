"""Reports as PDF: printed where there is a browser, refused before any work where there is none."""

import os
import re
import shutil
import stat

import pytest
import skops.io
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.cli import run
from treeleak.core.errors import BadInput
from treeleak.report import pdf

CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, pdf.NAMES)), None)
printed = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the path")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pdf")
    compas = treeleak.datasets.load_compas()
    X = compas.X[:60]
    skops.io.dump(DecisionTreeClassifier(max_depth=2).fit(X, compas.y[:60]), folder / "m.skops")
    return folder


def audit(folder, report, *more):
    return run("audit", folder / "m.skops", "--report", report, "--quiet", *more)


def browser(path, lines):
    """A program that stands for a browser, and does what these lines of shell say."""
    path.write_text("#!/bin/sh\n" + lines)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_without_a_browser_it_is_refused_before_any_work(folder, no_audit, monkeypatch):
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(folder))
    refused = audit(folder, folder / "r.pdf")
    assert refused.exit_code == 2
    assert "Chromium or Chrome prints a report as PDF, and neither is on the path" in refused.stderr
    monkeypatch.setenv("CHROMIUM", str(folder / "none"))
    refused = audit(folder, folder / "r.pdf")
    assert refused.exit_code == 2
    assert "none: no program is there" in refused.stderr


def test_it_is_printed_apart_and_offline(folder, tmp_path):
    # The browser's own arguments are what it prints.
    own = browser(
        tmp_path / "own",
        'for a; do case "$a" in --print-to-pdf=*) out="${a#*=}";; esac; done\n'
        '{ echo "%PDF-1.4"; echo "$HOME"; for a; do echo "$a"; done; } > "$out"\n',
    )
    told = pdf.print_page("<p>x</p>", own).decode().splitlines()
    home = told[1]
    assert f"--user-data-dir={home}/profile" in told
    assert "--host-resolver-rules=MAP * ~NOTFOUND" in told
    assert told[-1].startswith(f"file://{home}/")
    assert not os.path.exists(home)
    assert home != os.environ.get("HOME")


@pytest.mark.parametrize(
    ("lines", "said"), [("echo broken >&2; exit 1\n", "broken"), ("exit 0\n", "printed nothing: 0")]
)
def test_a_browser_that_prints_nothing_is_an_error(tmp_path, lines, said):
    own = browser(tmp_path / "own", lines)
    with pytest.raises(BadInput, match=said):
        pdf.print_page("<p>x</p>", own)


@printed
@pytest.mark.slow
def test_a_report_is_printed(folder):
    target = folder / "r.PDF"
    assert audit(folder, target, "--internal").exit_code == 0
    content = target.read_bytes()
    assert content.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", content)) > 1
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
