"""Ferry et al. (2024): how much optimal and greedy trees and rule lists tell of their rows.

Every binary column counts as an attribute of its own, as in the paper. Trees: the best of each
depth, and CART; rule lists of single literals: the best of each length, and the greedy one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from experiments.claims import claim, claims_table
from experiments.data import data_file
from experiments.drawing import COLOURS, MARKERS, legend_below, panels, styled
from experiments.studies.published import read_published
from experiments.study import AGREES, DIFFERS, Parameters, Record, Study, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER = "Ferry 2024"
SOURCE = "github.com/ferryjul/ProbabilisticDatasetsReconstruction, experiments/data"
DATASETS = ("adult", "compas")
TREES = ("optimal tree", "CART")
LISTS = ("optimal list", "greedy list")
METHODS = (*TREES, *LISTS)
SUPPORTS = (0.01, 0.02, 0.03, 0.04, 0.05)
SIZES = range(1, 11)
SEEDS = range(5)

_PER_SIZE = ("left", "dist", "size", "train", "test", "proved")


def path_of_models(parameters: Parameters) -> Record:
    """Train models of every size limit, and measure what they leave open.

    Parameters
    ----------
    parameters : mapping
        ``dataset``, ``share`` of its rows, ``method``, ``support`` and ``seed``.
    """
    from sklearn.model_selection import train_test_split

    from treeleak.schema import Schema

    p = parameters
    X, y = _table(p["dataset"], p["share"], p["seed"])
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=p["seed"])
    schema = Schema.from_columns(X.columns)
    start = time.perf_counter()
    models = _models(p, X, y)
    seconds = time.perf_counter() - start
    left = [_left_open(m, schema) for m in models]
    shares, rows = np.unique(left[-1].row_shares().round(9), return_counts=True)
    return {
        "left": [d.dist_g() for d in left],
        "dist": [d.dist() for d in left],
        "size": [_size(m) for m in models],
        "train": [_accuracy(m, X, y) for m in models],
        "test": [_accuracy(m, X_test, y_test) for m in models],
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


def _left_open(model: Any, schema: Any) -> Any:
    from treeleak.release import RuleList
    from treeleak.uncertainty import from_rule_list, from_tree

    return (from_rule_list if isinstance(model, RuleList) else from_tree)(model, schema)


def _size(model: Any) -> int:
    """Splits of a tree, rules of a list."""
    from treeleak.release import RuleList, to_release

    if isinstance(model, RuleList):
        return len(model.rules)
    return int((~to_release(model).trees[0].is_leaf).sum())


def _accuracy(model: Any, X: pd.DataFrame, y: pd.Series[Any]) -> float:
    from treeleak.release import Release

    if not isinstance(model, Release):
        return float((model.predict(X) == y).mean())
    (tree,) = model.trees
    assert tree.counts is not None  # noqa: S101
    at = tree.apply(X.to_numpy(dtype=np.float64))
    return float((np.array(model.classes)[tree.counts.argmax(axis=1)[at]] == y).mean())


def _models(p: Parameters, X: pd.DataFrame, y: pd.Series[Any]) -> list[Any]:
    """Train one model of each size limit."""
    from sklearn.tree import DecisionTreeClassifier

    from experiments.learners import greedy_lists, optimal_lists, optimal_trees

    method, support = p["method"], p["support"]
    if method == "optimal tree":
        return list(optimal_trees(X, y, SIZES[-1], support))
    if method != "CART":
        learn = optimal_lists if method == "optimal list" else greedy_lists
        return list(learn(X, y, SIZES[-1], support))
    # The authors' parameters.
    chosen = {"min_samples_leaf": max(1, int(support * len(X))), "random_state": 1 + p["seed"]}
    return [DecisionTreeClassifier(max_depth=d, **chosen).fit(X, y) for d in SIZES]


def _grid(
    methods: Sequence[str], supports: Sequence[float] = SUPPORTS, seeds: Iterable[int] = SEEDS
) -> list[dict[str, Any]]:
    """As in the paper: a tenth of Adult, by the seed, and all of COMPAS."""
    return [
        {"dataset": d, "share": 0.1 if d == "adult" else 1.0, "method": m, "support": s, "seed": k}
        for d in DATASETS
        for m in methods
        for s in supports
        for k in seeds
    ]


def _seconds(p: Parameters) -> float:
    longest = {"optimal tree": 14.0, "optimal list": 25.0}.get(p["method"], 0.5)
    fewer = float((0.01 / p["support"]) ** 1.4)
    return longest * fewer / (1 if p["dataset"] == "adult" else 3)


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


def _means(models: pd.DataFrame, value: str, name: str, title: str, across: str = "limit") -> Table:
    """Means of all points, a column for each size limit or each support."""
    down = "support" if across == "limit" else "limit"
    wide = models.pivot_table(value, ["dataset", "method", down], across, sort=False)
    wide = wide[sorted(wide.columns)]
    wide.columns = pd.Index([f"{across} {c:g}" for c in wide.columns])
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
    """Claims of figures 2 and 3."""
    for dataset in DATASETS:
        size, accuracy = (_gaps(models, dataset, methods, x) for x in ("size", "train"))
        yield claim("of equal size, optimal models usually leave less", dataset, size < 0)
        yield claim(
            "of equal accuracy, optimal models always leave more", dataset, accuracy > 0, True
        )


def _of_trees(models: pd.DataFrame) -> Iterator[dict[str, Any]]:
    yield from _of_equal_models(models, TREES)
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


# ------------------------------------------------------------------------------------ figures

_NAMES = {"adult": "Adult (10 %)", "compas": "COMPAS"}
_LABELS: dict[str, Any] = {
    "left": "Dist$_G$: share left",
    "train": "training accuracy",
    "limit": {TREES: "greatest depth", LISTS: "most rules"},
    "size": {TREES: "splits", LISTS: "rules"},
    "support": "least support",
}
_DRAWN_LIMITS = (1, 2, 3, 4, 5, 7, 10)
_LINES = ("-", "--")


def _label(what: str, methods: tuple[str, str]) -> str:
    label = _LABELS[what]
    return label if isinstance(label, str) else label[methods]


def _lines(
    models: pd.DataFrame,
    rows: Sequence[tuple[tuple[str, str], str, str]],
    by: str = "support",
) -> Figure:
    """Draw y over x: a row of panels for each (methods, x, y), a line for each support or limit."""
    chosen = sorted(models[by].unique())
    if by == "limit":
        chosen = [v for v in chosen if v in _DRAWN_LIMITS]
    along = "limit" if by == "support" else "support"
    own_x = len({x for _, x, _ in rows}) > 1 or rows[0][1] == "train"
    with styled():
        figure, axes = panels(len(rows), len(DATASETS), height=2.3, share_x=not own_x)
        for row, (methods, x, y) in enumerate(rows):
            line = axes[row]
            for ax, dataset in zip(line, DATASETS, strict=True):
                own = models[models.dataset == dataset]
                for k, value in enumerate(chosen):
                    for method, style in zip(methods, _LINES, strict=True):
                        one = own[(own.method == method) & (own[by] == value)]
                        means = one.groupby(along, as_index=False)[list({x, y} - {along})].mean()
                        ax.plot(means[x], means[y], style, **_ink(k, style))
                ax.set_title(f"{_NAMES[dataset]}, {'trees' if methods == TREES else 'rule lists'}")
                if own_x or row == len(rows) - 1:
                    ax.set_xlabel(_label(x, methods))
                if x == "support":
                    ax.set_xticks(SUPPORTS, [f"{s:g}" for s in SUPPORTS])
            line[0].set_ylabel(_label(y, methods))
        kinds = {m for m, _, _ in rows}
        _name(axes[0, 0], ("optimal", "greedy") if len(kinds) > 1 else rows[0][0], chosen, by)
        legend_below(figure, axes[0, 0])
    return figure


def _ink(k: int, style: str) -> dict[str, Any]:
    """Greedy models have open markers."""
    fill = COLOURS[k] if style == "-" else "white"
    return {"color": COLOURS[k], "marker": MARKERS[k], "markerfacecolor": fill}


def _name(ax: Axes, methods: Sequence[str], chosen: Sequence[float], by: str) -> None:
    for method, style in zip(methods, _LINES, strict=True):
        ax.plot([], [], style, color="black", label=method)
    for k, value in enumerate(chosen):
        ax.plot([], [], color=COLOURS[k], marker=MARKERS[k],
                label=f"{'size' if by == 'limit' else by} {value:g}")  # fmt: skip


def _rows_drawn(runs: pd.DataFrame) -> Figure:
    """Figure 4: at most how much is left of a share of the rows."""
    with styled():
        figure, axes = panels(2, len(DATASETS), height=2.3)
        for line, methods in zip(axes, (TREES, LISTS), strict=True):
            for ax, dataset in zip(line, DATASETS, strict=True):
                for k, (method, style) in enumerate(zip(methods, _LINES, strict=True)):
                    own = runs[(runs.dataset == dataset) & (runs.method == method)]
                    if own.empty:
                        continue
                    share, rows = _row_shares(own)
                    part = np.cumsum([0, *rows]) / rows.sum()
                    ax.step(part, [share[0], *share], style, color=COLOURS[k], label=method)
                ax.set_title(f"{_NAMES[dataset]}, {'trees' if methods == TREES else 'rule lists'}")
                ax.legend(frameon=False)
            line[0].set_ylabel("left of a row, at most")
        for ax in axes[-1]:
            ax.set_xlabel("share of the rows")
    return figure


# ------------------------------------------------------------------------------------ studies


def _study(
    number: int,
    what: str,
    methods: Sequence[str],
    tables: Callable[[pd.DataFrame], Sequence[Table]],
    figure: Callable[[pd.DataFrame], Figure],
    supports: Sequence[float] = SUPPORTS,
    quick: Sequence[float] = (0.01, 0.03, 0.05),
) -> Study:
    name = f"ferry-figure-{number}"
    return Study(
        name=name,
        paper=PAPER,
        what=f"figure {number}: {what}",
        full=partial(_grid, methods, supports),
        quick=partial(_grid, methods, quick, (0,)),
        run=path_of_models,
        tables=tables,
        figures=lambda runs: {name: figure(runs)},
        seconds=_seconds,
        warm=_warm,
        check=_have_tables,
        experiment="ferry",
    )


def _equal_models(number: int, methods: tuple[str, str]) -> Study:
    """Make the study of figure 2 or 3."""
    name = f"ferry-figure-{number}"
    kind = "trees" if methods == TREES else "rule lists"

    def tables(runs: pd.DataFrame) -> list[Table]:
        models = models_of(runs)
        claims = _of_trees(models) if methods == TREES else _of_equal_models(models, methods)
        title = f"Ferry 2024, figure {number}: {kind}"
        return [
            _means(models, "left", name, f"{title}, what is left"),
            _largest(models, f"{name}-largest", f"{title} of the greatest size"),
            _claims(number, list(claims)),
        ]

    rows = [(methods, x, "left") for x in ("size", "train")]
    what = f"what {kind} leave open, by size and accuracy"
    return _study(number, what, methods, tables, lambda runs: _lines(models_of(runs), rows))


def _constraints(number: int, methods: tuple[str, str]) -> Study:
    """Make the study of figure 5 or 6."""
    name = f"ferry-figure-{number}"
    kind = "trees" if methods == TREES else "rule lists"

    def tables(runs: pd.DataFrame) -> list[Table]:
        models = models_of(runs)
        title = f"Ferry 2024, figure {number}: {kind}"
        return [
            _means(models, "size", f"{name}-size", f"{title}, their size"),
            _means(models, "left", f"{name}-left", f"{title}, what is left"),
            _claims(number, list(_of_constraints(models, methods))),
        ]

    rows = [(methods, "limit", y) for y in ("size", "left")]
    what = f"size of {kind}, and what they leave open, by constraints"
    return _study(number, what, methods, tables, lambda runs: _lines(models_of(runs), rows))


def _figure_7_tables(runs: pd.DataFrame) -> list[Table]:
    models = models_of(runs)
    title = "Ferry 2024, figure 7: what is left, by support"
    return [
        _means(models, "left", "ferry-figure-7", title, across="support"),
        _claims(7, list(_of_supports(models))),
    ]


STUDIES: Sequence[Study] = (
    _equal_models(2, TREES),
    _equal_models(3, LISTS),
    _study(4, "what is left of single rows", METHODS, _figure_4_tables, _rows_drawn,
           supports=SUPPORTS[:1], quick=SUPPORTS[:1]),
    _constraints(5, TREES),
    _constraints(6, LISTS),
    _study(7, "what models leave open, by support", METHODS, _figure_7_tables,
           lambda runs: _lines(models_of(runs), [(m, "support", "left") for m in (TREES, LISTS)],
                               by="limit"),
           quick=(0.02, 0.03, 0.05)),
)  # fmt: skip
