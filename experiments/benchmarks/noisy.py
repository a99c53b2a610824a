"""Noisy counts: treeleak beside DRAFT-DP's figures and the floors it must reach.

"error" is DRAFT's, after matching, and "expected" what the answer itself says of it. table1,
unknown, population and columns attack the paper's own forests, which all carry one vector of noise,
rescaled; fresh and calibration the same trees with noise of their own for each. A cell is
a dataset, a number of trees, a depth and an epsilon; its error is the mean over the seeds. Each
line that has a floor says "met" or "NOT met"; a run without an answer meets none.

scale and reference run alone, because their seconds count; of the other parts two runs go side by
side (``--at-once``). table1, fresh, unknown and population have 270 runs per seed, calibration 200
in all. All cells of a grid are written to a file beside the runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from experiments.benchmarks.hidden import LEAST, OTHERS, grid_score
from experiments.benchmarks.options import Options, seed_range
from experiments.benchmarks.records import Record, Records, flat
from experiments.benchmarks.tables import (
    CONSOLE,
    beside,
    new_table,
    number,
    published,
    statuses,
    title,
    verdict,
)
from experiments.data import DATASETS, draft
from experiments.studies.dp_cells import DEPTHS, EPSILONS, LIMIT, TREES
from experiments.studies.dp_runs import TREE_SEEDS, attack

TOLERANCE, SHARE = 0.003, 0.9
RATIOS = {0.1: 0.75, 1.0: 0.85} | dict.fromkeys(EPSILONS[2:], 0.8)
SECONDS = (3.0, 30.0)
"""Median and worst."""
CALIBRATION, CALIBRATION_RUNS = 0.1, 200
OTHER_DRAWS = {"compas": 0.065, "adult": 0.087, "default_credit": 0.115}
"""Error between the paper's training set and others of its population."""
NEAR_OTHERS = 1.3
SCALE = {
    ("adult", 500): (0.085, 10.0),
    ("compas", 500): (0.039, 10.0),
    ("default_credit", 500): (0.112, 10.0),
    ("adult", 10_000): (np.inf, 120.0),
    ("default_credit", 10_000): (np.inf, 120.0),
}
"""By dataset and rows: mean error, most seconds."""


@dataclass(frozen=True)
class Case:
    """One forest, and what is known beside it.

    Attributes
    ----------
    forest : {"shared", "fresh", "trained"}
        One of the paper's; the trees and true counts of one with noise that only this case has;
        or a new one on rows drawn by the seed.
    told_n : bool
        Whether the number of rows is known.
    known : int
        So many original attributes are known.
    population : int
        So many other rows are told.
    """

    dataset: str
    n_trees: int
    depth: int
    epsilon: float
    seed: int
    time_limit: float
    forest: Literal["shared", "fresh", "trained"] = "shared"
    n_rows: int = 100
    told_n: bool = True
    known: int = 0
    population: int = 0
    method: str = "auto"


def table1(seeds: Iterable[int], limit: float | None) -> Iterator[Case]:
    """Seed by seed, so that the first is a grid of its own."""
    for s, *cell, dataset in product(seeds, TREES, DEPTHS, EPSILONS, DATASETS):
        yield Case(dataset, *cell, s, limit or LIMIT)


def fresh(seeds: Iterable[int], limit: float | None) -> Iterator[Case]:
    yield from (replace(case, forest="fresh") for case in table1(seeds, limit))


def calibration(seeds: Iterable[int], limit: float | None) -> Iterator[Case]:
    """Some of these, always the same, and as many of each epsilon."""
    every = list(fresh(seeds, limit))
    mixed = [every[i] for i in np.random.default_rng(0).permutation(len(every))]
    turns = zip(*([c for c in mixed if c.epsilon == e] for e in EPSILONS), strict=True)
    yield from [case for turn in turns for case in turn][:CALIBRATION_RUNS]


def unknown(seeds: Iterable[int], limit: float | None) -> Iterator[Case]:
    yield from (replace(case, told_n=False) for case in table1(seeds, limit))


