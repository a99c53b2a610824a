"""The results version: which stored runs still say what treeleak answers today.

A stored run counts as done as long as its version is that of its experiment. Files may move, and
code may change in any way: only a higher number in ``VERSIONS`` makes runs due again. Whenever an
attack, a metric or a study answers otherwise than before, give its experiments the next number;
the message of that commit says which answers change, and why. Speed alone is no answer, except
where a study shows it or a time limit ends its runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

VERSION = "results_version"
"""Name of the version among the figures of a run."""
VERSIONS: Mapping[str, int] = MappingProxyType(
    {
        "boosted": 65,
        "draft": 57,
        "exact": 58,
        "hidden": 52,
        "known": 60,
        "known_raw": 62,
        "raw": 62,
        "raw_boosted": 62,
    }
)
"""The version that was the last to change the answers of a study (``Study.kept_as``) or benchmark;
1, the first, of all others."""
RESULTS_VERSION = max(VERSIONS.values())


def results_version(experiment: str) -> int:
    """Find the last version that changed what an experiment answers."""
    return VERSIONS.get(experiment, 1)


def say_versions(versions: Iterable[int]) -> str:
    """Say of which versions runs are: "results version 1", "results versions 1, 2"."""
    names = [str(v) for v in sorted(set(versions))]
    return f"results version{'s' * (len(names) > 1)} {', '.join(names)}"
