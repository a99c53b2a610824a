"""DRAFT (Ferry, Fukasawa, Pascal, Vidal, ICML 2024): its tables and figures as studies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from experiments.data import DATASETS, NAMES, NEEDS, draft, have_tables
from experiments.drawing import (
    COLOURS,
    MARKERS,
    from_zero,
    label_edges,
    legend_below,
    panels,
    styled,
)
from experiments.studies.dp_runs import known_names
from experiments.studies.published import read_published
from experiments.study import Parameters, Record, Study, Table, no_figures, verdict
from treeleak.core.errors import NotCovered, TimeUp

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from treeleak.reconstruction import Reconstruction

PAPER = "DRAFT 2024"
DEPTHS = (2, 3, 4, 5, 10, None)
TREES = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
SEEDS = range(5)
UNANSWERED = "unknown"
LIMIT = 30.0
"""Seconds of a run."""
EXPERIMENT = "draft"
"""All studies of :func:`attack`: a run is made once, whichever of them shows it."""


def attack(parameters: Parameters) -> Record:
    """Train a forest as the paper does, attack it, measure.

    Parameters
    ----------
    parameters : mapping
        ``dataset``, ``n_trees``, ``depth``, ``bootstrap`` ("none", "known" or "hidden"), ``seed``,
        ``n_rows``, ``method`` and ``time_limit``.
    """
    from sklearn.ensemble import RandomForestClassifier

    import treeleak
    from treeleak.datasets import draft_sample

    p = parameters
    data = draft(p["dataset"])
    X, y = draft_sample(data, p["n_rows"], p["seed"])
    forest = RandomForestClassifier(
        p["n_trees"],
        max_depth=p["depth"],
        bootstrap=p["bootstrap"] != "none",
        random_state=p["seed"],
    ).fit(X, y)
    result, seconds = _answered(
        forest, data.schema, p["bootstrap"], p["time_limit"], p["seed"], method=p["method"]
    )
    error = np.nan
    if result is not None and result.X is not None:
        error = treeleak.metrics.reconstruction_error(result.X, X, data.schema)
    return {
        "seconds": seconds,
        "status": UNANSWERED if result is None else result.status,
        "error": error,
        "expected_error": None if result is None else result.expected_error,
        "guess": treeleak.metrics.random_baseline(X, data.schema, 20, p["seed"]).mean,
        "misfit": None if result is None else result.misfit,
    }


def _answered(*given: Any, **told: Any) -> tuple[Reconstruction | None, float]:
    """Attack, and say in how many seconds; None if nothing was in hand when the time was over."""
    import treeleak

    start = time.perf_counter()
    try:
        result = treeleak.reconstruct(*given, **told)
    except (NotCovered, TimeUp):
        # As for the paper's solver, that is a run without an answer. A published program may be
        # too large to build.
        result = None
    return result, time.perf_counter() - start


def _point(**changed: Any) -> dict[str, Any]:
    return {
        "dataset": "compas", "n_trees": 100, "depth": None, "bootstrap": "none", "seed": 0,
        "n_rows": 100, "method": "auto", "time_limit": LIMIT, **changed,
    }  # fmt: skip


def _seconds(p: Parameters) -> float:
    """About how long a run takes; the reference mostly takes all of its time."""
    limit, n_trees, n_rows = float(p["time_limit"]), float(p["n_trees"]), float(p["n_rows"])
    if p["method"] != "auto":
        return limit
    if p["bootstrap"] == "hidden":
        return min(0.25 * n_trees * n_rows / 100, limit)
    shallow = p["depth"] is not None and n_trees >= 10
    return min(20.0 if shallow else 0.5 + n_rows / 1000, limit)


def _warm(p: Parameters) -> Parameters:
    """Say what compiles the same kernels: other draws, another method, or one tree have others."""
    small = {"dataset": "compas", "depth": 3, "seed": 0, "time_limit": 20.0, "n_rows": 40}
    return {**p, **small, "n_trees": min(p["n_trees"], 3)}


_study = partial(
    Study,
    paper=PAPER,
    run=attack,
    experiment=EXPERIMENT,
    seconds=_seconds,
    warm=_warm,
    check=have_tables,
    needs=NEEDS,
)


def _cross(
    seeds: Sequence[int],
    trees: Sequence[int],
    depths: Sequence[int | None],
    draws: Sequence[str],
    datasets: Sequence[str] = DATASETS,
    **fixed: Any,
) -> Iterator[dict[str, Any]]:
    for dataset, n_trees, depth, bootstrap, seed in product(datasets, trees, depths, draws, seeds):
        yield _point(
            dataset=dataset, n_trees=n_trees, depth=depth, bootstrap=bootstrap, seed=seed, **fixed
        )


def _depth(depth: Any) -> str:
    return "None" if depth is None or pd.isna(depth) else f"{depth:g}"


# ------------------------------------------------------------------------ tables 2 and 3: times


def _times(runs: pd.DataFrame, published: pd.DataFrame, by: str, number: int) -> list[Table]:
    """Seconds and runs without an answer beside the paper's; without bootstrap, and with it."""
    own = runs.assign(depth=[_depth(d) for d in runs.depth])
    title = f"DRAFT, table {number}, {'100 trees' if by == 'depth' else 'trees of any depth'}"
    plain: list[dict[str, Any]] = []
    hidden: list[dict[str, Any]] = []
    for line in published.to_dict("records"):
        mine = own[(own.dataset == line["dataset"]) & (own[by].astype(str) == str(line[by]))]
        point = {"dataset": line["dataset"], by: line[by]}
        for draws, lines in (("none", plain), ("hidden", hidden)):
            part = mine[mine.bootstrap == draws]
            if not part.empty:
                lines.append(point | _against(part, line, draws))
    note = "Runs without an answer: of five in the paper, after five hours on 16 threads. "
    notes = [
        f"{note}Published seconds are means over runs with an answer; ours over all.",
        f"{note}The paper gives no seconds here: its runs took the five hours.",
    ]
    return [
        Table(f"draft-table-{number}-{name}", f"{title}: {what}", pd.DataFrame(lines), said)
        for name, what, lines, said in (
            ("no-bootstrap", "no bootstrap", plain, notes[0]),
            ("bootstrap", "bootstrap, draws hidden", hidden, notes[1]),
        )
        if lines
    ]


