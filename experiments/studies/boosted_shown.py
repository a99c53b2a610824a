"""What is shown of boosted models: by library and rows, and by setting."""

from __future__ import annotations

from typing import Any

import pandas as pd

from experiments.boosted_models import FIGURES, LEFT, calibrated
from experiments.results_version import VERSION
from experiments.study import Table

DEFAULT = "default"
"""Setting of a run that changes none."""
SWEPT_ROWS, SWEPT_TABLES = 300, ("compas", "adult")
_SWEPT_FIGURES = {"right": "right", "other rows": "others", "proved": "proved", "s": "seconds"}
"""Of each table, columns and the figures in them."""
_SEEDS = 5
_SMALL = 1000


def by_rows(runs: pd.DataFrame) -> list[Table]:
    """Defaults by library and number of rows."""
    runs = in_numbers(runs)
    told = _calibration(runs)
    return [
        _by_rows(runs, "boosted-models"),
        *([told] if len(told.frame) else []),
    ]


def by_setting(runs: pd.DataFrame) -> list[Table]:
    """One setting after the other; then one statistic alone."""
    runs = in_numbers(runs)
    return [table for table in (_swept(runs), _left(runs)) if len(table.frame)]


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
