"""Runs what a store lacks of a study: side by side, resumable, on one machine or a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from typing import Any

import joblib
import pandas as pd

from experiments.results_version import VERSION
from experiments.store import Run, Store, key_of
from experiments.study import Parameters, Study
from treeleak.batch.index import on_cluster
from treeleak.core.private import dataclass
from treeleak.reconstruction import versions


@dataclass(frozen=True)
class Plan:
    """What is to be run."""

    study: Study
    quick: bool
    todo: tuple[Parameters, ...]
    done: int
    """Runs that the store has."""


@dataclass(frozen=True)
class Outcome:
    """How carrying out a plan ended."""

    finished: int
    """Runs that were added to the store."""
    failed: tuple[tuple[Parameters, str], ...]
    """Runs that raised an error, and which; they are not in the store."""
    interrupted: bool


def plan(study: Study, store: Store, quick: bool = False, any_version: bool = False) -> Plan:
    """See what a store lacks of a study; runs of other results versions count if they may."""
    grid = study.grid(quick)
    runs = store.runs(study.kept_as, None if any_version else study.version)
    runs = [run for run in runs if set(run.parameters) == set(study.names)]
    done = {key_of(run.study, run.parameters) for run in runs}
    todo = tuple(p for p in grid if key_of(study.kept_as, p) not in done)
    return Plan(study, quick, todo, len(grid) - len(todo))


def carry_out(
    plan: Plan,
    store: Store,
    jobs: int = 1,
    cluster: str | None = None,
    told: Callable[[int, int, float], None] = lambda *_: None,
) -> Outcome:
    """Run what is to be run; each record is kept as soon as it is there.

    ``jobs`` run at once on this machine, or those of the workers of a Dask scheduler, whose address
    is ``cluster``. ``told`` gets the runs that are done, all runs, and the seconds since the
    beginning. Raises BadInput if something is missing that all runs need, or the cluster does not
    answer.
    """
    study = plan.study
    start, finished = time.perf_counter(), 0
    failed: list[tuple[Parameters, str]] = []
    if plan.todo and study.check is not None:
        study.check()
    told(0, len(plan.todo), 0.0)
    try:
        with ExitStack() as stack:
            results = _results(study, plan.todo, jobs, cluster, stack)
            for n, (parameters, record, error) in enumerate(results, 1):
                if error is None:
                    finished += store.add(Run(study.kept_as, parameters, study.version, record))
                else:
                    failed.append((parameters, error))
                told(n, len(plan.todo), time.perf_counter() - start)
    except KeyboardInterrupt:
        return Outcome(finished, tuple(failed), interrupted=True)
    return Outcome(finished, tuple(failed), interrupted=False)


def as_frame(runs: Iterable[Run]) -> pd.DataFrame:
    """Parameters and records as columns, and results versions, a line for each run."""
    return pd.DataFrame([{**r.parameters, **r.record, VERSION: r.version} for r in runs])


def runs_of(study: Study, store: Store, quick: bool, any_version: bool = False) -> list[Run]:
    """Find the stored runs of a study's grid: those that count as done, or those of any version.

    Runs that are stored and not made anew are among them.
    """
    grid = study.grid(quick) if quick else study.whole
    wanted = {key_of(study.kept_as, parameters) for parameters in grid}
    runs = store.runs(study.kept_as, None if any_version else study.version)
    return [run for run in runs if key_of(study.kept_as, run.parameters) in wanted]


Result = tuple[Parameters, dict[str, Any], str | None]


def _results(
    study: Study,
    todo: Sequence[Parameters],
    jobs: int,
    cluster: str | None,
    stack: ExitStack,
) -> Iterator[Result]:
    if cluster is not None:
        return _on_cluster(study, todo, cluster, stack)
    pairs = [(p, None if study.warm is None else study.warm(p)) for p in todo]
    if jobs == 1:
        return (_timed(study.run, p, warm) for p, warm in pairs)
    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
    return iter(parallel(joblib.delayed(_timed)(study.run, p, warm) for p, warm in pairs))


def _on_cluster(
    study: Study, todo: Sequence[Parameters], address: str, stack: ExitStack
) -> Iterator[Result]:
    """Send runs to a cluster; a run whose worker dies is sent to another one."""
    warm = [None if study.warm is None else study.warm(p) for p in todo]
    calls = [(study.run, p, w) for p, w in zip(todo, warm, strict=True)]
    found = on_cluster(_timed, calls, address, stack)
    return (done if why is None else (todo[k], {}, why) for k, done, why in found)


def _timed(
    run: Callable[[Parameters], Mapping[str, Any]],
    parameters: Parameters,
    warm: Parameters | None,
) -> Result:
    """Run once; an error belongs to its run, and ends no other."""
    try:
        if warm is not None:
            _warmed(run, tuple(sorted(warm.items())))
        start = time.perf_counter()
        record = dict(run(parameters))
    except Exception as error:
        return parameters, {}, f"{type(error).__name__}: {error}"
    record.setdefault("seconds", time.perf_counter() - start)
    return parameters, {**record, "versions": dict(versions())}, None


@cache
def _warmed(
    run: Callable[[Parameters], Mapping[str, Any]], parameters: tuple[tuple[str, Any], ...]
) -> None:
    run(dict(parameters))
