"""Exact counts: treeleak on DRAFT's forests without bootstrap, beside the published figures."""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.ensemble import RandomForestClassifier

import treeleak
from treeleak.datasets import draft_sample, load_draft

DATASETS = ("compas", "adult", "default_credit")
DEPTHS = (2, 3, 4, 5, 10, None)
STORE = Path(".benchmarks/exact.jsonl")
TOLERANCE = 0.002


@dataclass(frozen=True)
class Case:
    """One forest."""

    dataset: str
    n_trees: int
    depth: int | None
    seed: int
    n_rows: int = 100
    time_limit: float = 60.0

    @property
    def key(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


def part_deep(seeds: range) -> Iterator[Case]:
    for dataset in DATASETS:
        yield from (Case(dataset, 100, None, s) for s in seeds)


def part_shallow(seeds: range) -> Iterator[Case]:
    for dataset in DATASETS:
        for depth in (2, 3, 4, 5):
            yield from (Case(dataset, 100, depth, s) for s in seeds)


def part_grid(seeds: range) -> Iterator[Case]:
    for n_trees in (1, 5, 10, 20, 50):
        for depth in DEPTHS:
            for dataset in DATASETS:
                yield from (Case(dataset, n_trees, depth, s) for s in seeds)


def part_large(seeds: range) -> Iterator[Case]:
    yield from (Case("adult", 100, None, s, n_rows=40_000) for s in seeds)


PARTS = {"deep": part_deep, "shallow": part_shallow, "grid": part_grid, "large": part_large}


def run(case: Case) -> dict[str, object]:
    """Train, attack, measure."""
    data = _data(case.dataset)
    X, y = draft_sample(data, case.n_rows, case.seed)
    forest = RandomForestClassifier(
        case.n_trees, max_depth=case.depth, bootstrap=False, random_state=case.seed
    ).fit(X, y)
    start = time.perf_counter()
    result = treeleak.reconstruct(forest, data.schema, time_limit=case.time_limit, seed=case.seed)
    seconds = time.perf_counter() - start
    error = treeleak.metrics.reconstruction_error(result.X, X, data.schema)
    return {
        "case": asdict(case),
        "code": code_version(),
        "status": result.status,
        "error": error,
        "expected_error": result.expected_error,
        "exact_rows": treeleak.metrics.exact_row_share(result.X, X),
        "proved_rows": result.share_proved_rows,
        "misfit": result.misfit,
        "seconds": seconds,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "versions": dict(result.versions),
    }


def run_apart(case: Case) -> dict[str, object]:
    """Run one case in a process of its own, for its own peak memory."""
    command = [sys.executable, "-m", "benchmarks.exact", "--one", case.key]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@cache
def code_version() -> str:
    """The commit, with a mark if files differ from it."""
    ask = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(ask, capture_output=True, text=True, check=False)
    return done.stdout.strip() or treeleak.__version__


def published() -> pd.DataFrame | None:
    """The authors' runs without bootstrap that found an answer."""
    folder = os.environ.get("TREELEAK_PUBLISHED", "../shared/published")
    path = Path(folder) / "draft_2024.csv"
    if not path.exists():
        return None
    runs = pd.read_csv(path, keep_default_na=False)
    runs = runs[(runs.method == "cp-sat") & (runs.bootstrap.astype(str) == "False")]
    error = pd.to_numeric(runs.error, errors="coerce")
    return runs.assign(error=error, seconds=pd.to_numeric(runs.seconds), depth=runs.max_depth)


_CACHE: dict[str, treeleak.datasets.Dataset] = {}


def _data(name: str) -> treeleak.datasets.Dataset:
    if name not in _CACHE:
        beside = Path("../shared/data")
        home = None if os.environ.get("TREELEAK_DATA") or not beside.exists() else beside
        _CACHE[name] = load_draft(name, home)
    return _CACHE[name]


def collect(cases: list[Case], fresh: bool) -> list[dict[str, object]]:
    """Run what the store lacks, and return all records."""
    STORE.parent.mkdir(exist_ok=True)
    lines = STORE.read_text().splitlines() if STORE.exists() and not fresh else []
    known = {json.dumps(r["case"], sort_keys=True): r for r in map(json.loads, lines)}
    todo = [c for c in cases if c.key not in known]
    if any(c.n_rows <= 1000 for c in todo):
        run(Case("compas", 3, 3, 0))  # compile before the clock runs
    with STORE.open("a") as file:
        for case in track(todo, "running", console=Console(stderr=True)):
            record = run_apart(case) if case.n_rows > 1000 else run(case)
            known[case.key] = record
            file.write(json.dumps(record) + "\n")
            file.flush()
    return [known[c.key] for c in cases]


def table(part: str, records: list[dict[str, object]]) -> None:
    """Print one line per point: means over seeds, beside the published ones.

    "answered" is the mean over the seeds for which the paper has an answer, where these seeds are
    among ours: like against like.
    """
    flat = pd.DataFrame([{**r["case"], **{k: r[k] for k in r if k != "case"}} for r in records])  # type: ignore[dict-item]
    flat["depth"] = [("None" if d is None or d != d else str(int(d))) for d in flat.depth]
    runs = published()
    console = Console(width=170)
    out = Table(title=f"exact counts, {part}: seeds {flat.seed.min()} to {flat.seed.max()}")
    for name in ("dataset", "trees", "depth", "N", "error", "answered", "published", "held",
                 "exact", "proved", "status", "s median", "s max", "paper s", "MB"):  # fmt: skip
        left = name in ("dataset", "status")
        out.add_column(name, justify="left" if left else "right", no_wrap=True)
    ratios, held = [], []
    for (dataset, n_trees, depth, n), group in flat.groupby(
        ["dataset", "n_trees", "depth", "n_rows"], sort=False
    ):
        theirs, seconds, same = float("nan"), float("nan"), group
        if runs is not None and n == 100:
            own = runs[(runs.dataset == dataset) & (runs.depth == depth)]
            own = own[pd.to_numeric(own.n_trees) == n_trees]
            theirs, seconds = own.error.mean(), own.seconds.median()
            answered = set(own[own.error.notna()].seed.astype(int))
            if answered & set(group.seed):
                same = group[group.seed.isin(answered)]
        error = same.error.mean()
        if not np.isnan(theirs):
            held.append(error <= theirs + TOLERANCE)
            if theirs >= 0.01:
                ratios.append(max(error, 1e-4) / theirs)
        status = " ".join(f"{v} {k}" for k, v in group.status.value_counts().items())
        out.add_row(
            str(dataset), str(n_trees), str(depth), str(n), f"{group.error.mean():.4f}",
            f"{error:.4f}", "" if np.isnan(theirs) else f"{theirs:.4f}",
            "" if np.isnan(theirs) else ("yes" if held[-1] else "NO"),
            f"{group.exact_rows.mean():.1%}", f"{group.proved_rows.mean():.1%}", status,
            f"{group.seconds.median():.2f}", f"{group.seconds.max():.2f}",
            "" if np.isnan(seconds) else f"{seconds:.0f}", f"{group.peak_mb.max():.0f}",
        )  # fmt: skip
    console.print(out)
    if held:
        console.print(
            f"{part}: {sum(held)} of {len(held)} points at most published + {TOLERANCE}"
            f" ({np.mean(held):.0%}); geometric mean ratio over the {len(ratios)} points with "
            f"published error >= 0.01: {np.exp(np.mean(np.log(ratios))) if ratios else 1:.3f}; "
            f"unanswered: {(flat.status == 'unknown').sum()} of {len(flat)}; "
            f"slowest {flat.seconds.max():.1f} s"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=[*PARTS, "all"], default="all")
    parser.add_argument("--seeds", default="0-4", help="first-last (default 0-4)")
    parser.add_argument("--fresh", action="store_true", help="do not use stored runs")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        run(Case("compas", 3, 3, 0))
        sys.stdout.write(json.dumps(run(Case(**json.loads(given.one)))) + "\n")
        return
    first, last = (int(s) for s in given.seeds.split("-"))
    for part in PARTS if given.part == "all" else [given.part]:
        seeds = range(first, last + 1) if part != "large" else range(first, first + 1)
        table(part, collect(list(PARTS[part](seeds)), given.fresh))


if __name__ == "__main__":
    main()
