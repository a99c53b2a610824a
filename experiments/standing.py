"""How a study stands: which of its runs are stored, and what its tables say of them."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.runner import as_frame
from experiments.store import Run, Store, key_of
from experiments.study import Study, Table
from treeleak.core.private import dataclass

_SHOWN = 0.5
"""Share of a study's runs of which more must be done for it to be shown: half may be another's."""


@dataclass(frozen=True)
class Standing:
    """How a study stands.

    Attributes
    ----------
    study : Study
    done, total : int
        Runs of the full grid.
    tables : tuple of Table
    versions : tuple of int
        Results versions of these runs.
    """

    study: Study
    done: int
    total: int
    tables: tuple[Table, ...]
    versions: tuple[int, ...]

    @property
    def shown(self) -> bool:
        """Whether enough of it is done."""
        return self.done > _SHOWN * self.total

    def lines(self, verdict: str) -> int:
        """Lines of the tables with a verdict."""
        frames = (t.frame for t in self.tables if "verdict" in t.frame)
        return sum(int((frame["verdict"] == verdict).sum()) for frame in frames)


def runs_of(study: Study, store: Store, quick: bool, any_version: bool = False) -> list[Run]:
    """Find the stored runs of a study's grid: those that count as done, or those of any version.

    Runs that are stored and not made anew are among them.
    """
    grid = study.grid(quick) if quick else study.whole
    wanted = {key_of(study.kept_as, parameters) for parameters in grid}
    runs = store.runs(study.kept_as, None if any_version else study.version)
    return [run for run in runs if key_of(study.kept_as, run.parameters) in wanted]


def standing(study: Study, runs: Sequence[Run]) -> Standing:
    """See how a study stands, from runs of its full grid."""
    total = len(study.whole)
    tables = tuple(study.tables(as_frame(runs))) if runs else ()
    return Standing(study, len(runs), total, tables, tuple(sorted({r.version for r in runs})))
