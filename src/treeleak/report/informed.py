"""The informed adversary's success as text for a terminal of 80 columns."""

from __future__ import annotations

from rich.console import Console

from treeleak.auditing.leave_one_out import InformedAudit
from treeleak.core.text import percent
from treeleak.report.safe_console import Text, safe_console, table


def render_informed(audit: InformedAudit, console: Console) -> None:
    """Print how well single rows are told."""
    targets = audit.targets
    inlier = ~targets["outlier"]
    groups = {"all": targets, "inliers": targets[inlier], "outliers": targets[~inlier]}
    groups = {name: group for name, group in groups.items() if len(group)}
    lines = [("Rows taken in turn", *(str(len(g)) for g in groups.values()))]
    right = (percent(float((g["error"] == 0).mean())) for g in groups.values())
    lines.append(("Rows rebuilt without any error", *right))
    for what, column in (
        ("Reconstruction error", "error"),
        ("  as the attack itself estimates", "expected_error"),
        ("  best value of each column by itself", "value_by_value"),
        ("Without the model: majority of each column", "majority"),
        ("  best valid row", "valid_majority"),
    ):
        lines.append((what, *(percent(float(g[column].mean())) for g in groups.values())))
    lines.append(
        ("Bits that the model adds", *(f"{g['bits'].mean():.1f}" for g in groups.values()))
    )
    with safe_console(console):
        console.print(
            Text(
                f"An adversary knows {audit.n_rows - 1:,} of the {audit.n_rows:,} training "
                "rows. How well does the model disclose the missing one?"
            )
        )
        console.print()
        console.print(table(("", *groups), lines))
        for note in audit.notes:
            console.print(Text(f"- {note}"))