def _against(part: pd.DataFrame, line: Mapping[Any, Any], draws: str) -> dict[str, Any]:
    seconds, open_ = float(part.seconds.mean()), _open(part)
    theirs = line["unanswered" if draws == "none" else "unanswered_bootstrap"]
    known = {"published s": line["seconds"]} if draws == "none" else {}
    ratio = {"ratio": line["seconds"] / seconds} if known else {}
    error = line.get("error" if draws == "none" else "error_bootstrap")
    printed = {} if error is None else {"published error": error}
    ahead = open_ / len(part) <= theirs / 5 and (not known or seconds < line["seconds"])
    return {
        **known,
        "treeleak s": seconds,
        **ratio,
        "published open": f"{theirs} of 5",
        "open": f"{open_} of {len(part)}",
        **printed,
        "error": float(part.error.mean()),
        "guess": float(part.guess.mean()),
        "verdict": verdict(ahead),
    }


def _open(runs: pd.DataFrame) -> int:
    return int((runs.status == UNANSWERED).sum())


TABLE_2 = _study(
    name="draft-table-2",
    what="table 2: run time with 100 trees, by depth",
    full=lambda: list(_cross(SEEDS, [100], DEPTHS, ("none", "hidden"))),
    quick=lambda: (
        list(_cross([0], [100], DEPTHS, ("none",), time_limit=5.0))
        + list(_cross([0], [100], [None], ("hidden",), time_limit=10.0))
    ),
    tables=lambda runs: _times(runs, read_published("draft_table_2"), "depth", 2),
    figures=no_figures,
)

_TABLE_3_TREES = (1, 10, 30, 50, 80, 100)

