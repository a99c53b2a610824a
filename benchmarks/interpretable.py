"""Ferry et al. (2024): how much optimal and greedy trees and rule lists tell of their rows.

Every binary column counts as an attribute of its own, as in the paper. Trees: the best of each
depth and CART; rule lists of single literals: the best of each length and the greedy one.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.random import sample_without_replacement

from benchmarks.store import FOLDER, Record, Store, flat, seed_range
from benchmarks.tables import CONSOLE, new_table, published_runs, verdict
from treeleak.learn import GreedyRuleList, OptimalRuleList, OptimalTreeClassifier
from treeleak.probabilistic import ProbabilisticDataset, from_rule_list, from_tree
from treeleak.schema import Schema

TABLES = ("adult", "compas")
TREES = {"optimal tree": "DL8.5", "CART": "sklearn_DT"}
"""And what the published file calls them."""
LISTS = ("optimal list", "greedy list")
METHODS = (*TREES, *LISTS)
SUPPORTS = (0.01, 0.02, 0.03, 0.04, 0.05)
SIZES = range(1, 11)
TOLERANCE = 0.01
ADULT_SHARE = 0.1


@dataclass(frozen=True)
class Case:
    """All ten sizes of one kind of model on one training set."""

    dataset: str
    method: str
    support: float
    seed: int
    share: float = 1.0


def cases(seeds: range) -> Iterator[Case]:
    for dataset in TABLES:
        for method in METHODS:
            for support in SUPPORTS:
                yield from (
                    Case(dataset, method, support, s, 1.0 if dataset == "compas" else ADULT_SHARE)
                    for s in seeds
                )


def run(case: Case) -> Record:
    """Train models of every size, and measure what they leave open."""
    X, y = table_of(case.dataset, case.share, case.seed)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=case.seed)
    schema = Schema.from_columns(X.columns)
    start = time.perf_counter()
    models = LEARNERS[case.method](case, X, y)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    left = [open_of(m, schema) for m in models]
    shares, rows = np.unique(left[-1].row_shares().round(9), return_counts=True)
    return {
        "left": [d.dist_g() for d in left],
        "dist": [d.dist() for d in left],
        "size": [size_of(m) for m in models],
        "train": [float((m.predict(X) == y).mean()) for m in models],
        "test": [float((m.predict(X_test) == y_test).mean()) for m in models],
        "proved": [bool(getattr(m, "optimal_", True)) for m in models],
        "row_shares": shares.tolist(),
        "row_counts": rows.tolist(),
        "seconds": seconds,
        "seconds_left": time.perf_counter() - start,
    }


def small(case: Case) -> Case:
    """Compile what a case will use."""
    return replace(case, support=0.25)


def table_of(dataset: str, share: float, seed: int) -> tuple[pd.DataFrame, pd.Series[Any]]:
    folder = Path(os.environ.get("TREELEAK_DATA", "../shared/data"))
    table = pd.read_csv(folder / f"corels_{dataset}.csv")
    if share < 1:
        chosen = sample_without_replacement(len(table), int(share * len(table)), random_state=seed)
        table = table.iloc[chosen].reset_index(drop=True)
    return table.iloc[:, :-1], table.iloc[:, -1]


def open_of(model: Any, schema: Schema) -> ProbabilisticDataset:
    if hasattr(model, "rule_list_"):
        return from_rule_list(model, schema)
    return from_tree(model, schema)


def size_of(model: Any) -> int:
    """Splits of a tree, rules of a list."""
    if hasattr(model, "rule_list_"):
        return len(model.rule_list_.rules)
    tree = model.tree_
    inner = (tree.children_left if hasattr(tree, "children_left") else tree.left) >= 0
    return int(inner.sum())


def _optimal_trees(case: Case, X: pd.DataFrame, y: pd.Series[Any]) -> list[Any]:
    # DL8.5 splits also where that lowers no error.
    learner = OptimalTreeClassifier(SIZES[-1], min_support=case.support, full=True)
    return learner.path(X, y)


def _optimal_lists(case: Case, X: pd.DataFrame, y: pd.Series[Any]) -> list[Any]:
    return OptimalRuleList(SIZES[-1], min_support=case.support).path(X, y)


def _carts(case: Case, X: pd.DataFrame, y: pd.Series[Any]) -> list[Any]:
    least = max(1, int(case.support * len(X)))
    return [
        DecisionTreeClassifier(max_depth=d, min_samples_leaf=least, random_state=1 + case.seed).fit(
            X, y
        )
        for d in SIZES
    ]


def _greedy(case: Case, X: pd.DataFrame, y: pd.Series[Any]) -> list[Any]:
    return [GreedyRuleList(d, min_support=case.support).fit(X, y) for d in SIZES]


LEARNERS: dict[str, Callable[[Case, pd.DataFrame, pd.Series[Any]], list[Any]]] = {
    "optimal tree": _optimal_trees,
    "CART": _carts,
    "optimal list": _optimal_lists,
    "greedy list": _greedy,
}


def long_table(records: list[Record]) -> pd.DataFrame:
    """One line per model: its size limit beside what was measured."""
    runs = flat(records)
    per_size = ["left", "dist", "size", "train", "test", "proved"]
    runs["limit"] = [list(SIZES)] * len(runs)
    kept = ["dataset", "method", "support", "seed", "seconds", "limit", *per_size]
    return (
        runs[kept]
        .explode(["limit", *per_size])
        .astype(
            {"limit": int, "left": float, "dist": float, "size": int, "train": float, "test": float}
        )
    )


def beside_published(models: pd.DataFrame) -> None:
    """Print mean entropy reductions of trees on compas beside the published ones."""
    runs = published_runs("probabilistic_2024_trees_compas.csv")
    if runs is None:
        return
    runs = runs.rename(columns={"min_support": "support", "max_depth": "limit"}).assign(
        theirs=runs.entropy_reduction_ratio, their_train=runs.train_acc,
        seed=runs.random_state_value,
    )  # fmt: skip
    runs["method"] = runs.method.map({theirs: ours for ours, theirs in TREES.items()})
    both = models[models.dataset == "compas"].merge(runs, on=["method", "support", "limit", "seed"],
                                                    suffixes=("", "_theirs"))  # fmt: skip
    if both.empty:
        CONSOLE.print("no published runs on these seeds")
        return
    out = new_table(
        f"compas, share of entropy left, ours / published, means over {both.seed.nunique()} seeds",
        "trees, support, " + ", ".join(f"depth {d}" for d in SIZES) + ", within 0.01", "trees",
    )  # fmt: skip
    means = both.groupby(["method", "support", "limit"])[["left", "theirs"]].mean()
    for method in TREES:
        for support in SUPPORTS:
            own = means.loc[method, support]
            near = (own.left - own.theirs).abs() <= TOLERANCE
            cells = [f"{a:.3f}/{b:.3f}" for a, b in zip(own.left, own.theirs, strict=True)]
            out.add_row(method, f"{support:g}", *cells, f"{near.sum()} of {len(near)}")
    CONSOLE.print(out)
    gap = (means.left - means.theirs).abs()
    for method in TREES:
        own = gap.loc[method]
        same = both[both.method == method]
        equal = np.isclose(same.train, same.their_train, atol=1e-5)
        CONSOLE.print(
            f"{method}: largest difference of means {own.max():.4f}, within {TOLERANCE}: "
            f"{(own <= TOLERANCE).sum()} of {len(own)}: {verdict(bool((own <= TOLERANCE).all()))}; "
            f"training accuracy equal in {equal.sum()} of {len(equal)} runs, "
            f"never lower: {bool((same.train >= same.their_train - 1e-5).all())}"
        )


def summary(models: pd.DataFrame, records: list[Record]) -> None:
    """Print means of the largest models, and the time that learning took."""
    out = new_table(
        f"size limit {SIZES[-1]}, means over seeds {models.seed.min()} to {models.seed.max()}",
        "dataset, models, support, size, train, test, Dist_G, Dist, proved, seconds for all sizes",
        "dataset, models",
    )
    last = models[models.limit == SIZES[-1]]
    for (dataset, method, support), own in last.groupby(["dataset", "method", "support"]):
        out.add_row(
            dataset, method, f"{support:g}", f"{own['size'].mean():.1f}", f"{own.train.mean():.3f}",
            f"{own.test.mean():.3f}", f"{own.left.mean():.3f}", f"{own.dist.mean():.3f}",
            f"{own.proved.sum()} of {len(own)}", f"{own.seconds.mean():.2f}",
        )  # fmt: skip
    CONSOLE.print(out)
    spent = sum(r["seconds"] + r["seconds_left"] for r in records)
    CONSOLE.print(f"{len(models)} models, {spent:.0f} s of learning and counting in all")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=seed_range, default=range(5), metavar="FIRST-LAST")
    options.add_argument("--fresh", action="store_true", help="repeat runs that are in the store")
    options.add_argument("--at-once", type=int, default=2, metavar="N", help="processes")
    options.add_argument("--figures", type=Path, default=Path("figures"), metavar="FOLDER")
    chosen = options.parse_args()
    start = time.perf_counter()
    store = Store(FOLDER / "interpretable.jsonl", fresh=chosen.fresh)
    records = store.collect(cases(chosen.seeds), run, small, at_once=chosen.at_once)
    models = long_table(records)
    summary(models, records)
    beside_published(models)
    from benchmarks.interpretable_figures import draw

    for path in draw(models, records, chosen.figures):
        CONSOLE.print(f"drawn: {path}")
    CONSOLE.print(f"{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
