"""Name the lowest version of each dependency that is promised, for pip: one line each.

    python tools/lowest_versions.py [EXTRA ...]

``jinja2>=3.1`` gives ``jinja2==3.1``; what has no lower bound is left as it is.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]


def lowest(extras: Sequence[str]) -> Iterator[str]:
    """Pin the dependencies to their lower bounds; those of extras stay free."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    yield from (pinned(line) for line in project["dependencies"])
    for extra in extras:
        yield from _named(project["optional-dependencies"], extra, f"{project['name']}[")


def _named(extras: Mapping[str, Sequence[str]], extra: str, own: str) -> Iterator[str]:
    """Name what an extra asks for; extras of the project itself stand for what they ask for.

    ``own``: how these begin. No registry has them before a release.
    """
    for line in extras[extra]:
        if line.startswith(own):
            for other in line.removeprefix(own).rstrip("]").split(","):
                yield from _named(extras, other.strip(), own)
        else:
            yield line


def pinned(line: str) -> str:
    """Pin one dependency."""
    name, bound, version = line.partition(">=")
    return f"{name}=={version.split(',')[0]}" if bound else line


if __name__ == "__main__":
    sys.stdout.write("\n".join(lowest(sys.argv[1:])) + "\n")
