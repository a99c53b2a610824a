"""Build the wheel and the source archive, and use the wheel as somebody who has nothing else.

    python tools/try_wheel.py [FOLDER]

Into a new environment goes the wheel alone, by pip and without its cache. Outside the checkout, the
demo has to run and to leave its report; the package has to be marked as typed, and to come from
that environment. Both archives have to hold what they should, and nothing beside it; from the
sources alone, the same wheel has to come, byte for byte.
Needs hatchling, and pip needs PyPI. The archives are left in FOLDER, ``dist`` unless it is named.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
IN_WHEEL = (
    "treeleak/py.typed",
    "treeleak/datasets/data/compas.csv.xz",
    "treeleak/datasets/data/LICENCES.md",
    "treeleak/formats/audit.schema.json",
)
IN_SOURCES = (
    "src/treeleak/py.typed",
    "tests/golden.json",
    "docs/reproduction/runs.jsonl.xz",
    "experiments/__main__.py",
    "README.md",
    "LICENSE",
    "SECURITY.md",
    "Makefile",
)
FLOOR = 90
"""Seconds that installing and the demo may take together on two idle cores."""
_FOREIGN = (".venv", "_cache", "__pycache__", ".pyc", ".sqlite", "results/", ".hypothesis")
"""Parts of names that have no place in an archive."""

_LOOK = """
import importlib.metadata, pathlib, sys, treeleak
folder = pathlib.Path(treeleak.__file__).parent
assert folder.is_relative_to(sys.prefix), folder
assert (folder / "py.typed").is_file()
assert importlib.metadata.version("treeleak") == treeleak.__version__
"""


def build(folder: Path) -> tuple[Path, Path]:
    """Build both archives: the wheel, and the sources."""
    shutil.rmtree(folder, ignore_errors=True)
    _hatchling(ROOT, folder)
    (wheel,), (sources,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sources


def check_sources(sources: Path, wheel: Path, folder: Path) -> None:
    """Stop if the sources do not give the wheel."""
    with tarfile.open(sources) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    _hatchling(unpacked, folder / "built", "-t", "wheel")
    if (folder / "built" / wheel.name).read_bytes() != wheel.read_bytes():
        raise SystemExit(f"{sources.name}: its wheel is not {wheel.name}")


def _hatchling(sources: Path, folder: Path, *options: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", folder, *options]
    subprocess.run(command, cwd=sources, check=True)  # noqa: S603


def check_names(archive: Path, names: Iterable[str], needed: Iterable[str]) -> None:
    """Stop if an archive lacks a file, or has one that should not leave."""
    found = set(names)
    missing = [name for name in needed if name not in found]
    foreign = [name for name in found if any(part in name for part in _FOREIGN)]
    if missing or foreign:
        raise SystemExit(f"{archive.name}: lacks {missing}, has {sorted(foreign)[:5]}")


def try_out(wheel: Path, folder: Path) -> None:
    """Install the wheel into a new environment in a folder, and run the demo from there."""
    # Neither the caller's environment nor the caches of compiled code may help.
    own = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "NUMBA"))}
    environment = folder / "environment"

    def run(program: Path, *arguments: object) -> None:
        command = [program, *map(str, arguments)]
        # Of what it says, only errors are of interest.
        quiet = subprocess.DEVNULL
        subprocess.run(command, cwd=folder, env=own, check=True, stdout=quiet)  # noqa: S603

    start = time.monotonic()
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-compile", "--no-cache-dir", wheel)
    installed = time.monotonic()
    run(python, "-c", _LOOK)
    run(environment / "bin" / "treeleak", "--version")
    run(python, "-m", "treeleak", "demo", "--no-open")
    shown = time.monotonic()
    report = folder / "demo" / "report.html"
    if not report.is_file():
        raise SystemExit("the demo left no report")
    verdict = "met" if shown - start < FLOOR else "NOT met"
    sys.stdout.write(
        f"{wheel.name}: installed in {installed - start:.0f} s, demo in {shown - installed:.0f} s; "
        f"together {shown - start:.0f} s, floor {FLOOR} s on two idle cores: {verdict}\n"
    )


def main(folder: Path) -> None:
    """Build, look, try."""
    wheel, sources = build(folder)
    with zipfile.ZipFile(wheel) as archive:
        check_names(wheel, archive.namelist(), IN_WHEEL)
    with tarfile.open(sources) as archive:
        check_names(sources, (n.partition("/")[2] for n in archive.getnames()), IN_SOURCES)
    with tempfile.TemporaryDirectory() as fresh:
        check_sources(sources, wheel, Path(fresh))
    with tempfile.TemporaryDirectory() as fresh:
        try_out(wheel.resolve(), Path(fresh))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist")