def population(seeds: Iterable[int], limit: float | None) -> Iterator[Case]:
    """Half of the time goes to the answer without."""
    yield from (replace(case, population=OTHERS) for case in table1(seeds, limit))


def columns(seeds: Iterable[int], limit: float | None) -> Iterator[Case]:
    for dataset in DATASETS:
        for known in range(len(draft(dataset).schema.attributes)):
            for s in seeds:
                yield Case(dataset, 10, 5, 5.0, s, limit or LIMIT, known=known)


def scale(seeds: Iterable[int], limit: float | None) -> Iterator[Case]:
    """Of the large tables, the first seed only."""
    seeds = list(seeds)
    for (dataset, n), (_, seconds) in SCALE.items():
        for s in seeds if n == 500 else seeds[:1]:
            # The floor's seconds count all steps, also those after the attack.
            given = limit or 0.95 * seconds
            yield Case(dataset, 10, 5, 5.0, s, given, forest="trained", n_rows=n)


def reference(seeds: Iterable[int], limit: float | None) -> Iterator[Case]:
    for s, dataset in product(seeds, DATASETS):
        own = Case(dataset, 10, 5, 5.0, s, limit or LIMIT, forest="fresh")
        yield from (own, replace(own, method="reference-cp", time_limit=limit or 60.0))


PARTS = {
    part.__name__: part
    for part in (
        table1, fresh, calibration, unknown, population, columns, scale, reference,
    )
}  # fmt: skip
SEEDS = (
    dict.fromkeys(PARTS, range(TREE_SEEDS))
    | dict.fromkeys(("fresh", "calibration"), range(TREE_SEEDS, 2 * TREE_SEEDS))
    | {"reference": range(TREE_SEEDS, TREE_SEEDS + 1)}
)
ALONE = ("scale", "reference")
"""Parts whose seconds count."""
GRIDS = ("table1", "fresh", "unknown", "population")
"""Parts that have runs for each cell."""


def run(case: Case) -> Record:
    """Attack one forest, and measure."""
    return attack(asdict(case))


def _runs(found: list[Record]) -> pd.DataFrame:
    runs = flat(found)
    names = [n for n in runs if n.startswith(("error", "expected", "log_likelihood")) or n == "n"]
    return runs.astype(dict.fromkeys(names, float))


def _published(name: str) -> pd.DataFrame | None:
    """The authors' runs; some stand twice in their files."""
    theirs = published(name)
    return None if theirs is None else theirs.drop_duplicates()


def _published_grid(n_known: bool) -> pd.DataFrame | None:
    theirs = _published("draft_dp_2026.csv")
    return None if theirs is None else theirs[theirs.n_rows_known == n_known]


def cells_of(runs: pd.DataFrame, theirs: pd.DataFrame | None) -> pd.DataFrame:
    """One line per cell; ``ours`` is the mean over the seeds that the paper has answers for."""
    keys = ["dataset", "n_trees", "depth", "epsilon"]
    out = []
    for key, group in runs.groupby(keys, sort=False):
        point = dict(zip(keys, key, strict=True))
        paper = beside(theirs, group, **point)
        out.append(
            point
            | {
                "runs": len(group),
                "answered": int(group.error.notna().sum()),
                "error": group.error.mean(skipna=False),
                "error_without": group.error_without.mean(skipna=False),
                "expected": group.expected_error.mean(),
                "ours": paper.ours,
                "published": paper.error,
                "published_answered": paper.answered,
                "seconds": group.seconds.median(),
                "seconds_max": group.seconds.max(),
            }
        )
    return pd.DataFrame(out)


def write_cells(part: str, found: list[Record], folder: Path) -> None:
    """Write one line per cell of a grid."""
    path = folder / f"noisy_{part}.csv"
    cells_of(_runs(found), _published_grid(part != "unknown")).to_csv(path, index=False)
    CONSOLE.print(f"{part}: all cells are in {path}")


