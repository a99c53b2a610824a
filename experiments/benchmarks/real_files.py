"""Files of the oldest and the newest version of four libraries, and files that are no tree model.

Makes an environment for each, trains the settings of ``real_models.py`` in it, and audits each file
by the command line. Floors: every file that is refused gets a reason of its own, no audit runs
later than its limit and 5 s or takes more than 4 GB, and none ends in a traceback. Large models are
audited with their training rows (a limit of 20 s suits them), and must have inventory and leaves.
Seconds past the limit are the lesser of those by the clock and of the processor: other work on the
machine counts for nothing. Finished audits are kept in the folder, and not repeated.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

import pandas as pd

from experiments.benchmarks.frame import floor, options, show
from experiments.benchmarks.real_models import SETTINGS

LATE = 5.0
MOST_MIB = 4096
_KILLED = 120.0
"""Seconds past its limit after which an audit is ended."""

_OLD_NUMPY = ("numpy==1.23.5", "scipy==1.10.1", "pandas==1.5.3", "pytz", "python-dateutil", "six")
ENVIRONMENTS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        # The oldest with wheels that Python 3.11 runs; XGBoost 0.72 and LightGBM 2.0 come without
        # compiled parts of Python.
        "oldest": (
            *_OLD_NUMPY, "joblib==1.2.0", "threadpoolctl==3.1.0", "scikit-learn==1.1.3",
            "xgboost==0.72.1", "lightgbm==2.0.2", "catboost==1.2",
        ),
        "newest": (
            "numpy", "scipy", "pandas", "python-dateutil", "six", "joblib", "threadpoolctl",
            "narwhals", "scikit-learn", "skops", "prettytable", "wcwidth", "packaging",
            "xgboost", "nvidia-nccl-cu12", "lightgbm", "catboost",
        ),
    }
)  # fmt: skip
GENERIC = (
    "known formats",
    "is stored in an unknown way",
    "not a readable pickle (",
    "damaged archive (",
    "is not fitted",
)
"""What is no reason of its own: words for anything that nobody foresaw."""
ANSWERED = (0, 3, 4)
FAULTS = ("traceback", "no reason", "late", "memory", "unknown part", "wrong words", "no leaves")


@dataclass(frozen=True)
class Outcome:
    """What an audit came to."""

    group: str
    name: str
    status: int
    said: str
    seconds: float
    processor: float
    mebibytes: int
    fault: str


def audit(
    group: str, name: str, path: Path, limit: float, words: str = "", rows: Path | None = None
) -> Outcome:
    """Audit one file in a process of its own, and judge how it ended.

    ``words``: must be said. ``rows``: the training rows; leaves must be counted then.
    """
    with tempfile.TemporaryDirectory() as folder:
        told, shown, report = (Path(folder) / part for part in ("err", "out", "audit.json"))
        command = [
            sys.executable, "-m", "treeleak", "audit", str(path), "--trust-pickle", "--time-limit",
            f"{limit:g}", "--json", str(report),
        ]  # fmt: skip
        command += [] if rows is None else ["--train", str(rows), "--label", "label"]
        start = time.perf_counter()
        with told.open("wb") as err, shown.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=err)
            usage = None
            while usage is None:
                done, code, own = os.wait4(process.pid, os.WNOHANG)
                usage = own if done else None
                if not done:
                    time.sleep(0.05)
                    if time.perf_counter() - start > limit + _KILLED:
                        os.kill(process.pid, signal.SIGKILL)  # Popen.kill would reap it
            process.returncode = status = os.waitstatus_to_exitcode(code)
        seconds = time.perf_counter() - start
        lines = [line for line in told.read_text(errors="replace").splitlines() if line.strip()]
        said = lines[-1].replace(str(path), path.name) if lines else ""
        screen = " ".join(shown.read_text(errors="replace").split())
        counted = False
        if report.is_file():
            document = json.loads(report.read_text())
            headline, counted = document["headline"], bool(document["counts"])
            said = headline if status in ANSWERED else f"{said} {headline}"
    processor, mebibytes = usage.ru_utime + usage.ru_stime, usage.ru_maxrss >> 10
    faults = {
        "traceback": status == 1 or any("Traceback" in line for line in lines),
        "no reason": status not in (*ANSWERED, 2) or any(w in f"{lines[-1:]}" for w in GENERIC),
        "late": min(seconds, processor) > limit + LATE,
        "memory": mebibytes > MOST_MIB,
        "unknown part": "known to no rule" in screen and group != "other files",
        "wrong words": bool(words) and not any(words in line for line in lines),
        "no leaves": rows is not None and not (counted and document["inventory"]),
    }
    fault = ", ".join(kind for kind in FAULTS if faults[kind])
    return Outcome(group, name, status, said, seconds, processor, mebibytes, fault)


def make_models(folder: Path, environment: str, library: str) -> Path:
    """Train the settings of a library in an environment that is made where there is none."""
    python = folder / environment / "bin" / "python"
    if not (folder / environment / "ready").exists():
        run = [sys.executable, "-m", "venv", str(folder / environment)]
        subprocess.run(run, check=True)
        # Without what they depend on: compilers of graphics and the like are not used here.
        for wanted in ENVIRONMENTS[environment]:
            run = [str(python), "-m", "pip", "install", "-q", "--no-deps", "--only-binary=:all:"]
            subprocess.run([*run, wanted], check=True)
        (folder / environment / "ready").touch()
    models = folder / "models" / environment / library
    if not (models / "made.json").exists():
        models.mkdir(parents=True, exist_ok=True)
        script = Path(__file__).with_name("real_models.py")
        run = [str(python), str(script), library, str(models)]
        subprocess.run(run, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return models


def files(
    folder: Path, group: str, every: int
) -> Iterator[tuple[str, str, Path, str, Path | None]]:
    """List what is audited: group, name, path, words that must be said of it, training rows."""
    if group == "large":
        from experiments.benchmarks.large_models import write_large

        for name, path, rows in write_large(folder / "large"):
            yield group, name, path, "", rows
        return
    if group == "other files":
        from experiments.benchmarks.other_files import write_others

        (folder / "others").mkdir(parents=True, exist_ok=True)
        for name, (path, words) in write_others(folder / "others").items():
            yield group, name, path, words, None
        return
    environment, library = group.split(" ")
    models = make_models(folder, environment, library)
    made = json.loads((models / "made.json").read_text())
    for name, file in list(made["models"].items())[::every]:
        yield f"{library} {made['version']}", name, models / file, "", None


def shown(outcomes: Sequence[Outcome], limit: float, each: bool) -> bool:
    """Print the tables; say whether there are no faults."""
    frame = pd.DataFrame([asdict(o) for o in outcomes])
    groups = frame.assign(
        answered=frame.status.isin(ANSWERED), refused=frame.status == 2, faults=frame.fault != ""
    ).groupby("group", sort=False)
    counted = groups[["answered", "refused", "faults"]].sum()
    most = groups[["seconds", "processor", "mebibytes"]].max()
    show(f"Files, time limit {limit:g} s", counted.join(most).reset_index())
    frame["said"] = [o.said if each or len(o.said) < 200 else f"{o.said[:200]} …" for o in outcomes]
    show("Each file" if each else "Faults", frame if each else frame[frame.fault != ""])
    kinds = Counter(kind for o in outcomes for kind in o.fault.split(", ") if kind)
    for kind in FAULTS:
        floor(f"{kind}: {kinds[kind]} of {len(outcomes)} (floor 0)", not kinds[kind])
    return not kinds


def main(args: Sequence[str]) -> int:
    groups = [
        "large", "other files", *(f"{e} {name}" for e in ("newest", "oldest") for name in SETTINGS)
    ]  # fmt: skip
    given = options(
        "real_files", __doc__, args, group=groups, quick=False, each=False, fresh=False,
        time_limit=10.0, folder="results/real_files",
    )  # fmt: skip
    folder, limit = Path(given.folder).resolve(), given.time_limit
    folder.mkdir(parents=True, exist_ok=True)
    store = folder / f"outcomes_{limit:g}.jsonl"
    if given.fresh:
        store.unlink(missing_ok=True)
    lines = store.read_text().splitlines() if store.exists() else []
    known = {(o.group, o.name): o for o in (Outcome(**json.loads(line)) for line in lines)}
    outcomes = []
    for chosen in given.group:
        for group, name, path, words, rows in files(folder, chosen, 8 if given.quick else 1):
            if (group, name) not in known:
                known[group, name] = audit(group, name, path, limit, words, rows)
                with store.open("a") as out:
                    out.write(json.dumps(asdict(known[group, name])) + "\n")
            outcomes.append(known[group, name])
    return int(not shown(outcomes, limit, given.each))
