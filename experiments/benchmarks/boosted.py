"""Boosted models with default parameters on binary tables: rows and classes from sums in leaves.

A line for each run. "cells" is the share of rows in a cell that the training set has as often,
"right" that of rows with their class as well: what cells do not tell apart cannot be asked for.
"exact" is the share of rows that are right in every column that a tree tests, class included.
"proved" is the share of rows that are proved, "wrong" how many of these are in no such cell with
their class. "others" is what as many other rows of the same table would have right: no figure says
anything below it. Seconds are those of ``treeleak.reconstruct``, after a smaller run.

``--values-alone`` asks what is left in hardened files: trees, thresholds, and what leaves add.

Regressors have a weighted sum of the columns and noise as their target; "right" says of them what
"cells" says, "targets" is the share of rows beside whose cell (or in whose place, where rows are in
order) stands their target, within a thousandth of its range, and "alone" the same of the rows that
share their cell with no other. Floors stand in ``boosted_floors.csv``. XGBoost, LightGBM and
CatBoost are needed for their lines, and the shared tables for all but iris and wine.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import treeleak
from experiments.benchmarks.binned import table
from experiments.benchmarks.floor_lines import judged, print_refused, runs_of
from experiments.benchmarks.options import Options
from experiments.benchmarks.records import Record, Records
from experiments.benchmarks.tables import CONSOLE, new_table, number, verdict
from experiments.results_version import say_versions
from treeleak.core.errors import BadInput, NotCovered, TimeUp
from treeleak.datasets import draft_sample
from treeleak.release import Release, to_release
from treeleak.release.statistics import VALUE, Statistics

_LIMIT = 60.0
"""Seconds of a run without a floor."""
_NOISE = 0.1
"""Noise on the targets of regression, in their standard deviations."""
_NEAR = 1e-3
"""Share of their range by which targets may be off."""
_QUIET = {
    "xgboost": {"n_jobs": 2},
    "lightgbm": {"verbose": -1, "n_jobs": 2},
    "catboost": {"verbose": 0, "thread_count": 2, "allow_writing_files": False},
    "sklearn": {},
}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "XGBClassifier": ("xgboost", "XGBClassifier", {}),
    "LGBMClassifier": ("lightgbm", "LGBMClassifier", {}),
    "HistGradientBoosting": ("sklearn", "HistGradientBoostingClassifier", {}),
    "GradientBoosting": ("sklearn", "GradientBoostingClassifier", {"random_state": 0}),
    "CatBoost 100": ("catboost", "CatBoostClassifier", {"iterations": 100}),
    "CatBoost": ("catboost", "CatBoostClassifier", {}),
    "XGBRegressor": ("xgboost", "XGBRegressor", {}),
    "LGBMRegressor": ("lightgbm", "LGBMRegressor", {}),
    "HistGradientBoostingRegressor": ("sklearn", "HistGradientBoostingRegressor", {}),
    "CatBoostRegressor 100": ("catboost", "CatBoostRegressor", {"iterations": 100}),
    "RandomForestRegressor": ("sklearn", "RandomForestRegressor", {"random_state": 0}),
}
"""By name: library, class, and parameters that are no defaults."""
_FIGURES = ("cells", "right", "exact", "proved", "wrong", "others", "targets", "alone")


@dataclass(frozen=True)
class Case:
    """One model."""

    model: str
    table: str
    n_rows: int
    seed: int
    time_limit: float
    values_alone: bool = False


def floors() -> pd.DataFrame:
    """Read what is asked of each model, table and number of rows."""
    return pd.read_csv(Path(__file__).with_name("boosted_floors.csv"))


def present(lines: pd.DataFrame) -> pd.DataFrame:
    """Lines whose library and table are there; says of the others why they are not run."""
    missing = {lib for lib, *_ in MODELS.values() if find_spec(lib) is None}
    for library in sorted(missing):
        CONSOLE.print(f"lines of {library} skipped: pip install 'treeleak[{library}]'")
    lines = lines[[MODELS[m][0] not in missing for m in lines.model]]
    gone = set()
    for name in lines.table.unique():
        try:
            table(name)
        except BadInput as why:
            CONSOLE.print(f"{name} skipped: {why}", soft_wrap=True)
            gone.add(name)
    return lines[~lines.table.isin(gone)]


def trained(case: Case) -> tuple[Release, pd.DataFrame, pd.Series, pd.DataFrame, pd.Series]:
    """Train a model; its release, its rows and their labels or targets, and as many others."""
    library, name, given = MODELS[case.model]
    data = table(case.table)
    both = min(2 * case.n_rows, len(data.X))
    X, y = draft_sample(data, both, case.seed)
    if name.endswith("Regressor"):
        rng = np.random.default_rng(case.seed)
        sums = X.to_numpy(float) @ rng.normal(size=X.shape[1])
        y = pd.Series(sums + _NOISE * sums.std() * rng.normal(size=len(sums)))
    module = import_module("sklearn.ensemble" if library == "sklearn" else library)
    model = getattr(module, name)(**_QUIET[library], **given)
    own = X.iloc[: case.n_rows].reset_index(drop=True), y.iloc[: case.n_rows]
    # Some libraries take no names with brackets.
    model.fit(own[0].to_numpy(), own[1].to_numpy())
    release = replace(to_release(model), feature_names=tuple(X.columns), ranges={}, borders={})
    return release, *own, X.iloc[case.n_rows :], y.iloc[case.n_rows :]


def values_alone(release: Release, library: str) -> Release:
    """Take out all but the values of leaves, as ``treeleak harden`` does."""
    trees = [
        replace(
            tree, statistics=Statistics(tuple(s for s in tree.statistics if s.quantity == VALUE))
        )
        for tree in release.trees
    ]
    ensemble = release.ensemble
    if ensemble is not None and (fitting := ensemble.fitting) is not None:
        own = replace(
            fitting, start=None, started=fitting.start is None, assumed=library == "xgboost"
        )
        ensemble = replace(ensemble, fitting=own)
    return replace(release, trees=tuple(trees), n_rows=None, ensemble=ensemble)


def run(case: Case) -> Record:
    """Train, attack, measure."""
    release, X, y, other, other_y = trained(case)
    release = values_alone(release, MODELS[case.model][0]) if case.values_alone else release
    outcome: Record = dict.fromkeys(_FIGURES) | {"status": "refused", "misfit": None, "notes": []}
    start = time.perf_counter()
    try:
        found = treeleak.reconstruct(
            release, table(case.table).schema, bootstrap=_sampling(release),
            time_limit=case.time_limit, seed=case.seed,
        )  # fmt: skip
    except (NotCovered, TimeUp) as why:
        return outcome | {"notes": [str(why)], "seconds": time.perf_counter() - start}
    outcome |= {
        "status": found.status,
        "seconds": time.perf_counter() - start,
        "misfit": float(found.misfit),
        "evidence": found.evidence,
        "numbers": {k: float(v) for k, v in found.numbers.items()},
        "notes": list(found.notes),
    }
    if found.X is None:
        return outcome
    classes = bool(release.classes) and found.y is not None
    names = list(release.feature_names)
    tested = [c for c, cuts in zip(names, release.thresholds, strict=True) if len(cuts)]
    cells, true_cells = (_cells(release, rows[names]) for rows in (found.X, X))
    labels, true_labels = (list(v) if classes else [0] * len(X) for v in (found.y, y))
    proved = found.proved.to_numpy()
    pairs, true_pairs = (
        list(zip(cells, labels, strict=True)),
        list(zip(true_cells, true_labels, strict=True)),
    )
    exact = [
        list(map(tuple, np.column_stack([rows[tested], own]).tolist()))
        for rows, own in ((found.X, labels), (X, true_labels))
    ]
    beside = list(
        zip(_cells(release, other), list(other_y) if classes else [0] * len(other), strict=True)
    )
    held = [pair for pair, sure in zip(pairs, proved, strict=True) if sure]
    return outcome | {
        "cells": _share(cells, true_cells),
        "right": _share(pairs, true_pairs),
        "exact": _share(*exact),
        "proved": float(proved.mean()),
        "wrong": len(held) - round(_share(held, true_pairs) * len(true_pairs)),
        "others": _share(beside[: len(X)], true_pairs) if len(beside) >= len(X) else None,
        **(_targets(found, y, cells, true_cells) if not release.classes else {}),
    }


def _sampling(release: Release) -> str:
    """Say that all trees saw all rows where a file leaves that open, as it is with defaults."""
    return "none" if release.sampling.kind == "unknown" else "auto"


def _cells(release: Release, X: pd.DataFrame) -> list[bytes]:
    rows = X.to_numpy().astype(release.float_type)
    leaf = np.column_stack([tree.apply(rows) for tree in release.trees]).astype(np.int32)
    return [row.tobytes() for row in leaf]


def _share(found: Sequence[Any], true: Sequence[Any]) -> float:
    """Share of the true ones that stand among those found, each as often."""
    return (Counter(found) & Counter(true)).total() / max(len(true), 1)


def _targets(
    found: Any, y: pd.Series, cells: Sequence[Any], true_cells: Sequence[Any]
) -> dict[str, float | None]:
    """Shares of all rows, and of those alone in their cell, whose target is nearly right."""
    true, size = y.to_numpy(float), Counter(true_cells)
    said = np.full(len(true), np.nan) if found.y is None else found.y.to_numpy(float)
    if not found.ordered:
        # Of rows in one cell, the targets are compared in order of size.
        own = defaultdict(list)
        for cell, value in sorted(zip(cells, said, strict=True), key=lambda pair: -pair[1]):
            own[cell].append(value)
        said = np.full(len(true), np.nan)
        for k in np.argsort(true):
            if own[true_cells[k]]:
                said[k] = own[true_cells[k]].pop()
    near = np.abs(said - true) <= _NEAR * (true.max() - true.min())
    alone = np.array([size[cell] == 1 for cell in true_cells])
    return {
        "targets": float(near.mean()),
        "alone": float(near[alone].mean()) if alone.any() else None,
    }


def missed(floor: Any, run: Any) -> list[str]:
    """Name what a run misses of its floor; a false proof always is."""
    out = ["proved what is false"] if pd.notna(run.wrong) and run.wrong else []
    figure = getattr(run, floor.figure) if isinstance(floor.figure, str) else None
    if floor.share > 0 and not (figure is not None and figure >= floor.share):
        out.append(f"{floor.figure} {floor.share:g}")
    if floor.targets > 0 and not run.targets >= floor.targets:
        out.append(f"targets {floor.targets:g}")
    if floor.seconds > 0 and run.seconds > floor.seconds:
        out.append(f"{floor.seconds:g} s")
    return out


def cases(
    lines: pd.DataFrame, seeds: Iterable[int], limit: float | None, *, alone: bool
) -> Iterator[Case]:
    """All runs of some lines; the clock leaves a tenth of the floor's seconds for the rest."""
    for line in lines.itertuples():
        own = limit or (0.9 * line.seconds if line.seconds > 0 else _LIMIT)
        for seed in seeds:
            yield Case(line.model, line.table, int(line.rows), seed, own, alone)


