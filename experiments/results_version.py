"""The results version: which stored runs still say what treeleak answers today.

A stored run counts as done as long as its version is that of its experiment. Files may move, and
code may change in any way: only a line in ``CHANGES`` makes runs due again. Add one whenever an
attack, a metric or a study answers otherwise than before, and say there which answers change and
why. Speed alone is no answer, except where a study shows it or a time limit ends its runs.

Versions are one series of numbers, but a line may name the experiments that it concerns. All
stored runs together take many hours, most of them for one experiment: whoever improves the attack
on noise should neither have to repeat Ferry's trees nor be tempted to leave the version alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

VERSION = "results_version"
"""Name of the version among the figures of a run."""
EVERY: tuple[str, ...] = ()
"""Stands for every experiment, where a line names none."""

CHANGES: Mapping[int, tuple[tuple[str, ...], str]] = MappingProxyType(
    {
        # Version: the studies (``Study.kept_as``) and benchmarks whose answers it was the last to
        # change, which answers, and why. Older lines are in the history of this file.
        1: (
            EVERY,
            "The first version, which the runs behind docs/reproduction.md are of.",
        ),
        32: (
            ("boosted-models",),
            "Exact counts of few trees: samples hardly miss counts any more; a tree alone errs "
            "less, and expects what it errs. Shallow exact counts: worlds are found by the "
            "solver. Flags have one prior. Raw numbers of boosted models: untested columns are "
            "as sure as they are, intervals hold their share. Known draws of raw tables: classes "
            "come first.",
        ),
        52: (
            ("hidden", "draft", "raw_boosted"),
            "Priors of what no tree tests are neutral, no longer fitted to tables: Jeffreys' law "
            "of the share of ones, an exponential density beyond the outermost thresholds. Equal "
            "costs count as equal on every processor.",
        ),
        53: (
            ("boosted", "default-forests"),
            "The order in which nodes looked at columns is no longer replayed (version 24): it "
            "proved no row, and chose between few that meet the same counts.",
        ),
        54: (
            ("raw",),
            "Walks over grids too large to list no longer stop to look for a proof that the "
            "counts contradict each other: they have that time, and such counts end as unknown.",
        ),
        55: (
            ("raw_boosted",),
            "Boosted models on raw numbers: a row has each value of its box as often as it is "
            "frequent in its column.",
        ),
        56: (
            ("known_raw",),
            "Known draws on grids too large to list: rows no longer hear from leaves of which "
            "class they are and where they lie, which was worth nothing on tables of 100 rows. "
            "Leaves of rows are narrowed for a share of the time that depends on trees alone.",
        ),
        57: (
            (
                "raw",
                "known_raw",
                "exact",
                "draft",
                "default-forests",
                "boosted",
                "boosted-models",
            ),
            "Chains behind exact counts follow the plan of all chains, and no longer walk on until "
            "they agree; annealing runs make the same moves as these, and begin short.",
        ),
        58: (
            ("exact", "boosted", "boosted-models", "default-forests"),
            "Rows behind a single tree are walked like those behind several, no longer drawn leaf "
            "by leaf. Behind counts of a regression alone, walks go on where least squares stood.",
        ),
        59: (
            ("boosted", "raw_boosted"),
            "Drawn boosted models whose cells cannot be listed: particles stand for them, and rows "
            "follow from sums of the loss. Several numbers of rows that fit the draws are tried.",
        ),
        60: (
            ("known", "known_raw", "raw"),
            "Grids too large to list: rows walk to the counts alone. No integer program is asked, "
            "no walk looks for rows that thresholds lie halfway between, and rules are refused.",
        ),
        61: (
            ("boosted",),
            "Drawn boosted models: once sums react to single rows, only kinds that a row may be of "
            "are weighed; rows in each other's place are exchanged, and rows that fit are held "
            "while the others are fitted anew. Particles stand for cells that are too many for "
            "the time.",
        ),
        62: (
            ("raw", "raw_boosted", "known_raw"),
            "Values beyond the outermost threshold no longer depend on the other columns of a row, "
            "and stay near the threshold where the domain has no end: on 48 models of four tables "
            "of scikit-learn, they are off by .20 of the range in place of .57 without a schema, "
            "and by .134 in place of .136 with one.",
        ),
    }
)
RESULTS_VERSION = max(CHANGES)


def results_version(experiment: str) -> int:
    """Find the last version that changed what an experiment answers."""
    return max(
        version for version, (which, _) in CHANGES.items() if not which or experiment in which
    )


def say_versions(versions: Iterable[int]) -> str:
    """Say of which versions runs are: "results version 1", "results versions 1, 2"."""
    names = [str(v) for v in sorted(set(versions))]
    return f"results version{'s' * (len(names) > 1)} {', '.join(names)}"
