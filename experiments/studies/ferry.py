"""Ferry et al. (2024): how much optimal and greedy trees and rule lists tell of their rows.

Every binary column counts as an attribute of its own, as in the paper. Trees: the best of each
depth, and CART; rule lists of single literals: the best of each length, and the greedy one. CART is
trained anew; runs of the others are stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.claims import claim, claims_table
from experiments.data import data_file
from experiments.studies.published import read_published
from experiments.study import AGREES, DIFFERS, Parameters, Record, Study, Table
from treeleak.core.errors import BadInput

PAPER = "Ferry 2024"
SOURCE = "github.com/ferryjul/ProbabilisticDatasetsReconstruction, experiments/data"
DATASETS = ("adult", "compas")
TREES = ("optimal tree", "CART")
LISTS = ("optimal list", "greedy list")
METHODS = (*TREES, *LISTS)
LEARNT = ("CART",)
"""What is trained anew; runs of the others are stored: no library that installs learns their models
as they were learnt."""
SUPPORTS = (0.01, 0.02, 0.03, 0.04, 0.05)
SIZES = range(1, 11)
SEEDS = range(5)

_PER_SIZE = ("left", "dist", "size", "train", "test", "proved")


def path_of_models(parameters: Parameters) -> Record:
    """Train trees of every size limit, and measure what they leave open.

    Parameters
    ----------
    parameters : mapping
        ``dataset``, ``share`` of its rows, ``method`` ("CART"), ``support`` and ``seed``.
    """
    from sklearn.model_selection import train_test_split
    from sklearn.tree import DecisionTreeClassifier

    from treeleak.schema import Schema
    from treeleak.uncertainty import from_tree

    p = parameters
    if p["method"] != "CART":
        raise BadInput(f"{p['method']}: its runs are stored, and not made anew")
    X, y = _table(p["dataset"], p["share"], p["seed"])
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=p["seed"])
    schema = Schema.from_columns(X.columns)
    start = time.perf_counter()
    # The authors' parameters.
    least = max(1, int(p["support"] * len(X)))
    chosen = {"min_samples_leaf": least, "random_state": 1 + p["seed"]}
    models = [DecisionTreeClassifier(max_depth=d, **chosen).fit(X, y) for d in SIZES]
    seconds = time.perf_counter() - start
    left = [from_tree(m, schema) for m in models]
    shares, rows = np.unique(left[-1].row_shares().round(9), return_counts=True)
    return {
        "left": [d.dist_g() for d in left],
        "dist": [d.dist() for d in left],
        "size": [int(m.get_n_leaves()) - 1 for m in models],
        "train": [float((m.predict(X) == y).mean()) for m in models],
        "test": [float((m.predict(X_test) == y_test).mean()) for m in models],
        "proved": [True] * len(models),
        "row_shares": shares.tolist(),
        "row_counts": rows.tolist(),
        "seconds_learning": seconds,
    }


def _table(dataset: str, share: float, seed: int) -> tuple[pd.DataFrame, pd.Series[Any]]:
    from sklearn.utils.random import sample_without_replacement

    table = pd.read_csv(_path(dataset))
    if share < 1:
        chosen = sample_without_replacement(len(table), int(share * len(table)), random_state=seed)
        table = table.iloc[chosen].reset_index(drop=True)
    return table.iloc[:, :-1], table.iloc[:, -1]


def _path(dataset: str) -> Path:
    """Find a table.

    Raises
    ------
    BadInput
        If it is not there.
    """
    return data_file(f"corels_{dataset}.csv", SOURCE)


def _have_tables() -> None:
    for name in DATASETS:
        _path(name)


def _grid(
    methods: Sequence[str],
    supports: Sequence[float] = SUPPORTS,
    seeds: Iterable[int] = SEEDS,
    learnt: Sequence[str] = LEARNT,
) -> list[dict[str, Any]]:
    """As in the paper: a tenth of Adult, by the seed, and all of COMPAS."""
    return [
        {"dataset": d, "share": 0.1 if d == "adult" else 1.0, "method": m, "support": s, "seed": k}
        for d in DATASETS
        for m in methods
        if m in learnt
        for s in supports
        for k in seeds
    ]


def _warm(p: Parameters) -> Parameters:
    """Say what compiles the same kernels."""
    return {**p, "dataset": "compas", "share": 0.1, "support": 0.25, "seed": 0}


def _in_order(runs: pd.DataFrame) -> pd.DataFrame:
    """Sort runs as the grid has them, in whatever order they were done."""
    place = {method: k for k, method in enumerate(METHODS)}
    return runs.sort_values(
        ["dataset", "method", "support", "seed"],
        key=lambda column: column.map(place) if column.name == "method" else column,
        ignore_index=True,
    )


def models_of(runs: pd.DataFrame) -> pd.DataFrame:
    """One line per model: its size limit beside what was measured."""
    models = _in_order(runs)[["dataset", "method", "support", "seed", *_PER_SIZE]].copy()
    models["limit"] = [list(SIZES)] * len(models)
    plain = {"limit": int, "left": float, "dist": float, "size": int, "train": float, "test": float}
    return models.explode(["limit", *_PER_SIZE], ignore_index=True).astype(plain)


# ------------------------------------------------------------------------------------- tables

_NO_NUMBERS = "The paper draws these points and prints no numbers for them. Means over seeds"
_WHAT = {
    "left": "Share of the entropy that is left (Dist_G): 1 where the model tells nothing",
    "size": "Splits of a tree, rules of a list",
}


def _means(models: pd.DataFrame, value: str, name: str, title: str) -> Table:
    """Means of all points, a column for each size limit."""
    wide = models.pivot_table(value, ["dataset", "method", "support"], "limit", sort=False)
    wide = wide[sorted(wide.columns)]
    wide.columns = pd.Index([f"limit {c:g}" for c in wide.columns])
    return Table(name, title, wide.reset_index(), f"{_WHAT[value]}. {_NO_NUMBERS}.")


def _largest(models: pd.DataFrame, name: str, title: str) -> Table:
    """What came of the greatest size limit."""
    frame = (
        models[models.limit == SIZES[-1]]
        .groupby(["dataset", "method", "support"], sort=False)
        .agg(
            size=("size", "mean"), train=("train", "mean"), test=("test", "mean"),
            Dist_G=("left", "mean"), Dist=("dist", "mean"),
            proved=("proved", lambda s: f"{int(s.sum())} of {len(s)}"),
        )
        .reset_index()
    )  # fmt: skip
    note = f"{_NO_NUMBERS}. Train and test: accuracy. Proved: no model of these sizes errs less."
    return Table(name, title, frame, note)


def _claims(number: int, lines: Sequence[dict[str, Any]]) -> Table:
    return claims_table(f"ferry-figure-{number}", f"Ferry 2024, figure {number}", lines)


def _number(figure: int, what: str, says: str, own: float, agrees: Any) -> dict[str, Any]:
    """Hold a printed number against ours."""
    published = read_published("ferry_2024")
    line = published[(published.figure == figure) & (published.what == what)].to_dict("records")[0]
    return {
        "the paper says": says, "dataset": line["dataset"], "published": line["value"],
        "treeleak": own, "verdict": AGREES if agrees(line["value"]) else DIFFERS,
    }  # fmt: skip


def _gaps(models: pd.DataFrame, dataset: str, methods: Sequence[str], x: str) -> np.ndarray:
    """How much more the optimal model leaves than the greedy one of equal x, where they differ.

    There is a curve for each support, straight between its points; none is drawn on beyond them.
    """
    gaps = []
    for _, own in models[models.dataset == dataset].groupby("support"):
        means = own.groupby(["method", "limit"])[[x, "left"]].mean()
        if set(own.method) != set(methods):
            continue
        optimal, greedy = (means.loc[m].groupby(x).left.mean() for m in methods)
        least = max(optimal.index[0], greedy.index[0])
        most = min(optimal.index[-1], greedy.index[-1])
        if most < least:
            continue
        at = np.linspace(least, most, 41) if x == "train" else np.arange(np.ceil(least), most + 1)
        gaps.append(np.interp(at, optimal.index, optimal) - np.interp(at, greedy.index, greedy))
    return _different(gaps)


def _paired(models: pd.DataFrame, dataset: str, methods: Sequence[str], value: str) -> np.ndarray:
    """How much more the optimal model has than the greedy one of equal parameters."""
    means = models[models.dataset == dataset].pivot_table(value, ["support", "limit"], "method")
    if set(means) != set(methods):
        return np.zeros(0)
    return _different([means[methods[0]] - means[methods[1]]])


def _different(gaps: Sequence[Any]) -> np.ndarray:
    joined = np.concatenate([np.zeros(0), *gaps])
    return np.asarray(joined[np.abs(joined) > 1e-9])


def _of_equal_models(models: pd.DataFrame, methods: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Claims of figure 3, and of figure 2."""
    for dataset in DATASETS:
        size, accuracy = (_gaps(models, dataset, methods, x) for x in ("size", "train"))
        yield claim("of equal size, optimal models usually leave less", dataset, size < 0)
        yield claim(
            "of equal accuracy, optimal models always leave more", dataset, accuracy > 0, True
        )


