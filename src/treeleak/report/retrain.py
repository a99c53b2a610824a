"""What another training would save, as text for a terminal of 80 columns."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from treeleak.audit.percent import percent
from treeleak.harden.retrain import Alternative, Retraining

__all__ = ["render_retraining"]


def render_retraining(result: Retraining, console: Console) -> None:
    """Print a comparison.

    Parameters
    ----------
    result : Retraining
    console : rich.console.Console
    """
    console.print(Text("What another training would save", style="bold"))
    console.print(
        Text(
            "Accuracy is cross-validated; always the most common class: "
            f"{percent(result.most_common, 1)}. Then each model was audited with the training rows."
        )
    )
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("Trained with")
    for column in ("accuracy", "lost", "values wrong", "a guess", "rows exact"):
        table.add_column(column, justify="right")
    for way in result.alternatives:
        table.add_row(*_line(way))
    console.print(table)
    for text in (*(f"not assessed: {why}" for why in result.not_assessed), *result.advice):
        console.print(Text(f"- {text}"))


def _line(way: Alternative) -> tuple[str, ...]:
    lost = f"{100 * way.lost:+.1f} ± {100 * way.lost_se:.1f}" if way.settings else ""
    used = way.what, percent(way.accuracy, 1), lost
    if way.error is None or way.guess is None or way.exact_rows is None:
        return (*used, "not assessed", "-", "-")
    # Time ran out: a longer attack may do better.
    least = "≤ " * (not way.ended)
    return (
        *used,
        f"{least}{percent(way.error, 1)}",
        percent(way.guess, 1),
        percent(way.exact_rows),
    )