TABLE_3 = _study(
    name="draft-table-3",
    what="table 3: run time with trees of any depth, by their number",
    full=lambda: list(_cross(SEEDS, _TABLE_3_TREES, [None], ("none", "hidden"))),
    quick=lambda: (
        list(_cross([0], _TABLE_3_TREES, [None], ("none",), time_limit=10.0))
        + list(_cross([0], [10], [None], ("hidden",), time_limit=10.0))
    ),
    tables=lambda runs: _times(runs, read_published("draft_table_3"), "n_trees", 3),
    figures=no_figures,
)

# ------------------------------------------------------------ figures 2 and 4: error against trees

_DRAWS = {"none": "no bootstrap", "hidden": "bootstrap, draws hidden", "known": "draws known"}


def _errors(runs: pd.DataFrame, name: str, title: str) -> list[Table]:
    own = runs.assign(depth=[_depth(d) for d in runs.depth])
    keys = ["dataset", "bootstrap", "depth", "n_trees"]
    note = "The paper draws these points and prints no numbers for them."
    return [Table(name, title, _means(own, keys, guess=("guess", "mean")), note)]


def _means(runs: pd.DataFrame, keys: list[str], **more: tuple[str, str]) -> pd.DataFrame:
    """Mean error and time of each point, with more columns between them."""
    grouped = runs.groupby(keys, sort=False)
    return grouped.agg(
        error=("error", "mean"), **more, seconds=("seconds", "mean"), runs=("seed", "size"),
        unanswered=("status", lambda s: int((s == UNANSWERED).sum())),
    ).reset_index()  # fmt: skip


def _by_depth(ax: Axes, runs: pd.DataFrame) -> None:
    """Draw error against the number of trees, a line for each depth, and a random guess."""
    depths = [_depth(d) for d in DEPTHS]
    for colour, marker, depth in zip(COLOURS, MARKERS, depths, strict=False):
        mean = runs[runs.depth == depth].groupby("n_trees").error.mean()
        label = "any depth" if depth == "None" else f"depth {depth}"
        if len(mean):
            ax.plot(mean.index, mean, color=colour, marker=marker, label=label)
    if not runs.empty:
        ax.axhline(runs.guess.mean(), color="black", ls=":", label="random guess")


def _finished(figure: Figure, axes: Any) -> Figure:
    label_edges(axes, "number of trees", "mean error")
    from_zero(axes)
    legend_below(figure, axes[0, 0])
    return figure


def _against_trees(runs: pd.DataFrame, columns: Sequence[str]) -> Figure:
    """Error against the number of trees, a line for each depth."""
    own = runs.assign(depth=[_depth(d) for d in runs.depth])
    with styled():
        figure, axes = panels(len(DATASETS), len(columns))
        for line, dataset in zip(axes, DATASETS, strict=True):
            for ax, draws in zip(line, columns, strict=True):
                _by_depth(ax, own[(own.dataset == dataset) & (own.bootstrap == draws)])
                ax.set_title(f"{NAMES[dataset]}, {_DRAWS[draws]}")
        return _finished(figure, axes)


def _error_study(
    number: int,
    what: str,
    title: str,
    draws: tuple[str, str],
    quick: Callable[[], list[dict[str, Any]]],
) -> Study:
    name = f"draft-figure-{number}"
    return _study(
        name=name,
        what=f"figure {number}: {what}",
        full=lambda: list(_cross(SEEDS, TREES, DEPTHS, draws)),
        quick=quick,
        tables=lambda runs: _errors(runs, name, f"DRAFT, figure {number}: {title}"),
        figures=lambda runs: {name: _against_trees(runs, draws)},
    )


FIGURE_2 = _error_study(
    2, "error against the number of trees, by depth", "mean error", ("none", "hidden"),
    lambda: [
        *_cross([0], [1, 10, 100], [2, 5, None], ("none",), time_limit=3.0),
        *_cross([0], [10], [2, 5, None], ("hidden",), time_limit=5.0),
    ],
)  # fmt: skip
FIGURE_4 = _error_study(
    4, "error without bootstrap beside that with draws known",
    "mean error without bootstrap, and with draws known", ("none", "known"),
    lambda: list(_cross([0], [1, 10, 100], [2, 5, None], ("none", "known"), time_limit=2.0)),
)  # fmt: skip


