"""DRAFT (Ferry, Fukasawa, Pascal, Vidal, ICML 2024): its tables and figures as studies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from experiments.studies.draft_figures import FIGURE_2, TABLE_4
from experiments.studies.draft_runs import (
    DEPTHS,
    SEEDS,
    count_open,
    cross,
    depth_name,
    draft_study,
)
from experiments.studies.published import read_published
from experiments.study import Study, Table, verdict

# ------------------------------------------------------------------------ tables 2 and 3: times


def _times(runs: pd.DataFrame, published: pd.DataFrame, by: str, number: int) -> list[Table]:
    """Seconds and runs without an answer beside the paper's; without bootstrap, and with it."""
    own = runs.assign(depth=[depth_name(d) for d in runs.depth])
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
    seconds, open_ = float(part.seconds.mean()), count_open(part)
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


TABLE_2 = draft_study(
    name="draft-table-2",
    what="table 2: run time with 100 trees, by depth",
    full=lambda: list(cross(SEEDS, [100], DEPTHS, ("none", "hidden"))),
    quick=lambda: (
        list(cross([0], [100], DEPTHS, ("none",), time_limit=5.0))
        + list(cross([0], [100], [None], ("hidden",), time_limit=10.0))
    ),
    tables=lambda runs: _times(runs, read_published("draft_table_2"), "depth", 2),
)

_TABLE_3_TREES = (1, 10, 30, 50, 80, 100)

TABLE_3 = draft_study(
    name="draft-table-3",
    what="table 3: run time with trees of any depth, by their number",
    full=lambda: list(cross(SEEDS, _TABLE_3_TREES, [None], ("none", "hidden"))),
    quick=lambda: (
        list(cross([0], _TABLE_3_TREES, [None], ("none",), time_limit=10.0))
        + list(cross([0], [10], [None], ("hidden",), time_limit=10.0))
    ),
    tables=lambda runs: _times(runs, read_published("draft_table_3"), "n_trees", 3),
)


STUDIES: Sequence[Study] = (
    TABLE_2, TABLE_3, TABLE_4, FIGURE_2,
)  # fmt: skip