def _of_trees(models: pd.DataFrame, methods: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Claims of figure 2."""
    yield from _of_equal_models(models, methods)
    most = float(models["size"].max())
    yield _number(
        2, "splits of the largest tree", "the largest trees have slightly more splits than", most,
        lambda theirs: theirs < most < 1.25 * theirs,
    )  # fmt: skip


def _spread(runs: pd.DataFrame) -> pd.DataFrame:
    """What is left of single rows, of all seeds together."""
    lines = []
    for (dataset, method), own in _in_order(runs).groupby(["dataset", "method"], sort=False):
        share, rows = _row_shares(own)
        at = np.searchsorted(np.cumsum(rows) / rows.sum(), (0.05, 0.25, 0.5, 0.75, 0.95))
        names = ("5 %", "25 %", "half", "75 %", "95 %")
        quantiles = dict(zip(names, share[at], strict=True))
        mean = float(np.average(share, weights=rows))
        lines.append(
            {"dataset": dataset, "method": method, "least": share[0], **quantiles,
             "most": share[-1], "mean": mean}
        )  # fmt: skip
    return pd.DataFrame(lines)


def _row_shares(runs: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Shares that are left of single rows, ascending, and how many rows each is left of."""
    share, rows = (np.concatenate(runs[c].tolist()) for c in ("row_shares", "row_counts"))
    order = np.argsort(share)
    return share[order], rows[order]


def _figure_4_tables(runs: pd.DataFrame) -> list[Table]:
    spread = _spread(runs)
    own = {(line["dataset"], line["method"]): line for line in spread.to_dict("records")}
    lines = []
    if lists := own.get(("adult", LISTS[0])):
        most, least = lists["most"], lists["least"]
        lines = [
            _number(4, "most left of a row", "optimal lists: of some rows, more is left than",
                    most, lambda theirs: most > theirs),
            _number(4, "least left of a row", "optimal lists: of some rows, less is left than",
                    least, lambda theirs: least < theirs),
        ]  # fmt: skip
    # CART, then the optimal lists, are said to leave less than the others of their kind.
    for dataset, less, more in (
        ("adult", *reversed(TREES)), ("adult", *LISTS), ("compas", *LISTS)
    ):  # fmt: skip
        if (dataset, less) in own and (dataset, more) in own:
            so = np.array([own[dataset, less]["mean"] < own[dataset, more]["mean"]])
            lines.append(claim(f"the largest {less} leaves less than the {more}", dataset, so))
    note = (
        f"Models of size {SIZES[-1]} with support {SUPPORTS[0]:g}: at most how much is left of "
        f"a share of the rows. The paper draws these points."
    )
    title = "Ferry 2024, figure 4: what is left of single rows"
    table = Table("ferry-figure-4", title, spread, note)
    return [table, _claims(4, lines)]


def _of_constraints(models: pd.DataFrame, methods: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Claims of figures 5 and 6."""
    trees = methods == TREES
    for dataset in DATASETS:
        own = models[models.dataset == dataset]
        sizes = own.pivot_table("size", ["method", "support"], "limit")
        steps = np.diff(sizes, axis=1).ravel()
        yield claim("models grow with the greatest size, if they change", dataset,
                     steps[steps != 0] > 0, True)  # fmt: skip
        gaps = np.diff(own.pivot_table("size", ["method", "limit"], "support"), axis=1).ravel()
        yield claim("models shrink with a greater support, if they change", dataset,
                     gaps[gaps != 0] < 0, True)  # fmt: skip
        size, left = (_paired(models, dataset, methods, v) for v in ("size", "left"))
        if trees:
            yield claim("CART splits more often than the optimal tree", dataset, size < 0)
            more = dataset == "adult"
            which = "CART leaves less" if more else "the optimal tree leaves less"
            yield claim(f"of equal parameters, {which}", dataset, (left > 0) == more)
        else:
            full = own[own.method == LISTS[0]].groupby(["support", "limit"])["size"].mean()
            reached = full.to_numpy() == full.index.get_level_values("limit")
            yield claim("optimal lists almost always have the most rules allowed", dataset,
                         reached, True)  # fmt: skip
            yield claim("of equal parameters, the optimal list leaves less", dataset, left < 0)


def _of_supports(models: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Claims of figure 7: of trees; lists have no clear trend."""
    for dataset in DATASETS:
        trees = models[(models.dataset == dataset) & models.method.isin(TREES)]
        left = trees.pivot_table("left", ["method", "limit"], "support")
        if left.shape[1] < 2:
            continue
        span = left.iloc[:, -1] - left.iloc[:, 0]
        limit = span.index.get_level_values("limit")
        deep, flat = span[limit >= 8].to_numpy(), span[limit <= 2].to_numpy()
        yield claim("deep trees (8 and more) leave less where leaves may be smaller", dataset,
                     deep > 0.01, True)  # fmt: skip
        yield claim("shallow trees (1 and 2) hardly depend on it (0.01)", dataset,
                     np.abs(flat) <= 0.01, True)  # fmt: skip


# ------------------------------------------------------------------------------------ studies

Claims = Callable[[pd.DataFrame, Sequence[str]], Iterator[dict[str, Any]]]


def _study(
    number: int,
    what: str,
    methods: Sequence[str],
    tables: Callable[[pd.DataFrame], Sequence[Table]],
    supports: Sequence[float] = SUPPORTS,
    quick: Sequence[float] = (0.01, 0.03, 0.05),
) -> Study:
    return Study(
        name=f"ferry-figure-{number}",
        paper=PAPER,
        what=f"figure {number}: {what}",
        full=partial(_grid, methods, supports),
        everywhere=partial(_grid, methods, supports, learnt=METHODS),
        quick=partial(_grid, methods, quick, (0,)),
        run=path_of_models,
        tables=tables,
        warm=_warm,
        check=_have_tables,
        experiment="ferry",
    )


def _of_two(number: int, methods: tuple[str, str], value: str, of: Claims) -> Study:
    """Make the study of figure 2, 3, 5 or 6: of trees or lists, what is left, or their size."""
    name, kind = f"ferry-figure-{number}", "trees" if methods == TREES else "rule lists"
    title = f"Ferry 2024, figure {number}: {kind}"

    def tables(runs: pd.DataFrame) -> list[Table]:
        models = models_of(runs)
        claims = _claims(number, list(of(models, methods)))
        if value == "size":
            return [_means(models, "size", f"{name}-size", f"{title}, their size"), claims]
        left = _means(models, "left", name, f"{title}, what is left")
        return [left, _largest(models, f"{name}-largest", f"{title} of the greatest size"), claims]

    what = {
        "left": f"what {kind} leave open, by size and accuracy",
        "size": f"size of {kind}, and what they leave open, by constraints",
    }
    return _study(number, what[value], methods, tables)


STUDIES: Sequence[Study] = (
    _of_two(2, TREES, "left", _of_trees),
    _of_two(3, LISTS, "left", _of_equal_models),
    _study(4, "what is left of single rows", METHODS, _figure_4_tables,
           supports=SUPPORTS[:1], quick=SUPPORTS[:1]),
    _of_two(5, TREES, "size", _of_constraints),
    _of_two(6, LISTS, "size", _of_constraints),
    _study(7, "what models leave open, by support", METHODS,
           lambda runs: [_claims(7, list(_of_supports(models_of(runs))))],
           quick=(0.02, 0.03, 0.05)),
)  # fmt: skip
