"""What a study is: a grid of parameters, and a pure function from parameters to a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import pandas as pd

from experiments.results_version import results_version
from treeleak.core.errors import BadInput
from treeleak.core.private import dataclass

AHEAD, BEHIND = "ahead", "BEHIND"
"""What stands in a table's column ``verdict``."""
AGREES, DIFFERS = "agrees", "DIFFERS"
"""The same, of what a paper found rather than how well it did."""

Parameters = Mapping[str, Any]
Record = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Table:
    """A table as the paper has it: published figures beside ours."""

    name: str
    """For files: letters, digits, dashes."""
    title: str
    frame: pd.DataFrame
    """Lines with their own columns first, then ``published``, ``treeleak`` (and other methods),
    ``ratio`` and ``verdict`` where there is something to compare."""
    note: str = ""
    """What a reader should know: runs left out, other conditions."""


@dataclass(frozen=True, eq=False)
class Study:
    """One table or figure of a paper.

    Attributes
    ----------
    name : str
        As on the command line: "draft-table-2".
    paper : str
        "DRAFT 2024".
    what : str
        "Table 2: run time with 100 trees".
    full, quick : callable
        Give the grid: parameters as mappings of plain values, in the order in which they run. The
        quick grid is a part of the full one (or has smaller time limits), over all of its strata.
    run : callable
        A function of a module: the record of one set of parameters. Pure: what is random in it
        comes from its parameters.
    tables : callable
        From runs (parameters and records as columns) to what is shown.
    warm : callable or None
        From parameters to those of a small run that compiles what theirs will use: it runs once in
        each process, and is not kept.
    check : callable or None
        Raises BadInput if something is missing that every run needs; asked before the first.
    experiment : str
        Studies of one experiment show the same runs in different ways: they have ``run`` and the
        names of parameters in common, and what was run for one of them is done for all. "" if
        there is no other.
    everywhere : callable or None
        Gives the whole grid, where ``full`` leaves out what this machine cannot run.
    """

    name: str
    paper: str
    what: str
    full: Callable[[], Sequence[Parameters]]
    quick: Callable[[], Sequence[Parameters]]
    run: Callable[[Parameters], Record]
    tables: Callable[[pd.DataFrame], Sequence[Table]]
    warm: Callable[[Parameters], Parameters] | None = None
    check: Callable[[], None] | None = None
    experiment: str = ""
    everywhere: Callable[[], Sequence[Parameters]] | None = None

    @property
    def kept_as(self) -> str:
        """Under which name its runs are kept."""
        return self.experiment or self.name

    @property
    def version(self) -> int:
        """Results version of the runs that count as done."""
        return results_version(self.kept_as)

    def grid(self, quick: bool) -> list[Parameters]:
        """Parameters of all runs, each once."""
        return _each_once(self.quick() if quick else self.full())

    @property
    def whole(self) -> list[Parameters]:
        """Parameters of all runs, also of those that this machine cannot do."""
        return _each_once((self.everywhere or self.full)())

    @cached_property
    def names(self) -> list[str]:
        """Names of the parameters.

        Raises
        ------
        BadInput
            If runs have different ones.
        """
        grid = self.whole
        names = list(grid[0])
        if any(set(p) != set(names) for p in grid):
            raise BadInput(f"{self.name}: runs have different parameters")
        return names


def _each_once(grid: Sequence[Parameters]) -> list[Parameters]:
    seen: dict[tuple[Any, ...], Parameters] = {}
    for parameters in grid:
        seen.setdefault(tuple(sorted(parameters.items(), key=lambda p: p[0])), parameters)
    return list(seen.values())


def verdict(ahead: bool) -> str:
    """Say who is ahead."""
    return AHEAD if ahead else BEHIND
