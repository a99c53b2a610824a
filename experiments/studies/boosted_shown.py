"""What is shown of boosted models: by library and rows, by growth, and by setting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.boosted_models import FIGURES, LEFT, calibrated
from experiments.data import DATASETS, NAMES
from experiments.drawing import COLOURS, MARKERS, label_edges, legend_below, panels, styled
from experiments.results_version import VERSION
from experiments.studies.draft import exponent
from experiments.study import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEFAULT = "default"
"""Setting of a run that changes none."""
SWEPT_ROWS, SWEPT_TABLES = 300, ("compas", "adult")
_SWEPT_FIGURES = {"right": "right", "other rows": "others", "proved": "proved", "s": "seconds"}
"""Of each table, columns and the figures in them."""
_SEEDS = 5
_SMALL = 1000
_APART = 1.06
"""Factor by which points of one size lie apart."""
_AT_LIMIT = 0.9
"""Share of its time limit from which a run counts as ended by it."""


def by_rows(runs: pd.DataFrame) -> list[Table]:
    """Defaults by library and number of rows, and how seconds grow."""
    runs = in_numbers(runs)
    told = _calibration(runs)
    return [
        _by_rows(runs, "boosted-models"),
        *([told] if len(told.frame) else []),
        _growth(runs, "boosted-models-growth"),
    ]


def by_setting(runs: pd.DataFrame) -> list[Table]:
    """One setting after the other; then one statistic alone."""
    runs = in_numbers(runs)
    return [table for table in (_swept(runs), _left(runs)) if len(table.frame)]


def growth(runs: pd.DataFrame) -> list[Table]:
    """Fits of seconds, and what comes back of large tables."""
    runs = in_numbers(runs)
    large = runs[runs.n_rows > _SMALL]
    return [
        _growth(runs, "boosted-growth"),
        *([_by_rows(large, "boosted-growth-large")] if len(large) else []),
    ]


def in_numbers(runs: pd.DataFrame) -> pd.DataFrame:
    """Make figures numbers, which are missing where a run has no answer."""
    names = [n for n in FIGURES if n in runs]
    return runs.assign(**{name: pd.to_numeric(runs[name]) for name in names})


def _by_rows(runs: pd.DataFrame, name: str) -> Table:
    lines = []
    for (table, n, model), own in runs.groupby(["table", "n_rows", "model"]):
        mean = own.select_dtypes("number").mean()
        lines.append(
            {
                "table": table, "rows": n, "model": model,
                "right": mean.right, "least": own.right.min(), "other rows": mean.others,
                "proved": mean.proved, "wrongly proved": int(own.wrong.sum()),
                "all columns right": mean.exact, "error": mean.error,
                "expected error": mean.expected_error, "random rows": mean.guess,
                "s": mean.seconds, "no answer": int(own.right.isna().sum()),
                "runs": f"{len(own)} of {_SEEDS}",
            }
        )  # fmt: skip
    note = (
        "Right: share of the training rows whose cell (all that the splits distinguish) and class "
        "are in the answer, as often; least: of any seed. Other rows: the same of as many other "
        "rows of the table, which the population alone gives. Wrongly proved: rows, over all "
        "runs. All columns right: in every column that a tree tests, and in class. Error, with "
        "what the answer expects of it and that of random rows: DRAFT's measure, up to 1,000 "
        "rows; it counts columns that no tree tests, too. An answer with fewer right than other "
        "rows says less than the population does. Means over the seeds with an answer; "
        "seconds over all. Runs end after 30 s, with 3,000 rows after 60 s, with 10,000 after 120 "
        "s. Two runs at a time shared a machine of two cores: one alone takes less, and if its "
        "limit ended it, may have more rows right. "
        "Fewer than five runs: the others are not made yet. CatBoost has 100 trees, as the others "
        "have, and not its default of 1,000. COMPAS has too few rows for 10,000 and as many "
        "others."
    )
    title = "Boosted models in their defaults: what comes back"
    return Table(name, title, pd.DataFrame(lines), note)


def _calibration(runs: pd.DataFrame) -> Table:
    """Lay the error that answers expect of themselves beside their true one."""
    lines = []
    for version, some in runs.groupby(VERSION):
        each = [(str(model), own) for model, own in some.groupby("model")]
        for model, own in [*each, ("all", some)]:
            said, true, n = calibrated(own)
            if n:
                lines.append(
                    {
                        "results version": version, "model": model, "runs not proved": n,
                        "error": true / n, "expected error": said / n,
                        "expected / true": said / true if true else None,
                    }
                )  # fmt: skip
    note = (
        "Means over the runs of which not all is proved, of up to 1,000 rows. Runs of an older "
        "results version were made before the last changes of what answers expect."
    )
    title = "Boosted models in their defaults: the error that answers expect, and the true one"
    return Table("boosted-models-calibration", title, pd.DataFrame(lines, dtype=object), note)


def _growth(runs: pd.DataFrame, name: str) -> Table:
    """Fit how seconds grow, over sizes of which no run was ended by its limit."""
    lines: list[dict[str, Any]] = []
    for (table, model), own in runs.groupby(["table", "model"]):
        ended = own.seconds >= _AT_LIMIT * own.time_limit
        free = _free(own)
        means = free.groupby("n_rows").seconds.mean()
        fitted = exponent(means.index.to_series(), means) if len(means) > 2 else None
        lines.append(
            {
                "table": table, "model": model, "exponent": fitted,
                "rows": ", ".join(f"{n:,}" for n in means.index), "runs": len(free),
                "runs ended by their limit": int(ended.sum()),
            }
        )  # fmt: skip
    note = (
        "Power of the number of rows with which mean seconds grow, over the sizes of which no run "
        "came near its time limit; none where these are less than three."
    )
    title = "Boosted models in their defaults: how seconds grow"
    return Table(name, title, pd.DataFrame(lines, dtype=object), note)


def _swept(runs: pd.DataFrame) -> Table:
    """Lay the values of each setting beside each other, the default among them."""
    runs = runs[(runs.n_rows == SWEPT_ROWS) & (runs.seed == 0)]
    lines: list[dict[str, Any]] = []
    swept = runs[~runs.setting.isin([DEFAULT, *LEFT])]
    for (model, setting), own in swept.groupby(["model", "setting"]):
        lines.append(_sweep_line(str(model), str(setting), "default", runs, DEFAULT))
        for value, some in own.groupby("value"):
            lines.append(_sweep_line(str(model), str(setting), f"{value:g}", some, str(setting)))
    note = (
        f"{SWEPT_ROWS} rows, seed 0, one parameter changed; defaults are those of the libraries. "
        "Right, proved and other rows as above: coarser models tell fewer rows apart, so that "
        "other rows have more right. Refused: treeleak rebuilds no rows, for the file does not "
        "say which rows each tree saw (subsample). LightGBM draws rows anew for each tree."
    )
    title = "Boosted models with other settings: what comes back"
    return Table("boosted-settings", title, pd.DataFrame(lines, dtype=object), note)


def _sweep_line(
    model: str, setting: str, value: str, runs: pd.DataFrame, kept_as: str
) -> dict[str, Any]:
    line: dict[str, Any] = {"model": model, "setting": setting, "value": value}
    for table in SWEPT_TABLES:
        own = runs[(runs.model == model) & (runs.setting == kept_as) & (runs.table == table)]
        line |= dict.fromkeys(f"{table}, {name}" for name in _SWEPT_FIGURES)
        for run in own.to_dict("records"):
            figures = {f"{table}, {k}": run[v] for k, v in _SWEPT_FIGURES.items()}
            line |= {f"{table}, right": "refused"} if pd.isna(run["right"]) else figures
    return line


def _left(runs: pd.DataFrame) -> Table:
    lines = []
    for (table, n, model, left), own in runs[runs.setting.isin(LEFT)].groupby(
        ["table", "n_rows", "model", "setting"]
    ):
        mean = own.select_dtypes("number").mean()
        lines.append(
            {
                "table": table, "rows": n, "model": model, "left": left, "right": mean.right,
                "other rows": mean.others, "error": mean.error, "s": mean.seconds,
                "no answer": int(own.right.isna().sum()), "runs": len(own),
            }
        )  # fmt: skip
    note = (
        "Of counts, sums of second derivatives (hessians), gains and leaf values, only those named "
        "are left, and all inner values are taken out; predictions stay the same. Without leaf "
        "values a file does not predict: of counts alone, the attack uses nothing else. Means over "
        "the runs with an answer; nothing is proved without counts or hessians."
    )
    title = "Boosted models of which one statistic is left"
    return Table("boosted-settings-left", title, pd.DataFrame(lines, dtype=object), note)


def drawn(runs: pd.DataFrame) -> dict[str, Figure]:
    """Draw the share of right rows against their number, beside other rows of the table."""
    runs = in_numbers(runs)
    with styled():
        figure, axes = _by_model(runs, "right")
        for ax, table in zip(axes[0], DATASETS, strict=True):
            own = runs[runs.table == table]
            others = own.groupby(["n_rows", "model"]).others.mean().groupby("n_rows")
            ax.plot(others.mean(), "--", color="black", label="other rows of the table")
            low, high = others.min(), others.max()
            ax.fill_between(low.index, low, high, color="black", alpha=0.12, lw=0,
                            label="the same, from model to model")  # fmt: skip
            ax.set(ylim=(0, 1.04))
        label_edges(axes, "training rows (models side by side)", "share of rows right")
        legend_below(figure, axes[0, 0], columns=3)
    return {"boosted-models": figure}


def drawn_growth(runs: pd.DataFrame) -> dict[str, Figure]:
    """Draw how seconds grow, without sizes of which a run was ended by its limit."""
    runs = in_numbers(runs)
    with styled():
        figure, axes = _by_model(_free(runs), "seconds")
        for ax in axes.flat:
            ax.set(yscale="log")
        label_edges(axes, "training rows (models side by side)", "seconds")
        legend_below(figure, axes[0, 0], columns=3)
    return {"boosted-growth": figure}


def _by_model(runs: pd.DataFrame, value: str) -> tuple[Figure, Any]:
    """Draw means against the number of rows, a panel for each table, a line for each model."""
    sizes = sorted(runs.n_rows.unique())
    figure, axes = panels(1, len(DATASETS), height=2.4)
    for ax, table in zip(axes[0], DATASETS, strict=True):
        own = runs[runs.table == table]
        for k, model in enumerate(sorted(runs.model.unique())):
            mean = own[own.model == model].groupby("n_rows")[value].mean()
            # Side by side: most lines lie on top of each other.
            at = mean.index * _APART ** (k - len(MARKERS) / 3)
            ax.plot(at, mean, color=COLOURS[k], marker=MARKERS[k], label=model)
        ax.set(title=NAMES[table], xscale="log")
        ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
        ax.minorticks_off()
    return figure, axes


def _free(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs of sizes of which none, of a table and a model, was ended by its limit."""
    ended = runs.seconds >= _AT_LIMIT * runs.time_limit
    return runs[~ended.groupby([runs.table, runs.model, runs.n_rows]).transform("any")]