def warm(case: Case) -> Case:
    """A case that compiles what the case will use."""
    return replace(case, n_rows=60, seed=0, time_limit=10.0)


def floor_table(lines: pd.DataFrame, records: list[Record]) -> int:
    """Print a line for each run; say how many miss their floor."""
    runs = runs_of(records, _FIGURES)
    out = new_table(
        f"boosted models, defaults; {say_versions(runs.results_version)}",
        "model, table, rows, seed, status, s, cells, right, exact, proved, wrong, others, targets, "
        "alone, MB, floor, met",
        left="model, table, status, floor, met",
    )
    misses = 0
    for line, r, lacks in judged(lines, runs, missed):
        misses += bool(lacks)
        said = f"{line.figure} {line.share:g}, {line.seconds:g} s" if line.share > 0 else ""
        said += f", targets {line.targets:g}" if line.targets > 0 else ""
        out.add_row(
            r.model, r.table, str(r.n_rows), str(r.seed), r.status, f"{r.seconds:.1f}",
            *(number(getattr(r, name), 3) for name in _FIGURES[:4]), number(r.wrong, 0),
            *(number(getattr(r, name), 3) for name in _FIGURES[5:]), f"{r.peak_mb:.0f}", said,
            verdict(not lacks) if said or lacks else "",
        )  # fmt: skip
    CONSOLE.print(out)
    print_refused(runs)
    return misses


def main(args: Sequence[str]) -> None:
    parser = Options("boosted", __doc__, seeds="0-4")
    parser.add_argument("--model", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--table", nargs="+", default=list(floors().table.unique()))
    parser.add_argument("--rows", type=int, nargs="+", help="lines of these numbers of rows")
    parser.add_argument("--time-limit", type=float, help="instead of each line's own")
    parser.add_argument(
        "--values-alone", action="store_true",
        help="from files of which only the values of leaves are left; there are no floors",
    )  # fmt: skip
    given = parser.parse_args(args)
    lines = floors()
    lines = lines[lines.model.isin(given.model) & lines.table.isin(given.table)]
    if given.rows:
        lines = lines[lines.rows.isin(given.rows)]
    lines = present(lines)
    if given.values_alone:
        lines = lines.assign(figure=None, share=np.nan, seconds=np.nan, targets=np.nan)
    if len(lines):
        store = Records("boosted", given.fresh, given.out)
        found = store.collect(
            cases(lines, given.seeds, given.time_limit, alone=given.values_alone), run, warm
        )
        n_missed = floor_table(lines, found)
        CONSOLE.print(
            f"{n_missed} runs miss their floor" if n_missed else "no run misses its floor"
        )