def _by_epsilon(runs: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    yield from ((f"{e:g}", group) for e, group in runs.groupby("epsilon"))
    yield "all", runs


def grid_table(
    part: str, found: list[Record], ratios: Mapping[float, float], n_known: bool = True
) -> None:
    """Print one line per epsilon."""
    runs = _runs(found)
    cells = cells_of(runs, _published_grid(n_known))
    out = new_table(
        title(f"noisy counts, {part}", runs),
        "epsilon, cells, published, error, of paper, held, share, floor, met, ratio, floor, met, "
        "unanswered, expected / error, s median, s max",
        left="epsilon",
    )
    for name, group in _by_epsilon(cells):
        both = group[group.published_answered > 0]
        held, ratio = grid_score(both.ours, both.published, TOLERANCE) if len(both) else (0, np.nan)
        share = held / len(both) if len(both) else np.nan
        ask = ratios.get(group.epsilon.iloc[0]) if name != "all" else None
        own = runs[runs.epsilon.isin(group.epsilon)]
        out.add_row(
            name, str(len(group)), str(len(both)), number(group.error.mean(skipna=False)),
            number(both.published.mean()), str(held), f"{share:.1%}",
            *((f">= {SHARE:.0%}", verdict(share >= SHARE)) if name == "all" else ("", "")),
            number(ratio, 3),
            *(("", "") if ask is None else (f"<= {ask:g}", verdict(ratio <= ask))),
            str((group.answered < group.runs).sum()),
            number(own.expected_error.mean() / own.error.mean(), 3),
            f"{own.seconds.median():.2f}", f"{own.seconds.max():.2f}",
        )  # fmt: skip
    CONSOLE.print(out)
    lacking = int((cells.answered < cells.runs).sum())
    median, worst = runs.seconds.median(), runs.seconds.max()
    quick = median <= SECONDS[0] and worst <= SECONDS[1]
    CONSOLE.print(
        f"{part}: held are the cells at most published + {TOLERANCE}; ratio is the geometric mean, "
        f"errors below {LEAST:g} taken as {LEAST:g} on both sides\n"
        f"{part}: {lacking} of {len(cells)} cells lack the answer of a run (floor 0): "
        f"{verdict(lacking == 0)}\n"
        f"{part}: seconds, median {median:.2f} (floor {SECONDS[0]:g}), worst {worst:.2f} (floor "
        f"{SECONDS[1]:g}): {verdict(quick)}"
    )


def calibration_table(part: str, found: list[Record]) -> None:
    """Print how far the stated error is from the real one."""
    runs = _runs(found)
    out = new_table(
        title(f"noisy counts, {part}, what the answer says of its error", runs),
        "epsilon, forests, answered, expected, error, ratio of means, mean of ratios, "
        "|difference|, floor, met",
        left="epsilon",
    )
    for name, group in _by_epsilon(runs):
        said, real = group.expected_error, group.error
        ratio = said.mean(skipna=False) / real.mean(skipna=False)
        ratios = np.maximum(said, LEAST) / np.maximum(real, LEAST)
        floor = [f"1 ± {CALIBRATION:g}", verdict(abs(ratio - 1) <= CALIBRATION)]
        out.add_row(
            name, str(len(group)), str(real.notna().sum()), number(said.mean()),
            number(real.mean()), number(ratio, 3), number(ratios.mean(), 3),
            number((said - real).abs().mean()), *(floor if name == "all" else ("", "")),
        )  # fmt: skip
    CONSOLE.print(out)


def rows_table(part: str, found: list[Record]) -> None:
    """Print how often the true number of rows lies in its interval."""
    runs = _runs(found)
    low, high = np.array([b or (np.nan, np.nan) for b in runs.between], dtype=float).T
    runs = runs.assign(inside=(low <= runs.n_rows) & (runs.n_rows <= high), wide=high - low)
    out = new_table(
        title(f"noisy counts, {part}, the number of rows (intervals on fresh noise: n_rows)", runs),
        "epsilon, forests, inside 95 %, median width, median |N - true|, exact",
        left="epsilon",
    )
    for name, group in _by_epsilon(runs):
        away = (group.n - group.n_rows).abs()
        out.add_row(
            name, str(len(group)), f"{group.inside.mean():.1%}", number(group.wide.median(), 0),
            number(away.median(), 0), f"{(away == 0).mean():.1%}",
        )  # fmt: skip
    CONSOLE.print(out)


def population_floor(dataset: str, epsilon: float) -> float | None:
    """What the mean over the cells must be below; None where nothing is asked."""
    if epsilon == 0.1:
        return NEAR_OTHERS * OTHER_DRAWS[dataset]
    return OTHER_DRAWS[dataset] if dataset == "compas" and epsilon >= 5 else None


def population_table(part: str, found: list[Record]) -> None:
    """Print the error with a population and without, by epsilon and by cell."""
    runs = _runs(found)
    cells = cells_of(runs, _published_grid(True))
    out = new_table(
        title(f"noisy counts, {part}", runs),
        "dataset, epsilon, cells, error with, error without, ratio, expected, other draws, floor, "
        "met, status, s median, s max",
        left="dataset, status",
    )
    for (dataset, epsilon), group in cells.groupby(["dataset", "epsilon"], sort=False):
        own = runs[(runs.dataset == dataset) & (runs.epsilon == epsilon)]
        error, floor = group.error.mean(skipna=False), population_floor(dataset, epsilon)
        without = group.error_without.mean(skipna=False)
        out.add_row(
            dataset, f"{epsilon:g}", str(len(group)), number(error), number(without),
            number(error / without, 2), number(group.expected.mean()),
            number(OTHER_DRAWS[dataset], 3),
            *(("", "") if floor is None else (f"<= {floor:.4f}", verdict(error <= floor))),
            statuses(own), f"{own.seconds.median():.2f}", f"{own.seconds.max():.2f}",
        )  # fmt: skip
    CONSOLE.print(out)
    wide = cells.pivot_table("error", ["dataset", "n_trees", "depth"], "epsilon", sort=False)
    names = ", ".join(f"{e:g}" for e in wide.columns)
    by_cell = new_table(
        f"{part}: error by cell and epsilon", f"dataset, trees, depth, {names}", left="dataset"
    )
    for key, line in wide.iterrows():
        by_cell.add_row(*(str(k) for k in key), *(number(v) for v in line))
    CONSOLE.print(by_cell)


def columns_table(part: str, found: list[Record]) -> None:
    """Print one line per number of known attributes; the error is that of the others."""
    runs, theirs = _runs(found), _published("draft_dp_2026_partial.csv")
    out = new_table(
        title(f"noisy counts, {part}, 10 trees, depth 5, epsilon 5", runs),
        "dataset, known, error, expected, status, s median, published, answered, ratio",
        left="dataset, status",
    )
    for (dataset, known), group in runs.groupby(["dataset", "known"], sort=False):
        paper = beside(theirs, group, dataset=dataset, known_attributes=known)
        out.add_row(
            dataset, str(known), number(paper.ours), number(group.expected_error.mean()),
            statuses(group), f"{group.seconds.median():.2f}", number(paper.error),
            str(paper.answered), number(paper.ours / paper.error, 2),
        )  # fmt: skip
    CONSOLE.print(out)


def scale_floor(dataset: str, n_rows: int, runs: pd.DataFrame) -> str:
    """Judge the mean error, where one is asked for, and the longest run."""
    error, seconds = SCALE[dataset, n_rows]
    close = error == np.inf or runs.error.mean(skipna=False) <= error
    answered = runs.log_likelihood.notna().all()
    return verdict(bool(close and answered and runs.seconds.max() <= seconds))


def scale_table(part: str, found: list[Record]) -> None:
    """Print one line per table of rows."""
    runs, theirs = _runs(found), _published("draft_dp_2026_scalability.csv")
    out = new_table(
        title(f"noisy counts, {part}, 10 trees, depth 5, epsilon 5", runs),
        "dataset, N, runs, error, worst, expected, status, s median, s max, MB, published, "
        "paper s, floor, met",
        left="dataset, status, floor",
    )
    for (dataset, n), group in runs.groupby(["dataset", "n_rows"], sort=False):
        paper = beside(theirs, group, dataset=dataset, n_rows=n)
        error, seconds = SCALE[dataset, n]
        asked = [f"<= {error:g}"] if error < np.inf else []
        out.add_row(
            dataset, str(n), str(len(group)), number(group.error.mean(skipna=False)),
            number(group.error.max()), number(group.expected_error.mean()), statuses(group),
            f"{group.seconds.median():.2f}", f"{group.seconds.max():.2f}",
            f"{group.peak_mb.max():.0f}", number(paper.error), number(paper.seconds, 0),
            ", ".join([*asked, f"{seconds:g} s"]), scale_floor(dataset, n, group),
        )  # fmt: skip
    CONSOLE.print(out)


def reference_table(part: str, found: list[Record]) -> None:
    """Print treeleak and the published program, line under line.

    The program seeks the likeliest rows; treeleak's answer errs less on average than the likeliest
    that it met, which stands beside it.
    """
    runs = _runs(found)
    out = new_table(
        title(f"noisy counts, {part}, 10 trees, depth 5, epsilon 5, fresh noise", runs),
        "dataset, method, status, error, log likelihood, of the likeliest, of the truth, s median",
        left="dataset, method, status",
    )
    for (dataset, method), group in runs.groupby(["dataset", "method"], sort=False):
        out.add_row(
            dataset, "treeleak" if method == "auto" else method, statuses(group),
            number(group.error.mean(skipna=False)), number(group.log_likelihood.mean(), 1),
            number(group.log_likelihood_best.mean(), 1),
            number(group.log_likelihood_true.mean(), 1), f"{group.seconds.median():.2f}",
        )  # fmt: skip
    CONSOLE.print(out)


def warm(case: Case) -> Case:
    """A small case that goes the same way, and is the same for all of a kind."""
    return replace(
        case, dataset="compas", n_trees=5, depth=3, epsilon=5.0, seed=0, time_limit=2.0,
        n_rows=100, known=min(case.known, 1), population=min(case.population, 10),
    )  # fmt: skip


def _fresh_tables(part: str, found: list[Record]) -> None:
    grid_table(part, found, RATIOS)
    calibration_table(part, found)


def _unknown_tables(part: str, found: list[Record]) -> None:
    grid_table(part, found, {}, n_known=False)
    rows_table(part, found)


REPORTS: dict[str, Callable[[str, list[Record]], None]] = {
    "table1": partial(grid_table, ratios=RATIOS),
    "fresh": _fresh_tables,
    "calibration": calibration_table,
    "unknown": _unknown_tables,
    "population": population_table,
    "columns": columns_table,
    "scale": scale_table,
    "reference": reference_table,
}


def main(args: Sequence[str]) -> None:
    parser = Options("noisy", __doc__, PARTS, at_once=2)
    parser.add_argument(
        "--seeds", type=seed_range,
        help="first-last (default 0-4; of fresh and calibration 5-9, of reference 5)",
    )  # fmt: skip
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=DATASETS)
    parser.add_argument("--epsilons", nargs="+", type=float, choices=EPSILONS, default=EPSILONS)
    parser.add_argument("--time-limit", "--limit", type=float, help="instead of each part's own")
    given = parser.parse_args(args)
    store = Records("noisy", given.fresh, given.out)
    for part in PARTS if given.part == "all" else [given.part]:
        todo = PARTS[part](given.seeds or SEEDS[part], given.time_limit)
        found = store.collect(
            [c for c in todo if c.dataset in given.datasets and c.epsilon in given.epsilons],
            run, warm, apart=lambda case: case.forest == "trained",
            at_once=1 if part in ALONE else given.at_once,
        )  # fmt: skip
        if found:
            REPORTS[part](part, found)
            if part in GRIDS:
                write_cells(part, found, given.out)
