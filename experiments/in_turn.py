"""Runs all studies in turn, and says of each in one line how it ended and how long it took."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from experiments.runner import as_frame, carry_out, plan
from experiments.shown import write_tables
from experiments.standing import runs_of
from experiments.store import Store, store_file
from experiments.study import Study
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.private import dataclass

DONE, FAILED, NOT_RUN = "done", "FAILED", "not run"


@dataclass(frozen=True)
class Ended:
    """How a study ended.

    Attributes
    ----------
    name : str
    status : str
        "done"; "FAILED", if runs, tables or figures raised an error; "not run", if something is
        missing that all runs need.
    runs : int
        Runs that were made now.
    before : int
        Runs that were there before.
    seconds : float
        Wall-clock, tables and figures included.
    why : str
        The first error, or what is missing.
    interrupted : bool
    """

    name: str
    status: str
    runs: int
    before: int
    seconds: float
    why: str = ""
    interrupted: bool = False

    @property
    def line(self) -> str:
        """The same in words."""
        there = f", {self.before} were there" if self.before else ""
        said = f"{self.name}: {self.status}, {self.runs} runs{there}, {self.seconds:.0f} s"
        return f"{said}: {self.why}" if self.why else said


def run_in_turn(
    studies: Iterable[Study],
    out: Path,
    quick: bool,
    jobs: int = 1,
    cluster: str | None = None,
    any_version: bool = False,
) -> Iterator[Ended]:
    """Run studies one after the other, and write their tables beside the store.

    What fails in one ends no other; an interrupt ends all.
    """
    store = Store(store_file(out))
    for study in studies:
        start = time.perf_counter()
        todo = plan(study, store, quick, any_version)
        status, why, finished, interrupted = DONE, "", 0, False
        try:
            outcome = carry_out(todo, store, jobs, cluster)
            finished, interrupted = outcome.finished, outcome.interrupted
            if outcome.failed:
                status, why = FAILED, f"{len(outcome.failed)} runs failed: {outcome.failed[0][1]}"
            elif interrupted:
                status, why = FAILED, "interrupted"
            else:
                shown = as_frame(runs_of(study, store, quick, any_version))
                write_tables(study.tables(shown), out)
        except (BadInput, NotCovered) as error:
            status, why = NOT_RUN, str(error)
        except Exception as error:
            status, why = FAILED, f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - start
        yield Ended(study.name, status, finished, todo.done, seconds, why, interrupted)
        if interrupted:
            return


def closing_line(ended: Sequence[Ended]) -> str:
    """Say of how many studies all is well, and how long all of them took."""
    done = sum(e.status == DONE for e in ended)
    return f"{done} of {len(ended)} studies done, {sum(e.seconds for e in ended):.0f} s"
