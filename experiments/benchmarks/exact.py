"""Exact counts: treeleak on DRAFT's forests without bootstrap, beside the published figures.

"ours" is the mean over the seeds for which the paper has an answer, where these are among ours.
``beside`` holds errors behind exact counts against those behind hidden draws, which say less. "same
trees": exact counts of the trees that were grown on draws. Forests without bootstrap have other
trees, which repeat each other more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd

from experiments.benchmarks.frame import CONSOLE, collect, flat, options, said_of, show, statuses
from experiments.benchmarks.published import LEAST, TOLERANCE, beside, depth_name, published
from experiments.data import DATASETS
from experiments.forests import Forest, attack

DEPTHS = (2, 3, 4, 5, 10, None)


def point(dataset: str, n_trees: int, depth: int | None, seed: int) -> Forest:
    return Forest(dataset, n_trees, depth, "none", seed, 100, "auto", 60.0)


def beside_hidden(seeds: Sequence[int]) -> Iterator[Forest]:
    for dataset, depth, s in product(DATASETS, (2, 3), seeds):
        plain = point(dataset, 100, depth, s)
        yield from (plain, replace(plain, counted=True), replace(plain, bootstrap="hidden"))


PARTS = {
    "deep": lambda seeds: [point(d, 100, None, s) for d, s in product(DATASETS, seeds)],
    "shallow": lambda seeds: [
        point(d, 100, depth, s) for d, depth, s in product(DATASETS, (2, 3, 4, 5), seeds)
    ],
    "beside": beside_hidden,
    "grid": lambda seeds: [
        point(d, n, depth, s)
        for n, depth, d, s in product((1, 5, 10, 20, 50), DEPTHS, DATASETS, seeds)
    ],
    "large": lambda seeds: [replace(point("adult", 100, None, seeds[0]), n_rows=40_000)],
}


def table(part: str, runs: pd.DataFrame) -> None:
    """Print means over seeds, beside the published ones, and how many points are no worse."""
    theirs = published("draft_2024.csv")
    if theirs is not None:
        theirs = theirs[(theirs.method == "cp-sat") & (theirs.bootstrap.astype(str) == "False")]
    keys, lines = ["dataset", "n_trees", "depth", "n_rows"], []
    for key, own in runs.groupby(keys, sort=False):
        at = dict(zip(keys, key, strict=True))
        paper = beside(theirs, own, **at)
        held = None if np.isnan(paper.error) else paper.ours <= paper.error + TOLERANCE
        lines.append(at | {
            "error": own.error.mean(), "ours": paper.ours, "published": paper.error, "met": held,
            "exact": own.exact_rows.mean(), "proved": own.proved_rows.mean(),
            "status": statuses(own.status), "s": own.seconds.median(), "most s": own.seconds.max(),
            "paper s": paper.seconds, "MB": own.peak_mb.max(),
        })  # fmt: skip
    show(f"exact counts, {part}: {said_of(runs)}", lines)
    held = pd.DataFrame(lines).dropna(subset="published")
    large = held[held.published >= 0.01]
    ratio = np.exp(np.log(large.ours.clip(lower=LEAST / 10) / large.published).mean())
    CONSOLE.print(
        f"{part}: {(held.met == True).sum()} of {len(held)} points at most published + {TOLERANCE}"  # noqa: E712
        f"; geometric mean ratio over {len(large)} points with published error >= 0.01: "
        f"{ratio:.3f}; unanswered: {(runs.status == 'unknown').sum()} of {len(runs)}"
    )


def beside_table(runs: pd.DataFrame) -> bool:
    """Print errors behind exact counts beside those behind hidden draws."""
    kind = np.where(runs.counted, "same trees", np.where(runs.bootstrap == "none", "own", "hidden"))
    errors = runs.assign(kind=kind).pivot(
        index=["dataset", "depth", "seed"], columns="kind", values=["error", "seconds"]
    )
    lines = []
    for (dataset, depth), own in errors.groupby(level=["dataset", "depth"], sort=False):
        other = own.error.hidden
        for trees in ("own", "same trees"):
            error = own.error[trees]
            lines.append({
                "dataset": dataset, "depth": depth, "trees": trees, "error": error.mean(),
                "with hidden draws": other.mean(), "forests that err more": (error > other).sum(),
                "s": own.seconds[trees].median(), "s hidden": own.seconds.hidden.median(),
                "met": error.mean() <= other.mean(),
            })  # fmt: skip
    return show(f"exact counts beside hidden draws, 100 trees: {said_of(runs)}", lines)


def main(args: Sequence[str]) -> int:
    given = options("exact", __doc__, args, parts=PARTS, kept=True, seeds=range(5), at_once=1)
    met = True
    for part in given.parts:
        records = collect(
            "exact", PARTS[part](given.seeds), attack, lambda _: point("compas", 3, 3, 0), given,
            apart=part == "large", at_once=given.at_once,
        )  # fmt: skip
        runs = flat(records, ["error"])
        runs["depth"] = [depth_name(d) for d in runs.depth]
        if part == "beside":
            met &= beside_table(runs)
        else:
            table(part, runs)
    return int(not met)