# ---------------------------------------------------------- figure 3, table 4: formulations

_METHODS = {"auto": "treeleak", "reference-cp": "CP", "reference-milp": "MILP"}


_PART_SEEDS, _PART_TREES = (0,), (1, 10, 50, 100)
"""The part that the published formulations run on: most of them take all of their time, and all
that the paper has would take a day."""


def _by_method(limit: float) -> list[dict[str, Any]]:
    parts: dict[str, tuple[Sequence[int], Sequence[int]]] = {"auto": (SEEDS, TREES)}
    return [
        point | {"method": method}
        for method in _METHODS
        for point in _cross(
            *parts.get(method, (_PART_SEEDS, _PART_TREES)), DEPTHS, ("none",), ("compas",),
            time_limit=limit,
        )
    ]  # fmt: skip


def _of_methods(runs: pd.DataFrame) -> list[Table]:
    """Seconds of each formulation, beside the paper's."""
    own = _of_all_methods(runs.assign(depth=[_depth(d) for d in runs.depth]))
    published = read_published("draft_table_4").set_index(["depth", "method"])["mean"]
    groups = dict(list(own.groupby(["depth", "method"])))
    lines = []
    for depth, method in product(map(_depth, DEPTHS), _METHODS):
        part = groups.get((depth, method))
        if part is None:
            continue
        theirs = published.get((depth, method))
        taken = part.seconds
        lines.append(
            {
                "depth": depth,
                "method": _METHODS[str(method)],
                "published s": theirs,
                "mean s": taken.mean(),
                "sd": taken.std(),
                "least": taken.min(),
                "most": taken.max(),
                "error": part.error.mean(),
                "open": f"{_open(part)} of {len(part)}",
            }
        )
    trees = ", ".join(map(str, sorted(own.n_trees.unique())))
    note = (
        "Published: COMPAS, no bootstrap, all numbers of trees together; CP-SAT on 16 threads, "
        "Gurobi for the MILP. Here the formulations run in OR-Tools (CP-SAT, and HiGHS for the "
        "MILP), each with the time limit of the run. All lines are means over the same forests: "
        f"those that every method was run on, of {trees} trees, with "
        f"{own.seed.nunique()} of the paper's five seeds."
    )
    return [
        Table("draft-table-4", "DRAFT, table 4: seconds by formulation", pd.DataFrame(lines), note)
    ]


