"""A report as PDF, printed by a Chromium that is installed: by its own profile, without network."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from treeleak.core.errors import BadInput
from treeleak.core.output import write_file

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
VARIABLE = "CHROMIUM"
SECONDS = 120
"""For printing: a page of many rows takes some seconds."""

_ALONE = (
    "--headless", "--disable-gpu", "--no-first-run", "--no-default-browser-check",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-default-apps", "--disable-extensions", "--disable-quic", "--no-pings",
    "--metrics-recording-only", "--disable-breakpad", "--password-store=basic",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=127.0.0.1:9",
    "--no-pdf-header-footer",
)  # fmt: skip
"""It looks nothing up, asks nobody, and keeps nothing."""


def is_pdf(path: Path) -> bool:
    """Say whether a report of this name is one."""
    return path.suffix.lower() == ".pdf"


def find_chromium() -> str:
    """Find the browser that prints.

    Raises
    ------
    BadInput
        If there is none: saying what to install, or which variable to set.
    """
    named = os.environ.get(VARIABLE)
    if named is not None:
        if (found := shutil.which(named)) is None:
            raise BadInput(f"{VARIABLE}={named}: no program is there")
        return found
    for name in NAMES:
        if (found := shutil.which(name)) is not None:
            return found
    raise BadInput(
        "Chromium or Chrome prints a report as PDF, and neither is on the path: install "
        f"one, name it in the variable {VARIABLE}, or write the report as HTML and print "
        "that"
    )


def print_page(page: str, browser: str) -> bytes:
    """Print a whole HTML document as PDF. Nobody else can read the files in between.

    Raises
    ------
    BadInput
        If the browser prints nothing.
    """
    with TemporaryDirectory(prefix="treeleak-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        source, target = folder / "report.html", folder / "report.pdf"
        write_file(source, page, private=True)
        command = [browser, *_ALONE, f"--user-data-dir={folder / 'profile'}",
                   f"--print-to-pdf={target}"]  # fmt: skip
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            command.append("--no-sandbox")
        home = {"HOME": name, "XDG_CONFIG_HOME": name, "XDG_CACHE_HOME": name}
        try:
            ended = subprocess.run(  # noqa: S603
                [*command, source.as_uri()],
                env=os.environ | home,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise BadInput(f"{browser}: printed nothing in {SECONDS} seconds") from error
        except OSError as error:
            raise BadInput(f"{browser}: cannot be started: {error.strerror}") from error
        printed = target.read_bytes() if target.is_file() else b""
        if ended.returncode or not printed.startswith(b"%PDF-"):
            errors = ended.stderr.decode("utf-8", "replace").strip().splitlines()
            raise BadInput(
                f"{browser}: printed nothing: {errors[-1] if errors else ended.returncode}"
            )
        return printed
