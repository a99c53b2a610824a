"""Runs attacks on each file of a zoo, each run once: a stopped run goes on where it was."""

from __future__ import annotations

import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

import treeleak
from experiments.benchmarks.frame import Lost, in_processes, peak_mb
from experiments.benchmarks.random_models import faults
from experiments.benchmarks.random_settings import Trained
from experiments.results_version import RESULTS_VERSION
from experiments.store import Run, Store, key_of, store_file
from experiments.zoo.attacks import find_attack
from experiments.zoo.make import Entry, entries, truth_of, unpacked
from treeleak.auditing import Audit
from treeleak.auditing.findings.finding import OPEN
from treeleak.core.errors import BadInput, TreeleakError
from treeleak.verification.columns import in_model_columns

STUDY, AUDIT = "zoo", "audit"
"""``audit`` is the one that is given the truth: what an owner's audit says of the file."""
_GRACE = 45.0
"""Seconds beyond the limit after which a process is ended: it may have to compile."""
ROWS, NONE, REFUSED, CRASH = "rows", "no rows", "refused", "crash"
Record = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One attack on one file."""

    name: str
    sha256: str
    attack: str
    limit: float
    seed: int


def rows_file(folder: Path, case: Case) -> Path:
    """Say where the rows lie that an attack gave."""
    attack = "".join(c if c.isalnum() or c in "._-" else "_" for c in case.attack)
    return folder / "rows" / attack / f"{case.name}.csv"


def cases(
    folder: Path, attacks: Sequence[str], limit: float, seed: int, names: Sequence[str] = ()
) -> list[Case]:
    """List attacks on the models of a zoo, or of some of its families or kinds."""
    for attack in attacks:
        if attack != AUDIT:
            find_attack(attack)
    every = entries(folder)
    chosen = [e for e in every if not names or {e.name, e.kind, e.family} & {*names}]
    if names and not chosen:
        known = ", ".join(dict.fromkeys(e.family for e in every))
        raise BadInput(f"no file, kind or family {', '.join(names)}; families: {known}")
    return [Case(e.name, e.sha256, a, limit, seed) for e in chosen for a in attacks]


def carry_out(
    folder: Path,
    todo: Sequence[Case],
    jobs: int = 1,
    told: Callable[[int, int, float], None] = lambda *_: None,
) -> int:
    """Run what the store lacks; say how many runs that were."""
    store = Store(store_file(folder))
    done = {key_of(STUDY, run.parameters) for run in store.runs(STUDY)}
    left = [case for case in todo if key_of(STUDY, asdict(case)) not in done]
    longest = max((case.limit for case in left), default=0.0) + _GRACE
    start = time.perf_counter()
    work = partial(attempt, folder)
    for n, (case, found) in enumerate(in_processes(work, left, jobs, longest=longest), 1):
        record = found
        if isinstance(found, Lost):
            record = {"end": found.why, "why": found.why, "seconds": longest}
        store.add(Run(STUDY, asdict(case), RESULTS_VERSION, record), again=True)
        told(n, len(left), time.perf_counter() - start)
    return len(left)


def attempt(folder: Path, case: Case) -> Record:
    """Attack one file; whatever happens is the record of this run."""
    warnings.simplefilter("ignore")
    entry = next(e for e in entries(folder) if e.name == case.name)
    with tempfile.TemporaryDirectory() as place:
        path = unpacked(folder, entry, Path(place))
        start = time.perf_counter()
        try:
            record = _audited(folder, entry, path, case) if case.attack == AUDIT else {}
            rows = None
            if case.attack != AUDIT:
                rows = find_attack(case.attack)(path, entry.schema, case.limit, case.seed)
                record = {"end": NONE if rows is None else ROWS, "why": ""}
        except TreeleakError as error:
            return _ended(REFUSED, str(error).replace(str(path), entry.file), start)
        except Exception:
            return _ended(CRASH, traceback.format_exc(limit=-3), start)
        record = {"seconds": time.perf_counter() - start, "peak_mb": peak_mb()} | record
    if rows is not None:
        file = rows_file(folder, case)
        file.parent.mkdir(parents=True, exist_ok=True)
        rows.to_csv(file, index=False)
    return record


def _ended(end: str, why: str, start: float) -> Record:
    seconds = time.perf_counter() - start
    return {"end": end, "why": why, "seconds": seconds, "peak_mb": peak_mb()}


def _audited(folder: Path, entry: Entry, path: Path, case: Case) -> Record:
    """Audit a file with its training rows, and hold its proofs against them."""
    truth = truth_of(folder, entry)
    y = truth.y["target"]
    found = treeleak.audit(
        path,
        truth.rows,
        y,
        time_limit=case.limit,
        seed=case.seed,
        trust_pickle=True,
        on_mismatch="report",
    )
    seconds = found.provenance.seconds
    rebuilt = found.reconstruction
    return {
        "end": "decided" if found.verdict != OPEN else "open",
        "why": "; ".join(f"{part}: {why}" for part, why in found.not_assessed),
        "verdict": found.verdict.partition(" by")[0],
        "headline": found.headline,
        "mismatch": found.mismatch or "",
        "status": "" if rebuilt is None else rebuilt.status,
        "alarms": sum(e.unknown or bool(e.rows) for e in found.inventory) + len(found.others),
        "wrong": _wrong(found, truth.rows, y),
        "seconds": seconds,
    }  # fmt: skip


def _wrong(found: Audit, X: pd.DataFrame, y: pd.Series[Any]) -> list[str]:
    """Name what is called proved, and is not so."""
    release, rebuilt = found.release, found.reconstruction
    if release is None or rebuilt is None or rebuilt.n_rows not in (0, len(X)):
        return []
    rows = in_model_columns(release, X)[0]
    if set(map(str, release.classes)) != set(y.map(str)):
        rebuilt = replace(rebuilt, y=None)  # one model of several has labels of its own
    trained = Trained("", release, rows, y, lambda own: release.leaves(own))
    named: list[str] = faults(rebuilt, trained)
    return named