def _of_all_methods(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs on forests that every method was run on, so that all means are over the same forests."""
    forest = ["n_trees", "depth", "seed"]
    methods = runs.groupby(forest)["method"].transform("nunique")
    return runs[methods == runs.method.nunique()]


def _methods_drawn(runs: pd.DataFrame) -> dict[str, Figure]:
    own = _of_all_methods(runs.assign(depth=[_depth(d) for d in runs.depth]))
    with styled():
        figure, axes = panels(1, len(_METHODS))
        for ax, (method, name) in zip(axes[0], _METHODS.items(), strict=True):
            _by_depth(ax, own[own.method == method])
            ax.set_title(f"COMPAS, {name}")
        return {"draft-figure-3": _finished(figure, axes)}


TABLE_4 = _study(
    name="draft-table-4",
    what="table 4 and figure 3: treeleak, CP and MILP on COMPAS",
    full=lambda: _by_method(LIMIT),
    quick=lambda: [p for p in _by_method(3.0) if p["seed"] == 0 and p["n_trees"] in {1, 10}],
    tables=_of_methods,
    figures=_methods_drawn,
)


# ---------------------------------------------------------- tables 6 to 8: growth with N

_SIZES = (25, 50, 100, 200, 300, 400, 500, 750, 1000, 1500)


def _sizes(seeds: Sequence[int], sizes: Sequence[int], limit: float) -> list[dict[str, Any]]:
    published = read_published("draft_tables_6_to_8")
    known = set(zip(published.dataset, published.n_rows, strict=True))
    return [
        point
        for n in sizes
        for point in _cross(seeds, [100], [None], ("none",), n_rows=n, time_limit=limit)
        if (point["dataset"], n) in known
    ]


def _growth(runs: pd.DataFrame) -> list[Table]:
    """Seconds against rows, and the exponent of each: seconds grow with its power of N."""
    lines = []
    for line in read_published("draft_tables_6_to_8").to_dict("records"):
        part = runs[(runs.dataset == line["dataset"]) & (runs.n_rows == line["n_rows"])]
        if part.empty:
            continue
        seconds = float(part.seconds.mean())
        lines.append(
            {
                "dataset": line["dataset"],
                "rows": line["n_rows"],
                "published s": line["seconds"],
                "treeleak s": seconds,
                "ratio": line["seconds"] / seconds,
                "published error": line["error"],
                "error": float(part.error.mean()),
                "open": f"{_open(part)} of {len(part)}",
                "verdict": verdict(seconds < line["seconds"]),
            }
        )
    frame = pd.DataFrame(lines)
    powers = [
        {
            "dataset": dataset,
            "published exponent": theirs,
            "treeleak exponent": exponent(part.rows, part["treeleak s"]),
        }
        for dataset, theirs in (("compas", 1.7), ("adult", 1.4), ("default_credit", 2.4))
        if len(part := frame[frame.dataset == dataset]) > 1
    ]
    note = "100 trees of any depth, no bootstrap. Published errors are rounded to one digit."
    fitted = "Fitted to logarithms, as the authors did: seconds grow with this power of the rows."
    return [
        Table("draft-tables-6-to-8", "DRAFT, slides, tables 6 to 8: growth", frame, note),
        Table("draft-growth", "DRAFT, slides: exponents", pd.DataFrame(powers), fitted),
    ]


def exponent(sizes: pd.Series[Any], seconds: pd.Series[Any]) -> float:
    """Fit the power of the sizes with which seconds grow: the slope of their logarithms."""
    return float(np.polyfit(np.log(sizes.astype(float)), np.log(seconds.astype(float)), 1)[0])


def _growth_drawn(runs: pd.DataFrame) -> dict[str, Figure]:
    published = read_published("draft_tables_6_to_8")
    with styled():
        figure, axes = panels(1, 1, width=4.0, height=2.8)
        ax = axes[0, 0]
        for k, dataset in enumerate(DATASETS):
            theirs = published[published.dataset == dataset]
            own = runs[runs.dataset == dataset].groupby("n_rows").seconds.mean()
            ax.plot(
                theirs.n_rows, theirs.seconds, color=COLOURS[k], marker=MARKERS[k], ls=":",
                label=f"{NAMES[dataset]}, published",
            )  # fmt: skip
            ax.plot(own.index, own, color=COLOURS[k], marker=MARKERS[k], label=NAMES[dataset])
        ax.set(xscale="log", yscale="log", xlabel="training rows", ylabel="seconds")
        legend_below(figure, ax, columns=2)
    return {"draft-tables-6-to-8": figure}


TABLES_6_TO_8 = _study(
    name="draft-tables-6-to-8",
    what="slides, tables 6 to 8: run time against the number of rows",
    full=lambda: _sizes(SEEDS, _SIZES, 120.0),
    quick=lambda: _sizes([0], (25, 100, 500), 20.0),
    tables=_growth,
    figures=_growth_drawn,
)

# ----------------------------------------------------- figure 5, appendix D: parts that are known

_ATTRIBUTES = {"compas": 7, "adult": 14, "default_credit": 16}
_SHARES = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


def attack_knowing(parameters: Parameters) -> Record:
    """Attack a default forest, draws hidden, with columns or rows known; measure the rest.

    Parameters
    ----------
    parameters : mapping
        ``dataset``, ``what`` ("attributes" or "examples"), ``known`` (attributes, or the share of
        the 100 rows), ``seed`` and ``time_limit``.
    """
    from sklearn.ensemble import RandomForestClassifier

    import treeleak
    from treeleak.datasets import draft_sample

    p = parameters
    data = draft(p["dataset"])
    X, y = draft_sample(data, 100, p["seed"])
    forest = RandomForestClassifier(random_state=p["seed"]).fit(X, y)
    mask = pd.DataFrame(data=False, index=X.index, columns=X.columns)
    told: dict[str, Any] = {}
    if p["what"] == "attributes":
        columns = known_names(data, int(p["known"]), p["seed"])
        if columns:
            told["known_columns"] = X[columns]
        mask[columns] = True
    elif p["known"]:
        rng = np.random.default_rng(p["seed"])
        rows = np.sort(rng.permutation(len(X))[: round(float(p["known"]) * len(X))])
        told["known_rows"] = X.iloc[rows].assign(label=y.iloc[rows])
    result, seconds = _answered(forest, data.schema, "hidden", p["time_limit"], p["seed"], **told)
    if result is None:
        return {"seconds": seconds, "status": UNANSWERED, "error": np.nan}
    error = np.nan
    if result.X is not None:
        known = mask if p["what"] == "attributes" else result.known
        given = mask if known is None else known
        error = treeleak.metrics.partial_error(result.X, X, given, data.schema)
    return {"seconds": seconds, "status": result.status, "error": error}


def _partly(seeds: Sequence[int], what: str, limit: float, every: int = 1) -> list[dict[str, Any]]:
    return [
        {"dataset": name, "what": what, "known": known, "seed": seed, "time_limit": limit}
        for name in DATASETS
        for known in (range(_ATTRIBUTES[name]) if what == "attributes" else _SHARES)[::every]
        for seed in seeds
    ]


def _partial_table(runs: pd.DataFrame, name: str, title: str) -> list[Table]:
    frame = _means(runs, ["dataset", "known"], sd=("error", "std"))
    note = "Error of what was not known. The paper prints no numbers for it."
    return [Table(name, title, frame, note)]


def _partial_drawn(runs: pd.DataFrame, name: str, label: str) -> dict[str, Figure]:
    with styled():
        figure, axes = panels(1, len(DATASETS), share_x=False)
        for k, (ax, dataset) in enumerate(zip(axes[0], DATASETS, strict=True)):
            grouped = runs[runs.dataset == dataset].groupby("known").error
            mean, sd = grouped.mean(), grouped.std().fillna(0.0)
            ax.errorbar(
                mean.index, mean, sd, color=COLOURS[k], marker=MARKERS[k], capsize=2,
                label="mean and standard deviation",
            )  # fmt: skip
            ax.set(title=NAMES[dataset], xlabel=label)
        axes[0, 0].set_ylabel("error of the rest")
        from_zero(axes)
    return {name: figure}


def _partial_study(
    name: str,
    where: str,
    parts: str,
    what: str,
    every: int,
    label: str,
    seconds: Callable[[Parameters], float],
) -> Study:
    return _study(
        name=name,
        what=f"{where}: error of the rest where some {parts} are known",
        full=lambda: _partly(SEEDS, what, LIMIT),
        quick=lambda: _partly([0], what, 5.0, every),
        run=attack_knowing,
        tables=lambda runs: _partial_table(runs, name, f"DRAFT, {where}: some {parts} known"),
        figures=lambda runs: _partial_drawn(runs, name, label),
        seconds=seconds,
        warm=lambda p: {
            **p, "dataset": "compas", "known": 1 if what == "attributes" else 0.1, "seed": 0,
        },
        experiment="",
    )  # fmt: skip


FIGURE_5 = _partial_study(
    "draft-figure-5", "figure 5", "attributes", "attributes", 3, "attributes known",
    lambda p: min(20.0, float(p["time_limit"])),
)  # fmt: skip
KNOWN_EXAMPLES = _partial_study(
    "draft-known-examples", "appendix D", "rows", "examples", 2, "share of the rows known",
    lambda p: min(20.0 * (1.0 - float(p["known"])) + 0.5, float(p["time_limit"])),
)  # fmt: skip

STUDIES: Sequence[Study] = (
    TABLE_2, TABLE_3, TABLE_4, FIGURE_2, FIGURE_4, FIGURE_5, KNOWN_EXAMPLES, TABLES_6_TO_8,
)  # fmt: skip
